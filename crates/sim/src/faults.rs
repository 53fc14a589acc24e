//! Failures as a timetable of actions, and what routing knows of them.

use net::{LinkIx, NodeIx, Topology};

use crate::fabric::Numbering;
use crate::scenario::{Failure, FailureKind};

/// Something the engine does to the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// Cut a directed link.
    Cut(u32),
    /// Mend it.
    Mend(u32),
    /// Set its rate, bits per second.
    Rate(u32, u64),
    /// Start or end silent random loss.
    Loss(u32, Option<f64>),
    /// Start or end losing a share of pairs at a node.
    Blackhole(u32, Option<f64>, Option<(u32, u32)>),
    /// Routing looks again.
    Reroute,
    /// Channels, switches or the controller have come or gone: the control plane looks again.
    Control,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Begins,
    Ends,
    Noticed,
}

/// What ails a switch of OpenFlow and its channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ControlFaults {
    /// The switch has no power.
    pub(crate) is_off: bool,
    /// It cannot reach the controller.
    pub(crate) is_cut: bool,
    /// Nothing gets through.
    pub(crate) is_stalled: bool,
}

/// The timetable.
pub(crate) struct Faults {
    failures: Vec<Failure>,
    /// `(time, phase, failure)`, earliest first.
    timetable: Vec<(u64, Phase, usize)>,
    cursor: usize,
}

impl Faults {
    pub(crate) fn new(failures: &[Failure]) -> Faults {
        let mut timetable = Vec::new();
        for (ix, failure) in failures.iter().enumerate() {
            timetable.push((failure.at.as_ps(), Phase::Begins, ix));
            timetable.push((failure.at.saturating_add(failure.detection).as_ps(), Phase::Noticed, ix));
            if let Some(until) = failure.until {
                timetable.push((until.as_ps(), Phase::Ends, ix));
                timetable.push((until.saturating_add(failure.detection).as_ps(), Phase::Noticed, ix));
            }
        }
        timetable.sort_unstable();
        Faults { failures: failures.to_vec(), timetable, cursor: 0 }
    }

