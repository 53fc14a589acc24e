//! The network that the driver builds: names, addresses, ports, rates and queues.

use experiment::input::{Datapath, TestbedConfig};
use experiment::runner::{QueueLimit, SimConfig, TransportKind};
use net::{HostIx, LinkIx, NodeIx, NodeKind, Topology, address};
use serde::Serialize;

/// Longest delay that is not emulated: a hop through a software switch takes longer.
pub const IGNORED_DELAY_US: u64 = 100;

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkPlan {
    /// In the order of the topology.
    pub switches: Vec<SwitchPlan>,
    /// In the order of the topology.
    pub hosts: Vec<HostPlan>,
    /// One per cable, for both directions.
    pub links: Vec<LinkPlan>,
    /// Queue of a switch port.
    pub switch_queue: Limit,
    /// Queue of a host interface.
    pub host_queue: Limit,
    /// `auto`, `user` or `kernel`.
    pub datapath: &'static str,
    /// `arrival`, `senders` or `flows`: how a full queue is shared.
    pub turns: &'static str,
    /// Congestion control of the hosts' TCP; `None` if no flow uses TCP. Without it the default of
    /// this machine would apply.
    pub congestion: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SwitchPlan {
    /// Bridge: `ab` and the datapath id.
    pub name: String,
    /// See [`address::datapath_of`].
    pub dpid: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostPlan {
    /// `ah` and the host number.
    pub name: String,
    /// See [`address::host_ipv4`].
    pub ip: String,
    /// See [`address::host_mac`].
    pub mac: String,
    pub interface: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkPlan {
    pub a: EndPlan,
    pub b: EndPlan,
    /// Bits per second from a to b; `None` for no limit.
    pub rate_ab: Option<u64>,
    /// Bits per second from b to a.
    pub rate_ba: Option<u64>,
    /// One-way delay, microseconds; 0 if it is not emulated.
    pub delay_us: u64,
    /// Name of the link from a to b in the topology.
    #[serde(skip)]
    pub name: String,
    /// Number of the link from a to b in the topology.
    #[serde(skip)]
    pub forward: u32,
}

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndPlan {
    /// Name of the switch or host.
    pub node: String,
    /// See [`address::port_of`].
    pub port: u32,
    pub interface: String,
}

/// Capacity of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    Packets(u32),
    Bytes(u64),
}

impl NetworkPlan {
    /// Plans the network of a topology whose hosts have one link each.
    pub fn new(topology: &Topology, config: &SimConfig, testbed: &TestbedConfig) -> NetworkPlan {
        let switches = (0..topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(topology, *node));
        let switch = |node| SwitchPlan { name: switch_name(node), dpid: address::datapath_of(node) };
        let links = (0..topology.links().len() as u32).map(LinkIx);
        let host_queue = Limit::Packets(config.host.queue_packets);
        NetworkPlan {
            switches: switches.map(switch).collect(),
            hosts: (0..topology.hosts().len() as u32).map(|host| host_plan(topology, HostIx(host))).collect(),
            links: links
                .filter(|link| link.0 < link.reverse().0)
                .map(|link| cable(topology, link, testbed.is_shaped))
                .collect(),
            switch_queue: match config.switch.limit {
                QueueLimit::Packets(packets) => Limit::Packets(packets),
                QueueLimit::Bytes(bytes) => Limit::Bytes(bytes),
            },
            host_queue,
            datapath: match testbed.datapath {
                Datapath::Auto | Datapath::User | Datapath::Kernel => testbed.datapath.name(),
            },
            turns: testbed.turns.name(),
            congestion: congestion(config.transport.kind),
        }
    }

    /// Returns the interface that sends on a link, and whether it belongs to a switch.
    pub fn sender(&self, topology: &Topology, link: LinkIx) -> (String, bool) {
        let from = topology.link(link).from;
        (interface(topology, link), is_switch(topology, from))
    }
}

/// Returns the Linux name of a congestion control; `None` for transports other than TCP.
pub fn congestion(kind: TransportKind) -> Option<&'static str> {
    match kind {
        TransportKind::NewReno => Some("reno"),
        TransportKind::Dctcp { .. } => Some("dctcp"),
        TransportKind::Cubic => Some("cubic"),
        _ => None,
    }
}

pub fn is_switch(topology: &Topology, node: NodeIx) -> bool {
    topology.node(node).kind == NodeKind::Switch
}

/// Returns the bridge of a switch.
pub fn switch_name(node: NodeIx) -> String {
    format!("ab{}", address::datapath_of(node))
}

pub fn host_name(host: HostIx) -> String {
    format!("ah{}", host.0)
}

/// Returns the interface at the sending end of a link.
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

/// Returns the MAC address of a host as text.
pub fn mac(host: HostIx) -> String {
    address::host_mac(host).map(|byte| format!("{byte:02x}")).join(":")
}

fn host_plan(topology: &Topology, host: HostIx) -> HostPlan {
    let mac = mac(host);
    let link = topology.out_links(topology.host(host)).first();
    HostPlan {
        name: host_name(host),
        ip: address::host_ipv4(host).to_string(),
        mac,
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
