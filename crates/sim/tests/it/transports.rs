//! CUBIC, SACK, the `spray` transport, trimming and RDMA: closed forms and known properties.

use crate::common::{
    all_transports, fabric_link, fault, flow, last_us, list, simulate, some_flows, topology, total, with,
};
use anabranch_sim::{
    FailureKind, FlowEnd, HostConfig, Marking, Outcome, QueueConfig, QueueLimit, RdmaRecovery, Resequencing, SimConfig,
    TransportConfig,
};
use net::Time;

/// Returns the payload rate of a flow as a share of that of a busy link of 10 Gb/s.
fn share_of_line(o: &Outcome, flow: usize, bytes: u64) -> f64 {
    bytes as f64 / 1460.0 * 1.2 / o.flows[flow].fct.as_us_f64()
}

#[test]
fn every_transport_alone_reaches_line_rate() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=2");
    let size = 20_000_000;
    for (name, transport) in all_transports() {
        let o = simulate(&t, &list(vec![flow(0, 2, size, Time::ZERO)]), "ecmp", 1, &with(transport));
        let share = share_of_line(&o, 0, size);
        assert!(share > 0.98 && o.flows[0].fct >= o.flows[0].ideal, "{name}: {share} of the line");
        assert_eq!(total(&o, |f| f.retransmitted), 0, "{name}");
    }
}

#[test]
fn rdma_sends_at_the_rate_of_its_own_interface() {
    // Switches come before hosts in this network, and their links are slower.
    let t = topology("fat-tree:k=4,host_rate=40Gbps,fabric_rate=10Gbps");
    assert_ne!(t.host(net::HostIx(0)).0, 0, "hosts have other numbers as nodes");
    let size = 20_000_000;
    let config = with(TransportConfig::rdma(RdmaRecovery::Selective));
    let o = simulate(&t, &list(vec![flow(0, 1, size, Time::ZERO)]), "ecmp", 1, &config);
    let share = share_of_line(&o, 0, size) / 4.0;
    assert!(share > 0.95, "{share} of 40 Gb/s");
}

#[test]
fn sack_repairs_many_losses_faster_than_newreno() {
    // Slow start overruns a queue before a slower link: half of a window is lost at once.
    let t = topology("dumbbell:n=1,bottleneck_rate=2Gbps,bottleneck_delay=100us");
    let flows = list(vec![flow(0, 1, 4_000_000, Time::ZERO)]);
    let run = |sack| {
        let transport = TransportConfig {
            sack,
            max_window_packets: Some(1000),
            // NewReno's impatient timer would cut its recovery short.
            min_rto: Time::from_ms(250),
            ..TransportConfig::new_reno()
        };
        let switch = QueueConfig { marking: Marking::Off, ..QueueConfig::default() };
        simulate(&t, &flows, "ecmp", 1, &SimConfig { transport, switch, ..SimConfig::default() })
    };
    let (plain, sack) = (run(false), run(true));
    assert!(plain.accounting.dropped.queue > 20 && sack.accounting.dropped.queue > 20);
    // NewReno fills one hole per round trip; with SACK all holes are known immediately.
    let saved = plain.flows[0].fct.as_us_f64() - sack.flows[0].fct.as_us_f64();
    let holes = plain.accounting.dropped.queue as f64;
    println!("{holes} losses: {} us with SACK, {saved} us more without", sack.flows[0].fct.as_us_f64());
    assert!(saved > 0.5 * holes * 200.0, "{saved} us saved with {holes} losses");
    assert_eq!(total(&sack, |f| f.timeouts), 0);
    // Every retransmission was of a lost segment: no acknowledgement was lost.
    assert_eq!(total(&sack, |f| f.spurious), 0);
    assert_eq!(u64::from(total(&sack, |f| f.retransmitted)), sack.accounting.dropped.queue);
}

