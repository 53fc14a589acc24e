use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::Route;
use crate::damping::Damping;

const ROUTER: RouterId = RouterId(Ipv4Addr::new(10, 0, 0, 9));
const S: fn(u64) -> Time = Time::from_s;

fn peer(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, number + 1)
}
fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}
fn small(number: u16) -> Prefix {
    let [high, low] = number.to_be_bytes();
    Prefix::around(Ipv4Addr::new(20, high, low, 0), 24)
}

struct Bench {
    egress: Egress,
    now: Time,
    /// Rules as a switch has them.
    rules: BTreeMap<Prefix, u8>,
}

impl Bench {
    fn new(rates_mbps: &[u64], rules_max: usize, hysteresis: f64) -> Bench {
        let damping = Damping { suppress: f64::INFINITY, ..Damping::default() };
        let peers = (0..rates_mbps.len() as u8).map(peer).collect();
        let rib = rib::Config { peers, shortest_only: false, routes_max: 100_000, stale_time: S(60), damping };
        let rates = rates_mbps.iter().map(|rate| Bandwidth::from_mbps(*rate)).collect();
        let mut bench = Bench {
            egress: Egress::new(Config { rates, rules_max, hysteresis, rib }),
            now: S(1),
            rules: BTreeMap::new(),
        };
        for number in 0..rates_mbps.len() as u8 {
            bench.egress.set_up(number, true);
            bench.event(RouteEvent::PeerUp(peer(number)));
        }
        bench
    }
    fn event(&mut self, event: RouteEvent) {
        self.egress.handle(self.now, ROUTER, &event);
    }
    fn announce(&mut self, number: u8, prefix: Prefix) {
        let route = Route { next_hop: peer(number), as_path_len: 1, local_pref: 100 };
        self.event(RouteEvent::Announce { peer: peer(number), prefix, route });
    }
    /// Applies changes. Returns the number of changed rules.
    fn apply(&mut self) -> usize {
        self.egress.update();
        let changes: Vec<(Prefix, Option<u8>)> = self.egress.take_changes().collect();
        for (prefix, uplink) in &changes {
            match uplink {
                Some(uplink) => drop(self.rules.insert(*prefix, *uplink)),
                None => drop(self.rules.remove(prefix)),
            }
        }
        changes.len()
    }
    /// Returns the uplink by which packets to an address leave: the longest rule.
    fn uplink_of(&self, address: Ipv4Addr) -> Option<u8> {
        Prefix::around(address, 32).covering().find_map(|prefix| self.rules.get(&prefix)).copied()
    }
    /// Returns the uplinks that may carry packets to an address: those of the longest route.
    fn allowed_to(&self, address: Ipv4Addr) -> Peers {
        let usable = |prefix| self.egress.usable(prefix);
        Prefix::around(address, 32).covering().map(usable).find(|peers| *peers != 0).unwrap_or(0)
    }
    fn set_rates(&mut self, rate: impl Fn(Prefix) -> f64) {
        let prefixes: Vec<Prefix> = self.egress.pieces().map(|(prefix, _)| prefix).collect();
        prefixes.into_iter().for_each(|prefix| self.egress.set_rate(prefix, rate(prefix)));
    }
    fn utilisations(&self) -> Vec<f64> {
        let uplinks = self.egress.uplinks();
        uplinks.iter().zip(&self.egress.config.rates).map(|(up, rate)| up.rate_bps / rate.as_bps_f64()).collect()
    }
}

#[test]
fn unmeasured_prefixes_are_divided_by_the_rates_of_the_uplinks() {
    let mut bench = Bench::new(&[100, 300], 1000, 0.05);
    (0..400).for_each(|number| (0..2).for_each(|peer| bench.announce(peer, small(number))));
    assert_eq!(bench.apply(), 400);
    let rules: Vec<usize> = bench.egress.uplinks().iter().map(|uplink| uplink.rules).collect();
    assert_eq!(rules, [100, 300]);
}

#[test]
fn failed_uplink_moves_its_prefixes_only_and_they_stay_afterwards() {
    let mut bench = Bench::new(&[100, 100, 100], 1000, 0.05);
    (0..300).for_each(|number| (0..3).for_each(|peer| bench.announce(peer, small(number))));
    bench.apply();
    bench.egress.set_up(1, false);
    assert_eq!((bench.apply(), bench.egress.moves.failed), (100, 100));
    let rules: Vec<usize> = bench.egress.uplinks().iter().map(|uplink| uplink.rules).collect();
    assert_eq!(rules, [150, 0, 150]);
    bench.egress.set_up(1, true);
    assert_eq!(bench.apply(), 0);
    bench.event(RouteEvent::PeerDown(peer(0)));
    assert_eq!(bench.apply(), 150);
    bench.event(RouteEvent::PeerDown(peer(1)));
    bench.event(RouteEvent::PeerDown(peer(2)));
    bench.apply();
    assert!(bench.rules.is_empty(), "no peer has a route");
}

