//! Nodes and directed links: the graph every other crate refers to by index.

use crate::units::{Bandwidth, Time};

/// Index of a node (host or switch) in [`Topology::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIx(pub u32);

/// Index of a directed link in [`Topology::links`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkIx(pub u32);

/// Index of a host in [`Topology::hosts`]: the numbering traffic patterns use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostIx(pub u32);

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Sends and receives traffic; forwards other nodes' packets if [`Node::forwards`] is set.
    Host,
    /// Forwards traffic.
    Switch,
}

/// The height of a node: 0 for hosts, 1 for the switches next to them (edge, leaf, ToR), and up. In
/// networks without tiers (WANs, tori) every switch has tier 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tier(pub u8);

/// A host or switch.
#[derive(Clone, Debug)]
pub struct Node {
    /// A unique name, as printed in reports.
    pub name: String,
    /// Host or switch.
    pub kind: NodeKind,
    /// Height above the hosts.
    pub tier: Tier,
    /// Whether the node forwards others' packets: switches, and servers of BCube and CamCube.
    pub forwards: bool,
    /// The pod (fat-tree, VL2) or rack group of the node, if any.
    pub pod: Option<u32>,
    /// The rack of a host: hosts of one number share their first switch. `None` for switches.
    pub rack: Option<u32>,
}

/// One direction of a cable.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields have their usual names")]
pub struct Link {
    pub from: NodeIx,
    pub to: NodeIx,
    pub rate: Bandwidth,
    pub delay: Time,
}

impl LinkIx {
    /// Returns the other direction of the cable; directions are stored as 2i and 2i+1.
    pub const fn reverse(self) -> LinkIx {
        LinkIx(self.0 ^ 1)
    }
    /// Returns the index as `usize`.
    pub const fn ix(self) -> usize {
        self.0 as usize
    }
}

impl NodeIx {
    /// Returns the index as `usize`.
    pub const fn ix(self) -> usize {
        self.0 as usize
    }
}

impl HostIx {
    /// Returns the index as `usize`.
    pub const fn ix(self) -> usize {
        self.0 as usize
    }
}

/// A network. Every rate is above zero, and every host reaches every node unless
/// [`TopologyBuilder::build_partial`] built it.
#[derive(Clone, Debug)]
pub struct Topology {
    name: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    hosts: Vec<NodeIx>,
    out_start: Vec<u32>,
    out_links: Vec<LinkIx>,
}

/// The reason why a topology cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum TopologyError {
    #[error("topology `{0}` has no hosts")]
    NoHosts(String),
    #[error("link {from} -> {to} has rate 0; give it a rate above zero, or leave the link out")]
    ZeroRate { from: String, to: String },
    #[error("node `{0}` is linked to itself")]
    SelfLoop(String),
    #[error("two nodes are called `{0}`")]
    DuplicateName(String),
    #[error("the topology is disconnected: `{unreachable}` cannot be reached from `{from}`")]
    Disconnected { from: String, unreachable: String },
    #[error(
        "{family}: {nodes} nodes and {cables} cables are too many (at most {} and {}); make it smaller",
        crate::families::MAX_NODES,
        crate::families::MAX_CABLES
    )]
    TooLarge {
        /// The builder or importer, such as `fat-tree`.
        family: &'static str,
        /// Number of hosts and switches; `u64::MAX` means "even more".
        nodes: u64,
        /// Number of cables; `u64::MAX` means "even more".
        cables: u64,
    },
    #[error("{family}: {parameter} = {value}: {reason}")]
    Parameter {
        /// The builder, such as `fat-tree`.
        family: &'static str,
        parameter: &'static str,
        value: String,
        reason: String,
    },
}

