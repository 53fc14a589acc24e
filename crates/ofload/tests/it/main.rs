//! The integration tests of the crate, linked once.

mod attacks;
mod common;
mod measurements;
mod protocol;
mod repairs;
mod service;
