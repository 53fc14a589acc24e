//! Concurrent multicommodity flow against an exact linear program over all simple paths.

use crate::common::{link, topology};
use anabranch_sim::bounds::cuts::{self, Capacity};
use anabranch_sim::bounds::mcf::{Concurrent, Demand, max_concurrent};
use net::{Bandwidth, HostIx, RandomStream, Topology};

/// Maximises `objective · x` under `rows · x <= limits`, `x >= 0`: simplex with Bland's rule.
fn simplex(rows: &[Vec<f64>], limits: &[f64], objective: &[f64]) -> f64 {
    let (m, n) = (rows.len(), objective.len());
    let width = n + m + 1;
    let mut tableau: Vec<Vec<f64>> = (0..m)
        .map(|row| {
            let mut line = rows[row].clone();
            line.resize(width, 0.0);
            (line[n + row], line[width - 1]) = (1.0, limits[row]);
            line
        })
        .collect();
    let mut goal: Vec<f64> = objective.iter().map(|c| -c).collect();
    goal.resize(width, 0.0);
    let mut basis: Vec<usize> = (n..n + m).collect();
    while let Some(enters) = (0..n + m).find(|column| goal[*column] < -1e-9) {
        let ratio = |row: &usize| tableau[*row][width - 1] / tableau[*row][enters];
        let rows = (0..m).filter(|row| tableau[*row][enters] > 1e-9);
        let leaves = rows
            .min_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(basis[*a].cmp(&basis[*b])))
            .expect("capacities bound the program");
        let pivot = tableau[leaves][enters];
        tableau[leaves].iter_mut().for_each(|value| *value /= pivot);
        let line = tableau[leaves].clone();
        let eliminate = |other: &mut Vec<f64>| {
            let factor = other[enters];
            other.iter_mut().zip(&line).for_each(|(value, of)| *value -= factor * of);
        };
        tableau.iter_mut().enumerate().filter(|(row, _)| *row != leaves).for_each(|(_, other)| eliminate(other));
        eliminate(&mut goal);
        basis[leaves] = enters;
    }
    goal[width - 1]
}

#[test]
fn the_simplex_solves_a_textbook_program() {
    // Dantzig's: max 3x + 5y under x <= 4, 2y <= 12, 3x + 2y <= 18 is 36.
    let rows = [vec![1.0, 0.0], vec![0.0, 2.0], vec![3.0, 2.0]];
    assert!((simplex(&rows, &[4.0, 12.0, 18.0], &[3.0, 5.0]) - 36.0).abs() < 1e-9);
}

/// Returns the exact optimum: a variable per simple path, and one for the share.
fn exact(t: &Topology, demands: &[Demand]) -> f64 {
    let limits = net::paths::Limits { max_links: 12, max_paths: 10_000 };
    let paths: Vec<Vec<net::paths::Path>> = demands
        .iter()
        .map(|d| {
            let found = net::paths::simple(t, t.host(d.src), t.host(d.dst), limits, net::paths::every_link);
            assert!(!found.truncated);
            found.paths
        })
        .collect();
    let count: usize = paths.iter().map(Vec::len).sum();
    let mut rows = vec![vec![0.0; count + 1]; t.links().len() + demands.len()];
    let mut limits: Vec<f64> = t.links().iter().map(|link| link.rate.as_bps_f64() / 1e9).collect();
    limits.resize(rows.len(), 0.0);
    let mut column = 0;
    for (at, (demand, paths)) in demands.iter().zip(&paths).enumerate() {
        let own = t.links().len() + at;
        rows[own][count] = demand.bps / 1e9;
        for path in paths {
            path.iter().for_each(|link| rows[link.ix()][column] = 1.0);
            rows[own][column] = -1.0;
            column += 1;
        }
    }
    let mut objective = vec![0.0; count + 1];
    objective[count] = 1.0;
    simplex(&rows, &limits, &objective)
}

fn check(t: &Topology, demands: &[Demand], eps: f64) -> Concurrent {
    let found = max_concurrent(t, demands, eps);
    let exact = exact(t, demands);
    assert!(found.share <= exact * (1.0 + 1e-9), "{found:?} is more than {exact} on {}", t.name());
    assert!(found.at_most >= exact * (1.0 - 1e-9), "{found:?} is less than {exact} on {}", t.name());
    assert!(found.at_most <= found.share * (1.0 + eps), "{found:?}");
    found
}

