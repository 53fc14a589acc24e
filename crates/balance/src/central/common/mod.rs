//! Components shared by several central balancers.
#![allow(missing_docs, reason = "public only for `examples/scheduling.rs`, which measures them")]

pub(crate) mod byte_counts;
pub mod dag;
pub mod default_routes;
pub mod demand;
pub mod edges;
pub mod first_fit;
pub(crate) mod flows_by_host;
pub mod hosts;
pub mod on_change;
pub mod pairs;
pub(crate) mod quanta;

pub(crate) use byte_counts::{ByteCounts, PairBytes};
pub(crate) use dag::{Dag, Search};
pub(crate) use edges::{
    Ends, edge_of, edges, ends, host_rate, is_switch, is_usable, levels, measured, pairs, rate_of, read_loads,
};
pub(crate) use first_fit::FirstFit;
pub(crate) use flows_by_host::FlowsByHost;
pub(crate) use hosts::Hosts;
pub(crate) use on_change::on_network_change;
pub(crate) use pairs::{Pair, divide_all, evenly, some_paths, spread_ranks};
pub(crate) use quanta::quantise;
