//! Mechanisms at the sender's end that choose paths or labels: Flowcut, MRC, Spritz, PRR; and queue pairs.

use anabranch_sim::{FailureKind, FlowEnd, FlowRecord, Outcome, RdmaRecovery, SimConfig, TransportConfig};
use net::{HostIx, RandomStream, Time, Topology};
use traffic::{CollectiveSpec, FlowList, Placement, RankOptions};

use crate::common::{fault, flow, last_us, link, list, simulate, some_flows, topology, total, with};

fn completed(o: &Outcome) -> usize {
    o.flows.iter().filter(|flow| flow.end == FlowEnd::Completed).count()
}

#[test]
fn flowcuts_are_never_reordered() {
    let networks = [
        "leaf-spine:leaves=3,spines=4,hosts_per_leaf=4",
        "leaf-spine:leaves=2,spines=3,hosts_per_leaf=3",
        "fat-tree:k=4",
        "dragonfly:p=2,a=2,h=1",
        "multi-plane:planes=2,leaves=3,spines=2,hosts_per_leaf=2",
    ];
    let transports = [
        TransportConfig::default(),
        TransportConfig::spray(),
        TransportConfig::rdma(RdmaRecovery::Selective),
        TransportConfig::rdma(RdmaRecovery::GoBackN),
    ];
    let mut rng = RandomStream::new(5, "scenarios");
    let (mut sprayed, mut moved) = (0, 0);
    for seed in 0..200 {
        let t = topology(networks[rng.next_below(networks.len() as u64) as usize]);
        let transport = transports[rng.next_below(transports.len() as u64) as usize].clone();
        let flows = some_flows(t.hosts().len() as u32, 40, seed, Time::from_us(500), 300_000);
        // Some link is slow and unknown to routing, so that paths differ.
        let slow = net::LinkIx(rng.next_below(t.links().len() as u64) as u32);
        let fraction = [1.0, 0.5, 0.1][rng.next_below(3) as usize];
        let config = SimConfig {
            failures: vec![fault(FailureKind::LinkRate { link: slow, fraction }, 0, None, 10_000_000)],
            ..with(transport)
        };
        let balancer = ["flowcut", "flowcut:ratio=1.2"][rng.next_below(2) as usize];
        let o = simulate(&t, &flows, balancer, seed, &config);
        assert_eq!(total(&o, |flow| u64::from(flow.reordered)), 0, "{} with seed {seed}", t.name());
        moved += total(&o, |flow: &FlowRecord| u64::from(flow.path_changes));
        if seed % 10 == 0 {
            sprayed += total(&simulate(&t, &flows, "spray", seed, &config), |flow| u64::from(flow.reordered));
        }
    }
    println!("flowcut: {moved} changes of path; packets that spraying reorders in a tenth of the runs: {sprayed}");
    assert!(moved > 100 && sprayed > 1_000, "{moved} changes, {sprayed} reordered");
}

#[test]
fn planes_carry_equal_parts_of_a_flow() {
    let t = topology("multi-plane:planes=4,leaves=2,spines=4,hosts_per_leaf=2,port_rate=100Gbps");
    let flows = list(vec![flow(0, 2, 20_000_000, Time::ZERO)]);
    let o = simulate(&t, &flows, "mrc", 1, &with(TransportConfig::spray()));
    let packets: Vec<u64> =
        (0..4).map(|plane| o.links[link(&t, "h0", &format!("plane{plane}/leaf0")).ix()].packets).collect();
    println!("data packets of the planes: {packets:?}");
    let (least, most) = (packets.iter().min().unwrap(), packets.iter().max().unwrap());
    assert!(most - least <= 2, "{packets:?}");
}

#[test]
fn a_path_that_loses_everything_is_left() {
    let t = topology("leaf-spine:leaves=2,spines=8,hosts_per_leaf=8");
    let dead = FailureKind::OneWayDown(link(&t, "spine0", "leaf1"));
    let config = SimConfig { failures: vec![fault(dead, 100, None, 10_000_000)], ..with(TransportConfig::spray()) };
    let flows = list((0..8).map(|host| flow(host, 8 + host, 8_000_000, Time::ZERO)).collect());
    let lost = |balancer: &str| {
        let o = simulate(&t, &flows, balancer, 1, &config);
        (o.accounting.dropped.link_down, last_us(&o))
    };
    let [mrc, prime, srd, spray] = ["mrc", "prime", "srd", "spray"].map(lost);
    println!("packets lost, and last completion in us: mrc {mrc:?}, prime {prime:?}, srd {srd:?}, spray {spray:?}");
    // PRIME's penalties fade within four round trips, about the time in which a loss is noticed.
    assert!(mrc.0 * 4 < spray.0 && srd.0 * 2 < spray.0, "mrc {mrc:?}, srd {srd:?}, spray {spray:?}");
}

