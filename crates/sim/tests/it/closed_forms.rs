//! The simulator against closed-form results.

use crate::common::{flow, last_us, list, simulate, topology, with};
use anabranch_sim::{
    FlowEnd, HostConfig, Marking, QueueConfig, QueueLimit, SimConfig, StopRule, TransportConfig, TransportKind, UdpRate,
};
use net::{Bandwidth, LinkIx, Time};
use traffic::{Flow, Start};

fn new_reno() -> SimConfig {
    SimConfig {
        transport: TransportConfig::new_reno(),
        switch: QueueConfig { limit: QueueLimit::Packets(100), marking: Marking::Off, ..QueueConfig::default() },
        ..SimConfig::default()
    }
}

/// F3's 8×8 leaf-spine: 10 Gb/s, 10 µs everywhere.
const F3: &str = "leaf-spine:leaves=8,spines=8,hosts_per_leaf=16,host_delay=10us,fabric_delay=10us";

#[test]
fn ten_kilobytes_between_leaves_take_51_8_us_at_the_receiver_and_92_at_the_sender() {
    let t = topology(F3);
    let o = simulate(&t, &list(vec![flow(0, 127, 10_000, Time::from_us(3))]), "ecmp", 1, &new_reno());
    // 4 hops of 11.2 us, five more full packets of 1.2 us, a tail of 1280 B.
    assert_eq!(o.flows[0].fct, Time::from_ps(51_824_000));
    assert_eq!(o.flows[0].fct, o.flows[0].ideal);
    // The last ACK needs four hops of 10 us and 32 ns.
    assert_eq!(o.flows[0].sender_fct, Time::from_ps(51_824_000 + 4 * 10_032_000));
    let handshake =
        SimConfig { transport: TransportConfig { handshake: true, ..TransportConfig::new_reno() }, ..new_reno() };
    let o = simulate(&t, &list(vec![flow(0, 127, 10_000, Time::ZERO)]), "ecmp", 1, &handshake);
    assert_eq!(o.flows[0].fct, Time::from_ps(51_824_000 + 8 * 10_032_000), "one round trip of 40 B packets more");
}

/// Returns the receiver-side FCT of `segments` full packets sent by slow start from `window` over
/// four equal hops, without losses and with a receive window that does not bind.
fn slow_start_fct(segments: u64, window: u64, step: f64, base_rtt: f64, one_way: f64) -> f64 {
    let (mut round_start, mut left, mut w) = (0.0, segments, window);
    // A round lasts one round trip until it fills the pipe; then packets leave back to back.
    while left > w && (w as f64) * step < base_rtt {
        left -= w;
        w *= 2;
        round_start += base_rtt;
    }
    round_start + (left - 1) as f64 * step + one_way
}

#[test]
fn a_barrier_opens_with_the_last_flow_of_its_groups() {
    let t = topology(F3);
    let delay = Time::from_us(7);
    let grouped = |src, dst, bytes, group, start| Flow { group, start, ..flow(src, dst, bytes, Time::ZERO) };
    let now = Start::At(Time::ZERO);
    let after = |first, last, delay| Start::AfterGroups { first, last, delay };
    let flows = vec![
        grouped(0, 127, 10_000, 1, now),
        grouped(1, 100, 500_000, 2, now),
        grouped(2, 90, 1_000, 3, after(1, 2, delay)),
        grouped(3, 80, 1_000, 3, after(1, 1, Time::ZERO)),
        grouped(4, 70, 1_000, 0, after(3, 3, Time::ZERO)),
    ];
    let o = simulate(&t, &list(flows), "ecmp", 1, &new_reno());
    let ends: Vec<Time> = o.flows.iter().map(|flow| flow.started.saturating_add(flow.fct)).collect();
    assert!(ends[1] > ends[0] && o.flows.iter().all(|flow| flow.end == FlowEnd::Completed));
    assert_eq!(o.flows[2].started, ends[1].saturating_add(delay));
    assert_eq!(o.flows[3].started, ends[0]);
    assert_eq!(o.flows[4].started, ends[2].max(ends[3]));
}

