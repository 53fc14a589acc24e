use std::collections::BTreeMap;

use good_lp::{Expression, Solution, SolverModel, constraint, microlp, variable, variables};
use net::{LinkIx, RandomStream};

use super::commodities;
use super::fptas::{Commodity, max_flow};
use crate::central::common::{Dag, Ends, edges, ends, pairs};
use crate::central::testing::{DrivenBalancer, TestNetwork, least, mean};
use crate::central::{DecisionTrigger, FlowId, Pin};

/// The exact maximum multicommodity flow over shortest paths, by a linear program.
fn optimum(network: &TestNetwork, capacity: &[f64], commodities: &[Commodity]) -> f64 {
    let mut variables = variables!();
    let mut total = Expression::default();
    let mut load: BTreeMap<LinkIx, Expression> = BTreeMap::new();
    let mut zero_sums = Vec::new();
    let mut bounded = Vec::new();
    for Commodity { ends, demand } in commodities {
        let mut balance: BTreeMap<_, Expression> = BTreeMap::new();
        let (mut nodes, mut next) = (vec![ends.from], 0);
        while next < nodes.len() {
            for link in network.routes.next_hops(nodes[next], ends.to) {
                let flow = variables.add(variable().min(0.0));
                let far = network.topology.link(*link).to;
                *load.entry(*link).or_default() += flow;
                *balance.entry(nodes[next]).or_default() += flow;
                *balance.entry(far).or_default() -= flow;
                if !nodes.contains(&far) {
                    nodes.push(far);
                }
            }
            next += 1;
        }
        balance.remove(&network.routes.class_node(ends.to));
        let sent = balance.remove(&ends.from).unwrap_or_default();
        total += sent.clone();
        bounded.push((sent, *demand));
        zero_sums.extend(balance.into_values());
    }
    let mut model = variables.maximise(&total).using(microlp);
    for sum in zero_sums {
        model = model.with(constraint!(sum == 0.0));
    }
    for (sent, demand) in bounded {
        model = model.with(constraint!(sent <= demand));
    }
    for (link, load) in load {
        model = model.with(constraint!(load <= capacity[link.ix()]));
    }
    model.solve().expect("zero flow is feasible").eval(&total)
}

fn instance(network: &TestNetwork, rng: &mut RandomStream) -> (Vec<f64>, Vec<Commodity>) {
    let capacity = network.topology.links().iter().map(|_| 1.0 + rng.next_below(8) as f64).collect();
    let all: Vec<_> = pairs(&network.view()).collect();
    let commodities = (0..1 + rng.next_below(8)).map(|_| {
        let ends = all[rng.next_below(all.len() as u64) as usize];
        Commodity { ends, demand: 1.0 + rng.next_below(12) as f64 }
    });
    (capacity, commodities.collect())
}

#[test]
fn the_approximation_keeps_its_promise_on_200_instances() {
    let eps = 0.1;
    let worlds = ["fat-tree:k=4", "leaf-spine:leaves=4,spines=3,hosts_per_leaf=1", "geni-wan", "vl2:d0=2,d1=4,d2=4"];
    let worlds: Vec<TestNetwork> = worlds.into_iter().map(TestNetwork::new).collect();
    let mut worst = 1.0f64;
    for seed in 0..200 {
        let mut rng = RandomStream::new(seed, "instances");
        let network = &worlds[seed as usize % worlds.len()];
        let (capacity, commodities) = instance(network, &mut rng);
        let exact = optimum(network, &capacity, &commodities);
        let routed = max_flow(Dag::new(&network.view()), &capacity, &commodities, eps);
        let total: f64 = routed.iter().sum();
        assert!(routed.iter().zip(&commodities).all(|(routed, commodity)| *routed <= commodity.demand * (1.0 + 1e-9)));
        assert!(total <= exact * (1.0 + 1e-6), "seed {seed}: {total} is more than {exact}, which is possible");
        assert!(total >= (1.0 - 3.0 * eps) * exact, "seed {seed}: {total} of {exact}");
        worst = worst.min(total / exact);
    }
    assert!(worst < 1.0 - 1e-4, "an approximation that is always exact was not tested: {worst}");
}

