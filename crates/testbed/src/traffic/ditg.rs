//! D-ITG: an `ITGRecv` in every receiving host, an `ITGSend` for every flow, and `ITGDec` to decode
//! their logs.
//!
//! D-ITG is started with the rate of the experiment, as in F0; its actual pace depends on the
//! socket buffer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use experiment::runner::Scenario;
use net::{HostIx, address};

use super::{DRAIN, RunWindow, empty_folder, gap, starts, wait_for, wait_until};
use crate::clock::{now_ns, seconds};
use crate::error::TestbedError;
use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement, failed};
use crate::network::driver::Program;
use crate::network::plan::host_name;
use crate::network::running_network::RunningNetwork;
use crate::run::supervisor::RunSupervisor;
use crate::traffic::sockets::PORT;

pub(super) fn send(
    live: &mut RunningNetwork,
    scenario: &Scenario<'_>,
    span: RunWindow,
    supervisor: &mut RunSupervisor<'_>,
) -> Result<TrafficMeasurement, TestbedError> {
    let flows = &scenario.flows.flows;
    let starts = starts(flows)?;
    let folder = empty_folder(live, "d-itg")?;
    live.exits.clear();
    let receivers: BTreeSet<u32> = flows.iter().map(|flow| flow.dst.0).collect();
    let log = |name: &str| folder.join(format!("{name}.txt"));
    for host in &receivers {
        let name = format!("recv-{host}");
        let argv = ["ITGRecv".to_owned(), "-l".to_owned(), format!("{name}.log")].to_vec();
        let host = host_name(HostIx(*host));
        spawn(live, &name, &host, argv, &log(&name), &folder, None)?;
    }
    let mut senders = Vec::new();
    let schedule = StartSchedule::new(now_ns(), span.start_ns, flows.len())?;
    for (number, (flow, start)) in flows.iter().zip(&starts).enumerate() {
        let name = format!("send-{number}");
        let (spawn_ns, at_ns) = (schedule.at(number), span.at(*start));
        let left_ms = span.end_ns.saturating_sub(at_ns) / 1_000_000;
        let gap = gap(scenario, flow, false);
        let mut argv: Vec<String> = vec!["ITGSend".into(), "-a".into(), address::host_ipv4(flow.dst).to_string()];
        // Without IPv6, ITGSend 2.8.1 cannot bind a source port (`-sp`), so none is given.
        argv.extend(["-rp".into(), PORT.to_string()]);
        argv.extend(["-T".into(), "UDP".into(), "-c".into(), scenario.config.transport.mss_bytes.to_string()]);
        if gap.min_per_s < gap.max_per_s {
            argv.extend(["-U".into(), gap.min_per_s.to_string(), gap.max_per_s.to_string()]);
        } else {
            argv.extend(["-C".into(), gap.min_per_s.to_string()]);
        }
        let wait_ms = (at_ns - spawn_ns) / 1_000_000;
        argv.extend(["-d".into(), wait_ms.to_string(), "-t".into(), left_ms.to_string()]);
        argv.extend(["-l".into(), format!("{name}.log")]);
        let host = host_name(flow.src);
        spawn(live, &name, &host, argv, &log(&name), &folder, Some(seconds(spawn_ns)))?;
        senders.push(name);
    }
    wait_until(live, span.end_ns, supervisor)?;
    // A sender ends after its socket buffer is sent and its receiver has confirmed.
    let late = wait_for(live, &senders, DRAIN + Duration::from_secs(10), supervisor)?;
    if let Some(name) = late.first() {
        return Err(failed(name, format!("did not end in time: {}", tail(&log(name)))));
    }
    let names: Vec<String> = receivers.iter().map(|host| format!("recv-{host}")).collect();
    live.request("kill", serde_json::json!({"programs": names, "signal": 2}))?;
    wait_for(live, &names, Duration::from_secs(10), supervisor)?;
    if let Some((name, code)) = live.exits.iter().find(|(name, code)| name.starts_with("send-") && **code != 0) {
        return Err(failed(name, format!("ended with {code}: {}", tail(&log(name)))));
    }
    // The log of a receiver has all its flows.
    let mut logs = BTreeMap::new();
    for host in &receivers {
        logs.insert(*host, decode(&folder.join(format!("recv-{host}.log")))?);
    }
    let mut measurements = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let sent = decode(&folder.join(format!("send-{number}.log")))?;
        let nothing =
            || failed("ITGSend", format!("left no record of flow {number}: {}", tail(&log(&format!("send-{number}")))));
        let sent = sent.into_iter().next().ok_or_else(nothing)?;
        // Perhaps nothing arrived.
        let received = logs[&flow.dst.0].iter().find(|flow| flow.from == sent.from).cloned().unwrap_or_default();
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

    fn new(now_ns: u64, start_ns: u64, flows: usize) -> Result<StartSchedule, TestbedError> {
        match start_ns.checked_sub(now_ns + StartSchedule::AHEAD_NS) {
            Some(left) => Ok(StartSchedule { first_ns: now_ns, step_ns: left / flows.max(1) as u64 }),
            None => Err(failed("ITGRecv", "was not ready at the start of the run: the machine is too busy")),
        }
    }

    fn at(&self, number: usize) -> u64 {
        self.first_ns + self.step_ns * number as u64
    }
}

fn spawn(
    live: &mut RunningNetwork,
    name: &str,
    host: &str,
    argv: Vec<String>,
    log: &Path,
    cwd: &Path,
    at_s: Option<f64>,
) -> Result<(), TestbedError> {
    live.driver.spawn(&Program { name, host: Some(host), argv, log, cwd, at_s }).map(|_| ())
}

/// The log entry of one flow.
#[derive(Clone, Debug, Default, PartialEq)]
struct LogEntry {
    from: String,
    seconds: f64,
    packets: u64,
    bytes: u64,
    delay_mean_s: f64,
}

fn decode(log: &PathBuf) -> Result<Vec<LogEntry>, TestbedError> {
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

fn tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed no output").trim().to_owned()
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
