//! The one product of this crate: a list of flows to send.

use std::sync::Arc;

use net::{HostIx, Time};

use crate::tasks::TaskGraph;
use crate::triggers::{self, BadTrigger};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    At(Time),
    /// `delay` after flow `flow` (a position in the list) has delivered its last byte.
    After {
        /// Position in the list of the flow waited for.
        flow: u32,
        delay: Time,
    },
    /// A barrier: `delay` after groups `first` to `last` have delivered their last bytes.
    AfterGroups {
        /// Smallest number of the groups waited for; never 0.
        first: u32,
        /// Largest of them; numbers in between without flows are ignored.
        last: u32,
        delay: Time,
    },
    /// When the tasks have ended or begun that it waits for in [`FlowList::tasks`].
    AfterTasks,
}

impl Start {
    /// Returns this start, `delay` later; that of a task stays the same.
    #[must_use]
    pub(crate) fn later(self, delay: Time) -> Start {
        let mut start = self;
        match &mut start {
            Start::At(time) | Start::After { delay: time, .. } | Start::AfterGroups { delay: time, .. } => {
                *time = time.saturating_add(delay);
            }
            // A computation of the graph delays it.
            Start::AfterTasks => {}
        }
        start
    }

    /// The start time of a flow that does not wait for others.
    pub fn time(self) -> Option<Time> {
        if let Start::At(time) = self { Some(time) } else { None }
    }
}

/// One transfer of `size` payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    pub src: HostIx,
    /// Receiving host, never the sender.
    pub dst: HostIx,
    /// Payload bytes, at least 1.
    pub size_bytes: u64,
    /// When its first byte is offered to the socket.
    pub start: Start,
    /// Job, coflow or collective it belongs to; 0 for no group.
    pub group: u32,
}

/// Groups of which only some rounds are in the list, such as 20 of the 131,070 rounds of a ring
/// all-reduce over 65,536 ranks. The rounds repeat, so the time of all follows from that of some.
///
/// The round of a flow is the number of flows that it waits for one after the other in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampledGroups {
    /// Smallest number of these groups.
    pub first: u32,
    /// Largest number of these groups.
    pub last: u32,
    /// Number of their rounds in the list, from 4.
    pub simulated: u32,
    /// Rounds of the whole collective.
    pub rounds: u32,
}

/// Groups of one collective, and the bytes from which its bus bandwidth follows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BusBytes {
    /// Smallest number of these groups.
    pub first: u32,
    /// Largest number of these groups.
    pub last: u32,
    /// Bytes that each rank sends at least: those of the buffer times the factor of nccl-tests,
    /// such as 2 (n - 1) / n for an all-reduce over n ranks.
    pub bytes: f64,
}

/// Flows in order of their start times (triggered ones keep their place), with what was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowList {
    /// The flows. A flow's position is its id everywhere: in records, in triggers, in reports.
    pub flows: Vec<Flow>,
    /// Description for reports: distribution, pattern, load and its reference.
    pub description: String,
    /// Groups of which only some rounds are in the list.
    pub sampled: Vec<SampledGroups>,
    /// Collectives that have a bus bandwidth, in order of their groups.
    pub bus_bytes: Vec<BusBytes>,
    /// Dependencies of an execution trace, in which each flow is the task of its position.
    pub tasks: Option<Arc<TaskGraph>>,
}

impl FlowList {
    /// Puts flows in order of their start times, equal ones in the order given; triggered flows
    /// keep their positions, and triggers follow the flows they name.
    ///
    /// `Err` holds the position, as given, of a flow that would never start.
    pub(crate) fn sorted(flows: Vec<Flow>, description: String) -> Result<FlowList, BadTrigger> {
        triggers::check(&flows)?;
        let fixed = |ix: &usize| flows[*ix].start.time().is_some();
        let mut by_time: Vec<usize> = (0..flows.len()).filter(fixed).collect();
        by_time.sort_by_key(|ix| flows[*ix].start.time());
        let mut by_time = by_time.into_iter();
        let order: Vec<usize> =
            (0..flows.len()).map(|place| if fixed(&place) { by_time.next().unwrap_or(place) } else { place }).collect();
        let mut new_place = vec![0u32; flows.len()];
        for (place, old) in order.iter().enumerate() {
            new_place[*old] = place as u32;
        }
        let mut sorted: Vec<Flow> = order.iter().map(|old| flows[*old]).collect();
        for flow in &mut sorted {
            if let Start::After { flow: before, .. } = &mut flow.start {
                *before = new_place[*before as usize];
            }
        }
        Ok(FlowList { flows: sorted, description, ..FlowList::default() })
    }