#[test]
fn a_single_newreno_flow_takes_the_time_of_its_slow_start() {
    let t = topology(F3);
    let (step, one_way, back) = (1.2, 4.0 * 11.2, 4.0 * 10.032);
    let config = SimConfig {
        transport: TransportConfig { max_window_packets: Some(100_000), ..TransportConfig::new_reno() },
        ..new_reno()
    };
    for segments in [10, 25, 70, 300, 685, 5_000] {
        let o = simulate(&t, &list(vec![flow(0, 127, segments * 1460, Time::ZERO)]), "ecmp", 1, &config);
        let expected = slow_start_fct(segments, 10, step, one_way + back, one_way);
        let got = o.flows[0].fct.as_us_f64();
        assert!((got / expected - 1.0).abs() < 0.01, "{segments} segments: {got} us, expected {expected}");
    }
}

#[test]
fn a_window_below_the_pipe_gives_window_per_round_trip() {
    let t = topology(F3);
    let config = SimConfig {
        transport: TransportConfig { initial_window_packets: 20, max_window_packets: Some(20), ..new_reno().transport },
        ..new_reno()
    };
    let o = simulate(&t, &list(vec![flow(0, 127, 20_000 * 1460, Time::ZERO)]), "ecmp", 1, &config);
    let rounds = 20_000.0 / 20.0;
    let expected = rounds * (4.0 * 11.2 + 4.0 * 10.032);
    let got = o.flows[0].fct.as_us_f64();
    assert!((got / expected - 1.0).abs() < 0.005, "{got} us, expected {expected}");
}

#[test]
fn waiting_in_a_queue_is_that_of_m_d_1() {
    // 100 hosts send single packets, together a Poisson stream, to one: its port is M/D/1.
    let t = topology("single-switch:hosts=101");
    let mut rng = net::RandomStream::new(5, "arrivals");
    for load in [0.3, 0.6, 0.8] {
        let mut at = 0.0;
        let flows = (0..150_000u32).map(|_| {
            at += rng.exponential(1.2 / load);
            flow(rng.next_below(100) as u32, 100, 1460, Time::from_ps((at * 1e6) as u64))
        });
        let limit = QueueLimit::Packets(100_000);
        let config = SimConfig { switch: QueueConfig { limit, ..new_reno().switch }, ..new_reno() };
        let o = simulate(&t, &list(flows.collect()), "ecmp", 1, &config);
        let waited: f64 = o.flows.iter().map(|f| (f.fct.as_us_f64() - f.ideal.as_us_f64()) / 1.2).sum();
        let mean = waited / o.flows.len() as f64;
        // A packet may also wait behind another of its host: M/D/1 at a hundredth of the load.
        let expected = load / (2.0 * (1.0 - load)) + load / 100.0 / 2.0;
        assert!((mean / expected - 1.0).abs() < 0.05, "load {load}: waited {mean} packets, expected {expected}");
    }
}

#[test]
fn flows_on_one_bottleneck_fill_it_and_share_it() {
    let t = topology("dumbbell:n=4");
    // Without jitter one NewReno flow can lock the others out; see `HostConfig::jitter`.
    let host = HostConfig { jitter: Time::from_ns(50), ..HostConfig::default() };
    let reno = SimConfig { host, ..new_reno() };
    let cubic = SimConfig { transport: TransportConfig::cubic(), ..reno.clone() };
    for (config, size, least) in [(reno, 400e6, 0.7), (SimConfig::default(), 400e6, 0.7), (cubic, 100e6, 0.0)] {
        let flows = (0..4).map(|i| flow(i, 4 + i, size as u64, Time::from_us(u64::from(i)))).collect();
        let o = simulate(&t, &list(flows), "ecmp", 1, &config);
        let last = last_us(&o);
        let wire = 4.0 * size / 1460.0 * 1.2;
        assert!(last > wire && last < 1.05 * wire, "{:?}: {last} us for {wire} us of packets", config.transport.kind);
        let first = o.flows.iter().map(|f| f.fct.as_us_f64()).fold(f64::MAX, f64::min);
        assert!(first > least * wire, "{:?}: one flow was done after {first} us of {wire}", config.transport.kind);
    }
}

