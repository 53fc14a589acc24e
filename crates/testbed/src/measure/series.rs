//! Link load over time, computed from samples of port counters, in the form of the simulator's
//! probes.

use std::collections::BTreeMap;

use experiment::runner::Series;
use net::{LinkIx, Time, Topology};

use crate::network::plan::{interface, is_fabric, links};

/// Counters of ports: bytes, packets and drops received, then the same sent.
pub type Ports = BTreeMap<String, [u64; 6]>;

const SENT_BYTES: usize = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Seconds since the start of the run; negative before it.
    pub t: f64,
    pub ports: Ports,
}

/// Returns bytes per inter-switch link and time bin. The samples are in order of time and cover the
/// run up to `end`. Between two samples the load of a link is assumed to be constant.
pub fn series(topology: &Topology, samples: &[Sample], bin: Time, end: Time) -> Series {
    let links: Vec<LinkIx> = links(topology).filter(|link| is_fabric(topology, *link)).collect();
    let bins = end.as_ps().div_ceil(bin.as_ps().max(1)) as usize;
    let mut bytes = Vec::with_capacity(links.len() * bins);
    for link in &links {
        let port = interface(topology, *link);
        let count = |sample: &Sample| Some((sample.t, sample.ports.get(&port)?[SENT_BYTES]));
        let counts: Vec<(f64, u64)> = samples.iter().filter_map(count).collect();
        let at = |number: usize| value_at(&counts, (bin * number as u64).min(end).as_s_f64());
        bytes.extend((0..bins).map(|number| (at(number + 1) - at(number)).max(0.0).round() as u64));
    }
    Series { bin, bins, links: links.iter().map(|link| link.0).collect(), bytes }
}

/// Returns a counter at a time, interpolated between samples; outside them, the first or the last
/// value.
fn value_at(counts: &[(f64, u64)], t: f64) -> f64 {
    let after = counts.partition_point(|(at, _)| *at <= t);
    match (after.checked_sub(1).map(|before| counts[before]), counts.get(after)) {
        (Some((t0, v0)), Some((t1, v1))) => v0 as f64 + (*v1 as f64 - v0 as f64) * (t - t0) / (t1 - t0).max(1e-9),
        (Some((_, value)), None) | (None, Some(&(_, value))) => value as f64,
        (None, None) => 0.0,
    }
}

/// Returns the bin width: the configured one if it is fixed, otherwise the sampling interval,
/// doubled until at most `max_bins` bins are needed.
pub fn bin_width((bin, max_bins, is_fixed): (Time, u32, bool), sample: Time, end: Time) -> Time {
    if is_fixed {
        return bin;
    }
    let mut width = sample;
    while end.as_ps().div_ceil(width.as_ps()) > u64::from(max_bins) {
        width = width * 2;
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_interpolated_between_samples() {
        let counts = [(0.5, 100), (1.5, 300), (2.5, 300)];
        let at = |t| value_at(&counts, t);
        assert_eq!((at(0.0), at(0.5), at(1.0), at(1.5), at(2.0), at(9.0)), (100.0, 100.0, 200.0, 300.0, 300.0, 300.0));
        assert_eq!(value_at(&[], 1.0), 0.0);
    }

    #[test]
    fn bins_hold_all_bytes_sent_in_them() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=1,hosts_per_leaf=1").expect("a topology");
        let fabric = links(&topology).find(|link| !topology.is_host_link(*link)).expect("one");
        let port = interface(&topology, fabric);
        let sample = |t: f64, bytes: u64| Sample { t, ports: BTreeMap::from([(port.clone(), [0, 0, 0, bytes, 0, 0])]) };
        let samples = [sample(-0.1, 50), sample(0.9, 150), sample(2.1, 1350), sample(3.2, 1350)];
        let series = series(&topology, &samples, Time::from_s(1), Time::from_s(3));
        let row = series.links.iter().position(|link| *link == fabric.0).expect("it is covered");
        let bytes = &series.bytes[row * series.bins..][..series.bins];
        // 90 bytes until the sample at 0.9 s, then 1,000 a second until 2.1 s.
        assert_eq!(bytes, [190, 1000, 100]);
    }

    #[test]
    fn bin_width_doubles_until_bins_fit() {
        let width = |max, is_fixed| bin_width((Time::from_s(10), max, is_fixed), Time::from_s(1), Time::from_s(60));
        assert_eq!(
            (width(128, true), width(128, false), width(20, false)),
            (Time::from_s(10), Time::from_s(1), Time::from_s(4))
        );
    }
}
