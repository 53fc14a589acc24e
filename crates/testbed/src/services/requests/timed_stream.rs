//! A connection with an idle timeout and a stop flag.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::failure::Failure;

/// Longest time until a connection notices the stop flag.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug)]
pub struct StreamLimits<'a> {
    /// Time without a byte after which a connection times out.
    pub silence: Duration,
    pub stop: &'a AtomicBool,
}

impl StreamLimits<'_> {
    pub fn must_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct TimedStream<'a> {
    stream: TcpStream,
    limits: StreamLimits<'a>,
}

impl<'a> TimedStream<'a> {
    pub(super) fn connect(to: SocketAddrV4, limits: StreamLimits<'a>) -> Result<TimedStream<'a>, Failure> {
        if limits.must_stop() {
            return Err(Failure::Stopped);
        }
        let stream = TcpStream::connect_timeout(&to.into(), limits.silence);
        let stream = stream.map_err(|cause| Failure::classify(&cause, false))?;
        let set = || -> io::Result<()> {
            stream.set_read_timeout(Some(LOOK.min(limits.silence)))?;
            stream.set_write_timeout(Some(limits.silence))?;
            stream.set_nodelay(true)
        };
        set().map_err(|cause| Failure::classify(&cause, true))?;
        Ok(TimedStream { stream, limits })
    }

    /// Returns the local port; 0 if the kernel does not report it.
    pub(super) fn port(&self) -> u16 {
        self.stream.local_addr().map_or(0, |address| address.port())
    }

    pub(super) fn close(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Read for TimedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        loop {
            if self.limits.must_stop() {
                return Err(Failure::Stopped.into());
            }
            match self.stream.read(buffer) {
                Err(cause)
                    if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
                        && since.elapsed() < self.limits.silence => {}
                done => return done,
            }
        }
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.limits.must_stop() {
            return Err(Failure::Stopped.into());
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
