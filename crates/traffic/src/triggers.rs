//! Triggers: flows that start when other flows end.

use crate::flow::{Flow, Start};

/// Flows that wait for others. The caller reports each flow that has delivered everything and
/// receives the flows that this releases.
///
/// A flow without waiting flows has no overhead, and no call allocates.
#[derive(Clone, Debug, Default)]
pub struct Triggers {
    /// Flows waiting for one flow: `(awaited, waiting)`, sorted.
    by_flow: Vec<(u32, u32)>,
    groups: GroupTriggers,
}

/// Flows that wait for ranges of groups; empty where none does.
#[derive(Clone, Debug, Default)]
struct GroupTriggers {
    /// Position in `groups` of each flow's group; [`NONE`] if nothing waits for it.
    group_of: Vec<u32>,
    groups: Vec<Group>,
    ranges_of: Vec<u32>,
    ranges: Vec<Range>,
    waiting: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    flows_left: u32,
    /// Where its part of `ranges_of` begins and ends.
    begin: u32,
    end: u32,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    groups_left: u32,
    /// Where its part of `waiting` begins and ends.
    begin: u32,
    end: u32,
}

const NONE: u32 = u32::MAX;

/// Maximum sum of the widths of all group ranges; a wider list is rejected.
const WIDTH_MAX: usize = 20_000_000;

/// A trigger that can never fire, at this position of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadTrigger {
    /// It waits for a flow or for groups that are not in the list.
    Missing(usize),
    /// It waits, perhaps through others, for itself.
    Circular(usize),
    /// All ranges of groups together are too wide to be kept.
    TooWide(usize),
}

impl BadTrigger {
    /// The position of the flow.
    pub(crate) fn place(self) -> usize {
        match self {
            BadTrigger::Missing(place) | BadTrigger::Circular(place) | BadTrigger::TooWide(place) => place,
        }
    }
}

impl Triggers {
    /// The triggers of a list; flows that wait for what is not in the list are never released.
    pub fn new(flows: &[Flow]) -> Triggers {
        let mut by_flow = Vec::new();
        for (id, flow) in (0u32..).zip(flows) {
            if let Start::After { flow: awaited, .. } = flow.start {
                by_flow.push((awaited, id));
            }
        }
        by_flow.sort_unstable();
        Triggers { by_flow, groups: GroupTriggers::new(flows) }
    }

    /// Handles the last byte of flow `ended`: calls `release` with each flow that waited for this
    /// flow alone, or for it last.
    pub fn ended(&mut self, ended: u32, mut release: impl FnMut(u32)) {
        let from = self.by_flow.partition_point(|(awaited, _)| *awaited < ended);
        for (_, id) in self.by_flow[from..].iter().take_while(|(awaited, _)| *awaited == ended) {
            release(*id);
        }
        self.groups.ended(ended, &mut release);
    }
}

impl GroupTriggers {
    fn new(flows: &[Flow]) -> GroupTriggers {
        let mut by_range: Vec<(u32, u32, u32)> = Vec::new();
        for (id, flow) in (0u32..).zip(flows) {
            if let Start::AfterGroups { first, last, .. } = flow.start {
                by_range.push((first, last, id));
            }
        }
        if by_range.is_empty() {
            return GroupTriggers::default();
        }
        by_range.sort_unstable();
        let names = names(flows);
        let mut groups = vec![Group::default(); names.len()];
        let group_of: Vec<u32> = flows.iter().map(|flow| position(&names, flow.group)).collect();
        for group in group_of.iter().filter(|group| **group != NONE) {
            groups[*group as usize].flows_left += 1;
        }
        let mut ranges: Vec<Range> = Vec::new();
        let mut members: Vec<(u32, u32)> = Vec::new();
        for (place, (first, last, _)) in (0u32..).zip(&by_range) {
            let is_new =
                place == 0 || by_range[place as usize - 1].0 != *first || by_range[place as usize - 1].1 != *last;
            if is_new {
                let inside = between(&names, *first, *last);
                let ix = ranges.len() as u32;
                ranges.push(Range { groups_left: inside.len() as u32, begin: place, end: place });
                members.extend(inside.map(|group| (group as u32, ix)));
            }
            if let Some(range) = ranges.last_mut() {
                range.end = place + 1;
            }
        }
        members.sort_unstable();
        for (place, (group, _)) in (0u32..).zip(&members) {
            let group = &mut groups[*group as usize];
            if group.end == 0 {
                group.begin = place;
            }
            group.end = place + 1;
        }
        let ranges_of = members.into_iter().map(|(_, range)| range).collect();
        let waiting = by_range.into_iter().map(|(_, _, id)| id).collect();
        GroupTriggers { group_of, groups, ranges_of, ranges, waiting }
    }

    fn ended(&mut self, ended: u32, release: &mut impl FnMut(u32)) {
        let Some(group) = self.group_of.get(ended as usize).filter(|group| **group != NONE) else { return };
        let group = &mut self.groups[*group as usize];
        group.flows_left = group.flows_left.saturating_sub(1);
        if group.flows_left > 0 {
            return;
        }
        for range in &self.ranges_of[group.begin as usize..group.end as usize] {
            let range = &mut self.ranges[*range as usize];
            range.groups_left -= 1;
            if range.groups_left == 0 {
                self.waiting[range.begin as usize..range.end as usize].iter().for_each(|id| release(*id));
            }
        }
    }
}

