//! Cuts of a network: upper bounds on the traffic into and out of a set of hosts, for any routing.
//!
//! The sets are every host, every rack (a switch with the hosts whose only link leads to it), and
//! every connected part of the network below each tier: the pods of a fat-tree. In networks without
//! tiers they are also halves of the hosts with little capacity between them, which a search finds. Traffic from inside
//! a set to outside must cross the links that leave it. So the rates of any routing, however finely
//! split, stay within all cuts together. In a leaf-spine whose leaves have equal links to every
//! spine the cuts are also sufficient: an even split meets them exactly. With failures, or in other
//! networks, they may promise more than any routing achieves; [`super::mcf`] is closer.

use net::{HostIx, LinkIx, NodeIx, NodeKind, Tier, Topology};

use super::fill::{Filler, Users};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// Cuts around single hosts: the network as one big switch.
    Hose,
    Cut,
}

/// The cuts of a topology. Limit `2s` bounds what leaves set `s`, limit `2s + 1` what enters it.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// Links leaving each set, and links entering it.
    pub(crate) crossing: Vec<[Vec<LinkIx>; 2]>,
    /// Sets of each host, the host's own first.
    sets_of: Vec<Vec<u32>>,
}

impl Cuts {
    pub fn new(topology: &Topology, capacity: Capacity) -> Cuts {
        let mut sets: Vec<Vec<NodeIx>> = topology.hosts().iter().map(|host| vec![*host]).collect();
        if capacity == Capacity::Cut {
            let hosts_in = |set: &[NodeIx]| set.iter().filter(|node| is_host(topology, **node)).count();
            let mut wider = racks(topology);
            for tier in 0..topology.top_tier().0 {
                wider.extend(parts_below(topology, Tier(tier)));
            }
            let switches = topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch).count();
            if topology.top_tier() <= Tier(1) && switches > 1 {
                wider.extend(net::bisection::narrow_halves(topology));
            }
            wider.iter_mut().for_each(|set| set.sort_unstable());
            wider.sort_unstable();
            wider.dedup();
            // Hosts have their own sets, and sets of all hosts or none separate no hosts. A switch with
            // one host may be narrower upward than that host's link.
            let hosts = topology.hosts().len();
            wider.retain(|set| set.len() > 1 && (1..hosts).contains(&hosts_in(set)));
            sets.extend(wider);
        }
        Cuts::of_sets(topology, &sets)
    }

    fn of_sets(topology: &Topology, sets: &[Vec<NodeIx>]) -> Cuts {
        let mut sets_of_node: Vec<Vec<u32>> = vec![Vec::new(); topology.nodes().len()];
        for (set, nodes) in sets.iter().enumerate() {
            nodes.iter().for_each(|node| sets_of_node[node.ix()].push(set as u32));
        }
        let mut crossing = vec![[Vec::new(), Vec::new()]; sets.len()];
        for (ix, link) in topology.links().iter().enumerate() {
            let (from, to) = (&sets_of_node[link.from.ix()], &sets_of_node[link.to.ix()]);
            let only_in = |own: &[u32], other: &[u32]| own.iter().copied().filter(|s| !other.contains(s)).collect();
            let (left, entered): (Vec<u32>, Vec<u32>) = (only_in(from, to), only_in(to, from));
            left.iter().for_each(|set| crossing[*set as usize][0].push(LinkIx(ix as u32)));
            entered.iter().for_each(|set| crossing[*set as usize][1].push(LinkIx(ix as u32)));
        }
        let sets_of = topology.hosts().iter().map(|host| sets_of_node[host.ix()].clone()).collect();
        Cuts { crossing, sets_of }
    }

    pub fn limits(&self, src: HostIx, dst: HostIx) -> impl Iterator<Item = u32> + '_ {
        let (from, to) = (&self.sets_of[src.ix()], &self.sets_of[dst.ix()]);
        let leaves = from.iter().filter(|set| !to.contains(set)).map(|set| 2 * set);
        leaves.chain(to.iter().filter(|set| !from.contains(set)).map(|set| 2 * set + 1))
    }

    /// Returns the capacity of every limit, bits per second, at these rates of links (0 for down).
    ///
    /// A set that its own hosts together cannot fill is no limit (infinite): their cuts imply it.
    pub fn capacities(&self, rates_bps: &[u64]) -> Vec<f64> {
        let sum = |links: &[LinkIx]| links.iter().map(|link| rates_bps[link.ix()] as f64).sum::<f64>();
        let mut capacities: Vec<f64> = self.crossing.iter().flat_map(|[out, into]| [sum(out), sum(into)]).collect();
        let hosts = self.sets_of.len();
        let mut of_hosts = vec![0.0; capacities.len()];
        for (host, sets) in self.sets_of.iter().enumerate() {
            for set in sets.iter().filter(|set| **set as usize >= hosts) {
                of_hosts[2 * *set as usize] += capacities[2 * host];
                of_hosts[2 * *set as usize + 1] += capacities[2 * host + 1];
            }
        }
        for limit in 2 * hosts..capacities.len() {
            if of_hosts[limit] <= capacities[limit] {
                capacities[limit] = f64::INFINITY;
            }
        }
        capacities
    }
}

