//! Pieces that several server balancers are made of.

pub mod connections;
pub mod keys;
pub mod path;
pub mod server_first;
pub mod turns;
