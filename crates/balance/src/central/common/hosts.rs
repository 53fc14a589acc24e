//! Properties of hosts that every flow needs, computed once per change of the network.

use net::routes::ClassIx;
use net::{HostIx, NodeIx};

use crate::central::NetworkView;
use crate::central::common::edges::{Ends, edge_of, host_rate};

#[derive(Clone, Debug, Default)]
pub struct Hosts {
    rate: Vec<f64>,
    edge: Vec<Option<(NodeIx, ClassIx)>>,
}

impl Hosts {
    pub fn new(view: &NetworkView<'_>) -> Hosts {
        let hosts = || (0..view.topology.hosts().len() as u32).map(HostIx);
        let edge = |host| edge_of(view, host).map(|class| (view.routes.class_node(class), class));
        Hosts { rate: hosts().map(|host| host_rate(view, host)).collect(), edge: hosts().map(edge).collect() }
    }
    /// Returns the rates of the first links of all hosts, bits per second.
    pub fn rates(&self) -> &[f64] {
        &self.rate
    }
    /// Returns the switches between which flows between two hosts travel.
    #[inline]
    pub fn ends(&self, src: HostIx, dst: HostIx) -> Option<Ends> {
        let ((from, own), (_, to)) = ((*self.edge.get(src.ix())?)?, (*self.edge.get(dst.ix())?)?);
        (own != to).then_some(Ends { from, to })
    }
}
