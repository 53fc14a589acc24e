//! Links, found by sending LLDP out of every port and seeing where it comes back.
//!
//! A probe carries a random number that is good for one arrival: forged and replayed packets change nothing. The time
//! around the loop also gives the latency of the link: loop − half of the round trips to both switches (mechanisms.md
//! §10.7), where a negative answer means that the round trips have changed, and the other direction's latency is taken.

use std::collections::{BTreeMap, BTreeSet};

use net::{Stream, Time};
use openflow::frame::Lldp;
use openflow::{DatapathId, PortNo};

use crate::network::{CONTROLLER_MAC, End};

/// A live port that no probe has come back from for this long has no switch behind it.
pub(crate) const EDGE_AFTER: Time = Time::from_ms(500);
/// Time between two probes of a link that has not been confirmed since the latest round.
const ASK_AGAIN: Time = Time::from_ms(1000);
/// Probes of a port that may be under way at once.
const PROBES_OUT: usize = 4;
/// A new sample of a latency counts one part in this many.
const SMOOTHING: u64 = 8;

/// Whether a switch is connected, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Status {
    pub(crate) is_online: bool,
    pub(crate) since: Time,
}

/// What is known of links.
#[derive(Debug)]
pub(crate) struct Discovery {
    nonces: Stream,
    ports: BTreeMap<End, Port>,
    links: BTreeMap<(End, End), Confirmed>,
    rounds: Rounds,
    /// Whether latencies have been measured since this was last asked and cleared.
    pub(crate) has_measured: bool,
}

/// When ports are probed. Probes are lost where queues are full: what a round has not confirmed is asked again every
/// [`ASK_AGAIN`], long before links expire.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    /// When something is due next.
    next: Time,
    /// When all ports are probed next.
    next_full: Time,
    /// When they were probed last.
    since: Time,
    /// All are to be probed once more then: switches got ready that may not have heard the round before it.
    again: Time,
}

#[derive(Debug, Default)]
struct Port {
    probes: Vec<(u64, Time)>,
    first_probed: Option<Time>,
    /// Where probes out of it arrived.
    peer: Option<End>,
    /// Whether a link was seen here since the port came up.
    was_link: bool,
}

#[derive(Clone, Copy, Debug)]
struct Confirmed {
    at: Time,
    latency: Option<Time>,
    is_up: bool,
}

/// What a probe that came back tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) from: End,
    pub(crate) to: End,
    /// Whether the link was unknown or down.
    pub(crate) is_new: bool,
    /// Where the port led before.
    pub(crate) instead_of: Option<End>,
}

impl Discovery {
    pub(crate) fn new(seed: u64) -> Discovery {
        let nonces = Stream::new(seed, "discovery");
        let rounds = Rounds { next: Time::MAX, next_full: Time::MAX, since: Time::ZERO, again: Time::ZERO };
        Discovery { nonces, ports: BTreeMap::new(), links: BTreeMap::new(), rounds, has_measured: false }
    }

    /// When ports are to be probed next; `None` before the first switch.
    pub(crate) fn next_round(&self) -> Option<Time> {
        Some(self.rounds.next).filter(|at| *at < Time::MAX)
    }
    /// All ports are to be probed at `at`, whether or not they are before.
    pub(crate) fn want_round(&mut self, at: Time) {
        self.rounds.next = self.rounds.next.min(at);
        self.rounds.next_full = self.rounds.next_full.min(at);
        self.rounds.again = self.rounds.again.max(at);
    }
    /// The ports to probe now, of these that are up.
    pub(crate) fn round(&mut self, now: Time, interval: Time, live: impl Iterator<Item = End>) -> Vec<End> {
        let Rounds { next, next_full, since, again: wanted } = self.rounds;
        if next > now {
            return Vec::new();
        }
        let again = now.saturating_add(ASK_AGAIN.min(interval / 4));
        if next_full <= now {
            let next_full = if wanted > now { wanted } else { next_after(now, next_full, interval) };
            self.rounds = Rounds { next: again.min(next_full), next_full, since: now, again: wanted };
            return live.collect();
        }
        let late: BTreeSet<End> = self
            .links
            .iter()
            .filter_map(|((from, _), link)| (link.is_up && link.at < since).then_some(*from))
            .collect();
        let late: Vec<End> = live.filter(|end| late.contains(end)).collect();
        self.rounds.next = if late.is_empty() { next_full } else { again.min(next_full) };
        late
    }

