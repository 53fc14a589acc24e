//! Properties of every bound, and known values.

use crate::common::{fabric_link, fault, flow, list, simulate, some_flows, topology};
use anabranch_sim::{FailureKind, FlowEnd, Outcome, SimConfig, StopRule};
use net::{HostIx, LinkIx, Time, Topology};
use traffic::{Flow, Start};

const BOUNDS: [&str; 6] = [
    "optimum",
    "optimum:capacity=hose",
    "optimum:order=srpt",
    "fastpass",
    "fastpass:order=srpt",
    "fastpass:request_delay=20us",
];

const TOPOLOGIES: [&str; 6] = [
    "fat-tree:k=4",
    "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,parallel=2",
    "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3",
    "bcube:n=4,k=1",
    "camcube:k=3",
    "flattened-butterfly:k=3,n=3",
];

/// Payload of a full packet of the default transport, and its time at 10 Gb/s.
const MSS: u64 = 1460;
const STEP: u64 = 1_200_000;

fn run(t: &Topology, flows: Vec<Flow>, bound: &str) -> Outcome {
    simulate(t, &list(flows), bound, 1, &SimConfig::default())
}

#[test]
fn the_registry_has_these_bounds_and_no_others() {
    let bounds = balance::registry::DATAPLANE.iter().filter(|entry| entry.is_bound());
    assert!(bounds.clone().count() > 0);
    bounds.for_each(|entry| assert!(BOUNDS.contains(&entry.example), "{} is not tested here", entry.name));
}

#[test]
fn everything_completes_no_sooner_than_alone() {
    for bound in BOUNDS {
        for spec in TOPOLOGIES {
            let t = topology(spec);
            let flows = some_flows(t.hosts().len() as u32, 120, 11, Time::from_us(300), 200_000);
            let o = simulate(&t, &flows, bound, 7, &SimConfig::default());
            assert_eq!((o.accounting.flows_started, o.accounting.flows_completed), (120, 120), "{bound} on {spec}");
            assert_eq!(o.accounting.packets_sent, 0, "{bound} on {spec}");
            for (f, flow) in o.flows.iter().zip(&flows.flows) {
                assert!(f.fct >= f.ideal && f.ideal > Time::ZERO, "{bound} on {spec}: {f:?}");
                assert_eq!(f.delivered_bytes, flow.size_bytes, "{bound} on {spec}");
            }
            assert!(o == simulate(&t, &flows, bound, 8, &SimConfig::default()), "{bound} on {spec}: a seed matters");
            assert!(o.end >= o.flows.iter().map(|f| f.started + f.fct).max().unwrap());
        }
    }
}

#[test]
fn alone_a_flow_takes_exactly_its_ideal() {
    for bound in ["optimum", "optimum:order=srpt", "fastpass", "fastpass:order=srpt"] {
        for spec in ["fat-tree:k=4", "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,fabric_rate=40Gbps", "dumbbell:n=2"]
        {
            let t = topology(spec);
            let last = t.hosts().len() as u32 - 1;
            for size in [1, 100, MSS, MSS + 1, 10_000, 12_345_678] {
                // Two in a row, far apart, at times that are no multiples of anything.
                let starts = [Time::from_ps(1_234_567), Time::from_ms(77)];
                let o = run(&t, starts.map(|at| flow(0, last, size, at)).to_vec(), bound);
                for f in &o.flows {
                    assert_eq!(f.fct, f.ideal, "{bound} on {spec}, {size} B");
                }
            }
        }
    }
    let o = run(&topology("fat-tree:k=4"), vec![flow(0, 9, 10_000, Time::ZERO)], "fastpass:request_delay=20us");
    assert_eq!(o.flows[0].fct, o.flows[0].ideal + Time::from_us(20));
}

#[test]
fn flows_of_one_sender_share_or_take_turns() {
    let t = topology("leaf-spine:leaves=4,spines=4,hosts_per_leaf=4");
    let packets = 1_000;
    let flows = || vec![flow(0, 4, packets * MSS, Time::ZERO), flow(0, 8, packets * MSS, Time::ZERO)];
    let extra = |bound: &str| -> Vec<u64> {
        let o = run(&t, flows(), bound);
        o.flows.iter().map(|f| (f.fct.as_ps() - f.ideal.as_ps()) / STEP).collect()
    };
    // Both at half rate: twice the time. In turns: the first is done a packet before the second.
    assert_eq!(extra("optimum"), [packets, packets]);
    assert_eq!(extra("optimum:order=srpt"), [0, packets]);
    assert_eq!(extra("fastpass"), [packets - 1, packets]);
    assert_eq!(extra("fastpass:order=srpt"), [0, packets]);
}

