//! Hopper: a flow whose round trips stay long probes a few other paths, and moves to a clearly
//! better one at a time at which it overtakes none of its packets (mechanisms-2.md P45; Nosrati,
//! Ghaderi, arXiv 2506.08132, 2025).
//!
//! Each flow averages the RTTs of its path over rounds of one round trip. After `rounds` rounds in
//! a row above `threshold` base RTTs it probes `probes` random other paths. If the best reply took
//! less than `better` times the flow's average, the flow moves there: the sender pauses for `wait`
//! times the difference of the round trips, so that packets on the slower path arrive first. A flow
//! that moves is not judged for the pause and `hold_off`.
//!
//! Only notes on the paper were read. They confirm averages of RTTs, 1.5 base RTTs, two probes and
//! 80 %. The numbers of rounds and of the hold-off are our own reading.
//!
//! Readings where the source is silent.
//!
//! - Hosts are the place of the published decision, by UDP ports that switches hash. Here the first
//!   switch decides for each of its flows: it can choose the path and pause the sender. Flows share
//!   no measurements, as those of different hosts could not.
//! - A probe is a small packet to the far edge. The reply returns over the same cables. It carries
//!   the queueing delay of the receiver's link, which a probe between hosts would meet. The time
//!   that a data packet and its ACK take longer on an empty network is added.
//! - Half of the difference of round trips (`wait=0.5`) is that of the forward delays if both
//!   directions of a path are congested alike. If only the forward one is, as with traffic in one
//!   direction, it is the whole (`wait=1`). The notes on the paper leave open which one is meant.
//! - The move is made by the first packet that arrives at least the waiting time after the packet
//!   before. Packets sent before the pause began thus keep the old path, and a request that is late
//!   or lost leads to no reordering. A flow without such a packet until the end of the hold-off
//!   stays. The pause is longer by two full packets, which may be in the host's interface.
//! - A reply that comes later than the flow's average is too bad to count. Without a better path
//!   the rounds are counted again. Probes do not change the congestion window of the flow. RTTs of
//!   trimmed or rejected packets do not count.
//! - A new flow, and one whose path died, take a path by hash. ACKs do too.
//!
//! Pitfalls. Delays change while probes and replies travel: moves then reorder packets. Flows that
//! probe at the same time all find the same path. A flow's own burst lengthens its round trips, as
//! do ACKs that return on a congested path. Long queues of receivers are taken for bad paths: they
//! cause probes, but no moves.
//!
//! - Helps: with a few long RDMA flows that collide or share a slow path, where reordering costs
//!   retransmissions.
//! - Hurts: with short flows, which end before they are judged; where congestion is at receivers or
//!   changes within a few round trips.

mod probes;

use net::Time;
use net::routes::ClassIx;

use self::probes::{GENERATIONS, Prober, Tag};
use crate::dataplane::common::paths::is_live;
use crate::dataplane::common::{FlowTable, KnownLive, PathIndex};
use crate::dataplane::{ControlArrival, Cx, EdgeBalancer, EdgeEnv, PacketView, PathFeedback, Paths};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("hopper", "Hopper")
    .summary("Probes other paths when round trips stay long, and times the move to a better one so that order is kept.")
    .source("P45; Hopper, arXiv 2506.08132, 2025")
    .granularity(Granularity::MovableFlow)
    .senses("round-trip times, probes")
    .params(&[
        Param::number("threshold", 1.0..=100.0, "1.5")
            .unit("base RTTs")
            .doc("Average RTT above which a round is congested."),
        Param::count("rounds", 1..=1000, "2").doc("Congested rounds in a row that cause probes (not published)."),
        Param::count("probes", 1..=4, "2").doc("Random other paths that are probed."),
        Param::number("better", 0.0..=1.0, "0.8")
            .doc("A flow moves if the best probe took less than this share of its average RTT."),
        Param::number("wait", 0.0..=1.0, "0.5").doc(
            "Share of the difference of round trips that is waited: 0.5 if both directions are congested alike, \
             1 if only the forward one is; 0 moves at once.",
        ),
        Param::scaled("hold_off", "2rtt")
            .doc("Time after a move in which the flow is not judged (not published). At least 1rtt: pauses need it."),
    ])
    .example("hopper:wait=1")
    .edge(|env, params| Box::new(Hopper::new(env, params)));