#[test]
fn spray_flows_share_a_bottleneck_fairly() {
    let t = topology("dumbbell:n=8");
    let size = 30_000_000;
    // Jitter as in every test of shares: exact regularity has phase effects (`HostConfig::jitter`).
    let host = HostConfig { jitter: Time::from_ns(50), ..HostConfig::default() };
    for count in [2u32, 4, 8] {
        let flows = (0..count).map(|i| flow(i, 8 + i, size, Time::from_us(u64::from(i) * 20))).collect();
        let config = SimConfig { host: host.clone(), ..with(TransportConfig::spray()) };
        let o = simulate(&t, &list(flows), "ecmp", 1, &config);
        let times: Vec<f64> = o.flows.iter().map(|f| f.fct.as_us_f64()).collect();
        let (least, most) = (times.iter().copied().fold(f64::MAX, f64::min), times.iter().copied().fold(0.0, f64::max));
        let wire = f64::from(count) * size as f64 / 1460.0 * 1.2;
        assert!(most < 1.05 * wire, "{count} flows: {most} us for {wire} us of packets");
        assert!(least > 0.9 * most, "{count} flows: {least} to {most} us");
    }
}

#[test]
fn spray_transport_uses_all_paths_without_resequencing() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=4");
    let size = 20_000_000;
    let flows = list((0..4).map(|i| flow(i, 4 + i, size, Time::ZERO)).collect());
    let o = simulate(&t, &flows, "spray", 1, &with(TransportConfig::spray()));
    assert!(!o.resequencing.active && total(&o, |f| f.reordered) > 0);
    assert_eq!(total(&o, |f| f.spurious), 0);
    for i in 0..4 {
        assert!(share_of_line(&o, i, size) > 0.85, "flow {i}: {} of the line", share_of_line(&o, i, size));
    }
}

#[test]
fn an_incast_converges_with_trimming_and_without() {
    let t = topology("single-switch:hosts=33");
    let size = 1_460_000;
    let flows = list((0..32).map(|i| flow(i, 32, size, Time::ZERO)).collect());
    let wire = 32.0 * size as f64 / 1460.0 * 1.2;
    for trimming in [true, false] {
        let switch = QueueConfig { trimming, ..QueueConfig::default() };
        let config = SimConfig { switch, ..with(TransportConfig::spray()) };
        let o = simulate(&t, &flows, "ecmp", 1, &config);
        assert_eq!(o.accounting.flows_completed, 32);
        let last = last_us(&o);
        assert!(last < 1.1 * wire, "trimming {trimming}: {last} us for {wire} us of packets");
        let first = o.flows.iter().map(|f| f.fct.as_us_f64()).fold(f64::MAX, f64::min);
        assert!(first > 0.7 * last, "trimming {trimming}: {first} to {last} us");
        if trimming {
            assert!(o.accounting.packets_trimmed > 0 && o.accounting.dropped.total() == 0, "{:?}", o.accounting);
            assert_eq!(total(&o, |f| f.timeouts), 0);
        } else {
            assert!(o.accounting.packets_trimmed == 0);
        }
    }
}

#[test]
fn acknowledgements_in_the_control_class_do_not_wait_for_data() {
    let t = topology("dumbbell:n=3");
    let crossing = [flow(4, 1, 10_000_000, Time::ZERO), flow(5, 2, 10_000_000, Time::ZERO)];
    // The last segment of flow 0 arrives when the others have filled the queue of the return direction.
    let measured = flow(0, 3, 1460, Time::from_ms(2));
    let ack_us = |flows, control_class| {
        let switch = QueueConfig { marking: Marking::Off, control_class, ..QueueConfig::default() };
        let o = simulate(&t, &list(flows), "ecmp", 1, &SimConfig { switch, ..with(TransportConfig::new_reno()) });
        let flow = o.flows.last().unwrap();
        assert_eq!(flow.end, FlowEnd::Completed);
        flow.sender_fct.as_us_f64() - flow.fct.as_us_f64()
    };
    let all = || crossing.into_iter().chain([measured]).collect();
    let alone = ack_us(vec![measured], None);
    let (without, with) = (ack_us(all(), None), ack_us(all(), Some(true)));
    println!("{alone} us alone, {without} us behind data, {with} us before data");
    // A transmission is never interrupted, and takes 1.2 us.
    assert!(with >= alone && with <= alone + 1.2, "{with} us for {alone} us");
    assert!(without > alone + 20.0, "{without} us for {alone} us");
}

