//! The running daemon. Switches and HTTP have separate threads, so API clients cannot delay control
//! messages.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::audit::{Actor, AuditError, AuditLog};
use crate::auth::{Access, Rules};
use crate::channel::{self, Hub};
use crate::engine::{Engine, Job};
use crate::events::DaemonEvent;
use crate::host_store::{self, HostStore, StateError};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::recording::{RecordError, RecordedController, Recorder};
use crate::schedule::{Calendar, Scheduler};
use crate::services::{
    ChangeError, ConfiguredServices, Desired, ErrorScope, Origin, ServiceManager, Store, StoreError,
};
use crate::settings::{Limits, Settings};
use crate::storage::{Disk, RealDisk};
use crate::tls::{self, SwitchTls, TlsError};
use crate::{bmp, fd_limit, http};

const BACKLOG: u32 = 1024;
/// Capacity of the job queue of the engine; further requests wait in their HTTP handlers.
const JOBS: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address} for {what}")]
    Listen { what: &'static str, address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The services of the configuration file conflict with the stored ones.
    #[error("virtual services: {message}")]
    Services { message: String },
    /// Discovery probes need random numbers so that hosts cannot forge links.
    #[error("the operating system returned no random numbers: {0}")]
    Random(getrandom::Error),
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// A running daemon. It stops when it is dropped.
#[derive(Debug)]
pub struct Daemon {
    /// Address for switches, with the actual port if port 0 was configured.
    pub openflow: SocketAddr,
    /// Address for BMP sessions; `None` without uplinks to BGP peers.
    pub bmp: Option<SocketAddr>,
    /// Address of the HTTP interface; `None` if it is off.
    pub http: Option<SocketAddr>,
    /// Specification of the balancer at the start.
    pub balancer: String,
    parts: Vec<Part>,
    pub(crate) handle: Handle,
    pub(crate) hub: Arc<Hub>,
    /// TLS of the HTTP interface; `None` for plain HTTP.
    pub(crate) http_tls: Option<Arc<Live<Arc<ServerConfig>>>>,
    /// Settings with which the daemon has started.
    pub(crate) started: Settings,
    pub(crate) scheduler: Arc<Scheduler>,
}

#[derive(Debug)]
struct Part {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the controller is stopping")]
pub(crate) struct Stopping;

#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) jobs: mpsc::Sender<Job>,
    pub(crate) events: broadcast::Sender<DaemonEvent>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) services: Arc<ServiceManager>,
    pub(crate) access: Arc<Access>,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) limits: Arc<Live<Limits>>,
}

impl Handle {
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, Stopping> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |engine| drop(answer.send(act(engine))));
        self.jobs.send(job).await.map_err(|_| Stopping)?;
        answered.await.map_err(|_| Stopping)
    }
}

impl Daemon {
    /// Opens the sockets and starts the threads. All start-up errors are returned here.
    ///
    /// # Errors
    /// Returns which file, socket, key or thread is not available.
    pub fn start(settings: &Settings) -> Result<Daemon, StartError> {
        Daemon::start_on(Arc::new(RealDisk), settings)
    }

    /// Starts a daemon that stores its files on this disk.
    pub(crate) fn start_on(disk: Arc<dyn Disk>, settings: &Settings) -> Result<Daemon, StartError> {
        let tls = settings.tls.as_ref().map(SwitchTls::load).transpose()?;
        let http_tls = settings.http_tls.as_ref().map(tls::http_config).transpose()?;
        let http_tls = http_tls.map(|config| Arc::new(Live::new(config)));
        let metrics = Arc::new(Metrics::new());
        let calendar = Calendar::start(settings);
        let entry = calendar.entry(settings);
        let (scheduler, wanted) = (Arc::new(Scheduler::new(calendar, settings, entry)), settings.in_effect(entry));
        let limits = Arc::new(Live::new(fd_limit::raise_fd_limit(wanted.limits)));
        let hub = Arc::new(Hub::new(limits.clone(), tls, metrics.clone()));
        let mut control = settings.control.clone();
        let hosts = settings.state.as_ref().map(|file| Arc::new(HostStore::new(disk.clone(), file)));
        if let Some(hosts) = &hosts {
            control.persisted_hosts = hosts.load()?;
        }
        control.discovery_key = Some(discovery_key()?);
        let (label, balancer) = (wanted.balancer.label(), wanted.balancer);
        let recorder = settings.log.record.as_ref().map(|file| Recorder::create(file, settings.log.record_bytes));
        let controller = RecordedController::new(control, &balancer, recorder.transpose()?);
        let mut engine = Engine::new(controller, balancer, hub.clone(), metrics.clone());
        // This precedes the first connection: otherwise the controller would remove the connection
        // rules of its previous instance.
        let audit = Arc::new(AuditLog::open(settings.log.audit.as_deref())?);
        let services = Arc::new(merge_services(disk, settings, &wanted.services, &mut engine, audit.clone())?);
        let (jobs, to_do) = mpsc::channel(JOBS);
        let access = Arc::new(Access::new(Rules::of(settings)));
        let handle = Handle { jobs, events: engine.events.clone(), metrics, services, access, audit, limits };

        let switches = runtime().map_err(StartError::Thread)?;
        let (listener, openflow) = open(&switches, "switches", settings.listen)?;
        let web = settings.http.map(|configured| -> Result<_, StartError> {
            let runtime = runtime().map_err(StartError::Thread)?;
            let (listener, at) = open(&runtime, "HTTP", configured)?;
            Ok((runtime, listener, at))
        });
        let web = web.transpose()?;
        let http = web.as_ref().map(|(_, _, at)| *at);

        let bmp = settings.bmp.as_ref().map(|bmp| -> Result<_, StartError> {
            let runtime = runtime().map_err(StartError::Thread)?;
            let (listener, at) = open(&runtime, "BMP sessions", bmp.listen)?;
            Ok((runtime, listener, at, (bmp.routers.clone(), bmp.policy)))
        });
        let bmp = bmp.transpose()?;
        let bmp_at = bmp.as_ref().map(|(_, _, at, _)| *at);

        let served = hub.clone();
        let mut parts = vec![Part::spawn("openflow", switches, move |stop| async move {
            tokio::spawn(channel::listen(served, listener));
            engine.run(to_do, stop).await;
        })?];
        let (follower, followed) = (scheduler.clone(), handle.clone());
        let follow = move |stop| async move { follower.run(followed, stop).await };
        parts.push(Part::spawn("timetable", runtime().map_err(StartError::Thread)?, follow)?);
        if let Some(hosts) = hosts {
            let handle = handle.clone();
            let runtime = runtime().map_err(StartError::Thread)?;
            parts.push(Part::spawn("state", runtime, move |stop| host_store::persist_loop(handle, hosts, stop))?);
        }
        if let Some((runtime, listener, _, routers)) = bmp {
            let handle = handle.clone();
            parts.push(Part::spawn("bmp", runtime, move |stop| bmp::serve(handle, listener, routers, stop))?);
        }
        if let Some((runtime, listener, _)) = web {
            let (handle, listener) = (handle.clone(), (listener, http_tls.clone()));
            parts.push(Part::spawn("http", runtime, move |stop| http::serve(handle, listener, stop))?);
        }
        let show = |address: Option<SocketAddr>| address.map(tracing::field::display);
        tracing::info!(%openflow, http = show(http), bmp = show(bmp_at), "listening");
        let started = settings.clone();
        Ok(Daemon { openflow, bmp: bmp_at, http, balancer: label, parts, handle, hub, http_tls, started, scheduler })
    }

