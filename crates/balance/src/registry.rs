//! The list of balancers and how users name them: `ecmp`, `hermes-rtt:good=1.25`.

use std::collections::BTreeMap;
use std::fmt;

use crate::bounds::{self, Bound};
use crate::central::{self, CentralBalancer, CentralEnv};
use net::words;

use crate::dataplane::{self, EdgeBalancer, EdgeEnv, HostBalancer, HostEnv, Needs, Scale, SwitchBalancer, SwitchEnv};
use crate::params::{Param, Params};
use crate::server::{self, ServerBalancer, ServerEnv};

/// How large a piece of traffic a decision covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granularity {
    /// Every packet anew.
    Packet,
    /// Whole flows: packets of one flow share a path while the network is intact.
    Flow,
    /// Every packet may move, but only when its path is judged bad.
    CautiousPacket,
    /// Bursts of a flow separated by idle gaps.
    Flowlet,
    /// A fixed number of bytes of a flow.
    Flowcell,
    /// Whole flows, moved when their path is judged bad.
    MovableFlow,
    /// Parts of a flow, each on its own connection.
    Subflow,
}

impl Granularity {
    /// What is decided for, in words: "each packet".
    pub fn words(self) -> &'static str {
        match self {
            Granularity::Packet => "each packet",
            Granularity::Flow => "each flow, once",
            Granularity::CautiousPacket => "each packet, but a flow leaves its path only when that is judged bad",
            Granularity::Flowlet => "each flowlet (a burst of a flow, after a gap)",
            Granularity::Flowcell => "each flowcell (a fixed number of bytes of a flow)",
            Granularity::MovableFlow => "each flow, moved when its path is judged bad",
            Granularity::Subflow => "each subflow, once",
        }
    }
}

/// Whether packets of one flow can overtake each other in an intact network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reorders {
    /// Never.
    Never,
    /// When a flow is moved.
    AtMoves,
    /// All the time: hosts need a resequencing buffer or a raised duplicate-ACK threshold.
    Always,
}

impl Reorders {
    /// When packets of one flow overtake each other, in words.
    pub fn words(self) -> &'static str {
        match self {
            Reorders::Never => "never",
            Reorders::AtMoves => "when a flow is moved",
            Reorders::Always => "all the time",
        }
    }
}

/// A world a balancer can run in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// The packet simulator.
    Simulator,
    /// Real OpenFlow switches, as select groups.
    OpenFlow,
}

impl World {
    /// Its name, in words.
    pub fn words(self) -> &'static str {
        match self {
            World::Simulator => "simulator",
            World::OpenFlow => "OpenFlow switches",
        }
    }
}

