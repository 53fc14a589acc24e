//! Log output: one line per event, human-readable or as JSON.

use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::settings::{Log, LogFormat};

/// Replaces the filter of the process.
type SetFilter = Box<dyn Fn(EnvFilter) + Send + Sync>;

static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();

pub(crate) fn check(filter: &str) -> Result<(), String> {
    EnvFilter::builder().parse(filter).map(|_| ()).map_err(|error| error.to_string())
}

/// Sends log lines to standard error, for the whole process. The first call counts.
pub fn begin(log: &Log) {
    let builder = fmt().with_env_filter(filter(&log.filter)).with_writer(std::io::stderr);
    // An existing subscriber stays: a program that embeds a daemon has its own.
    let set: Option<SetFilter> = match log.format {
        LogFormat::Text => {
            let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            let builder = builder.with_ansi(is_terminal).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.try_init().ok().map(|()| Box::new(move |filter| drop(handle.reload(filter))) as SetFilter)
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.try_init().ok().map(|()| Box::new(move |filter| drop(handle.reload(filter))) as SetFilter)
        }
    };
    if let Some(set) = set {
        // Only one subscriber can be the first.
        let _ = SET_FILTER.set(set);
    }
}

/// Replaces the filter that [`begin`] has set.
pub(crate) fn set_filter(text: &str) {
    if let Some(set) = SET_FILTER.get() {
        set(filter(text));
    }
}

fn filter(text: &str) -> EnvFilter {
    EnvFilter::builder().parse_lossy(text)
}
