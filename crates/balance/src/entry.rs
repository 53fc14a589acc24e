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
    /// One instance for all hosts; it picks the entropy value of each data packet, and switches
    /// hash it (plain ECMP).
    Host(fn(&HostEnv, &Params) -> Box<dyn HostBalancer>),
    /// One instance in the controller; it reads the whole network, and switches follow rules.
    Central(fn(&CentralEnv, &Params) -> Box<dyn CentralBalancer>),
    /// No instances: the simulator computes this bound instead of sending packets.
    Bound(Bound),
    /// One instance for each pool of servers (or uplinks), in the controller; it picks the member
    /// and the path of a request.
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
    /// The reordering to expect.
    pub reorders: Reorders,
    /// The signals it reacts to, or "nothing".
    pub senses: &'static str,
    /// The platforms it runs on.
    pub platforms: &'static [Platform],
    /// The parameters, with their published defaults.
    pub params: &'static [Param],
    /// A specification that runs.
    pub example: &'static str,
    /// The needs beyond forwarding; [`NO_NEEDS`](crate::dataplane::NO_NEEDS) for a mechanism without any.
    pub needs: fn(&Scale, &Params) -> Needs,
    /// The constructor, called with parameters that are already checked.
    pub build: Build,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Entry {
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
    /// Returns the place of decisions: `switch`, `edge`, `host`, `controller` or, for bounds,
    /// `nobody`.
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
