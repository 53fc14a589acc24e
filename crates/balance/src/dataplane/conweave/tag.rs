//! The overlay header of ConWeave and the payload of its control packets.
//!
//! Data packets carry 32 bits:
//!
//! | bits | field | meaning |
//! | --- | --- | --- |
//! | 31–30 | kind | 0 none (ACKs), 1 DATA, 2 RTT_REQUEST, 3 TAIL |
//! | 29 | phase | 0 before the flow was rerouted in this epoch, 1 after |
//! | 28–23 | epoch | counts decisions of the source, wraps after 64 |
//! | 22–0 | time | by the source's clock: phase 0 when this packet left, phase 1 when the TAIL left |
//!
//! One time is sufficient: the far end only needs the time between a phase-0 packet and the TAIL.
//! Its unit is 2^shift ps, [`Ticks`]; only differences are used, so it may wrap.
//!
//! Control packets carry the flow (in NOTIFY the path) in their word. Their tag holds the kind
//! (bits 1–0), the epoch (7–2) and 24 bits of the flow's hash, which distinguish replies to an
//! ended flow from those to the new flow of its number.

use net::Time;

const TIME_BITS: u32 = 23;
const EPOCH_BITS: u32 = 6;
const TIME_MASK: u32 = (1 << TIME_BITS) - 1;
const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;
const PHASE: u32 = 1 << 29;
const KIND_SHIFT: u32 = 30;

/// Number of a source's decision about a flow, modulo 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epoch(u8);

/// The relation of one epoch to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Older,
    Same,
    Newer,
}

impl Epoch {
    pub(super) fn next(self) -> Epoch {
        Epoch((self.0 + 1) & EPOCH_MASK as u8)
    }
    /// Returns the relation of this epoch to `other`; they must be less than 32 decisions apart.
    pub(super) fn age(self, other: Epoch) -> Age {
        match self.0.wrapping_sub(other.0) & EPOCH_MASK as u8 {
            0 => Age::Same,
            1..32 => Age::Newer,
            _ => Age::Older,
        }
    }
}

/// The function of a data packet for the far end; a header holds its number plus 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Request,
    /// The last packet on the old path.
    Tail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) kind: Kind,
    /// Phase 1: sent on the new path.
    pub(super) is_rerouted: bool,
    pub(super) epoch: Epoch,
    /// Time of the source's clock, in [`Ticks`].
    pub(super) time: u32,
}

impl Tag {
    pub(super) fn pack(self) -> u32 {
        let kind = self.kind as u32 + 1;
        let phase = if self.is_rerouted { PHASE } else { 0 };
        (kind << KIND_SHIFT) | phase | (u32::from(self.epoch.0) << TIME_BITS) | (self.time & TIME_MASK)
    }

    /// Unpacks a header; returns `None` for packets without one.
    pub(super) fn unpack(word: u32) -> Option<Tag> {
        let kind = [Kind::Data, Kind::Request, Kind::Tail][(word >> KIND_SHIFT).checked_sub(1)? as usize];
        let epoch = Epoch(((word >> TIME_BITS) & EPOCH_MASK) as u8);
        Some(Tag { kind, is_rerouted: word & PHASE != 0, epoch, time: word & TIME_MASK })
    }
}

/// The unit of times in tags: 2^shift ps, at least 1.024 ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    shift: u32,
}

