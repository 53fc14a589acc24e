//! Runs with a controller: all switches are those of the `switch` crate, channels to the controller
//! have delay, rate and failures, and hosts have agents.
//!
//! A packet is not a frame here. Its flow slot and direction determine its headers; only its VLAN
//! tag may change on the path. A switch is queried once per flow, direction and input link, and
//! again when its state has changed (`flows.rs`). Packets for the controller become frames, as do
//! packets from it (`frames.rs`). Frames queue on links like all other packets.
//!
//! One event queue orders all events of the control plane (`event_queue.rs`); the engine keeps one
//! pending event for it. Its clock is the simulated time plus the duration of a warm boot
//! (`boot.rs`). During the boot, messages and frames take no time.

mod agents;
mod arp;
mod boot;
mod channels;
mod cost;
mod engine_glue;
mod event_queue;
mod flows;
mod frames;
mod legacy;
mod packet_ins;
mod switch;
pub(crate) mod switch_cpu;
mod vip_connections;

use net::Time;

use crate::links::network::Loss;
use crate::outcome::PlaneRecord;
use crate::queue::NIL;
use crate::scenario::{ControlConfig, Scenario};
use crate::switching::plane::ControlPlane;
use crate::timers::WakeTimer;

pub(crate) use vip_connections::DirectionHeaders;

use agents::Agents;
use arp::HostArp;
use channels::Connections;
use cost::Cost;
use event_queue::ControlEventQueue;
use flows::Flows;
use frames::{FrameOut, Frames};
use legacy::Legacy;
use switch::ControlledSwitch;

/// Work of the control plane between two reports of progress, in events.
const WORK_PER_REPORT: u32 = 1 << 8;

/// Maximum number of switches a packet may pass; a packet that passes more is in a loop.
const HOP_LIMIT: u32 = 64;

pub(crate) struct Controlled<'a> {
    plane: &'a mut (dyn ControlPlane + 'a),
    plane_timer: WakeTimer,
    is_plane_down: bool,
    config: &'a ControlConfig,
    /// Clock value at simulated time 0.
    boot_time: u64,
    is_booting: bool,
    /// Whether the controller has received input since its outputs were applied; only while booting.
    has_undrained_input: bool,
    /// Work of the control plane since the last report of progress, in events.
    unreported: u32,
    host_count: u32,
    switches: Vec<ControlledSwitch>,
    legacy: Legacy<'a>,
    /// Per link: its receiving switch, or [`NIL`] for a host, and the port there.
    ends: Vec<(u32, u32)>,
    /// Per link: its receiving host; meaningless if that is a switch.
    hosts_by_link: Vec<u32>,
    connections: Connections,
    events: ControlEventQueue,
    flows: Flows,
    agents: Agents,
    arp: HostArp,
    frames: Frames,
    /// Frames sent by switches that the engine has not yet put on links.
    outgoing: Vec<FrameOut>,
    pub(crate) resets: Vec<u32>,
    /// Packets that went to the controller only.
    pub(crate) packets_taken: u64,
    cost: Cost,
    pub(crate) fault: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forwarding {
    Link(u32),
    ToController,
    Drop(Loss),
}

impl<'a> Controlled<'a> {
    pub(crate) fn new(
        scenario: &Scenario<'a>,
        host_count: u32,
        switches: &[net::NodeIx],
        plane: &'a mut (dyn ControlPlane + 'a),
    ) -> Controlled<'a> {
        let (topology, config) = (scenario.topology, &scenario.config.control);
        let legacy = Legacy::new(topology, switches, &config.legacy);
        let switches: Vec<ControlledSwitch> =
            switches.iter().map(|node| ControlledSwitch::new(scenario, *node)).collect();
        let mut ends = vec![(NIL, 0); topology.links().len()];
        for (ix, station) in (0u32..).zip(&switches) {
            for (position, out) in (0u32..).zip(&station.out) {
                ends[(*out ^ 1) as usize] = (ix, position + 1);
            }
        }
        let mut hosts_by_link = vec![0; topology.links().len()];
        for (host, node) in (0u32..).zip(topology.hosts()) {
            topology.out_links(*node).iter().for_each(|link| hosts_by_link[(link.0 ^ 1) as usize] = host);
        }
        Controlled {
            plane,
            plane_timer: WakeTimer::default(),
            is_plane_down: false,
            config,
            boot_time: 0,
            is_booting: false,
            has_undrained_input: false,
            unreported: 0,
            host_count,
            cost: Cost::new(switches.len()),
            switches,
            legacy,
            ends,
            hosts_by_link,
            connections: Connections::default(),
            events: ControlEventQueue::default(),
            flows: Flows::default(),
            agents: Agents::default(),
            arp: HostArp::of(topology),
            frames: Frames::default(),
            outgoing: Vec::new(),
            resets: Vec::new(),
            packets_taken: 0,
            fault: None,
        }
    }

    #[inline]
    fn clock(&self, now: u64) -> u64 {
        now + self.boot_time
    }

    /// Returns whether progress must be reported, so that a run can be interrupted.
    pub(crate) fn is_report_due(&mut self) -> bool {
        let is_due = self.unreported >= WORK_PER_REPORT;
        if is_due {
            self.unreported = 0;
        }
        is_due
    }

    /// Stops the run; the first reason counts.
    fn abort(&mut self, reason: impl FnOnce() -> String) {
        if self.fault.is_none() {
            self.fault = Some(reason());
        }
    }

    /// Returns the bytes of a frame in flight.
    pub(crate) fn frame(&self, frame: u32) -> &[u8] {
        self.frames.bytes(frame)
    }

    pub(crate) fn forget_frame(&mut self, frame: u32) {
        self.frames.take(frame);
    }

    pub(crate) fn record(&self, now: u64) -> PlaneRecord {
        let (arp_requests, arp_failures) = self.arp.counts();
        let record = self.cost.record(self.clock(now), now, &self.switches);
        let addressing = self.config.hosts_resolve.then_some(self.config.addressing);
        PlaneRecord { tally: self.plane.tally(), addressing, arp_requests, arp_failures, ..record }
    }
}

fn time(clock: u64) -> Time {
    Time::from_ps(clock)
}
