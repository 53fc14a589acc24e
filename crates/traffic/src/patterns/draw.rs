//! Pairs one arrival at a time, for every kind of pattern.

use net::random::RandomStream;
use net::{HostIx, Topology};

use super::{IncastTarget, Pattern, PatternError};
use crate::groups::HostGroups;

pub(crate) struct PairSource {
    rule: Rule,
    host_count: u32,
    arrivals_so_far: u64,
}

enum Rule {
    FromList(Vec<(HostIx, HostIx)>),
    Uniform,
    Staggered(Staggered),
    Incast { fan_in: u32, target: IncastTarget },
    InterRack(HostGroups),
}

struct Staggered {
    edge: f64,
    pod: f64,
    racks: HostGroups,
    pods: HostGroups,
}

impl PairSource {
    /// Checks that the pattern is possible. `stream` draws the list of a matrix pattern.
    pub(crate) fn new(
        pattern: &Pattern,
        topology: &Topology,
        stream: &mut RandomStream,
    ) -> Result<PairSource, PatternError> {
        let host_count = topology.hosts().len() as u32;
        if host_count < 2 {
            return Err(pattern.impossible(topology, "it has one host; a flow needs two"));
        }
        let rule = match *pattern {
            Pattern::RandomPairs => Rule::Uniform,
            Pattern::Staggered { edge, pod } => Rule::Staggered(Staggered::new(pattern, topology, edge, pod)?),
            Pattern::Incast { fan_in, target } => {
                check_incast(pattern, topology, fan_in, target)?;
                Rule::Incast { fan_in, target }
            }
            Pattern::InterRack => {
                let racks = HostGroups::racks(topology);
                if racks.group_count() < 2 {
                    return Err(pattern.impossible(topology, "all hosts are in one rack"));
                }
                Rule::InterRack(racks)
            }
            _ => Rule::FromList(pattern.pairs(topology, stream)?.unwrap_or_default()),
        };
        Ok(PairSource { rule, host_count, arrivals_so_far: 0 })
    }

    pub(crate) fn list(&self) -> Option<&[(HostIx, HostIx)]> {
        match &self.rule {
            Rule::FromList(pairs) => Some(pairs),
            _ => None,
        }
    }

    pub(crate) fn flows_per_arrival(&self) -> u32 {
        match self.rule {
            Rule::Incast { fan_in, .. } => fan_in,
            _ => 1,
        }
    }

    pub(crate) fn next(&mut self, stream: &mut RandomStream, pairs: &mut Vec<(HostIx, HostIx)>) {
        let arrival = self.arrivals_so_far;
        self.arrivals_so_far += 1;
        if let Rule::Incast { fan_in, target } = self.rule {
            let to = match target {
                IncastTarget::Rotating => HostIx((arrival % u64::from(self.host_count)) as u32),
                IncastTarget::Fixed(host) => host,
            };
            let senders = distinct_others(self.host_count, to, fan_in, stream);
            return pairs.extend(senders.into_iter().map(|from| (from, to)));
        }
        if let Rule::FromList(list) = &self.rule {
            return pairs.push(list[stream.next_below(list.len() as u64) as usize]);
        }
        let from = HostIx(stream.next_below(u64::from(self.host_count)) as u32);
        let to = self.receiver(from, stream);
        pairs.push((from, to));
    }

    pub(crate) fn receiver(&self, from: HostIx, stream: &mut RandomStream) -> HostIx {
        match &self.rule {
            Rule::Staggered(staggered) => staggered.receiver(from, self.host_count, stream),
            Rule::InterRack(racks) => racks
                .outside(from, stream)
                .expect("two racks were checked for, so every host has others outside its own"),
            _ => other_host(self.host_count, from, stream),
        }
    }
}

