//! Ctrl-C: the first requests a clean end, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

/// Installs the handler. Returns the flag that the first Ctrl-C sets.
pub fn listen() -> &'static AtomicBool {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            // Records are written in whole lines, so only the runs in progress are lost.
            std::process::exit(2);
        }
        eprintln!("\nstopping; press Ctrl-C again to stop at once");
    };
    // Without a handler Ctrl-C ends the program immediately; resuming handles that too.
    let _ = ctrlc::set_handler(handler);
    &STOP
}
