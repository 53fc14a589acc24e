//! Clients: every request of the list at its time, by a thread in the namespace of its host.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use experiment::file::Asking as Client;
use experiment::world::Scenario;
use traffic::Flow;

use super::{Kind, Plan, Programs, page_name};
use crate::beside::Beside;
use crate::clock::now_ns;
use crate::error::TestbedError;
use crate::jobs;
use crate::live::Live;
use crate::requests::{Answer, Failure, Patience, Wish, ftp, get, wget};
use crate::sockets::enter;
use crate::traffic::{Span, starts};

/// Time without a byte after which a request has failed; jobs are silent for as long as they take.
const SILENCE: Duration = Duration::from_secs(30);

/// Stack of a thread that makes a request, bytes.
const STACK: usize = 256 << 10;

/// Bytes that are read at a time.
const PIECE: usize = 64 << 10;

/// How a class of requests is made.
#[derive(Clone, Debug)]
struct Class {
    kind: Kind,
    to: SocketAddrV4,
    /// Path of a page or job, name of a file.
    path: String,
    request_bytes: u64,
    page_bytes: u64,
    pages: u32,
}

/// A page and what came of it.
#[derive(Clone, Debug)]
pub struct Page {
    /// When it was asked for, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it was there, or given up.
    pub end_ns: u64,
    /// What came of it.
    pub result: Result<Answer, Failure>,
}

/// A request that has begun: its pages so far.
#[derive(Clone, Debug)]
pub struct Request {
    /// Position in the list.
    pub flow: usize,
    /// Pages, one after another; the last may have failed.
    pub pages: Vec<Page>,
}

struct Shared {
    classes: Vec<Class>,
    client: Client,
    folder: PathBuf,
    stop: AtomicBool,
    end_ns: u64,
    done: Mutex<Vec<Request>>,
}

/// Makes all requests of a run; answers what came of each, in the order of the list. Those that have not begun by the end of the
/// run are not there.
///
/// # Errors
/// A server or the controller ended by itself, or the run is to be abandoned.
pub fn ask(
    live: &mut Live,
    plan: &Plan<'_>,
    programs: &Programs,
    scenario: &Scenario<'_>,
    span: Span,
    beside: &mut Beside<'_>,
) -> Result<Vec<Request>, TestbedError> {
    let folder = live.folder.join("clients");
    // What an earlier run left is of no use.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(crate::driver::file_error("make", &folder))?;
    let shared = Arc::new(Shared {
        classes: classes(plan),
        client: plan.testbed.client,
        folder,
        stop: AtomicBool::new(false),
        end_ns: span.end_ns,
        done: Mutex::new(Vec::new()),
    });
    let dispatchers = dispatch(live, &shared, &scenario.flows.flows, span)?;
    let waited = wait(live, programs, &dispatchers, span, beside);
    shared.stop.store(true, Ordering::Relaxed);
    for dispatcher in dispatchers {
        let _ = dispatcher.join();
    }
    waited?;
    let mut done = std::mem::take(&mut *shared.done.lock().unwrap_or_else(PoisonError::into_inner));
    done.sort_by_key(|request| request.flow);
    Ok(done)
}

fn classes(plan: &Plan<'_>) -> Vec<Class> {
    let class = |(number, class): (usize, &experiment::world::RequestClass)| {
        let service = &plan.services.services[class.service as usize];
        let kind = plan.kind(service);
        let path = match kind {
            Kind::Pages => format!("/{}", page_name(number)),
            Kind::Files => page_name(number),
            Kind::Jobs => jobs::path(Duration::from_nanos(class.cpu.as_ps() / 1000), class.page_bytes),
        };
        let to = SocketAddrV4::new(service.address, service.port);
        let (request_bytes, page_bytes, pages) = (class.request_bytes, class.page_bytes, class.pages);
        Class { kind, to, path, request_bytes, page_bytes, pages }
    };
    plan.services.classes.iter().enumerate().map(class).collect()
}