#[test]
fn empty_commodities_and_zero_capacity_give_zero_flow() {
    let network = TestNetwork::new("fat-tree:k=4");
    let view = network.view();
    let links = network.topology.links().len();
    assert!(max_flow(Dag::new(&view), &vec![1.0; links], &[], 0.1).is_empty());
    let commodity = Commodity { ends: pairs(&view).next().unwrap(), demand: 1.0 };
    assert_eq!(max_flow(Dag::new(&view), &vec![0.0; links], &[commodity], 0.1), [0.0]);
}

type Traffic = fn(&mut TestNetwork, &mut RandomStream) -> Vec<FlowId>;

const STRIDE: Traffic = |network, _| network.half_stride();
const BIJECTION: Traffic = |network, rng| network.bijection(rng);

/// Returns the mean and minimum fluid share over seeds, after one computation for all flows.
fn placed(parameters: &str, family: &str, traffic: Traffic, seeds: u64) -> (f64, f64) {
    let (mut means, mut leasts) = (Vec::new(), Vec::new());
    for seed in 0..seeds {
        let mut driven = DrivenBalancer::new(&format!("ofpt:{parameters}"), seed, family);
        let flows = traffic(&mut driven.network, &mut RandomStream::new(seed, "traffic"));
        driven.period();
        assert_eq!(driven.placements.pins().len(), between_switches(&driven.network, &flows).len());
        let rates = driven.rates(&flows, seed);
        means.push(mean(&rates));
        leasts.push(least(&rates));
    }
    (mean(&means), least(&leasts))
}

/// Returns the ends of the flows between different switches.
fn between_switches(network: &TestNetwork, flows: &[FlowId]) -> Vec<Ends> {
    flows.iter().filter_map(|flow| ends(&network.view(), network.flows.get(*flow)?)).collect()
}

const K8: &str = "fat-tree:k=8,host_rate=1Mbps,fabric_rate=2Mbps";
const K8_EQUAL: &str = "fat-tree:k=8,host_rate=1Mbps,fabric_rate=1Mbps";
const K4: &str = "fat-tree:k=4,host_rate=1Mbps,fabric_rate=1Mbps";

/// The table of mechanisms.md P10.1, stride(N/2): every flow gets its full demand.
#[test]
fn stride_gets_full_demand() {
    for (family, parameters) in
        [(K8, ""), (K8, "max_paths=8"), (K8, "max_paths=8,paths=spread"), (K8_EQUAL, ""), (K4, "")]
    {
        let (mean, least) = placed(parameters, family, STRIDE, 10);
        assert!(mean > 0.9999 && least > 0.9999, "{family} {parameters}: {mean} {least}");
    }
}

/// The same table, random bijections. The measured values match the published ones or are slightly
/// better (0.89 for 0.87, 0.99 for 0.956, 0.82 for 0.77 without repair): the order of pairs with
/// equal remaining times is not published, nor is that of repair.
#[test]
fn bijections_come_out_at_least_as_published() {
    for (family, parameters, expected) in [
        (K8, "", 1.0),
        (K8, "max_paths=8,paths=spread", 0.999),
        (K8, "max_paths=8", 0.956),
        (K8_EQUAL, "", 0.87),
        (K8_EQUAL, "repair=0", 0.77),
        (K4, "", 0.94),
        (K4, "repair=0", 0.84),
    ] {
        let (mean, _) = placed(parameters, family, BIJECTION, 20);
        assert!(mean > expected - 0.02, "{family} {parameters}: {mean}, expected {expected}");
    }
}

#[test]
fn the_printed_batch_overfills_paths() {
    for (family, expected) in [(K8, 0.69), (K4, 0.75)] {
        let (mean, _) = placed("batch=printed,repair=0", family, STRIDE, 10);
        assert!((mean - expected).abs() < 0.03, "{family}: {mean}, expected {expected}");
    }
}

#[test]
fn whole_flows_stay_close_to_the_fractional_bound() {
    let mut gaps = Vec::new();
    for seed in 0..20 {
        let mut driven = DrivenBalancer::new("ofpt", seed, K4);
        let flows = BIJECTION(&mut driven.network, &mut RandomStream::new(seed, "traffic"));
        driven.period();
        let between = between_switches(&driven.network, &flows);
        let inside = flows.len() - between.len();
        let whole: f64 = driven.rates(&flows, seed).iter().sum::<f64>() - inside as f64;
        let commodities = commodities(between.into_iter().map(|ends| (ends, 1.0)));
        let bound = optimum(&driven.network, &vec![1.0; driven.network.topology.links().len()], &commodities);
        assert!(whole <= bound + 1e-6);
        gaps.push(whole / bound);
    }
    // 0.88 when written: the table's 0.94 without flows that have no choice of paths.
    assert!(mean(&gaps) > 0.85, "{gaps:?}");
}

