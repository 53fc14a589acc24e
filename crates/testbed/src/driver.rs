//! The process that drives Mininet and Open vSwitch, and the conversation with it.

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

/// The interpreter that Debian's Mininet is installed for.
const PYTHON: &str = "/usr/bin/python3";

/// The driver's sources travel with the program.
const SOURCES: [(&str, &str); 4] = [
    ("driver.py", include_str!("../../../testbed/driver.py")),
    ("journal.py", include_str!("../../../testbed/journal.py")),
    ("network.py", include_str!("../../../testbed/network.py")),
    ("openvswitch.py", include_str!("../../../testbed/openvswitch.py")),
];

/// The folder of the one testbed a machine can have at a time.
pub fn folder() -> PathBuf {
    std::env::var_os("ANABRANCH_TESTBED_DIR").map_or_else(|| PathBuf::from("/run/anabranch-testbed"), PathBuf::from)
}

/// What a machine can do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Machine {
    /// Whether we are root.
    pub is_root: bool,
    /// Version of Mininet; `None` where it is not installed.
    pub mininet: Option<String>,
    /// Version of Open vSwitch.
    pub openvswitch: Option<String>,
    /// Whether the kernel has Open vSwitch's module.
    pub has_kernel_datapath: bool,
    /// Whether the kernel can delay packets.
    pub has_netem: bool,
    /// Whether the kernel can limit rates by a hierarchical token bucket.
    pub has_htb: bool,
    /// Whether the kernel can tell frames apart by their type.
    pub has_u32: bool,
    /// Whether the kernel can tell packets apart by a program (cls_bpf).
    pub has_bpf: bool,
    /// Programs found.
    pub tools: Vec<String>,
    /// Release of the kernel.
    pub kernel: String,
}

/// What `down` found.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Cleaned {
    /// Whether a driver was alive.
    #[serde(default)]
    pub was_up: bool,
    /// Processes that had to be ended after it.
    pub processes: u64,
    /// Interfaces that had to be deleted after it.
    pub interfaces: u64,
}

/// Counters at a moment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Counters {
    /// CLOCK_MONOTONIC, seconds.
    pub t: f64,
    /// Of each port of a switch: bytes, packets, drops received, then sent.
    pub ports: BTreeMap<String, [u64; 6]>,
    /// Of each shaped interface.
    pub queues: BTreeMap<String, QueueCounters>,
    /// Of each host.
    pub hosts: BTreeMap<String, HostCounters>,
    /// Processor time of the switch daemon, seconds.
    pub switch_cpu_s: f64,
}

/// Of one queue.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets dropped so far.
    pub drops: u64,
    /// Packets waiting.
    pub backlog: u64,
}

/// Of one host.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct HostCounters {
    /// Packets its interface has sent.
    pub sent: u64,
    /// IP packets it has received.
    pub received: u64,
    /// Datagrams its sockets had no room for.
    pub socket_drops: u64,
}

/// Something that happened.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// Counters of ports.
    Sample {
        /// CLOCK_MONOTONIC, seconds.
        t: f64,
        /// As in [`Counters::ports`].
        ports: BTreeMap<String, [u64; 6]>,
    },
    /// A program has ended.
    Exit {
        /// Its name.
        program: String,
        /// Its exit code; the negative number of the signal that killed it.
        code: i32,
    },
    /// A cable was plugged in or out.
    Link {
        /// Position in the plan.
        link: usize,
        /// In or out.
        up: bool,
        /// CLOCK_MONOTONIC, seconds.
        t: f64,
    },
}

/// A driver that is running.
pub struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    events: VecDeque<Event>,
    requests: u64,
    /// Complaints, for messages.
    errors: PathBuf,
}

impl Driver {
    /// Starts one. It makes nothing until it is told to.
    ///
    /// # Errors
    /// Python is not there, or the folder cannot be written.
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
            // Ctrl-C is for us: the driver cleans up when we say so or are gone.
            .process_group(0)
            .spawn()
            .map_err(|cause| TestbedError::Driver(format!("cannot be started with {PYTHON}: {cause}")))?;
        let (sender, output) = channel();
        let stdout = child.stdout.take().expect("it was asked for");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // What is no JSON was printed by a library and is for people.
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

