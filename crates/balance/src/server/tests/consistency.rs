//! Per-connection consistency: packets of connections are replayed over changes of the pool.

use std::collections::BTreeSet;

use net::{HostIx, NodeIx, RandomStream};
use proptest::prelude::*;

use crate::hash::mix;
use crate::server::common::shares;
use crate::server::consistency::{ConnectionTable, Opened, PacketForwarder};
use crate::server::server_beamer::Chain;
use crate::server::server_cheetah::{SlotTable, StatelessCookies};
use crate::server::server_concury::Concury;
use crate::server::{Member, MemberId, MemberLocation, Pool, ServerStats, maglev, ring_hash};

/// Maglev, or a ring, without a table of connections: each packet goes where its hash leads now.
enum ByHash {
    Maglev(Vec<MemberId>),
    Ring(Vec<(u64, MemberId)>),
}

impl PacketForwarder for ByHash {
    fn on_pool_changed(&mut self, pool: &Pool) {
        let shares: Vec<(MemberId, u32)> = shares(pool).collect();
        match self {
            ByHash::Maglev(slots) if shares.is_empty() => slots.clear(),
            ByHash::Maglev(slots) => *slots = maglev::divide(&shares, 65_537),
            ByHash::Ring(ring) => *ring = ring_hash::ring(&shares, 100),
        }
    }

    fn open(&mut self, key: u64, _: MemberId) -> Option<Opened> {
        Some(Opened { member: self.forward(key, 0)?, cookie: 0 })
    }

    fn forward(&mut self, key: u64, _: u16) -> Option<MemberId> {
        let key = mix(key);
        match self {
            ByHash::Maglev(slots) => slots.get(key as usize % slots.len().max(1)).copied(),
            ByHash::Ring(ring) => {
                ring.get(ring.partition_point(|(place, _)| *place < key)).or(ring.first()).map(|p| p.1)
            }
        }
    }
}

fn member(id: u32) -> Member {
    let place = MemberLocation::Host { host: HostIx(0), edge: NodeIx(0) };
    Member { id: MemberId(id), place, weight: 1, is_accepting: true, stats: ServerStats::default() }
}

/// A connection as its client and its server know it.
#[derive(Clone, Copy)]
struct Open {
    key: u64,
    opened: Opened,
}

/// A load balancer with its pool and the open connections.
struct Replay<'a, F: ?Sized> {
    forwarder: &'a mut F,
    members: Vec<Member>,
    open: Vec<Open>,
    opened: u64,
    /// Members that have left: a new one has another number.
    next: u32,
}

