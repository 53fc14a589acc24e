//! Server balancers: which member of a pool a request gets, and by which path.
//!
//! A balancer is asked once per new connection ([`ServerBalancer::pick`]) and told what became of it. It answers a member
//! and, if it minds the way, a path from the client's edge switch to the member's; rewriting of addresses, rules, ARP and
//! health checks are the controller's. One instance serves one pool, so its state is that pool's. Random draws come from
//! the stream passed in.
//!
//! A member is a server, or an outgoing link of a site with several ([`Place::Uplink`]): the same policies then divide
//! traffic among links, as in F4.

mod facts;
pub(crate) mod network;
pub mod parts;
mod pool;
mod services;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub mod division_load;
pub mod division_no;
pub mod ht_ps;
pub mod lobus;
pub mod maglev;
pub mod malob;
pub mod mesf;
pub mod ring_hash;
pub mod server_cpu;
pub mod server_dwrr;
pub mod server_lc;
pub mod server_least_loaded;
pub mod server_random;
pub mod server_rr;
pub mod server_two_choices;
pub mod server_wrr;
pub mod sl_ps;

pub use facts::Facts;
pub use network::{Way, available};
pub use pool::{Member, MemberId, Place, Pool};
pub use services::{Services, ServicesError};

use net::{FiveTuple, NodeIx, Stream, Time};

use crate::central::{NetworkView, Path};

/// A new connection (or datagram flow) to a virtual address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What the client put on the wire: its own address and port, and the virtual ones.
    pub tuple: FiveTuple,
    /// The switch the client is behind.
    pub edge: NodeIx,
    /// Bytes that will be carried, both ways together, where somebody knows.
    pub size: Option<u64>,
    /// When its first packet came.
    pub at: Time,
}

impl Request {
    /// The port of the service asked for.
    pub const fn service_port(&self) -> u16 {
        self.tuple.dst_port
    }

    /// The switch the client is behind, if it is in the network.
    pub(crate) fn edge_in(&self, view: &NetworkView<'_>) -> Option<NodeIx> {
        (self.edge.ix() < view.topology.nodes().len()).then_some(self.edge)
    }
}

/// Who gets a request, and by which way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The member.
    pub member: MemberId,
    /// Links from the client's edge switch to the member's, without the links of hosts; for an uplink, up to and including
    /// it. `None`: by the base, whichever way other traffic goes. The way back is the same in reverse.
    pub path: Option<Path>,
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Who served it.
    pub member: MemberId,
    /// Bytes it carried, both ways together.
    pub bytes: u64,
    /// When.
    pub at: Time,
}

/// What a server balancer needs of the controller. What is not asked for may be missing in [`Facts`] and [`NetworkView`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerNeeds {
    /// Agents on members: CPU, connections, response time.
    pub reports: bool,
    /// Counters of the rules of each member: [`Facts::bytes`].
    pub bytes: bool,
    /// Counters of links: [`NetworkView::load`].
    pub link_load: bool,
    /// Measured latencies of links, where they are not configured.
    pub latency: bool,
}

impl ServerNeeds {
    /// What either needs.
    pub const fn and(self, other: ServerNeeds) -> ServerNeeds {
        ServerNeeds {
            reports: self.reports || other.reports,
            bytes: self.bytes || other.bytes,
            link_load: self.link_load || other.link_load,
            latency: self.latency || other.latency,
        }
    }
}

/// What a server balancer is made from.
#[derive(Clone, Copy, Debug)]
pub struct ServerEnv {
    /// Seed of the run, or of the configuration file.
    pub seed: u64,
}

/// What a server balancer may use besides facts.
#[derive(Debug)]
pub struct ServerCx<'a> {
    /// Its own random stream.
    pub rng: &'a mut Stream,
}

/// The balancer has no table of services.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this balancer has no table of services; `malob` has")]
pub struct NoServices;

/// A balancer of requests among the members of one pool.
pub trait ServerBalancer: Send {
    /// What it needs; may change with [`ServerBalancer::set_services`] only.
    fn needs(&self) -> ServerNeeds;

    /// Who gets this request. It counts as placed from here on.
    ///
    /// Only a member that accepts ([`Member::may_get`]) and can be reached from the client's edge over live links is
    /// answered; `None` if there is none such, and for no other reason.
    fn pick(&mut self, cx: &mut ServerCx<'_>, request: &Request, pool: &Pool, view: &NetworkView<'_>)
    -> Option<Choice>;

    /// The path on which a connection goes on with a member it has already: its old one is dead, begins or ends elsewhere, or is
    /// not known any more. Nothing is placed by it. `None`: by the base.
    fn path_to(&mut self, _request: &Request, _member: &Member, _view: &NetworkView<'_>) -> Option<Path> {
        None
    }

    /// A connection of this pool was placed by somebody else: a client kept its member, or another algorithm of a table
    /// picked.
    fn placed(&mut self, _request: &Request, _choice: &Choice) {}

    /// A connection ended, whoever placed it.
    fn ended(&mut self, _request: &Request, _ended: &Ended) {}

    /// A member has reported; or its report has become too old, and its facts are `None`.
    fn reported(&mut self, _member: &Member) {}

    /// Counters of its rules were read ([`Facts::bytes`]). What it reported itself is as before.
    fn counted(&mut self, _member: &Member) {}

    /// Members came, went, or changed in weight or in whether they accept. Called once before the first request.
    fn pool_changed(&mut self, _pool: &Pool) {}

    /// Divides slots (a power of two, at least 2) among these members by weights alone: who has each slot. The same members
    /// and weights always get the same slots, and little moves when they change. Nobody has any where there are no members.
    /// `None`: who gets a request depends on more than members and weights, or so does its path.
    fn divide(&self, _shares: &[(MemberId, u32)], _slots: usize) -> Option<Vec<MemberId>> {
        None
    }

    /// Its table of services, if it has one.
    fn services(&self) -> Option<&Services> {
        None
    }

    /// Replaces its table of services. Connections that were placed stay where they are.
    ///
    /// # Errors
    /// It has none.
    fn set_services(&mut self, _services: Services) -> Result<(), NoServices> {
        Err(NoServices)
    }
}
