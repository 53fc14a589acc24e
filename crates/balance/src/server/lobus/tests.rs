use net::{Bandwidth, Time, TopologyBuilder};

use crate::central::LinkLoad;
use crate::central::testing::TestNetwork;
use crate::server::testing::{Bench, add_racks, server};
use crate::server::{Choice, MemberId, Pool};

/// A client and two servers, each behind a separate switch; rates in Mb/s, latencies in ms.
fn two_servers(spec: &str, cables: &[(usize, usize, u64, u64)]) -> Bench {
    let mut builder = TopologyBuilder::new("two servers");
    let switches = add_racks(&mut builder, ["s0", "s1", "s2", "s3"]);
    for (a, b, mbps, ms) in cables {
        builder.connect(switches[*a], switches[*b], Bandwidth::from_mbps(*mbps), Time::from_ms(*ms));
    }
    let network = TestNetwork::of(builder.build_partial().expect("the network is valid"));
    let pool = Pool::new([server(&network, 1, 1), server(&network, 2, 2)]);
    Bench::on(spec, network, pool)
}

const NEAR_AND_WIDE: [(usize, usize, u64, u64); 2] = [(0, 1, 10, 7), (0, 2, 60, 14)];

/// Two equal paths to the only server.
fn two_equal_paths() -> Bench {
    let cables = [(0, 3, 10, 1), (3, 1, 10, 1), (0, 2, 10, 1), (2, 1, 10, 1)];
    let mut bench = two_servers("lobus:size=100000", &cables);
    bench.change(2, |member| member.is_accepting = false);
    bench
}

/// Picks for a request that ends immediately.
fn alone(bench: &mut Bench, size: u64) -> u32 {
    bench.size = Some(size);
    let request = bench.request();
    let member = bench.pick_for(&request).expect("a server").member;
    bench.end(&request, member.0, size);
    member.0
}

#[test]
fn small_requests_go_near_and_large_ones_to_free_capacity() {
    let mut bench = two_servers("lobus", &NEAR_AND_WIDE);
    // 14 ms + size/10 Mb/s against 28 ms + size/60 Mb/s: equal at 168 kbit = 21 kB.
    assert_eq!([1_000, 20_900, 21_100, 1_000_000].map(|size| alone(&mut bench, size)), [1, 1, 2, 2]);
    // Half of the second return direction is used. Equal at 210 kbit = 26.25 kB.
    let back = bench.network.topology.out_links(bench.edge)[2].reverse();
    let half = LinkLoad { rate: Some(Bandwidth::from_mbps(30)), at: Time::ZERO };
    bench.network.load[back.ix()] = half;
    assert_eq!([26_000, 26_500].map(|size| alone(&mut bench, size)), [1, 2]);
    bench.network.load[back.ix()] = LinkLoad::default();
    bench.network.load[back.reverse().ix()] = half;
    assert_eq!(alone(&mut bench, 21_100), 2);
}

#[test]
fn waiting_counts_cores_connections_and_reported_times() {
    let mut bench = two_servers("lobus:gain=0.5", &[(0, 1, 100, 1), (0, 2, 100, 1)]);
    bench.size = Some(0);
    // Service 10 ms each: the first is idle; then 20 ms against 10.
    assert_eq!(bench.picks(2), [1, 2]);
    bench.report(1, |stats| stats.cores = Some(4));
    // 10 ms x (1 + n/4) against 10 ms x 2.
    assert_eq!(bench.picks(4), [1, 1, 1, 1], "12.5, 15, 17.5 and 20 ms, a tie with the second");
    // Averages of 40 and 40 stay; 40 and 20 are 30, with 5 of 4 connections 67.5 ms against 80.
    bench.report(1, |stats| stats.response = Some(Time::from_ms(40)));
    bench.report(2, |stats| stats.response = Some(Time::from_ms(40)));
    bench.report(1, |stats| stats.response = Some(Time::from_ms(20)));
    assert_eq!(bench.picks(3), [1, 1, 2], "67.5 and 75 ms, then 82.5");
}

#[test]
fn a_burst_spreads_over_paths_until_counters_show_it() {
    let mut bench = two_equal_paths();
    let via = |bench: &mut Bench| {
        let request = bench.request();
        let path = bench.pick_for(&request).and_then(|choice| choice.path).expect("a path");
        (request, bench.network.topology.link(path[0]).to)
    };
    let picked: Vec<_> = (0..4).map(|_| via(&mut bench)).collect();
    let (one, other) = (picked[0].1, picked[1].1);
    assert!(one != other && picked[2].1 == one && picked[3].1 == other);
    // The two on the first path end: it can take two more before the other path is used.
    bench.end(&picked[0].0, 1, 1);
    bench.end(&picked[2].0, 1, 1);
    assert_eq!([via(&mut bench).1, via(&mut bench).1], [one, one]);
    // Counters sampled since include everything: the first path is idle, the second half full.
    bench.wait(Time::from_s(1));
    for link in 0..bench.network.load.len() {
        let (from, to) = (bench.network.topology.links()[link].from, bench.network.topology.links()[link].to);
        let rate = if from == other || to == other { 5 } else { 0 };
        bench.network.load[link] = LinkLoad { rate: Some(Bandwidth::from_mbps(rate)), at: bench.network.now };
    }
    bench.wait(Time::from_ms(1));
    assert_eq!((0..3).map(|_| via(&mut bench).1).collect::<Vec<_>>(), [one, one, other]);
}

#[test]
fn disjoint_takes_idle_server_at_any_distance() {
    let placed_at_first = |spec: &str| {
        let mut bench = two_servers(spec, &[(0, 1, 100, 1), (0, 2, 100, 500)]);
        let request = bench.request();
        bench.balancer.on_placed(&request, &Choice { member: MemberId(1), path: None });
        bench
    };
    assert_eq!(placed_at_first("lobus").pick(), 1);
    assert_eq!(placed_at_first("lobus:choose=disjoint").pick(), 2);
}

#[test]
fn a_full_link_still_gives_a_hundredth() {
    let mut bench = two_servers("lobus:htp=available", &[(0, 1, 100, 1), (0, 2, 100, 1)]);
    for link in 0..bench.network.load.len() {
        let rate = bench.network.topology.links()[link].rate;
        bench.network.load[link] = LinkLoad { rate: Some(rate), at: Time::ZERO };
    }
    // 1 Mb/s each, so that costs stay finite and the wait decides.
    assert_eq!(bench.picks(2), [1, 2]);
}

#[test]
fn path_placed_elsewhere_counts_once_when_reported_repeatedly() {
    // One connection is reported thrice, as after a restart.
    let mut bench = two_equal_paths();
    let request = bench.request();
    let choice = bench.pick_for(&request).expect("a server");
    (0..3).for_each(|_| bench.balancer.on_placed(&request, &choice));
    let first = choice.path.expect("a path")[0];
    let mut next = || {
        let request = bench.request();
        bench.pick_for(&request).and_then(|choice| choice.path).expect("a path")[0]
    };
    assert!(next() != first, "the other route is empty");
    assert_eq!(next(), first, "one on each");
}

#[test]
fn expired_response_time_is_discarded() {
    let mut bench = two_servers("lobus", &[(0, 1, 100, 1), (0, 2, 100, 1)]);
    bench.report(1, |stats| stats.response = Some(Time::from_ms(500)));
    assert_eq!(alone(&mut bench, 0), 2, "500 ms against 10");
    bench.report(1, |stats| stats.response = None);
    assert_eq!(alone(&mut bench, 0), 1, "10 ms each");
}
