//! Pieces several mechanisms are built from.

pub(crate) mod path_order;
pub mod vlans;
