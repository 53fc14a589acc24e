//! Runs with a controller: every switch is an OpenFlow switch of the `switch` crate, its channel to the controller has
//! delay, rate and failures, and hosts have agents. The packet loop of other runs knows none of this.
//!
//! A packet is not a frame here: its flow slot and direction say what its headers are, and its VLAN tag is all of them that
//! may change on the way. What a switch does with them is asked once per flow, direction and incoming link, and again when
//! the switch has changed (`flows.rs`). Packets for the controller become frames, as do the packets it sends itself
//! (`frames.rs`); these queue on links like all others.
//!
//! Everything of the control plane happens in the order of one agenda (`agenda.rs`), for which the engine keeps one pending
//! event. Its clock is the simulated time plus what a warm boot took (`boot.rs`): during that, messages and frames take no
//! time.

mod agenda;
mod agents;
mod boot;
mod channels;
mod cost;
mod driving;
mod flows;
mod frames;
mod station;
mod virtuals;

use net::Time;

use crate::network::Loss;
use crate::outcome::PlaneRecord;
use crate::plane::ControlPlane;
use crate::queue::NIL;
use crate::scenario::{ControlConfig, Scenario};

pub(crate) use flows::NewTuple;
pub(crate) use virtuals::{VirtualTuple, Ways};

use agenda::{Agenda, Alarm};
use agents::Agents;
use channels::Connections;
use cost::Cost;
use flows::Flows;
use frames::{FrameOut, Frames};
use station::Station;

/// Switches a packet may pass; one that passes more goes round in circles.
const HOP_LIMIT: u32 = 64;

/// Everything of a run that a controller adds.
pub(crate) struct Controlled<'a> {
    plane: &'a mut (dyn ControlPlane + 'a),
    plane_alarm: Alarm,
    is_plane_down: bool,
    config: &'a ControlConfig,
    /// What the clock showed when simulated time began.
    boot_time: u64,
    is_booting: bool,
    host_count: u32,
    /// Switches in the order of the engine's numbers.
    stations: Vec<Station>,
    /// Per link: its receiving switch, or [`NIL`] for a host, and the port there.
    ends: Vec<(u32, u32)>,
    /// Per link: its receiving host; of no meaning where that is a switch.
    hosts_by_link: Vec<u32>,
    connections: Connections,
    agenda: Agenda,
    flows: Flows,
    agents: Agents,
    frames: Frames,
    /// Frames switches have sent and the engine has not yet put on links.
    outgoing: Vec<FrameOut>,
    /// Slots of connections that were broken by a reset.
    resets: Vec<u32>,
    cost: Cost,
    /// Why the run cannot go on.
    fault: Option<String>,
}

/// What becomes of a packet at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Out on this link.
    Link(u32),
    /// To the controller and nowhere else.
    Taken,
    /// Nowhere.
    Lost(Loss),
}

impl<'a> Controlled<'a> {
    pub(crate) fn new(
        scenario: &Scenario<'a>,
        host_count: u32,
        switches: &[net::NodeIx],
        plane: &'a mut (dyn ControlPlane + 'a),
    ) -> Controlled<'a> {
        let (topology, config) = (scenario.topology, &scenario.config.control);
        let stations: Vec<Station> = switches.iter().map(|node| Station::new(scenario, *node)).collect();
        let mut ends = vec![(NIL, 0); topology.links().len()];
        for (ix, station) in (0u32..).zip(&stations) {
            for (position, out) in (0u32..).zip(station.out_links()) {
                ends[(*out ^ 1) as usize] = (ix, position + 1);
            }
        }
        let mut hosts_by_link = vec![0; topology.links().len()];
        for (host, node) in (0u32..).zip(topology.hosts()) {
            topology.out_links(*node).iter().for_each(|link| hosts_by_link[(link.0 ^ 1) as usize] = host);
        }
        Controlled {
            plane,
            plane_alarm: Alarm::default(),
            is_plane_down: false,
            config,
            boot_time: 0,
            is_booting: false,
            host_count,
            cost: Cost::new(stations.len()),
            stations,
            ends,
            hosts_by_link,
            connections: Connections::default(),
            agenda: Agenda::default(),
            flows: Flows::default(),
            agents: Agents::default(),
            frames: Frames::default(),
            outgoing: Vec::new(),
            resets: Vec::new(),
            fault: None,
        }
    }

    /// The time switches and controller see.
    #[inline]
    fn clock(&self, now: u64) -> u64 {
        now + self.boot_time
    }

    /// Packets that went to the controller and nowhere else.
    pub(crate) fn packets_taken(&self) -> u64 {
        self.cost.packets_taken
    }

    /// Why the run had to stop.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The run cannot go on; the first reason counts.
    fn give_up(&mut self, reason: impl FnOnce() -> String) {
        if self.fault.is_none() {
            self.fault = Some(reason());
        }
    }

    /// A frame's packet is gone.
    pub(crate) fn forget_frame(&mut self, frame: u32) {
        self.frames.take(frame);
    }

    /// What it all cost, at the end of the run.
    pub(crate) fn record(&self, now: u64) -> PlaneRecord {
        self.cost.record(self.clock(now), now, &self.stations, self.plane.tally(), self.agents.tally())
    }
}

fn time(clock: u64) -> Time {
    Time::from_ps(clock)
}
