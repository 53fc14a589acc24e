//! The kernel's tables of TCP sockets: `/proc/net/tcp` and `tcp6`.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// State of an established connection in the tables.
pub const ESTABLISHED: u8 = 1;
/// State of a listening socket.
pub const LISTEN: u8 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket {
    pub local: SocketAddr,
    /// Such as [`LISTEN`].
    pub state: u8,
}

/// Returns the sockets of a network namespace. `folder`: `/proc/net` for the own namespace,
/// `/proc/PID/net` for that of a process.
///
/// # Errors
/// The table does not exist, or cannot be read.
pub fn sockets(folder: &Path) -> io::Result<Vec<Socket>> {
    let mut text = fs::read_to_string(folder.join("tcp"))?;
    // A kernel may be without IPv6.
    text += &fs::read_to_string(folder.join("tcp6")).unwrap_or_default();
    Ok(text.lines().filter_map(socket).collect())
}

/// Parses a line. Columns: number, local address, remote address, state. The first line holds the
/// column names.
fn socket(line: &str) -> Option<Socket> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (ip, port) = words.next()?.split_once(':')?;
    let local = SocketAddr::new(address(ip)?, u16::from_str_radix(port, 16).ok()?);
    Some(Socket { local, state: u8::from_str_radix(words.nth(1)?, 16).ok()? })
}

/// Parses an address: hexadecimal 32-bit words in the byte order of the processor.
fn address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn lines_are_parsed() {
        let header = "  sl  local_address rem_address   st tx_queue rx_queue";
        assert_eq!(socket(header), None);
        if cfg!(target_endian = "little") {
            let found = socket("   0: 0100007F:0050 00000000:0000 0A 00000000:00000000");
            assert_eq!(found, Some(Socket { local: ([127, 0, 0, 1], 80).into(), state: LISTEN }));
            let mapped =
                socket("   1: 0000000000000000FFFF00000100007F:C350 00000000000000000000000000000000:0000 01 0");
            let local = mapped.map(|socket| (socket.local.ip().to_canonical(), socket.local.port(), socket.state));
            assert_eq!(local, Some(([127, 0, 0, 1].into(), 50_000, ESTABLISHED)));
        }
        for wrong in ["", "0:", "0: 0100007F", "0: 0100007F:0050", "0: 0100:0050 x 01", "0: 0100007F:0050 x zz"] {
            assert_eq!(socket(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sockets_of_this_process_are_found() {
        let ours = Path::new("/proc/self/net");
        let of = |port: u16, state: u8| {
            let all = sockets(ours).expect("the kernel's table");
            all.iter().filter(|socket| socket.local.port() == port && socket.state == state).count()
        };
        for place in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may be without IPv6.
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let at = listener.local_addr().expect("bound");
            assert_eq!((of(at.port(), LISTEN), of(at.port(), ESTABLISHED)), (1, 0), "{at}");
            let _one = TcpStream::connect(at).expect("a connection");
            let _other = listener.accept().expect("a connection");
            assert_eq!((of(at.port(), LISTEN), of(at.port(), ESTABLISHED)), (1, 1), "{at}");
        }
        assert!(sockets(Path::new("/proc/0/net")).is_err());
    }
}
