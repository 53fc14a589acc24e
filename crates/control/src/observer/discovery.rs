//! Link discovery: the controller sends LLDP frames out of every port and observes where they
//! arrive.
//!
//! A probe carries a nonce that only the holder of the key can compute (SipHash-2-4 of switch, port
//! and a counter). It is valid for one arrival, and for [`PROBE_LIFETIME`], so forged, stored and
//! replayed packets have no effect. A port with hosts becomes a port with a link only when probes
//! have crossed in both directions, so a host that receives probes but cannot send any has no
//! effect. Two hosts that relay each other's probes look like a cable, and no nonce distinguishes
//! them: this is prevented by the configured role of their ports ([`PortRole::Host`]). The time
//! around the loop also gives the latency of the link: loop − half of the round trips to both
//! switches (mechanisms.md §10.7). If the result is negative, the round trips have changed, and the
//! latency of the other direction is used.

use std::collections::{BTreeMap, BTreeSet};

use std::hash::Hasher as _;

use net::Time;
use openflow::frame::Lldp;
use openflow::{DatapathId, PortNo};
use siphasher::sip::SipHasher24;

use super::network::CONTROLLER_MAC;
use crate::{PortRole, PortRoles, SwitchPort};

/// Time without a returned probe after which a live port counts as an edge port.
pub(crate) const EDGE_AFTER: Time = Time::from_ms(500);
/// Time between two probes of a link that the latest round has not confirmed.
const ASK_AGAIN: Time = Time::from_ms(1000);
const PROBES_OUT: usize = 4;
/// Lifetime of a probe; later arrivals are ignored, so that probes cannot be stored and replayed.
const PROBE_LIFETIME: Time = Time::from_s(5);
/// Inverse weight of a new latency sample in the average.
const SMOOTHING: u64 = 8;

/// Connection status of a switch, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Status {
    pub(crate) is_online: bool,
    pub(crate) since: Time,
}

#[derive(Debug)]
pub(crate) struct Discovery {
    key: [u8; 16],
    roles: PortRoles,
    probe_count: u64,
    ports: BTreeMap<SwitchPort, Port>,
    links: BTreeMap<(SwitchPort, SwitchPort), Confirmed>,
    rounds: Rounds,
    /// Whether latencies were measured since this was last cleared.
    pub(crate) has_measured: bool,
    /// Whether the time at which a port becomes an edge port may have changed since this was last
    /// cleared.
    pub(crate) has_new_edge_times: bool,
}

/// Times of probes. Probes are lost in full queues: ports that a round has not confirmed are probed
/// again every [`ASK_AGAIN`], long before links expire.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    next: Time,
    next_full: Time,
    /// When all ports were probed last.
    since: Time,
    /// When to probe all ports once more: switches that became ready may have missed the round
    /// before.
    again: Time,
}

#[derive(Debug, Default)]
struct Port {
    probes: Vec<(u64, Time)>,
    first_probed: Option<Time>,
    /// Where probes out of this port arrived.
    peer: Option<SwitchPort>,
    /// Whether the port had a link since it came up. Cleared when its last link expires: the peer
    /// need not be a switch then.
    was_link: bool,
    /// Where and when the latest probe out of this port arrived that made no link, because hosts
    /// are known at one end.
    one_way: Option<(SwitchPort, Time)>,
}

#[derive(Clone, Copy, Debug)]
struct Confirmed {
    at: Time,
    latency: Option<Time>,
    is_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    Link(Found),
    /// No link yet: hosts are known at one end, and a probe in the other direction, out of this
    /// port, must arrive first.
    OneWay(SwitchPort),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) from: SwitchPort,
    pub(crate) to: SwitchPort,
    /// Whether the link was unknown or down.
    pub(crate) is_new: bool,
    pub(crate) instead_of: Option<SwitchPort>,
}

