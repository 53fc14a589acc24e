//! Flowcut switching: a flow may change its path only when none of its packets is in flight, so
//! that packets never overtake each other; the first switch makes such moments by pausing the
//! sender (mechanisms-2.md P36; Bonato et al., arXiv 2506.21406, 2025).
//!
//! The first switch of a flow knows its path, the highest packet sent and the highest
//! acknowledgement that came back. If they agree, the next packet begins a *flowcut*: it takes the
//! path whose first link has the shortest queue, ties at random. All packets up to the next such
//! moment follow it.
//!
//! Steady traffic leaves no such moment. A packet that finds `limit` packets of its flow in flight,
//! and an average RTT above `ratio` times the lowest RTT of the flow, begins a *drain*: the switch
//! asks the sender to pause. Packets already sent keep the old path. The acknowledgement of the
//! last one ends the drain: the sender goes on, and its next packet begins a flowcut. With
//! `drain=off` a flow with steady traffic keeps the choice at its start.
//!
//! Published values, from the public code: the ratio is 6 on a dragonfly and 3 on a fat-tree, the
//! newest RTT has the weight 0.7, and a flowcut of less than 20 kB (5 packets) is not drained.
//!
//! Readings where the source is silent. In flight means sent and not covered by the cumulative
//! acknowledgement; the public code counts single acknowledgements, and compares 20 kB with all
//! bytes of the flowcut. The 20 kB are `limit` packets, and at least `limit_bdp` (1/30) of the
//! bandwidth-delay product. The lowest RTT is that of the flow, as in the fat-tree code; the
//! dragonfly code begins again with each flowcut, and then never drains one whose path was
//! congested from its start. The average begins again. RTTs of trimmed or rejected packets do not
//! count. A pause ends after `pause` even if packets are missing: it may hold up their
//! retransmission. After such a drain the flow is not drained again for the same time. All paths
//! here cross a fabric link: the condition of at least one hop always holds.
//!
//! Exceptions to the order. A flow leaves at once a path that routing or the port knows to be down.
//! If a flow has packets in flight but neither packets nor acknowledgements pass for `timeout`, its
//! entry is taken as empty: a lost acknowledgement that no later one covers would keep it forever.
//! Transports without acknowledgements have only these moments.
//!
//! Pitfalls. Only the first link is sensed: after a drain the same congested path may be chosen. A
//! drain costs a round trip without traffic. Its RTTs include queues behind the fabric, which no
//! path avoids. The switch must see the acknowledgements; where they return to another switch, only
//! the form in the network interface works. A late duplicate of a packet that has arrived can be
//! overtaken, which no receiver notices.
//!
//! - Helps: with RDMA or TCP that suffer from reordering, where flows pause now and then or queues
//!   grow long.
//! - Hurts: with long steady flows under moderate congestion, where a drain costs more than another
//!   path gains; where congestion is not at the first switch.

use net::routes::ClassIx;
use net::{LinkIx, Time};

use crate::dataplane::common::paths::is_live;
use crate::dataplane::common::{FlowTable, PathIndex, least};
use crate::dataplane::{Cx, EdgeBalancer, EdgeEnv, PacketView, PathFeedback, Paths};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("flowcut", "Flowcut switching")
    .summary("Moves a flow only when none of its packets is in flight, and pauses it if its round trips grow.")
    .source("P36; Flowcut Switching, arXiv 2506.21406, 2025")
    .granularity(Granularity::Flowcut)
    .senses("queues of local ports, acknowledgements, round-trip times")
    .params(&[
        Param::choice("drain", &["on", "off"], "on")
            .doc("Whether flows are paused to make moments without packets in flight."),
        Param::number("ratio", 1.0..=1000.0, "3")
            .unit("lowest RTTs")
            .doc("A flow is drained if its average RTT is above this multiple of its lowest one; published: 3 and 6."),
        Param::number("gain", 0.01..=1.0, "0.7").doc("Weight of the newest RTT in the average."),
        Param::count("limit", 1..=1 << 20, "5")
            .unit("packets")
            .doc("Packets in flight from which a flow is drained; published: 20 kB of 4 kB packets."),
        Param::number("limit_bdp", 0.0..=1.0, "0.033")
            .doc("The limit is at least this share of the bandwidth-delay product (not published)."),
        Param::scaled("pause", "4rtt").doc("Longest pause of a drain (not published)."),
        Param::scaled("timeout", "125rtt")
            .doc("Time without packets and acknowledgements after which none counts as in flight (not published)."),
    ])
    .example("flowcut:ratio=6")
    .edge(|env, params| Box::new(Flowcut::new(env, params)));

