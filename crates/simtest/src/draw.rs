//! A storm from a seed. Every part has its own random stream, so that a change of one leaves the others as they were.

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use balance::registry::CENTRAL;
use net::{Bandwidth, FiveTuple, HostIx, NodeIx, NodeKind, Stream, Time, Topology, TopologyBuilder};
use openflow::PortNo;

use crate::plan::{Action, Cable, ControlTraits, CutKind, End, Plan, SwitchTraits, What, Wiring};

/// Draws the storm of a seed.
pub fn draw(seed: u64) -> Plan {
    let topology = topology(&mut Stream::new(seed, "storm.network"));
    let wiring = wiring(&topology, &mut Stream::new(seed, "storm.wiring"));
    let mut control = control(&mut Stream::new(seed, "storm.control"));
    // No port has more than one host: the tightest limit there is leaves room for all.
    control.hosts_per_port = 1 + Stream::new(seed, "storm.room").below(2) as usize;
    let switches = switches(wiring.ports.len(), &mut Stream::new(seed, "storm.switches"));
    let mut rng = Stream::new(seed, "storm.plan");
    let calm_at = between(&mut rng, Time::from_s(15), Time::from_s(50));
    let mut plan = Plan {
        seed,
        balancer: balancer(&mut Stream::new(seed, "storm.balancer")),
        notice: between(&mut rng, Time::from_us(10), Time::from_ms(50)),
        agent_latency: between(&mut rng, Time::from_ms(1), Time::from_ms(100)),
        announce_interval: between(&mut rng, Time::from_ms(1_500), Time::from_s(4)),
        wiring,
        control,
        switches,
        calm_at,
        services: Vec::new(),
        connections_max: usize::MAX,
        actions: Vec::new(),
    };
    let clients = crate::draw_services::draw(&mut plan);
    plan.actions = flows(&plan, &mut Stream::new(seed, "storm.flows"));
    let faults = Faults::new(&plan, Stream::new(seed, "storm.faults")).draw();
    plan.actions.extend(faults);
    plan.actions.extend(clients);
    for (number, action) in (0..).zip(&mut plan.actions) {
        action.number = number;
    }
    plan
}

pub(crate) fn between(rng: &mut Stream, least: Time, most: Time) -> Time {
    round(least + Time::from_ps(rng.below(most.as_ps() - least.as_ps())))
}
/// To three or four digits: plans are read by people.
fn round(time: Time) -> Time {
    let mut unit = 1;
    while time.as_ps() / unit >= 10_000 {
        unit *= 10;
    }
    Time::from_ps(time.as_ps() / unit * unit)
}
/// As [`between`], but every order of magnitude is as likely as another.
pub(crate) fn magnitude(rng: &mut Stream, least: Time, most: Time) -> Time {
    let (least, most) = (least.as_ps() as f64, most.as_ps() as f64);
    round(Time::from_ps((least * libm::pow(most / least, rng.unit())) as u64))
}
pub(crate) fn chance(rng: &mut Stream, percent: u64) -> bool {
    rng.below(100) < percent
}
pub(crate) fn pick<'a, T>(rng: &mut Stream, items: &'a [T]) -> &'a T {
    &items[rng.below(items.len() as u64) as usize]
}

fn topology(rng: &mut Stream) -> Topology {
    let drawn = |text: &str| net::spec::parse(text).expect("the specifications drawn here are valid");
    match rng.below(12) {
        0 => drawn("fat-tree:k=4"),
        1 => drawn("fat-tree:k=4,hosts_per_edge=1"),
        2..=4 => {
            let (leaves, spines, hosts) = (2 + rng.below(4), 1 + rng.below(4), 1 + rng.below(3));
            let parallel = 1 + rng.below(2);
            drawn(&format!("leaf-spine:leaves={leaves},spines={spines},hosts_per_leaf={hosts},parallel={parallel}"))
        }
        5 => drawn("diamond:form=migration"),
        6 => drawn("diamond:form=two-paths"),
        7 | 8 => ring(3 + rng.below(5), rng),
        _ => mesh(4 + rng.below(6), rng),
    }
}

fn with_switches(name: &str, count: u64, rng: &mut Stream) -> (TopologyBuilder, Vec<NodeIx>) {
    let mut builder = TopologyBuilder::new(name);
    let switches: Vec<NodeIx> = (0..count).map(|n| builder.switch(format!("s{n}"), 1, None)).collect();
    for (rack, switch) in (0..).zip(&switches) {
        let hosts = if rack < 2 { 1 + rng.below(2) } else { rng.below(3) };
        for n in 0..hosts {
            let host = builder.host(format!("h{rack}-{n}"), rack, None);
            builder.connect(host, *switch, Bandwidth::from_mbps(1), Time::from_us(1));
        }
    }
    (builder, switches)
}

