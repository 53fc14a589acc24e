//! Other processes: what they use, where they run, and peers started for comparison. Linux only; elsewhere nothing is known.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::Error;

/// Clock ticks per second in `/proc` (`USER_HZ`): 100 on every architecture of today's Linux.
const TICKS_PER_S: f64 = 100.0;
/// Priority under `SCHED_RR`; any would do, all ordinary processes come after.
const REALTIME_PRIORITY: &str = "10";
/// How long a peer may take to listen.
const START_MAX: Duration = Duration::from_secs(20);

/// User and system time a process and its threads have used so far, s; threads that ended included.
pub fn cpu_s(pid: u32) -> Option<f64> {
    // After the command in parentheses come fields 3 and on; 14 and 15 are the times.
    let ticks = fields_of_stat(pid)?.skip(11).take(2).map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(ticks as f64 / TICKS_PER_S)
}

/// Resident memory of a process now, bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1_024)
}

fn fields_of_stat(pid: u32) -> Option<impl Iterator<Item = String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = stat.rsplit(')').next()?.to_owned();
    let fields: Vec<String> = rest.split_ascii_whitespace().map(str::to_owned).collect();
    Some(fields.into_iter())
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Whether programs may be started at real-time priority.
///
/// # Errors
/// Why not.
pub fn can_be_realtime() -> Result<(), String> {
    run("chrt", &["-r", REALTIME_PRIORITY, "true"])
}

/// Gives the calling thread the ordinary priority, if it was started by one that had more.
pub(crate) fn make_ordinary() {
    // One that had no more has nothing to lose.
    let _ = run("chrt", &["-o", "-p", "0", &nix::unistd::gettid().to_string()]);
}

/// Lets this process have so many files and connections open at once.
///
/// # Errors
/// It may not have so many.
pub(crate) fn allow_files(wanted: u64) -> Result<(), String> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| error.to_string())?;
    if soft >= wanted {
        return Ok(());
    }
    if hard < wanted {
        return Err(format!("{wanted} files are needed, and {hard} allowed (`ulimit -Hn`)"));
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map_err(|error| error.to_string())
}

/// Where a process was before it was put on a core; it goes back there when this is dropped.
#[derive(Debug)]
pub struct Placed {
    pid: u32,
    cores: Option<String>,
    is_realtime_by_us: bool,
}

/// Puts a process with all its threads on a core, at real-time priority if wanted and not so already.
///
/// # Errors
/// Why not; it may have been put on the core then.
pub fn place(pid: u32, core: u32, is_realtime: bool) -> Result<Placed, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| format!("there is no process {pid}"))?;
    let cores =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned());
    // Field 41: the scheduling policy; 0 is the ordinary one.
    let is_ordinary = fields_of_stat(pid).and_then(|mut fields| fields.nth(38)).is_some_and(|policy| policy == "0");
    let mut placed = Placed { pid, cores, is_realtime_by_us: false };
    let pid = pid.to_string();
    run("taskset", &["-a", "-c", "-p", &core.to_string(), &pid])?;
    if is_realtime && is_ordinary {
        run("chrt", &["-a", "-r", "-p", REALTIME_PRIORITY, &pid])?;
        placed.is_realtime_by_us = true;
    }
    Ok(placed)
}

impl Drop for Placed {
    fn drop(&mut self) {
        // The process may have ended; then there is nothing to put back.
        let pid = self.pid.to_string();
        if self.is_realtime_by_us {
            let _ = run("chrt", &["-a", "-o", "-p", "0", &pid]);
        }
        if let Some(cores) = &self.cores {
            let _ = run("taskset", &["-a", "-c", "-p", cores, &pid]);
        }
    }
}

/// A controller started for comparison; ended when dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    address: SocketAddr,
    words: PathBuf,
}

impl Peer {
    /// Starts Open vSwitch's `ovs-testcontroller` on a free port of the loopback interface, on a core if one is given.
    ///
    /// # Errors
    /// It is not there, or does not begin to listen.
    pub fn start(program: &Path, core: Option<u32>, is_realtime: bool) -> Result<Peer, Error> {
        // No control socket: it would need a folder only root can write to.
        let arguments = |at: SocketAddr| vec!["--unixctl=none".to_owned(), format!("ptcp:{}:{}", at.port(), at.ip())];
        Peer::launch(program, arguments, core, is_realtime)
    }

    /// Starts `anabranch serve` on a free port of the loopback interface, with these further arguments.
    ///
    /// # Errors
    /// As for [`Peer::start`].
    pub fn start_anabranch(
        program: &Path,
        further: &[String],
        core: Option<u32>,
        is_realtime: bool,
    ) -> Result<Peer, Error> {
        let arguments = |at: SocketAddr| {
            let fixed = ["serve".to_owned(), "--listen".to_owned(), at.to_string()];
            fixed.into_iter().chain(further.iter().cloned()).collect()
        };
        Peer::launch(program, arguments, core, is_realtime)
    }

    fn launch(
        program: &Path,
        arguments: impl FnOnce(SocketAddr) -> Vec<String>,
        core: Option<u32>,
        is_realtime: bool,
    ) -> Result<Peer, Error> {
        let refused = |words: String| Error::Peer { program: program.display().to_string(), words };
        // Free now; whoever takes it before the peer does makes the peer fail, which is noticed below.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        let address = port.map_err(|error| refused(error.to_string()))?;
        let words = std::env::temp_dir().join(format!("ofload-peer-{}-{}.log", std::process::id(), address.port()));
        let log = fs::File::create(&words).map_err(|error| refused(error.to_string()))?;
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
        let mut peer = Peer { child, address, words };
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            if let Ok(Some(status)) = peer.child.try_wait() {
                return Err(refused(format!("it ended with {status}: {}", peer.last_words())));
            }
            if Instant::now() >= deadline {
                return Err(refused(format!("it does not listen on {address}: {}", peer.last_words())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(peer)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its number. `taskset` and `chrt` become the program they start.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.words).unwrap_or_default();
        text.lines().next_back().unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
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
    fn a_peer_that_is_not_there_is_named() {
        let error = Peer::start(Path::new("/nonexistent/ovs-testcontroller"), None, false).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/ovs-testcontroller"), "{error}");
    }
}
