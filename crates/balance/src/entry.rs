//! Balancer entries: the description of a balancer and the constructor of its instances.
//!
//! Each mechanism declares one [`Entry`]; [`registry`](crate::registry) lists them.

use std::fmt;

use crate::bounds::Bound;
use crate::central::{CentralBalancer, CentralEnv};
use crate::dataplane::{EdgeBalancer, EdgeEnv, HostBalancer, HostEnv, Needs, Scale, SwitchBalancer, SwitchEnv};
use crate::params::{Param, Params};
use crate::server::{ServerBalancer, ServerEnv};

/// Unit of traffic that one decision covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granularity {
    /// Every packet is decided separately.
    Packet,
    /// Whole flows: packets of one flow share a path while the network is intact.
    Flow,
    /// Every packet may move, but only when its path is judged bad.
    CautiousPacket,
    /// Bursts of a flow separated by idle gaps.
    Flowlet,
    /// Parts of a flow of which the next begins when nothing of the last is in flight.
    Flowcut,
    /// A fixed number of bytes of a flow.
    Flowcell,
    /// Whole flows, moved when their path is judged bad.
    MovableFlow,
    /// Parts of a flow, each on its own connection.
    Subflow,
}

impl Granularity {
    /// Returns a description of the unit: "each packet".
    pub fn describe(self) -> &'static str {
        match self {
            Granularity::Packet => "each packet",
            Granularity::Flow => "each flow, once",
            Granularity::CautiousPacket => "each packet, but a flow leaves its path only when that is judged bad",
            Granularity::Flowlet => "each flowlet (a burst of a flow, after a gap)",
            Granularity::Flowcut => "each flowcut (a part of a flow, when nothing of it is in flight)",
            Granularity::Flowcell => "each flowcell (a fixed number of bytes of a flow)",
            Granularity::MovableFlow => "each flow, moved when its path is judged bad",
            Granularity::Subflow => "each subflow, once",
        }
    }
}

/// Whether packets of one flow can overtake each other in an intact network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reorders {
    /// Packets of a flow stay in order.
    Never,
    /// Only when a flow moves to another path.
    AtMoves,
    /// At any time: hosts need a resequencing buffer or a raised duplicate-ACK threshold.
    Always,
}

impl Reorders {
    /// Returns a description of when packets of one flow overtake each other.
    pub fn describe(self) -> &'static str {
        match self {
            Reorders::Never => "never",
            Reorders::AtMoves => "when a flow is moved",
            Reorders::Always => "all the time",
        }
    }
}

/// The form of a balancer in a simulation of flow rates instead of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowLevel {
    /// None: its effect depends on single packets, such as gaps, marks, queues or probes.
    None,
    /// Each flow has the path that the mechanism picks for its first packet.
    Path,
    /// Packets take all next hops, or all paths, evenly, regardless of their state.
    EvenSplit,
    /// The same in a symmetric network; elsewhere it reacts to queues or marks.
    AdaptiveSplit,
}

/// A platform a balancer can run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Platform {
    /// The packet simulator.
    Simulator,
    /// Real OpenFlow switches, as select groups.
    OpenFlow,
}

impl Platform {
    /// Returns the human-readable name.
    pub fn describe(self) -> &'static str {
        match self {
            Platform::Simulator => "simulator",
            Platform::OpenFlow => "OpenFlow switches",
        }
    }
}

