//! What is sent: flow sizes, arrivals, patterns and traces, all ending in one list of flows.
//!

pub mod cdf;
pub mod flow;
pub mod samplers;
pub mod sizes;
pub mod spec;
pub mod workloads;

pub use cdf::{CdfError, CdfProblem, parse_cdf};
pub use flow::{Flow, FlowList, Start};
pub use samplers::{LogNormal, Pareto};
pub use sizes::{Interpolation, SizeDistribution, SizeError};
pub use spec::{Parameter, SpecError};
pub use workloads::{NOT_SHIPPED, WORKLOADS, Workload, WorkloadError, parse_workload};
