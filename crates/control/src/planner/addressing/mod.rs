//! Addressing modes: what takes the place of default routes, splits and pins.

mod portland;
mod portland_rules;

use std::fmt;

use core::net::Ipv4Addr;
use net::Time;
use openflow::{DatapathId, FlowStats, PacketIn};

use super::Planner;
use crate::addressing::{Addressing, Location};
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::Updater;
use crate::updater::compile::Purpose;
use crate::{Config, SwitchPort};
use portland::PortLand;

/// What an addressing mode does. It writes all rules above those that every switch has.
pub(crate) trait AddressingPlan: fmt::Debug + Send {
    /// Updates the rules after a change of switches, links, hosts or ports.
    fn update(&mut self, cx: &mut Cx<'_>, observer: &mut Observer, updater: &mut Updater);
    /// Handles a packet that a rule of this mode has sent to the controller.
    fn packet(&mut self, cx: &mut Cx<'_>, observer: &Observer, at: DatapathId, packet: &PacketIn);
    /// Returns whether the rules are installed that lead from a host at `at` to another one and back.
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
    /// Handles time that has passed.
    fn advance(&mut self, cx: &mut Cx<'_>);
    /// Returns when [`AddressingPlan::advance`] must be called.
    fn poll_timeout(&self) -> Option<Time>;
    /// Returns whether no change is in progress.
    fn is_settled(&self) -> bool {
        true
    }
    /// Returns the location of a switch, for display.
    fn location_of(&self, datapath: DatapathId) -> Option<Location>;
}

pub(crate) fn plan_of(config: &Config) -> Option<Box<dyn AddressingPlan>> {
    match config.addressing {
        Addressing::Flat => None,
        Addressing::PortLand => Some(Box::<PortLand>::default()),
    }
}

impl Planner {
    /// Updates the rules of the addressing mode. The balancer is not asked: the mode decides.
    pub(crate) fn update_addressing(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &mut Observer,
        updater: &mut Updater,
        has_changed: bool,
    ) {
        cx.changes.forget_triggers();
        let Some(plan) = &mut self.addressing else { return };
        if has_changed {
            plan.update(cx, observer, updater);
            observer.network.vacate();
        }
        plan.advance(cx);
    }

    /// Handles a packet from a rule of the addressing mode. Returns whether it was one.
    pub(crate) fn addressed_packet(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &Updater,
        at: DatapathId,
        packet: &PacketIn,
    ) -> bool {
        let Some(plan) = &mut self.addressing else { return false };
        let is_meant = packet.cookie == updater.compiler.cookie(Purpose::Address);
        if is_meant {
            cx.channels.tally.packet_ins += 1;
            plan.packet(cx, observer, at, packet);
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
