//! GLB: global load balancing, adaptive routing that also knows the links behind the next hop
//! (mechanisms-2.md P32; Juniper and Broadcom; SGLB of ByteDance, SIGCOMM 2025, is of this kind).
//!
//! Every switch samples the quality of its ports as ARS does, and sends the values to the neighbours that
//! have a choice to make: at once when a value changes at a sample, and every `flood` without a change.
//! A switch combines the quality of each port with that of the neighbour's ports that lead on to the
//! destination, of which the neighbour will use the best. The packets, flowlets or flows of ARS then
//! choose by the result. A next hop all of whose ports to the destination are down is no candidate.
//!
//! Readings: public texts say that the qualities are "combined"; the default is the lower one. Values
//! older than `hold` are ignored. With `flood=1000s` and values that never change it is ARS.
//!
//! All switches that see the same best next hop choose it until the next values arrive; bands and the
//! random choice among equals are the only damping that is published.
//!
//! - Helps: where congestion or a failed link lies two hops away: a spine with a slow or lost cable.
//! - Hurts: further away than two hops it sees nothing; many switches can rush to the same port.

use net::routes::ClassIx;
use net::{LinkIx, NodeIx, Routes, Time};

use crate::dataplane::common::adaptive::{self, AdaptiveGroup, AdaptiveRule};
use crate::dataplane::common::port_quality::{self, DOWN, PortQualities};
use crate::dataplane::common::{distinct, links_to_forwarders};
use crate::dataplane::{Cx, Needs, NeighbourMessage, NextHops, PacketView, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("glb", "GLB")
    .summary(
        "Sends each flowlet to a next hop that is good together with the links behind it, as neighbours report them.",
    )
    .source("P32; Juniper GLB; SGLB, SIGCOMM 2025")
    .granularity(Granularity::Flowlet)
    .senses("load and queues of local ports, and of the ports of next hops, by messages")
    .params(&[
        adaptive::MODE,
        adaptive::IDLE,
        adaptive::MAX_FLOWS,
        port_quality::INTERVAL,
        port_quality::EXPONENT,
        port_quality::LOAD_WEIGHT,
        port_quality::QUEUE_WEIGHT,
        port_quality::QUEUE_RANGE,
        adaptive::DELTA,
        adaptive::PROBABILITY,
        Param::scaled("flood", "0.2rtt").doc("Time between two messages to a neighbour if no quality changes."),
        Param::scaled("hold", "1.6rtt").doc("Age from which the qualities of a neighbour are ignored."),
        Param::choice("combine", &["min", "mean"], "min")
            .doc("Combination of the quality of a port and of the best of the ports behind it."),
    ])
    .example("glb:mode=packet-quality")
    .needs(|scale, params| Needs { messages: true, ..adaptive::needs(scale, params) })
    .switch(|env, params| Box::new(Glb::new(env, params)));

/// Bytes of a message on the wire: the smallest Ethernet frame.
const MESSAGE_BYTES: u16 = 64;
/// Qualities in a message: four bits each, after eight for the number of the message.
const PER_MESSAGE: usize = 30;

struct Glb {
    rule: AdaptiveRule,
    qualities: PortQualities,
    takes_mean: bool,
    flood: Time,
    hold: Time,
    /// Ports to nodes that forward, in port order: messages have their qualities in this order.
    ports: Vec<Port>,
    /// Qualities of the last messages sent, and their time.
    sent: Vec<i8>,
    sent_at: Option<Time>,
    /// Profile of each destination class.
    profile_of: Vec<u32>,
    profiles: Vec<Profile>,
}

/// A port and the neighbour behind it.
struct Port {
    link: LinkIx,
    /// Number of the port in `qualities`.
    slot: u16,
    /// Whether the neighbour may choose between this switch and others.
    wants_messages: bool,
    /// Qualities of the ports of the neighbour, and the time of its last message.
    remote: Vec<i8>,
    heard: Option<Time>,
}

/// Destinations with the same next hops, and the same ports behind each.
#[derive(Default)]
struct Profile {
    /// Ports in `ports`, each with those of the neighbour that lead on; none if the neighbour is the last
    /// switch.
    beyond: Vec<(u16, Vec<u16>)>,
    /// The members of `group`, and the position of each in `beyond` if it is there.
    links: Vec<LinkIx>,
    positions: Vec<Option<u16>>,
    group: AdaptiveGroup,
}

/// Returns whether `neighbour` has a class for which it chooses between `link`, which leads to this
/// switch, and others.
fn may_choose(routes: &Routes, neighbour: NodeIx, link: LinkIx, this: NodeIx) -> bool {
    (0..routes.class_count() as u32).map(ClassIx).any(|class| {
        let next_hops = routes.next_hops(neighbour, class);
        next_hops.len() > 1 && next_hops.contains(&link) && routes.class_node(class) != this
    })
}

impl Glb {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> Glb {
        let SwitchEnv { topology, routes, switch, .. } = *env;
        let mut qualities = PortQualities::new(env, params);
        let ports: Vec<Port> = links_to_forwarders(topology, switch)
            .map(|link| {
                let neighbour = topology.link(link).to;
                Port {
                    link,
                    slot: qualities.slot(link),
                    wants_messages: may_choose(routes, neighbour, link.reverse(), switch),
                    remote: vec![DOWN; links_to_forwarders(topology, neighbour).count()],
                    heard: None,
                }
            })
            .collect();
        let classes = (0..env.class_count as u32).map(ClassIx);
        let (profile_of, beyond) = distinct(classes.map(|class| beyond(env, &ports, class)));
        Glb {
            rule: AdaptiveRule::new(&env.scale, params),
            qualities,
            takes_mean: params.text("combine") == "mean",
            flood: params.scaled("flood", &env.scale),
            hold: params.scaled("hold", &env.scale),
            sent: Vec::new(),
            sent_at: None,
            ports,
            profile_of,
            profiles: beyond.into_iter().map(|beyond| Profile { beyond, ..Profile::default() }).collect(),
        }
    }

    /// Samples all ports, and sends their qualities if they are due.
    fn report(&mut self, cx: &mut Cx<'_>) {
        let Glb { qualities, ports, sent, .. } = self;
        let mut has_changed = false;
        sent.resize(ports.len(), DOWN);
        for (port, sent) in ports.iter().zip(sent) {
            let quality = qualities.quality(cx, port.slot);
            has_changed |= std::mem::replace(sent, quality) != quality;
        }
        let is_due = self.sent_at.is_none_or(|at| cx.now.saturating_sub(at) >= self.flood);
        if !has_changed && !is_due {
            return;
        }
        self.sent_at = Some(cx.now);
        for port in self.ports.iter().filter(|port| port.wants_messages && cx.ports.is_up(port.link)) {
            for (number, part) in (0..).zip(self.sent.chunks(PER_MESSAGE)) {
                let message = NeighbourMessage { link: port.link, words: pack(number, part), bytes: MESSAGE_BYTES };
                cx.send_to_neighbour(message);
            }
        }
    }
}

/// Returns the next hops for a class with the ports behind them.
fn beyond(env: &SwitchEnv<'_>, ports: &[Port], class: ClassIx) -> Vec<(u16, Vec<u16>)> {
    let next_hops = env.routes.next_hops(env.switch, class);
    let position = |link: &LinkIx| ports.iter().position(|port| port.link == *link);
    let continuations = |link: LinkIx| {
        let neighbour = env.topology.link(link).to;
        let after = env.routes.next_hops(neighbour, class);
        (0u16..)
            .zip(links_to_forwarders(env.topology, neighbour))
            .filter(|(_, port)| after.contains(port))
            .map(|(at, _)| at)
    };
    let of = |link: &LinkIx| position(link).map(|at| (at as u16, continuations(*link).collect()));
    next_hops.iter().filter_map(of).collect()
}

/// Returns the words of message `number` with the qualities of a part of the ports.
fn pack(number: u8, qualities: &[i8]) -> [u64; 2] {
    let bits = (0..).zip(qualities).fold(u128::from(number), |bits, (at, quality)| {
        // 0 is a port that is down.
        bits | ((quality + 1) as u128 & 0xf) << (8 + 4 * at)
    });
    [bits as u64, (bits >> 64) as u64]
}

/// Returns the position of the first port in the message, and the qualities in it.
fn unpack(words: [u64; 2]) -> (usize, impl Iterator<Item = i8>) {
    let bits = u128::from(words[0]) | u128::from(words[1]) << 64;
    let qualities = (0..PER_MESSAGE).map(move |at| (bits >> (8 + 4 * at) & 0xf) as i8 - 1);
    ((bits & 0xff) as usize * PER_MESSAGE, qualities)
}

impl SwitchBalancer for Glb {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let Glb { rule, qualities, ports, profiles, hold, takes_mean, .. } = self;
        let profile = &mut profiles[self.profile_of[packet.to.0 as usize] as usize];
        if profile.links != members.links {
            profile.take_members(members.links, ports);
        }
        let Profile { beyond, links, positions, group } = profile;
        if group.is_stale(cx.now) {
            let until = qualities.next_change(cx.now);
            let quality = |(link, position): (&LinkIx, &Option<u16>)| {
                let Some((port, continuations)) = position.map(|at| &beyond[usize::from(at)]) else {
                    // After a failure a path may lead elsewhere: nothing is known beyond the port.
                    let slot = qualities.slot(*link);
                    return qualities.quality(cx, slot);
                };
                let port = &ports[usize::from(*port)];
                let local = qualities.quality(cx, port.slot);
                let is_known = port.heard.is_some_and(|at| cx.now.saturating_sub(at) <= *hold);
                let remote = continuations.iter().filter_map(|at| port.remote.get(usize::from(*at))).max();
                match remote.filter(|_| is_known) {
                    Some(remote) if *takes_mean && local != DOWN && *remote != DOWN => (local + *remote) / 2,
                    Some(remote) => local.min(*remote),
                    None => local,
                }
            };
            group.set(until, links.iter().zip(&*positions).map(quality));
        }
        rule.choose(cx, packet, members.links, group)
    }

    fn foresee(&self, packet: &PacketView, members: NextHops<'_>) -> Option<usize> {
        let profile = self.profile_of[packet.to.0 as usize] as usize;
        self.profiles[profile].group.foresee(packet, members.links)
    }

    fn on_start(&mut self, cx: &mut Cx<'_>) {
        if self.ports.iter().any(|port| port.wants_messages) {
            cx.set_timer(self.qualities.next_change(cx.now), 0);
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.report(cx);
        cx.set_timer(self.qualities.next_change(cx.now), 0);
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, message: &NeighbourMessage) {
        let Some(port) = self.ports.iter_mut().find(|port| port.link == message.link.reverse()) else { return };
        let (first, qualities) = unpack(message.words);
        let mut has_changed = port.heard.is_none();
        for (known, quality) in port.remote.iter_mut().skip(first).zip(qualities) {
            has_changed |= std::mem::replace(known, quality) != quality;
        }
        port.heard = Some(cx.now);
        if has_changed {
            self.profiles.iter_mut().for_each(|profile| profile.group.invalidate());
        }
    }
}

impl Profile {
    /// Takes the next hops of the destinations, which failures change.
    fn take_members(&mut self, links: &[LinkIx], ports: &[Port]) {
        links.clone_into(&mut self.links);
        let position = |link: &LinkIx| {
            let at = self.beyond.iter().position(|(port, _)| ports[usize::from(*port)].link == *link);
            at.map(|at| at as u16)
        };
        self.positions = links.iter().map(position).collect();
        self.group.invalidate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    /// Samples every 20 us; messages at every change, and every 100 us.
    const SPEC: &str = "glb:interval=20us,flood=100us,hold=400us,exponent=0,load_weight=0,queue_range=80us";
    const FAMILY: &str = "leaf-spine:leaves=4,spines=4,hosts_per_leaf=4";

    fn to(flow: u32, class: u32) -> PacketView {
        PacketView { to: ClassIx(class), ..packet(flow) }
    }

    /// Delivers the qualities of a spine's ports to leaf 0, in the order of the leaves.
    fn told(bench: &mut Bench, spine: usize, qualities: [i8; 4]) {
        let link = bench.links[spine].reverse();
        bench.message(&NeighbourMessage { link, words: pack(0, &qualities), bytes: 64 });
    }

    fn used(bench: &mut Bench, class: u32, flows: std::ops::Range<u32>) -> [bool; 4] {
        bench.port_hits(flows.map(|flow| to(flow, class))).map(|hits: u32| hits > 0)
    }

    #[test]
    fn qualities_fit_a_message() {
        let qualities: Vec<i8> = (0..30).map(|at| at % 9 - 1).collect();
        let (first, unpacked) = unpack(pack(3, &qualities));
        assert_eq!((first, unpacked.collect::<Vec<_>>()), (90, qualities));
    }

    #[test]
    fn a_link_behind_the_next_hop_counts_for_its_destination_only() {
        let mut bench = Bench::switch_on(SPEC, FAMILY, "leaf0", 1);
        for spine in 0..4 {
            told(&mut bench, spine, [7; 4]);
        }
        told(&mut bench, 2, [7, 3, 7, 7]);
        assert_eq!(used(&mut bench, 1, 0..100), [true, true, false, true]);
        assert_eq!(used(&mut bench, 2, 100..200), [true; 4]);
        // If all others are worse, it is the best.
        for spine in [0, 1, 3] {
            told(&mut bench, spine, [7, 2, 7, 7]);
        }
        bench.wait(Time::from_us(60));
        assert_eq!(used(&mut bench, 1, 200..300), [false, false, true, false]);
    }

    #[test]
    fn a_spine_without_its_link_to_the_destination_is_left_at_once() {
        let mut bench = Bench::switch_on(&format!("{SPEC},idle=1s"), FAMILY, "leaf0", 1);
        (0..4).for_each(|spine| told(&mut bench, spine, [7; 4]));
        let before: Vec<usize> = (0..50).map(|flow| bench.choose(&to(flow, 1))).collect();
        told(&mut bench, 1, [7, DOWN, 7, 7]);
        for (flow, before) in (0..50).zip(before) {
            let after = bench.choose(&to(flow, 1));
            assert!(if before == 1 { after != 1 } else { after == before }, "flow {flow} moves only if it must");
        }
    }

    #[test]
    fn old_qualities_are_ignored() {
        let mut bench = Bench::switch_on(SPEC, FAMILY, "leaf0", 1);
        told(&mut bench, 2, [7, 0, 7, 7]);
        assert_eq!(used(&mut bench, 1, 0..100), [true, true, false, true]);
        bench.wait(Time::from_us(420));
        assert_eq!(used(&mut bench, 1, 100..200), [true; 4]);
    }

    #[test]
    fn the_mean_weighs_both() {
        let mut bench = Bench::switch_on(&format!("{SPEC},combine=mean"), FAMILY, "leaf0", 1);
        // Local 7, 5, 7, 7 and remote 1, 5, 3, 0: means 4, 5, 5, 3.
        bench.ports.delay.insert(bench.links[1].0, Time::from_us(25));
        for (spine, quality) in [1, 5, 3, 0].into_iter().enumerate() {
            told(&mut bench, spine, [7, quality, 7, 7]);
        }
        assert_eq!(used(&mut bench, 1, 0..100), [false, true, true, false]);
    }

    #[test]
    fn spines_report_changes_at_once_and_otherwise_now_and_then() {
        let mut bench = Bench::switch_on(SPEC, FAMILY, "spine1", 0);
        let mut sent = Vec::new();
        for step in 0..12 {
            bench.timers_until(Time::from_us(20 * (step + 1)));
            sent.push(std::mem::take(&mut bench.commands.messages));
            if step == 2 {
                let to_leaf_3 = bench.topology().out_links(bench.node).to_vec()[3];
                bench.ports.delay.insert(to_leaf_3.0, Time::from_us(40));
            }
        }
        let counts: Vec<usize> = sent.iter().map(Vec::len).collect();
        // One message to each leaf: at the first sample, at the change, and every 100 us.
        assert_eq!(counts, [4, 0, 0, 4, 0, 0, 0, 0, 4, 0, 0, 0]);
        let (_, qualities) = unpack(sent[3][0].words);
        assert_eq!(qualities.take(4).collect::<Vec<_>>(), [7, 7, 7, 3]);
    }

    #[test]
    fn leaves_report_nothing_to_spines_which_have_no_choice() {
        let mut bench = Bench::switch_on(SPEC, FAMILY, "leaf0", 1);
        bench.timers_until(Time::from_ms(1));
        assert!(bench.commands.messages.is_empty());
    }
}