fn ring(count: u64, rng: &mut Stream) -> Topology {
    let (mut builder, switches) = with_switches(&format!("ring of {count}"), count, rng);
    for at in 0..switches.len() {
        let delay = magnitude(rng, Time::from_us(5), Time::from_ms(5));
        builder.connect(switches[at], switches[(at + 1) % switches.len()], Bandwidth::from_mbps(1), delay);
    }
    builder.build().expect("a ring is connected")
}

/// A random tree with chords: a small WAN.
fn mesh(count: u64, rng: &mut Stream) -> Topology {
    let (mut builder, switches) = with_switches(&format!("mesh of {count}"), count, rng);
    let mut cables = BTreeSet::new();
    for at in 1..count {
        cables.insert((rng.below(at), at));
    }
    for _ in 0..1 + rng.below(count) {
        let (a, b) = (rng.below(count), rng.below(count));
        if a != b {
            cables.insert((a.min(b), a.max(b)));
        }
    }
    for (a, b) in cables {
        let delay = magnitude(rng, Time::from_us(5), Time::from_ms(10));
        builder.connect(switches[a as usize], switches[b as usize], Bandwidth::from_mbps(1), delay);
    }
    builder.build().expect("a tree with chords is connected")
}

/// Cables of a topology, those of hosts first, and a few spare ports for hosts that move.
fn wiring(topology: &Topology, rng: &mut Stream) -> Wiring {
    let mut dense = vec![0; topology.nodes().len()];
    let (mut switches, mut hosts) = (0, 0);
    for (node, ix) in topology.nodes().iter().zip(&mut dense) {
        let counter = if node.kind == NodeKind::Switch { &mut switches } else { &mut hosts };
        *ix = *counter;
        *counter += 1;
    }
    let mut ports = vec![0; switches];
    let mut end = |node: NodeIx| match topology.node(node).kind {
        NodeKind::Host => End::Host(dense[node.ix()]),
        NodeKind::Switch => {
            let switch = dense[node.ix()];
            ports[switch] += 1;
            End::Switch(switch, PortNo(ports[switch]))
        }
    };
    let mut cables: Vec<Cable> = topology
        .links()
        .iter()
        .step_by(2)
        .map(|link| Cable { ends: [end(link.from), end(link.to)], delay: link.delay })
        .collect();
    // A host is the first end of its cable, and cables of hosts are in the order of hosts.
    for cable in &mut cables {
        if matches!(cable.ends[1], End::Host(_)) {
            cable.ends.swap(0, 1);
        }
    }
    cables.sort_by_key(|cable| match cable.ends[0] {
        End::Host(host) => host,
        End::Switch(..) => usize::MAX,
    });
    ports.iter_mut().for_each(|ports| *ports += rng.below(3) as u32);
    Wiring { name: topology.name().to_owned(), ports, hosts, cables }
}

fn control(rng: &mut Stream) -> ControlTraits {
    let discovery_interval = between(rng, Time::from_ms(500), Time::from_ms(1_500));
    let echo_interval = between(rng, Time::from_ms(500), Time::from_ms(1_500));
    ControlTraits {
        echo_interval,
        echo_timeout: echo_interval * 3,
        discovery_interval,
        link_timeout: discovery_interval * 2 + Time::from_ms(500 + rng.below(500)),
        poll_interval: between(rng, Time::from_ms(300), Time::from_ms(1_500)),
        flow_idle_timeout_s: 1 + rng.below(3) as u16,
        knows_hosts: chance(rng, 50),
        hosts_per_port: 1,
    }
}