#[test]
fn a_cable_that_is_slow_one_way_delays_that_direction_alone() {
    let t = topology("dumbbell:n=1");
    let slow = fault(FailureKind::OneWayRate { link: fabric_link(&t), fraction: 0.25 }, 0, None, 0);
    let us = |src, failures| {
        let flows = list(vec![flow(src, 1 - src, 20_000_000, Time::ZERO)]);
        last_us(&simulate(&t, &flows, "ecmp", 1, &SimConfig { failures, ..SimConfig::default() }))
    };
    let mut times = [0, 1].map(|src| us(src, vec![slow.clone()]) / us(src, vec![]));
    times.sort_by(f64::total_cmp);
    // Acknowledgements in the slow direction do not delay the data of the other one.
    assert!((times[0] - 1.0).abs() < 0.01 && (times[1] - 4.0).abs() < 0.1, "{times:?}");
}

#[test]
fn trimmed_packets_retransmitted_not_delivered() {
    let t = topology("single-switch:hosts=17");
    let flows = list((0..16).map(|i| flow(i, 16, 300 * 1460, Time::ZERO)).collect());
    let switch = QueueConfig { limit: QueueLimit::Packets(20), trimming: true, ..QueueConfig::default() };
    let config = SimConfig { switch, ..with(TransportConfig::spray()) };
    let o = simulate(&t, &flows, "ecmp", 1, &config);
    let links: u64 = o.links.iter().map(|link| link.trims).sum();
    assert_eq!(links, o.accounting.packets_trimmed);
    assert!(links > 0);
    assert_eq!(o.accounting.packets_sent, o.accounting.packets_delivered + o.accounting.dropped.total());
    // Each of the 300 segments arrived whole once; every other packet was trimmed, lost or a copy.
    let sent = u64::from(total(&o, |f| f.packets_sent));
    let copies = u64::from(total(&o, |f| f.spurious));
    assert_eq!(sent, 16 * 300 + links + copies, "headers fit: {:?}", o.accounting);
}

/// DCQCN's marking as published for 40 Gb/s: 5 KB, 200 KB, 1 %; on deep queues.
fn rdma(recovery: RdmaRecovery) -> SimConfig {
    SimConfig {
        switch: QueueConfig {
            limit: QueueLimit::Bytes(1_000_000),
            marking: Marking::Ramp { min_bytes: 5_000, max_bytes: 200_000, max_probability: 0.01 },
            ..QueueConfig::default()
        },
        ..with(TransportConfig::rdma(recovery))
    }
}

#[test]
fn two_rdma_flows_converge_to_a_fair_share() {
    let t = topology("dumbbell:n=2,host_rate=40Gbps,bottleneck_rate=40Gbps");
    let size = 1_000_000_000;
    let flows = list(vec![flow(0, 2, size, Time::ZERO), flow(1, 3, size, Time::from_ms(20))]);
    for recovery in [RdmaRecovery::GoBackN, RdmaRecovery::Selective] {
        let o = simulate(&t, &flows, "ecmp", 1, &rdma(recovery));
        assert_eq!(o.accounting.dropped.total(), 0);
        let times: Vec<f64> = o.flows.iter().map(|f| f.fct.as_us_f64()).collect();
        let wire = size as f64 / 1460.0 * 0.3;
        println!("{recovery:?}: {times:?} us");
        // Alone for 20 ms, then half each, then the second alone: equally long.
        let expected = 2.0 * wire - 20_000.0;
        for (ix, time) in times.iter().enumerate() {
            assert!((time / expected - 1.0).abs() < 0.1, "{recovery:?} flow {ix}: {time} us, expected {expected}");
        }
    }
}

