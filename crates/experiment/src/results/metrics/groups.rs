//! Completion times of groups of flows: jobs, coflows, collectives.

use net::Time;
use sim::FlowEnd;
use traffic::{BusBytes, FlowList, SampledGroups, Start};

use crate::results::quantiles::{sorted, summary};
use crate::summary::GroupTimes;

use super::selection::Measured;
use super::{has_started, mean};

/// Computes the times of groups, which have numbers above 0. A group is complete if all its flows
/// are. Its time is from the first start to the last delivery. If only some of its rounds were
/// simulated, the others follow at the pace of the later half of these. The run ended at `run_end`.
pub(super) fn group_times(list: &FlowList, flows: &[(usize, Measured<'_>)], run_end: Time) -> GroupTimes {
    let mut members: Vec<(u32, usize)> = flows.iter().zip(0..).map(|((_, (flow, _)), ix)| (flow.group, ix)).collect();
    members.sort_unstable();
    let rounds = if list.sampled.is_empty() { Vec::new() } else { rounds_of(list) };
    let (mut times, mut unfinished, mut extrapolated) = (Vec::new(), 0, 0);
    let (mut ages, mut bus_gbps) = (Vec::new(), Vec::new());
    for group in members.chunk_by(|(a, _), (b, _)| a == b) {
        let records = || group.iter().map(|(_, ix)| (flows[*ix].0, flows[*ix].1.1));
        let started = records().map(|(_, record)| record).filter(|record| has_started(record));
        let Some(begin) = started.map(|record| record.started).min() else {
            unfinished += 1;
            continue;
        };
        if records().any(|(_, record)| record.end != FlowEnd::Completed) {
            unfinished += 1;
            ages.push(run_end.saturating_sub(begin).as_us_f64());
            continue;
        }
        let ends = || records().map(|(id, record)| (id, record.started.saturating_add(record.fct)));
        let end = ends().map(|(_, end)| end).max().unwrap_or_default();
        let number = group[0].0;
        let sampled = list.sampled.iter().find(|groups| (groups.first..=groups.last).contains(&number));
        let rest = sampled.map_or(0.0, |groups| rest_us(*groups, ends().map(|(id, end)| (rounds[id], end))));
        extrapolated += u64::from(sampled.is_some());
        let time_us = end.saturating_sub(begin).as_us_f64() + rest;
        times.push(time_us);
        bus_gbps.extend(bus_bytes(&list.bus_bytes, number).map(|bytes| bytes * 8e-3 / time_us));
    }
    ages.extend(&times);
    GroupTimes {
        unfinished,
        extrapolated,
        time_lower_bound_mean_us: mean(&ages),
        bus_gbps_mean: mean(&bus_gbps),
        time_us: summary(&sorted(times)),
    }
}

/// Returns the bytes for the bus bandwidth of a group, if it has one. `all` is in order of groups.
fn bus_bytes(all: &[BusBytes], group: u32) -> Option<f64> {
    let before = all.partition_point(|of| of.first <= group);
    all[..before].last().filter(|of| group <= of.last).map(|of| of.bytes)
}

/// Returns the round of each flow: the number of flows it waits for, one after the other.
fn rounds_of(list: &FlowList) -> Vec<u32> {
    let mut rounds: Vec<u32> = vec![0; list.flows.len()];
    for (id, flow) in list.flows.iter().enumerate() {
        if let Start::After { flow: before, .. } = flow.start {
            rounds[id] = rounds[before as usize] + 1;
        }
    }
    rounds
}

/// Returns the time of the rounds that were not simulated, microseconds.
fn rest_us(groups: SampledGroups, ends: impl Iterator<Item = (u32, Time)>) -> f64 {
    let mut round_ends: Vec<Time> = Vec::new();
    for (round, end) in ends {
        let round = round as usize;
        round_ends.resize(round_ends.len().max(round + 1), Time::ZERO);
        round_ends[round] = round_ends[round].max(end);
    }
    let last = round_ends.len().saturating_sub(1);
    let from = last / 2;
    if from == last {
        return 0.0;
    }
    let later = round_ends[last].saturating_sub(round_ends[from]).as_us_f64() / (last - from) as f64;
    later * f64::from(groups.rounds - groups.simulated)
}