    /// Stops the daemon: closes the connections and leaves the rules in the switches.
    pub fn stop(self) {
        drop(self);
    }

    /// Returns whether all threads run; a thread that stopped without a request has panicked.
    pub fn is_running(&self) -> bool {
        self.parts.iter().all(|part| part.thread.as_ref().is_some_and(|thread| !thread.is_finished()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for part in &mut self.parts {
            // The send fails if the thread has already stopped.
            let _ = part.stop.take().map(|stop| stop.send(()));
        }
        for part in &mut self.parts {
            if part.thread.take().is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("a thread of the daemon panicked");
            }
        }
    }
}

impl Part {
    fn spawn<F>(
        name: &str,
        runtime: Runtime,
        run: impl FnOnce(oneshot::Receiver<()>) -> F + Send + 'static,
    ) -> Result<Part, StartError>
    where
        F: Future<Output = ()>,
    {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(run(stopped));
            // Connection tasks are dropped with their sockets; a slow writer must not delay the
            // shutdown.
            runtime.shutdown_background();
        });
        Ok(Part { stop: Some(stop), thread: Some(thread.map_err(StartError::Thread)?) })
    }
}

fn merge_services(
    disk: Arc<dyn Disk>,
    settings: &Settings,
    services: &ConfiguredServices,
    engine: &mut Engine,
    audit: Arc<AuditLog>,
) -> Result<ServiceManager, StartError> {
    let open = |file| Store::open(disk, &Store::path_for(file), settings.state_versions);
    let store = settings.state.as_deref().map(open).transpose()?;
    let (store, before) = store.map_or((None, Desired::default()), |(store, desired)| (Some(store), desired));
    let checker = settings.control.health_check_address.map(|checker| checker.ipv4);
    let refused = |refused: &ChangeError| StartError::Services { message: refused.to_string() };
    let mut desired = before.clone();
    desired.follow(Origin::File, services).map_err(|error| refused(&error))?;
    desired.check(checker, ErrorScope::All).map_err(|fault| refused(&ChangeError::Fault(fault)))?;
    if desired != before {
        desired.number(&before);
        if let Some(store) = &store {
            store.write(&desired).map_err(|error| refused(&error.into()))?;
        }
        audit.write(&before.change_to(&desired, Actor::CONFIGURATION));
    }
    let set = engine.set_services(desired.compile());
    set.map_err(|error| StartError::Services { message: error.to_string() })?;
    Ok(ServiceManager::new(desired, store, audit, checker))
}

fn discovery_key() -> Result<[u8; 16], StartError> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(StartError::Random)?;
    Ok(key)
}

/// Creates a single-threaded runtime: no lock contention, and messages that arrive together are
/// processed together.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Opens a listener. Returns it with its actual address.
fn open(runtime: &Runtime, what: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let _context = runtime.enter();
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Lets a restarted daemon bind the port while old connections are in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        send_at_once(&socket);
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let at = listener.local_addr().unwrap_or(address);
        Ok((listener, at))
    };
    listen().map_err(|source| StartError::Listen { what, address, source })
}

/// Selects Reno, so that a socket sends as much as the window allows. Some congestion controls
/// (BBR, for one) pace every write by a timer, which takes longer than the messages of a control
/// channel. Reno is in every kernel; where it cannot be selected, the default of the system stays.
fn send_at_once(socket: &TcpSocket) {
    if let Err(error) = setsockopt(socket, TcpCongestion, &OsString::from("reno")) {
        tracing::debug!("the system's congestion control stays in use: {error}");
    }
}
