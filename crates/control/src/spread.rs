//! How a switch divides flows among next hops: what a select group means, in terms of what the switch can do.
//!
//! OpenFlow 1.3 leaves the hash of select groups to the switch. Where every switch hashes alike, a switch that gets the
//! flows whose hash chose it sends them all one way again, and half of the fabric stays idle ("polarisation"). Remedies:
//! - **bundles**: Open vSwitch's own action with a basis per switch ([`openflow::Bundle`]), in the rule itself. It hashes
//!   the ports of UDP too, which Open vSwitch's groups do not;
//! - **shuffled groups**: every bucket several times, in an order of the switch's own. Two switches with the same hash map
//!   it to next hops in ways that have nothing to do with each other. Any switch of OpenFlow 1.3 takes them.
//!
//! Divisions that do more than to send out of ports (labels of paths) are made at the edge only, where nothing has been
//! divided before: as bundles cannot do it, they are shuffled groups everywhere.

use std::sync::Arc;

use net::Stream;
use openflow::{Action, Bucket, Bundle, DatapathId, GroupId};

use crate::Spread;

/// Buckets of a shuffled group, at least and at most.
const SHUFFLED: std::ops::RangeInclusive<usize> = 16..=64;
/// How Open vSwitch calls its maker.
pub(crate) const OPEN_VSWITCH: &str = "Nicira, Inc.";

/// How one switch does it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Means {
    /// As groups say, by the switch's hash.
    #[default]
    Group,
    /// Bundles where they can, with this basis, and else shuffled groups.
    Bundle(DatapathId),
    /// Shuffled groups.
    Shuffled(DatapathId),
}

/// What stands for a group in a rule.
pub(crate) enum Division {
    Group(Arc<[Bucket]>),
    Action(Action),
}

impl Means {
    /// Of a switch, as its maker is called, if it said so.
    pub(crate) fn of(spread: Spread, datapath: DatapathId, manufacturer: Option<&str>) -> Means {
        match spread {
            Spread::Switch => Means::Group,
            Spread::Auto if manufacturer == Some(OPEN_VSWITCH) => Means::Bundle(datapath),
            Spread::Auto | Spread::Shuffled => Means::Shuffled(datapath),
        }
    }

    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Means::Group => "groups",
            Means::Bundle(_) => "bundles",
            Means::Shuffled(_) => "shuffled-groups",
        }
    }

    /// What these buckets of a select group become.
    pub(crate) fn divide(self, buckets: &Arc<[Bucket]>) -> Division {
        match self {
            Means::Group => Division::Group(buckets.clone()),
            Means::Shuffled(datapath) => Division::Group(shuffled(datapath, buckets)),
            Means::Bundle(datapath) => match bundle(datapath, buckets) {
                Some(bundle) => Division::Action(Action::Bundle(bundle)),
                None => Division::Group(shuffled(datapath, buckets)),
            },
        }
    }
}

