//! Sending the flows of a run, from sockets of this process or with programs.

pub mod datagrams;
mod ditg;
mod iperf3;
pub mod namespace;
mod streams;
pub mod tcp_info;

use std::time::Duration;

use experiment::input::TrafficSource;
use experiment::runner::{Scenario, TransportKind, UdpRate};
use net::{Bandwidth, FiveTuple, Time, address};
use traffic::Flow;

use crate::clock::now_ns;
use crate::error::{Result, failed, not_here};
use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement};
use crate::run::active_run::ActiveRun;
use crate::traffic::datagrams::{DeliveryGap, Gap, SendPlan, Tally, Traffic};

/// Port of the receivers of this process.
pub const PORT: u16 = 7000;

/// Ethernet, IP and UDP headers, which queues count in addition to the payload.
const UDP_FRAME_BYTES: u64 = 14 + 28;

/// Maximum time to drain queues after sending: a thousand full packets at 1 Mbit/s take 12 s.
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

    /// Returns an error if the run has begun before its clients are ready.
    pub(crate) fn check_readiness(&self, clients: &str) -> Result<()> {
        if now_ns() > self.start_ns {
            return Err(failed(clients, "were not ready at the start of the run: the machine is too busy"));
        }
        Ok(())
    }
}

/// Returns the start times of flows; a flow that waits for another one is an error.
pub fn starts(flows: &[Flow]) -> Result<Vec<Time>> {
    let reason = "emulated networks cannot send flows that wait for others; use an open pattern";
    flows.iter().map(|flow| flow.start.time().ok_or_else(|| not_here("traffic", reason))).collect()
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
pub fn send(run: &mut ActiveRun<'_, '_>, source: TrafficSource) -> Result<TrafficMeasurement> {
    match source {
        TrafficSource::Sockets if is_udp(run.scenario) => send_datagrams(run),
        TrafficSource::Sockets => streams::send(run),
        TrafficSource::Ditg => ditg::send(run),
        TrafficSource::Iperf3 => iperf3::send(run),
    }
}

fn is_udp(scenario: &Scenario<'_>) -> bool {
    matches!(scenario.config.transport.kind, TransportKind::Udp(_))
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
        // TCP has no pace.
        _ => (1.0, 1.0),
    };
    let rate = sender_rate(scenario, flow);
    let frame = u64::from(transport.mss_bytes) + UDP_FRAME_BYTES;
    let floor = rate.filter(|_| is_paced).map_or(1, |rate| rate.time_for(frame).as_ps() / 1000);
    Gap { min_per_s, max_per_s, floor_ns: floor }
}

fn sender_rate(scenario: &Scenario<'_>, flow: &Flow) -> Option<Bandwidth> {
    let topology = scenario.topology;
    topology.out_links(topology.host(flow.src)).first().map(|link| topology.link(*link).rate)
}

fn source_port(flow: usize) -> u16 {
    10_000 + (flow % 50_000) as u16
}

/// Returns the five-tuple of a flow; `None` if the program chooses its port.
pub fn tuple(scenario: &Scenario<'_>, source: TrafficSource, number: usize, flow: &Flow) -> Option<FiveTuple> {
    let (protocol, dst_port) = match source {
        TrafficSource::Sockets => (if is_udp(scenario) { 17 } else { 6 }, PORT),
        TrafficSource::Iperf3 => (6, iperf3::server_port(number)),
        TrafficSource::Ditg => return None,
    };
    let (src, dst) = (address::host_ipv4(flow.src), address::host_ipv4(flow.dst));
    Some(FiveTuple { src, dst, protocol, src_port: source_port(number), dst_port })
}

fn send_datagrams(run: &mut ActiveRun<'_, '_>) -> Result<TrafficMeasurement> {
    let (scenario, span, flows) = (run.scenario, run.span, &run.scenario.flows.flows);
    let is_shaped = run.live.plan.links.iter().any(|link| link.rate_ab.is_some());
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
    let traffic = Traffic::prepare(&run.live.hosts, &plans, span.end_ns)?;
    span.check_readiness("sockets")?;
    let progress = traffic.progress();
    let mut polled = Ok(());
    let tallies = traffic.run(span.end_ns, Duration::from_millis(1500), DRAIN, &mut || {
        polled = run.poll_with(Duration::ZERO, Some(&progress));
        polled.is_ok()
    });
    polled.and_then(|()| run.poll_with(Duration::ZERO, Some(&progress)))?;
    let measurement = |(Tally { sent, received }, plan): (&Tally, &SendPlan)| FlowMeasurement {
        first_ns: sent.first_ns,
        last_ns: received.last_ns,
        is_all_sent: sent.is_all,
        is_complete: received.packets == plan.packets(),
        // The last packet may have been padded.
        bytes: received.bytes.min(plan.size_bytes),
        sent: sent.packets,
        received: received.packets,
        late: received.late,
        retransmitted: 0,
        reordered: received.reordered,
        reorder_extent: received.reorder_extent,
        delay_sum_ns: received.delay_sum_ns,
        longest_gap_ns: received.longest_gap_ns,
    };
    let gaps = tallies.iter().flat_map(|tally| delivery_gaps(tally, span)).collect();
    Ok(TrafficMeasurement { flows: tallies.iter().zip(&plans).map(measurement).collect(), gaps, has_packets: true })
}

/// Returns the delivery gaps of a flow. Loss after the last packet that arrived is a gap that never
/// ended.
fn delivery_gaps(Tally { sent, received }: &Tally, span: RunWindow) -> Vec<DeliveryGap> {
    let mut gaps = received.gaps.clone();
    let missing = sent.packets.saturating_sub(received.packets + received.late);
    let lost = missing.saturating_sub(gaps.iter().map(|gap| gap.lost).sum());
    if lost > 0 {
        let silence_ns = span.end_ns.saturating_sub(received.last_ns.max(sent.first_ns));
        gaps.push(DeliveryGap { sent_ns: span.end_ns, silence_ns, lost, ..DeliveryGap::default() });
    }
    gaps
}
