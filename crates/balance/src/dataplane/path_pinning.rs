//! Path pinning: the position of the destination in its rack fixes the uplink of a flow
//! (mechanisms-2.md P37; Gangidi et al., SIGCOMM 2024, who replaced it later).
//!
//! A switch with hosts sends packets for the n-th host of any rack over next hop n modulo the
//! number of next hops. The table is static. If racks have no more hosts than uplinks, link n down
//! to a rack carries traffic for its host n only. Flows from one rack share an uplink only if their
//! destinations have equal positions. So there are no collisions if the hosts of every rack receive
//! from one sender each, and those of one rack from the hosts of one other rack.
//!
//! Readings where the source is silent: positions are numbers of hosts within the class, in the
//! order of the hosts; hosts with several links, which are classes of one host, count in their
//! rack. After a failure the modulus is the number of next hops that remain, so that most positions
//! move. Switches without hosts hash as `ecmp` does; in the two tiers of a published zone these
//! have no choice.
//!
//! It takes no account of which hosts send and how much. Racks that a job fills in part use only
//! some of the uplinks, and a failed link puts two positions on one of the rest. The source then
//! doubled the capacity of the uplinks.
//!
//! - Helps: collectives between full racks with equal positions, as in rings: no collisions, no
//!   state of flows, no reordering.
//! - Hurts: partly used racks, failures, and many senders to one position: their flows share an
//!   uplink while others are idle.

use std::collections::BTreeMap;

use net::HostIx;

use crate::dataplane::{SwitchEnv, common::by_packet, ecmp};
use crate::entry::{Entry, FlowLevel};

pub(crate) static ENTRY: Entry = Entry::declare("path-pinning", "Path pinning")
    .summary("Gives each flow the uplink with the number of its destination in the destination's rack.")
    .flow_level(FlowLevel::Path)
    .source("P37; SIGCOMM 2024")
    .switch(|env, _| {
        if env.routes.class_at(env.switch).is_none() {
            return ecmp::by_default(env);
        }
        let positions = Positions::new(env);
        by_packet(move |packet, links| positions.of(packet.dst) as usize % links.len())
    });

/// Positions of hosts in their racks.
enum Positions {
    /// Number of the first host of each rack, ascending: hosts of a rack have consecutive numbers.
    /// This needs far less memory than a list of hosts at every edge of a large network.
    Consecutive(Vec<u32>),
    /// Position of each host, for networks that number hosts otherwise.
    Listed(Vec<u32>),
}

impl Positions {
    fn new(env: &SwitchEnv<'_>) -> Positions {
        let SwitchEnv { topology, routes, .. } = *env;
        let hosts = || (0..topology.hosts().len() as u32).map(HostIx);
        let (mut in_class, mut in_rack) = (vec![0u32; env.class_count], BTreeMap::new());
        let position = |host: HostIx| {
            let count = match routes.last_link(host) {
                Some(_) => &mut in_class[routes.class_of(host).0 as usize],
                // A host with several links is a class: only its rack has other hosts.
                None => in_rack.entry(topology.node(topology.host(host)).rack).or_default(),
            };
            *count += 1;
            *count - 1
        };
        let positions: Vec<u32> = hosts().map(position).collect();
        let is_consecutive = positions.windows(2).all(|pair| pair[1] == 0 || pair[1] == pair[0] + 1);
        if is_consecutive {
            Positions::Consecutive(hosts().map(|host| host.0).filter(|host| positions[*host as usize] == 0).collect())
        } else {
            Positions::Listed(positions)
        }
    }

