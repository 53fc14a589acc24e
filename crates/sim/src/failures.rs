//! Failures: every kind with its effects, its check and its text. A new kind is one variant here,
//! and one row in `experiment::input::failures`, which reads it from files.

use net::{LinkIx, NodeIx, NodeKind, Time, Topology};

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub at: Time,
    /// End of the fault; `None` for never.
    pub until: Option<Time>,
    /// Time routing takes to detect the beginning and the end of a dead link or switch.
    pub detection: Time,
    pub kind: FailureKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FailureKind {
    /// A cable is cut in both directions; packets queued or on the wire are lost.
    LinkDown(LinkIx),
    /// A cable runs at this fraction of its rate in both directions.
    LinkRate {
        link: LinkIx,
        /// Above 0, at most 1.
        fraction: f64,
    },
    /// The direction as given alone runs at this fraction of its rate, above 0 and at most 1.
    OneWayRate { link: LinkIx, fraction: f64 },
    /// One direction silently loses packets at random.
    RandomDrop { link: LinkIx, probability: f64 },
    /// A switch silently loses packets at random in any direction, each packet once.
    SwitchDrop { node: NodeIx, probability: f64 },
    /// A switch silently loses all packets of a fixed subset of (source, destination) pairs.
    Blackhole {
        node: NodeIx,
        /// Above 0, at most 1.
        fraction: f64,
        /// Restricts the loss to pairs from hosts of the first rack to hosts of the second.
        racks: Option<(u32, u32)>,
    },
    /// A switch dies with its cables; an OpenFlow switch loses its rules and its connection.
    SwitchDown(NodeIx),
    /// One direction of a cable is cut and loses its packets. Only the receiving end notices.
    OneWayDown(LinkIx),
    /// The control channel delivers and loses nothing until the fault ends; neither end notices.
    ChannelStall(NodeIx),
    /// The control connection breaks and loses messages; the switch reconnects after the fault.
    ChannelDown(NodeIx),
    /// The controller does nothing and has no connections until the fault ends.
    ControllerDown,
}

/// An effect of a failure. The engine knows effects and no kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effect {
    /// One direction of a cable loses everything. Routing detects it.
    Dead(LinkIx),
    /// One direction of a cable has a fraction of its rate. Routing detects it.
    Slow(LinkIx, f64),
    /// One direction of a cable loses packets with a probability, unnoticed.
    Lossy(LinkIx, f64),
    /// A node loses a fraction of the host pairs, perhaps between two racks only, unnoticed.
    Blackhole(NodeIx, f64, Option<(u32, u32)>),
    /// An OpenFlow switch loses its rules and its connection.
    Off(NodeIx),
    Channel(NodeIx, ChannelFault),
    ControllerDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelFault {
    Stalled,
    Cut,
}

/// When routing or the ends of a channel notice a failure.
enum Detection {
    Delayed,
    Never(&'static str),
    AtOnce,
}

impl FailureKind {
    pub(crate) fn effects(&self, topology: &Topology) -> Vec<Effect> {
        let both = |link: LinkIx| [link, link.reverse()];
        match *self {
            FailureKind::LinkDown(link) => both(link).map(Effect::Dead).to_vec(),
            FailureKind::LinkRate { link, fraction } => both(link).map(|link| Effect::Slow(link, fraction)).to_vec(),
            FailureKind::OneWayRate { link, fraction } => vec![Effect::Slow(link, fraction)],
            FailureKind::RandomDrop { link, probability } => vec![Effect::Lossy(link, probability)],
            // On the outgoing links only: every packet that passes a switch leaves it once.
            FailureKind::SwitchDrop { node, probability } => {
                topology.out_links(node).iter().map(|link| Effect::Lossy(*link, probability)).collect()
            }
            FailureKind::Blackhole { node, fraction, racks } => vec![Effect::Blackhole(node, fraction, racks)],
            FailureKind::SwitchDown(node) => {
                let links = topology.out_links(node).iter().copied().flat_map(both);
                links.map(Effect::Dead).chain([Effect::Off(node)]).collect()
            }
            FailureKind::OneWayDown(link) => vec![Effect::Dead(link)],
            FailureKind::ChannelStall(node) => vec![Effect::Channel(node, ChannelFault::Stalled)],
            FailureKind::ChannelDown(node) => vec![Effect::Channel(node, ChannelFault::Cut)],
            FailureKind::ControllerDown => vec![Effect::ControllerDown],
        }
    }

