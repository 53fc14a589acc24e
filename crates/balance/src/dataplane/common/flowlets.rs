//! The flowlet table (mechanisms.md §1.2): the path or link of each flow's current burst.
//!
//! - `exact`: an entry per flow; a flowlet ends after an idle time longer than the gap T.
//! - `agebit`: the hardware form of CONGA (SIGCOMM 2014, section 3.4). A fixed number of hashed
//!   entries, each with one age bit. A packet clears the bit; a sweep every T sets it and ends the
//!   flowlets where it is already set, so that the effective gap lies between T and 2T. Flows that
//!   hash to one entry share it.
//!
//! No timer is used: missed sweeps are applied when an entry is read. A packet of epoch k = floor(t
//! / T) survives the sweep at (k+1)T with its bit set and falls to the one at (k+2)T. An entry is
//! therefore valid while the epoch of the last packet is this one or the one before.

use net::routes::ClassIx;
use net::{LinkIx, Time};

use super::paths::is_live;
use super::{FlowTable, Utilisations};
use crate::dataplane::{Arrival, Cx, Delivery, EdgeBalancer, EdgeEnv, EdgeHooks, PacketView, Paths, Scale};
use crate::hash::{mix, reduce};
use crate::params::{Param, Params};

/// The parameter that selects the form of the table.
pub const MODE: Param = Param::choice("gap_mode", &["exact", "agebit"], "agebit")
    .doc("Flowlet table: one exact entry per flow, or hashed entries with an age bit (gaps of 1 to 2 times `gap`).");

/// The parameter for the size of the hashed form.
pub const ENTRIES: Param = Param::count("entries", 1..=1 << 24, "65536")
    .doc("Entries of the hashed flowlet table; only with gap_mode=agebit.");

/// The state of the flowlet that a packet would continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flowlet<T> {
    /// The packet belongs to a flowlet that uses this value.
    Ongoing(T),
    /// The packet starts a flowlet; the previous one used this value.
    Expired(T),
    /// The entry was never used.
    New,
}

/// An entry found by [`Flowlets::slot`]; valid until the next call of it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Flow number and direction, or position in the hashed table.
    index: u32,
    hash: u64,
}

/// A flowlet table that stores a `T` for every flowlet: a path number, a link.
#[derive(Clone, Debug)]
pub struct Flowlets<T> {
    gap_ps: u64,
    form: Form<T>,
}

#[derive(Clone, Debug)]
enum Form<T> {
    /// By twice the flow number, plus one without data: a switch forwards both directions.
    Exact(FlowTable<Exact<T>>),
    AgeBit(AgeBit<T>),
}

#[derive(Clone, Copy, Debug)]
struct Exact<T> {
    /// Distinguishes a flow from an earlier one of the same number.
    hash: u64,
    /// Time of the last packet; [`NEVER`] before the first one.
    last_ps: u64,
    value: T,
}

const NEVER: u64 = u64::MAX;

impl<T: Default> Default for Exact<T> {
    fn default() -> Exact<T> {
        Exact { hash: 0, last_ps: NEVER, value: T::default() }
    }
}

