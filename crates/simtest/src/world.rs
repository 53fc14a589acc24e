//! The world of a storm: time, events, and everything that is in it.
//!
//! Events are ordered by time and, at the same time, by when they were made; nothing else decides an order, so the same
//! plan makes the same events.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use balance::central::{AgentOrder, AgentReport, CentralEnv};
use balance::registry::Build;
use control::Controller;
use net::{Bandwidth, Time};
use openflow::{ConnectionId, DatapathId, Envelope, MacAddr, PortNo};
use switch::Switch;

use crate::bounds::Bounds;
use crate::channel::Channel;
use crate::clients::{Client, Virtuals};
use crate::cutback::Cutback;
use crate::draw_services::CHECKER;
use crate::hosts::{Flow, Host};
use crate::oracle::Oracles;
use crate::plan::{End, Plan};
use crate::report::{Failure, Oracle, Report};
use crate::sabotage::{Sabotage, Saboteur};

/// Bits of cookies and groups that say whose a rule is.
pub(crate) const OWNER: u16 = 0xa7ab;

/// Capacity of links as the controller is told: a few flows of a storm are large for it.
pub(crate) const CAPACITY: Bandwidth = Bandwidth::from_mbps(4);

const CHECKS: control::vip::Checker =
    control::vip::Checker { ipv4: CHECKER, mac: MacAddr([0x06, 0xa7, 0xff, 0, 0, 1]) };

/// Who is told what happens, line by line.
pub type Teller = Box<dyn FnMut(&str)>;

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A frame reaches an end of a cable.
    Frame {
        cable: usize,
        side: usize,
        epoch: u32,
        frame: Frame,
    },
    /// The head of a channel's queue towards the switch may be due.
    Down {
        switch: usize,
        generation: u32,
    },
    /// Towards the controller.
    Up {
        switch: usize,
        generation: u32,
    },
    /// A message of a saboteur reaches a switch past all queues.
    Injected {
        switch: usize,
        envelope: Box<Envelope>,
    },
    /// A switch opens a connection.
    Connect {
        switch: usize,
        generation: u32,
    },
    /// A switch notices that its connection is gone.
    SwitchNotices {
        switch: usize,
        connection: ConnectionId,
    },
    /// The controller does.
    ControllerNotices {
        connection: ConnectionId,
    },
    /// An end of a cable notices that it is alive or not.
    Notice {
        cable: usize,
        side: usize,
    },
    SwitchTimer {
        switch: usize,
    },
    ControllerTimer,
    Begin(usize),
    End(usize),
    Ask {
        client: usize,
    },
    Send {
        flow: usize,
    },
    Announce {
        host: usize,
    },
    /// Message of a host agent.
    Agent {
        incarnation: u32,
        report: AgentReport,
    },
    /// To all host agents.
    Order(AgentOrder),
    Check,
}

/// Bytes on their way, with what is known of them.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// Frame of a flow.
    pub(crate) probe: Option<Probe>,
}

/// A frame that a host sent for a flow.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) number: u64,
    pub(crate) flow: usize,
    pub(crate) sent: Time,
    /// Where it has been.
    pub(crate) visits: Vec<Visit>,
}

/// A frame coming to a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Visit {
    pub(crate) switch: usize,
    pub(crate) in_port: PortNo,
    pub(crate) headers: openflow::Headers,
    /// The cable it came by.
    pub(crate) cable: usize,
}

struct Scheduled {
    at: Time,
    sequence: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// A cable as it is now.
#[derive(Debug)]
pub(crate) struct CableState {
    pub(crate) ends: [End; 2],
    pub(crate) delay: Time,
    /// Reasons why the direction from each end is cut.
    pub(crate) cuts: [u32; 2],
    /// Reasons why each end should see it as dead.
    pub(crate) dark: [u32; 2],
    /// Whether each end does see it as alive.
    pub(crate) is_live: [bool; 2],
    /// Frames sent before the last cut of a direction are lost.
    pub(crate) epoch: [u32; 2],
    /// Disturbed until then: it was cut or healed and the controller may still be reacting.
    pub(crate) disturbed: Time,
}

impl CableState {
    /// Whether frames sent by an end arrive.
    pub(crate) fn is_usable_from(&self, side: usize) -> bool {
        self.cuts[side] == 0 && self.is_live == [true, true]
    }
    /// Whether both directions are.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_usable_from(0) && self.is_usable_from(1)
    }
}