fn is_host(topology: &Topology, node: NodeIx) -> bool {
    topology.node(node).kind == NodeKind::Host
}

/// Returns every switch with the hosts that have no other neighbour.
fn racks(topology: &Topology) -> Vec<Vec<NodeIx>> {
    let mut of_switch: Vec<Vec<NodeIx>> = vec![Vec::new(); topology.nodes().len()];
    for host in topology.hosts() {
        let mut neighbours = topology.out_links(*host).iter().map(|link| topology.link(*link).to);
        let Some(first) = neighbours.next() else { continue };
        if !is_host(topology, first) && neighbours.all(|node| node == first) {
            of_switch[first.ix()].push(*host);
        }
    }
    let racks = of_switch.into_iter().enumerate().filter(|(_, hosts)| !hosts.is_empty());
    racks.map(|(switch, hosts)| hosts.into_iter().chain([NodeIx(switch as u32)]).collect()).collect()
}

pub(crate) fn parts_below(topology: &Topology, tier: Tier) -> Vec<Vec<NodeIx>> {
    let mut seen = vec![false; topology.nodes().len()];
    let mut parts = Vec::new();
    for first in (0..topology.nodes().len() as u32).map(NodeIx) {
        if seen[first.ix()] || topology.node(first).tier > tier {
            continue;
        }
        seen[first.ix()] = true;
        let mut part = vec![first];
        let mut next = 0;
        while next < part.len() {
            for link in topology.out_links(part[next]) {
                let to = topology.link(*link).to;
                if !seen[to.ix()] && topology.node(to).tier <= tier {
                    seen[to.ix()] = true;
                    part.push(to);
                }
            }
            next += 1;
        }
        parts.push(part);
    }
    parts
}

