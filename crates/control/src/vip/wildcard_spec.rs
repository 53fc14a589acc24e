//! The kind of rules of a service, and the constraints of proactive rules and of tunnels.

use net::Bandwidth;

use super::pool_state::picker;
use super::spec::{Member, Protocol, Service, Services, ServicesError};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Rules {
    /// Reactive rules: two per connection, sent after its first packet.
    #[default]
    Connection,
    /// Proactive rules that divide clients among members by the lowest bits of their addresses:
    /// connections need no controller, and all of a client go to one member. For TCP and UDP, and
    /// balancers that use weights only ([`balance::server::ServerBalancer::assign_slots`]).
    /// `buckets` is the number of client slots: a power of two in [`BUCKETS`]. A switch has a rule for
    /// each.
    Wildcard { buckets: u16 },
    /// The same rules, only at one switch that the controller assigns (`mux.rs`); other
    /// switches lead packets there.
    Mux {
        buckets: u16,
        /// Expected traffic to the members, above 0, which decides the assignment.
        traffic: Bandwidth,
    },
}

impl Rules {
    /// Returns the expected traffic of a service that has a mux.
    pub fn mux_traffic(self) -> Option<Bandwidth> {
        match self {
            Rules::Mux { traffic, .. } => Some(traffic),
            _ => None,
        }
    }
}

/// Allowed numbers of client slots.
pub const BUCKETS: std::ops::RangeInclusive<u16> = 2..=4_096;

impl Services {
    /// Checks that proactive rules can serve the services that use them.
    pub(super) fn check_wildcards(&self) -> Result<(), ServicesError> {
        let pool_of = |service: &Service| self.pools.iter().find(|pool| pool.id == service.pool);
        let wild = self.services.iter().filter(|service| service.buckets().is_some());
        for (service, pool) in wild.filter_map(|service| Some((service, pool_of(service)?))) {
            let fault = |what: String| Err(ServicesError::of_rules(service.id, &what));
            if picker(&pool.balancer, 0).is_ok_and(|balancer| balancer.assign_slots(&[], 2).is_none()) {
                let balancer = &pool.balancer;
                return fault(format!(
                    "balancer `{balancer}` of its pool picks a member per connection, or paths; wildcard rules need one \
                     that assigns client slots by weights only: maglev or server-random, without a path"
                ));
            }
            let others =
                self.services.iter().filter(|other| other.id != service.id && other.protocol == service.protocol);
            for (other, their) in others.filter_map(|other| Some((other, pool_of(other)?))) {
                let is_same = |a: &Member| {
                    let at = |member: &Member, of: &Service| (member.address, member.port.unwrap_or(of.port));
                    their.members.iter().any(|b| at(a, service) == at(b, other))
                };
                if let Some(member) = pool.members.iter().find(|member| is_same(member)) {
                    return fault(format!(
                        "service {} leads to the same port of {} too: without a rule per connection, replies from there \
                         cannot be assigned to either of them",
                        other.id.0, member.address
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that tunnelled services need nothing that their packets hide from switches.
    pub(super) fn check_tunnels(&self) -> Result<(), ServicesError> {
        for service in self.services.iter().filter(|service| service.is_tunnelled) {
            let Some(pool) = self.pools.iter().find(|pool| pool.id == service.pool) else { continue };
            let fault = |what: &str| Err(ServicesError::of_rules(service.id, what));
            if pool.members.iter().any(|member| member.port.is_some_and(|port| port != service.port)) {
                return fault("members receive tunnelled packets at the port of the service; leave out their port");
            }
            let Ok(balancer) = picker(&pool.balancer, 0) else { continue };
            if balancer.picks_paths() {
                return fault(
                    "the balancer of its pool picks paths, but switches do not see the ports of tunnelled packets; \
                     use one without `path`, such as server-rr",
                );
            }
            if balancer.needs().any_bytes() {
                return fault(
                    "the balancer of its pool counts bytes of replies, which match no rule of a tunnelled service; use \
                     another, such as server-lc",
                );
            }
        }
        Ok(())
    }
}

impl Service {
    /// Returns the number of client slots, if the service uses proactive rules.
    pub fn buckets(&self) -> Option<usize> {
        match self.rules {
            Rules::Connection => None,
            Rules::Wildcard { buckets } | Rules::Mux { buckets, .. } => Some(usize::from(buckets)),
        }
    }

    pub(super) fn check_rules(&self) -> Result<(), ServicesError> {
        let fault = |what: &str| Err(ServicesError::of_rules(self.id, what));
        match self.rules {
            Rules::Wildcard { .. } | Rules::Mux { .. } if self.protocol == Protocol::Icmp => {
                fault("ICMP cannot have wildcard rules: echo replies to members themselves would match them, too")
            }
            Rules::Mux { traffic, .. } if traffic.as_bps() == 0 => {
                fault("the expected traffic of its mux must be above 0")
            }
            Rules::Wildcard { buckets } | Rules::Mux { buckets, .. }
                if !BUCKETS.contains(&buckets) || !buckets.is_power_of_two() =>
            {
                let (least, most) = (BUCKETS.start(), BUCKETS.end());
                fault(&format!(
                    "{buckets} client slots are not possible: the number must be a power of two from {least} to {most}"
                ))
            }
            _ => Ok(()),
        }
    }
}
