//! Consistent hashing of hosts to switches: the one-hop directory of SEATTLE (mechanisms.md A02, S06;
//! Karger et al., STOC 1997).

use balance::hash;
use openflow::{DatapathId, MacAddr};

/// Points of each switch on the ring. The largest share is then about 1.3 times the mean one.
const POINTS: u64 = 100;

/// Switches on a ring; a host belongs to the first one at or after its hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct HashRing {
    points: Vec<(u64, DatapathId)>,
}

impl HashRing {
    pub(crate) fn new(switches: impl Iterator<Item = DatapathId>) -> HashRing {
        let place = |switch: DatapathId, point| hash::combine(hash::combine(hash::mix(5), switch.0), point);
        let mut points: Vec<(u64, DatapathId)> =
            switches.flat_map(|switch| (0..POINTS).map(move |point| (place(switch, point), switch))).collect();
        points.sort_unstable();
        HashRing { points }
    }

    /// Returns the switch that knows the location of a host; `None` without switches.
    pub(crate) fn resolver_of(&self, host: MacAddr) -> Option<DatapathId> {
        let [a, b, c, d, e, f] = host.0;
        let key = hash::mix(u64::from_be_bytes([0, 0, a, b, c, d, e, f]).wrapping_add(0x9e37_79b9_7f4a_7c15));
        let first = self.points.partition_point(|(place, _)| *place < key);
        self.points.get(first).or_else(|| self.points.first()).map(|(_, switch)| *switch)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn hosts() -> impl Iterator<Item = MacAddr> {
        (0..20_000u32).map(|host| MacAddr(net::address::host_mac(net::HostIx(host))))
    }
    fn ring(switches: impl Iterator<Item = u64>) -> HashRing {
        HashRing::new(switches.map(DatapathId))
    }

    #[test]
    fn joining_switch_takes_its_share_and_moves_no_other_host() {
        for count in [5u64, 20, 80] {
            let (before, after) = (ring(1..=count), ring(1..=count + 1));
            let moved: Vec<_> = hosts().filter(|host| before.resolver_of(*host) != after.resolver_of(*host)).collect();
            assert!(moved.iter().all(|host| after.resolver_of(*host) == Some(DatapathId(count + 1))));
            let expected = 20_000.0 / (count + 1) as f64;
            let share = moved.len() as f64 / expected;
            // With 100 points the share of a switch has a standard deviation of a tenth.
            assert!((0.6..1.4).contains(&share), "{count}: {} of {expected:.0}", moved.len());
        }
    }

    #[test]
    fn leaving_switch_moves_its_hosts_only() {
        let (before, after) = (ring(1..=20), ring((1..=20).filter(|switch| *switch != 7)));
        for host in hosts() {
            let resolver = before.resolver_of(host);
            assert!(resolver == Some(DatapathId(7)) || after.resolver_of(host) == resolver);
        }
        assert_eq!(ring(1..1).resolver_of(MacAddr::default()), None);
    }

    #[test]
    fn shares_are_near_the_mean() {
        let ring = ring(1..=20);
        let mut counts: BTreeMap<DatapathId, u32> = BTreeMap::new();
        hosts().for_each(|host| *counts.entry(ring.resolver_of(host).expect("a switch")).or_default() += 1);
        assert_eq!(counts.len(), 20);
        assert!(counts.values().all(|count| (600..1_400).contains(count)), "{counts:?}");
    }
}
