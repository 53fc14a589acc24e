//! Flows with several connections: MPTCP's subflows against fluid results and MP-HULA's paths for
//! them, RepFlow's and RepSYN's copies against the behaviour of one copy (mechanisms.md P11, P19, §10).

use crate::common::{flow, last_us, list, permanent, simulate, some_flows, topology, try_simulate, with};
use anabranch_sim::{
    Dctcp, Failure, FailureKind, FlowEnd, HostConfig, Marking, NewReno, Outcome, QueueConfig, QueueLimit, SimConfig,
    SimError, StopRule, TransportConfig, TransportKind, UdpRate,
};
use net::{Bandwidth, LinkIx, Time, Topology};
use proptest::prelude::*;
use traffic::{Flow, FlowList, Start};

fn new_reno() -> SimConfig {
    SimConfig {
        transport: TransportConfig::new_reno(),
        switch: QueueConfig { marking: Marking::Off, ..QueueConfig::default() },
        // Without it drop-tail queues may lock subflows out for good; see `HostConfig::jitter`.
        host: HostConfig { jitter: Time::from_ns(50), ..HostConfig::default() },
        ..SimConfig::default()
    }
}

fn uplinks(t: &Topology) -> Vec<LinkIx> {
    let leaf = t.link(t.out_links(t.hosts()[0])[0]).to;
    let links = (0..t.links().len() as u32).map(LinkIx);
    links.filter(|l| !t.is_host_link(*l) && t.link(*l).from == leaf).collect()
}

/// Returns how many uplinks of the first leaf carried at least `bytes`.
fn uplinks_used(t: &Topology, o: &Outcome, bytes: u64) -> usize {
    uplinks(t).into_iter().filter(|l| o.links[l.ix()].bytes >= bytes).count()
}

#[test]
fn two_subflows_on_two_paths_carry_twice_what_one_path_does() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=1,host_rate=40Gbps,fabric_rate=10Gbps");
    let size = 200_000_000;
    let flows = list(vec![flow(0, 1, size, Time::ZERO)]);
    // Time both paths need when always busy.
    let bound_us = size as f64 / 1460.0 * 1.2 / 2.0;
    for config in [new_reno(), SimConfig::default()] {
        for coupling in ["lia", "olia", "none"] {
            let spec = format!("mptcp:subflows=2,open_after=0,coupling={coupling}");
            let (o, _) = (0..20)
                .map(|seed| (simulate(&t, &flows, &spec, seed, &config), seed))
                .find(|(o, _)| uplinks_used(&t, o, size / 10) == 2)
                .expect("twenty seeds put both subflows on one path");
            let alone = simulate(&t, &flows, "ecmp", 1, &config).flows[0].fct.as_us_f64();
            let got = o.flows[0].fct.as_us_f64();
            assert!(got > bound_us && got < 1.05 * bound_us, "{spec}: {got} us, bound {bound_us}");
            assert!(alone / got > 1.9, "{spec}: {alone} us alone");
        }
    }
}

#[test]
fn switches_that_know_subflows_give_each_a_different_path() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=1,host_rate=40Gbps,fabric_rate=10Gbps");
    let size = 20_000_000;
    // Probes have been everywhere; the next ones come when all subflows have begun, but for a part of 1 %.
    let flows = list(vec![flow(0, 1, size, Time::from_ms(5))]);
    let spread = |balancer: &str| {
        let used = |seed| uplinks_used(&t, &simulate(&t, &flows, balancer, seed, &new_reno()), size / 20);
        (0..10).map(used).filter(|used| *used == 4).count()
    };
    let switches = spread("mp-hula:subflows=4,open_after=0,gap=1s,gap_mode=exact,probe_interval=1ms,age=10ms");
    let hashes = spread("mptcp:subflows=4,open_after=0");
    println!("seeds of 10 in which 4 subflows take 4 paths: {switches} by mp-hula, {hashes} by hashes (9 % expected)");
    assert!(switches >= 9 && hashes <= 4, "mp-hula {switches}, mptcp {hashes}");
}