    /// Returns whether its link or switch exists, and its fraction or probability is in range.
    pub(crate) fn is_valid(&self, topology: &Topology) -> bool {
        let is_link = |link: LinkIx| link.ix() < topology.links().len();
        let is_node = |node: NodeIx| node.ix() < topology.nodes().len();
        match *self {
            FailureKind::LinkDown(link) | FailureKind::OneWayDown(link) => is_link(link),
            FailureKind::LinkRate { link, fraction } | FailureKind::OneWayRate { link, fraction } => {
                is_link(link) && fraction > 0.0 && fraction <= 1.0
            }
            FailureKind::RandomDrop { link, probability } => is_link(link) && (0.0..=1.0).contains(&probability),
            FailureKind::SwitchDrop { node, probability: share }
            | FailureKind::Blackhole { node, fraction: share, .. } => is_node(node) && (0.0..=1.0).contains(&share),
            FailureKind::SwitchDown(node) | FailureKind::ChannelStall(node) | FailureKind::ChannelDown(node) => {
                is_node(node) && topology.node(node).kind == NodeKind::Switch
            }
            FailureKind::ControllerDown => true,
        }
    }

    /// Returns whether the fault has no effect without a controller.
    pub fn needs_controller(&self) -> bool {
        matches!(self, FailureKind::ChannelStall(_) | FailureKind::ChannelDown(_) | FailureKind::ControllerDown)
    }

    /// Returns what fails, what happens to it, and who notices.
    fn describe(&self, topology: &Topology) -> (String, String, Detection) {
        let link = |link: &LinkIx| topology.link_name(*link);
        let name = |node: &NodeIx| topology.node(*node).name.clone();
        let unseen = Detection::Never("unseen by routing");
        match self {
            FailureKind::LinkDown(at) => (link(at), "down".to_owned(), Detection::Delayed),
            FailureKind::LinkRate { link: at, fraction } => {
                (link(at), format!("at {fraction} of its rate"), Detection::Delayed)
            }
            FailureKind::OneWayRate { link: at, fraction } => {
                (link(at), format!("at {fraction} of its rate in this direction"), Detection::Delayed)
            }
            FailureKind::RandomDrop { link: at, probability } => {
                (link(at), format!("loses {probability} of its packets"), unseen)
            }
            FailureKind::SwitchDrop { node, probability } => {
                (name(node), format!("loses {probability} of its packets"), unseen)
            }
            FailureKind::Blackhole { node, fraction, racks } => {
                let of = racks.map_or(String::new(), |(from, to)| format!(" from rack {from} to rack {to}"));
                (name(node), format!("loses {fraction} of the pairs{of}"), unseen)
            }
            FailureKind::SwitchDown(node) => (name(node), "down".to_owned(), Detection::Delayed),
            FailureKind::OneWayDown(at) => (link(at), "down in this direction".to_owned(), Detection::Delayed),
            FailureKind::ChannelStall(node) => {
                (format!("control channel of {}", name(node)), "stalled".to_owned(), Detection::Never("unseen"))
            }
            FailureKind::ChannelDown(node) => {
                (format!("control connection of {}", name(node)), "broken".to_owned(), Detection::AtOnce)
            }
            FailureKind::ControllerDown => ("controller".to_owned(), "down".to_owned(), Detection::AtOnce),
        }
    }
}

impl Failure {
    /// Returns what fails and, in a phrase, how and when.
    pub fn describe(&self, topology: &Topology) -> (String, String) {
        let (subject, what, detection) = self.kind.describe(topology);
        let until = self.until.map_or(String::new(), |until| format!(" until {until}"));
        let noticed = match detection {
            Detection::Delayed => format!("detected after {}", self.detection),
            Detection::Never(words) => words.to_owned(),
            Detection::AtOnce => "noticed at once".to_owned(),
        };
        (subject, format!("{what} from {}{until}, {noticed}", self.at))
    }
}

impl Effect {
    /// Returns whether routing detects the effect, after the delay of its failure.
    pub(crate) fn is_visible(self) -> bool {
        matches!(self, Effect::Dead(_) | Effect::Slow(..))
    }

    /// Returns whether it concerns control channels, the controller, or rules of switches.
    pub(crate) fn is_of_control(self) -> bool {
        matches!(self, Effect::Off(_) | Effect::Channel(..) | Effect::ControllerDown)
    }
}