const PROBES_MAX: usize = 4;

/// The state of a flow that enters the fabric here.
#[derive(Clone, Copy, Default)]
struct Flow {
    /// Distinguishes it from an earlier flow of the same number.
    hash: u64,
    /// Number of the receiver, which probes carry.
    dst: u32,
    path: u16,
    /// Time of its last packet, ps.
    last_ps: u64,
    /// Average RTT of the last round; 0 before its end.
    rtt_ps: u64,
    round: Round,
    /// Congested rounds in a row.
    congested: u64,
    probing: Probing,
    /// The path to which the flow moves after a gap of `wait_ps`, until `hold_until_ps`.
    next: Option<u16>,
    wait_ps: u64,
    /// Time before which the flow is not judged.
    hold_until_ps: u64,
}

/// RTTs of a path during a round trip.
#[derive(Clone, Copy, Default)]
struct Round {
    /// 0 before the first RTT.
    end_ps: u64,
    sum_ps: u64,
    count: u64,
}

/// Probes of a flow, all sent at the same time.
#[derive(Clone, Copy, Default)]
struct Probing {
    /// Probes without a reply, one bit each.
    missing: u8,
    generation: u16,
    sent_ps: u64,
    /// Time from which replies are too late.
    until_ps: u64,
    paths: [u16; PROBES_MAX],
    /// RTT and path of the best reply.
    best: Option<(u64, u16)>,
}

impl Flow {
    /// Moves the flow if it must and the gap before this packet suffices.
    fn follow_up(&mut self, now_ps: u64, live: &[u16]) {
        let Some(next) = self.next else { return };
        if now_ps >= self.hold_until_ps || !is_live(live, next) {
            self.next = None;
        } else if now_ps.saturating_sub(self.last_ps) >= self.wait_ps {
            (self.path, self.next) = (next, None);
            (self.round, self.congested) = (Round::default(), 0);
        }
    }
}

impl Round {
    /// Counts an RTT; returns the average if it completes the round, and begins the next one.
    fn count(&mut self, now_ps: u64, rtt_ps: u64) -> Option<u64> {
        if self.end_ps == 0 {
            self.end_ps = now_ps.saturating_add(rtt_ps);
        }
        (self.sum_ps, self.count) = (self.sum_ps.saturating_add(rtt_ps), self.count + 1);
        if now_ps < self.end_ps {
            return None;
        }
        let average = self.sum_ps / self.count;
        *self = Round { end_ps: now_ps.saturating_add(average), sum_ps: 0, count: 0 };
        Some(average)
    }
}

struct Hopper {
    threshold: f64,
    rounds: u64,
    probes: usize,
    better: f64,
    wait: f64,
    hold_off_ps: u64,
    /// Time of two full packets at the rate of a host.
    margin_ps: u64,
    base_ps: Vec<u64>,
    index: PathIndex,
    live: KnownLive,
    prober: Prober,
    generation: u16,
    flows: FlowTable<Flow>,
}

impl Hopper {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Hopper {
        let index = PathIndex::outward(env);
        Hopper {
            threshold: params.number("threshold"),
            rounds: params.count("rounds"),
            probes: params.count("probes") as usize,
            better: params.number("better"),
            wait: params.number("wait"),
            hold_off_ps: params.scaled("hold_off", &env.scale).max(env.scale.base_rtt).as_ps(),
            margin_ps: env.scale.host_rate.time_for(2 * u64::from(env.scale.packet_bytes)).as_ps(),
            base_ps: env.base_rtt.iter().map(|rtt| rtt.as_ps()).collect(),
            live: KnownLive::new(&index),
            index,
            prober: Prober::new(env),
            generation: 0,
            flows: FlowTable::new(),
        }
    }