    /// When anything happens.
    pub(crate) fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.timetable.iter().map(|(at, _, _)| *at)
    }

    /// What is to be done by `now`, in order.
    pub(crate) fn due(&mut self, topology: &Topology, numbering: &Numbering, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some((_, phase, ix)) = self.timetable.get(self.cursor).copied().filter(|(at, _, _)| *at <= now) {
            self.cursor += 1;
            match phase {
                Phase::Noticed => {
                    if is_visible(&self.failures[ix].kind) {
                        actions.push(Action::Reroute);
                    }
                }
                Phase::Begins | Phase::Ends => self.change(topology, numbering, now, ix, phase, &mut actions),
            }
        }
        actions
    }

    fn change(
        &self,
        topology: &Topology,
        numbering: &Numbering,
        now: u64,
        ix: usize,
        phase: Phase,
        actions: &mut Vec<Action>,
    ) {
        let begins = phase == Phase::Begins;
        match &self.failures[ix].kind {
            FailureKind::LinkDown(_) | FailureKind::OneWayDown(_) | FailureKind::SwitchDown(_) => {
                for link in dead_links(topology, &self.failures[ix].kind) {
                    let is_down = self.is_dead(topology, link, now);
                    actions.push(if begins || is_down { Action::Cut(link.0) } else { Action::Mend(link.0) });
                }
            }
            FailureKind::LinkRate { link, .. } => {
                for direction in [*link, link.reverse()] {
                    let full = topology.link(direction).rate.as_bps();
                    let bps = (full as f64 * self.rate_fraction(direction, now, false)) as u64;
                    actions.push(Action::Rate(direction.0, bps.max(1)));
                }
            }
            FailureKind::RandomDrop { link, .. } => {
                actions.push(Action::Loss(link.0, self.loss(topology, *link, now)));
            }
            // Every packet that passes a switch leaves it once.
            FailureKind::SwitchDrop { node, .. } => {
                for link in topology.out_links(*node) {
                    actions.push(Action::Loss(link.0, self.loss(topology, *link, now)));
                }
            }
            FailureKind::Blackhole { node, fraction, racks } => {
                actions.push(Action::Blackhole(numbering.of(*node), begins.then_some(*fraction), *racks));
            }
            FailureKind::ChannelStall(_) | FailureKind::ChannelDown(_) | FailureKind::ControllerDown => {}
        }
        if self.failures[ix].kind.is_of_control() {
            actions.push(Action::Control);
        }
    }

    /// The network as routing believes it to be: rates, and which links are alive.
    pub(crate) fn known(&self, topology: &Topology, now: u64) -> (Topology, Vec<bool>) {
        let mut alive = vec![true; topology.links().len()];
        for failure in self.failures.iter().filter(|failure| is_active(failure, now, true)) {
            for link in dead_links(topology, &failure.kind) {
                alive[link.ix()] = false;
            }
        }
        let slowed = topology.with_links_changed(|ix, link| {
            let bps = link.rate.as_bps() as f64 * self.rate_fraction(ix, now, true);
            link.rate = net::Bandwidth::from_bps((bps as u64).max(1));
        });
        (slowed, alive)
    }

    /// When links really change rate, die or return, whether or not routing has noticed: what bounds go by.
    pub(crate) fn change_times(&self) -> Vec<u64> {
        let changes =
            |(_, phase, ix): &&(u64, Phase, usize)| *phase != Phase::Noticed && is_visible(&self.failures[*ix].kind);
        let mut times: Vec<u64> = self.timetable.iter().filter(changes).map(|(at, _, _)| *at).collect();
        times.dedup();
        times
    }

    /// The rate of every directed link as it is at `now`, bits per second; 0 for those that are down.
    pub(crate) fn rates(&self, topology: &Topology, now: u64) -> Vec<u64> {
        let link = |(ix, link): (usize, &net::Link)| {
            let fraction = self.rate_fraction(LinkIx(ix as u32), now, false);
            ((link.rate.as_bps() as f64 * fraction) as u64).max(1)
        };
        let mut rates: Vec<u64> = topology.links().iter().enumerate().map(link).collect();
        for failure in self.failures.iter().filter(|failure| is_active(failure, now, false)) {
            for link in dead_links(topology, &failure.kind) {
                rates[link.ix()] = 0;
            }
        }
        rates
    }

    /// What ails the control plane now, by switch: whether the switch is off, whether its channel is down, whether it is
    /// stalled, in the order of `nodes`.
    pub(crate) fn control(&self, nodes: &[NodeIx], now: u64) -> Vec<ControlFaults> {
        let mut faults = vec![ControlFaults::default(); nodes.len()];
        let place = |node: NodeIx| nodes.iter().position(|other| *other == node);
        for failure in self.failures.iter().filter(|failure| is_active(failure, now, false)) {
            match failure.kind {
                FailureKind::SwitchDown(node) => place(node).into_iter().for_each(|ix| faults[ix].is_off = true),
                FailureKind::ChannelDown(node) => place(node).into_iter().for_each(|ix| faults[ix].is_cut = true),
                FailureKind::ChannelStall(node) => place(node).into_iter().for_each(|ix| faults[ix].is_stalled = true),
                FailureKind::ControllerDown => faults.iter_mut().for_each(|faults| faults.is_cut = true),
                _ => {}
            }
        }
        faults
    }

    /// Whether the controller is down now.
    pub(crate) fn is_controller_down(&self, now: u64) -> bool {
        let is_down = |failure: &Failure| failure.kind == FailureKind::ControllerDown && is_active(failure, now, false);
        self.failures.iter().any(is_down)
    }

    fn is_dead(&self, topology: &Topology, link: LinkIx, now: u64) -> bool {
        let covers = |failure: &&Failure| dead_links(topology, &failure.kind).contains(&link);
        self.failures.iter().filter(covers).any(|failure| is_active(failure, now, false))
    }

    /// Probability that a packet sent over a link is lost to some random drop; `None` without one.
    fn loss(&self, topology: &Topology, link: LinkIx, now: u64) -> Option<f64> {
        let active = self.failures.iter().filter(|failure| is_active(failure, now, false));
        let survives = active.filter_map(|failure| match failure.kind {
            FailureKind::RandomDrop { link: lossy, probability } if lossy == link => Some(1.0 - probability),
            FailureKind::SwitchDrop { node, probability } if topology.link(link).from == node => {
                Some(1.0 - probability)
            }
            _ => None,
        });
        survives.reduce(|a, b| a * b).map(|survives| 1.0 - survives)
    }

    fn rate_fraction(&self, direction: LinkIx, now: u64, as_known: bool) -> f64 {
        self.failures
            .iter()
            .filter(|failure| is_active(failure, now, as_known))
            .filter_map(|failure| match failure.kind {
                FailureKind::LinkRate { link, fraction } if link == direction || link.reverse() == direction => {
                    Some(fraction)
                }
                _ => None,
            })
            .product()
    }
}

impl FailureKind {
    /// Whether it is of no consequence without a controller.
    pub fn is_of_channels(&self) -> bool {
        matches!(self, FailureKind::ChannelStall(_) | FailureKind::ChannelDown(_) | FailureKind::ControllerDown)
    }

    /// Whether the control plane has to look again when it begins or ends.
    fn is_of_control(&self) -> bool {
        self.is_of_channels() || matches!(self, FailureKind::SwitchDown(_))
    }
}

/// Whether routing can notice it at all.
fn is_visible(kind: &FailureKind) -> bool {
    let is_silent =
        matches!(kind, FailureKind::RandomDrop { .. } | FailureKind::SwitchDrop { .. } | FailureKind::Blackhole { .. });
    !is_silent && !kind.is_of_channels()
}

fn is_active(failure: &Failure, now: u64, as_known: bool) -> bool {
    let lag = if as_known { failure.detection } else { net::Time::ZERO };
    let begins = failure.at.saturating_add(lag).as_ps();
    let ends = failure.until.map_or(u64::MAX, |until| until.saturating_add(lag).as_ps());
    begins <= now && now < ends
}

/// Directed links a failure kills.
fn dead_links(topology: &Topology, kind: &FailureKind) -> Vec<LinkIx> {
    let both = |link: LinkIx| [link, link.reverse()];
    match kind {
        FailureKind::LinkDown(link) => both(*link).to_vec(),
        FailureKind::OneWayDown(link) => vec![*link],
        FailureKind::SwitchDown(node) => cables_of(topology, *node).flat_map(both).collect(),
        _ => Vec::new(),
    }
}

fn cables_of(topology: &Topology, node: NodeIx) -> impl Iterator<Item = LinkIx> + '_ {
    topology.out_links(node).iter().copied()
}
