//! What has happened before time 0: the network was up before the experiment began.

use net::Time;

use super::Controlled;
use super::agenda::Item;
use crate::engine::Engine;
use crate::scenario::Boot;

/// A controller may wait this long for more news before it acts; what a settled one wants to do later is left to the run.
const PATIENCE: Time = Time::from_ms(100);
/// One that is not settled, as it pauses between the stages of a change while packets could be under way, is given this long. A
/// controller that never settles begins the run as it is.
const PATIENCE_MAX: Time = Time::from_s(10);

impl Controlled<'_> {
    /// Brings the network up. Messages and frames take no time; where the controller waits, its clock goes on alone.
    fn boot(&mut self, is_pacing_possible: bool) {
        let connect_at = match self.config.boot {
            Boot::Warm => 0,
            Boot::Cold { connect_at } => connect_at.as_ps(),
        };
        for ix in 0..self.stations.len() as u32 {
            self.agenda.put(connect_at, Item::Connect(ix));
        }
        self.is_booting = self.config.boot == Boot::Warm;
        self.drain_plane(0);
        if !self.is_booting {
            return;
        }
        let mut clock = 0;
        while let Some(at) = self.agenda.next() {
            let patience = if self.plane.is_settled() { PATIENCE } else { PATIENCE_MAX };
            if at > patience.as_ps() {
                break;
            }
            clock = at;
            while self.step(clock, is_pacing_possible) {
                self.deliver_at_once(clock);
            }
            if self.fault.is_some() {
                break;
            }
        }
        self.is_booting = false;
        self.boot_time = clock;
        self.cost.begin(clock);
    }
}

impl Engine<'_> {
    /// Brings the control plane up, if there is one.
    pub(crate) fn boot(&mut self) {
        let is_pacing_possible = self.rules.udp.is_some();
        let Some(controlled) = &mut self.controlled else { return };
        controlled.boot(is_pacing_possible);
        self.follow_up();
    }
}
