//! Connections to virtual addresses: switches rewrite headers, so servers see the client as peer.

use balance::server::ServerStats;
use net::{FiveTuple, HostIx, address};
use openflow::frame::{self, flags};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr};

use super::Controlled;
use super::event_queue::ControlEvent;
use super::flows::{outer_bytes, plain};
use super::frames::FrameOut;
use crate::packet::{ACK, Packet};
use crate::services::VirtualService;

/// Headers of a flow's packets and of their acknowledgements: as their sender sends them and, if
/// switches rewrite headers, as they must arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirectionHeaders {
    pub(super) sent: [Headers; 2],
    pub(super) expected: [Headers; 2],
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
    /// Opens a connection in a slot: its packets are kept for the controller under `serial`, and the
    /// server's headers are known when a packet reaches it.
    pub(crate) fn request_opened(&mut self, slot: u32, serial: u32, client: (HostIx, u16), service: &VirtualService) {
        let (client, client_port) = client;
        let macs = [MacAddr(address::host_mac(client)), MacAddr(service.mac)];
        let addresses = [address::host_ipv4(client), service.address];
        let forth = Headers::ipv4(macs, addresses, protocol::TCP, [client_port, service.port]);
        self.settle_flow(slot);
        let state = self.flows.open_virtual(slot, serial, tuple_of(&forth));
        let both = [forth, reversed(&forth)];
        state.headers = DirectionHeaders { sent: both, expected: both };
        self.agents.flows.insert(tuple_of(&forth), slot);
    }

    /// Opens a connection between two hosts in a slot.
    pub(crate) fn plain_opened(&mut self, slot: u32, serial: u32, from: (HostIx, u16), to: (HostIx, u16)) {
        let macs = [from.0, to.0].map(|host| MacAddr(address::host_mac(host)));
        let addresses = [from.0, to.0].map(address::host_ipv4);
        let forth = Headers::ipv4(macs, addresses, protocol::TCP, [from.1, to.1]);
        self.settle_flow(slot);
        let state = self.flows.open_virtual(slot, serial, tuple_of(&forth));
        let both = [forth, reversed(&forth)];
        state.headers = DirectionHeaders { sent: both, expected: both };
    }

    /// Returns whether a packet is for this host, which then serves the virtual address. Removes its outer
    /// header in this case.
    pub(crate) fn reach_server(&mut self, packet: &mut Packet, host: HostIx) -> bool {
        let Some(state) = self.flows.get_mut(packet.flow).filter(|state| state.is_virtual) else { return false };
        let arrived = plain(state.headers_for(0, packet.tag));
        let is_for_it = arrived.eth_dst == MacAddr(address::host_mac(host))
            && arrived.ipv4_dst == address::host_ipv4(host)
            && packet.flags & ACK == 0;
        if is_for_it {
            // From the server's point of view these are the ends of the connection.
            (state.headers.sent[1], state.headers.expected[0]) = (reversed(&arrived), arrived);
            packet.bytes -= outer_bytes(&arrived);
            if outer_bytes(&arrived) > 0 {
                let eth_src = MacAddr(address::host_mac(host));
                let answer = Headers { eth_src, ..reversed(&state.headers.sent[0]) };
                (state.headers.sent[1], state.headers.expected[1]) = (answer, answer);
            }
        }
        is_for_it
    }

    pub(crate) fn answer_opened(&mut self, slot: u32, serial: u32, mut headers: DirectionHeaders) {
        headers.sent.reverse();
        headers.expected.reverse();
        self.settle_flow(slot);
        self.flows.open_virtual(slot, serial, tuple_of(&headers.sent[0])).headers = headers;
    }

    pub(crate) fn headers_of(&self, up: u32) -> Option<DirectionHeaders> {
        self.flows.get(up).map(|state| state.headers)
    }

    /// Returns whether a packet has the addresses that its receiver expects. Removes its outer header in this
    /// case.
    #[inline]
    pub(crate) fn accept(&self, packet: &mut Packet) -> bool {
        let direction = usize::from(packet.is(ACK));
        self.flows.get(packet.flow).is_some_and(|state| {
            let headers = state.headers_for(direction, packet.tag);
            let is_right = match (state.is_virtual, state.is_rewritten) {
                (true, _) => plain(headers) == state.headers.expected[direction],
                (false, true) => headers.eth_dst == MacAddr(address::host_mac(HostIx(packet.dst))),
                (false, false) => true,
            };
            packet.bytes -= if is_right { outer_bytes(headers) } else { 0 };
            is_right
        })
    }

    pub(crate) fn member_reports(&mut self, now: u64, host: HostIx, stats: ServerStats) {
        let at = self.clock(now) + self.config.agent_latency.as_ps();
        self.events.put(at, ControlEvent::Member(address::host_ipv4(host), stats));
    }

    pub(crate) fn send_from_host(&mut self, uplink: u32, bytes: Vec<u8>) {
        self.outgoing.push(FrameOut { link: uplink, bytes, hops: 0 });
    }

    pub(super) fn note_reset(&mut self, bytes: &[u8]) {
        let Ok(Some(segment)) = frame::segment(bytes) else { return };
        let Some(headers) = frame::parse(bytes).ok().filter(|_| segment.has(flags::RST)) else { return };
        self.resets.extend(self.agents.flows.get(&tuple_of(&headers).reverse()));
    }
}
