//! The host of each rank, and the groups of ranks.

use net::random::RandomStream;
use net::{HostIx, Topology};

use super::CollectiveError;
use crate::groups::HostGroups;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Rank r on host r: neighbours share racks.
    #[default]
    Consecutive,
    /// Rack by rack in turn: neighbours are in different racks.
    Strided,
    /// On hosts drawn with the seed of the run.
    Shuffled,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RankOptions {
    /// Number of ranks; `None`: one per host, or those of a trace if there are as many hosts.
    pub count: Option<u32>,
    pub placement: Placement,
}

impl Placement {
    /// All, in the order of [`Placement::NAMES`].
    pub const ALL: [Placement; 3] = [Placement::Consecutive, Placement::Strided, Placement::Shuffled];
    pub const NAMES: [&str; 3] = ["consecutive", "strided", "shuffled"];
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Placement::Consecutive => "rank after rank on the hosts",
            Placement::Strided => "ranks on the racks in turn",
            Placement::Shuffled => "ranks on random hosts",
        })
    }
}

impl RankOptions {
    pub(crate) fn hosts(&self, topology: &Topology, seed: u64) -> Result<Vec<HostIx>, CollectiveError> {
        let host_count = topology.hosts().len() as u32;
        let ranks = self.count.unwrap_or(host_count);
        if ranks < 2 || ranks > host_count {
            return Err(CollectiveError::Ranks { ranks, hosts: host_count });
        }
        let mut hosts: Vec<HostIx> = match self.placement {
            Placement::Strided => in_turn(topology),
            _ => (0..host_count).map(HostIx).collect(),
        };
        if self.placement == Placement::Shuffled {
            RandomStream::new(seed, "traffic/ranks").shuffle(&mut hosts);
        }
        hosts.truncate(ranks as usize);
        Ok(hosts)
    }
}

/// The first host of every rack, then the second ones, and so on.
fn in_turn(topology: &Topology) -> Vec<HostIx> {
    let racks = HostGroups::racks(topology);
    let largest = (0..racks.group_count()).map(|rack| racks.group(rack).len()).max().unwrap_or(0);
    let nth = |place: usize| {
        (0..racks.group_count()).filter_map({
            let racks = &racks;
            move |rack| racks.group(rack).get(place).copied()
        })
    };
    (0..largest).flat_map(nth).collect()
}

/// Groups of `size` ranks whose neighbours are `stride` apart: `stride` 1 gives tensor-parallel
/// groups of consecutive ranks, and the number of those gives the data-parallel groups across them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLayout {
    pub size: u32,
    pub stride: u32,
}

impl GroupLayout {
    pub(crate) fn group_count(self, ranks: u32) -> Result<u32, CollectiveError> {
        let GroupLayout { size, stride } = self;
        let block = u64::from(size) * u64::from(stride);
        if block == 0 || !u64::from(ranks).is_multiple_of(block) {
            return Err(CollectiveError::Groups { ranks, size, stride });
        }
        Ok(ranks / size)
    }

    pub(crate) fn rank(self, group: u32, ix: u32) -> u32 {
        let (block, within) = (group / self.stride, group % self.stride);
        block * self.size * self.stride + within + ix * self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pods;

    #[test]
    fn every_rank_is_in_one_group_of_a_layout() {
        for (size, stride) in [(4, 1), (2, 4), (3, 2), (24, 1), (1, 1)] {
            let layout = GroupLayout { size, stride };
            let groups = layout.group_count(24).unwrap();
            let mut ranks: Vec<u32> =
                (0..groups).flat_map(|group| (0..size).map(move |ix| layout.rank(group, ix))).collect();
            ranks.sort_unstable();
            assert_eq!(ranks, (0..24).collect::<Vec<u32>>(), "{layout:?}");
        }
        assert_eq!(GroupLayout { size: 3, stride: 2 }.rank(3, 1), 9);
        let error = GroupLayout { size: 5, stride: 2 }.group_count(24).unwrap_err();
        assert_eq!(
            error.to_string(),
            "24 ranks cannot be divided into groups of 5 that are 2 apart; use a multiple of 10"
        );
        assert!(GroupLayout { size: 0, stride: 1 }.group_count(24).is_err());
        assert!(GroupLayout { size: u32::MAX, stride: u32::MAX }.group_count(24).is_err());
    }

    #[test]
    fn placements_use_every_host_once() {
        let topology = pods(2, 2, 3);
        let hosts = |placement, seed| {
            let hosts = RankOptions { count: None, placement }.hosts(&topology, seed).unwrap();
            hosts.into_iter().map(|host| host.0).collect::<Vec<u32>>()
        };
        assert_eq!(hosts(Placement::Consecutive, 1), (0..12).collect::<Vec<u32>>());
        assert_eq!(hosts(Placement::Strided, 1), [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
        let mut shuffled = hosts(Placement::Shuffled, 1);
        assert_ne!(shuffled, hosts(Placement::Shuffled, 2));
        assert_eq!(shuffled, hosts(Placement::Shuffled, 1));
        shuffled.sort_unstable();
        assert_eq!(shuffled, (0..12).collect::<Vec<u32>>());
        for count in [0, 1, 13] {
            let options = RankOptions { count: Some(count), placement: Placement::Strided };
            assert_eq!(options.hosts(&topology, 1), Err(CollectiveError::Ranks { ranks: count, hosts: 12 }));
        }
    }
}
