//! Sending the flows of a run with one of three kinds of programs.

mod ditg;
mod iperf3;
pub mod sockets;
pub mod tcp_table;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use experiment::input::TrafficSource;
use experiment::runner::{Scenario, TransportKind, UdpRate};
use net::{Bandwidth, FiveTuple, Time, address};
use traffic::{Flow, Start};

use crate::clock::now_ns;
use crate::error::{TestbedError, not_here};
use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement};
use crate::network::driver::file_error;
use crate::network::running_network::RunningNetwork;
use crate::run::supervisor::RunSupervisor;
use crate::traffic::sockets::{DeliveryGap, Gap, PORT, SendPlan, Tally, Traffic};

/// Ethernet, IP and UDP headers, which queues count in addition to the payload.
const UDP_FRAME_BYTES: u64 = 14 + 28;

/// Maximum time to drain the queues after the senders have ended: a thousand full packets at 1
/// Mbit/s take 12 s.
const DRAIN: Duration = Duration::from_secs(20);

/// Start and end of a run, nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunWindow {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl RunWindow {
    /// Converts a time of the experiment to CLOCK_MONOTONIC.
    pub fn at(&self, time: Time) -> u64 {
        self.start_ns + time.as_ps() / 1000
    }
}

/// Returns the start times of flows.
///
/// # Errors
/// A flow waits for another one.
pub fn starts(flows: &[Flow]) -> Result<Vec<Time>, TestbedError> {
    let at = |flow: &Flow| match flow.start {
        Start::At(time) => Ok(time),
        Start::After { .. } | Start::AfterGroups { .. } => {
            Err(not_here("traffic", "emulated networks cannot send flows that wait for others; use an open pattern"))
        }
    };
    flows.iter().map(at).collect()
}

/// Returns the time until all programs are ready, nanoseconds.
pub fn lead_ns(source: TrafficSource, flows: usize) -> u64 {
    let per_flow = match source {
        TrafficSource::Sockets => 2_000_000,
        TrafficSource::Ditg | TrafficSource::Iperf3 => 40_000_000,
    };
    2_000_000_000 + per_flow * flows as u64
}

/// Sends the flows of a run and returns their measurements.
///
/// # Errors
/// A program fails, or the run was cancelled.
pub fn send(
    live: &mut RunningNetwork,
    source: TrafficSource,
    scenario: &Scenario<'_>,
    span: RunWindow,
    supervisor: &mut RunSupervisor<'_>,
) -> Result<TrafficMeasurement, TestbedError> {
    match source {
        TrafficSource::Sockets => send_by_sockets(live, scenario, span, supervisor),
        TrafficSource::Ditg => ditg::send(live, scenario, span, supervisor),
        TrafficSource::Iperf3 => iperf3::send(live, scenario, span, supervisor),
    }
}

/// Returns the pace of a UDP flow: the configured one, but at most the rate of the sender's link.
fn gap(scenario: &Scenario<'_>, flow: &Flow, is_paced: bool) -> Gap {
    let transport = &scenario.config.transport;
    let (min_per_s, max_per_s) = match transport.kind {
        TransportKind::Udp(UdpRate::UniformPackets { min_per_s, max_per_s }) => (min_per_s, max_per_s),
        TransportKind::Udp(UdpRate::Constant(rate)) => {
            let per_s = 1.0 / rate.time_for(u64::from(transport.packet_bytes())).as_s_f64();
            (per_s, per_s)
        }
        // iperf3 sends the flows of other transports.
        _ => (1.0, 1.0),
    };
    let rate = sender_rate(scenario, flow);
    let frame = u64::from(transport.mss_bytes) + UDP_FRAME_BYTES;
    let floor = rate.filter(|_| is_paced).map_or(1, |rate| rate.time_for(frame).as_ps() / 1000);
    Gap { min_per_s, max_per_s, floor_ns: floor }
}

/// Returns the rate of the sender's link.
fn sender_rate(scenario: &Scenario<'_>, flow: &Flow) -> Option<Bandwidth> {
    let topology = scenario.topology;
    topology.out_links(topology.host(flow.src)).first().map(|link| topology.link(*link).rate)
}

/// Creates an empty folder for the output of programs.
fn empty_folder(live: &RunningNetwork, name: &str) -> Result<PathBuf, TestbedError> {
    let folder = live.folder.join(name);
    // The folder may not exist. If it cannot be removed, `create_dir_all` reports the error.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(file_error("make", &folder))?;
    Ok(folder)
}

fn source_port(flow: usize) -> u16 {
    10_000 + (flow % 50_000) as u16
}

