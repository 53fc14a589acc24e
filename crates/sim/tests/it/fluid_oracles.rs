//! Fluid values of mechanisms.md (P02, P11, §10 oracles 1 and 10) from fixed-path max-min rates.

use crate::common::topology;
use anabranch_sim::bounds::fixed_path::{self, Service};
use net::{HostIx, LinkIx, RandomStream, Routes, Topology};

fn path(t: &Topology, routes: &Routes, src: HostIx, dst: HostIx, rank: u32) -> Vec<LinkIx> {
    let between = routes.path(t, routes.class_node(routes.class_of(src)), routes.class_of(dst), rank);
    let ends = [routes.last_link(src).unwrap().reverse(), routes.last_link(dst).unwrap()];
    [ends[0]].into_iter().chain(between).chain([ends[1]]).collect()
}

/// Mean and standard error over trials of: mean share, smallest share, share of flows below half.
struct Shares([(f64, f64); 3]);

impl Shares {
    fn of(trials: &[[f64; 3]]) -> Shares {
        let n = trials.len() as f64;
        Shares(std::array::from_fn(|i| {
            let mean = trials.iter().map(|trial| trial[i]).sum::<f64>() / n;
            let variance = trials.iter().map(|trial| (trial[i] - mean).powi(2)).sum::<f64>() / (n - 1.0);
            (mean, (variance / n).sqrt())
        }))
    }

    /// Returns whether this is the value printed, within the accuracy of so few trials.
    fn prints_as(&self, which: usize, printed: f64) -> bool {
        let (value, error) = self.0[which];
        (value - printed).abs() <= 0.005 + 3.0 * error
    }
}

#[derive(Clone, Copy)]
enum Allowed {
    All,
    /// All cores of the first two aggregation switches.
    TwoAggregations,
    /// The first two cores of every aggregation switch.
    TwoCoresEach,
}

/// Draws random paths from every host of a fat-tree to the host half of all away.
fn random_paths(spec: &str, subflows: usize, allowed: Allowed, trials: u32) -> Shares {
    let t = topology(spec);
    let routes = Routes::intact(&t);
    let hosts = t.hosts().len() as u32;
    let host_bps = t.link(routes.last_link(HostIx(0)).unwrap()).rate.as_bps_f64();
    let mut rng = RandomStream::new(1, "paths");
    let trial = |_| {
        let mut paths = Vec::new();
        for host in 0..hosts {
            let (src, dst) = (HostIx(host), HostIx((host + hosts / 2) % hosts));
            let count = routes.path_count(routes.class_node(routes.class_of(src)), routes.class_of(dst));
            let cores = count.isqrt();
            let ranks: Vec<u32> = (0..count)
                .filter(|rank| match allowed {
                    Allowed::All => true,
                    Allowed::TwoAggregations => rank / cores < 2,
                    Allowed::TwoCoresEach => rank % cores < 2,
                })
                .collect();
            paths.extend(
                (0..subflows).map(|_| path(&t, &routes, src, dst, ranks[rng.next_below(ranks.len() as u64) as usize])),
            );
        }
        let rates = fixed_path::rates(&t, &paths);
        let shares: Vec<f64> = rates.chunks(subflows).map(|flow| flow.iter().sum::<f64>() / host_bps).collect();
        let n = shares.len() as f64;
        let below = shares.iter().filter(|share| **share < 0.5 - 1e-9).count() as f64;
        [shares.iter().sum::<f64>() / n, shares.iter().copied().fold(f64::INFINITY, f64::min), below / n]
    };
    Shares::of(&(0..trials).map(trial).collect::<Vec<_>>())
}

