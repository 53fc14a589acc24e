//! iperf3 for TCP: a server and a client for every flow.

use std::fs;
use std::path::Path;
use std::time::Duration;

use experiment::runner::Scenario;
use net::address;
use serde_json::Value;

use super::{DRAIN, sender_rate, source_port, starts};
use crate::clock::seconds;
use crate::error::{Result, failed, file_error};
use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement};
use crate::network::driver::words;
use crate::network::plan::host_name;
use crate::run::active_run::ActiveRun;
use crate::run::checks::check_congestion_control;

/// Server port of the first flow.
const FIRST_PORT: u16 = 5201;

pub(super) fn server_port(flow: usize) -> u16 {
    FIRST_PORT + (flow % 50_000) as u16
}

pub(super) fn send(run: &mut ActiveRun<'_, '_>) -> Result<TrafficMeasurement> {
    let (scenario, span, flows) = (run.scenario, run.span, &run.scenario.flows.flows);
    let starts = starts(flows)?;
    let folder = run.empty_folder("iperf3")?;
    run.live.exits.clear();
    let congestion = scenario.config.transport.properties().linux.unwrap_or("cubic");
    check_congestion_control(congestion)?;
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    for (number, flow) in flows.iter().enumerate() {
        let name = format!("server-{number}");
        let command = format!("iperf3 -s -1 -J -p {}", server_port(number));
        run.spawn(&name, &host_name(flow.dst), words(&command), &folder, None)?;
        servers.push(name);
    }
    for (number, (flow, start)) in flows.iter().zip(&starts).enumerate() {
        let (name, to) = (format!("client-{number}"), address::host_ipv4(flow.dst));
        let (port, own_port) = (server_port(number), source_port(number));
        let at_ns = span.at(*start);
        let left_s = (span.end_ns.saturating_sub(at_ns) as f64 / 1e9).ceil();
        let end =
            if is_endless(scenario, flow, left_s) { format!("-t {left_s}") } else { format!("-n {}", flow.size_bytes) };
        let command = format!("iperf3 -J -c {to} -p {port} --cport {own_port} -C {congestion} {end}");
        run.spawn(&name, &host_name(flow.src), words(&command), &folder, Some(seconds(at_ns)))?;
        clients.push(name);
    }
    run.wait_until(span.end_ns)?;
    let late = run.wait_for(&clients, Duration::from_secs(5))?;
    // The end of the run cuts these clients off. iperf3 reports its progress when it is interrupted.
    if !late.is_empty()
        && let Some(name) = run.interrupt(&late, DRAIN)?.first()
    {
        return Err(failed(name, "does not end after an interrupt"));
    }
    let left = run.wait_for(&servers, Duration::from_secs(3))?;
    if !left.is_empty() {
        run.interrupt(&left, Duration::from_secs(5))?;
    }
    let measurements = flows.iter().enumerate().map(|(number, flow)| {
        let client = read(&folder.join(format!("client-{number}.txt")))?;
        let server = read(&folder.join(format!("server-{number}.txt")))?;
        measurement(number, &client, &server, flow.size_bytes, span.at(starts[number]))
    });
    Ok(TrafficMeasurement { flows: measurements.collect::<Result<_, _>>()?, gaps: Vec::new(), has_packets: false })
}

/// Returns whether a flow cannot end before the run, even alone on its sender's link.
fn is_endless(scenario: &Scenario<'_>, flow: &traffic::Flow, left_s: f64) -> bool {
    sender_rate(scenario, flow).is_some_and(|rate| flow.size_bytes as f64 * 8.0 / rate.as_bps_f64() > left_s)
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).map_err(file_error("read", path))?;
    // An interrupted iperf3 may put a line of plain text before its object.
    let from = text.find('{').unwrap_or(0);
    serde_json::from_str(text[from..].trim()).map_err(|cause| {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        failed(&format!("iperf3 {name}"), format!("left no result ({cause}): {}", text.lines().next().unwrap_or("")))
    })
}

fn measurement(number: usize, client: &Value, server: &Value, size: u64, start_ns: u64) -> Result<FlowMeasurement> {
    let end = &client["end"];
    if let Some(error) = client["error"].as_str().filter(|error| !error.contains("interrupt")) {
        return Err(failed(&format!("iperf3 of flow {number}"), error));
    }
    // The server's count is what arrived. The client repeats it, if the two could still
    // communicate.
    let of = |value: &Value, field: &str| value["end"][field]["bytes"].as_u64().unwrap_or(0);
    let bytes = of(server, "sum_received").max(of(client, "sum_received")).min(size);
    let mss = client["start"]["tcp_mss_default"].as_u64().unwrap_or(1448).max(1);
    let seconds =
        server["end"]["sum_received"]["seconds"].as_f64().or(end["sum_sent"]["seconds"].as_f64()).unwrap_or(0.0);
    Ok(FlowMeasurement {
        first_ns: start_ns,
        last_ns: start_ns + (seconds * 1e9) as u64,
        is_all_sent: bytes >= size,
        is_complete: bytes >= size,
        bytes,
        // iperf3 counts bytes; all segments but the last are full.
        sent: end["sum_sent"]["bytes"].as_u64().unwrap_or(0).div_ceil(mss),
        retransmitted: end["sum_sent"]["retransmits"].as_u64().unwrap_or(0),
        ..FlowMeasurement::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn received_bytes_count_and_error_is_reported() {
        let client = json!({"end": {"sum_sent": {"bytes": 2000, "seconds": 1.0, "retransmits": 3}, "sum_received": {"bytes": 900}}});
        let server = json!({"end": {"sum_received": {"bytes": 1000, "seconds": 1.5}}});
        let flow = measurement(0, &client, &server, 1000, 5).expect("a result");
        assert_eq!((flow.bytes, flow.is_complete, flow.retransmitted, flow.last_ns), (1000, true, 3, 1_500_000_005));
        assert!(!measurement(0, &client, &server, 1001, 5).expect("a result").is_complete);
        let refused = json!({"error": "unable to connect to server"});
        assert!(measurement(0, &refused, &server, 1000, 5).is_err());
    }
}
