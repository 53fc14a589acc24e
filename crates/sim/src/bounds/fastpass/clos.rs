//! Paths in folded Clos networks of two or three tiers, by colouring each slot's matching.
//!
//! Leaf-spine: racks are the vertices, and a colour is the uplink of a rack that a packet takes, so
//! also a spine. Three tiers: the same within pods gives each packet its aggregation position. Then
//! the packets of each position are coloured over pods, which gives the core switch. Both steps
//! have at least as many colours as any vertex has edges, so both always succeed (König).

use net::{HostIx, LinkIx, NodeIx, NodeKind, Routes, Tier, Topology};

use super::colour::Colouring;
use super::paths::SlotPaths;
use crate::bounds::cuts::parts_below;

/// Links from one tier to the next, alike for all switches below.
#[derive(Clone)]
struct Stage {
    /// Packets that all uplinks of a switch carry per slot.
    colours: usize,
    /// Uplink of each lower switch for each colour.
    up: Vec<u32>,
    /// Upper switch of each colour, by its position.
    top_of: Vec<usize>,
}

impl Stage {
    /// Returns the stage if the lower switches have equal links of whole multiples of `unit` bit/s.
    fn between(topology: &Topology, rates: &[u64], lower: &[NodeIx], upper: &[NodeIx], unit: u64) -> Option<Stage> {
        let to = |from: NodeIx, to: NodeIx| -> Vec<LinkIx> {
            topology.out_links(from).iter().copied().filter(|link| topology.link(*link).to == to).collect()
        };
        let parallel = to(*lower.first()?, *upper.first()?).len();
        let rate = to(lower[0], upper[0]).first().map(|link| rates[link.ix()])?;
        let is_like = |link: &LinkIx| rates[link.ix()] == rate && rates[link.reverse().ix()] == rate;
        if rate == 0 || !rate.is_multiple_of(unit) {
            return None;
        }
        let places = parallel * (rate / unit) as usize;
        let colours = places * upper.len();
        let mut up = Vec::with_capacity(lower.len() * colours);
        for switch in lower {
            let links: Vec<Vec<LinkIx>> = upper.iter().map(|top| to(*switch, *top)).collect();
            let is_host = |link: &&LinkIx| topology.node(topology.link(**link).to).kind == NodeKind::Host;
            let higher = topology.node(*switch).tier;
            let others = topology.out_links(*switch).iter().filter(|link| !is_host(link));
            let upward = others.filter(|link| topology.node(topology.link(**link).to).tier > higher).count();
            let is_alike = links.iter().all(|links| links.len() == parallel && links.iter().all(is_like));
            if !is_alike || upward != parallel * upper.len() {
                return None;
            }
            // Neighbouring colours lead to different switches, to spread slots with few packets.
            up.extend((0..colours).map(|colour| links[colour % upper.len()][colour / upper.len() % parallel].0));
        }
        Some(Stage { colours, up, top_of: (0..colours).map(|colour| colour % upper.len()).collect() })
    }

    fn up(&self, switch: usize, colour: usize) -> u32 {
        self.up[switch * self.colours + colour]
    }
}

/// The upper tiers of a three-tier network, by position of the aggregation switch in its pod.
struct Top {
    stage: Stage,
    colouring: Colouring,
}

#[derive(Clone, Copy)]
struct Grant {
    src: HostIx,
    dst: HostIx,
    /// Its edge in the colouring of racks, and in that of pods.
    edge: Option<u32>,
    top_edge: Option<u32>,
}

/// A network in which any matching of hosts has paths that share no link's slot.
pub(crate) struct Clos {
    rack_of: Vec<usize>,
    pod_of: Vec<usize>,
    up_link: Vec<u32>,
    lower: Stage,
    colouring: Colouring,
    tops: Vec<Top>,
    /// Slot in which a host last sent, last received; packets out of and into each rack now.
    host_slot: Vec<[u64; 2]>,
    rack_load: Vec<[u32; 2]>,
    grants: Vec<Grant>,
    pub(super) paths: SlotPaths,
    slot_number: u64,
    slot: u64,
    now: u64,
}