fn switches(count: usize, rng: &mut Stream) -> Vec<SwitchTraits> {
    let has_small_tables = chance(rng, 12);
    let has_slow_switches = chance(rng, 20);
    let far = magnitude(rng, Time::from_us(50), Time::from_ms(50));
    let packet_in_per_s = if chance(rng, 20) { Some(500 + rng.below(1_500) as u32) } else { None };
    let stats_refresh = if chance(rng, 30) { between(rng, Time::from_ms(200), Time::from_s(2)) } else { Time::ZERO };
    let is_polarised = chance(rng, 30);
    let is_hashing_udp = chance(rng, 70);
    let traits = |_| SwitchTraits {
        latency: between(rng, Time::from_us(20), Time::from_us(40) + far),
        per_message: magnitude(rng, Time::from_ns(100), Time::from_us(100)),
        per_change: if has_slow_switches && chance(rng, 40) {
            magnitude(rng, Time::from_us(100), Time::from_ms(2))
        } else {
            magnitude(rng, Time::from_us(1), Time::from_us(50))
        },
        max_entries: if has_small_tables && chance(rng, 30) { 8 + rng.below(40) as u32 } else { 10_000 },
        packet_in_per_s,
        buffers: if chance(rng, 30) { 16 } else { 0 },
        stats_refresh,
        hash_seed: if is_polarised { 0 } else { rng.bits() },
        is_hashing_udp,
        takes_tcp_flags: false,
    };
    (0..count).map(traits).collect()
}

/// A central balancer with some of its parameters drawn.
fn balancer(rng: &mut Stream) -> String {
    let entry = pick(rng, CENTRAL);
    let mut text = entry.name.to_owned();
    let mut separator = ':';
    for param in entry.params {
        // Published periods are longer than a storm.
        let value = match param.name {
            "period" => Some(between(rng, Time::from_ms(400), Time::from_ms(2_000)).as_ps() / 1_000_000_000)
                .map(|ms| format!("{ms}ms")),
            _ if chance(rng, 60) => drawn_value(param, rng),
            _ => None,
        };
        if let Some(value) = value.filter(|value| param.check(value).is_ok()) {
            text += &format!("{separator}{}={value}", param.name);
            separator = ',';
        }
    }
    if balance::Spec::parse(&text).is_ok() { text } else { entry.example.to_owned() }
}

fn drawn_value(param: &balance::params::Param, rng: &mut Stream) -> Option<String> {
    use balance::params::ParamKind;
    match param.kind {
        ParamKind::Choice(words) => Some((*pick(rng, words)).to_owned()),
        ParamKind::Number { min, max } => {
            let default: f64 = param.default.parse().ok()?;
            Some(format!("{:.4}", (default * (0.3 + 1.4 * rng.unit())).clamp(min, max)))
        }
        ParamKind::Count { min, max } => {
            let default: u64 = param.default.parse().ok()?;
            Some((default / 2 + rng.below(default + 2)).clamp(min, max).to_string())
        }
        ParamKind::Duration | ParamKind::Scaled | ParamKind::Services => None,
    }
}

/// Address of a host.
pub fn ipv4_of(host: usize) -> Ipv4Addr {
    net::address::host_ipv4(HostIx(host as u32))
}

fn flows(plan: &Plan, rng: &mut Stream) -> Vec<Action> {
    let hosts = plan.wiring.hosts as u64;
    if hosts < 2 {
        return Vec::new();
    }
    let count = 4 + rng.below(24);
    let mut tuples = BTreeSet::new();
    let flow = |_| {
        let from = rng.below(hosts) as usize;
        let to = (from + 1 + rng.below(hosts - 1) as usize) % hosts as usize;
        let (protocol, src_port, dst_port) =
            (if chance(rng, 60) { 6 } else { 17 }, 1_024 + rng.below(60_000) as u16, 1 + rng.below(1_000) as u16);
        let tuple = FiveTuple { src: ipv4_of(from), dst: ipv4_of(to), protocol, src_port, dst_port };
        let at = between(rng, Time::from_ms(10), plan.calm_at);
        let until = (at + magnitude(rng, Time::from_ms(50), Time::from_s(30))).min(plan.calm_at);
        let interval = magnitude(rng, Time::from_ms(5), Time::from_ms(300));
        let payload = 16 + rng.below(1_200) as usize;
        tuples.insert(tuple).then_some(Action {
            number: 0,
            at,
            until,
            what: What::Flow { from, to, tuple, interval, payload },
        })
    };
    (0..count).filter_map(flow).collect()
}

/// Draws what breaks.
struct Faults<'a> {
    plan: &'a Plan,
    rng: Stream,
    /// Ports that are lost with tables.
    ports: Stream,
    moved: BTreeSet<usize>,
    taken: BTreeSet<(usize, PortNo)>,
}

