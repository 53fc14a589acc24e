//! Simulations pass and are reproducible; every mutant is found.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_simtest::plan::{Action, ActionKind};
use anabranch_simtest::{Mutant, Oracle, Plan, Reduction, generate, run_plan, run_seed, shrink};

fn assert_all_pass(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Err(failure) = run_seed(seed) {
            panic!("the simulation of seed {seed} fails: {failure}\nsee `anabranch simtest --seed {seed} --shrink`");
        }
    }
}

// Two tests, so that two cores are busy.
#[test]
fn first_seeds_pass() {
    assert_all_pass(1..31);
}
#[test]
fn further_seeds_pass() {
    assert_all_pass(31..61);
}

/// Seeds that have failed, by the defect. They are run in addition to the first ones. See
/// `docs/simtest.md`.
const HAVE_FAILED: &[(&str, &[u64])] = &[
    ("hosts were assumed behind switches that were not connected", &[5106, 7306, 9816, 10166, 14312]),
    ("rules did not wait for their groups", &[13561, 14653, 15455, 15629, 18766, 19694, 20877]),
    ("the table read-back requested rules before groups", &[14385]),
    ("a counting rule idled out during the table read-back", &[4221, 22346]),
    ("two groups had one number", &[19098]),
    ("labels reached hosts while rules were removed", &[2446, 16978]),
    ("stages did not wait for changes in progress", &[6373, 19255, 21076]),
    ("only next hops of unconfirmed switches were considered, and new paths used them", &[30886, 50824, 53442, 54108]),
    ("a flow whose new path was refused stayed on a dead one", &[34945, 61758]),
    ("improvements did not wait for packets in flight", &[20264, 33942, 46465, 175_941]),
    ("switches without barrier replies counted as confirmed", &[60219, 60998, 74265, 76646]),
    ("a task waited for packets on a dead path, or for a switch that stalls", &[91466, 113_584]),
    ("unconfirmed switches forwarded to unknown switches", &[92949]),
    ("an unconfirmed switch had no rule for a new host", &[219_033]),
    ("wider next hops did not wait for narrower ones", &[94877]),
    ("an improvement went on as one after its old next hop had died", &[133_421]),
    ("the oracle reported unavoidable losses", &[132_871, 179_517, 4476, 8581, 9682, 12043, 22024]),
];

fn assert_failed_seeds_pass(have_failed: &[(&str, &[u64])], reduction: &Reduction) {
    for (what, seeds) in have_failed {
        for seed in *seeds {
            let plan = generate::plan(*seed);
            let has_disruption = |action: &Action| matches!(action.what, ActionKind::Disruption(_));
            let needs_services = reduction.is_without_disruptions && !reduction.is_without_services;
            assert!(!needs_services || !plan.services.is_empty(), "seed {seed} has services");
            assert!(reduction.is_without_disruptions || plan.actions.iter().any(has_disruption), "seed {seed}");
            if let Err(failure) = run_plan(&plan, reduction, None) {
                panic!("the simulation of seed {seed} fails again ({what}): {failure}");
            }
        }
    }
}

#[test]
fn failed_seeds_pass() {
    // They failed before there were services.
    let reduction = Reduction { is_without_services: true, is_without_disruptions: true, ..Reduction::default() };
    assert_failed_seeds_pass(HAVE_FAILED, &reduction);
}

const SERVICES_HAVE_FAILED: &[(&str, &[u64])] = &[
    ("a connection that paused lost a member that had left when its last rule went", &[75, 172, 178, 382]),
    ("an old health check counted after balancer and monitor changed together", &[681]),
    ("a datagram was sent to a member that its switch cannot reach", &[1329, 1491, 1540]),
    ("a member that is a client used its slot rule, because its switch's table was full", &[1843]),
    ("the oracle reported correct behaviour", &[189, 191, 326, 347, 359, 429, 521, 1207, 1389, 1466]),
];

#[test]
fn failed_seeds_with_services_pass() {
    let reduction = Reduction { is_without_disruptions: true, ..Reduction::default() };
    assert_failed_seeds_pass(SERVICES_HAVE_FAILED, &reduction);
}

