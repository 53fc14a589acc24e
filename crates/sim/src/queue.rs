//! The event queue: ordered by time and component, a wheel for links and a heap for the rest.
//!
//! A link has at most one pending event (its head packet reaching the far end), so links sit in the
//! wheel as intrusive lists without allocation. Timers are few and far ahead; they go to a 4-ary
//! heap. Components are numbers. Two events at one time are handled in the order of their
//! components, so the order never depends on the structure of the queue.

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

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Event {
    pub(crate) time: u64,
    pub(crate) component: u32,
}

#[derive(Clone, Copy)]
struct Pending {
    time: u64,
    next: u32,
}

pub(crate) struct EventQueue {
    /// A bucket is `1 << shift` picoseconds wide.
    shift: u32,
    heads: Vec<u32>,
    occupied: [u64; 64],
    summary: u64,
    links: Vec<Pending>,
    /// Absolute number of the bucket last opened.
    cursor: u64,
    /// Link events of bucket `cursor`, latest first.
    open: Vec<Event>,
    far: Heap,
}

impl EventQueue {
    /// Creates a queue; components `0..link_count` are links. The wheel covers about `horizon_ps`.
    pub(crate) fn new(link_count: usize, horizon_ps: u64) -> EventQueue {
        let width = (horizon_ps / BUCKETS).max(1);
        EventQueue {
            shift: 64 - width.leading_zeros(),
            heads: vec![NIL; BUCKETS as usize],
            occupied: [0; 64],
            summary: 0,
            links: vec![Pending { time: 0, next: NIL }; link_count],
            cursor: 0,
            open: Vec::with_capacity(64),
            far: Heap::default(),
        }
    }

    /// Schedules the one pending event of a link. Times must not precede the event last popped.
    #[inline]
    pub(crate) fn push_link(&mut self, time: u64, link: u32) {
        let bucket = time >> self.shift;
        if bucket <= self.cursor {
            let event = Event { time, component: link };
            let at = self.open.partition_point(|e| *e > event);
            self.open.insert(at, event);
        } else if bucket - self.cursor < BUCKETS {
            let slot = (bucket & MASK) as usize;
            self.links[link as usize] = Pending { time, next: self.heads[slot] };
            self.heads[slot] = link;
            self.occupied[slot >> 6] |= 1 << (slot & 63);
            self.summary |= 1 << (slot >> 6);
        } else {
            self.far.push(Event { time, component: link });
        }
    }

    /// Schedules any other event; a component may have several.
    #[inline]
    pub(crate) fn push(&mut self, time: u64, component: u32) {
        self.far.push(Event { time, component });
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        loop {
            let far = self.far.top();
            if let Some(event) = self.open.last() {
                if far.is_some_and(|far| far < *event) {
                    return self.far.pop();
                }
                return self.open.pop();
            }
            let Some(bucket) = self.next_bucket() else {
                let event = self.far.pop()?;
                self.cursor = self.cursor.max(event.time >> self.shift);
                return Some(event);
            };
            if let Some(far) = far
                && far.time >> self.shift < bucket
            {
                self.cursor = self.cursor.max(far.time >> self.shift);
                return self.far.pop();
            }
            if let Some(only) = self.open_bucket(bucket) {
                if far.is_none_or(|far| only < far) {
                    return Some(only);
                }
                self.open.push(only);
            }
        }
    }

    /// Cancels the pending event of a link, if there is one. Slow; for faults only.
    pub(crate) fn cancel_link(&mut self, link: u32) {
        self.open.retain(|event| event.component != link);
        self.far.remove(link);
        for slot in 0..BUCKETS as usize {
            let mut at = self.heads[slot];
            if at == link {
                self.heads[slot] = self.links[link as usize].next;
                if self.heads[slot] == NIL {
                    self.clear_bit(slot);
                }
                return;
            }
            while at != NIL {
                let next = self.links[at as usize].next;
                if next == link {
                    self.links[at as usize].next = self.links[link as usize].next;
                    return;
                }
                at = next;
            }
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

    /// Moves the cursor to `bucket`. Returns a single event; sorts several into `open`.
    #[inline]
    fn open_bucket(&mut self, bucket: u64) -> Option<Event> {
        let slot = (bucket & MASK) as usize;
        self.cursor = bucket;
        let mut link = self.heads[slot];
        self.heads[slot] = NIL;
        self.clear_bit(slot);
        let first = self.links[link as usize];
        if first.next == NIL {
            return Some(Event { time: first.time, component: link });
        }
        while link != NIL {
            let Pending { time, next } = self.links[link as usize];
            self.open.push(Event { time, component: link });
            link = next;
        }
        self.open.sort_unstable_by(|a, b| b.cmp(a));
        None
    }

    fn clear_bit(&mut self, slot: usize) {
        self.occupied[slot >> 6] &= !(1 << (slot & 63));
        if self.occupied[slot >> 6] == 0 {
            self.summary &= !(1 << (slot >> 6));
        }
    }
}

/// A 4-ary min-heap: four children share a cache line, and the tree is half as deep as a binary.
#[derive(Default)]
struct Heap(Vec<Event>);

impl Heap {
    fn top(&self) -> Option<Event> {
        self.0.first().copied()
    }

    fn push(&mut self, event: Event) {
        let mut at = self.0.len();
        self.0.push(event);
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.0[parent] <= event {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = event;
    }

    fn pop(&mut self) -> Option<Event> {
        let top = *self.0.first()?;
        let last = self.0.pop().expect("not empty");
        if !self.0.is_empty() {
            self.sift_down(0, last);
        }
        Some(top)
    }

    fn sift_down(&mut self, mut at: usize, event: Event) {
        let len = self.0.len();
        loop {
            let first = 4 * at + 1;
            if first >= len {
                break;
            }
            let mut smallest = first;
            for child in first + 1..(first + 4).min(len) {
                if self.0[child] < self.0[smallest] {
                    smallest = child;
                }
            }
            if self.0[smallest] >= event {
                break;
            }
            self.0[at] = self.0[smallest];
            at = smallest;
        }
        self.0[at] = event;
    }

    fn remove(&mut self, component: u32) {
        if self.0.iter().any(|event| event.component == component) {
            let kept: Vec<Event> = self.0.drain(..).filter(|event| event.component != component).collect();
            kept.into_iter().for_each(|event| self.push(event));
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
        ) {
            let mut queue = EventQueue::new(20, horizon);
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
                        let expected = model.pop_first();
                        let got = queue.pop().map(|event| (event.time, event.component));
                        proptest::prop_assert_eq!(got, expected);
                        now = got.map_or(now, |(time, _)| time);
                    }
                }
            }
            while let Some(expected) = model.pop_first() {
                proptest::prop_assert_eq!(queue.pop().map(|event| (event.time, event.component)), Some(expected));
            }
            proptest::prop_assert!(queue.pop().is_none());
        }
    }
}
