//! Watchdog on simulated time: a controller that is busy without end at one time never reaches the
//! next, so no other oracle would report it.

use net::Time;

use crate::report::Oracle;
use crate::simulation::Simulation;

/// Maximum number of timers of the controller at one time. One call handles all that is due, and a
/// part may schedule a step of another for the same time: 400 simulation tests saw at most two timers
/// at one time, and there are fewer than ten parts with timers.
const TIMERS_MAX: u32 = 100;
/// Maximum number of events in a second of simulated time: more than ten times the largest number
/// in 400 simulation tests.
const EVENTS_PER_S_MAX: u64 = 100_000;
/// Longest simulated time, s: 2,000 simulation tests converged within 131 s after faults of less than
/// a minute. A controller that repairs the same rules without end would never settle.
const SECONDS_MAX: u64 = 1_800;

#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    timer_at: Time,
    timers: u32,
    second: u64,
    events: u64,
}

impl Simulation {
    /// Counts a timer of the controller.
    pub(crate) fn check_timers(&mut self) {
        let watchdog = &mut self.oracles.watchdog;
        if watchdog.timer_at != self.now {
            (watchdog.timer_at, watchdog.timers) = (self.now, 0);
        }
        watchdog.timers += 1;
        let timers = watchdog.timers;
        self.report.timers_max = self.report.timers_max.max(u64::from(timers));
        if timers > TIMERS_MAX {
            self.fail(Oracle::Livelock, || format!("{timers} timers of the controller at one time"));
        }
    }

    pub(crate) fn check_event_rate(&mut self) {
        let second = self.now.as_ps() / Time::from_s(1).as_ps();
        let watchdog = &mut self.oracles.watchdog;
        if watchdog.second != second {
            (watchdog.second, watchdog.events) = (second, 0);
        }
        watchdog.events += 1;
        let events = watchdog.events;
        if second > SECONDS_MAX {
            self.fail(Oracle::Settled, || format!("the controller is not settled after {SECONDS_MAX} s"));
        }
        self.report.events_per_s_max = self.report.events_per_s_max.max(events);
        if events > EVENTS_PER_S_MAX {
            self.fail(Oracle::Livelock, || format!("{events} events in one second"));
        }
    }
}
