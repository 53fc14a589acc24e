//! iperf3 for TCP: a server and a client for every flow.

use std::fs;
use std::path::Path;
use std::time::Duration;

use experiment::runner::Scenario;
use net::address;
use serde_json::Value;

use super::{DRAIN, RunWindow, empty_folder, sender_rate, source_port, starts, wait_for, wait_until};
use crate::error::TestbedError;
use crate::measure::measurement::{FlowMeasurement, TrafficMeasurement, failed};
use crate::network::driver::{Program, file_error};
use crate::network::plan::{congestion, host_name};
use crate::network::running_network::RunningNetwork;
use crate::run::checks::check_congestion_control;
use crate::run::supervisor::RunSupervisor;

/// Server port of the first flow.
const FIRST_PORT: u16 = 5201;

pub(super) fn server_port(flow: usize) -> u16 {
    FIRST_PORT + (flow % 50_000) as u16
}

pub(super) fn send(
    live: &mut RunningNetwork,
    scenario: &Scenario<'_>,
    span: RunWindow,
    supervisor: &mut RunSupervisor<'_>,
) -> Result<TrafficMeasurement, TestbedError> {
    let flows = &scenario.flows.flows;
    let starts = starts(flows)?;
    let folder = empty_folder(live, "iperf3")?;
    live.exits.clear();
    let congestion = congestion(scenario.config.transport.kind).unwrap_or("cubic");
    check_congestion_control(congestion)?;
    let mut clients = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let (name, port) = (format!("server-{number}"), server_port(number).to_string());
        let argv = ["iperf3", "-s", "-1", "-J", "-p", &port].map(str::to_owned).to_vec();
        let log = folder.join(format!("{name}.json"));
        let host = host_name(flow.dst);
        live.driver.spawn(&Program { name: &name, host: Some(&host), argv, log: &log, cwd: &folder, at_s: None })?;
    }
    for (number, (flow, start)) in flows.iter().zip(&starts).enumerate() {
        let (name, port) = (format!("client-{number}"), server_port(number).to_string());
        let at_ns = span.at(*start);
        let left_s = (span.end_ns.saturating_sub(at_ns) as f64 / 1e9).ceil();
        let to = address::host_ipv4(flow.dst).to_string();
        let cport = source_port(number).to_string();
        let mut argv: Vec<String> =
            ["iperf3", "-J", "-c", &to, "-p", &port, "--cport", &cport, "-C", congestion].map(str::to_owned).to_vec();
        if is_endless(scenario, flow, left_s) {
            argv.extend(["-t".to_owned(), left_s.to_string()]);
        } else {
            argv.extend(["-n".to_owned(), flow.size_bytes.to_string()]);
        }
        let log = folder.join(format!("{name}.json"));
        let (host, at_s) = (host_name(flow.src), Some(crate::clock::seconds(at_ns)));
        live.driver.spawn(&Program { name: &name, host: Some(&host), argv, log: &log, cwd: &folder, at_s })?;
        clients.push(name);
    }
    wait_until(live, span.end_ns, supervisor)?;
    let late = wait_for(live, &clients, Duration::from_secs(5), supervisor)?;
    if !late.is_empty() {
        // The end of the run cuts these clients off. iperf3 reports its progress when it is
        // interrupted.
        live.request("kill", serde_json::json!({"programs": late, "signal": 2}))?;
        let left = wait_for(live, &late, DRAIN, supervisor)?;
        if let Some(name) = left.first() {
            return Err(failed(name, "does not end after an interrupt"));
        }
    }
    let servers: Vec<String> = (0..flows.len()).map(|number| format!("server-{number}")).collect();
    let left = wait_for(live, &servers, Duration::from_secs(3), supervisor)?;
    if !left.is_empty() {
        live.request("kill", serde_json::json!({"programs": left, "signal": 2}))?;
        wait_for(live, &left, Duration::from_secs(5), supervisor)?;
    }
    let measurements = flows.iter().enumerate().map(|(number, flow)| {
        let client = read(&folder.join(format!("client-{number}.json")))?;
        let server = read(&folder.join(format!("server-{number}.json")))?;
        measurement(number, &client, &server, flow.size_bytes, span.at(starts[number]))
    });
    Ok(TrafficMeasurement { flows: measurements.collect::<Result<_, _>>()?, gaps: Vec::new(), has_packets: false })
}

/// Returns whether a flow cannot end before the run, even alone on its sender's link.
fn is_endless(scenario: &Scenario<'_>, flow: &traffic::Flow, left_s: f64) -> bool {
    sender_rate(scenario, flow).is_some_and(|rate| flow.size_bytes as f64 * 8.0 / rate.as_bps_f64() > left_s)
}

fn read(path: &Path) -> Result<Value, TestbedError> {
    let text = fs::read_to_string(path).map_err(file_error("read", path))?;
    // An interrupted iperf3 may put a line of plain text before its object.
    let from = text.find('{').unwrap_or(0);
    serde_json::from_str(text[from..].trim()).map_err(|cause| {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        failed(&format!("iperf3 {name}"), format!("left no result ({cause}): {}", text.lines().next().unwrap_or("")))
    })
}

fn measurement(
    number: usize,
    client: &Value,
    server: &Value,
    size: u64,
    start_ns: u64,
) -> Result<FlowMeasurement, TestbedError> {
    let end = &client["end"];
    if let Some(error) = client["error"].as_str()
        && !error.contains("interrupt")
    {
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