/// A thread per client, which starts one for each of its requests.
fn dispatch(
    live: &Live,
    shared: &Arc<Shared>,
    flows: &[Flow],
    span: Span,
) -> Result<Vec<JoinHandle<()>>, TestbedError> {
    let times = starts(flows)?;
    let mut dispatchers = Vec::new();
    for (number, host) in live.hosts.iter().enumerate() {
        let own = flows.iter().zip(&times).enumerate().filter(|(_, (flow, _))| flow.src.ix() == number);
        let mut own: Vec<(u64, usize, usize)> =
            own.map(|(place, (flow, at))| (span.at(*at), place, flow.group as usize - 1)).collect();
        if own.is_empty() {
            continue;
        }
        own.sort_unstable();
        let shared = Arc::clone(shared);
        dispatchers.push(enter(*host, move || shared.dispatch(&own))?);
    }
    if now_ns() > span.start_ns {
        let reason = "were not ready when the run was to begin: the machine is too busy";
        return Err(crate::seen::failed("clients", reason));
    }
    Ok(dispatchers)
}

fn wait(
    live: &mut Live,
    programs: &Programs,
    dispatchers: &[JoinHandle<()>],
    span: Span,
    beside: &mut Beside<'_>,
) -> Result<(), TestbedError> {
    while now_ns() < span.end_ns && !dispatchers.iter().all(JoinHandle::is_finished) {
        live.listen(Duration::from_millis(20))?;
        programs.check(live)?;
        if !beside.go_on(None) {
            return Err(beside.cause());
        }
    }
    Ok(())
}

impl Shared {
    fn dispatch(self: &Arc<Shared>, own: &[(u64, usize, usize)]) {
        let mut threads = Vec::new();
        for (at, flow, class) in own.iter().copied() {
            if !self.wait_until(at) {
                break;
            }
            let shared = Arc::clone(self);
            // It is in the namespace of the thread that makes it.
            let made = thread::Builder::new().stack_size(STACK).spawn(move || shared.request(flow, class));
            match made {
                Ok(thread) => threads.push(thread),
                Err(cause) => self.cannot_begin(flow, &cause),
            }
            threads.retain(|thread| !thread.is_finished());
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Whether the time came before the end.
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

    fn cannot_begin(&self, flow: usize, cause: &std::io::Error) {
        let now = now_ns();
        let result = Err(Failure::Other(format!("no thread: {cause}")));
        self.keep(Request { flow, pages: vec![Page { start_ns: now, end_ns: now, result }] });
    }

    fn keep(&self, request: Request) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    /// Makes one request, page after page.
    fn request(&self, flow: usize, class: usize) {
        let class = &self.classes[class];
        let mut buffer = vec![0; PIECE];
        let mut request = Request { flow, pages: Vec::new() };
        for number in 0..class.pages {
            let start_ns = now_ns();
            let result = self.page(class, (flow, number), &mut buffer);
            let is_there = result.is_ok();
            request.pages.push(Page { start_ns, end_ns: now_ns(), result });
            if !is_there {
                break;
            }
        }
        self.keep(request);
    }

    fn page(&self, class: &Class, (flow, number): (usize, u32), buffer: &mut [u8]) -> Result<Answer, Failure> {
        let left = Duration::from_nanos(self.end_ns.saturating_sub(now_ns())) + Duration::from_secs(1);
        let silence = if class.kind == Kind::Jobs { left } else { left.min(SILENCE) };
        let patience = Patience { silence, stop: &self.stop };
        let log = || self.folder.join(format!("{flow}-{number}.log"));
        let answer = match (class.kind, self.client) {
            (Kind::Pages, Client::Wget) => wget::fetch("http", class.to, &class.path, &log(), patience),
            (Kind::Files, Client::Wget) => wget::fetch("ftp", class.to, &class.path, &log(), patience),
            (Kind::Files, Client::Own) => ftp::fetch(class.to, &class.path, patience, buffer),
            (Kind::Pages | Kind::Jobs, _) => {
                let is_work = class.kind == Kind::Jobs;
                get(&Wish { to: class.to, path: &class.path, bytes: class.request_bytes, is_work }, patience, buffer)
            }
        };
        match answer {
            Ok(answer) if answer.bytes != class.page_bytes => Err(Failure::Short),
            // Nobody waited for it any longer.
            Err(_) if now_ns() >= self.end_ns => Err(Failure::Stopped),
            answer => answer,
        }
    }
}
