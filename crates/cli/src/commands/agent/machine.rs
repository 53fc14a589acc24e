//! Measurements of this machine, read from Linux.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use testbed::http_client;
use testbed::traffic::tcp_table::{self, ESTABLISHED, Socket};

use crate::error::CliError;

/// Timeout of a timed request to the web server.
const PATIENCE: Duration = Duration::from_secs(10);

fn read(file: &str) -> Result<String, CliError> {
    fs::read_to_string(file).map_err(|error| CliError::new(format!("cannot read {file}")).caused_by(error))
}

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticks {
    busy: u64,
    all: u64,
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
            let Ticks { busy, all } = ticks()?;
            return Ok(Used { busy: busy as f64, all: all as f64 });
        }
        let busy = self.of.iter().map(|pid| testbed::services::servers::tree_cpu_s(*pid)).sum();
        Ok(Used { busy, all: testbed::clock::seconds(testbed::clock::now_ns()) * self.processors })
    }
}

fn ticks() -> Result<Ticks, CliError> {
    let file = "/proc/stat";
    parse_ticks(&read(file)?).ok_or_else(|| CliError::new(format!("{file} has no line `cpu` that can be read")))
}

/// Parses the ticks of all processors: user, nice, system, idle, iowait, two kinds of interrupts,
/// steal. Guests are part of user.
fn parse_ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Option<Vec<u64>> = line.split_whitespace().take(8).map(|tick| tick.parse().ok()).collect();
    let ticks = ticks.filter(|ticks| ticks.len() >= 4)?;
    let all = ticks.iter().sum();
    let idle = ticks[3] + ticks.get(4).copied().unwrap_or(0);
    Some(Ticks { busy: all - idle, all })
}

/// Returns the number of established TCP connections to a port, over IPv4 and IPv6, in the
/// namespace of a process or of the agent.
pub(super) fn connections(of: Option<u32>, port: u16) -> Result<u32, CliError> {
    let process = of.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let folder = Path::new("/proc").join(process).join("net");
    let sockets = tcp_table::sockets(&folder);
    let sockets =
        sockets.map_err(|error| CliError::new(format!("cannot read {}/tcp", folder.display())).caused_by(error))?;
    let is_one = |socket: &&Socket| socket.local.port() == port && socket.state == ESTABLISHED;
    Ok(sockets.iter().filter(is_one).count() as u32)
}

/// Returns the time that the web server on a local port takes to answer a request for `/`, with any
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
    use super::*;

    #[test]
    fn ticks_are_read() {
        let text = "cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1 2 3 4\n";
        assert_eq!(parse_ticks(text), Some(Ticks { busy: 81, all: 531 }));
        assert_eq!((parse_ticks("cpu  1 2\n"), parse_ticks("intr 5\n")), (None, None));
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
