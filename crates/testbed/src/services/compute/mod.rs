//! A server whose requests keep a processor busy: it models F1's bioinformatics application.
//!
//! A job is `POST /job?cpu_us=N&bytes=M` with a body; `/job` may follow another path. It computes
//! for `N` microseconds of a core and returns `M` bytes. A server has some cores, each a share of a
//! processor of this machine. Jobs share the cores evenly, and no job uses more than one core:
//! processor sharing, as in the simulator. The processor time of a job's thread measures its
//! progress, so that a job ends when its work is done and not when time has passed. The header
//! `X-Late-Us` reveals a machine that is too busy to provide the configured cores.

mod sharing;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use sharing::Sharing;

/// Longest piece of work between two readings of the thread's clock, in steps.
const STEPS_PER_PIECE: u32 = 20_000;

const PAUSE: Duration = Duration::from_millis(4);

/// Time after which a silent client is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

const LINE_MAX: u64 = 4096;
const BODY_MAX: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct JobServer {
    pub at: SocketAddrV4,
    /// Value of the header `X-Server`.
    pub name: String,
    pub cores: u32,
    /// Share of a processor that one core has.
    pub core: f64,
}

impl JobServer {
    pub fn serve(self) -> io::Result<()> {
        let listener = TcpListener::bind(self.at)?;
        let sharing = Arc::new(Mutex::new(Sharing::new(self.cores)));
        let server = Arc::new(self);
        for stream in listener.incoming() {
            // A connection that ends before it is accepted concerns only its client.
            let Ok(stream) = stream else { continue };
            let (server, sharing) = (Arc::clone(&server), Arc::clone(&sharing));
            // An error means that the client disconnected.
            thread::spawn(move || server.answer(&stream, &sharing));
        }
        Ok(())
    }

    fn answer(&self, mut stream: &TcpStream, sharing: &Mutex<Sharing>) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
        stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        let Some((Job { cpu, bytes }, length)) = read_head(&mut reader)? else {
            return stream.write_all(b"HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\n");
        };
        if io::copy(&mut reader.by_ref().take(length), &mut io::sink())? < length {
            return Ok(());
        }
        let (name, late_us) = (&self.name, self.work(cpu, sharing).as_micros());
        let head =
            format!("HTTP/1.0 200 OK\r\nX-Server: {name}\r\nX-Late-Us: {late_us}\r\nContent-Length: {bytes}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        io::copy(&mut io::repeat(b'x').take(bytes), &mut stream)?;
        Ok(())
    }

    /// Computes for `cpu` of a core. Returns how much later than its share allowed the job ended.
    fn work(&self, cpu: Duration, sharing: &Mutex<Sharing>) -> Duration {
        let with = |act: &mut dyn FnMut(&mut Sharing) -> f64| {
            let mut sharing = sharing.lock().unwrap_or_else(PoisonError::into_inner);
            sharing.advance(Instant::now());
            act(&mut sharing)
        };
        let target_s = cpu.as_secs_f64();
        let before = thread_s();
        let began = with(&mut |sharing| sharing.join());
        let mut seed = 1;
        let mut is_due: Option<Instant> = None;
        loop {
            let attained = with(&mut |sharing| sharing.attained()) - began;
            if attained >= target_s {
                is_due.get_or_insert_with(Instant::now);
            }
            let used = (thread_s() - before) / self.core;
            if used >= target_s {
                break;
            }
            if used < attained {
                seed = compute(seed);
            } else {
                thread::sleep(PAUSE);
            }
        }
        with(&mut |sharing| sharing.leave());
        // Using the result keeps the compiler from removing the work.
        std::hint::black_box(seed);
        is_due.map_or(Duration::ZERO, |due| due.elapsed())
    }
}

/// Processor time of this thread, seconds.
fn thread_s() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

fn compute(seed: u64) -> u64 {
    (0..STEPS_PER_PIECE).fold(seed, |x, _| std::hint::black_box(x).wrapping_mul(6_364_136_223_846_793_005) | 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    cpu: Duration,
    bytes: u64,
}

/// Reads the head of a request: the job and the length of its body; `None` if it is not a job.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<(Job, u64)>> {
    let (mut job, mut length) = (None, Some(0));
    for number in 0.. {
        let mut line = String::new();
        if reader.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 || number > 100 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if number == 0 {
            job = parse(line);
        } else if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok().filter(|length| *length <= BODY_MAX);
        }
    }
    Ok(job.zip(length))
}

fn parse(line: &str) -> Option<Job> {
    let mut words = line.split(' ');
    let ("POST", path) = (words.next()?, words.next()?) else { return None };
    let (_, query) = path.split_once("/job?")?;
    let (mut cpu, mut bytes) = (None, None);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "cpu_us" => cpu = value.parse().ok(),
            "bytes" => bytes = value.parse().ok(),
            _ => return None,
        }
    }
    Some(Job { cpu: Duration::from_micros(cpu?), bytes: bytes? })
}

pub fn path(cpu: Duration, bytes: u64) -> String {
    format!("/job?cpu_us={}&bytes={bytes}", cpu.as_micros())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::services::requests::{Failure, HttpRequest, Response, StreamLimits, get};

    static ON: AtomicBool = AtomicBool::new(false);

    fn start(cores: u32, core: f64) -> SocketAddrV4 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().expect("bound").port());
        drop(listener);
        let server = JobServer { at, name: "ah7".to_owned(), cores, core };
        thread::spawn(move || server.serve());
        while TcpStream::connect(at).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        at
    }

    fn request(to: SocketAddrV4, path: &str, bytes: u64) -> Result<Response, Failure> {
        let limits = StreamLimits { silence: Duration::from_secs(20), stop: &ON };
        get(&HttpRequest { to, path, host: "", bytes, is_post: true }, limits, &mut [0; 4096])
    }

    #[test]
    fn jobs_take_configured_time_and_share_cores() {
        let at = start(1, 0.1);
        let work = path(Duration::from_millis(300), 1000);
        let alone = request(at, &work, 5000).expect("an answer");
        assert_eq!((alone.bytes, alone.server.as_deref()), (1000, Some("ah7")));
        let ms = |answer: &Response| answer.total_ns as f64 / 1e6;
        assert!(ms(&alone) >= 300.0, "{alone:?}");
        thread::scope(|scope| {
            let both = [0, 1].map(|_| scope.spawn(|| request(at, &work, 1).expect("an answer")));
            for answer in both {
                // Half a core each, however idle the machine is.
                let answer = answer.join().expect("no panic");
                assert!(ms(&answer) >= 590.0, "{answer:?}");
            }
        });
    }

    #[test]
    fn other_requests_are_rejected() {
        let at = start(1, 1.0);
        for path in ["/", "/job?cpu_us=1", "/job?cpu_us=x&bytes=1", "/job?cpu_us=1&bytes=1&more=1"] {
            assert_eq!(request(at, path, 0), Err(Failure::Status(400)), "{path}");
        }
        let job = parse(&format!("POST {} HTTP/1.0", path(Duration::from_secs(2), 7)));
        assert_eq!(job, Some(Job { cpu: Duration::from_secs(2), bytes: 7 }));
    }
}
