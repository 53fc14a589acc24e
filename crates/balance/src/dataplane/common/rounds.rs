//! Rounds of a window: the time until the packets outstanding at its start have been acknowledged,
//! with the share of them that was marked. DCTCP, FlowBender and PLB judge congestion by it.

use crate::dataplane::HostFeedback;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    /// The round ends when all before this packet is acknowledged; 0 with nothing outstanding.
    end: u32,
    acked: u32,
    marked: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Packets acknowledged in it, at least 1.
    pub(crate) acked: u32,
    pub(crate) marked: u32,
}

impl Rounds {
    /// Counts an acknowledgement; returns the round if that completes it. The first round begins
    /// with the first acknowledgement, which counts in it: that packet alone could only give 0 or
    /// 100 %.
    ///
    /// Duplicates acknowledge and count nothing, as in Linux' DCTCP, which counts bytes.
    #[inline]
    pub(crate) fn count(&mut self, feedback: &HostFeedback) -> Option<Round> {
        if self.end == 0 {
            self.end = feedback.next;
        }
        self.acked += feedback.acked;
        if feedback.marked {
            self.marked += feedback.acked;
        }
        if feedback.una < self.end || self.acked == 0 {
            return None;
        }
        let round = Round { acked: self.acked, marked: self.marked };
        // With nothing outstanding the next round begins with the next acknowledgement.
        let end = if feedback.una == feedback.next { 0 } else { feedback.next };
        *self = Rounds { end, acked: 0, marked: 0 };
        Some(round)
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use super::*;

    fn ack(acked: u32, una: u32, next: u32, marked: bool) -> HostFeedback {
        HostFeedback { flow: 1, entropy: 0, marked, acked, una, next, rtt: Time::from_us(100) }
    }

    #[test]
    fn a_round_is_what_was_outstanding_when_it_began() {
        let mut rounds = Rounds::default();
        // Ten packets out when the first acknowledgement comes: the round ends with the tenth.
        for una in 1..10 {
            assert_eq!(rounds.count(&ack(1, una, 9 + una, una % 2 == 0)), None);
        }
        assert_eq!(rounds.count(&ack(1, 10, 20, false)), Some(Round { acked: 10, marked: 4 }));
        // The next one ends with packet 20, regardless of the number of acknowledgements.
        assert_eq!(rounds.count(&ack(9, 19, 30, true)), None);
        assert_eq!(rounds.count(&ack(0, 19, 30, true)), None, "a duplicate");
        assert_eq!(rounds.count(&ack(5, 24, 31, false)), Some(Round { acked: 14, marked: 9 }));
    }

    #[test]
    fn after_idling_a_round_is_the_next_window() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.count(&ack(4, 4, 4, false)), Some(Round { acked: 4, marked: 0 }));
        assert_eq!(rounds.count(&ack(1, 5, 8, true)), None, "four more are out by now");
        assert_eq!(rounds.count(&ack(3, 8, 8, true)), Some(Round { acked: 4, marked: 4 }));
    }

    #[test]
    fn a_window_of_one_packet_is_a_round_each() {
        let mut rounds = Rounds::default();
        for una in 1..5 {
            assert_eq!(rounds.count(&ack(1, una, una, true)), Some(Round { acked: 1, marked: 1 }));
        }
    }
}
