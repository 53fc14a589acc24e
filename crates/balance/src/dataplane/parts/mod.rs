//! Pieces that several mechanisms are made of.

pub mod dre;
pub mod flowlets;
pub mod paths;
pub mod relay;
pub mod sensing;
pub mod wrr;
