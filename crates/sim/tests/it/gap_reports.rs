//! Edges that take reports of gaps away (Themis), with RDMA senders that take reports for losses.

use anabranch_sim::{
    FailureKind, HostConfig, Outcome, QueueConfig, RdmaRecovery, Resequencing, SimConfig, TransportConfig,
};
use balance::Lossless;
use net::Time;

use crate::common::{
    all_transports, flow, last_us, link, list, permanent, simulate, some_flows, topology, total, with,
};

const RECOVERIES: [RdmaRecovery; 2] = [RdmaRecovery::GoBackN, RdmaRecovery::Selective];

fn retransmitted(o: &Outcome) -> u32 {
    total(o, |flow| flow.retransmitted)
}

/// Four flows between two racks with four paths, one of which is slower, so that packets overtake.
/// Switches pause instead of dropping.
fn uneven(recovery: RdmaRecovery, balancer: &str, loss: f64, resequencing: Resequencing) -> Outcome {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=4");
    let flows = list((0..4).map(|i| flow(i, 4 + i, 4_000_000, Time::ZERO)).collect());
    let slow = permanent(FailureKind::LinkRate { link: link(&t, "leaf0", "spine1"), fraction: 0.5 });
    let lossy = permanent(FailureKind::RandomDrop { link: link(&t, "spine2", "leaf1"), probability: loss });
    let failures = if loss > 0.0 { vec![slow, lossy] } else { vec![slow] };
    let host = HostConfig { resequencing, ..HostConfig::default() };
    let lossless = Some(Lossless { priorities: 1, pause_above_bytes: 40_000, resume_below_bytes: 20_000 });
    let switch = QueueConfig { lossless, ..QueueConfig::default() };
    let config = SimConfig { failures, host, switch, ..with(TransportConfig::rdma(recovery)) };
    let o = simulate(&t, &flows, balancer, 1, &config);
    assert_eq!(o.accounting.flows_completed, 4, "{balancer} with a loss of {loss}");
    let a = &o.accounting;
    assert_eq!(a.packets_sent, a.packets_delivered + a.dropped.total() + a.packets_in_flight);
    o
}

#[test]
fn without_losses_nothing_is_sent_again_although_packets_overtake() {
    for recovery in RECOVERIES {
        let run = |balancer| uneven(recovery, balancer, 0.0, Resequencing::Auto);
        let [themis, spraying] = ["themis", "themis:filter=off"].map(run);
        let reordered = [&themis, &spraying].map(|o| total(o, |flow| u64::from(flow.reordered)));
        assert!([&themis, &spraying].iter().all(|o| o.accounting.dropped.total() == 0));
        assert!(reordered.iter().all(|reordered| *reordered > 50), "paths must differ: {reordered:?}");
        let (with, without) = (retransmitted(&themis), retransmitted(&spraying));
        let times = (last_us(&themis), last_us(&spraying));
        println!("{recovery:?}: sent again with Themis {with}, without {without}; last completions in us {times:?}");
        assert_eq!(with, 0, "{recovery:?}");
        assert!(without > 50, "{recovery:?}: {without}");
    }
}

#[test]
fn every_flow_ends_and_every_loss_is_repaired() {
    for recovery in RECOVERIES {
        for loss in [0.001, 0.01, 0.1] {
            let o = uneven(recovery, "themis", loss, Resequencing::Auto);
            let (again, lost) = (retransmitted(&o), o.accounting.dropped.total());
            let (timeouts, reports) = (total(&o, |f| f.timeouts), total(&o, |f| f.fast_retransmits));
            let us = last_us(&o);
            println!(
                "{recovery:?}, loss of {loss}: {lost} lost, {again} sent again after {reports} reports and \
                 {timeouts} time-outs, {us} us"
            );
            assert!(lost > 0 && u64::from(again) >= lost, "{again} sent again, {lost} lost");
            assert!(reports > timeouts, "{recovery:?}: {reports} reports, {timeouts} time-outs");
        }
    }
}

#[test]
fn reports_of_receivers_that_discard_early_packets_pass() {
    let run = |balancer| uneven(RdmaRecovery::GoBackN, balancer, 0.0, Resequencing::Off);
    let [themis, spraying] = ["themis", "themis:filter=off"].map(run);
    println!("discarding: {} of {} packets sent again", retransmitted(&themis), total(&themis, |f| f.packets_sent));
    assert_eq!(themis.flows, spraying.flows);
}

#[test]
fn with_every_transport_all_flows_end_while_a_path_loses_packets() {
    let t = topology("leaf-spine:leaves=3,spines=4,hosts_per_leaf=4");
    let flows = some_flows(12, 100, 3, Time::from_us(300), 200_000);
    for (name, transport) in all_transports() {
        let lossy = FailureKind::RandomDrop { link: link(&t, "spine1", "leaf1"), probability: 0.05 };
        let config = SimConfig { failures: vec![permanent(lossy)], ..with(transport) };
        let o = simulate(&t, &flows, "themis", 1, &config);
        assert_eq!(o.accounting.flows_completed, 100, "{name}");
        assert!(o.accounting.dropped.total() > 0, "{name}");
    }
}