impl Clos {
    pub(crate) fn new(
        topology: &Topology,
        routes: &Routes,
        rates: &[u64],
        packet_ps: &[u64],
        slot: u64,
    ) -> Option<Clos> {
        let hosts = (0..topology.hosts().len() as u32).map(HostIx);
        let down: Vec<LinkIx> = hosts.clone().map(|host| routes.last_link(host)).collect::<Option<_>>()?;
        let unit = rates[down.first()?.ix()];
        let is_unit = |link: &LinkIx| packet_ps[link.ix()] == slot && rates[link.ix()] == unit;
        if !down.iter().all(|link| is_unit(link) && is_unit(&link.reverse())) {
            return None;
        }
        let racks: Vec<NodeIx> =
            (0..routes.class_count() as u32).map(|c| routes.class_node(net::routes::ClassIx(c))).collect();
        if racks.iter().any(|rack| topology.node(*rack).tier != Tier(1)) {
            return None;
        }
        let (lower, pod_of, tops) = match topology.top_tier().0 {
            1 if racks.len() == 1 => (Stage { colours: 1, up: vec![0], top_of: vec![0] }, vec![0], Vec::new()),
            2 => {
                let spines = of_tier(topology, (0..topology.nodes().len() as u32).map(NodeIx), 2);
                let stage = Stage::between(topology, rates, &racks, &spines, unit)?;
                (stage, vec![0; racks.len()], Vec::new())
            }
            3 => three_tiers(topology, rates, &racks, unit)?,
            _ => return None,
        };
        Some(Clos {
            rack_of: hosts.map(|host| routes.class_of(host).0 as usize).collect(),
            colouring: Colouring::new(racks.len(), lower.colours),
            pod_of,
            up_link: down.iter().map(|link| link.reverse().0).collect(),
            lower,
            tops,
            host_slot: vec![[0; 2]; down.len()],
            rack_load: vec![[0; 2]; racks.len()],
            grants: Vec::new(),
            paths: SlotPaths::default(),
            slot_number: 0,
            slot,
            now: 0,
        })
    }

    pub(crate) fn begin_slot(&mut self, now: u64) {
        self.now = now;
        self.slot_number += 1;
        self.rack_load.fill([0; 2]);
        self.grants.clear();
    }

    pub(crate) fn admit(&mut self, src: HostIx, dst: HostIx) -> bool {
        if self.host_slot[src.ix()][0] == self.slot_number || self.host_slot[dst.ix()][1] == self.slot_number {
            return false;
        }
        let (from, to) = (self.rack_of[src.ix()], self.rack_of[dst.ix()]);
        if from != to {
            let max_colours = self.lower.colours as u32;
            if self.rack_load[from][0] == max_colours || self.rack_load[to][1] == max_colours {
                return false;
            }
            self.rack_load[from][0] += 1;
            self.rack_load[to][1] += 1;
        }
        self.host_slot[src.ix()][0] = self.slot_number;
        self.host_slot[dst.ix()][1] = self.slot_number;
        self.grants.push(Grant { src, dst, edge: None, top_edge: None });
        true
    }

    pub(crate) fn assign(&mut self) {
        self.colour_racks();
        self.colour_pods();
        self.paths.clear();
        for grant in &self.grants {
            let (from, to) = (self.rack_of[grant.src.ix()], self.rack_of[grant.dst.ix()]);
            self.paths.links.push(self.up_link[grant.src.ix()]);
            if let Some(edge) = grant.edge {
                let colour = self.colouring.edges[edge as usize].2 as usize;
                self.paths.links.push(self.lower.up(from, colour));
                if let Some(edge) = grant.top_edge {
                    let top = &self.tops[self.lower.top_of[colour]];
                    let core = top.colouring.edges[edge as usize].2 as usize;
                    self.paths.links.push(top.stage.up(self.pod_of[from], core));
                    self.paths.links.push(top.stage.up(self.pod_of[to], core) ^ 1);
                }
                self.paths.links.push(self.lower.up(to, colour) ^ 1);
            }
            self.paths.links.push(self.up_link[grant.dst.ix()] ^ 1);
            self.paths.end_path();
        }
    }

    fn colour_racks(&mut self) {
        self.colouring.clear();
        // Another colour comes first in every slot, so that light traffic uses all of them.
        let first = (self.slot_number % self.lower.colours as u64) as usize;
        for grant in &mut self.grants {
            let (from, to) = (self.rack_of[grant.src.ix()], self.rack_of[grant.dst.ix()]);
            if from != to {
                grant.edge = Some(self.colouring.edges.len() as u32);
                let is_placed = self.colouring.add(from, to, first);
                assert!(is_placed, "no rack has more packets than colours");
            }
        }
    }

