use proptest::prelude::*;

use super::*;

const ROUTER: RouterId = RouterId(Ipv4Addr::new(10, 0, 0, 9));
const OTHER_ROUTER: RouterId = RouterId(Ipv4Addr::new(10, 0, 0, 10));
const S: fn(u64) -> Time = Time::from_s;

fn peer(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, number + 1)
}
fn prefix(number: u8) -> Prefix {
    Prefix::around(Ipv4Addr::new(203, 0, number, 0), 24)
}
fn route(local_pref: u32, as_path_len: u16) -> Route {
    Route { next_hop: peer(0), as_path_len, local_pref }
}
fn announce(number: u8, of: u8, route: Route) -> RouteEvent {
    RouteEvent::Announce { peer: peer(number), prefix: prefix(of), route }
}
fn withdraw(number: u8, of: u8) -> RouteEvent {
    RouteEvent::Withdraw { peer: peer(number), prefix: prefix(of) }
}
fn undamped() -> Damping {
    Damping { suppress: f64::INFINITY, ..Damping::default() }
}
fn rib(damping: Damping) -> Rib {
    let peers = (0..3).map(peer).collect();
    Rib::new(Config { peers, shortest_only: false, routes_max: 1000, stale_time: S(60), damping })
}
fn with_peers(damping: Damping) -> Rib {
    let mut rib = rib(damping);
    (0..3).for_each(|number| rib.handle(Time::ZERO, ROUTER, &RouteEvent::PeerUp(peer(number))));
    rib
}

#[test]
fn best_preference_decides_and_then_all_of_them() {
    let mut rib = with_peers(undamped());
    for (number, local_pref, length) in [(0, 100, 3), (1, 100, 1), (2, 90, 1)] {
        rib.handle(Time::ZERO, ROUTER, &announce(number, 1, route(local_pref, length)));
    }
    assert_eq!(rib.usable(prefix(1)), 0b011);
    rib.config.shortest_only = true;
    assert_eq!(rib.usable(prefix(1)), 0b010);
    rib.handle(Time::ZERO, ROUTER, &announce(2, 1, route(200, 9)));
    assert_eq!(rib.usable(prefix(1)), 0b100);
    rib.handle(Time::ZERO, ROUTER, &RouteEvent::PeerDown(peer(2)));
    assert_eq!(rib.usable(prefix(1)), 0b010);
    assert_eq!(rib.take_changed().into_iter().collect::<Vec<_>>(), [prefix(1)]);
    assert!(!rib.has_changed());
}

#[test]
fn lost_session_keeps_routes_until_they_are_reported_again_or_expire() {
    let mut rib = with_peers(undamped());
    for of in 0..3 {
        rib.handle(S(1), ROUTER, &announce(0, of, route(100, 1)));
        rib.handle(S(1), ROUTER, &announce(1, of, route(100, 1)));
    }
    (0..3).for_each(|number| rib.handle(S(1), ROUTER, &RouteEvent::EndOfRib(peer(number))));
    assert_eq!(rib.poll_timeout(), None);
    rib.session_lost(S(10), ROUTER);
    assert_eq!((rib.usable(prefix(0)), rib.poll_timeout()), (0b011, Some(S(70))));
    // Peer 0 reports two of its three routes; peer 1 is silent.
    rib.handle(S(20), ROUTER, &RouteEvent::PeerUp(peer(0)));
    (0..2).for_each(|of| rib.handle(S(20), ROUTER, &announce(0, of, route(100, 1))));
    assert_eq!(rib.usable(prefix(2)), 0b011);
    rib.handle(S(20), ROUTER, &RouteEvent::EndOfRib(peer(0)));
    assert_eq!((rib.usable(prefix(1)), rib.usable(prefix(2))), (0b011, 0b010));
    assert!(rib.peers().nth(1).unwrap().has_stale && !rib.peers().next().unwrap().has_stale);
    rib.handle_timeout(S(70));
    assert_eq!((rib.usable(prefix(1)), rib.usable(prefix(2)), rib.poll_timeout()), (0b001, 0, None));
}

