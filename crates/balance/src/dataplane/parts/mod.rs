//! Pieces several mechanisms are built from.

pub mod flowlets;
pub(crate) mod path_order;
pub mod vlans;