/// The state of a flow that enters the fabric here.
#[derive(Clone, Copy, Default)]
struct Flow {
    /// Distinguishes it from an earlier flow of the same number; 0 before the first packet.
    hash: u64,
    path: u16,
    /// Highest packet sent, plus 1.
    sent: u32,
    /// Next packet that the receiver expects.
    acked: u32,
    /// Time of its last packet or acknowledgement, ps.
    active_ps: u64,
    /// Lowest RTT of the flow; 0 before the first one.
    lowest_rtt_ps: u64,
    /// Average RTT of the flowcut; 0 before the first one.
    rtt_ps: f64,
    /// End of the last pause, ps; 0 if the drain succeeded, or none was begun.
    paused_until_ps: u64,
}

impl Flow {
    fn in_flight(&self) -> u32 {
        self.sent.saturating_sub(self.acked)
    }
}

struct Flowcut {
    may_drain: bool,
    ratio: f64,
    gain: f64,
    limit: u32,
    pause: Time,
    timeout_ps: u64,
    index: PathIndex,
    /// First link of each path, by `index`.
    first_links: Vec<LinkIx>,
    flows: FlowTable<Flow>,
}

impl Flowcut {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Flowcut {
        let index = PathIndex::outward(env);
        let share = params.number("limit_bdp") * env.scale.product_packets();
        Flowcut {
            may_drain: params.text("drain") == "on",
            ratio: params.number("ratio"),
            gain: params.number("gain"),
            limit: (params.count("limit") as u32).max(share.ceil() as u32),
            pause: params.scaled("pause", &env.scale).max(Time::from_ns(100)),
            timeout_ps: params.scaled("timeout", &env.scale).as_ps(),
            first_links: index.first_links(env),
            index,
            flows: FlowTable::new(),
        }
    }

    fn first_link(&self, to: ClassIx, path: u16) -> LinkIx {
        self.first_links[self.index.range(to).start + usize::from(path)]
    }

    /// Returns a path whose first link is up and has the shortest queue.
    fn pick(&self, cx: &mut Cx<'_>, to: ClassIx, live: &[u16]) -> u16 {
        let ports = cx.ports;
        // Paths with the same first link are neighbours: read its queue once.
        let mut last = None;
        let ranked = live.iter().map(|path| {
            let link = self.first_link(to, *path);
            let rank = match last {
                Some((known, rank)) if known == link => rank,
                _ => (!ports.is_up(link), ports.queueing_delay(link)),
            };
            last = Some((link, rank));
            (rank, *path)
        });
        least(cx.rng, ranked).unwrap_or(live[0])
    }

    /// Returns whether a packet must follow those of its flow that are in flight.
    fn must_follow(&self, cx: &Cx<'_>, flow: &Flow, to: ClassIx, live: &[u16]) -> bool {
        flow.in_flight() > 0
            && cx.now.as_ps().saturating_sub(flow.active_ps) <= self.timeout_ps
            && is_live(live, flow.path)
            && cx.ports.is_up(self.first_link(to, flow.path))
    }

    fn needs_drain(&self, now: Time, flow: &Flow) -> bool {
        // A drain that failed is not repeated for the time of a pause: retransmissions must pass.
        let may_pause =
            flow.paused_until_ps == 0 || now.as_ps() >= flow.paused_until_ps.saturating_add(self.pause.as_ps());
        self.may_drain
            && may_pause
            && flow.in_flight() >= self.limit
            && flow.rtt_ps > self.ratio * flow.lowest_rtt_ps as f64
    }
}