#[test]
fn routes_of_a_lost_peer_are_withdrawn_in_steps_and_unusable_at_once() {
    let prefix = |of: usize| Prefix::around(Ipv4Addr::from_bits((1 << 24) + ((of as u32) << 8)), 24);
    let count = STEP_ENTRIES + 1;
    let filled = || {
        let mut rib = with_peers(undamped());
        rib.config.routes_max = usize::MAX;
        for (number, of) in (0..2).flat_map(|number| (0..count).map(move |of| (number, of))) {
            let event = RouteEvent::Announce { peer: peer(number), prefix: prefix(of), route: route(100, 1) };
            rib.handle(S(1), ROUTER, &event);
        }
        (0..3).for_each(|number| rib.handle(S(1), ROUTER, &RouteEvent::EndOfRib(peer(number))));
        rib.take_changed();
        rib.handle(S(2), ROUTER, &RouteEvent::PeerDown(peer(0)));
        rib
    };
    let mut rib = filled();
    assert!(rib.take_lost_peer() && !rib.take_lost_peer());
    assert!(rib.within(Prefix::ALL).all(|(_, peers)| peers == 0b010));
    let mut steps = 0;
    while let Some(due) = rib.poll_timeout() {
        rib.handle_timeout(due);
        steps += 1;
    }
    // Two entries for each prefix.
    assert_eq!((steps, rib.peers().next().unwrap().routes, rib.has_changed()), (3, 0, false));

    // The peer returns before its old routes are withdrawn: only new ones count.
    let mut rib = filled();
    rib.handle(S(2), ROUTER, &RouteEvent::PeerUp(peer(0)));
    let event = RouteEvent::Announce { peer: peer(0), prefix: prefix(7), route: route(100, 1) };
    rib.handle(S(2), ROUTER, &event);
    assert_eq!((rib.usable(prefix(7)), rib.usable(prefix(8)), rib.peers().next().unwrap().routes), (0b011, 0b010, 1));
}

#[test]
fn another_router_cannot_change_the_routes_of_a_peer() {
    let mut rib = with_peers(undamped());
    rib.handle(S(1), ROUTER, &announce(0, 0, route(100, 1)));
    for event in [
        withdraw(0, 0),
        RouteEvent::PeerUp(peer(0)),
        RouteEvent::PeerDown(peer(0)),
        RouteEvent::EndOfRib(peer(0)),
        announce(7, 0, route(100, 1)),
    ] {
        rib.handle(S(2), OTHER_ROUTER, &event);
        assert_eq!(rib.usable(prefix(0)), 1, "{event:?}");
    }
    assert_eq!(rib.ignored.other_peers, 5);
    rib.session_lost(S(3), OTHER_ROUTER);
    assert!(rib.peers().all(|peer| peer.is_up));
}

#[test]
fn routes_beyond_the_limit_are_ignored_and_counted() {
    let mut rib = with_peers(undamped());
    rib.config.routes_max = 3;
    (0..5).for_each(|of| rib.handle(S(1), ROUTER, &announce(0, of, route(100, 1))));
    assert_eq!((rib.ignored.over_limit, rib.peers().next().unwrap().routes), (2, 3));
    rib.handle(S(1), ROUTER, &withdraw(0, 0));
    rib.handle(S(1), ROUTER, &announce(0, 4, route(100, 1)));
    assert_eq!((rib.usable(prefix(0)), rib.usable(prefix(4))), (0, 1));
}

/// Six flaps stay below the threshold of 6,000 (they decay a little); the seventh is above.
#[test]
fn route_is_suppressed_at_the_seventh_flap_and_reused_after_the_closed_form() {
    let mut rib = with_peers(Damping::default());
    for flap in 1..=10 {
        rib.handle(S(flap), ROUTER, &announce(0, 0, route(100, 1)));
        assert_eq!(rib.usable(prefix(0)) == 1, flap <= 7, "flap {flap}");
        rib.handle(S(flap), ROUTER, &withdraw(0, 0));
    }
    rib.handle(S(10), ROUTER, &announce(0, 0, route(100, 1)));
    assert_eq!((rib.usable(prefix(0)), rib.peers().next().unwrap().suppressed), (0, 1));
    let penalty: f64 = (0..10).map(|n| 1000.0 * (-(f64::from(n)) / 900.0).exp2()).sum();
    let reuse = 10.0 + 900.0 * (penalty / 750.0).log2();
    let due = rib.timers.first().unwrap().0;
    assert!((due.as_s_f64() - reuse).abs() < 0.01, "{due} {reuse}");
    rib.handle_timeout(due.saturating_sub(Time::from_ms(1)));
    assert_eq!(rib.usable(prefix(0)), 0);
    rib.take_changed();
    rib.handle_timeout(due);
    assert_eq!((rib.usable(prefix(0)), rib.has_changed()), (1, true));
}

#[test]
fn penalties_of_withdrawn_routes_are_forgotten_in_time() {
    let mut rib = with_peers(Damping::default());
    rib.handle(S(1), ROUTER, &announce(0, 0, route(100, 1)));
    rib.handle(S(1), ROUTER, &withdraw(0, 0));
    (0..3).for_each(|number| rib.handle(S(1), ROUTER, &RouteEvent::EndOfRib(peer(number))));
    // 1,000 falls to 375 in 900 s × log2(1000 / 375).
    let due = rib.poll_timeout().unwrap();
    assert!((due.as_s_f64() - 1.0 - 900.0 * (1000.0_f64 / 375.0).log2()).abs() < 0.01);
    rib.handle_timeout(due);
    assert!(rib.entries.is_empty() && rib.timers.is_empty());
}

