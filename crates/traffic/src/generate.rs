//! Generation of a list of flows from sizes, arrivals and pattern.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use net::random::RandomStream;
use net::{HostIx, Time, Topology};

use crate::arrivals::{Arrivals, Load, LoadReference, OnOff, OnOffSender};
use crate::collectives::CollectiveError;
use crate::demands::DemandError;
use crate::flow::{Flow, FlowList, Start};
use crate::patterns::{PairSource, Pattern, PatternError, PatternKind};
use crate::sizes::SizeDistribution;

#[derive(Clone, Debug, PartialEq)]
pub struct TrafficSpec {
    pub sizes: SizeDistribution,
    /// Pairs of senders and receivers.
    pub pattern: Pattern,
    pub arrivals: Arrivals,
    /// How much, for arrivals that follow a load.
    pub load: Option<Load>,
    pub flows: Option<u32>,
    /// Only flows that start before this time.
    pub until: Option<Time>,
}

/// A property of the generated flows that users should know.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Warning {
    /// More is offered than the reference can carry, so queues grow as long as flows arrive.
    #[error(
        "load {fraction} is at least all the {} can carry: queues grow as long as flows arrive, so results depend on how long that is{}",
        .reference.name(),
        percentage_hint(.fraction)
    )]
    LoadAtLeastOne { fraction: f64, reference: LoadReference },
    #[error("the load is not used: arrivals `{arrivals}` set their own rate; leave it out, or use `poisson`")]
    LoadNotUsed { arrivals: String },
    /// Fewer or more flows than asked for.
    #[error("{asked} flows were asked for and {made} made: {reason}")]
    OtherCount { asked: u32, made: u32, reason: &'static str },
    /// A training trace runs on another number of ranks than it was taken on.
    #[error(
        "the trace was taken on {traced} ranks and runs on {used}: data-parallel groups shrink or grow in proportion"
    )]
    OtherRanks { traced: u32, used: u32 },
    /// Collectives of a trace that send nothing: groups of one rank, or empty buffers.
    #[error("{count} collectives of one rank or without bytes send nothing and were passed over")]
    NothingToSend { count: u64 },
    /// The end of a training trace was left out, as limits asked for.
    #[error("the last {count} collectives of the trace ({bytes} B on the network) were left out to keep to the limit")]
    CollectivesLeftOut { count: u64, bytes: u128 },
    /// Entries of a traffic matrix that stay on one host were left out.
    #[error(
        "{count} entries of the matrix ({mbps:.3} Mbit/s on average) stay on one host and were left out; use two or more hosts at each node to keep them"
    )]
    LocalDemands { count: u32, mbps: f64 },
    /// Transfers of a trace that stay on one host were left out.
    #[error(
        "{count} transfers ({bytes} B) within one host were left out; use a topology with two or more hosts in each rack to keep them"
    )]
    LocalTransfers { count: u32, bytes: u64 },
}

fn percentage_hint(fraction: &f64) -> &'static str {
    // A percentage is at least 5 or so; an intended overload hardly is.
    if *fraction >= 5.0 { " (loads are shares: 0.6 is 60 %)" } else { "" }
}

