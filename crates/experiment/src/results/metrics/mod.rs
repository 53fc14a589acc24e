//! Computes the summary of a run, and the detail the report draws, from its outcome (mechanisms.md
//! §7).

mod groups;
mod load;
mod requests;
mod selection;

use net::{Addressing, NodeKind, Time, Topology};
use sim::{FlowEnd, FlowRecord, MessageCount, MessageCounts, Outcome, PlaneRecord};
use traffic::FlowList;

use crate::results::quantiles::{curve, sorted, summary};
use crate::results::statistics::steady_state;
use crate::results::tiers::LinkKind;
use crate::summary::{
    AddressingCost, ControlPlane, Engine, Fairness, FlowCounts, GroupTimes, Loss, Messages, Overhead, PacketCounts,
    Queue, Reordering, RunDetail, RunSummary, SizeBucket, SteadyState, TierEntries,
};

pub use load::core_balance;
use selection::{Measured, Selection};

pub const BUCKETS: [(&str, u64); 5] = [
    ("(0, 10KB]", 10_000),
    ("(10KB, 100KB]", 100_000),
    ("(100KB, 1MB]", 1_000_000),
    ("(1MB, 10MB]", 10_000_000),
    ("> 10MB", u64::MAX),
];

#[derive(Clone, Copy, Debug)]
pub struct RunContext<'a> {
    pub topology: &'a Topology,
    pub flows: &'a FlowList,
    pub balancer: &'a balance::Spec,
    pub variant: &'a str,
    pub load: Option<f64>,
    pub seed: u64,
    /// Services, if flows are requests; their groups are then request classes.
    pub services: Option<&'a sim::ServicesConfig>,
    /// Start of the earliest flow in averages.
    pub warm_up: Time,
    /// Whether flows without a group run next to collectives.
    pub has_background: bool,
    pub keep_heat: bool,
    pub keep_core_bins: bool,
}

/// Computes summary and detail of one run. Timings are left at 0.
pub fn measure(run: &RunContext<'_>, outcome: &Outcome) -> (RunSummary, RunDetail) {
    let selection = Selection::of(run.flows, outcome, run.warm_up, run.has_background);
    let completed = || selection.completed();
    let fcts = sorted(completed().map(|flow| flow.fct.as_us_f64()).collect());
    let slowdowns = sorted(completed().map(slowdown).collect());
    let sender: Vec<f64> = completed().map(|flow| flow.sender_fct.as_us_f64()).filter(|fct| *fct > 0.0).collect();
    let detail = RunDetail {
        fct_quantiles_us: curve(&fcts),
        slowdown_quantiles: curve(&slowdowns),
        bin_us: outcome.series.bin.as_us_f64(),
        tiers: load::tiers(run.topology, outcome),
        links: load::links(run.topology, outcome),
        heat: run.keep_heat.then(|| load::heat(run.topology, outcome)).flatten(),
    };
    let summary = RunSummary {
        balancer: run.balancer.label(),
        is_bound: run.balancer.entry.is_bound(),
        fidelity: String::new(),
        platform: "sim".to_owned(),
        seed: run.seed,
        load: run.load,
        variant: run.variant.to_owned(),
        parameters: run.balancer.params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        flows: flow_counts(outcome, selection.warm_up),
        packets: packet_counts(outcome),
        fct_us: summary(&fcts),
        sender_fct_mean_us: mean(&sender),
        fct_us_by_size: buckets(&selection.flows),
        slowdown: summary(&slowdowns),
        slowdown_min: slowdowns.first().copied().unwrap_or(0.0),
        slowdown_lower_bound_mean: slowdown_lower_bound(&selection.flows, outcome),
        steady: steady(&selection.flows, outcome),
        throughput_share: throughput_share(run.topology, outcome),
        groups: run
            .services
            .map_or_else(|| groups::group_times(run.flows, &selection.grouped, outcome.end), |_| GroupTimes::default()),
        fairness: fairness(&selection.flows, outcome),
        core: load::core_balance(run.topology, outcome, run.keep_core_bins),
        reordering: reordering(outcome),
        loss: loss(outcome),
        queues: queues(run.topology, outcome),
        overhead: overhead(outcome),
        engine: Engine { events: outcome.engine.events, packet_hops: outcome.engine.packet_hops, ..Engine::default() },
        end_us: outcome.end.as_us_f64(),
        requests: requests::requests(run.topology, run.flows, run.services, outcome),
        testbed: None,
    };
    (summary, detail)
}