    /// Sends probes on random other paths of a flow.
    fn probe(&mut self, cx: &mut Cx<'_>, number: u32, to: ClassIx) {
        let flow = self.flows.slot(number);
        let live = self.live.of(to, self.index.count(to));
        let others = live.len() - usize::from(is_live(live, flow.path));
        let count = self.probes.min(others);
        self.generation = (self.generation + 1) % GENERATIONS;
        let (sent_ps, until_ps) = (cx.now.as_ps(), cx.now.as_ps().saturating_add(flow.rtt_ps));
        flow.probing = Probing { generation: self.generation, sent_ps, until_ps, ..Probing::default() };
        for at in 0..count {
            let mut path = flow.path;
            while path == flow.path || flow.probing.paths[..at].contains(&path) {
                path = live[cx.rng.next_below(live.len() as u64) as usize];
            }
            flow.probing.paths[at] = path;
            flow.probing.missing |= 1 << at;
            let tag = Tag { is_reply: false, number: at as u8, generation: self.generation, value: flow.dst };
            probes::send(cx, (to, path), number, tag);
        }
    }

    /// Ends the probing of a flow: it moves to the best path if that is better by enough.
    fn decide(&mut self, cx: &mut Cx<'_>, number: u32) {
        let flow = self.flows.slot(number);
        flow.probing.missing = 0;
        let Some((best_ps, path)) = flow.probing.best.take() else { return };
        if best_ps as f64 >= self.better * flow.rtt_ps as f64 || path == flow.path {
            return;
        }
        let wait_ps = (self.wait * flow.rtt_ps.saturating_sub(best_ps) as f64).ceil() as u64;
        (flow.next, flow.wait_ps) = (Some(path), wait_ps);
        flow.hold_until_ps = cx.now.as_ps().saturating_add(wait_ps).saturating_add(self.hold_off_ps);
        if wait_ps > 0 {
            cx.pause(number, Time::from_ps(wait_ps.saturating_add(self.margin_ps)));
        }
    }
}

impl EdgeBalancer for Hopper {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        self.live.note(packet.to, paths.live, self.index.count(packet.to));
        let now_on = paths.current_or_hashed(packet);
        if !packet.is_data {
            return now_on;
        }
        let flow = self.flows.slot(packet.flow);
        if flow.hash != packet.hash || paths.current.is_none() {
            *flow = Flow { hash: packet.hash, ..Flow::default() };
        }
        (flow.path, flow.dst) = (now_on, packet.dst.0);
        flow.follow_up(cx.now.as_ps(), paths.live);
        flow.last_ps = cx.now.as_ps();
        flow.path
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, feedback: &PathFeedback) {
        let Some(base_ps) = self.base_ps.get(feedback.to.0 as usize).copied() else { return };
        let flow = self.flows.slot(feedback.flow);
        if feedback.is_nack || feedback.path != flow.path {
            return;
        }
        let now_ps = cx.now.as_ps();
        let Some(rtt_ps) = flow.round.count(now_ps, feedback.rtt.as_ps().max(1)) else { return };
        flow.rtt_ps = rtt_ps;
        if flow.probing.missing != 0 {
            if now_ps >= flow.probing.until_ps {
                self.decide(cx, feedback.flow);
            }
            return;
        }
        if now_ps < flow.hold_until_ps {
            flow.congested = 0;
            return;
        }
        flow.next = None;
        let is_congested = rtt_ps as f64 > self.threshold * base_ps as f64;
        flow.congested = if is_congested { flow.congested + 1 } else { 0 };
        if flow.congested >= self.rounds {
            flow.congested = 0;
            self.probe(cx, feedback.flow, feedback.to);
        }
    }

    fn on_control(&mut self, cx: &mut Cx<'_>, control: &ControlArrival) {
        let tag = Tag::unpack(control.tag);
        if !tag.is_reply {
            return self.prober.reply(cx, control, tag);
        }
        let Some(additional_ps) = self.prober.additional_ps(control.from, tag) else { return };
        let probing = &mut self.flows.slot(control.word).probing;
        let bit = 1 << tag.number;
        if probing.generation != tag.generation || probing.missing & bit == 0 {
            return; // It is of an earlier flow, or too late.
        }
        probing.missing &= !bit;
        let rtt_ps = cx.now.as_ps().saturating_sub(probing.sent_ps).saturating_add(additional_ps);
        if probing.best.is_none_or(|(best_ps, _)| rtt_ps < best_ps) {
            probing.best = Some((rtt_ps, probing.paths[usize::from(tag.number)]));
        }
        if probing.missing == 0 {
            self.decide(cx, control.word);
        }
    }
}

#[cfg(test)]
mod tests;
