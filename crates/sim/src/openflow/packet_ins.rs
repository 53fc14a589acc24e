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
use smallvec::SmallVec;

use super::frames::MARK;

/// Longest headers that are stored apart.
const HEAD_MAX: usize = 128;
/// Number of forms used last that are kept to be shared.
const FORMS: usize = 1 << 14;
/// Number of packet-ins of a chunk of a queue.
const CHUNK: usize = 1 << 8;

/// The common part of the packet-ins of a flow at a switch.
#[derive(PartialEq, Eq, Debug)]
struct Form {
    connection: ConnectionId,
    xid: Xid,
    in_port: PortNo,
    /// Metadata of the match; 0 for none.
    metadata: u64,
    cookie: u64,
    /// The bytes of the frame up to its payload.
    head: SmallVec<[u8; 64]>,
    zeros: u16,
    /// The bytes between its payload and its number.
    mark: [u8; MARK.len()],
    total_len: u16,
    reason: PacketInReason,
    table: TableId,
}

#[derive(Debug)]
struct Pending {
    at: u64,
    serial: u64,
    form: Arc<Form>,
    /// The last bytes of the frame, which differ between the packets of a flow.
    number: [u8; 8],
}

/// Packet-ins of a switch, in chunks: one queue for all would be copied whenever it is full.
#[derive(Debug, Default)]
struct Queue(VecDeque<VecDeque<Pending>>);

impl Queue {
    fn front(&self) -> Option<&Pending> {
        self.0.front()?.front()
    }
    fn back(&self) -> Option<&Pending> {
        self.0.back()?.back()
    }
    fn push_back(&mut self, pending: Pending) {
        if self.0.back().is_none_or(|last| last.len() == CHUNK) {
            self.0.push_back(VecDeque::new());
        }
        self.0.back_mut().expect("there is a chunk").push_back(pending);
    }
    fn pop_front(&mut self) -> Option<Pending> {
        let first = self.0.front_mut()?;
        let pending = first.pop_front();
        if first.is_empty() {
            self.0.pop_front();
        }
        pending
    }
}

/// Packet-ins by switch, in the order of their arrival at the controller.
#[derive(Debug, Default)]
pub(super) struct PacketIns {
    by_switch: Vec<Queue>,
    /// Time, number and switch of the first packet-in of each switch that has any.
    first: BTreeSet<(u64, u64, u32)>,
    /// Forms used last, by hash of their headers.
    forms: Vec<Option<Arc<Form>>>,
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
            self.by_switch.resize_with(ix as usize + 1, Queue::default);
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
        let Some((data, number)) = packet.data.split_last_chunk() else { return Some(envelope) };
        let Some((head, mark)) = data.split_last_chunk() else { return Some(envelope) };
        let head_len = len_without_zeros(head);
        let Ok(zeros) = u16::try_from(head.len() - head_len) else { return Some(envelope) };
        if head_len > HEAD_MAX {
            return Some(envelope);
        }
        let (cookie, total_len, reason, table) = (packet.cookie, packet.total_len, packet.reason, packet.table);
        let head = SmallVec::from_slice(&packet.data[..head_len]);
        let (xid, mark, number) = (envelope.xid, *mark, *number);
        let form = Form { connection, xid, in_port, metadata, cookie, head, zeros, mark, total_len, reason, table };
        let pending = Pending { at, serial, form: self.shared(form), number };
        let queue = &mut self.by_switch[ix as usize];
        if queue.front().is_none() {
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
        self.first.extend(queue.front().map(|next| (next.at, next.serial, ix)));
        let form = &*pending.form;
        let mut data = form.head.to_vec();
        data.resize(data.len() + usize::from(form.zeros), 0);
        data.extend_from_slice(&form.mark);
        data.extend_from_slice(&pending.number);
        let packet = PacketIn {
            buffer: BufferId::NO_BUFFER,
            total_len: form.total_len,
            reason: form.reason,
            table: form.table,
            cookie: form.cookie,
            match_: match_of(form.in_port, form.metadata),
            other_fields: Vec::new(),
            data,
        };
        let envelope = Envelope { xid: form.xid, message: Message::PacketIn(packet) };
        Some((ix, form.connection, envelope))
    }

    fn shared(&mut self, form: Form) -> Arc<Form> {
        if self.forms.is_empty() {
            self.forms.resize(FORMS, None);
        }
        let seed = u64::from(form.connection.0) << 32 | u64::from(form.zeros);
        let hash = form.head.chunks(8).fold(seed, |hash, bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            combine(hash, u64::from_le_bytes(word))
        });
        let place = &mut self.forms[reduce(hash, FORMS)];
        match place {
            Some(known) if **known == form => Arc::clone(known),
            _ => Arc::clone(place.insert(Arc::new(form))),
        }
    }
}

/// Returns the length of `bytes` up to the last one that is not zero.
fn len_without_zeros(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let blocks = bytes.rchunks_exact(BLOCK).take_while(|block| **block == [0; BLOCK]).count();
    let rest = &bytes[..bytes.len() - blocks * BLOCK];
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
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
