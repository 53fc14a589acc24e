//! Headers of the packets of each flow, and the decisions of switches about them.

use net::{FiveTuple, HostIx, Time, address};
use openflow::frame::flags;
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, PortNo};
use smallvec::SmallVec;
use switch::{Decision, NoOutput, Switch};
use traffic::Flow;

use super::switch::ControlledSwitch;
use super::{Controlled, DirectionHeaders, Forwarding, HOP_LIMIT, time};
use crate::links::network::Loss;
use crate::packet::{ACK, Packet};
use crate::queue::NIL;
use crate::services::OUTER_HEADER;

/// The decision of a switch about the packets of a flow that arrive in one direction, on one link and
/// with one tag, in short, and the packets that the switch has not counted yet.
///
/// A packet touches this only. Rules, groups and ports count the packets before their counters are
/// read ([`Controlled::settled`]), as with the flow cache of Open vSwitch.
#[derive(Clone, Copy, Debug)]
struct Hop {
    /// Input link in the upper half, tag of the packets before the switch in the lower.
    key: u64,
    /// Version of the switch that decided.
    version: u64,
    /// Output link; [`NIL`] if the packets are dropped or go to the controller only.
    out: u32,
    /// Whether the packets also go to the controller.
    is_copied: bool,
    /// Tag of the packets behind the switch, as in [`Packet::tag`].
    tag: u32,
    /// Bytes of the header that the switch adds to each packet.
    added: u16,
    /// Packets and bytes that are not counted yet, and when the last one passed.
    packets: u32,
    bytes: u64,
    last: u64,
}

impl Hop {
    /// Lets its switch count the packets that are not counted yet.
    fn count(&mut self, switch: &mut Switch, port: u32, decision: &Decision) {
        if self.packets > 0 {
            switch.count(time(self.last), PortNo(port), decision, self.packets, self.bytes);
            (self.packets, self.bytes) = (0, 0);
        }
    }
}

/// The hops of a flow in one direction. It has few, so searching their list is faster than any table.
#[derive(Debug, Default)]
struct Hops {
    list: SmallVec<[Hop; 6]>,
    /// Their whole decisions. Those beyond the length of the list are kept for their memory only.
    decisions: Vec<Decision>,
}

impl Hops {
    #[inline]
    fn position(&self, key: u64) -> Option<usize> {
        self.list.iter().position(|hop| hop.key == key)
    }

    fn add(&mut self, key: u64) -> usize {
        let hop = Hop { key, version: 0, out: NIL, is_copied: false, tag: 0, added: 0, packets: 0, bytes: 0, last: 0 };
        self.list.push(hop);
        if self.decisions.len() < self.list.len() {
            self.decisions.push(Decision::default());
        }
        self.list.len() - 1
    }
}

/// Number of a flow's direction among all: twice its slot, plus 1 for acknowledgements.
fn place(flow: u32, direction: usize) -> usize {
    flow as usize * 2 + direction
}

/// Number of hops with uncounted packets at which a switch counts them.
const UNCOUNTED_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct FlowState {
    /// Position in the flow list, or [`NIL`] while the slot is free.
    pub(super) id: u32,
    pub(super) tuple: FiveTuple,
    pub(super) headers: DirectionHeaders,
    /// Rewritten headers, by the upper half of tags less 1.
    rewritten: [Vec<Headers>; 2],
    /// Whether the flow goes to a virtual address.
    pub(super) is_virtual: bool,
    /// Whether switches may rewrite its headers.
    pub(super) is_rewritten: bool,
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
    /// Two for each slot: data packets, then acknowledgements ([`place`]).
    hops: Vec<Hops>,
}

