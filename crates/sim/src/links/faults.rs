//! A timetable of failure actions, and the part of the network state that routing has detected.

use net::{LinkIx, NodeIx, Topology};

use crate::failures::{ChannelFault, Effect, Failure};
use crate::numbering::Numbering;

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
    /// Each failure with its effects.
    failures: Vec<(Failure, Vec<Effect>)>,
    /// `(time, phase, failure)`, earliest first.
    timetable: Vec<(u64, Phase, usize)>,
    cursor: usize,
}

impl Faults {
    pub(crate) fn new(topology: &Topology, failures: &[Failure]) -> Faults {
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
        let failures = failures.iter().map(|failure| (failure.clone(), failure.kind.effects(topology))).collect();
        Faults { failures, timetable, cursor: 0 }
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self) -> Option<u64> {
        self.timetable.get(self.cursor).map(|(at, _, _)| *at)
    }

    pub(crate) fn due(&mut self, topology: &Topology, numbering: &Numbering, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some((_, phase, ix)) = self.timetable.get(self.cursor).copied().filter(|(at, _, _)| *at <= now) {
            self.cursor += 1;
            match phase {
                Phase::Noticed if self.is_visible(ix) => actions.push(Action::Reroute),
                Phase::Noticed => {}
                Phase::Begins | Phase::Ends => {
                    let effects = &self.failures[ix].1;
                    let begins = phase == Phase::Begins;
                    let change = |effect: &Effect| self.change(topology, numbering, now, (*effect, begins));
                    actions.extend(effects.iter().filter_map(change));
                    actions.extend(effects.iter().any(|effect| effect.is_of_control()).then_some(Action::Control));
                }
            }
        }
        actions
    }

    fn is_visible(&self, failure: usize) -> bool {
        self.failures[failure].1.iter().any(|effect| effect.is_visible())
    }

    fn change(
        &self,
        topology: &Topology,
        numbering: &Numbering,
        now: u64,
        (effect, begins): (Effect, bool),
    ) -> Option<Action> {
        match effect {
            Effect::Dead(link) if begins || self.is_dead(link, now) => Some(Action::Cut(link.0)),
            Effect::Dead(link) => Some(Action::Mend(link.0)),
            Effect::Slow(link, _) => {
                let full = topology.link(link).rate.as_bps();
                Some(Action::Rate(link.0, ((full as f64 * self.rate_fraction(link, now, false)) as u64).max(1)))
            }
            Effect::Lossy(link, _) => Some(Action::Loss(link.0, self.loss(link, now))),
            Effect::Blackhole(node, fraction, racks) => {
                Some(Action::Blackhole(numbering.of(node), begins.then_some(fraction), racks))
            }
            Effect::Off(_) | Effect::Channel(..) | Effect::ControllerDown => None,
        }
    }

    pub(crate) fn known(&self, topology: &Topology, now: u64) -> (Topology, Vec<bool>) {
        let mut alive = vec![true; topology.links().len()];
        self.dead(now, true).for_each(|link| alive[link.ix()] = false);
        let slowed = topology.with_links_changed(|ix, link| {
            let bps = link.rate.as_bps() as f64 * self.rate_fraction(ix, now, true);
            link.rate = net::Bandwidth::from_bps((bps as u64).max(1));
        });
        (slowed, alive)
    }

    /// Returns when a link changes rate, fails or returns, detected or not; for the bounds.
    pub(crate) fn change_times(&self) -> Vec<u64> {
        let changes = |(_, phase, ix): &&(u64, Phase, usize)| *phase != Phase::Noticed && self.is_visible(*ix);
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
        self.dead(now, false).for_each(|link| rates[link.ix()] = 0);
        rates
    }

    pub(crate) fn control(&self, nodes: &[NodeIx], now: u64) -> Vec<ControlFaults> {
        let mut faults = vec![ControlFaults::default(); nodes.len()];
        for effect in self.active(now, false) {
            for (node, faults) in nodes.iter().zip(&mut faults) {
                match effect {
                    Effect::Off(at) => faults.is_off |= at == *node,
                    Effect::Channel(at, ChannelFault::Cut) => faults.is_cut |= at == *node,
                    Effect::Channel(at, ChannelFault::Stalled) => faults.is_stalled |= at == *node,
                    Effect::ControllerDown => faults.is_cut = true,
                    _ => {}
                }
            }
        }
        faults
    }

    pub(crate) fn is_controller_down(&self, now: u64) -> bool {
        self.active(now, false).any(|effect| effect == Effect::ControllerDown)
    }

    /// Returns the effects at a time; `as_known` to routing, after the delay of detection.
    fn active(&self, now: u64, as_known: bool) -> impl Iterator<Item = Effect> {
        let active = self.failures.iter().filter(move |(failure, _)| is_active(failure, now, as_known));
        active.flat_map(|(_, effects)| effects.iter().copied())
    }

    fn dead(&self, now: u64, as_known: bool) -> impl Iterator<Item = LinkIx> {
        self.active(now, as_known).filter_map(|effect| if let Effect::Dead(link) = effect { Some(link) } else { None })
    }

    fn is_dead(&self, link: LinkIx, now: u64) -> bool {
        self.dead(now, false).any(|dead| dead == link)
    }

    /// Returns the probability of random loss on a link; `None` without such a fault.
    fn loss(&self, link: LinkIx, now: u64) -> Option<f64> {
        let survives = self.active(now, false).filter_map(|effect| match effect {
            Effect::Lossy(lossy, probability) if lossy == link => Some(1.0 - probability),
            _ => None,
        });
        survives.reduce(|a, b| a * b).map(|survives| 1.0 - survives)
    }

    fn rate_fraction(&self, direction: LinkIx, now: u64, as_known: bool) -> f64 {
        let fraction = |effect| match effect {
            Effect::Slow(link, fraction) if link == direction => fraction,
            _ => 1.0,
        };
        self.active(now, as_known).map(fraction).product()
    }
}

fn is_active(failure: &Failure, now: u64, as_known: bool) -> bool {
    let lag = if as_known { failure.detection } else { net::Time::ZERO };
    let begins = failure.at.saturating_add(lag).as_ps();
    let ends = failure.until.map_or(u64::MAX, |until| until.saturating_add(lag).as_ps());
    begins <= now && now < ends
}
