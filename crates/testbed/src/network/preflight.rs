//! Preflight check: whether the network loses packets below its capacity.

use std::time::Duration;

use experiment::input::TestbedConfig;
use net::{HostIx, Topology, address};
use serde_json::json;

use crate::clock::now_ns;
use crate::error::{Result, TestbedError};
use crate::network::driver::Counters;
use crate::network::rules::{Choice, StaticRoutes};
use crate::network::running_network::RunningNetwork;
use crate::traffic::datagrams::{Gap, SendPlan, Traffic};

const FILL: f64 = 0.95;

/// Maximum packets per second through all switches together, for networks with link rates. A
/// userspace switch forwards that number with one core: 25 us a packet was measured.
const HOPS_PER_S: f64 = 40_000.0;

/// The same for networks without link rates, where the check only shows whether packets arrive.
const HOPS_PER_S_UNSHAPED: f64 = 10_000.0;

const PAYLOAD: usize = 1472;

/// Bytes of a probe in a queue, with UDP, IP and Ethernet headers.
const FRAME: f64 = 1514.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PreflightReport {
    pub sent: u64,
    pub packets_per_s: f64,
    /// Mean socket-to-socket delay, microseconds.
    pub delay_mean_us: f64,
}

/// Sends paced probes from every host to the host half the network away. Static rules spread them,
/// so that their rate is below the capacity of every link. A lost probe is an error.
pub fn check_lossless(
    live: &mut RunningNetwork,
    topology: &Topology,
    options: &TestbedConfig,
    should_continue: &mut dyn FnMut() -> bool,
) -> Result<PreflightReport> {
    let RunningNetwork { driver, hosts, .. } = live;
    let span = Duration::from_secs_f64(options.preflight.as_s_f64());
    if span.is_zero() {
        return Ok(PreflightReport::default());
    }
    let routes = StaticRoutes::new(topology, Choice::Spread);
    driver.request("rules", json!({"rules": routes.rules()}), Duration::from_secs(180))?;
    let count = hosts.len() as u32;
    let pairs: Vec<(u32, u32)> = (0..count).map(|src| (src, (src + (count / 2).max(1)) % count)).collect();
    let per_s = rate(topology, &routes, &pairs, options.is_shaped);
    let before = driver.counters()?;
    let start = now_ns() + 300_000_000;
    let end = start + span.as_nanos() as u64;
    let gap = Gap { min_per_s: per_s, max_per_s: per_s, floor_ns: 1 };
    let plan = |(flow, (src, dst)): (usize, &(u32, u32))| SendPlan {
        flow: flow as u32,
        src: *src as usize,
        dst: *dst as usize,
        to: address::host_ipv4(HostIx(*dst)),
        src_port: 20_000,
        payload: PAYLOAD,
        size_bytes: u64::MAX / 2,
        // Senders start at different times: eighty simultaneous packets would not be paced traffic.
        start_ns: start + (1e9 / per_s * flow as f64 / f64::from(count)) as u64,
        gap,
    };
    let plans: Vec<SendPlan> = pairs.iter().enumerate().map(plan).collect();
    let traffic = Traffic::prepare(hosts, &plans, u64::MAX)?;
    let tallies = traffic.run(end, Duration::from_millis(500), Duration::from_secs(15), should_continue);
    if !should_continue() {
        return Err(TestbedError::Interrupted);
    }
    let sent: u64 = tallies.iter().map(|tally| tally.sent.packets).sum();
    let arrived: u64 = tallies.iter().map(|tally| tally.received.packets).sum();
    let after = driver.counters()?;
    if arrived != sent || sent == 0 {
        let more = |of: &dyn Fn(&Counters) -> u64| of(&after).saturating_sub(of(&before));
        let queues = more(&|counters| counters.queues.values().map(|queue| queue.drops).sum());
        let sockets = more(&|counters| counters.hosts.values().map(|host| host.socket_drops).sum());
        return Err(TestbedError::NotLossless { sent, lost: sent - arrived.min(sent), queues, sockets });
    }
    let delay: u64 = tallies.iter().map(|tally| tally.received.delay_sum_ns).sum();
    Ok(PreflightReport {
        sent,
        packets_per_s: sent as f64 / span.as_secs_f64(),
        delay_mean_us: delay as f64 / 1e3 / arrived.max(1) as f64,
    })
}

/// Returns the packets per second of each host at which no link exceeds [`FILL`] and the machine
/// keeps up.
fn rate(topology: &Topology, routes: &StaticRoutes<'_>, pairs: &[(u32, u32)], is_shaped: bool) -> f64 {
    let mut flows = vec![0u32; topology.links().len()];
    for (src, dst) in pairs {
        for link in routes.path(HostIx(*src), HostIx(*dst)).unwrap_or_default() {
            flows[link.ix()] += 1;
        }
    }
    let hops: u32 = flows.iter().sum();
    let by_machine = if is_shaped { HOPS_PER_S } else { HOPS_PER_S_UNSHAPED } / f64::from(hops.max(1));
    if !is_shaped {
        return by_machine;
    }
    let loaded = topology.links().iter().zip(&flows).filter(|(_, flows)| **flows > 0);
    let by_link = loaded.map(|(link, flows)| FILL * link.rate.as_bps_f64() / (8.0 * FRAME * f64::from(*flows)));
    by_link.fold(by_machine, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_rate_fills_slowest_link() {
        let topology =
            net::spec::parse("fat-tree:k=4,hosts_per_edge=10,host_rate=1Mbps,fabric_rate=10Mbps").expect("a tree");
        let routes = StaticRoutes::new(&topology, Choice::Spread);
        let pairs: Vec<(u32, u32)> = (0..80).map(|src| (src, (src + 40) % 80)).collect();
        let per_s = rate(&topology, &routes, &pairs, true);
        // Six links each: 40,000 / 480 = 83.3; the host's link carries 82.6, of which 95 %.
        assert!((per_s - 78.43).abs() < 0.01, "{per_s}");
        assert!((rate(&topology, &routes, &pairs, false) - 10_000.0 / 480.0).abs() < 1e-6);
    }
}