/// The reason why no flows can be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrafficError {
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    #[error(transparent)]
    Demand(#[from] DemandError),
    #[error("arrivals `{0}` need a load; give one, such as 0.6")]
    LoadMissing(String),
    #[error("load {0} is not above 0; give a share such as 0.6 for 60 %")]
    BadLoad(f64),
    #[error("the load refers to the {0}, but their capacity is 0 in this topology; use another reference")]
    NoCapacity(&'static str),
    #[error("nothing says when to stop; give a number of flows or a time")]
    NoEnd,
    #[error("pattern `{0}` starts its flows by itself; use it with arrivals `all-at-once`")]
    Triggered(String),
    #[error("it divides its flows into groups, whose times would mix with those of the collectives; use another")]
    GroupsInBackground,
    #[error("that is more than {FLOWS_MAX} flows; lower the load, the time or the number of flows")]
    TooMany,
    #[error("flow {0} would start after more than 200 days of simulated time; raise the load")]
    TooLate(usize),
}

/// Flows are numbered with 32 bits and kept in memory, about 50 bytes each.
pub(crate) const FLOWS_MAX: u32 = 20_000_000;

/// Some of the 213 days that picoseconds in 64 bits reach are left to finish in.
pub(crate) const START_MAX: Time = Time::from_s(200 * 86_400);

/// Makes the flows of `spec`, sorted by start.
///
/// Sizes, arrivals and pairs are drawn from three independent streams of `seed`, one draw after the
/// other in order of start; so two runs that differ in load alone have the same sizes and pairs,
/// and gaps in a fixed proportion.
///
/// # Errors
/// A pattern impossible on this topology, a load that is missing or not above 0, no end, too many
/// flows.
pub fn generate(topology: &Topology, spec: &TrafficSpec, seed: u64) -> Result<(FlowList, Vec<Warning>), TrafficError> {
    let mut warnings = Vec::new();
    if spec.flows.is_some_and(|flows| flows > FLOWS_MAX) {
        return Err(TrafficError::TooMany);
    }
    check_load(spec, &mut warnings)?;
    let mut stream = RandomStream::new(seed, "traffic/pairs");
    let pairs = PairSource::new(&spec.pattern, topology, &mut stream)?;
    let mut maker = FlowGenerator { spec, pairs, stream, batch: Vec::new(), flows: Vec::new() };
    match (spec.pattern, spec.arrivals) {
        (Pattern::Shuffle { concurrency }, Arrivals::AllAtOnce { gap }) => {
            maker.shuffle(concurrency, gap)?;
        }
        (Pattern::Shuffle { .. }, _) => {
            return Err(TrafficError::Triggered(spec.pattern.to_string()));
        }
        (_, Arrivals::AllAtOnce { gap }) => maker.all_at_once(gap)?,
        (_, Arrivals::OnOff(times)) => maker.on_off(times, topology, seed)?,
        _ => maker.by_load(seed)?,
    }
    let mut flows = maker.flows;
    let mut sizes = RandomStream::new(seed, "traffic/sizes");
    for flow in &mut flows {
        flow.size_bytes = spec.sizes.sample(&mut sizes);
    }
    check_count(spec, flows.len() as u32, &mut warnings);
    let description = describe(spec, flows.len(), seed);
    Ok((FlowList { flows, description, ..FlowList::default() }, warnings))
}

fn check_load(spec: &TrafficSpec, warnings: &mut Vec<Warning>) -> Result<(), TrafficError> {
    let Some(load) = spec.load else {
        if spec.arrivals.follow_load() {
            return Err(TrafficError::LoadMissing(spec.arrivals.to_string()));
        }
        return Ok(());
    };
    if !(load.fraction > 0.0 && load.fraction.is_finite()) {
        return Err(TrafficError::BadLoad(load.fraction));
    }
    if !spec.arrivals.follow_load() {
        warnings.push(Warning::LoadNotUsed { arrivals: spec.arrivals.to_string() });
        return Ok(());
    }
    if load.capacity.as_bps() == 0 {
        return Err(TrafficError::NoCapacity(load.reference.name()));
    }
    if load.fraction >= 1.0 {
        warnings.push(Warning::LoadAtLeastOne { fraction: load.fraction, reference: load.reference });
    }
    Ok(())
}

fn check_count(spec: &TrafficSpec, made: u32, warnings: &mut Vec<Warning>) {
    let Some(asked) = spec.flows.filter(|asked| *asked != made) else { return };
    let reason = match spec.pattern.info().kind {
        PatternKind::Triggered => "the pattern has a fixed number of flows",
        PatternKind::Event if made > asked => "flows come in whole groups",
        _ => "the end time came first",
    };
    warnings.push(Warning::OtherCount { asked, made, reason });
}

/// The flows so far; sizes are filled in at the end.
struct FlowGenerator<'a> {
    spec: &'a TrafficSpec,
    pairs: PairSource,
    stream: RandomStream,
    batch: Vec<(HostIx, HostIx)>,
    flows: Vec<Flow>,
}

