//! Components shared by several mechanisms.

pub mod congestion_from_leaf;
pub mod dre;
pub mod flowlets;
pub(crate) mod flows;
pub mod forest;
pub(crate) mod path_order;
pub mod paths;
pub(crate) mod rounds;
pub mod sensing;
pub mod vlans;
pub mod wrr;
