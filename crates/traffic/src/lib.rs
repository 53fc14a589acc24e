//! Traffic: flow sizes, arrivals, patterns and traces, all resulting in one list of flows.
//!
//! ```
//! use anabranch_traffic::{Arrivals, Load, Pattern, TrafficSpec, generate, parse_workload};
//! # use net::{Bandwidth, Time, TopologyBuilder};
//! # let mut builder = TopologyBuilder::new("star");
//! # let switch = builder.switch("s", 1, None);
//! # for ix in 0..4 {
//! #     let host = builder.host(format!("h{ix}"), 0, None);
//! #     builder.connect(host, switch, Bandwidth::from_gbps(10), Time::from_us(1));
//! # }
//! # let topology = builder.build().unwrap();
//! let spec = TrafficSpec {
//!     sizes: parse_workload("web-search", &mut |_| Err("no files here".into())).unwrap(),
//!     pattern: Pattern::parse("random-pairs").unwrap(),
//!     arrivals: Arrivals::parse("poisson").unwrap(),
//!     load: Some(Load::of_host_links(0.6, &topology)),
//!     flows: Some(1000),
//!     until: None,
//! };
//! let (list, warnings) = generate(&topology, &spec, 1).unwrap();
//! assert_eq!(list.flows.len(), 1000);
//! assert!(warnings.is_empty());
//! ```

#![allow(missing_docs, reason = "only the program's own crates use this one")]

pub mod arrivals;
pub mod cdf;
pub mod collectives;
pub mod demands;
pub mod flow;
pub mod generate;
mod groups;
pub mod import;
pub mod patterns;
mod queue_pairs;
pub mod records;
pub mod requests;
pub mod samplers;
pub mod sizes;
pub mod tasks;
#[cfg(test)]
mod testing;
pub mod triggers;
pub mod workloads;

pub use arrivals::{ARRIVALS, Arrivals, ArrivalsInfo, Load, LoadReference, LogNormalTime, OnOff};
pub use cdf::parse_cdf;
pub use collectives::{
    COLLECTIVES, CollectiveError, CollectiveInfo, CollectiveKind, CollectiveSpec, Placement, RankOptions, Schedule,
    StragglerChoice, Stragglers, TraceOrder, TrainingOptions, collectives,
};
pub use demands::{DemandError, DemandOptions};
pub use flow::{BusBytes, Flow, FlowList, SampledGroups, Start};
pub use generate::{TrafficError, TrafficSpec, Warning, generate};
pub use import::ImportError;
pub use import::aicb::{TrainingTrace, read_training};
pub use import::chakra::read_chakra;
pub use import::coflow::{CoflowOptions, read_coflows};
pub use import::csv::{read_csv, write_csv};
pub use import::goal::read_goal;
pub use import::htsim::{ConnectionMatrix, StartUnit, read_cm};
pub use import::matrix::{TrafficMatrix, read_matrix};
pub use net::spec_text::{Param as Parameter, SpecError};
pub use patterns::{IncastTarget, PATTERNS, Pattern, PatternError, PatternInfo, PatternKind};
pub use requests::{Pacing, RequestSpec, requests};
pub use samplers::LogNormal;
pub use sizes::{Interpolation, SizeDistribution, SizeError};
pub use tasks::{TaskGraph, TaskOptions, TaskRun, TaskTrace};
pub use triggers::Triggers;
pub use workloads::{NOT_SHIPPED, PARAMETRIC, WORKLOADS, Workload, parse_workload};
