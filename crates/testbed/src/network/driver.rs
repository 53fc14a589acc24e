//! The Python process that drives Mininet and Open vSwitch, and the protocol to it.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::TestbedError;

/// The interpreter for which Debian packages Mininet.
const PYTHON: &str = "/usr/bin/python3";

/// Sources of the driver, embedded in the program.
const SOURCES: [(&str, &str); 4] = [
    ("driver.py", include_str!("../../../../testbed/driver.py")),
    ("journal.py", include_str!("../../../../testbed/journal.py")),
    ("network.py", include_str!("../../../../testbed/network.py")),
    ("openvswitch.py", include_str!("../../../../testbed/openvswitch.py")),
];

/// Returns the folder of the testbed. A machine has at most one testbed at a time.
pub fn folder() -> PathBuf {
    std::env::var_os("ANABRANCH_TESTBED_DIR").map_or_else(|| PathBuf::from("/run/anabranch-testbed"), PathBuf::from)
}

/// Capabilities of a machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Machine {
    pub is_root: bool,
    /// `None` if Mininet is not installed.
    pub mininet: Option<String>,
    /// `None` if Open vSwitch is not installed.
    pub openvswitch: Option<String>,
    /// Whether the kernel has the Open vSwitch module.
    pub has_kernel_datapath: bool,
    /// Whether the kernel can delay packets.
    pub has_netem: bool,
    /// Whether the kernel can limit rates with a hierarchical token bucket.
    pub has_htb: bool,
    /// Whether the kernel can classify frames by type (cls_u32).
    pub has_u32: bool,
    /// Whether the kernel can classify packets with a BPF program (cls_bpf).
    pub has_bpf: bool,
    /// Programs on the search path.
    pub tools: Vec<String>,
    /// Kernel release.
    pub kernel: String,
}

/// Result of [`down`].
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Cleaned {
    /// Whether a driver was running.
    #[serde(default)]
    pub was_up: bool,
    /// Processes that the driver had left.
    pub processes: u64,
    /// Interfaces that the driver had left.
    pub interfaces: u64,
}

/// All counters at one time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Counters {
    /// CLOCK_MONOTONIC, seconds.
    pub t: f64,
    /// Per switch port: bytes, packets and drops received, then the same sent.
    pub ports: BTreeMap<String, [u64; 6]>,
    /// Per shaped interface.
    pub queues: BTreeMap<String, QueueCounters>,
    pub hosts: BTreeMap<String, HostCounters>,
    /// Processor time of the switch daemon, seconds.
    pub switch_cpu_s: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct QueueCounters {
    pub drops: u64,
    /// Packets in the queue.
    pub backlog: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct HostCounters {
    /// Packets sent by the interface.
    pub sent: u64,
    /// IP packets received.
    pub received: u64,
    /// Datagrams dropped by full socket buffers.
    pub socket_drops: u64,
}

/// A message of the driver that is not a reply.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    Sample {
        /// CLOCK_MONOTONIC, seconds.
        t: f64,
        ports: BTreeMap<String, [u64; 6]>,
    },
    Exit {
        program: String,
        /// Exit code; the negative signal number if a signal killed the program.
        code: i32,
    },
    /// A link was disconnected or reconnected.
    Link {
        /// Position in the plan.
        link: usize,
        up: bool,
        /// CLOCK_MONOTONIC, seconds.
        t: f64,
    },
}

/// A running driver process.
pub struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    events: VecDeque<Event>,
    requests: u64,
    /// Standard error of the driver, quoted in messages.
    errors: PathBuf,
}

