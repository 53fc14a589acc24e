//! Switches that forward on their own, and the interface to a control plane.

pub(crate) mod direct_feedback;
pub(crate) mod edges;
pub(crate) mod fabric;
pub(crate) mod plane;
pub(crate) mod tables;