impl<'a, F: PacketForwarder + ?Sized> Replay<'a, F> {
    fn new(forwarder: &'a mut F, members: u32) -> Replay<'a, F> {
        let mut replay = Replay {
            forwarder,
            members: (1..=members).map(member).collect(),
            open: vec![],
            opened: 0,
            next: members + 1,
        };
        replay.announce();
        replay
    }

    fn announce(&mut self) {
        self.forwarder.on_pool_changed(&Pool::new(self.members.iter().copied()));
    }

    fn accepting(&self) -> Vec<MemberId> {
        self.members.iter().filter(|member| member.accepts_connections()).map(|member| member.id).collect()
    }

    fn open(&mut self, picked: MemberId) -> Option<Opened> {
        self.opened += 1;
        let key = mix(self.opened);
        let opened = self.forwarder.open(key, picked)?;
        self.open.push(Open { key, opened });
        Some(opened)
    }

    fn close(&mut self, at: usize) {
        let Open { key, opened } = self.open.swap_remove(at);
        self.forwarder.close(key, opened.cookie);
    }

    /// Ends the connections whose server has left. Returns how many of the others break: their
    /// packets reach another server, or none.
    fn broken(&mut self) -> usize {
        let present: BTreeSet<MemberId> = self.members.iter().map(|member| member.id).collect();
        self.open.retain(|open| present.contains(&open.opened.member));
        let reaches = |open: &&Open| self.forwarder.forward(open.key, open.opened.cookie) == Some(open.opened.member);
        let count = self.open.iter().filter(reaches).count();
        self.open.len() - count
    }

    fn happen(&mut self, step: Step) {
        let at = |which: u8, count: usize| usize::from(which) % count.max(1);
        match step {
            Step::Open(which) => {
                let accepting = self.accepting();
                if let Some(picked) = accepting.get(at(which, accepting.len())) {
                    self.open(*picked);
                }
            }
            Step::Close(which) if !self.open.is_empty() => self.close(at(which, self.open.len())),
            Step::Accepting(which, is_accepting) if !self.members.is_empty() => {
                let at = at(which, self.members.len());
                self.members[at].is_accepting = is_accepting;
                self.announce();
            }
            Step::Weight(which, weight) if !self.members.is_empty() => {
                let at = at(which, self.members.len());
                self.members[at].weight = u32::from(weight);
                self.announce();
            }
            Step::Add => {
                self.members.push(member(self.next));
                self.next += 1;
                self.announce();
            }
            Step::Remove(which) if !self.members.is_empty() => {
                self.members.remove(at(which, self.members.len()));
                self.announce();
            }
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u8),
    Close(u8),
    Accepting(u8, bool),
    Weight(u8, u8),
    Add,
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => any::<u8>().prop_map(Step::Open),
        3 => any::<u8>().prop_map(Step::Close),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(which, is_accepting)| Step::Accepting(which, is_accepting)),
        1 => (any::<u8>(), 0u8..4).prop_map(|(which, weight)| Step::Weight(which, weight)),
        2 => Just(Step::Add),
        1 => any::<u8>().prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..120)
}

/// Returns the largest number of connections that are broken after a step.
fn most_broken(forwarder: &mut dyn PacketForwarder, members: u32, steps: &[Step]) -> usize {
    let mut replay = Replay::new(forwarder, members);
    let after = |step: &Step| {
        replay.happen(*step);
        replay.broken()
    };
    steps.iter().map(after).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn no_change_of_the_pool_breaks_a_connection_whose_server_stays(steps in steps(), members in 0u32..12) {
        let mut slots = SlotTable::new(32);
        let forwarders: [(&str, &mut dyn PacketForwarder); 6] = [
            ("table", &mut ConnectionTable::default()),
            ("cheetah, stateless", &mut StatelessCookies::new(3)),
            ("cheetah, stateful", &mut slots),
            ("beamer", &mut Chain::new(64, usize::MAX)),
            ("concury", &mut Concury::new(1, 6)),
            ("concury with few codes", &mut Concury::new(1, 2)),
        ];
        for (name, forwarder) in forwarders {
            prop_assert_eq!(most_broken(forwarder, members, &steps), 0, "{}", name);
        }
        let (free, used) = slots.usage();
        prop_assert_eq!(free + used, 32);
    }

    #[test]
    fn every_slot_is_free_or_of_an_open_connection_at_any_time(steps in steps(), members in 1u32..6) {
        let mut slots = SlotTable::new(16);
        let mut replay = Replay::new(&mut slots, members);
        for step in steps {
            replay.happen(step);
            prop_assert_eq!(replay.broken(), 0);
            let open = replay.open.len();
            prop_assert_eq!(replay.forwarder.usage(), (16 - open, open));
        }
    }
}

#[test]
fn hashes_without_a_table_and_one_previous_owner_break_connections() {
    // 2,000 connections; then each of four members drains, and returns.
    let open = (0..2000).map(|n| Step::Open(n as u8));
    let changes = (0..4).map(|n| Step::Accepting(n, false)).chain((0..4).map(|n| Step::Accepting(n, true)));
    let steps: Vec<Step> = open.chain(changes).collect();
    let maglev = most_broken(&mut ByHash::Maglev(Vec::new()), 16, &steps);
    let ring = most_broken(&mut ByHash::Ring(Vec::new()), 16, &steps);
    // A quarter of the members drains: their connections break, and few others.
    assert!((400..700).contains(&maglev), "{maglev} of 2,000 by Maglev");
    assert!((400..700).contains(&ring), "{ring} of 2,000 by a ring");
    let [one, all] = [1, usize::MAX].map(|history| most_broken(&mut Chain::new(1024, history), 16, &steps));
    assert!(one > 0 && one < maglev / 2, "{one} of 2,000 with one previous owner");
    assert_eq!(all, 0);
}

