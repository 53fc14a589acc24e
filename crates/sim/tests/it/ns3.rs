//! The engine against ns-3.37 on identical flow lists, paths and settings. `data/ns3/README.md`
//! describes how the reference was made; `benches/peers/ns3` makes it again.

use crate::common::{flow, list, simulate, topology};
use anabranch_sim::{
    Dctcp, HostConfig, HostScheduler, Marking, NewReno, Outcome, QueueConfig, QueueLimit, Resequencing, SimConfig,
    TransportConfig, TransportKind,
};
use net::Time;
use traffic::FlowList;

struct Reference {
    topology: &'static str,
    flows: &'static str,
    result: &'static str,
    transport: TransportKind,
    queue_packets: u32,
    drops: u64,
}

const DUMBBELL_FLOWS: &str = include_str!("../data/ns3/dumbbell-flows.csv");
const FAT_TREE_FLOWS: &str = include_str!("../data/ns3/fat-tree-flows.csv");
const DCTCP: TransportKind = TransportKind::Dctcp(Dctcp { gain: 1.0 / 16.0 });

/// The runs differ from one with NewReno and queues too long to overflow.
const FAT_TREE: Reference = Reference {
    topology: "fat-tree:k=4",
    flows: FAT_TREE_FLOWS,
    result: include_str!("../data/ns3/fat-tree-no-loss-result.csv"),
    transport: TransportKind::NewReno(NewReno),
    queue_packets: 5_000,
    drops: 0,
};

fn flows(csv: &str) -> FlowList {
    let field = |line: &str, n: usize| line.split(',').nth(n).unwrap().parse::<u64>().unwrap();
    let read =
        |line: &str| flow(field(line, 0) as u32, field(line, 1) as u32, field(line, 2), Time::from_ps(field(line, 3)));
    list(csv.lines().skip(1).map(read).collect())
}

/// Returns the receiver-side completion times of ns-3, microseconds.
fn reference_fcts(csv: &str) -> Vec<f64> {
    csv.lines().skip(1).map(|line| line.split(',').nth(6).unwrap().parse().unwrap()).collect()
}

fn simulated(reference: &Reference, jitter: Time, seed: u64) -> Outcome {
    let config = SimConfig {
        transport: TransportConfig {
            kind: reference.transport,
            max_window_packets: Some(200),
            min_rto: Time::from_ms(5),
            limited_transmit: false,
            ..TransportConfig::default()
        },
        host: HostConfig {
            scheduler: HostScheduler::Fifo,
            resequencing: Resequencing::Off,
            jitter,
            ..HostConfig::default()
        },
        switch: QueueConfig {
            limit: QueueLimit::Packets(reference.queue_packets),
            marking: match reference.transport {
                TransportKind::Dctcp(_) => Marking::Step(QueueLimit::Packets(20)),
                _ => Marking::Off,
            },
            ..QueueConfig::default()
        },
        ..SimConfig::default()
    };
    let o = simulate(&topology(reference.topology), &flows(reference.flows), "ecmp-path:key=hosts", seed, &config);
    assert_eq!(o.accounting.flows_completed, o.accounting.flows_listed);
    o
}

/// Returns the simulator's mean FCT over that of ns-3.
fn ratio_of_means(o: &Outcome, reference: &Reference) -> f64 {
    let theirs = reference_fcts(reference.result);
    let simulated: f64 = o.flows.iter().map(|f| f.fct.as_us_f64()).sum();
    simulated / theirs.iter().sum::<f64>()
}

/// Returns the share of flows whose FCT differs by less than `within` (relative).
fn share_alike(o: &Outcome, reference: &Reference, within: f64) -> f64 {
    let theirs = reference_fcts(reference.result);
    let alike = o.flows.iter().zip(&theirs).filter(|(f, t)| (f.fct.as_us_f64() / **t - 1.0).abs() < within);
    alike.count() as f64 / theirs.len() as f64
}

