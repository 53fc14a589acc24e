//! Host agents: they report flows that exceed the report threshold, and the end of those flows.
//!
//! Plain sockets count the bytes they send. For iperf3 the agent reads the socket statistics of
//! each host's kernel (`ss`), as a real agent does.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use net::FiveTuple;
use serde_json::{Value, json};

use crate::clock::now_ns;
use crate::error::{Result, failed};
use crate::run::controller::Http;
use crate::traffic::sockets::{HostAt, run_in_namespace};

/// Time between two readings of the sockets of hosts with unreported flows, nanoseconds.
const POLL_NS: u64 = 100_000_000;

/// The same for flows that may have ended. Each reading takes processor time from the switches, and
/// reports of ends are not urgent.
const POLL_ENDS_NS: u64 = 2_000_000_000;

/// Time between two requests for agent commands, nanoseconds: the commands change with the
/// balancer.
const COMMANDS_NS: u64 = 1_000_000_000;

/// A flow that its agent may have to report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportableFlow {
    pub tuple: FiveTuple,
    /// Number of the sending host.
    pub src: usize,
    pub size_bytes: u64,
    /// Start, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReportState {
    #[default]
    Unreported,
    Started,
    Ended,
}

pub struct Agents {
    http: Http,
    hosts: Vec<HostAt>,
    flows: Vec<ReportableFlow>,
    states: Vec<ReportState>,
    sent: Vec<u64>,
    /// Whether reports contain the size of a flow.
    has_sizes: bool,
    threshold: Option<u64>,
    next_commands_ns: u64,
    next_poll_ns: u64,
    next_ends_ns: u64,
}

impl Agents {
    pub fn new(http: Http, hosts: Vec<HostAt>, flows: Vec<ReportableFlow>, has_sizes: bool) -> Agents {
        let (states, sent) = (vec![ReportState::Unreported; flows.len()], vec![0; flows.len()]);
        Agents {
            http,
            hosts,
            flows,
            states,
            sent,
            has_sizes,
            threshold: None,
            next_commands_ns: 0,
            next_poll_ns: 0,
            next_ends_ns: 0,
        }
    }

    /// Reports all running flows again, because a restarted controller does not know them.
    pub fn resend_all(&mut self) {
        let started = self.states.iter_mut().filter(|state| **state == ReportState::Started);
        started.for_each(|state| *state = ReportState::Unreported);
    }

    /// Reads the flows and reports changes. `sent` holds the payload bytes sent so far of each
    /// flow, if the sender counts them. Reports that the controller does not accept are sent again
    /// later.
    pub fn poll(&mut self, sent: Option<&[AtomicU64]>) -> Result<()> {
        let now = now_ns();
        if now >= self.next_commands_ns {
            self.next_commands_ns = now + COMMANDS_NS;
            // All agents receive the same commands, so only that of the first host requests them.
            if let Some(host) = self.hosts.first()
                && let Ok(commands) = self.http.get(&format!("/v1/agents/{}/commands", host.ip))
            {
                self.threshold = commands["report_threshold_bytes"].as_u64();
            }
        }
        let Some(threshold) = self.threshold else { return Ok(()) };
        let has_ended = match sent {
            Some(sent) => {
                self.sent = sent.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect();
                self.flows.iter().zip(&self.sent).map(|(flow, sent)| *sent >= flow.size_bytes).collect()
            }
            None if now >= self.next_poll_ns => {
                self.next_poll_ns = now + POLL_NS;
                self.read_sockets(now)?
            }
            None => return Ok(()),
        };
        self.send_reports(threshold, &has_ended);
        Ok(())
    }

