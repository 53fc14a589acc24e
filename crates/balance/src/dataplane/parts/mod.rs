//! Pieces that several mechanisms are made of.

pub mod dre;
pub mod flowlets;
pub(crate) mod flows;
pub mod forest;
pub(crate) mod path_order;
pub mod paths;
pub mod relay;
pub(crate) mod rounds;
pub mod sensing;
pub mod vlans;
pub mod wrr;