#[test]
fn equal_random_loss_coupled_subflows_equal_one_tcp() {
    // The setting of the theory behind RFC 6356 goal 2: every packet is lost with probability p,
    // regardless of its sender. A window that grows by a per round trip is sqrt(2 a / p).
    // Uncoupled, n subflows have n times the rate of TCP. With LIA and equal round trips alpha =
    // max(w) / sum(w): 1/n and the rate of one TCP if windows were steady. They are not: per
    // acknowledgement a subflow adds a constant and with probability p halves. So its window is a
    // sum of geometric variables with coefficient of variation sqrt(4/3)/2 = 0.58, and the rate of
    // two is sqrt(1 + 1.13 * 0.58 / 2) = 1.15.
    let t = topology("leaf-spine:leaves=2,spines=1,hosts_per_leaf=1,host_delay=50us,fabric_delay=50us");
    let fault = FailureKind::RandomDrop { link: uplinks(&t)[0], probability: 0.002 };
    let config = SimConfig {
        transport: TransportConfig { max_window_packets: Some(4000), ..TransportConfig::new_reno() },
        switch: QueueConfig { limit: QueueLimit::Packets(4000), marking: Marking::Off, ..QueueConfig::default() },
        failures: vec![permanent(fault)],
        ..SimConfig::default()
    };
    let flows = list(vec![flow(0, 1, 200_000_000, Time::ZERO)]);
    let rate = |spec: &str| {
        let rates = (1..=3).map(|seed| 1.0 / simulate(&t, &flows, spec, seed, &config).flows[0].fct.as_s_f64());
        rates.sum::<f64>()
    };
    let tcp = rate("ecmp");
    let relative = |spec: &str| rate(&format!("mptcp:open_after=0,{spec}")) / tcp;
    for count in [2.0, 4.0] {
        let got = relative(&format!("subflows={count},coupling=none"));
        assert!((got / count - 1.0).abs() < 0.05, "{count} uncoupled: {got}");
    }
    for coupling in ["lia", "olia"] {
        let got = relative(&format!("subflows=2,coupling={coupling}"));
        assert!((0.95..1.2).contains(&got), "{coupling}: {got} times TCP");
    }
}

#[test]
fn shared_drop_tail_bottleneck_coupling_leaves_tcp_more() {
    // A connection that sends `tcp_bytes` on its first subflow opens the second when a flow that
    // stays below that, and so remains one TCP, begins. Uncoupled, TCP has one share of three.
    // Coupled, it has half if losses were independent. If a full queue always drops the packet of
    // the flow that has just grown, losses follow growth and all windows are equal, so TCP has a
    // third again. A drop-tail queue lies between.
    let t = topology("dumbbell:n=2,host_rate=4Gbps,bottleneck_rate=1Gbps");
    let tcp_bytes = 100_000_000u64;
    let second_opens = Time::from_ps((tcp_bytes as f64 / 1460.0 * 12e6) as u64);
    let flows = list(vec![flow(0, 2, 4 * tcp_bytes, Time::ZERO), flow(1, 3, tcp_bytes, second_opens)]);
    let config = SimConfig { host: HostConfig { jitter: Time::from_us(2), ..HostConfig::default() }, ..new_reno() };
    let share = |coupling: &str| {
        let spec = format!("mptcp:subflows=2,open_after={tcp_bytes},coupling={coupling}");
        // A time-out in its slow start would give the TCP flow a second subflow too.
        let runs = (1..=14).map(|seed| simulate(&t, &flows, &spec, seed, &config)).filter(|o| o.engine.peak_flows == 3);
        let shares: Vec<f64> =
            runs.take(3).map(|o| tcp_bytes as f64 / 1460.0 * 12.0 / o.flows[1].fct.as_us_f64()).collect();
        assert_eq!(shares.len(), 3, "{coupling}");
        shares.iter().sum::<f64>() / 3.0
    };
    let [lia, olia, none] = ["lia", "olia", "none"].map(share);
    println!("share of one TCP next to two subflows: LIA {lia:.3}, OLIA {olia:.3}, uncoupled {none:.3}");
    assert!((none - 1.0 / 3.0).abs() < 0.03, "uncoupled: {none}");
    assert!(lia > none && lia < 0.55 && olia > none && olia < 0.55, "LIA {lia}, OLIA {olia}, uncoupled {none}");
}

