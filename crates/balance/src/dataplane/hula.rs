//! HULA: switches pass probes hop by hop and keep, for each destination, only the best next hop
//! (mechanisms-2.md P38; Katta et al., SOSR 2016).
//!
//! Every edge switch sends probes over all its links to switches, every `probe_interval`. A probe names the
//! edge and the largest utilisation on the way to it so far. A switch that receives one adds the
//! utilisation of the link back to the neighbour. It keeps a result that is lower than the one it knows,
//! or comes from the best next hop itself, or replaces an old one. It then passes the probe on: from
//! below to all other switches, from above only down. Flowlets take the best next hop at their start.
//!
//! Only next hops on shortest paths count. An entry older than `age` has no effect, so that a failed link
//! is left after that time; flowlets then take any next hop at random.
//!
//! The published intervals are 200 us for probes and 100 us for flowlets, at a base RTT of about 80 us.
//!
//! - Helps: under asymmetry in fabrics of any depth, with a state of one row per destination.
//! - Hurts: all flowlets follow the same best next hop for one interval; without gaps nothing moves.

use net::routes::ClassIx;
use net::{LinkIx, Time};

use crate::dataplane::common::flowlets::{self, Flowlets};
use crate::dataplane::common::{links_to_forwarders, random_port};
use crate::dataplane::{Cx, Needs, NeighbourMessage, NextHops, PacketView, Scale, Sensing, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("hula", "HULA")
    .summary("Sends each flowlet to the next hop of the least utilised path, which probes between switches find.")
    .source("P38; SOSR 2016")
    .granularity(Granularity::Flowlet)
    .senses("utilisation of links, by probes from switch to switch")
    .params(&[GAP, flowlets::MODE, flowlets::ENTRIES, PROBE_INTERVAL, AGE])
    .needs(|scale, params| Needs { sensing: Some(sensing(scale, params)), messages: true, ..Needs::default() })
    .switch(|env, params| Box::new(Hula::new(env, params)));

/// Idle time between two flowlets of a flow.
pub(super) const GAP: Param = Param::scaled("gap", "1.25rtt")
    .doc("Idle time that ends a flowlet; published: 100us (here at a base RTT of 80 us).");

/// Interval of the probes of an edge.
pub(super) const PROBE_INTERVAL: Param =
    Param::scaled("probe_interval", "2.5rtt").doc("Time between two probes of an edge; published: 200us.");

/// Time after which the result of a probe no longer counts.
pub(super) const AGE: Param =
    Param::scaled("age", "7.5rtt").doc("Age from which an entry is ignored; published: three probe intervals.");

/// Bytes of a probe on the wire: the smallest Ethernet frame.
pub(super) const PROBE_BYTES: u16 = 64;

/// Returns the estimators: the published time constant is two probe intervals.
pub(super) fn sensing(scale: &Scale, params: &Params) -> Sensing {
    const STEPS: u64 = 8;
    let time_constant = 2 * probe_interval(scale, params).as_ps();
    Sensing { interval: Time::from_ps((time_constant / STEPS).max(1000)), decay: 1.0 / STEPS as f64, bits: 0 }
}

/// Returns the time between two probes of an edge, at least a nanosecond.
pub(super) fn probe_interval(scale: &Scale, params: &Params) -> Time {
    params.scaled("probe_interval", scale).max(Time::from_ns(1))
}

/// Sets the timer of the first probes of an edge: edges do not probe at the same instants.
pub(super) fn set_first_timer(cx: &mut Cx<'_>, interval: Time) {
    let phase = cx.rng.next_below(interval.as_ps());
    cx.set_timer(cx.now.saturating_add(Time::from_ps(phase)), 0);
}

struct Hula {
    flowlets: Flowlets<u32>,
    probing: Probing,
    age: Time,
    best: Vec<Best>,
}

/// The best next hop for a class.
#[derive(Clone, Copy)]
struct Best {
    link: LinkIx,
    utilisation: f64,
    /// Time of the last probe from it; `None` before the first.
    heard: Option<Time>,
}

/// The probes of a switch: those that it begins as an edge, and those that it reads and passes on.
pub(super) struct Probing {
    interval: Time,
    /// Class of this switch, if it is the last one for hosts.
    own: Option<ClassIx>,
    ports: Vec<Port>,
    /// Whether a port, by its position in `ports`, is on a shortest path to a class: bits in rows of
    /// `words_per_class`.
    is_next_hop: Vec<u64>,
    words_per_class: usize,
    class_count: usize,
}

/// A link to a node that forwards.
struct Port {
    link: LinkIx,
    leads_up: bool,
    leads_down: bool,
}

/// A probe that has arrived over a next hop of its class.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    pub(super) class: usize,
    /// The link towards the neighbour that sent it.
    pub(super) link: LinkIx,
    /// Largest utilisation on the way to the class over that link, the link included.
    pub(super) utilisation: f64,
    comes_from_above: bool,
}