fn slowdown(flow: &FlowRecord) -> f64 {
    flow.fct.as_ps() as f64 / flow.ideal.as_ps().max(1) as f64
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn has_started(flow: &FlowRecord) -> bool {
    flow.end != FlowEnd::NotStarted
}

/// Returns the mean slowdown, in which an unfinished flow counts with the slowdown it had reached.
fn slowdown_lower_bound(flows: &[Measured<'_>], outcome: &Outcome) -> f64 {
    let bounds: Vec<f64> = started(flows).map(|flow| slowdown_so_far(flow, outcome)).collect();
    mean(&bounds)
}

fn started<'a>(flows: &'a [Measured<'_>]) -> impl Iterator<Item = &'a FlowRecord> {
    flows.iter().map(|(_, flow)| *flow).filter(|flow| has_started(flow))
}

fn slowdown_so_far(flow: &FlowRecord, outcome: &Outcome) -> f64 {
    match flow.end {
        FlowEnd::Completed => slowdown(flow),
        _ => (age_ps(flow, outcome) / flow.ideal.as_ps().max(1) as f64).max(1.0),
    }
}

fn steady(flows: &[Measured<'_>], outcome: &Outcome) -> Option<SteadyState> {
    let mut by_start: Vec<(Time, f64)> =
        started(flows).map(|flow| (flow.started, slowdown_so_far(flow, outcome))).collect();
    // Flows that start together stay in the order of the list.
    by_start.sort_by_key(|(start, _)| *start);
    steady_state(&by_start.into_iter().map(|(_, slowdown)| slowdown).collect::<Vec<_>>())
}

/// Returns the time from the start of a flow to its end, or to the end of the run.
fn age_ps(flow: &FlowRecord, outcome: &Outcome) -> f64 {
    match flow.fct.as_ps() {
        0 => outcome.end.saturating_sub(flow.started).as_ps() as f64,
        fct => fct as f64,
    }
}

fn flow_counts(outcome: &Outcome, warm_up: u64) -> FlowCounts {
    let accounting = &outcome.accounting;
    FlowCounts {
        listed: accounting.flows_listed,
        started: accounting.flows_started,
        completed: accounting.flows_completed,
        failed: accounting.flows_failed,
        running: accounting.flows_running,
        warm_up,
    }
}

fn packet_counts(outcome: &Outcome) -> PacketCounts {
    let (accounting, drops) = (&outcome.accounting, &outcome.accounting.dropped);
    let dropped = [
        ("queue", drops.queue),
        ("host_queue", drops.host_queue),
        ("link_down", drops.link_down),
        ("random", drops.random),
        ("blackhole", drops.blackhole),
        ("no_route", drops.no_route),
        ("watchdog", drops.watchdog),
        ("loop", drops.looped),
    ];
    // Only the testbed has uncounted losses.
    let uncounted = (drops.uncounted > 0).then_some(("uncounted", drops.uncounted));
    PacketCounts {
        sent: accounting.packets_sent,
        delivered: accounting.packets_delivered,
        dropped: dropped.into_iter().chain(uncounted).map(|(cause, count)| (cause.to_owned(), count)).collect(),
        in_flight: accounting.packets_in_flight,
        to_controller: accounting.packets_to_controller,
        trimmed: accounting.packets_trimmed,
    }
}

fn buckets(flows: &[Measured<'_>]) -> Vec<SizeBucket> {
    let mut above = 0;
    let mut buckets = Vec::with_capacity(BUCKETS.len());
    for (name, max_bytes) in BUCKETS {
        let (mut fcts, mut slowdowns, mut unfinished) = (Vec::new(), Vec::new(), 0);
        for (_, record) in flows.iter().filter(|(flow, _)| flow.size_bytes > above && flow.size_bytes <= max_bytes) {
            match record.end {
                FlowEnd::Completed => {
                    fcts.push(record.fct.as_us_f64());
                    slowdowns.push(slowdown(record));
                }
                FlowEnd::Failed | FlowEnd::Running => unfinished += 1,
                FlowEnd::NotStarted => {}
            }
        }
        let (fct_us, slowdown) = (summary(&sorted(fcts)), summary(&sorted(slowdowns)));
        buckets.push(SizeBucket { bucket: name.to_owned(), max_bytes, fct_us, slowdown, unfinished });
        above = max_bytes;
    }
    buckets
}

fn throughput_share(topology: &Topology, outcome: &Outcome) -> f64 {
    let is_host = |node| topology.node(node).kind == NodeKind::Host;
    let from_hosts = topology.links().iter().filter(|link| is_host(link.from));
    let capacity_bps: f64 = from_hosts.map(|link| link.rate.as_bps_f64()).sum();
    let delivered: f64 = outcome.flows.iter().map(|flow| flow.delivered_bytes as f64).sum();
    let offered = capacity_bps * outcome.end.as_s_f64();
    if offered > 0.0 { delivered * 8.0 / offered } else { 0.0 }
}

/// Computes the fairness of started flows: the rate of each as a share of its rate in an empty
/// network.
fn fairness(flows: &[Measured<'_>], outcome: &Outcome) -> Fairness {
    let started = flows.iter().filter(|(_, record)| has_started(record));
    let shares: Vec<f64> = started
        .map(|(flow, record)| {
            let age_ps = age_ps(record, outcome);
            if age_ps == 0.0 {
                return 0.0;
            }
            let ideal_rate = flow.size_bytes as f64 / record.ideal.as_ps().max(1) as f64;
            record.delivered_bytes as f64 / age_ps / ideal_rate
        })
        .collect();
    let count = shares.len().max(1) as f64;
    Fairness {
        jain: jain(&shares),
        min: shares.iter().copied().reduce(f64::min).unwrap_or(0.0),
        mean: shares.iter().sum::<f64>() / count,
        at_least: [0.5, 0.7, 0.8, 0.9]
            .map(|bound| shares.iter().filter(|share| **share >= bound).count() as f64 / count),
    }
}

/// Returns Jain's index: (sum x)² / (n · sum x²); 0 for no values, 1 if all are 0.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) = (values.iter().sum(), values.iter().map(|x| x * x).sum());
    match (values.is_empty(), squares > 0.0) {
        (true, _) => 0.0,
        (false, false) => 1.0,
        (false, true) => sum * sum / (values.len() as f64 * squares),
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn total(outcome: &Outcome, count: impl Fn(&FlowRecord) -> u32) -> u64 {
    outcome.flows.iter().map(|flow| u64::from(count(flow))).sum()
}

fn reordering(outcome: &Outcome) -> Reordering {
    let sent = total(outcome, |flow| flow.packets_sent);
    let first_sent = sent.saturating_sub(total(outcome, |flow| flow.retransmitted));
    let held = &outcome.resequencing;
    Reordering {
        fraction: share(total(outcome, |flow| flow.reordered), first_sent),
        max_extent: outcome.flows.iter().map(|flow| flow.reorder_extent).max().unwrap_or(0),
        resequencing: held.active,
        max_held: held.max_held,
        mean_hold_us: if held.held == 0 { 0.0 } else { held.hold_time_total.as_us_f64() / held.held as f64 },
        path_changes_per_flow: {
            let completed = outcome.flows.iter().filter(|flow| flow.end == FlowEnd::Completed);
            mean(&completed.map(|flow| f64::from(flow.path_changes)).collect::<Vec<_>>())
        },
    }
}

fn loss(outcome: &Outcome) -> Loss {
    Loss {
        retransmitted_share: share(total(outcome, |flow| flow.retransmitted), total(outcome, |flow| flow.packets_sent)),
        spurious: total(outcome, |flow| flow.spurious),
        duplicate_bytes: outcome.flows.iter().map(|flow| flow.duplicate_bytes).sum(),
        timeouts: total(outcome, |flow| flow.timeouts),
        fast_retransmits: total(outcome, |flow| flow.fast_retransmits),
    }
}

fn overhead(outcome: &Outcome) -> Overhead {
    let channels = outcome.plane.map_or(MessageCount::default(), |plane| {
        let (down, up) = (plane.to_switches.total(), plane.to_controller.total());
        MessageCount { messages: down.messages + up.messages, bytes: down.bytes + up.bytes }
    });
    Overhead {
        messages: outcome.control.packets + channels.messages,
        bytes: outcome.control.bytes + channels.bytes,
        data_bytes: outcome.flows.iter().map(|flow| flow.delivered_bytes).sum(),
        control_plane: outcome.plane.as_ref().map(|record| plane(record, outcome.accounting.flows_started)),
    }
}

fn plane(record: &PlaneRecord, flows: u64) -> ControlPlane {
    let messages = |count: MessageCount| Messages { messages: count.messages, bytes: count.bytes };
    let by_kind = |counts: &MessageCounts| {
        counts.by_kind().into_iter().map(|(kind, count)| (kind.to_owned(), messages(count))).collect()
    };
    ControlPlane {
        to_switches: by_kind(&record.to_switches),
        to_controller: by_kind(&record.to_controller),
        boot: messages(record.boot),
        flow_mods_per_s_peak: record.flow_mods_per_s_peak,
        entries_max: record.entries_max,
        entries_mean: record.entries_mean,
        packet_ins_suppressed: record.packet_ins_suppressed,
        errors: record.errors,
        messages_lost: record.messages_lost,
        agent_reports: record.agent_reports,
        rate_limits_ignored: record.rate_limits_ignored,
        decisions: record.tally.decisions,
        moves: record.tally.moves,
        stale_samples: record.tally.stale_samples,
        addressing: record.addressing.map(|mode| addressing(record, mode, flows)),
    }
}

fn addressing(record: &PlaneRecord, mode: Addressing, flows: u64) -> AddressingCost {
    let tiers = (1u8..).zip(&record.entries_by_tier).filter(|(_, entries)| entries.switches > 0);
    let entries = tiers.map(|(tier, entries)| TierEntries {
        tier,
        switches: entries.switches,
        max: entries.max,
        mean: entries.sum as f64 / f64::from(entries.switches),
    });
    AddressingCost {
        mode: mode.name().to_owned(),
        entries: entries.collect(),
        arp_requests: record.arp_requests,
        arp_answered: record.tally.arp_answered,
        arp_relayed: record.tally.arp_relayed,
        arp_copies: record.tally.arp_copies,
        arp_failures: record.arp_failures,
        lookups: record.tally.lookups,
        cache_misses: record.tally.cache_misses,
        cache_hit_share: share(flows.saturating_sub(record.tally.cache_misses), flows),
        lookups_refused: record.tally.lookups_refused,
        directory_updates: record.tally.directory_updates,
    }
}

fn queues(topology: &Topology, outcome: &Outcome) -> Vec<Queue> {
    let name = |tier: u8, up: bool| {
        // Several lower tiers can share an upper tier (in a torus, hosts and racks); this names the
        // usual one.
        LinkKind { tier, lower: tier.saturating_sub(1), up }.name(topology)
    };
    let queues = outcome.queues.iter().filter(|queue| queue.count > 0);
    queues
        .map(|queue| Queue {
            port: name(queue.tier, queue.up),
            tier: queue.tier,
            up: queue.up,
            p50_bytes: queue.p50_bytes,
            p99_bytes: queue.p99_bytes,
            max_bytes: queue.max_bytes,
            above_mark_share: share(queue.marked, queue.count),
        })
        .collect()
}

#[cfg(test)]
mod tests;
