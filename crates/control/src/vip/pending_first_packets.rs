//! First packets that wait because the network is not known yet: no member is up, which must not be
//! reported to clients.
//!
//! After a controller start, switches connect one after another, each by its own clock (Open
//! vSwitch retries after up to 8 s). A client's switch may connect before that of any member.
//! Rejecting its connections then would make a restart cost requests, while waiting costs
//! milliseconds. The same holds when a service is new and its members are still being probed.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::{FiveTuple, Time};

use super::pool_state::{MemberEntry, PoolState};
use super::spec::{PoolId, Refusal};
use super::status::MemberState;
use super::{Parts, VipService};
use crate::SwitchPort;

/// Time from its definition within which a member that was never up may come up: a little more than
/// switches wait between two connection attempts.
const MEMBER_GRACE: Time = Time::from_s(10);
/// Time after a member came up within which the network around it may still be discovered.
const AROUND_GRACE: Time = Time::from_s(2);
const WAITING_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct PendingFirstPackets(BTreeMap<FiveTuple, Packet>);

#[derive(Clone, Debug)]
struct Packet {
    at: SwitchPort,
    data: Vec<u8>,
    refusal: Refusal,
    until: Time,
}

impl PendingFirstPackets {
    pub(super) fn has(&self, tuple: &FiveTuple) -> bool {
        self.0.contains_key(tuple)
    }
    pub(super) fn next_due(&self) -> Option<Time> {
        self.0.values().map(|packet| packet.until).min()
    }
}

impl MemberEntry {
    /// Returns the time until which this member, which seems down, may still come up.
    pub(super) fn awaited_until(&self) -> Option<Time> {
        if self.is_removed || !self.spec.is_enabled || self.spec.weight == 0 {
            return None;
        }
        let from_the_first = self.since?.saturating_add(MEMBER_GRACE);
        match (self.up_since, self.state) {
            (None, MemberState::Unknown | MemberState::Unplugged) => Some(from_the_first),
            (Some(up), MemberState::Up) => Some(from_the_first.min(up.saturating_add(AROUND_GRACE))),
            // It was up, or replies to checks: its state is known.
            _ => None,
        }
    }
}

impl PoolState {
    /// Returns that time for a client, which is never served by itself.
    fn awaited_until(&self, client: Ipv4Addr) -> Option<Time> {
        let others = self.members.values().filter(|facts| facts.spec.address != client);
        others.filter_map(MemberEntry::awaited_until).max()
    }
}

impl VipService {
    /// Queues a first packet without a member if one may come up soon. Returns whether it is
    /// queued.
    pub(super) fn waits(
        &mut self,
        on: &mut Parts<'_>,
        at: SwitchPort,
        tuple: FiveTuple,
        pool: PoolId,
        data: &[u8],
    ) -> bool {
        let Some(pool) = self.pools.get(&pool) else { return false };
        let Some(until) = pool.awaited_until(tuple.src).filter(|until| *until > on.cx.now) else { return false };
        let refusal = pool.spec.refusal;
        let waiting = &mut self.waiting.0;
        if waiting.len() >= WAITING_MAX && !waiting.contains_key(&tuple) {
            return false;
        }
        waiting.insert(tuple, Packet { at, data: data.to_vec(), refusal, until });
        true
    }

    /// Retries waiting packets after a change of members or of the network.
    pub(super) fn retry_pending(&mut self, on: &mut Parts<'_>) {
        for packet in std::mem::take(&mut self.waiting.0).into_values() {
            if let Ok(headers) = openflow::frame::parse(&packet.data) {
                self.virtual_packet(on, packet.at, &headers, &packet.data);
            }
        }
    }

    /// Rejects the packets whose wait has timed out.
    pub(super) fn reject_expired(&mut self, on: &mut Parts<'_>) {
        if self.waiting.next_due().is_none_or(|due| due > on.cx.now) {
            return;
        }
        let now = on.cx.now;
        let late = self.waiting.0.extract_if(.., |_, packet| packet.until <= now);
        let late: Vec<Packet> = late.map(|(_, packet)| packet).collect();
        for packet in late {
            self.refuse(on, packet.at, &packet.data, packet.refusal);
        }
    }
}
