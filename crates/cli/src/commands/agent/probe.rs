//! Throughput to other hosts, measured with iperf3 at intervals, while reports continue.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::error::CliError;

/// Duration of a probe, s.
const SECONDS: &str = "1";

/// Results of probes, which run in a separate thread.
#[derive(Debug)]
pub(super) struct Probes {
    results: Arc<Mutex<Vec<(Ipv4Addr, u64)>>>,
}

impl Probes {
    /// Starts the probes, if there are hosts to probe.
    pub(super) fn new(hosts: &[Ipv4Addr], every: Duration) -> Result<Probes, CliError> {
        let results = Arc::new(Mutex::new(Vec::new()));
        if !hosts.is_empty() {
            let found = Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            found.map_err(|error| {
                let failure = CliError::new("--probe: iperf3 cannot be run").caused_by(error);
                failure.with_hint("install iperf3 (Debian: apt-get install iperf3), or leave --probe out")
            })?;
            let (hosts, results) = (hosts.to_owned(), results.clone());
            thread::spawn(move || probe_loop(&hosts, every, &results));
        }
        Ok(Probes { results })
    }

    /// Returns the last results, bit/s by host.
    pub(super) fn results(&self) -> Vec<(Ipv4Addr, u64)> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Probes one host after another: simultaneous probes would share the capacity.
fn probe_loop(hosts: &[Ipv4Addr], every: Duration, results: &Mutex<Vec<(Ipv4Addr, u64)>>) {
    loop {
        for host in hosts {
            let found = measure(*host);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.retain(|(other, _)| other != host);
            match found {
                Ok(rate) => results.push((*host, rate)),
                Err(reason) => eprintln!("warning: no probe to {host}: {reason}"),
            }
        }
        thread::sleep(every);
    }
}

fn measure(host: Ipv4Addr) -> Result<u64, String> {
    let host = host.to_string();
    let arguments = ["--client", &host, "--time", SECONDS, "--connect-timeout", "2000", "--json"];
    let output = Command::new("iperf3").args(arguments).output().map_err(|error| error.to_string())?;
    received(&output.stdout)
}

/// Returns the received rate in the output of iperf3.
fn received(json: &[u8]) -> Result<u64, String> {
    let printed: Value =
        serde_json::from_slice(json).map_err(|error| format!("the output of iperf3 is not JSON: {error}"))?;
    if let Some(error) = printed["error"].as_str() {
        return Err(error.to_owned());
    }
    let rate = printed["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.map(|rate| rate as u64).ok_or_else(|| "iperf3 printed no rate".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf3_prints_is_read() {
        let printed = br#"{"end": {"sum_received": {"bits_per_second": 1234.7}}}"#;
        assert_eq!(received(printed), Ok(1234));
        assert_eq!(received(br#"{"error": "unable to connect"}"#), Err("unable to connect".to_owned()));
        assert!(received(b"{").is_err() && received(b"{}").is_err());
    }
}
