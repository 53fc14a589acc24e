//! Server balancers: they pick the member of a pool, and the path, for each request.
//!
//! [`ServerBalancer::pick`] is called once per new connection; later calls report the outcome of
//! that connection. It returns a member and, if the policy considers paths, a path from the
//! client's edge switch to the member's. The controller rewrites addresses, installs rules,
//! replies to ARP requests and checks health. One instance serves one pool, so its state
//! is that pool's. Random draws come from the stream passed in.
//!
//! A member is a server, or an outgoing link of a site with several ([`MemberLocation::Uplink`]):
//! the same policies then distribute traffic over links, as in F4.

pub(crate) mod common;
pub(crate) mod network;
mod pool;
mod pool_picker;
#[cfg(test)]
mod queueing;
mod server_stats;
mod services;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub mod consistency;
pub mod division_load;
pub mod division_no;
pub mod division_rtt;
pub mod ht_ps;
pub mod lobus;
pub mod maglev;
pub mod malob;
pub mod mesf;
pub mod ring_hash;
pub mod server_beamer;
pub mod server_cheetah;
pub mod server_concury;
pub mod server_cpu;
pub mod server_dwrr;
pub mod server_jiq;
pub mod server_lc;
pub mod server_least_loaded;
pub mod server_least_response;
pub mod server_prequal;
pub mod server_random;
pub mod server_rr;
pub mod server_two_choices;
pub mod server_wrr;
pub mod sl_ps;

pub use network::{MemberRoute, available};
pub use pool::{Member, MemberId, MemberLocation, Pool};
pub use pool_picker::PoolPicker;
pub use server_stats::ServerStats;
pub use services::{Services, ServicesError};

use net::{FiveTuple, NodeIx, RandomStream, Time};

use crate::central::{NetworkView, Path};

/// A new connection (or datagram flow) to a virtual address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The five-tuple of the client's packets: its own address and port, and the virtual ones.
    pub tuple: FiveTuple,
    /// The switch the client is connected to.
    pub edge: NodeIx,
    /// Bytes of both directions together; `None` if not known in advance.
    pub size: Option<u64>,
    /// Arrival time of the first packet.
    pub at: Time,
}

impl Request {
    /// Returns the port of the service.
    pub const fn service_port(&self) -> u16 {
        self.tuple.dst_port
    }

    /// Returns the switch the client is connected to, if `view` contains it.
    pub(crate) fn edge_in(&self, view: &NetworkView<'_>) -> Option<NodeIx> {
        (self.edge.ix() < view.topology.nodes().len()).then_some(self.edge)
    }
}

/// The member, and the path, of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The member that receives the request.
    pub member: MemberId,
    /// Links from the client's edge switch to the member's, without links of hosts; for an uplink,
    /// up to and including that link. `None` selects the default routes. The return direction uses
    /// the reverse path.
    pub path: Option<Path>,
}

/// The end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The member that served it.
    pub member: MemberId,
    /// Bytes of both directions together.
    pub bytes: u64,
    /// Time of the end.
    pub at: Time,
}

/// The data a server balancer needs from the controller. Anything else may be missing in
/// [`ServerStats`] and [`NetworkView`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerNeeds {
    /// Agents on members: CPU, connections, response time.
    pub reports: bool,
    /// Counters of the rules of each member, at the poll interval: [`ServerStats::bytes`].
    pub bytes: bool,
    /// The same counters, requested when a request arrives. The request does not wait for them: its
    /// successor sees them.
    pub bytes_at_requests: bool,
    /// Counters of links: [`NetworkView::load`].
    pub link_load: bool,
    /// Measured latencies of links without a configured latency.
    pub latency: bool,
    /// Both directions of a cable by their own measurements; otherwise both have that of the first.
    pub round_trips: bool,
}

