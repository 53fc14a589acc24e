//! Connections to virtual addresses. Switches rewrite their headers, and servers see the client as
//! the other end.

use balance::server::ServerStats;
use core::net::Ipv4Addr;
use net::{FiveTuple, HostIx, address};
use openflow::frame::{self, flags};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr};

use super::event_queue::ControlEvent;
use super::flows::plain;
use super::frames::FrameOut;
use super::{Controlled, time};
use crate::packet::{ACK, Packet};

/// Connection that a client opens to a virtual address.
pub(crate) struct VipConnection {
    /// Number under which its packets are kept for the controller.
    pub(crate) serial: u32,
    pub(crate) client: HostIx,
    pub(crate) client_port: u16,
    pub(crate) address: Ipv4Addr,
    pub(crate) mac: [u8; 6],
    pub(crate) port: u16,
}

/// Headers of one direction: those that client and server send, and those with which packets must
/// arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectionHeaders {
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
    /// Opens a connection of a client in a slot. The headers of the server are known once a packet
    /// has reached it.
    pub(crate) fn request_opened(&mut self, slot: u32, named: &VipConnection) {
        let macs = [MacAddr(address::host_mac(named.client)), MacAddr(named.mac)];
        let addresses = [address::host_ipv4(named.client), named.address];
        let forth = Headers::ipv4(macs, addresses, protocol::TCP, [named.client_port, named.port]);
        let state = self.flows.open_virtual(slot, named.serial, tuple_of(&forth));
        state.headers = [forth, reversed(&forth)];
        state.expected = [forth, reversed(&forth)];
        self.agents.name(tuple_of(&forth), slot);
    }

    /// Handles a packet for a virtual address at a host. Returns whether it is addressed to that
    /// host, which then becomes the server.
    pub(crate) fn reach_server(&mut self, packet: &Packet, host: HostIx) -> bool {
        let Some(state) = self.flows.get_mut(packet.flow).filter(|state| state.is_virtual) else { return false };
        let arrived = plain(state.headers_for(0, packet.tag));
        let is_for_it = arrived.eth_dst == MacAddr(address::host_mac(host))
            && arrived.ipv4_dst == address::host_ipv4(host)
            && packet.flags & ACK == 0;
        if is_for_it {
            // From the server's point of view these are the ends of the connection.
            (state.headers[1], state.expected[0]) = (reversed(&arrived), arrived);
        }
        is_for_it
    }

    /// Opens the slot for the response of a server.
    pub(crate) fn answer_opened(&mut self, slot: u32, serial: u32, headers: &DirectionHeaders) {
        let state = self.flows.open_virtual(slot, serial, tuple_of(&headers.sent[1]));
        state.headers = [headers.sent[1], headers.sent[0]];
        state.expected = [headers.expected[1], headers.expected[0]];
    }

    /// Returns the headers of the connection in slot `up`.
    pub(crate) fn headers_of(&self, up: u32) -> Option<DirectionHeaders> {
        self.flows.get(up).map(|state| DirectionHeaders { sent: state.headers, expected: state.expected })
    }

    /// Returns whether a packet at an end of its connection has the addresses which that end
    /// expects.
    #[inline]
    pub(crate) fn has_expected_addresses(&self, packet: &Packet) -> bool {
        let direction = usize::from(packet.is(ACK));
        self.flows.get(packet.flow).is_some_and(|state| {
            !state.is_virtual || plain(state.headers_for(direction, packet.tag)) == state.expected[direction]
        })
    }

    /// Sends the statistics of a server to the controller, over the management network.
    pub(crate) fn member_reports(&mut self, now: u64, host: HostIx, stats: ServerStats) {
        let at = self.clock(now) + self.config.agent_latency.as_ps();
        self.events.put(at, ControlEvent::Member(address::host_ipv4(host), stats));
    }

    /// Delivers such statistics to the controller, unless the controller is down.
    pub(super) fn deliver_member(&mut self, clock: u64, address: Ipv4Addr, stats: ServerStats) {
        if self.is_plane_down {
            return;
        }
        self.agents.note_report();
        self.plane.member_reported(time(clock), address, stats);
        self.drain_plane(clock);
    }

    /// Sends a frame from a host.
    pub(crate) fn send_from_host(&mut self, uplink: u32, bytes: Vec<u8>) {
        self.outgoing.push(FrameOut { link: uplink, bytes, hops: 0 });
    }

    /// Records the slot of a connection that a frame at a host resets.
    pub(super) fn note_reset(&mut self, bytes: &[u8]) {
        let Ok(Some(segment)) = frame::segment(bytes) else { return };
        let Some(headers) = frame::parse(bytes).ok().filter(|_| segment.has(flags::RST)) else { return };
        self.resets.extend(self.agents.slot_of(&tuple_of(&headers).reverse()));
    }

    /// Takes a connection that was closed by a reset.
    pub(crate) fn take_reset(&mut self) -> Option<u32> {
        self.resets.pop()
    }
}
