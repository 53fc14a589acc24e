//! A connection that is given up after a silence, and when everybody is to stop.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::failure::{Bad, Failure};

/// Longest time until a wish to stop is heard.
const LOOK: Duration = Duration::from_millis(200);

/// How long to wait, and whether to go on at all.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// Time without a byte after which a connection is given up.
    pub silence: Duration,
    /// Whether all connections are to be given up.
    pub stop: &'a AtomicBool,
}

impl Patience<'_> {
    /// Whether all connections are to be given up.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The connection.
#[derive(Debug)]
pub(super) struct Patient<'a> {
    stream: TcpStream,
    patience: Patience<'a>,
}

impl<'a> Patient<'a> {
    /// Opens it.
    ///
    /// # Errors
    /// Nobody answers in time, or with a refusal.
    pub(super) fn connect(to: SocketAddrV4, patience: Patience<'a>) -> Result<Patient<'a>, Failure> {
        if patience.is_over() {
            return Err(Failure::Stopped);
        }
        let stream = TcpStream::connect_timeout(&to.into(), patience.silence);
        let stream = stream.map_err(|cause| Failure::of(&cause, false))?;
        let set = || -> io::Result<()> {
            stream.set_read_timeout(Some(LOOK.min(patience.silence)))?;
            stream.set_write_timeout(Some(patience.silence))?;
            stream.set_nodelay(true)
        };
        set().map_err(|cause| Failure::of(&cause, true))?;
        Ok(Patient { stream, patience })
    }

    /// Our port; 0 where the kernel does not tell.
    pub(super) fn port(&self) -> u16 {
        self.stream.local_addr().map_or(0, |address| address.port())
    }

    /// Says goodbye both ways.
    pub(super) fn close(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        loop {
            if self.patience.is_over() {
                return Err(Bad::Stopped.into());
            }
            match self.stream.read(buffer) {
                Err(cause)
                    if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
                        && since.elapsed() < self.patience.silence => {}
                done => return done,
            }
        }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.patience.is_over() {
            return Err(Bad::Stopped.into());
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