/// In the k = 4 tree the four flows of a pod meet no others: 256 equally likely cases, exactly.
///
/// P02 prints a mean of 0.63 and a smallest share of 0.39; exact are 473/768 = 0.616 and 0.3955. A
/// trial's mean has a standard deviation of 0.076: the printed ones are of some hundred trials.
#[test]
fn ecmp_in_a_small_fat_tree_by_enumeration() {
    let t = topology("fat-tree:k=4");
    let routes = Routes::intact(&t);
    let mut means = Vec::new();
    let mut least = Vec::new();
    for case in 0u32..256 {
        let pod = (0..4).map(|i| path(&t, &routes, HostIx(i), HostIx(i + 8), case >> (2 * i) & 3)).collect::<Vec<_>>();
        let shares: Vec<f64> = fixed_path::rates(&t, &pod).iter().map(|rate| rate / 10e9).collect();
        means.push(shares.iter().sum::<f64>() / 4.0);
        least.push(shares.iter().copied().fold(f64::INFINITY, f64::min));
    }
    let mean = means.iter().sum::<f64>() / 256.0;
    // The minimum of four independent pods: each case of one pod is the minimum with the chance
    // that the other three are no lower, which the ordered list of cases gives.
    least.sort_by(f64::total_cmp);
    let at_least = |rank: usize| (1.0 - rank as f64 / 256.0).powi(4);
    let expected_least: f64 =
        least.iter().enumerate().map(|(rank, share)| share * (at_least(rank) - at_least(rank + 1))).sum();
    assert!((mean - 473.0 / 768.0).abs() < 1e-9 && (expected_least - 0.3955).abs() < 5e-5, "{mean} {expected_least}");
    let drawn = random_paths("fat-tree:k=4", 1, Allowed::All, 3_000);
    assert!((drawn.0[0].0 - mean).abs() < 4.0 * drawn.0[0].1, "{:?}", drawn.0);
    assert!((drawn.0[1].0 - expected_least).abs() < 4.0 * drawn.0[1].1, "{:?}", drawn.0);
}

/// P02 also prints 36 % of flows below half: a few trials. Computed are 33.4 % (± 0.2).
#[test]
fn ecmp_in_a_fat_tree_of_8_ports() {
    let equal = random_paths("fat-tree:k=8", 1, Allowed::All, 400);
    assert!(equal.prints_as(0, 0.54) && equal.prints_as(1, 0.24), "{:?}", equal.0);
    assert!((equal.0[2].0 - 0.334).abs() < 0.01, "{:?}", equal.0);
    let wide = "fat-tree:k=8,fabric_rate=20Gbps";
    assert!(random_paths(wide, 1, Allowed::All, 400).prints_as(0, 0.87));
    // P02's 0.68 to 0.72 with half of the paths are those of two aggregation switches.
    let narrow = random_paths(wide, 1, Allowed::TwoAggregations, 400).0[0].0;
    assert!((0.68..0.72).contains(&narrow), "{narrow}");
}

/// P11's values with 8 of 16 paths are those of two cores at each aggregation switch. The first one
/// is printed as 0.73; the computed value is 0.738 (standard error 0.001).
#[test]
fn subflows_approach_the_optimum() {
    let wide = "fat-tree:k=8,fabric_rate=20Gbps";
    for (subflows, printed) in [(1, 0.738), (2, 0.86), (4, 0.94), (8, 0.98)] {
        let shares = random_paths(wide, subflows, Allowed::TwoCoresEach, 200);
        assert!(shares.prints_as(0, printed), "{subflows}: {:?}", shares.0);
    }
    for (subflows, printed) in [(1, 0.87), (2, 0.98), (4, 1.0), (8, 1.0)] {
        let shares = random_paths(wide, subflows, Allowed::All, 200);
        assert!(shares.prints_as(0, printed), "{subflows}: {:?}", shares.0);
    }
}

