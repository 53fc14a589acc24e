//! Topology and routes of the known network, kept up to date with what was added and marked.

use std::collections::VecDeque;

use net::{Link, LinkIx, Node, NodeIx, NodeKind, Tier, Time};

use super::{DirectedLink, Kind, Network};
use crate::SwitchPort;

/// Height of a node without a way to a host.
const NO_TIER: u8 = u8::MAX;

impl Network {
    /// Updates topology and routes after additions, marks and measurements.
    pub(crate) fn refresh(&mut self, latency: impl Fn(SwitchPort, SwitchPort) -> Time) {
        let is_larger =
            self.topology.nodes().len() != self.nodes.len() || self.topology.links().len() != self.wires.len();
        if is_larger || self.is_renamed {
            self.is_renamed = false;
            self.extend_topology(latency);
        }
        self.routes.update(&self.topology, &self.alive);
        self.update_slowest_hop();
    }

    /// Adds new nodes and links to the topology, and updates the names and latencies of known ones.
    fn extend_topology(&mut self, latency: impl Fn(SwitchPort, SwitchPort) -> Time) {
        let (nodes, links) = (self.topology.nodes().len(), self.topology.links().len());
        let new_nodes: Vec<Node> = self.nodes[nodes..].iter().map(|kind| self.topology_node(*kind)).collect();
        let link = |wire: &DirectedLink| Link { from: wire.from, to: wire.to, rate: wire.rate, delay: Time::ZERO };
        let new_links: Vec<Link> = self.wires[links..].iter().map(link).collect();
        // "The first of equal next hops" must not depend on which was found first.
        self.topology.extend(new_nodes, new_links, |link| self.wires[link.ix()].port);
        for host in std::mem::take(&mut self.renamed) {
            let facts = &self.hosts[host.ix()];
            if let Some(node) = self.near_end(facts.uplink) {
                self.topology.rename(node, facts.name(host));
            }
        }
        let end = |wire: &DirectedLink| match self.nodes[wire.from.ix()] {
            Kind::Switch(datapath) => Some((datapath, wire.port?)),
            Kind::Host(_) => None,
        };
        // Both directions of a cable have the latency of the first.
        let delay = |cable: &[DirectedLink]| end(&cable[0]).zip(end(&cable[1])).map(|(from, to)| latency(from, to));
        let delays: Vec<Time> = self.wires.chunks_exact(2).map(|cable| delay(cable).unwrap_or(Time::ZERO)).collect();
        self.topology.change_links(|ix, link| link.delay = delays[ix.ix() / 2]);
        self.update_tiers(links);
    }

    fn topology_node(&self, kind: Kind) -> Node {
        match kind {
            Kind::Switch(datapath) => Node {
                name: format!("{:016x}", datapath.0),
                kind: NodeKind::Switch,
                tier: Tier(1),
                forwards: true,
                pod: None,
                rack: None,
            },
            Kind::Host(host) => Node {
                name: self.hosts[host.ix()].name(host),
                kind: NodeKind::Host,
                tier: Tier(0),
                forwards: false,
                pod: None,
                rack: Some(self.hosts[host.ix()].edge.0),
            },
        }
    }

    /// Sets the known latencies of links that differ by more than an eighth. Smaller differences
    /// are noise, and would invalidate cached paths. Both directions of a cable have the latency of the
    /// first, unless they are `separate`.
    pub(crate) fn set_delays(&mut self, separate: bool, latency: impl Fn(LinkIx) -> Option<Time>) {
        let before = self.topology.links();
        let delays: Vec<Option<Time>> = (0..before.len())
            .map(|ix| {
                let known = before[ix].delay;
                let measured = latency(LinkIx(if separate { ix as u32 } else { ix as u32 & !1 }))?;
                let difference = measured.max(known).saturating_sub(measured.min(known));
                (difference > Time::from_ps(known.as_ps() / 8)).then_some(measured)
            })
            .collect();
        if delays.iter().any(Option::is_some) {
            self.topology.change_links(|ix, link| link.delay = delays[ix.ix()].unwrap_or(link.delay));
            self.update_slowest_hop();
        }
    }

    /// Updates the height of every node for the links from this number on: hosts 0, switches the
    /// smallest number of cables to a host (1 if a network has no hosts).
    fn update_tiers(&mut self, first: usize) {
        let is_host = |kind: &Kind| matches!(kind, Kind::Host(_));
        let new = self.nodes[self.tiers.len()..].iter().map(|kind| if is_host(kind) { 0 } else { NO_TIER });
        self.tiers.extend(new);
        let mut lower: VecDeque<NodeIx> = self.wires[first..].iter().map(|wire| wire.from).collect();
        while let Some(node) = lower.pop_front() {
            let tier = self.tiers[node.ix()].saturating_add(1).min(NO_TIER - 1);
            if self.tiers[node.ix()] == NO_TIER {
                continue;
            }
            let next: Vec<NodeIx> =
                self.topology.out_links(node).iter().map(|link| self.topology.link(*link).to).collect();
            for to in next {
                if tier < self.tiers[to.ix()] {
                    self.tiers[to.ix()] = tier;
                    self.topology.set_tier(to, Tier(tier));
                    lower.push_back(to);
                }
            }
        }
    }

    fn update_slowest_hop(&mut self) {
        let links = (0..self.wires.len() as u32).map(LinkIx).filter(|link| self.alive[link.ix()]);
        let links = links.filter(|link| !self.is_host_link(*link));
        self.slowest_hop = links.map(|link| self.hop_time(link)).max().unwrap_or(Time::ZERO);
    }
}
