//! First packets that came before the network was known: nobody can serve yet, and that is no answer.
//!
//! When a controller has just been started, switches connect one after another, each by its own clock (Open vSwitch tries again after up
//! to 8 s). A client's switch may be there before that of any member; to refuse its connections then would make a restart cost
//! requests, where waiting costs milliseconds. Likewise where a service has just been made and its members are still asked for.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::{FiveTuple, Time};

use super::pools::{MemberFacts, PoolNow};
use super::spec::{PoolId, Refusal};
use super::view::MemberState;
use crate::controller::Controller;
use crate::network::End;

/// Members that were never able to serve are waited for this long from when they were wanted first: a little more than
/// switches let pass between two attempts to connect.
const MEMBER_GRACE: Time = Time::from_s(10);
/// The network around a member may still be found for this long after the member itself.
const AROUND_GRACE: Time = Time::from_s(2);
/// Packets that wait at once.
const WAITING_MAX: usize = 4_096;

/// Packets that wait for a member, by their connection.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<FiveTuple, Packet>);

#[derive(Clone, Debug)]
struct Packet {
    at: End,
    data: Vec<u8>,
    refusal: Refusal,
    until: Time,
}

impl Waiting {
    /// Whether a first packet of a connection waits.
    pub(super) fn has(&self, tuple: &FiveTuple) -> bool {
        self.0.contains_key(tuple)
    }
    /// When the first of them is not to wait any longer.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.0.values().map(|packet| packet.until).min()
    }
}

impl MemberFacts {
    /// Until when this member, which cannot serve now as it seems, may turn out to be able to.
    pub(super) fn awaited_until(&self) -> Option<Time> {
        if self.is_leaving || !self.spec.is_enabled || self.spec.weight == 0 {
            return None;
        }
        let from_the_first = self.since?.saturating_add(MEMBER_GRACE);
        match (self.up_since, self.state) {
            (None, MemberState::Unknown | MemberState::Unplugged) => Some(from_the_first),
            (Some(up), MemberState::Up) => Some(from_the_first.min(up.saturating_add(AROUND_GRACE))),
            // It was there, or answers to checks: what is known of it is true.
            _ => None,
        }
    }
}

impl PoolNow {
    /// For a client; it is never served by itself.
    fn awaited_until(&self, client: Ipv4Addr) -> Option<Time> {
        let others = self.members.values().filter(|facts| facts.spec.address != client);
        others.filter_map(MemberFacts::awaited_until).max()
    }
}

impl Controller {
    /// Nobody was found for a first packet: it waits if that may change soon; whether it does.
    pub(super) fn waits(&mut self, at: End, tuple: FiveTuple, pool: PoolId, data: &[u8]) -> bool {
        let Some(pool) = self.vips.pools.get(&pool) else { return false };
        let Some(until) = pool.awaited_until(tuple.src).filter(|until| *until > self.now) else { return false };
        let refusal = pool.spec.refusal;
        let waiting = &mut self.vips.waiting.0;
        if waiting.len() >= WAITING_MAX && !waiting.contains_key(&tuple) {
            return false;
        }
        waiting.insert(tuple, Packet { at, data: data.to_vec(), refusal, until });
        true
    }

    /// Members or what leads to them may have changed: those who wait are looked at again.
    pub(super) fn look_at_waiting(&mut self) {
        for packet in std::mem::take(&mut self.vips.waiting.0).into_values() {
            if let Ok(headers) = openflow::frame::parse(&packet.data) {
                self.virtual_packet(packet.at, &headers, &packet.data);
            }
        }
    }

    /// Those who waited in vain are told.
    pub(super) fn refuse_late(&mut self) {
        if self.vips.waiting.next_due().is_none_or(|due| due > self.now) {
            return;
        }
        let now = self.now;
        let late = self.vips.waiting.0.extract_if(.., |_, packet| packet.until <= now);
        let late: Vec<Packet> = late.map(|(_, packet)| packet).collect();
        for packet in late {
            self.refuse(packet.at, &packet.data, packet.refusal);
        }
    }
}