/// Oracle 1: flows of 20, 80, 60 and 40 Mb over two paths of 100 Mb/s.
#[test]
fn the_two_path_example_of_f2() {
    let finish = |paths: &[u32], sizes: &[f64], service| {
        let paths: Vec<Vec<u32>> = paths.iter().map(|path| vec![*path]).collect();
        fixed_path::finish_times(&[100.0, 100.0], &paths, sizes, service)
    };
    let close = |got: &[f64], expected: &[f64]| {
        assert!(got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-9), "{got:?} {expected:?}");
    };
    let f = [20.0, 80.0, 60.0, 40.0];
    // Flows above 50 Mb in halves: f1, f4, f2a, f2b, f3a, f3b, in this order if equal.
    let halves = [20.0, 40.0, 40.0, 40.0, 30.0, 30.0];
    let (single, ecmp, mptcp, best): (&[u32], &[u32], &[u32], &[u32]) =
        (&[0; 4], &[1, 0, 1, 0], &[0, 1, 0, 1, 0, 1], &[0, 0, 1, 1]);
    let cases: [(&[u32], &[f64], f64); 4] =
        [(single, &f, 2.0), (ecmp, &f, 1.2), (mptcp, &halves, 1.1), (best, &f, 1.0)];
    for (paths, sizes, makespan) in cases {
        for service in [Service::Fair, Service::ShortestFirst, Service::LongestFirst] {
            let last = finish(paths, sizes, service).into_iter().fold(0.0, f64::max);
            close(&[last], &[makespan]);
        }
    }
    close(&finish(best, &f, Service::ShortestFirst), &[0.2, 1.0, 1.0, 0.4]);
    close(&finish(best, &f, Service::LongestFirst)[..2], &[1.0, 0.8]);
    close(&finish(ecmp, &f, Service::ShortestFirst)[3..], &[0.4]);
    let halves = finish(mptcp, &halves, Service::ShortestFirst);
    close(&[halves[1], halves[2].max(halves[3])], &[0.7, 1.1]);
}

/// Oracle 10: F0's tree under stride(30), over the first paths and over the least booked.
#[test]
fn f0s_core_links() {
    let t = topology("fat-tree:k=4,hosts_per_edge=10,host_rate=1Mbps,fabric_rate=10Mbps");
    let routes = Routes::intact(&t);
    let pairs: Vec<(HostIx, HostIx)> = (0..80).map(|i| (HostIx(i), HostIx((i + 30) % 80))).collect();
    let core_loads = |paths: &[Vec<LinkIx>], up: bool| -> Vec<f64> {
        let rates = fixed_path::rates(&t, paths);
        let load = |link: LinkIx| {
            paths.iter().zip(&rates).filter(|(path, _)| path.contains(&link)).map(|(_, rate)| rate / 1e6).sum::<f64>()
        };
        let links = (0..t.links().len() as u32).map(LinkIx);
        links.filter(|link| t.link_tier(*link) == t.top_tier() && t.is_upward(*link) == up).map(load).collect()
    };
    let first: Vec<_> = pairs.iter().map(|(src, dst)| path(&t, &routes, *src, *dst, 0)).collect();
    let mut booked = vec![0u32; t.links().len()];
    let worst_fit: Vec<_> = pairs
        .iter()
        .map(|(src, dst)| {
            let fullest = |path: &Vec<LinkIx>| path.iter().map(|link| booked[link.ix()]).max();
            let best = (0..4).map(|rank| path(&t, &routes, *src, *dst, rank)).min_by_key(fullest).unwrap();
            best.iter().for_each(|link| booked[link.ix()] += 1);
            best
        })
        .collect();
    for up in [true, false] {
        let mut loads = core_loads(&first, up);
        loads.sort_by(f64::total_cmp);
        assert!(loads[..12].iter().all(|load| *load == 0.0), "{loads:?}");
        assert!(loads[12..].iter().all(|load| (load - 10.0).abs() < 1e-9), "{loads:?}");
        let loads = core_loads(&worst_fit, up);
        assert!(loads.len() == 16 && loads.iter().all(|load| (load - 5.0).abs() < 1e-9), "{loads:?}");
    }
}
