//! Headers of the packets of each flow, and the decisions of switches about them.

use net::{FiveTuple, HostIx, Time, address};
use openflow::frame::flags;
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, PortNo};
use switch::{Decision, NoOutput};
use traffic::Flow;

use super::{Controlled, DirectionHeaders, Forwarding, HOP_LIMIT, time};
use crate::links::network::Loss;
use crate::packet::{ACK, Packet};
use crate::queue::NIL;

/// Decisions of switches about one flow in one direction, by input link and VLAN tag.
///
/// A flow passes few switches, so searching its list is faster than any table.
#[derive(Debug, Default)]
struct Decisions {
    /// Link and tag. Decisions beyond its length are kept for their memory only.
    keys: Vec<u64>,
    list: Vec<Decision>,
    tags: Vec<u32>,
}

impl Decisions {
    /// Returns the position of a key, and whether it is new and so has no valid decision.
    #[inline]
    fn position(&mut self, key: u64) -> (usize, bool) {
        if let Some(position) = self.keys.iter().position(|other| *other == key) {
            return (position, false);
        }
        self.keys.push(key);
        if self.list.len() < self.keys.len() {
            self.list.push(Decision::default());
            self.tags.push(0);
        }
        (self.keys.len() - 1, true)
    }
}

#[derive(Debug)]
pub(super) struct FlowState {
    /// Position in the flow list, or [`NIL`] while the slot is free.
    pub(super) id: u32,
    pub(super) tuple: FiveTuple,
    pub(super) headers: DirectionHeaders,
    /// Rewritten headers, by the upper half of tags less 1.
    rewritten: [Vec<Headers>; 2],
    /// Whether the flow goes to a virtual address, so that switches rewrite its headers.
    pub(super) is_virtual: bool,
    decisions: [Decisions; 2],
    /// Payload sent for the first time, and the total payload.
    pub(super) sent: u64,
    pub(super) size: u64,
    pub(super) is_reported: bool,
    /// Rate limit: it sets the minimum time between the beginnings of two full packets.
    pub(super) rate_limit: Option<net::Bandwidth>,
}

#[derive(Debug, Default)]
pub(super) struct Flows {
    slots: Vec<FlowState>,
}

impl Flows {
    pub(super) fn get(&self, slot: u32) -> Option<&FlowState> {
        self.slots.get(slot as usize).filter(|flow| flow.id != NIL)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut FlowState> {
        self.slots.get_mut(slot as usize).filter(|flow| flow.id != NIL)
    }

    pub(super) fn open(&mut self, slot: u32, id: u32, flow: &Flow, tuple: FiveTuple) {
        let state = self.slot(slot, tuple);
        state.headers.sent = [headers(flow.src, flow.dst, tuple), headers(flow.dst, flow.src, tuple.reverse())];
        (state.id, state.is_virtual, state.size) = (id, false, flow.size_bytes);
    }

    /// Opens a slot for one direction of a connection to a virtual address, without headers.
    pub(super) fn open_virtual(&mut self, slot: u32, serial: u32, tuple: FiveTuple) -> &mut FlowState {
        let state = self.slot(slot, tuple);
        (state.id, state.is_virtual, state.size) = (serial, true, 0);
        state
    }

    fn slot(&mut self, slot: u32, tuple: FiveTuple) -> &mut FlowState {
        while self.slots.len() <= slot as usize {
            self.slots.push(FlowState {
                id: NIL,
                tuple,
                headers: DirectionHeaders::default(),
                rewritten: Default::default(),
                is_virtual: false,
                decisions: Default::default(),
                sent: 0,
                size: 0,
                is_reported: false,
                rate_limit: None,
            });
        }
        let state = &mut self.slots[slot as usize];
        state.decisions.iter_mut().for_each(|decisions| decisions.keys.clear());
        state.rewritten.iter_mut().for_each(Vec::clear);
        (state.tuple, state.sent, state.is_reported, state.rate_limit) = (tuple, 0, false, None);
        state
    }

    pub(super) fn close(&mut self, slot: u32) {
        if let Some(state) = self.slots.get_mut(slot as usize) {
            state.id = NIL;
        }
    }

    pub(super) fn forget_decisions(&mut self) {
        self.slots.iter_mut().flat_map(|flow| &mut flow.decisions).for_each(|decisions| decisions.keys.clear());
    }
}

fn headers(src: HostIx, dst: HostIx, tuple: FiveTuple) -> Headers {
    let macs = [src, dst].map(|host| MacAddr(address::host_mac(host)));
    Headers::ipv4(macs, [tuple.src, tuple.dst], tuple.protocol, [tuple.src_port, tuple.dst_port])
}

/// Lower half of a tag: the VLAN's number plus 1. The upper half identifies the headers of the
/// packet: 0 for those of its sender, else a position among [`FlowState::rewritten`] plus 1.
const VLAN_MASK: u32 = 0xffff;
const REWRITTEN_SHIFT: u32 = 16;

impl FlowState {
    #[inline]
    pub(super) fn headers_for(&self, direction: usize, tag: u32) -> &Headers {
        match tag >> REWRITTEN_SHIFT {
            0 => &self.headers.sent[direction],
            position => &self.rewritten[direction][position as usize - 1],
        }
    }

