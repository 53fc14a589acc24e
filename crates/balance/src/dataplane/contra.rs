//! Contra with the policy `minimize((len, util))`: of the shortest paths, each flowlet takes the
//! one whose busiest link is least utilised; probes find it in networks of any shape
//! (mechanisms-2.md P39; Hsu et al., NSDI 2020).
//!
//! Every edge switch sends probes over all its links to switches, every `probe_interval`, each
//! round with a new version. A probe carries the metric of the way to its edge so far: the number
//! of links and the largest utilisation. A switch adds the link on which it would answer. For each
//! edge it keeps the best metric, compared by length first, and the link. It accepts a probe of the
//! same version if the metric is better, and one of a newer version even if the utilisation is
//! higher, since the old one is out of date. It passes an accepted probe on over all other links.
//! Flowlets take the best next hop at their start.
//!
//! This is HULA without a tree: HULA passes probes up and down by the tiers of switches, so that
//! they go nowhere among routers of one tier. Here the length takes the place of the tiers. In a
//! tree both find the same paths.
//!
//! Readings, and where the policy makes parts of Contra idle:
//! - A longer way is never better under this policy while a shorter one exists, and switches here
//!   forward on shortest paths of routing alone. No packet can then go against the policy, however
//!   old the tables are, and none can loop. Contra watches the range of TTLs of a flowlet to break
//!   loops; that has nothing to do here and is not built.
//! - Contra compiles a policy to tags, which packets carry from switch to switch, and keeps one
//!   entry per edge and tag. A policy without patterns for paths has a single tag: flowlets carry
//!   none.
//! - The first probe of a new version may have come by a longer way. It would replace a shorter
//!   entry for a moment, so it is accepted only once that entry is older than `age`.
//! - An old entry has no effect: flowlets take any next hop at random. A probe has the size of
//!   HULA's, and so have the intervals and the estimators.
//!
//! - Helps: in dragonflies, tori and irregular networks, where links of shortest paths are
//!   unequally used.
//! - Hurts: where shortest paths are few and full, since it takes no detours; probes flood all
//!   links.

use net::routes::ClassIx;
use net::{LinkIx, Time};

use super::hula::{self, PROBE_BYTES};
use crate::dataplane::common::flowlets::{self, Flowlets};
use crate::dataplane::common::{links_to_forwarders, random_port};
use crate::dataplane::{Cx, Needs, NeighbourMessage, NextHops, PacketView, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("contra", "Contra")
    .summary("Sends each flowlet to the next hop of the least utilised shortest path, by probes in any network.")
    .source("P39; NSDI 2020")
    .granularity(Granularity::Flowlet)
    .senses("length and utilisation of paths, by probes from switch to switch")
    .params(&[
        Param::scaled("gap", "1.25rtt").doc("Idle time that ends a flowlet; the value of HULA."),
        flowlets::MODE,
        flowlets::ENTRIES,
        hula::PROBE_INTERVAL,
        hula::AGE,
    ])
    .needs(|scale, params| Needs { sensing: Some(hula::sensing(scale, params)), messages: true, ..Needs::default() })
    .switch(|env, params| Box::new(Contra::new(env, params)));

struct Contra {
    flowlets: Flowlets<u32>,
    probe_interval: Time,
    age: Time,
    /// Class of this switch, if it is the last one for hosts.
    own: Option<ClassIx>,
    /// Version of the last probes of this switch.
    version: u32,
    /// Links to nodes that forward.
    links: Vec<LinkIx>,
    /// The best known path to each class of hosts, by class.
    best: Vec<Best>,
}

/// The metric of a path, which is compared by the policy.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
struct Metric {
    links: u16,
    utilisation: f32,
}

/// The best known path to a class.
#[derive(Clone, Copy, Debug)]
struct Best {
    link: LinkIx,
    version: u32,
    metric: Metric,
    /// Time of the probe; `None` before the first.
    heard: Option<Time>,
}

/// The content of a message: version, class and metric of a probe.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Probe {
    class: u32,
    version: u32,
    metric: Metric,
}

impl Probe {
    fn words(self) -> [u64; 2] {
        let metric = u64::from(self.metric.links) << 32 | u64::from(self.metric.utilisation.to_bits());
        [u64::from(self.version) << 32 | u64::from(self.class), metric]
    }

