//! The list of balancers, and specifications that name them: `ecmp`, `hermes-rtt:good=1.25`.

use std::collections::BTreeMap;

use net::did_you_mean;
use net::spec_text::{SpecText, SpecTextError};

use crate::entry::Entry;
use crate::params::Params;
use crate::{bounds, central, dataplane, server};

/// Every dataplane balancer and bound. **A new one is its file and its line here.**
pub static DATAPLANE: &[&Entry] = &[
    &dataplane::spt::ENTRY,
    &dataplane::ecmp::ENTRY,
    &dataplane::wcmp::ENTRY,
    &dataplane::ecmp_path::ENTRY,
    &dataplane::path_pinning::ENTRY,
    &dataplane::flowset::ENTRY,
    &dataplane::localflow::ENTRY,
    &dataplane::round_robin::ENTRY,
    &dataplane::weighted_round_robin::ENTRY,
    &dataplane::dynamic_wrr::ENTRY,
    &dataplane::least_congestion::ENTRY,
    &dataplane::spray::ENTRY,
    &dataplane::spray_rr::ENTRY,
    &dataplane::ofan::ENTRY,
    &dataplane::drb::ENTRY,
    &dataplane::vlb::ENTRY,
    &dataplane::ugal::ENTRY,
    &dataplane::spritz::ENTRY,
    &dataplane::spain::ENTRY,
    &dataplane::bsr::ENTRY,
    &dataplane::drill::ENTRY,
    &dataplane::qdaps::ENTRY,
    &dataplane::tlb::ENTRY,
    &dataplane::detail::ENTRY,
    &dataplane::rlb::ENTRY,
    &dataplane::vertigo::ENTRY,
    &dataplane::presto::ENTRY,
    &dataplane::ethereal::ENTRY,
    &dataplane::rails::ENTRY,
    &dataplane::letflow::ENTRY,
    &dataplane::halflife::ENTRY,
    &dataplane::burst_balancer::ENTRY,
    &dataplane::flowcut::ENTRY,
    &dataplane::ars::ENTRY,
    &dataplane::glb::ENTRY,
    &dataplane::hula::ENTRY,
    &dataplane::mp_hula::ENTRY,
    &dataplane::contra::ENTRY,
    &dataplane::tinyflow::ENTRY,
    &dataplane::hermes_rtt::ENTRY,
    &dataplane::conga::ENTRY,
    &dataplane::seq_balance::ENTRY,
    &dataplane::clove::ENTRY,
    &dataplane::alb::ENTRY,
    &dataplane::hermes::ENTRY,
    &dataplane::hopper::ENTRY,
    &dataplane::conweave::ENTRY,
    &dataplane::themis::ENTRY,
    &dataplane::flowbender::ENTRY,
    &dataplane::plb::ENTRY,
    &dataplane::prr::ENTRY,
    &dataplane::reps::ENTRY,
    &dataplane::ue_spray::ENTRY,
    &dataplane::prime::ENTRY,
    &dataplane::mrc::ENTRY,
    &dataplane::srd::ENTRY,
    &dataplane::falcon::ENTRY,
    &dataplane::mptcp::ENTRY,
    &dataplane::repflow::ENTRY,
    &dataplane::repsyn::ENTRY,
    &bounds::optimum::ENTRY,
    &bounds::fastpass::ENTRY,
];

/// Every central balancer. **A new one is its file and its line here.**
pub static CENTRAL: &[&Entry] = &[
    &central::sdn_spt::ENTRY,
    &central::sdn_ecmp::ENTRY,
    &central::sdn_wcmp::ENTRY,
    &central::sdn_vlb::ENTRY,
    &central::sdn_spain::ENTRY,
    &central::hedera::ENTRY,
    &central::ofpt::ENTRY,
    &central::microte::ENTRY,
    &central::central_te::ENTRY,
    &central::b4::ENTRY,
    &central::partial_te::ENTRY,
    &central::diffserv_te::ENTRY,
    &central::fdalb::ENTRY,
    &central::freeway::ENTRY,
    &central::laberio::ENTRY,
];

/// Every server balancer. **A new one is its file and its line here.**
pub static SERVER: &[&Entry] = &[
    &server::server_rr::ENTRY,
    &server::server_wrr::ENTRY,
    &server::server_dwrr::ENTRY,
    &server::server_random::ENTRY,
    &server::server_two_choices::ENTRY,
    &server::server_jiq::ENTRY,
    &server::server_lc::ENTRY,
    &server::server_cpu::ENTRY,
    &server::server_least_loaded::ENTRY,
    &server::server_least_response::ENTRY,
    &server::server_prequal::ENTRY,
    &server::sl_ps::ENTRY,
    &server::ht_ps::ENTRY,
    &server::malob::ENTRY,
    &server::lobus::ENTRY,
    &server::division_no::ENTRY,
    &server::division_load::ENTRY,
    &server::division_rtt::ENTRY,
    &server::mesf::ENTRY,
    &server::maglev::ENTRY,
    &server::ring_hash::ENTRY,
    &server::server_cheetah::ENTRY,
    &server::server_beamer::ENTRY,
    &server::server_concury::ENTRY,
];

