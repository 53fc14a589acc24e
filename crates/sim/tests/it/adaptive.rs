//! Switches that react to ports, next hops and probes: ARS, GLB, HULA, Contra; and rotation by Ofan.

use anabranch_sim::{
    FailureKind, Marking, Outcome, QueueConfig, QueueLimit, SimConfig, TransportConfig, TransportKind, UdpRate,
};
use balance::Spec;
use net::routes::ClassIx;
use net::{Bandwidth, HostIx, RandomStream, Routes, Time, Topology};

use crate::common::{fault, flow, link, list, permanent, simulate, simulate_on, topology, with};

const LEAVES: u32 = 8;
const HOSTS_PER_LEAF: u32 = 8;

fn eight_by_eight() -> Topology {
    topology("leaf-spine:leaves=8,spines=8,hosts_per_leaf=8")
}

/// Every host sends to one of another rack, and receives from one; each rack sends to all others.
fn permutation(bytes: u64) -> traffic::FlowList {
    let pair = |leaf: u32, host: u32| {
        let to = (leaf + host % (LEAVES - 1) + 1) % LEAVES;
        flow(leaf * HOSTS_PER_LEAF + host, to * HOSTS_PER_LEAF + host, bytes, Time::ZERO)
    };
    list((0..LEAVES).flat_map(|leaf| (0..HOSTS_PER_LEAF).map(move |host| pair(leaf, host))).collect())
}

/// Returns the share of the bytes to a leaf that came over a spine.
fn share(t: &Topology, o: &Outcome, spine: u32, leaf: u32) -> f64 {
    let bytes = |spine: u32| o.links[link(t, &format!("spine{spine}"), &format!("leaf{leaf}")).ix()].bytes as f64;
    bytes(spine) / (0..8).map(bytes).sum::<f64>()
}

#[test]
fn global_balancing_sees_a_slow_link_behind_the_next_hop_and_local_balancing_does_not() {
    let t = eight_by_eight();
    let slow = FailureKind::OneWayRate { link: link(&t, "spine0", "leaf7"), fraction: 0.5 };
    let config = SimConfig { failures: vec![permanent(slow)], ..with(TransportConfig::spray()) };
    let run = |balancer: &str| simulate(&t, &permutation(8_000_000), balancer, 1, &config);
    // The slow link has 1/15 of the capacity towards its leaf.
    let local = share(&t, &run("ars:mode=packet-quality"), 0, 7);
    let global = share(&t, &run("glb:mode=packet-quality"), 0, 7);
    println!("share of the slow spine: local {local:.4}, global {global:.4}, 1/15 is {:.4}", 1.0 / 15.0);
    assert!(local > 1.0 / 9.0, "local: {local}");
    assert!(global < 0.085, "global: {global}");
}

#[test]
fn a_link_lost_behind_the_next_hop_is_left_before_routing_knows() {
    let t = eight_by_eight();
    let dead = FailureKind::LinkDown(link(&t, "spine0", "leaf7"));
    // Routing never knows in this time.
    let failures = vec![fault(dead, 500, None, 1_000_000)];
    let config = SimConfig { failures, ..with(TransportConfig::spray()) };
    let lost = |balancer: &str| {
        let o = simulate(&t, &permutation(4_000_000), balancer, 1, &config);
        (o.accounting.dropped.link_down, o.control.packets)
    };
    let (local, _) = lost("ars:mode=packet-quality");
    let (global, messages) = lost("glb:mode=packet-quality");
    println!("packets lost at the dead link: local {local}, global {global}; {messages} messages");
    assert!(global * 20 < local, "local {local}, global {global}");
}

#[test]
fn a_dead_port_of_the_own_switch_is_left_before_routing_knows() {
    let t = eight_by_eight();
    let dead = FailureKind::LinkDown(link(&t, "leaf0", "spine3"));
    let failures = vec![fault(dead, 500, None, 1_000_000)];
    let config = SimConfig { failures, ..with(TransportConfig::spray()) };
    let lost = |balancer: &str| {
        // From rack 0 only: nothing towards it crosses the dead cable but acknowledgements.
        let flows = list((0..8).map(|host| flow(host, 8 + host, 4_000_000, Time::ZERO)).collect());
        simulate(&t, &flows, balancer, 1, &config).links[link(&t, "leaf0", "spine3").ix()].drops
    };
    let (adaptive, sprayed) = (lost("ars:mode=packet-quality"), lost("spray"));
    println!("packets lost at the dead port: ars {adaptive}, spray {sprayed}");
    assert!(adaptive * 20 < sprayed, "ars {adaptive}, spray {sprayed}");
}

