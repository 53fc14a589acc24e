//! Random schedules: a source and a destination joined by paths whose delays change, with losses.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use net::routes::ClassIx;
use net::{RandomStream, Time};

use super::super::tag::{Kind, Tag};
use crate::dataplane::testing::{Bench, arrival, control_arrival, packet};
use crate::dataplane::{Commands, Delivery};

/// Paths are slower here than in the bench's network, so the limit for replies is longer.
const SPEC: &str = "conweave:extra=144us";
const PATHS: u16 = 4;
/// One-way delay of an empty network.
const BASE_DELAY: Time = Time::from_us(50);

/// An event before the next packet is sent.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Idle time in microseconds; an `expiry` is 3750.
    Wait(u64),
    /// New delay in microseconds for packets put on this path.
    Delay(u16, u64),
    /// Loss of the next packet.
    LosePacket,
    /// Loss of the next control packet.
    LoseControl,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Send(usize),
    Arrive { seq: u32, path: u16, word: u32 },
    Timer(u64),
    Control { word: u32, tag: u32 },
}

/// One flow between two edges.
struct World<'a> {
    steps: &'a [Step],
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    serial: u64,
    source: Bench,
    destination: Bench,
    current: Option<u16>,
    /// Delay of each path, and arrival of its last packet: paths keep order.
    delays: [Time; PATHS as usize],
    arrivals: [Time; PATHS as usize],
    loses_packet: bool,
    loses_control: bool,
    sent: u32,
    /// TAILs sent, and those of them that arrived.
    tails: Vec<u32>,
    tails_arrived: BTreeSet<u32>,
    held: VecDeque<u32>,
    report: Report,
}

/// The result of a schedule.
#[derive(Default, Debug)]
struct Report {
    delivered: Vec<u32>,
    lost: Vec<u32>,
    held: usize,
    /// Releases before the expected TAIL arrived.
    early: usize,
    /// Packets delivered after a later one.
    overtaken: usize,
    tails: usize,
}

fn run(steps: &[Step]) -> Report {
    let family = format!("leaf-spine:leaves=4,spines={PATHS},hosts_per_leaf=4");
    let mut world = World {
        steps,
        now: Time::ZERO,
        events: BinaryHeap::new(),
        serial: 0,
        source: Bench::edge_on(SPEC, &family, 0),
        destination: Bench::edge_on(SPEC, &family, 1),
        current: None,
        delays: [BASE_DELAY; PATHS as usize],
        arrivals: [Time::ZERO; PATHS as usize],
        loses_packet: false,
        loses_control: false,
        sent: 0,
        tails: vec![],
        tails_arrived: BTreeSet::new(),
        held: VecDeque::new(),
        report: Report::default(),
    };
    world.at(Time::ZERO, Event::Send(0));
    while let Some(Reverse((now, _, event))) = world.events.pop() {
        (world.now, world.source.now, world.destination.now) = (now, now, now);
        world.handle(event);
    }
    assert!(world.held.is_empty(), "held indefinitely: {:?}", world.held);
    world.finish()
}