impl Probing {
    pub(super) fn new(env: &SwitchEnv<'_>, params: &Params) -> Probing {
        let SwitchEnv { topology, routes, switch, class_count, .. } = *env;
        let here = topology.node(switch).tier;
        let port = |link: LinkIx| {
            let there = topology.node(topology.link(link).to).tier;
            Port { link, leads_up: there > here, leads_down: there < here }
        };
        let ports: Vec<Port> = links_to_forwarders(topology, switch).map(port).collect();
        let words_per_class = ports.len().div_ceil(64).max(1);
        let mut is_next_hop = vec![0; words_per_class * class_count];
        for class in 0..class_count {
            let next_hops = routes.next_hops(switch, ClassIx(class as u32));
            for (at, _) in ports.iter().enumerate().filter(|(_, port)| next_hops.contains(&port.link)) {
                is_next_hop[class * words_per_class + at / 64] |= 1 << (at % 64);
            }
        }
        let (interval, own) = (probe_interval(&env.scale, params), routes.class_at(switch));
        Probing { interval, own, ports, is_next_hop, words_per_class, class_count }
    }

    fn is_next_hop(&self, class: usize, port: usize) -> bool {
        self.is_next_hop[class * self.words_per_class + port / 64] >> (port % 64) & 1 == 1
    }

    fn send(cx: &mut Cx<'_>, link: LinkIx, class: u64, utilisation: f64) {
        if cx.ports.is_up(link) {
            cx.send_to_neighbour(NeighbourMessage { link, words: [class, utilisation.to_bits()], bytes: PROBE_BYTES });
        }
    }

    /// Sets the timer of the first probes of an edge.
    pub(super) fn start(&self, cx: &mut Cx<'_>) {
        if self.own.is_some() {
            set_first_timer(cx, self.interval);
        }
    }

    /// Sends the probes of an edge over all its links to switches, and sets the next timer.
    pub(super) fn probe(&self, cx: &mut Cx<'_>) {
        let Some(own) = self.own else { return };
        for port in &self.ports {
            Probing::send(cx, port.link, u64::from(own.0), 0.0);
        }
        cx.set_timer(cx.now.saturating_add(self.interval), 0);
    }

    /// Reads a message; `None` unless it is a probe that came over a next hop of its class.
    pub(super) fn read(&self, cx: &Cx<'_>, message: &NeighbourMessage) -> Option<Probe> {
        let link = message.link.reverse();
        let at = self.ports.iter().position(|port| port.link == link)?;
        let [class, bits] = message.words;
        if class >= self.class_count as u64 || !self.is_next_hop(class as usize, at) {
            return None;
        }
        let utilisation = f64::from_bits(bits).max(cx.ports.utilisation(link));
        Some(Probe { class: class as usize, link, utilisation, comes_from_above: self.ports[at].leads_up })
    }

    /// Passes a probe on: from below to all other switches, from above only down.
    pub(super) fn pass_on(&self, cx: &mut Cx<'_>, probe: &Probe) {
        for port in &self.ports {
            if port.link != probe.link && (port.leads_down || port.leads_up && !probe.comes_from_above) {
                Probing::send(cx, port.link, probe.class as u64, probe.utilisation);
            }
        }
    }
}

impl Hula {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> Hula {
        Hula {
            flowlets: Flowlets::from_params(params, &env.scale),
            probing: Probing::new(env, params),
            age: params.scaled("age", &env.scale),
            best: vec![Best { link: LinkIx(0), utilisation: 0.0, heard: None }; env.class_count],
        }
    }
}