    /// A packet to send out of a port.
    pub(crate) fn probe(&mut self, now: Time, end: End, ttl_s: u16) -> Vec<u8> {
        let nonce = self.nonces.bits();
        let port = self.ports.entry(end).or_default();
        port.first_probed.get_or_insert(now);
        if port.probes.len() == PROBES_OUT {
            port.probes.remove(0);
        }
        port.probes.push((nonce, now));
        Lldp { datapath: end.0, port: end.1, ttl_s, nonce }.build(CONTROLLER_MAC)
    }

    /// A probe arrived at `to`; `rtt` knows round trips to switches. `None` if it is not one of ours, or was seen before.
    pub(crate) fn heard(
        &mut self,
        now: Time,
        to: End,
        frame: &[u8],
        rtt: impl Fn(DatapathId) -> Option<Time>,
    ) -> Option<Found> {
        let lldp = Lldp::parse(frame).ok()?;
        let from = (lldp.datapath, lldp.port);
        if from.0 == to.0 {
            return None; // A cable from a switch to itself carries nobody's traffic.
        }
        let port = self.ports.get_mut(&from)?;
        let position = port.probes.iter().position(|(nonce, _)| *nonce == lldp.nonce)?;
        let (_, sent) = port.probes.remove(position);
        let instead_of = port.peer.replace(to).filter(|before| *before != to);
        port.was_link = true;
        self.ports.entry(to).or_default().was_link = true;
        if let Some(link) = instead_of.and_then(|before| self.links.get_mut(&(from, before))) {
            link.is_up = false;
        }
        let reverse = self.links.get(&(to, from)).and_then(|link| link.latency);
        let before = self.links.get(&(from, to)).copied();
        let latency = rtt(from.0).zip(rtt(to.0)).map(|(near, far)| {
            let sample = one_way(now.saturating_sub(sent), near, far).or(reverse).unwrap_or(Time::ZERO);
            before.and_then(|link| link.latency).map_or(sample, |mean| smooth(mean, sample))
        });
        self.has_measured |= latency.is_some();
        let latency = latency.or(before.and_then(|link| link.latency));
        self.links.insert((from, to), Confirmed { at: now, latency, is_up: true });
        Some(Found { from, to, is_new: before.is_none_or(|link| !link.is_up), instead_of })
    }

    /// Measured latency of a link.
    pub(crate) fn latency(&self, from: End, to: End) -> Option<Time> {
        self.links.get(&(from, to))?.latency
    }

    /// A port went down: the cable behind it carries nothing, either way. The links that were up.
    pub(crate) fn port_down(&mut self, end: End) -> Vec<(End, End)> {
        self.ports.remove(&end);
        let touches = |(ends, link): (&(End, End), &mut Confirmed)| {
            let is_hit = link.is_up && (ends.0 == end || ends.1 == end);
            link.is_up &= !is_hit;
            is_hit.then_some(*ends)
        };
        self.links.iter_mut().filter_map(touches).collect()
    }

    /// Whether a port has no switch behind it, as far as can be told now.
    pub(crate) fn is_edge(&self, now: Time, end: End) -> bool {
        self.edge_from(end).is_some_and(|from| from <= now)
    }
    /// Whether a link was seen at a port since it came up.
    pub(crate) fn is_link(&self, end: End) -> bool {
        self.ports.get(&end).is_some_and(|port| port.was_link)
    }
    /// When a port will count as having no switch behind it.
    fn edge_from(&self, end: End) -> Option<Time> {
        let port = self.ports.get(&end).filter(|port| !port.was_link)?;
        port.first_probed.map(|at| at.saturating_add(EDGE_AFTER))
    }
    /// The next time after `now` that a port becomes an edge port.
    pub(crate) fn next_edge(&self, now: Time) -> Option<Time> {
        self.ports.keys().filter_map(|end| self.edge_from(*end)).filter(|at| *at > now).min()
    }

