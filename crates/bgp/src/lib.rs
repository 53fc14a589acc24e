//! Routes that BGP peers announce, and the division of their prefixes over uplinks.
//!
//! ```text
//! bytes of a BMP session ─► bmp: route events ─► rib: routes of every peer, damped
//!                                                   │ uplinks that may carry a prefix
//!                          loads of rules ─► egress: prefix ─► uplink ─► changes of rules
//! ```
//!
//! Nothing here reads a clock or a socket: the caller passes the time and the bytes.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "only the program's own crates use this one")]

pub mod bmp;
pub mod damping;
pub mod egress;
mod prefix;
pub mod rib;

use core::net::Ipv4Addr;

pub use prefix::Prefix;

/// A route of a peer to a prefix: the attributes that this program uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Route {
    pub next_hop: Ipv4Addr,
    /// Number of autonomous systems on the path; a set counts as one (RFC 4271, section 9.1.2.2).
    pub as_path_len: u16,
    /// Preference of the route; 100 if the route has none.
    pub local_pref: u32,
}

/// A change that a BMP session reports. Peers are named by their address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum RouteEvent {
    /// The BGP session to a peer is established. Its routes follow.
    PeerUp(Ipv4Addr),
    /// The BGP session to a peer has ended: all its routes are withdrawn.
    PeerDown(Ipv4Addr),
    Announce {
        peer: Ipv4Addr,
        prefix: Prefix,
        route: Route,
    },
    Withdraw {
        peer: Ipv4Addr,
        prefix: Prefix,
    },
    /// All routes of a peer were reported after [`RouteEvent::PeerUp`].
    EndOfRib(Ipv4Addr),
}

/// The address of a router whose bgpd sends a BMP session. A router has one session at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub struct RouterId(pub Ipv4Addr);
