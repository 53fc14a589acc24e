//! Generation of plans. Every part has its own random stream, so that a change of one part does not
//! change the others.

mod attacks;
pub(crate) mod services;
mod wildcard;

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use balance::registry::CENTRAL;
use net::{Addressing, Bandwidth, FiveTuple, HostIx, NodeIx, NodeKind, RandomStream, Time, Topology, TopologyBuilder};
use openflow::{Description, MacAddr, PortDesc, PortNo};
use switch::{HashFields, Select};

use crate::disruptions::generate as disruptions;
use crate::plan::{Action, ActionKind, Cable, CutKind, End, Plan, SwitchTraits, Wiring};
use crate::simulation::{CAPACITY, OWNER, datapath_of};

pub fn plan(seed: u64) -> Plan {
    let topology = topology(&mut stream(seed, "network"));
    let wiring = wiring(&topology, &mut stream(seed, "wiring"));
    let (mut control, knows_hosts) = control(seed, &mut stream(seed, "control"));
    // No port has more than one host, but some hosts spoof addresses: even the lowest limit admits
    // all hosts.
    control.hosts_per_port = 1 + stream(seed, "room").next_below(2) as usize;
    let switches = switches(&wiring.ports, &mut stream(seed, "switches"));
    let mut rng = stream(seed, "plan");
    let faults_end_at = between(&mut rng, Time::from_s(15), Time::from_s(50));
    let mut plan = Plan {
        seed,
        balancer: balancer(&mut stream(seed, "balancer")),
        notice: between(&mut rng, Time::from_us(10), Time::from_ms(50)),
        agent_latency: between(&mut rng, Time::from_ms(1), Time::from_ms(100)),
        announce_interval: between(&mut rng, Time::from_ms(1_500), Time::from_s(4)),
        wiring,
        control,
        knows_hosts,
        switches,
        faults_end_at,
        services: Vec::new(),
        actions: Vec::new(),
    };
    let clients = services::draw(&mut plan);
    if plan.services.is_empty() {
        plan.control.addressing = addressing(&mut stream(seed, "addressing"));
    }
    plan.actions = flows(&plan, &mut stream(seed, "flows"));
    let faults = Faults::new(&plan, stream(seed, "faults")).draw();
    plan.actions.extend(faults);
    plan.actions.extend(clients);
    attacks::draw(&mut plan);
    let disruptions = disruptions::draw(&plan);
    plan.actions.extend(disruptions);
    disruptions::limit_switches(&mut plan);
    for (number, action) in (0..).zip(&mut plan.actions) {
        action.number = number;
    }
    plan
}

/// Returns the random stream of a part of a plan. Its label is older than the crate's name: another
/// one would change all plans.
pub(crate) fn stream(seed: u64, part: &str) -> RandomStream {
    RandomStream::new(seed, &format!("storm.{part}"))
}

pub(crate) fn between(rng: &mut RandomStream, least: Time, most: Time) -> Time {
    round(least + Time::from_ps(rng.next_below(most.as_ps() - least.as_ps())))
}
/// Rounds to three or four digits, for readable plans.
fn round(time: Time) -> Time {
    let mut unit = 1;
    while time.as_ps() / unit >= 10_000 {
        unit *= 10;
    }
    Time::from_ps(time.as_ps() / unit * unit)
}
/// Draws like [`between`], but every order of magnitude is equally likely.
pub(crate) fn magnitude(rng: &mut RandomStream, least: Time, most: Time) -> Time {
    let (least, most) = (least.as_ps() as f64, most.as_ps() as f64);
    round(Time::from_ps((least * libm::pow(most / least, rng.next_f64())) as u64))
}
pub(crate) fn chance(rng: &mut RandomStream, percent: u64) -> bool {
    rng.next_below(100) < percent
}
pub(crate) fn pick<'a, T>(rng: &mut RandomStream, items: &'a [T]) -> &'a T {
    &items[rng.next_below(items.len() as u64) as usize]
}

fn topology(rng: &mut RandomStream) -> Topology {
    let drawn = |text: &str| net::spec::parse(text).expect("the specifications drawn here are valid");
    match rng.next_below(12) {
        0 => drawn("fat-tree:k=4"),
        1 => drawn("fat-tree:k=4,hosts_per_edge=1"),
        2..=4 => {
            let (leaves, spines, hosts) = (2 + rng.next_below(4), 1 + rng.next_below(4), 1 + rng.next_below(3));
            let parallel = 1 + rng.next_below(2);
            drawn(&format!("leaf-spine:leaves={leaves},spines={spines},hosts_per_leaf={hosts},parallel={parallel}"))
        }
        5 => drawn("diamond:form=migration"),
        6 => drawn("diamond:form=two-paths"),
        7 | 8 => ring(3 + rng.next_below(5), rng),
        _ => mesh(4 + rng.next_below(6), rng),
    }
}

