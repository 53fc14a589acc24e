//! Packet-ins on their way to the controller, without the payload of their frames.
//!
//! An overloaded control channel holds a packet-in for every packet that senders can send meanwhile:
//! a million of them after a few milliseconds. Their payload is zero, so it is not stored.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use balance::hash::{combine, reduce};
use openflow::{
    BufferId, ConnectionId, Envelope, Masked, Match, Message, PacketIn, PacketInReason, PortNo, TableId, Xid,
};

/// Bytes at the end of a frame that may differ from zero, next to its headers.
const TAIL: usize = 12;
/// Longest headers that are stored apart.
const HEAD_MAX: usize = 128;
/// Number of headers used last that are kept to be shared.
const HEADS: usize = 1 << 10;
/// Capacity that an empty queue keeps.
const CAPACITY_KEPT: usize = 1 << 8;

#[derive(Debug)]
struct Pending {
    at: u64,
    serial: u64,
    connection: ConnectionId,
    xid: Xid,
    in_port: PortNo,
    /// Metadata of the match; 0 for none.
    metadata: u64,
    cookie: u64,
    /// The bytes of the frame up to its payload.
    head: Arc<[u8]>,
    zeros: u16,
    total_len: u16,
    reason: PacketInReason,
    table: TableId,
    tail: [u8; TAIL],
}

/// Packet-ins by switch, in the order of their arrival at the controller.
#[derive(Debug, Default)]
pub(super) struct PacketIns {
    by_switch: Vec<VecDeque<Pending>>,
    /// Time, number and switch of the first packet-in of each switch that has any.
    first: BTreeSet<(u64, u64, u32)>,
    /// Headers used last, by their hash.
    heads: Vec<Option<Arc<[u8]>>>,
}

impl PacketIns {
    /// Returns time and number of the next packet-in.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        self.first.first().map(|(at, serial, _)| (*at, *serial))
    }

    /// Adds a packet-in. Returns the message if it has another form, or if it would arrive before
    /// an earlier one of its switch.
    pub(super) fn put(
        &mut self,
        (at, serial): (u64, u64),
        ix: u32,
        connection: ConnectionId,
        envelope: Envelope,
    ) -> Option<Envelope> {
        if self.by_switch.len() <= ix as usize {
            self.by_switch.resize_with(ix as usize + 1, VecDeque::new);
        }
        if self.by_switch[ix as usize].back().is_some_and(|last| last.at > at) {
            return Some(envelope);
        }
        let Message::PacketIn(packet) = &envelope.message else { return Some(envelope) };
        let metadata = packet.match_.metadata.map_or(0, |metadata| metadata.value);
        let in_port = packet.match_.in_port.unwrap_or(PortNo::ANY);
        let is_plain = packet.buffer == BufferId::NO_BUFFER && packet.other_fields.is_empty();
        if !is_plain || packet.match_ != match_of(in_port, metadata) {
            return Some(envelope);
        }
        let Some((head, tail)) = packet.data.split_last_chunk::<TAIL>() else { return Some(envelope) };
        let head_len = head.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let Ok(zeros) = u16::try_from(head.len() - head_len) else { return Some(envelope) };
        if head_len > HEAD_MAX {
            return Some(envelope);
        }
        let (cookie, total_len, reason, table) = (packet.cookie, packet.total_len, packet.reason, packet.table);
        let (head, tail, xid) = (self.shared(&packet.data[..head_len]), *tail, envelope.xid);
        let pending = Pending {
            at,
            serial,
            connection,
            xid,
            in_port,
            metadata,
            cookie,
            head,
            zeros,
            total_len,
            reason,
            table,
            tail,
        };
        let queue = &mut self.by_switch[ix as usize];
        if queue.is_empty() {
            self.first.insert((at, serial, ix));
        }
        queue.push_back(pending);
        None
    }

    /// Removes the next packet-in, and returns it with its switch and connection.
    pub(super) fn pop(&mut self) -> Option<(u32, ConnectionId, Envelope)> {
        let (_, _, ix) = self.first.pop_first()?;
        let queue = &mut self.by_switch[ix as usize];
        let pending = queue.pop_front()?;
        match queue.front() {
            Some(next) => drop(self.first.insert((next.at, next.serial, ix))),
            None => queue.shrink_to(CAPACITY_KEPT),
        }
        let mut data = pending.head.to_vec();
        data.resize(data.len() + usize::from(pending.zeros), 0);
        data.extend_from_slice(&pending.tail);
        let packet = PacketIn {
            buffer: BufferId::NO_BUFFER,
            total_len: pending.total_len,
            reason: pending.reason,
            table: pending.table,
            cookie: pending.cookie,
            match_: match_of(pending.in_port, pending.metadata),
            other_fields: Vec::new(),
            data,
        };
        let envelope = Envelope { xid: pending.xid, message: Message::PacketIn(packet) };
        Some((ix, pending.connection, envelope))
    }

    fn shared(&mut self, head: &[u8]) -> Arc<[u8]> {
        if self.heads.is_empty() {
            self.heads.resize(HEADS, None);
        }
        let hash = head.iter().fold(0, |hash, byte| combine(hash, u64::from(*byte)));
        let place = &mut self.heads[reduce(hash, HEADS)];
        if place.as_deref() != Some(head) {
            *place = Some(head.into());
        }
        place.clone().expect("it was just set")
    }
}

