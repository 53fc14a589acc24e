//! UDP flows over sockets in the namespaces of hosts: paced senders, and receivers that count every
//! packet.
//!
//! One process holds the sockets of all hosts. A socket belongs to the namespace in which it was
//! created, so a thread only enters the namespace, creates the sockets and ends.

mod header;
mod receive;
mod send;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use crate::clock::now_ns;
use crate::error::Result;
use crate::traffic::PORT;
use crate::traffic::namespace::{HostAt, run_in_namespace};

pub use receive::{DeliveryGap, Received};
pub use send::{Gap, SendPlan, Sent};

/// Minimum payload of a packet, bytes: its number and sending time.
pub const PAYLOAD_MIN: usize = header::LENGTH;

/// The port of the discard protocol, which no host runs.
const DISCARD: u16 = 9;

/// Receive buffer, for the time that a busy machine keeps a receiver from its processor.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub sent: Sent,
    pub received: Received,
}

/// Open sockets: receivers listen, senders wait.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    states: Vec<Arc<Mutex<Vec<Received>>>>,
    receivers: Vec<JoinHandle<()>>,
    senders: Vec<(SendPlan, UdpSocket)>,
    progress: Arc<[AtomicU64]>,
}

impl Traffic {
    /// Creates the sockets of all flows. Packets that arrive after `end_ns` count as in flight.
    pub fn prepare(hosts: &[HostAt], flows: &[SendPlan], end_ns: u64) -> Result<Traffic> {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut states, mut receivers, mut senders) = (Vec::new(), Vec::new(), Vec::new());
        for (number, host) in hosts.iter().enumerate() {
            let state = Arc::new(Mutex::new(vec![Received::default(); flows.len()]));
            let sources: Vec<&SendPlan> = flows.iter().filter(|flow| flow.src == number).collect();
            let is_receiver = flows.iter().any(|flow| flow.dst == number);
            let sockets = run_in_namespace(*host, || open_sockets(*host, is_receiver, &sources))?;
            if let Some(socket) = sockets.receiver {
                let (state, stop) = (Arc::clone(&state), Arc::clone(&stop));
                receivers.push(thread::spawn(move || receive::listen(&socket, &state, &stop, end_ns)));
            }
            senders.extend(sources.into_iter().copied().zip(sockets.senders));
            states.push(state);
        }
        let progress = flows.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Traffic { stop, states, receivers, senders, progress })
    }

    /// Returns the payload bytes sent so far of each flow, which [`Traffic::run`] updates.
    pub fn progress(&self) -> Arc<[AtomicU64]> {
        Arc::clone(&self.progress)
    }

    /// Sends the flows until `end_ns`. Then waits until nothing has arrived for `quiet`, at most
    /// `patience`. `should_continue` is polled; `false` ends the run early.
    pub fn run(
        self,
        end_ns: u64,
        quiet: Duration,
        patience: Duration,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Vec<Tally> {
        let Traffic { stop, states, receivers, senders, progress } = self;
        let flows = senders.len();
        let sending = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || send::send_all(senders, end_ns, &stop, &progress))
        };
        let mut is_abandoned = false;
        while now_ns() < end_ns && !sending.is_finished() && !is_abandoned {
            thread::sleep(Duration::from_millis(20));
            is_abandoned = !should_continue();
        }
        stop.store(is_abandoned, Ordering::Relaxed);
        let sent = sending.join().unwrap_or_default();
        let drained_from = now_ns();
        let mut last = (received(&states), now_ns());
        while !is_abandoned && now_ns() - drained_from < patience.as_nanos() as u64 {
            thread::sleep(Duration::from_millis(20));
            is_abandoned = !should_continue();
            let now = received(&states);
            if now != last.0 {
                last = (now, now_ns());
            } else if now_ns() - last.1 > quiet.as_nanos() as u64 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        for receiver in receivers {
            let _ = receiver.join();
        }
        let mut tallies = vec![Tally::default(); flows];
        sent.into_iter().for_each(|(flow, sent)| tallies[flow].sent = sent);
        for state in &states {
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            for (tally, received) in tallies.iter_mut().zip(state.iter()).filter(|(_, received)| received.has_any()) {
                tally.received = received.clone();
                tally.received.finish();
            }
        }
        tallies
    }
}

fn received(states: &[Arc<Mutex<Vec<Received>>>]) -> u64 {
    let of = |state: &Arc<Mutex<Vec<Received>>>| -> u64 {
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.iter().map(|received| received.packets + received.late).sum()
    };
    states.iter().map(of).sum()
}

struct HostSockets {
    receiver: Option<UdpSocket>,
    senders: Vec<UdpSocket>,
}

/// Creates the sockets of a host. Must be called within its namespace.
fn open_sockets(host: HostAt, is_receiver: bool, sources: &[&SendPlan]) -> std::io::Result<HostSockets> {
    let receiver = || -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((host.ip, PORT))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES)?;
        Ok(socket)
    };
    let sender = |plan: &&SendPlan| -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((host.ip, plan.src_port))?;
        socket.connect((plan.to, PORT))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let receiver = is_receiver.then(receiver).transpose()?;
    Ok(HostSockets { receiver, senders: sources.iter().map(sender).collect::<Result<_, _>>()? })
}

/// Makes every host send a packet to the next one, to a closed port, so that a controller learns
/// the locations of hosts.
pub fn announce_hosts(hosts: &[HostAt]) -> Result<()> {
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        run_in_namespace(*host, || UdpSocket::bind((host.ip, 0))?.send_to(&[0], (next.ip, DISCARD)))?;
    }
    Ok(())
}
