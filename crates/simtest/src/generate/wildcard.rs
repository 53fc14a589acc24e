//! Generation of proactive services. A separate stream draws them, so that the other parts do not
//! depend on them.

use std::collections::BTreeMap;

use control::vip::{Pool, PoolId, Protocol, Rules, Service, ServiceId};

use crate::generate::services::CHECKER;
use crate::generate::{chance, pick, stream};
use crate::plan::Plan;

/// Gives wildcard rules to the services of half of the pools, in half of the simulations with
/// services, where valid.
pub(crate) fn draw(plan: &mut Plan) {
    let mut rng = stream(plan.seed, "wildcards");
    if chance(&mut rng, 50) {
        return;
    }
    let mut balancers: BTreeMap<PoolId, Option<&str>> = BTreeMap::new();
    let mut counts: BTreeMap<ServiceId, u16> = BTreeMap::new();
    for wanted in &mut plan.services {
        for Pool { id, balancer, .. } in &mut wanted.pools {
            let wild = balancers.entry(*id).or_insert_with(|| {
                let is_wild = chance(&mut rng, 60);
                is_wild.then(|| *pick(&mut rng, &["maglev", "server-random"]))
            });
            balancer.clone_from(&wild.map_or_else(|| balancer.clone(), ToOwned::to_owned));
        }
        for ix in 0..wanted.services.len() {
            let Service { id, pool, protocol, .. } = wanted.services[ix];
            let buckets = counts.entry(id).or_insert_with(|| *pick(&mut rng, &[2, 8, 64]));
            if chance(&mut rng, 5) {
                *buckets = *pick(&mut rng, &[2, 8, 64]);
            }
            let is_plain = chance(&mut rng, 8) || protocol == Protocol::Icmp;
            if is_plain || balancers.get(&pool).is_none_or(Option::is_none) {
                continue;
            }
            wanted.services[ix].rules = Rules::Wildcard { buckets: *buckets };
            // Drawn members may serve another service at the same port.
            if wanted.check(Some(CHECKER)).is_err() {
                wanted.services[ix].rules = Rules::Connection;
            }
        }
    }
}
