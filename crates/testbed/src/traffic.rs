//! Sending the flows of a run by one of three kinds of programs.

mod ditg;
mod iperf3;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use experiment::file::TrafficSource;
use experiment::world::{Scenario, TransportKind, UdpRate};
use net::{Bandwidth, FiveTuple, Time, address};
use traffic::{Flow, Start};

use crate::beside::Beside;
use crate::clock::now_ns;
use crate::driver::file_error;
use crate::error::{TestbedError, not_here};
use crate::live::Live;
use crate::seen::{FlowSeen, Seen};
use crate::sockets::{Break, Gap, PORT, SendPlan, Tally, Traffic};

/// Ethernet header, IP and UDP headers: what queues count beside the payload.
const UDP_FRAME_BYTES: u64 = 14 + 28;

/// Longest wait for packets in queues after the senders have ended: a thousand full packets at 1 Mbit/s take 12 s.
const DRAIN: Duration = Duration::from_secs(20);

/// When a run takes place, nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Time 0 of the experiment.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

impl Span {
    /// A time of the experiment.
    pub fn at(&self, time: Time) -> u64 {
        self.start_ns + time.as_ps() / 1000
    }
}

/// Whether flows are of a kind that can be sent here: every one begins at a time of its own.
///
/// # Errors
/// One waits for another.
pub fn starts(flows: &[Flow]) -> Result<Vec<Time>, TestbedError> {
    let at = |flow: &Flow| match flow.start {
        Start::At(time) => Ok(time),
        Start::After { .. } | Start::AfterGroups { .. } => Err(not_here(
            "traffic",
            "flows that wait for others are not sent on emulated networks; use an open pattern",
        )),
    };
    flows.iter().map(at).collect()
}

/// How long it takes until all programs wait for the beginning, nanoseconds.
pub fn lead_ns(source: TrafficSource, flows: usize) -> u64 {
    let per_flow = match source {
        TrafficSource::Sockets => 2_000_000,
        TrafficSource::Ditg | TrafficSource::Iperf3 => 40_000_000,
    };
    2_000_000_000 + per_flow * flows as u64
}

/// Sends the flows of a run and answers what became of them.
///
/// # Errors
/// A program fails, or the run is to be abandoned.
pub fn send(
    live: &mut Live,
    source: TrafficSource,
    scenario: &Scenario<'_>,
    span: Span,
    beside: &mut Beside<'_>,
) -> Result<Seen, TestbedError> {
    match source {
        TrafficSource::Sockets => by_sockets(live, scenario, span, beside),
        TrafficSource::Ditg => ditg::send(live, scenario, span, beside),
        TrafficSource::Iperf3 => iperf3::send(live, scenario, span, beside),
    }
}

/// Pace of a UDP flow: as asked for, but no faster than the sender's link.
fn gap(scenario: &Scenario<'_>, flow: &Flow, is_paced: bool) -> Gap {
    let transport = &scenario.config.transport;
    let (min_per_s, max_per_s) = match transport.kind {
        TransportKind::Udp(UdpRate::UniformPackets { min_per_s, max_per_s }) => (min_per_s, max_per_s),
        TransportKind::Udp(UdpRate::Constant(rate)) => {
            let per_s = 1.0 / rate.time_for(u64::from(transport.packet_bytes())).as_s_f64();
            (per_s, per_s)
        }
        // Other transports are sent by iperf3.
        _ => (1.0, 1.0),
    };
    let rate = sender_rate(scenario, flow);
    let frame = u64::from(transport.mss_bytes) + UDP_FRAME_BYTES;
    let floor = rate.filter(|_| is_paced).map_or(1, |rate| rate.time_for(frame).as_ps() / 1000);
    Gap { min_per_s, max_per_s, floor_ns: floor }
}

/// Rate of the link of a flow's sender.
fn sender_rate(scenario: &Scenario<'_>, flow: &Flow) -> Option<Bandwidth> {
    let topology = scenario.topology;
    topology.out_links(topology.host(flow.src)).first().map(|link| topology.link(*link).rate)
}

