//! Link load over time: per tier, per link, and F0's two figures for the top of the network.

use std::collections::BTreeMap;

use net::{LinkIx, Topology};
use sim::{Outcome, Series};

use crate::results::tiers::LinkKind;
use crate::summary::{CoreBalance, CoreBin, Heat, LinkDetail, TierSeries};

struct LinkLoad<'a> {
    link: LinkIx,
    kind: LinkKind,
    bytes: &'a [u64],
}

fn loads<'a>(topology: &Topology, series: &'a Series) -> Vec<LinkLoad<'a>> {
    let rows = series.links.iter().zip(series.bytes.chunks_exact(series.bins.max(1)));
    let mut loads: Vec<LinkLoad<'a>> = rows
        .map(|(link, bytes)| {
            let link = LinkIx(*link);
            LinkLoad { link, kind: LinkKind::of(topology, link), bytes }
        })
        .collect();
    // By tier, upward before downward, then in the order of the topology.
    loads.sort_by_key(|load| (load.kind.tier, load.kind.lower, !load.kind.up, load.link));
    loads
}

fn bin_s(outcome: &Outcome, bin: usize) -> f64 {
    let width = outcome.series.bin;
    let start = width * bin as u64;
    outcome.end.saturating_sub(start).min(width).as_s_f64()
}

fn utilisation(topology: &Topology, outcome: &Outcome, load: &LinkLoad<'_>, bin: usize) -> f64 {
    let capacity_bytes = topology.link(load.link).rate.as_bps_f64() / 8.0 * bin_s(outcome, bin);
    // A packet counts in the bin of its arrival, although it may have started in the previous bin.
    if capacity_bytes > 0.0 { (load.bytes[bin] as f64 / capacity_bytes).min(1.0) } else { 0.0 }
}

/// Returns the series of the chosen links.
pub(super) fn links(topology: &Topology, outcome: &Outcome) -> Vec<LinkDetail> {
    let detail = |series: &sim::LinkSeries| {
        let link = LinkIx(series.link);
        let rate_bps = topology.link(link).rate.as_bps_f64();
        let utilisation = |(ix, bin): (usize, &sim::QueueBin)| {
            let width = outcome.end.saturating_sub(series.bin * ix as u64).min(series.bin);
            let capacity_bytes = rate_bps / 8.0 * width.as_s_f64();
            if capacity_bytes > 0.0 { (bin.carried_bytes as f64 / capacity_bytes).min(1.0) } else { 0.0 }
        };
        LinkDetail {
            name: topology.link_name(link),
            bin_us: series.bin.as_us_f64(),
            queue_max_bytes: series.bins.iter().map(|bin| bin.max_bytes).collect(),
            queue_mean_bytes: series.bins.iter().map(|bin| bin.mean_bytes).collect(),
            carried_bytes: series.bins.iter().map(|bin| bin.carried_bytes).collect(),
            utilisation: series.bins.iter().enumerate().map(utilisation).collect(),
        }
    };
    outcome.link_series.iter().map(detail).collect()
}

pub(super) fn tiers(topology: &Topology, outcome: &Outcome) -> Vec<TierSeries> {
    let loads = loads(topology, &outcome.series);
    let groups = loads.chunk_by(|a, b| a.kind == b.kind);
    groups
        .map(|group| {
            let kind = group[0].kind;
            let bins = 0..outcome.series.bins;
            let of_bin = |bin: usize| group.iter().map(move |load| utilisation(topology, outcome, load, bin));
            TierSeries {
                name: kind.name(topology),
                tier: kind.tier,
                up: kind.up,
                mean: bins.clone().map(|bin| (of_bin(bin).sum::<f64>() / group.len() as f64) as f32).collect(),
                max: bins.map(|bin| of_bin(bin).fold(0.0, f64::max) as f32).collect(),
            }
        })
        .collect()
}

