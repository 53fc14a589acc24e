//! Replacement of the balancer while traffic continues.
//!
//! The placements of the old balancer stay in place until the new one runs, in the same decision.
//! Default routes change from one table to the other; traffic splits and paths of flows are kept or
//! released. All of this uses the ordinary update procedures, which lose no packet
//! ([`super::update_order`], [`super::pins`], [`super::traffic_splits`]).

use std::sync::Arc;

use balance::central::{CentralBalancer, FlowId, FlowSource};
use net::RandomStream;

use super::Planner;
use crate::changes::Change;
use crate::observer::first_packets::delete_counters;
use crate::observer::{Cx, Observer};
use crate::updater::Updater;

impl Planner {
    /// Replaces the balancer. Known flows stay known if both balancers use the same source of
    /// flows.
    pub(crate) fn set_balancer(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &mut Observer,
        updater: &mut Updater,
        balancer: Box<dyn CentralBalancer>,
    ) {
        let had_ports = observer.wants_ports();
        self.release_placements(cx, observer);
        let before = std::mem::replace(&mut observer.needs, balancer.needs());
        self.balancer = balancer;
        let was_by_first = before.flows == FlowSource::FirstPackets;
        let is_by_first = observer.needs.flows == FlowSource::FirstPackets;
        if was_by_first && !is_by_first {
            delete_counters(cx, None); // Before anything else is sent.
        }
        self.rng = RandomStream::new(cx.config.seed, "central balancer");
        self.exchange_flows(observer, updater);
        if is_by_first != was_by_first {
            self.port_rules.set_first_packets(is_by_first, &observer.network, updater);
        }
        if observer.needs.counters != before.counters {
            observer.update_needs(cx, had_ports);
        }
        // The new balancer receives the network first, and the known flows after it has set default
        // routes.
        (self.has_decided, self.next_period, self.last_report_threshold) = (false, None, None);
        cx.changes.forget_triggers();
        cx.changes.push(Change::Network);
        cx.changes.push(Change::Hosts);
        observer.flows.table.iter().for_each(|(flow, _)| cx.changes.push(Change::FlowStarted(flow)));
        observer.flows.switch_owned.ended_flows().for_each(|flow| cx.changes.push(Change::FlowEnded(flow)));
    }

    /// Removes paths and rate limits of flows and traffic splits from the desired state; default
    /// routes stay.
    fn release_placements(&mut self, cx: &mut Cx<'_>, observer: &Observer) {
        let pinned: Vec<FlowId> = self.placements.pins().iter().map(|(flow, _)| *flow).collect();
        pinned.into_iter().for_each(|flow| self.placements.release(flow));
        let divided: Vec<_> = self.placements.splits().keys().copied().collect();
        divided.into_iter().for_each(|(from, to)| self.placements.split(from, to, Arc::new([])));
        self.apply_placements(cx, observer);
        self.placements.set_report_threshold(0);
        self.placements.set_acks_follow_path(false);
    }

    fn exchange_flows(&mut self, observer: &mut Observer, updater: &mut Updater) {
        let (source, is_counted) = (observer.needs.flows, observer.needs.counters);
        for facts in observer.flows.set_source(source, is_counted, &observer.network, updater) {
            self.rate_limits_sent.remove(&facts.tuple);
            self.unpin(observer, facts.tuple);
        }
    }
}