/// Two arrays of numbers: a table of zeroes uses memory only for entries in use.
#[derive(Clone, Debug)]
struct AgeBit<T> {
    /// Epoch of the last packet with [`IN_USE`]; 0 before the first one.
    epochs: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy + Default> Flowlets<T> {
    /// Makes a table of exact entries, one per flow.
    pub fn exact(gap: Time) -> Flowlets<T> {
        Flowlets { gap_ps: gap.as_ps(), form: Form::Exact(FlowTable::new()) }
    }

    /// Makes a table of `entries` hashed entries with an age bit; at least one.
    pub fn agebit(gap: Time, entries: usize) -> Flowlets<T> {
        let entries = entries.max(1);
        let form = AgeBit { epochs: vec![0; entries], values: vec![T::default(); entries] };
        Flowlets { gap_ps: gap.as_ps(), form: Form::AgeBit(form) }
    }

    /// Makes a table from the parameters `gap`, [`MODE`] and [`ENTRIES`].
    pub fn from_params(params: &Params, scale: &Scale) -> Flowlets<T> {
        Flowlets::with_gap(params.scaled("gap", scale), params)
    }

    /// Makes a table with this gap from the parameters [`MODE`] and [`ENTRIES`].
    pub fn with_gap(gap: Time, params: &Params) -> Flowlets<T> {
        match params.text(MODE.name) {
            "exact" => Flowlets::exact(gap),
            _ => Flowlets::agebit(gap, params.count(ENTRIES.name) as usize),
        }
    }

    /// Returns the entry of a packet's flowlet.
    #[inline]
    pub fn slot(&mut self, packet: &PacketView) -> Slot {
        let index = match &self.form {
            Form::Exact(_) => 2 * packet.flow + u32::from(!packet.is_data),
            // Mixed once more: switches on the path may have spread packets by the same hash.
            Form::AgeBit(table) => reduce(mix(packet.hash ^ 0x666c_6f77_6c65_7473), table.epochs.len()) as u32,
        };
        Slot { index, hash: packet.hash }
    }

    #[inline]
    pub fn look_up(&mut self, slot: Slot, now: Time) -> Flowlet<T> {
        let gap_ps = self.gap_ps;
        self.look_up_within(slot, now, |_| gap_ps)
    }

    /// Looks up a flowlet whose gap, in picoseconds, depends on its value. The gap of the table is
    /// the smallest one. With age bits it is the time between two sweeps, and an entry falls to the
    /// first sweep that finds it idle for its gap.
    #[inline]
    pub fn look_up_within(&mut self, slot: Slot, now: Time, gap_ps: impl FnOnce(T) -> u64) -> Flowlet<T> {
        match &mut self.form {
            Form::Exact(entries) => {
                let entry = *entries.slot(slot.index);
                if entry.last_ps == NEVER || entry.hash != slot.hash {
                    Flowlet::New
                } else if now.as_ps().saturating_sub(entry.last_ps) > gap_ps(entry.value) {
                    Flowlet::Expired(entry.value)
                } else {
                    Flowlet::Ongoing(entry.value)
                }
            }
            Form::AgeBit(table) => {
                let index = slot.index as usize;
                let (stored, value) = (table.epochs[index], table.values[index]);
                if stored == 0 {
                    return Flowlet::New;
                }
                let epochs = epoch(now, self.gap_ps).wrapping_sub(stored) & !IN_USE;
                // The whole intervals in between are the idle time that is certain.
                if epochs <= 1 || u64::from(epochs - 1).saturating_mul(self.gap_ps) < gap_ps(value) {
                    Flowlet::Ongoing(value)
                } else {
                    Flowlet::Expired(value)
                }
            }
        }
    }

    /// Records that a packet uses `value` at `now`: its flowlet lasts at least one more gap.
    #[inline]
    pub fn record(&mut self, slot: Slot, now: Time, value: T) {
        match &mut self.form {
            Form::Exact(entries) => {
                *entries.slot(slot.index) = Exact { hash: slot.hash, last_ps: now.as_ps(), value };
            }
            Form::AgeBit(table) => {
                table.epochs[slot.index as usize] = epoch(now, self.gap_ps);
                table.values[slot.index as usize] = value;
            }
        }
    }
}

impl Flowlets<u32> {
    /// Returns the position in `links` of the link of a packet's flowlet; `pick` chooses that of one which
    /// starts, or whose link is gone. Links keep their numbers when others fail.
    #[inline]
    pub fn position(
        &mut self,
        now: Time,
        packet: &PacketView,
        links: &[LinkIx],
        pick: impl FnOnce() -> usize,
    ) -> usize {
        let slot = self.slot(packet);
        let ongoing = match self.look_up(slot, now) {
            Flowlet::Ongoing(link) => links.iter().position(|member| member.0 == link),
            Flowlet::Expired(_) | Flowlet::New => None,
        };
        let position = ongoing.unwrap_or_else(pick);
        self.record(slot, now, links[position].0);
        position
    }
}

/// Marks entries in use; the rest of the number wraps, after 2^31 intervals.
const IN_USE: u32 = 1 << 31;

/// Returns the number of the interval between two sweeps, with [`IN_USE`].
#[inline]
fn epoch(now: Time, gap_ps: u64) -> u32 {
    // A gap of zero makes every packet a flowlet: sweeps at every instant.
    (now.as_ps() / gap_ps.max(1)) as u32 | IN_USE
}

/// The signal by which an edge picks the paths of flowlets.
pub trait Signal: Send {
    /// Returns the path of a flowlet that starts now; `last` is that of the flow's previous one.
    fn pick(&mut self, cx: &mut Cx<'_>, packet: &PacketView, live: &[u16], last: Option<u16>) -> u16;
    /// Returns whether packets carry headers.
    fn has_overlay(&self) -> bool {
        true
    }
    /// Returns the utilisations that headers carry, if they carry nothing else.
    fn utilisations(&mut self) -> Option<&mut Utilisations> {
        None
    }
    /// Returns the header of a packet to `to`.
    fn header(&mut self, now: Time, to: ClassIx) -> u32 {
        self.utilisations().map_or(0, |utilisations| utilisations.header(now, to))
    }
    /// Handles a packet with a header.
    fn arrived(&mut self, now: Time, _packet: &PacketView, arrival: &Arrival) -> Delivery {
        if let Some(utilisations) = self.utilisations() {
            utilisations.arrived(now, arrival);
        }
        Delivery::Pass
    }
}

/// An edge that picks a path for each flowlet.
pub struct FlowletEdge<S> {
    flowlets: Flowlets<u16>,
    signal: S,
}

impl<S: Signal + 'static> FlowletEdge<S> {
    /// Makes an edge with the flowlet table of the parameters.
    pub fn boxed(env: &EdgeEnv<'_>, params: &Params, signal: S) -> Box<dyn EdgeBalancer> {
        Box::new(FlowletEdge { flowlets: Flowlets::from_params(params, &env.scale), signal })
    }
}

impl<S: Signal> EdgeBalancer for FlowletEdge<S> {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let slot = self.flowlets.slot(packet);
        let path = match self.flowlets.look_up(slot, cx.now) {
            Flowlet::Ongoing(path) if is_live(paths.live, path) => path,
            Flowlet::Ongoing(last) | Flowlet::Expired(last) => self.signal.pick(cx, packet, paths.live, Some(last)),
            Flowlet::New => self.signal.pick(cx, packet, paths.live, None),
        };
        self.flowlets.record(slot, cx.now, path);
        path
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { overlay: self.signal.has_overlay(), ..EdgeHooks::default() }
    }

