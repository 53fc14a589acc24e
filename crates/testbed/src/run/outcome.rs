//! The outcome of a run, computed from measurements and counters: the same figures as the
//! simulator's.

use experiment::runner::{
    Accounting, Drops, EngineRecord, FlowEnd, FlowRecord, LinkRecord, Outcome, Scenario, ServicesRecord,
    ideal_response_times, ideal_times,
};
use net::{LinkIx, Time};

use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement};
use crate::measure::series::{Sample, bin_width, series};
use crate::network::driver::{Counters, HostCounters};
use crate::network::plan::{NetworkPlan, interface, is_switch, links};
use crate::traffic::RunWindow;

pub struct RunData<'a> {
    pub scenario: &'a Scenario<'a>,
    pub plan: &'a NetworkPlan,
    pub span: RunWindow,
    pub measurement: &'a TrafficMeasurement,
    /// Port counters over time, from before the start to after the end.
    pub samples: &'a [Sample],
    /// Counters before the start, and after the network has drained.
    pub before: &'a Counters,
    pub after: &'a Counters,
    /// Time between two samples.
    pub sample: Time,
    pub services: Option<ServicesRecord>,
}

pub fn outcome(data: &RunData<'_>) -> Outcome {
    let RunData { scenario, span, measurement, .. } = *data;
    let until = Time::from_ns(span.end_ns - span.start_ns);
    let flows = flow_records(scenario, span, measurement, until);
    let over = |flow: &FlowRecord| matches!(flow.end, FlowEnd::Completed | FlowEnd::Failed);
    let last = measurement.flows.iter().map(|flow| flow.last_ns.saturating_sub(span.start_ns)).max().unwrap_or(0);
    let end = if flows.iter().all(over) { Time::from_ns(last).min(until) } else { until };
    let links = link_records(data);
    let probes = &scenario.config.probes;
    let bin = bin_width((probes.bin, probes.max_bins, probes.fixed_bins), data.sample, end);
    let packet_hops = links.iter().map(|link| link.packets).sum();
    Outcome {
        end,
        accounting: accounting(data, &flows),
        link_series: Vec::new(),
        capture: Default::default(),
        series: if probes.series { series(scenario.topology, data.samples, bin, end) } else { Default::default() },
        flows,
        links,
        queues: Vec::new(),
        resequencing: Default::default(),
        control: Default::default(),
        plane: None,
        services: data.services.clone(),
        max_window_packets: 0,
        engine: EngineRecord { packet_hops, ..EngineRecord::default() },
    }
}

fn flow_records(
    scenario: &Scenario<'_>,
    span: RunWindow,
    measurement: &TrafficMeasurement,
    until: Time,
) -> Vec<FlowRecord> {
    let (topology, transport) = (scenario.topology, &scenario.config.transport);
    let ideals = match &scenario.config.services {
        None => ideal_times(topology, transport, scenario.flows),
        Some(services) => ideal_response_times(topology, transport, services, scenario.flows),
    };
    measurement.flows.iter().zip(ideals).map(|(flow, ideal)| flow_record(flow, ideal, span, until)).collect()
}

fn flow_record(flow: &FlowMeasurement, ideal: Time, span: RunWindow, until: Time) -> FlowRecord {
    let end = match () {
        () if flow.first_ns == 0 => FlowEnd::NotStarted,
        () if flow.is_complete => FlowEnd::Completed,
        () if flow.is_all_sent && flow.late == 0 => FlowEnd::Failed,
        () => FlowEnd::Running,
    };
    let started = Time::from_ns(flow.first_ns.saturating_sub(span.start_ns));
    let fct = match end {
        FlowEnd::Completed => Time::from_ns(flow.last_ns.saturating_sub(flow.first_ns)),
        _ => until.saturating_sub(started),
    };
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    FlowRecord {
        end,
        started,
        fct,
        ideal,
        delivered_bytes: flow.bytes,
        packets_sent: count(flow.sent),
        retransmitted: count(flow.retransmitted),
        reordered: count(flow.reordered),
        reorder_extent: count(flow.reorder_extent),
        ..FlowRecord::default()
    }
}

