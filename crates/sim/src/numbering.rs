//! Node numbers of the engine.

use net::{NodeIx, Topology};

use crate::queue::NIL;

/// Node numbers of the engine: hosts in the order of the topology, then switches in its order.
#[derive(Clone, Debug)]
pub(crate) struct Numbering {
    pub(crate) host_count: u32,
    to_engine: Vec<u32>,
    pub(crate) to_topology: Vec<NodeIx>,
}

impl Numbering {
    pub(crate) fn new(topology: &Topology) -> Numbering {
        let host_count = topology.hosts().len() as u32;
        let mut to_engine = vec![NIL; topology.nodes().len()];
        let mut to_topology: Vec<NodeIx> = topology.hosts().to_vec();
        for (host, node) in topology.hosts().iter().enumerate() {
            to_engine[node.ix()] = host as u32;
        }
        for (node, number) in to_engine.iter_mut().enumerate() {
            if *number == NIL {
                *number = to_topology.len() as u32;
                to_topology.push(NodeIx(node as u32));
            }
        }
        Numbering { host_count, to_engine, to_topology }
    }

    pub(crate) fn of(&self, node: NodeIx) -> u32 {
        self.to_engine[node.ix()]
    }
}