/// A switch with what surrounds it.
pub(crate) struct SwitchState {
    pub(crate) switch: Switch,
    pub(crate) config: switch::Config,
    /// Whether it has power.
    pub(crate) is_on: bool,
    pub(crate) off_count: u32,
    /// A port it does not have at the moment, and what is plugged in there.
    pub(crate) missing: Option<(PortNo, Option<(usize, usize)>)>,
    pub(crate) channel: Channel,
    /// Cable and side of each port, by number less one.
    pub(crate) plugs: Vec<Option<(usize, usize)>>,
    pub(crate) timer: Time,
    pub(crate) disturbed: Time,
    /// When it last refused something for want of room.
    pub(crate) full_at: Option<Time>,
}

/// The world.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) bounds: Bounds,
    pub(crate) now: Time,
    sequence: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    pub(crate) cables: Vec<CableState>,
    pub(crate) switches: Vec<SwitchState>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) clients: Vec<Client>,
    pub(crate) virtuals: Virtuals,
    pub(crate) controller: Option<Controller>,
    pub(crate) controller_timer: Time,
    /// Controllers there have been.
    pub(crate) incarnation: u32,
    pub(crate) off_count: u32,
    pub(crate) connections: BTreeMap<ConnectionId, usize>,
    pub(crate) next_connection: u32,
    pub(crate) report_above: Option<u64>,
    pub(crate) saboteur: Saboteur,
    pub(crate) oracles: Oracles,
    pub(crate) report: Report,
    /// Nothing is being repaired after this, anywhere.
    pub(crate) disturbed: Time,
    pub(crate) failure: Option<Failure>,
    pub(crate) absent_switches: BTreeSet<usize>,
    pub(crate) absent_hosts: BTreeSet<usize>,
    /// Who wants to be told what happens.
    tell: Option<Teller>,
}

/// Address of a host.
pub(crate) fn mac_of(host: usize) -> MacAddr {
    MacAddr(net::address::host_mac(net::HostIx(host as u32)))
}
/// Number of a switch on the wire.
pub(crate) fn datapath_of(switch: usize) -> DatapathId {
    DatapathId(switch as u64 + 1)
}

impl World {
    /// The world of a plan, at its beginning.
    pub(crate) fn new(plan: &Plan, cutback: &Cutback, sabotage: Option<Sabotage>, tell: Option<Teller>) -> World {
        let plan = cutback.apply(plan);
        let wiring = &plan.wiring;
        let cable = |cable: &crate::plan::Cable| CableState {
            ends: cable.ends,
            delay: cable.delay,
            cuts: [0; 2],
            dark: [0; 2],
            is_live: [true; 2],
            epoch: [0; 2],
            disturbed: Time::ZERO,
        };
        let mut world = World {
            bounds: Bounds::new(&plan),
            now: Time::ZERO,
            sequence: 0,
            queue: BinaryHeap::new(),
            cables: wiring.cables.iter().map(cable).collect(),
            switches: (0..wiring.ports.len()).map(|switch| SwitchState::new(&plan, switch)).collect(),
            hosts: (0..wiring.hosts).map(Host::new).collect(),
            flows: Vec::new(),
            clients: Vec::new(),
            virtuals: Virtuals { wanted: plan.services.first().cloned().unwrap_or_default(), ..Virtuals::default() },
            controller: None,
            controller_timer: Time::MAX,
            incarnation: 0,
            off_count: 0,
            connections: BTreeMap::new(),
            next_connection: 1,
            report_above: None,
            saboteur: Saboteur::new(plan.seed, sabotage),
            oracles: Oracles::new(&plan),
            report: Report::default(),
            disturbed: Time::ZERO,
            failure: None,
            absent_switches: cutback.without_switches.clone(),
            absent_hosts: cutback.without_hosts.clone(),
            tell,
            plan,
        };
        world.prepare();
        world
    }

    fn prepare(&mut self) {
        for cable in 0..self.cables.len() {
            for side in 0..2 {
                if let End::Switch(switch, port) = self.cables[cable].ends[side] {
                    self.switches[switch].plugs[port.0 as usize - 1] = Some((cable, side));
                }
            }
        }
        for switch in 0..self.switches.len() {
            for port in 1..=self.switches[switch].plugs.len() as u32 {
                if self.switches[switch].plugs[port as usize - 1].is_none() {
                    self.switches[switch].switch.set_port_live(Time::ZERO, PortNo(port), false);
                }
            }
        }
        self.start_controller();
        for switch in 0..self.switches.len() {
            if self.absent_switches.contains(&switch) {
                self.power_off(switch);
            } else {
                let at = Time::from_us(100) * (switch as u64 + 1);
                let generation = self.switches[switch].channel.generation;
                self.schedule(at, Event::Connect { switch, generation });
            }
        }
        for host in 0..self.hosts.len() {
            if self.absent_hosts.contains(&host) {
                self.darken(host, [true, true], [true, true]);
            } else {
                self.schedule(Time::from_ms(5) * (host as u64 + 1), Event::Announce { host });
            }
        }
        for action in 0..self.plan.actions.len() {
            self.schedule(self.plan.actions[action].at, Event::Begin(action));
        }
        let start = self.bounds.handshake + self.bounds.host + self.bounds.react;
        self.disturb_all(start);
        self.schedule(Time::from_ms(100), Event::Check);
    }