/// Central balancers that balance nothing but exercise the code the others rely on. [`find`]
/// returns them; no list contains them.
pub static TEST_BALANCERS: &[&Entry] = &[&central::random_moves::ENTRY, &central::timed_move::ENTRY];

/// Returns every balancer of any kind, and the bounds.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    DATAPLANE.iter().chain(CENTRAL).chain(SERVER).copied()
}

/// A balancer chosen by name, with values for all its parameters.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The registry entry of the balancer.
    pub entry: &'static Entry,
    /// Values of all its parameters.
    pub params: Params,
    /// The parameters the user set, ordered by name; empty if all have their defaults.
    pub given: BTreeMap<String, String>,
}

/// Error of a specification with an unknown balancer, an unknown parameter or an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum SpecError {
    #[error("unknown balancer `{name}`; {hint}")]
    UnknownBalancer { name: String, hint: String },
    #[error("balancer `{balancer}` has no parameter `{name}`; {hint}")]
    UnknownParameter { balancer: &'static str, name: String, hint: String },
    #[error("balancer `{balancer}`: {name} = `{value}` is not possible: {allowed}")]
    Value { balancer: &'static str, name: String, value: String, allowed: String },
    #[error("parameter `{name}` of balancer `{spec}` is given twice; keep one")]
    Repeated { spec: String, name: String },
    #[error("`-{name}` removes nothing: `{name}` is not in the list before it; write such as `all,-{name}`")]
    NotListed { name: String },
    #[error("`{0}` is not a balancer specification (write `name` or `name:key=value,key=value`)")]
    Form(String),
}

/// Finds a balancer by name.
pub fn find(name: &str) -> Result<&'static Entry, SpecError> {
    find_with(name, &[])
}

