//! Rate limits of alarms: a hostile host must not fill the log.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::Time;

use crate::SwitchPort;
use crate::limits::{Expiring, RateLimiter};

/// Shortest time between two alarms about the same address at the same port.
const PERIOD: Time = Time::from_s(60);
/// Alarms about different addresses that one port may raise at once (burst), and the time after
/// which it may raise another.
const BURST: u64 = 8;
const INTERVAL: Time = Time::from_s(10);
const RECENT_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Alarms {
    recent: Expiring<(SwitchPort, Option<Ipv4Addr>), RECENT_MAX>,
    limiters: BTreeMap<SwitchPort, RateLimiter>,
}

impl Alarms {
    /// Returns whether an alarm about a port, and an address if it concerns one, may be raised.
    pub(super) fn may_raise(&mut self, now: Time, at: SwitchPort, address: Option<Ipv4Addr>) -> bool {
        let may =
            !self.recent.has(now, &(at, address)) && self.limiters.entry(at).or_default().take(now, INTERVAL, BURST);
        if may {
            self.recent.add((at, address), now.saturating_add(PERIOD));
        }
        may
    }
    pub(super) fn forget_port(&mut self, end: SwitchPort) {
        self.limiters.remove(&end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::{DatapathId, PortNo};

    #[test]
    fn alarms_are_limited_per_address_and_per_port() {
        let mut alarms = Alarms::default();
        let port = |number| (DatapathId(1), PortNo(number));
        let address = |last| Some(Ipv4Addr::new(10, 0, 0, last));
        assert!(alarms.may_raise(Time::ZERO, port(1), address(1)));
        assert!(!alarms.may_raise(Time::from_s(59), port(1), address(1)));
        assert!(alarms.may_raise(Time::from_s(60), port(1), address(1)));
        let raised = (0..=255).filter(|last| alarms.may_raise(Time::from_s(60), port(2), address(*last))).count();
        assert_eq!(raised, BURST as usize);
        assert!(alarms.may_raise(Time::from_s(60), port(3), address(1)), "other ports are not affected");
    }
}
