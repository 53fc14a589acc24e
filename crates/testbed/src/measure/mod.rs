//! Measurements of a run: flows at the sending and receiving programs, and port counters.

pub mod measurement;
pub mod series;
