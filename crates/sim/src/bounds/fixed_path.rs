//! Max-min fair rates of flows with given paths: the steady state of ideal TCP (mechanisms.md P29
//! `fixed-path`), an oracle for the throughput of simulators and balancers.

use net::{LinkIx, Topology};

use super::fill::{Filler, Users};

/// Returns the rate of every path, bits per second; infinite for a path without links. The rate of a
/// multipath flow is the sum over its paths.
pub fn rates(topology: &Topology, paths: &[Vec<LinkIx>]) -> Vec<f64> {
    let capacity: Vec<f64> = topology.links().iter().map(|link| link.rate.as_bps_f64()).collect();
    let (mut users, mut rates) = (Users::new(), Vec::new());
    paths.iter().for_each(|path| users.push(path.iter().map(|link| link.0)));
    Filler::default().max_min(&capacity, &users, &mut rates);
    rates
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// In no order: all flows share max-min fairly.
    Fair,
    /// The path with the smallest size, greedily; of equal ones the first.
    ShortestFirst,
    /// The path with the largest size, greedily; of equal ones the last.
    LongestFirst,
}

/// Returns when each path has carried its size, if all start at time 0. Sizes over capacities gives
/// the unit of time. Infinite for a path that never gets a rate.
pub fn finish_times(capacity: &[f64], paths: &[Vec<u32>], sizes: &[f64], service: Service) -> Vec<f64> {
    let mut filler = Filler::default();
    let mut left = sizes.to_vec();
    let mut finished = vec![f64::INFINITY; sizes.len()];
    let mut open: Vec<usize> = (0..sizes.len()).collect();
    let (mut now, mut rates) = (0.0, Vec::new());
    while !open.is_empty() {
        let mut users = Users::new();
        open.iter().for_each(|path| users.push(paths[*path].iter().copied()));
        let mut order: Vec<u32> = (0..open.len() as u32).collect();
        order.sort_by(|a, b| sizes[open[*a as usize]].total_cmp(&sizes[open[*b as usize]]));
        if service == Service::LongestFirst {
            order.reverse();
        }
        match service {
            Service::Fair => filler.max_min(capacity, &users, &mut rates),
            _ => filler.greedy(capacity, &users, &order, &mut rates),
        }
        let time_left =
            |(at, path): (usize, &usize)| if rates[at] > 0.0 { left[*path] / rates[at] } else { f64::INFINITY };
        let step = open.iter().enumerate().map(time_left).fold(f64::INFINITY, f64::min);
        if step.is_infinite() {
            break;
        }
        now += step;
        for (path, rate) in open.iter().zip(&rates) {
            // The next to finish does so now, regardless of rounding.
            let is_over = *rate > 0.0 && left[*path] / rate <= step * (1.0 + 1e-12);
            left[*path] = if is_over { 0.0 } else { left[*path] - rate * step };
            if is_over {
                finished[*path] = now;
            }
        }
        open.retain(|path| finished[*path].is_infinite());
    }
    finished
}