impl Staggered {
    fn new(pattern: &Pattern, topology: &Topology, edge: f64, pod: f64) -> Result<Staggered, PatternError> {
        let racks = HostGroups::racks(topology);
        let pods = HostGroups::pods(topology);
        let hosts = || (0..topology.hosts().len() as u32).map(HostIx);
        let rest = 1.0 - edge - pod;
        let lonely = |has: &dyn Fn(HostIx) -> bool| hosts().any(|host| !has(host));
        // Each share must be possible for every sender, or the shares would silently change.
        if edge > 0.0 && lonely(&|host| racks.members(host).len() > 1) {
            let reason = "edge is above 0 but some host is alone in its rack; set edge=0";
            return Err(pattern.impossible(topology, reason));
        }
        if pod > 0.0 && lonely(&|host| pods.members(host).len() > racks.members(host).len()) {
            let reason = "pod is above 0 but some pod has one rack only, or there are no pods; set pod=0";
            return Err(pattern.impossible(topology, reason));
        }
        if rest > 1e-9 && pods.group_count() < 2 {
            let reason = "edge + pod is below 1 but all hosts are in one pod; raise them to a sum of 1";
            return Err(pattern.impossible(topology, reason));
        }
        Ok(Staggered { edge, pod, racks, pods })
    }

    fn receiver(&self, from: HostIx, host_count: u32, stream: &mut RandomStream) -> HostIx {
        let u = stream.next_f64();
        let drawn = if u < self.edge {
            self.racks.other_inside(from, stream)
        } else if u < self.edge + self.pod {
            let rack = self.racks.members(from);
            let pod = self.pods.members(from);
            pick_if(pod, |host| !rack.contains(&host), stream)
        } else {
            self.pods.outside(from, stream)
        };
        // Only rounding of edge + pod = 1 can request a receiver outside that does not exist.
        drawn.unwrap_or_else(|| other_host(host_count, from, stream))
    }
}

fn check_incast(pattern: &Pattern, topology: &Topology, fan_in: u32, target: IncastTarget) -> Result<(), PatternError> {
    let host_count = topology.hosts().len() as u32;
    if fan_in >= host_count {
        let reason = format!("a target has only {} other hosts; lower fan_in to that", host_count - 1);
        return Err(pattern.impossible(topology, reason));
    }
    match target {
        IncastTarget::Fixed(host) if host.0 >= host_count => {
            let reason = format!("unknown host {}; hosts are 0 to {}", host.0, host_count - 1);
            Err(pattern.impossible(topology, reason))
        }
        _ => Ok(()),
    }
}

fn other_host(host_count: u32, host: HostIx, stream: &mut RandomStream) -> HostIx {
    let drawn = stream.next_below(u64::from(host_count) - 1) as u32;
    HostIx(if drawn >= host.0 { drawn + 1 } else { drawn })
}

fn pick_if(hosts: &[HostIx], fits: impl Fn(HostIx) -> bool, stream: &mut RandomStream) -> Option<HostIx> {
    let fitting: Vec<HostIx> = hosts.iter().copied().filter(|host| fits(*host)).collect();
    if fitting.is_empty() {
        return None;
    }
    Some(fitting[stream.next_below(fitting.len() as u64) as usize])
}

