//! Host agents: they report flows that exceed the report threshold, and the end of those flows.
//!
//! Sockets of this process count the bytes they send. For iperf3 the agent reads the counters of
//! each connection from the host's kernel, as a real agent does.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering};

use net::FiveTuple;
use serde_json::{Value, json};

use crate::clock::now_ns;
use crate::error::{Result, failed};
use crate::run::controller::Http;
use crate::traffic::namespace::HostAt;
use crate::traffic::tcp_info::TcpSockets;

/// Time between two readings of the counters of unreported flows, nanoseconds.
const POLL_NS: u64 = 100_000_000;

/// The same for reported flows, which may have ended. Each reading takes processor time from the
/// switches, and reports of ends are not urgent.
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
    /// The kernels of the hosts; empty until they are asked.
    sockets: Vec<TcpSockets>,
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
            sockets: Vec::new(),
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

    /// Reads the counters of flows that may be reported. Returns which flows have ended.
    fn read_sockets(&mut self, now: u64) -> Result<Vec<bool>> {
        let mut has_ended = vec![false; self.flows.len()];
        let is_for_ends = now >= self.next_ends_ns;
        if is_for_ends {
            self.next_ends_ns = now + POLL_ENDS_NS;
        }
        if self.sockets.is_empty() {
            self.sockets = self.hosts.iter().map(|host| TcpSockets::open(*host)).collect::<Result<_>>()?;
        }
        for (place, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.start_ns <= now) {
            let is_started = self.states[place] == ReportState::Started;
            if self.states[place] != ReportState::Unreported && !(is_for_ends && is_started) {
                continue;
            }
            let FiveTuple { src, src_port, dst, dst_port, .. } = flow.tuple;
            let (local, peer) = (SocketAddrV4::new(src, src_port), SocketAddrV4::new(dst, dst_port));
            let found = self.sockets[flow.src].find(local, peer);
            match found.map_err(|cause| failed("counters of TCP", cause.to_string()))? {
                Some(counters) => self.sent[place] = counters.bytes_sent,
                None => has_ended[place] = is_started,
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
