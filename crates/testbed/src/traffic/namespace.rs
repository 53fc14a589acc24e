//! Network namespaces of emulated hosts. A socket belongs to the namespace in which it was created.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns};

use crate::error::{Result, TestbedError, failed, file_error};

/// A host: a process in its namespace, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAt {
    pub pid: u32,
    pub ip: Ipv4Addr,
}

/// The network namespace of a host.
pub struct Namespace(File);

impl Namespace {
    pub fn of(host: HostAt) -> Result<Namespace> {
        let path = PathBuf::from(format!("/proc/{}/ns/net", host.pid));
        File::open(&path).map(Namespace).map_err(file_error("open", &path))
    }

    /// Moves this thread into the namespace.
    pub fn enter(&self) -> io::Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }
}

/// Runs `work` in the network namespace of a host, on a thread that ends with it.
pub fn run_in_namespace<T: Send>(host: HostAt, work: impl FnOnce() -> io::Result<T> + Send) -> Result<T> {
    let namespace = Namespace::of(host)?;
    thread::scope(|scope| match scope.spawn(|| namespace.enter().and_then(|()| work())).join() {
        Ok(done) => done.map_err(|cause| sockets_failed(host, &cause.to_string())),
        Err(_) => Err(sockets_failed(host, "panicked")),
    })
}

/// Starts a detached thread in the network namespace of a host.
pub fn spawn_in_namespace(host: HostAt, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let namespace = Namespace::of(host)?;
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || {
        let entered = namespace.enter();
        let is_in = entered.is_ok();
        // The caller waits for this result.
        let _ = sender.send(entered);
        if is_in {
            work();
        }
    });
    match receiver.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(cause)) => Err(sockets_failed(host, &cause.to_string())),
        Err(_) => Err(sockets_failed(host, "panicked")),
    }
}

/// Gives this thread real-time priority, because delayed packets cannot be sent on time later.
/// Without the privilege it paces as well as possible.
pub fn prioritise_this_thread() {
    let thread = nix::unistd::gettid().to_string();
    let mut chrt = Command::new("chrt");
    let _ = chrt.args(["--rr", "--pid", "1", &thread]).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn sockets_failed(host: HostAt, reason: &str) -> TestbedError {
    failed(&format!("sockets of {}", host.ip), reason)
}
