//! Deadlines of a flow whose rate spaces its packets. They share the one timer of the flow.

use crate::timers::NEVER;
use crate::transport::params::TransportParams;
use crate::transport::sender::{SendState, Sent, TimerEffect};

/// The deadline of the next packet, and that of the retransmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    next_send: u64,
    /// Whether the rate delays the flow longer than the interface does.
    pub(super) is_waiting: bool,
    rto_at: u64,
}

impl Pacing {
    pub(super) const NEW: Pacing = Pacing { next_send: 0, is_waiting: false, rto_at: NEVER };

    /// Handles a packet that was sent, after which the rate leaves a gap, picoseconds.
    pub(super) fn on_sent(&mut self, sent: &Sent, gap: u64) {
        self.next_send = sent.now + gap.max(1);
        self.is_waiting = self.next_send > sent.free_at;
    }

    /// Restarts the retransmission timer if an acknowledgement is new.
    pub(super) fn on_ack(&mut self, state: &SendState, ack: u32) {
        if ack > state.una {
            self.rto_at = NEVER;
        }
    }

    /// Handles the deadline of the timer. Returns its effect, or `None` for a time-out.
    pub(super) fn on_timer(&mut self, state: &SendState, now: u64) -> Option<TimerEffect> {
        self.is_waiting &= self.next_send > now;
        if self.rto_at > now {
            return Some(TimerEffect::Resume { again: None });
        }
        self.rto_at = NEVER;
        (state.in_flight() == 0).then_some(TimerEffect::Nothing)
    }

    /// Returns the earlier one of the deadlines.
    pub(super) fn deadline(&mut self, state: &SendState, params: &TransportParams, now: u64) -> u64 {
        self.rto_at = state.retransmission_deadline(params, self.rto_at, now);
        if self.is_waiting { self.rto_at.min(self.next_send) } else { self.rto_at }
    }
}
