//! Virtual services of a run: who serves, what is asked for, and what agents on servers tell.
//!
//! In a run with services every flow of the list is a request: its source is the client, its group (from 1 on) the class of
//! the request, its size what is downloaded in all. Its destination is whoever serves, which only the controller decides;
//! what the list names there does not matter, except that it is another host than the client.
//!
//! # What is modelled
//! A client knows the Ethernet address of the virtual address (as with static ARP). It opens a connection from a port of its
//! own, one after the other; with [`crate::TransportConfig::handshake`] by SYN and SYN-ACK, else with the first bytes of the
//! request. The request goes up as data of the transport, is served by a processor-sharing server once it is whole, and the
//! answer comes down the same connection, with a congestion window of its own. Headers are those on a wire: rules of the
//! switches match and rewrite them, and packets that reach a client from anyone but the virtual address, or a server from
//! anyone but the client, are lost (`no_route`). The response time ends with the last byte of the answer; a request of several
//! pages fetches them one after another over fresh connections. The end of a connection (FIN) is not sent: rules idle out.
//! A reset ends a request as failed.

use core::net::Ipv4Addr;

use net::{HostIx, Time};

/// Services, servers and classes of requests.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ServicesConfig {
    /// Virtual addresses.
    pub services: Vec<VirtualService>,
    /// Hosts that serve.
    pub servers: Vec<ServerConfig>,
    /// Kinds of requests; the group of a flow is its position here plus 1.
    pub classes: Vec<RequestClass>,
    /// What agents on servers tell the controller; `None`: there are none.
    pub agents: Option<AgentConfig>,
    /// The central balancer beneath, for everything whose path is not picked with its server. For whoever makes the
    /// controller.
    pub base: String,
}

/// An address that no host has.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualService {
    /// Its name, for reports.
    pub name: String,
    /// What clients connect to.
    pub address: Ipv4Addr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// TCP port.
    pub port: u16,
    /// Who may serve it.
    pub members: Vec<HostIx>,
    /// Port of its members; `None`: the same. For whoever makes the controller, as are the next two.
    pub member_port: Option<u16>,
    /// Services with the same number share one pool, and with it the balancer's state; they have the same members.
    pub pool: u16,
    /// A connection that has been silent for this long has no rules any more, s.
    pub idle_timeout_s: u16,
    /// Parts clients are divided into by rules that stand beforehand; `None`: every connection has its own rules. For whoever makes
    /// the controller.
    pub buckets: Option<u16>,
}

/// A host that serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerConfig {
    /// Which one.
    pub host: HostIx,
    /// Its cores. Jobs share them evenly, and none gets more than one.
    pub cores: u32,
    /// Its share of connections relative to the others'. For whoever makes the controller.
    pub weight: u32,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestClass {
    /// Its name, for reports.
    pub name: String,
    /// Position in [`ServicesConfig::services`].
    pub service: u32,
    /// Bytes the client sends per page; at least 1.
    pub request_bytes: u64,
    /// Bytes of a page; at least 1.
    pub page_bytes: u64,
    /// Pages of a request, fetched one after another; at least 1.
    pub pages: u32,
    /// Time one core takes to serve a page.
    pub cpu: Time,
}

/// Agents on servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentConfig {
    /// Pause before each measurement (F1: 5 s).
    pub pause: Time,
    /// How long the load of the processors is measured before it is told (F1: five times 2 s).
    pub sampling: Time,
    /// Where reports go through the data plane, as UDP; `None`: to the controller directly, after
    /// [`crate::ControlConfig::agent_latency`].
    pub in_band: Option<ReportsTo>,
}

/// Where reports in band go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportsTo {
    /// The controller's address.
    pub address: Ipv4Addr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// UDP port.
    pub port: u16,
}

/// What became of the servers.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ServicesRecord {
    /// In the order of [`ServicesConfig::servers`].
    pub servers: Vec<ServerRecord>,
    /// Per request, in the order of the list: position of the server of its last page that was served, if one was.
    pub served_by: Vec<Option<u32>>,
    /// Connections opened, answered in full, given up, and open at the end: the first is the sum of the others.
    pub connections: ConnectionCounts,
    /// Packets that came from or to somebody else than the connection is between: rules that rewrite wrongly.
    pub misaddressed: u64,
}

/// Connections of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConnectionCounts {
    /// Opened.
    pub opened: u64,
    /// Answered in full.
    pub answered: u64,
    /// Given up by either end, or reset.
    pub failed: u64,
    /// Open at the end of the run.
    pub open: u64,
}

/// One server over the whole run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ServerRecord {
    /// Pages served of each class.
    pub pages: Vec<u64>,
    /// Connections that reached it.
    pub connections: u64,
    /// Time its cores were busy, summed over cores.
    pub busy: Time,
    /// Most jobs it had at once.
    pub jobs_max: u32,
}
