//! Whole packets: received, sent by the controller, buffered for it, or sent to it.

use net::Time;
use openflow::frame::{parse, rewrite};
use openflow::{Action, BadRequest, BufferId, ErrorKind, Headers, Masked, Match, Message, PacketIn, PacketOut, PortNo};

use crate::pipeline::ControllerCopy;
use crate::{Decision, Output, Switch, checks};

/// The packets buffered for the controller: the most recent ones, each until it is used.
#[derive(Debug)]
pub struct Buffers {
    room: u32,
    slots: Vec<Kept>,
    next: u32,
}

#[derive(Debug)]
struct Kept {
    id: BufferId,
    in_port: PortNo,
    /// `None` once it has been used.
    frame: Option<Vec<u8>>,
}

impl Buffers {
    pub fn new(buffers: u32) -> Buffers {
        Buffers { room: buffers, slots: Vec::new(), next: 0 }
    }

    fn ix(&self, id: BufferId) -> Option<usize> {
        id.0.checked_rem(self.room).map(|ix| ix as usize)
    }

    fn keep(&mut self, in_port: PortNo, frame: &[u8]) -> BufferId {
        let id = BufferId(self.next);
        let Some(ix) = self.ix(id) else { return BufferId::NO_BUFFER };
        let kept = Kept { id, in_port, frame: Some(frame.to_vec()) };
        match self.slots.get_mut(ix) {
            Some(slot) => *slot = kept,
            // Ids increase by one, so slots are filled in order.
            None => self.slots.push(kept),
        }
        // The last number means "no buffer".
        self.next = (self.next + 1) % BufferId::NO_BUFFER.0;
        id
    }

    pub fn frame(&self, id: BufferId) -> Result<&[u8], BadRequest> {
        let kept = self.ix(id).and_then(|ix| self.slots.get(ix)).filter(|kept| kept.id == id);
        kept.ok_or(BadRequest::BufferUnknown)?.frame.as_deref().ok_or(BadRequest::BufferEmpty)
    }

    fn take(&mut self, id: BufferId) -> Result<(PortNo, Vec<u8>), BadRequest> {
        self.frame(id)?;
        let kept = self.ix(id).and_then(|ix| self.slots.get_mut(ix));
        kept.and_then(|kept| Some((kept.in_port, kept.frame.take()?))).ok_or(BadRequest::BufferUnknown)
    }
}

/// The rate limiter of packet-ins: a token bucket of a tenth of a second, stored as the time at
/// which it is full again (generic cell rate algorithm).
#[derive(Debug)]
pub struct Limiter {
    /// Time between packets; `None` for no limit, [`Time::MAX`] for a rate of zero.
    interval: Option<Time>,
    burst: Time,
    full_at: Time,
}

impl Limiter {
    pub fn new(per_s: Option<u32>) -> Limiter {
        let interval =
            per_s.map(|rate| Time::from_s(1).as_ps().checked_div(u64::from(rate)).map_or(Time::MAX, Time::from_ps));
        // At least one token; otherwise no packet would pass.
        let burst = interval.map_or(Time::ZERO, |interval| Time::from_ms(100).max(interval));
        Limiter { interval, burst, full_at: Time::ZERO }
    }

    fn allows(&mut self, now: Time) -> bool {
        let Some(interval) = self.interval else { return true };
        let full_at = self.full_at.max(now).saturating_add(interval);
        let is_allowed = interval != Time::MAX && full_at.saturating_sub(now) <= self.burst;
        if is_allowed {
            self.full_at = full_at;
        }
        is_allowed
    }
}

impl Switch {
    /// Decides, counts and forwards a frame; changed headers are rewritten in its bytes. A frame that
    /// cannot be parsed, or from a port that is down, is dropped and counted at the port.
    pub fn receive(&mut self, now: Time, in_port: PortNo, frame: &[u8]) {
        self.clock.advance(now);
        let Some(port) = self.ports.get_mut(in_port) else { return };
        let bytes = frame.len() as u64;
        let headers = match parse(frame) {
            Ok(headers) if port.desc.is_live() => headers,
            _ => {
                port.rx_dropped.add(&self.clock, 1, bytes);
                return;
            }
        };
        port.rx.add(&self.clock, 1, bytes);
        self.run(in_port, &headers, None, frame);
    }