/// How an entry is instantiated.
#[derive(Clone, Copy)]
pub enum Build {
    /// One instance on every switch; each decides its own next hop.
    Switch(fn(&SwitchEnv<'_>, &Params) -> Box<dyn SwitchBalancer>),
    /// One instance at every first switch (or multi-homed host); it decides whole paths.
    Edge(fn(&EdgeEnv<'_>, &Params) -> Box<dyn EdgeBalancer>),
    /// One instance for all hosts; it decides the entropy value of each data packet, and switches hash it (plain ECMP).
    Host(fn(&HostEnv, &Params) -> Box<dyn HostBalancer>),
    /// One instance in the controller; it sees the whole network, and switches follow rules.
    Central(fn(&CentralEnv, &Params) -> Box<dyn CentralBalancer>),
    /// No instances: the simulator computes this bound instead of sending packets.
    Bound(Bound),
    /// One instance for each pool of servers (or uplinks), in the controller; it picks who gets a request, and the path.
    Server(fn(&ServerEnv, &Params) -> Box<dyn ServerBalancer>),
}

/// A balancer: what it is, what it takes, and how to make one.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Name as users write it.
    pub name: &'static str,
    /// Name as reports print it.
    pub title: &'static str,
    /// One sentence: what it does.
    pub summary: &'static str,
    /// Where it was published, and its id in the mechanism reference.
    pub source: &'static str,
    /// Size of a decision.
    pub granularity: Granularity,
    /// Reordering to expect.
    pub reorders: Reorders,
    /// What it reacts to: "nothing", or the signals.
    pub senses: &'static str,
    /// Worlds it runs in.
    pub worlds: &'static [World],
    /// Parameters with their published defaults.
    pub params: &'static [Param],
    /// A specification that runs.
    pub example: &'static str,
    /// What it needs of the world around it; [`NO_NEEDS`](crate::dataplane::NO_NEEDS) for nothing.
    pub needs: fn(&Scale, &Params) -> Needs,
    /// Maker.
    pub build: Build,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Entry {
    /// Whether it is a bound to compare against rather than a balancer: it moves no packets.
    pub fn is_bound(&self) -> bool {
        matches!(self.build, Build::Bound(_))
    }
    /// Whether a controller runs it.
    pub fn is_central(&self) -> bool {
        matches!(self.build, Build::Central(_))
    }
    /// Whether it picks servers for requests, rather than paths for flows.
    pub fn is_server(&self) -> bool {
        matches!(self.build, Build::Server(_))
    }
    /// What kind it is, in one word: `dataplane`, `central`, `server` or `bound`.
    pub fn kind(&self) -> &'static str {
        match self.build {
            Build::Switch(_) | Build::Edge(_) | Build::Host(_) => "dataplane",
            Build::Central(_) => "central",
            Build::Server(_) => "server",
            Build::Bound(_) => "bound",
        }
    }
    /// Who decides: `switch`, `edge`, `host`, `controller` or, for bounds, `nobody`.
    pub fn decides(&self) -> &'static str {
        match self.build {
            Build::Switch(_) => "switch",
            Build::Edge(_) => "edge",
            Build::Host(_) => "host",
            Build::Central(_) | Build::Server(_) => "controller",
            Build::Bound(_) => "nobody",
        }
    }
}

/// Every dataplane balancer, and the bounds to hold them against. **A new one is its file and its line here.**
pub static DATAPLANE: &[&Entry] = &[
    &dataplane::spt::ENTRY,
    &dataplane::ecmp::ENTRY,
    &dataplane::wcmp::ENTRY,
    &dataplane::ecmp_path::ENTRY,
    &dataplane::round_robin::ENTRY,
    &dataplane::weighted_round_robin::ENTRY,
    &dataplane::dynamic_wrr::ENTRY,
    &dataplane::least_congestion::ENTRY,
    &dataplane::spray::ENTRY,
    &dataplane::spray_rr::ENTRY,
    &dataplane::drb::ENTRY,
    &dataplane::vlb::ENTRY,
    &dataplane::spain::ENTRY,
    &dataplane::drill::ENTRY,
    &dataplane::detail::ENTRY,
    &dataplane::presto::ENTRY,
    &dataplane::letflow::ENTRY,
    &dataplane::tinyflow::ENTRY,
    &dataplane::hermes_rtt::ENTRY,
    &dataplane::conga::ENTRY,
    &dataplane::clove::ENTRY,
    &dataplane::hermes::ENTRY,
    &dataplane::conweave::ENTRY,
    &dataplane::flowbender::ENTRY,
    &dataplane::plb::ENTRY,
    &dataplane::reps::ENTRY,
    &dataplane::ue_spray::ENTRY,
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
    &central::fdalb::ENTRY,
    &central::freeway::ENTRY,
];

/// Every balancer of servers. **A new one is its file and its line here.**
pub static SERVER: &[&Entry] = &[
    &server::server_rr::ENTRY,
    &server::server_wrr::ENTRY,
    &server::server_dwrr::ENTRY,
    &server::server_random::ENTRY,
    &server::server_two_choices::ENTRY,
    &server::server_lc::ENTRY,
    &server::server_cpu::ENTRY,
    &server::server_least_loaded::ENTRY,
    &server::sl_ps::ENTRY,
    &server::ht_ps::ENTRY,
    &server::malob::ENTRY,
    &server::lobus::ENTRY,
    &server::division_no::ENTRY,
    &server::division_load::ENTRY,
    &server::mesf::ENTRY,
    &server::maglev::ENTRY,
    &server::ring_hash::ENTRY,
];

/// Central balancers that balance nothing, but try out what the others rely on. They are found by name and stand in no list.
pub static EXERCISES: &[&Entry] = &[&central::restless::ENTRY];

/// Every balancer of whatever kind, and the bounds.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    DATAPLANE.iter().chain(CENTRAL).chain(SERVER).copied()
}

/// A balancer chosen by name with all its parameters set.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Which one.
    pub entry: &'static Entry,
    /// Values of all its parameters.
    pub params: Params,
    /// What the user wrote beyond the name, in a fixed order; empty where nothing was.
    pub given: BTreeMap<String, String>,
}