impl EdgeBalancer for Flowcut {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        if !packet.is_data {
            return paths.current_or_hashed(packet);
        }
        let mut flow = *self.flows.slot(packet.flow);
        let hash = packet.hash.max(1);
        if flow.hash != hash || (paths.current.is_none() && packet.seq == 0) {
            flow = Flow { hash, ..Flow::default() };
        }
        if !self.must_follow(cx, &flow, packet.to, paths.live) {
            if cx.now.as_ps().saturating_sub(flow.active_ps) > self.timeout_ps {
                flow.acked = flow.sent;
            }
            flow.path = self.pick(cx, packet.to, paths.live);
            flow.rtt_ps = 0.0;
        }
        // Repetitions do not raise it: the acknowledgement of the highest packet covers them.
        flow.sent = flow.sent.max(packet.seq.saturating_add(1));
        flow.active_ps = cx.now.as_ps();
        if self.needs_drain(cx.now, &flow) {
            cx.pause(packet.flow, self.pause);
            flow.paused_until_ps = cx.now.saturating_add(self.pause).as_ps();
        }
        *self.flows.slot(packet.flow) = flow;
        flow.path
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, feedback: &PathFeedback) {
        let flow = self.flows.slot(feedback.flow);
        if feedback.ack > flow.sent {
            return; // It belongs to an earlier flow of this number.
        }
        flow.acked = flow.acked.max(feedback.ack);
        flow.active_ps = cx.now.as_ps();
        let rtt_ps = feedback.rtt.as_ps().max(1);
        if !feedback.is_nack && feedback.path == flow.path {
            flow.lowest_rtt_ps = if flow.lowest_rtt_ps == 0 { rtt_ps } else { flow.lowest_rtt_ps.min(rtt_ps) };
            let before = if flow.rtt_ps == 0.0 { rtt_ps as f64 } else { flow.rtt_ps };
            flow.rtt_ps = before + (rtt_ps as f64 - before) * self.gain;
        }
        if flow.in_flight() == 0 {
            if cx.now.as_ps() < flow.paused_until_ps {
                cx.pause(feedback.flow, Time::ZERO);
            }
            flow.paused_until_ps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::common::one_flow::{Counts, OneFlow};
    use crate::dataplane::testing::{BASE_RTT, Bench, packet, path_feedback};
    use crate::hash::mix;

    /// Sends packet `seq` of flow 1.
    fn send(bench: &mut Bench, seq: u32, current: Option<u16>) -> u16 {
        bench.choose_path(&PacketView { seq, ..packet(1) }, current)
    }

    /// Acknowledges all packets of flow 1 before `ack`, with an RTT in base RTTs.
    fn ack(bench: &mut Bench, path: u16, ack: u32, base_rtts: f64) {
        let rtt = Time::from_ps((BASE_RTT.as_ps() as f64 * base_rtts) as u64);
        bench.path_feedback(&PathFeedback { ack, rtt, ..path_feedback(1, path) });
    }

    fn queue(bench: &mut Bench, path: u16, us: u64) {
        let link = bench.path(1, u32::from(path))[0];
        bench.ports.delay.insert(link.0, Time::from_us(us));
    }

    /// Sends packets on a path with rising RTTs until a drain begins, 6 of them then in flight.
    fn until_drain(bench: &mut Bench) -> u16 {
        let path = send(bench, 0, None);
        ack(bench, path, 1, 1.0);
        let path = send(bench, 1, Some(path));
        (2..6).for_each(|seq| assert_eq!(send(bench, seq, Some(path)), path));
        ack(bench, path, 1, 4.0);
        assert!(bench.commands.pauses.is_empty(), "it is the next packet that begins the drain");
        assert_eq!(send(bench, 6, Some(path)), path);
        assert_eq!(std::mem::take(&mut bench.commands.pauses), [(1, Time::from_us(400))]);
        path
    }

    /// Returns the events of 200 flows of 400 packets over two paths with random delays and losses.
    fn random_runs(spec: &str, idles_after: u64) -> Counts {
        let mut sum = Counts::default();
        for seed in 0..200 {
            let us = |salt: u64| Time::from_us(5 + mix(seed ^ salt << 32) % 140);
            let mut flow = OneFlow::new(spec, vec![us(1), us(2)], seed);
            flow.jitter = Time::from_us(mix(seed) % 50);
            flow.loss = if seed % 3 == 0 { 0.01 } else { 0.0 };
            flow.idles_after = idles_after;
            let counts = flow.run(400, 2 + (mix(seed) % 200) as u32);
            sum.reordered += counts.reordered;
            sum.moves += counts.moves;
            sum.pauses += counts.pauses;
            sum.resumes += counts.resumes;
        }
        sum
    }

    #[test]
    fn no_packet_overtakes_another_in_random_schedules() {
        const DRAINS: &str = "flowcut:ratio=1.1,limit=2,limit_bdp=0";
        let [bursts, steady, drained] = [("flowcut:drain=off", 40), ("flowcut:drain=off", 0), (DRAINS, 0)]
            .map(|(spec, idle)| random_runs(spec, idle));
        assert_eq!([bursts, steady, drained].map(|counts| counts.reordered), [0; 3]);
        assert!(bursts.moves > 500, "{bursts:?}");
        // Steady traffic leaves no choice but the one at its start, unless drains make one.
        assert!(drained.moves > 2 * steady.moves && drained.resumes > 500, "{drained:?}, {steady:?}");
        // Losses make drains fail now and then; the flows completed nevertheless.
        assert!(drained.pauses > drained.resumes, "{drained:?}");
        // The same schedules do reorder if packets choose freely.
        let free = random_runs("drb", 0);
        assert!(free.reordered > 10_000, "{free:?}");
    }

    #[test]
    fn a_flow_takes_the_shortest_queue_when_nothing_is_in_flight() {
        let mut bench = Bench::edge("flowcut", 4);
        (0..4).for_each(|path| queue(&mut bench, path, 9 - u64::from(path)));
        assert_eq!(send(&mut bench, 0, None), 3);
        queue(&mut bench, 1, 1);
        assert_eq!(send(&mut bench, 1, Some(3)), 3, "packet 0 is in flight");
        ack(&mut bench, 3, 1, 1.0);
        assert_eq!(send(&mut bench, 1, Some(3)), 3, "so is packet 1, sent again");
        ack(&mut bench, 3, 2, 1.0);
        assert_eq!(send(&mut bench, 2, Some(3)), 1);
        // Ties are broken at random.
        bench.ports.delay.clear();
        let hits: [u32; 4] = bench.hits((100..2100).map(packet));
        assert!(hits.iter().all(|hits| (400..600).contains(hits)), "{hits:?}");
    }

    #[test]
    fn without_drains_steady_traffic_keeps_its_first_path() {
        for (spec, pauses) in [("flowcut:drain=off", 0), ("flowcut:ratio=1000", 0), ("flowcut", 1)] {
            let mut bench = Bench::edge(spec, 4);
            let path = send(&mut bench, 0, None);
            queue(&mut bench, path, 50);
            for seq in 1..500 {
                assert_eq!(send(&mut bench, seq, Some(path)), path, "{spec}: packet {seq}");
                ack(&mut bench, path, seq.saturating_sub(8), 1.0 + f64::from(seq) / 50.0);
            }
            assert_eq!(bench.commands.pauses.len(), pauses, "{spec}");
        }
    }

    #[test]
    fn a_drain_begins_at_the_ratio_and_ends_with_the_last_acknowledgement() {
        let mut bench = Bench::edge("flowcut", 2);
        let path = until_drain(&mut bench);
        queue(&mut bench, path, 5);
        bench.wait(Time::from_us(100));
        assert_eq!(send(&mut bench, 7, Some(path)), path, "a packet sent before the pause");
        ack(&mut bench, path, 7, 4.0);
        assert!(bench.commands.pauses.is_empty(), "one packet is in flight, and the drain has begun");
        ack(&mut bench, path, 8, 4.0);
        assert_eq!(bench.commands.pauses, [(1, Time::ZERO)]);
        assert_ne!(send(&mut bench, 8, Some(path)), path);
    }

    #[test]
    fn a_drain_needs_the_ratio_and_the_limit() {
        // The average with the weight 0.7 rises from 1 to 3.1, or to 2.75 base RTTs.
        for (base_rtts, in_flight, pauses) in [(4.0, 5, 1), (3.5, 5, 0), (4.0, 4, 0)] {
            let mut bench = Bench::edge("flowcut", 2);
            let path = send(&mut bench, 0, None);
            (1..in_flight).for_each(|seq| assert_eq!(send(&mut bench, seq, Some(path)), path));
            ack(&mut bench, path, 0, 1.0);
            ack(&mut bench, path, 1, base_rtts);
            send(&mut bench, in_flight, Some(path));
            assert_eq!(bench.commands.pauses.len(), pauses, "{base_rtts} base RTTs, {in_flight} in flight");
        }
        // Trimmed packets report no queue, and RTTs of a path that was left do not count.
        let mut bench = Bench::edge("flowcut", 2);
        let path = send(&mut bench, 0, None);
        (1..9).for_each(|seq| assert_eq!(send(&mut bench, seq, Some(path)), path));
        ack(&mut bench, path, 0, 1.0);
        ack(&mut bench, 1 - path, 0, 9.0);
        let rtt = Time::from_ms(1);
        bench.path_feedback(&PathFeedback { is_nack: true, rtt, ..path_feedback(1, path) });
        send(&mut bench, 9, Some(path));
        assert!(bench.commands.pauses.is_empty());
    }

    #[test]
    fn the_limit_grows_with_the_bandwidth_delay_product() {
        // 10 Gb/s times 100 us are 83 packets.
        for (spec, limit) in [("flowcut", 5), ("flowcut:limit_bdp=0.5", 42), ("flowcut:limit=1,limit_bdp=0", 1)] {
            let mut bench = Bench::edge(spec, 2);
            let path = send(&mut bench, 0, None);
            ack(&mut bench, path, 0, 1.0);
            ack(&mut bench, path, 0, 9.0);
            let first = (1..100).find(|seq| {
                send(&mut bench, *seq, Some(path));
                !bench.commands.pauses.is_empty()
            });
            assert_eq!(first.map(|seq| seq + 1), Some(limit.max(2)), "{spec}");
        }
    }

    #[test]
    fn a_drain_without_end_does_not_stop_the_flow() {
        let mut bench = Bench::edge("flowcut", 2);
        let path = until_drain(&mut bench);
        // A packet is lost: acknowledgements repeat, and the sender goes on after the pause.
        for (us, pauses) in [(399, 0), (2, 0), (398, 0), (2, 1)] {
            bench.wait(Time::from_us(us));
            ack(&mut bench, path, 1, 4.0);
            send(&mut bench, 7, Some(path));
            assert_eq!(bench.commands.pauses.len(), pauses, "at {:?}", bench.now);
        }
        bench.commands.pauses.clear();
        bench.wait(Time::from_us(401));
        ack(&mut bench, path, 8, 4.0);
        assert!(bench.commands.pauses.is_empty(), "the pause has ended already");
    }

    #[test]
    fn a_dead_path_is_left_at_once() {
        let mut bench = Bench::edge("flowcut", 4);
        let first = send(&mut bench, 0, None);
        let link = bench.path(1, u32::from(first))[0];
        bench.ports.down.insert(link.0);
        let second = send(&mut bench, 1, Some(first));
        assert_ne!(second, first, "the port has no carrier");
        bench.live.retain(|path| *path != second);
        let third = send(&mut bench, 2, None);
        assert!(third != first && third != second);
        bench.live = (0..4).collect();
        bench.ports.down.clear();
        queue(&mut bench, third, 50);
        assert_eq!(send(&mut bench, 3, Some(third)), third, "packets are in flight on the third path");
    }

    #[test]
    fn entries_age_out_and_numbers_are_used_again() {
        let mut bench = Bench::edge("flowcut:timeout=1ms", 2);
        let path = send(&mut bench, 0, None);
        queue(&mut bench, path, 50);
        bench.wait(Time::from_ms(1));
        assert_eq!(send(&mut bench, 1, Some(path)), path);
        bench.wait(Time::from_us(1001));
        assert_eq!(send(&mut bench, 2, Some(path)), 1 - path, "the acknowledgement of packet 1 was lost");
        ack(&mut bench, 1 - path, 3, 1.0);
        // A later flow of the same number begins with nothing in flight.
        queue(&mut bench, 1 - path, 90);
        send(&mut bench, 3, Some(1 - path));
        let successor = PacketView { hash: mix(77), ..packet(1) };
        assert_eq!(bench.choose_path(&successor, None), path);
        ack(&mut bench, path, 4, 1.0);
        queue(&mut bench, path, 95);
        let second = PacketView { seq: 1, ..successor };
        assert_eq!(bench.choose_path(&second, Some(path)), path, "that acknowledged the flow before");
        let reply = PacketView { is_data: false, ..packet(2) };
        let by_hash = bench.choose_path(&reply, None);
        assert_eq!(bench.choose_path(&reply, Some(1 - by_hash)), 1 - by_hash);
    }
}