    /// A new controller that knows nothing but its configuration.
    pub(crate) fn start_controller(&mut self) {
        let spec = balance::Spec::parse(&self.plan.balancer).expect("plans name balancers that exist");
        let Build::Central(build) = spec.entry.build else { panic!("plans name central balancers") };
        let env = CentralEnv { seed: self.plan.seed };
        let traits = &self.plan.control;
        let known = |host: usize| match self.cables[host].ends[1] {
            End::Switch(switch, port) => control::KnownHost {
                mac: mac_of(host),
                ipv4: crate::draw::ipv4_of(host),
                datapath: datapath_of(switch),
                port,
            },
            End::Host(_) => unreachable!("hosts are the first ends of their cables"),
        };
        let hosts = if traits.knows_hosts { (0..self.hosts.len()).map(known).collect() } else { Vec::new() };
        let config = control::Config {
            seed: self.plan.seed,
            owner: OWNER,
            capacities: BTreeMap::new(),
            default_capacity: CAPACITY,
            hosts,
            echo_interval: traits.echo_interval,
            echo_timeout: traits.echo_timeout,
            discovery_interval: traits.discovery_interval,
            link_timeout: traits.link_timeout,
            poll_interval: traits.poll_interval,
            flow_idle_timeout_s: traits.flow_idle_timeout_s,
            flows_max: usize::MAX,
            remembered: Vec::new(),
            hosts_max: self.hosts.len() * 2,
            hosts_per_port: traits.hosts_per_port,
            checker: (!self.plan.services.is_empty()).then_some(CHECKS),
            connections_max: self.plan.connections_max,
            connection_memory: net::Time::from_s(60),
            uses_extensions: !self.plan.services.is_empty(),
            // Another life of the controller may divide flows in another way than the one before.
            spread: match self.plan.seed.wrapping_add(u64::from(self.incarnation)) % 4 {
                3 => control::Spread::Shuffled,
                _ => control::Spread::Switch,
            },
        };
        self.incarnation += 1;
        self.controller_timer = Time::MAX;
        let mut controller = Controller::new(config, build(&env, &spec.params));
        if !self.plan.services.is_empty() {
            let wanted = self.sabotage_services(&self.virtuals.wanted);
            controller.set_services(self.now, wanted).expect("services of storms can be had");
        }
        self.controller = Some(controller);
        self.oracles.topology.forget();
        self.after_controller();
    }