/// A specification that names no balancer, or a parameter it does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such balancer.
    #[error("there is no balancer `{name}`; {hint}")]
    UnknownBalancer {
        /// What was asked for.
        name: String,
        /// The most similar name, or all of them.
        hint: String,
    },
    /// No such parameter.
    #[error("balancer `{balancer}` has no parameter `{name}`; {hint}")]
    UnknownParameter {
        /// The balancer.
        balancer: &'static str,
        /// What was asked for.
        name: String,
        /// The most similar name, or all of them.
        hint: String,
    },
    /// A value outside what the parameter takes.
    #[error("balancer `{balancer}`: {name} = `{value}` is not possible: {allowed}")]
    Value {
        /// The balancer.
        balancer: &'static str,
        /// The parameter.
        name: String,
        /// What was given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Not of the form `name:key=value,key=value`.
    #[error("`{0}` is not a balancer specification (write `name` or `name:key=value,key=value`)")]
    Form(String),
}

/// Finds a balancer by name.
///
/// # Errors
/// [`SpecError::UnknownBalancer`] with the nearest name.
pub fn find(name: &str) -> Result<&'static Entry, SpecError> {
    let mut known = all().chain(EXERCISES.iter().copied());
    known.find(|entry| entry.name == name).ok_or_else(|| SpecError::UnknownBalancer {
        name: name.to_owned(),
        hint: match name.contains(char::is_whitespace) {
            true => "balancers are separated by commas, such as `ecmp,spray`".to_owned(),
            false => words::hint(name, all().map(|entry| entry.name)),
        },
    })
}

impl Spec {
    /// From a name and parameter values.
    ///
    /// # Errors
    /// Unknown balancer, unknown parameter, impossible value.
    pub fn new(name: &str, given: BTreeMap<String, String>) -> Result<Spec, SpecError> {
        let entry = find(name)?;
        for (key, value) in &given {
            let param = entry.params.iter().find(|p| p.name == key).ok_or_else(|| SpecError::UnknownParameter {
                balancer: entry.name,
                name: key.clone(),
                hint: words::hint(key, entry.params.iter().map(|p| p.name)),
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

    /// From text: `ecmp` or `ecmp:hash=threshold,seeds=none`.
    ///
    /// # Errors
    /// As [`Spec::new`], or a text of another form.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let form = || SpecError::Form(text.to_owned());
        let (name, rest) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let mut given = BTreeMap::new();
        for pair in rest.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(form)?;
            given.insert(key.trim().to_owned(), value.trim().to_owned());
        }
        if name.is_empty() {
            return Err(form());
        }
        Spec::new(name, given)
    }

    /// From a comma-separated list, in which `all` stands for every dataplane balancer with its defaults. A piece with `=`
    /// but without a name continues the piece before it, so `ecmp:hash=threshold,seeds=none,spray` is two balancers.
    ///
    /// # Errors
    /// As [`Spec::parse`], for the first wrong piece.
    pub fn parse_list(text: &str) -> Result<Vec<Spec>, SpecError> {
        let mut pieces: Vec<String> = Vec::new();
        for piece in text.split(',').filter(|piece| !piece.trim().is_empty()) {
            // No name has `=` in it, but a value may have `:`.
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
                piece => specs.push(Spec::parse(piece)?),
            }
        }
        Ok(specs)
    }

    /// The name, with what the user set: unique within a comparison that makes sense.
    pub fn label(&self) -> String {
        if self.given.is_empty() {
            return self.entry.name.to_owned();
        }
        let pairs: Vec<String> = self.given.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{}:{}", self.entry.name, pairs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_read() {
        let specs = Spec::parse_list("ecmp:hash=threshold,seeds=none,spray").unwrap();
        assert_eq!(specs.iter().map(Spec::label).collect::<Vec<_>>(), ["ecmp:hash=threshold,seeds=none", "spray"]);
        assert_eq!(specs[0].params.text("hash"), "threshold");
    }

    #[test]
    fn mistakes_name_the_nearest_thing() {
        let message = |text| Spec::parse(text).unwrap_err().to_string();
        assert_eq!(message("ecpm"), "there is no balancer `ecpm`; did you mean `ecmp`?");
        assert_eq!(message("ecmp:seed=none"), "balancer `ecmp` has no parameter `seed`; did you mean `seeds`?");
        assert!(message("xyzzy").starts_with("there is no balancer `xyzzy`; there are: "));
        assert_eq!(message("spray:x=1"), "balancer `spray` has no parameter `x`; there are none");
        assert!(message("ecmp:seeds=maybe").contains("it is one of per-switch, none"));
        assert!(message("ecmp:seeds").contains("write `name`"));
        assert!(message("ecmp spray").ends_with("separated by commas, such as `ecmp,spray`"));
    }

    #[test]
    fn every_entry_is_well_formed() {
        let mut names: Vec<&str> = all().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
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