/// Returns delivered bytes per host rate and time, over flows from every host to one other.
fn permutation_throughput(k: u32, balancer: &str, until: Time) -> f64 {
    let t = topology(&format!("fat-tree:k={k}"));
    let hosts = t.hosts().len() as u32;
    let mut order: Vec<u32> = (0..hosts).collect();
    let mut rng = net::RandomStream::new(5, "permutation");
    // A random cyclic order: every host sends to the next, no host to itself.
    for i in (1..hosts as usize).rev() {
        order.swap(i, rng.next_below(i as u64 + 1) as usize);
    }
    let flows = (0..hosts as usize).map(|i| {
        let next = order[(i + 1) % hosts as usize];
        flow(order[i], next, 1_000_000_000, Time::from_ns(i as u64 * 100))
    });
    let config = SimConfig { stop: StopRule { until: Some(until) }, ..new_reno() };
    let o = simulate(&t, &list(flows.collect()), balancer, 3, &config);
    let bits: f64 = o.flows.iter().map(|f| f.delivered_bytes as f64 * 8.0).sum();
    bits / (f64::from(hosts) * 10e9 * until.as_s_f64())
}

#[test]
fn more_subflows_carry_more_of_a_permutation() {
    for (k, until) in [(4, Time::from_ms(40)), (8, Time::from_ms(10))] {
        let [ecmp, two, eight] = ["ecmp", "mptcp:subflows=2,open_after=0", "mptcp:subflows=8,open_after=0"]
            .map(|balancer| permutation_throughput(k, balancer, until));
        println!("k={k}: ECMP {ecmp:.3}, MPTCP-2 {two:.3}, MPTCP-8 {eight:.3}");
        assert!(eight > two && two > ecmp, "k={k}: ECMP {ecmp}, MPTCP-2 {two}, MPTCP-8 {eight}");
    }
}

#[test]
fn f2s_two_path_example_takes_about_as_long_as_fixed_halves() {
    // mechanisms.md §10 oracle 1: 20, 80, 60 and 40 Mb over two paths of 100 Mb/s take 2.0 s on one
    // path, 1.0 s at best, and 1.1 s if the larger two are halved for good. Subflows that share
    // data could do better than halves, not better than 1.0; with losses they take 1.10 s on average.
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=4,host_rate=1Gbps,fabric_rate=100Mbps");
    let flows = [20, 80, 60, 40].iter().zip(0..).map(|(megabits, i)| flow(i, 4 + i, megabits * 125_000, Time::ZERO));
    let flows = list(flows.collect());
    // The mean of ten runs, in units of payload at full rate. A packet lost at the end of a flow costs a
    // time-out, so single runs on one path take 2.08 to 2.16 s.
    let makespan = |spec: &str| {
        let run = |seed| last_us(&simulate(&t, &flows, spec, seed, &new_reno())) / 1e6 * 1460.0 / 1500.0;
        (1..=10).map(run).sum::<f64>() / 10.0
    };
    let single = makespan("spt:tie=first");
    assert!((2.0..2.2).contains(&single), "one path: {single} s");
    let shared = makespan("mptcp:subflows=8,open_after=0");
    assert!((1.0..1.15).contains(&shared), "MPTCP: {shared} s");
}

fn blackhole(t: &Topology, spines: usize) -> Vec<Failure> {
    let fault = |link| FailureKind::Blackhole { node: t.link(link).to, fraction: 1.0, racks: None };
    uplinks(t).into_iter().map(|link| permanent(fault(link))).take(spines).collect()
}

