//! A flow over several paths between two edges, for tests of the order of its packets.

use std::collections::BTreeMap;

use net::routes::ClassIx;
use net::{LinkIx, RandomStream, Time};

use crate::dataplane::testing::{Bench, control_arrival, packet, path_feedback};
use crate::dataplane::{Control, PacketView, PathFeedback};

/// Delay of the link between the sender and its edge.
const HOST_LINK: Time = Time::from_us(2);
/// Time without progress after which the sender repeats the lowest packet that is missing.
const PATIENCE: Time = Time::from_ms(3);
const FLOW: u32 = 1;

/// The flow, its network and the state of both ends. The receiver keeps packets that arrive early.
pub(crate) struct OneFlow {
    /// Edge of the sender, of class 0.
    pub(crate) near: Bench,
    /// Edge of the receiver, of class 1, which replies to probes.
    far: Bench,
    rng: RandomStream,
    /// Delay of each path in one direction.
    pub(crate) one_way: Vec<Time>,
    /// Delay in the return direction; `None` for that of the path.
    pub(crate) back: Option<Time>,
    /// Largest additional delay of a packet. Packets on one path stay in order, ACKs do not.
    pub(crate) jitter: Time,
    /// Probability that a data packet is lost.
    pub(crate) loss: f64,
    /// The sender idles after one packet of this number; 0 for steady traffic.
    pub(crate) idles_after: u64,
    /// Time that a probe and its reply save, since they are small and end at the edges.
    pub(crate) probe_saves: Time,
    first_links: Vec<LinkIx>,
    events: BTreeMap<(Time, u64), Event>,
    serial: u64,
    now: Time,
    /// Latest arrival on each path, before which no later packet arrives.
    last_arrivals: Vec<Time>,
    current: Option<u16>,
    paused_until: Time,
    progress_at: Time,
    next: u32,
    una: u32,
    received: Vec<bool>,
    /// Next packet that the receiver expects, and the highest that it has, plus 1.
    expected: u32,
    highest: u32,
    pub(crate) counts: Counts,
}

/// The events of a run that tests compare.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    /// Packets, sent once, that arrived after a later one.
    pub(crate) reordered: u32,
    pub(crate) moves: u32,
    pub(crate) pauses: u32,
    /// Requests to go on before the end of a pause.
    pub(crate) resumes: u32,
}

enum Event {
    Turn,
    AtEdge { seq: u32, is_repeated: bool },
    Data { seq: u32, is_repeated: bool, path: u16, sent: Time },
    Ack(PathFeedback),
    Pause(Time),
    Probe(Control),
    Reply(Control),
}

impl OneFlow {
    /// Makes a flow over paths with these delays, whose random choices depend on `seed`.
    pub(crate) fn new(spec: &str, one_way: Vec<Time>, seed: u64) -> OneFlow {
        let paths = one_way.len();
        let near = Bench::edge(spec, paths as u16);
        let family = format!("leaf-spine:leaves=4,spines={paths},hosts_per_leaf=4");
        OneFlow {
            far: Bench::edge_on(spec, &family, 1),
            rng: RandomStream::new(seed, "one flow"),
            first_links: (0..paths as u32).map(|path| near.path(1, path)[0]).collect(),
            near,
            back: None,
            jitter: Time::ZERO,
            loss: 0.0,
            idles_after: 0,
            probe_saves: Time::ZERO,
            events: BTreeMap::new(),
            serial: 0,
            now: Time::ZERO,
            last_arrivals: vec![Time::ZERO; paths],
            one_way,
            current: None,
            paused_until: Time::ZERO,
            progress_at: Time::ZERO,
            next: 0,
            una: 0,
            received: Vec::new(),
            expected: 0,
            highest: 0,
            counts: Counts::default(),
        }
    }

    /// Sends `packets` packets, at most `window` of them at once, until all have been acknowledged.
    pub(crate) fn run(&mut self, packets: u32, window: u32) -> Counts {
        self.received = vec![false; packets as usize];
        self.after(Time::ZERO, Event::Turn);
        while self.una < packets {
            let ((now, _), event) = self.events.pop_first().expect("the sender has a next turn");
            assert!(now < Time::from_s(2), "the flow is stuck at packet {} of {packets}", self.una);
            self.now = now;
            (self.near.now, self.far.now) = (now, now);
            self.handle(event, window);
            self.carry_out();
        }
        self.counts
    }

