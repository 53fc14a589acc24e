//! Agents on servers: how busy the processors were, and how many connections there are.

use balance::server::Facts;
use net::{HostIx, Time, address};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, frame};

use super::Requests;
use crate::flows::NEVER;
use crate::services::{AgentConfig, ReportsTo};

/// Source port of reports in band.
const SOURCE_PORT: u16 = 9_876;
/// Headers of Ethernet, IPv4 and UDP.
const HEADERS_LEN: usize = 14 + 20 + 8;

/// An agent: it pauses, measures, tells, and begins anew.
#[derive(Debug)]
pub(super) struct Agent {
    config: Option<AgentConfig>,
    /// When it measures next, or tells.
    next: u64,
    /// Core time used when the measurement began, while there is one.
    since: Option<u64>,
    /// Of jobs that ended since it told last: how many, and how long they took together.
    jobs: (u32, u64),
}

/// A report, to be sent.
pub(crate) enum Report {
    /// Over the management network.
    Direct(HostIx, Facts),
    /// As a frame of a host.
    InBand(u32, Vec<u8>),
}

impl Agent {
    pub(super) fn new(config: Option<AgentConfig>) -> Agent {
        Agent { config, next: config.map_or(NEVER, |agent| agent.pause.as_ps()), since: None, jobs: (0, 0) }
    }

    /// A job has been done, so long after it came.
    pub(super) fn note_job(&mut self, took: u64) {
        self.jobs = (self.jobs.0 + 1, self.jobs.1 + took);
    }

    /// When it wants to be called.
    pub(super) fn next(&self) -> Option<u64> {
        self.config.map(|_| self.next)
    }

    /// It is `now`: answers what it measured, if it tells now.
    fn look(&mut self, now: u64, busy: u64, connections: u32, cores: u32) -> Option<Facts> {
        let config = self.config.filter(|_| self.next <= now)?;
        let Some(since) = self.since.take() else {
            (self.since, self.next) = (Some(busy), now + config.sampling.as_ps().max(1));
            return None;
        };
        self.next = now + config.pause.as_ps();
        let (count, took) = std::mem::take(&mut self.jobs);
        let share = (busy - since) as f64 / (config.sampling.as_ps().max(1) as f64 * f64::from(cores));
        Some(Facts {
            connections: Some(connections),
            cpu: Some(share.clamp(0.0, 1.0)),
            cores: Some(cores),
            response: (count > 0).then(|| Time::from_ps(took / u64::from(count.max(1)))),
            ..Facts::default()
        })
    }
}

impl Requests<'_> {
    /// When an agent or a server wants to be called.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let due = |server: &super::Server| server.agent.next().into_iter().chain(server.processor.next_done()).min();
        self.servers.iter().filter_map(due).min()
    }

    /// The next report that is due.
    pub(crate) fn take_report(&mut self, now: u64) -> Option<Report> {
        for (server, config) in self.servers.iter_mut().zip(&self.config.servers) {
            if server.agent.next().is_none_or(|at| at > now) {
                continue;
            }
            server.processor.advance(now);
            let (busy, connections) = (server.processor.busy(), server.connections);
            let Some(facts) = server.agent.look(now, busy, connections, config.cores) else { continue };
            let host = HostIx(server.host);
            return Some(match self.config.agents.and_then(|agents| agents.in_band) {
                None => Report::Direct(host, facts),
                Some(to) => Report::InBand(server.host, datagram(host, &to, &facts)),
            });
        }
        None
    }
}

/// A report as F1's agents send it: `"<response, ms> <connections> <CPU, %>"`.
fn datagram(host: HostIx, to: &ReportsTo, facts: &Facts) -> Vec<u8> {
    let response_ms = facts.response.map_or(0.0, |time| time.as_s_f64() * 1e3);
    let (connections, cpu) = (facts.connections.unwrap_or(0), facts.cpu.unwrap_or(0.0) * 100.0);
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
    fn an_agent_pauses_measures_and_tells() {
        let s = |seconds: u64| Time::from_s(seconds).as_ps();
        let config = AgentConfig { pause: Time::from_s(5), sampling: Time::from_s(10), in_band: None };
        let mut agent = Agent::new(Some(config));
        assert_eq!(agent.look(s(4), 0, 0, 4), None);
        assert_eq!((agent.look(s(5), s(3), 0, 4), agent.next()), (None, Some(s(15))));
        agent.note_job(s(2));
        agent.note_job(s(4));
        // 20 s of core time within 10 s of 4 cores.
        let facts = agent.look(s(15), s(23), 7, 4).expect("a report");
        assert_eq!((facts.cpu, facts.connections, facts.cores), (Some(0.5), Some(7), Some(4)));
        assert_eq!((facts.response, agent.next()), (Some(Time::from_s(3)), Some(s(20))));
        assert_eq!(Agent::new(None).next(), None);
    }

    #[test]
    fn a_report_in_band_is_the_text_f1_sends() {
        let to = ReportsTo { address: [10, 255, 0, 1].into(), mac: [2; 6], port: 9_876 };
        let facts = Facts { connections: Some(3), cpu: Some(0.25), ..Facts::default() };
        let bytes = datagram(HostIx(4), &to, &facts);
        let headers = frame::parse(&bytes).expect("a frame");
        assert_eq!((headers.ipv4_dst, headers.l4_dst), (to.address, 9_876));
        assert_eq!(&bytes[HEADERS_LEN..], b"0.000 3 25.000");
    }
}
