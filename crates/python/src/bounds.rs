//! Bounds of throughput.

use pyo3::prelude::*;
use sim::bounds::mcf::{self, Demand};

use crate::topology::Topology;
use crate::{exception, failure};

/// Return what `anabranch bound --json` prints.
#[pyfunction]
pub fn pattern_bounds(py: Python<'_>, topology: &Topology, pattern: &str, seed: u64, eps: f64) -> PyResult<String> {
    let bounds = py.detach(|| anabranch_cli::bound_json(&topology.0, pattern, seed, eps));
    bounds.map(|value| value.to_string()).map_err(exception)
}

/// Return the share of demands (hosts by name, bit/s) that the network can carry of all at once: a
/// share that is possible, and one that is not exceeded.
#[pyfunction]
pub fn concurrent(
    py: Python<'_>,
    topology: &Topology,
    demands: Vec<(String, String, f64)>,
    eps: f64,
) -> PyResult<(f64, f64)> {
    let network = &topology.0;
    let host = |name: &str| {
        let found = network.hosts().iter().position(|node| network.node(*node).name == name);
        found.map(|ix| net::HostIx(ix as u32)).ok_or_else(|| failure(format!("the network has no host `{name}`")))
    };
    let demand = |(src, dst, bps): &(String, String, f64)| {
        if src == dst || !bps.is_finite() || *bps <= 0.0 {
            return Err(failure(format!("{src} to {dst}: a demand needs two hosts and a rate above 0")));
        }
        Ok(Demand { src: host(src)?, dst: host(dst)?, bps: *bps })
    };
    let demands: Vec<Demand> = demands.iter().map(demand).collect::<PyResult<_>>()?;
    if demands.is_empty() || !(0.001..=1.0).contains(&eps) {
        return Err(failure("there must be a demand, and eps must be from 0.001 to 1"));
    }
    let bound = py.detach(|| mcf::max_concurrent(network, &demands, eps));
    Ok((bound.share, bound.at_most))
}