impl World<'_> {
    fn at(&mut self, time: Time, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((time, self.serial, event)));
    }

    fn after(&mut self, wait: Time, event: Event) {
        self.at(self.now.saturating_add(wait), event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Send(step) => self.step(step),
            Event::Arrive { seq, path, word } => self.arrive(seq, path, word),
            Event::Timer(token) => {
                self.destination.timer(token);
                self.obey();
            }
            Event::Control { word, tag } => {
                self.source.control(&control_arrival(ClassIx(1), 0, word, tag));
            }
        }
    }

    fn step(&mut self, at: usize) {
        let Some(step) = self.steps.get(at) else { return };
        let mut wait = Time::from_us(3);
        match *step {
            Step::Wait(us) => wait = Time::from_us(us),
            Step::Delay(path, us) => self.delays[usize::from(path)] = Time::from_us(us),
            Step::LosePacket => self.loses_packet = true,
            Step::LoseControl => self.loses_control = true,
        }
        self.send();
        self.after(wait, Event::Send(at + 1));
    }

    fn send(&mut self) {
        let seq = self.sent;
        self.sent += 1;
        let path = self.source.choose_path(&packet(1), self.current);
        let word = self.source.encapsulate(&packet(1), path);
        self.current = Some(path);
        if Tag::unpack(word).is_some_and(|tag| tag.kind == Kind::Tail) {
            self.tails.push(seq);
        }
        if std::mem::take(&mut self.loses_packet) {
            return self.report.lost.push(seq);
        }
        let last = &mut self.arrivals[usize::from(path)];
        *last = self.now.saturating_add(self.delays[usize::from(path)]).max(last.saturating_add(Time::from_ns(100)));
        let time = *last;
        self.at(time, Event::Arrive { seq, path, word });
    }

    fn arrive(&mut self, seq: u32, path: u16, word: u32) {
        if self.tails.contains(&seq) {
            self.tails_arrived.insert(seq);
        }
        match self.destination.decapsulate(&packet(1), &arrival(ClassIx(0), path, word)) {
            Delivery::Hold => {
                self.report.held += 1;
                self.held.push_back(seq);
                self.obey();
            }
            // As in the simulator, requests are executed before the packet continues.
            _ => {
                self.obey();
                self.report.delivered.push(seq);
            }
        }
    }

    fn obey(&mut self) {
        let Commands { controls, timers, releases, .. } = std::mem::take(&mut self.destination.commands);
        for (at, token) in timers {
            assert!(at >= self.now, "a timer in the past");
            self.at(at, Event::Timer(token));
        }
        for flow in releases {
            assert_eq!(flow, 1);
            let first = self.held.front().copied().expect("a release needs a held packet");
            let tail = self.tails.iter().rev().find(|tail| **tail < first).expect("a held packet needs a reroute");
            self.report.early += usize::from(!self.tails_arrived.contains(tail));
            self.report.delivered.extend(self.held.drain(..));
        }
        for control in controls {
            if !std::mem::take(&mut self.loses_control) {
                self.after(BASE_DELAY, Event::Control { word: control.word, tag: control.tag });
            }
        }
    }

    fn finish(mut self) -> Report {
        let mut all = [self.report.delivered.clone(), self.report.lost.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..self.sent).collect::<Vec<_>>(), "every packet comes out once");
        let mut highest = 0;
        for seq in &self.report.delivered {
            self.report.overtaken += usize::from(*seq < highest);
            highest = highest.max(*seq);
        }
        self.report.tails = self.tails.len();
        self.report
    }
}

/// Returns a step from four numbers, with these frequencies: mostly packets close together, some
/// changes of delay, rarely an idle time or, if `is_lossy`, a loss. Delays stay below an `expiry`,
/// as ConWeave requires.
fn step(kind: u64, path: u64, delay_us: u64, gap_us: u64, is_lossy: bool) -> Step {
    match kind {
        0..8 => Step::Delay((path % u64::from(PATHS)) as u16, 40 + delay_us % 560),
        8 => Step::Wait(3_751 + gap_us),
        9 if is_lossy => Step::LosePacket,
        10 if is_lossy => Step::LoseControl,
        _ => Step::Wait(gap_us % 60),
    }
}

fn random_schedule(random: &mut RandomStream, is_lossy: bool) -> Vec<Step> {
    let mut next = |n| random.next_below(n);
    (0..400).map(|_| step(next(60), next(4), next(600), next(600), is_lossy)).collect()
}

#[test]
fn packets_stay_in_order_if_tail_is_timely() {
    let mut random = RandomStream::new(1, "schedules");
    let (mut held, mut tails, mut early, mut overtaken) = (0, 0, 0, 0);
    for _ in 0..300 {
        let report = run(&random_schedule(&mut random, false));
        assert!(report.early > 0 || report.overtaken == 0, "{report:?}");
        held += report.held;
        tails += report.tails;
        early += report.early;
        overtaken += report.overtaken;
    }
    // Significant only if many packets were held, and if failed estimates cause reordering.
    assert!(tails > 3_000 && held > 3_000, "{tails} reroutes, {held} packets held");
    assert!(early > 0 && overtaken > 0, "{early} early releases, {overtaken} packets overtaken");
    assert!(early * 10 < tails, "{early} of {tails} estimates fail: no better than chance");
}

#[test]
fn any_loss_leaves_nothing_held_indefinitely() {
    let mut random = RandomStream::new(2, "schedules");
    let (mut lost, mut early) = (0, 0);
    for _ in 0..300 {
        let report = run(&random_schedule(&mut random, true));
        lost += report.lost.len();
        early += report.early;
    }
    assert!(lost > 1_000 && early > 50, "{lost} packets lost, {early} releases without their TAIL");
}

proptest::proptest! {
    #[test]
    fn any_schedule_delivers_all_in_order_if_estimates_hold(
        numbers in proptest::collection::vec((0u64..30, 0u64..4, 0u64..600, 0u64..600), 1..120),
        is_lossy: bool,
    ) {
        let steps: Vec<Step> = numbers.iter().map(|(a, b, c, d)| step(*a, *b, *c, *d, is_lossy)).collect();
        let report = run(&steps);
        proptest::prop_assert!(report.early > 0 || report.overtaken == 0, "{report:?}");
    }
}
