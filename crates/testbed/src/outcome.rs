//! From what programs and counters say to the outcome of a run: the same figures the simulator gives.

use experiment::world::{
    Books, Drops, EngineRecord, FlowEnd, FlowRecord, LinkRecord, Outcome, Scenario, ServicesRecord,
    ideal_response_times, ideal_times,
};
use net::{LinkIx, Time, Topology};

use crate::driver::Counters;
use crate::plan::{NetworkPlan, interface, is_switch};
use crate::seen::{FlowSeen, Seen};
use crate::series::{Sample, bin_width, series};
use crate::traffic::Span;

/// Everything a run left.
pub struct Material<'a> {
    /// What was run.
    pub scenario: &'a Scenario<'a>,
    /// On which network.
    pub plan: &'a NetworkPlan,
    /// When.
    pub span: Span,
    /// What senders and receivers saw.
    pub seen: &'a Seen,
    /// Counters of ports over time, from before the beginning to after the end.
    pub samples: &'a [Sample],
    /// Counters before the beginning.
    pub before: &'a Counters,
    /// Counters when the network was empty again.
    pub after: &'a Counters,
    /// Time between two samples.
    pub sample: Time,
    /// What became of servers, where flows are requests.
    pub services: Option<ServicesRecord>,
}

/// The outcome of a run.
pub fn outcome(material: &Material<'_>) -> Outcome {
    let Material { scenario, span, seen, .. } = *material;
    let until = Time::from_ns(span.end_ns - span.start_ns);
    let flows = flow_records(scenario, span, seen, until);
    let over = |flow: &FlowRecord| matches!(flow.end, FlowEnd::Completed | FlowEnd::Failed);
    let last = seen.flows.iter().map(|flow| flow.last_ns.saturating_sub(span.start_ns)).max().unwrap_or(0);
    let end = if flows.iter().all(over) { Time::from_ns(last).min(until) } else { until };
    let links = link_records(material);
    let probes = &scenario.config.probes;
    let bin = bin_width((probes.bin, probes.max_bins, probes.fixed_bins), material.sample, end);
    let packet_hops = links.iter().map(|link| link.packets).sum();
    Outcome {
        end,
        books: books(material, &flows),
        series: if probes.series { series(scenario.topology, material.samples, bin, end) } else { Default::default() },
        flows,
        links,
        queues: Vec::new(),
        resequencing: Default::default(),
        control: Default::default(),
        plane: None,
        services: material.services.clone(),
        max_window_packets: 0,
        engine: EngineRecord { packet_hops, ..EngineRecord::default() },
    }
}

fn flow_records(scenario: &Scenario<'_>, span: Span, seen: &Seen, until: Time) -> Vec<FlowRecord> {
    let (topology, transport) = (scenario.topology, &scenario.config.transport);
    let ideals = match &scenario.config.services {
        None => ideal_times(topology, transport, scenario.flows),
        Some(services) => ideal_response_times(topology, transport, services, scenario.flows),
    };
    seen.flows.iter().zip(ideals).map(|(flow, ideal)| flow_record(flow, ideal, span, until)).collect()
}

fn flow_record(flow: &FlowSeen, ideal: Time, span: Span, until: Time) -> FlowRecord {
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
        sender_fct: Time::ZERO,
        ideal,
        delivered_bytes: flow.bytes,
        duplicate_bytes: 0,
        packets_sent: count(flow.sent),
        retransmitted: count(flow.retransmitted),
        spurious: 0,
        timeouts: 0,
        fast_retransmits: 0,
        reordered: count(flow.reordered),
        reorder_extent: count(flow.reorder_extent),
        path_changes: 0,
    }
}

/// sent = delivered + dropped + in flight: what is lost without a counter that says so was lost by the harness, or by cables that
/// were plugged out.
fn books(material: &Material<'_>, flows: &[FlowRecord]) -> Books {
    let Material { seen, before, after, plan, .. } = *material;
    let of_ends = |wanted: &dyn Fn(FlowEnd) -> bool| flows.iter().filter(|flow| wanted(flow.end)).count() as u64;
    let is_host_port = |name: &String| plan.hosts.iter().any(|host| host.interface == *name);
    let queue_drops = |of_hosts: bool| -> u64 {
        let queues = after.queues.iter().filter(|(name, _)| is_host_port(name) == of_hosts);
        let was = |name: &String| before.queues.get(name).map_or(0, |queue| queue.drops);
        queues.map(|(name, queue)| queue.drops.saturating_sub(was(name))).sum()
    };
    let hosts = |count: &dyn Fn(&crate::driver::HostCounters) -> u64| -> u64 {
        let of = |counters: &Counters| -> u64 { counters.hosts.values().map(count).sum() };
        of(after).saturating_sub(of(before))
    };
    let backlog: u64 = after.queues.values().map(|queue| queue.backlog).sum();
    let (sent, delivered, in_flight) = if seen.has_packets {
        let sum = |count: &dyn Fn(&FlowSeen) -> u64| -> u64 { seen.flows.iter().map(count).sum() };
        let (sent, delivered, late) = (sum(&|flow| flow.sent), sum(&|flow| flow.received), sum(&|flow| flow.late));
        (sent, delivered, (late + backlog).min(sent.saturating_sub(delivered)))
    } else {
        let sent = hosts(&|host| host.sent) + queue_drops(true);
        let delivered = hosts(&|host| host.received).min(sent);
        (sent, delivered, backlog.min(sent - delivered))
    };
    let lost = sent.saturating_sub(delivered + in_flight);
    // Queues also drop the controller's own frames, which are not of these books.
    let queue = queue_drops(false).min(lost);
    let host_queue = queue_drops(true).min(lost - queue);
    let rest = lost - queue - host_queue;
    let (link_down, harness) = if material.scenario.config.failures.is_empty() { (0, rest) } else { (rest, 0) };
    Books {
        flows_listed: flows.len() as u64,
        flows_started: of_ends(&|end| end != FlowEnd::NotStarted),
        flows_completed: of_ends(&|end| end == FlowEnd::Completed),
        flows_failed: of_ends(&|end| end == FlowEnd::Failed),
        flows_running: of_ends(&|end| end == FlowEnd::Running),
        packets_sent: sent,
        packets_delivered: delivered,
        packets_trimmed: 0,
        packets_to_controller: 0,
        dropped: Drops { queue, host_queue, link_down, harness, ..Drops::default() },
        packets_in_flight: in_flight,
    }
}

/// What each link carried: counted where it leaves a switch, or where it arrives at one from a host.
fn link_records(material: &Material<'_>) -> Vec<LinkRecord> {
    let topology = material.scenario.topology;
    let record = |link: u32| {
        let link = LinkIx(link);
        let (port, first) = counted_at(topology, link);
        let difference = |position: usize| {
            let of = |counters: &Counters| counters.ports.get(&port).map_or(0, |port| port[position]);
            of(material.after).saturating_sub(of(material.before))
        };
        let drops =
            |counters: &Counters| counters.queues.get(&interface(topology, link)).map_or(0, |queue| queue.drops);
        LinkRecord {
            bytes: difference(first),
            packets: difference(first + 1),
            drops: drops(material.after).saturating_sub(drops(material.before)),
            ..LinkRecord::default()
        }
    };
    (0..topology.links().len() as u32).map(record).collect()
}

/// The port of a switch whose counters tell of a link, and the first of them.
fn counted_at(topology: &Topology, link: LinkIx) -> (String, usize) {
    if is_switch(topology, topology.link(link).from) {
        (interface(topology, link), 3)
    } else {
        (interface(topology, link.reverse()), 0)
    }
}
