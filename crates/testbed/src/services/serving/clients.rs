//! Clients: a thread in the namespace of the client's host sends each request at its time.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use experiment::input::RequestClient as Client;
use experiment::runner::RequestClass;

use super::{Plan, Programs, ServerKind, page_name};
use crate::clock::now_ns;
use crate::error::Result;
use crate::run::active_run::ActiveRun;
use crate::services::compute;
use crate::services::requests::{Failure, HttpRequest, Response, StreamLimits, ftp, get, wget};
use crate::traffic::namespace::spawn_in_namespace;
use crate::traffic::starts;

/// Time without a byte after which a request has failed. Jobs may be silent for their whole
/// duration.
const SILENCE: Duration = Duration::from_secs(30);

const STACK: usize = 256 << 10;

const PIECE: usize = 64 << 10;

/// The service and content that the requests of a class ask for.
#[derive(Clone, Debug)]
struct Target {
    kind: ServerKind,
    to: SocketAddrV4,
    path: String,
    class: RequestClass,
}

#[derive(Clone, Debug)]
pub struct Page {
    /// Start, and completion or failure, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Completion or failure, nanoseconds of CLOCK_MONOTONIC.
    pub end_ns: u64,
    pub result: Result<Response, Failure>,
}

/// A request that has begun, with its pages so far.
#[derive(Clone, Debug)]
pub struct Request {
    pub flow: usize,
    pub pages: Vec<Page>,
}

struct Shared {
    targets: Vec<Target>,
    client: Client,
    folder: PathBuf,
    stop: AtomicBool,
    end_ns: u64,
    done: Mutex<Vec<Request>>,
}

/// Makes all requests of a run. Returns them in the order of the list, without those that had not
/// begun by the end of the run.
pub fn run_requests(run: &mut ActiveRun<'_, '_>, plan: &Plan<'_>, programs: &Programs) -> Result<Vec<Request>> {
    let folder = run.empty_folder("clients")?;
    let shared = Arc::new(Shared {
        targets: targets(plan),
        client: plan.testbed.request_client,
        folder,
        stop: AtomicBool::new(false),
        end_ns: run.span.end_ns,
        done: Mutex::new(Vec::new()),
    });
    let dispatchers = dispatch(run, &shared)?;
    let mut waited = Ok(());
    while waited.is_ok() && now_ns() < run.span.end_ns && !dispatchers.iter().all(JoinHandle::is_finished) {
        waited = run.poll(Duration::from_millis(20)).and_then(|()| programs.check(run.live));
    }
    shared.stop.store(true, Ordering::Relaxed);
    for dispatcher in dispatchers {
        let _ = dispatcher.join();
    }
    waited?;
    let mut done = std::mem::take(&mut *shared.done.lock().unwrap_or_else(PoisonError::into_inner));
    done.sort_by_key(|request| request.flow);
    Ok(done)
}

fn targets(plan: &Plan<'_>) -> Vec<Target> {
    let target = |(number, class): (usize, &RequestClass)| {
        let service = &plan.services.services[class.service as usize];
        let kind = plan.kind(service);
        let path = match kind {
            ServerKind::Http => format!("/{}", page_name(number, class)),
            ServerKind::Ftp => page_name(number, class),
            ServerKind::Compute | ServerKind::FrontEnd => {
                let job = compute::path(Duration::from_nanos(class.cpu.as_ps() / 1000), class.page_bytes);
                format!("{}{job}", class.path.trim_end_matches('/'))
            }
        };
        let to = SocketAddrV4::new(service.address, service.port);
        Target { kind, to, path, class: class.clone() }
    };
    plan.services.classes.iter().enumerate().map(target).collect()
}