impl Driver {
    /// Starts a driver. It builds nothing until it receives a request.
    ///
    /// # Errors
    /// Python is not installed, or the folder cannot be written.
    pub fn start(folder: &Path) -> Result<Driver, TestbedError> {
        let script = unpack(folder)?;
        let errors = folder.with_extension("log");
        let log = fs::File::create(&errors).map_err(file_error("write", &errors))?;
        let mut child = Command::new(PYTHON)
            .arg("-u")
            .arg(&script)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // Ctrl-C goes to `anabranch` alone; the driver cleans up on request or when its input
            // closes.
            .process_group(0)
            .spawn()
            .map_err(|cause| TestbedError::Driver(format!("cannot be started with {PYTHON}: {cause}")))?;
        let (sender, output) = channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // A line that is not JSON was printed by a library.
                if let Ok(value) = serde_json::from_str(&line)
                    && sender.send(value).is_err()
                {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Ok(Driver { child, input, output, events: VecDeque::new(), requests: 0, errors })
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// The driver rejects the request, does not reply within `patience`, or has ended.
    pub fn request(&mut self, what: &str, mut fields: Value, patience: Duration) -> Result<Value, TestbedError> {
        self.requests += 1;
        let number = self.requests;
        fields["id"] = json!(number);
        fields["do"] = json!(what);
        let Some(input) = &mut self.input else { return Err(self.ended()) };
        if writeln!(input, "{fields}").and_then(|()| input.flush()).is_err() {
            return Err(self.ended());
        }
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(value) if value["id"] == json!(number) => return check_reply(what, value),
                Ok(value) => self.events.extend(serde_json::from_value::<Event>(value).ok()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(TestbedError::Driver(format!("did not reply to `{what}` within {patience:?}")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            }
        }
    }

    /// Returns the next event, if one arrives in time.
    ///
    /// # Errors
    /// The driver has ended.
    pub fn event(&mut self, patience: Duration) -> Result<Option<Event>, TestbedError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        match self.output.recv_timeout(patience) {
            Ok(value) => Ok(serde_json::from_value(value).ok()),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// Returns the current counters.
    pub fn counters(&mut self) -> Result<Counters, TestbedError> {
        let answer = self.request("counters", json!({}), Duration::from_secs(120))?;
        serde_json::from_value(answer)
            .map_err(|cause| TestbedError::Driver(format!("returned invalid counters: {cause}")))
    }

    /// Starts a program in a host or outside the hosts. Returns its process id, unless it starts
    /// later.
    pub fn spawn(&mut self, program: &Program<'_>) -> Result<Option<u32>, TestbedError> {
        let Program { name, host, argv, log, cwd, at_s } = program;
        let fields = json!({"program": name, "host": host, "argv": argv, "log": log, "cwd": cwd, "at": at_s});
        let answer = self.request("spawn", fields, Duration::from_secs(60))?;
        Ok(answer["pid"].as_u64().map(|pid| pid as u32))
    }

    /// Removes the network. After an error, [`down`] removes the rest.
    pub fn stop(mut self) -> Result<(), TestbedError> {
        let asked = self.request("stop", json!({}), Duration::from_secs(180)).map(|_| ());
        self.input = None;
        let _ = self.child.wait();
        asked
    }

    /// Leaves the network up; [`down`] removes it.
    pub fn detach(mut self) -> Result<(), TestbedError> {
        self.request("detach", json!({}), Duration::from_secs(10)).map(|_| ())
    }

    fn ended(&mut self) -> TestbedError {
        let code = self.child.wait().map_or_else(|cause| cause.to_string(), |status| status.to_string());
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        let tail: Vec<&str> = errors.lines().rev().take(6).collect();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
        TestbedError::Driver(format!("has ended ({code}): {tail}"))
    }
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// Name in events.
    pub name: &'a str,
    /// `None`: outside the hosts, where the switches run.
    pub host: Option<&'a str>,
    pub argv: Vec<String>,
    /// File for the output of the program.
    pub log: &'a Path,
    pub cwd: &'a Path,
    /// Start in seconds of CLOCK_MONOTONIC; `None` for now.
    pub at_s: Option<f64>,
}

/// Returns the capabilities of this machine.
///
/// # Errors
/// Python is not installed.
pub fn machine() -> Result<Machine, TestbedError> {
    // A user who is not root cannot write to the testbed's folder and must still get a readable
    // error.
    let folder = std::env::temp_dir().join(format!("anabranch-testbed-{}", std::process::id()));
    let answer = run_once(&folder, "machine");
    let _ = fs::remove_dir_all(sources_folder(&folder));
    answer
}

/// Removes the testbed of this machine, running or left by a crash.
///
/// # Errors
/// The user is not root, or Python is not installed.
pub fn down() -> Result<Cleaned, TestbedError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(TestbedError::NotRoot);
    }
    run_once(&folder(), "down")
}

fn run_once<T: serde::de::DeserializeOwned>(folder: &Path, what: &str) -> Result<T, TestbedError> {
    let script = unpack(folder)?;
    let run = Command::new(PYTHON).arg(&script).arg(folder).arg(what).stdin(Stdio::null()).output();
    let output = run.map_err(|cause| TestbedError::Driver(format!("cannot be started with {PYTHON}: {cause}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap_or_default()).map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        TestbedError::Driver(format!(
            "failed to execute `{what}`: {}",
            errors.lines().last().unwrap_or("it printed no output")
        ))
    })
}

/// Writes the sources next to the folder, because `down` empties the folder. Returns the main
/// script.
fn unpack(folder: &Path) -> Result<PathBuf, TestbedError> {
    let sources = sources_folder(folder);
    fs::create_dir_all(&sources).map_err(file_error("make", &sources))?;
    for (name, text) in SOURCES {
        let path = sources.join(name);
        fs::write(&path, text).map_err(file_error("write", &path))?;
    }
    Ok(sources.join("driver.py"))
}

fn sources_folder(folder: &Path) -> PathBuf {
    folder.with_extension("driver")
}

pub(crate) fn file_error<'a>(what: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> TestbedError + 'a {
    move |cause| TestbedError::File { what, path: path.to_owned(), cause }
}

fn check_reply(what: &str, value: Value) -> Result<Value, TestbedError> {
    if value["ok"] == json!(true) {
        return Ok(value);
    }
    let reason = value["error"].as_str().unwrap_or("no reason given");
    Err(TestbedError::Refused(format!("{reason} (request `{what}`)")))
}
