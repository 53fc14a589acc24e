//! Before anything is measured: does the network lose packets that it has room for?

use std::time::Duration;

use net::{HostIx, Topology, address};
use serde_json::json;

use crate::clock::now_ns;
use crate::driver::{Counters, Driver};
use crate::error::TestbedError;
use crate::rules::{Choice, StaticRoutes};
use crate::sockets::{Gap, HostAt, SendPlan, Traffic};

/// Share of the slowest link the probes fill.
const FILL: f64 = 0.95;

/// Most packets through switches per second, all switches together, of a network whose links have rates: what a userspace switch
/// forwards with one core at 25 us a packet, its measured cost.
const HOPS_PER_S: f64 = 40_000.0;

/// The same where links have none: nothing is to be found out then but whether packets arrive.
const HOPS_PER_S_UNSHAPED: f64 = 10_000.0;

/// Payload of a probe, bytes.
const PAYLOAD: usize = 1472;

/// Bytes of a probe as queues count it: payload, UDP, IP and Ethernet headers.
const FRAME: f64 = 1514.0;

/// What the proof found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Proof {
    /// Packets sent, all of which arrived.
    pub sent: u64,
    /// Packets per second, all hosts together.
    pub packets_per_s: f64,
    /// Mean time from socket to socket, microseconds.
    pub delay_mean_us: f64,
}

/// Sends paced probes from every host to the one half the network away, over static rules that spread them so that they fit.
///
/// # Errors
/// Any of them was lost.
pub fn prove(
    driver: &mut Driver,
    topology: &Topology,
    hosts: &[HostAt],
    is_shaped: bool,
    span: Duration,
    is_wanted: &mut dyn FnMut() -> bool,
) -> Result<Proof, TestbedError> {
    if span.is_zero() {
        return Ok(Proof::default());
    }
    let routes = StaticRoutes::new(topology, Choice::Spread);
    driver.ask("rules", json!({"rules": routes.rules()}), Duration::from_secs(180))?;
    let count = hosts.len() as u32;
    let pairs: Vec<(u32, u32)> = (0..count).map(|src| (src, (src + (count / 2).max(1)) % count)).collect();
    let per_s = rate(topology, &routes, &pairs, is_shaped);
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
        // Senders do not begin together: eighty packets at once are no paced traffic.
        start_ns: start + (1e9 / per_s * flow as f64 / f64::from(count)) as u64,
        gap,
    };
    let plans: Vec<SendPlan> = pairs.iter().enumerate().map(plan).collect();
    let traffic = Traffic::prepare(hosts, &plans, u64::MAX)?;
    let tallies = traffic.run(end, Duration::from_millis(500), Duration::from_secs(15), is_wanted);
    if !is_wanted() {
        return Err(TestbedError::Interrupted);
    }
    let sent: u64 = tallies.iter().map(|tally| tally.sent).sum();
    let arrived: u64 = tallies.iter().map(|tally| tally.received.packets).sum();
    let after = driver.counters()?;
    if arrived != sent || sent == 0 {
        let (queues, sockets) = (queue_drops(&before, &after), socket_drops(&before, &after));
        return Err(TestbedError::NotLossless { sent, lost: sent - arrived.min(sent), queues, sockets });
    }
    let delay: u64 = tallies.iter().map(|tally| tally.received.delay_sum_ns).sum();
    Ok(Proof {
        sent,
        packets_per_s: sent as f64 / span.as_secs_f64(),
        delay_mean_us: delay as f64 / 1e3 / arrived.max(1) as f64,
    })
}

/// Packets per second of each host so that no link is filled beyond [`FILL`] and the machine keeps up.
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

/// Packets all queues dropped between two moments.
pub fn queue_drops(before: &Counters, after: &Counters) -> u64 {
    let of = |counters: &Counters| -> u64 { counters.queues.values().map(|queue| queue.drops).sum() };
    of(after).saturating_sub(of(before))
}

fn socket_drops(before: &Counters, after: &Counters) -> u64 {
    let of = |counters: &Counters| -> u64 { counters.hosts.values().map(|host| host.socket_drops).sum() };
    of(after).saturating_sub(of(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_fill_the_slowest_link_and_no_more() {
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