impl Ticks {
    /// Returns the finest unit in which `longest` is at most an eighth of the range of 23 bits:
    /// with the published 300 us between packets of an epoch that is 1.024 ns, wrapping after 8.6
    /// ms.
    pub(super) fn covering(longest: Time) -> Ticks {
        let fits = |shift: &u32| longest.as_ps() >> shift <= u64::from(TIME_MASK >> 3);
        Ticks { shift: (10..63).find(fits).unwrap_or(63) }
    }
    pub(super) fn stamp(self, now: Time) -> u32 {
        (now.as_ps() >> self.shift) as u32 & TIME_MASK
    }
    /// Returns the time from one stamp to a later one; zero if it is not later.
    pub(super) fn between(self, from: u32, to: u32) -> Time {
        let ticks = to.wrapping_sub(from) & TIME_MASK;
        let is_later = ticks <= TIME_MASK >> 1;
        if is_later { Time::from_ps(u64::from(ticks) << self.shift) } else { Time::ZERO }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The RTT_REQUEST of an epoch arrived.
    RttReply(FlowEpoch),
    /// The TAIL of an epoch arrived, and everything before it.
    Clear(FlowEpoch),
    /// A packet on this path was ECN-marked.
    Notify(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowEpoch {
    pub(super) flow: u32,
    pub(super) epoch: Epoch,
    /// 24 bits of the flow's hash.
    pub(super) identity: u32,
}

/// Returns the part of a flow's hash that control packets carry.
pub(super) fn identity(hash: u64) -> u32 {
    (hash >> 40) as u32
}

impl Message {
    pub(super) fn pack(self) -> (u32, u32) {
        let about = |kind: u32, of: FlowEpoch| (of.flow, kind | (u32::from(of.epoch.0) << 2) | (of.identity << 8));
        match self {
            Message::RttReply(of) => about(0, of),
            Message::Clear(of) => about(1, of),
            Message::Notify(path) => (u32::from(path), 2),
        }
    }

    pub(super) fn unpack(word: u32, tag: u32) -> Option<Message> {
        let of = FlowEpoch { flow: word, epoch: Epoch(((tag >> 2) & EPOCH_MASK) as u8), identity: tag >> 8 };
        match tag & 3 {
            0 => Some(Message::RttReply(of)),
            1 => Some(Message::Clear(of)),
            2 => u16::try_from(word).ok().map(Message::Notify),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_messages_survive_packing() {
        let mut epoch = Epoch::default();
        for i in 0..130u32 {
            for kind in [Kind::Data, Kind::Request, Kind::Tail] {
                let tag = Tag { kind, is_rerouted: i % 2 == 1, epoch, time: i * 64_527 };
                assert_eq!(Tag::unpack(tag.pack()), Some(tag));
            }
            let of = FlowEpoch { flow: i << 20, epoch, identity: identity(0x1234_5678_9abc_def0 << (i % 20)) };
            for message in [Message::RttReply(of), Message::Clear(of), Message::Notify(500 * i as u16)] {
                let (word, tag) = message.pack();
                assert_eq!(Message::unpack(word, tag), Some(message));
            }
            epoch = epoch.next();
        }
        assert_eq!(Tag::unpack(0), None, "an ACK");
        assert_eq!(Message::unpack(1 << 16, 2), None, "no path has this number");
    }

    #[test]
    fn epochs_wrap() {
        let mut epochs = vec![Epoch::default()];
        (0..200).for_each(|i| epochs.push(epochs[i].next()));
        for i in 31..epochs.len() {
            assert_eq!(epochs[i].age(epochs[i]), Age::Same);
            for back in 1..32 {
                assert_eq!(epochs[i].age(epochs[i - back]), Age::Newer);
                assert_eq!(epochs[i - back].age(epochs[i]), Age::Older);
            }
        }
    }

    #[test]
    fn ticks_are_fine_and_wrap() {
        let ticks = Ticks::covering(Time::from_us(312));
        assert_eq!(ticks.shift, 10);
        let wrap = Time::from_ps(1 << (10 + TIME_BITS));
        for start in [Time::ZERO, Time::from_us(8_000), wrap.saturating_sub(Time::from_us(5))] {
            let later = start.saturating_add(Time::from_us(900));
            let measured = ticks.between(ticks.stamp(start), ticks.stamp(later));
            assert!(measured.as_ps().abs_diff(900_000_000) <= 1 << 10, "{measured:?}");
            assert_eq!(ticks.between(ticks.stamp(later), ticks.stamp(start)), Time::ZERO);
        }
        assert!(Ticks::covering(Time::from_s(60)).shift > 10);
        assert_eq!(Ticks::covering(Time::MAX).stamp(Time::from_s(1)), 0);
    }
}
