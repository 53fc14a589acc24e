//! A simulation: time, events and all state.
//!
//! Events are ordered by time and then by creation. Nothing else decides an order, so the same plan
//! causes the same events.

use std::collections::BTreeMap;

use balance::Build;
use balance::central::{AgentCommand, AgentReport, CentralEnv};
use control::Controller;
use net::{Bandwidth, Time};
use openflow::{ConnectionId, DatapathId, Envelope, MacAddr, PortNo};
use switch::Switch;

use crate::attacks::AttackState;
use crate::bounds::Bounds;
use crate::channel::{Channel, Way};
use crate::clients::{Client, ServiceState};
use crate::disruptions::{self, Disruptions};
use crate::generate::services::CHECKER;
use crate::hosts::{Flow, Host};
use crate::mutants::{Mutant, MutantInjector};
use crate::oracle::Oracles;
use crate::plan::{End, Plan};
use crate::reduction::Reduction;
use crate::report::{Failure, Oracle, Report};

pub(crate) const OWNER: u16 = 0xa7ab;
/// The kind of connection rules in cookies, after the owner.
pub(crate) const CONNECTS: u64 = 0x86;

/// Capacity of links as configured in the controller, so small that a few flows are large.
pub(crate) const CAPACITY: Bandwidth = Bandwidth::from_mbps(4);

pub(crate) const CHECKS: control::vip::Checker =
    control::vip::Checker { ipv4: CHECKER, mac: MacAddr([0x06, 0xa7, 0xff, 0, 0, 1]) };

pub type TraceSink = Box<dyn FnMut(&str)>;

#[derive(Debug)]
pub(crate) enum Event {
    Frame { cable: usize, side: usize, epoch: u32, frame: Frame },
    // The head of a channel's queue towards the switch or the controller may be due.
    Deliver { switch: usize, generation: u32, way: Way },
    // A message of a mutant bypasses all queues to a switch.
    Injected { switch: usize, envelope: Box<Envelope> },
    Connect { switch: usize, generation: u32 },
    // A side notices that a connection is closed.
    SwitchNotices { switch: usize, connection: ConnectionId },
    ControllerNotices { connection: ConnectionId },
    // An end of a cable detects a change of liveness.
    Notice { cable: usize, side: usize },
    SwitchTimer { switch: usize },
    ControllerTimer,
    Begin(usize),
    End(usize),
    SendRequest { client: usize },
    Attack { action: usize },
    Send { flow: usize },
    Announce { host: usize },
    Agent { incarnation: u32, report: AgentReport },
    AgentCommand(AgentCommand),
    Check,
    Disruption(disruptions::Event),
}

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) probe: Option<Probe>,
    /// Number of switches that it has passed.
    pub(crate) hops: u32,
}

impl Frame {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, probe: None, hops: 0 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) number: u64,
    pub(crate) flow: usize,
    pub(crate) sent: Time,
    pub(crate) visits: Vec<Visit>,
}

