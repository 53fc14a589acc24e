//! The common part of the JSON and GraphML importers: nodes and cables that become a topology.

use std::collections::BTreeMap;

use super::{ImportError, ImportOptions, check_size, stem, unusable};
use crate::families::Size;
use crate::topology::{Node, NodeIx, NodeKind, Tier, Topology, TopologyBuilder};
use crate::units::{Bandwidth, Time};

/// A node as given in a file.
pub struct DraftNode {
    pub name: String,
    pub kind: NodeKind,
    pub tier: Option<u8>,
    pub pod: Option<u32>,
    pub rack: Option<u32>,
    pub forwards: Option<bool>,
}

/// A cable as given in a file; `a` and `b` are positions in the list of nodes.
pub struct DraftLink {
    pub a: usize,
    pub b: usize,
    pub ab: Bandwidth,
    pub ba: Bandwidth,
    pub delay: Time,
}

/// Whether hosts with several links forward the traffic of other nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transit {
    /// They forward, as sites: a switch with its own host.
    Sites,
    /// They do not forward unless the node says so.
    No,
}

struct Assembly<'a> {
    builder: TopologyBuilder,
    options: &'a ImportOptions,
    /// Rack numbers by the position in the draft of the first neighbour (or of the site).
    racks: BTreeMap<usize, u32>,
}

/// Builds the topology. A network without hosts gets hosts behind every switch.
pub fn assemble(
    file: &str,
    nodes: &[DraftNode],
    links: &[DraftLink],
    transit: Transit,
    options: &ImportOptions,
) -> Result<Topology, ImportError> {
    let hosts = nodes.iter().filter(|node| node.kind == NodeKind::Host).count();
    let attached = if hosts == 0 { options.hosts_per_node } else { 0 };
    let count = nodes.len() as u64;
    check_size(
        file,
        Size {
            // Every host may become a site.
            hosts: count.saturating_mul(attached.into()).saturating_add(hosts as u64),
            switches: count,
            cables: count.saturating_mul(u64::from(attached) + 1) + links.len() as u64,
        },
    )?;
    let mut neighbours: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut degree = vec![0usize; nodes.len()];
    for link in links {
        for (end, other) in [(link.a, link.b), (link.b, link.a)] {
            neighbours[end].get_or_insert(other);
            degree[end] += 1;
        }
    }
    let mut assembly = Assembly { builder: TopologyBuilder::new(stem(file)), options, racks: BTreeMap::new() };
    let mut placed: Vec<NodeIx> = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        let site = node.kind == NodeKind::Host && node.forwards.is_none() && transit == Transit::Sites && degree[i] > 1;
        placed.push(match node.kind {
            NodeKind::Host if site => assembly.switch(i, node, 1),
            NodeKind::Host => assembly.host(node, neighbours[i].unwrap_or(i)),
            NodeKind::Switch => assembly.switch(i, node, attached),
        });
    }
    let mut builder = assembly.builder;
    for link in links {
        let (a, b) = (placed[link.a], placed[link.b]);
        builder.connect_asymmetric(a, b, link.ab, link.ba, link.delay);
    }
    builder.build().map_err(|cause| unusable(file, cause))
}

impl Assembly<'_> {
    fn rack(&mut self, of: usize) -> u32 {
        let next = self.racks.len() as u32;
        *self.racks.entry(of).or_insert(next)
    }

    fn host(&mut self, node: &DraftNode, neighbour: usize) -> NodeIx {
        let rack = node.rack.unwrap_or_else(|| self.rack(neighbour));
        self.builder.add(Node {
            name: node.name.clone(),
            kind: NodeKind::Host,
            tier: Tier(node.tier.unwrap_or(0)),
            forwards: node.forwards.unwrap_or(false),
            pod: node.pod,
            rack: Some(rack),
        })
    }

    /// Adds a switch with hosts that the file does not name.
    fn switch(&mut self, i: usize, node: &DraftNode, hosts: u32) -> NodeIx {
        let switch = self.builder.add(Node {
            name: node.name.clone(),
            kind: NodeKind::Switch,
            tier: Tier(node.tier.unwrap_or(1)),
            forwards: node.forwards.unwrap_or(true),
            pod: node.pod,
            rack: None,
        });
        for number in 0..hosts {
            let name = match hosts {
                1 => format!("{}/host", node.name),
                _ => format!("{}/host{number}", node.name),
            };
            let rack = self.rack(i);
            let host = self.builder.host(name, rack, node.pod);
            let options = self.options;
            self.builder.connect(host, switch, options.host_rate, options.host_delay);
        }
        switch
    }
}
