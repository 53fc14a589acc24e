//! Counters of TCP connections, read from the kernel of a host (sock_diag(7), as `ss` does).

use std::io;
use std::net::{IpAddr, SocketAddrV4};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};

use crate::error::Result;
use crate::traffic::namespace::{HostAt, run_in_namespace};

/// An answer holds one socket with some hundred bytes of counters.
const ANSWER_BYTES: usize = 8 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Bytes of data sent, retransmitted ones included.
    pub bytes_sent: u64,
    /// Segments with data sent, retransmitted ones included.
    pub data_segments: u32,
    pub retransmitted: u32,
}

/// The TCP sockets of the namespace of a host.
pub struct TcpSockets(Socket);

impl TcpSockets {
    pub fn open(host: HostAt) -> Result<TcpSockets> {
        run_in_namespace(host, TcpSockets::open_here)
    }

    /// Opens the namespace of this thread.
    fn open_here() -> io::Result<TcpSockets> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(TcpSockets(socket))
    }

    /// Returns the counters of a connection; `None` if it is not open (any more).
    pub fn find(&self, local: SocketAddrV4, peer: SocketAddrV4) -> io::Result<Option<TcpCounters>> {
        let socket_id = SocketId {
            source_port: local.port(),
            destination_port: peer.port(),
            source_address: IpAddr::V4(*local.ip()),
            destination_address: IpAddr::V4(*peer.ip()),
            interface_id: 0,
            cookie: [0xff; 8],
        };
        let request = InetRequest {
            family: AF_INET,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO,
            states: StateFlags::all(),
            socket_id,
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut answer = Vec::with_capacity(ANSWER_BYTES);
        self.0.recv(&mut answer, 0)?;
        let answer = NetlinkMessage::<SockDiagMessage>::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => Ok(counters(&found.nlas)),
            NetlinkPayload::Error(error) if error.raw_code() == -nix::libc::ENOENT => Ok(None),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            other => Err(io::Error::other(format!("unexpected answer of the kernel: {other:?}"))),
        }
    }
}

/// A connection that waits for late packets (TIME_WAIT) has no counters.
fn counters(attributes: &[Nla]) -> Option<TcpCounters> {
    attributes.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(info) => Some(TcpCounters {
            bytes_sent: info.bytes_sent,
            data_segments: info.data_segs_out,
            retransmitted: info.total_retrans,
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    fn v4(address: std::net::SocketAddr) -> SocketAddrV4 {
        match address {
            std::net::SocketAddr::V4(address) => address,
            std::net::SocketAddr::V6(_) => unreachable!("the test uses IPv4"),
        }
    }

    #[test]
    fn bytes_of_a_connection_are_counted_until_it_is_closed() {
        let sockets = TcpSockets::open_here().expect("the kernel");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (mut server, _) = listener.accept().expect("a connection");
        let (local, peer) = (v4(client.local_addr().expect("bound")), v4(client.peer_addr().expect("connected")));
        client.write_all(&[0; 1000]).expect("room");
        server.read_exact(&mut [0; 1000]).expect("the bytes");

        let found = sockets.find(local, peer).expect("an answer").expect("an open connection");
        assert_eq!((found.bytes_sent, found.data_segments, found.retransmitted), (1000, 1, 0));
        let other = SocketAddrV4::new(*peer.ip(), 1);
        assert_eq!(sockets.find(local, other).expect("an answer"), None);
        drop(server);
        drop(client);
        assert_eq!(sockets.find(local, peer).expect("an answer"), None);
    }
}
