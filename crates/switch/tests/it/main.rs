//! Integration tests of the crate, in one binary because each binary is linked separately.
//!
//! `allocations` is another binary, because it counts the allocations of the whole process.

mod arbitrary;
mod common;
mod forwarding;
mod monitors;
mod oracle;
mod refusals;
mod sessions;
mod statistics;
mod support;
