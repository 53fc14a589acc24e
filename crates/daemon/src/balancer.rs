//! Which balancers a controller of real switches can run, and what stands for those that live in switches.

use std::collections::BTreeMap;

use balance::central::{CentralBalancer, CentralEnv};
use balance::registry::CENTRAL;
use balance::{Build, Spec, SpecError};

/// Balancers of switches and the central ones that do the same with rules and select groups.
const LOWERED: [(&str, &str); 4] = [("ecmp", "sdn-ecmp"), ("wcmp", "sdn-wcmp"), ("vlb", "sdn-vlb"), ("spt", "sdn-spt")];

/// Why a balancer cannot run on OpenFlow switches.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BalancerError {
    /// It names no balancer, or no parameter.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// It exists, but needs switches or hosts of its own.
    #[error("balancer `{name}` does not run on OpenFlow switches; {hint}")]
    NotOpenFlow {
        /// The balancer.
        name: &'static str,
        /// What does.
        hint: String,
    },
    /// It picks servers for requests, and leads no other traffic.
    #[error("balancer `{name}` picks servers for a virtual address and does not route; {hint}")]
    Server {
        /// The balancer.
        name: &'static str,
        /// What does.
        hint: String,
    },
    /// What stands for it has no such parameters.
    #[error("balancer `{name}` runs here as `{lowered}`, which does not take its parameters: {source}")]
    Parameters {
        /// The balancer.
        name: &'static str,
        /// What stands for it.
        lowered: &'static str,
        /// Why.
        source: SpecError,
    },
}

/// Reads a specification of a balancer for OpenFlow switches.
///
/// # Errors
/// What is wrong with it, and what would do.
pub fn parse(text: &str) -> Result<Spec, BalancerError> {
    let spec = Spec::parse(text)?;
    if spec.entry.is_central() {
        return Ok(spec);
    }
    let name = spec.entry.name;
    match LOWERED.iter().find(|(from, _)| *from == name) {
        Some((_, lowered)) => {
            Spec::new(lowered, spec.given).map_err(|source| BalancerError::Parameters { name, lowered, source })
        }
        None if spec.entry.is_server() => Err(BalancerError::Server { name, hint: nearest(name) }),
        None => Err(BalancerError::NotOpenFlow { name, hint: nearest(name) }),
    }
}

/// What to use instead.
fn nearest(name: &str) -> String {
    let known = CENTRAL.iter().map(|entry| entry.name).chain(LOWERED.map(|(from, _)| from));
    // `spain` has its like under another name.
    let like = CENTRAL.iter().map(|entry| entry.name).find(|other| other.strip_prefix("sdn-") == Some(name));
    match like {
        Some(like) => format!("did you mean `{like}`?"),
        None => net::words::hint(name, known),
    }
}

/// Makes the balancer of a specification that [`parse`] answered.
pub(crate) fn build(spec: &Spec, seed: u64) -> Box<dyn CentralBalancer> {
    match spec.entry.build {
        Build::Central(build) => build(&CentralEnv { seed }, &spec.params),
        _ => {
            // Settings are public; whoever fills them with something else gets plain equal-cost routing.
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
    fn balancers_of_switches_are_lowered_where_groups_do_the_same() {
        for (from, to) in LOWERED {
            assert_eq!(parse(from).map(|spec| spec.entry.name), Ok(to));
        }
        assert_eq!(parse("hedera").map(|spec| spec.entry.name), Ok("hedera"));
    }

    #[test]
    fn others_are_refused_with_what_would_do() {
        let message = |text| parse(text).unwrap_err().to_string();
        assert_eq!(message("spain"), "balancer `spain` does not run on OpenFlow switches; did you mean `sdn-spain`?");
        assert!(
            message("conga").starts_with("balancer `conga` does not run on OpenFlow switches; there are: sdn-spt, ")
        );
        assert_eq!(message("ecpm"), "there is no balancer `ecpm`; did you mean `ecmp`?");
        assert!(
            message("maglev").starts_with("balancer `maglev` picks servers for a virtual address and does not route; ")
        );
        assert!(message("optimum").contains("does not run on OpenFlow switches"));
        assert!(message("ecmp:hash=threshold").contains("runs here as `sdn-ecmp`"));
    }
}
