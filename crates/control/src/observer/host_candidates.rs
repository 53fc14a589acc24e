//! Host candidates: hosts seen by an IPv4 packet and not accepted yet.

use std::collections::btree_map::{BTreeMap, Entry};

use core::net::Ipv4Addr;
use net::Time;

use super::arp::ASKED_MAX;
use crate::{KnownHost, SwitchPort};

/// Hosts seen at ports without a known host. A link that was dead when its ports were probed may
/// show distant hosts as soon as it works again. They are accepted when another probe of such ports
/// has not returned either.
#[derive(Debug, Default)]
pub(crate) struct HostCandidates {
    hosts: BTreeMap<Ipv4Addr, (KnownHost, Time)>,
    at: BTreeMap<SwitchPort, usize>,
}

impl HostCandidates {
    /// Adds a candidate. Returns whether its ports must be probed, so that it can be accepted at
    /// `due`. The limit is `per_port` at one port: forged addresses must not displace the hosts of
    /// other ports.
    pub(crate) fn add(&mut self, known: KnownHost, due: Time, per_port: usize) -> bool {
        let end = known.end();
        let before = self.hosts.get(&known.ipv4).map(|(before, _)| *before);
        let has_room = || self.at.get(&end).is_none_or(|count| *count < per_port);
        let is_new = before.map_or(self.hosts.len() < ASKED_MAX, |before| before != known) && has_room();
        if is_new {
            self.forget(&known.ipv4);
            self.hosts.insert(known.ipv4, (known, due));
            *self.at.entry(end).or_insert(0) += 1;
        }
        is_new
    }
    fn forget(&mut self, address: &Ipv4Addr) -> Option<KnownHost> {
        let (known, _) = self.hosts.remove(address)?;
        if let Entry::Occupied(mut count) = self.at.entry(known.end()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(known)
    }
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.hosts.values().map(|(_, due)| *due).min()
    }
    /// Removes and returns the candidates that are due. The caller checks that their ports still
    /// have no switch behind them.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<KnownHost> {
        let due = self.hosts.iter().filter(|(_, (_, due))| *due <= now).map(|(address, _)| *address);
        let due: Vec<Ipv4Addr> = due.collect();
        due.iter().filter_map(|address| self.forget(address)).collect()
    }
}
