//! D-ITG: an `ITGRecv` in every receiving host, an `ITGSend` for every flow, and `ITGDec` to decode
//! their logs.
//!
//! D-ITG is started with the rate of the experiment, as in F0; its actual pace depends on the
//! socket buffer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use experiment::runner::Scenario;
use net::{HostIx, address};
use traffic::Flow;

use super::{DRAIN, gap, starts};
use crate::clock::{now_ns, seconds};
use crate::error::{Result, failed, log_tail};
use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement};
use crate::network::driver::words;
use crate::network::plan::host_name;
use crate::run::active_run::ActiveRun;
use crate::traffic::PORT;

pub(super) fn send(run: &mut ActiveRun<'_, '_>) -> Result<TrafficMeasurement> {
    let (scenario, span, flows) = (run.scenario, run.span, &run.scenario.flows.flows);
    let starts = starts(flows)?;
    let folder = run.empty_folder("d-itg")?;
    run.live.exits.clear();
    let receivers: BTreeSet<HostIx> = flows.iter().map(|flow| flow.dst).collect();
    let tail = |name: &str| log_tail(&folder.join(format!("{name}.txt")), 1);
    for host in &receivers {
        let name = format!("recv-{}", host.0);
        run.spawn(&name, &host_name(*host), words(&format!("ITGRecv -l {name}.log")), &folder, None)?;
    }
    let mut senders = Vec::new();
    let schedule = StartSchedule::new(now_ns(), span.start_ns, flows.len())?;
    for (number, (flow, start)) in flows.iter().zip(&starts).enumerate() {
        let name = format!("send-{number}");
        let (spawn_ns, at_ns) = (schedule.at(number), span.at(*start));
        let argv = sender_command(scenario, flow, &name, (at_ns - spawn_ns, span.end_ns.saturating_sub(at_ns)));
        run.spawn(&name, &host_name(flow.src), argv, &folder, Some(seconds(spawn_ns)))?;
        senders.push(name);
    }
    run.wait_until(span.end_ns)?;
    // A sender ends after its socket buffer is sent and its receiver has confirmed.
    let late = run.wait_for(&senders, DRAIN + Duration::from_secs(10))?;
    if let Some(name) = late.first() {
        return Err(failed(name, format!("did not end in time: {}", tail(name))));
    }
    let names: Vec<String> = receivers.iter().map(|host| format!("recv-{}", host.0)).collect();
    run.interrupt(&names, Duration::from_secs(10))?;
    if let Some((name, code)) = run.live.exits.iter().find(|(name, code)| name.starts_with("send-") && **code != 0) {
        return Err(failed(name, format!("ended with {code}: {}", tail(name))));
    }
    // The log of a receiver has all its flows.
    let mut logs = BTreeMap::new();
    for host in &receivers {
        logs.insert(*host, decode(&folder.join(format!("recv-{}.log", host.0)))?);
    }
    let mut measurements = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let sent = decode(&folder.join(format!("send-{number}.log")))?;
        let nothing = || format!("left no record of flow {number}: {}", tail(&format!("send-{number}")));
        let sent = sent.into_iter().next().ok_or_else(|| failed("ITGSend", nothing()))?;
        // Perhaps nothing arrived.
        let received = logs[&flow.dst].iter().find(|flow| flow.from == sent.from).cloned().unwrap_or_default();
        let first_ns = span.at(starts[number]);
        measurements.push(FlowMeasurement {
            first_ns,
            last_ns: (first_ns + (received.seconds * 1e9) as u64).min(span.end_ns),
            is_all_sent: sent.bytes >= flow.size_bytes,
            is_complete: received.bytes >= flow.size_bytes,
            bytes: received.bytes.min(flow.size_bytes),
            sent: sent.packets,
            received: received.packets,
            delay_sum_ns: (received.delay_mean_s * 1e9 * received.packets as f64) as u64,
            ..FlowMeasurement::default()
        });
    }
    Ok(TrafficMeasurement { flows: measurements, gaps: Vec::new(), has_packets: true })
}

/// Start times of senders: one after another, while the network is still empty. Each sender first
/// talks to its receiver by TCP and then waits for the start. Among the traffic of other flows that
/// could take half a minute and delay the flow by as much.
#[derive(Clone, Copy, Debug)]
struct StartSchedule {
    first_ns: u64,
    step_ns: u64,
}

impl StartSchedule {
    /// Time between the last start of a sender and the start of the run, nanoseconds.
    const AHEAD_NS: u64 = 1_000_000_000;

