//! ECMP hashing: how a select group is realised on a switch, so that flows are distributed over its
//! next hops.
//!
//! OpenFlow 1.3 leaves the hash of select groups to the switch. If all switches use the same hash,
//! a switch that receives the flows selected by that hash forwards all of them to the same next
//! hop, and half of the updater stays idle ("polarisation"). Remedies:
//! - **bundles**: Open vSwitch's own action with a basis per switch ([`openflow::Bundle`]), in the
//!   rule itself. It hashes the ports of UDP too, which Open vSwitch's groups do not;
//! - **shuffled groups**: every bucket several times, in an order that differs per switch. Two
//!   switches with the same hash map it to next hops independently. Any OpenFlow 1.3 switch
//!   supports them.
//!
//! Groups that do more than output to ports (labels of paths) are used at the edge only, where no
//! ECMP decision precedes them. Bundles cannot write labels, so these are shuffled groups
//! everywhere.

use std::sync::Arc;

use net::RandomStream;
use openflow::{Action, Bucket, Bundle, DatapathId, GroupId};

use crate::EcmpHashing;

/// Minimum and maximum number of buckets of a shuffled group.
const SHUFFLED: std::ops::RangeInclusive<usize> = 16..=64;
pub(crate) const OPEN_VSWITCH: &str = "Nicira, Inc.";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum HashingMethod {
    /// Plain groups with the switch's hash.
    #[default]
    Group,
    /// Bundles with this basis if possible, otherwise shuffled groups.
    Bundle(DatapathId),
    Shuffled(DatapathId),
    /// One next hop for each destination, because the switch has no groups.
    Single(DatapathId),
}

pub(crate) enum GroupForm {
    Group(Arc<[Bucket]>),
    /// Actions that take the place of the group.
    Actions(Vec<Action>),
}

impl HashingMethod {
    pub(crate) fn of(spread: EcmpHashing, datapath: DatapathId, manufacturer: Option<&str>) -> HashingMethod {
        match spread {
            EcmpHashing::Native => HashingMethod::Group,
            EcmpHashing::Auto if manufacturer == Some(OPEN_VSWITCH) => HashingMethod::Bundle(datapath),
            EcmpHashing::Auto | EcmpHashing::Shuffled => HashingMethod::Shuffled(datapath),
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            HashingMethod::Group => "native",
            HashingMethod::Bundle(_) => "bundle",
            HashingMethod::Shuffled(_) => "shuffled",
            HashingMethod::Single(_) => "single",
        }
    }

    /// Returns what takes the place of weighted buckets. `destination` spreads destinations over
    /// next hops where a rule can have only one.
    pub(crate) fn realise(self, buckets: &Arc<[Bucket]>, destination: u32) -> GroupForm {
        match self {
            HashingMethod::Group => GroupForm::Group(buckets.clone()),
            HashingMethod::Shuffled(datapath) => GroupForm::Group(shuffled(datapath, buckets)),
            HashingMethod::Bundle(datapath) => match bundle(datapath, buckets) {
                Some(bundle) => GroupForm::Actions(vec![Action::Bundle(bundle)]),
                None => GroupForm::Group(shuffled(datapath, buckets)),
            },
            HashingMethod::Single(datapath) => GroupForm::Actions(single(datapath, buckets, destination)),
        }
    }
}

fn shares(buckets: &[Bucket]) -> Vec<usize> {
    let common = buckets.iter().fold(0, |common, bucket| gcd(common, bucket.weight)).max(1);
    buckets.iter().map(|bucket| usize::from(bucket.weight / common)).collect()
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns a bundle, if every bucket only outputs to the port it watches.
fn bundle(datapath: DatapathId, buckets: &[Bucket]) -> Option<Bundle> {
    let mut ports = Vec::new();
    for (bucket, share) in buckets.iter().zip(shares(buckets)) {
        let [Action::Output { port, .. }] = bucket.actions[..] else { return None };
        if port != bucket.watch_port || bucket.watch_group != GroupId::ANY {
            return None;
        }
        ports.extend(std::iter::repeat_n(port, share));
    }
    if let [port] = ports[..] {
        // Open vSwitch does not hash for a bundle with one member, and then its flows do not match the
        // ports of a connection (`Installer::stay_divided`).
        ports.push(port);
    }
    // Neighbouring datapath ids give different bases, and hashes of different bases are
    // independent.
    let basis = (0..4).fold(0, |basis, part| basis ^ (datapath.0 >> (16 * part)) as u16);
    Bundle::new(basis, ports)
}

/// Returns the actions of one bucket, drawn by weight from switch and destination.
pub(super) fn single(datapath: DatapathId, buckets: &[Bucket], destination: u32) -> Vec<Action> {
    let total: u64 = buckets.iter().map(|bucket| u64::from(bucket.weight.max(1))).sum();
    if total == 0 {
        return Vec::new();
    }
    let seed = datapath.0 ^ u64::from(destination).rotate_left(32);
    let mut drawn = RandomStream::new(seed, "single next hop").next_below(total);
    let is_drawn = |bucket: &&Bucket| {
        let weight = u64::from(bucket.weight.max(1));
        let is_here = drawn < weight;
        drawn = drawn.saturating_sub(weight);
        is_here
    };
    buckets.iter().find(is_drawn).map_or_else(Vec::new, |bucket| bucket.actions.clone())
}

/// Returns the same weights as more buckets, in an order that differs per switch. Very uneven
/// weights stay as they are.
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
    RandomStream::new(datapath.0, "shuffled groups").shuffle(&mut all);
    all.into()
}

