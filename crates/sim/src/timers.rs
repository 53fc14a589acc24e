//! Timers that need one pending event, however often their deadline changes.

/// A time that does not come.
pub(crate) const NEVER: u64 = u64::MAX;

/// A lazy timer: one deadline, and the time of the earliest event in the queue that will check it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) deadline: u64,
    armed: u64,
}

impl Default for Timer {
    fn default() -> Timer {
        Timer { deadline: NEVER, armed: NEVER }
    }
}

impl Timer {
    /// Returns the timer without a deadline; a pending event stays.
    pub(crate) fn without_deadline(self) -> Timer {
        Timer { deadline: NEVER, ..self }
    }

    /// Sets the deadline. Returns when to push an event, if the pending one would come too late.
    #[inline]
    pub(crate) fn set(&mut self, deadline: u64) -> Option<u64> {
        self.deadline = deadline;
        if deadline < self.armed {
            self.armed = deadline;
            return Some(deadline);
        }
        None
    }

    /// Returns whether the deadline is reached at this event, and else when to check again.
    #[inline]
    pub(crate) fn fired(&mut self, now: u64) -> (bool, Option<u64>) {
        if now != self.armed {
            return (false, None); // An earlier event has superseded this one.
        }
        self.armed = NEVER;
        if self.deadline <= now {
            self.deadline = NEVER;
            return (true, None);
        }
        if self.deadline == NEVER {
            return (false, None);
        }
        self.armed = self.deadline;
        (false, Some(self.deadline))
    }
}

/// Wake-up time of a queue or a state machine: at most one pending event for it is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeTimer(u64);

impl Default for WakeTimer {
    fn default() -> WakeTimer {
        WakeTimer(NEVER)
    }
}

impl WakeTimer {
    /// Sets the wake-up time. Returns the time of an event for it, if one is needed.
    pub(crate) fn set(&mut self, now: u64, at: Option<u64>) -> Option<u64> {
        self.0 = at.map(|at| at.max(now)).filter(|at| *at < self.0)?;
        Some(self.0)
    }

    /// Handles an event at `now`. Returns whether it is the valid one.
    pub(crate) fn is_valid(&mut self, now: u64) -> bool {
        let is_current = self.0 <= now;
        if is_current {
            self.0 = NEVER;
        }
        is_current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_needs_one_event_for_many_extensions() {
        let mut timer = Timer::default();
        assert_eq!(timer.set(100), Some(100));
        assert_eq!(timer.set(150), None);
        assert_eq!(timer.fired(100), (false, Some(150)));
        assert_eq!(timer.set(120), Some(120), "an earlier deadline needs an earlier event");
        assert_eq!(timer.fired(120), (true, None));
        assert_eq!(timer.fired(150), (false, None), "superseded");
    }

    #[test]
    fn wake_timer_needs_event_only_for_earlier_time() {
        let mut timer = WakeTimer::default();
        assert_eq!(timer.set(0, Some(100)), Some(100));
        assert_eq!(timer.set(0, Some(150)), None);
        assert_eq!(timer.set(0, Some(50)), Some(50));
        assert_eq!(timer.set(0, None), None);
        assert!(timer.is_valid(50));
        assert!(!timer.is_valid(100), "superseded");
        assert_eq!(timer.set(200, Some(150)), Some(200), "an overdue time is due now");
    }
}
