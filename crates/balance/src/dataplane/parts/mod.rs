//! Pieces that several mechanisms are made of.

pub mod flowlets;
pub(crate) mod flows;
pub(crate) mod path_order;
pub(crate) mod rounds;
pub mod vlans;
