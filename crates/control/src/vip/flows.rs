//! Connections as flows of central balancers that learn of flows by first packets.
//!
//! The way back of a connection is a flow like any other: the member's switch shows its first packet and counts it. The way
//! there is rewritten where it enters the network, by a rule that counts it already, and shows no packet to the
//! controller; so the balancer is told when the connection begins and when it is over, with the addresses it has beyond
//! the client's switch, and the counters of its rule are polled like those of other flows.

use balance::central::{FlowFacts, FlowSource, Why};
use net::FiveTuple;
use openflow::FlowStats;

use super::table::Connection;
use crate::controller::Controller;

impl Controller {
    /// Whether a central balancer wants counters of connections.
    pub(super) fn wants_flows_counted(&self) -> bool {
        self.needs.flows == FlowSource::FirstPackets && self.needs.counters && !self.vips.services.is_empty()
    }

    /// A connection begins, or is found.
    pub(super) fn tell_flow(&mut self, tuple: &FiveTuple, known: &Connection) {
        let ends = [tuple.src, known.inner.dst].map(|address| self.network.find_host(address));
        let ([Some(src), Some(dst)], FlowSource::FirstPackets) = (ends, self.needs.flows) else { return };
        if self.flows.table.find(&known.inner).is_some() {
            return;
        }
        if self.flows.table.len() >= self.config.flows_max {
            self.tally.flows_untold += 1;
            return;
        }
        let facts = FlowFacts { tuple: known.inner, src, dst, started: self.now, bytes: 0, rate: None, size: None };
        let Some(edge) = self.network.node_of(known.edge) else { return };
        let flow = self.flows.table.insert(facts);
        self.flows.soft.begin_connected(flow, edge, self.now);
        self.questions.push_back(Why::FlowStarted(flow));
    }

    /// A connection is over.
    pub(super) fn end_flow_of(&mut self, inner: &FiveTuple) {
        let flow = self.flows.table.find(inner);
        if let Some(flow) = flow.filter(|flow| self.flows.soft.end_connected(*flow)) {
            self.questions.push_back(Why::FlowEnded(flow));
        }
    }

    /// Counters of the rule of a connection's way there.
    pub(super) fn flow_counted(&mut self, inner: &FiveTuple, entry: &FlowStats) {
        let Some(flow) = self.flows.table.find(inner) else { return };
        let rate = self.flows.soft.connected_counted(flow, entry.bytes, entry.duration_ns);
        if let (Some(rate), Some(facts)) = (rate, self.flows.table.get_mut(flow)) {
            (facts.rate, facts.bytes) = (Some(rate), entry.bytes);
        }
    }

    /// Another central balancer decides from now on: it is told of the connections that live, if it learns like this.
    pub(crate) fn tell_all_flows(&mut self) {
        let living = self.vips.connections.select(Connection::has_rules);
        self.vips.unfollowed.extend(living);
        self.vips.is_new = true;
    }
}