/// Shares in lowest terms.
fn shares(buckets: &[Bucket]) -> Vec<usize> {
    let common = buckets.iter().fold(0, |common, bucket| gcd(common, bucket.weight)).max(1);
    buckets.iter().map(|bucket| usize::from(bucket.weight / common)).collect()
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A bundle, if every bucket only sends out of the port it watches.
fn bundle(datapath: DatapathId, buckets: &[Bucket]) -> Option<Bundle> {
    let mut ports = Vec::new();
    for (bucket, share) in buckets.iter().zip(shares(buckets)) {
        let [Action::Output { port, .. }] = bucket.actions[..] else { return None };
        if port != bucket.watch_port || bucket.watch_group != GroupId::ANY {
            return None;
        }
        ports.extend(std::iter::repeat_n(port, share));
    }
    // Neighbouring numbers of switches give other bases, and hashes of different bases are independent.
    let basis = (0..4).fold(0, |basis, part| basis ^ (datapath.0 >> (16 * part)) as u16);
    Bundle::new(basis, ports)
}

/// The same shares, of more buckets in an order of the switch's own. Very uneven shares stay as they are.
fn shuffled(datapath: DatapathId, buckets: &Arc<[Bucket]>) -> Arc<[Bucket]> {
    let shares = shares(buckets);
    let total: usize = shares.iter().sum();
    if total == 0 || total > *SHUFFLED.end() {
        return buckets.clone();
    }
    let times = SHUFFLED.start().div_ceil(total);
    let copies =
        |(bucket, share): (&Bucket, usize)| std::iter::repeat_n(Bucket { weight: 1, ..bucket.clone() }, share * times);
    let mut all: Vec<Bucket> = buckets.iter().zip(shares).flat_map(copies).collect();
    Stream::new(datapath.0, "shuffled groups").shuffle(&mut all);
    all.into()
}

#[cfg(test)]
mod tests {
    use openflow::{PortNo, SetField};

    use super::*;

    fn buckets(weights: &[u16]) -> Arc<[Bucket]> {
        (1..).map(PortNo).zip(weights).map(|(port, weight)| Bucket::watching(port, *weight)).collect()
    }
    fn groups_of(means: Means, wanted: &Arc<[Bucket]>) -> Vec<Bucket> {
        match means.divide(wanted) {
            Division::Group(buckets) => buckets.to_vec(),
            Division::Action(action) => panic!("{action:?}"),
        }
    }

    #[test]
    fn open_vswitch_gets_bundles_and_others_shuffled_groups() {
        let of = |spread, maker| Means::of(spread, DatapathId(3), maker);
        assert_eq!(of(Spread::Auto, Some("Nicira, Inc.")), Means::Bundle(DatapathId(3)));
        assert_eq!(of(Spread::Auto, Some("Another")), Means::Shuffled(DatapathId(3)));
        assert_eq!(of(Spread::Auto, None), Means::Shuffled(DatapathId(3)));
        assert_eq!(of(Spread::Shuffled, Some("Nicira, Inc.")), Means::Shuffled(DatapathId(3)));
        assert_eq!(of(Spread::Switch, Some("Nicira, Inc.")), Means::Group);
    }

    #[test]
    fn shares_of_a_bundle_are_in_lowest_terms_and_its_basis_is_the_switchs() {
        let division = |datapath, weights: &[u16]| match Means::Bundle(DatapathId(datapath)).divide(&buckets(weights)) {
            Division::Action(Action::Bundle(bundle)) => Some((bundle.basis, bundle.ports().map(|p| p.0).collect())),
            _ => None,
        };
        assert_eq!(division(0x0001_0000_0000_0005, &[10, 20]), Some((4, vec![1u32, 2, 2])));
        assert_eq!(division(5, &[1; 16]).map(|(_, ports): (_, Vec<u32>)| ports.len()), Some(16));
        assert_eq!(division(5, &[1; 17]), None, "too many for a bundle");
    }

    #[test]
    fn labels_are_for_groups() {
        let label = Bucket {
            actions: vec![Action::SetField(SetField::VlanVid(5)), Action::output(PortNo(1))],
            ..Bucket::watching(PortNo(1), 1)
        };
        let wanted: Arc<[Bucket]> = [label.clone(), Bucket::watching(PortNo(2), 1)].into();
        let all = groups_of(Means::Bundle(DatapathId(5)), &wanted);
        assert_eq!((all.len(), all.iter().filter(|bucket| **bucket == label).count()), (16, 8));
    }

    /// What makes polarisation: the second switch sees only what the first one's hash sent there.
    #[test]
    fn shuffled_groups_of_two_switches_have_nothing_to_do_with_each_other() {
        let wanted = buckets(&[1, 1]);
        let mut even = 0;
        for datapath in 1..=200 {
            let [near, far] =
                [datapath, datapath + 1000].map(|number| groups_of(Means::Shuffled(DatapathId(number)), &wanted));
            assert_eq!(near.iter().filter(|bucket| bucket.watch_port == PortNo(1)).count(), 8, "shares stay");
            let through_first = near.iter().zip(&far).filter(|(near, _)| near.watch_port == PortNo(1));
            let again_first = through_first.filter(|(_, far)| far.watch_port == PortNo(1)).count();
            even += usize::from((2..=6).contains(&again_first));
        }
        assert!(even >= 190, "{even} of 200 pairs divide what comes to the second switch at least 2 to 6");
        assert_eq!(
            groups_of(Means::Shuffled(DatapathId(1)), &buckets(&[65, 1])),
            buckets(&[65, 1]).to_vec(),
            "shares too uneven"
        );
    }
}
