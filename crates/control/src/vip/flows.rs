//! Connections as flows of central balancers that learn flows by first packets.
//!
//! The return direction of a connection is a flow like any other: the member's switch copies its
//! first packet and counts it. The direction to the member is translated where it enters the
//! network, by a rule that already counts it and copies no packet to the controller. The balancer
//! is therefore notified when the connection begins and when it closes, with its translated
//! addresses, and the counters of its rule are polled like those of other flows.

use balance::central::{DecisionTrigger, FlowInfo, FlowSource};
use net::FiveTuple;
use openflow::FlowStats;

use super::connection_table::Connection;
use crate::controller::Controller;

impl Controller {
    /// Returns whether a central balancer uses counters of connections.
    pub(super) fn wants_flows_counted(&self) -> bool {
        self.needs.flows == FlowSource::FirstPackets && self.needs.counters && !self.vips.services.is_empty()
    }

    pub(super) fn report_flow(&mut self, tuple: &FiveTuple, known: &Connection) {
        let ends = [tuple.src, known.translated.dst].map(|address| self.network.find_host(address));
        let ([Some(src), Some(dst)], FlowSource::FirstPackets) = (ends, self.needs.flows) else { return };
        if self.flows.table.find(&known.translated).is_some() {
            return;
        }
        if self.flows.table.len() >= self.config.flows_max {
            self.tally.flows_over_limit += 1;
            return;
        }
        let facts = FlowInfo { tuple: known.translated, src, dst, started: self.now, bytes: 0, rate: None, size: None };
        let Some(edge) = self.network.node_of(known.edge) else { return };
        let flow = self.flows.table.insert(facts);
        self.flows.switch_owned.begin_connected(flow, edge, self.now);
        self.pending_triggers.push_back(DecisionTrigger::FlowStarted(flow));
    }

    pub(super) fn end_flow_of(&mut self, translated: &FiveTuple) {
        let flow = self.flows.table.find(translated);
        if let Some(flow) = flow.filter(|flow| self.flows.switch_owned.end_connected(*flow)) {
            self.pending_triggers.push_back(DecisionTrigger::FlowEnded(flow));
        }
    }

    /// Handles the counters of a connection's rule to the member.
    pub(super) fn flow_counted(&mut self, translated: &FiveTuple, entry: &FlowStats) {
        let Some(flow) = self.flows.table.find(translated) else { return };
        let rate = self.flows.switch_owned.connected_counted(flow, entry.bytes, entry.duration_ns);
        if let (Some(rate), Some(facts)) = (rate, self.flows.table.get_mut(flow)) {
            (facts.rate, facts.bytes) = (Some(rate), entry.bytes);
        }
    }

    /// Reports all open connections to a new central balancer, if it learns flows by first packets.
    pub(crate) fn report_all_flows(&mut self) {
        let living = self.vips.connections.select(Connection::has_rules);
        self.vips.pending_paths.extend(living);
        self.vips.is_new = true;
    }
}