    /// Something will happen at a time.
    pub(crate) fn schedule(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse(Scheduled { at: at.max(self.now), sequence: self.sequence, event }));
    }
    /// Something will happen in a while.
    pub(crate) fn after(&mut self, delay: Time, event: Event) {
        self.schedule(self.now.saturating_add(delay), event);
    }

    /// Tells what happens to whoever wants to know.
    pub(crate) fn tell(&mut self, words: impl FnOnce(&World) -> String) {
        if self.tell.is_some() {
            let line = format!("{:>14.6} {}", self.now.as_s_f64(), words(self));
            self.tell.iter_mut().for_each(|tell| tell(&line));
        }
    }

    /// Something was violated; the first time counts.
    pub(crate) fn fail(&mut self, oracle: Oracle, words: impl FnOnce() -> String) {
        if self.failure.is_none() {
            self.failure = Some(Failure { oracle, at: self.now, words: words() });
        }
    }

    /// Until then nothing is held against anyone that concerns the whole network.
    pub(crate) fn disturb_all(&mut self, until: Time) {
        self.disturbed = self.disturbed.max(until);
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Result<Report, Failure> {
        while let Some(Reverse(next)) = self.queue.pop() {
            debug_assert!(next.at >= self.now, "time runs forwards");
            self.now = next.at;
            self.report.events += 1;
            self.note(&next.event);
            self.happen(next.event);
            if self.failure.is_some() || self.oracles.calm.is_over {
                break;
            }
        }
        match self.failure {
            Some(failure) => Err(failure),
            None => {
                self.report.moves += self.controller.as_ref().map_or(0, |controller| controller.tally().moves);
                Ok(self.report)
            }
        }
    }

    /// Mixes an event into the hash of the log.
    fn note(&mut self, event: &Event) {
        let (kind, a, b) = match event {
            Event::Frame { cable, side, frame, .. } => (1, *cable * 2 + *side, frame.bytes.len()),
            Event::Down { switch, .. } => (2, *switch, self.switches[*switch].channel.down.len()),
            Event::Up { switch, .. } => (3, *switch, self.switches[*switch].channel.up.len()),
            Event::Injected { switch, .. } => (4, *switch, 0),
            Event::Connect { switch, .. } => (5, *switch, 0),
            Event::SwitchNotices { switch, connection } => (6, *switch, connection.0 as usize),
            Event::ControllerNotices { connection } => (7, connection.0 as usize, 0),
            Event::Notice { cable, side } => (8, *cable, *side),
            Event::SwitchTimer { switch } => (9, *switch, 0),
            Event::ControllerTimer => (10, 0, 0),
            Event::Begin(action) => (11, *action, 0),
            Event::End(action) => (12, *action, 0),
            Event::Send { flow } => (13, *flow, 0),
            Event::Announce { host } => (14, *host, 0),
            Event::Agent { .. } => (15, 0, 0),
            Event::Order(_) => (16, 0, 0),
            Event::Check => (17, 0, 0),
            Event::Ask { client } => (18, *client, 0),
        };
        for word in [self.now.as_ps(), kind, a as u64, b as u64] {
            self.report.log_hash = (self.report.log_hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Frame { cable, side, epoch, frame } => self.frame_arrives(cable, side, epoch, frame),
            Event::Down { switch, generation } => self.down_is_due(switch, generation),
            Event::Up { switch, generation } => self.up_is_due(switch, generation),
            Event::Injected { switch, envelope } => self.inject(switch, *envelope),
            Event::Connect { switch, generation } => self.connect(switch, generation),
            Event::SwitchNotices { switch, connection } => self.switch_notices(switch, connection),
            Event::ControllerNotices { connection } => self.controller_notices(connection),
            Event::Notice { cable, side } => self.notice(cable, side),
            Event::SwitchTimer { switch } => self.switch_timer(switch),
            Event::ControllerTimer => self.controller_timer(),
            Event::Begin(action) => self.begin(action),
            Event::End(action) => self.end(action),
            Event::Send { flow } => self.send_probe(flow),
            Event::Ask { client } => self.client_asks(client),
            Event::Announce { host } => self.announce(host),
            Event::Agent { incarnation, report } => self.agent_reports(incarnation, report),
            Event::Order(order) => self.agents_obey(order),
            Event::Check => self.check(),
        }
    }

    fn switch_timer(&mut self, switch: usize) {
        let state = &mut self.switches[switch];
        if state.timer > self.now || !state.is_on {
            return;
        }
        state.timer = Time::MAX;
        state.switch.handle_timeout(self.now);
        self.after_switch(switch, None);
    }

    fn controller_timer(&mut self) {
        if self.controller_timer > self.now {
            return;
        }
        self.controller_timer = Time::MAX;
        let Some(controller) = &mut self.controller else { return };
        controller.handle_timeout(self.now);
        self.after_controller();
    }
}

impl SwitchState {
    fn new(plan: &Plan, switch: usize) -> SwitchState {
        let traits = &plan.switches[switch];
        let port = |number: u32| openflow::PortDesc {
            port: PortNo(number),
            hw_addr: MacAddr([0x06, 0, 0, switch as u8, (number >> 8) as u8, number as u8]),
            name: format!("s{switch}-eth{number}"),
            is_admin_down: false,
            is_link_down: false,
            speed_kbps: 10_000_000,
        };
        let config = switch::Config {
            datapath: datapath_of(switch),
            ports: (1..=plan.wiring.ports[switch]).map(port).collect(),
            tables: 4,
            max_entries: traits.max_entries,
            max_groups: 1_000,
            buffers: traits.buffers,
            select: switch::Select {
                seed: traits.hash_seed,
                fields: match traits.is_hashing_udp {
                    true => switch::HashFields::FiveTuple,
                    false => switch::HashFields::OpenVSwitch,
                },
            },
            stats_refresh: traits.stats_refresh,
            packet_in_per_s: traits.packet_in_per_s,
            takes_tcp_flags: traits.takes_tcp_flags,
            description: openflow::Description {
                manufacturer: if traits.takes_tcp_flags { "Nicira, Inc." } else { "" }.to_owned(),
                ..openflow::Description::default()
            },
        };
        SwitchState {
            switch: Switch::new(config.clone()),
            config,
            is_on: true,
            off_count: 0,
            missing: None,
            channel: Channel::default(),
            plugs: vec![None; plan.wiring.ports[switch] as usize],
            timer: Time::MAX,
            disturbed: Time::ZERO,
            full_at: None,
        }
    }
}
