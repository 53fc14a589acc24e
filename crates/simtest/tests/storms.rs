//! Storms pass; the same storm is the same; what is done wrong is found.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_simtest::{Cutback, Oracle, Plan, Sabotage, draw, shrink, storm, storm_of};

fn all_of(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Err(failure) = storm(seed) {
            panic!("the storm of seed {seed} fails: {failure}\nsee `anabranch storm --seed {seed} --shrink`");
        }
    }
}

// Two tests, so that two cores have something to do.
#[test]
fn storms_pass() {
    all_of(1..31);
}
#[test]
fn more_storms_pass() {
    all_of(31..61);
}

/// Seeds beyond those that always run, by what was wrong when they failed. `docs/storms.md` tells more.
const HAVE_FAILED: &[(&str, &[u64])] = &[
    ("hosts were believed in behind switches that were not connected", &[5106, 7306, 9816, 10166, 14312]),
    ("rules did not wait for their groups", &[13561, 14653, 15455, 15629, 18766, 19694, 20877]),
    ("the survey asked for rules before groups", &[14385]),
    ("a counting rule idled out during the survey", &[4221, 22346]),
    ("two contents had one group number", &[19098]),
    ("labels reached hosts while rules were removed", &[2446, 16978]),
    ("stages did not wait for changes under way", &[6373, 19255, 21076]),
    ("only next hops of unsure switches were minded, and new paths led through them", &[30886, 50824, 53442, 54108]),
    ("a flow whose new path was refused stayed on a dead one", &[34945, 61758]),
    ("improvements did not wait for packets under way", &[20264, 33942, 46465, 175_941]),
    ("switches that did not confirm were taken for sure", &[60219, 60998, 74265, 76646]),
    ("a task waited for packets on a dead path, or for a switch that stalls", &[91466, 113_584]),
    ("unsure switches led to switches that were not known", &[92949]),
    ("an unsure switch had no rule for a new host", &[219_033]),
    ("wider next hops did not wait for narrower ones", &[94877]),
    ("an improvement went on as one after its old next hop had died", &[133_421]),
    ("the oracle blamed what could not be helped", &[132_871, 179_517, 4476, 8581, 9682, 12043, 22024]),
];

#[test]
fn storms_that_have_failed_pass() {
    // They failed before there were services: as they were.
    let cutback = Cutback { is_without_services: true, ..Cutback::default() };
    for (what, seeds) in HAVE_FAILED {
        for seed in *seeds {
            if let Err(failure) = storm_of(&draw::draw(*seed), &cutback, None) {
                panic!("the storm of seed {seed} fails again ({what}): {failure}");
            }
        }
    }
}

/// The same, of storms with services.
const SERVICES_HAVE_FAILED: &[(&str, &[u64])] = &[
    ("a connection that paused lost a member that had left when its last rule went", &[75, 172, 178, 382]),
    ("a check of before counted where picker and monitor changed at once", &[681]),
    ("a datagram was given to a member that its switch cannot reach", &[1329, 1491, 1540]),
    ("a member that asks was led by its bucket, since its switch had no room for the rule to ask", &[1843]),
    ("the oracle blamed what was right", &[189, 191, 326, 347, 359, 429, 521, 1207, 1389, 1466]),
];

#[test]
fn storms_with_services_that_have_failed_pass() {
    for (what, seeds) in SERVICES_HAVE_FAILED {
        for seed in *seeds {
            assert!(!draw::draw(*seed).services.is_empty(), "seed {seed} has services");
            if let Err(failure) = storm(*seed) {
                panic!("the storm of seed {seed} fails again ({what}): {failure}");
            }
        }
    }
}

#[test]
fn the_same_storm_is_the_same() {
    for seed in [3, 14, 15] {
        assert_eq!(storm(seed), storm(seed), "seed {seed}");
        assert_ne!(storm(seed).unwrap().log_hash, storm(seed + 1).unwrap().log_hash, "other storms are others");
    }
}

#[test]
fn storms_do_something() {
    let mut report = anabranch_simtest::Report::default();
    (1..21).for_each(|seed| report.add(&storm(seed).unwrap()));
    assert!(report.faults > 100 && report.flows > 100 && report.frames_delivered > 10_000, "{report:?}");
    assert!(report.clients > 100 && report.answers > 1_000 && report.refusals > 100, "{report:?}");
    assert!(report.frames_lost > 0 && report.moves > 0 && report.pairs_checked > 10_000, "{report:?}");
}

/// The first seed whose storm finds a sabotage, with what it finds.
fn caught(sabotage: Sabotage) -> Option<(u64, Oracle)> {
    (1..=sabotage.seeds_max()).find_map(|seed| {
        let plan = draw::draw(seed);
        let failure = storm_of(&plan, &sabotage.cutback(&plan), Some(sabotage)).err()?;
        Some((seed, failure.oracle))
    })
}

#[test]
fn every_sabotage_is_found() {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let look = || {
        while let Some(&sabotage) = Sabotage::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            match caught(sabotage) {
                Some((_, oracle)) if sabotage.expected().contains(&oracle) => {}
                other => wrong.lock().unwrap().push((sabotage, other)),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(look))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "not found, or by something unexpected: {wrong:?}");
}

#[test]
fn every_oracle_can_fail() {
    use Oracle::{Delivery, Foreign, Installed, Loop, Loss, Messages, Quiet, Service, Settled, Topology, Virtual};
    let mut missing = BTreeSet::from([
        Delivery, Foreign, Installed, Loop, Loss, Messages, Quiet, Service, Settled, Topology, Virtual,
    ]);
    for seed in 1..100 {
        for sabotage in Sabotage::ALL
            .iter()
            .copied()
            .filter(|sabotage| sabotage.expected().iter().any(|o| missing.contains(o)))
            .collect::<Vec<_>>()
        {
            if let Err(failure) = storm_of(&draw::draw(seed), &Cutback::default(), Some(sabotage)) {
                missing.remove(&failure.oracle);
            }
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("no sabotage of a hundred storms was found by {missing:?}");
}

#[test]
fn what_fails_is_made_smaller_and_fails_alike() {
    let (sabotage, seed) = (Sabotage::WrongMac, 1);
    let plan: Plan = draw::draw(seed);
    let failure = storm_of(&plan, &Cutback::default(), Some(sabotage)).expect_err("this one is found");
    let small = shrink(&plan, &Cutback::default(), Some(sabotage), &failure, 200, || true);
    let again = storm_of(&plan, &small.cutback, Some(sabotage)).expect_err("it is as small as it fails");
    assert_eq!((again.oracle, &again), (failure.oracle, &small.failure));
    assert!(small.cutback.apply(&plan).actions.len() < plan.actions.len(), "{:?}", small.cutback);
}