#[test]
fn labels_of_data_and_of_acknowledgements_are_repaired() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=16");
    let flows = list((0..16).map(|host| flow(host, 16 + host, 300_000, Time::from_us(200))).collect());
    for (from, to, what) in [("leaf0", "spine0", "data"), ("leaf1", "spine0", "acknowledgements")] {
        let dead = FailureKind::OneWayDown(link(&t, from, to));
        let mut config = SimConfig { failures: vec![fault(dead, 0, None, 100_000_000)], ..SimConfig::default() };
        config.stop.until = Some(Time::from_s(5));
        let done = |balancer: &str| completed(&simulate(&t, &flows, balancer, 3, &config));
        let acked = |balancer: &str| {
            let o = simulate(&t, &flows, balancer, 3, &config);
            o.flows.iter().filter(|flow| flow.sender_fct > Time::ZERO).count()
        };
        println!(
            "{what}: completed with prr {}, ecmp {}; acknowledged with prr {}, ecmp {}, plb {}",
            done("prr"),
            done("ecmp"),
            acked("prr"),
            acked("ecmp"),
            acked("plb")
        );
        assert_eq!(acked("prr"), 16, "{what}");
        assert!(acked("ecmp") < 16, "{what}");
    }
}

/// Returns when the last flow has ended, microseconds.
fn end_us(o: &Outcome) -> f64 {
    o.flows.iter().map(|flow| flow.started.saturating_add(flow.fct).as_us_f64()).fold(0.0, f64::max)
}

fn ring(t: &Topology, queue_pairs: u32) -> FlowList {
    let spec = CollectiveSpec::parse("ring-all-reduce:size=8MB,group_size=8").unwrap();
    let ranks = RankOptions { count: None, placement: Placement::Strided };
    traffic::collectives(t, &[spec], &ranks, 1).unwrap().over_queue_pairs(queue_pairs)
}

#[test]
fn queue_pairs_help_rings_over_hashed_paths_with_little_gain_beyond_eight() {
    let t = topology("leaf-spine:leaves=8,spines=8,hosts_per_leaf=8,host_rate=100Gbps,fabric_rate=100Gbps");
    let config = with(TransportConfig::spray());
    let ends = [1, 2, 4, 8, 16].map(|queue_pairs| end_us(&simulate(&t, &ring(&t, queue_pairs), "ecmp", 1, &config)));
    let whole = end_us(&simulate(&t, &ring(&t, 1), "spray", 1, &config));
    println!("us over 1, 2, 4, 8, 16 queue pairs: {ends:.0?}; sprayed {whole:.0}");
    assert!(ends[0] > 1.3 * ends[3], "{ends:?}");
    assert!(ends[3] < 1.25 * ends[4], "{ends:?}");
}

#[test]
fn spritz_takes_detours_where_shortest_paths_are_full() {
    let t = topology("dragonfly:p=2,a=4,h=2");
    let config = with(TransportConfig::spray());
    let to_next_group = list((0..72).map(|src| flow(src, (src + 8) % 72, 2_000_000, Time::ZERO)).collect());
    let of = |balancer: &str| last_us(&simulate(&t, &to_next_group, balancer, 1, &config));
    let [scout, spray, ugal, valiant, shortest] =
        ["spritz:variant=scout", "spritz:variant=spray", "ugal", "vlb:per=packet", "spray"].map(of);
    println!(
        "last completion in us: scout {scout:.0}, spray {spray:.0}, UGAL {ugal:.0}, Valiant {valiant:.0}, shortest {shortest:.0}"
    );
    assert!(scout.min(spray) < shortest, "scout {scout}, spray {spray}, shortest {shortest}");
}

#[test]
fn known_sizes_fill_uplinks_equally() {
    let t = topology("leaf-spine:leaves=4,spines=4,hosts_per_leaf=8");
    // Every host of the first rack sends to one of each other rack: 24 equal flows on 4 uplinks.
    let pairs = (0..8).flat_map(|src| (1..4).map(move |rack| (src, 8 * rack + src)));
    let flows = list(pairs.map(|(src, dst)| flow(src, dst, 500_000, Time::ZERO)).collect());
    let bytes = |balancer: &str| {
        let o = simulate(&t, &flows, balancer, 1, &with(TransportConfig::spray()));
        let bytes = (0..4).map(|spine| o.links[link(&t, "leaf0", &format!("spine{spine}")).ix()].bytes);
        let bytes: Vec<u64> = bytes.collect();
        *bytes.iter().max().unwrap() as f64 * 4.0 / bytes.iter().sum::<u64>() as f64
    };
    let (known, hashed) = (bytes("ethereal"), bytes("ecmp"));
    println!("largest uplink load over the mean: ethereal {known:.3}, ecmp {hashed:.3}");
    assert!(known < 1.01 && hashed > 1.1, "{known}, {hashed}");
}

#[test]
fn unequal_pieces_are_divided_over_planes_largest_first() {
    let t = topology("multi-plane:planes=2,leaves=2,spines=2,hosts_per_leaf=4");
    // In the order of the list the planes get 1 and 1, then one of them 2; largest first, 2 each.
    let pieces = [(4, 1_000_000), (5, 1_000_000), (6, 2_000_000)];
    let flows = list(pieces.into_iter().map(|(dst, bytes)| flow(0, dst, bytes, Time::ZERO)).collect());
    let share = |balancer: &str| {
        let o = simulate(&t, &flows, balancer, 1, &with(TransportConfig::spray()));
        let bytes = t.out_links(t.host(HostIx(0))).iter().map(|link| o.links[link.ix()].bytes);
        bytes.clone().max().unwrap() as f64 / bytes.sum::<u64>() as f64
    };
    let (largest_first, in_order) = (share("rails"), share("ethereal"));
    println!("share of the fuller plane: rails {largest_first:.4}, ethereal in the order of the list {in_order:.4}");
    assert!((largest_first - 0.5).abs() < 0.002 && (in_order - 0.75).abs() < 0.002, "{largest_first}, {in_order}");
}