impl FlowGenerator<'_> {
    /// Arrivals whose rate follows from the load.
    fn by_load(&mut self, seed: u64) -> Result<(), TrafficError> {
        self.require_end()?;
        let load = self.spec.load.ok_or_else(|| TrafficError::LoadMissing(self.spec.arrivals.to_string()))?;
        let flow_gap_s = load.mean_gap_s(self.spec.sizes.mean_bytes());
        let gap_s = flow_gap_s * f64::from(self.pairs.flows_per_arrival());
        let mut stream = RandomStream::new(seed, "traffic/arrivals");
        // Summed in units of the mean gap, so that a load only scales the sum.
        let mut gaps = 0.0;
        while !self.is_full() {
            gaps += self.spec.arrivals.relative_gap(&mut stream);
            if !self.arrival(Time::from_s_f64(gaps * gap_s))? {
                break;
            }
        }
        Ok(())
    }

    /// One flow per pair of a list, or as many as asked for, `gap` apart.
    fn all_at_once(&mut self, gap: Time) -> Result<(), TrafficError> {
        let Some(list) = self.pairs.list().map(<[_]>::to_vec) else {
            // Without a gap, an end time would never come.
            if self.spec.flows.is_none() && (gap == Time::ZERO || self.spec.until.is_none()) {
                return Err(TrafficError::NoEnd);
            }
            let mut start = Time::ZERO;
            while !self.is_full() && self.arrival(start)? {
                start = start.saturating_add(gap);
            }
            return Ok(());
        };
        let count = self.spec.flows.map_or(list.len(), |flows| flows as usize);
        let mut start = Time::ZERO;
        for pair in list.iter().cycle().take(count) {
            if self.is_over(start)? {
                break;
            }
            self.push(*pair, start, 0);
            start = start.saturating_add(gap);
        }
        Ok(())
    }

    /// An ON-OFF process for every pair of a list, for every host of a pattern that draws
    /// receivers, or for the whole of a pattern of groups.
    fn on_off(&mut self, times: OnOff, topology: &Topology, seed: u64) -> Result<(), TrafficError> {
        self.require_end()?;
        let kind = self.spec.pattern.info().kind;
        let list = self.pairs.list().map(<[_]>::to_vec);
        let sender_count = match (&list, kind) {
            (Some(list), _) => list.len(),
            (None, PatternKind::Event) => 1,
            (None, _) => topology.hosts().len(),
        };
        let mut senders: Vec<OnOffSender> = (0..sender_count)
            .map(|ix| OnOffSender::new(times, RandomStream::new(seed, &format!("traffic/on-off/{ix}"))))
            .collect();
        let next = |sender: &OnOffSender, ix| Reverse((Time::from_s_f64(sender.next_s()), ix));
        let mut queue: BinaryHeap<Reverse<(Time, usize)>> =
            senders.iter().zip(0..).map(|(sender, ix)| next(sender, ix)).collect();
        while let Some(Reverse((start, ix))) = queue.pop() {
            if self.is_full() || self.is_over(start)? {
                break;
            }
            match (&list, kind) {
                (Some(list), _) => self.push(list[ix], start, 0),
                (None, PatternKind::Event) => {
                    self.arrival(start)?;
                }
                (None, _) => {
                    let from = HostIx(ix as u32);
                    let to = self.pairs.receiver(from, &mut self.stream);
                    self.push((from, to), start, 0);
                }
            }
            senders[ix].advance();
            queue.push(next(&senders[ix], ix));
        }
        Ok(())
    }

    /// All-to-all sender by sender, sender i beginning at i times `gap`; each flow after the first
    /// `concurrency` waits for the one that many before it.
    fn shuffle(&mut self, concurrency: u32, gap: Time) -> Result<(), TrafficError> {
        let list = self.pairs.list().map(<[_]>::to_vec).unwrap_or_default();
        let mut begin = 0;
        for flow_ix in 0..list.len() {
            let (from, _) = list[flow_ix];
            if flow_ix > 0 && list[flow_ix - 1].0 != from {
                begin = flow_ix;
            }
            let start = Time::from_ps(gap.as_ps().saturating_mul(u64::from(from.0)));
            if start > START_MAX {
                return Err(TrafficError::TooLate(flow_ix));
            }
            self.push(list[flow_ix], start, 1);
            if flow_ix - begin >= concurrency as usize {
                self.flows[flow_ix].start = Start::After { flow: flow_ix as u32 - concurrency, delay: Time::ZERO };
            }
        }
        Ok(())
    }

    /// The flows of one arrival; `false` at the end time.
    fn arrival(&mut self, start: Time) -> Result<bool, TrafficError> {
        if self.is_over(start)? {
            return Ok(false);
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        self.pairs.next(&mut self.stream, &mut batch);
        let is_event = self.spec.pattern.info().kind == PatternKind::Event;
        let group = if is_event { self.flows.last().map_or(1, |flow| flow.group + 1) } else { 0 };
        for pair in &batch {
            self.push(*pair, start, group);
        }
        self.batch = batch;
        Ok(true)
    }

    fn push(&mut self, (src, dst): (HostIx, HostIx), start: Time, group: u32) {
        self.flows.push(Flow { src, dst, size_bytes: 1, start: Start::At(start), group });
    }

    fn is_full(&self) -> bool {
        self.spec.flows.is_some_and(|flows| self.flows.len() >= flows as usize)
    }

    fn is_over(&self, start: Time) -> Result<bool, TrafficError> {
        if self.spec.until.is_some_and(|until| start >= until) {
            return Ok(true);
        }
        if start > START_MAX {
            return Err(TrafficError::TooLate(self.flows.len()));
        }
        if self.flows.len() >= FLOWS_MAX as usize {
            return Err(TrafficError::TooMany);
        }
        Ok(false)
    }

    fn require_end(&self) -> Result<(), TrafficError> {
        match (self.spec.flows, self.spec.until) {
            (None, None) => Err(TrafficError::NoEnd),
            _ => Ok(()),
        }
    }
}

fn describe(spec: &TrafficSpec, flow_count: usize, seed: u64) -> String {
    let load = match spec.load.filter(|_| spec.arrivals.follow_load()) {
        Some(load) => format!("load {} of the {} ({})", load.fraction, load.reference.name(), load.capacity),
        None => "no set load".to_owned(),
    };
    format!(
        "{flow_count} flows: sizes {} (mean {:.0} B), pattern {}, arrivals {}, {load}, seed {seed}",
        spec.sizes.name(),
        spec.sizes.mean_bytes(),
        spec.pattern,
        spec.arrivals,
    )
}
