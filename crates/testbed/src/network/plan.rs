//! The network that the driver builds: names, addresses, ports, rates and queues.

use experiment::input::TestbedConfig;
use experiment::runner::{QueueLimit, SimConfig};
use net::{HostIx, LinkIx, NodeIx, NodeKind, Topology, address};
use serde::Serialize;

/// Longest delay that is not emulated: a hop through a software switch takes longer.
pub const IGNORED_DELAY_US: u64 = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkPlan {
    /// Switches and hosts in the order of the topology.
    pub switches: Vec<SwitchPlan>,
    pub hosts: Vec<HostPlan>,
    /// One per cable, for both directions.
    pub links: Vec<LinkPlan>,
    pub switch_queue: Limit,
    pub host_queue: Limit,
    /// `auto`, `user` or `kernel`.
    pub datapath: &'static str,
    /// `fifo`, `per-sender` or `per-flow`: how a full queue is shared.
    pub turns: &'static str,
    /// Whether frames of the controller have a separate queue at switches.
    pub reserves_control_queue: bool,
    /// Congestion control of the hosts' TCP; `None` if no flow uses TCP. Without it the default of
    /// this machine would apply.
    pub congestion: Option<&'static str>,
    /// Whether hosts resolve addresses by ARP; otherwise they have permanent entries.
    pub resolves: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SwitchPlan {
    /// Bridge: `ab` and the datapath id.
    pub name: String,
    pub dpid: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostPlan {
    /// `ah` and the host number.
    pub name: String,
    pub ip: String,
    pub mac: String,
    pub interface: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkPlan {
    pub a: EndPlan,
    pub b: EndPlan,
    /// Bits per second from a to b; `None` for no limit.
    pub rate_ab: Option<u64>,
    pub rate_ba: Option<u64>,
    /// One-way delay, microseconds; 0 if it is not emulated.
    pub delay_us: u64,
    /// Name and number of the link from a to b in the topology.
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub forward: u32,
}

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndPlan {
    pub node: String,
    pub port: u32,
    pub interface: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    Packets(u32),
    Bytes(u64),
}

impl NetworkPlan {
    /// Plans the network of a topology whose hosts have one link each.
    pub fn new(topology: &Topology, config: &SimConfig, testbed: &TestbedConfig) -> NetworkPlan {
        let switch = |node| SwitchPlan { name: switch_name(node), dpid: address::datapath_of(node) };
        let forward = links(topology).filter(|link| link.0 < link.reverse().0);
        NetworkPlan {
            switches: switches(topology).map(switch).collect(),
            hosts: hosts(topology).map(|host| host_plan(topology, host)).collect(),
            links: forward.map(|link| cable(topology, link, testbed.is_shaped)).collect(),
            switch_queue: match config.switch.limit {
                QueueLimit::Packets(packets) => Limit::Packets(packets),
                QueueLimit::Bytes(bytes) => Limit::Bytes(bytes),
            },
            host_queue: Limit::Packets(config.host.queue_packets),
            datapath: testbed.datapath.name(),
            turns: testbed.queue_scheduling.name(),
            reserves_control_queue: config.control.reserves_control_queue,
            congestion: config.transport.properties().linux,
            resolves: config.control.hosts_resolve,
        }
    }
}

pub(crate) fn switches(topology: &Topology) -> impl Iterator<Item = NodeIx> + '_ {
    (0..topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(topology, *node))
}

pub(crate) fn links(topology: &Topology) -> impl Iterator<Item = LinkIx> + use<> {
    (0..topology.links().len() as u32).map(LinkIx)
}

pub(crate) fn hosts(topology: &Topology) -> impl Iterator<Item = HostIx> + use<> {
    (0..topology.hosts().len() as u32).map(HostIx)
}

pub(crate) fn is_fabric(topology: &Topology, link: LinkIx) -> bool {
    let link = topology.link(link);
    is_switch(topology, link.from) && is_switch(topology, link.to)
}

pub fn is_switch(topology: &Topology, node: NodeIx) -> bool {
    topology.node(node).kind == NodeKind::Switch
}

pub fn switch_name(node: NodeIx) -> String {
    format!("ab{}", address::datapath_of(node))
}

pub fn host_name(host: HostIx) -> String {
    format!("ah{}", host.0)
}

pub fn interface(topology: &Topology, link: LinkIx) -> String {
    format!("{}-eth{}", node_name(topology, topology.link(link).from), address::port_of(topology, link))
}

fn node_name(topology: &Topology, node: NodeIx) -> String {
    if is_switch(topology, node) {
        return switch_name(node);
    }
    let host = topology.hosts().iter().position(|host| *host == node).unwrap_or(usize::MAX);
    host_name(HostIx(host as u32))
}

pub fn mac(host: HostIx) -> String {
    address::host_mac(host).map(|byte| format!("{byte:02x}")).join(":")
}

fn host_plan(topology: &Topology, host: HostIx) -> HostPlan {
    let link = topology.out_links(topology.host(host)).first();
    HostPlan {
        name: host_name(host),
        ip: address::host_ipv4(host).to_string(),
        mac: mac(host),
        interface: link.map(|link| interface(topology, *link)).unwrap_or_default(),
    }
}

fn cable(topology: &Topology, link: LinkIx, is_shaped: bool) -> LinkPlan {
    let end = |link: LinkIx| EndPlan {
        node: node_name(topology, topology.link(link).from),
        port: address::port_of(topology, link),
        interface: interface(topology, link),
    };
    let rate = |link: LinkIx| is_shaped.then(|| topology.link(link).rate.as_bps());
    let delay_us = topology.link(link).delay.as_us_f64().round() as u64;
    LinkPlan {
        a: end(link),
        b: end(link.reverse()),
        rate_ab: rate(link),
        rate_ba: rate(link.reverse()),
        delay_us: if delay_us > IGNORED_DELAY_US { delay_us } else { 0 },
        name: topology.link_name(link),
        forward: link.0,
    }
}