#[cfg(test)]
mod tests {
    use openflow::{PortNo, SetField};

    use super::*;

    fn buckets(weights: &[u16]) -> Arc<[Bucket]> {
        (1..).map(PortNo).zip(weights).map(|(port, weight)| Bucket::watching(port, *weight)).collect()
    }
    fn groups_of(means: HashingMethod, wanted: &Arc<[Bucket]>) -> Vec<Bucket> {
        match means.realise(wanted, 0) {
            GroupForm::Group(buckets) => buckets.to_vec(),
            GroupForm::Actions(actions) => panic!("{actions:?}"),
        }
    }

    #[test]
    fn bundles_on_open_vswitch_and_shuffled_groups_elsewhere() {
        let of = |spread, maker| HashingMethod::of(spread, DatapathId(3), maker);
        assert_eq!(of(EcmpHashing::Auto, Some("Nicira, Inc.")), HashingMethod::Bundle(DatapathId(3)));
        assert_eq!(of(EcmpHashing::Auto, Some("Another")), HashingMethod::Shuffled(DatapathId(3)));
        assert_eq!(of(EcmpHashing::Auto, None), HashingMethod::Shuffled(DatapathId(3)));
        assert_eq!(of(EcmpHashing::Shuffled, Some("Nicira, Inc.")), HashingMethod::Shuffled(DatapathId(3)));
        assert_eq!(of(EcmpHashing::Native, Some("Nicira, Inc.")), HashingMethod::Group);
    }

    #[test]
    fn bundle_has_lowest_weights_and_basis_per_switch() {
        let division = |datapath, weights: &[u16]| match HashingMethod::Bundle(DatapathId(datapath))
            .realise(&buckets(weights), 0)
        {
            GroupForm::Actions(actions) => match &actions[..] {
                [Action::Bundle(bundle)] => Some((bundle.basis, bundle.ports().map(|p| p.0).collect())),
                _ => None,
            },
            GroupForm::Group(_) => None,
        };
        assert_eq!(division(0x0001_0000_0000_0005, &[10, 20]), Some((4, vec![1u32, 2, 2])));
        assert_eq!(division(5, &[1; 16]).map(|(_, ports): (_, Vec<u32>)| ports.len()), Some(16));
        assert_eq!(division(5, &[1; 17]), None, "too many for a bundle");
    }

    #[test]
    fn labels_need_groups() {
        let label = Bucket {
            actions: vec![Action::SetField(SetField::VlanVid(5)), Action::output(PortNo(1))],
            ..Bucket::watching(PortNo(1), 1)
        };
        let wanted: Arc<[Bucket]> = [label.clone(), Bucket::watching(PortNo(2), 1)].into();
        let all = groups_of(HashingMethod::Bundle(DatapathId(5)), &wanted);
        assert_eq!((all.len(), all.iter().filter(|bucket| **bucket == label).count()), (16, 8));
    }

    /// Polarisation: the second switch receives only what the first one's hash sent there.
    #[test]
    fn shuffled_groups_of_two_switches_are_independent() {
        let wanted = buckets(&[1, 1]);
        let mut even = 0;
        for datapath in 1..=200 {
            let [near, far] = [datapath, datapath + 1000]
                .map(|number| groups_of(HashingMethod::Shuffled(DatapathId(number)), &wanted));
            assert_eq!(near.iter().filter(|bucket| bucket.watch_port == PortNo(1)).count(), 8, "shares stay");
            let through_first = near.iter().zip(&far).filter(|(near, _)| near.watch_port == PortNo(1));
            let again_first = through_first.filter(|(_, far)| far.watch_port == PortNo(1)).count();
            even += usize::from((2..=6).contains(&again_first));
        }
        assert!(even >= 190, "{even} of 200 pairs divide the flows of the second switch at least 2 to 6");
        assert_eq!(
            groups_of(HashingMethod::Shuffled(DatapathId(1)), &buckets(&[65, 1])),
            buckets(&[65, 1]).to_vec(),
            "shares too uneven"
        );
    }

    #[test]
    fn single_next_hops_spread_destinations_by_weight() {
        let wanted = buckets(&[1, 3]);
        let method = HashingMethod::Single(DatapathId(7));
        let mut first = 0;
        for destination in 0..400 {
            let GroupForm::Actions(actions) = method.realise(&wanted, destination) else { panic!("no group") };
            assert_eq!(actions.len(), 1);
            first += usize::from(actions == wanted[0].actions);
        }
        assert!((60..140).contains(&first), "{first} of 400, expected about 100");
    }
}