    /// Asks for something and waits for the answer.
    ///
    /// # Errors
    /// It cannot be done, took longer than `patience`, or the driver is gone.
    pub fn ask(&mut self, what: &str, mut fields: Value, patience: Duration) -> Result<Value, TestbedError> {
        self.requests += 1;
        let number = self.requests;
        fields["id"] = json!(number);
        fields["do"] = json!(what);
        let Some(input) = &mut self.input else { return Err(self.gone()) };
        if writeln!(input, "{fields}").and_then(|()| input.flush()).is_err() {
            return Err(self.gone());
        }
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(value) if value["id"] == json!(number) => return answer(what, value),
                Ok(value) => self.events.extend(serde_json::from_value::<Event>(value).ok()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(TestbedError::Driver(format!("did not answer `{what}` within {patience:?}")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            }
        }
    }

    /// The next event, if one comes in time.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn event(&mut self, patience: Duration) -> Result<Option<Event>, TestbedError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        match self.output.recv_timeout(patience) {
            Ok(value) => Ok(serde_json::from_value(value).ok()),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Counters now.
    ///
    /// # Errors
    /// As [`Driver::ask`].
    pub fn counters(&mut self) -> Result<Counters, TestbedError> {
        let answer = self.ask("counters", json!({}), Duration::from_secs(120))?;
        serde_json::from_value(answer).map_err(|cause| TestbedError::Driver(format!("gave strange counters: {cause}")))
    }

    /// Starts a program, in a host or beside the switches; answers its process, unless it is to start later.
    ///
    /// # Errors
    /// As [`Driver::ask`].
    pub fn spawn(&mut self, program: &Program<'_>) -> Result<Option<u32>, TestbedError> {
        let Program { name, host, argv, log, cwd, at_s } = program;
        let fields = json!({"program": name, "host": host, "argv": argv, "log": log, "cwd": cwd, "at": at_s});
        let answer = self.ask("spawn", fields, Duration::from_secs(60))?;
        Ok(answer["pid"].as_u64().map(|pid| pid as u32))
    }

    /// Takes the network down.
    ///
    /// # Errors
    /// As [`Driver::ask`]; [`down`] cleans what was left.
    pub fn stop(mut self) -> Result<(), TestbedError> {
        let asked = self.ask("stop", json!({}), Duration::from_secs(180)).map(|_| ());
        self.input = None;
        let _ = self.child.wait();
        asked
    }

    /// Leaves the network up, to be taken down by [`down`].
    ///
    /// # Errors
    /// As [`Driver::ask`].
    pub fn detach(mut self) -> Result<(), TestbedError> {
        self.ask("detach", json!({}), Duration::from_secs(10)).map(|_| ())
    }

    fn gone(&mut self) -> TestbedError {
        let code = self.child.wait().map_or_else(|cause| cause.to_string(), |status| status.to_string());
        let said = fs::read_to_string(&self.errors).unwrap_or_default();
        let tail: Vec<&str> = said.lines().rev().take(6).collect();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
        TestbedError::Driver(format!("is gone ({code}): {tail}"))
    }
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// Its name, for events.
    pub name: &'a str,
    /// The host it runs in; `None` for beside the switches.
    pub host: Option<&'a str>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// File for what it prints.
    pub log: &'a Path,
    /// Its working folder.
    pub cwd: &'a Path,
    /// When, in seconds of CLOCK_MONOTONIC; `None` for now.
    pub at_s: Option<f64>,
}

/// What this machine can do.
///
/// # Errors
/// Python is not there.
pub fn machine() -> Result<Machine, TestbedError> {
    // Not under the testbed's folder: whoever is not root cannot write there, and is to be told so in words.
    let folder = std::env::temp_dir().join(format!("anabranch-testbed-{}", std::process::id()));
    let answer = once(&folder, "machine");
    let _ = fs::remove_dir_all(sources_folder(&folder));
    answer
}

/// Cleans up whatever a testbed left here, or is.
///
/// # Errors
/// Not root, or Python is not there.
pub fn down() -> Result<Cleaned, TestbedError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(TestbedError::NotRoot);
    }
    once(&folder(), "down")
}

fn once<T: serde::de::DeserializeOwned>(folder: &Path, what: &str) -> Result<T, TestbedError> {
    let script = unpack(folder)?;
    let run = Command::new(PYTHON).arg(&script).arg(folder).arg(what).stdin(Stdio::null()).output();
    let output = run.map_err(|cause| TestbedError::Driver(format!("cannot be started with {PYTHON}: {cause}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap_or_default()).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        TestbedError::Driver(format!("could not do `{what}`: {}", said.lines().last().unwrap_or("it said nothing")))
    })
}

/// Writes the sources beside the folder (which is emptied when a network is taken down); answers the main one.
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

fn answer(what: &str, value: Value) -> Result<Value, TestbedError> {
    if value["ok"] == json!(true) {
        return Ok(value);
    }
    let reason = value["error"].as_str().unwrap_or("no reason given");
    Err(TestbedError::Refused(format!("{reason} (asked to `{what}`)")))
}
