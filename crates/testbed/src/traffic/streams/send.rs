//! The sending side: each flow is connected at its start, and written as fast as TCP accepts it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::SockRef;

use super::{PIECE, StreamPlan, TURN, bound_socket, join, new_poll, wait};
use crate::clock::now_ns;
use crate::error::Result;
use crate::traffic::namespace::{HostAt, Namespace, prioritise_this_thread};
use crate::traffic::tcp_info::TcpSockets;

/// Unsent bytes in a socket's buffer above which it accepts no more. The bytes written of a flow
/// are therefore nearly those sent, as its host's agent reports them.
const UNSENT_BYTES: u32 = 16 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Time of the connection request, nanoseconds of CLOCK_MONOTONIC; 0 for never.
    pub first_ns: u64,
    /// Segments with data, retransmitted ones included.
    pub segments: u64,
    pub retransmitted: u64,
}

struct Open {
    stream: TcpStream,
    written: u64,
}

pub(super) struct Sender {
    plans: Arc<[StreamPlan]>,
    congestion: String,
    hosts: Vec<(Namespace, TcpSockets)>,
    poll: Poll,
    open: Vec<Option<Open>>,
    sent: Vec<Sent>,
    left: usize,
}

pub(super) struct RunningSender(JoinHandle<io::Result<Vec<Sent>>>);

impl RunningSender {
    /// Returns whether every flow has arrived, or the sender has failed.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    pub fn join(self) -> Result<Vec<Sent>> {
        join("TCP sender", self.0)
    }
}

impl Sender {
    pub fn prepare(hosts: &[HostAt], plans: Arc<[StreamPlan]>, congestion: &str) -> Result<Sender> {
        let open_host = |host: &HostAt| Ok((Namespace::of(*host)?, TcpSockets::open(*host)?));
        let hosts = hosts.iter().map(open_host).collect::<Result<_>>()?;
        let poll = new_poll()?;
        let (open, sent, left) =
            (plans.iter().map(|_| None).collect(), vec![Sent::default(); plans.len()], plans.len());
        Ok(Sender { plans, congestion: congestion.to_owned(), hosts, poll, open, sent, left })
    }

    /// Sends until every flow has arrived, the run ends or `stop` is set. `progress` has the bytes
    /// sent of each flow; all of them only when they have arrived.
    pub fn start(mut self, end_ns: u64, stop: Arc<AtomicBool>, progress: Arc<[AtomicU64]>) -> RunningSender {
        RunningSender(thread::spawn(move || {
            prioritise_this_thread();
            self.send_all(end_ns, &stop, &progress)?;
            Ok(self.sent)
        }))
    }

    fn send_all(&mut self, end_ns: u64, stop: &AtomicBool, progress: &[AtomicU64]) -> io::Result<()> {
        let mut due: BinaryHeap<Reverse<(u64, usize)>> =
            self.plans.iter().enumerate().map(|(flow, plan)| Reverse((plan.start_ns, flow))).collect();
        let mut events = Events::with_capacity(1024);
        while self.left > 0 && now_ns() < end_ns && !stop.load(Ordering::Relaxed) {
            while let Some(Reverse((start_ns, flow))) = due.peek().copied()
                && start_ns <= now_ns()
            {
                due.pop();
                self.connect(flow).map_err(|cause| self.explain(flow, &cause))?;
            }
            let next_ns = due.peek().map_or(u64::MAX, |Reverse((start_ns, _))| start_ns.saturating_sub(now_ns()));
            wait(&mut self.poll, &mut events, Duration::from_nanos(next_ns).min(TURN))?;
            for event in &events {
                let flow = event.token().0;
                self.write(flow, &progress[flow]).map_err(|cause| self.explain(flow, &cause))?;
            }
        }
        (0..self.plans.len()).try_for_each(|flow| self.close(flow, false))
    }

    fn explain(&self, flow: usize, cause: &io::Error) -> io::Error {
        let StreamPlan { from, to, .. } = self.plans[flow];
        io::Error::new(cause.kind(), format!("flow {flow} from {from} to {to}: {cause}"))
    }

    fn connect(&mut self, flow: usize) -> io::Result<()> {
        let plan = self.plans[flow];
        self.hosts[plan.src].0.enter()?;
        let socket = bound_socket(plan.from)?;
        socket.set_tcp_congestion(self.congestion.as_bytes())?;
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
        self.sent[flow].first_ns = now_ns();
        match socket.connect(&plan.to.into()) {
            Err(cause) if cause.raw_os_error() != Some(nix::libc::EINPROGRESS) => return Err(cause),
            _ => {}
        }
        let mut stream = TcpStream::from_std(socket.into());
        self.poll.registry().register(&mut stream, Token(flow), Interest::READABLE | Interest::WRITABLE)?;
        self.open[flow] = Some(Open { stream, written: 0 });
        Ok(())
    }

    /// Writes what TCP accepts. The receiver closes the connection when all bytes have arrived.
    fn write(&mut self, flow: usize, progress: &AtomicU64) -> io::Result<()> {
        static ZEROS: [u8; PIECE] = [0; PIECE];
        let size = self.plans[flow].size_bytes;
        let Some(Open { stream, written }) = &mut self.open[flow] else { return Ok(()) };
        if let Some(cause) = stream.take_error()? {
            return Err(cause);
        }
        while *written < size {
            match stream.write(&ZEROS[..PIECE.min((size - *written) as usize)]) {
                Ok(bytes) => *written += bytes as u64,
                Err(cause) if is_later(&cause) => break,
                Err(cause) => return Err(cause),
            }
        }
        progress.store((*written).min(size.saturating_sub(1)), Ordering::Relaxed);
        if *written < size {
            return Ok(());
        }
        match stream.read(&mut [0; 16]) {
            Err(cause) if is_later(&cause) => Ok(()),
            Err(cause) => Err(cause),
            Ok(_) => {
                progress.store(size, Ordering::Relaxed);
                self.close(flow, true)
            }
        }
    }

    /// Reads the counters of a connection from the kernel and closes it.
    fn close(&mut self, flow: usize, is_complete: bool) -> io::Result<()> {
        let Some(Open { mut stream, .. }) = self.open[flow].take() else { return Ok(()) };
        let StreamPlan { src, from, to, .. } = self.plans[flow];
        if let Some(socket) = self.hosts[src].1.find(from, to)? {
            self.sent[flow].segments = u64::from(socket.data_segments);
            self.sent[flow].retransmitted = u64::from(socket.retransmitted);
        }
        self.poll.registry().deregister(&mut stream)?;
        self.left -= 1;
        if !is_complete {
            // A flow that the end of the run cuts off sends nothing more.
            SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        }
        Ok(())
    }
}

fn is_later(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected | ErrorKind::Interrupted)
}