    fn new(now_ns: u64, start_ns: u64, flows: usize) -> Result<StartSchedule> {
        match start_ns.checked_sub(now_ns + StartSchedule::AHEAD_NS) {
            Some(left) => Ok(StartSchedule { first_ns: now_ns, step_ns: left / flows.max(1) as u64 }),
            None => Err(failed("ITGRecv", "was not ready at the start of the run: the machine is too busy")),
        }
    }

    fn at(&self, number: usize) -> u64 {
        self.first_ns + self.step_ns * number as u64
    }
}

/// Returns the command of a sender that waits, and then sends for a time (nanoseconds).
fn sender_command(scenario: &Scenario<'_>, flow: &Flow, name: &str, (wait_ns, send_ns): (u64, u64)) -> Vec<String> {
    let (gap, to) = (gap(scenario, flow, false), address::host_ipv4(flow.dst));
    let rate = if gap.min_per_s < gap.max_per_s {
        format!("-U {} {}", gap.min_per_s, gap.max_per_s)
    } else {
        format!("-C {}", gap.min_per_s)
    };
    let (payload, wait_ms, send_ms) = (scenario.config.transport.mss_bytes, wait_ns / 1_000_000, send_ns / 1_000_000);
    // Without IPv6, ITGSend 2.8.1 cannot bind a source port (`-sp`), so none is given.
    words(&format!("ITGSend -a {to} -rp {PORT} -T UDP -c {payload} {rate} -d {wait_ms} -t {send_ms} -l {name}.log"))
}

#[derive(Clone, Debug, Default, PartialEq)]
struct LogEntry {
    from: String,
    seconds: f64,
    packets: u64,
    bytes: u64,
    delay_mean_s: f64,
}

fn decode(log: &Path) -> Result<Vec<LogEntry>> {
    let output = Command::new("ITGDec").arg(log).output();
    let output = output.map_err(|cause| failed("ITGDec", format!("cannot be started: {cause}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(failed("ITGDec", format!("cannot read {}: {}", log.display(), text.lines().last().unwrap_or(""))));
    }
    Ok(parse(&text))
}

/// Parses the output of `ITGDec`: a block per flow, then a block of totals without `From`.
fn parse(text: &str) -> Vec<LogEntry> {
    let mut flows: Vec<LogEntry> = Vec::new();
    let mut is_in_flow = false;
    for line in text.lines() {
        if line.contains("TOTAL RESULTS") {
            is_in_flow = false;
        }
        if let Some(from) = line.strip_prefix("From ") {
            flows.push(LogEntry { from: from.trim().to_owned(), ..LogEntry::default() });
            is_in_flow = true;
        }
        let (Some(flow), true, Some((name, value))) = (flows.last_mut(), is_in_flow, line.split_once('=')) else {
            continue;
        };
        let number: f64 = value.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
        match name.trim() {
            "Total time" => flow.seconds = number,
            "Total packets" => flow.packets = number as u64,
            "Bytes received" => flow.bytes = number as u64,
            "Average delay" => flow.delay_mean_s = number,
            _ => {}
        }
    }
    flows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_start_one_by_one_before_run() {
        let schedule = StartSchedule::new(5_000_000_000, 10_000_000_000, 80).expect("there is time");
        assert_eq!((schedule.at(0), schedule.at(1), schedule.at(79)), (5_000_000_000, 5_050_000_000, 8_950_000_000));
        assert!(StartSchedule::new(9_500_000_000, 10_000_000_000, 80).is_err());
    }

    #[test]
    fn log_flows_are_parsed_without_totals() {
        let flow = |number: u32, packets: u32| {
            format!(
                "----\nFlow number: {number}\nFrom 10.0.0.{number}:10001\nTo    10.0.0.9:7000\n----\nTotal time = 9.5 s\n\
                 Total packets = {packets}\nAverage delay = 0.002000 s\nBytes received = {}\nPackets dropped = 0 (0.00 %)\n",
                packets * 1472
            )
        };
        let text = format!("{}{}\n**** TOTAL RESULTS ****\nTotal packets = 999\n", flow(1, 100), flow(2, 50));
        let flows = parse(&text);
        assert_eq!(flows.len(), 2);
        assert_eq!((flows[1].from.as_str(), flows[1].packets, flows[1].bytes), ("10.0.0.2:10001", 50, 73_600));
        assert_eq!((flows[0].seconds, flows[0].delay_mean_s), (9.5, 0.002));
    }
}
