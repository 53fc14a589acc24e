//! Logs: one line per happening, for people or for machines.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::settings::{Log, LogFormat};

/// Whether a filter can be used.
///
/// # Errors
/// Why not.
pub(crate) fn check(filter: &str) -> Result<(), String> {
    EnvFilter::builder().parse(filter).map(|_| ()).map_err(|error| error.to_string())
}

/// Logs go to standard error from now on, for the whole process; the first call counts.
pub fn begin(log: &Log) {
    let filter = EnvFilter::builder().parse_lossy(&log.filter);
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // One that was set before stays: whoever embeds a daemon has its own.
    let _ = match log.format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