impl Discovery {
    pub(crate) fn new(key: [u8; 16], roles: PortRoles) -> Discovery {
        let rounds = Rounds { next: Time::MAX, next_full: Time::MAX, since: Time::ZERO, again: Time::ZERO };
        let (ports, links) = (BTreeMap::new(), BTreeMap::new());
        Discovery { key, roles, probe_count: 0, ports, links, rounds, has_measured: false, has_new_edge_times: false }
    }

    /// Returns a number that cannot be predicted without the key, even from many others.
    fn next_nonce(&mut self, end: SwitchPort) -> u64 {
        self.probe_count += 1;
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(end.0.0);
        hasher.write_u32(end.1.0);
        hasher.write_u64(self.probe_count);
        hasher.finish()
    }

    /// Returns when ports are probed next; `None` before the first switch.
    pub(crate) fn next_round(&self) -> Option<Time> {
        Some(self.rounds.next).filter(|at| *at < Time::MAX)
    }
    pub(crate) fn is_round_due(&self, now: Time) -> bool {
        self.rounds.next <= now
    }
    /// Schedules a probe of all ports at `at`, in addition to earlier ones.
    pub(crate) fn schedule_round(&mut self, at: Time) {
        self.rounds.next = self.rounds.next.min(at);
        self.rounds.next_full = self.rounds.next_full.min(at);
        self.rounds.again = self.rounds.again.max(at);
    }
    pub(crate) fn round(
        &mut self,
        now: Time,
        interval: Time,
        live: impl Iterator<Item = SwitchPort>,
    ) -> Vec<SwitchPort> {
        if !self.is_round_due(now) {
            return Vec::new();
        }
        let Rounds { next_full, since, again: wanted, .. } = self.rounds;
        let again = now.saturating_add(ASK_AGAIN.min(interval / 4));
        if next_full <= now {
            let next_full = if wanted > now { wanted } else { next_after(now, next_full, interval) };
            self.rounds = Rounds { next: again.min(next_full), next_full, since: now, again: wanted };
            return live.collect();
        }
        let late: BTreeSet<SwitchPort> = self
            .links
            .iter()
            .filter_map(|((from, _), link)| (link.is_up && link.at < since).then_some(*from))
            .collect();
        let late: Vec<SwitchPort> = live.filter(|end| late.contains(end)).collect();
        self.rounds.next = if late.is_empty() { next_full } else { again.min(next_full) };
        late
    }

    pub(crate) fn probe(&mut self, now: Time, end: SwitchPort, ttl_s: u16) -> Vec<u8> {
        let nonce = self.next_nonce(end);
        let port = self.ports.entry(end).or_default();
        self.has_new_edge_times |= port.first_probed.is_none();
        port.first_probed.get_or_insert(now);
        if port.probes.len() == PROBES_OUT {
            port.probes.remove(0);
        }
        port.probes.push((nonce, now));
        Lldp { datapath: end.0, port: end.1, ttl_s, nonce }.build(CONTROLLER_MAC)
    }

    /// Handles a probe that arrived at `to`. `rtt` returns round trips to switches, and `has_hosts`
    /// whether hosts are known at a port. Returns `None` if the probe is forged, expired, or
    /// repeated.
    pub(crate) fn heard(
        &mut self,
        now: Time,
        to: SwitchPort,
        frame: &[u8],
        rtt: impl Fn(DatapathId) -> Option<Time>,
        has_hosts: impl Fn(SwitchPort) -> bool,
    ) -> Option<Heard> {
        let lldp = Lldp::parse(frame).ok()?;
        let from = (lldp.datapath, lldp.port);
        if from.0 == to.0 {
            return None; // A cable from a switch to itself carries no traffic.
        }
        let port = self.ports.get_mut(&from)?;
        let position = port.probes.iter().position(|(nonce, _)| *nonce == lldp.nonce)?;
        let (_, sent) = port.probes.remove(position);
        if now > sent.saturating_add(PROBE_LIFETIME) {
            return None;
        }
        let is_up = self.links.get(&(from, to)).is_some_and(|link| link.is_up);
        if !is_up && (has_hosts(from) || has_hosts(to)) && !self.has_crossed(to, from, now) {
            self.ports.entry(from).or_default().one_way = Some((to, now));
            return Some(Heard::OneWay(to));
        }
        let port = self.ports.entry(from).or_default();
        port.one_way = None;
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
        Some(Heard::Link(Found { from, to, is_new: before.is_none_or(|link| !link.is_up), instead_of }))
    }