    fn colour_pods(&mut self) {
        self.tops.iter_mut().for_each(|top| top.colouring.clear());
        for grant in &mut self.grants {
            let Some(edge) = grant.edge else { continue };
            let rack_pod = |host: HostIx| self.pod_of[self.rack_of[host.ix()]];
            let (from, to) = (rack_pod(grant.src), rack_pod(grant.dst));
            if from != to {
                let top = &mut self.tops[self.lower.top_of[self.colouring.edges[edge as usize].2 as usize]];
                let first = (self.slot_number % top.stage.colours as u64) as usize;
                grant.top_edge = Some(top.colouring.edges.len() as u32);
                let is_placed = top.colouring.add(from, to, first);
                assert!(is_placed, "no pod has more packets of a position than colours");
            }
        }
    }

    pub(crate) fn next_slot(&self) -> u64 {
        self.now.saturating_add(self.slot)
    }
}

fn of_tier(topology: &Topology, nodes: impl Iterator<Item = NodeIx>, tier: u8) -> Vec<NodeIx> {
    let is_of =
        |node: &NodeIx| topology.node(*node).tier == Tier(tier) && topology.node(*node).kind == NodeKind::Switch;
    nodes.filter(is_of).collect()
}

/// Lower stage, pod of each rack, upper stages by position.
type Tiers = (Stage, Vec<usize>, Vec<Top>);

/// Returns the stages of a fat-tree-like network: pods alike inside, aggregation switches of one
/// position on the same cores, and no position narrower above than below.
fn three_tiers(topology: &Topology, rates: &[u64], racks: &[NodeIx], unit: u64) -> Option<Tiers> {
    let has_rack = |part: &Vec<NodeIx>| part.iter().any(|node| racks.contains(node));
    let pods: Vec<Vec<NodeIx>> = parts_below(topology, Tier(2)).into_iter().filter(has_rack).collect();
    let mut pod_of = vec![usize::MAX; racks.len()];
    let mut lower: Option<Stage> = None;
    let mut up = vec![Vec::new(); racks.len()];
    let mut positions: Vec<Vec<NodeIx>> = Vec::new();
    let mut cores: Vec<Vec<NodeIx>> = Vec::new();
    let mut widest_pod = 0;
    for (pod, nodes) in pods.iter().enumerate() {
        let own: Vec<usize> = (0..racks.len()).filter(|rack| nodes.contains(&racks[*rack])).collect();
        let mut aggs: Vec<(Vec<NodeIx>, NodeIx)> =
            of_tier(topology, nodes.iter().copied(), 2).into_iter().map(|agg| (above(topology, agg), agg)).collect();
        aggs.sort();
        let (their_cores, aggs): (Vec<_>, Vec<_>) = aggs.into_iter().unzip();
        let bottoms: Vec<NodeIx> = own.iter().map(|rack| racks[*rack]).collect();
        let stage = Stage::between(topology, rates, &bottoms, &aggs, unit)?;
        if pod == 0 {
            (cores, positions) = (their_cores, vec![Vec::new(); aggs.len()]);
        } else if cores != their_cores || lower.as_ref().is_some_and(|first| first.colours != stage.colours) {
            return None;
        }
        positions.iter_mut().zip(&aggs).for_each(|(position, agg)| position.push(*agg));
        for (at, rack) in own.iter().enumerate() {
            pod_of[*rack] = pod;
            up[*rack] = stage.up[at * stage.colours..(at + 1) * stage.colours].to_vec();
        }
        widest_pod = widest_pod.max(own.len());
        lower.get_or_insert(stage);
    }
    let lower = Stage { up: up.concat(), ..lower? };
    let per_position = widest_pod * lower.colours / positions.len().max(1);
    let top = |(position, cores): (&Vec<NodeIx>, &Vec<NodeIx>)| {
        let stage = Stage::between(topology, rates, position, cores, unit)?;
        let colouring = Colouring::new(position.len(), stage.colours);
        (stage.colours >= per_position).then_some(Top { stage, colouring })
    };
    let tops: Option<Vec<Top>> = positions.iter().zip(&cores).map(top).collect();
    Some((lower, pod_of, tops?))
}

fn above(topology: &Topology, node: NodeIx) -> Vec<NodeIx> {
    let tier = topology.node(node).tier;
    let mut above: Vec<NodeIx> = topology.out_links(node).iter().map(|link| topology.link(*link).to).collect();
    above.retain(|node| topology.node(*node).tier > tier);
    above.sort_unstable();
    above.dedup();
    above
}
