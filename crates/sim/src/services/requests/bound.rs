//! Minimum response time of a request: alone in an empty network, with the best server for it.

use std::collections::BTreeMap;

use net::paths::{self, Metric};
use net::{HostIx, LinkIx, NodeIx, Time, Topology};
use traffic::FlowList;

use crate::links::port::serialisation_ps;
use crate::scenario::TransportConfig;
use crate::services::{RequestClass, ServicesConfig};

/// Bytes of a page on the wire in each direction, and the number of consecutive network crossings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) mss: u64,
    pub(super) header: u64,
    pub(super) handshake: bool,
}

/// Returns the picoseconds from the first packet of a request to its last byte, from the best
/// member, over paths of the lowest latency and of the widest bottleneck, however long.
pub(super) fn response(
    topology: &Topology,
    config: &ServicesConfig,
    class: &RequestClass,
    client: HostIx,
    sizes: &Sizes,
) -> u64 {
    let members = config.services[class.service as usize].servers_of(class).iter().filter(|member| **member != client);
    let speed = |member: HostIx| config.servers.iter().find(|server| server.host == member).map_or(1.0, |s| s.speed);
    let page = members.filter_map(|member| {
        let cpu = super::server::work_at(class.cpu.as_ps(), speed(*member));
        Some(page(topology, class, (client, *member), sizes)? + cpu)
    });
    let page = page.min();
    page.unwrap_or(0).saturating_mul(u64::from(class.pages))
}

/// Returns the picoseconds that a page takes at least without the work of its server.
fn page(topology: &Topology, class: &RequestClass, ends: (HostIx, HostIx), sizes: &Sizes) -> Option<u64> {
    let nodes: (NodeIx, NodeIx) = (topology.host(ends.0), topology.host(ends.1));
    let delay = |from, to| {
        let path = paths::shortest(topology, from, to, Metric::Delay, |_| true)?;
        Some(paths::delay(topology, &path).as_ps())
    };
    let capacity = |link: LinkIx| Some(topology.link(link).rate);
    let sending = |from, to, payload: u64| {
        let width = paths::widest(topology, from, to, capacity)?.bottleneck.as_bps();
        Some(serialisation_ps(payload + payload.div_ceil(sizes.mss) * sizes.header, width))
    };
    let round_trip = delay(nodes.0, nodes.1)? + delay(nodes.1, nodes.0)?;
    let opening = if sizes.handshake { round_trip } else { 0 };
    let up = sending(nodes.0, nodes.1, class.request_bytes)?;
    let down = sending(nodes.1, nodes.0, class.page_bytes)?;
    Some(opening + round_trip + up + down)
}

/// Returns the minimum response times of a list of requests: the reference of slowdowns.
pub fn ideal_response_times(
    topology: &Topology,
    transport: &TransportConfig,
    config: &ServicesConfig,
    requests: &FlowList,
) -> Vec<Time> {
    let TransportConfig { mss_bytes, header_bytes, handshake, .. } = *transport;
    let sizes = Sizes { mss: mss_bytes.into(), header: header_bytes.into(), handshake };
    let mut known = BTreeMap::new();
    let of = |flow: &traffic::Flow| {
        let class = flow.group - 1;
        let bound = || response(topology, config, &config.classes[class as usize], flow.src, &sizes);
        Time::from_ps(*known.entry((flow.src, class)).or_insert_with(bound))
    };
    requests.flows.iter().map(of).collect()
}