#[test]
fn blackholed_subflows_do_not_hang_a_flow() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=4");
    let flows = some_flows(8, 100, 3, Time::from_ms(2), 400_000);
    let config = SimConfig {
        failures: blackhole(&t, 1),
        transport: TransportConfig { max_timeouts: 3, ..TransportConfig::new_reno() },
        ..new_reno()
    };
    let ecmp = simulate(&t, &flows, "ecmp", 1, &config);
    assert!(ecmp.accounting.flows_failed > 0);
    for spec in ["mptcp:open_after=0", "mptcp", "mptcp:subflows=4,coupling=olia,open_after=30000"] {
        let o = simulate(&t, &flows, spec, 1, &config);
        assert!(o.accounting.dropped.blackhole > 0 && o.flows.iter().any(|f| f.timeouts > 0), "{spec}");
        assert_eq!(o.accounting.flows_completed, 100, "{spec}");
        assert_eq!(o.accounting.packets_in_flight, 0, "{spec}");
        for (record, flow) in o.flows.iter().zip(&flows.flows) {
            assert_eq!(record.delivered_bytes, flow.size_bytes, "{spec}");
            // All subflows dead but one: each times out once before its data is sent elsewhere.
            assert!(record.fct < Time::from_ms(60), "{spec}: {}", record.fct);
        }
    }
}

#[test]
fn flow_fails_after_all_connections_fail() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=4");
    let flows = list((0..4).map(|i| flow(i, 4 + i, 50_000, Time::ZERO)).collect());
    let transport = TransportConfig { max_timeouts: 2, ..TransportConfig::new_reno() };
    for spec in ["mptcp:open_after=0", "repflow", "repsyn", "repflow:copies=5"] {
        let config = SimConfig { failures: blackhole(&t, 2), transport: transport.clone(), ..new_reno() };
        let o = simulate(&t, &flows, spec, 1, &config);
        assert_eq!((o.accounting.flows_started, o.accounting.flows_failed), (4, 4), "{spec}");
        assert!(o.flows.iter().all(|f| f.end == FlowEnd::Failed && f.delivered_bytes == 0), "{spec}");
    }
    // With one path dead and copies on both, no flow fails and none waits for a time-out.
    let config = SimConfig { failures: blackhole(&t, 1), transport, ..new_reno() };
    for spec in ["repflow:force_distinct=yes", "repsyn:force_distinct=yes"] {
        let o = simulate(&t, &flows, spec, 1, &config);
        // Acknowledgements have their own hash: both copies return on a dead path 1 time in 4.
        for record in o.flows.iter().filter(|record| record.timeouts == 0) {
            assert!(record.fct < config.transport.min_rto, "{spec}: {}", record.fct);
        }
        let none = o.flows.iter().filter(|record| record.end == FlowEnd::Completed).count();
        assert!(none >= 1, "{spec}");
    }
}

#[test]
fn distinct_copies_use_different_first_links() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=2");
    let flows = list(vec![flow(0, 2, 50_000, Time::ZERO)]);
    let used = |spec: &str, seed| uplinks_used(&t, &simulate(&t, &flows, spec, seed, &new_reno()), 50_000);
    assert!((0..40).all(|seed| used("repflow:force_distinct=yes", seed) == 2));
    assert!((0..40).all(|seed| used("repflow:force_distinct=yes,copies=4", seed) == 4));
    // More copies than links: as many links as there are.
    assert!((0..40).all(|seed| uplinks(&t).len() == 4 && used("repflow:force_distinct=yes,copies=6", seed) <= 4));
    // Left to chance, two copies meet with probability 1/4.
    let met = (0..400).filter(|seed| used("repflow", *seed) <= 1).count();
    assert!((70..130).contains(&met), "{met} of 400 met");
}

