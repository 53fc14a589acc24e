//! The assignment of services to switches, as DUET computes it (Gandhi et al., "Duet: Cloud Scale
//! Load Balancing with Hardware and Software", SIGCOMM 2014, section 4).
//!
//! Resources are the rule memory of each switch and the bandwidth of each link, of which a share may
//! be used. The order is that of decreasing traffic. Each service goes to the switch with which the
//! maximum utilisation of all resources (MRU) is lowest. If that exceeds 1, the algorithm ends: this
//! service and the rest stay with the backstop. A service leaves its present switch only if that
//! lowers the MRU by more than [`STICKINESS`].
//!
//! Readings: ties go to the switch whose own resources (its memory, and the links that the service
//! would use) are used least, then to the smallest sum of loads over links, which is the shortest
//! detour, and then to the lower number. Services of equal traffic keep their order.

use std::collections::BTreeMap;

use net::{LinkIx, NodeIx};

/// Decrease of the MRU that justifies a migration (DUET: 5 %).
const STICKINESS: f64 = 0.05;

/// A service that may be assigned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Demand {
    /// Its traffic in any unit, for the order.
    pub(super) traffic: f64,
    /// Rules that it occupies at its switch.
    pub(super) rules: u32,
    /// The switch that it is assigned to now.
    pub(super) current: Option<NodeIx>,
}

/// Resources of the network that services use, with their limits.
pub(super) struct Resources<'a> {
    /// Switches that may be a mux, in the order of their numbers.
    pub(super) switches: &'a [NodeIx],
    /// Rules for services that a switch may have.
    pub(super) rules_max: u32,
    /// Returns the usable rate of a link, bits per second.
    pub(super) rate: &'a dyn Fn(LinkIx) -> f64,
    /// Returns the load of each link, bits per second, if a service (by its position) is assigned to
    /// a switch; `None` if that switch cannot serve it.
    pub(super) load: &'a dyn Fn(usize, NodeIx) -> Option<BTreeMap<LinkIx, f64>>,
}

/// Returns the switch of each service; `None` leaves it to the backstop.
pub(super) fn assign(demands: &[Demand], resources: &Resources<'_>) -> Vec<Option<NodeIx>> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by(|a, b| demands[*b].traffic.total_cmp(&demands[*a].traffic).then(a.cmp(b)));
    let mut used = Used { rules: BTreeMap::new(), links: BTreeMap::new(), maximum: 0.0 };
    let mut assigned = vec![None; demands.len()];
    for position in order {
        let Some(best) = best(&demands[position], position, &used, resources) else { continue };
        if best.mru > 1.0 {
            break;
        }
        assigned[position] = Some(best.switch);
        *used.rules.entry(best.switch).or_insert(0) += demands[position].rules;
        best.load.iter().for_each(|(link, bps)| *used.links.entry(*link).or_insert(0.0) += bps);
        used.maximum = best.mru;
    }
    assigned
}

struct Used {
    rules: BTreeMap<NodeIx, u32>,
    links: BTreeMap<LinkIx, f64>,
    maximum: f64,
}

#[derive(Clone, Debug)]
struct Candidate {
    mru: f64,
    /// Maximum utilisation of the resources that the service would use here.
    own: f64,
    /// Sum of the loads of links.
    total: f64,
    switch: NodeIx,
    load: BTreeMap<LinkIx, f64>,
}

