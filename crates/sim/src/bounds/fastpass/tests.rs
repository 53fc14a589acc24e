//! No link carries more than its share of a slot, on any network; matchings are maximal.

use std::sync::Arc;

use net::{HostIx, LinkIx, RandomStream, Routes, Topology};

use super::paths::Assigner;
use crate::links::port::serialisation_ps;

const PACKET: u64 = 1500;

fn topology(spec: &str) -> Topology {
    net::spec::parse(spec).unwrap()
}

fn rates(topology: &Topology) -> Vec<u64> {
    topology.links().iter().map(|link| link.rate.as_bps()).collect()
}

fn assigner(topology: &Topology, rates: &[u64], slot: u64) -> Assigner {
    let alive: Vec<bool> = rates.iter().map(|rate| *rate > 0).collect();
    Assigner::new(topology, &Arc::new(Routes::new(topology, &alive)), rates, PACKET, slot)
}

/// Offers random pairs for many slots, checks paths and links. Returns grants per slot.
fn exercise(topology: &Topology, rates: &[u64], slots: u64, partner: &mut dyn FnMut(u32) -> u32) -> f64 {
    let hosts = topology.hosts().len() as u32;
    let is_host = |link: &net::Link| topology.hosts().contains(&link.from);
    let fastest = topology.links().iter().filter(|link| is_host(link)).map(|link| link.rate.as_bps()).max().unwrap();
    let slot = serialisation_ps(PACKET, fastest);
    let mut assigner = assigner(topology, rates, slot);
    let mut total = vec![0u64; rates.len()];
    let mut granted = 0;
    for number in 0..slots {
        assigner.begin_slot(number * slot);
        let offered = (0..hosts).map(|src| (HostIx(src), HostIx(partner(src))));
        let pairs: Vec<_> = offered.filter(|(src, dst)| assigner.admit(*src, *dst)).collect();
        assigner.assign();
        let mut in_slot = vec![0u64; rates.len()];
        for (grant, (src, dst)) in pairs.iter().enumerate() {
            let mut at = topology.host(*src);
            for link in assigner.path(grant) {
                assert!(rates[*link as usize] > 0, "a dead link was used");
                assert_eq!(topology.link(LinkIx(*link)).from, at, "the path is broken");
                at = topology.link(LinkIx(*link)).to;
                in_slot[*link as usize] += 1;
                total[*link as usize] += 1;
            }
            assert_eq!(at, topology.host(*dst));
        }
        for (link, packets) in in_slot.iter().enumerate() {
            let share = (number + 1) as f64 * rates[link] as f64 / fastest as f64;
            assert!(*packets <= rates[link].div_ceil(fastest), "link {link}: {packets} in a slot");
            // At most one packet has begun and not ended.
            assert!((total[link] as f64) < share + 1.0 + 1e-6, "link {link}: {} of {share}", total[link]);
        }
        granted += pairs.len();
    }
    granted as f64 / slots as f64
}

fn random(seed: u64, hosts: u32) -> impl FnMut(u32) -> u32 {
    let mut rng = RandomStream::new(seed, "pairs");
    move |src| (src + 1 + rng.next_below(u64::from(hosts) - 1) as u32) % hosts
}

#[test]
fn no_link_is_overbooked_anywhere() {
    for spec in [
        "fat-tree:k=4",
        "fat-tree:k=8",
        "fat-tree:k=4,hosts_per_edge=10,host_rate=1Mbps,fabric_rate=10Mbps",
        "leaf-spine:leaves=4,spines=4,hosts_per_leaf=8,parallel=2",
        "leaf-spine:leaves=4,spines=2,hosts_per_leaf=16",
        "leaf-spine:leaves=3,spines=2,hosts_per_leaf=8,fabric_rate=25Gbps",
        "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,fabric_rate=4Gbps",
        "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3",
        "bcube:n=4,k=1",
        "flattened-butterfly:k=3,n=3",
        "camcube:k=3",
        "dumbbell:n=4",
        "single-switch:hosts=6",
    ] {
        let topology = topology(spec);
        let rates = rates(&topology);
        let hosts = topology.hosts().len() as u32;
        let granted = exercise(&topology, &rates, 300, &mut random(5, hosts));
        assert!(granted >= 1.0, "{spec}: {granted} packets per slot");
        // The same with a dead cable and a slow one.
        let mut broken = rates.clone();
        let fabric: Vec<usize> = (0..rates.len()).filter(|ix| !topology.is_host_link(LinkIx(*ix as u32))).collect();
        if let [dead, .., slow] = fabric.as_slice() {
            (broken[*dead], broken[*dead ^ 1]) = (0, 0);
            (broken[*slow], broken[*slow ^ 1]) = (rates[*slow] / 3, rates[*slow] / 3);
            exercise(&topology, &broken, 300, &mut random(6, hosts));
        }
    }
}

#[test]
fn a_full_clos_refuses_no_permutation() {
    for spec in [
        "fat-tree:k=8",
        "leaf-spine:leaves=8,spines=4,hosts_per_leaf=8,parallel=2",
        "leaf-spine:leaves=4,spines=2,hosts_per_leaf=8,fabric_rate=40Gbps",
    ] {
        let topology = topology(spec);
        let rates = rates(&topology);
        let slot = serialisation_ps(PACKET, 10_000_000_000);
        assert!(matches!(assigner(&topology, &rates, slot), Assigner::Clos(_)), "{spec}");
        let hosts = topology.hosts().len() as u32;
        let mut rng = RandomStream::new(9, "permutations");
        let mut to: Vec<u32> = Vec::new();
        let mut next = |src: u32| {
            if src == 0 {
                // A cyclic shift of a shuffled circle has no fixed points.
                let mut circle: Vec<u32> = (0..hosts).collect();
                rng.shuffle(&mut circle);
                to = vec![0; hosts as usize];
                (0..hosts as usize).for_each(|i| to[circle[i] as usize] = circle[(i + 1) % hosts as usize]);
            }
            to[src as usize]
        };
        assert_eq!(exercise(&topology, &rates, 200, &mut next), f64::from(hosts), "{spec}");
    }
}

#[test]
fn irregular_networks_not_coloured() {
    for spec in [
        "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3",
        "bcube:n=4,k=1",
        "dumbbell:n=4",
        "leaf-spine:leaves=3,spines=2,hosts_per_leaf=8,fabric_rate=25Gbps",
    ] {
        let topology = topology(spec);
        let slot = serialisation_ps(PACKET, 10_000_000_000);
        assert!(matches!(assigner(&topology, &rates(&topology), slot), Assigner::Links(_)), "{spec}");
    }
    let tree = topology("fat-tree:k=4");
    let mut broken = rates(&tree);
    let core = (0..broken.len()).find(|ix| tree.link_tier(LinkIx(*ix as u32)).0 == 3).unwrap();
    (broken[core], broken[core ^ 1]) = (0, 0);
    let slot = serialisation_ps(PACKET, 10_000_000_000);
    assert!(matches!(assigner(&tree, &broken, slot), Assigner::Links(_)));
}