    /// Returns whether a probe has crossed from one port to another within the lifetime of a probe.
    fn has_crossed(&self, from: SwitchPort, to: SwitchPort, now: Time) -> bool {
        let one_way = self.ports.get(&from).and_then(|port| port.one_way);
        let one_way = one_way.filter(|(end, _)| *end == to).map(|(_, at)| at);
        let link = self.links.get(&(from, to)).filter(|link| link.is_up).map(|link| link.at);
        one_way.max(link).is_some_and(|at| now <= at.saturating_add(PROBE_LIFETIME))
    }

    pub(crate) fn latency(&self, from: SwitchPort, to: SwitchPort) -> Option<Time> {
        self.links.get(&(from, to))?.latency
    }

    /// Handles a port that went down: its links fail in both directions. Returns those that were
    /// up.
    pub(crate) fn port_down(&mut self, end: SwitchPort) -> Vec<(SwitchPort, SwitchPort)> {
        self.ports.remove(&end);
        let touches = |(ends, link): (&(SwitchPort, SwitchPort), &mut Confirmed)| {
            let is_hit = link.is_up && (ends.0 == end || ends.1 == end);
            link.is_up &= !is_hit;
            is_hit.then_some(*ends)
        };
        self.links.iter_mut().filter_map(touches).collect()
    }

    pub(crate) fn is_edge(&self, now: Time, end: SwitchPort) -> bool {
        self.edge_from(end).is_some_and(|from| from <= now)
    }
    pub(crate) fn role(&self, end: SwitchPort) -> PortRole {
        self.roles.of(end)
    }
    /// Returns whether the port had a link since it came up, or is configured as the end of one.
    pub(crate) fn is_link(&self, end: SwitchPort) -> bool {
        self.role(end) == PortRole::Link || self.had_link(end)
    }
    fn had_link(&self, end: SwitchPort) -> bool {
        self.ports.get(&end).is_some_and(|port| port.was_link)
    }
    /// Returns whether a link may be found at a port that can have hosts.
    pub(crate) fn may_be_link(&self, end: SwitchPort) -> bool {
        self.role(end) == PortRole::Either
    }
    /// Returns whether a switch that discovery has not found may be behind a port.
    pub(crate) fn may_be_unknown_link(&self, end: SwitchPort) -> bool {
        self.role(end) != PortRole::Host && !self.had_link(end)
    }
    /// Returns from when on a port without a link counts as an edge port; `None` if it never does.
    pub(crate) fn edge_from(&self, end: SwitchPort) -> Option<Time> {
        match self.role(end) {
            PortRole::Host => return Some(Time::ZERO),
            PortRole::Link => return None,
            PortRole::Either => {}
        }
        let port = self.ports.get(&end).filter(|port| !port.was_link)?;
        port.first_probed.map(|at| at.saturating_add(EDGE_AFTER))
    }
    /// Returns the next time after `now` at which a port becomes an edge port.
    pub(crate) fn next_edge(&self, now: Time) -> Option<Time> {
        self.ports.keys().filter_map(|end| self.edge_from(*end)).filter(|at| *at > now).min()
    }