fn best(demand: &Demand, position: usize, used: &Used, resources: &Resources<'_>) -> Option<Candidate> {
    let candidate = |switch: NodeIx| {
        let load = (resources.load)(position, switch)?;
        let rules = used.rules.get(&switch).copied().unwrap_or(0).saturating_add(demand.rules);
        let memory = f64::from(rules) / f64::from(resources.rules_max.max(1));
        let link = |(link, bps): (&LinkIx, &f64)| {
            (used.links.get(link).copied().unwrap_or(0.0) + bps) / (resources.rate)(*link).max(1.0)
        };
        let own = load.iter().map(link).fold(memory, f64::max);
        Some(Candidate { mru: own.max(used.maximum), own, total: load.values().sum(), switch, load })
    };
    let candidates: Vec<Candidate> = resources.switches.iter().filter_map(|switch| candidate(*switch)).collect();
    let order = |a: &&Candidate, b: &&Candidate| {
        let by_load = a.mru.total_cmp(&b.mru).then(a.own.total_cmp(&b.own)).then(a.total.total_cmp(&b.total));
        by_load.then(a.switch.cmp(&b.switch))
    };
    let lowest = candidates.iter().min_by(order)?;
    let current = candidates.iter().find(|candidate| Some(candidate.switch) == demand.current);
    let kept = current.filter(|current| current.mru <= 1.0 && current.mru - lowest.mru <= STICKINESS);
    Some(kept.unwrap_or(lowest).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeIx = NodeIx(1);
    const B: NodeIx = NodeIx(2);

    fn demand(traffic: f64, rules: u32) -> Demand {
        Demand { traffic, rules, current: None }
    }

    /// Two switches, each behind a link of 10 units, link number = switch number.
    fn on_two(demands: &[Demand], rules_max: u32) -> Vec<Option<NodeIx>> {
        let load =
            |position: usize, switch: NodeIx| Some(BTreeMap::from([(LinkIx(switch.0), demands[position].traffic)]));
        assign(demands, &Resources { switches: &[A, B], rules_max, rate: &|_| 10.0, load: &load })
    }

    #[test]
    fn worked_example_follows_the_greedy_order() {
        // In order of traffic 6, 5, 3, 2, with 10 units a link and 10 rules a switch:
        // 6 to A (ties to the lower number): A 0.6. 5 to B: MRU 0.6 (at A it would be 1.1).
        // 3 to B: MRU 0.8 (A 0.9). 2 to A: MRU 0.8, both links 0.8 (at B it would be 1.0).
        let demands = [demand(3.0, 1), demand(6.0, 1), demand(2.0, 1), demand(5.0, 1)];
        assert_eq!(on_two(&demands, 10), [Some(B), Some(A), Some(A), Some(B)]);
        // Memory for 6 rules a switch, and 4, 3, 2, 1 rules in order of traffic: 4 to A (0.67), 3 to
        // B (0.67; A 1.17), 2 to B (0.83; A 1.0), 1 to A (0.83 at A; 1.0 at B).
        let demands = [demand(0.4, 4), demand(0.3, 3), demand(0.2, 2), demand(0.1, 1)];
        assert_eq!(on_two(&demands, 6), [Some(A), Some(B), Some(B), Some(A)]);
    }

    #[test]
    fn first_service_beyond_the_limits_ends_the_assignment() {
        // 8 to A, 7 to B; then 4 fits neither link, and 1 follows it to the backstop.
        let demands = [demand(8.0, 1), demand(7.0, 1), demand(4.0, 1), demand(1.0, 1)];
        assert_eq!(on_two(&demands, 10), [Some(A), Some(B), None, None]);
        let demands = [demand(1.0, 4), demand(0.9, 4), demand(0.8, 4)];
        assert_eq!(on_two(&demands, 4), [Some(A), Some(B), None]);
    }

    #[test]
    fn service_moves_only_for_a_lower_maximum() {
        let stays = |traffic: f64| {
            // The other service is at A with 5.0; this one is at A as well.
            let demands = [demand(5.0, 1), Demand { current: Some(A), ..demand(traffic, 1) }];
            on_two(&demands, 100)[1] == Some(A)
        };
        // At B the MRU stays 0.5; at A it becomes 0.5 + traffic / 10.
        assert_eq!([stays(0.4), stays(0.6)], [true, false]);
    }

    #[test]
    fn limits_hold_for_random_demands() {
        let mut rng = net::RandomStream::new(1, "mux");
        for _ in 0..200 {
            let demands: Vec<Demand> = (0..20)
                .map(|_| demand(f64::from(rng.next_below(50) as u32) / 10.0, 1 + rng.next_below(8) as u32))
                .collect();
            let assigned = on_two(&demands, 24);
            for switch in [A, B] {
                let here = || demands.iter().zip(&assigned).filter(|(_, at)| **at == Some(switch)).map(|(one, _)| one);
                assert!(here().map(|one| one.rules).sum::<u32>() <= 24);
                assert!(here().map(|one| one.traffic).sum::<f64>() <= 10.0 + 1e-9);
            }
        }
    }
}