    /// Links not confirmed for `timeout`. While one end is not connected nobody could confirm them: they last that long
    /// from the loss of the connection; and while no switch is connected at all, it is the controller that is cut off.
    pub(crate) fn expire(
        &mut self,
        now: Time,
        timeout: Time,
        status: &BTreeMap<DatapathId, Status>,
    ) -> Vec<(End, End)> {
        let mut gone = Vec::new();
        for (ends, link) in &mut self.links {
            if link.is_up && expiry(ends, link, timeout, status).is_some_and(|at| at <= now) {
                link.is_up = false;
                gone.push(*ends);
            }
        }
        gone
    }
    /// When the next link will expire.
    pub(crate) fn next_expiry(&self, timeout: Time, status: &BTreeMap<DatapathId, Status>) -> Option<Time> {
        let up = self.links.iter().filter(|(_, link)| link.is_up);
        up.filter_map(|(ends, link)| expiry(ends, link, timeout, status)).min()
    }
}

fn expiry(ends: &(End, End), link: &Confirmed, timeout: Time, status: &BTreeMap<DatapathId, Status>) -> Option<Time> {
    let (a, b) = (status.get(&ends.0.0)?, status.get(&ends.1.0)?);
    let since = match (a.is_online, b.is_online) {
        (true, true) => link.at.max(a.since).max(b.since),
        _ if !status.values().any(|status| status.is_online) => return None,
        (false, true) => link.at.max(a.since),
        (true, false) => link.at.max(b.since),
        (false, false) => link.at.max(a.since.min(b.since)),
    };
    Some(since.saturating_add(timeout))
}

/// The time `interval` after the last one, or after now if that has passed.
pub(crate) fn next_after(now: Time, due: Time, interval: Time) -> Time {
    let next = due.saturating_add(interval);
    if next > now { next } else { now.saturating_add(interval) }
}

/// Latency of a link from the time around the loop controller → switch → link → switch → controller.
fn one_way(around: Time, near_rtt: Time, far_rtt: Time) -> Option<Time> {
    around.as_ps().checked_sub(near_rtt.as_ps() / 2 + far_rtt.as_ps() / 2).map(Time::from_ps)
}

fn smooth(mean: Time, sample: Time) -> Time {
    let (mean, sample) = (mean.as_ps() as i128, sample.as_ps() as i128);
    Time::from_ps((mean + (sample - mean) / i128::from(SMOOTHING)) as u64)
}