/// The constructor of an entry's instances, by the place of the decision.
#[derive(Clone, Copy)]
pub enum Build {
    /// One instance on every switch; each picks its own next hop.
    Switch(fn(&SwitchEnv<'_>, &Params) -> Box<dyn SwitchBalancer>),
    /// One instance at every first switch (or multi-homed host); it picks whole paths.
    Edge(fn(&EdgeEnv<'_>, &Params) -> Box<dyn EdgeBalancer>),
    /// One instance for all hosts; it picks the entropy value of each data packet.
    Host(fn(&HostEnv, &Params) -> Box<dyn HostBalancer>),
    /// One instance in the controller; it reads the whole network, and switches follow rules.
    Central(fn(&CentralEnv, &Params) -> Box<dyn CentralBalancer>),
    /// No instances: the simulator computes this bound instead of sending packets.
    Bound(Bound),
    /// One instance per pool of servers (or uplinks), in the controller; picks member and path.
    Server(fn(&ServerEnv, &Params) -> Box<dyn ServerBalancer>),
}

/// A balancer: its description, its parameters and its constructor.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name users write in specifications.
    pub name: &'static str,
    /// The name printed in reports.
    pub title: &'static str,
    /// One sentence that describes the behaviour.
    pub summary: &'static str,
    /// The publication and the id in the mechanism reference.
    pub source: &'static str,
    /// The unit of one decision.
    pub granularity: Granularity,
    /// The signals it reacts to, or "nothing".
    pub senses: &'static str,
    /// The parameters, with their published defaults.
    pub params: &'static [Param],
    /// A specification that runs.
    pub example: &'static str,
    /// The needs beyond forwarding.
    pub needs: fn(&Scale, &Params) -> Needs,
    /// The form in a simulation of flow rates.
    pub flow_level: FlowLevel,
    /// The constructor, called with parameters that are already checked.
    pub build: Build,
    /// Hash of the source of a balancer that is not part of this program; empty for others.
    pub code: &'static str,
    is_select_group: bool,
}

/// The description of a balancer that is not part of this program, such as one written in Python.
#[derive(Clone, Copy, Debug)]
pub struct Foreign<'a> {
    /// The name users write in specifications.
    pub name: &'a str,
    /// One sentence that describes the behaviour.
    pub summary: &'a str,
    /// The unit of one decision.
    pub granularity: Granularity,
    /// A hash of the source: a changed balancer is another one. Also the value of the parameter
    /// `code`, by which the constructor finds it.
    pub code: &'a str,
}

/// An entry that still lacks its constructor.
pub(crate) struct Declaration(Entry);

impl Entry {
    /// Begins an entry: one decision per flow, without signals, parameters or needs.
    pub(crate) const fn declare(name: &'static str, title: &'static str) -> Declaration {
        Declaration(Entry {
            name,
            title,
            summary: "",
            source: "",
            granularity: Granularity::Flow,
            senses: "nothing",
            params: &[],
            example: name,
            needs: |_, _| Needs::default(),
            flow_level: FlowLevel::None,
            build: Build::Bound(Bound::FluidOptimum),
            code: "",
            is_select_group: false,
        })
    }

    /// Makes the entry of a balancer that is not part of this program. It stays in memory: entries
    /// live as long as the program.
    pub fn foreign(about: Foreign<'_>, build: Build) -> &'static Entry {
        let leaked = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let (name, code) = (leaked(about.name), leaked(about.code));
        let choices: &'static [&'static str] = Box::leak(Box::new([code]));
        let params = Box::leak(Box::new([Param::choice("code", choices, code).doc("Hash of the source.")]));
        let declared = Entry::declare(name, name).summary(leaked(about.summary)).granularity(about.granularity);
        Box::leak(Box::new(Entry { params, code, build, ..declared.0 }))
    }
}

impl Declaration {
    pub(crate) const fn summary(self, summary: &'static str) -> Declaration {
        Declaration(Entry { summary, ..self.0 })
    }
    pub(crate) const fn source(self, source: &'static str) -> Declaration {
        Declaration(Entry { source, ..self.0 })
    }
    pub(crate) const fn granularity(self, granularity: Granularity) -> Declaration {
        Declaration(Entry { granularity, ..self.0 })
    }
    pub(crate) const fn senses(self, senses: &'static str) -> Declaration {
        Declaration(Entry { senses, ..self.0 })
    }
    pub(crate) const fn params(self, params: &'static [Param]) -> Declaration {
        Declaration(Entry { params, ..self.0 })
    }
    pub(crate) const fn example(self, example: &'static str) -> Declaration {
        Declaration(Entry { example, ..self.0 })
    }
    pub(crate) const fn needs(self, needs: fn(&Scale, &Params) -> Needs) -> Declaration {
        Declaration(Entry { needs, ..self.0 })
    }
    /// Declares the form in a simulation of flow rates; the default is that it has no such form.
    pub(crate) const fn flow_level(self, flow_level: FlowLevel) -> Declaration {
        Declaration(Entry { flow_level, ..self.0 })
    }
    /// Marks a data-plane mechanism that select groups of OpenFlow switches implement.
    pub(crate) const fn also_as_groups(self) -> Declaration {
        Declaration(Entry { is_select_group: true, ..self.0 })
    }
    pub(crate) const fn switch(self, build: fn(&SwitchEnv<'_>, &Params) -> Box<dyn SwitchBalancer>) -> Entry {
        Entry { build: Build::Switch(build), ..self.0 }
    }
    pub(crate) const fn edge(self, build: fn(&EdgeEnv<'_>, &Params) -> Box<dyn EdgeBalancer>) -> Entry {
        Entry { build: Build::Edge(build), ..self.0 }
    }
    pub(crate) const fn host(self, build: fn(&HostEnv, &Params) -> Box<dyn HostBalancer>) -> Entry {
        Entry { build: Build::Host(build), ..self.0 }
    }
    pub(crate) const fn central(self, build: fn(&CentralEnv, &Params) -> Box<dyn CentralBalancer>) -> Entry {
        Entry { build: Build::Central(build), ..self.0 }
    }
    pub(crate) const fn server(self, build: fn(&ServerEnv, &Params) -> Box<dyn ServerBalancer>) -> Entry {
        Entry { build: Build::Server(build), ..self.0 }
    }
    pub(crate) const fn bound(self, bound: Bound) -> Entry {
        Entry { build: Build::Bound(bound), ..self.0 }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Entry {
    /// Returns the reordering to expect.
    pub fn reorders(&self) -> Reorders {
        match self.granularity {
            _ if self.is_bound() => Reorders::Never,
            Granularity::Packet | Granularity::Flowcell => Reorders::Always,
            Granularity::CautiousPacket | Granularity::Flowlet | Granularity::MovableFlow => Reorders::AtMoves,
            Granularity::Flow | Granularity::Flowcut | Granularity::Subflow => Reorders::Never,
        }
    }
    /// Returns the platforms it runs on.
    pub fn platforms(&self) -> &'static [Platform] {
        match self.build {
            Build::Central(_) | Build::Server(_) => &[Platform::Simulator, Platform::OpenFlow],
            _ if self.is_select_group => &[Platform::Simulator, Platform::OpenFlow],
            _ => &[Platform::Simulator],
        }
    }
    /// Returns whether it is a bound for comparison rather than a balancer: it moves no packets.
    pub fn is_bound(&self) -> bool {
        matches!(self.build, Build::Bound(_))
    }
    /// Returns whether it is a central balancer.
    pub fn is_central(&self) -> bool {
        matches!(self.build, Build::Central(_))
    }
    /// Returns whether it picks servers for requests, rather than paths for flows.
    pub fn is_server(&self) -> bool {
        matches!(self.build, Build::Server(_))
    }
    /// Returns the kind: `dataplane`, `central`, `server` or `bound`.
    pub fn kind(&self) -> &'static str {
        match self.build {
            Build::Switch(_) | Build::Edge(_) | Build::Host(_) => "dataplane",
            Build::Central(_) => "central",
            Build::Server(_) => "server",
            Build::Bound(_) => "bound",
        }
    }
    /// Returns the place of decisions; `none` for bounds.
    pub fn decides(&self) -> &'static str {
        match self.build {
            Build::Switch(_) => "switch",
            Build::Edge(_) => "edge",
            Build::Host(_) => "host",
            Build::Central(_) | Build::Server(_) => "controller",
            Build::Bound(_) => "none",
        }
    }
}
