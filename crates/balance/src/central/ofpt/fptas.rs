//! Approximate maximum multicommodity flow: what OFPT's routing approximates if flows may be split
//! (mechanisms.md P10; Garg and Könemann, SIAM J. Computing 2007; Fleischer, SIAM J. Discrete
//! Mathematics 2000).
//!
//! Every link has a length, initially small. While a commodity has a path shorter than a bound,
//! which rises in steps of 1 + eps, flow is sent along it up to the capacity of its narrowest link.
//! Links become longer with the share of their capacity that is used. The sum is too large by a
//! known factor. A demand is an additional link in front of the source.

use net::LinkIx;

use crate::central::common::{Dag, Ends, Search};

/// Traffic between two edge switches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Commodity {
    /// The pair of edge switches.
    pub ends: Ends,
    /// Maximum flow, in the unit of capacities; above 0.
    pub demand: f64,
}

/// Returns the flow of each commodity over its shortest paths: feasible, and in total at least
/// `(1 - eps)^2` of the optimum. `capacity` is by link. The running time grows with the inverse
/// square of `eps`, which lies between 0 and 1.
pub fn max_flow(dag: Dag<'_>, capacity: &[f64], commodities: &[Commodity], eps: f64) -> Vec<f64> {
    let mut search = Search::default();
    let mut routed = vec![0.0; commodities.len()];
    // Links on the longest path; one more for the demand.
    let links = |commodity: &Commodity| dag.distance(commodity.ends).map_or(0, |links| links + 1);
    let longest = f64::from(commodities.iter().map(links).max().unwrap_or(0));
    let least = (1.0 + eps) * libm::pow((1.0 + eps) * longest, -1.0 / eps);
    let mut length = vec![least; capacity.len()];
    let mut demand_length = vec![least; commodities.len()];
    let mut bound = least;
    while bound < 1.0 {
        bound = (bound * (1.0 + eps)).min(1.0);
        for (nth, commodity) in commodities.iter().enumerate() {
            loop {
                let usable = |link: LinkIx| if capacity[link.ix()] > 0.0 { length[link.ix()] } else { f64::INFINITY };
                let shortest = search.shortest(dag, commodity.ends, usable);
                if shortest.is_none_or(|sum| sum + demand_length[nth] >= bound) {
                    break;
                }
                let narrowest = search.found().iter().map(|link| capacity[link.ix()]).fold(commodity.demand, f64::min);
                routed[nth] += narrowest;
                demand_length[nth] *= 1.0 + eps * narrowest / commodity.demand;
                for link in search.found() {
                    length[link.ix()] *= 1.0 + eps * narrowest / capacity[link.ix()];
                }
            }
        }
    }
    let excess = libm::log((1.0 + eps) / least) / libm::log(1.0 + eps);
    routed.iter_mut().for_each(|flow| *flow /= excess);
    routed
}
