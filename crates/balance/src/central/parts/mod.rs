//! Pieces that several central balancers are made of.

pub mod base;
pub mod dag;
pub mod demand;
pub mod edges;
pub mod pairs;
