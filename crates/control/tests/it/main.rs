//! The integration tests of the crate, linked once.

mod addressing;
mod balancers;
mod common;
mod connecting;
mod counting;
mod edge;
mod faults;
mod forwarding;
mod host_ageing;
mod host_claims;
mod host_limits;
mod hostile;
mod hosts;
mod layers;
mod migration;
mod services;
mod switch_truth;
mod vip;
mod vip_changes;
mod vip_foreign;
mod vip_health;
mod vip_mux;
mod vip_paths;
mod vip_pickers;
mod vip_wildcard;