impl Probe {
    /// Describes the switches and ports that the frame has entered.
    pub(crate) fn path(&self) -> String {
        let visits = self.visits.iter().map(|visit| format!("s{}:{}", visit.switch, visit.in_port.0));
        visits.collect::<Vec<String>>().join(" ")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Visit {
    pub(crate) switch: usize,
    pub(crate) in_port: PortNo,
    pub(crate) headers: openflow::Headers,
    pub(crate) cable: usize,
}

#[derive(Debug)]
pub(crate) struct CableState {
    pub(crate) ends: [End; 2],
    pub(crate) delay: Time,
    /// Number of reasons why the direction from each end is cut.
    pub(crate) cuts: [u32; 2],
    /// Number of reasons why each end should detect the cable as dead.
    pub(crate) dark: [u32; 2],
    pub(crate) is_live: [bool; 2],
    /// Incremented by cuts: earlier frames of a direction are lost.
    pub(crate) epoch: [u32; 2],
    /// The time until which the controller may react to a cut or restoration.
    pub(crate) disturbed: Time,
}

impl CableState {
    /// Returns whether frames sent by an end arrive.
    pub(crate) fn is_usable_from(&self, side: usize) -> bool {
        self.cuts[side] == 0 && self.is_live == [true, true]
    }
    pub(crate) fn is_usable(&self) -> bool {
        self.is_usable_from(0) && self.is_usable_from(1)
    }
}

pub(crate) struct SwitchState {
    pub(crate) switch: Switch,
    pub(crate) config: switch::Config,
    pub(crate) is_on: bool,
    pub(crate) off_count: u32,
    /// A port that the switch lacks at the moment, with its plug.
    pub(crate) missing: Option<(PortNo, Option<(usize, usize)>)>,
    pub(crate) channel: Channel,
    /// Cable and side of each port, by port number minus one.
    pub(crate) plugs: Vec<Option<(usize, usize)>>,
    pub(crate) timer: Time,
    pub(crate) disturbed: Time,
    /// The last time a table or the groups were full.
    pub(crate) full_at: Option<Time>,
}

pub(crate) struct Simulation {
    pub(crate) plan: Plan,
    pub(crate) bounds: Bounds,
    pub(crate) now: Time,
    sequence: u64,
    /// Events by time and number of creation.
    queue: BTreeMap<(Time, u64), Event>,
    pub(crate) cables: Vec<CableState>,
    pub(crate) switches: Vec<SwitchState>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) clients: Vec<Client>,
    pub(crate) attacks: Vec<AttackState>,
    pub(crate) services: ServiceState,
    pub(crate) controller: Option<Controller>,
    pub(crate) controller_timer: Time,
    /// Number of controller instances so far.
    pub(crate) incarnation: u32,
    pub(crate) off_count: u32,
    pub(crate) connections: BTreeMap<ConnectionId, usize>,
    pub(crate) next_connection: u32,
    pub(crate) report_threshold: Option<u64>,
    pub(crate) injector: MutantInjector,
    pub(crate) oracles: Oracles,
    pub(crate) disruptions: Disruptions,
    pub(crate) report: Report,
    /// The time after which the whole network is repaired.
    pub(crate) disturbed: Time,
    pub(crate) failure: Option<Failure>,
    trace_sink: Option<TraceSink>,
}

pub(crate) fn mac_of(host: usize) -> MacAddr {
    MacAddr(net::address::host_mac(net::HostIx(host as u32)))
}
/// Returns whether a rule of the controller is of a kind.
pub(crate) fn is_of_kind(cookie: u64, kind: u64) -> bool {
    cookie >> 40 == u64::from(OWNER) << 8 | kind
}
pub(crate) fn datapath_of(switch: usize) -> DatapathId {
    DatapathId(switch as u64 + 1)
}

impl Simulation {
    pub(crate) fn new(
        plan: &Plan,
        reduction: &Reduction,
        mutant: Option<Mutant>,
        trace_sink: Option<TraceSink>,
    ) -> Simulation {
        let plan = reduction.apply(plan);
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
        let mut simulation = Simulation {
            bounds: Bounds::new(&plan),
            now: Time::ZERO,
            sequence: 0,
            queue: BTreeMap::new(),
            cables: wiring.cables.iter().map(cable).collect(),
            switches: (0..wiring.ports.len()).map(|switch| SwitchState::new(&plan, switch)).collect(),
            hosts: vec![Host::default(); wiring.hosts],
            flows: Vec::new(),
            clients: Vec::new(),
            attacks: Vec::new(),
            services: ServiceState {
                wanted: plan.services.first().cloned().unwrap_or_default(),
                ..ServiceState::default()
            },
            controller: None,
            controller_timer: Time::MAX,
            incarnation: 0,
            off_count: 0,
            connections: BTreeMap::new(),
            next_connection: 1,
            report_threshold: None,
            injector: MutantInjector::new(plan.seed, mutant),
            oracles: Oracles::default(),
            disruptions: Disruptions::default(),
            report: Report::default(),
            disturbed: Time::ZERO,
            failure: None,
            trace_sink,
            plan,
        };
        simulation.prepare(reduction);
        simulation
    }

    fn prepare(&mut self, reduction: &Reduction) {
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
            if reduction.without_switches.contains(&switch) {
                self.power_off(switch);
            } else {
                let at = Time::from_us(100) * (switch as u64 + 1);
                let generation = self.switches[switch].channel.generation;
                self.schedule(at, Event::Connect { switch, generation });
            }
        }
        for host in 0..self.hosts.len() {
            if reduction.without_hosts.contains(&host) {
                self.change_cable(host, [true; 2], [true; 2], true);
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

    /// Returns a new controller that knows only its configuration and the services.
    pub(crate) fn new_controller(&self, incarnation: u32) -> Controller {
        let spec = balance::Spec::parse(self.plan.balancer()).expect("plans name balancers that exist");
        let Build::Central(build) = spec.entry.build else { panic!("plans name central balancers") };
        let env = CentralEnv { seed: self.plan.seed };
        let known = |host: usize| match self.cables[host].ends[1] {
            End::Switch(switch, port) => control::KnownHost {
                mac: mac_of(host),
                ipv4: crate::generate::ipv4_of(host),
                datapath: datapath_of(switch),
                port,
            },
            End::Host(_) => unreachable!("hosts are the first ends of their cables"),
        };
        let hosts = if self.plan.knows_hosts { (0..self.hosts.len()).map(known).collect() } else { Vec::new() };
        let config = control::Config {
            // Every instance has another key, as a daemon draws it.
            discovery_key: Some((u128::from(self.plan.seed) << 64 | u128::from(incarnation)).to_be_bytes()),
            hosts,
            hosts_max: self.hosts.len() * 2,
            requests_mastership: self.injector.mutant != Some(Mutant::NoMastership),
            audit_interval: Some(Time::from_s(1)).filter(|_| self.injector.mutant != Some(Mutant::AuditsNever)),
            health_check_address: (!self.plan.services.is_empty()).then_some(CHECKS),
            uses_extensions: !self.plan.services.is_empty(),
            // A new instance may hash flows differently from the previous one.
            ecmp_hashing: match self.plan.seed.wrapping_add(u64::from(incarnation)) % 4 {
                3 => control::EcmpHashing::Shuffled,
                _ => control::EcmpHashing::Native,
            },
            ..self.plan.control.clone()
        };
        let config = self.mutate_config(config);
        let mut controller = Controller::new(config, build(&env, &spec.params));
        if !self.plan.services.is_empty() {
            let wanted = self.mutate_services(&self.services.wanted);
            controller.set_services(self.controller_now(), wanted).expect("generated services are valid");
        }
        controller
    }

    pub(crate) fn start_controller(&mut self) {
        let controller = self.new_controller(self.incarnation);
        self.incarnation += 1;
        self.controller_timer = Time::MAX;
        self.controller = Some(controller);
        self.oracles.topology.clear();
        self.after_controller();
    }

    pub(crate) fn schedule(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), event);
    }
    /// Schedules an event after a delay.
    pub(crate) fn after(&mut self, delay: Time, event: Event) {
        self.schedule(self.now.saturating_add(delay), event);
    }