/// Returns the five-tuple of a flow; `None` if the program chooses its port.
pub fn tuple(source: TrafficSource, number: usize, flow: &Flow) -> Option<FiveTuple> {
    let (protocol, dst_port) = match source {
        TrafficSource::Sockets => (17, PORT),
        TrafficSource::Iperf3 => (6, iperf3::server_port(number)),
        TrafficSource::Ditg => return None,
    };
    let (src, dst) = (address::host_ipv4(flow.src), address::host_ipv4(flow.dst));
    Some(FiveTuple { src, dst, protocol, src_port: source_port(number), dst_port })
}

fn send_by_sockets(
    live: &mut RunningNetwork,
    scenario: &Scenario<'_>,
    span: RunWindow,
    supervisor: &mut RunSupervisor<'_>,
) -> Result<TrafficMeasurement, TestbedError> {
    let flows = &scenario.flows.flows;
    let is_shaped = live.plan.links.iter().any(|link| link.rate_ab.is_some());
    let plan = |((number, flow), start): ((usize, &Flow), Time)| SendPlan {
        flow: number as u32,
        src: flow.src.ix(),
        dst: flow.dst.ix(),
        to: address::host_ipv4(flow.dst),
        src_port: source_port(number),
        payload: scenario.config.transport.mss_bytes as usize,
        size_bytes: flow.size_bytes,
        start_ns: span.at(start),
        gap: gap(scenario, flow, is_shaped),
    };
    let plans: Vec<SendPlan> = flows.iter().enumerate().zip(starts(flows)?).map(plan).collect();
    let traffic = Traffic::prepare(&live.hosts, &plans, span.end_ns)?;
    if now_ns() > span.start_ns {
        return Err(crate::measure::measurement::failed(
            "sockets",
            "were not ready at the start of the run: the machine is too busy",
        ));
    }
    let progress = traffic.progress();
    let mut failure = None;
    let tallies = traffic.run(span.end_ns, Duration::from_millis(1500), DRAIN, &mut || {
        failure = live.poll_events(Duration::ZERO).err();
        failure.is_none() && supervisor.poll(Some(&progress))
    });
    if let Some(cause) = failure {
        return Err(cause);
    }
    if !supervisor.poll(Some(&progress)) {
        return Err(supervisor.failure());
    }
    let measurement = |(tally, plan): (&Tally, &SendPlan)| FlowMeasurement {
        first_ns: tally.first_sent_ns,
        last_ns: tally.received.last_ns,
        is_all_sent: tally.is_all_sent,
        is_complete: tally.received.packets == plan.packets(),
        // The last packet may have been padded.
        bytes: tally.received.bytes.min(plan.size_bytes),
        sent: tally.sent,
        received: tally.received.packets,
        late: tally.received.late,
        retransmitted: 0,
        reordered: tally.received.reordered,
        reorder_extent: tally.received.reorder_extent,
        delay_sum_ns: tally.received.delay_sum_ns,
        longest_gap_ns: tally.received.longest_gap_ns,
    };
    let gaps = tallies.iter().flat_map(|tally| delivery_gaps(tally, span)).collect();
    Ok(TrafficMeasurement { flows: tallies.iter().zip(&plans).map(measurement).collect(), gaps, has_packets: true })
}

/// Returns the delivery gaps of a flow. Loss after the last packet that arrived is a gap that never
/// ended.
fn delivery_gaps(tally: &Tally, span: RunWindow) -> Vec<DeliveryGap> {
    let received = &tally.received;
    let mut gaps = received.gaps.clone();
    let missing = tally.sent.saturating_sub(received.packets + received.late);
    let lost = missing.saturating_sub(gaps.iter().map(|gap| gap.lost).sum());
    if lost > 0 {
        let silence_ns = span.end_ns.saturating_sub(received.last_ns.max(tally.first_sent_ns));
        gaps.push(DeliveryGap { sent_ns: span.end_ns, silence_ns, lost, ..DeliveryGap::default() });
    }
    gaps
}

/// Waits until a time while polling the network.
fn wait_until(
    live: &mut RunningNetwork,
    until_ns: u64,
    supervisor: &mut RunSupervisor<'_>,
) -> Result<(), TestbedError> {
    while now_ns() < until_ns {
        live.poll_events(Duration::from_millis(50))?;
        if !supervisor.poll(None) {
            return Err(supervisor.failure());
        }
    }
    Ok(())
}

/// Waits until programs have ended. Returns those that are still running after `patience`.
fn wait_for(
    live: &mut RunningNetwork,
    programs: &[String],
    patience: Duration,
    supervisor: &mut RunSupervisor<'_>,
) -> Result<Vec<String>, TestbedError> {
    let until = now_ns() + patience.as_nanos() as u64;
    loop {
        live.poll_events(Duration::from_millis(50))?;
        let left: Vec<String> = programs.iter().filter(|name| !live.exits.contains_key(*name)).cloned().collect();
        if left.is_empty() || now_ns() > until {
            return Ok(left);
        }
        if !supervisor.poll(None) {
            return Err(supervisor.failure());
        }
    }
}
