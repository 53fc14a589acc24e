//! Priority flow control and traffic classes.

use crate::common::{flow, last_us, list, simulate, topology};
use anabranch_sim::{FlowEnd, HostConfig, Marking, Outcome, QueueConfig, SimConfig, TransportConfig};
use balance::Lossless;
use net::Time;

fn config(lossless: Option<Lossless>, priority_sizes: Vec<u64>) -> SimConfig {
    SimConfig {
        transport: TransportConfig { initial_window_packets: 100, ..TransportConfig::new_reno() },
        switch: QueueConfig { marking: Marking::Off, lossless, ..QueueConfig::default() },
        host: HostConfig { priority_sizes, ..HostConfig::default() },
        ..SimConfig::default()
    }
}

fn pfc(priorities: u8) -> Option<Lossless> {
    Some(Lossless { priorities, pause_above_bytes: 40_000, resume_below_bytes: 20_000 })
}

fn incast(config: &SimConfig) -> Outcome {
    let t = topology("leaf-spine:leaves=3,spines=2,hosts_per_leaf=8");
    let flows = list((0..16).map(|src| flow(src, 16, 1_000_000, Time::ZERO)).collect());
    simulate(&t, &flows, "ecmp", 1, config)
}

#[test]
fn an_incast_loses_nothing_and_keeps_the_last_link_busy() {
    let lossy = incast(&config(None, vec![]));
    let dropped = lossy.accounting.dropped;
    assert!(dropped.queue > 100, "the scenario must overload the queue: {dropped:?}");
    let lossless = incast(&config(pfc(1), vec![]));
    assert_eq!((lossless.accounting.dropped.total(), lossless.accounting.flows_completed), (0, 16));
    assert!(lossless.flows.iter().all(|flow| flow.retransmitted == 0 && flow.timeouts == 0));
    // 16 MB and their headers over one link of 10 Gb/s, and one latency.
    let bytes = 16.0 * (1_000_000.0 + 685.0 * 40.0);
    let bound = bytes * 8.0 / 10e9 * 1e6;
    let last = last_us(&lossless);
    assert!(last >= bound && last < bound * 1.01 + 60.0, "{last} us, bound {bound}");
    // Its buffers are bounded by the bytes that its neighbours may send before they stop.
    let deepest = lossless.queues.iter().map(|queue| queue.max_bytes).max().unwrap();
    assert!(deepest < 16 * (40_000 + 30_000), "{deepest} bytes");
}

#[test]
fn the_urgent_class_overtakes() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=4");
    let mut flows: Vec<_> = (0..3).map(|src| flow(src, 4, 4_000_000, Time::ZERO)).collect();
    flows.extend((0..20).map(|n| flow(3, 4, 8_000, Time::from_us(1_000 + 200 * n))));
    let flows = list(flows);
    let worst = |config: &SimConfig| {
        let o = simulate(&t, &flows, "ecmp", 1, config);
        assert!(o.flows.iter().all(|flow| flow.end == FlowEnd::Completed));
        let slowdown = |flow: &anabranch_sim::FlowRecord| flow.fct.as_us_f64() / flow.ideal.as_us_f64();
        o.flows[3..].iter().map(slowdown).fold(0.0, f64::max)
    };
    let (one_class, two_classes) = (worst(&config(pfc(1), vec![10_000])), worst(&config(pfc(2), vec![10_000])));
    assert!(one_class > 2.0, "short flows must suffer in one class: {one_class}");
    // An urgent packet waits for one packet in transmission at each of four hops only.
    assert!(two_classes < 1.3 && two_classes < one_class / 2.0, "{two_classes} against {one_class}");
}

#[test]
fn watchdog_ends_pause_deadlock() {
    // Around a ring, every host sending half-way: buffers wait for each other in a cycle.
    let t = topology("camcube:k=5");
    let n = t.hosts().len() as u32;
    let flows = list((0..n).map(|src| flow(src, (src + 62) % n, 2_000_000, Time::ZERO)).collect());
    let tight = Some(Lossless { priorities: 1, pause_above_bytes: 3_000, resume_below_bytes: 1_500 });
    let o = simulate(&t, &flows, "spt:tie=first", 1, &config(tight, vec![]));
    assert!(o.accounting.dropped.watchdog > 0, "the scenario must deadlock: {:?}", o.accounting.dropped);
    assert_eq!(o.accounting.flows_completed, u64::from(n), "{:?}", o.accounting);
}
