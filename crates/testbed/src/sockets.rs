//! Plain UDP sockets in the namespaces of hosts: paced senders, and receivers that count every packet.
//!
//! One process holds the sockets of all hosts. A socket belongs to the namespace it was made in, so a thread that enters the
//! namespace, makes the sockets and ends is all that is needed.

mod header;
mod receive;
mod send;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{setsockopt, sockopt};

use crate::clock::now_ns;
use crate::driver::file_error;
use crate::error::TestbedError;

pub use receive::{Break, Received};
pub use send::{Gap, SendPlan};

/// Least payload of a packet, bytes: its number and the time it was sent.
pub const PAYLOAD_MIN: usize = header::LENGTH;

/// Port all receivers listen on.
pub const PORT: u16 = 7000;

/// The port of the discard protocol, which no host runs.
const DISCARD: u16 = 9;

/// Room for packets a receiver has not fetched yet; more than a busy machine keeps it from its processor for.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// A host: the process that holds its namespace, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAt {
    /// Process.
    pub pid: u32,
    /// Address.
    pub ip: Ipv4Addr,
}

/// What became of the packets of one flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Packets handed to the kernel.
    pub sent: u64,
    /// When the first was, nanoseconds of CLOCK_MONOTONIC; 0 for never.
    pub first_sent_ns: u64,
    /// Whether the sender has sent all it had.
    pub is_all_sent: bool,
    /// What the receiver saw.
    pub received: Received,
}

/// Sockets made and ready: receivers listen, senders wait.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    states: Vec<Arc<Mutex<Vec<Received>>>>,
    receivers: Vec<JoinHandle<()>>,
    senders: Vec<(SendPlan, UdpSocket)>,
    progress: Arc<[AtomicU64]>,
}

impl Traffic {
    /// Makes the sockets of all flows; `end_ns` is when the run ends: what arrives afterwards counts as in flight.
    ///
    /// # Errors
    /// A namespace is gone or a socket cannot be made.
    pub fn prepare(hosts: &[HostAt], flows: &[SendPlan], end_ns: u64) -> Result<Traffic, TestbedError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut states, mut receivers, mut senders) = (Vec::new(), Vec::new(), Vec::new());
        for (number, host) in hosts.iter().enumerate() {
            let state = Arc::new(Mutex::new(vec![Received::default(); flows.len()]));
            let sources: Vec<&SendPlan> = flows.iter().filter(|flow| flow.src == number).collect();
            let is_receiver = flows.iter().any(|flow| flow.dst == number);
            let made = inside(*host, || make(*host, is_receiver, &sources))?;
            if let Some(socket) = made.receiver {
                let (state, stop) = (Arc::clone(&state), Arc::clone(&stop));
                receivers.push(thread::spawn(move || receive::listen(&socket, &state, &stop, end_ns)));
            }
            senders.extend(sources.into_iter().copied().zip(made.senders));
            states.push(state);
        }
        let progress = flows.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Traffic { stop, states, receivers, senders, progress })
    }

    /// Payload sent so far of each flow, bytes: it grows while [`Traffic::run`] does.
    pub fn progress(&self) -> Arc<[AtomicU64]> {
        Arc::clone(&self.progress)
    }

    /// Sends everything there is to send until `end_ns`, then waits until the network is empty: until nothing has
    /// arrived for `quiet`, at most `patience`. `is_wanted` is asked now and then; answering `false` ends it early.
    pub fn run(
        self,
        end_ns: u64,
        quiet: Duration,
        patience: Duration,
        is_wanted: &mut dyn FnMut() -> bool,
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
            is_abandoned = !is_wanted();
        }
        if is_abandoned {
            stop.store(true, Ordering::Relaxed);
        }
        let sent = sending.join().unwrap_or_default();
        let drained_from = now_ns();
        let mut last = (received(&states), now_ns());
        while !is_abandoned && now_ns() - drained_from < patience.as_nanos() as u64 {
            thread::sleep(Duration::from_millis(20));
            is_abandoned = !is_wanted();
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
        for (flow, sent) in sent {
            let tally = &mut tallies[flow];
            (tally.sent, tally.first_sent_ns, tally.is_all_sent) = (sent.packets, sent.first_ns, sent.is_all);
        }
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

struct Made {
    receiver: Option<UdpSocket>,
    senders: Vec<UdpSocket>,
}

/// Makes the sockets of a host; called within its namespace.
fn make(host: HostAt, is_receiver: bool, sources: &[&SendPlan]) -> std::io::Result<Made> {
    let receiver = if is_receiver {
        let socket = UdpSocket::bind(SocketAddrV4::new(host.ip, PORT))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES)?;
        Some(socket)
    } else {
        None
    };
    let sender = |plan: &&SendPlan| -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind(SocketAddrV4::new(host.ip, plan.src_port))?;
        socket.connect(SocketAddrV4::new(plan.to, PORT))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    Ok(Made { receiver, senders: sources.iter().map(sender).collect::<Result<_, _>>()? })
}

/// Has every host send a packet to the next one, to a port where nobody listens: whoever wants to know where hosts are can see
/// them.
///
/// # Errors
/// A namespace is gone or a socket cannot be made.
pub fn speak(hosts: &[HostAt]) -> Result<(), TestbedError> {
    for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        inside(*host, || UdpSocket::bind(SocketAddrV4::new(host.ip, 0))?.send_to(&[0], (next.ip, DISCARD)))?;
    }
    Ok(())
}

/// Does something in the network namespace of a host, on a thread that ends there.
///
/// # Errors
/// The namespace is gone, or what was to be done failed.
pub fn inside<T: Send>(host: HostAt, work: impl FnOnce() -> std::io::Result<T> + Send) -> Result<T, TestbedError> {
    let namespace = namespace(host)?;
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(&namespace, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from)?;
            work()
        });
        match thread.join() {
            Ok(done) => done.map_err(|cause| failed(host, cause.to_string())),
            Err(_) => Err(failed(host, "panicked".to_owned())),
        }
    })
}

/// Starts a thread in the network namespace of a host, which goes on by itself.
///
/// # Errors
/// The namespace is gone.
pub fn enter(host: HostAt, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, TestbedError> {
    let namespace = namespace(host)?;
    let (tell, told) = channel();
    let thread = thread::spawn(move || {
        let entered = setns(&namespace, CloneFlags::CLONE_NEWNET);
        let is_in = entered.is_ok();
        // Whoever asked waits for it.
        let _ = tell.send(entered);
        if is_in {
            work();
        }
    });
    match told.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(cause)) => Err(failed(host, cause.to_string())),
        Err(_) => Err(failed(host, "panicked".to_owned())),
    }
}

fn namespace(host: HostAt) -> Result<File, TestbedError> {
    let path = PathBuf::from(format!("/proc/{}/ns/net", host.pid));
    File::open(&path).map_err(file_error("open", &path))
}

fn failed(host: HostAt, reason: String) -> TestbedError {
    TestbedError::Traffic { program: format!("sockets of {}", host.ip), reason }
}
