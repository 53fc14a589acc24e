//! What Linux tells of this machine.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// A server that takes longer to answer is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

fn read(file: &str) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| Failure::new(format!("cannot read {file}")).caused_by(error))
}

/// Processors there are.
pub(super) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// How busy all processors together were since they were looked at last.
#[derive(Debug)]
pub(super) struct Cpu {
    last: Ticks,
    share: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticks {
    busy: u64,
    all: u64,
}

impl Cpu {
    pub(super) fn new() -> Result<Cpu, Failure> {
        Ok(Cpu { last: ticks()?, share: 0.0 })
    }

    /// The share, from 0 to 1, since the last call.
    pub(super) fn share(&mut self) -> Result<f64, Failure> {
        let now = ticks()?;
        let all = now.all.saturating_sub(self.last.all);
        // Two calls within one tick: it is what it was.
        if all > 0 {
            self.share = (now.busy.saturating_sub(self.last.busy) as f64 / all as f64).min(1.0);
            self.last = now;
        }
        Ok(self.share)
    }
}

fn ticks() -> Result<Ticks, Failure> {
    let file = "/proc/stat";
    parse_ticks(&read(file)?).ok_or_else(|| Failure::new(format!("{file} has no line `cpu` that can be read")))
}

/// Ticks of all processors: user, nice, system, idle, waiting for disks, interrupts (two kinds), stolen; guests are in user.
fn parse_ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Option<Vec<u64>> = line.split_whitespace().take(8).map(|tick| tick.parse().ok()).collect();
    let ticks = ticks.filter(|ticks| ticks.len() >= 4)?;
    let all = ticks.iter().sum();
    let idle = ticks[3] + ticks.get(4).copied().unwrap_or(0);
    Some(Ticks { busy: all - idle, all })
}

/// Connections to a port of TCP that are established, over IPv4 and IPv6.
pub(super) fn connections(port: u16) -> Result<u32, Failure> {
    let mut count = established(&read("/proc/net/tcp")?, port);
    // A kernel may be without IPv6.
    if let Ok(text) = fs::read_to_string("/proc/net/tcp6") {
        count += established(&text, port);
    }
    Ok(count)
}

fn established(table: &str, port: u16) -> u32 {
    let is_one = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().and_then(|local| u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok());
        // 01 is ESTABLISHED; the remote address is between.
        local == Some(port) && words.nth(1) == Some("01")
    };
    table.lines().skip(1).filter(is_one).count() as u32
}

/// How long the web server at a port of this machine takes to answer a request for `/`; `None` if it does not.
pub(super) fn response_time(port: u16) -> Option<Duration> {
    let began = Instant::now();
    ask(port).ok()?;
    Some(began.elapsed())
}

fn ask(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if answer.starts_with(b"HTTP/") { Ok(()) } else { Err(io::Error::other("no HTTP")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        let text = "cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1 2 3 4\n";
        assert_eq!(parse_ticks(text), Some(Ticks { busy: 81, all: 531 }));
        assert_eq!((parse_ticks("cpu  1 2\n"), parse_ticks("intr 5\n")), (None, None));
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:0050 00000000:0000 0A 0\n   \
                     1: 0100007F:0050 0100007F:C350 01 0\n   2: 0100007F:C350 0100007F:0050 01 0\n   \
                     3: 0100007F:0050 0100007F:C351 06 0\n";
        assert_eq!((established(table, 80), established(table, 50_000), established(table, 81)), (1, 1, 0));
    }

    #[test]
    fn this_machine_can_be_read() {
        let mut cpu = Cpu::new().expect("ticks");
        assert!((0.0..=1.0).contains(&cpu.share().expect("a share")) && cores() > 0);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        assert_eq!(connections(address.port()).expect("a count"), 0);
        let _one = TcpStream::connect(address).expect("a connection");
        let _other = listener.accept().expect("a connection");
        assert_eq!(connections(address.port()).expect("a count"), 1);
    }
}
