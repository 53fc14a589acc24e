//! A training trace as flows on a topology.

use net::{Time, Topology};

use super::write::Operation;
use super::{CollectiveError, GroupLayout, RankOptions, Work, Writer};
use crate::flow::FlowList;
use crate::generate::{TrafficError, Warning};
use crate::import::aicb::{TraceGroup, TraceOperation, TrainingTrace};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TraceOrder {
    /// Each collective waits for the previous one of the trace, as with one thread per rank.
    #[default]
    Program,
    /// Each waits for the previous one of the same groups only.
    Group,
}

impl TraceOrder {
    pub const NAMES: [&str; 2] = ["program", "group"];
}

/// How a training trace is fitted to a topology and a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TrainingOptions {
    /// Ranks and their hosts. With fewer ranks than the trace has, tensor-parallel groups keep
    /// their size and data-parallel groups shrink in proportion.
    pub ranks: RankOptions,
    pub order: TraceOrder,
    pub first: Option<u32>,
    /// Only the first collectives that together send at most this many bytes.
    pub max_bytes: Option<u64>,
    /// Sizes are multiplied by this (and are then at least 1 byte).
    pub size_scale: f64,
    /// Computation times of a workload are multiplied by this.
    pub time_scale: f64,
}

impl Default for TrainingOptions {
    fn default() -> TrainingOptions {
        TrainingOptions {
            ranks: RankOptions::default(),
            order: TraceOrder::default(),
            first: None,
            max_bytes: None,
            size_scale: 1.0,
            time_scale: 1.0,
        }
    }
}

struct Fitted {
    operation: TraceOperation,
    layout: GroupLayout,
    size_bytes: u64,
    sent_bytes: u128,
}

impl TrainingTrace {
    /// The flows of a run, and what was left out of the trace.
    ///
    /// # Errors
    /// Ranks that the trace's groups do not divide or that do not fit the topology, limits that
    /// leave nothing, too many flows.
    pub fn flows(
        &self,
        topology: &Topology,
        options: &TrainingOptions,
        seed: u64,
    ) -> Result<(FlowList, Vec<Warning>), TrafficError> {
        let mut warnings = Vec::new();
        let ranks = self.ranks(topology, options, &mut warnings);
        let hosts = ranks.hosts(topology, seed)?;
        let mut writer = Writer::new(&hosts, seed);
        let fitted = self.fit(hosts.len() as u32, options, &mut warnings)?;
        let kept = self.keep(&fitted, options, &mut warnings)?;
        // The last operation of all, or of each layout.
        let mut before: Vec<(GroupLayout, Operation)> = Vec::new();
        for fitted in &fitted[..kept] {
            let Fitted { operation, layout, size_bytes, .. } = fitted;
            let place = match options.order {
                TraceOrder::Program => before.len().checked_sub(1),
                TraceOrder::Group => before.iter().position(|(other, _)| other == layout),
            };
            let delay = Time::from_s_f64(operation.compute.as_s_f64() * options.time_scale);
            let last = place.map(|place| before[place].1);
            let work = Work { kind: operation.kind, bytes: *size_bytes, rounds: u32::MAX };
            let done = writer.operation(work, *layout, last, delay)?;
            match place {
                Some(place) => before[place] = (*layout, done),
                None => before.push((*layout, done)),
            }
        }
        let description = format!("{}; {kept} collectives on {} ranks", self.describe(options), hosts.len());
        let Writer { flows, bus_bytes, .. } = writer;
        Ok((FlowList { flows, description, bus_bytes, ..FlowList::default() }, warnings))
    }

    pub fn describe(&self, options: &TrainingOptions) -> String {
        let mut words = format!(
            "training trace {} of {} collectives, in the order of {}, {}, sizes x {}, computation x {}",
            self.file,
            self.operations.len(),
            if options.order == TraceOrder::Program { "the program" } else { "each group" },
            options.ranks.placement,
            options.size_scale,
            options.time_scale
        );
        if let Some(first) = options.first {
            words += &format!(", the first {first}");
        }
        if let Some(bytes) = options.max_bytes {
            words += &format!(", up to {bytes} B");
        }
        words
    }

    fn tensor_size(&self) -> u32 {
        let sizes = self.operations.iter().filter_map(|operation| match operation.group {
            TraceGroup::Tensor(size) => Some(size),
            _ => None,
        });
        sizes.max().unwrap_or(1)
    }

