//! Headers of the packets of each flow, and what switches have decided about them.

use net::{FiveTuple, HostIx, Time, address};
use openflow::frame::flags;
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, PortNo};
use switch::{Decision, NoOutput};

use super::{Controlled, HOP_LIMIT, Way, time};
use crate::network::Loss;
use crate::packet::{ACK, Packet};
use crate::queue::NIL;

/// What switches decided about the packets of one flow in one direction, by the link they came on and their VLAN tag.
///
/// A flow passes few switches, so that looking through its list is faster than any table.
#[derive(Debug, Default)]
struct Decisions {
    /// Link and tag; longer than these are decisions kept for their memory.
    keys: Vec<u64>,
    list: Vec<Decision>,
    /// Tags of packets that go on.
    tags: Vec<u32>,
}

impl Decisions {
    /// The place of a key; a new one has no decision that counts.
    #[inline]
    fn place(&mut self, key: u64) -> (usize, bool) {
        if let Some(place) = self.keys.iter().position(|other| *other == key) {
            return (place, false);
        }
        self.keys.push(key);
        if self.list.len() < self.keys.len() {
            self.list.push(Decision::default());
            self.tags.push(0);
        }
        (self.keys.len() - 1, true)
    }
}

/// A flow slot.
#[derive(Debug)]
pub(super) struct FlowState {
    /// Position in the flow list, or [`NIL`] while the slot is free.
    pub(super) id: u32,
    pub(super) tuple: FiveTuple,
    /// What its ends put on the wire.
    pub(super) headers: [Headers; 2],
    /// What switches have made of that, by the upper half of tags less 1.
    faces: [Vec<Headers>; 2],
    /// Headers change on the way, and these are those with which packets are to arrive.
    pub(super) is_virtual: bool,
    pub(super) expected: [Headers; 2],
    decisions: [Decisions; 2],
    /// Payload it has sent, once each, and will have sent.
    pub(super) sent: u64,
    pub(super) size: u64,
    /// Its agent has told the controller of it.
    pub(super) is_reported: bool,
    /// Least time between the beginnings of two full packets is set by this rate.
    pub(super) pace: Option<net::Bandwidth>,
}

/// All flow slots.
#[derive(Debug, Default)]
pub(super) struct Flows {
    slots: Vec<FlowState>,
}

/// What a flow that begins is.
pub(crate) struct NewTuple {
    pub(crate) id: u32,
    pub(crate) src: HostIx,
    pub(crate) dst: HostIx,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) is_tcp: bool,
    pub(crate) size: u64,
}

impl NewTuple {
    fn tuple(&self) -> FiveTuple {
        FiveTuple {
            src: address::host_ipv4(self.src),
            dst: address::host_ipv4(self.dst),
            protocol: if self.is_tcp { protocol::TCP } else { protocol::UDP },
            src_port: self.src_port,
            dst_port: self.dst_port,
        }
    }
}

