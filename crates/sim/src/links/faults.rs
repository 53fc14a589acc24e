//! A timetable of failure actions, and the part of the network state that routing has detected.

use net::{LinkIx, NodeIx, Topology};

use crate::scenario::{Failure, FailureKind};
use crate::switching::fabric::Numbering;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Cut(u32),
    Mend(u32),
    Rate(u32, u64),
    /// Starts (`Some`) or ends (`None`) silent random loss, as a probability.
    Loss(u32, Option<f64>),
    /// Starts or ends the loss of a share of host pairs at a node, perhaps between two racks only.
    Blackhole(u32, Option<f64>, Option<(u32, u32)>),
    Reroute,
    /// Applies changed faults of channels, switches or the controller to the control plane.
    Control,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Begins,
    Ends,
    Noticed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ControlFaults {
    pub(crate) is_off: bool,
    pub(crate) is_cut: bool,
    /// Whether the channel delivers nothing; it loses nothing either.
    pub(crate) is_stalled: bool,
}

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

    pub(crate) fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.timetable.iter().map(|(at, _, _)| *at)
    }

    pub(crate) fn due(&mut self, topology: &Topology, numbering: &Numbering, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some((_, phase, ix)) = self.timetable.get(self.cursor).copied().filter(|(at, _, _)| *at <= now) {
            self.cursor += 1;
            match phase {
                Phase::Noticed if is_visible(&self.failures[ix].kind) => actions.push(Action::Reroute),
                Phase::Noticed => {}
                Phase::Begins => self.change(topology, numbering, now, (ix, true), &mut actions),
                Phase::Ends => self.change(topology, numbering, now, (ix, false), &mut actions),
            }
        }
        actions
    }

    fn change(&self, topology: &Topology, numbering: &Numbering, now: u64, fault: (usize, bool), to: &mut Vec<Action>) {
        let ((ix, begins), actions) = (fault, to);
        match &self.failures[ix].kind {
            FailureKind::LinkDown(_) | FailureKind::OneWayDown(_) | FailureKind::SwitchDown(_) => {
                for link in dead_links(topology, &self.failures[ix].kind) {
                    let is_down = self.dead(topology, now, false).any(|dead| dead == link);
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
            // On the outgoing links only: every packet that passes a switch leaves it once.
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
        let kind = &self.failures[ix].kind;
        if kind.needs_controller() || matches!(kind, FailureKind::SwitchDown(_)) {
            actions.push(Action::Control);
        }
    }

    pub(crate) fn known(&self, topology: &Topology, now: u64) -> (Topology, Vec<bool>) {
        let mut alive = vec![true; topology.links().len()];
        self.dead(topology, now, true).for_each(|link| alive[link.ix()] = false);
        let slowed = topology.with_links_changed(|ix, link| {
            let bps = link.rate.as_bps() as f64 * self.rate_fraction(ix, now, true);
            link.rate = net::Bandwidth::from_bps((bps as u64).max(1));
        });
        (slowed, alive)
    }

    /// Returns when a link changes rate, fails or returns, detected or not; for the bounds.
    pub(crate) fn change_times(&self) -> Vec<u64> {
        let changes =
            |(_, phase, ix): &&(u64, Phase, usize)| *phase != Phase::Noticed && is_visible(&self.failures[*ix].kind);
        let mut times: Vec<u64> = self.timetable.iter().filter(changes).map(|(at, _, _)| *at).collect();
        times.dedup();
        times
    }

    /// Returns the rate of every directed link, bits per second; 0 for a link that is down.
    pub(crate) fn rates(&self, topology: &Topology, now: u64) -> Vec<u64> {
        let link = |(ix, link): (usize, &net::Link)| {
            let fraction = self.rate_fraction(LinkIx(ix as u32), now, false);
            ((link.rate.as_bps() as f64 * fraction) as u64).max(1)
        };
        let mut rates: Vec<u64> = topology.links().iter().enumerate().map(link).collect();
        self.dead(topology, now, false).for_each(|link| rates[link.ix()] = 0);
        rates
    }

    pub(crate) fn control(&self, nodes: &[NodeIx], now: u64) -> Vec<ControlFaults> {
        let mut faults = vec![ControlFaults::default(); nodes.len()];
        for failure in self.active(now, false) {
            for (node, faults) in nodes.iter().zip(&mut faults) {
                match failure.kind {
                    FailureKind::SwitchDown(at) => faults.is_off |= at == *node,
                    FailureKind::ChannelDown(at) => faults.is_cut |= at == *node,
                    FailureKind::ChannelStall(at) => faults.is_stalled |= at == *node,
                    FailureKind::ControllerDown => faults.is_cut = true,
                    _ => {}
                }
            }
        }
        faults
    }

    pub(crate) fn is_controller_down(&self, now: u64) -> bool {
        self.active(now, false).any(|failure| failure.kind == FailureKind::ControllerDown)
    }

    fn active(&self, now: u64, as_known: bool) -> impl Iterator<Item = &Failure> {
        self.failures.iter().filter(move |failure| {
            let lag = if as_known { failure.detection } else { net::Time::ZERO };
            let ends = failure.until.map_or(u64::MAX, |until| until.saturating_add(lag).as_ps());
            failure.at.saturating_add(lag).as_ps() <= now && now < ends
        })
    }

    fn dead(&self, topology: &Topology, now: u64, as_known: bool) -> impl Iterator<Item = LinkIx> {
        self.active(now, as_known).flat_map(|failure| dead_links(topology, &failure.kind))
    }

    /// Returns the probability of random loss on a link; `None` without such a fault.
    fn loss(&self, topology: &Topology, link: LinkIx, now: u64) -> Option<f64> {
        let active = self.active(now, false);
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
        let fraction = |failure: &Failure| match failure.kind {
            FailureKind::LinkRate { link, fraction } if link == direction || link.reverse() == direction => fraction,
            _ => 1.0,
        };
        self.active(now, as_known).map(fraction).product()
    }
}

impl FailureKind {
    /// Returns whether the fault has no effect without a controller.
    pub fn needs_controller(&self) -> bool {
        matches!(self, FailureKind::ChannelStall(_) | FailureKind::ChannelDown(_) | FailureKind::ControllerDown)
    }
}

fn is_visible(kind: &FailureKind) -> bool {
    let is_silent =
        matches!(kind, FailureKind::RandomDrop { .. } | FailureKind::SwitchDrop { .. } | FailureKind::Blackhole { .. });
    !is_silent && !kind.needs_controller()
}

fn dead_links(topology: &Topology, kind: &FailureKind) -> Vec<LinkIx> {
    let both = |link: LinkIx| [link, link.reverse()];
    match kind {
        FailureKind::LinkDown(link) => both(*link).to_vec(),
        FailureKind::OneWayDown(link) => vec![*link],
        FailureKind::SwitchDown(node) => topology.out_links(*node).iter().copied().flat_map(both).collect(),
        _ => Vec::new(),
    }
}