#[test]
fn hula_leaves_a_slow_path() {
    let t = eight_by_eight();
    let slow = FailureKind::LinkRate { link: link(&t, "spine0", "leaf7"), fraction: 0.2 };
    let config = SimConfig { failures: vec![permanent(slow)], ..SimConfig::default() };
    // Flows of 100 KB one after another, so that there are flowlets.
    let flows = (0..4_000u32).map(|n| {
        let (src, dst) = (n * 7 % 56, 56 + n % 8);
        flow(src, dst, 100_000, Time::from_us(u64::from(n) * 18))
    });
    let flows = list(flows.collect());
    let run = |balancer: &str| simulate(&t, &flows, balancer, 1, &config);
    let [hula, letflow, ecmp] = ["hula", "letflow", "ecmp"].map(|balancer| share(&t, &run(balancer), 0, 7));
    println!("share of the slow spine: hula {hula:.4}, letflow {letflow:.4}, ecmp {ecmp:.4}; of the capacity 1/36");
    assert!(hula < 0.05 && ecmp > 0.1, "hula {hula}, ecmp {ecmp}");
}

#[test]
fn contra_leaves_a_slow_path_of_a_network_without_tiers_and_hula_cannot() {
    let t = topology("flattened-butterfly:k=3,n=3");
    let routes = Routes::intact(&t);
    let (from, hosts) = (routes.class_node(ClassIx(0)), t.hosts().len() as u32);
    let distant = |class: &ClassIx| routes.distance(from, *class) == Some(2);
    let to = (0..routes.class_count() as u32).map(ClassIx).find(distant).expect("two dimensions");
    let hosts_of = |class| (0..hosts).filter(|host| routes.class_of(HostIx(*host)) == class).collect::<Vec<_>>();
    let (senders, receivers) = (hosts_of(ClassIx(0)), hosts_of(to));
    // Two paths of two links; the second link of one of them is slow, behind the next hop.
    let links = |path| routes.path(&t, from, to, path);
    let slow = FailureKind::OneWayRate { link: links(0)[1], fraction: 0.2 };
    // Without feedback to senders: flowlets of TCP would leave a slow path even if nothing is known of it.
    let kind = TransportKind::Udp(UdpRate::Constant(Bandwidth::from_gbps(2)));
    let config = with(TransportConfig { kind, ..TransportConfig::default() });
    let config = SimConfig { failures: vec![permanent(slow)], ..config };
    let flows = (0..2_000u32).map(|n| {
        let (src, dst) = (senders[n as usize % senders.len()], receivers[n as usize / 2 % receivers.len()]);
        flow(src, dst, 50_000, Time::from_us(u64::from(n) * 50))
    });
    let flows = list(flows.collect());
    let share = |balancer: &str| {
        let o = simulate(&t, &flows, balancer, 1, &config);
        let [slow, fast] = [0, 1].map(|path| o.links[links(path)[0].ix()].bytes as f64);
        slow / (slow + fast)
    };
    let [contra, hula, ecmp] = ["contra", "hula", "ecmp"].map(share);
    println!("share of the slow path: contra {contra:.4}, hula {hula:.4}, ecmp {ecmp:.4}; of the capacity 1/6");
    assert!(contra < 0.35 && hula > 0.45 && ecmp > 0.45, "contra {contra}, hula {hula}, ecmp {ecmp}");
}

/// Returns the longest queue of the fabric, in packets, of a permutation at line rate without feedback.
fn longest_queue(balancer: &str, packets: u64) -> u64 {
    let t = topology("fat-tree:k=8");
    let hosts = t.hosts().len() as u32;
    let mut rng = RandomStream::new(11, "permutation");
    let mut to: Vec<u32> = (0..hosts).collect();
    for at in (1..to.len()).rev() {
        // Sattolo's algorithm: one cycle, so that no host sends to itself.
        to.swap(at, rng.next_below(at as u64) as usize);
    }
    let kind = TransportKind::Udp(UdpRate::Constant(Bandwidth::from_gbps(10)));
    let switch = QueueConfig { limit: QueueLimit::Packets(1_000_000), marking: Marking::Off, ..QueueConfig::default() };
    let mut config = SimConfig { switch, ..with(TransportConfig { kind, ..TransportConfig::default() }) };
    config.host.jitter = Time::ZERO;
    let mss = u64::from(config.transport.mss_bytes);
    let flows = list((0..hosts).map(|src| flow(src, to[src as usize], packets * mss, Time::ZERO)).collect());
    let o = simulate(&t, &flows, balancer, 1, &config);
    assert_eq!(o.accounting.dropped.total(), 0);
    let fabric = o.queues.iter().filter(|queue| queue.tier > 1);
    fabric.map(|queue| queue.max_bytes).max().unwrap() / u64::from(config.transport.packet_bytes())
}

