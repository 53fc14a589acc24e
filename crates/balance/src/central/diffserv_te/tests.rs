use net::{Topology, TopologyBuilder};
use proptest::prelude::*;

use super::*;
use crate::central::testing::{DrivenBalancer, TestNetwork};

fn lsp(class: usize, priority: usize, bandwidth: f64, links: &[usize]) -> Lsp {
    Lsp { class, setup: priority, hold: priority, bandwidth, links: links.to_vec() }
}

/// One link of 155 with the constraints of the RFCs' appendices: BC0 = 155, BC1 = 90, BC2 = 45
/// (RDM); 35, 65, 55 (MAM; chosen so that all constraints together are the link).
fn link(model: Model) -> Reservations {
    let shares: &[f64] = match model {
        Model::RussianDolls => &[1.0, 90.0 / 155.0, 45.0 / 155.0],
        Model::MaximumAllocation => &[35.0 / 155.0, 65.0 / 155.0, 55.0 / 155.0],
    };
    Reservations::new(model, shares, vec![155.0])
}

fn unreserved(reservations: &Reservations, priority: usize) -> [f64; 3] {
    [0, 1, 2].map(|class| (reservations.unreserved(0, class, priority) * 1e6).round() / 1e6)
}

#[test]
fn russian_dolls_share_what_higher_classes_leave() {
    let mut link = link(Model::RussianDolls);
    assert_eq!(unreserved(&link, 7), [155.0, 90.0, 45.0]);
    link.establish(lsp(2, 0, 30.0, &[0]));
    // CT2 counts against all three.
    assert_eq!(unreserved(&link, 7), [125.0, 60.0, 15.0]);
    link.establish(lsp(0, 7, 100.0, &[0]));
    // CT0 counts against the largest doll only, which limits CT1 to 25.
    assert_eq!(unreserved(&link, 7), [25.0, 25.0, 15.0]);
    // At priority 0 the reservation of CT0 could be preempted.
    assert_eq!(unreserved(&link, 0), [125.0, 60.0, 15.0]);
}

#[test]
fn maximum_allocation_isolates_classes() {
    let mut link = link(Model::MaximumAllocation);
    assert_eq!(unreserved(&link, 7), [35.0, 65.0, 55.0]);
    link.establish(lsp(2, 0, 30.0, &[0]));
    assert_eq!(unreserved(&link, 7), [35.0, 65.0, 25.0], "no other class is affected");
    // With constraints that add up to more than the link, the link limits all together.
    let mut over = Reservations::new(Model::MaximumAllocation, &[0.8, 0.8], vec![100.0]);
    over.establish(lsp(0, 7, 70.0, &[0]));
    let left = [0, 1].map(|class| over.unreserved(0, class, 7).round());
    assert_eq!(left, [10.0, 30.0]);
}

#[test]
fn the_least_important_and_latest_is_preempted_and_no_more_than_needed() {
    let mut links = Reservations::new(Model::RussianDolls, &[1.0, 0.6], vec![10.0, 10.0]);
    let (first, _) = links.establish(lsp(0, 7, 4.0, &[0, 1]));
    let (second, _) = links.establish(lsp(0, 7, 4.0, &[0]));
    let (_, preempted) = links.establish(lsp(1, 6, 5.0, &[0]));
    assert_eq!(preempted.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [second]);
    assert!(links.are_within_bounds());
    let (_, preempted) = links.establish(lsp(1, 6, 1.0, &[0]));
    assert!(preempted.is_empty(), "5 + 1 + 4 fit");
    assert!(!links.fits(0, 1, 6, 0.5), "BC1 is 6");
    assert!(links.release(first).is_some() && links.release(first).is_none());
}

proptest! {
    /// Any sequence of LSPs that fit leaves every constraint of every link intact, and preempts
    /// only less important LSPs.
    #[test]
    fn no_link_is_reserved_beyond_a_constraint(
        is_mam in any::<bool>(),
        shares in prop::collection::vec(0.1f64..1.0, 1..4),
        wanted in prop::collection::vec((0usize..4, 0usize..8, 0.1f64..6.0, 1u8..8, any::<bool>()), 1..60),
    ) {
        let mut shares = shares;
        let model = if is_mam { Model::MaximumAllocation } else { Model::RussianDolls };
        shares[0] = 1.0;
        let mut links = Reservations::new(model, &shares, vec![10.0, 7.0, 5.0]);
        let mut known: BTreeMap<usize, Lsp> = BTreeMap::new();
        for (class, priority, bandwidth, mask, is_release) in wanted {
            if is_release && let Some((number, _)) = known.pop_first() {
                prop_assert!(links.release(number).is_some());
            }
            let path: Vec<usize> = (0..3).filter(|link| mask >> link & 1 == 1).collect();
            if path.iter().all(|link| links.fits(*link, class, priority, bandwidth)) {
                let lsp = lsp(class, priority, bandwidth, &path);
                let (number, preempted) = links.establish(lsp.clone());
                for (victim, lost) in preempted {
                    prop_assert!(lost.hold > priority);
                    prop_assert_eq!(known.remove(&victim), Some(lost));
                }
                known.insert(number, lsp);
            }
            prop_assert!(links.are_within_bounds());
            // The sums from scratch, by class: MAM by class, Russian dolls from a class upwards.
            for (link, capacity) in [10.0, 7.0, 5.0].into_iter().enumerate() {
                for (class, share) in shares.iter().enumerate() {
                    let counts = |lsp: &&Lsp| lsp.links.contains(&link) && if is_mam { lsp.class == class } else { lsp.class >= class };
                    let sum: f64 = known.values().filter(counts).map(|lsp| lsp.bandwidth).sum();
                    prop_assert!(sum <= share * capacity + 1e-6, "{sum} of {share} of {capacity}");
                }
                let all: f64 = known.values().filter(|lsp| lsp.links.contains(&link)).map(|lsp| lsp.bandwidth).sum();
                prop_assert!(all <= capacity + 1e-6);
            }
        }
    }
}

