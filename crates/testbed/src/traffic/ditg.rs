//! D-ITG: an `ITGRecv` in every receiving host, an `ITGSend` for every flow, their logs decoded by `ITGDec`.
//!
//! It is asked for the rate of the experiment, as F0 did; what paces it is the buffer of its socket.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use experiment::world::Scenario;
use net::{HostIx, address};

use super::{DRAIN, Span, empty_folder, gap, starts, wait_for, wait_until};
use crate::beside::Beside;
use crate::clock::{now_ns, seconds};
use crate::driver::Program;
use crate::error::TestbedError;
use crate::live::Live;
use crate::plan::host_name;
use crate::seen::{FlowSeen, Seen, failed};
use crate::sockets::PORT;

/// Sends the flows of a run.
pub(super) fn send(
    live: &mut Live,
    scenario: &Scenario<'_>,
    span: Span,
    beside: &mut Beside<'_>,
) -> Result<Seen, TestbedError> {
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
    let pace = Pace::new(now_ns(), span.start_ns, flows.len())?;
    for (number, (flow, start)) in flows.iter().zip(&starts).enumerate() {
        let name = format!("send-{number}");
        let (spawn_ns, at_ns) = (pace.at(number), span.at(*start));
        let left_ms = span.end_ns.saturating_sub(at_ns) / 1_000_000;
        let gap = gap(scenario, flow, false);
        let mut argv: Vec<String> = vec!["ITGSend".into(), "-a".into(), address::host_ipv4(flow.dst).to_string()];
        // No source port of ours (`-sp`): ITGSend 2.8.1 cannot bind one where there is no IPv6.
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
    wait_until(live, span.end_ns, beside)?;
    // A sender is done when what it has left in its socket's buffer has been sent and its receiver has said so.
    let late = wait_for(live, &senders, DRAIN + Duration::from_secs(10), beside)?;
    if let Some(name) = late.first() {
        return Err(failed(name, format!("had not ended long after its time: {}", tail(&log(name)))));
    }
    let names: Vec<String> = receivers.iter().map(|host| format!("recv-{host}")).collect();
    live.ask("kill", serde_json::json!({"programs": names, "signal": 2}))?;
    wait_for(live, &names, Duration::from_secs(10), beside)?;
    if let Some((name, code)) = live.exits.iter().find(|(name, code)| name.starts_with("send-") && **code != 0) {
        return Err(failed(name, format!("ended with {code}: {}", tail(&log(name)))));
    }
    // A receiver's log has all its flows.
    let mut logs = BTreeMap::new();
    for host in &receivers {
        logs.insert(*host, decode(&folder.join(format!("recv-{host}.log")))?);
    }
    let mut seen = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let sent = decode(&folder.join(format!("send-{number}.log")))?;
        let nothing =
            || failed("ITGSend", format!("left no record of flow {number}: {}", tail(&log(&format!("send-{number}")))));
        let sent = sent.into_iter().next().ok_or_else(nothing)?;
        // Nothing may have arrived.
        let received = logs[&flow.dst.0].iter().find(|flow| flow.from == sent.from).cloned().unwrap_or_default();
        let first_ns = span.at(starts[number]);
        seen.push(FlowSeen {
            first_ns,
            last_ns: (first_ns + (received.seconds * 1e9) as u64).min(span.end_ns),
            is_all_sent: sent.bytes >= flow.size_bytes,
            is_complete: received.bytes >= flow.size_bytes,
            bytes: received.bytes.min(flow.size_bytes),
            sent: sent.packets,
            received: received.packets,
            delay_sum_ns: (received.delay_mean_s * 1e9 * received.packets as f64) as u64,
            ..FlowSeen::default()
        });
    }
    Ok(Seen { flows: seen, breaks: Vec::new(), has_packets: true })
}

/// When senders are started: one after the other while the network is still empty. Each speaks with its receiver by TCP first and
/// then waits for the beginning; among the traffic of the others that could take half a minute, and the flow would be as late.
#[derive(Clone, Copy, Debug)]
struct Pace {
    first_ns: u64,
    step_ns: u64,
}

impl Pace {
    /// Time before the beginning that the last one has for it, nanoseconds.
    const AHEAD_NS: u64 = 1_000_000_000;

    fn new(now_ns: u64, start_ns: u64, flows: usize) -> Result<Pace, TestbedError> {
        match start_ns.checked_sub(now_ns + Pace::AHEAD_NS) {
            Some(left) => Ok(Pace { first_ns: now_ns, step_ns: left / flows.max(1) as u64 }),
            None => Err(failed("ITGRecv", "was not ready when the run was to begin: the machine is too busy")),
        }
    }

    fn at(&self, number: usize) -> u64 {
        self.first_ns + self.step_ns * number as u64
    }
}

fn spawn(
    live: &mut Live,
    name: &str,
    host: &str,
    argv: Vec<String>,
    log: &Path,
    cwd: &Path,
    at_s: Option<f64>,
) -> Result<(), TestbedError> {
    live.driver.spawn(&Program { name, host: Some(host), argv, log, cwd, at_s }).map(|_| ())
}

/// What a log says of one flow.
#[derive(Clone, Debug, Default, PartialEq)]
struct Decoded {
    /// Sender's address and port.
    from: String,
    seconds: f64,
    packets: u64,
    bytes: u64,
    delay_mean_s: f64,
}

fn decode(log: &PathBuf) -> Result<Vec<Decoded>, TestbedError> {
    let output = Command::new("ITGDec").arg(log).output();
    let output = output.map_err(|cause| failed("ITGDec", format!("cannot be started: {cause}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(failed("ITGDec", format!("cannot read {}: {}", log.display(), text.lines().last().unwrap_or(""))));
    }
    Ok(parse(&text))
}

/// Takes the words of `ITGDec` apart: a block per flow, then one of totals without `From`.
fn parse(text: &str) -> Vec<Decoded> {
    let mut flows: Vec<Decoded> = Vec::new();
    let mut is_in_flow = false;
    for line in text.lines() {
        if line.contains("TOTAL RESULTS") {
            is_in_flow = false;
        }
        if let Some(from) = line.strip_prefix("From ") {
            flows.push(Decoded { from: from.trim().to_owned(), ..Decoded::default() });
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
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_started_one_by_one_before_the_beginning() {
        let pace = Pace::new(5_000_000_000, 10_000_000_000, 80).expect("there is time");
        assert_eq!((pace.at(0), pace.at(1), pace.at(79)), (5_000_000_000, 5_050_000_000, 8_950_000_000));
        assert!(Pace::new(9_500_000_000, 10_000_000_000, 80).is_err());
    }

    #[test]
    fn flows_of_a_log_are_told_apart_from_its_totals() {
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
