//! Opens the connections of a flow of the list: one, MPTCP's subflows, or RepFlow's copies.

use balance::hash::{combine, flow_key, mix};
use balance::{Race, Subflows};
use net::{FiveTuple, HostIx, address};
use openflow::headers::protocol;

use crate::engine::Engine;
use crate::hosts::slots::Slot;
use crate::packet::{ACK, CE, FRESH, PRIORITY_SHIFT, Packet, RETRANSMIT, TRIMMED};
use crate::queue::NIL;
use crate::transport::sender::OPEN_ENDED;

/// Number of source ports tried for a copy before it accepts one with a first hop already used.
const PORT_TRIES: u64 = 256;

/// Returns the source port of a flow. Every flow has a different one, so that flows between the same
/// hosts have different hashes; every attempt gives another one.
pub(crate) fn source_port(port_seed: u64, id: u32, attempt: u64) -> u16 {
    1024 + (mix(port_seed ^ u64::from(id) ^ attempt << 32) % 60_000) as u16
}

fn destination_port(port_seed: u64, id: u32) -> u16 {
    5001 + (mix(port_seed ^ u64::from(id)) >> 32) as u16 % 32
}

/// Returns the hashes of the data and of the acknowledgements of a flow.
pub(crate) fn hashes(port_seed: u64, id: u32, (src, dst): (HostIx, HostIx), source_port: u16) -> [u64; 2] {
    let to = destination_port(port_seed, id);
    [flow_key(src, dst, 6, source_port, to), flow_key(dst, src, 6, to, source_port)]
}