    fn read([origin, metric]: [u64; 2]) -> Probe {
        let metric = Metric { links: (metric >> 32) as u16, utilisation: f32::from_bits(metric as u32) };
        Probe { class: origin as u32, version: (origin >> 32) as u32, metric }
    }
}

impl Best {
    fn is_fresh(&self, now: Time, age: Time) -> bool {
        self.heard.is_some_and(|at| now.saturating_sub(at) <= age)
    }

    /// Returns whether a probe replaces this entry.
    fn yields_to(&self, probe: &Probe, is_fresh: bool) -> bool {
        // Versions wrap; half of them are newer.
        let newer = probe.version.wrapping_sub(self.version) as i32;
        match is_fresh {
            true if newer > 0 => probe.metric.links <= self.metric.links,
            true => newer == 0 && probe.metric < self.metric,
            false => self.heard.is_none() || newer >= 0,
        }
    }
}

impl Contra {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> Contra {
        Contra {
            flowlets: Flowlets::from_params(params, &env.scale),
            probe_interval: hula::probe_interval(&env.scale, params),
            age: params.scaled(hula::AGE.name, &env.scale),
            own: env.routes.class_at(env.switch),
            version: 0,
            links: links_to_forwarders(env.topology, env.switch).collect(),
            best: vec![Best { link: LinkIx(0), version: 0, metric: Metric::default(), heard: None }; env.class_count],
        }
    }

    /// Sends a probe over all links but one.
    fn send(&self, cx: &mut Cx<'_>, probe: Probe, except: Option<LinkIx>) {
        for link in self.links.iter().copied().filter(|link| Some(*link) != except) {
            if cx.ports.is_up(link) {
                cx.send_to_neighbour(NeighbourMessage { link, words: probe.words(), bytes: PROBE_BYTES });
            }
        }
    }
}

impl SwitchBalancer for Contra {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let best = self.best[packet.to.0 as usize];
        self.flowlets.position(cx.now, packet, members.links, || {
            let is_fresh = best.is_fresh(cx.now, self.age);
            let position = members.links.iter().position(|link| is_fresh && *link == best.link);
            position.unwrap_or_else(|| random_port(cx.rng, members.links))
        })
    }

    fn on_start(&mut self, cx: &mut Cx<'_>) {
        if self.own.is_some() {
            hula::set_first_timer(cx, self.probe_interval);
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, _: u64) {
        let Some(own) = self.own else { return };
        self.version = self.version.wrapping_add(1);
        self.send(cx, Probe { class: own.0, version: self.version, metric: Metric::default() }, None);
        cx.set_timer(cx.now.saturating_add(self.probe_interval), 0);
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, message: &NeighbourMessage) {
        let link = message.link.reverse();
        let mut probe = Probe::read(message.words);
        let is_own = self.own.is_some_and(|own| own.0 == probe.class);
        if is_own || probe.class as usize >= self.best.len() || !self.links.contains(&link) {
            return;
        }
        probe.metric.links = probe.metric.links.saturating_add(1);
        probe.metric.utilisation = probe.metric.utilisation.max(cx.ports.utilisation(link) as f32);
        let best = &mut self.best[probe.class as usize];
        if best.yields_to(&probe, best.is_fresh(cx.now, self.age)) {
            *best = Best { link, version: probe.version, metric: probe.metric, heard: Some(cx.now) };
            self.send(cx, probe, Some(link));
        }
    }
}

#[cfg(test)]
mod tests {
    use net::{NodeIx, NodeKind, RandomStream, Routes, Topology};

    use super::*;
    use crate::dataplane::Commands;
    use crate::dataplane::testing::{Bench, Ports, SCALE, packet};
    use crate::registry::Spec;

    const SPEC: &str = "contra:gap=0s,gap_mode=exact,probe_interval=200us,age=600us";
    const FAMILIES: [&str; 5] = [
        "fat-tree:k=4",
        "dragonfly:p=2,a=4,h=2",
        "flattened-butterfly:k=3,n=3",
        "geni-wan",
        "leaf-spine:leaves=3,spines=3,hosts_per_leaf=1,parallel=2",
    ];

    /// All switches of a network, with messages in flight.
    struct Network {
        topology: Topology,
        routes: Routes,
        switches: Vec<(NodeIx, Contra)>,
        ports: Ports,
        flying: Vec<NeighbourMessage>,
        rng: RandomStream,
        now: Time,
    }