#[test]
fn a_replicated_flow_is_sent_twice_and_a_long_one_once() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=2");
    let flows = list(vec![flow(0, 2, 50_000, Time::ZERO)]);
    let o = simulate(&t, &flows, "repflow", 1, &new_reno());
    let record = &o.flows[0];
    // 35 segments per copy; the second arrives while the first acknowledgement is in flight.
    assert_eq!((record.packets_sent, record.delivered_bytes, record.duplicate_bytes), (70, 50_000, 50_000));
    assert_eq!((o.accounting.flows_started, o.accounting.flows_completed), (1, 1));

    let long = some_flows(4, 50, 2, Time::from_us(200), 400_000);
    let long = list(long.flows.into_iter().filter(|f| f.size_bytes > 100_000).collect());
    for (spec, other) in [("repflow", "ecmp"), ("repsyn", "ecmp"), ("mptcp:subflows=1", "ecmp")] {
        let (several, one) = (simulate(&t, &long, spec, 1, &new_reno()), simulate(&t, &long, other, 1, &new_reno()));
        assert_eq!(several, one, "{spec} treats long flows as {other} does");
    }
}

#[test]
fn only_the_handshake_is_replicated_by_repsyn() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=2");
    let flows = list(vec![flow(0, 2, 50_000, Time::ZERO)]);
    let handshake = with(TransportConfig { handshake: true, ..TransportConfig::new_reno() });
    let without = with(TransportConfig::new_reno());
    let one = simulate(&t, &flows, "ecmp", 1, &handshake);
    for config in [&handshake, &without] {
        let o = simulate(&t, &flows, "repsyn", 1, config);
        assert_eq!(o.flows[0].packets_sent, one.flows[0].packets_sent);
        assert_eq!(o.flows[0].fct, one.flows[0].fct, "in an empty network the first connection wins");
        assert_eq!(o.accounting.packets_sent, one.accounting.packets_sent + 2, "one more SYN and SYN-ACK");
        assert_eq!(o.flows[0].duplicate_bytes, 0);
    }
    // A SYN that a dead path loses has no effect if the other gets through.
    let config = SimConfig { failures: blackhole(&t, 1), ..without };
    let many = list((0..200).map(|i| flow(i % 2, 2 + i % 2, 20_000, Time::from_us(u64::from(i) * 50))).collect());
    let suffered = |spec: &str| {
        let o = simulate(&t, &many, spec, 1, &config);
        o.flows.iter().filter(|f| f.end != FlowEnd::Completed || f.fct >= config.transport.min_rto).count() as f64
            / 200.0
    };
    // Dead when either direction is hashed onto one of four spines: 7/16. Both connections are,
    // with different first hops: not more than the square of it.
    let (single, raced) = (suffered("ecmp"), suffered("repsyn:force_distinct=yes"));
    assert!((single - 7.0 / 16.0).abs() < 0.1, "{single}");
    assert!(raced < 0.25, "{raced}");
}

#[test]
fn subflows_shake_hands_each_and_small_flows_keep_one() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=2");
    let handshake = with(TransportConfig { handshake: true, ..TransportConfig::new_reno() });
    let sent = |size, spec: &str| {
        let o = simulate(&t, &list(vec![flow(0, 2, size, Time::ZERO)]), spec, 1, &handshake);
        assert_eq!(o.accounting.flows_completed, 1);
        (o.accounting.packets_sent, o.engine.peak_flows, o.flows[0].packets_sent)
    };
    let (packets, peak, data) = sent(10_000, "mptcp:subflows=3,open_after=0");
    assert_eq!((packets, peak, data), (7 + 7 + 3 * 2, 3, 7), "data, acknowledgements, three handshakes");
    assert_eq!(sent(10_000, "mptcp:subflows=3").1, 1, "below the threshold: one subflow");
    assert_eq!(sent(300_000, "mptcp:subflows=3").1, 3);
}

#[test]
fn a_flow_that_waits_starts_once_when_the_first_copy_is_complete() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=2");
    let mut flows = list(vec![flow(0, 2, 40_000, Time::ZERO)]);
    let delay = Time::from_us(7);
    flows.flows.push(Flow { start: Start::After { flow: 0, delay }, ..flow(1, 3, 40_000, Time::ZERO) });
    for spec in ["repflow", "repsyn", "mptcp:subflows=4,open_after=0"] {
        let o = simulate(&t, &flows, spec, 1, &new_reno());
        assert_eq!(o.accounting.flows_completed, 2, "{spec}");
        assert_eq!(o.flows[1].started, o.flows[0].fct.saturating_add(delay), "{spec}");
    }
}