impl Topology {
    /// Returns the name given by the builder, such as `fat-tree:k=8`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Returns all nodes, by [`NodeIx`].
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
    /// Returns one node.
    pub fn node(&self, node: NodeIx) -> &Node {
        &self.nodes[node.ix()]
    }
    /// Returns all directed links, by [`LinkIx`]; the two directions of a cable are neighbours.
    pub fn links(&self) -> &[Link] {
        &self.links
    }
    /// Returns one directed link.
    pub fn link(&self, link: LinkIx) -> &Link {
        &self.links[link.ix()]
    }
    /// Returns the hosts, by [`HostIx`].
    pub fn hosts(&self) -> &[NodeIx] {
        &self.hosts
    }
    /// Returns the node of a host.
    pub fn host(&self, host: HostIx) -> NodeIx {
        self.hosts[host.ix()]
    }
    /// Sorts the links that leave each node by a key; links with equal keys keep their order. The
    /// numbers of nodes and links do not change.
    pub fn with_out_links_by<K: Ord>(mut self, key: impl Fn(LinkIx) -> K) -> Topology {
        for node in self.out_start.windows(2) {
            self.out_links[node[0] as usize..node[1] as usize].sort_by_key(|link| key(*link));
        }
        self
    }
    /// Returns the links leaving `node` in the order they were added, or of
    /// [`Topology::with_out_links_by`]. A port number is a position in this slice.
    pub fn out_links(&self, node: NodeIx) -> &[LinkIx] {
        let (start, end) = (self.out_start[node.ix()], self.out_start[node.ix() + 1]);
        &self.out_links[start as usize..end as usize]
    }
    /// Returns `from -> to`, or `from -> to #2` for the second of parallel links: the name in experiment
    /// files, messages and results.
    pub fn link_name(&self, link: LinkIx) -> String {
        let Link { from, to, .. } = *self.link(link);
        let name = format!("{} -> {}", self.node(from).name, self.node(to).name);
        let parallel = self.out_links(from).iter().filter(|other| self.link(**other).to == to);
        match parallel.take_while(|other| **other != link).count() {
            0 => name,
            earlier => format!("{name} #{}", earlier + 1),
        }
    }
    /// Returns the height of a cable: the tier of its upper end. Host links have tier 1.
    pub fn link_tier(&self, link: LinkIx) -> Tier {
        let link = self.link(link);
        self.node(link.from).tier.max(self.node(link.to).tier)
    }
    /// Returns whether the link leads away from the hosts.
    pub fn is_upward(&self, link: LinkIx) -> bool {
        let link = self.link(link);
        self.node(link.from).tier < self.node(link.to).tier
    }
    /// Returns whether a host is at either end.
    pub fn is_host_link(&self, link: LinkIx) -> bool {
        let link = self.link(link);
        self.node(link.from).kind == NodeKind::Host || self.node(link.to).kind == NodeKind::Host
    }
    /// Returns the highest tier of any node.
    pub fn top_tier(&self) -> Tier {
        self.nodes.iter().map(|node| node.tier).max().unwrap_or(Tier(0))
    }
    /// Returns the same graph with other rates or delays; `change` is called for every directed
    /// link. Panics if a rate becomes zero.
    pub fn with_links_changed(&self, change: impl FnMut(LinkIx, &mut Link)) -> Topology {
        let mut changed = self.clone();
        changed.change_links(change);
        changed
    }
    /// Changes rates or delays in place, as [`Topology::with_links_changed`].
    pub fn change_links(&mut self, mut change: impl FnMut(LinkIx, &mut Link)) {
        for (ix, link) in self.links.iter_mut().enumerate() {
            change(LinkIx(ix as u32), link);
            assert!(link.rate.as_bps() > 0, "a rate was changed to zero");
        }
    }
    /// Changes the name of a node.
    pub fn rename(&mut self, node: NodeIx, name: String) {
        self.nodes[node.ix()].name = name;
    }
    /// Changes the height of a node.
    pub fn set_tier(&mut self, node: NodeIx, tier: Tier) {
        self.nodes[node.ix()].tier = tier;
    }
    /// Adds nodes and cables, both directions one after the other, with the next numbers. The links
    /// that leave each node must be in the order of the key, and stay so
    /// ([`Topology::with_out_links_by`]). Panics if a cable has no rate or ends where it begins.
    pub fn extend<K: Ord>(
        &mut self,
        nodes: impl IntoIterator<Item = Node>,
        links: impl IntoIterator<Item = Link>,
        key: impl Fn(LinkIx) -> K,
    ) {
        let known = self.nodes.len();
        self.nodes.extend(nodes);
        let added = (known as u32..).map(NodeIx).zip(&self.nodes[known..]);
        self.hosts.extend(added.filter(|(_, node)| node.kind == NodeKind::Host).map(|(node, _)| node));
        let first = self.links.len();
        self.links.extend(links);
        let is_valid = |link: &Link| link.rate.as_bps() > 0 && link.from != link.to;
        assert!(self.links[first..].iter().all(is_valid), "a cable has no rate, or ends where it begins");
        let mut leaving: Vec<LinkIx> = (first as u32..self.links.len() as u32).map(LinkIx).collect();
        leaving.sort_by_key(|link| self.links[link.ix()].from);
        let mut leaving = leaving.into_iter().peekable();
        let (mut start, mut out) = (Vec::with_capacity(self.nodes.len() + 1), Vec::with_capacity(self.links.len()));
        for node in (0..self.nodes.len() as u32).map(NodeIx) {
            start.push(out.len() as u32);
            let begin = out.len();
            out.extend_from_slice(if node.ix() < known { self.out_links(node) } else { &[] });
            let sorted = out.len();
            out.extend(std::iter::from_fn(|| leaving.next_if(|link| self.links[link.ix()].from == node)));
            if out.len() > sorted {
                out[begin..].sort_by_key(|link| key(*link));
            }
        }
        start.push(out.len() as u32);
        (self.out_start, self.out_links) = (start, out);
    }
}

