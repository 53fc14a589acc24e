//! Addressing modes: what takes the place of default routes, splits and pins.

mod label_rules;
mod labels;
mod observed;
mod portland;
mod portland_rules;
mod seattle;
mod stale_senders;
mod trill;
mod vl2;
mod vl2_rules;
mod wanted;

use std::fmt;

use balance::central::Placements;
use core::net::Ipv4Addr;
use net::{Addressing, Time};
use openflow::{DatapathId, FlowRemoved, FlowStats, PacketIn};

use super::Planner;
use crate::addressing::Location;
use crate::observer::arp::PendingArpReply;
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::Updater;
use crate::updater::compile::Purpose;
use crate::{Config, SwitchPort};
use portland::PortLand;
use seattle::Seattle;
use trill::Trill;
use vl2::Vl2;

/// The logic of an addressing mode. It writes all rules in addition to those that every switch has.
pub(crate) trait AddressingPlan: fmt::Debug + Send {
    /// Returns whether the mode uses the paths of the balancer.
    fn uses_balancer(&self) -> bool {
        false
    }
    /// Updates the rules after a change of switches, links, hosts or ports.
    fn update(&mut self, cx: &mut Cx<'_>, observer: &mut Observer, updater: &mut Updater, placements: &Placements);
    /// Handles a packet that a rule of this mode has sent to the controller.
    fn packet(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        at: DatapathId,
        packet: &PacketIn,
    );
    /// Handles a request for the address of a host, before it is answered. Returns whether it may be.
    fn lookup(&mut self, _: &mut Cx<'_>, _: &Observer, _: &mut Updater, _: &PendingArpReply) -> bool {
        true
    }
    /// Sends an ARP request to all edge ports.
    fn relay_arp(&mut self, cx: &mut Cx<'_>, observer: &Observer, _: &mut Updater, request: (SwitchPort, Vec<u8>)) {
        observer.relay_arp(cx, request.0, &request.1);
    }
    /// Handles the removal of a rule by its switch.
    fn removed(&mut self, _: &Observer, _: &mut Updater, _: DatapathId, _: &FlowRemoved) {}
    /// Returns whether the rules are installed that lead from a host at `at` to another one and back:
    /// rules of the switches of both hosts, and of no other switch.
    fn are_connected(
        &self,
        network: &Network,
        updater: &Updater,
        at: SwitchPort,
        asker: Ipv4Addr,
        target: Ipv4Addr,
    ) -> bool;
    /// Recovers the state of a previous controller instance from the rules of a switch.
    fn recover(&mut self, datapath: DatapathId, rules: &[&FlowStats]);
    /// Handles time that has passed, and rules that switches have confirmed.
    fn advance(&mut self, _: &mut Cx<'_>, _: &Observer, _: &Updater) {}
    /// Returns when [`AddressingPlan::advance`] must be called.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// Returns the location of a switch, for display.
    fn location_of(&self, _: DatapathId) -> Option<Location> {
        None
    }
}

pub(crate) fn plan_of(config: &Config) -> Option<Box<dyn AddressingPlan>> {
    match config.addressing {
        Addressing::Flat => None,
        Addressing::PortLand => Some(Box::<PortLand>::default()),
        Addressing::Seattle => Some(Box::<Seattle>::default()),
        Addressing::Vl2 => Some(Box::<Vl2>::default()),
        Addressing::Trill => Some(Box::<Trill>::default()),
    }
}

impl Planner {
    /// Updates the rules of the addressing mode.
    pub(crate) fn update_addressing(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &mut Observer,
        updater: &mut Updater,
        has_changed: bool,
    ) {
        cx.changes.forget_triggers();
        let Some(mut plan) = self.addressing.take() else { return };
        if has_changed {
            if plan.uses_balancer() {
                self.update_network(cx, observer, updater);
                self.placements.take_changes();
            }
            plan.update(cx, observer, updater, &self.placements);
            observer.network.vacate();
        }
        plan.advance(cx, observer, updater);
        self.addressing = Some(plan);
    }

    /// Handles a request for the address of a host, before it is answered. Returns whether it may be.
    pub(crate) fn lookup_address(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        reply: &PendingArpReply,
    ) -> bool {
        self.addressing.as_mut().is_none_or(|plan| plan.lookup(cx, observer, updater, reply))
    }

    /// Sends an ARP request to all edge ports, as the addressing mode does it.
    pub(crate) fn relay_arp(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        request: (SwitchPort, Vec<u8>),
    ) {
        match &mut self.addressing {
            Some(plan) => plan.relay_arp(cx, observer, updater, request),
            None => observer.relay_arp(cx, request.0, &request.1),
        }
    }

    /// Handles the removal of a rule by its switch.
    pub(crate) fn addressing_removed(
        &mut self,
        observer: &Observer,
        updater: &mut Updater,
        datapath: DatapathId,
        removed: &FlowRemoved,
    ) {
        if let Some(plan) = &mut self.addressing {
            plan.removed(observer, updater, datapath, removed);
        }
    }

    /// Handles a packet from a rule of the addressing mode. Returns whether it was one.
    pub(crate) fn addressed_packet(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        at: DatapathId,
        packet: &PacketIn,
    ) -> bool {
        let Some(plan) = &mut self.addressing else { return false };
        let is_meant = packet.cookie == updater.compiler.cookie(Purpose::Address);
        if is_meant {
            cx.channels.tally.packet_ins += 1;
            plan.packet(cx, observer, updater, at, packet);
        }
        is_meant
    }

    /// Recovers the state of a previous controller instance from the table read-back of a switch.
    pub(crate) fn recover_addressing(&mut self, updater: &Updater, datapath: DatapathId, rules: &[FlowStats]) {
        let Some(plan) = &mut self.addressing else { return };
        let cookie = updater.compiler.cookie(Purpose::Address);
        let own: Vec<&FlowStats> = rules.iter().filter(|rule| rule.cookie == cookie).collect();
        plan.recover(datapath, &own);
    }
}
