//! An OpenFlow switch with its ports and its control channel.

use net::{NodeIx, RandomStream, Time, Topology, address};
use openflow::{DatapathId, Description, MacAddr, PortDesc, PortNo};
use switch::{Config, HashFields, Output, Select, Switch};

use super::channels::Channel;
use super::event_queue::ControlEvent;
use super::frames::FrameOut;
use super::{Controlled, time};
use crate::scenario::{HashSeeds, Scenario};
use crate::timers::WakeTimer;

const TABLES: u8 = 8;

pub(super) struct ControlledSwitch {
    pub(super) switch: Switch,
    /// Its tier in the topology; 1 for the switches of hosts.
    pub(super) tier: u8,
    /// Configuration for the new switch after a power failure.
    config: Config,
    /// Outgoing links, by port number less one.
    pub(super) out: Vec<u32>,
    is_live: Vec<bool>,
    pub(super) channel: Channel,
    timer: WakeTimer,
    /// Hops with packets that the switch has not counted yet: direction of a flow, and position.
    pub(super) uncounted: Vec<(u32, u32)>,
    /// Clock value from which on its statistics are others, so that earlier packets must be counted.
    pub(super) counts_until: u64,
}

impl ControlledSwitch {
    pub(super) fn new(scenario: &Scenario<'_>, node: NodeIx) -> ControlledSwitch {
        let config = config(scenario, node);
        let out: Vec<u32> = scenario.topology.out_links(node).iter().map(|link| link.0).collect();
        ControlledSwitch {
            switch: Switch::new(config.clone()),
            config,
            tier: scenario.topology.node(node).tier.0,
            is_live: vec![true; out.len()],
            out,
            channel: Channel::default(),
            timer: WakeTimer::default(),
            uncounted: Vec::new(),
            counts_until: 0,
        }
    }

    #[inline]
    pub(super) fn link_of(&self, port: PortNo) -> Option<u32> {
        self.out.get((port.0 as usize).wrapping_sub(1)).copied()
    }
}

fn config(scenario: &Scenario<'_>, node: NodeIx) -> Config {
    let (topology, control) = (scenario.topology, &scenario.config.control);
    let name = &topology.node(node).name;
    let seed = match control.hash {
        HashSeeds::PerSwitch => RandomStream::new(scenario.seed, &format!("select {name}")).next_u64(),
        HashSeeds::Identical => RandomStream::new(scenario.seed, "select").next_u64(),
    };
    Config {
        datapath: DatapathId(address::datapath_of(node)),
        ports: ports(topology, node),
        tables: TABLES,
        max_entries: control.max_entries,
        max_groups: control.max_groups,
        buffers: 0,
        select: Select { seed, fields: HashFields::FiveTuple },
        stats_refresh: control.stats_refresh,
        packet_in_per_s: control.packet_in_per_s,
        supports_tcp_flags: false,
        support: switch::Support { ip_in_ip: true, ..switch::Support::default() },
        description: Description {
            manufacturer: "Anabranch".to_owned(),
            hardware: "simulated".to_owned(),
            software: env!("CARGO_PKG_VERSION").to_owned(),
            serial: node.0.to_string(),
            datapath: name.clone(),
        },
    }
}

fn ports(topology: &Topology, node: NodeIx) -> Vec<PortDesc> {
    let port = |(number, link): (u32, &net::LinkIx)| {
        // Locally administered, and distinct from the addresses of hosts.
        let ([_, a, b, c], [_, _, d, e]) = (node.0.to_be_bytes(), number.to_be_bytes());
        let speed_kbps = u32::try_from(topology.link(*link).rate.as_bps() / 1000).unwrap_or(u32::MAX);
        PortDesc::up(PortNo(number), MacAddr([0x06, a, b, c, d, e]), format!("eth{number}"), speed_kbps)
    };
    (1u32..).zip(topology.out_links(node)).map(port).collect()
}

impl Controlled<'_> {
    pub(super) fn drain_switch(&mut self, clock: u64, ix: u32) {
        self.drain_switch_after(clock, ix, 0);
    }

    /// Same as [`Controlled::drain_switch`] for frames that have passed `hops` switches.
    pub(super) fn drain_switch_after(&mut self, clock: u64, ix: u32, hops: u32) {
        while let Some(output) = self.switches[ix as usize].switch.poll_output() {
            match output {
                Output::Message(connection, envelope) => self.send_up(clock, ix, connection, envelope),
                Output::Frame(port, bytes) => {
                    if let Some(link) = self.switches[ix as usize].link_of(port) {
                        self.outgoing.push(FrameOut { link, bytes, hops });
                    }
                }
            }
        }
        let station = &mut self.switches[ix as usize];
        self.cost.note_entries(clock, ix, &station.switch.tally());
        if let Some(at) = station.timer.set(clock, station.switch.poll_timeout().map(Time::as_ps)) {
            self.events.put(at, ControlEvent::SwitchTimer(ix));
        }
    }

    pub(super) fn on_switch_timer(&mut self, clock: u64, ix: u32) {
        let station = &mut self.switches[ix as usize];
        if !station.timer.is_valid(clock) || station.channel.faults.is_off {
            return;
        }
        if station.switch.poll_timeout().is_some_and(|at| at <= time(clock)) {
            self.settled(ix).switch.handle_timeout(time(clock));
        }
        self.drain_switch(clock, ix);
    }

    /// Sets detected link states: a switch sees them at the ports that receive from the links.
    pub(crate) fn set_alive(&mut self, now: u64, alive: &[bool]) {
        let clock = self.clock(now);
        self.update_legacy(alive);
        for ix in 0..self.switches.len() as u32 {
            for position in 0..self.switches[ix as usize].out.len() {
                let station = &mut self.switches[ix as usize];
                let is_live = alive[(station.out[position] ^ 1) as usize];
                if std::mem::replace(&mut station.is_live[position], is_live) != is_live
                    && !station.channel.faults.is_off
                {
                    let port = PortNo(position as u32 + 1);
                    self.settled(ix).switch.set_port_live(time(clock), port, is_live);
                    self.drain_switch(clock, ix);
                }
            }
        }
    }

    /// Restarts a switch with an empty state: earlier decisions about flows are invalid.
    pub(super) fn switch_on(&mut self, clock: u64, ix: u32) {
        self.forget_decisions();
        let station = &mut self.switches[ix as usize];
        station.switch = Switch::new(station.config.clone());
        (station.timer, station.counts_until) = (WakeTimer::default(), 0);
        for (port, is_live) in (1u32..).zip(&station.is_live) {
            if !is_live {
                station.switch.set_port_live(time(clock), PortNo(port), false);
            }
        }
        self.drain_switch(clock, ix);
    }
}
