//! Components shared by several server balancers.

pub mod connections;
pub mod keys;
pub mod path;
pub mod server_first;
pub mod smooth_wrr;