impl SwitchBalancer for Hula {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let best = self.best[packet.to.0 as usize];
        self.flowlets.position(cx.now, packet, members.links, || {
            let is_fresh = best.heard.is_some_and(|at| cx.now.saturating_sub(at) <= self.age);
            let position = members.links.iter().position(|link| is_fresh && *link == best.link);
            position.unwrap_or_else(|| random_port(cx.rng, members.links))
        })
    }

    fn on_start(&mut self, cx: &mut Cx<'_>) {
        self.probing.start(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.probing.probe(cx);
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, message: &NeighbourMessage) {
        let Some(probe) = self.probing.read(cx, message) else { return };
        let best = &mut self.best[probe.class];
        let is_old = best.heard.is_none_or(|heard| cx.now.saturating_sub(heard) > self.age);
        if probe.utilisation >= best.utilisation && probe.link != best.link && !is_old {
            return;
        }
        *best = Best { link: probe.link, utilisation: probe.utilisation, heard: Some(cx.now) };
        self.probing.pass_on(cx, &probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    const SPEC: &str = "hula:gap=100us,gap_mode=exact,probe_interval=200us,age=600us";
    const FAMILY: &str = "leaf-spine:leaves=4,spines=4,hosts_per_leaf=4";

    fn probe(bench: &mut Bench, link: LinkIx, class: u64, utilisation: f64) {
        let words = [class, utilisation.to_bits()];
        bench.message(&NeighbourMessage { link: link.reverse(), words, bytes: 64 });
    }

    #[test]
    fn flowlets_follow_the_least_of_the_largest_utilisations() {
        let mut bench = Bench::switch_on(SPEC, FAMILY, "leaf0", 1);
        let links = bench.links.clone();
        // Own links 0.5, 0, 0, 0; beyond them 0.1, 0.4, 0.3, 0.6.
        bench.ports.utilisation.insert(links[0].0, 0.5);
        for (link, utilisation) in links.iter().zip([0.1, 0.4, 0.3, 0.6]) {
            probe(&mut bench, *link, 1, utilisation);
        }
        assert!((0..50).all(|flow| bench.choose(&packet(flow)) == 2));
        // The best next hop itself reports a worse value: it is kept until another is better.
        probe(&mut bench, links[2], 1, 0.45);
        assert!((50..99).all(|flow| bench.choose(&packet(flow)) == 2));
        probe(&mut bench, links[1], 1, 0.4);
        assert!((100..150).all(|flow| bench.choose(&packet(flow)) == 1));
        assert_eq!(bench.choose(&packet(0)), 2, "the flowlet goes on");
        bench.wait(Time::from_us(101));
        assert_eq!(bench.choose(&packet(0)), 1);
    }

    #[test]
    fn without_fresh_probes_any_next_hop_is_taken() {
        let mut bench = Bench::switch_on(SPEC, FAMILY, "leaf0", 1);
        let links = bench.links.clone();
        probe(&mut bench, links[3], 1, 0.2);
        assert!((0..50).all(|flow| bench.choose(&packet(flow)) == 3));
        bench.wait(Time::from_us(601));
        let hits: [u32; 4] = bench.port_hits((100..300).map(packet));
        assert!(hits.iter().all(|hits| *hits > 20), "{hits:?}");
        // An old entry is replaced by a worse one.
        probe(&mut bench, links[0], 1, 0.9);
        assert!((300..350).all(|flow| bench.choose(&packet(flow)) == 0));
    }

    #[test]
    fn edges_probe_all_their_uplinks() {
        let mut bench = Bench::switch_on(SPEC, FAMILY, "leaf2", 1);
        bench.timers_until(Time::from_us(1999));
        let probes = std::mem::take(&mut bench.commands.messages);
        assert_eq!(probes.len(), 40, "four uplinks, ten intervals");
        assert!(probes.iter().all(|probe| probe.words == [2, 0]));
    }

    #[test]
    fn probes_go_on_up_and_down_from_below_and_only_down_from_above() {
        let mut bench = Bench::switch_on(SPEC, "fat-tree:k=4", "pod0/agg0", 7);
        let out = bench.topology().out_links(bench.node).to_vec();
        let names = |bench: &mut Bench| -> Vec<String> {
            let sent = std::mem::take(&mut bench.commands.messages);
            let to = |message: &NeighbourMessage| bench.topology().link(message.link).to;
            let mut names: Vec<String> = sent.iter().map(|m| bench.topology().node(to(m)).name.clone()).collect();
            names.sort();
            names
        };
        let leads_to = |bench: &Bench, name: &str| {
            let is = |link: &&LinkIx| bench.topology().node(bench.topology().link(**link).to).name == name;
            out.iter().find(is).copied().unwrap()
        };
        let below = leads_to(&bench, "pod0/edge0");
        probe(&mut bench, below, 0, 0.25);
        assert_eq!(names(&mut bench), ["core0", "core1", "pod0/edge1"]);
        let above = leads_to(&bench, "core1");
        probe(&mut bench, above, 7, 0.25);
        assert_eq!(names(&mut bench), ["pod0/edge0", "pod0/edge1"]);
        // A worse value from elsewhere stops here, and so does one that is not on a shortest path.
        let other = leads_to(&bench, "core0");
        probe(&mut bench, other, 7, 0.5);
        probe(&mut bench, above, 1, 0.0);
        assert!(names(&mut bench).is_empty());
    }
}
