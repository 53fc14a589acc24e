//! Processors of switches that forward in software: a limited number of packets per second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::{Engine, SWITCH_CPU};
use crate::links::network::Loss;

/// A waiting packet: completion time, order of arrival, input link, packet.
type Waiting = Reverse<(u64, u64, u32, u32)>;

pub(crate) struct SwitchCpuQueue {
    /// Processing time of a packet, picoseconds.
    each: u64,
    limit: u64,
    free_at: Vec<u64>,
    waiting: BinaryHeap<Waiting>,
    serial: u64,
}

impl SwitchCpuQueue {
    pub(crate) fn new(switches: usize, packets_per_s: u32, limit: u32) -> SwitchCpuQueue {
        SwitchCpuQueue {
            each: 1_000_000_000_000 / u64::from(packets_per_s.max(1)),
            limit: u64::from(limit),
            free_at: vec![0; switches],
            waiting: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// Queues a packet. Returns when it will have been handled, or `None` if the queue is full.
    fn admit(&mut self, now: u64, switch: u32, link: u32, packet: u32) -> Option<u64> {
        let free_at = &mut self.free_at[switch as usize];
        let begins = now.max(*free_at);
        if (begins - now).div_ceil(self.each) > self.limit {
            return None;
        }
        *free_at = begins + self.each;
        self.serial += 1;
        self.waiting.push(Reverse((*free_at, self.serial, link, packet)));
        Some(*free_at)
    }

    fn take(&mut self, now: u64) -> Option<(u32, u32)> {
        let Reverse((at, ..)) = self.waiting.peek()?;
        if *at > now { None } else { self.waiting.pop().map(|Reverse((_, _, link, packet))| (link, packet)) }
    }
}

impl Engine<'_> {
    pub(crate) fn enqueue_for_cpu(&mut self, link: u32, switch: u32, packet: u32) {
        let now = self.network.now;
        let Some(switch_cpu) = &mut self.switch_cpu else { return };
        match switch_cpu.admit(now, switch, link, packet) {
            Some(at) => self.network.events.push(at, SWITCH_CPU),
            None => self.lose(packet, Loss::Queue),
        }
    }

    pub(crate) fn on_switch_cpu(&mut self) {
        let now = self.network.now;
        while let Some((link, packet)) = self.switch_cpu.as_mut().and_then(|switch_cpu| switch_cpu.take(now)) {
            let node = self.network.ports[link as usize].to;
            self.pass_switch(link, node, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_queue_serves_in_order_and_drops_when_full() {
        let ms = 1_000_000_000;
        let mut switch_cpu = SwitchCpuQueue::new(2, 1_000, 2);
        assert_eq!(switch_cpu.admit(0, 0, 7, 1), Some(ms));
        assert_eq!(switch_cpu.admit(0, 0, 7, 2), Some(2 * ms));
        assert_eq!(switch_cpu.admit(0, 0, 7, 3), Some(3 * ms));
        assert_eq!(switch_cpu.admit(0, 0, 7, 4), None, "one in service, two waiting");
        assert_eq!(switch_cpu.admit(0, 1, 8, 5), Some(ms), "another switch");
        assert_eq!(switch_cpu.take(ms - 1), None);
        assert_eq!((switch_cpu.take(ms), switch_cpu.take(ms), switch_cpu.take(ms)), (Some((7, 1)), Some((8, 5)), None));
        assert_eq!(switch_cpu.admit(ms, 0, 7, 4), Some(4 * ms));
    }
}
