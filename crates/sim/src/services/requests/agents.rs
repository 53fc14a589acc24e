//! Agents on servers: they measure the processor load and the number of connections.

use balance::server::ServerStats;
use net::{HostIx, Time, address};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, frame};

use super::Requests;
use crate::services::{AgentConfig, ReportsTo};
use crate::timers::NEVER;

const SOURCE_PORT: u16 = 9_876;
const HEADERS_LEN: usize = 14 + 20 + 8;

#[derive(Debug)]
pub(super) struct Agent {
    config: Option<AgentConfig>,
    next: u64,
    /// Core time used when the current measurement began; `None` while it pauses.
    since: Option<u64>,
    /// Jobs that ended since the last report: their number and total duration.
    jobs: (u32, u64),
}

pub(crate) enum Report {
    Direct(HostIx, ServerStats),
    InBand(u32, Vec<u8>),
}

impl Agent {
    pub(super) fn new(config: Option<AgentConfig>) -> Agent {
        Agent { config, next: config.map_or(NEVER, |agent| agent.pause.as_ps()), since: None, jobs: (0, 0) }
    }

    pub(super) fn note_job(&mut self, took: u64) {
        self.jobs = (self.jobs.0 + 1, self.jobs.1 + took);
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.config.map(|_| self.next)
    }

    fn poll(&mut self, now: u64, busy: u64, connections: u32, cores: u32) -> Option<ServerStats> {
        let config = self.config.filter(|_| self.next <= now)?;
        let Some(since) = self.since.take() else {
            (self.since, self.next) = (Some(busy), now + config.sampling.as_ps().max(1));
            return None;
        };
        self.next = now + config.pause.as_ps();
        let (count, took) = std::mem::take(&mut self.jobs);
        let share = (busy - since) as f64 / (config.sampling.as_ps().max(1) as f64 * f64::from(cores));
        Some(ServerStats {
            connections: Some(connections),
            cpu: Some(share.clamp(0.0, 1.0)),
            cores: Some(cores),
            response: (count > 0).then(|| Time::from_ps(took / u64::from(count.max(1)))),
            ..ServerStats::default()
        })
    }
}

impl Requests<'_> {
    pub(crate) fn next_due(&self) -> Option<u64> {
        let due = |server: &super::Server| server.agent.next().into_iter().chain(server.processor.next_done()).min();
        self.servers.iter().filter_map(due).min()
    }

    pub(crate) fn take_report(&mut self, now: u64) -> Option<Report> {
        for (server, config) in self.servers.iter_mut().zip(&self.config.servers) {
            if server.agent.next().is_none_or(|at| at > now) {
                continue;
            }
            server.processor.advance(now);
            let (busy, connections) = (server.processor.busy(), server.connections);
            let Some(stats) = server.agent.poll(now, busy, connections, config.cores) else { continue };
            let host = HostIx(server.host);
            return Some(match self.config.agents.and_then(|agents| agents.in_band) {
                None => Report::Direct(host, stats),
                Some(to) => Report::InBand(server.host, datagram(host, &to, &stats)),
            });
        }
        None
    }
}

/// Returns a report as F1's agents send it: `"<response, ms> <connections> <CPU, %>"`.
fn datagram(host: HostIx, to: &ReportsTo, stats: &ServerStats) -> Vec<u8> {
    let response_ms = stats.response.map_or(0.0, |time| time.as_s_f64() * 1e3);
    let (connections, cpu) = (stats.connections.unwrap_or(0), stats.cpu.unwrap_or(0.0) * 100.0);
    let text = format!("{response_ms:.3} {connections} {cpu:.3}");
    let macs = [MacAddr(address::host_mac(host)), MacAddr(to.mac)];
    let addresses = [address::host_ipv4(host), to.address];
    let headers = Headers::ipv4(macs, addresses, protocol::UDP, [SOURCE_PORT, to.port]);
    let mut bytes = frame::build(&headers, text.len());
    bytes[HEADERS_LEN..].copy_from_slice(text.as_bytes());
    // No checksum, which UDP over IPv4 allows.
    bytes[HEADERS_LEN - 2..HEADERS_LEN].fill(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_pauses_measures_and_reports() {
        let s = |seconds: u64| Time::from_s(seconds).as_ps();
        let config = AgentConfig { pause: Time::from_s(5), sampling: Time::from_s(10), in_band: None };
        let mut agent = Agent::new(Some(config));
        assert_eq!(agent.poll(s(4), 0, 0, 4), None);
        assert_eq!((agent.poll(s(5), s(3), 0, 4), agent.next()), (None, Some(s(15))));
        agent.note_job(s(2));
        agent.note_job(s(4));
        // 20 s of core time within 10 s of 4 cores.
        let stats = agent.poll(s(15), s(23), 7, 4).expect("a report");
        assert_eq!((stats.cpu, stats.connections, stats.cores), (Some(0.5), Some(7), Some(4)));
        assert_eq!((stats.response, agent.next()), (Some(Time::from_s(3)), Some(s(20))));
        assert_eq!(Agent::new(None).next(), None);
    }

    #[test]
    fn in_band_report_has_f1_text_format() {
        let to = ReportsTo { address: [10, 255, 0, 1].into(), mac: [2; 6], port: 9_876 };
        let stats = ServerStats { connections: Some(3), cpu: Some(0.25), ..ServerStats::default() };
        let bytes = datagram(HostIx(4), &to, &stats);
        let headers = frame::parse(&bytes).expect("a frame");
        assert_eq!((headers.ipv4_dst, headers.l4_dst), (to.address, 9_876));
        assert_eq!(&bytes[HEADERS_LEN..], b"0.000 3 25.000");
    }
}