/// Collects nodes and cables, and checks the result.
#[derive(Clone, Debug)]
pub struct TopologyBuilder {
    name: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    hosts: Vec<NodeIx>,
}

impl TopologyBuilder {
    /// Starts an empty network.
    pub fn new(name: impl Into<String>) -> TopologyBuilder {
        TopologyBuilder { name: name.into(), nodes: Vec::new(), links: Vec::new(), hosts: Vec::new() }
    }
    /// Adds a node; hosts are numbered in the order they are added.
    pub fn add(&mut self, node: Node) -> NodeIx {
        let ix = NodeIx(self.nodes.len() as u32);
        if node.kind == NodeKind::Host {
            self.hosts.push(ix);
        }
        self.nodes.push(node);
        ix
    }
    /// Adds a host that does not forward.
    pub fn host(&mut self, name: impl Into<String>, rack: u32, pod: Option<u32>) -> NodeIx {
        self.add(Node {
            name: name.into(),
            kind: NodeKind::Host,
            tier: Tier(0),
            forwards: false,
            pod,
            rack: Some(rack),
        })
    }
    /// Adds a switch.
    pub fn switch(&mut self, name: impl Into<String>, tier: u8, pod: Option<u32>) -> NodeIx {
        let tier = Tier(tier);
        self.add(Node { name: name.into(), kind: NodeKind::Switch, tier, forwards: true, pod, rack: None })
    }
    /// Adds `count` hosts behind a switch, each with a link of this rate and delay. Their names are
    /// `h` and a number that counts on from rack to rack, if all racks have as many hosts.
    pub fn rack(&mut self, switch: NodeIx, rack: u32, pod: Option<u32>, count: u32, (rate, delay): (Bandwidth, Time)) {
        for number in rack * count..(rack + 1) * count {
            let host = self.host(format!("h{number}"), rack, pod);
            self.connect(host, switch, rate, delay);
        }
    }
    /// Adds a cable, alike in both directions. Returns the direction `a -> b`.
    pub fn connect(&mut self, a: NodeIx, b: NodeIx, rate: Bandwidth, delay: Time) -> LinkIx {
        self.connect_asymmetric(a, b, rate, rate, delay)
    }
    /// Adds a cable with a rate for each direction. Returns the direction `a -> b`.
    pub fn connect_asymmetric(&mut self, a: NodeIx, b: NodeIx, ab: Bandwidth, ba: Bandwidth, delay: Time) -> LinkIx {
        let ix = LinkIx(self.links.len() as u32);
        self.links.push(Link { from: a, to: b, rate: ab, delay });
        self.links.push(Link { from: b, to: a, rate: ba, delay });
        ix
    }
    /// Checks and builds the topology.
    ///
    /// # Errors
    /// No hosts, a zero rate, a self-loop, a repeated name, or a node that cannot be reached.
    pub fn build(self) -> Result<Topology, TopologyError> {
        if self.hosts.is_empty() {
            return Err(TopologyError::NoHosts(self.name));
        }
        let topology = self.build_partial()?;
        match topology.first_unreachable() {
            None => Ok(topology),
            Some((from, unreachable)) => Err(TopologyError::Disconnected {
                from: topology.node(from).name.clone(),
                unreachable: topology.node(unreachable).name.clone(),
            }),
        }
    }
    /// Builds a network that may lack hosts or reachable nodes, such as one under discovery.
    pub fn build_partial(self) -> Result<Topology, TopologyError> {
        let TopologyBuilder { name, nodes, links, hosts } = self;
        let mut names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(TopologyError::DuplicateName(pair[0].to_owned()));
        }
        for link in &links {
            let (from, to) = (&nodes[link.from.ix()].name, &nodes[link.to.ix()].name);
            if link.from == link.to {
                return Err(TopologyError::SelfLoop(from.clone()));
            }
            if link.rate.as_bps() == 0 {
                return Err(TopologyError::ZeroRate { from: from.clone(), to: to.clone() });
            }
        }
        let (out_start, out_links) = adjacency(nodes.len(), &links);
        Ok(Topology { name, nodes, links, hosts, out_start, out_links })
    }
}