#[test]
fn recovered_routes_are_stale_ones() {
    let mut rib = rib(undamped());
    (0..2).for_each(|of| rib.recover(S(5), prefix(of), 1));
    assert_eq!((rib.usable(prefix(0)), rib.poll_timeout()), (0b010, Some(S(65))));
    rib.handle(S(6), ROUTER, &RouteEvent::PeerUp(peer(1)));
    rib.handle(S(6), ROUTER, &announce(1, 0, route(100, 1)));
    rib.handle(S(6), ROUTER, &RouteEvent::EndOfRib(peer(1)));
    assert_eq!((rib.usable(prefix(0)), rib.usable(prefix(1))), (0b010, 0));
    rib.recover(S(7), prefix(2), 1);
    assert_eq!(rib.usable(prefix(2)), 0, "the routes of this peer are known");
}

/// The model: a plain table of routes by peer and prefix, without damping or stale routes, and the
/// peers that are up.
#[derive(Default)]
struct Model(BTreeMap<(u8, u8), Route>, BTreeSet<u8>);

impl Model {
    fn usable(&self, of: u8) -> Peers {
        let routes = || self.0.iter().filter(|((_, other), _)| *other == of);
        let best = routes().map(|(_, route)| route.local_pref).max();
        let peers = routes().filter(|(_, route)| Some(route.local_pref) == best);
        peers.map(|((number, _), _)| 1 << number).sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Announce(u8, u8, u32),
    Withdraw(u8, u8),
    Down(u8),
    Up(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let (number, of) = (0..3u8, 0..6u8);
    prop_oneof![
        4 => (number.clone(), of.clone(), 99..102u32).prop_map(|(number, of, pref)| Step::Announce(number, of, pref)),
        3 => (number.clone(), of).prop_map(|(number, of)| Step::Withdraw(number, of)),
        1 => number.clone().prop_map(Step::Down),
        1 => number.prop_map(Step::Up),
    ]
}

proptest! {
    #[test]
    fn rib_agrees_with_a_plain_table(steps in proptest::collection::vec(step(), 0..200)) {
        let (mut rib, mut model, mut now) = (rib(undamped()), Model::default(), Time::ZERO);
        let mut shown: BTreeMap<u8, Peers> = BTreeMap::new();
        for step in steps {
            now += Time::from_ms(10);
            let event = match step {
                Step::Announce(number, of, pref) => {
                    if model.1.contains(&number) {
                        model.0.insert((number, of), route(pref, 1));
                    }
                    announce(number, of, route(pref, 1))
                }
                Step::Withdraw(number, of) => {
                    model.0.remove(&(number, of));
                    withdraw(number, of)
                }
                Step::Down(number) => {
                    model.0.retain(|(other, _), _| *other != number);
                    model.1.remove(&number);
                    RouteEvent::PeerDown(peer(number))
                }
                Step::Up(number) => {
                    model.1.insert(number);
                    RouteEvent::PeerUp(peer(number))
                }
            };
            rib.handle(now, ROUTER, &event);
            // Changes that the RIB does not report would never reach a switch.
            for of in rib.take_changed() {
                let number = of.first().octets()[2];
                shown.insert(number, rib.usable(of));
            }
            for of in 0..6 {
                prop_assert_eq!(rib.usable(prefix(of)), model.usable(of));
                prop_assert_eq!(shown.get(&of).copied().unwrap_or_default(), model.usable(of));
            }
            prop_assert_eq!(rib.peers().map(|peer| peer.routes).sum::<usize>(), model.0.len());
            let within: Peers = rib.within(Prefix::ALL).map(|(_, peers)| peers.count_ones()).sum();
            prop_assert_eq!(within, (0..6).map(|of| model.usable(of).count_ones()).sum::<u32>());
        }
    }

    /// The number of changes of a route is bounded by its penalties, however often it flaps.
    #[test]
    fn flapping_route_causes_few_changes(gaps_ms in proptest::collection::vec(1..200u64, 200..400)) {
        let (mut rib, mut now, mut changes, mut before) = (with_peers(Damping::default()), S(1), 0, 0);
        for gap in gaps_ms {
            for event in [announce(0, 0, route(100, 1)), withdraw(0, 0)] {
                rib.handle(now, ROUTER, &event);
                let after = rib.usable(prefix(0));
                changes += u32::from(after != std::mem::replace(&mut before, after));
                now += Time::from_ms(gap);
                if rib.poll_timeout().is_some_and(|due| due <= now) {
                    rib.handle_timeout(now);
                }
            }
        }
        // 400 flaps of at most 160 s: seven are used, and no reuse falls into this time.
        prop_assert!(changes <= 14, "{changes} changes");
    }
}