    fn after(&mut self, delay: Time, event: Event) {
        self.serial += 1;
        self.events.insert((self.now.saturating_add(delay), self.serial), event);
    }

    fn random(&mut self, largest: Time) -> Time {
        Time::from_ps(self.rng.next_below(largest.as_ps() + 1))
    }

    fn handle(&mut self, event: Event, window: u32) {
        match event {
            Event::Turn => self.take_turn(window),
            Event::AtEdge { seq, is_repeated } => self.enter(seq, is_repeated),
            Event::Data { seq, is_repeated, path, sent } => self.receive(seq, is_repeated, path, sent),
            Event::Ack(feedback) => {
                let rtt = self.now.saturating_sub(feedback.rtt);
                self.near.path_feedback(&PathFeedback { rtt, ..feedback });
                if feedback.ack > self.una {
                    (self.una, self.progress_at) = (feedback.ack, self.now);
                }
            }
            Event::Pause(time) => self.paused_until = self.now.saturating_add(time),
            Event::Probe(c) => self.far.control(&control_arrival(ClassIx(0), c.path, c.word, c.tag)),
            Event::Reply(c) => self.near.control(&control_arrival(ClassIx(1), c.path, c.word, c.tag)),
        }
    }

    fn take_turn(&mut self, window: u32) {
        if self.now >= self.paused_until {
            if self.now > self.progress_at.saturating_add(PATIENCE) {
                self.progress_at = self.now;
                self.after(HOST_LINK, Event::AtEdge { seq: self.una, is_repeated: true });
            } else if self.next - self.una < window && (self.next as usize) < self.received.len() {
                self.after(HOST_LINK, Event::AtEdge { seq: self.next, is_repeated: false });
                self.next += 1;
            }
        }
        let is_idle = self.idles_after > 0 && self.rng.next_below(self.idles_after) == 0;
        let gap = self.random(if is_idle { Time::from_us(400) } else { Time::from_us(3) });
        self.after(gap, Event::Turn);
    }

    fn enter(&mut self, seq: u32, is_repeated: bool) {
        let link = self.first_links[self.rng.next_below(self.first_links.len() as u64) as usize];
        let queue = self.random(Time::from_us(9));
        self.near.ports.delay.insert(link.0, queue);
        let packet = PacketView { seq, is_retransmission: is_repeated, ..packet(FLOW) };
        let path = self.near.choose_path(&packet, self.current);
        let before = self.current.replace(path);
        self.counts.moves += u32::from(before.is_some_and(|before| before != path));
        if self.rng.next_f64() < self.loss {
            return;
        }
        let delay = self.one_way[usize::from(path)].saturating_add(self.random(self.jitter));
        let last = &mut self.last_arrivals[usize::from(path)];
        let at = self.now.saturating_add(delay).max(*last);
        *last = at;
        let sent = self.now;
        self.after(at.saturating_sub(sent), Event::Data { seq, is_repeated, path, sent });
    }

    fn receive(&mut self, seq: u32, is_repeated: bool, path: u16, sent: Time) {
        if seq >= self.highest {
            self.highest = seq + 1;
        } else {
            self.counts.reordered += u32::from(!is_repeated);
        }
        self.received[seq as usize] = true;
        while self.received.get(self.expected as usize) == Some(&true) {
            self.expected += 1;
        }
        let ack = self.expected;
        let delay = self.back.unwrap_or(self.one_way[usize::from(path)]).saturating_add(self.random(self.jitter));
        // The time of departure, until the acknowledgement arrives.
        self.after(delay, Event::Ack(PathFeedback { ack, rtt: sent, ..path_feedback(FLOW, path) }));
    }

    /// Carries out the requests of both edges.
    fn carry_out(&mut self) {
        for (flow, time) in std::mem::take(&mut self.near.commands.pauses) {
            assert_eq!(flow, FLOW);
            self.counts.pauses += u32::from(time > Time::ZERO);
            self.counts.resumes += u32::from(time == Time::ZERO);
            self.after(HOST_LINK, Event::Pause(time));
        }
        let saves = Time::from_ps(self.probe_saves.as_ps() / 2);
        for control in std::mem::take(&mut self.near.commands.controls) {
            let delay = self.one_way[usize::from(control.path)].saturating_sub(saves);
            self.after(delay, Event::Probe(control));
        }
        for control in std::mem::take(&mut self.far.commands.controls) {
            let delay = self.back.unwrap_or(self.one_way[usize::from(control.path)]).saturating_sub(saves);
            self.after(delay, Event::Reply(control));
        }
    }
}
