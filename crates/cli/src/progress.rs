//! The progress bar: on standard error, and only where that is a terminal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use experiment::{Observer, Progress};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

pub struct Bar {
    bar: ProgressBar,
    runs_resumed: AtomicU64,
    runs_outdated: AtomicU64,
}

/// Time before which the remaining time is not estimated.
const FIRST_GUESS: Duration = Duration::from_secs(1);

impl Bar {
    /// Creates a bar; `quiet` creates an invisible one.
    pub fn new(quiet: bool) -> Bar {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {wide_msg}").expect("a valid template");
        bar.set_style(style);
        Bar { bar, runs_resumed: AtomicU64::new(0), runs_outdated: AtomicU64::new(0) }
    }

    /// Returns notes about results that the folder already held; empty if it held none.
    pub fn notes(&self) -> Vec<String> {
        let [resumed, outdated] = [&self.runs_resumed, &self.runs_outdated].map(|count| count.load(Ordering::Relaxed));
        let runs = |count| if count == 1 { "1 run was".to_owned() } else { format!("{count} runs were") };
        let resumed = (resumed > 0).then(|| format!("{} reused from earlier results", runs(resumed)));
        let outdated =
            (outdated > 0).then(|| format!("{} repeated: the earlier results are of another build", runs(outdated)));
        resumed.into_iter().chain(outdated).collect()
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Bar {
    fn progress(&self, progress: &Progress) {
        self.runs_resumed.store(progress.runs_resumed, Ordering::Relaxed);
        self.runs_outdated.store(progress.runs_outdated, Ordering::Relaxed);
        self.bar.update(|state| {
            state.set_len(progress.flows_total.max(1));
            state.set_pos(progress.flows_done.min(progress.flows_total));
        });
        self.bar.set_message(message(progress));
    }
}

fn message(progress: &Progress) -> String {
    let elapsed_s = progress.elapsed.as_secs_f64();
    let mut text = format!("{} of {} runs", progress.runs_done, progress.runs_total);
    if progress.runs_resumed > 0 {
        text += &format!(" ({} from before)", progress.runs_resumed);
    }
    if elapsed_s > 0.0 {
        text += &format!(", {:.1} M packet-hops/s", progress.packet_hops as f64 / elapsed_s / 1e6);
    }
    if progress.elapsed > FIRST_GUESS && progress.flows_done > 0 {
        let share = progress.flows_done.min(progress.flows_total) as f64 / progress.flows_total.max(1) as f64;
        let left = Duration::from_secs_f64(elapsed_s * (1.0 - share) / share);
        text += &format!(", {} left", HumanDuration(left));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_rate_and_time_left() {
        let progress = Progress {
            runs_total: 9,
            runs_done: 3,
            runs_resumed: 1,
            runs_outdated: 0,
            flows_total: 1000,
            flows_done: 250,
            packet_hops: 20_000_000,
            elapsed: Duration::from_secs(10),
        };
        assert_eq!(message(&progress), "3 of 9 runs (1 from before), 2.0 M packet-hops/s, 30 seconds left");
        assert_eq!(message(&Progress::default()), "0 of 0 runs");
    }
}
