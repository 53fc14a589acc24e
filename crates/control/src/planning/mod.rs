//! The desired state: from placements to rules, and the order of changes.

pub(crate) mod compile;
pub(crate) mod default_routes;
pub(crate) mod ecmp_hashing;
pub(crate) mod host_moves;
pub(crate) mod labels;
pub(crate) mod pins;
pub(crate) mod staged_update;
pub(crate) mod traffic_splits;
pub(crate) mod update_order;
