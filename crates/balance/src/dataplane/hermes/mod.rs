//! Hermes: an edge that senses its paths and moves flows only if a move is worth it (mechanisms.md
//! P13.1; Zhang et al., SIGCOMM 2017).
//!
//! - A path is *good* if its RTT and its share of marks are low, *congested* if both are high, and
//!   *gray* otherwise. It has *failed* in three cases: a (source, destination) pair had more than
//!   `timeouts` timeouts on it without any acknowledgement; more than `retx` of its packets are
//!   retransmitted within `retx_window` while it is not congested; or a probe was lost.
//! - A new flow, a flow that timed out and a flow on a failed path take the good path this edge
//!   sends least on. Without good paths they take the gray one this edge sends least on, and
//!   otherwise any that has not failed.
//! - A flow on a congested path moves if it has sent more than `min_sent` and is slower than
//!   `max_rate`. The new path must be good, or else gray, and *notably* better in RTT and in marks.
//! - Every `probe` an agent sends small probes to every other edge: on two random paths and on the
//!   best path of the previous interval. All flows of an edge share the measurements of other flows
//!   and of the agent.
//!
//! Readings. RTTs come from acknowledgements and from probes, which return on the path they came;
//! the time a probe saves on its shorter path is added. `signal=one-way` uses one-way delays
//! (queueing beyond the empty path, on top of the base RTT) like the authors' simulator: clocks are
//! perfect here, but not at a real edge. The newest RTT has weight 1/8 in its average, the newest
//! mark 1/16. In networks without marks, conditions on marks would prevent every path from being
//! congested: `ecn=auto` judges by RTT alone until the edge has received its first mark. A path
//! without measurements is gray and not notably better than any other.
//!
//! Three details of the authors' code are selectable: a rejected move waits (`wait`), only some
//! moves are made (`probability`), and averages of idle paths drift (`drift`) to 1.5 times the RTT
//! that is good, and to no marks.
//!
//! The paper judges paths by feedback and does not cover the return path itself: a flow whose
//! acknowledgements enter a blackhole never ends. `duplicates=count` (not published) treats data
//! that arrives a second time as a timeout of the path of its acknowledgements, once per round
//! trip; `ignore` does not. The paper gives no end to a failure: here it ends after `failed_for`; a
//! failure found by a probe also ends with the next reply on that path. A window for `retx` is
//! judged once it holds enough packets that one retransmission does not exceed the share.
//!
//! Pitfalls: thresholds are times above the base RTT, so paths of very different length to one
//! destination are misjudged. The number of probes grows with the square of the number of edges. A
//! blackhole on the return path counts against every forward path until the acknowledgements have
//! left it. A path that loses everything carries the least traffic: without probes (`probes=0`) it
//! attracts flows.
//!
//! - Helps: under asymmetry and failures that switches do not report: blackholes, random drops.
//! - Hurts: on healthy symmetric fabrics, where its caution leaves colliding flows together; probes
//!   grow with the square of the number of edges.

mod failures;
mod one_way;
mod params;
mod path;
mod probes;

use net::Time;
use net::routes::ClassIx;

use self::failures::{Holes, Pair};
use self::one_way::OneWay;
use self::path::{Condition, PathState, Rules};
use self::probes::{Agent, Answer};
use crate::dataplane::common::{Dre, DreRule, FlowTable, KnownLive, PathIndex, least};
use crate::dataplane::{
    Arrival, ControlArrival, Cx, Delivery, Duplicate, EdgeBalancer, EdgeEnv, EdgeHooks, Loss, PacketView, PathFeedback,
    PathLoss, Paths,
};
use crate::entry::{Entry, Granularity};
use crate::params::Params;

pub(crate) static ENTRY: Entry = Entry::declare("hermes", "Hermes")
    .summary("Senses paths by RTT, ECN, losses and probes, and moves flows off bad paths if another is notably better.")
    .source("P13.1; Hermes, SIGCOMM 2017")
    .granularity(Granularity::CautiousPacket)
    .senses("round-trip times, ECN marks, timeouts, retransmissions, probes")
    .params(params::PARAMS)
    .example("hermes:ecn=auto")
    .edge(|env, params| Box::new(Hermes::new(env, params)));

#[derive(Clone, Copy, Default)]
struct FlowState {
    /// Its source and destination; `None` if it starts elsewhere.
    pair: Option<Pair>,
    sent_bytes: u64,
    rate: Dre,
    has_timed_out: bool,
    /// Time before which the flow does not leave a congested path, ps.
    wait_until: u64,
    /// Time before which duplicates belong to the loss already counted, ps.
    duplicates_from: u64,
}