impl Flows {
    pub(super) fn get(&self, slot: u32) -> Option<&FlowState> {
        self.slots.get(slot as usize).filter(|flow| flow.id != NIL)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut FlowState> {
        self.slots.get_mut(slot as usize).filter(|flow| flow.id != NIL)
    }

    pub(super) fn open(&mut self, slot: u32, flow: &NewTuple) {
        let tuple = flow.tuple();
        let state = self.slot(slot, tuple);
        state.headers = [headers(flow.src, flow.dst, tuple), headers(flow.dst, flow.src, tuple.reverse())];
        (state.id, state.is_virtual, state.size) = (flow.id, false, flow.size);
    }

    /// The same for one way of a connection to a virtual address; its headers are to be set.
    pub(super) fn open_virtual(&mut self, slot: u32, serial: u32, tuple: FiveTuple) -> &mut FlowState {
        let state = self.slot(slot, tuple);
        (state.id, state.is_virtual, state.size) = (serial, true, 0);
        state
    }

    /// A slot for something new.
    fn slot(&mut self, slot: u32, tuple: FiveTuple) -> &mut FlowState {
        while self.slots.len() <= slot as usize {
            self.slots.push(FlowState {
                id: NIL,
                tuple,
                headers: [Headers::default(); 2],
                faces: Default::default(),
                is_virtual: false,
                expected: [Headers::default(); 2],
                decisions: Default::default(),
                sent: 0,
                size: 0,
                is_reported: false,
                pace: None,
            });
        }
        let state = &mut self.slots[slot as usize];
        state.decisions.iter_mut().for_each(|decisions| decisions.keys.clear());
        state.faces.iter_mut().for_each(Vec::clear);
        (state.tuple, state.sent, state.is_reported, state.pace) = (tuple, 0, false, None);
        state
    }

    pub(super) fn close(&mut self, slot: u32) {
        if let Some(state) = self.slots.get_mut(slot as usize) {
            state.id = NIL;
        }
    }

    /// Everything is to be decided anew.
    pub(super) fn forget_decisions(&mut self) {
        self.slots.iter_mut().flat_map(|flow| &mut flow.decisions).for_each(|decisions| decisions.keys.clear());
    }
}

fn headers(src: HostIx, dst: HostIx, tuple: FiveTuple) -> Headers {
    let macs = [src, dst].map(|host| MacAddr(address::host_mac(host)));
    Headers::ipv4(macs, [tuple.src, tuple.dst], tuple.protocol, [tuple.src_port, tuple.dst_port])
}

/// Lower half of a tag: the VLAN's number plus 1. The upper half says which headers the packet has: 0 for those of its sender,
/// else a position among [`FlowState::faces`] plus 1.
const VLAN_MASK: u32 = 0xffff;
const FACE_SHIFT: u32 = 16;

impl FlowState {
    /// Headers of a packet, but for its VLAN.
    #[inline]
    pub(super) fn face(&self, direction: usize, tag: u32) -> &Headers {
        match tag >> FACE_SHIFT {
            0 => &self.headers[direction],
            place => &self.faces[direction][place as usize - 1],
        }
    }

    /// The tag of a packet that has these headers.
    pub(super) fn tag_for(&mut self, direction: usize, headers: &Headers) -> u32 {
        let (vlan, plain) = (tag_of(headers.vlan), plain(headers));
        if !self.is_virtual || plain == self.headers[direction] {
            return vlan;
        }
        let faces = &mut self.faces[direction];
        let place = faces.iter().position(|face| *face == plain).unwrap_or_else(|| {
            faces.push(plain);
            faces.len() - 1
        });
        (place as u32 + 1) << FACE_SHIFT | vlan
    }
}

/// Headers without what does not matter to anyone here: the tag travels with the packet, and its priority and the traffic
/// class are nobody's; control bits of TCP are the packet's, and no rule of these switches looks at them.
pub(super) fn plain(headers: &Headers) -> Headers {
    let tcp_flags = if headers.ip_proto == protocol::TCP { u16::from(flags::ACK) } else { 0 };
    Headers { vlan: None, vlan_pcp: 0, ip_dscp: 0, ip_ecn: 0, tcp_flags, ..*headers }
}

/// The tag of a VLAN: 0 for none.
#[inline]
pub(super) fn tag_of(vlan: Option<u16>) -> u32 {
    vlan.map_or(0, |vlan| u32::from(vlan) + 1)
}

#[inline]
fn vlan_of(tag: u32) -> Option<u16> {
    (tag & VLAN_MASK).checked_sub(1).map(|vlan| vlan as u16)
}

impl Controlled<'_> {
    /// What the switch at the end of `link` does with a packet that came on it.
    #[inline]
    pub(crate) fn route(&mut self, now: u64, link: u32, packet: &mut Packet) -> Way {
        if packet.rank >= HOP_LIMIT {
            return Way::Lost(Loss::Loop);
        }
        packet.rank += 1;
        let now = time(self.clock(now));
        let (ix, port) = self.ends[link as usize];
        let direction = usize::from(packet.is(ACK));
        let decisions = &mut self.flows.slots[packet.flow as usize].decisions[direction];
        let (place, is_new) = decisions.place(u64::from(link) << 32 | u64::from(packet.tag));
        let is_old = is_new || !self.stations[ix as usize].switch.is_current(&decisions.list[place]);
        if is_old && !self.decide_anew(now, link, packet, direction, place) {
            return Way::Lost(Loss::NoRoute);
        }
        let decisions = &self.flows.slots[packet.flow as usize].decisions[direction];
        let switch = &mut self.stations[ix as usize].switch;
        let decision = &decisions.list[place];
        switch.count(now, PortNo(port), decision, u32::from(packet.bytes));
        let way = match (decision.egress.first(), decision.to_controller, decision.no_output) {
            (Some(egress), _, _) => match self.stations[ix as usize].link_of(egress.port) {
                Some(out) => {
                    packet.tag = decisions.tags[place];
                    Way::Link(out)
                }
                None => Way::Lost(Loss::NoRoute),
            },
            (None, true, _) => Way::Taken,
            (None, false, Some(NoOutput::PortDown)) => Way::Lost(Loss::LinkDown),
            (None, false, _) => Way::Lost(Loss::NoRoute),
        };
        if decision.to_controller {
            self.cost.packets_taken += u64::from(way == Way::Taken);
            self.hand_to_controller(now, link, packet, direction, place, way == Way::Taken);
        }
        way
    }