impl ServerNeeds {
    /// Needs nothing but the pool, the request and the topology.
    pub const NONE: ServerNeeds = ServerNeeds {
        reports: false,
        bytes: false,
        bytes_at_requests: false,
        link_load: false,
        latency: false,
        round_trips: false,
    };
    /// Needs agents on members, and nothing else.
    pub const REPORTS: ServerNeeds = ServerNeeds { reports: true, ..ServerNeeds::NONE };

    /// Returns whether counters of the rules of members are needed at all.
    pub const fn any_bytes(self) -> bool {
        self.bytes || self.bytes_at_requests
    }

    /// Returns the union of both needs.
    pub const fn and(self, other: ServerNeeds) -> ServerNeeds {
        ServerNeeds {
            reports: self.reports || other.reports,
            bytes: self.bytes || other.bytes,
            bytes_at_requests: self.bytes_at_requests || other.bytes_at_requests,
            link_load: self.link_load || other.link_load,
            latency: self.latency || other.latency,
            round_trips: self.round_trips || other.round_trips,
        }
    }
}

/// Constructor arguments of a server balancer.
#[derive(Clone, Copy, Debug)]
pub struct ServerEnv {
    /// Seed of the run, or of the configuration file.
    pub seed: u64,
}

/// The mutable context of a decision.
#[derive(Debug)]
pub struct ServerCx<'a> {
    /// The random stream of this balancer.
    pub rng: &'a mut RandomStream,
}

/// Error of a balancer that has no table of services.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this balancer has no table of services; use `malob`")]
pub struct NoServices;

/// A balancer of requests among the members of one pool.
pub trait ServerBalancer: Send {
    /// Returns the data it needs; changes only with [`ServerBalancer::set_services`].
    fn needs(&self) -> ServerNeeds;

    /// Picks the member of a request. The request counts as placed from then on.
    ///
    /// Returns only a member that accepts connections ([`Member::accepts_connections`]) and is
    /// reachable from the client's edge over live links. Returns `None` only if no such member
    /// exists.
    fn pick(&mut self, cx: &mut ServerCx<'_>, request: &Request, pool: &Pool, view: &NetworkView<'_>)
    -> Option<Choice>;

    /// Returns the path for a connection that keeps its member although its old path is dead, has
    /// another start or end, or is unknown. The call places nothing. `None` selects the default
    /// routes.
    fn path_to(&mut self, _request: &Request, _member: &Member, _view: &NetworkView<'_>) -> Option<Path> {
        None
    }

    /// Returns whether it may pick paths other than the default routes.
    fn picks_paths(&self) -> bool {
        true
    }

    /// Records a connection of this pool that another component placed: a client kept its member,
    /// or another algorithm of a table picked.
    fn on_placed(&mut self, _request: &Request, _choice: &Choice) {}

    /// Records the end of a connection, regardless of the component that placed it.
    fn on_ended(&mut self, _request: &Request, _ended: &Ended) {}

    /// Handles a new report of a member, or its expiry; reported statistics are then `None`.
    fn on_report(&mut self, _member: &Member) {}

    /// Handles a response time that the controller, or a proxy, measured at a member itself.
    fn on_response(&mut self, _member: &Member, _response: Time) {}

    /// Handles new counters of a member's rules ([`ServerStats::bytes`]).
    fn on_counters(&mut self, _member: &Member) {}

    /// Handles changes of members, weight or availability; called once before any request.
    fn on_pool_changed(&mut self, _pool: &Pool) {}

    /// Assigns client slots (a power of two, at least 2) to these members by weights alone, and
    /// returns the member of each slot. The same members and weights always get the same slots, and
    /// few slots change with them. Without members every slot is unassigned. Returns `None` if the
    /// member or the path of a request depends on more than members and weights.
    fn assign_slots(&self, _shares: &[(MemberId, u32)], _slots: usize) -> Option<Vec<MemberId>> {
        None
    }

    /// Returns its table of services, if it has one.
    fn services(&self) -> Option<&Services> {
        None
    }

    /// Replaces its table of services. Placed connections keep their members.
    fn set_services(&mut self, _services: Services) -> Result<(), NoServices> {
        Err(NoServices)
    }
}
