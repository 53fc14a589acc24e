//! The paths of the latest packets of a flow, by which a sender finds the path that lost a packet.

use net::{NodeKind, Time};

use super::sent_packets::SentPackets;
use crate::dataplane::{EdgeEnv, PacketView, Paths};

/// Limits of the number of remembered packets of a flow: the larger one bounds memory.
const REMEMBERED_MIN: u64 = 64;
const REMEMBERED_MAX: u64 = 4096;

/// Returns the number of packets of a flow that are worth remembering: four times those that fill
/// the longest empty path of the network at the rate of the sender's links.
pub(crate) fn remembered(env: &EdgeEnv<'_>) -> usize {
    // The edge of a host with several links is the host itself.
    let is_host = env.topology.node(env.edge).kind == NodeKind::Host;
    let links = if is_host { env.topology.out_links(env.edge).len() } else { 1 };
    let packets = env.scale.product_packets() * links as f64;
    // A conversion of floats saturates.
    (4.0 * packets).clamp(REMEMBERED_MIN as f64, REMEMBERED_MAX as f64) as usize
}

/// Path and departure of the latest packets of a flow; see [`SentPackets`].
#[derive(Clone, Debug, Default)]
pub(crate) struct SentPaths {
    packets: SentPackets<Sent>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    path: u16,
    /// Departure; [`Time::MAX`] if it was trimmed.
    at: Time,
}

impl SentPaths {
    /// Begins a flow, of which at most about `limit` packets are remembered.
    pub(crate) fn begin(&mut self, limit: usize, packet: &PacketView, paths: &Paths<'_>) {
        // Less than half of a packet is headers, and the last packet may be short.
        let packets = paths.flow_bytes / u64::from(packet.bytes.max(2) / 2) + 2;
        let size = packets.min(limit as u64).next_power_of_two() as usize;
        self.packets.begin(size, Sent { path: 0, at: Time::ZERO });
    }

    #[inline]
    pub(crate) fn note(&mut self, seq: u32, path: u16, now: Time) {
        self.packets.note(seq, Sent { path, at: now });
    }

    /// Returns the path of the latest copy of a packet, if it is remembered.
    #[inline]
    pub(crate) fn path_of(&self, seq: u32) -> Option<u16> {
        self.packets.get(seq).map(|sent| sent.path)
    }

    /// Returns the path that lost a packet. A copy that left less than `rtt` ago cannot be missing
    /// yet: an earlier copy or another packet was lost, and its path is not known.
    pub(crate) fn path_of_lost(&self, seq: u32, now: Time, rtt: Time) -> Option<u16> {
        let sent = self.packets.get(seq)?;
        (now.saturating_sub(sent.at) >= rtt && sent.at <= now).then_some(sent.path)
    }

    /// Notes that a packet was trimmed on `path`, so that it does not count as lost as well.
    pub(crate) fn note_trimmed(&mut self, seq: u32, path: u16) {
        if self.path_of(seq) == Some(path) {
            self.packets.note(seq, Sent { path, at: Time::MAX });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{BASE_RTT, packet, with_edge_env};

    fn ring(flow_bytes: u64, limit: usize) -> SentPaths {
        let mut sent = SentPaths::default();
        sent.begin(limit, &packet(1), &Paths { live: &[0, 1], current: None, weights: &[], flow_bytes });
        sent
    }

    #[test]
    fn the_latest_copies_of_the_latest_packets_are_remembered() {
        let mut sent = ring(1 << 30, 64);
        (0..100).for_each(|seq| sent.note(seq, seq as u16 % 7, Time::ZERO));
        sent.note(50, 99, Time::ZERO);
        assert_eq!([sent.path_of(99), sent.path_of(50), sent.path_of(36)], [Some(1), Some(99), Some(1)]);
        assert_eq!([sent.path_of(35), sent.path_of(100)], [None, None], "overwritten, and never sent");
    }

    #[test]
    fn no_packet_of_a_short_flow_is_overwritten() {
        for packets in [1, 2, 3, 10, 31] {
            let mut sent = ring(u64::from(packets) * 1440, 64);
            assert!(sent.packets.len() <= 64);
            (0..packets).for_each(|seq| sent.note(seq, 5, Time::ZERO));
            assert!((0..packets).all(|seq| sent.path_of(seq) == Some(5)), "{packets} packets");
        }
    }

    #[test]
    fn a_copy_sent_within_a_round_trip_is_not_the_one_that_was_lost() {
        let mut sent = ring(1 << 20, 64);
        sent.note(7, 3, Time::from_us(10));
        assert_eq!(sent.path_of_lost(7, Time::from_us(109), BASE_RTT), None);
        assert_eq!(sent.path_of_lost(7, Time::from_us(110), BASE_RTT), Some(3));
        sent.note_trimmed(7, 4);
        assert_eq!(sent.path_of_lost(7, Time::from_us(110), BASE_RTT), Some(3), "another copy was trimmed");
        sent.note_trimmed(7, 3);
        assert_eq!(sent.path_of_lost(7, Time::from_us(110), BASE_RTT), None, "trimmed, not lost");
        assert_eq!(sent.path_of(7), Some(3));
    }

    #[test]
    fn before_the_first_flow_nothing_is_remembered() {
        let mut sent = SentPaths::default();
        sent.note(0, 1, Time::ZERO);
        sent.note_trimmed(0, 1);
        assert_eq!([sent.path_of(0), sent.path_of(u32::MAX)], [None, None]);
        assert_eq!(ring(1 << 30, 64).path_of(u32::MAX), None);
    }

    #[test]
    fn the_number_of_packets_follows_the_links_of_the_sender() {
        // 10 Gb/s for 100 us are 83 packets of 1500 bytes; a host with 2 links sends twice as many.
        let leaf = with_edge_env("leaf-spine:leaves=4,spines=4", 0, remembered);
        let host = with_edge_env("multi-plane:planes=2", 0, remembered);
        assert_eq!((leaf, host), (333, 666));
    }
}
