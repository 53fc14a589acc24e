//! Integration tests of the crate, in one binary because each binary is linked separately.

mod bad_input;
mod generate;
mod tasks;
mod traces;
mod training;
mod workloads;
