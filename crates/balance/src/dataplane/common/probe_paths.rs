//! Paths and times of probes that return over the same cables.

use net::LinkIx;
use net::routes::ClassIx;

use super::{PathIndex, crossing, rank_of};
use crate::dataplane::EdgeEnv;

/// Returns the additional time of a full-size packet to a host of a class and its ACK, on an empty
/// network, compared with a probe of `bytes` to its edge and a reply of the same size, picoseconds.
pub(crate) fn longer_ps(env: &EdgeEnv<'_>, class: ClassIx, bytes: u32) -> u64 {
    let links = env.routes.path(env.topology, env.edge, class, 0);
    let crossing = |link: LinkIx| crossing(env.topology, link, bytes).as_ps();
    let probe_ps: u64 = links.iter().map(|link| crossing(*link) + crossing(link.reverse())).sum();
    env.base_rtt[class.0 as usize].as_ps().saturating_sub(probe_ps)
}

/// Returns, for every path that leads here, the number of the path from here over its cables.
pub(crate) fn ways_back(env: &EdgeEnv<'_>, inward: &PathIndex) -> Vec<u16> {
    let mut back = Vec::with_capacity(inward.total());
    for class in (0..inward.class_count() as u32).map(ClassIx) {
        let there = env.routes.class_node(class);
        for path in 0..inward.count(class) as u32 {
            let mut links = env.routes.path(env.topology, there, env.class, path);
            links.reverse();
            links.iter_mut().for_each(|link| *link = link.reverse());
            back.push(rank(env, class, &links).unwrap_or(0));
        }
    }
    back
}

fn rank(env: &EdgeEnv<'_>, to: ClassIx, links: &[LinkIx]) -> Option<u16> {
    let rank = rank_of(env.topology, env.routes, env.edge, to, links)?;
    u16::try_from(rank).ok().filter(|rank| *rank < env.path_counts[to.0 as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::with_edge_env;

    #[test]
    fn replies_return_over_same_cables() {
        for family in ["fat-tree:k=4", "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,parallel=2", "bcube:n=4,k=1"] {
            with_edge_env(family, 1, |env| {
                let inward = PathIndex::inward(env);
                let back = ways_back(env, &inward);
                for class in (0..env.path_counts.len() as u32).map(ClassIx) {
                    for path in 0..inward.count(class) as u32 {
                        let there = env.routes.path(env.topology, env.routes.class_node(class), env.class, path);
                        let mut home: Vec<LinkIx> = there.iter().map(|link| link.reverse()).collect();
                        home.reverse();
                        let rank = u32::from(back[inward.range(class).start + path as usize]);
                        assert_eq!(
                            env.routes.path(env.topology, env.edge, class, rank),
                            home,
                            "{family} {class:?} {path}"
                        );
                    }
                }
            });
        }
    }
}