#[test]
fn incast_takes_all_bytes_over_the_receivers_link() {
    let t = topology("fat-tree:k=4");
    let (senders, packets) = (8, 50);
    let flows: Vec<Flow> = (0..senders).map(|i| flow(8 + i as u32, 0, packets * MSS, Time::ZERO)).collect();
    for bound in ["optimum", "optimum:order=srpt", "fastpass", "fastpass:order=srpt"] {
        let o = run(&t, flows.clone(), bound);
        let last = o.flows.iter().map(|f| f.fct.as_ps() - f.ideal.as_ps()).max().unwrap();
        assert_eq!(last, (senders - 1) * packets * STEP, "{bound}");
        let link = t.out_links(t.host(HostIx(0)))[0].reverse();
        assert_eq!(o.links[link.ix()].bytes, senders * packets * 1500, "{bound}");
    }
}

#[test]
fn permutations_run_at_the_rate_of_the_cut() {
    let packets = 2_000;
    let slowdown = |spec: &str, step: u32, bound: &str| {
        let t = topology(spec);
        let hosts = t.hosts().len() as u32;
        let flows = (0..hosts).map(|i| flow(i, (i + step) % hosts, packets * MSS, Time::ZERO)).collect();
        let o = run(&t, flows, bound);
        o.flows.iter().map(|f| (f.fct.as_ps() - f.ideal.as_ps()) as f64 / (packets * STEP) as f64).fold(0.0, f64::max)
    };
    for bound in ["optimum", "optimum:order=srpt", "fastpass", "fastpass:order=srpt"] {
        assert_eq!(slowdown("fat-tree:k=8", 64, bound), 0.0, "{bound}");
        // 2:1 oversubscribed: twice the time, to the packet.
        assert_eq!(slowdown("leaf-spine:leaves=4,spines=8,hosts_per_leaf=16", 32, bound), 1.0, "{bound}");
    }
    assert_eq!(slowdown("leaf-spine:leaves=4,spines=8,hosts_per_leaf=16", 32, "optimum:capacity=hose"), 0.0);
}

#[test]
fn triggers_the_stop_rule_and_gaps_are_kept() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=2");
    let after =
        |awaited, delay, size| Flow { start: Start::After { flow: awaited, delay }, ..flow(2, 0, size, Time::ZERO) };
    let flows = vec![
        flow(0, 2, 100_000, Time::from_us(5)),
        after(0, Time::from_us(7), 50_000),
        after(1, Time::ZERO, 1_000_000_000),
        after(2, Time::ZERO, 1),
    ];
    let stop = SimConfig { stop: StopRule { until: Some(Time::from_ms(100)) }, ..SimConfig::default() };
    for bound in BOUNDS {
        let o = simulate(&t, &list(flows.clone()), bound, 1, &stop);
        assert_eq!(o.flows[1].started, Time::from_us(5 + 7) + o.flows[0].fct, "{bound}");
        assert_eq!(o.flows[2].started, o.flows[1].started + o.flows[1].fct, "{bound}");
        assert_eq!(o.end, Time::from_ms(100));
        let running = &o.flows[2];
        assert_eq!((running.end, o.flows[3].end), (FlowEnd::Running, FlowEnd::NotStarted), "{bound}");
        assert_eq!(running.fct, o.end.saturating_sub(running.started));
        // All but the bytes in flight, at full rate since it started.
        let expected = (running.fct.as_ps() / STEP * MSS) as f64;
        assert!((running.delivered_bytes as f64 / expected - 1.0).abs() < 1e-3, "{bound}: {running:?}");
    }
}

fn failure(at_us: u64, until_us: Option<u64>, kind: FailureKind) -> SimConfig {
    SimConfig { failures: vec![fault(kind, at_us, until_us, 5_000)], ..SimConfig::default() }
}

#[test]
fn capacities_follow_failures_at_once() {
    let t = topology("leaf-spine:leaves=2,spines=1,hosts_per_leaf=2");
    let up = fabric_link(&t);
    let flows = list(vec![flow(0, 2, 2_000 * MSS, Time::ZERO)]);
    let extra_us = |bound: &str, config: &SimConfig| {
        let f = &simulate(&t, &flows, bound, 1, config).flows[0];
        assert_eq!(f.end, FlowEnd::Completed);
        (f.fct.as_ps() - f.ideal.as_ps()) as f64 / 1e6
    };
    for bound in BOUNDS {
        let base = if bound.contains("delay") { 20.0 } else { 0.0 };
        // 500 us of a cut cost 500 us; of a fifth of the rate, 400 us. A slot may be cut in two.
        let cut = failure(600, Some(1_100), FailureKind::LinkDown(up));
        let slow = failure(600, Some(1_100), FailureKind::LinkRate { link: up, fraction: 0.2 });
        let dead = failure(600, Some(1_100), FailureKind::SwitchDown(t.link(up).to));
        let silent = failure(600, None, FailureKind::RandomDrop { link: up, probability: 0.5 });
        if !bound.contains("hose") {
            assert!((extra_us(bound, &cut) - base - 500.0).abs() < 3.0, "{bound}: {}", extra_us(bound, &cut));
            assert!((extra_us(bound, &dead) - base - 500.0).abs() < 3.0, "{bound}: {}", extra_us(bound, &dead));
            assert!((extra_us(bound, &slow) - base - 400.0).abs() < 8.0, "{bound}: {}", extra_us(bound, &slow));
        }
        assert!((extra_us(bound, &silent) - base).abs() < 1e-6, "{bound}");
    }
}