/// Finds a balancer by name in the registry, or among others.
fn find_with(name: &str, others: &[&'static Entry]) -> Result<&'static Entry, SpecError> {
    let known = || all().chain(others.iter().copied());
    known().chain(TEST_BALANCERS.iter().copied()).find(|entry| entry.name == name).ok_or_else(|| {
        SpecError::UnknownBalancer {
            name: name.to_owned(),
            hint: match name.contains(char::is_whitespace) {
                true => "balancers are separated by commas, such as `ecmp,spray`".to_owned(),
                false => did_you_mean::suggestion(name, known().map(|entry| entry.name)),
            },
        }
    })
}

impl Spec {
    /// Makes a specification from a name and parameter values.
    pub fn new(name: &str, given: BTreeMap<String, String>) -> Result<Spec, SpecError> {
        Spec::of_entry(find(name)?, given)
    }

    /// Makes the specification of an entry with its defaults.
    pub fn of(entry: &'static Entry) -> Spec {
        Spec::of_entry(entry, BTreeMap::new()).expect("nothing is given")
    }

    fn of_entry(entry: &'static Entry, given: BTreeMap<String, String>) -> Result<Spec, SpecError> {
        for (key, value) in &given {
            let param = entry.params.iter().find(|p| p.name == key).ok_or_else(|| SpecError::UnknownParameter {
                balancer: entry.name,
                name: key.clone(),
                hint: did_you_mean::suggestion(key, entry.params.iter().map(|p| p.name)),
            })?;
            param.check(value).map_err(|allowed| SpecError::Value {
                balancer: entry.name,
                name: key.clone(),
                value: value.clone(),
                allowed,
            })?;
        }
        Ok(Spec { entry, params: Params::with_defaults(entry.params, &given), given })
    }

    /// Parses one specification: `ecmp` or `ecmp:hash=threshold,seeds=none`.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        Spec::parse_with(text, &[])
    }

    fn parse_with(text: &str, others: &[&'static Entry]) -> Result<Spec, SpecError> {
        let SpecText { name, values } = SpecText::parse(text).map_err(|error| match error {
            SpecTextError::NotKeyValue(_) => SpecError::Form(text.to_owned()),
            SpecTextError::Repeated(key) => SpecError::Repeated { spec: text.to_owned(), name: key.to_owned() },
        })?;
        if name.is_empty() {
            return Err(SpecError::Form(text.to_owned()));
        }
        let given = values.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Spec::of_entry(find_with(name, others)?, given)
    }

    /// Parses a comma-separated list, in which `all` is every dataplane balancer with its defaults, and
    /// `-NAME` removes a balancer from those before it: `all,-mptcp`.
    /// A piece with `=` but without a name continues the piece before it, so
    /// `ecmp:hash=threshold,seeds=none,spray` is two balancers.
    pub fn parse_list(text: &str) -> Result<Vec<Spec>, SpecError> {
        Spec::parse_list_with(text, &[])
    }

    /// As [`Spec::parse_list`], with balancers that are not in the registry.
    pub fn parse_list_with(text: &str, others: &[&'static Entry]) -> Result<Vec<Spec>, SpecError> {
        let mut pieces: Vec<String> = Vec::new();
        for piece in text.split(',').filter(|piece| !piece.trim().is_empty()) {
            // No balancer name contains `=`, but a value may contain `:`.
            let continues = piece.find(['=', ':']).is_some_and(|at| piece[at..].starts_with('='));
            match pieces.last_mut() {
                Some(last) if continues => {
                    last.push(',');
                    last.push_str(piece);
                }
                _ => pieces.push(piece.to_owned()),
            }
        }
        let mut specs = Vec::new();
        for piece in &pieces {
            match piece.trim() {
                "all" => {
                    for entry in DATAPLANE.iter().filter(|entry| !entry.is_bound()) {
                        specs.push(Spec::new(entry.name, BTreeMap::new())?);
                    }
                }
                piece => match piece.strip_prefix('-') {
                    Some(name) => remove(&mut specs, find_with(name, others)?)?,
                    None => specs.push(Spec::parse_with(piece, others)?),
                },
            }
        }
        Ok(specs)
    }

    /// Returns the label, and of a balancer that is not part of this program the hash of its source:
    /// runs of equal identity have equal results.
    pub fn identity(&self) -> String {
        if self.entry.code.is_empty() { self.label() } else { format!("{} code={}", self.label(), self.entry.code) }
    }

    /// Returns the name with the parameters the user set: unique within any sensible comparison.
    pub fn label(&self) -> String {
        if self.given.is_empty() {
            return self.entry.name.to_owned();
        }
        let pairs: Vec<String> = self.given.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{}:{}", self.entry.name, pairs.join(","))
    }
}

/// Removes a balancer from a list, with any parameters.
fn remove(specs: &mut Vec<Spec>, entry: &Entry) -> Result<(), SpecError> {
    let before = specs.len();
    specs.retain(|spec| spec.entry.name != entry.name);
    if specs.len() < before { Ok(()) } else { Err(SpecError::NotListed { name: entry.name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn specifications_are_read() {
        let specs = Spec::parse_list("ecmp:hash=threshold,seeds=none,spray").unwrap();
        assert_eq!(specs.iter().map(Spec::label).collect::<Vec<_>>(), ["ecmp:hash=threshold,seeds=none", "spray"]);
        assert_eq!(specs[0].params.text("hash"), "threshold");
        let all = Spec::parse_list("all").unwrap();
        let fewer = Spec::parse_list("all, -ecmp,-mptcp").unwrap();
        assert_eq!(fewer.len(), all.len() - 2);
        assert!(fewer.iter().all(|spec| !["ecmp", "mptcp"].contains(&spec.entry.name)));
        let error = |text| Spec::parse_list(text).unwrap_err().to_string();
        assert!(error("spray,-ecmp").contains("`-ecmp` removes nothing"));
        assert!(error("all,-ecpm").contains("did you mean `ecmp`"));
    }

    #[test]
    fn errors_suggest_most_similar_name() {
        let message = |text| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(message("ecpm"), "unknown balancer `ecpm`; did you mean `ecmp`?");
        assert_eq!(message("ecmp:seed=none"), "balancer `ecmp` has no parameter `seed`; did you mean `seeds`?");
        assert!(message("xyzzy").starts_with("unknown balancer `xyzzy`; there are: "));
        assert_eq!(message("spray:x=1"), "balancer `spray` has no parameter `x`; none are known");
        assert!(message("ecmp:seeds=maybe").contains("it is one of per-switch, none"));
        assert!(message("ecmp:seeds").contains("write `name`"));
        assert!(
            message("ecmp:seeds=none,seeds=none")
                .contains("`seeds` of balancer `ecmp:seeds=none,seeds=none` is given twice")
        );
        assert!(message("ecmp spray").ends_with("separated by commas, such as `ecmp,spray`"));
    }

    #[test]
    fn every_entry_is_well_formed() {
        let names: BTreeSet<&str> = all().map(|entry| entry.name).collect();
        assert_eq!(names.len(), all().count(), "two balancers share a name");
        assert!(CENTRAL.iter().all(|entry| entry.is_central()) && SERVER.iter().all(|entry| entry.is_server()));
        assert!(DATAPLANE.iter().all(|entry| ["dataplane", "bound"].contains(&entry.kind())));
        for entry in all() {
            assert!(
                entry.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{}",
                entry.name
            );
            assert!(entry.summary.ends_with('.') && !entry.source.is_empty(), "{}", entry.name);
            for param in entry.params {
                assert_eq!(param.check(param.default), Ok(()), "{}.{}", entry.name, param.name);
            }
            let example = Spec::parse(entry.example).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
            assert_eq!(example.entry.name, entry.name);
        }
    }
}
