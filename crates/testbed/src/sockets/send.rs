//! Senders: one thread that sends the packets of all flows, each when it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use net::Stream;

use super::header::{Header, LENGTH};
use crate::clock::now_ns;

/// Time between two packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Least rate asked for, packets per second.
    pub min_per_s: f64,
    /// Greatest; another one is drawn for every packet, as D-ITG does.
    pub max_per_s: f64,
    /// Least gap, nanoseconds: what the sender's link takes for a packet, since a faster sender only loses them in its own queue.
    pub floor_ns: u64,
}

/// One flow to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SendPlan {
    /// Position in the list.
    pub flow: u32,
    /// Sending host, by its number.
    pub src: usize,
    /// Receiving host, by its number.
    pub dst: usize,
    /// Its address.
    pub to: Ipv4Addr,
    /// Port it sends from: another one for every flow of a host.
    pub src_port: u16,
    /// Payload of a full packet, bytes.
    pub payload: usize,
    /// Payload of all, bytes.
    pub size_bytes: u64,
    /// When the first is due, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Pace.
    pub gap: Gap,
}

impl SendPlan {
    /// Packets in all.
    pub fn packets(&self) -> u64 {
        self.size_bytes.div_ceil(self.payload as u64)
    }

    /// Payload of a packet; the last one may be shorter, but never than its header.
    fn bytes_of(&self, sequence: u64) -> usize {
        let left = self.size_bytes - sequence * self.payload as u64;
        (left.min(self.payload as u64) as usize).max(LENGTH)
    }
}

/// What was sent of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub packets: u64,
    pub first_ns: u64,
    pub is_all: bool,
}

/// Lets this thread run before all ordinary work: pacing is the one thing here that cannot be made up for later. Where it is not
/// allowed to, it paces as well as it can.
fn prefer_this_thread() {
    let thread = nix::unistd::gettid().to_string();
    let mut chrt = Command::new("chrt");
    let _ = chrt.args(["--rr", "--pid", "1", &thread]).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Sends until everything is sent, the end has come or it is told to stop.
pub(super) fn send_all(
    flows: Vec<(SendPlan, UdpSocket)>,
    end_ns: u64,
    stop: &AtomicBool,
    progress: &[AtomicU64],
) -> Vec<(usize, Sent)> {
    prefer_this_thread();
    let mut due: BinaryHeap<Reverse<(u64, usize)>> =
        flows.iter().enumerate().map(|(at, (flow, _))| Reverse((flow.start_ns, at))).collect();
    let mut sent = vec![Sent::default(); flows.len()];
    let mut draws: Vec<Stream> = flows.iter().map(|(flow, _)| Stream::new(u64::from(flow.flow), "gap")).collect();
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
        // A full socket buffer is no loss: the packet is sent when its turn comes again.
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
            let per_s = gap.min_per_s + (gap.max_per_s - gap.min_per_s) * draws[at].unit();
            let gap_ns = ((1e9 / per_s) as u64).max(gap.floor_ns).max(1);
            // Whoever was kept from the processor catches up by no more than a few packets: bursts are not what was asked for.
            due.push(Reverse(((when + gap_ns).max(now.saturating_sub(4 * gap_ns)), at)));
        }
    }
    flows.iter().zip(sent).map(|((flow, _), sent)| (flow.flow as usize, sent)).collect()
}

/// Waits; answers whether to go on.
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