#[test]
fn flow_cut_off_permanently_stays_running() {
    let t = topology("leaf-spine:leaves=2,spines=1,hosts_per_leaf=2");
    let host = t.out_links(t.host(HostIx(0)))[0];
    let flows = list(vec![flow(0, 2, 200 * MSS, Time::ZERO), flow(1, 3, 200 * MSS, Time::from_us(1))]);
    for bound in BOUNDS {
        let o = simulate(&t, &flows, bound, 1, &failure(100, None, FailureKind::LinkDown(host)));
        assert_eq!((o.flows[0].end, o.flows[1].end), (FlowEnd::Running, FlowEnd::Completed), "{bound}");
        assert!(o.flows[0].delivered_bytes > 0 && o.flows[0].delivered_bytes < 100 * MSS, "{bound}");
        assert_eq!((o.accounting.flows_running, o.accounting.flows_completed), (1, 1), "{bound}");
    }
}

#[test]
fn links_carry_what_flows_send() {
    for spec in ["fat-tree:k=4", "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3"] {
        let t = topology(spec);
        let flows = some_flows(t.hosts().len() as u32, 200, 3, Time::from_us(500), 100_000);
        let wire: u64 = flows.flows.iter().map(|f| f.size_bytes + f.size_bytes.div_ceil(MSS) * 40).sum();
        for bound in BOUNDS {
            let o = simulate(&t, &flows, bound, 1, &SimConfig::default());
            let at_hosts = |up: bool| -> u64 {
                let links = (0..t.links().len() as u32).map(LinkIx);
                links.filter(|l| t.is_host_link(*l) && t.is_upward(*l) == up).map(|l| o.links[l.ix()].bytes).sum()
            };
            assert_eq!((at_hosts(true), at_hosts(false)), (wire, wire), "{bound} on {spec}");
            let series: u64 = o.series.bytes.iter().sum();
            let fabric: u64 = o.series.links.iter().map(|l| o.links[*l as usize].bytes).sum();
            assert_eq!(series, fabric, "{bound} on {spec}");
            assert_eq!(fabric > 0, bound.starts_with("fastpass"), "{bound} on {spec}");
        }
    }
}

/// True of max-min fair rates: of equal flows that start together over equally long paths, the last
/// cannot end sooner (`optimum.rs`). So the test applies it to every balancer and to the arbiter.
#[test]
fn no_balancer_ends_a_batch_sooner_than_the_optimum() {
    for (spec, step) in [("fat-tree:k=4", 8), ("leaf-spine:leaves=4,spines=2,hosts_per_leaf=4", 8)] {
        let t = topology(spec);
        let hosts = t.hosts().len() as u32;
        // A permutation, and an incast on top of it.
        let pairs = (0..hosts).map(|i| (i, (i + step) % hosts)).chain((0..4).map(|i| (step + i, 0)));
        let flows = list(pairs.map(|(src, dst)| flow(src, dst, 300 * MSS, Time::ZERO)).collect());
        let last = |balancer: &str| {
            let o = simulate(&t, &flows, balancer, 3, &SimConfig::default());
            assert_eq!(o.accounting.flows_completed, flows.flows.len() as u64, "{balancer} on {spec}");
            o.flows.iter().map(|f| f.fct).max().unwrap()
        };
        let bound = last("optimum");
        for entry in balance::registry::DATAPLANE {
            assert!(last(entry.example) >= bound, "{} on {spec}: {} < {bound}", entry.name, last(entry.example));
        }
    }
}

/// True of the shortest remaining first on one bottleneck: no schedule has a smaller mean (Schrage
/// 1968). Sizes are whole packets, so store-and-forward shifts all flows alike.
#[test]
fn no_balancer_has_a_smaller_mean_on_one_bottleneck() {
    let t = topology("dumbbell:n=8");
    let mut rng = net::RandomStream::new(4, "batch");
    let flows = (0..400).map(|_| {
        let (src, dst) = (rng.next_below(8) as u32, 8 + rng.next_below(8) as u32);
        let packets = if rng.next_f64() < 0.8 { 1 + rng.next_below(10) } else { 1 + rng.next_below(300) };
        flow(src, dst, packets * MSS, Time::from_ps(rng.next_below(20_000_000_000)))
    });
    let flows = list(flows.collect());
    let mean = |balancer: &str| {
        let o = simulate(&t, &flows, balancer, 3, &SimConfig::default());
        assert_eq!(o.accounting.flows_completed, 400, "{balancer}");
        o.flows.iter().map(|f| f.fct.as_us_f64()).sum::<f64>() / 400.0
    };
    let bound = mean("optimum:order=srpt");
    for entry in balance::registry::DATAPLANE {
        assert!(mean(entry.example) >= bound, "{}: {} < {bound}", entry.name, mean(entry.example));
    }
    assert!(mean("fastpass:order=srpt") < 1.05 * bound);
}