/// An empty folder for what programs of a run leave.
fn empty_folder(live: &Live, name: &str) -> Result<PathBuf, TestbedError> {
    let folder = live.folder.join(name);
    // There may be none yet; if there is one that cannot be removed, making it says so.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(file_error("make", &folder))?;
    Ok(folder)
}

/// Port a flow is sent from.
fn source_port(flow: usize) -> u16 {
    10_000 + (flow % 50_000) as u16
}

/// The name of a flow on the wire; `None` where the program chooses its port itself.
pub fn tuple(source: TrafficSource, number: usize, flow: &Flow) -> Option<FiveTuple> {
    let (protocol, dst_port) = match source {
        TrafficSource::Sockets => (17, PORT),
        TrafficSource::Iperf3 => (6, iperf3::server_port(number)),
        TrafficSource::Ditg => return None,
    };
    let (src, dst) = (address::host_ipv4(flow.src), address::host_ipv4(flow.dst));
    Some(FiveTuple { src, dst, protocol, src_port: source_port(number), dst_port })
}

fn by_sockets(
    live: &mut Live,
    scenario: &Scenario<'_>,
    span: Span,
    beside: &mut Beside<'_>,
) -> Result<Seen, TestbedError> {
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
        return Err(crate::seen::failed(
            "sockets",
            "were not ready when the run was to begin: the machine is too busy",
        ));
    }
    let progress = traffic.progress();
    let mut gone = None;
    let tallies = traffic.run(span.end_ns, Duration::from_millis(1500), DRAIN, &mut || {
        gone = live.listen(Duration::ZERO).err();
        gone.is_none() && beside.go_on(Some(&progress))
    });
    if let Some(cause) = gone {
        return Err(cause);
    }
    if !beside.go_on(Some(&progress)) {
        return Err(beside.cause());
    }
    let seen = |(tally, plan): (&Tally, &SendPlan)| FlowSeen {
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
    let breaks = tallies.iter().flat_map(|tally| breaks(tally, span)).collect();
    Ok(Seen { flows: tallies.iter().zip(&plans).map(seen).collect(), breaks, has_packets: true })
}

/// Where a flow lost packets or fell silent. What was lost after the last packet that arrived is a break too, which never ended.
fn breaks(tally: &Tally, span: Span) -> Vec<Break> {
    let received = &tally.received;
    let mut breaks = received.breaks.clone();
    let missing = tally.sent.saturating_sub(received.packets + received.late);
    let lost = missing.saturating_sub(breaks.iter().map(|one| one.lost).sum());
    if lost > 0 {
        let silence_ns = span.end_ns.saturating_sub(received.last_ns.max(tally.first_sent_ns));
        breaks.push(Break { sent_ns: span.end_ns, silence_ns, lost, ..Break::default() });
    }
    breaks
}

/// Waits for a time, listening to the network.
fn wait_until(live: &mut Live, until_ns: u64, beside: &mut Beside<'_>) -> Result<(), TestbedError> {
    while now_ns() < until_ns {
        live.listen(Duration::from_millis(50))?;
        if !beside.go_on(None) {
            return Err(beside.cause());
        }
    }
    Ok(())
}

/// Waits until programs have ended; those that have not after `patience` are named.
fn wait_for(
    live: &mut Live,
    programs: &[String],
    patience: Duration,
    beside: &mut Beside<'_>,
) -> Result<Vec<String>, TestbedError> {
    let until = now_ns() + patience.as_nanos() as u64;
    loop {
        live.listen(Duration::from_millis(50))?;
        let left: Vec<String> = programs.iter().filter(|name| !live.exits.contains_key(*name)).cloned().collect();
        if left.is_empty() || now_ns() > until {
            return Ok(left);
        }
        if !beside.go_on(None) {
            return Err(beside.cause());
        }
    }
}