impl Flows {
    pub(super) fn get(&self, slot: u32) -> Option<&FlowState> {
        self.slots.get(slot as usize).filter(|flow| flow.id != NIL)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut FlowState> {
        self.slots.get_mut(slot as usize).filter(|flow| flow.id != NIL)
    }

    /// Opens a slot for a flow. `macs` are the addresses that source and destination send to, if these
    /// are not each other's.
    pub(super) fn open(&mut self, slot: u32, id: u32, flow: &Flow, tuple: FiveTuple, macs: Option<[MacAddr; 2]>) {
        let state = self.slot(slot, tuple);
        state.headers.sent = [headers(flow.src, flow.dst, tuple), headers(flow.dst, flow.src, tuple.reverse())];
        for (headers, mac) in state.headers.sent.iter_mut().zip(macs.into_iter().flatten()) {
            headers.eth_dst = mac;
        }
        (state.id, state.is_virtual, state.size) = (id, false, flow.size_bytes);
        state.is_rewritten = macs.is_some();
    }

    /// Opens a slot for one direction of a connection to a virtual address, without headers.
    pub(super) fn open_virtual(&mut self, slot: u32, serial: u32, tuple: FiveTuple) -> &mut FlowState {
        let state = self.slot(slot, tuple);
        (state.id, state.is_virtual, state.size) = (serial, true, 0);
        state.is_rewritten = true;
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
                is_rewritten: false,
                sent: 0,
                size: 0,
                is_reported: false,
                rate_limit: None,
            });
            self.hops.extend([Hops::default(), Hops::default()]);
        }
        let state = &mut self.slots[slot as usize];
        self.hops[place(slot, 0)..=place(slot, 1)].iter_mut().for_each(|hops| hops.list.clear());
        state.rewritten.iter_mut().for_each(Vec::clear);
        (state.tuple, state.sent, state.is_reported, state.rate_limit) = (tuple, 0, false, None);
        state
    }

    pub(super) fn close(&mut self, slot: u32) {
        if let Some(state) = self.slots.get_mut(slot as usize) {
            state.id = NIL;
        }
    }

    fn forget_hops(&mut self) {
        self.hops.iter_mut().for_each(|hops| hops.list.clear());
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
        if !self.is_rewritten || plain == self.headers.sent[direction] {
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

/// Returns the bytes of an outer header. Switches add it, and do not remove it.
pub(super) fn outer_bytes(headers: &Headers) -> u16 {
    if headers.ip_proto == protocol::IP_IN_IP { OUTER_HEADER } else { 0 }
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
        let clock = self.clock(now);
        let (ix, _) = self.ends[link as usize];
        let station = &self.switches[ix as usize];
        if clock >= station.counts_until || station.uncounted.len() >= UNCOUNTED_MAX {
            self.refresh(clock, ix);
        }
        let key = u64::from(link) << 32 | u64::from(packet.tag);
        let place = place(packet.flow, usize::from(packet.is(ACK)));
        let hops = &mut self.flows.hops[place];
        let position = hops.position(key).unwrap_or_else(|| hops.add(key));
        if hops.list[position].version != self.switches[ix as usize].switch.version()
            && !self.query_switch(time(clock), link, packet, position)
        {
            return Forwarding::Drop(Loss::NoRoute);
        }
        let (hop, station) = (&mut self.flows.hops[place].list[position], &mut self.switches[ix as usize]);
        if hop.packets == 0 {
            station.uncounted.push((place as u32, position as u32));
        }
        hop.packets += 1;
        hop.bytes += u64::from(packet.bytes);
        hop.last = clock;
        let hop = *hop;
        let forwarding = match hop.out {
            NIL => without_link(&self.flows.hops[place].decisions[position]),
            out => {
                packet.tag = hop.tag;
                packet.bytes += hop.added;
                Forwarding::Link(out)
            }
        };
        if hop.is_copied {
            let is_taken = forwarding == Forwarding::ToController;
            self.packets_taken += u64::from(is_taken);
            self.hand_to_controller(time(clock), link, packet, position, is_taken);
        }
        forwarding
    }

    /// Lets a switch count, and refresh its statistics if that is due.
    #[cold]
    fn refresh(&mut self, clock: u64, ix: u32) {
        let station = self.settled(ix);
        station.switch.advance(time(clock));
        station.counts_until = station.switch.next_refresh().as_ps();
    }

    /// Returns a switch that has counted all packets that it has forwarded. Messages, timers, frames and
    /// port changes must reach a switch through this.
    pub(super) fn settled(&mut self, ix: u32) -> &mut ControlledSwitch {
        self.settle(ix);
        &mut self.switches[ix as usize]
    }

    fn settle(&mut self, ix: u32) {
        let ControlledSwitch { switch, uncounted, .. } = &mut self.switches[ix as usize];
        for (place, position) in uncounted.drain(..) {
            let hops = &mut self.flows.hops[place as usize];
            let Some(hop) = hops.list.get_mut(position as usize) else { continue };
            let (owner, port) = self.ends[(hop.key >> 32) as usize];
            // The slot may have another flow since.
            if owner == ix {
                hop.count(switch, port, &hops.decisions[position as usize]);
            }
        }
    }

    /// Lets the switches count the packets of a flow, whose slot becomes free.
    pub(super) fn settle_flow(&mut self, slot: u32) {
        for direction in 0..2 {
            let Some(hops) = self.flows.hops.get_mut(place(slot, direction)) else { return };
            for (hop, decision) in hops.list.iter_mut().zip(&hops.decisions) {
                let (ix, port) = self.ends[(hop.key >> 32) as usize];
                hop.count(&mut self.switches[ix as usize].switch, port, decision);
            }
        }
    }

    /// Forgets all decisions, since a switch begins from scratch.
    pub(super) fn forget_decisions(&mut self) {
        for ix in 0..self.switches.len() as u32 {
            self.settle(ix);
        }
        self.flows.forget_hops();
    }

    /// Asks the switch at the end of `link`. Returns whether the decision can be simulated.
    #[cold]
    fn query_switch(&mut self, now: Time, link: u32, packet: &Packet, position: usize) -> bool {
        let direction = usize::from(packet.is(ACK));
        let (ix, port) = self.ends[link as usize];
        let flow = &mut self.flows.slots[packet.flow as usize];
        let before = Headers { vlan: vlan_of(packet.tag), ..*flow.headers_for(direction, packet.tag) };
        let hops = &mut self.flows.hops[place(packet.flow, direction)];
        let (hop, decision) = (&mut hops.list[position], &mut hops.decisions[position]);
        let station = &mut self.switches[ix as usize];
        station.switch.decide(now, PortNo(port), &before, decision);
        (hop.version, hop.out, hop.is_copied) = (station.switch.version(), NIL, decision.to_controller);
        let (fault, after) = (cannot_carry(decision, &before, flow.is_rewritten), decision.egress.first().copied());
        if let Some(egress) = after {
            hop.tag = flow.tag_for(direction, &egress.headers);
            hop.added = outer_bytes(&egress.headers) - outer_bytes(&before);
            hop.out = station.link_of(egress.port).unwrap_or(NIL);
        }
        if let Some(link) = self.legacy.route(ix, HostIx(packet.dst)) {
            (hop.out, hop.tag, hop.added, hop.is_copied) = (link.map_or(NIL, |link| link.0), packet.tag, 0, false);
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
        let (flow, hops) = (&self.flows.slots[packet.flow as usize], &self.flows.hops[place(packet.flow, direction)]);
        let tag = hops.list[position].key as u32;
        let headers = Headers { vlan: vlan_of(tag), ..*flow.headers_for(direction, tag) };
        let frame = self.frames.of_packet(&headers, packet, flow.id, is_taken);
        self.switches[ix as usize].switch.packet_in(now, PortNo(port), &hops.decisions[position], &frame);
        self.drain_switch(now.as_ps(), ix);
    }
}

/// Returns the treatment of a packet for which a decision has no link.
#[cold]
fn without_link(decision: &Decision) -> Forwarding {
    match (decision.egress.is_empty(), decision.to_controller, decision.no_output) {
        (true, true, _) => Forwarding::ToController,
        (true, false, Some(NoOutput::PortDown)) => Forwarding::Drop(Loss::LinkDown),
        _ => Forwarding::Drop(Loss::NoRoute),
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
