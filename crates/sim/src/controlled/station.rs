//! A switch with its ports and its channel.

use net::{NodeIx, Stream, Topology, address};
use openflow::{DatapathId, Description, MacAddr, PortDesc, PortNo};
use switch::{Config, HashFields, Output, Select, Switch};

use super::agenda::{Alarm, Item};
use super::channels::Channel;
use super::frames::FrameOut;
use super::{Controlled, time};
use crate::scenario::{HashSeeds, Scenario};

/// Tables of a pipeline.
const TABLES: u8 = 8;

/// See the module's documentation.
pub(super) struct Station {
    pub(super) switch: Switch,
    /// To make it anew from when it comes back.
    config: Config,
    /// Links out of it, by port number less one.
    out: Vec<u32>,
    /// Which ports it believes to be alive.
    is_live: Vec<bool>,
    pub(super) channel: Channel,
    alarm: Alarm,
}

impl Station {
    pub(super) fn new(scenario: &Scenario<'_>, node: NodeIx) -> Station {
        let config = config(scenario, node);
        let out: Vec<u32> = scenario.topology.out_links(node).iter().map(|link| link.0).collect();
        Station {
            switch: Switch::new(config.clone()),
            config,
            is_live: vec![true; out.len()],
            out,
            channel: Channel::default(),
            alarm: Alarm::default(),
        }
    }

    pub(super) fn out_links(&self) -> &[u32] {
        &self.out
    }

    /// The link out of a port.
    #[inline]
    pub(super) fn link_of(&self, port: PortNo) -> Option<u32> {
        self.out.get((port.0 as usize).wrapping_sub(1)).copied()
    }
}

fn config(scenario: &Scenario<'_>, node: NodeIx) -> Config {
    let (topology, control) = (scenario.topology, &scenario.config.control);
    let name = &topology.node(node).name;
    let seed = match control.hash {
        HashSeeds::PerSwitch => Stream::new(scenario.seed, &format!("select {name}")).bits(),
        HashSeeds::Identical => Stream::new(scenario.seed, "select").bits(),
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
        takes_tcp_flags: false,
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
    let port = |(number, link): (u32, &net::LinkIx)| PortDesc {
        port: PortNo(number),
        hw_addr: port_mac(node, number),
        name: format!("eth{number}"),
        is_admin_down: false,
        is_link_down: false,
        speed_kbps: u32::try_from(topology.link(*link).rate.as_bps() / 1000).unwrap_or(u32::MAX),
    };
    (1u32..).zip(topology.out_links(node)).map(port).collect()
}

/// Addresses of ports: locally administered, apart from those of hosts.
fn port_mac(node: NodeIx, port: u32) -> MacAddr {
    let ([_, a, b, c], [_, _, d, e]) = (node.0.to_be_bytes(), port.to_be_bytes());
    MacAddr([0x06, a, b, c, d, e])
}

impl Controlled<'_> {
    /// Takes what a switch has to say and notes when it wants to be called.
    pub(super) fn drain_switch(&mut self, clock: u64, ix: u32) {
        self.drain_switch_after(clock, ix, 0);
    }

    /// The same, where frames go on that have passed `hops` switches.
    pub(super) fn drain_switch_after(&mut self, clock: u64, ix: u32, hops: u32) {
        while let Some(output) = self.stations[ix as usize].switch.poll_output() {
            match output {
                Output::Message(connection, envelope) => self.send_up(clock, ix, connection, envelope),
                Output::Frame(port, bytes) => {
                    if let Some(link) = self.stations[ix as usize].link_of(port) {
                        self.outgoing.push(FrameOut { link, bytes, hops });
                    }
                }
            }
        }
        let station = &mut self.stations[ix as usize];
        self.cost.note_entries(clock, ix, &station.switch.tally());
        if let Some(at) = station.alarm.set(clock, station.switch.poll_timeout()) {
            self.agenda.put(at, Item::SwitchTimer(ix));
        }
    }

    pub(super) fn on_switch_timer(&mut self, clock: u64, ix: u32) {
        let station = &mut self.stations[ix as usize];
        if !station.alarm.rings(clock) {
            return;
        }
        let is_due = station.switch.poll_timeout().is_some_and(|at| at <= time(clock));
        if is_due && !station.channel.faults.is_off {
            station.switch.handle_timeout(time(clock));
        }
        if !station.channel.faults.is_off {
            self.drain_switch(clock, ix);
        }
    }

    /// Links are now known to be alive or dead: switches see it at the ports that receive from them.
    pub(crate) fn set_alive(&mut self, now: u64, alive: &[bool]) {
        let clock = self.clock(now);
        for ix in 0..self.stations.len() as u32 {
            for position in 0..self.stations[ix as usize].out.len() {
                let station = &mut self.stations[ix as usize];
                let is_live = alive[(station.out[position] ^ 1) as usize];
                if std::mem::replace(&mut station.is_live[position], is_live) != is_live
                    && !station.channel.faults.is_off
                {
                    station.switch.set_port_live(time(clock), PortNo(position as u32 + 1), is_live);
                    self.drain_switch(clock, ix);
                }
            }
        }
    }

    /// A switch has lost its power.
    pub(super) fn switch_off(&mut self, clock: u64, ix: u32) {
        self.cost.note_loss(clock, ix, &self.stations[ix as usize].switch.tally());
    }

    /// It is back, as new; what flows knew of its rules no longer holds.
    pub(super) fn switch_on(&mut self, clock: u64, ix: u32) {
        let station = &mut self.stations[ix as usize];
        station.switch = Switch::new(station.config.clone());
        station.alarm = Alarm::default();
        for (port, is_live) in (1u32..).zip(&station.is_live) {
            if !is_live {
                station.switch.set_port_live(time(clock), PortNo(port), false);
            }
        }
        self.flows.forget_decisions();
        self.drain_switch(clock, ix);
    }
}