    fn run(&mut self, in_port: PortNo, headers: &Headers, actions: Option<&[Action]>, frame: &[u8]) {
        let mut decision = std::mem::take(&mut self.scratch);
        self.datapath_view().decide(self.version, in_port, headers, actions, &mut decision);
        self.count_beyond_port(self.clock.now, &decision, 1, frame.len() as u64);
        for egress in &decision.egress {
            let frame = with_headers(frame, headers, &egress.headers);
            self.outputs.push_back(Output::Frame(egress.port, frame));
        }
        self.send_copies(in_port, &decision, frame);
        self.scratch = decision;
    }

    pub(crate) fn packet_out(&mut self, packet_out: PacketOut) -> Result<(), ErrorKind> {
        let in_port = packet_out.in_port;
        if in_port != PortNo::CONTROLLER && self.ports.get(in_port).is_none() {
            return Err(ErrorKind::BadRequest(BadRequest::BadPort));
        }
        // A refused packet-out does not use a buffered packet, which stays for another attempt.
        let is_buffered = packet_out.buffer != BufferId::NO_BUFFER;
        let kept = if is_buffered {
            Some(self.buffers.frame(packet_out.buffer).map_err(ErrorKind::BadRequest)?)
        } else {
            None
        };
        let headers = headers_of(kept.unwrap_or(&packet_out.data))?;
        self.check_packet_out(&packet_out.actions, &headers)?;
        let frame = match is_buffered {
            true => self.buffers.take(packet_out.buffer).map_err(ErrorKind::BadRequest)?.1,
            false => packet_out.data,
        };
        self.run(in_port, &headers, Some(&packet_out.actions), &frame);
        Ok(())
    }

    fn check_packet_out(&self, actions: &[Action], headers: &Headers) -> Result<(), ErrorKind> {
        self.targets(true).check(actions, checks::PacketContext::of_headers(headers)).map(|_| ())
    }

    pub(crate) fn send_buffered(&mut self, buffer: BufferId) -> Result<(), ErrorKind> {
        let (in_port, frame) = self.buffers.take(buffer).map_err(ErrorKind::BadRequest)?;
        let headers = headers_of(&frame)?;
        self.run(in_port, &headers, None, &frame);
        Ok(())
    }

    pub(crate) fn send_copies(&mut self, in_port: PortNo, decision: &Decision, frame: &[u8]) {
        for copy in &decision.trace.copies {
            let receivers = self.sessions.receivers_of_packet_in(copy.origin.reason);
            if receivers.is_empty() {
                continue;
            }
            if !self.limiter.allows(self.clock.now) {
                self.tally.packet_ins_suppressed += 1;
                continue;
            }
            let message = self.packet_in_message(in_port, &decision.trace.headers, copy, frame);
            self.send_all(&receivers, &message);
        }
    }

    fn packet_in_message(&mut self, in_port: PortNo, was: &Headers, copy: &ControllerCopy, frame: &[u8]) -> Message {
        let mut data = with_headers(frame, was, &copy.headers);
        let total_len = u16::try_from(data.len()).unwrap_or(u16::MAX);
        let buffer = match copy.max_len {
            Action::WHOLE_PACKET => BufferId::NO_BUFFER,
            _ => self.buffers.keep(in_port, &data),
        };
        if buffer != BufferId::NO_BUFFER {
            data.truncate(usize::from(copy.max_len));
        }
        let metadata = (copy.metadata != 0).then_some(Masked { value: copy.metadata, mask: u64::MAX });
        Message::PacketIn(PacketIn {
            buffer,
            total_len,
            reason: copy.origin.reason,
            table: copy.origin.table,
            cookie: copy.origin.cookie,
            match_: Match { in_port: Some(in_port), metadata, ..Match::default() },
            other_fields: Vec::new(),
            data,
        })
    }
}

fn headers_of(frame: &[u8]) -> Result<Headers, ErrorKind> {
    parse(frame).map_err(|_| ErrorKind::BadRequest(BadRequest::BadPacket))
}

/// Returns the frame with other headers, or unchanged if it does not have those decided on.
fn with_headers(frame: &[u8], was: &Headers, now: &Headers) -> Vec<u8> {
    let changed = if was == now { None } else { rewrite(frame, now).ok() };
    changed.unwrap_or_else(|| frame.to_vec())
}