fn random_demands(t: &Topology, count: usize, rng: &mut RandomStream) -> Vec<Demand> {
    let hosts = t.hosts().len() as u64;
    let demand = |_| {
        let src = rng.next_below(hosts) as u32;
        let dst = ((u64::from(src) + 1 + rng.next_below(hosts - 1)) % hosts) as u32;
        Demand { src: HostIx(src), dst: HostIx(dst), bps: (1 + rng.next_below(10)) as f64 * 1e9 }
    };
    (0..count).map(demand).collect()
}

#[test]
fn small_networks_agree_with_the_linear_program() {
    let mut rng = RandomStream::new(2, "mcf");
    let mut searched = 0;
    for spec in [
        "diamond",
        "leaf-spine:leaves=3,spines=3,hosts_per_leaf=2",
        "fat-tree:k=4",
        "bcube:n=2,k=1",
        "flattened-butterfly:k=2,n=3",
        "geni-wan",
    ] {
        let intact = topology(spec);
        for _ in 0..6 {
            // Uneven rates, so that an even split is not enough and longer paths help.
            let t = intact.with_links_changed(|_, link| link.rate = Bandwidth::from_gbps(1 + rng.next_below(10)));
            let demands = random_demands(&t, 3, &mut rng);
            searched += check(&t, &demands, 0.05).phases;
        }
    }
    assert!(searched > 100, "the even split was always enough: nothing was tested");
}

#[test]
fn a_tighter_certificate_is_kept_too() {
    let mut rng = RandomStream::new(3, "mcf");
    let intact = topology("leaf-spine:leaves=3,spines=3,hosts_per_leaf=2");
    let t = intact.with_links_changed(|_, link| link.rate = Bandwidth::from_gbps(1 + rng.next_below(10)));
    check(&t, &random_demands(&t, 4, &mut rng), 0.01);
}

#[test]
fn symmetric_networks_need_no_search() {
    let stride = |spec: &str| {
        let t = topology(spec);
        let hosts = t.hosts().len() as u32;
        let demand = |i: u32| Demand { src: HostIx(i), dst: HostIx((i + hosts / 2) % hosts), bps: 10e9 };
        max_concurrent(&t, &(0..hosts).map(demand).collect::<Vec<_>>(), 0.05)
    };
    for (spec, share) in [("fat-tree:k=8", 1.0), ("leaf-spine:leaves=4,spines=8,hosts_per_leaf=16", 0.5)] {
        let found = stride(spec);
        assert!((found.share - share).abs() < 1e-9 && (found.at_most - share).abs() < 1e-9, "{found:?}");
        assert_eq!(found.phases, 0);
    }
}

/// Each of two leaves has lost the uplink to another of four spines. The cuts promise three
/// quarters. But what leaves over the one spine cannot enter over it, so half is the maximum.
#[test]
fn cuts_promise_too_much_after_failures() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=4");
    let dead = [link(&t, "leaf0", "spine0"), link(&t, "leaf1", "spine1")];
    let broken = t.with_links_changed(|ix, link| {
        if dead.iter().any(|dead| ix == *dead || ix == dead.reverse()) {
            link.rate = Bandwidth::from_bps(1);
        }
    });
    let pairs: Vec<(HostIx, HostIx)> = (0..4).map(|i| (HostIx(i), HostIx(i + 4))).collect();
    let demands: Vec<Demand> = pairs.iter().map(|(src, dst)| Demand { src: *src, dst: *dst, bps: 10e9 }).collect();
    let found = check(&broken, &demands, 0.02);
    assert!(found.at_most < 0.52, "{found:?}");
    let cut = cuts::rates(&broken, &pairs, Capacity::Cut);
    assert!(cut.iter().all(|bps| (bps / 10e9 - 0.75).abs() < 1e-6), "{cut:?}");
}

#[test]
fn no_demand_has_no_bound() {
    let t = topology("diamond");
    let none =
        [Demand { src: HostIx(0), dst: HostIx(0), bps: 1.0 }, Demand { src: HostIx(0), dst: HostIx(1), bps: 0.0 }];
    assert_eq!(max_concurrent(&t, &none, 0.1).share, f64::INFINITY);
}
