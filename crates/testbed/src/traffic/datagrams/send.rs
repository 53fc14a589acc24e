//! Senders: one thread sends the packets of all flows, each when it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use net::RandomStream;

use super::header::{Header, LENGTH};
use crate::clock::now_ns;
use crate::traffic::namespace::prioritise_this_thread;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Range of rates, packets per second. A rate is drawn for every packet, as in D-ITG.
    pub min_per_s: f64,
    pub max_per_s: f64,
    /// Minimum time between two packets, nanoseconds: the transmission time of a packet on the sender's link. A faster
    /// sender would only lose packets in its queue.
    pub floor_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SendPlan {
    /// Position in the list of flows.
    pub flow: u32,
    /// Numbers of the sending and the receiving host.
    pub src: usize,
    pub dst: usize,
    pub to: Ipv4Addr,
    pub src_port: u16,
    /// Payload of a full packet, bytes.
    pub payload: usize,
    pub size_bytes: u64,
    /// Due time of the first packet, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub gap: Gap,
}

impl SendPlan {
    pub fn packets(&self) -> u64 {
        self.size_bytes.div_ceil(self.payload as u64)
    }

    /// Returns the payload of a packet. The last packet may be shorter, but not shorter than its
    /// header.
    fn bytes_of(&self, sequence: u64) -> usize {
        let left = self.size_bytes - sequence * self.payload as u64;
        (left.min(self.payload as u64) as usize).max(LENGTH)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub packets: u64,
    /// Sending time of the first packet, nanoseconds of CLOCK_MONOTONIC; 0 for never.
    pub first_ns: u64,
    pub is_all: bool,
}

/// Sends until everything is sent, the run ends or `stop` is set.
pub(super) fn send_all(
    flows: Vec<(SendPlan, UdpSocket)>,
    end_ns: u64,
    stop: &AtomicBool,
    progress: &[AtomicU64],
) -> Vec<(usize, Sent)> {
    prioritise_this_thread();
    let mut due: BinaryHeap<Reverse<(u64, usize)>> =
        flows.iter().enumerate().map(|(at, (flow, _))| Reverse((flow.start_ns, at))).collect();
    let mut sent = vec![Sent::default(); flows.len()];
    let mut draws: Vec<RandomStream> =
        flows.iter().map(|(flow, _)| RandomStream::new(u64::from(flow.flow), "gap")).collect();
    let longest = flows.iter().map(|(flow, _)| flow.payload).max().unwrap_or(0).max(LENGTH);
    let mut payload = vec![0; longest];
    while let Some(Reverse((when, at))) = due.pop() {
        let (flow, socket) = &flows[at];
        if when >= end_ns || !wait_until(when, stop) {
            continue;
        }
        let now = now_ns();
        let bytes = flow.bytes_of(sent[at].packets);
        Header { flow: flow.flow, sequence: sent[at].packets, sent_ns: now }.write(&mut payload[..bytes]);
        // A full socket buffer loses no packet: the packet is sent at the next turn of the flow.
        if socket.send(&payload[..bytes]).is_ok() {
            if sent[at].packets == 0 {
                sent[at].first_ns = now;
            }
            sent[at].packets += 1;
            progress[flow.flow as usize].fetch_add(bytes as u64, Ordering::Relaxed);
        }
        sent[at].is_all = sent[at].packets == flow.packets();
        if !sent[at].is_all {
            let gap = flow.gap;
            let per_s = gap.min_per_s + (gap.max_per_s - gap.min_per_s) * draws[at].next_f64();
            let gap_ns = ((1e9 / per_s) as u64).max(gap.floor_ns).max(1);
            // A sender that was kept from the processor catches up by at most four packets, to
            // avoid bursts.
            due.push(Reverse(((when + gap_ns).max(now.saturating_sub(4 * gap_ns)), at)));
        }
    }
    flows.iter().zip(sent).map(|((flow, _), sent)| (flow.flow as usize, sent)).collect()
}

/// Waits until a time. Returns whether to continue.
fn wait_until(when: u64, stop: &AtomicBool) -> bool {
    loop {
        let now = now_ns();
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        if now >= when {
            return true;
        }
        thread::sleep(Duration::from_nanos((when - now).min(20_000_000)));
    }
}