    impl Network {
        fn new(family: &str, seed: u64) -> Network {
            let topology = net::spec::parse(family).unwrap();
            let routes = Routes::intact(&topology);
            let params = Spec::parse(SPEC).unwrap().params;
            let nodes = (0..topology.nodes().len() as u32).map(NodeIx);
            let make = |switch: NodeIx| {
                let (name, tier) = (&*topology.node(switch).name, topology.node(switch).tier);
                let (class_count, topology, routes) = (routes.class_count(), &topology, &routes);
                let env = SwitchEnv { seed: 1, switch, name, tier, class_count, topology, routes, scale: SCALE };
                (switch, Contra::new(&env, &params))
            };
            let switches = nodes.filter(|node| topology.node(*node).kind == NodeKind::Switch).map(make).collect();
            let rng = RandomStream::new(seed, "network");
            Network { switches, ports: Ports::default(), flying: Vec::new(), rng, now: Time::ZERO, topology, routes }
        }
        fn draw_utilisations(&mut self) {
            for link in 0..self.topology.links().len() as u32 {
                self.ports.utilisation.insert(link, self.rng.next_below(1000) as f64 / 1000.0);
            }
        }
        fn call<T>(&mut self, at: usize, f: impl FnOnce(&mut Contra, &mut Cx<'_>) -> T) -> T {
            let mut commands = Commands::default();
            let Network { rng, ports, now, .. } = self;
            let mut cx = Cx { now: *now, rng, ports: &*ports, commands: &mut commands };
            let result = f(&mut self.switches[at].1, &mut cx);
            self.flying.append(&mut commands.messages);
            result
        }
        /// Lets every edge send its probes, with a new version.
        fn probe(&mut self) {
            (0..self.switches.len()).for_each(|at| self.call(at, |switch, cx| switch.on_timer(cx, 0)));
        }
        /// Delivers this number of messages, drawn from those in flight and those that they cause;
        /// each is lost with probability `loss`. The others stay in flight.
        fn deliver(&mut self, messages: usize, loss: f64) {
            for _ in 0..messages {
                if self.flying.is_empty() {
                    return;
                }
                let nth = self.rng.next_below(self.flying.len() as u64) as usize;
                let message = self.flying.swap_remove(nth);
                let to = self.topology.link(message.link).to;
                if let Some(at) = self.switches.iter().position(|(node, _)| *node == to)
                    && self.rng.next_f64() >= loss
                {
                    self.call(at, |switch, cx| switch.on_message(cx, &message));
                }
            }
        }
        /// The minimum of the largest utilisations of the shortest paths, by a list of all paths.
        fn least(&self, from: NodeIx, class: ClassIx) -> f32 {
            let used = |path: u32| {
                let links = self.routes.path(&self.topology, from, class, path);
                links.iter().map(|link| self.ports.utilisation[&link.0] as f32).fold(0.0, f32::max)
            };
            (0..self.routes.path_count(from, class)).map(used).fold(f32::INFINITY, f32::min)
        }
        fn classes(&self) -> impl Iterator<Item = ClassIx> + use<> {
            (0..self.routes.class_count() as u32).map(ClassIx)
        }
    }

    #[test]
    fn fresh_probes_in_any_order_find_the_least_utilised_shortest_path() {
        for (family, seed) in FAMILIES.into_iter().flat_map(|family| [1, 2, 3].map(|seed| (family, seed))) {
            let mut network = Network::new(family, seed);
            for _ in 0..2 {
                network.draw_utilisations();
                network.probe();
                network.deliver(usize::MAX, 0.0);
                for at in 0..network.switches.len() {
                    for class in
                        network.classes().filter(|class| network.routes.class_node(*class) != network.switches[at].0)
                    {
                        let (node, switch) = &network.switches[at];
                        let best = switch.best[class.0 as usize];
                        let length = network.routes.distance(*node, class);
                        assert_eq!(Some(best.metric.links), length, "{family}: shorter or longer than the shortest");
                        assert_eq!(best.metric.utilisation, network.least(*node, class), "{family}");
                        assert!(network.routes.next_hops(*node, class).contains(&best.link), "{family}");
                    }
                }
            }
        }
    }

