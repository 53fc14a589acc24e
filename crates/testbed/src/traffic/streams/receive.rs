//! The receiving side: it counts the bytes of each flow and closes a connection when all have
//! arrived.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::{PIECE, StreamPlan, TURN, bound_socket, join, new_poll, wait};
use crate::clock::now_ns;
use crate::error::Result;
use crate::traffic::PORT;
use crate::traffic::namespace::{HostAt, prioritise_this_thread, run_in_namespace};

/// Connections that may wait until they are accepted. The kernel may lower it.
const BACKLOG: i32 = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// Bytes that arrived before the end of the run.
    pub bytes: u64,
    /// Arrival of the last of them, nanoseconds of CLOCK_MONOTONIC; 0 for none.
    pub last_ns: u64,
}

pub(super) struct Receiver(JoinHandle<io::Result<Vec<Received>>>);

impl Receiver {
    /// Listens at each host that receives a flow, until `stop` is set.
    pub fn start(hosts: &[HostAt], plans: Arc<[StreamPlan]>, end_ns: u64, stop: Arc<AtomicBool>) -> Result<Receiver> {
        let receives = |host: &usize| plans.iter().any(|plan| plan.dst == *host);
        let listen = |host: usize| run_in_namespace(hosts[host], || listen_at(hosts[host]));
        let listeners = (0..hosts.len()).filter(receives).map(listen).collect::<Result<Vec<_>>>()?;
        let poll = new_poll()?;
        Ok(Receiver(thread::spawn(move || {
            prioritise_this_thread();
            receive_all(poll, listeners, &plans, end_ns, &stop)
        })))
    }

    pub fn join(self) -> Result<Vec<Received>> {
        join("TCP receiver", self.0)
    }
}

/// Must be called within the namespace of the host.
fn listen_at(host: HostAt) -> io::Result<TcpListener> {
    let socket = bound_socket(SocketAddrV4::new(host.ip, PORT))?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn receive_all(
    mut poll: Poll,
    mut listeners: Vec<TcpListener>,
    plans: &[StreamPlan],
    end_ns: u64,
    stop: &AtomicBool,
) -> io::Result<Vec<Received>> {
    let flows: BTreeMap<(SocketAddrV4, SocketAddrV4), usize> =
        plans.iter().enumerate().map(|(flow, plan)| ((plan.from, plan.to), flow)).collect();
    let mut open: Vec<Option<TcpStream>> = plans.iter().map(|_| None).collect();
    let mut received = vec![Received::default(); plans.len()];
    let mut buffer = vec![0; PIECE];
    // Tokens: flows, then listeners.
    for (number, listener) in listeners.iter_mut().enumerate() {
        poll.registry().register(listener, Token(plans.len() + number), Interest::READABLE)?;
    }
    let mut events = Events::with_capacity(1024);
    while !stop.load(Ordering::Relaxed) {
        wait(&mut poll, &mut events, TURN)?;
        for event in &events {
            let token = event.token().0;
            if token < plans.len() {
                let size = plans[token].size_bytes;
                read(&mut open[token], &mut received[token], size, end_ns, &mut buffer);
                continue;
            }
            while let Some((mut stream, peer)) = accept(&listeners[token - plans.len()])? {
                let Some(flow) = flow_of(&stream, peer, &flows) else { continue };
                poll.registry().register(&mut stream, Token(flow), Interest::READABLE)?;
                open[flow] = Some(stream);
            }
        }
    }
    Ok(received)
}

/// Accepts a connection; `None` if none waits.
fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    loop {
        match listener.accept() {
            Ok(accepted) => return Ok(Some(accepted)),
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => return Ok(None),
            // The peer aborted before it was accepted.
            Err(cause) if matches!(cause.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
            Err(cause) => return Err(cause),
        }
    }
}

/// Returns the flow of a connection; `None` for one of another program.
fn flow_of(
    stream: &TcpStream,
    peer: SocketAddr,
    flows: &BTreeMap<(SocketAddrV4, SocketAddrV4), usize>,
) -> Option<usize> {
    match (peer, stream.local_addr()) {
        (SocketAddr::V4(from), Ok(SocketAddr::V4(to))) => flows.get(&(from, to)).copied(),
        _ => None,
    }
}

/// Reads what has arrived. A connection that is complete or broken is closed.
fn read(open: &mut Option<TcpStream>, received: &mut Received, size: u64, end_ns: u64, buffer: &mut [u8]) {
    while let Some(stream) = open {
        match stream.read(buffer) {
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => return,
            Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => *open = None,
            Ok(bytes) => {
                let now = now_ns();
                if now <= end_ns {
                    received.bytes += bytes as u64;
                    received.last_ns = now;
                }
                if received.bytes >= size {
                    *open = None;
                }
            }
        }
    }
}
