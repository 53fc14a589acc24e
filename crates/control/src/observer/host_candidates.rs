//! Host candidates: hosts seen at a port and not accepted there yet.
//!
//! A candidate waits for up to two reasons:
//! - its port may still turn out to lead to a switch. A link that was dead when its ports were
//!   probed may show distant hosts as soon as it works again, so ports are probed once more;
//! - its address belongs to a host that may still be at its port. That host is sent ARP requests.
//!   If it replies, the candidate is refuted; if it does not, it has moved.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use core::net::Ipv4Addr;
use net::Time;

use super::arp::ASKED_MAX;
use crate::limits::Expiring;
use crate::{KnownHost, SwitchPort};

/// Number of ARP requests to the host that has the address of a candidate, and the time between
/// them: requests and replies may be lost in full queues.
const PROBES: u8 = 3;
const AGAIN: Time = Time::from_ms(250);
/// Time for which a refuted candidate is ignored. A reply that was in flight while a host moved
/// refutes it wrongly; the host is accepted when it sends again after this time.
const REFUTED_FOR: Time = Time::from_s(2);

type Key = (Ipv4Addr, SwitchPort);

#[derive(Clone, Copy, Debug)]
struct Candidate {
    known: KnownHost,
    /// When its port has been probed again.
    port_checked_at: Time,
    /// The host that has its address, and the number of ARP requests it has been sent.
    owner: Option<(KnownHost, u8)>,
    next: Time,
}

/// The next step of a candidate that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Send an ARP request to this host.
    Probe(KnownHost),
    /// Accept the candidate. `left` is the host that did not reply.
    Accept { known: KnownHost, left: Option<KnownHost> },
}

#[derive(Debug, Default)]
pub(super) struct HostCandidates {
    hosts: BTreeMap<Key, Candidate>,
    due: BTreeSet<(Time, Key)>,
    at: BTreeMap<SwitchPort, usize>,
    refuted: Expiring<Key, ASKED_MAX>,
}

impl HostCandidates {
    /// Adds a candidate. Returns whether it is new, so that its port must be probed. The limit is
    /// `per_port` at one port: forged addresses must not displace the hosts of other ports.
    pub(super) fn add(
        &mut self,
        now: Time,
        known: KnownHost,
        port_checked_at: Time,
        owner: Option<KnownHost>,
        per_port: usize,
    ) -> bool {
        let key = (known.ipv4, known.end());
        let has_room = self.at.get(&known.end()).is_none_or(|count| *count < per_port);
        if let Some(candidate) = self.hosts.get_mut(&key) {
            candidate.known = known;
            return false;
        }
        if !has_room || self.hosts.len() >= ASKED_MAX {
            return false;
        }
        let next = if owner.is_some() { now } else { port_checked_at };
        self.hosts.insert(key, Candidate { known, port_checked_at, owner: owner.map(|host| (host, 0)), next });
        self.due.insert((next, key));
        *self.at.entry(known.end()).or_insert(0) += 1;
        true
    }

    /// Returns whether a candidate was refuted recently.
    pub(super) fn is_refuted(&mut self, now: Time, known: &KnownHost) -> bool {
        self.refuted.has(now, &(known.ipv4, known.end()))
    }

    /// Handles the reply of a host. Removes and returns the candidates that claim its address.
    pub(super) fn refute(&mut self, now: Time, owner: &KnownHost) -> Vec<KnownHost> {
        let keys = self.keys_where(owner.ipv4, |before| before == *owner);
        let claims: Vec<KnownHost> = keys.iter().filter_map(|key| self.remove(key)).map(|one| one.known).collect();
        for claim in &claims {
            self.refuted.add((claim.ipv4, claim.end()), now.saturating_add(REFUTED_FOR));
        }
        claims
    }

    /// Handles the departure of a host whose port went down: nothing can refute its candidates.
    pub(super) fn owner_gone(&mut self, owner: &KnownHost) {
        for key in self.keys_where(owner.ipv4, |before| before == *owner) {
            let Some(candidate) = self.hosts.get_mut(&key) else { continue };
            self.due.remove(&(candidate.next, key));
            candidate.owner = None;
            candidate.next = candidate.port_checked_at;
            self.due.insert((candidate.next, key));
        }
    }

    fn keys_where(&self, address: Ipv4Addr, is_meant: impl Fn(KnownHost) -> bool) -> Vec<Key> {
        let all = (address, LOWEST)..=(address, HIGHEST);
        let is_meant = |candidate: &Candidate| candidate.owner.is_some_and(|(owner, _)| is_meant(owner));
        self.hosts.range(all).filter(|(_, candidate)| is_meant(candidate)).map(|(key, _)| *key).collect()
    }

    fn remove(&mut self, key: &Key) -> Option<Candidate> {
        let candidate = self.hosts.remove(key)?;
        self.due.remove(&(candidate.next, *key));
        if let Entry::Occupied(mut count) = self.at.entry(key.1) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(candidate)
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the next steps that are due, and removes the candidates to be accepted. The caller
    /// checks that their ports still have no switch behind them.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Due> {
        let due: Vec<Key> = self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, key)| *key).collect();
        due.iter().filter_map(|key| self.advance(now, key)).collect()
    }

    fn advance(&mut self, now: Time, key: &Key) -> Option<Due> {
        let mut candidate = self.remove(key)?;
        match &mut candidate.owner {
            Some((owner, sent)) if *sent < PROBES => {
                (*sent, candidate.next) = (*sent + 1, now.saturating_add(AGAIN));
                if *sent == PROBES {
                    candidate.next = candidate.next.max(candidate.port_checked_at);
                }
                let owner = *owner;
                self.hosts.insert(*key, candidate);
                self.due.insert((candidate.next, *key));
                *self.at.entry(key.1).or_insert(0) += 1;
                Some(Due::Probe(owner))
            }
            owner => Some(Due::Accept { known: candidate.known, left: owner.map(|(owner, _)| owner) }),
        }
    }
}

const LOWEST: SwitchPort = (openflow::DatapathId(0), openflow::PortNo(0));
const HIGHEST: SwitchPort = (openflow::DatapathId(u64::MAX), openflow::PortNo(u32::MAX));
