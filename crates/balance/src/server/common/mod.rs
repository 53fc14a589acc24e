//! Components shared by several server balancers.

pub mod buckets;
pub mod connections;
pub mod keys;
pub mod path;
pub mod server_first;
pub mod smooth_wrr;

pub(crate) use buckets::reassign;
pub(crate) use connections::Connections;
pub(crate) use keys::{KEY, Key, Shares, position, shares};
pub(crate) use path::{DIRECTION, HTP, PATH, TIES, Throughput};
pub(crate) use server_first::{Pending, Picker, ServerFirst, by_rule, in_turn, least};
pub(crate) use smooth_wrr::SmoothWrr;
