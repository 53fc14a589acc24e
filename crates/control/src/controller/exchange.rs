//! Another balancer takes over while traffic goes on.
//!
//! What the old one wanted stays wanted until the new one is asked, in the same thought: default next hops go from one
//! table to the other, divisions and paths of flows are taken over or released, all in the ways that any other change
//! takes, which lose nothing ([`crate::stage`], [`crate::pins`], [`crate::pairs`]).

use std::sync::Arc;

use balance::central::{CentralBalancer, FlowId, FlowSource, Why};
use net::{Stream, Time};

use super::Controller;

impl Controller {
    /// Lets another balancer decide from now on. Flows known stay known where both learn of them the same way.
    pub fn set_balancer(&mut self, now: Time, balancer: Box<dyn CentralBalancer>) {
        self.wake(now);
        let had_ports = self.wants_ports();
        self.release_placements();
        let before = std::mem::replace(&mut self.needs, balancer.needs());
        self.balancer = balancer;
        if before.flows == FlowSource::FirstPackets && self.needs.flows != before.flows {
            self.drop_counters();
        }
        self.rng = Stream::new(self.config.seed, "central balancer");
        self.exchange_flows();
        self.tell_all_flows();
        let wants_first = self.needs.flows == FlowSource::FirstPackets;
        if wants_first != (before.flows == FlowSource::FirstPackets) {
            self.ports.set_first_packets(self.compiler, wants_first, &self.network, &mut self.fabric);
        }
        if self.needs.counters != before.counters {
            self.follow_needs(had_ports);
        }
        // It is asked about the network first, and about the flows that are known when it has said how traffic goes.
        (self.has_decided, self.next_period, self.told_above) = (false, None, None);
        (self.is_network_new, self.are_hosts_new) = (true, true);
        self.questions.clear();
        self.questions.extend(self.flows.table.iter().map(|(flow, _)| Why::FlowStarted(flow)));
        self.questions.extend(self.flows.soft.over().map(Why::FlowEnded));
    }

    /// Paths and limits of flows and divisions of pairs are not wanted any more; how traffic goes by default still is.
    fn release_placements(&mut self) {
        let pinned: Vec<FlowId> = self.placements.pins().iter().map(|(flow, _)| *flow).collect();
        pinned.into_iter().for_each(|flow| self.placements.release(flow));
        let divided: Vec<_> = self.placements.pairs().keys().copied().collect();
        divided.into_iter().for_each(|(from, to)| self.placements.divide(from, to, Arc::new([])));
        self.follow_placements();
        self.placements.set_report_above(0);
        self.placements.set_acks_along(false);
    }

    fn exchange_flows(&mut self) {
        let (network, fabric) = (&self.network, &mut self.fabric);
        let (source, is_counted) = (self.needs.flows, self.needs.counters);
        for facts in self.flows.set_source(self.compiler, source, is_counted, network, fabric) {
            self.paced.remove(&facts.tuple);
            self.unpin(facts.tuple);
        }
    }
}