#[test]
fn dctcp_keeps_the_queue_near_its_threshold_without_loss() {
    let t = topology("dumbbell:n=5");
    let threshold = 20.0;
    let mut flows: Vec<_> = (0..4).map(|i| flow(i, 5 + i, 40_000_000, Time::from_us(u64::from(i)))).collect();
    // Single packets of a fifth pair sample the bottleneck queue once the others have settled.
    flows.extend((0..2_000).map(|i| flow(4, 9, 1460, Time::from_us(10_000 + 50 * i))));
    let o = simulate(&t, &list(flows), "ecmp", 1, &SimConfig::default());
    assert_eq!(o.accounting.dropped.total(), 0);
    let mut waits: Vec<f64> = o.flows[4..].iter().map(|f| (f.fct.as_us_f64() - f.ideal.as_us_f64()) / 1.2).collect();
    waits.sort_by(f64::total_cmp);
    let median = waits[waits.len() / 2];
    assert!((0.6..1.2).contains(&(median / threshold)), "median queue {median} packets at K = {threshold}");
    let top = waits[waits.len() * 99 / 100];
    assert!(top < 2.0 * threshold, "99th percentile {top} packets at K = {threshold}");
}

#[test]
fn f0s_single_path_has_cllbl_4_and_bisection_value_a_quarter() {
    // mechanisms.md §10 oracle 10: stride(30) on F0's tree, everything through one core.
    let t = topology("fat-tree:k=4,hosts_per_edge=10,host_rate=1Mbps,fabric_rate=10Mbps");
    let flows = (0..80).map(|i| flow(i, (i + 30) % 80, 100_000_000, Time::ZERO)).collect();
    let config = SimConfig {
        transport: TransportConfig {
            kind: TransportKind::Udp(UdpRate::UniformPackets { min_per_s: 1000.0, max_per_s: 2000.0 }),
            mss_bytes: 1472,
            header_bytes: 28,
            ..TransportConfig::default()
        },
        stop: StopRule { until: Some(Time::from_s(20)) },
        ..SimConfig::default()
    };
    let o = simulate(&t, &list(flows), "spt:tie=first", 1, &config);
    assert!(o.flows.iter().all(|f| f.end == FlowEnd::Running));
    let top = t.top_tier();
    for up in [true, false] {
        let loads: Vec<f64> = (0..t.links().len() as u32)
            .map(LinkIx)
            .filter(|l| t.link_tier(*l) == top && t.is_upward(*l) == up)
            .map(|l| o.links[l.ix()].bytes as f64 * 8.0 / (o.end.as_s_f64() * 10e6))
            .collect();
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        let max = loads.iter().copied().fold(0.0, f64::max);
        assert_eq!(loads.len(), 16);
        assert!((max / mean - 4.0).abs() < 0.02, "CLLBL {}", max / mean);
        assert!((mean - 0.25).abs() < 0.005, "bisection value {mean}");
    }
}

#[test]
fn identical_seeds_polarise_onto_half_the_paths() {
    // mechanisms.md §10 oracle 11, k = 4: uplinks of an aggregation switch that one edge uses.
    let t = topology("fat-tree:k=4");
    let flows: Vec<_> = (0..400).map(|i| flow(i % 2, 8 + i % 8, 1000, Time::from_us(u64::from(i) * 5))).collect();
    let used_cores = |spec: &str| {
        let o = simulate(&t, &list(flows.clone()), spec, 3, &new_reno());
        (0..t.links().len() as u32)
            .map(LinkIx)
            .filter(|l| t.link_tier(*l) == t.top_tier() && t.is_upward(*l))
            // Upward core links of pod 0, where the senders are: data, not ACKs.
            .filter(|l| t.node(t.link(*l).from).pod == Some(0) && o.links[l.ix()].bytes > 0)
            .count()
    };
    assert_eq!(used_cores("ecmp:seeds=none"), 2);
    assert_eq!(used_cores("ecmp"), 4);
}

#[test]
fn constant_rate_udp_arrives_at_its_rate() {
    let t = topology("dumbbell:n=1");
    let kind = TransportKind::Udp(UdpRate::Constant(Bandwidth::from_gbps(1)));
    let config = with(TransportConfig { kind, ..TransportConfig::default() });
    let o = simulate(&t, &list(vec![flow(0, 1, 14_600_000, Time::ZERO)]), "ecmp", 1, &config);
    let gbps = 10_000.0 * 1500.0 * 8.0 / o.flows[0].fct.as_s_f64() / 1e9;
    assert!((gbps - 1.0).abs() < 0.001, "{gbps} Gb/s");
    assert_eq!(o.accounting.packets_delivered, 10_000);
}
