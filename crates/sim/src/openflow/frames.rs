//! Packets as bytes: those for the controller, those from it, and the replies of hosts.

use std::collections::VecDeque;

use net::{HostIx, address};
use openflow::frame::flags;
use openflow::headers::{ether, protocol};
use openflow::{Headers, MacAddr, PortNo, frame};

use super::event_queue::ControlEvent;
use super::flows::outer_bytes;
use super::{Controlled, time};
use crate::packet::{ACK, CONTROL, Packet, SYN, stamp};
use crate::queue::{NIL, put_free};

/// Minimum size of an Ethernet frame without its check sequence, bytes.
const FRAME_MIN: usize = 60;
const ARP_REQUEST: u16 = 1;
/// Marker at the end of the frame of a flow's packet, before the packet's number.
pub(super) const MARK: [u8; 4] = *b"flow";
const TRAILER: usize = MARK.len() + 8;
const TCP_LEN: usize = 20;
const FLAGS_AT: usize = 13;
/// Maximum number of packets kept for the controller: more than any holds at one time.
const KEPT: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct FrameOut {
    pub(super) link: u32,
    pub(super) bytes: Vec<u8>,
    /// Number of switches it has passed.
    pub(super) hops: u32,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    packet: Packet,
    /// Its flow in the list: the slot may already serve another one.
    flow: u32,
    /// Whether it went to the controller only and has not been forwarded since.
    is_waiting: bool,
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<Vec<u8>>,
    free: Vec<u32>,
    kept: VecDeque<Kept>,
    first: u64,
}

impl Frames {
    pub(super) fn bytes(&self, index: u32) -> &[u8] {
        &self.bytes[index as usize]
    }

    pub(super) fn take(&mut self, index: u32) -> Vec<u8> {
        self.free.push(index);
        std::mem::take(&mut self.bytes[index as usize])
    }

    pub(super) fn of_packet(&mut self, headers: &Headers, packet: &Packet, flow: u32, is_taken: bool) -> Vec<u8> {
        let number = self.first + self.kept.len() as u64;
        self.kept.push_back(Kept { packet: *packet, flow, is_waiting: is_taken });
        if self.kept.len() > KEPT {
            self.kept.pop_front();
            self.first += 1;
        }
        // A packet's size includes these headers; one of headers only has no space for the trailer.
        let bare = frame::build(headers, 0).len();
        let mut bytes = frame::build(headers, usize::from(packet.bytes).saturating_sub(bare).max(TRAILER));
        if packet.is(SYN) && headers.ip_proto == protocol::TCP {
            // Controllers check these flags of first packets. No receiver checks checksums.
            let at = bare - TCP_LEN + FLAGS_AT;
            bytes[at] = if packet.is(ACK) { flags::SYN | flags::ACK } else { flags::SYN };
        }
        let end = bytes.len();
        bytes[end - TRAILER..end - 8].copy_from_slice(&MARK);
        bytes[end - 8..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    /// Returns the packet that a frame represents and that may be forwarded: once if it was taken.
    fn packet_of(&mut self, bytes: &[u8]) -> Option<(Packet, u32)> {
        let trailer = bytes.get(bytes.len().checked_sub(TRAILER)?..)?;
        let (mark, number) = trailer.split_at(MARK.len());
        if mark != MARK {
            return None;
        }
        let number = u64::from_be_bytes(number.try_into().ok()?);
        let kept = self.kept.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        std::mem::take(&mut kept.is_waiting).then_some((kept.packet, kept.flow))
    }
}

pub(super) enum OnLink {
    Flow(Packet),
    Frame(Packet),
}

impl Controlled<'_> {
    pub(super) fn on_link(&mut self, now: u64, out: FrameOut) -> OnLink {
        if let Some((packet, flow)) = self.frames.packet_of(&out.bytes)
            && self.flows.get(packet.flow).is_some_and(|state| state.id == flow)
        {
            let direction = usize::from(packet.is(ACK));
            let headers = frame::parse(&out.bytes).ok();
            let state = self.flows.get_mut(packet.flow);
            let (tag, added) = headers.zip(state).map_or((0, 0), |(headers, state)| {
                let before = outer_bytes(state.headers_for(direction, packet.tag));
                (state.tag_for(direction, &headers), outer_bytes(&headers) - before)
            });
            return OnLink::Flow(Packet { tag, bytes: packet.bytes + added, next: NIL, ..packet });
        }
        let bytes = out.bytes.len().clamp(FRAME_MIN, usize::from(u16::MAX)) as u16;
        let frame = put_free(&mut self.frames.bytes, &mut self.frames.free, out.bytes);
        OnLink::Frame(Packet { seq: frame, rank: out.hops, sent: stamp(now), bytes, flags: CONTROL, ..Packet::BLANK })
    }

    /// Handles a frame at the end of a link: a switch processes it, a host may reply.
    pub(super) fn receive_frame(&mut self, clock: u64, link: u32, bytes: &[u8], hops: u32) {
        let (ix, port) = self.ends[link as usize];
        if ix != NIL {
            self.settled(ix).switch.receive(time(clock), PortNo(port), bytes);
            return self.drain_switch_after(clock, ix, hops + 1);
        }
        self.note_reset(bytes);
        self.note_arp(self.hosts_by_link[link as usize], bytes);
        if let Some(answer) = answer(self.hosts_by_link[link as usize], bytes) {
            self.outgoing.push(FrameOut { link: link ^ 1, bytes: answer, hops: 0 });
        }
    }

    pub(super) fn deliver_at_once(&mut self, clock: u64) {
        for out in std::mem::take(&mut self.outgoing) {
            self.events.put(clock, ControlEvent::Frame(out.link, out.bytes));
        }
    }
}

/// Returns the reply of a host to an ARP request for its Ethernet address.
fn answer(host: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    let request = frame::parse(bytes).ok()?;
    let (mac, ipv4) = (MacAddr(address::host_mac(HostIx(host))), address::host_ipv4(HostIx(host)));
    let is_for_it = request.eth_type == ether::ARP && request.arp_op == ARP_REQUEST && request.ipv4_dst == ipv4;
    is_for_it.then(|| frame::arp_reply(mac, ipv4, request.eth_src, request.ipv4_src))
}
