//! Collective communication, as distributed training does it, as flows that wait for one another.
//!
//! Ranks are placed on hosts ([`RankOptions`]) and divided into groups ([`GroupLayout`]); all
//! groups of a layout do the same collective at the same time, over and over. Each collective of
//! each group has its own number in [`Flow::group`](crate::Flow::group), so its completion
//! time is that of the group: from the first start to the last byte delivered.
//!
//! A buffer of S bytes over n ranks is n blocks of S / n bytes (the first ones a byte longer where
//! that does not divide). Rings, recursive trees and pairwise exchange are those of Thakur,
//! Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA
//! 19(1), 2005; the ring all-reduce is that of Patarasuk and Yuan, JPDC 69(2), 2009, used by NCCL. The
//! pipeline is that of Narayanan et al., ICML 2021; the skew of experts is that of mechanisms.md W3, and
//! its schedule in stages that of FAST (`stages`).

mod ranks;
mod spec;
mod stages;
mod steps;
mod stragglers;
mod trace;
mod write;

pub use ranks::{GroupLayout, Placement, RankOptions};
pub use spec::{COLLECTIVES, CollectiveInfo, CollectiveSpec};
pub(crate) use steps::Step;
pub use steps::{CollectiveKind, Schedule};
pub use stragglers::{StragglerChoice, Stragglers};
pub use trace::{TraceOrder, TrainingOptions};
pub(crate) use write::{Work, Writer};

use net::Topology;

use crate::flow::FlowList;
use crate::generate::TrafficError;

/// The reason why collectives give no flows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    #[error("{ranks} ranks on {hosts} hosts; there are from 2 to as many ranks as hosts")]
    Ranks { ranks: u32, hosts: u32 },
    #[error("{ranks} ranks cannot be divided into groups of {size} that are {stride} apart; use a multiple of {}", u64::from(*.size) * u64::from(*.stride))]
    Groups {
        ranks: u32,
        size: u32,
        /// Distance between neighbours in a group.
        stride: u32,
    },
    #[error("groups of {size} ranks cannot halve and double; use a group_size of a power of two")]
    PowerOfTwo { size: u32 },
    #[error(
        "that is more than {} flows; use fewer ranks or fewer collectives, or simulate only some `rounds` of each",
        crate::generate::FLOWS_MAX
    )]
    TooMany,
    #[error("there is no rank {rank}: the ranks are 0 to {}", .ranks.saturating_sub(1))]
    Straggler { rank: u32, ranks: u32 },
    #[error("the trace is of {traced} ranks, not {asked}; leave `ranks` out")]
    RanksOfTrace { traced: u32, asked: u32 },
    #[error("{0}")]
    Nothing(String),
}

/// The flows of collectives that all begin at time 0, each specification repeating on its own.
///
/// The seed decides a shuffled placement and nothing else.
///
/// # Errors
/// Ranks that do not fit the topology or cannot be divided into the groups; too many flows.
pub fn collectives(
    topology: &Topology,
    specs: &[CollectiveSpec],
    ranks: &RankOptions,
    seed: u64,
) -> Result<FlowList, TrafficError> {
    let hosts = ranks.hosts(topology, seed)?;
    let mut writer = Writer::new(&hosts, seed);
    for spec in specs {
        let size = spec.group_size.unwrap_or(hosts.len() as u32 / spec.stride.max(1));
        let layout = GroupLayout { size, stride: spec.stride };
        if size < 2 {
            return Err(CollectiveError::Groups { ranks: hosts.len() as u32, size, stride: spec.stride }.into());
        }
        if spec.kind == CollectiveKind::HalvingDoubling && !size.is_power_of_two() {
            return Err(CollectiveError::PowerOfTwo { size }.into());
        }
        let work = Work { kind: spec.kind, bytes: spec.size_bytes, rounds: spec.rounds.unwrap_or(u32::MAX) };
        writer.reserve(work, layout, spec.repeat)?;
        let mut before = None;
        for turn in 0..spec.repeat {
            let delay = if turn == 0 { net::Time::ZERO } else { spec.gap };
            before = Some(writer.operation(work, layout, before, delay)?);
        }
    }
    let words: Vec<String> = specs.iter().map(CollectiveSpec::to_string).collect();
    let description = format!("{} on {} ranks, {}", words.join(" with "), hosts.len(), ranks.placement);
    let Writer { flows, sampled, bus_bytes, .. } = writer;
    Ok(FlowList { flows, description, sampled, bus_bytes, tasks: None })
}

#[cfg(test)]
mod tests;