fn match_of(in_port: PortNo, metadata: u64) -> Match {
    let metadata = (metadata != 0).then_some(Masked { value: metadata, mask: u64::MAX });
    Match { in_port: Some(in_port), metadata, ..Match::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet_in(data: Vec<u8>, in_port: u32) -> Envelope {
        let packet = PacketIn {
            buffer: BufferId::NO_BUFFER,
            total_len: data.len() as u16,
            reason: PacketInReason::Action,
            table: TableId(1),
            cookie: 7,
            match_: match_of(PortNo(in_port), u64::from(in_port % 2)),
            other_fields: Vec::new(),
            data,
        };
        Envelope { xid: Xid(in_port), message: Message::PacketIn(packet) }
    }

    fn frame(payload: usize, number: u8) -> Vec<u8> {
        let mut data = vec![number; 54];
        data.resize(54 + payload, 0);
        data.extend([b'f', b'l', b'o', b'w', 0, 0, 0, 0, 0, 0, 0, number]);
        data
    }

    #[test]
    fn packet_ins_of_all_switches_leave_in_order_and_unchanged() {
        let mut packets = PacketIns::default();
        let sent = [(5, 0), (5, 1), (7, 0), (6, 1)].map(|(at, ix): (u64, u32)| (at, ix, frame(1400, at as u8)));
        for (serial, (at, ix, data)) in (0..).zip(&sent) {
            let envelope = packet_in(data.clone(), *ix + 1);
            assert_eq!(packets.put((*at, serial), *ix, ConnectionId(*ix), envelope), None);
        }
        for (serial, position) in [(0, 0), (1, 1), (3, 3), (2, 2)] {
            let (at, ix, data) = &sent[position];
            assert_eq!(packets.next(), Some((*at, serial)));
            assert_eq!(packets.pop(), Some((*ix, ConnectionId(*ix), packet_in(data.clone(), *ix + 1))));
        }
        assert_eq!((packets.next(), packets.pop()), (None, None));
    }

    #[test]
    fn other_messages_and_early_ones_are_returned() {
        let mut packets = PacketIns::default();
        let barrier = Envelope { xid: Xid(1), message: Message::BarrierReply };
        let mut put = |at, envelope: &Envelope| packets.put((at, at), 0, ConnectionId(0), envelope.clone());
        assert_eq!(put(1, &barrier), Some(barrier.clone()));
        for odd in [packet_in(vec![1; 8], 1), packet_in(vec![1; 200], 1)] {
            assert_eq!(put(1, &odd), Some(odd.clone()), "too short, and without zeros");
        }
        let plain = packet_in(frame(10, 3), 1);
        assert_eq!(put(9, &plain), None);
        assert_eq!(put(8, &plain), Some(plain.clone()), "the connection is new and its channel empty");
    }
}