    #[inline]
    fn of(&self, host: HostIx) -> u32 {
        match self {
            Positions::Consecutive(firsts) => {
                let rack = firsts.partition_point(|first| *first <= host.0);
                host.0 - rack.checked_sub(1).map_or(0, |rack| firsts[rack])
            }
            Positions::Listed(positions) => positions.get(host.ix()).copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use net::LinkIx;
    use net::routes::ClassIx;

    use super::*;
    use crate::dataplane::PacketView;
    use crate::dataplane::testing::{Bench, packet};

    const LEAF_SPINE: &str = "leaf-spine:leaves=4,spines=8,hosts_per_leaf=8";

    /// A packet of one of many flows to a host of a class.
    fn to(flow: u32, class: u32, host: u32) -> PacketView {
        PacketView { dst: HostIx(host), to: ClassIx(class), ..packet(flow) }
    }

    fn links(bench: &mut Bench, class: u32, hosts: std::ops::Range<u32>) -> Vec<LinkIx> {
        hosts.map(|host| bench.choose_link(&to(host, class, host))).collect()
    }

    #[test]
    fn destinations_of_a_rack_take_different_uplinks_from_every_leaf() {
        for (leaf, class) in [("leaf0", 1), ("leaf0", 3), ("leaf3", 1), ("leaf2", 0)] {
            let mut bench = Bench::switch_on("path-pinning", LEAF_SPINE, leaf, class);
            let uplinks = links(&mut bench, class, 8 * class..8 * class + 8);
            assert_eq!(uplinks, bench.links, "host n over uplink n: {leaf} to {class}");
        }
    }

    #[test]
    fn the_destination_alone_decides() {
        let mut bench = Bench::switch_on("path-pinning", LEAF_SPINE, "leaf0", 1);
        let picks: BTreeSet<usize> = (0..100)
            .map(|flow| bench.choose(&PacketView { src: HostIx(flow % 8), is_data: flow % 2 == 0, ..to(flow, 1, 13) }))
            .collect();
        assert_eq!(picks, [5].into());
        let mut ecmp = Bench::switch_on("ecmp", LEAF_SPINE, "leaf0", 1);
        let hashed: BTreeSet<usize> = (0..100).map(|flow| ecmp.choose(&to(flow, 1, 13))).collect();
        assert_eq!(hashed.len(), 8);
    }

    #[test]
    fn more_hosts_than_uplinks_share_them_evenly_and_after_a_failure_as_evenly_as_possible() {
        let family = "leaf-spine:leaves=3,spines=4,hosts_per_leaf=12";
        let mut bench = Bench::switch_on("path-pinning", family, "leaf2", 1);
        let shares = |bench: &mut Bench| {
            let picks = links(bench, 1, 12..24);
            bench.links.iter().map(|link| picks.iter().filter(|pick| *pick == link).count()).collect::<Vec<_>>()
        };
        assert_eq!(shares(&mut bench), [3; 4]);
        bench.remove(1);
        assert_eq!(shares(&mut bench), [4; 3]);
        bench.remove(2);
        bench.remove(0);
        assert_eq!(shares(&mut bench), [12]);
    }

    #[test]
    fn switches_without_hosts_hash() {
        let mut bench = Bench::switch_on("path-pinning", "fat-tree:k=8", "pod0/agg1", 31);
        let mut ecmp = Bench::switch_on("ecmp", "fat-tree:k=8", "pod0/agg1", 31);
        assert!((0..200).all(|flow| bench.choose(&to(flow, 31, 125)) == ecmp.choose(&to(flow, 31, 125))));
        let mut edge = Bench::switch_on("path-pinning", "fat-tree:k=8", "pod0/edge1", 31);
        assert_eq!(links(&mut edge, 31, 124..128), edge.links);
    }

    #[test]
    fn hosts_with_several_links_count_in_their_rack() {
        // Every host is a class; the choice is made at the sending host, between planes.
        let family = "multi-plane:planes=4,leaves=2,hosts_per_leaf=4,spines=2";
        let mut bench = Bench::switch_on("path-pinning", family, "h0", 5);
        assert_eq!(bench.links.len(), 4);
        let planes: Vec<usize> = (4..8).map(|host| bench.choose(&to(1, host, host))).collect();
        assert_eq!(planes, [0, 1, 2, 3]);
    }

    #[test]
    fn positions_do_not_depend_on_consecutive_numbers() {
        let mut builder = net::TopologyBuilder::new("interleaved");
        let (rate, delay) = (net::Bandwidth::from_gbps(10), net::Time::from_us(1));
        let leaves = [0, 1].map(|leaf| builder.switch(format!("leaf{leaf}"), 1, None));
        let spines = [0, 1].map(|spine| builder.switch(format!("spine{spine}"), 2, None));
        for (leaf, spine) in leaves.iter().flat_map(|leaf| spines.iter().map(move |spine| (*leaf, *spine))) {
            builder.connect(leaf, spine, rate, delay);
        }
        // Racks of the hosts: 0, 1, 0, 0, 1, 1, 0.
        let racks = [0, 1, 0, 0, 1, 1, 0];
        for (host, rack) in racks.into_iter().enumerate() {
            let host = builder.host(format!("h{host}"), rack, None);
            builder.connect(host, leaves[rack as usize], rate, delay);
        }
        let topology = builder.build().unwrap();
        let routes = net::Routes::intact(&topology);
        let switch = leaves[0];
        let env = SwitchEnv {
            seed: 1,
            switch,
            name: "leaf0",
            tier: topology.node(switch).tier,
            class_count: routes.class_count(),
            topology: &topology,
            routes: &routes,
            scale: crate::dataplane::testing::SCALE,
        };
        let positions = Positions::new(&env);
        assert!(matches!(positions, Positions::Listed(_)));
        assert_eq!((0..7).map(|host| positions.of(HostIx(host))).collect::<Vec<_>>(), [0, 0, 1, 2, 1, 2, 3]);
        assert_eq!(positions.of(HostIx(99)), 0);
    }
}
