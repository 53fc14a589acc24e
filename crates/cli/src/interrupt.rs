//! Ctrl-C: the first asks for a clean end, the second ends at once.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

/// Begins to listen; answers what turns true at the first Ctrl-C.
pub fn listen() -> &'static AtomicBool {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            // Records are written one whole line at a time, so nothing is lost but the runs under way.
            std::process::exit(2);
        }
        eprintln!("\nstopping; press Ctrl-C again to stop at once");
    };
    // Without a handler Ctrl-C ends the program at once, which resuming copes with too.
    let _ = ctrlc::set_handler(handler);
    &STOP
}