    /// Expires links that were not confirmed for `timeout`. A link with a disconnected end cannot
    /// be confirmed: its timeout starts when the connection is lost. While no switch is connected,
    /// the controller itself is cut off, and no link expires.
    pub(crate) fn expire(
        &mut self,
        now: Time,
        timeout: Time,
        status: &BTreeMap<DatapathId, Status>,
    ) -> Vec<(SwitchPort, SwitchPort)> {
        let mut gone = Vec::new();
        for (ends, link) in &mut self.links {
            if link.is_up && expiry(ends, link, timeout, status).is_some_and(|at| at <= now) {
                link.is_up = false;
                gone.push(*ends);
            }
        }
        // Links of a disconnected switch are still behind these ports: no probe could confirm them.
        let is_online = |end: &SwitchPort| status.get(&end.0).is_some_and(|status| status.is_online);
        for (from, to) in gone.iter().filter(|(from, to)| is_online(from) && is_online(to)) {
            self.age_port(now, *from);
            self.age_port(now, *to);
        }
        gone
    }

    /// Handles the expiry of a link of a port. After the last one, hosts may be at the port.
    fn age_port(&mut self, now: Time, end: SwitchPort) {
        let has_link = self.links.iter().any(|(ends, link)| link.is_up && (ends.0 == end || ends.1 == end));
        if let Some(port) = self.ports.get_mut(&end).filter(|_| !has_link) {
            port.was_link = false;
            port.first_probed = Some(now);
            self.has_new_edge_times = true;
        }
    }
    pub(crate) fn next_expiry(&self, timeout: Time, status: &BTreeMap<DatapathId, Status>) -> Option<Time> {
        let up = self.links.iter().filter(|(_, link)| link.is_up);
        up.filter_map(|(ends, link)| expiry(ends, link, timeout, status)).min()
    }
}

