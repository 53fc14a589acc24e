//! The network of emulated switches.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use net::{NodeKind, Topology};
use openflow::{DatapathId, MacAddr, PortDesc, PortNo};

use crate::Error;
use crate::options::Shape;

pub const SWITCHES_MAX: u32 = 4_096;
/// Maximum number of hosts of a switch: the last byte of their addresses.
pub const HOSTS_MAX: u32 = 250;
const SPEED_KBPS: u32 = 10_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    pub switch: usize,
    pub port: PortNo,
    /// Ethernet address; unique.
    pub mac: MacAddr,
    /// IPv4 address: 10, the number of the switch from 1 in two bytes, the number of the host from
    /// 1. Unique.
    pub ip: Ipv4Addr,
}

#[derive(Clone, Debug)]
pub struct Node {
    /// Number, from 1.
    pub datapath: DatapathId,
    pub ports: Vec<PortDesc>,
    pub hosts: std::ops::Range<usize>,
}

#[derive(Clone, Debug)]
pub struct Fabric {
    pub nodes: Vec<Node>,
    pub hosts: Vec<Host>,
    links: BTreeMap<(usize, PortNo), (usize, PortNo)>,
    /// Minimum distance of a destination from its source in the list of hosts, in both directions;
    /// 0 for hosts of the same switch.
    distance: usize,
    /// Offset of the switch numbers: two fleets of one controller share no switch or address.
    base: usize,
}

impl Fabric {
    /// Creates the network of a shape, with switches numbered from `base + 1`.
    ///
    /// # Errors
    /// Too few or too many switches or hosts, or numbers beyond the address range.
    pub fn new(shape: &Shape, base: u32) -> Result<Fabric, Error> {
        if base > SWITCHES_MAX {
            return Err(Error::Shape(format!("the first switch number must be at most {SWITCHES_MAX}, not {base}")));
        }
        match shape {
            Shape::Star { switches, hosts } => Fabric::star(*switches, *hosts, base as usize),
            Shape::Fabric(topology) => Fabric::of(topology, base as usize),
        }
    }

    fn star(switches: u32, hosts: u32, base: usize) -> Result<Fabric, Error> {
        if !(1..=SWITCHES_MAX).contains(&switches) || !(2..=HOSTS_MAX).contains(&hosts) {
            let shape = format!("{switches} switches of {hosts} hosts");
            return Err(Error::Shape(format!(
                "{shape}: must be 1 to {SWITCHES_MAX} switches of 2 to {HOSTS_MAX} hosts"
            )));
        }
        let mut fabric = Fabric::empty(switches as usize, base);
        for switch in 0..switches as usize {
            fabric.add_hosts(switch, hosts as usize);
        }
        Ok(fabric)
    }