    fn encapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, _: u16) -> u32 {
        self.signal.header(cx.now, packet.to)
    }

    fn decapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, arrival: &Arrival) -> Delivery {
        self.signal.arrived(cx.now, packet, arrival)
    }
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
    fn sweep_is_applied_after_any_delay() {
        let mut table = Flowlets::<u16>::agebit(GAP, 64);
        let slot = table.slot(&packet(5));
        table.record(slot, Time::from_us(10), 1);
        table.record(slot, Time::from_us(150), 1);
        assert_eq!(table.look_up(slot, Time::from_us(299)), Flowlet::Ongoing(1), "the second packet cleared the bit");
        assert_eq!(table.look_up(slot, Time::from_s(100)), Flowlet::Expired(1));
    }

    #[test]
    fn an_entry_with_a_longer_gap_survives_sweeps_until_it_was_idle_for_that_gap() {
        // Sweeps every 100 us. A packet at 10 us is certainly idle for 250 us at the sweep of 400 us.
        for (gap_us, end_us) in [(1, 200), (100, 200), (101, 300), (200, 300), (250, 400), (1_000, 1_100)] {
            let mut table = Flowlets::<u16>::agebit(GAP, 64);
            let slot = table.slot(&packet(5));
            table.record(slot, Time::from_us(10), 3);
            let mut at = |ps| table.look_up_within(slot, Time::from_ps(ps), |_| Time::from_us(gap_us).as_ps());
            let end = Time::from_us(end_us).as_ps();
            assert_eq!(at(end - 1), Flowlet::Ongoing(3), "{gap_us}");
            assert_eq!(at(end), Flowlet::Expired(3), "{gap_us}");
        }
    }

    #[test]
    fn flows_that_collide_share_an_entry() {
        let mut one = Flowlets::<u16>::agebit(GAP, 1);
        let slot = one.slot(&packet(1));
        one.record(slot, Time::ZERO, 9);
        let other = one.slot(&packet(2));
        assert_eq!(one.look_up(other, Time::ZERO), Flowlet::Ongoing(9));
        // 1000 flows in 65536 entries collide about 1000^2 / 2 / 65536 = 8 times.
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
