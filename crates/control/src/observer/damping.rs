//! Damping of flapping ports: a port that goes down repeatedly counts as down until it has been
//! quiet.
//!
//! Every change of a port changes rules at many switches, so one bad transceiver, or one host that
//! resets its interface in a loop, could keep the whole network busy. As with IP event dampening, a
//! port collects a penalty each time it goes down, which decays with time. Above a threshold the
//! port is suppressed, until the penalty has fallen below another one. The penalty is measured in
//! the time it takes to decay.

use std::collections::BTreeMap;

use net::Time;
use openflow::{DatapathId, PortDesc, PortNo};

use crate::SwitchPort;

/// Penalty for going down once. A port that goes down less often than this is never suppressed.
const PENALTY: Time = Time::from_s(2);
/// Suppression threshold: reached at the fifth time within a short period.
const SUPPRESS_ABOVE: Time = Time::from_s(8);
/// Reuse threshold: the penalty at which the suppression ends.
const REUSE_AT: Time = Time::from_s(2);
/// Maximum penalty: a suppression ends at most 18 s after the port last went down.
const PENALTY_MAX: Time = Time::from_s(20);

#[derive(Debug, Default)]
pub(crate) struct Damping {
    ports: BTreeMap<SwitchPort, Flapping>,
}

#[derive(Clone, Copy, Debug)]
struct Flapping {
    clean_at: Time,
    is_live: bool,
    is_suppressed: bool,
}

impl Flapping {
    fn reuse_at(&self) -> Time {
        Time::from_ps(self.clean_at.as_ps().saturating_sub(REUSE_AT.as_ps()))
    }
}

impl Damping {
    /// Applies the ports a switch reports, and marks suppressed ones as down. `was_live` returns
    /// whether a port was live before. Returns the ports whose suppression begins.
    pub(crate) fn apply(
        &mut self,
        now: Time,
        datapath: DatapathId,
        ports: &mut BTreeMap<PortNo, PortDesc>,
        was_live: &[SwitchPort],
    ) -> Vec<SwitchPort> {
        self.ports.retain(|end, port| end.0 != datapath || port.is_suppressed || port.clean_at > now);
        let known = self.ports.range((datapath, PortNo(0))..=(datapath, PortNo(u32::MAX)));
        let before = known.filter(|(_, port)| port.is_live).map(|(end, _)| *end).chain(was_live.iter().copied());
        let before: Vec<SwitchPort> = before.collect();
        let mut suppressed = Vec::new();
        for end in before {
            let is_live = ports.get(&end.1).is_some_and(PortDesc::is_live);
            if !is_live && self.went_down(now, end) {
                suppressed.push(end);
            }
        }
        for (number, port) in ports {
            if let Some(flapping) = self.ports.get_mut(&(datapath, *number)) {
                flapping.is_live = port.is_live();
                port.is_link_down |= flapping.is_suppressed;
            }
        }
        suppressed
    }

    /// Adds the penalty of a port that went down. Returns whether its suppression begins.
    fn went_down(&mut self, now: Time, end: SwitchPort) -> bool {
        let clean = Flapping { clean_at: now, is_live: true, is_suppressed: false };
        let port = self.ports.entry(end).or_insert(clean);
        if !std::mem::replace(&mut port.is_live, false) {
            return false; // Counted already.
        }
        let clean_at = port.clean_at.max(now).saturating_add(PENALTY).min(now.saturating_add(PENALTY_MAX));
        port.clean_at = clean_at;
        let is_over = clean_at > now.saturating_add(SUPPRESS_ABOVE);
        is_over && !std::mem::replace(&mut port.is_suppressed, true)
    }

    /// Returns when the next suppressed port may be used again.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.ports.values().filter(|port| port.is_suppressed).map(Flapping::reuse_at).min()
    }

    /// Ends the suppression of ports that have been quiet. Returns their switches.
    pub(crate) fn release(&mut self, now: Time) -> Vec<DatapathId> {
        let mut switches = Vec::new();
        for (end, port) in &mut self.ports {
            if port.is_suppressed && port.reuse_at() <= now {
                port.is_suppressed = false;
                switches.push(end.0);
            }
        }
        switches.dedup();
        switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::MacAddr;

    const SWITCH: DatapathId = DatapathId(1);
    const PORT: SwitchPort = (SWITCH, PortNo(1));

    fn report(damping: &mut Damping, now: Time, is_live: bool, was_live: bool) -> (bool, Vec<SwitchPort>) {
        let port = PortDesc { is_link_down: !is_live, ..PortDesc::up(PORT.1, MacAddr::default(), "", 0) };
        let mut ports = BTreeMap::from([(PORT.1, port)]);
        let before: &[SwitchPort] = if was_live { &[PORT] } else { &[] };
        let suppressed = damping.apply(now, SWITCH, &mut ports, before);
        (ports[&PORT.1].is_live(), suppressed)
    }

    #[test]
    fn port_is_suppressed_at_the_fifth_flap_and_reused_when_quiet() {
        let mut damping = Damping::default();
        let (mut now, mut is_used, mut begun) = (Time::ZERO, true, 0);
        for flap in 1..=10 {
            let (is_live, suppressed) = report(&mut damping, now, false, is_used);
            assert!(!is_live);
            begun += suppressed.len();
            now += Time::from_ms(100);
            (is_used, _) = report(&mut damping, now, true, false);
            assert_eq!(is_used, flap < 5, "flap {flap}");
            now += Time::from_ms(100);
        }
        assert_eq!(begun, 1);
        let due = damping.next_due().expect("a time");
        assert!(due > now + Time::from_s(10) && due < now + Time::from_s(18), "{due}");
        assert!(damping.release(due.saturating_sub(Time::from_ps(1))).is_empty());
        assert_eq!(damping.release(due), [SWITCH]);
        assert!(report(&mut damping, due, true, false).0);
        assert_eq!(damping.next_due(), None);
    }

    #[test]
    fn port_that_goes_down_now_and_then_is_never_suppressed() {
        let mut damping = Damping::default();
        for flap in 0..100 {
            let now = Time::from_s(3) * flap;
            assert_eq!(report(&mut damping, now, false, true), (false, vec![]));
            assert_eq!(report(&mut damping, now + Time::from_ms(10), true, false), (true, vec![]));
        }
        assert_eq!(damping.ports.len(), 1);
    }
}