const DISRUPTIONS_HAVE_FAILED: &[(&str, &[u64])] = &[
    ("an instance that had lost a switch became its master again, because both had one generation", &[10_000_010]),
    ("a slave that connected again sent changes, which the switch accepted", &[10_000_146, 10_000_181]),
    ("the end of a connection in a pause of the controller was taken for an older one", &[10_000_346, 10_000_493]),
];

#[test]
fn failed_seeds_with_disruptions_pass() {
    assert_failed_seeds_pass(DISRUPTIONS_HAVE_FAILED, &Reduction::default());
}

#[test]
fn same_seed_gives_same_simulation() {
    for seed in [3, 14, 15] {
        assert_eq!(run_seed(seed), run_seed(seed), "seed {seed}");
        assert_ne!(run_seed(seed).unwrap().log_hash, run_seed(seed + 1).unwrap().log_hash, "other seeds differ");
    }
}

#[test]
fn simulations_cover_all_features() {
    let mut report = anabranch_simtest::Report::default();
    (1..61).for_each(|seed| report.add(&run_seed(seed).unwrap()));
    assert!(report.faults > 100 && report.flows > 100 && report.frames_delivered > 10_000, "{report:?}");
    assert!(report.clients > 100 && report.responses > 1_000 && report.refusals > 100, "{report:?}");
    assert!(report.attack_frames > 1_000, "{report:?}");
    assert!(report.impostors > 0 && report.rivals > 0 && report.restored > 0 && report.balanced > 0, "{report:?}");
    assert!(report.frames_lost > 0 && report.moves > 0 && report.pairs_checked > 10_000, "{report:?}");
}

/// Ranges of seeds in each of which every mutant must be found.
const RANGES: [u64; 3] = [30_000_000, 31_000_000, 32_000_000];
const SEEDS_MAX: u64 = 200;

/// Returns after how many seeds of a range a simulation finds a mutant, with the oracle.
fn caught(mutant: Mutant, from: u64) -> Option<(u64, Oracle)> {
    (1..=SEEDS_MAX).find_map(|count| {
        let plan = generate::plan(from + count - 1);
        let failure = run_plan(&plan, &mutant.reduction(&plan), Some(mutant)).err()?;
        Some((count, failure.oracle))
    })
}

#[test]
#[ignore = "takes minutes: scripts/soak mutants"]
fn every_mutant_is_found() {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let search = || {
        while let Some(&mutant) = Mutant::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            for from in RANGES {
                match caught(mutant, from) {
                    Some((count, oracle)) if mutant.expected().contains(&oracle) => {
                        println!("{from}: {mutant:?} after {count} seeds, by {oracle:?}");
                    }
                    other => wrong.lock().unwrap().push((mutant, from, other)),
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(search))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "not found, or by something unexpected: {wrong:?}");
}

#[test]
#[ignore = "takes minutes: scripts/soak mutants"]
fn every_oracle_can_fail() {
    use Oracle::{
        Delivery, Foreign, Hosts, Installed, Loop, Loss, Messages, Quiet, Service, Settled, Topology, Virtual,
    };
    let mut missing = BTreeSet::from([
        Delivery, Foreign, Hosts, Installed, Loop, Loss, Messages, Quiet, Service, Settled, Topology, Virtual,
    ]);
    for seed in 1..100 {
        for mutant in Mutant::ALL {
            if mutant.expected().iter().any(|o| missing.contains(o))
                && let Err(failure) = run_plan(&generate::plan(seed), &Reduction::default(), Some(*mutant))
            {
                missing.remove(&failure.oracle);
            }
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("no mutant in a hundred simulations was found by {missing:?}");
}

#[test]
fn shrunk_plan_is_smaller_and_fails_alike() {
    let (mutant, seed) = (Mutant::WrongMac, 1);
    let plan: Plan = generate::plan(seed);
    let failure = run_plan(&plan, &Reduction::default(), Some(mutant)).expect_err("this mutant is found");
    let small = shrink(&plan, &Reduction::default(), Some(mutant), &failure, 200, || true);
    let again = run_plan(&plan, &small.reduction, Some(mutant)).expect_err("the reduced plan fails");
    assert_eq!((again.oracle, &again), (failure.oracle, &small.failure));
    assert!(small.reduction.apply(&plan).actions.len() < plan.actions.len(), "{:?}", small.reduction);
}