/// A port a host may be reached through.
pub(crate) fn is_physical(port: PortNo) -> bool {
    port.0 > 0 && !port.is_reserved()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: End = (DatapathId(1), PortNo(1));
    const B: End = (DatapathId(2), PortNo(1));

    fn ms(ms: u64) -> Time {
        Time::from_ms(ms)
    }
    fn rtts(datapath: DatapathId) -> Option<Time> {
        Some(if datapath == A.0 { ms(20) } else { ms(40) })
    }

    /// mechanisms.md §10, oracle 7.
    #[test]
    fn a_loop_of_60_ms_and_round_trips_of_20_and_40_are_a_link_of_30() {
        let mut discovery = Discovery::new(1);
        let probe = discovery.probe(ms(100), A, 120);
        let found = discovery.heard(ms(160), B, &probe, rtts).unwrap();
        assert_eq!((found.from, found.to, found.is_new), (A, B, true));
        assert_eq!(discovery.latency(A, B), Some(ms(30)));
        // A negative sample takes the other direction's, and samples are averaged with weight 1/8.
        let back = discovery.probe(ms(200), B, 120);
        discovery.heard(ms(210), A, &back, rtts).unwrap();
        assert_eq!(discovery.latency(B, A), Some(ms(30)));
        let again = discovery.probe(ms(300), A, 120);
        discovery.heard(ms(368), B, &again, rtts).unwrap();
        assert_eq!(discovery.latency(A, B), Some(ms(31)));
    }

    #[test]
    fn forged_and_repeated_probes_are_ignored() {
        let mut discovery = Discovery::new(1);
        let probe = discovery.probe(ms(0), A, 120);
        let forged = Lldp { datapath: A.0, port: A.1, ttl_s: 120, nonce: 4711 }.build(CONTROLLER_MAC);
        assert_eq!(discovery.heard(ms(1), B, &forged, rtts), None);
        assert!(discovery.heard(ms(1), B, &probe, rtts).is_some());
        assert_eq!(discovery.heard(ms(2), (DatapathId(3), PortNo(1)), &probe, rtts), None, "replayed elsewhere");
        assert_eq!(discovery.heard(ms(2), B, &probe[..20], rtts), None, "cut");
        assert_eq!(discovery.heard(ms(2), B, b"", rtts), None);
    }

    #[test]
    fn what_a_round_has_not_confirmed_is_asked_again_every_second() {
        let (mut discovery, interval) = (Discovery::new(1), Time::from_s(15));
        let round = |discovery: &mut Discovery, at| discovery.round(ms(at), interval, [A, B].into_iter());
        assert_eq!(discovery.next_round(), None);
        discovery.want_round(ms(100));
        assert_eq!(round(&mut discovery, 99), []);
        assert_eq!(round(&mut discovery, 100), [A, B]);
        let [there, back] = [A, B].map(|end| discovery.probe(ms(100), end, 120));
        discovery.heard(ms(110), B, &there, rtts);
        discovery.heard(ms(110), A, &back, rtts);
        assert_eq!(discovery.next_round(), Some(ms(1100)));
        assert_eq!((round(&mut discovery, 1100), discovery.next_round()), (vec![], Some(ms(15_100))));
        // Of the next round, one probe is lost, and so is the one after it.
        assert_eq!(round(&mut discovery, 15_100), [A, B]);
        let back = discovery.probe(ms(15_100), B, 120);
        discovery.heard(ms(15_110), A, &back, rtts);
        assert_eq!(round(&mut discovery, 16_100), [A]);
        assert_eq!(round(&mut discovery, 17_100), [A]);
        let there = discovery.probe(ms(17_100), A, 120);
        discovery.heard(ms(17_110), B, &there, rtts);
        assert_eq!((round(&mut discovery, 18_100), discovery.next_round()), (vec![], Some(ms(30_100))));
    }

    #[test]
    fn switches_that_come_after_others_get_a_round_of_their_own() {
        let (mut discovery, interval) = (Discovery::new(1), Time::from_s(15));
        let round = |discovery: &mut Discovery, at| discovery.round(ms(at), interval, [A, B].into_iter()).len();
        discovery.want_round(ms(250));
        discovery.want_round(ms(380));
        assert_eq!((round(&mut discovery, 250), discovery.next_round()), (2, Some(ms(380))));
        assert_eq!(round(&mut discovery, 380), 2);
        assert_eq!((round(&mut discovery, 1380), discovery.next_round()), (0, Some(ms(15_380))));
    }

    #[test]
    fn a_port_is_an_edge_port_when_its_probe_was_not_heard_of() {
        let mut discovery = Discovery::new(1);
        let probe = discovery.probe(ms(0), A, 120);
        assert!(!discovery.is_edge(ms(499), A) && discovery.is_edge(ms(500), A));
        discovery.heard(ms(600), B, &probe, rtts);
        assert!(!discovery.is_edge(ms(9_999), A) && !discovery.is_edge(ms(9_999), B));
    }

    #[test]
    fn links_expire_only_while_somebody_could_confirm_them() {
        let (timeout, mut discovery) = (Time::from_s(35), Discovery::new(1));
        let probe = discovery.probe(ms(0), A, 120);
        discovery.heard(ms(10), B, &probe, rtts);
        let on = |since| Status { is_online: true, since };
        let off = |since| Status { is_online: false, since };
        let status = |a, b| BTreeMap::from([(A.0, a), (B.0, b)]);
        let after = |from| Some(ms(from) + timeout);
        assert_eq!(discovery.next_expiry(timeout, &status(on(ms(0)), on(ms(0)))), after(10));
        assert_eq!(discovery.next_expiry(timeout, &status(on(ms(0)), on(ms(500)))), after(500), "reconnected");
        assert_eq!(discovery.next_expiry(timeout, &status(on(ms(0)), off(ms(700)))), after(700));
        assert_eq!(discovery.next_expiry(timeout, &status(off(ms(600)), off(ms(700)))), None, "cut off");
        assert_eq!(discovery.expire(ms(36_000), timeout, &status(on(ms(0)), on(ms(0)))), [(A, B)]);
        assert_eq!(discovery.port_down(B), [], "it is down already");
    }
}
