//! Stragglers: ranks that begin each of their transfers late.

use net::random::RandomStream;
use net::{HostIx, Time, Topology};

use super::{CollectiveError, RankOptions};
use crate::flow::FlowList;

/// The late ranks of collectives, and their delay.
#[derive(Clone, PartialEq, Debug)]
pub struct Stragglers {
    /// Ranks that are late in every transfer of the run.
    pub ranks: StragglerChoice,
    /// Time that a late rank waits before each transfer, in addition to the wait for its data.
    pub delay: Time,
}

/// The selection of late ranks.
#[derive(Clone, PartialEq, Debug)]
pub enum StragglerChoice {
    /// The ranks with these numbers, counted from 0.
    Ranks(Vec<u32>),
    /// This share of all ranks, at least one, drawn with the seed of the run.
    Share(f64),
}

impl Stragglers {
    /// Delays the transfers that late ranks send.
    ///
    /// # Errors
    /// [`CollectiveError::Straggler`] for a rank that does not exist.
    pub fn delay_flows(
        &self,
        list: FlowList,
        topology: &Topology,
        ranks: &RankOptions,
        seed: u64,
    ) -> Result<FlowList, CollectiveError> {
        let hosts = ranks.hosts(topology, seed)?;
        let mut is_late = vec![false; topology.hosts().len()];
        for host in self.hosts(&hosts, seed)? {
            is_late[host.ix()] = true;
        }
        let FlowList { mut flows, description, sampled, bus_bytes, .. } = list;
        for flow in flows.iter_mut().filter(|flow| is_late[flow.src.ix()]) {
            flow.start = flow.start.later(self.delay);
        }
        let sorted = FlowList::sorted(flows, description);
        let sorted = sorted.expect("a delay does not change which flows wait for which");
        Ok(FlowList { sampled, bus_bytes, ..sorted })
    }

    fn hosts(&self, hosts: &[HostIx], seed: u64) -> Result<Vec<HostIx>, CollectiveError> {
        match &self.ranks {
            StragglerChoice::Ranks(ranks) => {
                let host = |rank: &u32| {
                    let missing = CollectiveError::Straggler { rank: *rank, ranks: hosts.len() as u32 };
                    hosts.get(*rank as usize).copied().ok_or(missing)
                };
                ranks.iter().map(host).collect()
            }
            StragglerChoice::Share(share) => {
                let count = ((hosts.len() as f64 * share).round() as usize).clamp(1, hosts.len());
                let mut drawn = hosts.to_vec();
                RandomStream::new(seed, "traffic/stragglers").shuffle(&mut drawn);
                drawn.truncate(count);
                Ok(drawn)
            }
        }
    }
}

impl std::fmt::Display for Stragglers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.ranks {
            StragglerChoice::Ranks(ranks) => {
                let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
                write!(f, "stragglers {} late by {}", ranks.join(" "), self.delay)
            }
            StragglerChoice::Share(share) => write!(f, "{}% of ranks late by {}", share * 100.0, self.delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::{CollectiveSpec, collectives};
    use crate::flow::Start;
    use crate::testing::pods;

    const DELAY: Time = Time::from_us(70);

    fn wait(start: Start) -> Time {
        match start {
            Start::At(wait) | Start::After { delay: wait, .. } | Start::AfterGroups { delay: wait, .. } => wait,
            Start::AfterTasks => panic!("a collective has no tasks"),
        }
    }

    #[test]
    fn transfers_of_late_ranks_wait_and_all_others_stay() {
        let topology = pods(2, 2, 3);
        let options = RankOptions::default();
        let spec = CollectiveSpec::parse("ring-all-reduce:size=12KB").unwrap();
        let list = collectives(&topology, &[spec], &options, 1).unwrap();
        let late = |ranks: StragglerChoice, seed| {
            Stragglers { ranks, delay: DELAY }.delay_flows(list.clone(), &topology, &options, seed)
        };
        let delayed = late(StragglerChoice::Ranks(vec![2, 5]), 1).unwrap();
        let sum = |list: &FlowList, is_meant: &dyn Fn(u32) -> bool| -> (u64, u64) {
            let meant = list.flows.iter().filter(|flow| is_meant(flow.src.0));
            meant.fold((0, 0), |(count, sum), flow| (count + 1, sum + wait(flow.start).as_ps()))
        };
        let (count, before) = sum(&list, &|host| host == 2 || host == 5);
        assert_eq!(sum(&delayed, &|host| host == 2 || host == 5), (count, before + count * DELAY.as_ps()));
        let others = |host| host != 2 && host != 5;
        assert_eq!(sum(&delayed, &others), sum(&list, &others));
        let missing = late(StragglerChoice::Ranks(vec![12]), 1).unwrap_err();
        assert_eq!(missing.to_string(), "there is no rank 12: the ranks are 0 to 11");
        // A quarter of twelve ranks, others with another seed.
        let drawn = |seed| {
            let delayed = late(StragglerChoice::Share(0.25), seed).unwrap();
            (0..12).filter(|rank| sum(&delayed, &|host| host == *rank) != sum(&list, &|host| host == *rank)).collect()
        };
        let draws: Vec<Vec<u32>> = (1..5).map(drawn).collect();
        assert!(draws.iter().all(|ranks| ranks.len() == 3), "{draws:?}");
        assert!(draws.windows(2).any(|two| two[0] != two[1]) && drawn(1) == draws[0]);
    }
}