/// `count` distinct hosts other than `host`, in random order.
fn distinct_others(host_count: u32, host: HostIx, count: u32, stream: &mut RandomStream) -> Vec<HostIx> {
    let mut others: Vec<HostIx> = (0..host_count).map(HostIx).filter(|other| *other != host).collect();
    for place in 0..count as usize {
        let other = place + stream.next_below((others.len() - place) as u64) as usize;
        others.swap(place, other);
    }
    others.truncate(count as usize);
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pods, single_rack};

    fn draw(text: &str, topology: &Topology, count: usize) -> Vec<(u32, u32)> {
        let mut stream = RandomStream::new(1, "pairs");
        let pattern = Pattern::parse(text).unwrap();
        let mut source = PairSource::new(&pattern, topology, &mut stream).unwrap();
        let mut pairs = Vec::new();
        for _ in 0..count {
            source.next(&mut stream, &mut pairs);
        }
        pairs.into_iter().map(|(from, to)| (from.0, to.0)).collect()
    }

    fn reason(text: &str, topology: &Topology) -> String {
        let pattern = Pattern::parse(text).unwrap();
        match PairSource::new(&pattern, topology, &mut RandomStream::new(1, "pairs")) {
            Ok(_) => "none".to_owned(),
            Err(error) => error.reason,
        }
    }

    #[test]
    fn random_pairs_are_uniform_and_never_to_oneself() {
        let mut counts = [[0u32; 4]; 4];
        for (from, to) in draw("random-pairs", &single_rack(4), 120_000) {
            counts[from as usize][to as usize] += 1;
        }
        for (from, row) in counts.iter().enumerate() {
            for (to, count) in row.iter().enumerate() {
                let expected = if from == to { 0 } else { 10_000 };
                assert!(count.abs_diff(expected) < 450, "{from} {to} {count}");
            }
        }
    }

    #[test]
    fn staggered_shares_come_out() {
        // Two pods of two racks of three hosts.
        let pairs = draw("staggered:edge=0.5,pod=0.3", &pods(2, 2, 3), 100_000);
        let share =
            |fits: &dyn Fn(u32, u32) -> bool| pairs.iter().filter(|(from, to)| fits(*from, *to)).count() as f64 / 1e5;
        assert!((share(&|a, b| a / 3 == b / 3) - 0.5).abs() < 0.01);
        assert!((share(&|a, b| a / 3 != b / 3 && a / 6 == b / 6) - 0.3).abs() < 0.01);
        assert!((share(&|a, b| a / 6 != b / 6) - 0.2).abs() < 0.01);
        assert!(pairs.iter().all(|(from, to)| from != to));
    }

    #[test]
    fn inter_rack_leaves_the_rack() {
        let pairs = draw("inter-rack", &pods(2, 2, 3), 10_000);
        assert!(pairs.iter().all(|(from, to)| from / 3 != to / 3));
    }

    #[test]
    fn incast_brings_distinct_senders_to_rotating_targets() {
        let pairs = draw("incast:fan_in=3", &single_rack(5), 10);
        for (ix, senders) in pairs.chunks(3).enumerate() {
            let target = ix as u32 % 5;
            assert!(senders.iter().all(|(from, to)| *to == target && *from != target));
            let mut from: Vec<u32> = senders.iter().map(|pair| pair.0).collect();
            from.sort_unstable();
            from.dedup();
            assert_eq!(from.len(), 3);
        }
        assert!(draw("incast:fan_in=2,target=4", &single_rack(5), 5).iter().all(|pair| pair.1 == 4));
    }

    #[test]
    fn matrix_patterns_draw_from_their_list() {
        let topology = single_rack(6);
        let pairs = draw("stride:step=2", &topology, 600);
        assert!(pairs.iter().all(|(from, to)| (from + 2) % 6 == *to));
    }

    #[test]
    fn impossible_patterns_say_why() {
        let rack = single_rack(4);
        for (text, expected) in [
            ("inter-rack", "all hosts are in one rack"),
            ("incast:fan_in=4", "a target has only 3 other hosts; lower fan_in to that"),
            ("incast:fan_in=2,target=9", "unknown host 9; hosts are 0 to 3"),
            ("staggered", "pod is above 0 but some pod has one rack only, or there are no pods; set pod=0"),
            (
                "staggered:edge=0.5,pod=0",
                "edge + pod is below 1 but all hosts are in one pod; raise them to a sum of 1",
            ),
            ("staggered:edge=1,pod=0", "none"),
        ] {
            assert_eq!(reason(text, &rack), expected, "{text}");
        }
        assert_eq!(
            reason("staggered", &pods(2, 2, 1)),
            "edge is above 0 but some host is alone in its rack; set edge=0"
        );
        assert_eq!(reason("random-pairs", &single_rack(1)), "it has one host; a flow needs two");
    }
}
