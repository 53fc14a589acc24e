//! The next event of each flow: a binary heap with positions, so that a flow has one entry.

/// Position of a flow without an event.
const ABSENT: u32 = u32::MAX;

/// Times of events by flow number. Equal times are in the order of the numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowEvents {
    heap: Vec<u32>,
    position: Vec<u32>,
    time: Vec<u64>,
}

impl FlowEvents {
    /// Returns the earliest event: its time and its flow.
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().map(|flow| (self.time[*flow as usize], *flow))
    }

    /// Sets the time of the only event of a flow.
    pub(super) fn set(&mut self, flow: u32, time: u64) {
        let ix = flow as usize;
        if self.position.len() <= ix {
            self.position.resize(ix + 1, ABSENT);
            self.time.resize(ix + 1, 0);
        }
        let before = std::mem::replace(&mut self.time[ix], time);
        if self.position[ix] == ABSENT {
            self.heap.push(flow);
            self.position[ix] = self.heap.len() as u32 - 1;
            self.rise(self.heap.len() - 1);
        } else if time < before {
            self.rise(self.position[ix] as usize);
        } else {
            self.sink(self.position[ix] as usize);
        }
    }

    /// Removes the event of a flow, if it has one.
    pub(super) fn remove(&mut self, flow: u32) {
        let Some(at) = self.position.get(flow as usize).copied().filter(|at| *at != ABSENT) else { return };
        self.position[flow as usize] = ABSENT;
        let at = at as usize;
        let Some(last) = self.heap.pop().filter(|last| *last != flow) else { return };
        self.place(at, last);
        self.rise(at);
        self.sink(self.position[last as usize] as usize);
    }

    fn key(&self, at: usize) -> (u64, u32) {
        (self.time[self.heap[at] as usize], self.heap[at])
    }

    fn place(&mut self, at: usize, flow: u32) {
        self.heap[at] = flow;
        self.position[flow as usize] = at as u32;
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (first, second) = (self.heap[a], self.heap[b]);
        self.place(a, second);
        self.place(b, first);
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.key(at) < self.key((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|child| self.key(*child)) else { return };
            if self.key(at) <= self.key(child) {
                return;
            }
            self.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        /// Compares with a sorted set under any sequence of changes.
        #[test]
        fn flow_events_are_a_sorted_set(changes in proptest::collection::vec((0u32..40, 0u64..30, 0u8..4), 1..400)) {
            let (mut events, mut set) = (FlowEvents::default(), BTreeSet::<(u64, u32)>::new());
            for (flow, time, kind) in changes {
                set.retain(|(_, other)| *other != flow);
                if kind == 0 {
                    events.remove(flow);
                } else {
                    events.set(flow, time);
                    set.insert((time, flow));
                }
                proptest::prop_assert_eq!(events.first(), set.first().copied());
            }
        }
    }
}
