//! The one timer of the engine.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// Sleep while nothing is due.
const LONG: Duration = Duration::from_secs(3600);

pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm { sleep: Box::pin(tokio::time::sleep(LONG)), at: None }
    }

    /// Sets the time at which the alarm passes; `None` if nothing is due.
    pub(crate) fn set(&mut self, at: Option<Instant>) {
        if at != self.at {
            self.sleep.as_mut().reset(at.unwrap_or_else(|| Instant::now() + LONG).into());
            self.at = at;
        }
    }

    /// Waits until the alarm passes, which it does once.
    pub(crate) async fn passed(&mut self) {
        self.sleep.as_mut().await;
        // A sleep that is not reset stays elapsed, and the engine would never wait again.
        self.sleep.as_mut().reset((Instant::now() + LONG).into());
        self.at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_passes_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let mut alarm = Alarm::new();
            let mut passes = 0;
            for at in [Some(Instant::now()), None, None] {
                alarm.set(at);
                passes += u32::from(tokio::time::timeout(Duration::from_millis(20), alarm.passed()).await.is_ok());
            }
            assert_eq!(passes, 1);
        });
    }
}