    #[test]
    fn stale_tables_send_no_packet_against_the_policy_or_in_a_loop() {
        for (family, seed) in FAMILIES.into_iter().zip(1..) {
            let mut network = Network::new(family, seed);
            for round in 0..12 {
                network.draw_utilisations();
                network.probe();
                network.deliver(200 * round, 0.3);
                network.now += Time::from_us(150);
                let (count, classes) = (network.switches.len(), network.classes().collect::<Vec<_>>());
                for (from, class) in (0..count).flat_map(|at| classes.iter().map(move |class| (at, *class))) {
                    let (mut at, mut walked) = (network.switches[from].0, 0);
                    let shortest = network.routes.distance(at, class).unwrap();
                    while at != network.routes.class_node(class) {
                        let links = network.routes.next_hops(at, class).to_vec();
                        let switch = network.switches.iter().position(|(node, _)| *node == at).unwrap();
                        let packet = PacketView { to: class, ..packet(1) };
                        let members = NextHops { links: &links, weights: &[] };
                        let choice = network.call(switch, |switch, cx| switch.choose(cx, &packet, members));
                        at = network.topology.link(links[choice]).to;
                        walked += 1;
                        assert!(walked <= shortest, "{family}: longer than the shortest path");
                    }
                }
                // A fresh entry is never shorter than possible, so nothing lures packets into a circle.
                for (node, switch) in &network.switches {
                    for class in network.classes() {
                        let best = switch.best[class.0 as usize];
                        let is_known = best.heard.is_some();
                        assert!(!is_known || Some(best.metric.links) >= network.routes.distance(*node, class));
                    }
                }
            }
        }
    }

    #[test]
    fn a_longer_way_counts_only_when_the_shorter_is_old() {
        let mut bench = Bench::switch_on(SPEC, "leaf-spine:leaves=4,spines=4,hosts_per_leaf=4", "leaf0", 1);
        let links = bench.links.clone();
        let probe = |bench: &mut Bench, nth: usize, version, links_before, utilisation| {
            let metric = Metric { links: links_before, utilisation };
            let words = Probe { class: 1, version, metric }.words();
            bench.message(&NeighbourMessage { link: links[nth].reverse(), words, bytes: 64 });
            std::mem::take(&mut bench.commands.messages).len()
        };
        assert_eq!(probe(&mut bench, 3, 1, 1, 0.75), 3, "to the three other spines");
        assert_eq!(probe(&mut bench, 2, 1, 1, 0.5), 3);
        assert_eq!(probe(&mut bench, 1, 1, 3, 0.0), 0, "longer, though idle");
        assert_eq!(probe(&mut bench, 0, 0, 1, 0.0), 0, "an older version");
        assert!((0..50).all(|flow| bench.choose(&packet(flow)) == 2));
        assert_eq!(probe(&mut bench, 1, 2, 3, 0.0), 0, "a newer version of a longer way");
        assert_eq!(probe(&mut bench, 0, 2, 1, 0.9), 3, "a newer version, though more utilised");
        assert!((50..99).all(|flow| bench.choose(&packet(flow)) == 0));
        bench.wait(Time::from_us(601));
        let hits: [u32; 4] = bench.port_hits((100..300).map(packet));
        assert!(hits.iter().all(|hits| *hits > 20), "too old: {hits:?}");
        assert_eq!(probe(&mut bench, 1, 3, 3, 0.0), 3, "the longer way replaces it");
        assert!((300..350).all(|flow| bench.choose(&packet(flow)) == 1));
    }

    #[test]
    fn edges_probe_with_a_new_version_each_time_and_ignore_their_own_probes() {
        let mut bench = Bench::switch_on(SPEC, "leaf-spine:leaves=4,spines=4,hosts_per_leaf=4", "leaf2", 1);
        bench.timers_until(Time::from_us(999));
        let probes: Vec<Probe> = bench.commands.messages.drain(..).map(|message| Probe::read(message.words)).collect();
        let versions: Vec<u32> = probes.iter().step_by(4).map(|probe| probe.version).collect();
        assert_eq!((probes.len(), versions), (20, vec![1, 2, 3, 4, 5]));
        assert!(probes.iter().all(|probe| (probe.class, probe.metric) == (2, Metric::default())));
        let link = bench.links[0].reverse();
        for class in [2, 4, u32::MAX] {
            let words = Probe { class, version: 9, metric: Metric { links: u16::MAX, utilisation: f32::NAN } }.words();
            bench.message(&NeighbourMessage { link, words, bytes: 64 });
        }
        assert!(bench.commands.messages.is_empty());
    }
}