    pub(crate) fn trace(&mut self, line: impl FnOnce(&Simulation) -> String) {
        if self.trace_sink.is_some() {
            let line = format!("{:>14.6} {}", self.now.as_s_f64(), line(self));
            self.trace_sink.iter_mut().for_each(|sink| sink(&line));
        }
    }

    /// Records a violation; only the first is kept.
    pub(crate) fn fail(&mut self, oracle: Oracle, message: impl FnOnce() -> String) {
        if self.is_lawless(oracle) {
            self.report.exemptions.lawless += 1;
        } else if self.failure.is_none() {
            self.failure = Some(Failure { oracle, at: self.now, message: message() });
        }
    }

    /// Marks the whole network as disturbed until this time.
    pub(crate) fn disturb_all(&mut self, until: Time) {
        self.disturbed = self.disturbed.max(until);
        self.end_windows();
    }

    pub(crate) fn run(mut self) -> Result<Report, Failure> {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            debug_assert!(at >= self.now, "time runs forwards");
            self.now = at;
            self.check_event_rate();
            self.report.events += 1;
            self.hash_event(&event);
            self.dispatch(event);
            if self.failure.is_some() || self.oracles.convergence.is_over {
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

    fn hash_event(&mut self, event: &Event) {
        let (kind, a, b) = match event {
            Event::Frame { cable, side, frame, .. } => (1, *cable * 2 + *side, frame.bytes.len()),
            Event::Deliver { switch, way, .. } => {
                let waiting = self.switches[*switch].channel.queues[*way as usize].waiting.len();
                (2 + *way as u64, *switch, waiting)
            }
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
            Event::AgentCommand(_) => (16, 0, 0),
            Event::Check => (17, 0, 0),
            Event::SendRequest { client } => (18, *client, 0),
            Event::Attack { action } => (19, *action, 0),
            Event::Disruption(_) => (20, 0, 0),
        };
        for word in [self.now.as_ps(), kind, a as u64, b as u64] {
            self.report.log_hash = (self.report.log_hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Frame { cable, side, epoch, frame } => self.frame_arrives(cable, side, epoch, frame),
            Event::Deliver { switch, generation, way } => self.deliver(switch, generation, way),
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
            Event::SendRequest { client } => self.send_request(client),
            Event::Attack { action } => self.attack(action),
            Event::Announce { host } => self.announce(host),
            Event::Agent { incarnation, report } => self.agent_reports(incarnation, report),
            Event::AgentCommand(command) => self.execute_agent_command(command),
            Event::Check => self.check(),
            Event::Disruption(event) => self.dispatch_disruption(event),
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
        if self.controller_timer > self.now || self.disruptions.pause.is_paused() {
            return;
        }
        self.controller_timer = Time::MAX;
        let now = self.controller_now();
        let Some(controller) = &mut self.controller else { return };
        controller.handle_timeout(now);
        self.check_timers();
        self.after_controller();
    }
}

impl SwitchState {
    /// Returns whether it has power and the controller can reach it.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_on && self.channel.is_good()
    }

    fn new(plan: &Plan, switch: usize) -> SwitchState {
        let traits = &plan.switches[switch];
        let config = traits.limited.as_ref().unwrap_or(&traits.config).clone();
        SwitchState {
            switch: Switch::new(config.clone()),
            is_on: true,
            off_count: 0,
            missing: None,
            channel: Channel::default(),
            plugs: vec![None; config.ports.len()],
            config,
            timer: Time::MAX,
            disturbed: Time::ZERO,
            full_at: None,
        }
    }
}
