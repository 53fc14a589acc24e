//! Processes: their CPU time, memory and placement, and reference controllers. Linux only.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use procfs::process::Process;

use crate::Error;

/// Priority under `SCHED_RR`; any value precedes all ordinary processes.
const REALTIME_PRIORITY: &str = "10";
/// Time limit until a reference controller listens.
const START_MAX: Duration = Duration::from_secs(20);

/// Returns the user and system time of a process and its threads, in seconds, including ended
/// threads.
pub fn cpu_s(pid: u32) -> Option<f64> {
    let stat = Process::new(pid as i32).and_then(|process| process.stat()).ok()?;
    Some((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = Process::new(pid as i32).and_then(|process| process.status()).ok()?;
    Some(status.vmrss? * 1_024)
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Checks whether programs can be started with real-time priority.
///
/// # Errors
/// Returns why not.
pub fn can_be_realtime() -> Result<(), String> {
    run("chrt", &["-r", REALTIME_PRIORITY, "true"])
}

/// Gives the calling thread ordinary priority, which it may not have inherited.
pub(crate) fn make_ordinary() {
    // The failure is harmless if the thread had ordinary priority.
    let _ = run("chrt", &["-o", "-p", "0", &nix::unistd::gettid().to_string()]);
}

/// Raises the limit of open files and connections of this process.
pub(crate) fn allow_files(needed: u64) -> Result<(), String> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| error.to_string())?;
    if soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(format!("{needed} files are needed, but only {hard} are allowed; raise `ulimit -Hn`"));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(|error| error.to_string())
}

/// The original placement of a process that was pinned to a core; restored when dropped.
#[derive(Debug)]
pub struct CpuPlacement {
    pid: u32,
    cores: Option<String>,
    is_realtime_by_us: bool,
}

/// Pins a process with all its threads to a core, with real-time priority if requested and not set.
///
/// # Errors
/// Returns why not; the process may have been pinned.
pub fn place(pid: u32, core: u32, is_realtime: bool) -> Result<CpuPlacement, String> {
    let process = Process::new(pid as i32).map_err(|_| format!("no process has the id {pid}"))?;
    let cores = process.status().ok().and_then(|status| status.cpus_allowed_list).map(|ranges| {
        let ranges: Vec<String> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        ranges.join(",")
    });
    // Policy 0 is the ordinary one.
    let is_ordinary = process.stat().is_ok_and(|stat| stat.policy == Some(0));
    let mut placed = CpuPlacement { pid, cores, is_realtime_by_us: false };
    let pid = pid.to_string();
    run("taskset", &["-a", "-c", "-p", &core.to_string(), &pid])?;
    if is_realtime && is_ordinary {
        run("chrt", &["-a", "-r", "-p", REALTIME_PRIORITY, &pid])?;
        placed.is_realtime_by_us = true;
    }
    Ok(placed)
}

impl Drop for CpuPlacement {
    fn drop(&mut self) {
        // A process that has ended needs no restoration.
        let pid = self.pid.to_string();
        if self.is_realtime_by_us {
            let _ = run("chrt", &["-a", "-o", "-p", "0", &pid]);
        }
        if let Some(cores) = &self.cores {
            let _ = run("taskset", &["-a", "-c", "-p", cores, &pid]);
        }
    }
}

/// A controller started for comparison; stopped when dropped.
#[derive(Debug)]
pub struct ReferenceController {
    child: Child,
    address: SocketAddr,
    log_file: PathBuf,
}

impl ReferenceController {
    /// Starts Open vSwitch's `ovs-testcontroller` on a free port of the loopback interface, on
    /// `core` if given.
    ///
    /// # Errors
    /// The program is missing or does not listen.
    pub fn start(program: &Path, core: Option<u32>, is_realtime: bool) -> Result<ReferenceController, Error> {
        // No control socket: it would need a folder that only root can write to.
        let arguments = |at: SocketAddr| vec!["--unixctl=none".to_owned(), format!("ptcp:{}:{}", at.port(), at.ip())];
        ReferenceController::launch(program, arguments, core, is_realtime)
    }

    /// Starts `anabranch serve` on a free port of the loopback interface with these additional
    /// arguments.
    ///
    /// # Errors
    /// As [`ReferenceController::start`].
    pub fn start_anabranch(
        program: &Path,
        further: &[String],
        core: Option<u32>,
        is_realtime: bool,
    ) -> Result<ReferenceController, Error> {
        let arguments = |at: SocketAddr| {
            let fixed = ["serve".to_owned(), "--listen".to_owned(), at.to_string()];
            fixed.into_iter().chain(further.iter().cloned()).collect()
        };
        ReferenceController::launch(program, arguments, core, is_realtime)
    }

    fn launch(
        program: &Path,
        arguments: impl FnOnce(SocketAddr) -> Vec<String>,
        core: Option<u32>,
        is_realtime: bool,
    ) -> Result<ReferenceController, Error> {
        let refused = |message: String| Error::Reference { program: program.display().to_string(), message };
        // The port is free now; if another process takes it first, the reference controller fails,
        // which is detected below.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        let address = port.map_err(|error| refused(error.to_string()))?;
        let log_file =
            std::env::temp_dir().join(format!("ofload-reference-{}-{}.log", std::process::id(), address.port()));
        let log = fs::File::create(&log_file).map_err(|error| refused(error.to_string()))?;
        let mut line: Vec<String> = Vec::new();
        if let Some(core) = core {
            line.extend(["taskset", "-c", &core.to_string()].map(str::to_owned));
        }
        if is_realtime {
            line.extend(["chrt", "-r", REALTIME_PRIORITY].map(str::to_owned));
        }
        line.push(program.display().to_string());
        line.extend(arguments(address));
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| refused(error.to_string()))?;
        let mut reference = ReferenceController { child, address, log_file };
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Ok(Some(status)) = reference.child.try_wait() {
                return Err(refused(format!("the program exited with {status}: {}", reference.log_tail())));
            }
            if Instant::now() >= deadline {
                return Err(refused(format!("the program does not listen on {address}: {}", reference.log_tail())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(reference)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
    /// Returns its process id: `taskset` and `chrt` become the program that they start.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log_file).unwrap_or_default();
        text.lines().next_back().unwrap_or("its log is empty").to_owned()
    }
}

impl Drop for ReferenceController {
    fn drop(&mut self) {
        // It may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.log_file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_time_and_memory_are_measured() {
        let pid = std::process::id();
        let before = cpu_s(pid).unwrap();
        let mut sum = 0u64;
        let end = Instant::now() + Duration::from_secs(5);
        while cpu_s(pid).unwrap() < before + 0.05 {
            (0..10_000).for_each(|n| sum = std::hint::black_box(sum.wrapping_add(n)));
            assert!(Instant::now() < end, "five seconds of work took less than 0.05 s");
        }
        assert!(resident_bytes(pid).unwrap() > 100_000);
        assert_eq!(cpu_s(u32::MAX), None);
        assert_eq!(resident_bytes(u32::MAX), None);
    }

    #[test]
    fn missing_program_is_named() {
        let error = ReferenceController::start(Path::new("/nonexistent/ovs-testcontroller"), None, false).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/ovs-testcontroller"), "{error}");
    }
}