/// Returns the max-min fair rates, bits per second, of endless flows within the cuts.
pub fn rates(topology: &Topology, pairs: &[(HostIx, HostIx)], capacity: Capacity) -> Vec<f64> {
    let cuts = Cuts::new(topology, capacity);
    let links: Vec<u64> = topology.links().iter().map(|link| link.rate.as_bps()).collect();
    let mut users = Users::new();
    pairs.iter().for_each(|(src, dst)| users.push(cuts.limits(*src, *dst)));
    let mut rates = Vec::new();
    Filler::default().max_min(&cuts.capacities(&links), &users, &mut rates);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(spec: &str) -> Topology {
        net::spec::parse(spec).unwrap()
    }

    fn stride(topology: &Topology, step: u32) -> Vec<(HostIx, HostIx)> {
        let hosts = topology.hosts().len() as u32;
        (0..hosts).map(|host| (HostIx(host), HostIx((host + step) % hosts))).collect()
    }

    fn shares(spec: &str, step: u32, capacity: Capacity) -> Vec<f64> {
        let topology = topology(spec);
        rates(&topology, &stride(&topology, step), capacity).iter().map(|rate| rate / 10e9).collect()
    }

    #[test]
    fn the_sets_are_hosts_racks_and_pods() {
        let count = |spec: &str| {
            let topology = topology(spec);
            Cuts::new(&topology, Capacity::Cut).crossing.len() - topology.hosts().len()
        };
        assert_eq!(count("fat-tree:k=4"), 8 + 4, "edges and pods");
        assert_eq!(count("leaf-spine:leaves=3,spines=2,hosts_per_leaf=4"), 3);
        assert_eq!(count("leaf-spine:leaves=3,spines=2,hosts_per_leaf=1"), 3);
        assert_eq!(count("single-switch:hosts=5"), 0);
        assert_eq!(count("bcube:n=4,k=1"), 4, "the switches of level 0 with their hosts");
    }

    #[test]
    fn permutations_have_their_closed_forms() {
        assert!(shares("fat-tree:k=8", 64, Capacity::Cut).iter().all(|share| *share == 1.0));
        // 16 hosts per leaf, 8 uplinks: half, when every flow leaves its leaf.
        let narrow = "leaf-spine:leaves=4,spines=8,hosts_per_leaf=16";
        assert!(shares(narrow, 32, Capacity::Cut).iter().all(|share| *share == 0.5));
        assert!(shares(narrow, 32, Capacity::Hose).iter().all(|share| *share == 1.0));
        // A pod of 16 hosts, cores at a quarter of the rate: its own cut limits, not its edges'.
        let thin = topology("fat-tree:k=4").with_links_changed(|_, _| ());
        let thin = thin.with_links_changed({
            let topology = thin.clone();
            move |ix, link| {
                if topology.link_tier(ix).0 == 3 {
                    link.rate = net::Bandwidth::from_mbps(2_500);
                }
            }
        });
        let across = rates(&thin, &stride(&thin, 8), Capacity::Cut);
        assert!(across.iter().all(|rate| *rate == 2.5e9), "{across:?}");
    }

    /// Without tiers, halves of the network are cuts: a ring of eight switches is cut at two cables.
    #[test]
    fn networks_without_tiers_are_cut_into_halves() {
        let mut ring = net::TopologyBuilder::new("ring");
        let gbps = net::Bandwidth::from_gbps;
        let switches: Vec<NodeIx> = (0..8).map(|n| ring.switch(format!("s{n}"), 1, None)).collect();
        for (n, switch) in switches.iter().enumerate() {
            let host = ring.host(format!("h{n}"), n as u32, None);
            ring.connect(host, *switch, gbps(10), net::Time::ZERO);
        }
        for n in 0..8 {
            ring.connect(switches[n], switches[(n + 1) % 8], gbps(10), net::Time::ZERO);
        }
        let ring = ring.build().unwrap();
        // Each sends to the opposite host: four flows in each direction over two cables.
        assert!(rates(&ring, &stride(&ring, 4), Capacity::Cut).iter().all(|rate| *rate == 5e9));
        assert!(rates(&ring, &stride(&ring, 4), Capacity::Hose).iter().all(|rate| *rate == 10e9));
    }

    #[test]
    fn a_dead_link_narrows_its_cut() {
        let topology = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=2");
        let cuts = Cuts::new(&topology, Capacity::Cut);
        let mut rates: Vec<u64> = topology.links().iter().map(|link| link.rate.as_bps()).collect();
        assert!(cuts.capacities(&rates)[8..].iter().all(|capacity| capacity.is_infinite()));
        let uplink = (0..rates.len()).find(|ix| !topology.is_host_link(LinkIx(*ix as u32))).unwrap();
        rates[uplink] = 0;
        let finite = cuts.capacities(&rates)[8..].iter().filter(|capacity| capacity.is_finite()).count();
        assert_eq!(finite, 1);
    }
}