/// Servers that share their capacity evenly among their connections, and clients of several
/// policies.
struct Farm {
    servers: Vec<Server>,
    rng: RandomStream,
    turn: usize,
}

#[derive(Clone, Default)]
struct Server {
    /// Bytes that each connection has received that was there since the start.
    served: f64,
    at_s: f64,
    /// Ends of connections, by the bytes served then; the order of their bits is that of the
    /// numbers.
    ends: BTreeSet<(u64, u64)>,
}

const SERVERS: usize = 64;
const CONNECTIONS: usize = 20_000;
const CHANGE_EVERY_S: f64 = 1.0;
const CHANGED: usize = 4;
/// Capacity of a server, bytes a second.
const CAPACITY: f64 = 36e6;
/// Sizes of the web-search workload, and the share of flows that are not larger (DCTCP, SIGCOMM
/// 2010).
const SIZES: [(f64, f64); 12] = [
    (6e3, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

impl Server {
    fn advance(&mut self, now_s: f64) {
        if !self.ends.is_empty() {
            self.served += (now_s - self.at_s) * CAPACITY / self.ends.len() as f64;
        }
        self.at_s = now_s;
    }

    fn next_end(&self) -> Option<f64> {
        let (end, _) = self.ends.first()?;
        Some(self.at_s + (f64::from_bits(*end) - self.served).max(0.0) * self.ends.len() as f64 / CAPACITY)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Turns,
    TwoChoices,
    Least,
}

impl Farm {
    fn size(&mut self) -> f64 {
        let share = self.rng.next_f64();
        let at = SIZES.iter().position(|(_, up_to)| share < *up_to).unwrap_or(SIZES.len() - 1).max(1);
        let ((low, from), (high, to)) = (SIZES[at - 1], SIZES[at]);
        low + (high - low) * (share - from) / (to - from)
    }

    fn load(&self, member: MemberId) -> usize {
        self.servers[member.0 as usize - 1].ends.len()
    }

    fn pick(&mut self, policy: Policy, accepting: &[MemberId]) -> MemberId {
        let draw = |rng: &mut RandomStream| accepting[rng.next_below(accepting.len() as u64) as usize];
        match policy {
            Policy::Turns => {
                self.turn += 1;
                accepting[self.turn % accepting.len()]
            }
            Policy::TwoChoices => {
                let [a, b] = [draw(&mut self.rng), draw(&mut self.rng)];
                if self.load(b) < self.load(a) { b } else { a }
            }
            Policy::Least => accepting.iter().copied().min_by_key(|id| self.load(*id)).expect("a member accepts"),
        }
    }
}

/// Results of a run: broken connections, and the 99th percentile of the times of the others in
/// seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Outcome {
    broken: usize,
    p99_s: f64,
}

/// 20,000 connections come in 20 s. Each second four servers begin to drain, and those of the
/// second before return. After each change every open connection sends a packet.
fn run(forwarder: &mut dyn PacketForwarder, policy: Policy) -> Outcome {
    let mut replay = Replay::new(forwarder, SERVERS as u32);
    let rng = RandomStream::new(3, "farm");
    let mut farm = Farm { servers: vec![Server::default(); SERVERS], rng, turn: 0 };
    let mut changes = RandomStream::new(4, "changes");
    let mut starts = std::collections::BTreeMap::new();
    let (mut times, mut broken, mut started) = (Vec::new(), 0, 0);
    let (mut arrival, mut change) = (0.0, CHANGE_EVERY_S);
    loop {
        let end = (0..SERVERS).filter_map(|at| Some((farm.servers[at].next_end()?, at)));
        let end = end.min_by(|a, b| a.0.total_cmp(&b.0));
        let next_arrival = if started < CONNECTIONS { arrival } else { f64::INFINITY };
        let end_s = end.map_or(f64::INFINITY, |(end_s, _)| end_s);
        if end_s.min(next_arrival) == f64::INFINITY {
            break;
        }
        if end_s <= next_arrival.min(change) {
            let (now, at) = end.expect("it is the next");
            farm.servers[at].advance(now);
            let (_, key) = farm.servers[at].ends.pop_first().expect("it ends");
            times.push(now - starts.remove(&key).expect("it was open"));
            let place = replay.open.iter().position(|open| open.key == key).expect("it was open");
            replay.close(place);
        } else if next_arrival <= change {
            let size = farm.size();
            let accepting = replay.accepting();
            let picked = farm.pick(policy, &accepting);
            let opened = replay.open(picked).expect("tables are large enough");
            let server = &mut farm.servers[opened.member.0 as usize - 1];
            server.advance(arrival);
            let key = replay.open.last().expect("it was opened").key;
            server.ends.insert(((server.served + size).to_bits(), key));
            starts.insert(key, arrival);
            started += 1;
            arrival += farm.rng.exponential(20.0 / CONNECTIONS as f64);
        } else {
            replay.members.iter_mut().for_each(|member| member.is_accepting = true);
            for _ in 0..CHANGED {
                replay.members[changes.next_below(SERVERS as u64) as usize].is_accepting = false;
            }
            replay.announce();
            let lost: Vec<Open> = {
                let Replay { forwarder, open, .. } = &mut replay;
                let mut lost = open.clone();
                lost.retain(|open| forwarder.forward(open.key, open.opened.cookie) != Some(open.opened.member));
                lost
            };
            for Open { key, opened } in lost {
                let place = replay.open.iter().position(|open| open.key == key).expect("it was open");
                replay.close(place);
                let server = &mut farm.servers[opened.member.0 as usize - 1];
                server.advance(change);
                server.ends.retain(|(_, of)| *of != key);
                starts.remove(&key);
                broken += 1;
            }
            change += CHANGE_EVERY_S;
        }
    }
    times.sort_by(f64::total_cmp);
    assert_eq!(times.len() + broken, CONNECTIONS);
    Outcome { broken, p99_s: times[times.len() * 99 / 100] }
}

#[test]
fn cookies_break_as_little_as_tables_and_hashes_break_more_while_the_policy_decides_the_tail() {
    use Policy::{Least, Turns, TwoChoices};
    for policy in [Turns, TwoChoices, Least] {
        let table = run(&mut ConnectionTable::default(), policy);
        assert_eq!(table.broken, 0);
        assert_eq!(run(&mut StatelessCookies::new(3), policy), table, "the same policy, the same times");
    }
    assert_eq!(run(&mut SlotTable::new(65_536), TwoChoices), run(&mut ConnectionTable::default(), TwoChoices));
    let [turns, two, least] = [Turns, TwoChoices, Least].map(|policy| run(&mut StatelessCookies::new(3), policy));
    let maglev = run(&mut ByHash::Maglev(Vec::new()), Turns);
    let ring = run(&mut ByHash::Ring(Vec::new()), Turns);
    let [beamer, one] = [usize::MAX, 1].map(|history| run(&mut Chain::new(8192, history), Turns));
    let concury = run(&mut Concury::new(1, 12), Turns);
    let all = format!(
        "cheetah: turns {turns:?}, two choices {two:?}, least {least:?}; maglev {maglev:?}, ring {ring:?}, \
         beamer {beamer:?}, with one previous owner {one:?}, concury {concury:?}"
    );
    assert!(beamer.broken == 0 && concury.broken == 0, "{all}");
    assert!(maglev.broken > 100 && ring.broken > 100, "{all}");
    assert!(least.p99_s < two.p99_s && two.p99_s < turns.p99_s, "{all}");
    // Compared with hashing only where no connection breaks: Maglev's tail lacks the long ones that
    // broke.
    assert!(two.p99_s < beamer.p99_s && two.p99_s < concury.p99_s, "{all}");
}
