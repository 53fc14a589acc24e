//! Replacement of the balancer while traffic continues.
//!
//! The placements of the old balancer stay in place until the new one runs, in the same decision.
//! Default routes change from one table to the other; traffic splits and paths of flows are kept or
//! released. All of this uses the ordinary update procedures, which lose no packet
//! ([`crate::planning::update_order`], [`crate::planning::pins`],
//! [`crate::planning::traffic_splits`]).

use std::sync::Arc;

use balance::central::{CentralBalancer, DecisionTrigger, FlowId, FlowSource};
use net::{RandomStream, Time};

use super::Controller;

impl Controller {
    /// Replaces the balancer. Known flows stay known if both balancers use the same source of
    /// flows.
    pub fn set_balancer(&mut self, now: Time, balancer: Box<dyn CentralBalancer>) {
        self.wake(now);
        let had_ports = self.wants_ports();
        self.release_placements();
        let before = std::mem::replace(&mut self.needs, balancer.needs());
        self.balancer = balancer;
        if before.flows == FlowSource::FirstPackets && self.needs.flows != before.flows {
            self.delete_counters(None); // Before anything else is sent.
        }
        self.rng = RandomStream::new(self.config.seed, "central balancer");
        self.exchange_flows();
        self.report_all_flows();
        let wants_first = self.needs.flows == FlowSource::FirstPackets;
        if wants_first != (before.flows == FlowSource::FirstPackets) {
            self.ports.set_first_packets(wants_first, &self.network, &mut self.fabric);
        }
        if self.needs.counters != before.counters {
            self.update_needs(had_ports);
        }
        // The new balancer receives the network first, and the known flows after it has set default
        // routes.
        (self.has_decided, self.next_period, self.last_report_threshold) = (false, None, None);
        (self.network_changed, self.hosts_changed) = (true, true);
        self.pending_triggers.clear();
        self.pending_triggers.extend(self.flows.table.iter().map(|(flow, _)| DecisionTrigger::FlowStarted(flow)));
        self.pending_triggers.extend(self.flows.switch_owned.ended_flows().map(DecisionTrigger::FlowEnded));
    }

    /// Removes paths and rate limits of flows and traffic splits from the desired state; default
    /// routes stay.
    fn release_placements(&mut self) {
        let pinned: Vec<FlowId> = self.placements.pins().iter().map(|(flow, _)| *flow).collect();
        pinned.into_iter().for_each(|flow| self.placements.release(flow));
        let divided: Vec<_> = self.placements.splits().keys().copied().collect();
        divided.into_iter().for_each(|(from, to)| self.placements.split(from, to, Arc::new([])));
        self.apply_placements();
        self.placements.set_report_threshold(0);
        self.placements.set_acks_follow_path(false);
    }

    fn exchange_flows(&mut self) {
        let (network, fabric) = (&self.network, &mut self.fabric);
        let (source, is_counted) = (self.needs.flows, self.needs.counters);
        for facts in self.flows.set_source(source, is_counted, network, fabric) {
            self.rate_limits_sent.remove(&facts.tuple);
            self.unpin(facts.tuple);
        }
    }
}
