//! Connections as flows of central balancers that learn flows by first packets.
//!
//! The return direction of a connection is a flow like any other: the member's switch copies its
//! first packet and counts it. The direction to the member is translated where it enters the
//! network, by a rule that already counts it and copies no packet to the controller. The balancer
//! is therefore notified when the connection begins and when it closes, with its translated
//! addresses, and the counters of its rule are polled like those of other flows.

use balance::central::{FlowInfo, FlowSource};
use net::FiveTuple;
use openflow::FlowStats;

use super::connection_table::Connection;
use super::{Parts, VipService};
use crate::changes::Change;

impl VipService {
    pub(super) fn report_flow(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple, known: &Connection) {
        let ends = [tuple.src, known.translated.dst].map(|address| on.observer.network.find_host(address));
        let ([Some(src), Some(dst)], FlowSource::FirstPackets) = (ends, on.observer.needs.flows) else { return };
        // Switches do not see the ports of its packets, so no path can be its own.
        if self.services.get(&known.owner.service).is_some_and(|service| service.is_tunnelled) {
            return;
        }
        if on.observer.flows.table.find(&known.translated).is_some() {
            return;
        }
        if on.observer.flows.table.len() >= on.cx.config.flows_max {
            on.cx.channels.tally.flows_over_limit += 1;
            return;
        }
        let facts =
            FlowInfo { tuple: known.translated, src, dst, started: on.cx.now, bytes: 0, rate: None, size: None };
        let Some(edge) = on.observer.network.node_of(known.edge) else { return };
        let flow = on.observer.flows.table.insert(facts);
        on.observer.flows.switch_owned.begin_connected(flow, edge, on.cx.now);
        on.cx.changes.push(Change::FlowStarted(flow));
    }

    pub(super) fn end_flow_of(&mut self, on: &mut Parts<'_>, translated: &FiveTuple) {
        let flow = on.observer.flows.table.find(translated);
        if let Some(flow) = flow.filter(|flow| on.observer.flows.switch_owned.end_connected(*flow)) {
            on.cx.changes.push(Change::FlowEnded(flow));
        }
    }

    /// Handles the counters of a connection's rule to the member.
    pub(super) fn flow_counted(&mut self, on: &mut Parts<'_>, translated: &FiveTuple, entry: &FlowStats) {
        let Some(flow) = on.observer.flows.table.find(translated) else { return };
        let rate = on.observer.flows.switch_owned.connected_counted(flow, entry.bytes, entry.duration_ns);
        if let (Some(rate), Some(facts)) = (rate, on.observer.flows.table.get_mut(flow)) {
            (facts.rate, facts.bytes) = (Some(rate), entry.bytes);
        }
    }

    /// Reports all open connections to a new central balancer, if it learns flows by first packets.
    pub(crate) fn report_all_flows(&mut self) {
        let living = self.connections.select(Connection::has_rules);
        self.pending_paths.extend(living);
        self.is_new = true;
    }
}
