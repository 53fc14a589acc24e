//! Processors of switches that forward in software: so many packets a second, one after the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::{BACKLOG, Engine};
use crate::network::Loss;

/// A packet that waits.
type Waiting = Reverse<(u64, u64, u32, u32)>;

/// See the module's documentation.
pub(crate) struct Backlog {
    /// Picoseconds a packet takes.
    each: u64,
    limit: u64,
    /// When the processor of each switch is free again.
    free_at: Vec<u64>,
    /// When each packet is done, in which order it came, the link it came on, and where it is.
    waiting: BinaryHeap<Waiting>,
    serial: u64,
}

impl Backlog {
    pub(crate) fn new(switches: usize, packets_per_s: u32, limit: u32) -> Backlog {
        Backlog {
            each: 1_000_000_000_000 / u64::from(packets_per_s.max(1)),
            limit: u64::from(limit),
            free_at: vec![0; switches],
            waiting: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// Takes a packet in; answers when it will have been handled, `None` where there is no room.
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
        if *at > now {
            return None;
        }
        self.waiting.pop().map(|Reverse((_, _, link, packet))| (link, packet))
    }
}

impl Engine<'_> {
    /// A packet came to a switch whose processor takes its time.
    pub(crate) fn hold_up(&mut self, link: u32, switch: u32, packet: u32) {
        let now = self.network.now;
        let Some(backlog) = &mut self.backlog else { return };
        match backlog.admit(now, switch, link, packet) {
            Some(at) => self.network.events.push(at, BACKLOG),
            None => self.lose(packet, Loss::Queue),
        }
    }

    /// Switches are done with packets.
    pub(crate) fn on_backlog(&mut self) {
        let now = self.network.now;
        while let Some((link, packet)) = self.backlog.as_mut().and_then(|backlog| backlog.take(now)) {
            let node = self.network.ports[link as usize].to;
            self.pass_switch(link, node, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_handled_one_after_the_other_and_no_more_than_so_many_wait() {
        let ms = 1_000_000_000;
        let mut backlog = Backlog::new(2, 1_000, 2);
        assert_eq!(backlog.admit(0, 0, 7, 1), Some(ms));
        assert_eq!(backlog.admit(0, 0, 7, 2), Some(2 * ms));
        assert_eq!(backlog.admit(0, 0, 7, 3), Some(3 * ms));
        assert_eq!(backlog.admit(0, 0, 7, 4), None, "one is in hand, two wait");
        assert_eq!(backlog.admit(0, 1, 8, 5), Some(ms), "another switch");
        assert_eq!(backlog.take(ms - 1), None);
        assert_eq!((backlog.take(ms), backlog.take(ms), backlog.take(ms)), (Some((7, 1)), Some((8, 5)), None));
        assert_eq!(backlog.admit(ms, 0, 7, 4), Some(4 * ms));
    }
}