/// Numbers of the groups of a list, sorted.
fn names(flows: &[Flow]) -> Vec<u32> {
    // Group 0 means no group, so nothing can wait for it.
    let mut names: Vec<u32> = flows.iter().map(|flow| flow.group).filter(|group| *group > 0).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn position(names: &[u32], group: u32) -> u32 {
    names.binary_search(&group).map_or(NONE, |ix| ix as u32)
}

fn between(names: &[u32], first: u32, last: u32) -> std::ops::Range<usize> {
    let begin = names.partition_point(|name| *name < first);
    begin..names.partition_point(|name| *name <= last).max(begin)
}

/// Checks that every trigger names flows of the list, and that every flow starts if all others end.
pub(crate) fn check(flows: &[Flow]) -> Result<(), BadTrigger> {
    let mut groups: Option<Vec<u32>> = None;
    let (mut width, mut before) = (0, None);
    for (place, flow) in flows.iter().enumerate() {
        match flow.start {
            Start::At(_) | Start::AfterTasks => {}
            Start::After { flow, .. } if (flow as usize) < flows.len() => {}
            Start::After { .. } => return Err(BadTrigger::Missing(place)),
            Start::AfterGroups { first, last, .. } => {
                let inside = between(groups.get_or_insert_with(|| names(flows)), first, last);
                if inside.is_empty() {
                    return Err(BadTrigger::Missing(place));
                }
                // Lists name a range for many flows in a row.
                width += if before == Some((first, last)) { 0 } else { inside.len() };
                before = Some((first, last));
            }
        }
        if width > WIDTH_MAX {
            return Err(BadTrigger::TooWide(place));
        }
    }
    let mut triggers = Triggers::new(flows);
    let mut has_begun: Vec<bool> = flows.iter().map(|flow| flow.start.time().is_some()).collect();
    let mut under_way: Vec<u32> = (0u32..).zip(&has_begun).filter(|(_, begun)| **begun).map(|(id, _)| id).collect();
    while let Some(id) = under_way.pop() {
        triggers.ended(id, |released| {
            has_begun[released as usize] = true;
            under_way.push(released);
        });
    }
    has_begun.iter().position(|begun| !begun).map_or(Ok(()), |place| Err(BadTrigger::Circular(place)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::{HostIx, Time};

    fn flow(group: u32, start: Start) -> Flow {
        Flow { src: HostIx(0), dst: HostIx(1), size_bytes: 1, start, group }
    }

    const NOW: Start = Start::At(Time::ZERO);

    fn after(first: u32, last: u32) -> Start {
        Start::AfterGroups { first, last, delay: Time::ZERO }
    }

    fn released(triggers: &mut Triggers, ended: u32) -> Vec<u32> {
        let mut released = Vec::new();
        triggers.ended(ended, |id| released.push(id));
        released
    }

    #[test]
    fn a_range_of_groups_fires_with_its_last_flow() {
        let flows = [
            flow(2, NOW),
            flow(2, NOW),
            flow(5, NOW),
            flow(9, after(2, 7)),
            flow(9, after(2, 7)),
            flow(10, after(5, 5)),
            flow(0, after(9, 10)),
        ];
        assert_eq!(check(&flows), Ok(()));
        let mut triggers = Triggers::new(&flows);
        assert!(released(&mut triggers, 0).is_empty());
        assert_eq!(released(&mut triggers, 2), [5]);
        assert_eq!(released(&mut triggers, 1), [3, 4]);
        assert!(released(&mut triggers, 4).is_empty());
        assert!(released(&mut triggers, 5).is_empty());
        assert_eq!(released(&mut triggers, 3), [6]);
    }

    #[test]
    fn triggers_that_never_fire_are_found() {
        assert_eq!(check(&[flow(1, NOW), flow(2, after(3, 4))]), Err(BadTrigger::Missing(1)));
        assert_eq!(check(&[flow(0, NOW), flow(2, after(0, 0))]), Err(BadTrigger::Missing(1)), "group 0 is none");
        assert_eq!(check(&[flow(1, NOW), flow(2, after(2, 1))]), Err(BadTrigger::Missing(1)));
        assert_eq!(check(&[flow(1, NOW), flow(2, after(1, 2))]), Err(BadTrigger::Circular(1)));
        assert_eq!(check(&[flow(1, after(2, 2)), flow(2, after(1, 1))]), Err(BadTrigger::Circular(0)));
    }

    #[test]
    fn ranges_that_would_not_fit_are_refused() {
        // Distinct ranges over all groups: their widths together grow with the square.
        let n = 10_000;
        let flows: Vec<Flow> =
            (1..=n).map(|group| flow(group, if group < 3 { NOW } else { after(1, group - 1) })).collect();
        assert!(matches!(check(&flows), Err(BadTrigger::TooWide(_))));
    }
}