/// Returns the time at which all flows of the given sizes (Mb) have ended, on two 100 Mb/s paths,
/// one after the other, shortest first.
fn makespan(on_path: &[usize], sizes: &[f64]) -> f64 {
    let of = |path| sizes.iter().zip(on_path).filter(|(_, on)| **on == path).map(|(size, _)| size / 100.0).sum::<f64>();
    of(0).max(of(1))
}

/// experiments.md E2.0: four flows of 20, 80, 60, 40 Mb over two paths.
#[test]
fn the_motivating_example() {
    let sizes = [20.0, 80.0, 60.0, 40.0];
    assert_eq!(makespan(&[0, 0, 0, 0], &sizes), 2.0);
    assert!((makespan(&[0, 1, 0, 1], &sizes) - 1.2).abs() < 1e-9, "the split of the figure");
    assert_eq!(makespan(&[0, 0, 1, 1], &sizes), 1.0);
    let mut spans = Vec::new();
    for seed in 0..40 {
        let mut driven = DrivenBalancer::new("ofpt", seed, "diamond");
        let flows = sizes.map(|_| driven.network.flow(0, 1, None));
        for (flow, size) in flows.iter().zip(sizes) {
            driven.network.flows.get_mut(*flow).unwrap().size = Some((size * 1e6 / 8.0) as u64);
        }
        driven.period();
        let first = |flow: &FlowId| driven.pinned(*flow)[0];
        let on_path: Vec<usize> = flows.iter().map(|flow| usize::from(first(flow) != first(&flows[0]))).collect();
        assert_eq!(on_path.iter().sum::<usize>(), 2, "two flows on each path");
        assert_ne!(on_path[0], on_path[3], "the two shortest come first, and go apart");
        spans.push(makespan(&on_path, &sizes));
    }
    // The rest is a tie between equal paths: 1.0 or 1.2 s.
    assert!((least(&spans) - 1.0).abs() < 1e-9 && spans.iter().all(|span| *span < 1.21), "{spans:?}");
}

/// Flows with these sizes in Mb over two paths of 100 Mb/s, unknown to the balancer so far.
fn sized(driven: &mut DrivenBalancer, sizes: &[u64]) -> Vec<FlowId> {
    let flow = |size: &u64| {
        let flow = driven.network.flow(0, 1, None);
        driven.network.flows.get_mut(flow).unwrap().size = Some(size * 1_000_000 / 8);
        flow
    };
    sizes.iter().map(flow).collect()
}

/// F2's algorithms 2 and 3: of flows that start together the shortest is placed first, and its rules
/// are sent first.
#[test]
fn shortest_of_the_flows_that_start_together_comes_first() {
    for seed in 0..20 {
        let mut driven = DrivenBalancer::new("ofpt:order=mrtf", seed, "diamond");
        let flows = sized(&mut driven, &[20, 80, 60, 40]);
        driven.decide(DecisionTrigger::FlowStarted(flows[1]));
        let changes = driven.placements.take_changes();
        assert_eq!(changes.order, [0, 3, 2, 1].map(|at| flows[at]));
        assert_ne!(driven.pinned(flows[0]), driven.pinned(flows[3]), "the two shortest go apart");
        flows.iter().for_each(|flow| driven.decide(DecisionTrigger::FlowStarted(*flow)));
        assert!(driven.placements.take_changes().order.is_empty(), "they have their places");
    }
}

#[test]
fn moved_flows_come_longest_first_and_new_ones_after_them() {
    for (order, expected) in [("mrtf", vec![1, 2, 0, 5, 4, 3]), ("number", (0..6).collect()), ("none", Vec::new())] {
        let mut driven = DrivenBalancer::new(&format!("ofpt:adopt=always,order={order}"), 1, "diamond");
        let flows = sized(&mut driven, &[20, 80, 60, 90, 40, 10]);
        let path = driven.network.routes.path(
            &driven.network.topology,
            between_switches(&driven.network, &flows)[0].from,
            between_switches(&driven.network, &flows)[0].to,
            0,
        );
        for flow in &flows[..3] {
            driven.placements.pin(*flow, Pin { path: path.clone().into(), rate: None });
        }
        driven.placements.take_changes();
        driven.period();
        let changes = driven.placements.take_changes();
        assert_eq!(changes.order, expected.into_iter().map(|at: usize| flows[at]).collect::<Vec<_>>(), "{order}");
        assert_eq!(driven.placements.pins().len(), 6);
    }
}

