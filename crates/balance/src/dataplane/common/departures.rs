//! The order in which packets leave a switch: a packet on another port must not leave before the
//! previous packet of its flow.
//!
//! A queue is first in, first out, so two packets on one port are in order. On two ports they are
//! if the second packet leaves no earlier than the first. A port reports the bytes queued with the
//! packet in transmission in full, so its delay may be too long by up to the time of one packet.
//! Departures computed from it are late rather than early. For the same reason a packet that is
//! shorter than the one in transmission needs a longer queue: by the difference of their times.
//!
//! Times of packets are those at the slowest link to a node that forwards. A link that has become
//! slower since the start, pauses of flow control and queues with priorities may break the order.

use net::Time;

use super::links_to_forwarders;
use crate::dataplane::SwitchEnv;

/// The times of packets at a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departures {
    /// Time of a full-size packet at the slowest link.
    packet_time: Time,
    packet_bytes: u32,
}

impl Departures {
    pub(crate) fn new(env: &SwitchEnv<'_>) -> Departures {
        let rates = links_to_forwarders(env.topology, env.switch).map(|link| env.topology.link(link).rate);
        let slowest = rates.min().unwrap_or(env.scale.host_rate);
        let packet_bytes = env.scale.packet_bytes.max(1);
        Departures { packet_time: slowest.time_for(u64::from(packet_bytes)), packet_bytes }
    }

    /// Returns the time that a packet takes, at most that of a full-size one.
    #[inline]
    fn time_of(&self, bytes: u32) -> Time {
        let share = u128::from(bytes.min(self.packet_bytes)) * u128::from(self.packet_time.as_ps());
        Time::from_ps((share / u128::from(self.packet_bytes)) as u64)
    }

    /// Returns the queueing delay that a port must have at least, so that a packet which arrives
    /// there now does not leave before `last`, the departure of another packet.
    #[inline]
    pub(crate) fn delay_in_order(&self, now: Time, last: Time, bytes: u32) -> Time {
        if last <= now {
            return Time::ZERO;
        }
        let shorter_by = self.packet_time.saturating_sub(self.time_of(bytes));
        last.saturating_sub(now).saturating_add(shorter_by)
    }

    /// Returns the time when both a packet that joins a queue of this delay now, and the packet
    /// that leaves at `last`, have left.
    #[inline]
    pub(crate) fn departure(&self, now: Time, last: Time, delay: Time, bytes: u32) -> Time {
        now.saturating_add(delay).saturating_add(self.time_of(bytes)).max(last)
    }
}

/// Queues of whole packets for tests, which a bench reads as the simulator would.
#[cfg(test)]
pub(crate) mod queues {
    use std::collections::BTreeMap;

    use net::{LinkIx, Time};

    use crate::dataplane::testing::Bench;

    /// Picoseconds for a byte at 10 Gb/s.
    const PS_PER_BYTE: u64 = 800;

    /// Size and departure of the packets of each port, the ones that have left included.
    #[derive(Default)]
    pub(crate) struct Queues(BTreeMap<u32, Vec<(u64, u64)>>);

    impl Queues {
        /// Adds a packet to a port; returns the time when it has left.
        pub(crate) fn send(&mut self, link: LinkIx, now: Time, bytes: u32) -> Time {
            let port = self.0.entry(link.0).or_default();
            let free = port.last().map_or(0, |(_, leaves)| *leaves).max(now.as_ps());
            let leaves = free + u64::from(bytes) * PS_PER_BYTE;
            port.push((u64::from(bytes), leaves));
            Time::from_ps(leaves)
        }

        /// Sets the queues of a bench to those of its present time.
        pub(crate) fn show(&mut self, bench: &mut Bench) {
            let now = bench.now.as_ps();
            for (link, port) in &mut self.0 {
                port.retain(|(_, leaves)| *leaves > now);
                let bytes: u64 = port.iter().map(|(bytes, _)| bytes).sum();
                bench.ports.queued.insert(*link, bytes);
                bench.ports.delay.insert(*link, Time::from_ps(bytes * PS_PER_BYTE));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Departures = Departures { packet_time: Time::from_ns(1200), packet_bytes: 1500 };

    #[test]
    fn a_full_packet_needs_the_delay_that_is_left_and_a_short_one_more() {
        let (now, last) = (Time::from_us(10), Time::from_us(15));
        assert_eq!(RULE.delay_in_order(now, last, 1500), Time::from_us(5));
        assert_eq!(RULE.delay_in_order(now, last, 375), Time::from_ns(5900));
        assert_eq!(RULE.delay_in_order(last, last, 64), Time::ZERO, "the other packet has left");
        assert_eq!(RULE.delay_in_order(now, last, 9000), Time::from_us(5), "no packet is longer than a full one");
    }

    #[test]
    fn a_departure_is_the_end_of_the_queue_and_the_packet() {
        let now = Time::from_us(10);
        assert_eq!(RULE.departure(now, Time::ZERO, Time::from_us(4), 750), Time::from_ns(14_600));
        assert_eq!(RULE.departure(now, Time::from_us(20), Time::from_us(4), 750), Time::from_us(20));
        assert_eq!(RULE.departure(Time::MAX, Time::ZERO, Time::from_us(4), 750), Time::MAX);
    }
}
