//! Static rules for runs without a controller: one path to each host.

use std::collections::BTreeMap;

use net::{HostIx, LinkIx, NodeIx, Routes, Topology, address};

use crate::network::plan::{is_switch, switch_name};

/// Choice among equal-cost next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first next hop for every destination: `sdn-spt:tie=first`.
    First,
    /// By destination: each tier uses another digit of the host number, so that permutation traffic
    /// spreads over the links.
    Spread,
}

/// Next hops from every switch to every host.
#[derive(Clone, Debug)]
pub struct StaticRoutes<'a> {
    topology: &'a Topology,
    routes: Routes,
    choice: Choice,
}

impl<'a> StaticRoutes<'a> {
    /// Computes the routes of the intact network.
    pub fn new(topology: &'a Topology, choice: Choice) -> StaticRoutes<'a> {
        StaticRoutes { topology, routes: Routes::intact(topology), choice }
    }

    /// Returns the next hop of a switch towards a host; `None` if there is no path.
    pub fn next(&self, node: NodeIx, host: HostIx) -> Option<LinkIx> {
        let last = self.routes.last_link(host)?;
        if self.topology.link(last).from == node {
            return Some(last);
        }
        let hops = self.routes.next_hops(node, self.routes.class_of(host));
        let count = hops.len();
        if count == 0 {
            return None;
        }
        let position = match self.choice {
            Choice::First => 0,
            Choice::Spread => {
                let tier = u32::from(self.topology.node(node).tier.0).saturating_sub(1).min(8);
                (host.0 as usize / count.pow(tier)) % count
            }
        };
        hops.get(position).copied()
    }

    /// Returns the links of the path between two hosts; `None` if the rules do not connect them.
    pub fn path(&self, src: HostIx, dst: HostIx) -> Option<Vec<LinkIx>> {
        let first = *self.topology.out_links(self.topology.host(src)).first()?;
        let mut path = vec![first];
        let end = self.topology.host(dst);
        while self.topology.link(*path.last()?).to != end {
            // Shortest paths have no loops; the bound guards against a defect in the routes.
            if path.len() > self.topology.nodes().len() {
                return None;
            }
            path.push(self.next(self.topology.link(*path.last()?).to, dst)?);
        }
        Some(path)
    }

    /// Returns the rules of each switch in the syntax of `ovs-ofctl`.
    pub fn rules(&self) -> BTreeMap<String, Vec<String>> {
        let switches =
            (0..self.topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(self.topology, *node));
        let hosts = 0..self.topology.hosts().len() as u32;
        let rule = |node: NodeIx, host: HostIx| {
            let port = address::port_of(self.topology, self.next(node, host)?);
            let (ip, match_arp) = (address::host_ipv4(host), format!("arp,arp_tpa={}", address::host_ipv4(host)));
            Some([
                format!("priority=10,ip,nw_dst={ip},actions=output:{port}"),
                format!("priority=10,{match_arp},actions=output:{port}"),
            ])
        };
        switches
            .map(|node| {
                let rules = hosts.clone().filter_map(|host| rule(node, HostIx(host))).flatten().collect();
                (switch_name(node), rules)
            })
            .collect()
    }
}

/// Returns an empty rule table for every switch.
pub fn no_rules(topology: &Topology) -> BTreeMap<String, Vec<String>> {
    let switches = (0..topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(topology, *node));
    switches.map(|node| (switch_name(node), Vec::new())).collect()
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
