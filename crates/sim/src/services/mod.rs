//! Virtual services of a run: servers, classes of requests, and agents on servers.
//!
//! In a run with services every flow of the list is a request. Its source is the client, its group
//! (from 1 on) the class of the request, its size the total download. The controller alone decides
//! the server. The destination in the list is ignored, but must differ from the client.
//!
//! # Model
//! A client knows the Ethernet address of the virtual address (as with static ARP). It opens a
//! connection from a new port, one connection after the other. A connection begins with SYN and
//! SYN-ACK if [`crate::TransportConfig::handshake`] is set, else with the first bytes of the
//! request. The request is sent as data of the transport. A processor-sharing server serves it once
//! it is complete. The response uses the same connection, with a separate congestion window.
//!
//! Headers are those on a wire: rules of the switches match and rewrite them. Packets that reach a
//! client from any address but the virtual one, or a server from any host but the client, are lost
//! (`no_route`). The response time ends with the last byte of the response. A request of several
//! pages fetches them one after another over new connections. The end of a connection (FIN) is not
//! sent: rules expire when idle. A request fails when it is reset.
//!
//! # Tunnelled services
//! With [`VirtualService::is_tunnelled`] the rule to the member adds an outer header (RFC 2003) from
//! the virtual address to the member, so packets are [`OUTER_HEADER`] bytes longer from that switch to
//! the member. The member removes it, and replies from the virtual address and its own Ethernet
//! address. Segments keep their size: links carry the longer packets, as with an MTU raised by that
//! header. Switches behind the first one see neither the client nor ports: equal-cost hashing gives
//! one path to all connections of a member.
//!
//! # Content-aware services
//! The members of a service with [`ContentConfig`] are front ends. A front end accepts the
//! connection and reads the request. Its processor then works for `connection_time`, and the first
//! rule that matches gives the pool; a server balancer of the front end picks the member. With
//! [`Forwarding::Splice`] the front end opens a connection to the member, from its own address, and
//! relays the response as it arrives. Each in-order piece takes processor time by `relay_rate`. With
//! [`Forwarding::Redirect`] it answers with a redirect, and the client opens a connection to the
//! member's own address. The member picked is at the end of a path by the default routes.

pub(crate) mod requests;

use core::net::Ipv4Addr;

use net::{Bandwidth, HostIx, Time};

/// Bytes of the outer IPv4 header of a tunnelled packet.
pub const OUTER_HEADER: u16 = 20;

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ServicesConfig {
    pub services: Vec<VirtualService>,
    pub servers: Vec<ServerConfig>,
    /// Classes of requests; the group of a flow is its position here plus 1.
    pub classes: Vec<RequestClass>,
    /// Agents on servers; `None` for none.
    pub agents: Option<AgentConfig>,
    /// The central balancer for all traffic whose path is not chosen together with its server. The
    /// simulator ignores it: it is for the caller, which creates the controller.
    pub base: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct VirtualService {
    pub name: String,
    pub address: Ipv4Addr,
    pub mac: [u8; 6],
    pub port: u16,
    pub members: Vec<HostIx>,
    /// Port of its members; `None` for the same. The simulator ignores this and the next two
    /// settings: they are for the caller, which creates the controller.
    pub member_port: Option<u16>,
    /// Number of its pool. Services of one pool share members and the balancer's state.
    pub pool: u16,
    /// Time after which an idle connection loses its rules, seconds.
    pub idle_timeout_s: u16,
    /// Number of client slots for proactive rules; `None`: every connection has reactive rules.
    /// Ignored by the simulator: it is for the caller, which creates the controller.
    pub buckets: Option<u16>,
    /// Expected traffic if the slot rules are at one switch, the mux. Ignored by the simulator, too.
    pub mux_traffic: Option<Bandwidth>,
    /// Whether switches add an outer IP header to packets to members (IP-in-IP). Members remove it, and
    /// reply directly.
    pub is_tunnelled: bool,
    /// Forwarding by content: the members are front ends; `None`: they serve requests themselves.
    pub content: Option<ContentConfig>,
}

/// How front ends of a service forward requests by their content.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentConfig {
    pub forwarding: Forwarding,
    /// Rules in order; the last one must match every request.
    pub rules: Vec<ContentRule>,
    /// Processor time of the front end for a connection, at speed 1.
    pub connection_time: Time,
    /// Rate at which a core of speed 1 relays responses; `None`: without processor time.
    pub relay_rate: Option<Bandwidth>,
    /// Bytes of a redirect; at least 1.
    pub redirect_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// The front end connects to the member and relays the response.
    Splice,
    /// The client connects to the member.
    Redirect,
}

/// A rule that assigns requests to members by content.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentRule {
    /// Beginning of the paths that match; empty for all.
    pub path: String,
    /// Host name that matches; `None` for all.
    pub host: Option<String>,
    pub members: Vec<HostIx>,
    /// Server balancer that picks a member; `None`: the balancer of the run.
    pub balancer: Option<String>,
}

impl ContentRule {
    /// Returns whether a request of this class matches.
    pub fn matches(&self, class: &RequestClass) -> bool {
        class.path.starts_with(&self.path) && self.host.as_ref().is_none_or(|host| *host == class.host)
    }
}

impl VirtualService {
    /// Returns the hosts that serve a class: of the first rule that matches, or the members.
    pub fn servers_of(&self, class: &RequestClass) -> &[HostIx] {
        let rule = self.content.as_ref().and_then(|content| content.rules.iter().find(|rule| rule.matches(class)));
        rule.map_or(&self.members, |rule| &rule.members)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerConfig {
    pub host: HostIx,
    /// Number of cores. Jobs share them evenly, and no job gets more than one.
    pub cores: u32,
    /// Speed of a core: a job takes its core time divided by this. Above zero.
    pub speed: f64,
    /// Share of connections relative to other servers, for the caller's controller only.
    pub weight: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RequestClass {
    pub name: String,
    /// Position of its service in [`ServicesConfig::services`].
    pub service: u32,
    /// Bytes the client sends per page; at least 1.
    pub request_bytes: u64,
    /// Bytes of a page; at least 1.
    pub page_bytes: u64,
    /// Pages of a request, fetched one after another; at least 1.
    pub pages: u32,
    /// Time one core takes to serve a page.
    pub cpu: Time,
    /// Path and host name of the requests, which rules of content match.
    pub path: String,
    pub host: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentConfig {
    /// Pause before each measurement (F1: 5 s).
    pub pause: Time,
    /// Duration of a measurement of the processor load (F1: five times 2 s).
    pub sampling: Time,
    /// Destination of reports as UDP on the data plane; `None`: to the controller directly.
    pub in_band: Option<ReportsTo>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportsTo {
    pub address: Ipv4Addr,
    pub mac: [u8; 6],
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ServicesRecord {
    pub servers: Vec<ServerRecord>,
    /// Position of the server of each request's last page; `None` if no page was served.
    pub served_by: Vec<Option<u32>>,
    /// Connections opened (the sum of the others), completed, failed, and open at the end.
    pub connections: ConnectionCounts,
    /// Packets with an address that does not belong to the connection: rules that rewrite wrongly.
    pub misaddressed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConnectionCounts {
    pub opened: u64,
    pub answered: u64,
    /// Connections that either end aborted, or that were reset.
    pub failed: u64,
    pub open: u64,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ServerRecord {
    pub pages: Vec<u64>,
    pub connections: u64,
    /// Time its cores were busy, summed over cores.
    pub busy: Time,
    pub jobs_max: u32,
}
