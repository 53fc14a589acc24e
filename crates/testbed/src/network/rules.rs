//! Static rules for runs without a controller: one path to each host.

use std::collections::BTreeMap;

use net::{HostIx, LinkIx, NodeIx, Routes, Topology, address};

use crate::network::plan::{hosts, switch_name, switches};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first next hop for every destination: `sdn-spt:tie=first`.
    First,
    /// By destination: each tier uses another digit of the host number, so that permutation traffic
    /// spreads over the links.
    Spread,
}

#[derive(Clone, Debug)]
pub struct StaticRoutes<'a> {
    topology: &'a Topology,
    routes: Routes,
    choice: Choice,
}

impl<'a> StaticRoutes<'a> {
    pub fn new(topology: &'a Topology, choice: Choice) -> StaticRoutes<'a> {
        StaticRoutes { topology, routes: Routes::intact(topology), choice }
    }

    pub fn next(&self, node: NodeIx, host: HostIx) -> Option<LinkIx> {
        let last = self.routes.last_link(host)?;
        if self.topology.link(last).from == node {
            return Some(last);
        }
        let hops = self.routes.next_hops(node, self.routes.class_of(host));
        let position = match self.choice {
            Choice::First => 0,
            Choice::Spread => {
                let tier = u32::from(self.topology.node(node).tier.0).saturating_sub(1).min(8);
                let count = hops.len().max(1);
                (host.0 as usize / count.pow(tier)) % count
            }
        };
        hops.get(position).copied()
    }

    /// Returns the links of the path between two hosts; `None` if the rules do not connect them.
    pub fn path(&self, src: HostIx, dst: HostIx) -> Option<Vec<LinkIx>> {
        let first = *self.topology.out_links(self.topology.host(src)).first()?;
        let mut path = vec![first];
        // Shortest paths have no loops; the bound guards against a defect in the routes.
        for _ in self.topology.nodes() {
            let at = self.topology.link(*path.last()?).to;
            if at == self.topology.host(dst) {
                return Some(path);
            }
            path.push(self.next(at, dst)?);
        }
        None
    }

    /// Returns the rules of each switch in the syntax of `ovs-ofctl`.
    pub fn rules(&self) -> BTreeMap<String, Vec<String>> {
        let rules = |node: NodeIx, host: HostIx| {
            let (ip, port) = (address::host_ipv4(host), address::port_of(self.topology, self.next(node, host)?));
            let rule = |fields: &str| format!("priority=10,{fields}={ip},actions=output:{port}");
            Some(["ip,nw_dst", "arp,arp_tpa"].map(rule))
        };
        let of_switch = |node| hosts(self.topology).filter_map(|host| rules(node, host)).flatten().collect();
        switches(self.topology).map(|node| (switch_name(node), of_switch(node))).collect()
    }
}

pub fn no_rules(topology: &Topology) -> BTreeMap<String, Vec<String>> {
    switches(topology).map(|node| (switch_name(node), Vec::new())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Topology {
        net::spec::parse("fat-tree:k=4,hosts_per_edge=10,host_rate=1Mbps,fabric_rate=10Mbps").expect("a topology")
    }

    /// Returns, per link, the number of flows from x to x + 30 that cross it.
    fn loads(routes: &StaticRoutes<'_>, topology: &Topology) -> Vec<u32> {
        let mut loads = vec![0; topology.links().len()];
        for host in 0..80 {
            let path = routes.path(HostIx(host), HostIx((host + 30) % 80)).expect("connected");
            path.iter().for_each(|link| loads[link.ix()] += 1);
        }
        loads
    }

    #[test]
    fn first_hop_choice_uses_one_core() {
        let topology = tree();
        let loads = loads(&StaticRoutes::new(&topology, Choice::First), &topology);
        let into_core = |link: &usize| {
            let link = LinkIx(*link as u32);
            topology.link_tier(link) == topology.top_tier() && topology.is_upward(link)
        };
        let used: Vec<u32> =
            (0..loads.len()).filter(into_core).map(|link| loads[link]).filter(|load| *load > 0).collect();
        assert_eq!(used, [20, 20, 20, 20]);
    }

    #[test]
    fn spread_choice_balances_stride() {
        let topology = tree();
        let loads = loads(&StaticRoutes::new(&topology, Choice::Spread), &topology);
        for (link, load) in loads.iter().enumerate() {
            let link = LinkIx(link as u32);
            let most = if topology.is_host_link(link) { 1 } else { 5 };
            assert!(*load <= most, "{} carries {load}", topology.link_name(link));
        }
    }

    #[test]
    fn every_switch_has_two_rules_per_host() {
        let topology = tree();
        let rules = StaticRoutes::new(&topology, Choice::First).rules();
        assert_eq!(rules.len(), 20);
        assert!(rules.values().all(|rules| rules.len() == 160));
        assert!(rules.values().flatten().all(|rule| rule.contains("output:")));
    }
}
