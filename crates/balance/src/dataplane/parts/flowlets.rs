//! The flowlet table (mechanisms.md §1.2): what the current burst of each flow uses, until an idle gap ends it.
//!
//! - `exact`: an entry per flow; a flowlet ends once nothing was seen of it for longer than the gap T.
//! - `agebit`: the hardware form of CONGA (SIGCOMM 2014, section 3.4). A fixed number of hashed entries, each with one
//!   age bit. A packet clears the bit; a sweep every T sets it and ends the flowlets where it was still set, so that the
//!   gap that really ends a flowlet lies between T and 2T. Flows that hash to one entry share it.
//!
//! Nothing here runs on timers: the sweeps that were missed are made up for when an entry is read. A packet of epoch
//! k = floor(t / T) survives the sweep at (k+1)T with its bit set and falls to the one at (k+2)T, so an entry is valid
//! while the epoch of the last packet is this one or the one before.

use net::Time;

use crate::dataplane::{PacketView, Scale};
use crate::hash::{mix, reduce};
use crate::params::{Param, ParamKind, Params};

/// The parameter that chooses the form of the table.
pub const MODE: Param = Param {
    name: "gap_mode",
    kind: ParamKind::Choice(&["exact", "agebit"]),
    default: "agebit",
    unit: "",
    doc: "Flowlet table: one exact entry per flow, or hashed entries with an age bit (gaps of 1 to 2 times `gap`).",
};

/// The parameter that sizes the hashed form.
pub const ENTRIES: Param = Param {
    name: "entries",
    kind: ParamKind::Count { min: 1, max: 1 << 24 },
    default: "65536",
    unit: "",
    doc: "Entries of the hashed flowlet table; only with gap_mode=agebit.",
};

/// What the table knows of the flowlet a packet would continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flowlet<T> {
    /// The packet belongs to a flowlet that uses this.
    Ongoing(T),
    /// The packet starts a flowlet; the one before it used this.
    Expired(T),
    /// Nothing was ever recorded here.
    New,
}

/// An entry found by [`Flowlets::slot`]; good until the next call of it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    index: usize,
    hash: u64,
}

/// A flowlet table that remembers a `T` for every flowlet: a path number, a link.
#[derive(Clone, Debug)]
pub struct Flowlets<T> {
    gap_ps: u64,
    form: Form<T>,
}

#[derive(Clone, Debug)]
enum Form<T> {
    /// By twice the flow number, plus one for the packets that carry no data: in one switch both directions of a flow meet.
    Exact(Vec<Exact<T>>),
    AgeBit(AgeBit<T>),
}

#[derive(Clone, Copy, Debug)]
struct Exact<T> {
    /// Tells a flow from an earlier one of the same number.
    hash: u64,
    /// Time of the last packet; [`NEVER`] where there was none.
    last_ps: u64,
    value: T,
}

const NEVER: u64 = u64::MAX;