fn expiry(
    ends: &(SwitchPort, SwitchPort),
    link: &Confirmed,
    timeout: Time,
    status: &BTreeMap<DatapathId, Status>,
) -> Option<Time> {
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

/// Returns the time `interval` after `due`, or after now if that has passed.
pub(crate) fn next_after(now: Time, due: Time, interval: Time) -> Time {
    let next = due.saturating_add(interval);
    if next > now { next } else { now.saturating_add(interval) }
}

/// Returns the latency of a link from the time around the loop controller → switch → link → switch
/// → controller.
fn one_way(around: Time, near_rtt: Time, far_rtt: Time) -> Option<Time> {
    around.as_ps().checked_sub(near_rtt.as_ps() / 2 + far_rtt.as_ps() / 2).map(Time::from_ps)
}

fn smooth(mean: Time, sample: Time) -> Time {
    let (mean, sample) = (mean.as_ps() as i128, sample.as_ps() as i128);
    Time::from_ps((mean + (sample - mean) / i128::from(SMOOTHING)) as u64)
}

pub(crate) fn is_physical(port: PortNo) -> bool {
    port.0 > 0 && !port.is_reserved()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SwitchPort = (DatapathId(1), PortNo(1));
    const B: SwitchPort = (DatapathId(2), PortNo(1));

    fn ms(ms: u64) -> Time {
        Time::from_ms(ms)
    }
    fn discovery() -> Discovery {
        Discovery::new([1; 16], PortRoles::default())
    }
    /// Delivers a probe to a port without hosts.
    fn hear(discovery: &mut Discovery, now: Time, to: SwitchPort, frame: &[u8]) -> Option<Found> {
        match discovery.heard(now, to, frame, rtts, |_| false)? {
            Heard::Link(found) => Some(found),
            Heard::OneWay(_) => panic!("the network has no hosts"),
        }
    }
    /// Sends a probe out of a port, and delivers it to another one.
    fn cross(discovery: &mut Discovery, from: (SwitchPort, Time), to: (SwitchPort, Time)) -> Option<Found> {
        let probe = discovery.probe(from.1, from.0, 120);
        hear(discovery, to.1, to.0, &probe)
    }
    fn rtts(datapath: DatapathId) -> Option<Time> {
        Some(if datapath == A.0 { ms(20) } else { ms(40) })
    }

    /// mechanisms.md §10, oracle 7.
    #[test]
    fn loop_of_60_ms_with_round_trips_20_and_40_is_a_link_of_30() {
        let mut discovery = discovery();
        let found = cross(&mut discovery, (A, ms(100)), (B, ms(160))).unwrap();
        assert_eq!((found.from, found.to, found.is_new), (A, B, true));
        assert_eq!(discovery.latency(A, B), Some(ms(30)));
        // A negative sample uses the other direction's, and samples are averaged with weight 1/8.
        cross(&mut discovery, (B, ms(200)), (A, ms(210))).unwrap();
        assert_eq!(discovery.latency(B, A), Some(ms(30)));
        cross(&mut discovery, (A, ms(300)), (B, ms(368))).unwrap();
        assert_eq!(discovery.latency(A, B), Some(ms(31)));
    }

    #[test]
    fn forged_and_repeated_probes_are_ignored() {
        let mut discovery = discovery();
        let probe = discovery.probe(ms(0), A, 120);
        let forged = Lldp { datapath: A.0, port: A.1, ttl_s: 120, nonce: 4711 }.build(CONTROLLER_MAC);
        assert_eq!(hear(&mut discovery, ms(1), B, &forged), None);
        assert!(hear(&mut discovery, ms(1), B, &probe).is_some());
        assert_eq!(hear(&mut discovery, ms(2), (DatapathId(3), PortNo(1)), &probe), None, "replayed elsewhere");
        assert_eq!(hear(&mut discovery, ms(2), B, &probe[..20]), None, "cut");
        assert_eq!(hear(&mut discovery, ms(2), B, b""), None);
    }

    #[test]
    fn unconfirmed_links_are_probed_every_second() {
        let (mut discovery, interval) = (discovery(), Time::from_s(15));
        let round = |discovery: &mut Discovery, at| discovery.round(ms(at), interval, [A, B].into_iter());
        assert_eq!(discovery.next_round(), None);
        discovery.schedule_round(ms(100));
        assert_eq!(round(&mut discovery, 99), []);
        assert_eq!(round(&mut discovery, 100), [A, B]);
        let [there, back] = [A, B].map(|end| discovery.probe(ms(100), end, 120));
        hear(&mut discovery, ms(110), B, &there);
        hear(&mut discovery, ms(110), A, &back);
        assert_eq!(discovery.next_round(), Some(ms(1100)));
        assert_eq!((round(&mut discovery, 1100), discovery.next_round()), (vec![], Some(ms(15_100))));
        // One probe of the next round is lost, and its repetition as well.
        assert_eq!(round(&mut discovery, 15_100), [A, B]);
        cross(&mut discovery, (B, ms(15_100)), (A, ms(15_110)));
        assert_eq!(round(&mut discovery, 16_100), [A]);
        assert_eq!(round(&mut discovery, 17_100), [A]);
        cross(&mut discovery, (A, ms(17_100)), (B, ms(17_110)));
        assert_eq!((round(&mut discovery, 18_100), discovery.next_round()), (vec![], Some(ms(30_100))));
    }

    #[test]
    fn later_switches_get_another_round() {
        let (mut discovery, interval) = (discovery(), Time::from_s(15));
        let round = |discovery: &mut Discovery, at| discovery.round(ms(at), interval, [A, B].into_iter()).len();
        discovery.schedule_round(ms(250));
        discovery.schedule_round(ms(380));
        assert_eq!((round(&mut discovery, 250), discovery.next_round()), (2, Some(ms(380))));
        assert_eq!(round(&mut discovery, 380), 2);
        assert_eq!((round(&mut discovery, 1380), discovery.next_round()), (0, Some(ms(15_380))));
    }

    #[test]
    fn port_is_an_edge_port_without_returned_probe() {
        let mut discovery = discovery();
        let probe = discovery.probe(ms(0), A, 120);
        assert!(!discovery.is_edge(ms(499), A) && discovery.is_edge(ms(500), A));
        hear(&mut discovery, ms(600), B, &probe);
        assert!(!discovery.is_edge(ms(9_999), A) && !discovery.is_edge(ms(9_999), B));
    }

    #[test]
    fn links_expire_only_while_both_ends_are_connected() {
        let (timeout, mut discovery) = (Time::from_s(35), discovery());
        cross(&mut discovery, (A, ms(0)), (B, ms(10)));
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

    #[test]
    fn nonces_differ_by_key_port_and_probe() {
        let nonce = |key: u8, end: SwitchPort, count: usize| {
            let mut discovery = Discovery::new([key; 16], PortRoles::default());
            (0..count).map(|_| discovery.next_nonce(end)).last()
        };
        let nonces: BTreeSet<_> = [nonce(1, A, 1), nonce(2, A, 1), nonce(1, B, 1), nonce(1, A, 2)].into();
        assert_eq!(nonces.len(), 4);
        assert_eq!(nonce(1, A, 2), nonce(1, A, 2));
    }

    #[test]
    fn probe_expires() {
        let mut discovery = discovery();
        let [late, in_time] = [0, 1].map(|at| discovery.probe(ms(at), A, 120));
        assert_eq!(hear(&mut discovery, ms(5001), B, &late), None);
        assert!(hear(&mut discovery, ms(5001), B, &in_time).is_some());
    }

    #[test]
    fn link_to_port_with_hosts_needs_both_directions() {
        let mut discovery = discovery();
        let at_b = |end| end == B;
        let there = discovery.probe(ms(0), A, 120);
        assert_eq!(discovery.heard(ms(1), B, &there, rtts, at_b), Some(Heard::OneWay(B)));
        assert!(!discovery.is_link(A) && !discovery.is_link(B));
        // The other direction is too late.
        let back = discovery.probe(ms(5000), B, 120);
        assert_eq!(discovery.heard(ms(5002), A, &back, rtts, at_b), Some(Heard::OneWay(A)));
        let there = discovery.probe(ms(5010), A, 120);
        let Some(Heard::Link(found)) = discovery.heard(ms(5020), B, &there, rtts, at_b) else { panic!("both arrived") };
        assert_eq!((found.from, found.to, found.is_new), (A, B, true));
        assert!(discovery.is_link(A) && discovery.is_link(B));
    }

    #[test]
    fn port_whose_links_expired_may_have_hosts() {
        let (timeout, mut discovery) = (Time::from_s(35), discovery());
        let [there, back] = [A, B].map(|end| discovery.probe(ms(0), end, 120));
        hear(&mut discovery, ms(10), B, &there);
        hear(&mut discovery, ms(20), A, &back);
        let status = |is_online| BTreeMap::from([A, B].map(|end| (end.0, Status { is_online, since: ms(0) })));
        assert_eq!(discovery.expire(ms(35_010), timeout, &status(true)), [(A, B)]);
        assert!(discovery.is_link(A) && discovery.is_link(B), "the other direction is still up");
        assert_eq!(discovery.expire(ms(35_020), timeout, &status(true)), [(B, A)]);
        assert!(!discovery.is_link(A) && !discovery.is_link(B));
        assert!(!discovery.is_edge(ms(35_519), B) && discovery.is_edge(ms(35_520), B));
    }

    #[test]
    fn port_towards_a_disconnected_switch_stays_a_link() {
        let (timeout, mut discovery) = (Time::from_s(35), discovery());
        cross(&mut discovery, (A, ms(0)), (B, ms(10)));
        let status = [(A, true), (B, false)].map(|(end, is_online)| (end.0, Status { is_online, since: ms(0) }));
        assert_eq!(discovery.expire(ms(35_010), timeout, &status.into()), [(A, B)]);
        assert!(discovery.is_link(A) && discovery.is_link(B));
    }
}
