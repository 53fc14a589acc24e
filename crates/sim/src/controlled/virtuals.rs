//! Connections to virtual addresses: their headers change on the way, and the packets of servers name somebody else.

use balance::server::Facts;
use core::net::Ipv4Addr;
use net::{FiveTuple, HostIx, address};
use openflow::frame::{self, flags};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr};

use super::agenda::Item;
use super::flows::plain;
use super::frames::FrameOut;
use super::{Controlled, time};
use crate::packet::{ACK, Packet};

/// What a client opens a connection to.
pub(crate) struct VirtualTuple {
    /// Under which its packets are kept for the controller.
    pub(crate) serial: u32,
    pub(crate) client: HostIx,
    pub(crate) client_port: u16,
    pub(crate) address: Ipv4Addr,
    pub(crate) mac: [u8; 6],
    pub(crate) port: u16,
}

/// How the ends of a connection name each other: what client and server put on the wire, and how it is to arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    sent: [Headers; 2],
    expected: [Headers; 2],
}

fn reversed(headers: &Headers) -> Headers {
    Headers {
        eth_dst: headers.eth_src,
        eth_src: headers.eth_dst,
        ipv4_src: headers.ipv4_dst,
        ipv4_dst: headers.ipv4_src,
        l4_src: headers.l4_dst,
        l4_dst: headers.l4_src,
        ..*headers
    }
}

fn tuple_of(headers: &Headers) -> FiveTuple {
    FiveTuple {
        src: headers.ipv4_src,
        dst: headers.ipv4_dst,
        protocol: headers.ip_proto,
        src_port: headers.l4_src,
        dst_port: headers.l4_dst,
    }
}

impl Controlled<'_> {
    /// A client opens a connection in a slot. What the server will put on the wire is known once a packet has reached it.
    pub(crate) fn request_opened(&mut self, slot: u32, named: &VirtualTuple) {
        let macs = [MacAddr(address::host_mac(named.client)), MacAddr(named.mac)];
        let addresses = [address::host_ipv4(named.client), named.address];
        let forth = Headers::ipv4(macs, addresses, protocol::TCP, [named.client_port, named.port]);
        let state = self.flows.open_virtual(slot, named.serial, tuple_of(&forth));
        state.headers = [forth, reversed(&forth)];
        state.expected = [forth, reversed(&forth)];
        self.agents.name(tuple_of(&forth), slot);
    }

    /// A packet for a virtual address is at a host: whether it is addressed to that one. From then on the host answers.
    pub(crate) fn reach_server(&mut self, packet: &Packet, host: HostIx) -> bool {
        let Some(state) = self.flows.get_mut(packet.flow).filter(|state| state.is_virtual) else { return false };
        let arrived = plain(state.face(0, packet.tag));
        let is_for_it = arrived.eth_dst == MacAddr(address::host_mac(host))
            && arrived.ipv4_dst == address::host_ipv4(host)
            && packet.flags & ACK == 0;
        if is_for_it {
            // From the server's point of view that is who the ends are.
            (state.headers[1], state.expected[0]) = (reversed(&arrived), arrived);
        }
        is_for_it
    }

    /// The server of a connection answers in a slot of its own.
    pub(crate) fn answer_opened(&mut self, slot: u32, serial: u32, ways: &Ways) {
        let state = self.flows.open_virtual(slot, serial, tuple_of(&ways.sent[1]));
        state.headers = [ways.sent[1], ways.sent[0]];
        state.expected = [ways.expected[1], ways.expected[0]];
    }

    /// How the ends of the connection in slot `up` name each other.
    pub(crate) fn ways_of(&self, up: u32) -> Option<Ways> {
        self.flows.get(up).map(|state| Ways { sent: state.headers, expected: state.expected })
    }

    /// Whether a packet that has come to an end of its connection names both ends as that one knows them.
    #[inline]
    pub(crate) fn is_addressed_rightly(&self, packet: &Packet) -> bool {
        let direction = usize::from(packet.is(ACK));
        self.flows.get(packet.flow).is_some_and(|state| {
            !state.is_virtual || plain(state.face(direction, packet.tag)) == state.expected[direction]
        })
    }

    /// An agent on a server tells the controller how it does, over the management network.
    pub(crate) fn member_reports(&mut self, now: u64, host: HostIx, facts: Facts) {
        let at = self.clock(now) + self.config.agent_latency.as_ps();
        self.agenda.put(at, Item::Member(address::host_ipv4(host), facts));
    }

    /// Such a report reaches the controller, unless that is down.
    pub(super) fn deliver_member(&mut self, clock: u64, address: Ipv4Addr, facts: Facts) {
        if self.is_plane_down {
            return;
        }
        self.agents.note_report();
        self.plane.member_reported(time(clock), address, facts);
        self.drain_plane(clock);
    }

    /// A host sends a frame.
    pub(crate) fn send_from_host(&mut self, uplink: u32, bytes: Vec<u8>) {
        self.outgoing.push(FrameOut { link: uplink, bytes, hops: 0 });
    }

    /// A frame at a host may break a connection of its: the slot.
    pub(super) fn note_reset(&mut self, bytes: &[u8]) {
        let Ok(Some(segment)) = frame::segment(bytes) else { return };
        let Some(headers) = frame::parse(bytes).ok().filter(|_| segment.has(flags::RST)) else { return };
        self.resets.extend(self.agents.slot_of(&tuple_of(&headers).reverse()));
    }

    /// A connection that was broken by a reset.
    pub(crate) fn take_reset(&mut self) -> Option<u32> {
        self.resets.pop()
    }
}