    /// Asks the switch at the end of `link` what it does with such packets; whether that can be simulated.
    #[cold]
    fn decide_anew(&mut self, now: Time, link: u32, packet: &Packet, direction: usize, place: usize) -> bool {
        let (ix, port) = self.ends[link as usize];
        let flow = &mut self.flows.slots[packet.flow as usize];
        let before = Headers { vlan: vlan_of(packet.tag), ..*flow.face(direction, packet.tag) };
        let decision = &mut flow.decisions[direction].list[place];
        self.stations[ix as usize].switch.decide(now, PortNo(port), &before, decision);
        let (fault, after) = (cannot_carry(decision, &before, flow.is_virtual), decision.egress.first().copied());
        if let Some(egress) = after {
            flow.decisions[direction].tags[place] = flow.tag_for(direction, &egress.headers);
        }
        if let Some(what) = fault {
            self.give_up(|| format!("switch {} {what}", ix + 1));
        }
        fault.is_none()
    }

    /// Sends a packet to the controller, as the decision at `place` has it.
    #[cold]
    fn hand_to_controller(
        &mut self,
        now: Time,
        link: u32,
        packet: &Packet,
        direction: usize,
        place: usize,
        is_taken: bool,
    ) {
        let (ix, port) = self.ends[link as usize];
        let key = self.flows.slots[packet.flow as usize].decisions[direction].keys[place];
        let flow = &self.flows.slots[packet.flow as usize];
        let headers = Headers { vlan: vlan_of(key as u32), ..*flow.face(direction, key as u32) };
        let frame = self.frames.of_packet(&headers, packet, flow.id, is_taken);
        let decision = &flow.decisions[direction].list[place];
        self.stations[ix as usize].switch.packet_in(now, PortNo(port), decision, &frame);
        self.drain_switch(now.as_ps(), ix);
    }
}

/// Why packets cannot be carried on as a switch has decided, if they cannot.
fn cannot_carry(decision: &Decision, before: &Headers, may_rewrite: bool) -> Option<&'static str> {
    if decision.egress.len() > 1 {
        return Some("sends copies of the packets of flows out of several ports, which runs of flows do not know");
    }
    let after = decision.egress.first()?.headers;
    let is_same = may_rewrite || plain(&after) == plain(before);
    (!is_same).then_some("rewrites addresses or ports of the packets of flows, which runs of flows do not know")
}
