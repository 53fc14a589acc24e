//! Balancers that a controller of real switches can run, and the OpenFlow equivalents of data-plane
//! balancers.

use std::collections::BTreeMap;

use balance::central::{CentralBalancer, CentralEnv};
use balance::registry::CENTRAL;
use balance::{Build, Spec, SpecError};

/// Data-plane balancers and the central ones that do the same with rules and select groups.
const OPENFLOW_EQUIVALENTS: [(&str, &str); 4] =
    [("ecmp", "sdn-ecmp"), ("wcmp", "sdn-wcmp"), ("vlb", "sdn-vlb"), ("spt", "sdn-spt")];

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BalancerError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The balancer needs special switches or hosts.
    #[error("balancer `{name}` does not run on OpenFlow switches; {hint}")]
    NotOpenFlow { name: &'static str, hint: String },
    /// The balancer picks servers for requests and does not route other traffic.
    #[error("balancer `{name}` picks servers for a virtual address and does not route; {hint}")]
    Server { name: &'static str, hint: String },
    /// The OpenFlow equivalent does not have these parameters.
    #[error("balancer `{name}` runs here as `{equivalent}`, which does not take its parameters: {source}")]
    Parameters { name: &'static str, equivalent: &'static str, source: SpecError },
}

/// Parses the specification of a balancer for OpenFlow switches.
///
/// # Errors
/// Returns the error and a balancer to use instead.
pub fn parse(text: &str) -> Result<Spec, BalancerError> {
    let spec = Spec::parse(text)?;
    if spec.entry.is_central() {
        return Ok(spec);
    }
    let name = spec.entry.name;
    match OPENFLOW_EQUIVALENTS.iter().find(|(from, _)| *from == name) {
        Some((_, equivalent)) => {
            Spec::new(equivalent, spec.given).map_err(|source| BalancerError::Parameters { name, equivalent, source })
        }
        None if spec.entry.is_server() => Err(BalancerError::Server { name, hint: alternative(name) }),
        None => Err(BalancerError::NotOpenFlow { name, hint: alternative(name) }),
    }
}

fn alternative(name: &str) -> String {
    let known = CENTRAL.iter().map(|entry| entry.name).chain(OPENFLOW_EQUIVALENTS.map(|(from, _)| from));
    // Some data-plane balancers, such as `spain`, have a central variant.
    let like = CENTRAL.iter().map(|entry| entry.name).find(|other| other.strip_prefix("sdn-") == Some(name));
    match like {
        Some(like) => format!("did you mean `{like}`?"),
        None => net::did_you_mean::suggestion(name, known),
    }
}

/// Builds the balancer of a specification that [`parse`] returned.
pub(crate) fn build(spec: &Spec, seed: u64) -> Box<dyn CentralBalancer> {
    match spec.entry.build {
        Build::Central(build) => build(&CentralEnv { seed }, &spec.params),
        _ => {
            // Settings are public: a caller that sets another kind of balancer gets plain
            // equal-cost routing.
            debug_assert!(false, "{} is not central", spec.entry.name);
            let spec = Spec::new("sdn-ecmp", BTreeMap::new()).expect("a registered balancer");
            let Build::Central(build) = spec.entry.build else { unreachable!("sdn-ecmp is central") };
            build(&CentralEnv { seed }, &spec.params)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dataplane_balancers_map_to_openflow_equivalents() {
        for (from, to) in OPENFLOW_EQUIVALENTS {
            assert_eq!(parse(from).map(|spec| spec.entry.name), Ok(to));
        }
        assert_eq!(parse("hedera").map(|spec| spec.entry.name), Ok("hedera"));
    }

    #[test]
    fn other_balancers_rejected_with_hint() {
        let message = |text| parse(text).unwrap_err().to_string();
        assert_eq!(message("spain"), "balancer `spain` does not run on OpenFlow switches; did you mean `sdn-spain`?");
        assert!(
            message("conga").starts_with("balancer `conga` does not run on OpenFlow switches; there are: sdn-spt, ")
        );
        assert_eq!(message("ecpm"), "unknown balancer `ecpm`; did you mean `ecmp`?");
        assert!(
            message("maglev").starts_with("balancer `maglev` picks servers for a virtual address and does not route; ")
        );
        assert!(message("optimum").contains("does not run on OpenFlow switches"));
        assert!(message("ecmp:hash=threshold").contains("runs here as `sdn-ecmp`"));
    }
}
