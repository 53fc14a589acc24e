//! TCP flows over sockets of this process: one thread sends all flows, another one receives them.
//!
//! A flow costs two sockets and no program, so that runs with thousands of short flows measure the
//! network and not the start of programs.

mod receive;
mod send;

use std::io::{self, ErrorKind};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Events, Poll};
use net::{Time, address};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use traffic::Flow;

use self::receive::{Received, Receiver};
use self::send::{Sender, Sent};
use super::{DRAIN, source_port, starts};
use crate::clock::now_ns;
use crate::error::{Result, failed};
use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement};
use crate::run::active_run::ActiveRun;
use crate::run::checks::check_congestion_control;
use crate::traffic::PORT;

/// Bytes that one call writes or reads at most.
const PIECE: usize = 64 << 10;

/// Time between two looks at the flag that stops a thread.
const TURN: Duration = Duration::from_millis(20);

/// A flow before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPlan {
    /// Numbers of the sending and the receiving host.
    pub src: usize,
    pub dst: usize,
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub size_bytes: u64,
    /// Due time of the first packet, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
}

pub(super) fn send(run: &mut ActiveRun<'_, '_>) -> Result<TrafficMeasurement> {
    let (scenario, span, flows) = (run.scenario, run.span, &run.scenario.flows.flows);
    let congestion = scenario.config.transport.properties().linux.unwrap_or("cubic");
    check_congestion_control(congestion)?;
    allow_open_files()?;
    let plan = |((number, flow), start): ((usize, &Flow), Time)| StreamPlan {
        src: flow.src.ix(),
        dst: flow.dst.ix(),
        from: SocketAddrV4::new(address::host_ipv4(flow.src), source_port(number)),
        to: SocketAddrV4::new(address::host_ipv4(flow.dst), PORT),
        size_bytes: flow.size_bytes,
        start_ns: span.at(start),
    };
    let plans: Arc<[StreamPlan]> = flows.iter().enumerate().zip(starts(flows)?).map(plan).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let progress: Arc<[AtomicU64]> = plans.iter().map(|_| AtomicU64::new(0)).collect();
    let receiver = Receiver::start(&run.live.hosts, Arc::clone(&plans), span.end_ns, Arc::clone(&stop))?;
    let sender = Sender::prepare(&run.live.hosts, Arc::clone(&plans), congestion)?;
    span.check_readiness("sockets")?;
    let sender = sender.start(span.end_ns, Arc::clone(&stop), Arc::clone(&progress));
    let mut polled = Ok(());
    while now_ns() < span.end_ns && !sender.is_finished() && polled.is_ok() {
        std::thread::sleep(TURN);
        polled = run.poll_with(Duration::ZERO, Some(&progress));
    }
    stop.store(true, Ordering::Relaxed);
    let (sent, received) = (sender.join(), receiver.join());
    polled?;
    let (sent, received) = (sent?, received?);
    // Packets of flows that the end of the run cut off may still be in queues.
    if received.iter().zip(plans.iter()).any(|(received, plan)| received.bytes < plan.size_bytes) {
        run.wait_until(now_ns() + DRAIN.as_nanos() as u64 / 10)?;
    }
    let flows = sent.iter().zip(&received).zip(plans.iter());
    let flows = flows.map(|((sent, received), plan)| measurement(sent, received, plan)).collect();
    Ok(TrafficMeasurement { flows, gaps: Vec::new(), has_packets: false })
}

fn measurement(sent: &Sent, received: &Received, plan: &StreamPlan) -> FlowMeasurement {
    let is_complete = received.bytes >= plan.size_bytes;
    FlowMeasurement {
        first_ns: sent.first_ns,
        last_ns: received.last_ns,
        // TCP sends again what is lost: a flow that has not arrived is still running.
        is_all_sent: is_complete,
        is_complete,
        bytes: received.bytes,
        sent: sent.segments,
        retransmitted: sent.retransmitted,
        ..FlowMeasurement::default()
    }
}

/// Raises the limit of open files of this process as far as it may.
fn allow_open_files() -> Result<()> {
    let raised =
        getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    raised.map_err(|cause| failed("limit of open files", cause.to_string()))
}

/// Returns a socket with an address. Must be called within the namespace of the address.
fn bound_socket(address: SocketAddrV4) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    // The port may be in the TIME_WAIT state of an earlier run.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn new_poll() -> Result<Poll> {
    Poll::new().map_err(|cause| failed("epoll", cause.to_string()))
}

/// Waits for events. A signal ends the wait without any.
fn wait(poll: &mut Poll, events: &mut Events, timeout: Duration) -> io::Result<()> {
    match poll.poll(events, Some(timeout)) {
        Err(cause) if cause.kind() != ErrorKind::Interrupted => Err(cause),
        _ => Ok(()),
    }
}

fn join<T>(name: &str, thread: JoinHandle<io::Result<T>>) -> Result<T> {
    match thread.join() {
        Ok(done) => done.map_err(|cause| failed(name, cause.to_string())),
        Err(_) => Err(failed(name, "panicked")),
    }
}
