//! A file over FTP (RFC 959) in extended passive mode (RFC 2428).
//!
//! The data connection goes to the address of the control connection, so that a virtual address stays the only one a client knows.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddrV4;

use super::failure::{Bad, Failure};
use super::http::Answer;
use super::patient::{Patience, Patient};
use crate::clock::now_ns;

/// Longest line of an answer, bytes.
const LINE_MAX: u64 = 1024;

/// Fetches a file, and says who served it: the first word of the greeting.
///
/// # Errors
/// What kept it from coming whole.
pub fn fetch(to: SocketAddrV4, file: &str, patience: Patience<'_>, buffer: &mut [u8]) -> Result<Answer, Failure> {
    let start_ns = now_ns();
    let control = Patient::connect(to, patience)?;
    let connect_ns = now_ns() - start_ns;
    let (port, mut control) = (control.port(), BufReader::new(control));
    let broken = |cause: std::io::Error| Failure::of(&cause, true);
    let greeting = expect(&mut control, 220).map_err(broken)?;
    let data_port = open(&mut control).map_err(broken)?;
    let mut data = Patient::connect(SocketAddrV4::new(*to.ip(), data_port), patience)?;
    command(&mut control, &format!("RETR {file}"), 150).map_err(broken)?;
    let (mut bytes, mut first_ns) = (0, None);
    loop {
        let read = data.read(buffer).map_err(broken)?;
        first_ns.get_or_insert_with(now_ns);
        if read == 0 {
            break;
        }
        bytes += read as u64;
    }
    // A file that was cut short is not confirmed.
    expect(&mut control, 226).map_err(broken)?;
    let total_ns = now_ns() - start_ns;
    data.close();
    let _ = command(&mut control, "QUIT", 221);
    let server = greeting.split_whitespace().next().map(str::to_owned);
    Ok(Answer {
        connect_ns,
        first_byte_ns: first_ns.unwrap_or(start_ns) - start_ns,
        total_ns,
        bytes,
        server,
        port,
        late_us: 0,
    })
}

/// Logs in and asks for a port of the data connection.
fn open(control: &mut BufReader<Patient<'_>>) -> std::io::Result<u16> {
    match command(control, "USER anonymous", 331) {
        Ok(_) => command(control, "PASS anabranch@", 230).map(|_| ())?,
        // Some want no password.
        Err(cause) if Failure::of(&cause, true) == Failure::Status(230) => {}
        Err(cause) => return Err(cause),
    }
    command(control, "TYPE I", 200)?;
    let words = command(control, "EPSV", 229)?;
    data_port(&words).ok_or_else(|| Bad::Status(229).into())
}

fn command(control: &mut BufReader<Patient<'_>>, line: &str, expected: u16) -> std::io::Result<String> {
    control.get_mut().write_all(format!("{line}\r\n").as_bytes())?;
    expect(control, expected)
}

/// Reads an answer, of which lines before the last have a `-` behind the code; answers the words of the last one.
fn expect(control: &mut impl BufRead, expected: u16) -> std::io::Result<String> {
    loop {
        let mut line = String::new();
        if control.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 {
            return Err(Bad::Short.into());
        }
        let Some((code, words)) = line.split_at_checked(3) else { return Err(Bad::Status(0).into()) };
        match (code.parse::<u16>(), words.starts_with(' ')) {
            (Ok(code), true) if code == expected => return Ok(words.trim().to_owned()),
            (Ok(code), true) => return Err(Bad::Status(code).into()),
            // More lines follow.
            _ => {}
        }
    }
}

/// The port in `Entering Extended Passive Mode (|||PORT|).`
fn data_port(words: &str) -> Option<u16> {
    let (_, rest) = words.split_once("(|||")?;
    rest.split_once("|)")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_several_lines_end_with_the_code_and_a_blank() {
        let read =
            |text: &str, expected| expect(&mut text.as_bytes(), expected).map_err(|cause| Failure::of(&cause, true));
        assert_eq!(read("220-hello\r\n220-you\r\n220 ah1\r\n", 220), Ok("ah1".to_owned()));
        assert_eq!(read("421 busy\r\n", 220), Err(Failure::Status(421)));
        assert_eq!(read("220-hello\r\n", 220), Err(Failure::Short));
        assert_eq!(data_port("Entering Extended Passive Mode (|||3131|)"), Some(3131));
        assert_eq!((data_port("(|||70000|)"), data_port("no")), (None, None));
    }
}