/// Starts a thread per client, which starts a thread for each of its requests.
fn dispatch(run: &ActiveRun<'_, '_>, shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>> {
    let flows = &run.scenario.flows.flows;
    let times = starts(flows)?;
    let mut dispatchers = Vec::new();
    for (number, host) in run.live.hosts.iter().enumerate() {
        let requests = flows.iter().zip(&times).enumerate().filter(|(_, (flow, _))| flow.src.ix() == number);
        let mut requests: Vec<(u64, usize, usize)> =
            requests.map(|(place, (flow, at))| (run.span.at(*at), place, flow.group as usize - 1)).collect();
        if requests.is_empty() {
            continue;
        }
        requests.sort_unstable();
        let shared = Arc::clone(shared);
        dispatchers.push(spawn_in_namespace(*host, move || shared.dispatch(&requests))?);
    }
    run.span.check_readiness("clients")?;
    Ok(dispatchers)
}

impl Shared {
    fn dispatch(self: &Arc<Shared>, requests: &[(u64, usize, usize)]) {
        let mut threads = Vec::new();
        for (at, flow, class) in requests.iter().copied() {
            if !self.wait_until(at) {
                break;
            }
            let shared = Arc::clone(self);
            // The new thread inherits the namespace of this thread.
            let made = thread::Builder::new().stack_size(STACK).spawn(move || shared.request(flow, class));
            match made {
                Ok(thread) => threads.push(thread),
                Err(cause) => {
                    let (now, result) = (now_ns(), Err(Failure::Other(format!("no thread: {cause}"))));
                    self.keep(Request { flow, pages: vec![Page { start_ns: now, end_ns: now, result }] });
                }
            }
            threads.retain(|thread| !thread.is_finished());
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Returns whether the time came before the end of the run.
    fn wait_until(&self, at: u64) -> bool {
        loop {
            let left = at.saturating_sub(now_ns());
            match (self.stop.load(Ordering::Relaxed), left) {
                (true, _) => return false,
                (false, 0) => return true,
                (false, left) => thread::sleep(Duration::from_nanos(left.min(50_000_000))),
            }
        }
    }

    fn keep(&self, request: Request) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    fn request(&self, flow: usize, class: usize) {
        let target = &self.targets[class];
        let mut buffer = vec![0; PIECE];
        let mut request = Request { flow, pages: Vec::new() };
        for number in 0..target.class.pages {
            let start_ns = now_ns();
            let result = self.page(target, (flow, number), &mut buffer);
            let is_there = result.is_ok();
            request.pages.push(Page { start_ns, end_ns: now_ns(), result });
            if !is_there {
                break;
            }
        }
        self.keep(request);
    }

    fn page(&self, target: &Target, (flow, number): (usize, u32), buffer: &mut [u8]) -> Result<Response, Failure> {
        let left = Duration::from_nanos(self.end_ns.saturating_sub(now_ns())) + Duration::from_secs(1);
        let silence = if target.kind == ServerKind::Compute { left } else { left.min(SILENCE) };
        let limits = StreamLimits { silence, stop: &self.stop };
        let log = || self.folder.join(format!("{flow}-{number}.log"));
        let answer = match (target.kind, self.client) {
            (ServerKind::Http, Client::Wget) => wget::fetch("http", target.to, &target.path, &log(), limits),
            (ServerKind::Ftp, Client::Wget) => wget::fetch("ftp", target.to, &target.path, &log(), limits),
            (ServerKind::Ftp, Client::Builtin) => ftp::fetch(target.to, &target.path, limits, buffer),
            (kind, _) => {
                let (bytes, is_post) = (target.class.request_bytes, kind == ServerKind::Compute);
                let (path, host) = (&target.path, &target.class.host);
                get(&HttpRequest { to: target.to, path, host, bytes, is_post }, limits, buffer)
            }
        };
        match answer {
            Ok(answer) if answer.bytes != target.class.page_bytes => Err(Failure::Short),
            // The run ended first.
            Err(_) if now_ns() >= self.end_ns => Err(Failure::Stopped),
            answer => answer,
        }
    }
}
