//! Cables and the frames on them.

use core::ops::{Add, Sub};

use net::Time;
use openflow::{Headers, PortNo, frame};

use crate::plan::End;
use crate::simulation::{Event, Frame, Simulation, Visit};

/// Maximum number of switches that a frame passes. A path without a loop is shorter in every network that
/// is generated.
const HOPS_MAX: u32 = 100;

impl Simulation {
    pub(crate) fn emit(&mut self, switch: usize, port: PortNo, frame: Frame) {
        let plug = (port.0 as usize).checked_sub(1).and_then(|at| *self.switches[switch].plugs.get(at)?);
        match plug {
            Some((cable, side)) => self.send_frame(cable, side, frame),
            None => self.check_lost(frame, "it left by a port with no cable", &[], Some(switch)),
        }
    }

    pub(crate) fn send_frame(&mut self, cable: usize, side: usize, frame: Frame) {
        let state = &self.cables[cable];
        if !state.is_usable_from(side) {
            let switch = match state.ends[side] {
                End::Switch(switch, _) => Some(switch),
                End::Host(_) => None,
            };
            return self.check_lost(frame, "it was sent into a cable that is cut", &[cable], switch);
        }
        let (delay, epoch) = (state.delay, state.epoch[side]);
        self.after(delay, Event::Frame { cable, side: 1 - side, epoch, frame });
    }

    pub(crate) fn frame_arrives(&mut self, cable: usize, side: usize, epoch: u32, mut frame: Frame) {
        let state = &self.cables[cable];
        if state.epoch[1 - side] != epoch {
            return self.check_lost(frame, "the cable was cut under it", &[cable], None);
        }
        match state.ends[side] {
            End::Host(host) => self.host_receives(host, frame),
            End::Switch(switch, port) => {
                if !self.switches[switch].is_on {
                    return;
                }
                if frame.hops > HOPS_MAX {
                    return self.report_loop(&frame);
                }
                if let Some(probe) = &mut frame.probe {
                    let headers = frame::parse(&frame.bytes).unwrap_or_default();
                    let visit = Visit { switch, in_port: port, headers, cable };
                    let is_again = probe.visits.iter().any(|before| {
                        (before.switch, before.in_port, before.headers) == (visit.switch, visit.in_port, visit.headers)
                    });
                    probe.visits.push(visit);
                    if is_again {
                        return self.report_loop(&frame);
                    }
                }
                let bytes = std::mem::take(&mut frame.bytes);
                self.switches[switch].switch.receive(self.now, port, &bytes);
                frame.bytes = bytes;
                self.after_switch(switch, Some(frame));
            }
        }
    }

    /// Adds reasons for a cable to be cut (from each end) and to be detected as dead (by each end),
    /// or removes them.
    pub(crate) fn change_cable(&mut self, cable: usize, is_cut: [bool; 2], is_dark: [bool; 2], begins: bool) {
        let change: fn(u32, u32) -> u32 = if begins { Add::add } else { Sub::sub };
        for side in 0..2 {
            let state = &mut self.cables[cable];
            state.cuts[side] = change(state.cuts[side], u32::from(is_cut[side]));
            state.dark[side] = change(state.dark[side], u32::from(is_dark[side]));
            state.epoch[side] += u32::from(is_cut[side] && begins);
            if is_dark[side] {
                self.after(self.plan.notice, Event::Notice { cable, side });
            }
        }
    }

    /// Updates the liveness that an end of a cable detects.
    pub(crate) fn notice(&mut self, cable: usize, side: usize) {
        let state = &mut self.cables[cable];
        let is_live = state.dark[side] == 0;
        if state.is_live[side] == is_live {
            return;
        }
        state.is_live[side] = is_live;
        match state.ends[side] {
            End::Switch(switch, port) if self.switches[switch].is_on => {
                self.switches[switch].switch.set_port_live(self.now, port, is_live);
                self.after_switch(switch, None);
            }
            End::Switch(..) => {}
            End::Host(host) if is_live => self.announce_once(host),
            End::Host(_) => {}
        }
    }

    /// Marks a cable as disturbed: its traffic is being repaired for this long.
    pub(crate) fn disturb_cable(&mut self, cable: usize, lasts: Time) {
        let until = self.now + lasts;
        self.cables[cable].disturbed = self.cables[cable].disturbed.max(until);
        self.disturb_all(until);
    }

    /// Returns the end of the path of a packet with these headers, sent by a host now.
    pub(crate) fn walk(&mut self, host: usize, headers: Headers) -> Walk {
        let mut walk = Walk { end: WalkEnd::Lost("it was sent into a cable that is cut", None), cables: Vec::new() };
        let (mut cable, mut side, mut headers) = (host, 0, headers);
        let mut seen: Vec<(usize, PortNo, Headers)> = Vec::new();
        let mut decision = switch::Decision::default();
        loop {
            walk.cables.push(cable);
            if !self.cables[cable].is_usable_from(side) {
                return walk;
            }
            let (switch, port) = match self.cables[cable].ends[1 - side] {
                End::Host(host) => {
                    walk.end = WalkEnd::Host(host, headers);
                    return walk;
                }
                End::Switch(switch, port) => (switch, port),
            };
            if seen.contains(&(switch, port, headers)) {
                walk.end = WalkEnd::Loop(switch);
                return walk;
            }
            seen.push((switch, port, headers));
            self.switches[switch].switch.decide(self.now, port, &headers, &mut decision);
            let [egress] = decision.egress[..] else {
                walk.end = WalkEnd::Lost(reason(&decision), Some(switch));
                return walk;
            };
            headers = egress.headers;
            let plug = (egress.port.0 as usize).checked_sub(1).and_then(|at| *self.switches[switch].plugs.get(at)?);
            let Some(next) = plug else {
                walk.end = WalkEnd::Lost("it left by a port with no cable", Some(switch));
                return walk;
            };
            (cable, side) = next;
            walk.end = WalkEnd::Lost("it was sent into a cable that is cut", Some(switch));
        }
    }
}

/// Why a frame leaves by no port although its switch passed it on.
pub(crate) const TO_CONTROLLER: &str = "it went only to the controller";

pub(crate) fn reason(decision: &switch::Decision) -> &'static str {
    use switch::NoOutput;
    match decision.no_output {
        _ if decision.egress.len() > 1 => "it was copied",
        Some(NoOutput::Miss) => "no entry matched",
        Some(NoOutput::Dropped) => "an entry dropped it",
        Some(NoOutput::NoLiveBucket) => "no bucket was alive",
        Some(NoOutput::PortDown) => "its output port is down",
        None => TO_CONTROLLER,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) end: WalkEnd,
    pub(crate) cables: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum WalkEnd {
    Host(usize, Headers),
    /// A loss: the reason, and the switch.
    Lost(&'static str, Option<usize>),
    Loop(usize),
}
