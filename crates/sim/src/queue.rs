//! The event queue: ordered by time and component, a wheel for links and a heap for the rest.
//!
//! A link has at most one pending event (its head packet reaching the far end). Buckets are opened
//! some events in advance: their events are sorted, and the memory that they need can be loaded.
//! Timers are few and far ahead; they go to a 4-ary heap. Components are numbers. Two events at one
//! time are handled in the order of their components, so the order never depends on the structure
//! of the queue.

mod buckets;

use std::cmp::Ordering;

use self::buckets::Buckets;

/// No event, no packet, no flow.
pub(crate) const NIL: u32 = u32::MAX;

/// Puts a value at a free place of a list, or at its end. Returns the place.
pub(crate) fn put_free<T>(list: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    let Some(place) = free.pop() else {
        list.push(value);
        return list.len() as u32 - 1;
    };
    list[place as usize] = value;
    place
}

/// Buckets of the wheel. 64 × 64, so that two count-trailing-zeros find the next occupied one.
const BUCKETS: u64 = 4096;
const MASK: u64 = BUCKETS - 1;
/// Number of events in the open buckets from which on no further bucket is opened.
const OPEN_MIN: usize = 24;
/// Maximum distance of open buckets. An event pushed into an open bucket must be inserted in order;
/// few are, because a packet takes longer than this part of the wheel to cross a link.
const OPEN_BUCKETS: u64 = BUCKETS / 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) time: u64,
    pub(crate) component: u32,
}

impl Event {
    /// An event after all others, which never happens.
    pub(crate) const NEVER: Event = Event { time: u64::MAX, component: u32::MAX };

    /// Time and component as one number, which is compared without a branch.
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.component)
    }
}