/// Computes sent = delivered + dropped + in flight. Loss that no counter shows is uncounted loss
/// (`uncounted`), or loss at disconnected links if the run injected faults.
fn accounting(data: &RunData<'_>, flows: &[FlowRecord]) -> Accounting {
    let RunData { measurement, before, after, plan, .. } = *data;
    let count_ends = |wanted: &dyn Fn(FlowEnd) -> bool| flows.iter().filter(|flow| wanted(flow.end)).count() as u64;
    let is_host_port = |name: &String| plan.hosts.iter().any(|host| host.interface == *name);
    let queue_drops = |of_hosts: bool| -> u64 {
        let queues = after.queues.keys().filter(|name| is_host_port(name) == of_hosts);
        queues.map(|name| new_drops(data, name)).sum()
    };
    let hosts = |count: &dyn Fn(&HostCounters) -> u64| -> u64 {
        let of = |counters: &Counters| -> u64 { counters.hosts.values().map(count).sum() };
        of(after).saturating_sub(of(before))
    };
    let backlog: u64 = after.queues.values().map(|queue| queue.backlog).sum();
    let (sent, delivered, in_flight) = if measurement.has_packets {
        let sum = |count: &dyn Fn(&FlowMeasurement) -> u64| -> u64 { measurement.flows.iter().map(count).sum() };
        let (sent, delivered, late) = (sum(&|flow| flow.sent), sum(&|flow| flow.received), sum(&|flow| flow.late));
        (sent, delivered, (late + backlog).min(sent.saturating_sub(delivered)))
    } else {
        let sent = hosts(&|host| host.sent) + queue_drops(true);
        let delivered = hosts(&|host| host.received).min(sent);
        (sent, delivered, backlog.min(sent - delivered))
    };
    let lost = sent.saturating_sub(delivered + in_flight);
    // Queues also drop the controller's frames, which this accounting excludes.
    let queue = queue_drops(false).min(lost);
    let host_queue = queue_drops(true).min(lost - queue);
    let rest = lost - queue - host_queue;
    let (link_down, uncounted) = if data.scenario.config.failures.is_empty() { (0, rest) } else { (rest, 0) };
    Accounting {
        flows_listed: flows.len() as u64,
        flows_started: count_ends(&|end| end != FlowEnd::NotStarted),
        flows_completed: count_ends(&|end| end == FlowEnd::Completed),
        flows_failed: count_ends(&|end| end == FlowEnd::Failed),
        flows_running: count_ends(&|end| end == FlowEnd::Running),
        packets_sent: sent,
        packets_delivered: delivered,
        dropped: Drops { queue, host_queue, link_down, uncounted, ..Drops::default() },
        packets_in_flight: in_flight,
        ..Accounting::default()
    }
}

/// Returns the load of each link: counted where it leaves a switch, or where it arrives at one from
/// a host.
fn link_records(data: &RunData<'_>) -> Vec<LinkRecord> {
    let topology = data.scenario.topology;
    let record = |link: LinkIx| {
        // The switch port that counts the link, and the position of its first counter.
        let is_sent = is_switch(topology, topology.link(link).from);
        let (counting, first) = if is_sent { (link, 3) } else { (link.reverse(), 0) };
        let port = interface(topology, counting);
        let difference = |position: usize| {
            let of = |counters: &Counters| counters.ports.get(&port).map_or(0, |port| port[position]);
            of(data.after).saturating_sub(of(data.before))
        };
        let (bytes, packets) = (difference(first), difference(first + 1));
        LinkRecord { bytes, packets, drops: new_drops(data, &interface(topology, link)), ..LinkRecord::default() }
    };
    links(topology).map(record).collect()
}

/// Returns the packets that a queue dropped during the run.
fn new_drops(data: &RunData<'_>, interface: &str) -> u64 {
    let of = |counters: &Counters| counters.queues.get(interface).map_or(0, |queue| queue.drops);
    of(data.after).saturating_sub(of(data.before))
}
