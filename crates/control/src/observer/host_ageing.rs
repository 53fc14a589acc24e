//! Ageing of learned hosts: hosts that have left without a trace need no rules.
//!
//! A host whose port has been down or missing for [`Config::host_port_down_timeout`] is forgotten.
//! A host that has been silent for [`Config::host_idle_timeout`] is sent ARP requests, and
//! forgotten if it does not reply: a host with a long flow sends no ARP packets. Hosts of
//! disconnected switches are not judged, because nothing is known about them. Configured hosts
//! never age.

use std::collections::BTreeMap;

use net::{HostIx, Time};

use super::arp::arp_probe;
use super::network::HostRecord;
use super::{Cx, Observer};
use crate::{Config, Departure, KnownHost};

/// Number of ARP requests to a silent host, and the time between them.
const PROBES: u8 = 3;
const AGAIN: Time = Time::from_s(1);
/// Maximum number of hosts that are probed at the same time.
const PROBED_MAX: usize = 256;
/// Number of checks within the shorter timeout.
const CHECKS: u64 = 8;
/// Longest time between two checks.
const CHECK_INTERVAL_MAX: Time = Time::from_s(10);

/// A host, its addresses, and when it was last seen.
type LearnedHost = (HostIx, KnownHost, Time);

#[derive(Debug, Default)]
pub(super) struct HostAgeing {
    next_check: Time,
    /// Hosts whose ports are down, since when.
    unplugged: BTreeMap<HostIx, Time>,
    /// Silent hosts, when they were first probed, and how often.
    probed: BTreeMap<HostIx, (Time, u8)>,
}

impl HostAgeing {
    pub(super) fn next_due(&self) -> Time {
        self.next_check
    }
}

fn check_interval(config: &Config) -> Time {
    let shorter = config.host_idle_timeout.min(config.host_port_down_timeout);
    Time::from_ps(shorter.as_ps() / CHECKS).clamp(Time::from_ms(10), CHECK_INTERVAL_MAX)
}

impl Observer {
    pub(super) fn age_hosts(&mut self, cx: &mut Cx<'_>) {
        if cx.now < self.host_ageing.next_check || !cx.channels.is_any_connected() {
            return;
        }
        let is_online = |host: &HostRecord| self.status.get(&host.known.datapath).is_some_and(|at| at.is_online);
        let is_learned = |host: &HostRecord| !self.network.is_configured(host.known.ipv4) && is_online(host);
        let learned = self.network.current_hosts().filter(|(_, host)| is_learned(host));
        let learned = learned.map(|(host, record)| (host, record.known, record.last_seen));
        let (plugged, unplugged): (Vec<LearnedHost>, Vec<LearnedHost>) =
            learned.partition(|(_, known, _)| self.is_port_live(known.end()));
        self.forget_unplugged(cx, &unplugged);
        self.probe_silent(cx, &plugged);
        let interval = check_interval(cx.config);
        let interval = if self.host_ageing.probed.is_empty() { interval } else { interval.min(AGAIN) };
        self.host_ageing.next_check = cx.now.saturating_add(interval);
    }

    fn forget_unplugged(&mut self, cx: &mut Cx<'_>, hosts: &[LearnedHost]) {
        let before = std::mem::take(&mut self.host_ageing.unplugged);
        for (host, _, last_seen) in hosts {
            let since = before.get(host).copied().unwrap_or(cx.now).max(*last_seen);
            if cx.now >= since.saturating_add(cx.config.host_port_down_timeout) {
                self.forget_host(cx, *host, Departure::PortDown);
            } else {
                self.host_ageing.unplugged.insert(*host, since);
            }
        }
    }

    fn probe_silent(&mut self, cx: &mut Cx<'_>, hosts: &[LearnedHost]) {
        let before = std::mem::take(&mut self.host_ageing.probed);
        for (host, known, last_seen) in hosts {
            let probed = before.get(host).copied().filter(|(began, _)| last_seen < began);
            let is_silent = cx.now >= last_seen.saturating_add(cx.config.host_idle_timeout);
            let (began, sent) = match probed {
                Some(probed) => probed,
                None if is_silent && self.host_ageing.probed.len() < PROBED_MAX => (cx.now, 0),
                None => continue,
            };
            let is_due = cx.now >= began.saturating_add(AGAIN * u64::from(sent));
            if is_due && sent == PROBES {
                self.forget_host(cx, *host, Departure::Idle);
                continue;
            }
            if is_due {
                cx.channels.packet_out(known.end(), arp_probe(known));
            }
            self.host_ageing.probed.insert(*host, (began, sent + u8::from(is_due)));
        }
    }
}