#[test]
fn udp_is_refused() {
    let t = topology("dumbbell:n=1");
    let udp = TransportKind::Udp(UdpRate::Constant(Bandwidth::from_gbps(1)));
    let config = with(TransportConfig { kind: udp, ..TransportConfig::default() });
    let flows = list(vec![flow(0, 1, 10_000, Time::ZERO)]);
    for name in ["mptcp", "repflow", "repsyn"] {
        let error = try_simulate(&t, &flows, name, 1, &config).unwrap_err();
        assert!(matches!(error, SimError::Config { key: "transport", .. }));
        let reason = format!(
            "balancer `{name}` opens several connections per flow, but UDP has none; use newreno or dctcp, or a \
             balancer with one connection per flow"
        );
        assert_eq!(error.to_string(), format!("transport = udp: {reason}"));
    }
}

fn specs() -> impl Strategy<Value = String> {
    let mptcp = (1u32..9, 0usize..3, prop_oneof![Just(0u32), 1u32..80_000]).prop_map(|(subflows, coupling, after)| {
        let coupling = ["lia", "olia", "none"][coupling];
        format!("mptcp:subflows={subflows},coupling={coupling},open_after={after}")
    });
    let copies = (0usize..2, 2u32..6, 0usize..2, 1u32..120_000).prop_map(|(race, copies, distinct, max_size)| {
        let (race, distinct) = (["repflow", "repsyn"][race], ["no", "yes"][distinct]);
        format!("{race}:copies={copies},force_distinct={distinct},max_size={max_size}")
    });
    prop_oneof![mptcp, copies]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Every parameter, small windows and queues, losses, cut runs: the accounting is consistent,
    /// everything ends, bytes are counted once, and a second run is identical.
    #[test]
    fn several_connections_make_one_flow(
        spec in specs(),
        seed in 0u64..1_000,
        queue in 2u32..40,
        window in prop_oneof![Just(None), (1u32..60).prop_map(Some)],
        handshake in any::<bool>(),
        is_dctcp in any::<bool>(),
        loss in 0.0f64..0.3,
        until in prop_oneof![Just(None), (50u64..3_000).prop_map(|us| Some(Time::from_us(us)))],
    ) {
        let t = topology("leaf-spine:leaves=3,spines=3,hosts_per_leaf=2");
        let flows: FlowList = some_flows(6, 30, seed, Time::from_us(400), 120_000);
        let kind = if is_dctcp { TransportKind::Dctcp(Dctcp { gain: 0.0625 }) } else { TransportKind::NewReno(NewReno) };
        let link = uplinks(&t)[(seed % 3) as usize];
        let config = SimConfig {
            transport: TransportConfig {
                kind,
                handshake,
                max_window_packets: window,
                min_rto: Time::from_us(400),
                max_timeouts: 4,
                ..TransportConfig::default()
            },
            switch: QueueConfig { limit: QueueLimit::Packets(queue), ..QueueConfig::default() },
            failures: vec![permanent(FailureKind::RandomDrop { link, probability: loss })],
            stop: StopRule { until },
            ..SimConfig::default()
        };
        let o = simulate(&t, &flows, &spec, seed, &config);
        prop_assert!(until.is_some() || (o.accounting.flows_running == 0 && o.accounting.packets_in_flight == 0));
        for (record, flow) in o.flows.iter().zip(&flows.flows) {
            if record.end == FlowEnd::Completed {
                prop_assert!(record.fct >= record.ideal, "{:?} below its bound", record);
                prop_assert_eq!(record.delivered_bytes, flow.size_bytes);
            }
            prop_assert!(record.delivered_bytes <= flow.size_bytes);
            let carried = record.delivered_bytes + record.duplicate_bytes;
            prop_assert!(carried <= u64::from(record.packets_sent) * 1460, "{:?} carried more than was sent", record);
        }
        prop_assert_eq!(&o, &simulate(&t, &flows, &spec, seed, &config));
    }
}