struct Hermes {
    rules: Rules,
    min_sent: u64,
    max_rate_bps: f64,
    wait_ps: u64,
    probability: f64,
    counts_duplicates: bool,
    dre: DreRule,
    index: PathIndex,
    paths: Vec<PathState>,
    flows: FlowTable<FlowState>,
    holes: Holes,
    agent: Agent,
    live: KnownLive,
    one_way: Option<OneWay>,
}

impl Hermes {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Hermes {
        let index = PathIndex::outward(env);
        let ps = |name| params.scaled(name, &env.scale).as_ps();
        Hermes {
            rules: Rules::new(env, params),
            min_sent: params.count("min_sent"),
            max_rate_bps: params.number("max_rate") * env.scale.host_rate.as_bps_f64(),
            wait_ps: ps("wait"),
            probability: params.number("probability"),
            counts_duplicates: params.text("duplicates") == "count",
            dre: DreRule::new(params.scaled("t_dre", &env.scale), params.number("alpha")),
            paths: vec![PathState::default(); index.total()],
            flows: FlowTable::new(),
            holes: Holes::new(env, params.count("timeouts"), ps("failed_for")),
            agent: Agent::new(env, params),
            live: KnownLive::new(&index),
            one_way: (params.text("signal") == "one-way").then(|| OneWay::new(env)),
            index,
        }
    }

    #[inline]
    fn condition(&self, now: Time, to: ClassIx, path: u16, pair: Option<Pair>) -> Condition {
        if pair.is_some_and(|pair| self.holes.is_hole(pair, path, now)) {
            return Condition::Failed;
        }
        self.rules.condition(&self.paths[self.index.range(to).start + usize::from(path)], to, now)
    }

    /// Picks a path for a flow without a usable one.
    fn place(&self, cx: &mut Cx<'_>, to: ClassIx, live: &[u16], pair: Option<Pair>) -> u16 {
        let now = cx.now;
        let ranked = live.iter().map(|path| {
            let condition = self.condition(now, to, *path, pair);
            // Good and gray paths are ranked by use; failed ones are all alike.
            let rate = if condition <= Condition::Gray { self.sending_rate(now, to, *path) } else { 0.0 };
            ((condition as u8, rate), *path)
        });
        least(cx.rng, ranked).unwrap_or(live[0])
    }

    /// Returns a path notably better than the congested path `from`.
    fn escape(&self, cx: &mut Cx<'_>, to: ClassIx, live: &[u16], from: u16, pair: Option<Pair>) -> Option<u16> {
        let now = cx.now;
        let base = self.index.range(to).start;
        let current = &self.paths[base + usize::from(from)];
        let ranked = live.iter().filter_map(|path| {
            let condition = self.condition(now, to, *path, pair);
            let state = &self.paths[base + usize::from(*path)];
            let is_wanted = condition <= Condition::Gray && self.rules.is_better(state, current, to, now);
            is_wanted.then(|| ((condition as u8, self.sending_rate(now, to, *path)), *path))
        });
        least(cx.rng, ranked)
    }

    fn sending_rate(&self, now: Time, to: ClassIx, path: u16) -> f64 {
        let state = &self.paths[self.index.range(to).start + usize::from(path)];
        self.dre.bytes(&state.rate, self.dre.tick(now))
    }

    fn reconsider(&mut self, cx: &mut Cx<'_>, packet: &PacketView, live: &[u16], current: u16) -> u16 {
        let flow = *self.flows.slot(packet.flow);
        let (to, pair, now_ps) = (packet.to, flow.pair, cx.now.as_ps());
        let condition = self.condition(cx.now, to, current, pair);
        if flow.has_timed_out || condition == Condition::Failed {
            self.flows.slot(packet.flow).has_timed_out = false;
            return self.place(cx, to, live, pair);
        }
        let may_move = flow.sent_bytes > self.min_sent
            && now_ps >= flow.wait_until
            && self.dre.bits_per_s(&flow.rate, self.dre.tick(cx.now)) < self.max_rate_bps;
        if condition != Condition::Congested || !may_move {
            return current;
        }
        let is_lucky = self.probability >= 1.0 || cx.rng.next_f64() < self.probability;
        let better = if is_lucky { self.escape(cx, to, live, current, pair) } else { None };
        if better.is_none() {
            self.flows.slot(packet.flow).wait_until = now_ps.saturating_add(self.wait_ps);
        }
        better.unwrap_or(current)
    }

    /// Counts a packet that leaves on `path`; `before` is the previous path of its flow.
    fn account(&mut self, now: Time, packet: &PacketView, path: u16, before: Option<u16>) {
        let tick = self.dre.tick(now);
        let flow = self.flows.slot(packet.flow);
        flow.sent_bytes += u64::from(packet.bytes);
        self.dre.add(&mut flow.rate, tick, packet.bytes);
        let base = self.index.range(packet.to).start;
        let state = &mut self.paths[base + usize::from(path)];
        self.dre.add(&mut state.rate, tick, packet.bytes);
        if !packet.is_data {
            return;
        }
        self.rules.note_sent(state, packet.to, now);
        if packet.is_retransmission
            && let Some(before) = before
        {
            // A retransmission counts as a loss on the previous path.
            self.rules.note_resent(&mut self.paths[base + usize::from(before)]);
        }
    }

