//! The planner: what should be forwarded where.
//!
//! It runs the central balancer on what the observer knows, and turns placements into desired rules
//! of the updater: default routes, traffic splits, pinned flows, rules of ports. Every change goes
//! through an update procedure that loses no packet ([`update_order`], [`pins`],
//! [`traffic_splits`], [`host_moves`]).

mod addressing;
pub(crate) mod arp_replies;
mod balancer_swap;
mod connection_paths;
mod decision;
pub(crate) mod default_routes;
mod hop_changes;
mod hop_graph;
mod host_moves;
mod labels;
pub(crate) mod pins;
pub(crate) mod port_rules;
mod staged_update;
pub(crate) mod traffic_splits;
mod unconfirmed;
mod update_order;

use std::collections::BTreeMap;

use balance::central::{CentralBalancer, Path, Placements};
use net::{Bandwidth, FiveTuple, RandomStream, Time};

use crate::Config;
use crate::changes::Change;
use crate::observer::discovery::next_after;
use crate::observer::{Cx, Observer};
use addressing::AddressingPlan;
use arp_replies::{PendingArpReplies, VerifiedRoutes};
use default_routes::DefaultRoutes;
use pins::Pins;
use port_rules::PortRules;
use traffic_splits::TrafficSplits;

pub(crate) struct Planner {
    balancer: Box<dyn CentralBalancer>,
    rng: RandomStream,
    pub(crate) placements: Placements,
    /// What takes the place of default routes, splits and pins; `None` with flat addresses.
    pub(crate) addressing: Option<Box<dyn AddressingPlan>>,
    pub(crate) default_routes: DefaultRoutes,
    splits: TrafficSplits,
    pins: Pins,
    pub(crate) port_rules: PortRules,
    /// Paths of connections whose server balancer picked one, by translated tuple.
    connection_paths: BTreeMap<FiveTuple, Path>,
    arp_replies: PendingArpReplies,
    verified_routes: VerifiedRoutes,
    rate_limits_sent: BTreeMap<FiveTuple, Bandwidth>,
    last_report_threshold: Option<u64>,
    has_decided: bool,
    resume_at: Option<Time>,
    next_period: Option<Time>,
}

impl Planner {
    pub(crate) fn new(config: &Config, balancer: Box<dyn CentralBalancer>) -> Planner {
        Planner {
            balancer,
            rng: RandomStream::new(config.seed, "central balancer"),
            placements: Placements::default(),
            addressing: addressing::plan_of(config),
            default_routes: DefaultRoutes::default(),
            splits: TrafficSplits::default(),
            pins: Pins::default(),
            port_rules: PortRules::default(),
            connection_paths: BTreeMap::new(),
            arp_replies: PendingArpReplies::default(),
            verified_routes: VerifiedRoutes::new(),
            rate_limits_sent: BTreeMap::new(),
            last_report_threshold: None,
            has_decided: false,
            resume_at: None,
            next_period: None,
        }
    }

    /// Returns whether no change of rules is in progress.
    pub(crate) fn is_settled(&self) -> bool {
        self.default_routes.is_settled() && self.splits.is_settled() && self.pins.is_settled()
    }

    /// Returns when the planner must run, apart from input.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let addressing = self.addressing.as_ref().and_then(|plan| plan.poll_timeout());
        let routes = self.default_routes.poll_timeout();
        let timers = [self.resume_at, routes, self.next_period, self.arp_replies.next_due(), addressing];
        timers.into_iter().flatten().min()
    }

    /// Records that the balancer's period has elapsed, if it has.
    pub(crate) fn poll_period(&mut self, cx: &mut Cx<'_>, observer: &Observer) {
        if let (Some(due), Some(period)) = (self.next_period, observer.needs.period)
            && due <= cx.now
        {
            self.next_period = Some(next_after(cx.now, due, period));
            cx.changes.push(Change::PeriodElapsed);
        }
    }
}

#[cfg(test)]
mod measurement;
#[cfg(test)]
mod tests;
