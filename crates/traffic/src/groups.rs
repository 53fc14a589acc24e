//! Hosts grouped by rack or pod.

use std::collections::BTreeMap;

use net::random::RandomStream;
use net::{HostIx, Topology};

#[derive(Clone, Debug)]
pub(crate) struct HostGroups {
    groups: Vec<Vec<HostIx>>,
    group_of: Vec<u32>,
    in_order: Vec<HostIx>,
    begins: Vec<u32>,
}

impl HostGroups {
    /// By rack; a host without one is a separate rack.
    pub(crate) fn racks(topology: &Topology) -> HostGroups {
        HostGroups::by(topology, |host| topology.node(topology.host(host)).rack, true)
    }

    /// By pod; hosts without one are in a pod together.
    pub(crate) fn pods(topology: &Topology) -> HostGroups {
        HostGroups::by(topology, |host| topology.node(topology.host(host)).pod, false)
    }

    fn by(topology: &Topology, number: impl Fn(HostIx) -> Option<u32>, alone_if_none: bool) -> HostGroups {
        let hosts = (0..topology.hosts().len() as u32).map(HostIx);
        let mut groups: BTreeMap<(Option<u32>, u32), Vec<HostIx>> = BTreeMap::new();
        for host in hosts {
            let number = number(host);
            let apart = if number.is_none() && alone_if_none { host.0 } else { 0 };
            groups.entry((number, apart)).or_default().push(host);
        }
        let groups: Vec<Vec<HostIx>> = groups.into_values().collect();
        let mut group_of = vec![0; topology.hosts().len()];
        let mut begins = Vec::with_capacity(groups.len());
        let mut in_order = Vec::with_capacity(group_of.len());
        for (ix, group) in groups.iter().enumerate() {
            begins.push(in_order.len() as u32);
            in_order.extend(group);
            for host in group {
                group_of[host.ix()] = ix as u32;
            }
        }
        HostGroups { groups, group_of, in_order, begins }
    }

    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn group(&self, ix: usize) -> &[HostIx] {
        &self.groups[ix % self.groups.len()]
    }

    pub(crate) fn members(&self, host: HostIx) -> &[HostIx] {
        &self.groups[self.group_of[host.ix()] as usize]
    }

    pub(crate) fn other_inside(&self, host: HostIx, stream: &mut RandomStream) -> Option<HostIx> {
        let group = self.members(host);
        if group.len() < 2 {
            return None;
        }
        let drawn = group[stream.next_below(group.len() as u64 - 1) as usize];
        // The last member replaces the host itself, which is never drawn.
        Some(if drawn == host { group[group.len() - 1] } else { drawn })
    }

    pub(crate) fn outside(&self, host: HostIx, stream: &mut RandomStream) -> Option<HostIx> {
        let group = self.group_of[host.ix()] as usize;
        let (begin, size) = (self.begins[group] as usize, self.groups[group].len());
        let outside_count = self.in_order.len() - size;
        if outside_count == 0 {
            return None;
        }
        let drawn = stream.next_below(outside_count as u64) as usize;
        Some(self.in_order[if drawn < begin { drawn } else { drawn + size }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pods;

    #[test]
    fn draws_inside_and_outside_are_uniform() {
        let racks = HostGroups::racks(&pods(1, 3, 3));
        let mut stream = RandomStream::new(1, "groups");
        let (mut inside, mut outside) = ([0u32; 9], [0u32; 9]);
        for _ in 0..60_000 {
            inside[racks.other_inside(HostIx(4), &mut stream).unwrap().ix()] += 1;
            outside[racks.outside(HostIx(4), &mut stream).unwrap().ix()] += 1;
        }
        assert_eq!(inside[..3], [0; 3]);
        assert_eq!((inside[4], inside[6..].iter().sum::<u32>()), (0, 0));
        assert!(inside[3].abs_diff(30_000) < 600 && inside[5].abs_diff(30_000) < 600);
        assert_eq!(outside[3..6], [0; 3]);
        assert!(outside[..3].iter().chain(&outside[6..]).all(|count| count.abs_diff(10_000) < 500));
    }

    #[test]
    fn pods_hold_their_racks() {
        let topology = pods(2, 2, 3);
        assert_eq!(HostGroups::racks(&topology).group_count(), 4);
        let pods = HostGroups::pods(&topology);
        assert_eq!(pods.group_count(), 2);
        assert_eq!(pods.members(HostIx(7)).len(), 6);
        assert_eq!(pods.group(3), pods.group(1));
    }
}