#[test]
fn classes_are_those_of_the_longest_prefix() {
    let table: ClassTable = "10.0.0.0/8=1;10.0.1.0/24=3;default=0".parse().expect("a table");
    let class = |src: [u8; 4], dst: [u8; 4]| {
        table.of(&net::FiveTuple { src: src.into(), dst: dst.into(), protocol: 6, src_port: 1, dst_port: 2 })
    };
    assert_eq!(class([10, 0, 1, 7], [192, 168, 0, 1]), 3);
    assert_eq!(class([10, 2, 0, 1], [10, 0, 1, 7]), 1, "the sender decides");
    assert_eq!(class([192, 168, 0, 1], [10, 0, 1, 7]), 3, "else the receiver");
    assert_eq!(class([192, 168, 0, 1], [192, 168, 0, 2]), 0);
    for wrong in ["10.0.0.1/24=1", "10.0.0.0/24=8", "10.0.0.0/33=1", "x=1", "10.0.0.0/24", "10.0.0.0/8=1;10.0.0.0/8=2"]
    {
        assert!(wrong.parse::<ClassTable>().is_err(), "{wrong}");
    }
}

/// Two switches, over a direct link of 10 Gb/s and a way of two links of 10 Gb/s.
fn diamond() -> Topology {
    let mut builder = TopologyBuilder::new("two ways");
    let [a, b, c] = ["a", "b", "c"].map(|name| builder.switch(name, 1, None));
    for (host, switch) in [(0, a), (1, a), (2, b), (3, b)] {
        let host = builder.host(format!("h{host}"), host, None);
        builder.connect(host, switch, Bandwidth::from_gbps(40), Time::from_us(1));
    }
    for (from, to) in [(a, b), (a, c), (c, b)] {
        builder.connect(from, to, Bandwidth::from_gbps(10), Time::from_us(1));
    }
    builder.build().expect("a network")
}

/// The sender of class 1 is host 0. Returns the hops and the limit of both flows after each period.
fn run(spec: &str, rates: &[(u64, u64)]) -> Vec<[(usize, f64); 2]> {
    let high = net::address::host_ipv4(net::HostIx(0));
    let mut driven =
        DrivenBalancer::on(&format!("{spec},classes={high}/32=1;default=0"), 1, TestNetwork::of(diamond()));
    let flows = [driven.start(0, 2, 0), driven.start(1, 3, 0)];
    rates
        .iter()
        .map(|(high, low)| {
            driven.network.now += Time::from_s(5);
            for (flow, gigabits) in flows.iter().zip([high, low]) {
                driven.network.flows.get_mut(*flow).expect("a flow").bytes += gigabits * 5 * 1_000_000_000 / 8;
            }
            driven.period();
            flows.map(|flow| {
                let pin = driven.placements.pin_of(flow);
                pin.map_or((0, 0.0), |pin| (pin.path.len(), pin.rate.expect("a limit").as_bps_f64() / 1e9))
            })
        })
        .collect()
}

#[test]
fn a_higher_class_takes_the_short_path_and_a_lower_one_what_is_left() {
    // 6 and 4 Gb/s want 9 and 6: the first fills most of the direct link, the second goes around.
    assert_eq!(run("diffserv-te:period=5s", &[(6, 4)]), [[(1, 9.0), (2, 6.0)]]);
    // The low class is first on the direct link, and is preempted.
    let periods = run("diffserv-te:period=5s", &[(0, 6), (6, 6)]);
    assert_eq!(periods[0], [(0, 0.0), (1, 9.0)]);
    assert_eq!(periods[1], [(1, 9.0), (2, 9.0)]);
    let periods = run("diffserv-te:period=5s,preemption=off", &[(1, 6), (6, 6)]);
    assert_eq!(periods[1][1], (1, 9.0), "without preemption it stays");
}

#[test]
fn constraints_limit_a_class_although_the_link_is_empty() {
    // BC1 is 30 % of 10 Gb/s: no path takes 9 Gb/s of class 1, so it reserves 3.
    let periods = run("diffserv-te:period=5s,constraints=100;30", &[(6, 4)]);
    assert_eq!(periods[0][0], (1, 3.0));
    let periods = run("diffserv-te:period=5s,model=mam,constraints=50;30", &[(6, 4)]);
    assert_eq!(periods[0], [(1, 3.0), (1, 5.0)]);
}