pub(super) fn heat(topology: &Topology, outcome: &Outcome) -> Option<Heat> {
    let loads = loads(topology, &outcome.series);
    if loads.is_empty() || outcome.series.bins == 0 {
        return None;
    }
    let mut groups: BTreeMap<(u8, u8, bool), u16> = BTreeMap::new();
    let mut heat = Heat { bins: outcome.series.bins, ..Heat::default() };
    for load in &loads {
        let next = groups.len() as u16;
        let key = (load.kind.tier, load.kind.lower, !load.kind.up);
        heat.group.push(*groups.entry(key).or_insert(next));
        heat.links.push(topology.link_name(load.link));
        heat.values.extend((0..heat.bins).map(|bin| utilisation(topology, outcome, load, bin) as f32));
    }
    Some(heat)
}

/// Computes CLLBL (max / mean load) and bisection value (mean utilisation) of the links into and
/// out of the top tier, as means over the time bins in which they carried traffic. A core without
/// traffic has CLLBL 1 and value 0.
///
/// In networks without tiers all links between switches count, and both directions have the same
/// figure. `keep_bins` also keeps the figures of each bin.
pub fn core_balance(topology: &Topology, outcome: &Outcome, keep_bins: bool) -> CoreBalance {
    let loads = loads(topology, &outcome.series);
    let top = topology.top_tier().0;
    let tiered = loads.iter().any(|load| load.kind.tier == top && load.kind.lower < top);
    let side = |up: bool| -> Vec<&LinkLoad<'_>> {
        loads.iter().filter(|load| load.kind.tier == top && (!tiered || load.kind.up == up)).collect()
    };
    let (into, out) = (balance(topology, outcome, &side(true)), balance(topology, outcome, &side(false)));
    let mean = |bins: &[Option<(f64, f64)>]| {
        let busy: Vec<(f64, f64)> = bins.iter().copied().flatten().collect();
        let sum = busy.iter().fold((0.0, 0.0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1));
        if busy.is_empty() { IDLE } else { (sum.0 / busy.len() as f64, sum.1 / busy.len() as f64) }
    };
    let ((cllbl_rx, bb_rx), (cllbl_tx, bb_tx)) = (mean(&into), mean(&out));
    let bins = if keep_bins { core_bins(outcome, &into, &out) } else { Vec::new() };
    CoreBalance { cllbl_rx, cllbl_tx, bb_rx, bb_tx, bins }
}

const IDLE: (f64, f64) = (1.0, 0.0);

fn core_bins(outcome: &Outcome, into: &[Option<(f64, f64)>], out: &[Option<(f64, f64)>]) -> Vec<CoreBin> {
    let bin = |bin: usize| {
        let ((cllbl_rx, bb_rx), (cllbl_tx, bb_tx)) = (into[bin].unwrap_or(IDLE), out[bin].unwrap_or(IDLE));
        let until = (outcome.series.bin * (bin as u64 + 1)).min(outcome.end);
        CoreBin { until_s: until.as_s_f64(), cllbl_rx, cllbl_tx, bb_rx, bb_tx }
    };
    (0..outcome.series.bins).map(bin).collect()
}

/// Returns CLLBL and mean utilisation of each time bin; `None` for a bin without traffic.
fn balance(topology: &Topology, outcome: &Outcome, links: &[&LinkLoad<'_>]) -> Vec<Option<(f64, f64)>> {
    let of_bin = |bin: usize| {
        let bytes: Vec<u64> = links.iter().map(|load| load.bytes[bin]).collect();
        if bytes.iter().all(|bytes| *bytes == 0) {
            return None;
        }
        let used: f64 = links.iter().map(|load| utilisation(topology, outcome, load, bin)).sum();
        Some((max_over_mean(&bytes), used / links.len() as f64))
    };
    (0..outcome.series.bins).map(of_bin).collect()
}

/// Returns the CLLBL of one bin; 1 if all loads are 0.
pub(super) fn max_over_mean(loads: &[u64]) -> f64 {
    let sum: u64 = loads.iter().sum();
    let max = loads.iter().copied().max().unwrap_or(0);
    if sum == 0 { 1.0 } else { max as f64 * loads.len() as f64 / sum as f64 }
}
