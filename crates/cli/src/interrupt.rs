//! Ctrl-C: the first requests a clean end, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::INTERRUPTED;

static STOP: AtomicBool = AtomicBool::new(false);

/// Installs the handler. Returns the flag that the first Ctrl-C sets. If the program has not ended
/// `grace` after that, it ends as after a second Ctrl-C: a decision of a central balancer in a
/// large network takes seconds, and nothing interrupts it.
pub fn listen(grace: Option<Duration>) -> &'static AtomicBool {
    let handler = move || {
        if STOP.swap(true, Ordering::Relaxed) {
            // Records are written in whole lines, so only the runs in progress are lost.
            std::process::exit(INTERRUPTED.into());
        }
        let Some(grace) = grace else { return eprintln!("\nstopping; press Ctrl-C again to stop at once") };
        eprintln!("\nstopping");
        std::thread::spawn(move || {
            std::thread::sleep(grace);
            eprintln!("stopped; the folder keeps all completed runs, and the same command resumes");
            std::process::exit(INTERRUPTED.into());
        });
    };
    // Without a handler Ctrl-C ends the program immediately; resuming handles that too.
    let _ = ctrlc::set_handler(handler);
    &STOP
}