    /// Returns the flows of both lists. Groups of `other` must not wait for or be groups of this
    /// list: `other` has groups 0 only.
    ///
    /// # Panics
    /// If `other` has a group, or one of the lists has tasks.
    pub fn merged(self, other: FlowList) -> FlowList {
        assert!(other.flows.iter().all(|flow| flow.group == 0), "groups of two lists would mix");
        assert!(self.tasks.is_none() && other.tasks.is_none(), "tasks name flows by their positions");
        let offset = self.flows.len() as u32;
        let moved = other.flows.into_iter().map(|mut flow| {
            if let Start::After { flow: before, .. } = &mut flow.start {
                *before += offset;
            }
            flow
        });
        let description = format!("{}; next to it {}", self.description, other.description);
        let flows = self.flows.into_iter().chain(moved).collect();
        let sorted =
            FlowList::sorted(flows, description).expect("both lists are valid, and neither refers to the other");
        FlowList { sampled: self.sampled, bus_bytes: self.bus_bytes, ..sorted }
    }

    /// Returns the payload bytes of all flows.
    pub fn total_bytes(&self) -> u128 {
        self.flows.iter().map(|flow| u128::from(flow.size_bytes)).sum()
    }

    /// Returns the latest start that does not wait for another flow; zero without such a start.
    pub fn last_start(&self) -> Time {
        self.flows.iter().filter_map(|flow| flow.start.time()).max().unwrap_or(Time::ZERO)
    }

    /// Payload bits per second if all flows were spread over `span`, such as
    /// [`FlowList::last_start`]: what was offered, not what a network can carry. Zero for an empty
    /// list, otherwise infinite for a span of zero.
    pub fn offered_bps(&self, span: Time) -> f64 {
        if self.flows.is_empty() {
            return 0.0;
        }
        8.0 * self.total_bytes() as f64 / span.as_s_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(src: u32, start: Start) -> Flow {
        Flow { src: HostIx(src), dst: HostIx(9), size_bytes: 125, start, group: 0 }
    }

    fn after(flow: u32) -> Start {
        Start::After { flow, delay: Time::ZERO }
    }

    #[test]
    fn sorting_keeps_triggered_flows_in_place_and_their_triggers_right() {
        let at = |us| Start::At(Time::from_us(us));
        let flows = vec![flow(0, at(5)), flow(1, after(0)), flow(2, at(3)), flow(3, at(5))];
        let list = FlowList::sorted(flows, String::new()).unwrap();
        let senders: Vec<u32> = list.flows.iter().map(|flow| flow.src.0).collect();
        assert_eq!(senders, [2, 1, 0, 3]);
        assert_eq!(list.flows[1].start, after(2));
        let again = FlowList::sorted(list.flows.clone(), String::new()).unwrap();
        assert_eq!(again, list);
        assert_eq!((list.total_bytes(), list.last_start()), (500, Time::from_us(5)));
        assert_eq!(list.offered_bps(Time::from_us(4)), 1e9);
    }

    #[test]
    fn merged_lists_keep_their_triggers() {
        let at = |us| Start::At(Time::from_us(us));
        let one =
            FlowList { flows: vec![flow(0, at(4)), flow(1, after(0))], description: "a".into(), ..FlowList::default() };
        let other =
            FlowList { flows: vec![flow(2, at(1)), flow(3, after(0))], description: "b".into(), ..FlowList::default() };
        let both = one.merged(other);
        let senders: Vec<u32> = both.flows.iter().map(|flow| flow.src.0).collect();
        assert_eq!((senders, both.description.as_str()), (vec![2, 1, 0, 3], "a; next to it b"));
        assert_eq!((both.flows[1].start, both.flows[3].start), (after(2), after(0)), "each after its own");
    }

    #[test]
    fn triggers_that_never_fire_are_found() {
        let at = Start::At(Time::ZERO);
        let circle = vec![flow(0, at), flow(1, after(2)), flow(2, after(1))];
        assert_eq!(FlowList::sorted(circle, String::new()), Err(BadTrigger::Circular(1)));
        let own = vec![flow(0, after(0))];
        assert_eq!(FlowList::sorted(own, String::new()), Err(BadTrigger::Circular(0)));
        let missing = vec![flow(0, at), flow(1, after(2))];
        assert_eq!(FlowList::sorted(missing, String::new()), Err(BadTrigger::Missing(1)));
    }
}
