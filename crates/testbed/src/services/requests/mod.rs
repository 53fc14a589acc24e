//! HTTP requests over real TCP connections, each made in the namespace of its client.
//!
//! Every request has its own connection, as browsers without keep-alive make them, so a server
//! balancer decides once per request. Threads enter the namespace of their client and stay there. A
//! connection that has not ended occupies its thread, so a client has at most `at_once` connections
//! at a time.

mod failure;
pub mod ftp;
mod http;
mod timed_stream;
pub mod wget;

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock::now_ns;
use crate::error::Result;
use crate::traffic::namespace::{HostAt, spawn_in_namespace};

pub use failure::Failure;
pub use http::{HttpRequest, Response, get};
pub use timed_stream::StreamLimits;

static NEVER: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Debug, PartialEq)]
pub struct ClientSpec {
    pub host: HostAt,
    pub to: SocketAddrV4,
    pub path: String,
    pub requests: u64,
    /// Concurrent requests; at least one.
    pub at_once: usize,
    /// Minimum time between two starts, nanoseconds; 0: as soon as a thread is free.
    pub gap_ns: u64,
    /// Time without a byte after which a request has failed.
    pub patience: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CompletedRequest {
    pub client: usize,
    pub number: u64,
    pub start_ns: u64,
    pub result: Result<Response, Failure>,
    pub end_ns: u64,
}

pub struct RequestRun {
    ended: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    completed: Arc<Mutex<Vec<CompletedRequest>>>,
}

struct Shared {
    client: usize,
    spec: ClientSpec,
    next: AtomicU64,
    start_ns: u64,
    ended: Arc<AtomicU64>,
    completed: Arc<Mutex<Vec<CompletedRequest>>>,
}

impl RequestRun {
    /// Starts the requests at `start_ns` of CLOCK_MONOTONIC.
    pub fn start(clients: &[ClientSpec], start_ns: u64) -> Result<RequestRun> {
        let ended = Arc::new(AtomicU64::new(0));
        let completed = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for (client, spec) in clients.iter().enumerate() {
            let (spec, next) = (spec.clone(), AtomicU64::new(0));
            let (ended, completed) = (Arc::clone(&ended), Arc::clone(&completed));
            let shared = Arc::new(Shared { client, spec, next, start_ns, ended, completed });
            for _ in 0..shared.spec.at_once.max(1) {
                let worker = Arc::clone(&shared);
                threads.push(spawn_in_namespace(shared.spec.host, move || worker.work())?);
            }
        }
        Ok(RequestRun { ended, threads, completed })
    }

    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits for the last request. Returns all requests in the order of their starts.
    pub fn finish(self) -> Vec<CompletedRequest> {
        for thread in self.threads {
            let _ = thread.join();
        }
        let mut completed = std::mem::take(&mut *self.completed.lock().unwrap_or_else(PoisonError::into_inner));
        completed.sort_by_key(|one| (one.start_ns, one.client, one.number));
        completed
    }
}

impl Shared {
    fn work(&self) {
        let spec = &self.spec;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= spec.requests {
                return;
            }
            let begins_ns = self.start_ns + number * spec.gap_ns;
            thread::sleep(Duration::from_nanos(begins_ns.saturating_sub(now_ns())));
            let start_ns = now_ns();
            let request = HttpRequest { to: spec.to, path: &spec.path, host: "", bytes: 0, is_post: false };
            // Requests that have begun are never stopped.
            let limits = StreamLimits { silence: spec.patience, stop: &NEVER };
            let result = get(&request, limits, &mut buffer);
            let one = CompletedRequest { client: self.client, number, start_ns, result, end_ns: now_ns() };
            self.completed.lock().unwrap_or_else(PoisonError::into_inner).push(one);
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}
