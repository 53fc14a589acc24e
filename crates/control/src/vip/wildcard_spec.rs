//! Which rules a service wants, and whether it can have them.

use super::pools::picker;
use super::spec::{Member, Protocol, Service, Services, ServicesError};

/// Which rules lead to members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rules {
    /// Two for every connection, sent when its first packet has come to the controller.
    #[default]
    Connection,
    /// Some that stand beforehand and divide clients among members, by the lowest bits of their addresses: connections need no
    /// controller, and all of a client go to one member. For TCP and UDP, and balancers that go by weights alone
    /// ([`balance::server::ServerBalancer::divide`]).
    Wildcard {
        /// How many parts clients are divided into: a power of two in [`BUCKETS`]. A switch has a rule for each.
        buckets: u16,
    },
}

/// How many parts clients may be divided into.
pub const BUCKETS: std::ops::RangeInclusive<u16> = 2..=4_096;

impl Services {
    /// Whether rules that stand beforehand can serve the services that want them.
    pub(super) fn check_wildcards(&self) -> Result<(), ServicesError> {
        let pool_of = |service: &Service| self.pools.iter().find(|pool| pool.id == service.pool);
        let wild = self.services.iter().filter(|service| service.buckets().is_some());
        for (service, pool) in wild.filter_map(|service| Some((service, pool_of(service)?))) {
            let fault = |what: String| Err(ServicesError::of_rules(service.id, &what));
            if picker(&pool.balancer, 0).is_ok_and(|balancer| balancer.divide(&[], 2).is_none()) {
                let balancer = &pool.balancer;
                return fault(format!(
                    "`{balancer}` of its pool picks anew for every connection, or picks paths; wildcard rules need one that \
                     divides clients by weights alone: maglev or server-random, without a path"
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
                        "service {} leads to the same port of {} too: of what comes from there nobody could tell which of \
                         them it is from, without rules for each connection",
                        other.id.0, member.address
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Service {
    /// How many parts clients are divided into, where rules stand beforehand.
    pub fn buckets(&self) -> Option<usize> {
        match self.rules {
            Rules::Connection => None,
            Rules::Wildcard { buckets } => Some(usize::from(buckets)),
        }
    }

    pub(super) fn check_rules(&self) -> Result<(), ServicesError> {
        let fault = |what: &str| Err(ServicesError::of_rules(self.id, what));
        match self.rules {
            Rules::Wildcard { .. } if self.protocol == Protocol::Icmp => fault(
                "ICMP cannot have wildcard rules: answers to echoes of members themselves would be taken for its own",
            ),
            Rules::Wildcard { buckets } if !BUCKETS.contains(&buckets) || !buckets.is_power_of_two() => {
                let (least, most) = (BUCKETS.start(), BUCKETS.end());
                fault(&format!(
                    "its clients cannot be divided into {buckets} parts: a power of two from {least} to {most}"
                ))
            }
            _ => Ok(()),
        }
    }
}
