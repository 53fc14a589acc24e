//! The edge of an autonomous system: outgoing packets leave by uplinks to BGP peers.
//!
//! A router next to the switch speaks BGP with the peers; the switch forwards its packets like those
//! of any host. The router reports the routes of all peers over a BMP session. The controller gives
//! each prefix one of the uplinks whose peers announce it ([`bgp::egress`]), and installs a rule that
//! rewrites the Ethernet address to that of the peer.
//!
//! An uplink is up while its port is up and the peer's Ethernet address is known there. A failed port
//! moves its prefixes at once, a failed BGP session when the router reports it.
//!
//! Packets from uplinks are marked, and never leave by an uplink again: a peer cannot send transit
//! traffic, and no packet loops between the peer and the switch.

mod counters;
mod rules;
mod spec;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use bgp::egress::Egress;
use bgp::{Prefix, RouteEvent, RouterId};
use net::{NodeIx, Time};
use openflow::{DatapathId, FlowStats, MacAddr};

pub use spec::{EdgeConfig, Uplink};
pub use status::{EdgeStatus, UplinkInfo};

use crate::updater::RuleSet;
use crate::vip::Parts;
use counters::Poll;

/// A part of a router's BMP session, or its end.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub enum RouteInput {
    Events(RouterId, Vec<RouteEvent>),
    SessionLost(RouterId),
}

/// Configuration and state of the edge.
#[derive(Debug)]
pub(crate) struct EdgeService {
    config: EdgeConfig,
    egress: Egress,
    /// Ethernet addresses of the peers behind uplinks that are up.
    macs: Vec<Option<MacAddr>>,
    /// Rules for packets from uplinks.
    inward: RuleSet,
    /// Rules of the other switches, which lead to the switch with the uplinks.
    inner: RuleSet,
    poll: Poll,
}

impl EdgeService {
    pub(crate) fn new(config: &EdgeConfig) -> EdgeService {
        EdgeService {
            egress: Egress::new(config.egress()),
            macs: vec![None; config.uplinks.len()],
            inward: RuleSet::new(),
            inner: RuleSet::new(),
            poll: Poll::default(),
            config: config.clone(),
        }
    }

    pub(crate) fn handle(&mut self, now: Time, input: &RouteInput) {
        match input {
            RouteInput::Events(router, events) => {
                events.iter().for_each(|event| self.egress.handle(now, *router, event));
            }
            RouteInput::SessionLost(router) => self.egress.rib.session_lost(now, *router),
        }
    }

    /// Adopts the rules of a previous controller instance: their prefixes keep their uplinks until
    /// the routes are reported.
    pub(crate) fn recover(&mut self, on: &Parts<'_>, datapath: DatapathId, rules: &[FlowStats]) {
        if datapath != self.config.datapath {
            return;
        }
        for (prefix, port) in rules.iter().filter_map(|rule| on.updater.compiler.parse_outward(rule)) {
            let uplink = self.config.uplinks.iter().position(|uplink| uplink.port == port);
            if let Some(uplink) = uplink {
                self.egress.rib.recover(on.cx.now, prefix, uplink as u8);
            }
        }
    }

    fn node(&self, on: &Parts<'_>) -> Option<NodeIx> {
        on.observer.network.node_of(self.config.datapath)
    }

    /// Updates rules after changes of routes, ports or hosts.
    pub(crate) fn update(&mut self, on: &mut Parts<'_>, has_changed: bool) {
        let Some(node) = self.node(on) else { return };
        let changed = if has_changed { self.update_uplinks(on) } else { BTreeSet::new() };
        self.egress.update();
        let changes: BTreeMap<Prefix, Option<u8>> = self.egress.take_changes().collect();
        let rewritten: Vec<(Prefix, Option<u8>)> = self
            .egress
            .pieces()
            .filter(|(prefix, piece)| changed.contains(&piece.uplink) && !changes.contains_key(prefix))
            .map(|(prefix, piece)| (prefix, Some(piece.uplink)))
            .collect();
        for (prefix, uplink) in changes.into_iter().chain(rewritten) {
            let to = uplink.and_then(|uplink| {
                let mac = self.macs[usize::from(uplink)]?;
                Some((self.config.uplinks[usize::from(uplink)].port, mac))
            });
            if to.is_none() {
                self.poll.forget(prefix);
            }
            let rule = to.map(|(port, mac)| on.updater.compiler.outward(&self.config, port, mac));
            on.updater.set((node, rules::outward_key(prefix), rule));
        }
        if has_changed {
            self.update_inward(on, node);
        }
    }

    /// Updates which uplinks are up. Returns those whose peer has another Ethernet address.
    fn update_uplinks(&mut self, on: &Parts<'_>) -> BTreeSet<u8> {
        let mut changed = BTreeSet::new();
        for (number, uplink) in (0..).zip(&self.config.uplinks) {
            let end = (self.config.datapath, uplink.port);
            let peer = on.observer.network.host_at(uplink.peer).map(|host| host.known);
            let peer = peer.filter(|peer| peer.end() == end && on.observer.is_port_live(end));
            let mac = peer.map(|peer| peer.mac);
            self.egress.set_up(number, mac.is_some());
            if core::mem::replace(&mut self.macs[usize::from(number)], mac) != mac {
                changed.insert(number);
            }
        }
        changed
    }

    /// Updates the rules for packets from uplinks: the Ethernet address of each host.
    fn update_inward(&mut self, on: &mut Parts<'_>, node: NodeIx) {
        let compiler = on.updater.compiler;
        let mut wanted = RuleSet::new();
        for uplink in &self.config.uplinks {
            let (key, rule) = compiler.uplink_port(uplink.port);
            wanted.insert((node, key), rule);
            for (_, host) in on.observer.network.current_hosts() {
                if self.config.is_inside(&host.known) {
                    let (key, rule) = compiler.inward(&self.config, uplink.port, &host.known);
                    wanted.insert((node, key), rule);
                }
            }
        }
        on.updater.replace(&mut self.inward, wanted);
    }

    /// Updates the default route of the other switches, which leads to the switch with the uplinks.
    /// It follows each step of the update of the routes there, and so loops as little as these.
    pub(crate) fn update_inner(&mut self, on: &mut Parts<'_>) {
        let Some(edge) = self.node(on) else { return };
        let mut wanted = RuleSet::new();
        for node in on.updater.switches.keys().copied().filter(|node| *node != edge) {
            let rule = on.planner.default_routes.rule_to(node, edge, &on.observer.network, on.updater);
            if let Some(rule) = rule {
                wanted.insert((node, rules::outward_key(Prefix::ALL)), rule);
            }
        }
        on.updater.replace(&mut self.inner, wanted);
    }

    /// Returns when [`EdgeService::handle_timeout`] must be called.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.egress.rib.poll_timeout().into_iter().chain(self.poll.next).min()
    }

    pub(crate) fn handle_timeout(&mut self, on: &mut Parts<'_>) {
        self.egress.rib.handle_timeout(on.cx.now);
        self.request_counters(on);
    }
}