#[test]
fn go_back_n_collapses_under_spraying_and_selective_does_not() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=4");
    let size = 10_000_000;
    let flows = list((0..4).map(|i| flow(i, 4 + i, size, Time::ZERO)).collect());
    let rate = |recovery, balancer: &str| {
        let o = simulate(&t, &flows, balancer, 1, &rdma(recovery));
        assert_eq!(o.accounting.flows_completed, 4);
        let mean = (0..4).map(|i| share_of_line(&o, i, size)).sum::<f64>() / 4.0;
        (mean, f64::from(total(&o, |f| f.retransmitted)) / f64::from(total(&o, |f| f.packets_sent)))
    };
    let collapsed = rate(RdmaRecovery::GoBackN, "spray");
    let selective = rate(RdmaRecovery::Selective, "spray");
    println!("share of line rate and of retransmissions: go-back-n {collapsed:?}, selective {selective:?}");
    assert!(collapsed.0 < 0.5 * selective.0, "go-back-n {collapsed:?}, selective {selective:?}");
    assert!(collapsed.1 > 0.5, "most of what go-back-n sends was sent before: {collapsed:?}");
    assert!(selective.0 > 0.5, "{selective:?}");
}

#[test]
fn every_transport_survives_a_dying_link() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=4");
    let up = fabric_link(&t);
    let flows = some_flows(8, 100, 3, Time::from_ms(2), 300_000);
    for (name, transport) in all_transports() {
        let failures = vec![fault(FailureKind::LinkDown(up), 300, None, 500)];
        let host = HostConfig { resequencing: Resequencing::Off, ..HostConfig::default() };
        let o = simulate(&t, &flows, "ecmp", 1, &SimConfig { failures, host, ..with(transport) });
        assert!(o.flows.iter().all(|f| f.end == FlowEnd::Completed), "{name}");
        assert!(o.accounting.dropped.link_down > 0 && total(&o, |f| f.retransmitted) > 0, "{name}");
    }
}

#[test]
fn rdma_loses_nothing_where_switches_pause() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=8");
    let flows = list((0..8).map(|i| flow(i, 8, 2_000_000, Time::ZERO)).collect());
    let pause = balance::Lossless { priorities: 1, pause_above_bytes: 40_000, resume_below_bytes: 20_000 };
    for recovery in [RdmaRecovery::GoBackN, RdmaRecovery::Selective] {
        let run = |lossless| {
            let switch = QueueConfig { limit: QueueLimit::Bytes(60_000), lossless, ..rdma(recovery).switch };
            simulate(&t, &flows, "ecmp", 1, &SimConfig { switch, ..rdma(recovery) })
        };
        let (lossy, lossless) = (run(None), run(Some(pause)));
        assert_eq!((lossy.accounting.flows_completed, lossless.accounting.flows_completed), (8, 8));
        assert!(lossy.accounting.dropped.queue > 0 && total(&lossy, |f| f.retransmitted) > 0, "{recovery:?}");
        assert_eq!(lossless.accounting.dropped.total(), 0, "{recovery:?}");
        // A paused packet is not lost: nothing is sent twice.
        assert_eq!(total(&lossless, |f| f.retransmitted), 0, "{recovery:?}");
    }
}

/// Two sites 5 ms apart: six senders to the other site fill the link between them.
#[test]
fn feedback_of_near_switches_bounds_their_queues_within_microseconds() {
    let t = topology("dumbbell:n=6,bottleneck_delay=5ms");
    let flows = list((0..6).map(|src| flow(src, 6 + src, 30_000_000, Time::ZERO)).collect());
    let run = |transport: TransportConfig| {
        let transport = TransportConfig { initial_window_packets: 1000, min_rto: Time::from_ms(50), ..transport };
        let config =
            SimConfig { host: HostConfig { jitter: Time::from_ns(50), ..HostConfig::default() }, ..with(transport) };
        simulate(&t, &flows, "ecmp", 1, &config)
    };
    let dctcp = run(TransportConfig { sack: true, ..TransportConfig::default() });
    let annulus = run(TransportConfig::annulus());
    let (lost, kept) = (dctcp.accounting.dropped.queue, annulus.accounting.dropped.queue);
    println!("{lost} and {kept} lost; {} and {} us", last_us(&dctcp), last_us(&annulus));
    assert!(lost > 1000, "the first windows overrun the queue: {lost}");
    assert!(kept < lost / 10, "{kept} against {lost}");
    assert!(annulus.accounting.flows_completed == 6 && annulus.control.packets > 0);
}