    /// Reads the sockets of hosts with flows that may be reported. Returns which flows have ended.
    fn read_sockets(&mut self, now: u64) -> Result<Vec<bool>> {
        let mut has_ended = vec![false; self.flows.len()];
        let is_for_ends = now >= self.next_ends_ns;
        if is_for_ends {
            self.next_ends_ns = now + POLL_ENDS_NS;
        }
        for (number, host) in self.hosts.iter().enumerate() {
            let may_report = |(flow, state): (&ReportableFlow, &ReportState)| {
                let is_open = *state == ReportState::Unreported || (is_for_ends && *state == ReportState::Started);
                flow.src == number && flow.start_ns <= now && is_open
            };
            if !self.flows.iter().zip(&self.states).any(may_report) {
                continue;
            }
            let output = run_in_namespace(*host, || Command::new("ss").args(["-tinHO"]).output())?;
            if !output.status.success() {
                return Err(failed("ss", String::from_utf8_lossy(&output.stderr)));
            }
            let sockets = sockets(&String::from_utf8_lossy(&output.stdout));
            for (place, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.src == number) {
                let tuple = &flow.tuple;
                match sockets.get(&(tuple.src_port, tuple.dst, tuple.dst_port)) {
                    Some(sent) => self.sent[place] = *sent,
                    None => has_ended[place] = self.states[place] == ReportState::Started,
                }
            }
        }
        Ok(has_ended)
    }

    fn send_reports(&mut self, threshold: u64, has_ended: &[bool]) {
        for (number, host) in self.hosts.iter().enumerate() {
            let of_host = (0..self.flows.len()).filter(|place| self.flows[*place].src == number);
            let reports = of_host.filter_map(|place| self.next_report(place, threshold, has_ended[place]));
            // A request holds some hundred reports.
            let (reports, outcomes): (Vec<Value>, Vec<(usize, ReportState)>) = reports.take(100).unzip();
            let path = format!("/v1/agents/{}/reports", host.ip);
            if !reports.is_empty() && self.http.post(&path, &json!({"reports": reports})).is_ok() {
                outcomes.into_iter().for_each(|(place, state)| self.states[place] = state);
            }
        }
    }

    /// Returns the next report of a flow and the report state after it; `None` if nothing has
    /// changed.
    fn next_report(&self, place: usize, threshold: u64, has_ended: bool) -> Option<(Value, (usize, ReportState))> {
        let (flow, sent) = (&self.flows[place], self.sent[place]);
        let (event, state) = match self.states[place] {
            ReportState::Unreported if sent > threshold && !has_ended => ("started", ReportState::Started),
            ReportState::Started if has_ended => ("ended", ReportState::Ended),
            _ => return None,
        };
        let FiveTuple { dst, protocol, src_port, dst_port, .. } = flow.tuple;
        let name = json!({"dst": dst.to_string(), "protocol": protocol, "src_port": src_port, "dst_port": dst_port});
        let mut report = json!({"event": event, "flow": name, "bytes": sent});
        if state == ReportState::Started && self.has_sizes {
            report["size"] = json!(flow.size_bytes);
        }
        Some((report, (place, state)))
    }
}

/// Returns bytes sent by local port, peer address and peer port. `ss -tinHO` prints state, queues,
/// both ends, then `name:value` pairs.
fn sockets(text: &str) -> BTreeMap<(u16, Ipv4Addr, u16), u64> {
    let end = |word: &str| -> Option<(Ipv4Addr, u16)> {
        let (address, port) = word.rsplit_once(':')?;
        Some((address.parse().ok()?, port.parse().ok()?))
    };
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ((_, own), (peer, port)) = (end(words.get(3)?)?, end(words.get(4)?)?);
        let sent = words.iter().find_map(|word| word.strip_prefix("bytes_sent:")).unwrap_or("0");
        Some(((own, peer, port), sent.parse().ok()?))
    };
    text.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sent_are_parsed_from_ss() {
        let text = "ESTAB 0 163768 10.0.0.1:10003 10.0.0.9:5204 cubic wscale:7,7 rto:204 bytes_sent:181616 bytes_acked:2 lastsnd:1\n\
                    ESTAB 0 0 10.0.0.1:53220 10.0.0.9:5204 cubic wscale:7,7 rto:204\nLISTEN 0 10 *:5201 *:* cubic\n";
        let found = sockets(text);
        let peer = Ipv4Addr::new(10, 0, 0, 9);
        assert_eq!(found.get(&(10_003, peer, 5204)), Some(&181_616));
        assert_eq!((found.get(&(53_220, peer, 5204)), found.len()), (Some(&0), 2));
    }
}
