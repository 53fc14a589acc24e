//! Hosts that rules of an earlier life lead to: they are asked whether they are there.
//!
//! A controller that starts anew and remembers nothing would take rules towards hosts it has not seen for leftovers, and
//! remove them under the traffic that uses them. While a switch is held back (nothing is sent to it until the network is
//! known), the addresses and ports of its last-hop rules are therefore asked for. A rule alone is not believed: the host may
//! have moved or gone since. One that answers is learnt like any other, and what is installed for it stays.

use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;
use net::Time;
use openflow::{Action, DatapathId, FlowStats};

use crate::compile::Purpose;
use crate::controller::Controller;
use crate::discovery::is_physical;
use crate::hosts::question_for;
use crate::network::End;

/// Time between two questions for a host, and how many there are: frames may be lost where queues are full.
const AGAIN: Time = Time::from_ms(120);
const QUESTIONS: u8 = 3;

/// Hosts to ask for, by port.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    at: BTreeMap<End, Asking>,
    count: usize,
}

#[derive(Debug)]
struct Asking {
    addresses: BTreeSet<Ipv4Addr>,
    asked: u8,
    next: Time,
}

impl Hints {
    /// When somebody is to be asked again. The first time is when a port turns out to be an edge port.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.at.values().filter(|asking| asking.asked > 0).map(|asking| asking.next).min()
    }
    fn remove(&mut self, end: End) {
        self.count -= self.at.remove(&end).map_or(0, |asking| asking.addresses.len());
    }
}

impl Controller {
    /// Notes the hosts that rules found on a switch lead to.
    pub(crate) fn note_hints(&mut self, datapath: DatapathId, rules: &[FlowStats]) {
        let (hosts_max, per_port) = (self.config.hosts_max, self.config.hosts_per_port);
        let cookie = self.compiler.cookie(Purpose::Base);
        for (address, port) in rules.iter().filter(|rule| rule.cookie == cookie).filter_map(last_hop) {
            if self.hints.count >= hosts_max || self.network.find_host(address).is_some() {
                continue;
            }
            let fresh = || Asking { addresses: BTreeSet::new(), asked: 0, next: Time::ZERO };
            let asking = self.hints.at.entry((datapath, port)).or_insert_with(fresh);
            if asking.addresses.len() < per_port && asking.addresses.insert(address) {
                self.hints.count += 1;
            }
        }
    }

    /// Asks for those whose ports can be believed to be edge ports by now.
    pub(crate) fn ask_hinted(&mut self) {
        let ends: Vec<End> = self.hints.at.keys().copied().collect();
        for end in ends {
            let is_edge = self.discovery.is_edge(self.now, end);
            // A port that went down meanwhile may lead elsewhere when it is back.
            let is_over = |asking: &Asking| {
                asking.asked > 0 && (asking.asked == QUESTIONS && asking.next <= self.now || !is_edge)
            };
            if self.discovery.is_link(end) || !self.ports.is_live(end) || self.hints.at.get(&end).is_some_and(is_over) {
                self.hints.remove(end);
                continue;
            }
            let Some(asking) = self.hints.at.get_mut(&end).filter(|asking| is_edge && asking.next <= self.now) else {
                continue;
            };
            (asking.asked, asking.next) = (asking.asked + 1, self.now.saturating_add(AGAIN));
            let is_unknown = |address: &&Ipv4Addr| self.network.find_host(**address).is_none();
            let unknown: Vec<Ipv4Addr> = asking.addresses.iter().filter(is_unknown).copied().collect();
            unknown.into_iter().for_each(|address| self.packet_out(end, question_for(address)));
        }
    }
}

/// The host a rule hands packets to, and its port, if it is a last hop.
fn last_hop(rule: &FlowStats) -> Option<(Ipv4Addr, openflow::PortNo)> {
    let key =
        crate::install::RuleKey { table: rule.table, priority: std::cmp::Reverse(rule.priority), match_: rule.match_ };
    let address = crate::compile::destination(&key).filter(|address| crate::compile::last_hop_key(*address) == key)?;
    match rule.instructions.apply[..] {
        [Action::Output { port, .. }] if is_physical(port) => Some((address, port)),
        _ => None,
    }
}
