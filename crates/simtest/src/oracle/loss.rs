//! Frames are lost only where something broke: not by changes of paths.
//!
//! A loss is excused while what broke on the frame's way, or on the way of the flow's last frame that arrived, is being
//! repaired (the bounds of [`crate::bounds`]), at switches whose tables are full, and between hosts that are connected
//! only through switches out of control, or only by what is being repaired.

use crate::report::Oracle;
use crate::world::{Frame, World};

impl World {
    /// A switch has taken a frame, and sent on this many copies.
    pub(crate) fn oracle_forwarded(&mut self, switch: usize, parent: Frame, had_probe: bool, copies: usize) {
        if copies > 1 && had_probe {
            self.fail(Oracle::Delivery, || format!("s{switch} made {copies} copies of a frame"));
        }
        if copies == 0 && had_probe {
            let why = self.why_lost(switch, &parent);
            self.oracle_lost(parent, why, &[], Some(switch));
        }
    }

    fn why_lost(&mut self, switch: usize, frame: &Frame) -> &'static str {
        let Some(visit) = frame.probe.as_ref().and_then(|probe| probe.visits.last()).copied() else { return "unknown" };
        let mut decision = switch::Decision::default();
        self.switches[switch].switch.decide(self.now, visit.in_port, &visit.headers, &mut decision);
        crate::fabric::reason(&decision)
    }

    /// A frame is gone, with the cables and the switch that had to do with it at last.
    pub(crate) fn oracle_lost(&mut self, frame: Frame, why: &'static str, cables: &[usize], switch: Option<usize>) {
        let Some(probe) = frame.probe else { return };
        self.report.frames_lost += 1;
        let (from, to) = (self.flows[probe.flow].from, self.flows[probe.flow].to);
        let at_quiet = self.now > self.disturbed && probe.sent > self.disturbed;
        let (mut all_cables, mut all_switches): (Vec<usize>, Vec<usize>) =
            probe.visits.iter().map(|visit| (visit.cable, visit.switch)).unzip();
        all_cables.extend_from_slice(cables);
        all_cables.extend([from, to]);
        all_switches.extend(switch);
        // It may have been about to leave by a port that is dead: those cables had to do with it, too.
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
        self.tell(|_| format!("LOST h{from} to h{to} at {switch:?} {cables:?}: {why}"));
        if !at_quiet && (is_disturbed || !is_known) {
            self.report.excuses.repair += 1;
        } else if switch.is_some_and(|switch| self.switches[switch].full_at.is_some()) {
            self.report.excuses.table_full += 1;
        } else if !self.is_obliged(from, to) {
            self.report.excuses.cut_off += 1;
        } else if !self.is_connected_since(from, to, probe.sent) {
            self.report.excuses.repair += 1;
        } else {
            let place = switch.map_or_else(|| format!("on cable {cables:?}"), |switch| format!("at s{switch}"));
            let way: Vec<String> =
                probe.visits.iter().map(|visit| format!("s{}:{}", visit.switch, visit.in_port.0)).collect();
            let words = format!("a frame of h{from} to h{to} was lost {place}: {why}; its way: {}", way.join(" "));
            self.fail(Oracle::Loss, || words);
        }
    }
}
