//! Oracles of disruptions: rules are restored in time, and no switch that answers is disconnected.
//! And after everything has ended, the controller keeps no more than its bounds allow.

use std::ops::RangeInclusive;

use control::CloseReason;
use net::Time;
use openflow::{ConnectionId, FlowStats, Masked, TableId};

use crate::disruptions::tampering::Tampered;
use crate::generate::ipv4_of;
use crate::plan::End;
use crate::report::Oracle;
use crate::simulation::{OWNER, Simulation, datapath_of};

/// Priority of rules to hosts at the last switch.
const LAST_HOP: u16 = 60_000;
/// Priorities of rules to distant hosts.
pub(crate) const DEFAULT_ROUTES: RangeInclusive<u16> = 1_000..=1_032;

/// Maximum number of desired rules of a switch without hosts, ports and services.
const RULES: usize = 40;

fn is_last_hop(entry: &FlowStats, host: usize) -> bool {
    let to = Masked::<core::net::Ipv4Addr>::exact(ipv4_of(host));
    (entry.table, entry.priority, entry.match_.ipv4_dst) == (TableId(1), LAST_HOP, Some(to))
}

impl Simulation {
    /// Checks switches whose rules another program has changed, as soon as audits must have
    /// repaired them. Switches with other disturbances are not checked.
    pub(crate) fn check_restored(&mut self) {
        let now = self.now;
        let due: Vec<Tampered> = self.disruptions.tampered.extract_if(.., |one| one.deadline < now).collect();
        for Tampered { switch, at, deadline } in due {
            let state = &self.switches[switch];
            let is_undisturbed = state.disturbed <= deadline
                && state.is_reached()
                && state.channel.good_since < at
                && self.disruptions.pause.ended < at
                && !self.disruptions.pause.is_paused();
            let Some(controller) = self.controller.as_ref().filter(|_| is_undisturbed) else { continue };
            if !controller.is_settled() {
                continue; // A migration or an improvement is in progress.
            }
            self.report.restored += 1;
            if let Some(words) = self.wrong_rules(switch) {
                self.fail(Oracle::Restored, || format!("{words}; another program changed it at {at}"));
            }
        }
    }

    /// Checks that the controller closes no connection of a switch that answers.
    pub(crate) fn check_closed(&mut self, switch: usize, connection: ConnectionId) {
        let Some((closed, reason)) = self.disruptions.closed else { return };
        let is_judged = closed == connection
            && matches!(reason, CloseReason::Silent | CloseReason::Replaced | CloseReason::DatapathInUse { .. })
            && self.switches[switch].channel.connection == Some(connection);
        let control = &self.plan.control;
        let asked = control.echo_timeout + control.echo_interval * 2 + Time::from_s(1);
        if is_judged && self.answers_since(switch, self.now.saturating_sub(asked)) {
            self.fail(Oracle::Connection, || format!("s{switch} answered and is disconnected: {reason:?}"));
        }
    }

    /// Returns a description of what the controller keeps although everything has ended.
    pub(crate) fn wrong_growth(&self) -> Option<String> {
        let inspection = self.controller.as_ref()?.inspect();
        let (hosts, switches) = (self.hosts.len(), self.switches.len());
        let ports: usize = self.plan.wiring.ports.iter().map(|ports| *ports as usize).sum();
        let slots = self.services.wanted.services.iter().filter_map(control::vip::Service::buckets);
        let slots: usize = slots.map(|buckets| 8 * buckets).sum();
        let services = self.services.wanted.services.len();
        let rules_max = RULES + 6 * hosts + 8 * ports + services * (8 + 2 * hosts) + slots;
        let rules = inspection.switches().map(|at| at.rules_wanted).max().unwrap_or_default();
        let groups = inspection.switches().map(|at| at.groups_wanted).max().unwrap_or_default();
        let kept = [
            ("sessions", inspection.session_count(), switches),
            ("switches", inspection.switches().count(), switches),
            ("hosts", inspection.hosts().count(), hosts),
            ("flows", inspection.flows().count(), self.flows.len()),
            ("desired rules of a switch", rules, rules_max),
            ("desired groups of a switch", groups, rules_max),
        ];
        let (what, count, most) = kept.into_iter().find(|(_, count, most)| count > most)?;
        Some(format!("the controller keeps {count} {what}, and should keep at most {most}"))
    }

    /// Returns a description of a host whose last-hop rule did not fit, while its switch has rules
    /// to distant hosts.
    pub(crate) fn wrong_evictions(&self, host: usize) -> Option<String> {
        let End::Switch(switch, _) = self.cables[host].ends[1] else { return None };
        let state = &self.switches[switch];
        let is_known = self.controller.as_ref()?.inspect().find_host(ipv4_of(host))?.datapath == datapath_of(switch);
        if !is_known || state.full_at.is_none() || !state.is_reached() || !self.cables[host].is_usable() {
            return None;
        }
        let entries = state.switch.entries();
        if entries.iter().any(|entry| is_last_hop(entry, host)) {
            return None;
        }
        let is_distant = |entry: &&FlowStats| {
            let is_own = entry.cookie >> 48 == u64::from(OWNER);
            is_own && entry.table == TableId(1) && DEFAULT_ROUTES.contains(&entry.priority)
        };
        let distant = entries.iter().find(is_distant)?;
        Some(format!("s{switch} has no rule to its host h{host}, but {}", control::format::entry(distant)))
    }
}