/// Two plain arrays of numbers, so that a table of zeroes costs memory only where it is used.
#[derive(Clone, Debug)]
struct AgeBit<T> {
    /// Epoch of the last packet with [`IN_USE`], or 0 where there was none.
    epochs: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy + Default> Flowlets<T> {
    /// A table of exact entries, one per flow.
    pub fn exact(gap: Time) -> Flowlets<T> {
        Flowlets { gap_ps: gap.as_ps(), form: Form::Exact(Vec::new()) }
    }

    /// A table of `entries` hashed entries with an age bit; at least one.
    pub fn agebit(gap: Time, entries: usize) -> Flowlets<T> {
        let entries = entries.max(1);
        let form = AgeBit { epochs: vec![0; entries], values: vec![T::default(); entries] };
        Flowlets { gap_ps: gap.as_ps(), form: Form::AgeBit(form) }
    }

    /// As parameters `gap`, [`MODE`] and [`ENTRIES`] say.
    pub fn from_params(params: &Params, scale: &Scale) -> Flowlets<T> {
        let gap = params.scaled("gap", scale);
        match params.text(MODE.name) {
            "exact" => Flowlets::exact(gap),
            _ => Flowlets::agebit(gap, params.count(ENTRIES.name) as usize),
        }
    }

    /// Where the flowlet of a packet is kept. Exact tables make room for flows never seen.
    #[inline]
    pub fn slot(&mut self, packet: &PacketView) -> Slot {
        let index = match &mut self.form {
            Form::Exact(entries) => {
                let index = 2 * packet.flow as usize + usize::from(!packet.is_data);
                if index >= entries.len() {
                    entries.resize(index + 1, Exact { hash: 0, last_ps: NEVER, value: T::default() });
                }
                index
            }
            // Mixed once more: switches on the way may have spread packets by the same hash.
            Form::AgeBit(table) => reduce(mix(packet.hash ^ 0x666c_6f77_6c65_7473), table.epochs.len()),
        };
        Slot { index, hash: packet.hash }
    }

    /// What is known at `now`.
    #[inline]
    pub fn look_up(&self, slot: Slot, now: Time) -> Flowlet<T> {
        match &self.form {
            Form::Exact(entries) => {
                let entry = entries[slot.index];
                if entry.last_ps == NEVER || entry.hash != slot.hash {
                    Flowlet::New
                } else if now.as_ps().saturating_sub(entry.last_ps) > self.gap_ps {
                    Flowlet::Expired(entry.value)
                } else {
                    Flowlet::Ongoing(entry.value)
                }
            }
            Form::AgeBit(table) => {
                let (stored, value) = (table.epochs[slot.index], table.values[slot.index]);
                if stored == 0 {
                    return Flowlet::New;
                }
                match epoch(now, self.gap_ps).wrapping_sub(stored) & !IN_USE {
                    0 | 1 => Flowlet::Ongoing(value),
                    _ => Flowlet::Expired(value),
                }
            }
        }
    }

    /// A packet leaves at `now` by `value`: its flowlet lasts at least a gap longer.
    #[inline]
    pub fn record(&mut self, slot: Slot, now: Time, value: T) {
        match &mut self.form {
            Form::Exact(entries) => entries[slot.index] = Exact { hash: slot.hash, last_ps: now.as_ps(), value },
            Form::AgeBit(table) => {
                table.epochs[slot.index] = epoch(now, self.gap_ps);
                table.values[slot.index] = value;
            }
        }
    }
}

/// Marks entries that hold something; the rest of the number wraps, after 2^31 intervals.
const IN_USE: u32 = 1 << 31;

/// Number of the interval between two sweeps, with [`IN_USE`].
#[inline]
fn epoch(now: Time, gap_ps: u64) -> u32 {
    // A gap of zero makes every packet a flowlet: sweeps at every instant.
    (now.as_ps() / gap_ps.max(1)) as u32 | IN_USE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::packet;

    const GAP: Time = Time::from_us(100);
    const PS: Time = Time::from_ps(1);

    fn after(time: Time, rest: Time) -> Time {
        time.saturating_add(rest)
    }

    #[test]
    fn exact_flowlets_end_after_more_than_the_gap() {
        let mut table = Flowlets::<u16>::exact(GAP);
        let slot = table.slot(&packet(5));
        assert_eq!(table.look_up(slot, Time::ZERO), Flowlet::New);
        table.record(slot, Time::ZERO, 3);
        assert_eq!(table.look_up(slot, GAP), Flowlet::Ongoing(3), "the gap itself does not end it");
        assert_eq!(table.look_up(slot, after(GAP, PS)), Flowlet::Expired(3));
        table.record(slot, GAP, 3);
        assert_eq!(table.look_up(slot, after(GAP, GAP)), Flowlet::Ongoing(3), "each packet extends it");
    }

    #[test]
    fn exact_entries_belong_to_one_direction_of_one_flow() {
        let mut table = Flowlets::<u16>::exact(GAP);
        let data = packet(5);
        let slot = table.slot(&data);
        table.record(slot, Time::ZERO, 3);
        let ack = PacketView { is_data: false, hash: 99, ..data };
        let of_ack = table.slot(&ack);
        assert_eq!(table.look_up(of_ack, Time::ZERO), Flowlet::New);
        table.record(of_ack, Time::ZERO, 4);
        assert_eq!(table.look_up(table.clone().slot(&data), Time::ZERO), Flowlet::Ongoing(3));
        // The flow ends and another takes its number.
        let successor = PacketView { hash: 1234, ..data };
        let slot = table.slot(&successor);
        assert_eq!(table.look_up(slot, Time::ZERO), Flowlet::New);
    }

    #[test]
    fn an_age_bit_ends_flowlets_between_one_gap_and_two() {
        for start_us in [0, 1, 37, 50, 99] {
            let mut table = Flowlets::<u32>::agebit(GAP, 64);
            let slot = table.slot(&packet(5));
            let start = Time::from_us(start_us);
            assert_eq!(table.look_up(slot, start), Flowlet::New);
            table.record(slot, start, 7);
            // Sweeps at 100 and 200 us: the second one finds the bit still set.
            let end = Time::from_us(200);
            assert_eq!(table.look_up(slot, Time::from_ps(end.as_ps() - 1)), Flowlet::Ongoing(7), "{start_us}");
            assert_eq!(table.look_up(slot, end), Flowlet::Expired(7), "{start_us}");
            let gap = end.saturating_sub(start);
            assert!(gap > GAP && gap <= after(GAP, GAP), "{start_us}");
        }
    }

    #[test]
    fn a_sweep_is_never_missed_however_late_the_next_packet() {
        let mut table = Flowlets::<u16>::agebit(GAP, 64);
        let slot = table.slot(&packet(5));
        table.record(slot, Time::from_us(10), 1);
        table.record(slot, Time::from_us(150), 1);
        assert_eq!(table.look_up(slot, Time::from_us(299)), Flowlet::Ongoing(1), "the second packet cleared the bit");
        assert_eq!(table.look_up(slot, Time::from_s(100)), Flowlet::Expired(1));
    }

    #[test]
    fn flows_that_collide_share_an_entry() {
        let mut one = Flowlets::<u16>::agebit(GAP, 1);
        let slot = one.slot(&packet(1));
        one.record(slot, Time::ZERO, 9);
        let other = one.slot(&packet(2));
        assert_eq!(one.look_up(other, Time::ZERO), Flowlet::Ongoing(9));
        // With room, 1000 flows in 65536 entries collide about 1000^2 / 2 / 65536 = 8 times.
        let mut many = Flowlets::<u16>::agebit(GAP, 65_536);
        let collisions = (0..1000)
            .filter(|flow| {
                let slot = many.slot(&packet(*flow));
                let is_taken = many.look_up(slot, Time::ZERO) != Flowlet::New;
                many.record(slot, Time::ZERO, 1);
                is_taken
            })
            .count();
        assert!((1..25).contains(&collisions), "{collisions}");
    }

    #[test]
    fn a_gap_of_zero_makes_every_later_packet_a_flowlet() {
        for mut table in [Flowlets::<u16>::exact(Time::ZERO), Flowlets::agebit(Time::ZERO, 16)] {
            let slot = table.slot(&packet(1));
            table.record(slot, Time::from_ns(1), 2);
            assert_eq!(table.look_up(slot, Time::from_ns(2)), Flowlet::Expired(2));
        }
    }
}
