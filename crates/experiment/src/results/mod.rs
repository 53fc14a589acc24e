//! Results of runs: their schema, how they are computed, and how they are written.

pub mod balancer_info;
pub mod bounds;
pub mod cost;
pub(crate) mod csv;
pub mod flow_row;
pub mod flow_writer;
pub(crate) mod link_rows;
pub mod metrics;
pub(crate) mod pcapng;
pub mod points_csv;
pub mod quantiles;
pub mod responses;
pub mod statistics;
pub mod summary;
pub mod table;
pub mod tiers;