fn with_switches(name: &str, count: u64, rng: &mut RandomStream) -> (TopologyBuilder, Vec<NodeIx>) {
    let mut builder = TopologyBuilder::new(name);
    let switches: Vec<NodeIx> = (0..count).map(|n| builder.switch(format!("s{n}"), 1, None)).collect();
    for (rack, switch) in (0..).zip(&switches) {
        let hosts = if rack < 2 { 1 + rng.next_below(2) } else { rng.next_below(3) };
        for n in 0..hosts {
            let host = builder.host(format!("h{rack}-{n}"), rack, None);
            builder.connect(host, *switch, Bandwidth::from_mbps(1), Time::from_us(1));
        }
    }
    (builder, switches)
}

fn ring(count: u64, rng: &mut RandomStream) -> Topology {
    let (mut builder, switches) = with_switches(&format!("ring of {count}"), count, rng);
    for at in 0..switches.len() {
        let delay = magnitude(rng, Time::from_us(5), Time::from_ms(5));
        builder.connect(switches[at], switches[(at + 1) % switches.len()], Bandwidth::from_mbps(1), delay);
    }
    builder.build().expect("a ring is connected")
}

/// Builds a random tree with chords: a small WAN.
fn mesh(count: u64, rng: &mut RandomStream) -> Topology {
    let (mut builder, switches) = with_switches(&format!("mesh of {count}"), count, rng);
    let mut cables = BTreeSet::new();
    for at in 1..count {
        cables.insert((rng.next_below(at), at));
    }
    for _ in 0..1 + rng.next_below(count) {
        let (a, b) = (rng.next_below(count), rng.next_below(count));
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

/// Returns the cables of a topology, those of hosts first, and a few spare ports for hosts that
/// move.
fn wiring(topology: &Topology, rng: &mut RandomStream) -> Wiring {
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
    // A host is the first end of its cable, and the cables of hosts are in the order of hosts.
    for cable in &mut cables {
        if matches!(cable.ends[1], End::Host(_)) {
            cable.ends.swap(0, 1);
        }
    }
    cables.sort_by_key(|cable| match cable.ends[0] {
        End::Host(host) => host,
        End::Switch(..) => usize::MAX,
    });
    ports.iter_mut().for_each(|ports| *ports += rng.next_below(3) as u32);
    Wiring { name: topology.name().to_owned(), ports, hosts, cables }
}

fn control(seed: u64, rng: &mut RandomStream) -> (control::Config, bool) {
    let discovery_interval = between(rng, Time::from_ms(500), Time::from_ms(1_500));
    let echo_interval = between(rng, Time::from_ms(500), Time::from_ms(1_500));
    let config = control::Config {
        seed,
        owner: OWNER,
        default_capacity: CAPACITY,
        echo_interval,
        echo_timeout: echo_interval * 3,
        discovery_interval,
        link_timeout: discovery_interval * 2 + Time::from_ms(500 + rng.next_below(500)),
        poll_interval: between(rng, Time::from_ms(300), Time::from_ms(1_500)),
        flow_idle_timeout_s: 1 + rng.next_below(3) as u16,
        flows_max: usize::MAX,
        connections_max: usize::MAX,
        connection_retention: Time::from_s(60),
        ..control::Config::default()
    };
    (config, chance(rng, 50))
}

/// Draws an addressing mode: mostly flat addresses. PortLand needs a multi-rooted tree, which faults and
/// most drawn networks are not.
fn addressing(rng: &mut RandomStream) -> Addressing {
    match rng.next_below(16) {
        0 => Addressing::Seattle,
        1 => Addressing::Vl2,
        2 => Addressing::Trill,
        _ => Addressing::Flat,
    }
}

/// Draws the switches of a network, given their numbers of ports.
fn switches(ports: &[u32], rng: &mut RandomStream) -> Vec<SwitchTraits> {
    let has_small_tables = chance(rng, 12);
    let has_slow_switches = chance(rng, 20);
    let far = magnitude(rng, Time::from_us(50), Time::from_ms(50));
    let packet_in_per_s = if chance(rng, 20) { Some(500 + rng.next_below(1_500) as u32) } else { None };
    let stats_refresh = if chance(rng, 30) { between(rng, Time::from_ms(200), Time::from_s(2)) } else { Time::ZERO };
    let is_polarised = chance(rng, 30);
    let fields = if chance(rng, 70) { HashFields::FiveTuple } else { HashFields::OpenVSwitch };
    let traits = |(switch, ports): (usize, &u32)| SwitchTraits {
        latency: between(rng, Time::from_us(20), Time::from_us(40) + far),
        per_message: magnitude(rng, Time::from_ns(100), Time::from_us(100)),
        per_change: if has_slow_switches && chance(rng, 40) {
            magnitude(rng, Time::from_us(100), Time::from_ms(2))
        } else {
            magnitude(rng, Time::from_us(1), Time::from_us(50))
        },
        config: switch::Config {
            datapath: datapath_of(switch),
            ports: (1..=*ports).map(|number| port(switch, number)).collect(),
            tables: 4,
            max_entries: if has_small_tables && chance(rng, 30) { 8 + rng.next_below(40) as u32 } else { 10_000 },
            max_groups: 1_000,
            buffers: if chance(rng, 30) { 16 } else { 0 },
            select: Select { seed: if is_polarised { 0 } else { rng.next_u64() }, fields },
            stats_refresh,
            packet_in_per_s,
            supports_tcp_flags: false,
            support: switch::Support::default(),
            description: Description::default(),
        },
        limited: None,
    };
    ports.iter().enumerate().map(traits).collect()
}

fn port(switch: usize, number: u32) -> PortDesc {
    let hw_addr = MacAddr([0x06, 0, 0, switch as u8, (number >> 8) as u8, number as u8]);
    PortDesc::up(PortNo(number), hw_addr, format!("s{switch}-eth{number}"), 10_000_000)
}

/// Returns a central balancer with some of its parameters drawn.
fn balancer(rng: &mut RandomStream) -> String {
    let entry = pick(rng, CENTRAL);
    let mut text = entry.name.to_owned();
    let mut separator = ':';
    for param in entry.params {
        // Published periods exceed the duration of a simulation.
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

fn drawn_value(param: &balance::params::Param, rng: &mut RandomStream) -> Option<String> {
    use balance::params::ParamKind;
    match param.kind {
        ParamKind::Choice(words) => Some((*pick(rng, words)).to_owned()),
        ParamKind::Number { min, max } => {
            let default: f64 = param.default.parse().ok()?;
            Some(format!("{:.4}", (default * (0.3 + 1.4 * rng.next_f64())).clamp(min, max)))
        }
        ParamKind::Count { min, max } => {
            let default: u64 = param.default.parse().ok()?;
            Some((default / 2 + rng.next_below(default + 2)).clamp(min, max).to_string())
        }
        ParamKind::Duration
        | ParamKind::Scaled
        | ParamKind::Services
        | ParamKind::ClassTable
        | ParamKind::Constraints => None,
    }
}

pub fn ipv4_of(host: usize) -> Ipv4Addr {
    net::address::host_ipv4(HostIx(host as u32))
}

fn flows(plan: &Plan, rng: &mut RandomStream) -> Vec<Action> {
    let hosts = plan.wiring.hosts as u64;
    if hosts < 2 {
        return Vec::new();
    }
    let count = 4 + rng.next_below(24);
    let mut tuples = BTreeSet::new();
    let flow = |_| {
        let from = rng.next_below(hosts) as usize;
        let to = (from + 1 + rng.next_below(hosts - 1) as usize) % hosts as usize;
        let (protocol, src_port, dst_port) = (
            if chance(rng, 60) { 6 } else { 17 },
            1_024 + rng.next_below(60_000) as u16,
            1 + rng.next_below(1_000) as u16,
        );
        let tuple = FiveTuple { src: ipv4_of(from), dst: ipv4_of(to), protocol, src_port, dst_port };
        let at = between(rng, Time::from_ms(10), plan.faults_end_at);
        let until = (at + magnitude(rng, Time::from_ms(50), Time::from_s(30))).min(plan.faults_end_at);
        let interval = magnitude(rng, Time::from_ms(5), Time::from_ms(300));
        let payload = 16 + rng.next_below(1_200) as usize;
        let what = ActionKind::Flow { from, to, tuple, interval, payload };
        tuples.insert(tuple).then_some(Action { number: 0, at, until, what })
    };
    (0..count).filter_map(flow).collect()
}

struct Faults<'a> {
    plan: &'a Plan,
    rng: RandomStream,
    ports: RandomStream,
    moved: BTreeSet<usize>,
    taken: BTreeSet<(usize, PortNo)>,
}

impl<'a> Faults<'a> {
    fn new(plan: &'a Plan, rng: RandomStream) -> Faults<'a> {
        let ports = stream(plan.seed, "ports");
        Faults { plan, rng, ports, moved: BTreeSet::new(), taken: BTreeSet::new() }
    }

    /// Draws bursts of faults with pauses between them, in which everything must be served again.
    /// Some simulations have few kinds of faults.
    fn draw(mut self) -> Vec<Action> {
        let kinds: Vec<u64> = (0..8).filter(|_| chance(&mut self.rng, 60)).collect();
        let mut actions = Vec::new();
        if chance(&mut self.rng, 25) {
            let what = self.foreign();
            actions.push(Action { number: 0, at: Time::ZERO, until: self.plan.faults_end_at, what });
        }
        if kinds.is_empty() {
            return actions;
        }
        let mut at = between(&mut self.rng, Time::from_ms(100), Time::from_s(8));
        while at < self.plan.faults_end_at {
            for _ in 0..1 + self.rng.next_below(4) {
                let kind = *pick(&mut self.rng, &kinds);
                if let Some((what, lasts)) = self.fault(kind) {
                    let until = if lasts == Time::MAX { lasts } else { (at + lasts).min(self.plan.faults_end_at) };
                    actions.push(Action { number: 0, at, until, what });
                }
                at += magnitude(&mut self.rng, Time::from_us(10), Time::from_s(1));
                at = at.min(self.plan.faults_end_at - Time::from_us(1));
            }
            at += between(&mut self.rng, Time::from_ms(500), Time::from_s(10));
        }
        actions
    }

    fn switch(&mut self) -> usize {
        self.rng.next_below(self.plan.wiring.ports.len() as u64) as usize
    }

    fn foreign(&mut self) -> ActionKind {
        ActionKind::Foreign { switch: self.switch(), seed: self.rng.next_u64() }
    }

    fn fault(&mut self, kind: u64) -> Option<(ActionKind, Time)> {
        let lasts = magnitude(&mut self.rng, Time::from_ms(1), Time::from_s(15));
        let hosts = self.plan.wiring.hosts;
        let what = match kind {
            0 | 1 => {
                let cable = if chance(&mut self.rng, 10) {
                    self.rng.next_below(hosts as u64) as usize
                } else {
                    let links = self.plan.wiring.cables.len() - hosts;
                    hosts + (links > 0).then(|| self.rng.next_below(links as u64) as usize)?
                };
                use CutKind::{Both, BothSeenByOne, BothUnseen, OneWay, OneWayUnseen};
                let kinds = [Both, Both, BothSeenByOne, BothUnseen, OneWay, OneWayUnseen];
                let kind = if cable < hosts { Both } else { *pick(&mut self.rng, &kinds) };
                let is_permanent = cable >= hosts && chance(&mut self.rng, 8);
                return Some((ActionKind::Cut { cable, kind }, if is_permanent { Time::MAX } else { lasts }));
            }
            2 => {
                let (switch, is_keeping_tables) = (self.switch(), chance(&mut self.rng, 50));
                let is_losing = chance(&mut self.ports, 40) && !is_keeping_tables;
                let port = 1 + self.ports.next_below(u64::from(self.plan.wiring.ports[switch].max(1))) as u32;
                ActionKind::SwitchOff { switch, is_keeping_tables, without: is_losing.then_some(PortNo(port)) }
            }
            3 => ActionKind::Stall { switch: self.switch() },
            4 => {
                let unnoticed = magnitude(&mut self.rng, Time::from_us(10), Time::from_s(6));
                ActionKind::Break { switch: self.switch(), unnoticed }
            }
            5 if chance(&mut self.rng, 40) => ActionKind::Restart,
            5 => {
                let per_change = magnitude(&mut self.rng, Time::from_us(50), Time::from_ms(5));
                ActionKind::Slow { switch: self.switch(), per_change }
            }
            6 => self.foreign(),
            _ => return Some((self.moving()?, Time::MAX)),
        };
        Some((what, lasts))
    }

    /// Draws a move of a host. A host moves at most once, to a port that no other host uses.
    fn moving(&mut self) -> Option<ActionKind> {
        let host = self.rng.next_below(self.plan.wiring.hosts as u64) as usize;
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
        Some(ActionKind::Move { host, switch, port })
    }
}