#[test]
fn load_is_evened_out_with_few_moves_and_then_rests() {
    let mut bench = Bench::new(&[100, 100], 1000, 0.05);
    (0..100).for_each(|number| (0..2).for_each(|peer| bench.announce(peer, small(number))));
    bench.apply();
    // All traffic is on one of the uplinks: 50 prefixes of 1.6 Mbit/s.
    let hot: BTreeSet<Prefix> = bench.rules.iter().filter(|(_, up)| **up == 0).map(|(prefix, _)| *prefix).collect();
    let rate = |prefix| if hot.contains(&prefix) { 1.6e6 } else { 0.0 };
    bench.set_rates(rate);
    bench.egress.rebalance(bench.now);
    // The gap falls from 80 points to the hysteresis of 5 and one prefix of 1.6, by 3.2 a move.
    let moves = bench.apply();
    assert!((22..=25).contains(&moves), "{moves} moves");
    let utilisations = bench.utilisations();
    assert!((utilisations[0] - utilisations[1]).abs() <= 0.05 + 0.016 + 1e-9, "{utilisations:?}");
    for _ in 0..10 {
        bench.now += S(60);
        bench.set_rates(rate);
        bench.egress.rebalance(bench.now);
        assert_eq!(bench.apply(), 0, "no further move");
    }
}

#[test]
fn many_prefixes_share_blocks_and_heavy_ones_get_their_own() {
    let mut bench = Bench::new(&[100, 100], 200, 0.02);
    for number in 0..5000 {
        (0..2).for_each(|peer| bench.announce(peer, small(number)));
    }
    // Prefixes that only one peer has: those of one of them are exceptions.
    (5000..5040).for_each(|number| bench.announce((number % 2) as u8, small(number)));
    bench.apply();
    assert!(bench.egress.is_aggregated());
    assert_eq!(bench.rules.len(), 21, "the default route and the exceptions: {:?}", bench.rules);
    // Forty of the prefixes have all the traffic.
    let heavy: Vec<Prefix> = (0..40).map(|n| small(n * 123)).collect();
    let changes = (0..40).map(|_| {
        bench.now += S(60);
        let rules = bench.rules.clone();
        let longest = |of: Prefix| of.covering().find(|prefix| rules.contains_key(prefix));
        bench.set_rates(|rule| heavy.iter().filter(|of| longest(**of) == Some(rule)).count() as f64 * 2e6);
        bench.egress.rebalance(bench.now);
        bench.apply()
    });
    let changes: Vec<usize> = changes.collect();
    assert!(bench.rules.len() <= 200, "{} rules", bench.rules.len());
    let utilisations = bench.utilisations();
    assert!((utilisations[0] - utilisations[1]).abs() < 0.05, "{utilisations:?}");
    assert_eq!(changes[35..], [0; 5], "{changes:?}");
    assert_eq!(bench.egress.uncovered(), 0);
    // A peer loses all its routes, while its port stays up: no prefix is left to it.
    bench.event(RouteEvent::PeerDown(peer(0)));
    bench.apply();
    assert_eq!((bench.egress.uncovered(), bench.egress.uplinks()[0].rules), (0, 0));
    bench.event(RouteEvent::PeerUp(peer(0)));
    (0..5000).for_each(|number| bench.announce(0, small(number)));
    (5000..5040).step_by(2).for_each(|number| bench.announce(0, small(number)));
    bench.apply();
    // Back to one rule for each prefix.
    for number in 0..4900 {
        for of in 0..2 {
            bench.event(RouteEvent::Withdraw { peer: peer(of), prefix: small(number) });
        }
    }
    bench.apply();
    bench.egress.rebalance(bench.now);
    bench.apply();
    assert_eq!((bench.egress.is_aggregated(), bench.rules.len()), (false, 140));
}