    fn of(topology: &Topology, base: usize) -> Result<Fabric, Error> {
        let nodes = topology.nodes();
        let is_switch = |node: net::NodeIx| topology.node(node).kind == NodeKind::Switch;
        if nodes.iter().any(|node| node.kind == NodeKind::Host && node.forwards) {
            return Err(Error::Shape("topologies whose hosts forward packets are not supported".to_owned()));
        }
        let mut numbers = BTreeMap::new();
        for (at, _) in nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Switch) {
            numbers.insert(net::NodeIx(at as u32), numbers.len());
        }
        if numbers.is_empty() || numbers.len() > SWITCHES_MAX as usize {
            return Err(Error::Shape(format!("{} switches: must be 1 to {SWITCHES_MAX}", numbers.len())));
        }
        let mut fabric = Fabric::empty(numbers.len(), base);
        let mut groups: BTreeMap<(Option<u32>, usize), usize> = BTreeMap::new();
        for (node, switch) in &numbers {
            let beyond = |link: &&net::LinkIx| !is_switch(topology.link(**link).to);
            let hosts = topology.out_links(*node).iter().filter(beyond).count();
            if hosts > HOSTS_MAX as usize {
                return Err(Error::Shape(format!("{hosts} hosts at one switch: must be at most {HOSTS_MAX}")));
            }
            fabric.add_hosts(*switch, hosts);
            let pod = topology.node(*node).pod;
            *groups.entry((pod, if pod.is_some() { 0 } else { *switch })).or_default() += hosts;
        }
        // Each cable is two links; the end with the lower number adds it.
        for link in topology.links() {
            if let (Some(&a), Some(&b)) = (numbers.get(&link.from), numbers.get(&link.to))
                && a < b
            {
                fabric.join(a, b);
            }
        }
        fabric.distance = groups.values().copied().max().unwrap_or(0).max(1);
        if 2 * fabric.distance > fabric.hosts.len() {
            return Err(Error::Shape("a topology needs at least two pods or switches with hosts".to_owned()));
        }
        Ok(fabric)
    }

    fn empty(switches: usize, base: usize) -> Fabric {
        let datapath = |at: usize| DatapathId((base + at) as u64 + 1);
        let node = |at: usize| Node { datapath: datapath(at), ports: Vec::new(), hosts: 0..0 };
        let nodes = (0..switches).map(node).collect();
        Fabric { nodes, hosts: Vec::new(), links: BTreeMap::new(), distance: 0, base }
    }

    fn add_port(&mut self, switch: usize) -> PortNo {
        let ports = &mut self.nodes[switch].ports;
        let number = ports.len() as u32 + 1;
        let [a, b] = ((self.base + switch) as u16 + 1).to_be_bytes();
        let [c, d] = (number as u16).to_be_bytes();
        let (hw_addr, name) = (MacAddr([0x06, 0, a, b, c, d]), format!("s{}-eth{number}", switch + 1));
        ports.push(PortDesc::up(PortNo(number), hw_addr, name, SPEED_KBPS));
        PortNo(number)
    }

    fn add_hosts(&mut self, switch: usize, count: usize) {
        let first = self.hosts.len();
        for at in 0..count {
            let port = self.add_port(switch);
            let [a, b] = ((self.base + switch) as u16 + 1).to_be_bytes();
            let number = at as u8 + 1;
            let mac = MacAddr([0x02, 0, a, b, 0, number]);
            self.hosts.push(Host { switch, port, mac, ip: Ipv4Addr::new(10, a, b, number) });
        }
        self.nodes[switch].hosts = first..self.hosts.len();
    }

    fn join(&mut self, a: usize, b: usize) {
        let (at_a, at_b) = (self.add_port(a), self.add_port(b));
        self.links.insert((a, at_a), (b, at_b));
        self.links.insert((b, at_b), (a, at_a));
    }
    pub fn beyond(&self, switch: usize, port: PortNo) -> Option<(usize, PortNo)> {
        self.links.get(&(switch, port)).copied()
    }
    pub fn host_at(&self, switch: usize, port: PortNo) -> Option<&Host> {
        self.hosts[self.nodes[switch].hosts.clone()].iter().find(|host| host.port == port)
    }
    /// Returns the switch of an address; the inverse of the address assignment.
    #[inline]
    pub fn switch_of(&self, ip: [u8; 4]) -> Option<usize> {
        let switch = usize::from(u16::from_be_bytes([ip[1], ip[2]])).wrapping_sub(self.base + 1);
        (ip[0] == 10 && switch < self.nodes.len()).then_some(switch)
    }
    pub fn directed_links(&self) -> usize {
        self.links.len()
    }
    /// Returns the number of pairs of hosts that the probes of a switch use before they repeat.
    pub fn pairs(&self, switch: usize) -> u32 {
        let own = self.nodes[switch].hosts.len();
        (own * self.destinations(own)) as u32
    }

    /// Returns source and destination of the `n`-th probe of a switch with hosts.
    #[inline]
    pub fn pair(&self, switch: usize, n: u32) -> (&Host, &Host) {
        let hosts = &self.nodes[switch].hosts;
        let (own, n) = (hosts.len(), n as usize);
        let (source, round) = (n % own, n / own);
        let step = round % self.destinations(own);
        let destination = if self.distance == 0 {
            hosts.start + (source + 1 + step) % own
        } else {
            (hosts.start + source + self.distance + step) % self.hosts.len()
        };
        (&self.hosts[hosts.start + source], &self.hosts[destination])
    }

    /// Returns the switch and the number, modulo [`Fabric::pairs`], of probes from `source` to
    /// `destination`.
    pub fn number(&self, source: [u8; 4], destination: [u8; 4]) -> Option<(usize, u32)> {
        let host_ix = |ip: [u8; 4]| {
            let switch = self.switch_of(ip)?;
            let at = usize::from(ip[3]).checked_sub(1)?;
            let hosts = &self.nodes[switch].hosts;
            (at < hosts.len()).then_some((switch, hosts.start + at))
        };
        let ((switch, from), (_, to)) = (host_ix(source)?, host_ix(destination)?);
        let hosts = &self.nodes[switch].hosts;
        let own = hosts.len();
        let step = if self.distance == 0 {
            hosts.contains(&to).then(|| (to + own - from + own - 1) % own)?
        } else {
            (to + 2 * self.hosts.len() - from - self.distance) % self.hosts.len()
        };
        (step < self.destinations(own)).then_some((switch, (step * own + from - hosts.start) as u32))
    }

    fn destinations(&self, own: usize) -> usize {
        if self.distance == 0 { own.saturating_sub(1) } else { self.hosts.len() + 1 - 2 * self.distance }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn star_probes_connect_all_hosts_of_a_switch() {
        let fabric = Fabric::new(&Shape::Star { switches: 3, hosts: 5 }, 0).unwrap();
        let mut pairs = BTreeSet::new();
        for n in 0..fabric.pairs(1) {
            let (source, destination) = fabric.pair(1, n);
            assert_eq!((source.switch, destination.switch), (1, 1));
            assert_ne!(source.ip, destination.ip);
            assert_eq!(fabric.switch_of(source.ip.octets()), Some(1));
            pairs.insert((source.ip, destination.ip));
        }
        assert_eq!(pairs.len(), 5 * 4);
    }

    #[test]
    fn fat_tree_probes_cross_pods_and_links_exist() {
        let topology = net::spec::parse("fat-tree:k=4").unwrap();
        let fabric = Fabric::new(&Shape::Fabric(Box::new(topology)), 0).unwrap();
        assert_eq!((fabric.nodes.len(), fabric.hosts.len(), fabric.directed_links()), (20, 16, 64));
        assert!(fabric.nodes.iter().all(|node| node.ports.len() == 4));
        for (switch, _) in fabric.nodes.iter().enumerate().filter(|(_, node)| !node.hosts.is_empty()) {
            let own = fabric.nodes[switch].hosts.start / 4;
            let mut destinations = BTreeSet::new();
            for n in 0..fabric.pairs(switch) {
                let (source, destination) = fabric.pair(switch, n);
                let ix = fabric.hosts.iter().position(|host| host == destination).unwrap();
                assert_ne!(ix / 4, own, "{source:?} {destination:?}");
                destinations.insert(ix);
            }
            // Nine offsets from each of two neighbouring hosts reach ten of the twelve hosts in
            // other pods.
            assert_eq!(destinations.len(), 10);
        }
    }

    #[test]
    fn number_inverts_pair() {
        let topology = Box::new(net::spec::parse("fat-tree:k=4").unwrap());
        for shape in [Shape::Star { switches: 3, hosts: 5 }, Shape::Fabric(topology)] {
            let fabric = Fabric::new(&shape, 0).unwrap();
            for (switch, _) in fabric.nodes.iter().enumerate().filter(|(_, node)| !node.hosts.is_empty()) {
                for n in 0..fabric.pairs(switch) {
                    let (source, destination) = fabric.pair(switch, n);
                    assert_eq!(fabric.number(source.ip.octets(), destination.ip.octets()), Some((switch, n)));
                }
            }
            assert_eq!(fabric.number([10, 0, 1, 1], [10, 0, 1, 1]), None);
            assert_eq!(fabric.number([10, 0, 1, 1], [10, 9, 9, 1]), None);
        }
    }

    #[test]
    fn fleets_with_distinct_bases_share_nothing() {
        let shape = Shape::Star { switches: 2, hosts: 3 };
        let (first, second) = (Fabric::new(&shape, 0).unwrap(), Fabric::new(&shape, 2).unwrap());
        let numbers = |fabric: &Fabric| fabric.nodes.iter().map(|node| node.datapath.0).collect::<Vec<_>>();
        assert_eq!((numbers(&first), numbers(&second)), (vec![1, 2], vec![3, 4]));
        assert!(first.hosts.iter().all(|a| second.hosts.iter().all(|b| a.ip != b.ip && a.mac != b.mac)));
        assert_eq!(second.switch_of(second.hosts[3].ip.octets()), Some(1));
        assert_eq!(second.switch_of(first.hosts[0].ip.octets()), None);
        assert!(Fabric::new(&shape, SWITCHES_MAX + 1).is_err());
    }

    #[test]
    fn invalid_shapes_rejected() {
        for (switches, hosts) in [(0, 20), (5_000, 20), (1, 1), (1, 251)] {
            assert!(matches!(Fabric::new(&Shape::Star { switches, hosts }, 0), Err(Error::Shape(_))));
        }
    }
}
