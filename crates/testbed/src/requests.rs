//! Requests over HTTP by real connections of the kernel's TCP, each made in the namespace of its client.
//!
//! Every request has a connection of its own, as browsers without keep-alive make them: what a balancer of servers decides is
//! decided once for each. Threads enter the namespace of their client and stay there; a connection that has not ended keeps its
//! thread, so `at_once` is how many a client has at the same time.

mod failure;
pub mod ftp;
mod http;
mod patient;
pub mod wget;

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock::now_ns;
use crate::error::TestbedError;
use crate::sockets::{HostAt, enter};

pub use failure::Failure;
pub use http::{Answer, Wish, get};
pub use patient::Patience;

/// Nobody is told to stop by this one.
static NEVER: AtomicBool = AtomicBool::new(false);

/// What one client asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asker {
    /// Where it is.
    pub host: HostAt,
    /// Whom it asks.
    pub to: SocketAddrV4,
    /// The page.
    pub path: String,
    /// Requests.
    pub requests: u64,
    /// Requests at the same time, at least one.
    pub at_once: usize,
    /// Least time between the beginnings of two requests, nanoseconds; 0 for as soon as there is room.
    pub gap_ns: u64,
    /// Time without a byte after which a request has failed.
    pub patience: Duration,
}

/// One request and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Which asker, by its place.
    pub client: usize,
    /// Number of the request among those of its client.
    pub number: u64,
    /// When it began, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// What came of it.
    pub result: Result<Answer, Failure>,
    /// When it was over.
    pub end_ns: u64,
}

/// Requests that are being made.
pub struct Asking {
    ended: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// What the threads of one client share.
struct Shared {
    client: usize,
    asker: Asker,
    next: AtomicU64,
    start_ns: u64,
    ended: Arc<AtomicU64>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Asking {
    /// Begins at `start_ns` of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// A namespace is gone.
    pub fn start(askers: &[Asker], start_ns: u64) -> Result<Asking, TestbedError> {
        let ended = Arc::new(AtomicU64::new(0));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for (client, asker) in askers.iter().enumerate() {
            let shared = Arc::new(Shared {
                client,
                asker: asker.clone(),
                next: AtomicU64::new(0),
                start_ns,
                ended: Arc::clone(&ended),
                asked: Arc::clone(&asked),
            });
            for _ in 0..asker.at_once.max(1) {
                let shared = Arc::clone(&shared);
                threads.push(enter(asker.host, move || shared.work())?);
            }
        }
        Ok(Asking { ended, threads, asked })
    }

    /// Requests that are over, whatever came of them.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits for the last one; answers all, in the order they began.
    pub fn finish(self) -> Vec<Asked> {
        for thread in self.threads {
            let _ = thread.join();
        }
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        asked.sort_by_key(|one| (one.start_ns, one.client, one.number));
        asked
    }
}

impl Shared {
    fn work(&self) {
        let asker = &self.asker;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= asker.requests {
                return;
            }
            let begins_ns = self.start_ns + number * asker.gap_ns;
            thread::sleep(Duration::from_nanos(begins_ns.saturating_sub(now_ns())));
            let start_ns = now_ns();
            let wish = Wish { to: asker.to, path: &asker.path, bytes: 0, is_work: false };
            // Requests that have begun are made to their end.
            let patience = Patience { silence: asker.patience, stop: &NEVER };
            let result = get(&wish, patience, &mut buffer);
            let one = Asked { client: self.client, number, start_ns, result, end_ns: now_ns() };
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(one);
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}