/// Every routed address leaves by an uplink that may carry it.
fn check(bench: &Bench, addresses: &[Ipv4Addr]) -> Result<(), TestCaseError> {
    let own: BTreeMap<Prefix, u8> = bench.egress.pieces().map(|(prefix, piece)| (prefix, piece.uplink)).collect();
    prop_assert_eq!(&own, &bench.rules, "every change of a rule is reported");
    prop_assert!(bench.rules.len() <= bench.egress.config.rules_max);
    for address in addresses {
        let (uplink, allowed) = (bench.uplink_of(*address), bench.allowed_to(*address));
        if bench.egress.uncovered() == 0 {
            let is_fine = uplink.map_or(allowed == 0, |uplink| {
                let is_unrouted = allowed == 0 && bench.egress.is_aggregated();
                is_unrouted || allowed & 1 << uplink != 0
            });
            prop_assert!(is_fine, "{address}: {uplink:?} of {allowed:b}, {:?}", bench.rules);
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Announce(u8, Prefix),
    Withdraw(u8, Prefix),
    Up(u8, bool),
    PeerDown(u8),
    PeerUp(u8),
    Rates(u8),
}

fn any_prefix() -> impl Strategy<Value = Prefix> {
    // A small part of the addresses, so that prefixes contain each other.
    (0..16u8, prop_oneof![Just(0u8), Just(8), 20..=25u8])
        .prop_map(|(block, length)| Prefix::around(Ipv4Addr::new(20, 0, block, 128), length))
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0..3u8;
    prop_oneof![
        6 => (number.clone(), any_prefix()).prop_map(|(number, prefix)| Step::Announce(number, prefix)),
        3 => (number.clone(), any_prefix()).prop_map(|(number, prefix)| Step::Withdraw(number, prefix)),
        1 => (number.clone(), any::<bool>()).prop_map(|(number, up)| Step::Up(number, up)),
        1 => number.clone().prop_map(Step::PeerDown),
        1 => number.prop_map(Step::PeerUp),
        2 => any::<u8>().prop_map(Step::Rates),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_leaves_by_an_uplink_whose_peer_announces_its_destination(
        steps in proptest::collection::vec(step(), 0..150),
        rules_max in prop_oneof![Just(4usize), Just(12), Just(1000)],
    ) {
        let mut bench = Bench::new(&[100, 100, 50], rules_max, 0.01);
        let addresses: Vec<Ipv4Addr> =
            (0..16u8).flat_map(|block| [0, 129].map(|host| Ipv4Addr::new(20, 0, block, host))).collect();
        for step in steps {
            bench.now += S(40);
            match step {
                Step::Announce(number, prefix) => bench.announce(number, prefix),
                Step::Withdraw(number, prefix) => bench.event(RouteEvent::Withdraw { peer: peer(number), prefix }),
                Step::Up(number, is_up) => bench.egress.set_up(number, is_up),
                Step::PeerDown(number) => bench.event(RouteEvent::PeerDown(peer(number))),
                Step::PeerUp(number) => bench.event(RouteEvent::PeerUp(peer(number))),
                Step::Rates(seed) => {
                    bench.apply();
                    bench.set_rates(|rule| f64::from(seed.wrapping_mul(rule.first().octets()[2])) * 1e5);
                    bench.egress.rebalance(bench.now);
                }
            }
            bench.apply();
            check(&bench, &addresses)?;
        }
    }

    /// The bound: without hysteresis no uplink exceeds its share by more than its lightest prefix.
    #[test]
    fn no_uplink_exceeds_its_share_by_more_than_a_prefix(
        rates in proptest::collection::vec(1u32..5000, 3..200),
        count in 2..6u8,
    ) {
        let mut bench = Bench::new(&vec![1000; usize::from(count)], 1000, 0.0);
        for number in 0..rates.len() as u16 {
            (0..count).for_each(|peer| bench.announce(peer, small(number)));
        }
        bench.apply();
        let rate = |prefix: Prefix| {
            let [_, high, low, _] = prefix.first().octets();
            f64::from(rates[usize::from(u16::from_be_bytes([high, low]))]) * 1e4
        };
        bench.set_rates(rate);
        for _ in 0..20 {
            bench.now += S(60);
            bench.egress.rebalance(bench.now);
            bench.apply();
        }
        let share = rates.iter().map(|rate| f64::from(*rate) * 1e4).sum::<f64>() / f64::from(count);
        for number in 0..count {
            let own = bench.egress.pieces().filter(|(_, piece)| piece.uplink == number);
            let own: Vec<f64> = own.map(|(prefix, _)| rate(prefix)).collect();
            let (load, lightest) = (own.iter().sum::<f64>(), own.iter().copied().fold(f64::INFINITY, f64::min));
            prop_assert!(load <= share + lightest + 1.0, "{load} of {share}, lightest {lightest}");
        }
    }
}

#[test]
fn prefix_of_a_block_decides_for_the_whole_block() {
    let mut bench = Bench::new(&[100, 100], 3, 0.0);
    for text in ["0.0.0.0/0", "20.0.0.0/8", "20.0.0.0/24", "20.0.1.0/24", "20.0.2.0/24"] {
        bench.announce(0, prefix(text));
    }
    bench.apply();
    assert!(bench.egress.is_aggregated() && bench.rules == BTreeMap::from([(Prefix::ALL, 0)]));
    bench.announce(1, prefix("20.0.1.0/24"));
    bench.event(RouteEvent::Withdraw { peer: peer(0), prefix: prefix("20.0.1.0/24") });
    bench.apply();
    assert_eq!(bench.rules, BTreeMap::from([(Prefix::ALL, 0), (prefix("20.0.1.0/24"), 1)]));
}
