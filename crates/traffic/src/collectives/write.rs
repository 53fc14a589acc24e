//! Collectives as flows of a list.

use net::random::RandomStream;
use net::{HostIx, Time};

use super::{CollectiveError, CollectiveKind, GroupLayout};
use crate::flow::{BusBytes, Flow, SampledGroups, Start};
use crate::generate::FLOWS_MAX;

use super::steps::Step;

/// Flows so far, and the number of the next group.
pub(crate) struct Writer<'a> {
    hosts: &'a [HostIx],
    pub(crate) flows: Vec<Flow>,
    pub(crate) sampled: Vec<SampledGroups>,
    pub(crate) bus_bytes: Vec<BusBytes>,
    next_group: u32,
    steps: Vec<Step>,
    /// Seed of the run, which decides the popularity of experts.
    seed: u64,
}

/// What each group of a layout does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) kind: CollectiveKind,
    pub(crate) bytes: u64,
    /// The number of rounds that are simulated, at most.
    pub(crate) rounds: u32,
}

/// One collective done by all groups of a layout: what later ones wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation {
    layout: GroupLayout,
    first_group: u32,
    group_count: u32,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(hosts: &'a [HostIx], seed: u64) -> Writer<'a> {
        Writer {
            hosts,
            flows: Vec::new(),
            sampled: Vec::new(),
            bus_bytes: Vec::new(),
            next_group: 1,
            steps: Vec::new(),
            seed,
        }
    }

    pub(crate) fn rank_count(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Refuses more repetitions than a list holds, before any is made.
    pub(crate) fn reserve(&self, work: Work, layout: GroupLayout, repeat: u32) -> Result<(), CollectiveError> {
        let group_count = layout.group_count(self.rank_count())?;
        let each = u128::from(group_count) * u128::from(work.kind.flow_count(layout.size, work.rounds));
        let more = each.saturating_mul(u128::from(repeat));
        if more + self.flows.len() as u128 > u128::from(FLOWS_MAX) { Err(CollectiveError::TooMany) } else { Ok(()) }
    }

    /// Adds a collective in all groups of a layout, `delay` after `before` (or after time 0).
    ///
    /// The layout has groups of at least two and the bytes are above 0, so that there is something to
    /// wait for. A group waits for the same group of `before` if the layouts are the same, else for
    /// all groups of it.
    pub(crate) fn operation(
        &mut self,
        work: Work,
        layout: GroupLayout,
        before: Option<Operation>,
        delay: Time,
    ) -> Result<Operation, CollectiveError> {
        self.reserve(work, layout, 1)?;
        let group_count = layout.group_count(self.rank_count())?;
        self.steps.clear();
        let first_group = self.next_group;
        let mut random = RandomStream::new(self.seed, &format!("traffic/experts/{first_group}"));
        work.kind.steps(layout.size, work.bytes, work.rounds, &mut random, &mut self.steps);
        let (first, last) = (first_group, first_group + group_count - 1);
        if let Some(bytes) = work.kind.bus_bytes(layout.size, work.bytes) {
            self.bus_bytes.push(BusBytes { first, last, bytes });
        }
        if let Some(rounds) = work.kind.rounds(layout.size).filter(|rounds| *rounds > work.rounds) {
            self.sampled.push(SampledGroups { first, last, simulated: work.rounds, rounds });
        }
        for group in 0..group_count {
            let begin = before.map_or(Start::At(delay), |before| before.then(layout, group, delay));
            self.group(layout, group, first_group + group, begin);
        }
        self.next_group += group_count;
        Ok(Operation { layout, first_group, group_count })
    }

    fn group(&mut self, layout: GroupLayout, group: u32, number: u32, begin: Start) {
        let base = self.flows.len() as u32;
        let host = |member: u32| self.hosts[layout.rank(group, member) as usize];
        for step in &self.steps {
            let after = step.after.map(|after| Start::After { flow: base + after, delay: Time::ZERO });
            let start = after.unwrap_or(begin).later(step.delay);
            self.flows.push(Flow {
                src: host(step.from),
                dst: host(step.to),
                size_bytes: step.bytes,
                start,
                group: number,
            });
        }
    }
}

impl Operation {
    fn then(self, layout: GroupLayout, group: u32, delay: Time) -> Start {
        let (first, last) = match layout == self.layout {
            true => (self.first_group + group, self.first_group + group),
            false => (self.first_group, self.first_group + self.group_count - 1),
        };
        Start::AfterGroups { first, last, delay }
    }
}