#[test]
fn flows_are_placed_as_they_start_and_leave_room_as_they_end() {
    let mut driven = DrivenBalancer::new("ofpt", 1, K4);
    let mut flows: Vec<FlowId> = (0..16).map(|host| driven.start(host, (host + 8) % 16, 0)).collect();
    let rates = driven.rates(&flows, 1);
    assert!(least(&rates) > 0.999, "{rates:?}");
    // The same pairs again use the room of those that end.
    for flow in &mut flows {
        let info = *driven.network.flows.get(*flow).unwrap();
        driven.end(*flow);
        *flow = driven.start(info.src.0, info.dst.0, 0);
    }
    assert_eq!(driven.placements.pins().len(), 16);
    assert!(least(&driven.rates(&flows, 1)) > 0.999);
    let pins = driven.placements.pins().clone();
    driven.placements.take_changes();
    driven.period();
    assert_eq!(driven.placements.pins(), &pins, "nothing is too full, so nothing moves");
    assert!(driven.placements.take_changes().pins.is_empty());
}

#[test]
fn background_traffic_is_avoided() {
    let mut driven = DrivenBalancer::new("ofpt", 1, "diamond");
    let flow = driven.network.flow(0, 1, None);
    let ends = between_switches(&driven.network, &[flow])[0];
    let busy = driven.network.routes.path(&driven.network.topology, ends.from, ends.to, 0);
    for link in &busy {
        driven.network.load[link.ix()].rate = Some(net::Bandwidth::from_mbps(50));
    }
    driven.period();
    assert_ne!(driven.pinned(flow)[..], busy[..]);
}

#[test]
fn rates_are_set_with_provision() {
    for provision in ["fair", "fractional"] {
        let family = "leaf-spine:leaves=2,spines=1,hosts_per_leaf=2,host_rate=1Gbps,fabric_rate=1Gbps";
        let mut driven = DrivenBalancer::new(&format!("ofpt:provision={provision}"), 1, family);
        let flows = [(0, 2), (1, 3)].map(|(src, dst)| driven.network.flow(src, dst, None));
        driven.period();
        for flow in flows {
            let rate = driven.placements.pin_of(flow).unwrap().rate.unwrap().as_bps_f64();
            let bounds = if provision == "fair" { 0.499e9..0.501e9 } else { 0.35e9..0.501e9 };
            assert!(bounds.contains(&rate), "{provision}: {rate}");
        }
    }
}

#[test]
fn short_flows_have_one_path_per_pair() {
    let driven = DrivenBalancer::new("ofpt", 1, "fat-tree:k=4");
    assert_eq!(driven.placements.report_threshold_bytes(), 100_000);
    let TestNetwork { topology, routes, .. } = &driven.network;
    let view = driven.network.view();
    for (from, own) in edges(&view) {
        for (node, to) in edges(&view).filter(|(_, to)| *to != own) {
            let paths = &driven.placements.splits()[&(from, node)];
            let rank = (own.0 + to.0) % routes.path_count(from, to);
            assert_eq!(paths.len(), 1);
            assert_eq!(paths[0].path[..], routes.path(topology, from, to, rank)[..]);
        }
    }
}

#[test]
fn repair_skips_overload_it_cannot_reduce() {
    // Ten flows per host, each with the demand of the whole host link: all links are overloaded.
    let overload: Traffic = |network, rng| {
        let hosts = (0..16).flat_map(|host| [host; 10]);
        hosts.map(|host| network.flow(host, (host + 1 + rng.next_below(15) as u32) % 16, None)).collect()
    };
    let pins = |traffic: Traffic, repair: &str| {
        let mut driven = DrivenBalancer::new(&format!("ofpt:repair={repair}"), 1, K4);
        traffic(&mut driven.network, &mut RandomStream::new(1, "traffic"));
        driven.period();
        driven.placements.pins().clone()
    };
    assert_eq!(pins(overload, "5"), pins(overload, "0"));
    // One flow per host leaves room on links for others.
    assert_ne!(pins(BIJECTION, "5"), pins(BIJECTION, "0"));
}