impl Topology {
    /// Returns a host and a node it cannot reach. Hosts that do not forward are no transit, so a switch
    /// that joins only such hosts, as inside a server, is of use to these alone and need not be reached.
    fn first_unreachable(&self) -> Option<(NodeIx, NodeIx)> {
        let from = self.hosts[0];
        let mut seen = vec![false; self.nodes.len()];
        let mut queue = std::collections::VecDeque::from([from]);
        seen[from.ix()] = true;
        while let Some(node) = queue.pop_front() {
            if node != from && !self.node(node).forwards {
                continue;
            }
            for link in self.out_links(node) {
                let to = self.link(*link).to;
                if !seen[to.ix()] {
                    seen[to.ix()] = true;
                    queue.push_back(to);
                }
            }
        }
        let joins_reached_host = |node: NodeIx| {
            let mut neighbours = self.out_links(node).iter().map(|link| self.link(*link).to);
            neighbours.any(|host| self.node(host).kind == NodeKind::Host && seen[host.ix()])
        };
        let unreached = (0u32..).map(NodeIx).zip(&seen).filter(|(_, seen)| !**seen).map(|(node, _)| node);
        let mut missing =
            unreached.filter(|node| self.node(*node).kind == NodeKind::Host || !joins_reached_host(*node));
        missing.next().map(|node| (from, node))
    }
}

