//! Pieces that several central balancers are made of.

pub mod base;
pub mod dag;
pub mod demand;
pub mod edges;
pub mod first_fit;
pub(crate) mod grouped;
pub mod hosts;
pub mod pairs;