    pub(super) fn tag_for(&mut self, direction: usize, headers: &Headers) -> u32 {
        let (vlan, plain) = (tag_of(headers.vlan), plain(headers));
        if !self.is_virtual || plain == self.headers.sent[direction] {
            return vlan;
        }
        let rewritten = &mut self.rewritten[direction];
        let position = rewritten.iter().position(|headers_for| *headers_for == plain).unwrap_or_else(|| {
            rewritten.push(plain);
            rewritten.len() - 1
        });
        (position as u32 + 1) << REWRITTEN_SHIFT | vlan
    }
}

/// Returns the headers without the VLAN tag, which travels with the packet, without priority and
/// traffic class, which are unused, and without control bits of TCP, which no rule matches.
pub(super) fn plain(headers: &Headers) -> Headers {
    let tcp_flags = if headers.ip_proto == protocol::TCP { u16::from(flags::ACK) } else { 0 };
    Headers { vlan: None, vlan_pcp: 0, ip_dscp: 0, ip_ecn: 0, tcp_flags, ..*headers }
}

#[inline]
pub(super) fn tag_of(vlan: Option<u16>) -> u32 {
    vlan.map_or(0, |vlan| u32::from(vlan) + 1)
}

#[inline]
fn vlan_of(tag: u32) -> Option<u16> {
    (tag & VLAN_MASK).checked_sub(1).map(|vlan| vlan as u16)
}

impl Controlled<'_> {
    #[inline]
    pub(crate) fn route(&mut self, now: u64, link: u32, packet: &mut Packet) -> Forwarding {
        if packet.rank >= HOP_LIMIT {
            return Forwarding::Drop(Loss::Loop);
        }
        packet.rank += 1;
        let now = time(self.clock(now));
        let (ix, port) = self.ends[link as usize];
        let direction = usize::from(packet.is(ACK));
        let decisions = &mut self.flows.slots[packet.flow as usize].decisions[direction];
        let (position, is_new) = decisions.position(u64::from(link) << 32 | u64::from(packet.tag));
        let is_old = is_new || !self.switches[ix as usize].switch.is_current(&decisions.list[position]);
        if is_old && !self.query_switch(now, link, packet, direction, position) {
            return Forwarding::Drop(Loss::NoRoute);
        }
        let decisions = &self.flows.slots[packet.flow as usize].decisions[direction];
        let switch = &mut self.switches[ix as usize].switch;
        let decision = &decisions.list[position];
        switch.count(now, PortNo(port), decision, u32::from(packet.bytes));
        let forwarding = match (decision.egress.first(), decision.to_controller, decision.no_output) {
            (Some(egress), _, _) => match self.switches[ix as usize].link_of(egress.port) {
                Some(out) => {
                    packet.tag = decisions.tags[position];
                    Forwarding::Link(out)
                }
                None => Forwarding::Drop(Loss::NoRoute),
            },
            (None, true, _) => Forwarding::ToController,
            (None, false, Some(NoOutput::PortDown)) => Forwarding::Drop(Loss::LinkDown),
            (None, false, _) => Forwarding::Drop(Loss::NoRoute),
        };
        if decision.to_controller {
            self.packets_taken += u64::from(forwarding == Forwarding::ToController);
            self.hand_to_controller(now, link, packet, position, forwarding == Forwarding::ToController);
        }
        forwarding
    }

    /// Asks the switch at the end of `link`. Returns whether the decision can be simulated.
    #[cold]
    fn query_switch(&mut self, now: Time, link: u32, packet: &Packet, direction: usize, position: usize) -> bool {
        let (ix, port) = self.ends[link as usize];
        let flow = &mut self.flows.slots[packet.flow as usize];
        let before = Headers { vlan: vlan_of(packet.tag), ..*flow.headers_for(direction, packet.tag) };
        let decision = &mut flow.decisions[direction].list[position];
        self.switches[ix as usize].switch.decide(now, PortNo(port), &before, decision);
        let (fault, after) = (cannot_carry(decision, &before, flow.is_virtual), decision.egress.first().copied());
        if let Some(egress) = after {
            flow.decisions[direction].tags[position] = flow.tag_for(direction, &egress.headers);
        }
        if let Some(reason) = fault {
            self.abort(|| format!("switch {} {reason}", ix + 1));
        }
        fault.is_none()
    }

    #[cold]
    fn hand_to_controller(&mut self, now: Time, link: u32, packet: &Packet, position: usize, is_taken: bool) {
        let direction = usize::from(packet.is(ACK));
        let (ix, port) = self.ends[link as usize];
        let key = self.flows.slots[packet.flow as usize].decisions[direction].keys[position];
        let flow = &self.flows.slots[packet.flow as usize];
        let headers = Headers { vlan: vlan_of(key as u32), ..*flow.headers_for(direction, key as u32) };
        let frame = self.frames.of_packet(&headers, packet, flow.id, is_taken);
        let decision = &flow.decisions[direction].list[position];
        self.switches[ix as usize].switch.packet_in(now, PortNo(port), decision, &frame);
        self.drain_switch(now.as_ps(), ix);
    }
}

fn cannot_carry(decision: &Decision, before: &Headers, may_rewrite: bool) -> Option<&'static str> {
    if decision.egress.len() > 1 {
        return Some("sends copies of the packets of flows out of several ports, which is not simulated");
    }
    let after = decision.egress.first()?.headers;
    let is_same = may_rewrite || plain(&after) == plain(before);
    (!is_same).then_some("rewrites addresses or ports of the packets of flows, which is not simulated")
}
