//! A file over FTP (RFC 959) in extended passive mode (RFC 2428).
//!
//! The data connection goes to the address of the control connection, so that clients use only the
//! virtual address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddrV4;

use super::failure::Failure;
use super::http::Response;
use super::timed_stream::{StreamLimits, TimedStream};
use crate::clock::now_ns;

const LINE_MAX: u64 = 1024;

/// Fetches a file. The first word of the greeting names the server.
pub fn fetch(to: SocketAddrV4, file: &str, limits: StreamLimits<'_>, buffer: &mut [u8]) -> Result<Response, Failure> {
    let start_ns = now_ns();
    let control = TimedStream::connect(to, limits)?;
    let connect_ns = now_ns() - start_ns;
    let (port, mut control) = (control.port(), BufReader::new(control));
    let broken = |cause: std::io::Error| Failure::classify(&cause, true);
    let greeting = expect(&mut control, 220).map_err(broken)?;
    let data_port = open(&mut control).map_err(broken)?;
    let mut data = TimedStream::connect(SocketAddrV4::new(*to.ip(), data_port), limits)?;
    command(&mut control, &format!("RETR {file}"), 150).map_err(broken)?;
    let (mut bytes, mut first_ns) = (0, None);
    loop {
        let read = data.read(buffer).map_err(broken)?;
        first_ns.get_or_insert_with(now_ns);
        match read {
            0 => break,
            read => bytes += read as u64,
        }
    }
    // The server does not confirm a truncated file.
    expect(&mut control, 226).map_err(broken)?;
    let total_ns = now_ns() - start_ns;
    data.close();
    let _ = command(&mut control, "QUIT", 221);
    let server = greeting.split_whitespace().next().map(str::to_owned);
    let first_byte_ns = first_ns.unwrap_or(start_ns) - start_ns;
    Ok(Response { connect_ns, first_byte_ns, total_ns, bytes, server, port, ..Response::default() })
}

fn open(control: &mut BufReader<TimedStream<'_>>) -> std::io::Result<u16> {
    match command(control, "USER anonymous", 331) {
        Ok(_) => command(control, "PASS anabranch@", 230).map(|_| ())?,
        // Some servers need no password.
        Err(cause) if Failure::classify(&cause, true) == Failure::Status(230) => {}
        Err(cause) => return Err(cause),
    }
    command(control, "TYPE I", 200)?;
    let words = command(control, "EPSV", 229)?;
    data_port(&words).ok_or_else(|| Failure::Status(229).into())
}

fn command(control: &mut BufReader<TimedStream<'_>>, line: &str, expected: u16) -> std::io::Result<String> {
    control.get_mut().write_all(format!("{line}\r\n").as_bytes())?;
    expect(control, expected)
}

/// Reads a reply and returns the text of its last line. Earlier lines have a `-` after the code.
fn expect(control: &mut impl BufRead, expected: u16) -> std::io::Result<String> {
    loop {
        let mut line = String::new();
        if control.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 {
            return Err(Failure::Short.into());
        }
        let Some((code, words)) = line.split_at_checked(3) else { return Err(Failure::Status(0).into()) };
        match (code.parse::<u16>(), words.starts_with(' ')) {
            (Ok(code), true) if code == expected => return Ok(words.trim().to_owned()),
            (Ok(code), true) => return Err(Failure::Status(code).into()),
            // More lines follow.
            _ => {}
        }
    }
}

/// Returns the port in `Entering Extended Passive Mode (|||PORT|).`
fn data_port(words: &str) -> Option<u16> {
    let (_, rest) = words.split_once("(|||")?;
    rest.split_once("|)")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiline_replies_end_with_code_and_space() {
        let read = |text: &str, expected| {
            expect(&mut text.as_bytes(), expected).map_err(|cause| Failure::classify(&cause, true))
        };
        assert_eq!(read("220-hello\r\n220-you\r\n220 ah1\r\n", 220), Ok("ah1".to_owned()));
        assert_eq!(read("421 busy\r\n", 220), Err(Failure::Status(421)));
        assert_eq!(read("220-hello\r\n", 220), Err(Failure::Short));
        assert_eq!(data_port("Entering Extended Passive Mode (|||3131|)"), Some(3131));
        assert_eq!((data_port("(|||70000|)"), data_port("no")), (None, None));
    }
}
