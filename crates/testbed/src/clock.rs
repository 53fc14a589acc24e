//! The clock that all parts of a testbed share: CLOCK_MONOTONIC, which the Python driver reads too.

use nix::time::{ClockId, clock_gettime};

pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