/// Returns the out-links of every node in compressed form; `start` has one entry more.
fn adjacency(node_count: usize, links: &[Link]) -> (Vec<u32>, Vec<LinkIx>) {
    let mut start = vec![0u32; node_count + 1];
    for link in links {
        start[link.from.ix() + 1] += 1;
    }
    for node in 0..node_count {
        start[node + 1] += start[node];
    }
    let mut next = start.clone();
    let mut out = vec![LinkIx(0); links.len()];
    for (ix, link) in links.iter().enumerate() {
        let slot = &mut next[link.from.ix()];
        out[*slot as usize] = LinkIx(ix as u32);
        *slot += 1;
    }
    (start, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_hosts() -> (TopologyBuilder, NodeIx, NodeIx, NodeIx) {
        let mut b = TopologyBuilder::new("test");
        let (h0, h1) = (b.host("h0", 0, None), b.host("h1", 0, None));
        let s = b.switch("s", 1, None);
        (b, h0, h1, s)
    }

    #[test]
    fn ports_are_in_the_order_of_cables() {
        let (mut b, h0, h1, s) = two_hosts();
        let up0 = b.connect(h0, s, Bandwidth::from_gbps(10), Time::from_us(1));
        let up1 = b.connect(h1, s, Bandwidth::from_gbps(10), Time::from_us(1));
        let t = b.build().unwrap();
        assert_eq!(t.out_links(s), &[up0.reverse(), up1.reverse()]);
        assert_eq!(t.out_links(h0), &[up0]);
        assert!(t.is_upward(up0) && !t.is_upward(up1.reverse()));
        assert_eq!(t.link_name(up1), "h1 -> s");
    }

    #[test]
    fn parallel_links_have_different_names() {
        let (mut b, h0, _, s) = two_hosts();
        let up = [(); 3].map(|()| b.connect(h0, s, Bandwidth::from_gbps(10), Time::from_us(1)));
        let t = b.build_partial().unwrap();
        assert_eq!(up.map(|link| t.link_name(link)), ["h0 -> s", "h0 -> s #2", "h0 -> s #3"]);
        assert_eq!(t.link_name(up[2].reverse()), "s -> h0 #3");
    }

    #[test]
    fn extended_topology_equals_one_built_at_once() {
        let key = |link: LinkIx| std::cmp::Reverse(link.0 / 2 % 3);
        let (mut b, h0, h1, s) = two_hosts();
        b.connect(h0, s, Bandwidth::from_gbps(10), Time::from_us(1));
        let mut grown = b.clone().build_partial().unwrap().with_out_links_by(key);
        let (h2, other) = (b.host("h2", 1, None), b.switch("t", 1, None));
        for (from, to) in [(h1, s), (s, other), (other, s), (h2, other), (other, s)] {
            b.connect(from, to, Bandwidth::from_gbps(10), Time::from_us(1));
        }
        let whole = b.build().unwrap().with_out_links_by(key);
        grown.extend(whole.nodes()[3..].to_vec(), whole.links()[2..].to_vec(), key);
        let links = |t: &Topology| (0..5).map(|node| t.out_links(NodeIx(node)).to_vec()).collect::<Vec<_>>();
        assert_eq!(links(&grown), links(&whole));
        assert_eq!((grown.hosts(), grown.links().len()), (whole.hosts(), whole.links().len()));
    }

    #[test]
    fn build_of_broken_network_fails() {
        let (mut b, h0, _, s) = two_hosts();
        b.connect(h0, s, Bandwidth::from_gbps(10), Time::ZERO);
        assert!(
            matches!(b.clone().build(), Err(TopologyError::Disconnected { unreachable, .. }) if unreachable == "h1")
        );
        b.connect(h0, h0, Bandwidth::from_gbps(10), Time::ZERO);
        assert!(matches!(b.build(), Err(TopologyError::SelfLoop(_))));
        let (mut b, h0, _, s) = two_hosts();
        b.connect(h0, s, Bandwidth::from_bps(0), Time::ZERO);
        assert!(matches!(b.build(), Err(TopologyError::ZeroRate { .. })));
        assert!(matches!(TopologyBuilder::new("empty").build(), Err(TopologyError::NoHosts(_))));
    }

    #[test]
    fn non_forwarding_host_is_no_transit() {
        let mut b = TopologyBuilder::new("dumbbell through a host");
        let (a, m, z) = (b.host("a", 0, None), b.host("m", 0, None), b.host("z", 0, None));
        b.connect(a, m, Bandwidth::from_gbps(1), Time::ZERO);
        b.connect(m, z, Bandwidth::from_gbps(1), Time::ZERO);
        assert!(matches!(b.build(), Err(TopologyError::Disconnected { .. })));
    }

    #[test]
    fn a_partial_network_may_be_in_pieces_but_not_wrong() {
        let empty = TopologyBuilder::new("nothing yet").build_partial().unwrap();
        assert_eq!((empty.nodes().len(), empty.top_tier()), (0, Tier(0)));
        let mut b = TopologyBuilder::new("two islands");
        let (a, z) = (b.host("a", 0, None), b.host("z", 0, None));
        let switch = b.switch("s", 1, None);
        b.connect(a, switch, Bandwidth::from_gbps(1), Time::ZERO);
        let t = b.clone().build_partial().unwrap();
        assert!(t.out_links(z).is_empty());
        let routes = crate::Routes::intact(&t);
        assert_eq!(routes.path_count(a, routes.class_of(HostIx(1))), 0);
        b.connect(z, z, Bandwidth::from_gbps(1), Time::ZERO);
        assert!(matches!(b.build_partial(), Err(TopologyError::SelfLoop(_))));
    }
}
