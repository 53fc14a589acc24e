//! The same policies over the outgoing links of a site (F4: a multi-uplink edge site).

use net::{Bandwidth, LinkIx, Time, TopologyBuilder};

use crate::central::LinkLoad;
use crate::central::testing::TestNetwork;
use crate::server::testing::{Bench, uplink};
use crate::server::{Member, MemberId, Pool};

/// A site of two switches, uplinks at the far switch (two) and the near, three providers.
fn site() -> (TestNetwork, [LinkIx; 3]) {
    let mut b = TopologyBuilder::new("site");
    let (inner, border) = (b.switch("inner", 1, None), b.switch("border", 1, None));
    let client = b.host("client", 0, None);
    let (rate, latency) = (Bandwidth::from_mbps(100), Time::from_ms(1));
    b.connect(client, inner, rate, Time::ZERO);
    b.connect(inner, border, rate, latency);
    let providers = [0, 1, 2].map(|number| b.switch(format!("provider-{number}"), 1, None));
    let mbps = Bandwidth::from_mbps;
    let uplinks = [
        b.connect(border, providers[0], mbps(10), latency),
        b.connect(border, providers[1], mbps(20), latency),
        b.connect(inner, providers[2], mbps(40), Time::from_ms(9)),
    ];
    b.connect(providers[0], providers[1], rate, latency);
    b.connect(providers[1], providers[2], rate, latency);
    (TestNetwork::of(b.build().expect("a network")), uplinks)
}

fn bench(spec: &str) -> (Bench, [LinkIx; 3]) {
    let (network, uplinks) = site();
    let weights = [1, 2, 4];
    let members = (1..).zip(uplinks).zip(weights).map(|((id, link), weight)| Member { weight, ..uplink(id, link) });
    let pool = Pool::new(members.collect::<Vec<_>>());
    (Bench::on(spec, network, pool), uplinks)
}

fn path(bench: &mut Bench) -> (u32, Vec<LinkIx>) {
    let request = bench.request();
    let choice = bench.pick_for(&request).expect("an uplink");
    (choice.member.0, choice.path.expect("a choice of an uplink has a path").to_vec())
}

#[test]
fn traffic_is_divided_and_every_path_ends_with_its_uplink() {
    let (mut bench, uplinks) = bench("server-wrr");
    let across = bench.network.topology.out_links(bench.edge)[1];
    let mut hits = [0; 3];
    for _ in 0..70 {
        let (member, path) = path(&mut bench);
        let number = member as usize - 1;
        hits[number] += 1;
        let expected: &[LinkIx] = if number == 2 { &[uplinks[2]] } else { &[across, uplinks[number]] };
        assert_eq!(path, expected, "not through another provider");
    }
    assert_eq!(hits, [10, 20, 40]);
}

#[test]
fn bytes_so_far_are_divided_by_the_speed_of_the_link() {
    let (mut bench, _) = bench("division-load");
    for (id, bytes) in [(1, 100), (2, 150), (3, 320)] {
        bench.report(id, |stats| stats.bytes = Some(bytes));
    }
    assert_eq!(path(&mut bench).0, 2, "100, 75 and 80 per unit of speed");
}

#[test]
fn joint_balancers_count_the_uplink_in() {
    let (mut latency, uplinks) = bench("sl-ps");
    assert_eq!(path(&mut latency).0, 1, "1 + 1 ms, a tie with the second");
    let (mut width, _) = bench("ht-ps");
    assert_eq!(path(&mut width), (3, vec![uplinks[2]]));
    width.network.load[uplinks[2].ix()] = LinkLoad { rate: Some(Bandwidth::from_mbps(25)), at: Time::ZERO };
    assert_eq!(path(&mut width).0, 2, "15 of 40 Mb/s are left");
}

#[test]
fn failed_or_unreachable_uplink_is_skipped() {
    let (mut bench, uplinks) = bench("server-rr");
    bench.network.set_cable(uplinks[1], false);
    assert_eq!(bench.picks(4), [1, 3, 1, 3]);
    let across = bench.network.topology.out_links(bench.edge)[1];
    bench.network.set_cable(across, false);
    // The first is still connected, but only through the other providers.
    assert_eq!(bench.picks(4), [3; 4]);
    bench.change(3, |member| member.is_accepting = false);
    let request = bench.request();
    assert_eq!(bench.pick_for(&request).map(|choice| choice.member), None::<MemberId>);
}