    fn ranks(&self, topology: &Topology, options: &TrainingOptions, warnings: &mut Vec<Warning>) -> RankOptions {
        let hosts = topology.hosts().len() as u32;
        let fitting = || {
            let most = self.rank_count.unwrap_or(hosts).min(hosts);
            (most - most % self.tensor_size()).max(1)
        };
        let count = options.ranks.count.unwrap_or_else(fitting);
        if let Some(traced) = self.rank_count.filter(|traced| *traced != count) {
            warnings.push(Warning::OtherRanks { traced, used: count });
        }
        RankOptions { count: Some(count), ..options.ranks }
    }

    /// Collectives that send something, with the groups and sizes they have in this run.
    fn fit(
        &self,
        ranks: u32,
        options: &TrainingOptions,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Fitted>, CollectiveError> {
        let mut fitted = Vec::with_capacity(self.operations.len());
        let mut alone = 0;
        let mut compute = Time::ZERO;
        for operation in &self.operations {
            let layout = self.layout(operation.group, ranks)?;
            let groups = layout.group_count(ranks)?;
            compute = compute.saturating_add(operation.compute);
            if layout.size < 2 || operation.size_bytes == 0 {
                alone += 1;
                continue;
            }
            let scaled = libm::round(operation.size_bytes as f64 * options.size_scale);
            // Kept exact where nothing is scaled: beyond 2^53 a float would round.
            let size_bytes = if options.size_scale == 1.0 { operation.size_bytes } else { (scaled as u64).max(1) };
            let sent_bytes = u128::from(groups) * operation.kind.sent_bytes(layout.size, size_bytes);
            let operation = TraceOperation { compute: std::mem::take(&mut compute), ..*operation };
            fitted.push(Fitted { operation, layout, size_bytes, sent_bytes });
        }
        if alone > 0 {
            warnings.push(Warning::NothingToSend { count: alone });
        }
        Ok(fitted)
    }

    fn layout(&self, group: TraceGroup, ranks: u32) -> Result<GroupLayout, CollectiveError> {
        let tensor = self.tensor_size();
        Ok(match group {
            TraceGroup::Tensor(size) => GroupLayout { size, stride: 1 },
            TraceGroup::All => GroupLayout { size: ranks, stride: 1 },
            TraceGroup::Data(size) => {
                // As large a part of all ranks as in the trace.
                let scaled = size.zip(self.rank_count).map(|(size, traced)| {
                    let size = u64::from(size) * u64::from(ranks);
                    (size.is_multiple_of(traced.into()), size / u64::from(traced))
                });
                let size = match scaled {
                    None => ranks / tensor,
                    Some((true, size)) if size > 0 => size as u32,
                    _ => return Err(CollectiveError::Groups { ranks, size: size.unwrap_or(0), stride: tensor }),
                };
                GroupLayout { size, stride: tensor }
            }
        })
    }

    /// How many collectives the limits leave.
    fn keep(
        &self,
        fitted: &[Fitted],
        options: &TrainingOptions,
        warnings: &mut Vec<Warning>,
    ) -> Result<usize, CollectiveError> {
        let most = options.first.map_or(fitted.len(), |first| fitted.len().min(first as usize));
        let mut sent = 0u128;
        let max_bytes = options.max_bytes.map_or(u128::MAX, u128::from);
        let mut kept = 0;
        for fitted in &fitted[..most] {
            sent += fitted.sent_bytes;
            if sent > max_bytes {
                break;
            }
            kept += 1;
        }
        let Some(first) = fitted.first() else {
            return Err(CollectiveError::Nothing(format!("{} holds no collective that sends anything", self.file)));
        };
        if kept == 0 {
            let (bytes, limit) = (first.sent_bytes, max_bytes);
            let reason =
                format!("the first collective alone sends {bytes} B, above the limit of {limit} B; scale sizes down");
            return Err(CollectiveError::Nothing(reason));
        }
        if kept < fitted.len() {
            let bytes = fitted[kept..].iter().map(|fitted| fitted.sent_bytes).sum();
            warnings.push(Warning::CollectivesLeftOut { count: (fitted.len() - kept) as u64, bytes });
        }
        Ok(kept)
    }
}
