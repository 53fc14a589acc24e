//! Measurements of this machine, read from Linux.

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use procfs::net::{TcpNetEntry, TcpState};
use procfs::{CpuTime, CurrentSI, KernelStats};
use testbed::http_client;
use testbed::processes::{tcp_sockets, tree_cpu_s};

use crate::error::CliError;

/// Timeout of a timed request to the web server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the number of processors of the machine.
pub(super) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Processor load since the last reading: of the whole machine, or of the processors that some
/// processes may use.
#[derive(Debug)]
pub(super) struct Cpu {
    of: Vec<u32>,
    processors: f64,
    last: Used,
    share: f64,
}

/// Processor time used and available so far, both in ticks or both in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Used {
    busy: f64,
    all: f64,
}

impl Cpu {
    /// `of`: processes, with their descendants; empty for the whole machine. `processors`: number
    /// that they may use, if not all.
    pub(super) fn new(of: &[u32], processors: Option<f64>) -> Result<Cpu, CliError> {
        let processors = processors.unwrap_or_else(|| f64::from(cores()));
        let mut cpu = Cpu { of: of.to_vec(), processors, last: Used { busy: 0.0, all: 0.0 }, share: 0.0 };
        cpu.last = cpu.used()?;
        Ok(cpu)
    }

    /// Returns the busy share since the last call, from 0 to 1.
    pub(super) fn share(&mut self) -> Result<f64, CliError> {
        let now = self.used()?;
        let all = now.all - self.last.all;
        // Two calls within one tick return the same share.
        if all > 0.0 {
            self.share = ((now.busy - self.last.busy) / all).clamp(0.0, 1.0);
            self.last = now;
        }
        Ok(self.share)
    }

    fn used(&self) -> Result<Used, CliError> {
        if self.of.is_empty() {
            let stats = KernelStats::current();
            let stats = stats.map_err(|error| CliError::new("cannot read /proc/stat").caused_by(error))?;
            return Ok(used_ticks(&stats.total));
        }
        let busy = self.of.iter().map(|pid| tree_cpu_s(*pid)).sum();
        Ok(Used { busy, all: testbed::clock::seconds(testbed::clock::now_ns()) * self.processors })
    }
}

/// Returns the ticks of all processors. Guests are part of user.
fn used_ticks(time: &CpuTime) -> Used {
    let interrupted = time.irq.unwrap_or(0) + time.softirq.unwrap_or(0) + time.steal.unwrap_or(0);
    let busy = time.user + time.nice + time.system + interrupted;
    let idle = time.idle + time.iowait.unwrap_or(0);
    Used { busy: busy as f64, all: (busy + idle) as f64 }
}

/// Returns the number of established TCP connections to a port, over IPv4 and IPv6, in the
/// namespace of a process or of the agent.
pub(super) fn connections(of: Option<u32>, port: u16) -> Result<u32, CliError> {
    let pid = of.unwrap_or_else(std::process::id);
    let sockets = tcp_sockets(pid);
    let sockets =
        sockets.map_err(|error| CliError::new(format!("cannot read /proc/{pid}/net/tcp")).caused_by(error))?;
    let is_one = |socket: &&TcpNetEntry| socket.local_address.port() == port && socket.state == TcpState::Established;
    Ok(sockets.iter().filter(is_one).count() as u32)
}

/// Returns the time that the web server on a local port needs for a request of `/`, with any
/// status; `None` if it does not answer.
pub(super) fn response_time(port: u16) -> Option<Duration> {
    let client = http_client::client(PATIENCE).build().new_agent();
    let began = Instant::now();
    let answer = client.get(format!("http://{}:{port}/", Ipv4Addr::LOCALHOST)).call().ok()?;
    io::copy(&mut answer.into_body().into_reader(), &mut io::sink()).ok()?;
    Some(began.elapsed())
}

#[cfg(test)]
mod tests {
    use procfs::FromBufReadSI;

    use super::*;

    #[test]
    fn ticks_are_read() {
        let read = |first: &str| {
            let text = format!("{first}\ncpu0 1 2 3 4\nctxt 1\nbtime 1\nprocesses 1\n");
            let stats = KernelStats::from_buf_read(text.as_bytes(), procfs::current_system_info());
            stats.ok().map(|stats| used_ticks(&stats.total))
        };
        assert_eq!(read("cpu  10 20 30 400 50 6 7 8 9 9"), Some(Used { busy: 81.0, all: 531.0 }));
        assert_eq!((read("cpu  1 2"), read("intr 5")), (None, None));
    }

    #[test]
    fn this_machine_can_be_read() {
        let mut cpu = Cpu::new(&[], None).expect("ticks");
        let mut own = Cpu::new(&[std::process::id()], Some(0.5)).expect("our own time");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {
            std::hint::black_box(begun);
        }
        // One busy thread, on half a processor.
        assert!(own.share().expect("a share") > 0.1);
        assert!((0.0..=1.0).contains(&cpu.share().expect("a share")) && cores() > 0);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        assert_eq!(connections(None, address.port()).expect("a count"), 0);
        let _one = std::net::TcpStream::connect(address).expect("a connection");
        let _other = listener.accept().expect("a connection");
        assert_eq!(connections(None, address.port()).expect("a count"), 1);
        assert_eq!(connections(Some(std::process::id()), address.port()).expect("a count"), 1);
    }
}
