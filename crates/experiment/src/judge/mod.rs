//! Verdicts on results: published claims, documents, and the simulator against the testbed.

pub mod claims;
pub mod fidelity;
pub mod reproduction;
pub mod validation;
