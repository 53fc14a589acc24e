//! Bytes from one socket to another, through a pipe in the kernel.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use nix::errno::Errno;
use nix::fcntl::{SpliceFFlags, splice};
use nix::unistd::pipe;

/// Bytes of one call: the default capacity of a pipe.
const PIECE: usize = 64 << 10;

/// Relays everything up to the end of a stream. Returns the number of bytes.
pub(super) fn relay(from: &TcpStream, to: &TcpStream, copies: bool) -> io::Result<u64> {
    let moved = if copies { copied(from, to) } else { spliced(from, to) }?;
    to.shutdown(Shutdown::Write)?;
    Ok(moved)
}

fn spliced(from: &TcpStream, to: &TcpStream) -> io::Result<u64> {
    let (outlet, inlet) = pipe()?;
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_MORE;
    let mut total = 0;
    loop {
        let got = again(|| splice(from, None, &inlet, None, PIECE, SpliceFFlags::SPLICE_F_MOVE))?;
        if got == 0 {
            return Ok(total);
        }
        let mut left = got;
        while left > 0 {
            // More follows only if the piece was full.
            let flags = if got == PIECE { flags } else { SpliceFFlags::SPLICE_F_MOVE };
            left -= again(|| splice(&outlet, None, to, None, left, flags))?;
        }
        total += got as u64;
    }
}

fn again(mut call: impl FnMut() -> nix::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            done => return done.map_err(io::Error::from),
        }
    }
}

fn copied(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut total = 0;
    loop {
        let got = from.read(&mut buffer)?;
        if got == 0 {
            return Ok(total);
        }
        to.write_all(&buffer[..got])?;
        total += got as u64;
    }
}