impl Engine<'_> {
    pub(crate) fn start_flow(&mut self, id: u32) {
        if self.requests.is_some() {
            return self.start_request(id);
        }
        self.records[id as usize].begin(self.network.now);
        self.start_if_resolved(id);
    }

    /// Starts a flow whose hosts know each other's address; otherwise it starts later.
    fn start_if_resolved(&mut self, id: u32) {
        if let Some(controlled) = &mut self.controlled {
            let flow = &self.list.flows[id as usize];
            if !controlled.resolve(self.network.now, id, flow.src, flow.dst) {
                return self.follow_up();
            }
        }
        self.start_connections(id);
    }

    /// Starts the flows whose addresses have been resolved, and ends those whose address is unknown.
    #[inline]
    pub(crate) fn start_resolved(&mut self) {
        while let Some((id, is_resolved)) = self.controlled.as_mut().and_then(|controlled| controlled.next_resolved()) {
            if is_resolved {
                self.start_if_resolved(id);
                continue;
            }
            let record = &mut self.records[id as usize];
            record.fct = net::Time::from_ps(self.network.now).saturating_sub(record.started);
            record.end = crate::FlowEnd::Failed;
            self.flows_done += 1;
        }
    }

    fn start_connections(&mut self, id: u32) {
        if self.connections.uses_several(self.list.flows[id as usize].size_bytes) {
            return self.start_several(id);
        }
        let slot = self.open_slot(id, NIL, 0, self.source_port(id, 0));
        self.senders += 1;
        self.begin(slot, self.params.handshake);
    }

    fn start_several(&mut self, id: u32) {
        let (segments, last_bytes) = self.segments_for(self.list.flows[id as usize].size_bytes);
        let connection = self.connections.open(id, self.network.now, segments, last_bytes);
        if let Some(subflows) = self.connections.subflows() {
            let opens_all = subflows.open_after_bytes == 0 && !subflows.join_after_data;
            let count = if opens_all { subflows.count } else { 1 };
            return self.open_subflows(connection, usize::from(count));
        }
        let Some(copies) = self.connections.copies() else { return };
        for _ in 0..copies.count {
            let (source_port, first_hop) = self.free_port(connection, copies.force_distinct);
            self.admit(connection, source_port, first_hop);
        }
        let handshake = self.params.handshake || copies.race == Race::Handshake;
        self.begin_from(connection, 0, handshake);
    }

    pub(crate) fn open_subflows(&mut self, connection: u32, count: usize) {
        let opened = self.connections.get_mut(connection).opened;
        for _ in opened..count {
            let (source_port, first_hop) = self.free_port(connection, false);
            self.admit(connection, source_port, first_hop);
        }
        let has_joins = self.connections.subflows().is_some_and(|subflows| subflows.join_after_data);
        self.begin_from(connection, opened, self.params.handshake || (has_joins && opened > 0));
    }

    pub(crate) fn open_subflows_if_due(&mut self, flow: u32) {
        let slot = self.slots.get_mut(flow);
        let (connection, has_acked) = (slot.connection, slot.sender.state.una > 0);
        let Some(Subflows { count, open_after_bytes, join_after_data, .. }) = self.connections.subflows() else {
            return;
        };
        if join_after_data && !has_acked {
            return;
        }
        let c = self.connections.get_mut(connection);
        let has_more = c.next < c.segments && u64::from(c.next) * u64::from(self.params.mss) >= open_after_bytes;
        if c.opened < usize::from(count) && has_more {
            self.open_subflows(connection, usize::from(count));
        }
    }

    fn begin_from(&mut self, connection: u32, first: usize, handshake: bool) {
        for slot in self.connections.slots(connection).into_iter().skip(first).filter(|slot| *slot != NIL) {
            self.begin(slot, handshake);
        }
    }

    pub(crate) fn begin(&mut self, slot: u32, handshake: bool) {
        if handshake {
            self.send_syn(slot);
        } else {
            self.pump(slot);
        }
    }

    fn admit(&mut self, connection: u32, source_port: u16, first_hop: u32) {
        let c = self.connections.get_mut(connection);
        let (id, ordinal) = (c.id, c.opened as u8);
        let slot = self.open_slot(id, connection, ordinal, source_port);
        self.connections.admit(connection, slot, source_port, first_hop, self.params.transport.max_window);
    }

    fn open_slot(&mut self, id: u32, connection: u32, ordinal: u8, source_port: u16) -> u32 {
        let is_subflow = connection != NIL && self.connections.subflows().is_some();
        let flow = &self.list.flows[id as usize];
        let is_receiving = self.is_local(flow.dst.0);
        let slot = Slot { connection, ordinal, is_sending: true, is_receiving, ..self.slot_of(id, source_port) };
        let slot = Slot { segments: if is_subflow { OPEN_ENDED } else { slot.segments }, ..slot };
        let links = self.topology.out_links(self.topology.host(flow.src)).iter();
        let line_bps = links.map(|link| self.topology.link(*link).rate.as_bps()).max().unwrap_or(1);
        let opened = self.slots.open(slot, &self.params, line_bps);
        self.fabric.edges.forget_paths(self.slots.get_mut(opened).number, flow.size_bytes);
        self.name_flow(opened, id, source_port);
        opened
    }

    /// Opens the receiving side of a flow whose sender is in another partition.
    pub(crate) fn open_receiver(&mut self, id: u32) -> u32 {
        let slot = Slot { is_receiving: true, ..self.slot_of(id, self.source_port(id, 0)) };
        self.fabric.edges.forget_paths(id, 0);
        self.slots.open(slot, &self.params, 0)
    }

    /// Returns what is known of a flow before it starts.
    fn slot_of(&self, id: u32, source_port: u16) -> Slot {
        let flow = &self.list.flows[id as usize];
        let (segments, last_bytes) = self.segments_for(flow.size_bytes);
        let [data_hash, ack_hash] = self.hashes(id, source_port);
        Slot {
            id,
            number: id,
            connection: NIL,
            src: flow.src.0,
            dst: flow.dst.0,
            data_class: self.fabric.host_class[flow.dst.ix()],
            ack_class: self.fabric.host_class[flow.src.ix()],
            data_hash,
            ack_hash,
            started: self.network.now,
            segments,
            last_bytes,
            priority: self.params.priority_of(flow.size_bytes) << PRIORITY_SHIFT,
            ..Slot::default()
        }
    }

    /// Acknowledges data that arrives again after its receiver has received everything, as a TCP host
    /// does that remembers only that it has.
    pub(crate) fn acknowledge_again(&mut self, ix: u32, packet: &Packet) {
        let id = packet.flow;
        let slot = self.slot_of(id, self.source_port(id, 0));
        let record = &mut self.records[id as usize];
        if packet.is(RETRANSMIT) {
            record.spurious += 1;
        } else if !packet.is(TRIMMED) {
            record.reordered += 1;
            record.reorder_extent = record.reorder_extent.max(slot.segments - 1 - packet.seq);
        }
        if packet.is(RETRANSMIT) && self.fabric.edges.is_used() {
            self.fabric.note_duplicate(&self.network, id, packet.dst, packet.src);
            self.run_issued_commands();
        }
        if packet.is(RETRANSMIT)
            && let Some(hosts) = &mut self.hosts
        {
            hosts.note_duplicate(&self.network, packet.dst, id);
        }
        let entropy = self.hosts.as_mut().and_then(|hosts| hosts.ack_entropy(id));
        let answer = Packet {
            hash: entropy.map_or(slot.ack_hash, |entropy| combine(slot.ack_hash, u64::from(entropy))),
            flow: id,
            src: slot.dst,
            dst: slot.src,
            class: slot.ack_class as u16,
            seq: slot.segments,
            sent: packet.sent,
            edge: packet.edge,
            bytes: self.params.ack_bytes,
            echo_path: packet.path,
            tag: u32::from(packet.sack),
            flags: ACK | FRESH | slot.priority | packet.flags & CE,
            ..Packet::BLANK
        };
        *self.network.arena.get_mut(ix) = answer;
        self.note_injected(NIL);
        self.inject_existing(ix, answer.src);
    }

    /// Gives a flow its five-tuple on the wire, which a controller sees.
    fn name_flow(&mut self, slot: u32, id: u32, src_port: u16) {
        let dst_port = self.destination_port(id);
        if let Some(tap) = &mut self.tap {
            tap.flow_opened(self.slots.get_mut(slot).number, src_port, dst_port);
        }
        let Some(controlled) = &mut self.controlled else { return };
        let flow = &self.list.flows[id as usize];
        let (src, dst) = (address::host_ipv4(flow.src), address::host_ipv4(flow.dst));
        let protocol = if self.params.properties.is_tcp { protocol::TCP } else { protocol::UDP };
        controlled.flow_opened(self.network.now, slot, id, flow, FiveTuple { src, dst, protocol, src_port, dst_port });
        self.follow_up();
    }

    /// Returns the number of segments of `size` bytes and the payload of the last.
    pub(crate) fn segments_for(&self, size: u64) -> (u32, u32) {
        let mss = u64::from(self.params.mss);
        let segments = size.div_ceil(mss);
        (segments as u32, (size - (segments - 1) * mss) as u32)
    }

    fn source_port(&self, id: u32, attempt: u64) -> u16 {
        source_port(self.port_seed, id, attempt)
    }

    fn destination_port(&self, id: u32) -> u16 {
        destination_port(self.port_seed, id)
    }

    fn hashes(&self, id: u32, source_port: u16) -> [u64; 2] {
        let flow = &self.list.flows[id as usize];
        hashes(self.port_seed, id, (flow.src, flow.dst), source_port)
    }

    /// Returns a source port that no other connection of the flow has, and the first hop of its
    /// data: one that the others do not have if `is_distinct` and possible.
    fn free_port(&mut self, connection: u32, is_distinct: bool) -> (u16, u32) {
        let id = self.connections.get_mut(connection).id;
        let (src, dst) = (self.list.flows[id as usize].src, self.list.flows[id as usize].dst);
        let mut last = (0, NIL);
        for attempt in 0..PORT_TRIES {
            let port = self.source_port(id, attempt);
            if self.connections.get_mut(connection).opened_connections().any(|child| child.source_port == port) {
                continue;
            }
            let hop = if is_distinct { self.first_hop(id, src, dst, port) } else { NIL };
            last = (port, hop);
            if hop == NIL
                || !self.connections.get_mut(connection).opened_connections().any(|child| child.first_hop == hop)
            {
                break;
            }
        }
        last
    }

    /// Returns the first link of data from this port if the switch has a choice, else [`NIL`].
    fn first_hop(&mut self, id: u32, src: HostIx, dst: HostIx, port: u16) -> u32 {
        let [hash, _] = self.hashes(id, port);
        let node = match self.fabric.uplink[src.ix()] {
            NIL => src.0,
            uplink => self.network.ports[uplink as usize].to,
        };
        self.fabric.first_hop(&self.network, node, src, dst, hash).unwrap_or(NIL)
    }
}
