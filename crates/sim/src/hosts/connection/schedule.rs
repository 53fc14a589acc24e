//! Running flows with several connections: shared data, races, and the end of one of them.

use crate::engine::Engine;
use crate::outcome::FlowEnd;
use crate::queue::NIL;
use crate::timers::NEVER;
use crate::transport::sender::Reply;

impl Engine<'_> {
    /// Returns the next segment, of the slot or of the shared data, and whether it was sent before.
    pub(crate) fn next_segment(&mut self, flow: u32) -> Option<(u32, bool)> {
        let now = self.network.now;
        let slot = self.slots.get_mut(flow);
        if slot.paused_until > now {
            return None;
        }
        let own = slot.sender.next_segment(&self.params.transport);
        if own.is_some() || slot.connection == NIL {
            return own;
        }
        if !self.connections.can_pull(slot, &self.params.transport) {
            return None;
        }
        self.connections.pull(slot, &self.params.transport)
    }

    #[inline]
    pub(crate) fn can_send(&mut self, flow: u32) -> bool {
        let now = self.network.now;
        let slot = self.slots.get_mut(flow);
        slot.paused_until <= now
            && (slot.sender.can_send(&self.params.transport)
                || (slot.connection != NIL && self.connections.can_pull(slot, &self.params.transport)))
    }

    /// Returns the slot that uses the turn of slot `turn`: new data goes to the subflow with space
    /// and the lowest round-trip time. A subflow retransmits its own segments itself.
    #[inline]
    pub(crate) fn sender_of_turn(&mut self, turn: u32) -> u32 {
        let slot = self.slots.get_mut(turn);
        let is_single = slot.connection == NIL || slot.sender.can_send(&self.params.transport);
        if is_single || !self.connections.can_pull(slot, &self.params.transport) {
            return turn;
        }
        let mut best = (rank(slot.sender.state.srtt), turn);
        for other in self.connections.slots(slot.connection).into_iter().filter(|other| *other != NIL) {
            let slot = self.slots.get_mut(other);
            let srtt = rank(slot.sender.state.srtt);
            if srtt < best.0 && self.connections.can_pull(slot, &self.params.transport) {
                best = (srtt, other);
            }
        }
        best.1
    }

    /// Lets all connections of a flow send, those with the lowest round-trip times first.
    pub(crate) fn pump_all(&mut self, connection: u32) {
        let mut slots = self.connections.slots(connection);
        slots.sort_by_key(
            |slot| if *slot == NIL { u64::MAX } else { rank(self.slots.get_mut(*slot).sender.state.srtt) },
        );
        for slot in slots.into_iter().filter(|slot| *slot != NIL) {
            let s = self.slots.get_mut(slot);
            if !s.is_sender_done && !s.is_connecting {
                self.pump(slot);
            }
        }
    }

    /// Sends on the subflow acknowledged, or on all if the shared receive window has opened.
    pub(crate) fn pump_after_ack(&mut self, flow: u32) {
        let connection = self.slots.get_mut(flow).connection;
        if connection != NIL && std::mem::take(&mut self.connections.get_mut(connection).is_woken) {
            self.keep_timer(flow);
            return self.pump_all(connection);
        }
        self.pump(flow);
    }

    /// Applies an acknowledgement to the flow. Returns whether all its senders have finished.
    pub(crate) fn note_shared_ack(&mut self, flow: u32, una_before: u32, reply: Reply) -> bool {
        let slot = self.slots.get_mut(flow);
        let (connection, ordinal) = (slot.connection, slot.ordinal);
        if self.connections.subflows().is_none() {
            if reply == Reply::Finished {
                self.note_sender_end(connection);
                self.reset_others(connection, flow);
            }
            return false;
        }
        let una = slot.sender.state.una;
        let has_lost = matches!(reply, Reply::Retransmit { .. }) && una == una_before;
        self.connections.note_path(slot, &self.params.transport, una - una_before, has_lost);
        let is_over = self.connections.get_mut(connection).acknowledge(ordinal, una);
        if is_over {
            self.note_sender_end(connection);
            self.reset_others(connection, NIL);
        }
        is_over
    }

    fn note_sender_end(&mut self, connection: u32) {
        let now = self.network.now;
        let c = self.connections.get_mut(connection);
        if c.sender_fct == 0 {
            c.sender_fct = now - c.started;
        }
    }

    /// Ends all connections of a flow but `kept`. Their packets drain: they precede the reset.
    pub(crate) fn reset_others(&mut self, connection: u32, kept: u32) {
        for slot in self.connections.slots(connection) {
            if slot == NIL || slot == kept || self.slots.get_mut(slot).is_sender_done {
                continue;
            }
            let s = self.slots.get_mut(slot);
            s.is_sender_done = true;
            s.sender.stop();
            s.timer.deadline = NEVER;
            self.close_if_over(slot);
        }
    }

    /// Handles a completed handshake. If handshakes race, the other connections are reset.
    pub(crate) fn note_established(&mut self, flow: u32) {
        let connection = self.slots.get_mut(flow).connection;
        if self.connections.copies().is_some_and(|copies| copies.race == balance::Race::Handshake) {
            self.reset_others(connection, flow);
        }
    }

    /// Handles a time-out: the other subflows, opened if need be, send what is outstanding.
    pub(crate) fn note_subflow_timeout(&mut self, flow: u32) {
        let Some(subflows) = self.connections.subflows() else { return };
        let slot = self.slots.get_mut(flow);
        let (connection, ordinal) = (slot.connection, slot.ordinal);
        self.connections.note_path(slot, &self.params.transport, 0, true);
        let c = self.connections.get_mut(connection);
        c.offer_outstanding(ordinal, slot.sender.state.high);
        if c.opened < usize::from(subflows.count) {
            self.open_subflows(connection, usize::from(subflows.count));
        }
        self.pump_all(connection);
    }

    /// Handles a failed connection: the others go on with its data; without any the flow fails.
    pub(crate) fn abort_connection(&mut self, flow: u32) {
        let now = self.network.now;
        let slot = self.slots.get_mut(flow);
        slot.sender.stop();
        let (connection, ordinal, high) = (slot.connection, slot.ordinal, slot.sender.state.high);
        let others = self.connections.slots(connection);
        let is_last = others.into_iter().all(|slot| slot == NIL || self.slots.get_mut(slot).is_sender_done);
        let is_shared = self.connections.subflows().is_some();
        let c = self.connections.get_mut(connection);
        if is_last {
            if c.end == FlowEnd::Running {
                (c.end, c.fct) = (FlowEnd::Failed, now - c.started);
            }
        } else if is_shared {
            c.paths[usize::from(ordinal)] = Default::default();
            c.offer_outstanding(ordinal, high);
            self.pump_all(connection);
        }
    }
}

/// Returns the order of preference: unmeasured subflows last.
fn rank(srtt: u64) -> u64 {
    srtt.wrapping_sub(1)
}