#[test]
fn rotation_by_destination_keeps_queues_constant_and_random_spraying_does_not() {
    let of = |balancer: &str| [256, 1024, 4096].map(|packets| longest_queue(balancer, packets));
    let (ofan, random, shared) = (of("ofan"), of("spray"), of("ofan:pointer=shared"));
    println!("packets in the longest queue after 256, 1024 and 4096 packets of each host:");
    println!("ofan {ofan:?}, spray {random:?}, one pointer {shared:?}");
    assert!(ofan[2] <= ofan[0] + 2, "constant: {ofan:?}");
    // The square root of the ratio of lengths is 2; chance lies around it.
    assert!(random[2] as f64 > 1.5 * random[1] as f64 && random[1] as f64 > 1.5 * random[0] as f64, "{random:?}");
    assert!(ofan[2] < random[2] / 4, "ofan {ofan:?}, random {random:?}");
}

#[test]
fn messages_between_switches_are_the_same_on_any_threads() {
    let t = topology("fat-tree:k=4");
    let dead = FailureKind::LinkDown(link(&t, "pod0/agg0", "core0"));
    let failures = vec![fault(dead, 300, Some(900), 200)];
    let config = SimConfig { failures, ..SimConfig::default() };
    let flows = anabranch_sim::conformance::some_flows(16, 200, 3, Time::from_ms(2), 200_000);
    for balancer in ["glb", "glb:mode=packet-quality,combine=mean", "hula", "contra"] {
        Spec::parse(balancer).unwrap();
        let one = simulate(&t, &flows, balancer, 5, &config);
        assert!(one.control.packets > 100, "{balancer}: {:?}", one.control);
        for threads in [2, 3, 8] {
            let several = simulate_on(threads, &t, &flows, balancer, 5, &config);
            assert_eq!(several.flows, one.flows, "{balancer} on {threads} threads");
            assert_eq!(several.control, one.control, "{balancer} on {threads} threads");
        }
    }
}

/// Returns the share of the packets that arrive if all hosts of a dragonfly with 9 groups of 8 send at line
/// rate for 2 ms, each to these hosts in equal parts.
fn throughput(balancer: &str, targets: impl Fn(u32) -> Vec<u32>) -> f64 {
    let t = topology("dragonfly");
    let hosts = t.hosts().len() as u32;
    let parts = targets(0).len() as u64;
    let kind = TransportKind::Udp(UdpRate::Constant(Bandwidth::from_bps(10_000_000_000 / parts)));
    let switch = QueueConfig { marking: Marking::Off, ..QueueConfig::default() };
    let config = SimConfig { switch, ..with(TransportConfig { kind, ..TransportConfig::default() }) };
    let bytes = 2_500_000 / parts;
    let flows = (0..hosts).flat_map(|src| targets(src).into_iter().map(move |dst| (src, dst)));
    let flows = list(flows.map(|(src, dst)| flow(src, dst, bytes, Time::ZERO)).collect());
    let o = simulate(&t, &flows, balancer, 1, &config);
    1.0 - o.accounting.dropped.total() as f64 / o.accounting.packets_sent as f64
}

#[test]
fn ugal_is_near_the_better_of_shortest_paths_and_detours() {
    let next_group = |src: u32| vec![(src + 8) % 72];
    let all = |src: u32| (0..72).filter(|dst| *dst != src).collect();
    let of = |balancer: &str| [throughput(balancer, next_group), throughput(balancer, all)];
    let [shortest, valiant, ugal] = ["spray", "vlb:per=packet", "ugal"].map(of);
    println!(
        "share that arrives, next group and all to all: shortest {shortest:.3?}, Valiant {valiant:.3?}, UGAL {ugal:.3?}"
    );
    // The published 1/8 of shortest paths to the next group is that of local, global, local. By the number of
    // links, paths over a third group (global, local, global) are as short.
    assert!(valiant[0] > shortest[0] && valiant[1] < shortest[1], "{shortest:?}, {valiant:?}");
    for at in 0..2 {
        assert!(ugal[at] > 0.9 * shortest[at].max(valiant[at]), "{shortest:?}, {valiant:?}, {ugal:?}");
    }
}
