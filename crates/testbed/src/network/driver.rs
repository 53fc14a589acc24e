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

use crate::error::{Result, TestbedError, file_error, log_tail, make_folder, write_file};

/// The interpreter for which Debian packages Mininet.
const PYTHON: &str = "/usr/bin/python3";

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

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Machine {
    pub is_root: bool,
    /// Version; `None` if it is not installed.
    pub mininet: Option<String>,
    /// Version; `None` if it is not installed.
    pub openvswitch: Option<String>,
    /// Whether the kernel has the Open vSwitch module.
    pub has_kernel_datapath: bool,
    /// The kernel can delay packets (`netem`), limit rates (`htb`), and classify frames by type
    /// (`cls_u32`) or with a program (`cls_bpf`).
    pub has_netem: bool,
    pub has_htb: bool,
    pub has_u32: bool,
    pub has_bpf: bool,
    pub tools: Vec<String>,
    pub kernel: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Cleaned {
    #[serde(default)]
    pub was_up: bool,
    /// Objects that the driver had left.
    pub processes: u64,
    pub interfaces: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Counters {
    /// CLOCK_MONOTONIC, seconds.
    pub t: f64,
    /// Per switch port: bytes, packets and drops received, then the same sent.
    pub ports: BTreeMap<String, [u64; 6]>,
    /// Per shaped interface.
    pub queues: BTreeMap<String, QueueCounters>,
    pub hosts: BTreeMap<String, HostCounters>,
    /// Processor time of the switch daemon.
    pub switch_cpu_s: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct QueueCounters {
    pub drops: u64,
    pub backlog: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct HostCounters {
    pub sent: u64,
    /// IP packets received.
    pub received: u64,
    /// Datagrams dropped by full socket buffers.
    pub socket_drops: u64,
}

/// A message of the driver that is not a reply. Times are seconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    Sample {
        t: f64,
        ports: BTreeMap<String, [u64; 6]>,
    },
    Exit {
        program: String,
        /// Exit code; the negative signal number if a signal killed the program.
        code: i32,
    },
    Link {
        link: usize,
        up: bool,
        t: f64,
    },
}

pub struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    events: VecDeque<Event>,
    requests: u64,
    errors: PathBuf,
}

impl Driver {
    /// Starts a driver. It builds nothing until it receives a request.
    pub fn start(folder: &Path) -> Result<Driver> {
        let errors = folder.with_extension("log");
        let log = fs::File::create(&errors).map_err(file_error("write", &errors))?;
        let mut command = command(folder)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        // Ctrl-C goes to `anabranch` alone; the driver cleans up on request or when its input closes.
        let mut child = command.process_group(0).spawn().map_err(not_started)?;
        let (sender, output) = channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        std::thread::spawn(move || {
            // A line that is not JSON was printed by a library.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let mut messages = lines.filter_map(|line| serde_json::from_str(&line).ok());
            messages.try_for_each(|message| sender.send(message))
        });
        let input = child.stdin.take();
        Ok(Driver { child, input, output, events: VecDeque::new(), requests: 0, errors })
    }

    /// Sends a request and waits for the reply.
    pub fn request(&mut self, what: &str, mut fields: Value, patience: Duration) -> Result<Value> {
        self.requests += 1;
        let number = json!(self.requests);
        fields["id"] = number.clone();
        fields["do"] = json!(what);
        let Some(input) = &mut self.input else { return Err(self.ended()) };
        if writeln!(input, "{fields}").and_then(|()| input.flush()).is_err() {
            return Err(self.ended());
        }
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(value) if value["id"] == number => return check_reply(what, value),
                Ok(value) => self.events.extend(serde_json::from_value::<Event>(value).ok()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(TestbedError::Driver(format!("did not reply to `{what}` within {patience:?}")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            }
        }
    }

    pub fn event(&mut self, patience: Duration) -> Result<Option<Event>> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        match self.output.recv_timeout(patience) {
            Ok(value) => Ok(serde_json::from_value(value).ok()),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    pub fn counters(&mut self) -> Result<Counters> {
        let counters = self.request("counters", json!({}), Duration::from_secs(120))?;
        let invalid = |cause| TestbedError::Driver(format!("returned invalid counters: {cause}"));
        serde_json::from_value(counters).map_err(invalid)
    }

    /// Starts a program. Returns its process id, unless it starts later.
    pub fn spawn(&mut self, program: &Program<'_>) -> Result<Option<u32>> {
        let Program { name, host, argv, log, cwd, at_s } = program;
        let fields = json!({"program": name, "host": host, "argv": argv, "log": log, "cwd": cwd, "at": at_s});
        let answer = self.request("spawn", fields, Duration::from_secs(60))?;
        Ok(answer["pid"].as_u64().map(|pid| pid as u32))
    }

    /// Removes the network. After an error, [`down`] removes the rest.
    pub fn stop(mut self) -> Result<()> {
        let stopped = self.request("stop", json!({}), Duration::from_secs(180));
        self.input = None;
        let _ = self.child.wait();
        stopped.map(drop)
    }

    /// Leaves the network up; [`down`] removes it.
    pub fn detach(mut self) -> Result<()> {
        self.request("detach", json!({}), Duration::from_secs(10)).map(drop)
    }

    fn ended(&mut self) -> TestbedError {
        let code = self.child.wait().map_or_else(|cause| cause.to_string(), |status| status.to_string());
        TestbedError::Driver(format!("has ended ({code}): {}", log_tail(&self.errors, 6)))
    }
}

#[derive(Clone, Debug)]
pub struct Program<'a> {
    pub name: &'a str,
    /// `None`: outside the hosts, where the switches run.
    pub host: Option<&'a str>,
    pub argv: Vec<String>,
    pub log: &'a Path,
    pub cwd: &'a Path,
    /// Start in seconds of CLOCK_MONOTONIC; `None` for now.
    pub at_s: Option<f64>,
}

/// Splits a command line at its spaces.
pub(crate) fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

pub fn machine() -> Result<Machine> {
    // A user who is not root cannot write to the testbed's folder, and still gets a readable error.
    let folder = std::env::temp_dir().join(format!("anabranch-testbed-{}", std::process::id()));
    let answer = run_once(&folder, "machine");
    let _ = fs::remove_dir_all(sources_folder(&folder));
    answer
}

/// Removes the testbed of this machine, running or left by a crash.
pub fn down() -> Result<Cleaned> {
    if !nix::unistd::geteuid().is_root() {
        return Err(TestbedError::NotRoot);
    }
    run_once(&folder(), "down")
}

fn run_once<T: serde::de::DeserializeOwned>(folder: &Path, what: &str) -> Result<T> {
    let output = command(folder)?.arg(what).stdin(Stdio::null()).output().map_err(not_started)?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap_or_default()).map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or("it printed no output");
        TestbedError::Driver(format!("failed to execute `{what}`: {last}"))
    })
}

/// Returns the command of a driver. Its sources are written next to the folder, because `down`
/// empties the folder.
fn command(folder: &Path) -> Result<Command> {
    let sources = sources_folder(folder);
    make_folder(&sources)?;
    for (name, text) in SOURCES {
        write_file(&sources.join(name), text)?;
    }
    let mut command = Command::new(PYTHON);
    // Unbuffered, so that each line arrives at once.
    command.arg("-u").arg(sources.join("driver.py")).arg(folder);
    Ok(command)
}

fn not_started(cause: std::io::Error) -> TestbedError {
    TestbedError::Driver(format!("cannot be started with {PYTHON}: {cause}"))
}

fn sources_folder(folder: &Path) -> PathBuf {
    folder.with_extension("driver")
}

fn check_reply(what: &str, value: Value) -> Result<Value> {
    if value["ok"] == json!(true) {
        return Ok(value);
    }
    let reason = value["error"].as_str().unwrap_or("no reason given");
    Err(TestbedError::Refused(format!("{reason} (request `{what}`)")))
}