impl<'a> Faults<'a> {
    fn new(plan: &'a Plan, rng: Stream) -> Faults<'a> {
        let ports = Stream::new(plan.seed, "storm.ports");
        Faults { plan, rng, ports, moved: BTreeSet::new(), taken: BTreeSet::new() }
    }

    /// Bursts of faults with quiet between them, in which everything has to be served again. Some storms have few kinds.
    fn draw(mut self) -> Vec<Action> {
        let kinds: Vec<u64> = (0..8).filter(|_| chance(&mut self.rng, 60)).collect();
        let mut actions = Vec::new();
        if chance(&mut self.rng, 25) {
            let switch = self.switch();
            actions.push(Action { number: 0, at: Time::ZERO, until: self.plan.calm_at, what: self.foreign(switch) });
        }
        if kinds.is_empty() {
            return actions;
        }
        let mut at = between(&mut self.rng, Time::from_ms(100), Time::from_s(8));
        while at < self.plan.calm_at {
            for _ in 0..1 + self.rng.below(4) {
                let kind = *pick(&mut self.rng, &kinds);
                if let Some((what, lasts)) = self.fault(kind) {
                    let until = if lasts == Time::MAX { lasts } else { (at + lasts).min(self.plan.calm_at) };
                    actions.push(Action { number: 0, at, until, what });
                }
                at += magnitude(&mut self.rng, Time::from_us(10), Time::from_s(1));
                at = at.min(self.plan.calm_at - Time::from_us(1));
            }
            at += between(&mut self.rng, Time::from_ms(500), Time::from_s(10));
        }
        actions
    }

    fn switch(&mut self) -> usize {
        self.rng.below(self.plan.wiring.ports.len() as u64) as usize
    }

    fn foreign(&mut self, switch: usize) -> What {
        What::Foreign { switch, seed: self.rng.bits() }
    }

    fn fault(&mut self, kind: u64) -> Option<(What, Time)> {
        let lasts = magnitude(&mut self.rng, Time::from_ms(1), Time::from_s(15));
        let hosts = self.plan.wiring.hosts;
        let what = match kind {
            0 | 1 => {
                let cable = if chance(&mut self.rng, 10) {
                    self.rng.below(hosts as u64) as usize
                } else {
                    let links = self.plan.wiring.cables.len() - hosts;
                    hosts + (links > 0).then(|| self.rng.below(links as u64) as usize)?
                };
                let kinds = [
                    CutKind::Both,
                    CutKind::Both,
                    CutKind::BothSeenByOne,
                    CutKind::BothUnseen,
                    CutKind::OneWay,
                    CutKind::OneWayUnseen,
                ];
                let kind = if cable < hosts { CutKind::Both } else { *pick(&mut self.rng, &kinds) };
                let is_for_ever = cable >= hosts && chance(&mut self.rng, 8);
                return Some((What::Cut { cable, kind }, if is_for_ever { Time::MAX } else { lasts }));
            }
            2 => {
                let (switch, is_keeping_tables) = (self.switch(), chance(&mut self.rng, 50));
                let is_losing = chance(&mut self.ports, 40) && !is_keeping_tables;
                let port = 1 + self.ports.below(u64::from(self.plan.wiring.ports[switch].max(1))) as u32;
                What::SwitchOff { switch, is_keeping_tables, without: is_losing.then_some(PortNo(port)) }
            }
            3 => What::Stall { switch: self.switch() },
            4 => {
                let unnoticed = magnitude(&mut self.rng, Time::from_us(10), Time::from_s(6));
                What::Break { switch: self.switch(), unnoticed }
            }
            5 if chance(&mut self.rng, 40) => What::Restart,
            5 => {
                let per_change = magnitude(&mut self.rng, Time::from_us(50), Time::from_ms(5));
                What::Slow { switch: self.switch(), per_change }
            }
            6 => {
                let switch = self.switch();
                self.foreign(switch)
            }
            _ => return Some((self.moving()?, Time::MAX)),
        };
        Some((what, lasts))
    }

    /// A host moves once at most, to a port nobody else will have.
    fn moving(&mut self) -> Option<What> {
        let host = self.rng.below(self.plan.wiring.hosts as u64) as usize;
        let switch = self.switch();
        let used = |port: PortNo| {
            self.plan.wiring.cables.iter().any(|cable| cable.ends.contains(&End::Switch(switch, port)))
                || self.taken.contains(&(switch, port))
        };
        let port = (1..=self.plan.wiring.ports[switch]).map(PortNo).find(|port| !used(*port))?;
        if !self.moved.insert(host) {
            return None;
        }
        self.taken.insert((switch, port));
        Some(What::Move { host, switch, port })
    }
}
