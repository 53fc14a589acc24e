//! Warm boot: the network was up before time 0.

use net::Time;

use super::Controlled;
use super::event_queue::ControlEvent;
use crate::engine::Engine;
use crate::scenario::Boot;
use crate::{Progress, SimError};

/// Time a controller may wait for more events; what it plans for later is left to the run.
const IDLE_LIMIT: Time = Time::from_ms(100);
/// Limit for a controller that is not settled because it pauses between the stages of a change
/// while packets could be in flight. A controller that never settles begins the run as it is.
const SETTLE_LIMIT: Time = Time::from_s(10);

impl Controlled<'_> {
    /// Boots the network. Messages and frames take no time; only the controller's clock advances.
    /// Stops as it is if `goes_on` returns false.
    fn boot(&mut self, can_limit_rates: bool, goes_on: &mut dyn FnMut() -> bool) -> bool {
        let connect_at = match self.config.boot {
            Boot::Warm => 0,
            Boot::Cold { connect_at } => connect_at.as_ps(),
        };
        for ix in 0..self.switches.len() as u32 {
            self.events.put(connect_at, ControlEvent::Connect(ix));
        }
        self.is_booting = self.config.boot == Boot::Warm;
        self.drain_plane(0);
        if !self.is_booting {
            self.plane.boot_ended(Time::ZERO);
            self.drain_plane(0);
            return true;
        }
        let mut clock = 0;
        while let Some(at) = self.events.next() {
            let patience = if self.plane.is_settled() { IDLE_LIMIT } else { SETTLE_LIMIT };
            if at > patience.as_ps() {
                break;
            }
            clock = at;
            while self.step(clock, can_limit_rates) {
                self.deliver_at_once(clock);
                if self.is_report_due() && !goes_on() {
                    return false;
                }
            }
            if self.fault.is_some() {
                break;
            }
            if self.has_undrained_input {
                if !goes_on() {
                    return false;
                }
                self.drain_plane_now(clock);
            }
        }
        self.is_booting = false;
        self.boot_time = clock;
        self.cost.begin(clock);
        self.plane.boot_ended(Time::from_ps(clock));
        self.drain_plane(clock);
        true
    }
}

impl Engine<'_> {
    pub(crate) fn boot(&mut self, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<(), SimError> {
        let can_limit_rates = self.params.properties.acks == crate::Acks::None;
        let flows_listed = self.list.flows.len() as u64;
        let Some(controlled) = &mut self.controlled else { return Ok(()) };
        let at = Progress { now: Time::ZERO, flows_done: 0, flows_listed, events: 0 };
        if !controlled.boot(can_limit_rates, &mut || progress(&at)) {
            return Err(SimError::Interrupted);
        }
        self.follow_up();
        Ok(())
    }
}