impl Ord for Event {
    #[inline]
    fn cmp(&self, other: &Event) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Event {
    #[inline]
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(crate) struct EventQueue {
    /// A bucket is `1 << shift` picoseconds wide.
    shift: u32,
    buckets: Buckets,
    occupied: [u64; 64],
    summary: u64,
    /// Absolute number of the last open bucket.
    cursor: u64,
    /// Link events of the open buckets, earliest first. Those before `first` have been taken.
    open: Vec<Event>,
    first: usize,
    far: Heap,
}

impl EventQueue {
    /// Creates a queue; components `0..link_count` are links. The wheel covers about `horizon_ps`.
    pub(crate) fn new(link_count: usize, is_large: bool, horizon_ps: u64) -> EventQueue {
        let width = (horizon_ps / BUCKETS).max(1);
        // The offset of an event in its bucket has 32 bits.
        let shift = (64 - width.leading_zeros()).min(u32::BITS);
        EventQueue {
            shift,
            buckets: Buckets::new(link_count, is_large, shift),
            occupied: [0; 64],
            summary: 0,
            cursor: 0,
            open: Vec::with_capacity(64),
            first: 0,
            far: Heap::new(),
        }
    }

    /// Schedules the one pending event of a link. Times must not precede the event last popped.
    #[inline(always)]
    pub(crate) fn push_link(&mut self, time: u64, link: u32) {
        let bucket = time >> self.shift;
        if bucket.wrapping_sub(self.cursor).wrapping_sub(1) >= BUCKETS - 1 {
            return self.push_outside(time, link);
        }
        let slot = (bucket & MASK) as usize;
        self.buckets.push(slot, time, link);
        self.occupied[slot >> 6] |= 1 << (slot & 63);
        self.summary |= 1 << (slot >> 6);
    }

    /// Schedules the event of a link in an open bucket, or beyond the wheel.
    #[inline(never)]
    fn push_outside(&mut self, time: u64, link: u32) {
        let event = Event { time, component: link };
        if time >> self.shift <= self.cursor {
            let at = self.first + self.open[self.first..].partition_point(|other| *other < event);
            self.open.insert(at, event);
        } else {
            self.far.push(event);
        }
    }

    /// Schedules any other event; a component may have several.
    #[inline]
    pub(crate) fn push(&mut self, time: u64, component: u32) {
        self.far.push(Event { time, component });
    }

    /// Takes the first event if it comes before `end`.
    #[inline(always)]
    pub(crate) fn pop_before(&mut self, end: Event) -> Option<Event> {
        loop {
            let far = self.far.top;
            if let Some(event) = self.open.get(self.first).copied() {
                if far < event {
                    return if far < end { self.far.pop() } else { None };
                }
                if event >= end {
                    return None;
                }
                self.first += 1;
                return Some(event);
            }
            if !self.open_buckets() {
                if far >= end {
                    return None;
                }
                let event = self.far.pop()?;
                self.cursor = self.cursor.max(event.time >> self.shift);
                return Some(event);
            }
        }
    }

    /// Returns the time of the first event, or `u64::MAX`.
    pub(crate) fn next_time(&mut self) -> u64 {
        if self.first == self.open.len() {
            self.open_buckets();
        }
        self.open.get(self.first).map_or(u64::MAX, |event| event.time).min(self.far.top.time)
    }

    /// Opens the next buckets: some events in advance, so that their memory can be loaded before it is
    /// needed. Returns whether there is one before the first event of the heap.
    #[inline]
    fn open_buckets(&mut self) -> bool {
        self.open.clear();
        self.first = 0;
        let Some(bucket) = self.next_bucket().filter(|bucket| self.far.top.time >> self.shift >= *bucket) else {
            return false;
        };
        self.open_bucket(bucket);
        while self.open.len() < OPEN_MIN {
            match self.next_bucket() {
                Some(next) if next - bucket < OPEN_BUCKETS => self.open_bucket(next),
                _ => break,
            }
        }
        true
    }

    /// Opens a further bucket if few events are left in the open ones, so that the events after the next
    /// one are known.
    #[inline]
    pub(crate) fn open_ahead(&mut self) {
        if self.open.len() - self.first < OPEN_MIN {
            self.open_further();
        }
    }

    #[inline(never)]
    fn open_further(&mut self) {
        let Some(event) = self.open.get(self.first) else { return };
        let bucket = event.time >> self.shift;
        if let Some(next) = self.next_bucket().filter(|next| next - bucket < OPEN_BUCKETS) {
            self.open.drain(..self.first);
            self.first = 0;
            self.open_bucket(next);
            if let Some(following) = self.next_bucket() {
                self.buckets.prefetch((following & MASK) as usize);
            }
        }
    }

    /// Returns the component of an event of the open buckets, by its distance from the next one.
    #[inline]
    pub(crate) fn upcoming(&self, distance: usize) -> Option<u32> {
        self.open.get(self.first + distance).map(|event| event.component)
    }

    /// Cancels the pending event of a link, if there is one. Slow; for faults only.
    pub(crate) fn cancel_link(&mut self, link: u32) {
        self.open.drain(..self.first);
        self.first = 0;
        self.open.retain(|event| event.component != link);
        self.far.remove(link);
        if let Some(slot) = self.buckets.cancel(link) {
            self.clear_bit(slot);
        }
    }

    /// Returns the absolute number of the next occupied bucket after the cursor.
    #[inline]
    fn next_bucket(&self) -> Option<u64> {
        if self.summary == 0 {
            return None;
        }
        let start = ((self.cursor + 1) & MASK) as usize;
        let (word, bit) = (start >> 6, start & 63);
        let here = self.occupied[word] & (!0u64 << bit);
        let slot = if here != 0 {
            (word << 6) + here.trailing_zeros() as usize
        } else {
            // Later words first, then from the start; `word` itself comes last, for its low bits.
            let later = self.summary & (!0u64).checked_shl(word as u32 + 1).unwrap_or(0);
            let word = if later != 0 { later } else { self.summary }.trailing_zeros() as usize;
            (word << 6) + self.occupied[word].trailing_zeros() as usize
        };
        Some(self.cursor + 1 + ((slot as u64).wrapping_sub(self.cursor + 1) & MASK))
    }

    /// Moves the cursor to `bucket`, and its events to `open`.
    #[inline]
    fn open_bucket(&mut self, bucket: u64) {
        let slot = (bucket & MASK) as usize;
        self.cursor = bucket;
        self.clear_bit(slot);
        self.buckets.open(slot, bucket << self.shift, &mut self.open);
    }

    fn clear_bit(&mut self, slot: usize) {
        self.occupied[slot >> 6] &= !(1 << (slot & 63));
        if self.occupied[slot >> 6] == 0 {
            self.summary &= !(1 << (slot >> 6));
        }
    }
}

/// A 4-ary min-heap: four children share a cache line, and the tree is half as deep as a binary.
struct Heap {
    /// The first event; [`Event::NEVER`] while the heap is empty.
    top: Event,
    events: Vec<Event>,
}

impl Heap {
    fn new() -> Heap {
        Heap { top: Event::NEVER, events: Vec::new() }
    }

    fn note_top(&mut self) {
        self.top = self.events.first().copied().unwrap_or(Event::NEVER);
    }

    fn push(&mut self, event: Event) {
        let mut at = self.events.len();
        self.events.push(event);
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.events[parent] <= event {
                break;
            }
            self.events[at] = self.events[parent];
            at = parent;
        }
        self.events[at] = event;
        self.note_top();
    }

    #[inline(never)]
    fn pop(&mut self) -> Option<Event> {
        let top = *self.events.first()?;
        let last = self.events.pop().expect("not empty");
        if !self.events.is_empty() {
            self.sift_down(0, last);
        }
        self.note_top();
        Some(top)
    }

    fn sift_down(&mut self, mut at: usize, event: Event) {
        let len = self.events.len();
        loop {
            let first = 4 * at + 1;
            if first >= len {
                break;
            }
            let mut smallest = first;
            for child in first + 1..(first + 4).min(len) {
                if self.events[child] < self.events[smallest] {
                    smallest = child;
                }
            }
            if self.events[smallest] >= event {
                break;
            }
            self.events[at] = self.events[smallest];
            at = smallest;
        }
        self.events[at] = event;
    }

    fn remove(&mut self, component: u32) {
        if self.events.iter().any(|event| event.component == component) {
            let kept: Vec<Event> = self.events.drain(..).filter(|event| event.component != component).collect();
            kept.into_iter().for_each(|event| self.push(event));
            self.note_top();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        /// Compares with a sorted set: links with one event each, timers, cancellations.
        #[test]
        fn order_is_that_of_a_sorted_set(
            operations in proptest::collection::vec((0u8..10, 0u32..20, 0u64..200_000), 1..400),
            horizon in 1u64..1_000_000,
            is_large in proptest::bool::ANY,
        ) {
            let mut queue = EventQueue::new(20, is_large, horizon);
            let mut model: BTreeSet<(u64, u32)> = BTreeSet::new();
            let mut now = 0;
            for (kind, component, delay) in operations {
                let pending = model.iter().find(|(_, c)| *c == component).copied();
                match kind {
                    0..4 if pending.is_none() => {
                        queue.push_link(now + delay, component);
                        model.insert((now + delay, component));
                    }
                    4..6 => {
                        let timer = (now + 7 * delay, 100 + component);
                        if model.insert(timer) {
                            queue.push(timer.0, timer.1);
                        }
                    }
                    6 => {
                        queue.cancel_link(component);
                        model.retain(|(_, c)| *c != component);
                    }
                    _ => {
                        if is_large {
                            queue.open_ahead();
                        }
                        let expected = model.pop_first();
                        let got = queue.pop_before(Event::NEVER).map(|event| (event.time, event.component));
                        proptest::prop_assert_eq!(got, expected);
                        now = got.map_or(now, |(time, _)| time);
                    }
                }
            }
            while let Some(expected) = model.pop_first() {
                proptest::prop_assert_eq!(queue.pop_before(Event::NEVER).map(|event| (event.time, event.component)), Some(expected));
            }
            proptest::prop_assert!(queue.pop_before(Event::NEVER).is_none());
        }
    }
}
