//! Adaptive routing at a switch: flows, flowlets or packets take a next hop of the best quality
//! (mechanisms-2.md P31).

use net::{LinkIx, Time};

use super::port_quality::{DOWN, load_sensing};
use crate::dataplane::{Cx, Needs, PacketView, Receiving, Scale};
use crate::hash::{mix, reduce};
use crate::params::{Param, Params};

/// Whether packets, flowlets or flows choose, and by which rule.
pub const MODE: Param = Param::choice(
    "mode",
    &["flowlet-quality", "flowlet-random", "packet-quality", "packet-random", "fixed"],
    "flowlet-quality",
)
.doc("Which packets choose, and how: a next hop of the best quality, or any that is up. With `fixed` a flow keeps its first.");
/// Idle time of an entry of the table that ends its flowlet.
pub const IDLE: Param =
    Param::scaled("idle", "0.5rtt").doc("Idle time that ends a flowlet; published default: 256us, at any RTT.");
/// Entries of the table of flows, for each group of next hops.
pub const MAX_FLOWS: Param =
    Param::count("max_flows", 1..=1 << 20, "512").doc("Entries of the table of flows of each group; flows share them.");
/// Difference of qualities that moves an active flowlet; 0 for none.
pub const DELTA: Param = Param::count("quality_delta", 0..=7, "0")
    .doc("Difference to the best quality at which a packet within a flowlet moves it; 0: never.");
/// Probability that a packet makes such a move, 0 to 1.
pub const PROBABILITY: Param =
    Param::number("move_probability", 0.0..=1.0, "1").doc("Probability of such a move, for each packet.");

/// Returns the estimators of the load, and what the units of decision require of receivers.
pub fn needs(scale: &Scale, params: &Params) -> Needs {
    let is_by_packet = params.text(MODE.name).starts_with("packet");
    let receiving = if is_by_packet { Receiving::Resequenced } else { Receiving::Usual };
    Needs { sensing: Some(load_sensing(scale, params)), receiving, ..Needs::default() }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Packet,
    Flowlet,
    Flow,
}

/// The parameters of a switch, the same for all its groups.
pub struct AdaptiveRule {
    unit: Unit,
    is_by_quality: bool,
    idle_ps: u64,
    max_flows: usize,
    delta: i8,
    probability: f64,
}

/// A group of next hops: the choice of this interval, and the table of flows.
#[derive(Default)]
pub struct AdaptiveGroup {
    qualities: Vec<i8>,
    best: i8,
    /// Whether no member is down.
    are_all_up: bool,
    /// Positions of the members of the best quality, and of those that are up.
    best_members: Vec<u16>,
    up_members: Vec<u16>,
    valid_until: Time,
    flows: Vec<MacroFlow>,
}

/// An entry of a table of flows: all flows that hash to it.
#[derive(Clone, Copy, Default)]
struct MacroFlow {
    /// Time of the last packet plus 1; 0 before the first.
    last_ps: u64,
    link: u32,
    /// Position of `link` among the members at that packet.
    position: u16,
}

impl MacroFlow {
    /// Returns the position of its link.
    fn position(&self, links: &[LinkIx]) -> Option<usize> {
        let last = usize::from(self.position);
        let is_at = |link: &LinkIx| link.0 == self.link;
        if links.get(last).is_some_and(is_at) { Some(last) } else { links.iter().position(is_at) }
    }
}

impl AdaptiveGroup {
    /// Returns whether the qualities must be set before a choice.
    pub fn is_stale(&self, now: Time) -> bool {
        now >= self.valid_until
    }

    /// Lets the next choice find the group stale.
    pub fn invalidate(&mut self) {
        self.valid_until = Time::ZERO;
    }

    /// Sets the quality of each member, in order, until a time.
    pub fn set(&mut self, until: Time, qualities: impl Iterator<Item = i8>) {
        self.qualities.clear();
        self.qualities.extend(qualities);
        self.best = self.qualities.iter().copied().max().unwrap_or(DOWN);
        self.are_all_up = !self.qualities.contains(&DOWN);
        self.best_members.clear();
        self.up_members.clear();
        for (at, quality) in (0u16..).zip(&self.qualities) {
            if *quality == self.best {
                self.best_members.push(at);
            }
            // If all are down, routing will know soon; until then any is as good.
            if *quality != DOWN || self.best == DOWN {
                self.up_members.push(at);
            }
        }
        self.valid_until = until;
    }

    /// Returns the position of the entry of a packet in `flows`, which must not be empty.
    fn index(&self, packet: &PacketView) -> usize {
        // Mixed once more: switches on the path may have spread packets by the same hash.
        reduce(mix(packet.hash ^ 0x6d61_6372_6f66_6c6f), self.flows.len())
    }

    /// Returns the next hop of a packet that does not start a flowlet, for
    /// [`SwitchBalancer::foresee`](crate::dataplane::SwitchBalancer::foresee).
    pub fn foresee(&self, packet: &PacketView, links: &[LinkIx]) -> Option<usize> {
        if self.flows.is_empty() { None } else { self.flows[self.index(packet)].position(links) }
    }
}

impl AdaptiveRule {
    pub fn new(scale: &Scale, params: &Params) -> AdaptiveRule {
        let mode = params.text(MODE.name);
        AdaptiveRule {
            unit: match mode {
                "packet-quality" | "packet-random" => Unit::Packet,
                "fixed" => Unit::Flow,
                _ => Unit::Flowlet,
            },
            is_by_quality: !mode.ends_with("random"),
            idle_ps: params.scaled(IDLE.name, scale).as_ps(),
            max_flows: params.count(MAX_FLOWS.name) as usize,
            delta: params.count(DELTA.name) as i8,
            probability: params.number(PROBABILITY.name),
        }
    }

    #[inline]
    /// Returns the position of the next hop of a packet. The qualities of the group must be up to date.
    pub fn choose(&self, cx: &mut Cx<'_>, packet: &PacketView, links: &[LinkIx], group: &mut AdaptiveGroup) -> usize {
        if self.unit == Unit::Packet {
            return self.draw(cx, group);
        }
        if group.flows.is_empty() {
            group.flows.resize(self.max_flows, MacroFlow::default());
        }
        let index = group.index(packet);
        let entry = group.flows[index];
        let is_ongoing =
            entry.last_ps > 0 && (self.unit == Unit::Flow || cx.now.as_ps() - (entry.last_ps - 1) <= self.idle_ps);
        let current = if is_ongoing { entry.position(links) } else { None };
        let stays = current.filter(|member| self.stays(cx, group, *member));
        let member = stays.unwrap_or_else(|| self.draw(cx, group));
        group.flows[index] = MacroFlow { last_ps: cx.now.as_ps() + 1, link: links[member].0, position: member as u16 };
        member
    }

    #[inline]
    fn stays(&self, cx: &mut Cx<'_>, group: &AdaptiveGroup, member: usize) -> bool {
        if group.are_all_up && self.delta == 0 {
            return true;
        }
        let quality = group.qualities[member];
        if quality == DOWN && group.best != DOWN {
            return false;
        }
        let is_worse = self.unit == Unit::Flowlet && self.delta > 0 && group.best - quality >= self.delta;
        !is_worse || cx.rng.next_f64() >= self.probability
    }

    fn draw(&self, cx: &mut Cx<'_>, group: &AdaptiveGroup) -> usize {
        let members = if self.is_by_quality { &group.best_members } else { &group.up_members };
        usize::from(members[cx.rng.next_below(members.len() as u64) as usize])
    }
}