fn report(name: &str, o: &Outcome, reference: &Reference) -> f64 {
    let ratio = ratio_of_means(o, reference);
    let sum = |f: fn(&anabranch_sim::FlowRecord) -> u32| o.flows.iter().map(f).sum::<u32>();
    println!(
        "{name}: retransmitted {}, spurious {}, timeouts {}, fast retransmits {}",
        sum(|f| f.retransmitted),
        sum(|f| f.spurious),
        sum(|f| f.timeouts),
        sum(|f| f.fast_retransmits)
    );
    println!(
        "{name}: mean FCT {:.1} us, ns-3 {:.1} us, ratio {ratio:.4}; drops {} against {}; within 1 %: {:.1} % of flows",
        o.flows.iter().map(|f| f.fct.as_us_f64()).sum::<f64>() / o.flows.len() as f64,
        reference_fcts(reference.result).iter().sum::<f64>() / o.flows.len() as f64,
        o.accounting.dropped.total(),
        reference.drops,
        100.0 * share_alike(o, reference, 0.01),
    );
    ratio
}

#[test]
fn a_bottleneck_without_loss_is_the_same_flow_by_flow() {
    let reference = Reference {
        topology: "dumbbell:n=4",
        flows: DUMBBELL_FLOWS,
        result: include_str!("../data/ns3/dumbbell-no-loss-result.csv"),
        ..FAT_TREE
    };
    let o = simulated(&reference, Time::ZERO, 1);
    let ratio = report("dumbbell without loss", &o, &reference);
    assert!((ratio - 1.0).abs() < 0.01);
    assert_eq!(o.accounting.dropped.total(), 0);
    assert!(share_alike(&o, &reference, 0.01) > 0.95);
}

#[test]
fn a_fat_tree_without_loss_has_the_same_mean() {
    let o = simulated(&FAT_TREE, Time::ZERO, 1);
    let ratio = report("fat-tree without loss", &o, &FAT_TREE);
    assert!((ratio - 1.0).abs() < 0.01);
    // Packets that arrive in the same picosecond are served in another order.
    assert_eq!(o.accounting.dropped.total(), 0);
}

#[test]
fn dctcp_without_loss_agrees() {
    let result = include_str!("../data/ns3/fat-tree-dctcp-no-loss-result.csv");
    let reference = Reference { result, transport: DCTCP, ..FAT_TREE };
    let o = simulated(&reference, Time::ZERO, 1);
    let ratio = report("fat-tree, DCTCP without loss", &o, &reference);
    assert!((ratio - 1.0).abs() < 0.1);
}

/// A queue that overflows makes runs chaotic: a packet earlier or later is a 5 ms time-out more or
/// less. So means of runs that differ by at most 2 ns per packet are compared: of fifty, since the drops
/// of ten still vary by 3 % with their seeds.
#[test]
fn with_loss_means_and_drops_agree_within_a_tenth() {
    let cases = [
        (
            "bottleneck, 25 Gb/s hosts",
            Reference {
                topology: "dumbbell:n=4,host_rate=25Gbps",
                flows: include_str!("../data/ns3/dumbbell-many-flows.csv"),
                result: include_str!("../data/ns3/dumbbell-many-result.csv"),
                queue_packets: 100,
                drops: 14_387,
                ..FAT_TREE
            },
        ),
        (
            "fat-tree",
            Reference {
                result: include_str!("../data/ns3/fat-tree-result.csv"),
                queue_packets: 100,
                drops: 6_517,
                ..FAT_TREE
            },
        ),
    ];
    for (name, reference) in &cases {
        let runs: Vec<Outcome> = (0..50).map(|seed| simulated(reference, Time::from_ns(2), seed)).collect();
        let mean = |f: &dyn Fn(&Outcome) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
        let fct = mean(&|o| ratio_of_means(o, reference));
        let drops = mean(&|o| o.accounting.dropped.total() as f64) / reference.drops as f64;
        println!("{name}: mean FCT {fct:.3} of ns-3's, drops {drops:.3} of ns-3's");
        assert!((fct - 1.0).abs() < 0.1, "{name}: mean FCT {fct:.3} of ns-3's");
        assert!((drops - 1.0).abs() < 0.1, "{name}: drops {drops:.3} of ns-3's");
    }
}

/// DCTCP loses so few packets (20 of 667,000 in ns-3) that only completion times can be compared.
#[test]
fn dctcp_with_loss_agrees() {
    let result = include_str!("../data/ns3/fat-tree-dctcp-result.csv");
    let reference = Reference { result, transport: DCTCP, queue_packets: 100, drops: 20, ..FAT_TREE };
    let o = simulated(&reference, Time::ZERO, 1);
    let ratio = report("fat-tree, DCTCP", &o, &reference);
    assert!((ratio - 1.0).abs() < 0.1);
    assert!(o.accounting.dropped.total() * 1000 < o.accounting.packets_sent, "less than one in a thousand, as in ns-3");
}
