//! A daemon that runs: one thread for switches, one for HTTP, so that nobody who looks disturbs those who work.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::access::Tokens;
use crate::channel::{self, Hub};
use crate::engine::{Engine, Job};
use crate::events::Happening;
use crate::metrics::Metrics;
use crate::services::{Desired, Focus, Keeper, Origin, Refused, Store, StoreError};
use crate::settings::Settings;
use crate::state::{self, StateError};
use crate::tls::{self, TlsError};
use crate::{files, http};

/// Connections the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;
/// Jobs from HTTP that wait for the engine; more wait outside.
const JOBS: usize = 64;

/// A daemon that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket could not be opened.
    #[error("cannot listen on {address} for {what}")]
    Listen {
        /// What for.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Remembered hosts cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// What is written down of virtual services cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The virtual services of the configuration file and those of the store do not go together.
    #[error("virtual services: {words}")]
    Services {
        /// What does not.
        words: String,
    },
    /// A thread or runtime could not be made.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// A daemon that runs. It stops when it is dropped.
#[derive(Debug)]
pub struct Daemon {
    /// Where switches connect to: the port is known here if port 0 was asked for.
    pub openflow: SocketAddr,
    /// Where the HTTP interface is.
    pub http: Option<SocketAddr>,
    parts: Vec<Part>,
}

/// A thread, and what stops it.
#[derive(Debug)]
struct Part {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The engine does not do anything any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopping;

/// What others need of the engine.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) jobs: mpsc::Sender<Job>,
    pub(crate) events: broadcast::Sender<Happening>,
    pub(crate) metrics: Arc<Metrics>,
    /// What is wanted of virtual services.
    pub(crate) services: Arc<Keeper>,
    /// Who may do what.
    pub(crate) tokens: Arc<Tokens>,
}

impl Handle {
    /// Has the engine do something between two rounds.
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
    /// Opens sockets and starts. Everything that can go wrong goes wrong here.
    ///
    /// # Errors
    /// What could not be had.
    pub fn start(settings: &Settings) -> Result<Daemon, StartError> {
        let tls = settings.tls.as_ref().map(tls::acceptor).transpose()?;
        let http_tls = settings.http_tls.as_ref().map(tls::http_acceptor).transpose()?;
        let metrics = Arc::new(Metrics::new());
        let limits = files::within_limits(settings.limits);
        let hub = Arc::new(Hub::new(limits, metrics.clone()));
        let settings = &state::with_remembered(settings)?;
        let mut engine = Engine::new(settings, hub.clone(), metrics.clone());
        // Before any switch connects: rules of connections of an earlier life would be removed.
        let services = Arc::new(wanted_services(settings, &mut engine)?);
        let (jobs, to_do) = mpsc::channel(JOBS);
        let tokens = Arc::new(settings.tokens.clone());
        let handle = Handle { jobs, events: engine.events(), metrics, services, tokens };

        let switches = runtime()?;
        let listener = open(&switches, "switches", settings.listen)?;
        let openflow = address(&listener, settings.listen);
        let web = settings.http.map(|wanted| -> Result<_, StartError> {
            let runtime = runtime()?;
            let listener = open(&runtime, "HTTP", wanted)?;
            let at = address(&listener, wanted);
            Ok((runtime, listener, at))
        });
        let web = web.transpose()?;
        let http = web.as_ref().map(|(_, _, at)| *at);

        let mut parts = vec![Part::spawn("openflow", switches, move |stop| async move {
            tokio::spawn(channel::listen(hub, listener, tls));
            engine.run(to_do, stop).await;
        })?];
        if let Some(file) = settings.state.clone() {
            let handle = handle.clone();
            parts.push(Part::spawn("state", runtime()?, move |stop| state::keep(handle, file, stop))?);
        }
        if let Some((runtime, listener, _)) = web {
            let door = http::Door { listener, tls: http_tls, limits };
            parts.push(Part::spawn("http", runtime, move |stop| http::serve(handle, door, stop))?);
        }
        tracing::info!(%openflow, http = http.map(tracing::field::display), "listening");
        Ok(Daemon { openflow, http, parts })
    }

    /// Stops: connections are closed, and what is in the switches stays as it is.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        for part in &mut self.parts {
            // One that has ended by itself has nobody to hear this.
            let _ = part.stop.take().map(|stop| stop.send(()));
        }
        for part in &mut self.parts {
            if part.thread.take().is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("a thread of the daemon panicked");
            }
        }
    }

    /// Whether every part still runs: one that does not has panicked.
    pub fn is_running(&self) -> bool {
        self.parts.iter().all(|part| part.thread.as_ref().is_some_and(|thread| !thread.is_finished()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
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
            // Tasks of connections are dropped with their sockets; nobody waits for those that write.
            runtime.shutdown_background();
        });
        Ok(Part { stop: Some(stop), thread: Some(thread.map_err(StartError::Thread)?) })
    }
}

/// The virtual services of the store and of the configuration file together; the engine knows them then.
fn wanted_services(settings: &Settings, engine: &mut Engine) -> Result<Keeper, StartError> {
    let store = settings.state.as_deref().map(|file| Store::open(&Store::beside(file))).transpose()?;
    let (store, before) = store.map_or((None, Desired::default()), |(store, desired)| (Some(store), desired));
    let checker = settings.control.checker.map(|checker| checker.ipv4);
    let refused = |refused: &Refused| StartError::Services { words: refused.to_string() };
    let mut desired = before.clone();
    desired.follow(Origin::File, &settings.services).map_err(|error| refused(&error))?;
    desired.check(checker, Focus::All).map_err(|fault| refused(&Refused::Fault(fault)))?;
    if let Some(store) = store.as_ref().filter(|_| desired != before) {
        store.write(&desired).map_err(|error| refused(&Refused::Store(error.to_string())))?;
    }
    let set = engine.set_services(desired.compile());
    set.map_err(|error| StartError::Services { words: error.to_string() })?;
    Ok(Keeper::new(desired, store, checker))
}

/// Everything of one kind on one thread: no locks are fought over, and what is read together is answered together.
fn runtime() -> Result<Runtime, StartError> {
    Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)
}

fn open(runtime: &Runtime, what: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    let _context = runtime.enter();
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A daemon that starts again takes its port although connections of the one before are still remembered.
        socket.set_reuseaddr(true)?;
        send_at_once(&socket);
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| StartError::Listen { what, address, source })
}

/// Connections accepted send what they have, as far as the window goes: some congestion controls (BBR, for one) pace every
/// write by a timer, which costs more than the messages of a control channel do. Reno is in every kernel; where it may not
/// be chosen, the system's stays.
fn send_at_once(socket: &TcpSocket) {
    if let Err(error) = setsockopt(socket, TcpCongestion, &OsString::from("reno")) {
        tracing::debug!("the system's congestion control stays in use: {error}");
    }
}

fn address(listener: &TcpListener, wanted: SocketAddr) -> SocketAddr {
    listener.local_addr().unwrap_or(wanted)
}