    fn timed_out(&mut self, now: Time, flow: u32, path: u16) {
        let flow = self.flows.slot(flow);
        flow.has_timed_out = true;
        if let Some(pair) = flow.pair {
            self.holes.timed_out(pair, path, now);
        }
    }

    fn measured(&mut self, now: Time, to: ClassIx, path: u16, rtt_ps: u64) {
        if let Some(at) = self.index.get(to, path) {
            self.rules.note_rtt(&mut self.paths[at], to, rtt_ps, now);
        }
    }

    fn answered(&mut self, now: Time, from: ClassIx, answer: &Answer) {
        let Some(at) = self.index.get(from, answer.path) else { return };
        self.rules.note_mark(&mut self.paths[at], from, answer.is_marked, now);
        let rtt_ps = match &self.one_way {
            Some(one_way) => self.rules.base_rtt(from) + one_way.read(answer.queueing),
            None => answer.rtt_ps,
        };
        self.agent.remember(from, answer.path, rtt_ps);
        self.measured(now, from, answer.path, rtt_ps);
        self.paths[at].is_probe_lost = false;
    }
}

impl EdgeBalancer for Hermes {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        self.live.note(packet.to, paths.live, self.index.count(packet.to));
        let path = match paths.current {
            Some(current) => self.reconsider(cx, packet, paths.live, current),
            None => {
                // A new flow, perhaps with a reused number, or a flow whose path is down.
                let pair = self.holes.pair(packet.src, packet.dst);
                self.flows.renew(packet.flow).pair = pair;
                self.place(cx, packet.to, paths.live, pair)
            }
        };
        self.account(cx.now, packet, path, paths.current);
        path
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, feedback: &PathFeedback) {
        let Some(at) = self.index.get(feedback.to, feedback.path) else { return };
        self.paths[at].is_probe_lost = false;
        if let Some(pair) = self.flows.slot(feedback.flow).pair {
            self.holes.acknowledged(pair, feedback.path);
        }
        self.rules.note_mark(&mut self.paths[at], feedback.to, feedback.marked, cx.now);
        if self.one_way.is_none() {
            self.measured(cx.now, feedback.to, feedback.path, feedback.rtt.as_ps());
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &PathLoss) {
        // Retransmissions after duplicate acknowledgements are counted when they leave.
        if loss.loss == Loss::Timeout {
            self.timed_out(cx.now, loss.flow, loss.path);
        }
    }

    fn on_duplicate(&mut self, cx: &mut Cx<'_>, duplicate: &Duplicate) {
        let now_ps = cx.now.as_ps();
        let flow = self.flows.slot(duplicate.flow);
        if self.counts_duplicates && now_ps >= flow.duplicates_from {
            flow.duplicates_from = now_ps + self.rules.base_rtt(duplicate.to);
            self.timed_out(cx.now, duplicate.flow, duplicate.path);
        }
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { overlay: self.one_way.is_some(), ..EdgeHooks::default() }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>) {
        self.agent.start(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, _: u64) {
        let (index, paths) = (&self.index, &mut self.paths);
        self.agent.probe(cx, &self.live, |to, path| {
            if let Some(at) = index.get(to, path) {
                paths[at].is_probe_lost = true;
            }
        });
    }

    fn on_control(&mut self, cx: &mut Cx<'_>, control: &ControlArrival) {
        let queueing = |bytes| self.one_way.as_ref().map_or(0, |o| o.queueing(control.from, bytes, control.one_way));
        if let Some(answer) = self.agent.take(cx, control, queueing) {
            self.answered(cx.now, control.from, &answer);
        }
    }

    fn encapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, _: u16) -> u32 {
        self.one_way.as_mut().map_or(0, |one_way| one_way.header(packet.to, cx.now))
    }

    fn decapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, arrival: &Arrival) -> Delivery {
        let Some(one_way) = &mut self.one_way else { return Delivery::Pass };
        if packet.is_data {
            let queueing = one_way.queueing(arrival.from, packet.bytes, arrival.one_way);
            one_way.relay.note(arrival.from, arrival.path, queueing, cx.now);
        }
        if let Some(path) = (arrival.tag >> 16).checked_sub(1) {
            let rtt_ps = self.rules.base_rtt(arrival.from) + one_way.read(arrival.tag as u16);
            self.measured(cx.now, arrival.from, path as u16, rtt_ps);
        }
        Delivery::Pass
    }
}

#[cfg(test)]
mod tests;
