//! Frames are lost only because of faults, not because of path changes.
//!
//! A frame that the controller passes on, of an addressing mode, is not lost.
//!
//! A loss is exempted in three cases. First, while faults on the frame's path, or on the path of
//! the flow's last delivered frame, are being repaired (the bounds of [`crate::bounds`]). Second,
//! at switches whose tables are full. Third, between hosts that are connected only through
//! unreachable switches or parts under repair.

use crate::report::Oracle;
use crate::simulation::{Frame, Simulation};

impl Simulation {
    pub(crate) fn check_forwarded(&mut self, switch: usize, parent: Frame, had_probe: bool, copies: usize) {
        if copies > 1 && had_probe {
            self.fail(Oracle::Delivery, || format!("s{switch} made {copies} copies of a frame"));
        }
        if copies == 0 && had_probe {
            let why = self.why_lost(switch, &parent);
            self.check_lost(parent, why, &[], Some(switch));
        }
    }

    fn why_lost(&mut self, switch: usize, frame: &Frame) -> &'static str {
        let Some(visit) = frame.probe.as_ref().and_then(|probe| probe.visits.last()).copied() else { return "unknown" };
        let mut decision = switch::Decision::default();
        self.switches[switch].switch.decide(self.now, visit.in_port, &visit.headers, &mut decision);
        crate::fabric::reason(&decision)
    }

    pub(crate) fn check_lost(&mut self, frame: Frame, why: &'static str, cables: &[usize], switch: Option<usize>) {
        let Some(probe) = frame.probe else { return };
        if self.is_passed_on(why) {
            return;
        }
        self.report.frames_lost += 1;
        let (from, to) = (self.flows[probe.flow].from, self.flows[probe.flow].to);
        let is_quiet = self.now > self.disturbed && probe.sent > self.disturbed;
        let (mut all_cables, mut all_switches): (Vec<usize>, Vec<usize>) =
            probe.visits.iter().map(|visit| (visit.cable, visit.switch)).unzip();
        all_cables.extend_from_slice(cables);
        all_cables.extend([from, to]);
        all_switches.extend(switch);
        // The output port may be dead: the dead cables of the switch are involved, too.
        let plugs = switch.into_iter().flat_map(|switch| self.switches[switch].plugs.iter().flatten());
        all_cables.extend(plugs.map(|(cable, _)| *cable).filter(|cable| !self.cables[*cable].is_usable()));
        let is_known = match &self.flows[probe.flow].path {
            Some((cables, switches)) => {
                all_cables.extend(cables);
                all_switches.extend(switches);
                true
            }
            None => false,
        };
        let is_disturbed = all_cables.iter().any(|cable| self.cables[*cable].disturbed >= probe.sent)
            || all_switches.iter().any(|switch| self.switches[*switch].disturbed >= probe.sent);
        self.trace(|_| format!("LOST h{from} to h{to} at {switch:?} {cables:?}: {why}"));
        if !is_quiet && (is_disturbed || !is_known) {
            self.report.exemptions.repair += 1;
        } else if switch.is_some_and(|switch| self.switches[switch].full_at.is_some()) {
            self.report.exemptions.table_full += 1;
        } else if !self.is_obliged(from, to) {
            self.report.exemptions.cut_off += 1;
        } else if !self.is_connected_since(from, to, probe.sent) {
            self.report.exemptions.repair += 1;
        } else {
            let place = switch.map_or_else(|| format!("on cable {cables:?}"), |switch| format!("at s{switch}"));
            let words = format!("a frame of h{from} to h{to} was lost {place}: {why}; its path: {}", probe.path());
            self.fail(Oracle::Loss, || words);
        }
    }
}
