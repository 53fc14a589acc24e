//! Configuration of front ends.

use std::net::SocketAddrV4;

use balance::Spec;
use experiment::runner::{ContentRule, Forwarding};
use net::address;

use super::{Plan, ServerInstance};
use crate::error::{Result, not_here};
use crate::services::front_end::{self, FrontEnd, FrontMember, FrontRule};

/// Returns the configuration of a front end; `of_run`: balancer and seed of the run.
pub fn front_end(plan: &Plan<'_>, instance: &ServerInstance, of_run: (&Spec, u64)) -> Result<FrontEnd> {
    let services = instance.services.iter().map(|number| &plan.services.services[*number]);
    let contents: Vec<_> = services.filter_map(|service| service.content.as_ref()).collect();
    let Some(first) = contents.first().copied() else {
        return Err(not_here("service.front_ends", format!("{} forwards nothing", instance.at)));
    };
    if contents.iter().any(|other| (other.forwarding, &other.rules) != (first.forwarding, &first.rules)) {
        let reason = format!("two services with different rules use the front end at {}", instance.at);
        return Err(not_here("service.front_ends", reason));
    }
    let (spec, seed) = of_run;
    let member = |server: &experiment::runner::ServerConfig| FrontMember {
        at: SocketAddrV4::new(address::host_ipv4(server.host), instance.at.port()),
        weight: server.weight,
    };
    let rule = |rule: &ContentRule| FrontRule {
        path: rule.path.clone(),
        host: rule.host.clone(),
        balancer: rule.balancer.clone().unwrap_or_else(|| spec.label()),
        members: (plan.services.servers.iter())
            .filter(|server| rule.members.contains(&server.host))
            .map(member)
            .collect(),
    };
    let forwarding = match first.forwarding {
        Forwarding::Splice => front_end::Forwarding::Splice,
        Forwarding::Redirect => front_end::Forwarding::Redirect,
    };
    let rules = first.rules.iter().map(rule).collect();
    Ok(FrontEnd { listen: instance.at, forwarding, copies: false, seed, rules })
}
