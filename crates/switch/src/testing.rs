//! Switches and packets of a topology, for the tests of this workspace.

use net::{FiveTuple, HostIx, NodeIx, NodeKind, Time, Topology, address};
use openflow::headers::protocol;
use openflow::{DatapathId, Description, Headers, MacAddr, PortDesc, PortNo};

use crate::{Config, HashFields, Select, Support};

/// Returns a fat-tree of 20 switches and 16 hosts.
pub fn fat_tree() -> Topology {
    net::spec::parse("fat-tree:k=4").expect("a valid specification")
}

/// Returns the switches of a topology.
pub fn switches(topology: &Topology) -> impl Iterator<Item = NodeIx> {
    (0u32..).map(NodeIx).zip(topology.nodes()).filter(|(_, node)| node.kind == NodeKind::Switch).map(|(node, _)| node)
}

/// Returns the configuration of a switch of a topology: it has a port for each link, and capacity
/// for 100,000 entries and 10,000 groups.
pub fn config(topology: &Topology, node: NodeIx) -> Config {
    let port = |number: usize| {
        let hw_addr = MacAddr([2, 0xff, 0, node.0 as u8, 0, number as u8]);
        PortDesc::up(PortNo(number as u32 + 1), hw_addr, format!("p{}", number + 1), 10_000_000)
    };
    Config {
        datapath: DatapathId(address::datapath_of(node)),
        ports: (0..topology.out_links(node).len()).map(port).collect(),
        tables: 4,
        max_entries: 100_000,
        max_groups: 10_000,
        buffers: 0,
        select: Select { seed: u64::from(node.0), fields: HashFields::FiveTuple },
        stats_refresh: Time::ZERO,
        packet_in_per_s: None,
        supports_tcp_flags: false,
        support: Support::default(),
        description: Description::default(),
    }
}

/// Returns the five-tuple of a UDP flow between two hosts.
pub fn udp(src: u32, dst: u32, src_port: u16) -> FiveTuple {
    let (src, dst) = (address::host_ipv4(HostIx(src)), address::host_ipv4(HostIx(dst)));
    FiveTuple { src, dst, protocol: protocol::UDP, src_port, dst_port: 7000 }
}

/// Returns the sending host of a flow of `topology`, and the headers of its packets.
pub fn packet(topology: &Topology, tuple: &FiveTuple) -> (HostIx, Headers) {
    let host = |ipv4| address::host_of_ipv4(ipv4, topology.hosts().len()).expect("the address of a host");
    let ends = [host(tuple.src), host(tuple.dst)];
    let macs = ends.map(|host| MacAddr(address::host_mac(host)));
    let ports = [tuple.src_port, tuple.dst_port];
    (ends[0], Headers::ipv4(macs, [tuple.src, tuple.dst], tuple.protocol, ports))
}
