//! Generated flow lists: load, streams, order, warnings.

use anabranch_traffic::{
    Arrivals, Flow, FlowList, Load, Pattern, Start, TrafficError, TrafficSpec, Warning, generate, parse_workload,
    write_csv,
};
use net::{Bandwidth, Time, Topology};

/// Four racks of four hosts at 10 Gb/s.
fn topology() -> Topology {
    net::spec::parse("leaf-spine:leaves=4,spines=1,hosts_per_leaf=4,fabric_rate=20Gbps").unwrap()
}

fn spec(workload: &str, pattern: &str, arrivals: &str) -> TrafficSpec {
    TrafficSpec {
        sizes: parse_workload(workload, &mut |_| Err("no files".to_owned())).unwrap(),
        pattern: Pattern::parse(pattern).unwrap(),
        arrivals: Arrivals::parse(arrivals).unwrap(),
        load: None,
        flows: None,
        until: None,
    }
}

fn loaded(fraction: f64, pattern: &str, arrivals: &str, flows: u32) -> TrafficSpec {
    TrafficSpec {
        load: Some(Load::of_host_links(fraction, &topology())),
        flows: Some(flows),
        ..spec("bimodal-f3", pattern, arrivals)
    }
}

fn make(spec: &TrafficSpec) -> FlowList {
    generate(&topology(), spec, 7).unwrap().0
}

fn start(flow: &Flow) -> Time {
    flow.start.time().unwrap_or_else(|| panic!("a flow with a time was expected, not {:?}", flow.start))
}

#[test]
fn the_offered_load_is_the_load_asked_for() {
    let capacity = 16.0 * 10e9;
    for (arrivals, tolerance) in [("poisson", 0.02), ("uniform", 0.02), ("log-normal:sigma=1", 0.03)] {
        for pattern in ["random-pairs", "stride", "incast:fan_in=5", "inter-rack"] {
            let list = make(&loaded(0.4, pattern, arrivals, 200_000));
            let offered = list.offered_bps(list.last_start()) / capacity;
            assert!((offered / 0.4 - 1.0).abs() < tolerance, "{arrivals} {pattern}: {offered}");
        }
    }
}

#[test]
fn load_references_use_their_own_capacity() {
    let topology = topology();
    assert_eq!(Load::of_host_links(0.5, &topology).capacity, Bandwidth::from_gbps(160));
    assert_eq!(Load::of_fabric_uplinks(0.5, &topology).capacity, Bandwidth::from_gbps(80));
    let mut spec = loaded(0.5, "inter-rack", "poisson", 10);
    spec.load = Some(Load::of_fabric_uplinks(0.5, &topology));
    assert_eq!(
        make(&spec).description,
        "10 flows: sizes bimodal-f3 (mean 24850 B), pattern inter-rack, arrivals poisson, load 0.5 of the fabric uplinks (80Gbps), seed 7"
    );
}

#[test]
fn changing_the_load_only_scales_the_gaps() {
    let light = make(&loaded(0.2, "random-pairs", "poisson", 5_000));
    let heavy = make(&loaded(0.8, "random-pairs", "poisson", 5_000));
    for (light, heavy) in light.flows.iter().zip(&heavy.flows) {
        assert_eq!((light.src, light.dst, light.size_bytes), (heavy.src, heavy.dst, heavy.size_bytes));
        assert!(start(light).as_ps().abs_diff(4 * start(heavy).as_ps()) <= 4);
    }
}

#[test]
fn each_stream_is_its_own() {
    let base = make(&loaded(0.5, "random-pairs", "poisson", 500));
    let other_sizes = TrafficSpec {
        sizes: spec("fixed:size=24850B", "stride", "poisson").sizes,
        ..loaded(0.5, "random-pairs", "poisson", 500)
    };
    let other_sizes = make(&other_sizes);
    let other_pairs = make(&loaded(0.5, "inter-rack", "poisson", 500));
    for (ix, flow) in base.flows.iter().enumerate() {
        let (a, b) = (other_sizes.flows[ix], other_pairs.flows[ix]);
        assert_eq!((flow.src, flow.dst), (a.src, a.dst));
        assert!(start(flow).as_ps().abs_diff(start(&a).as_ps()) <= 1);
        assert_eq!((flow.size_bytes, flow.start), (b.size_bytes, b.start));
    }
    let other_seed = generate(&topology(), &loaded(0.5, "random-pairs", "poisson", 500), 8);
    assert_ne!(other_seed.unwrap().0.flows, base.flows);
    assert_eq!(make(&loaded(0.5, "random-pairs", "poisson", 500)), base);
}

#[test]
fn poisson_gaps_are_exponential() {
    let list = make(&loaded(0.5, "random-pairs", "poisson", 100_000));
    let starts: Vec<f64> = list.flows.iter().map(|flow| start(flow).as_s_f64()).collect();
    let mean = 8.0 * 24_850.0 / (0.5 * 160e9);
    let longer = starts.windows(2).filter(|pair| pair[1] - pair[0] > mean).count();
    assert!((longer as f64 / 1e5 - (-1.0f64).exp()).abs() < 0.006);
}

#[test]
fn all_at_once_gives_one_flow_per_pair() {
    let list = make(&spec("fixed:size=1MB", "stride:step=3", "all-at-once"));
    assert_eq!(list.flows.len(), 16);
    assert!(list.flows.iter().all(|flow| start(flow) == Time::ZERO));
    let spaced = make(&spec("fixed:size=1MB", "all-to-all", "all-at-once:gap=1us"));
    assert_eq!(spaced.flows.len(), 240);
    assert_eq!(start(&spaced.flows[200]), Time::from_us(200));
    let twice = TrafficSpec { flows: Some(40), ..spec("fixed:size=1MB", "stride:step=3", "all-at-once") };
    let twice = make(&twice);
    assert_eq!((twice.flows.len(), twice.flows[16].src), (40, twice.flows[0].src));
}

#[test]
fn an_incast_is_a_group_starting_together() {
    let list = make(&loaded(0.5, "incast:fan_in=6,target=2", "poisson", 60));
    for (ix, event) in list.flows.chunks(6).enumerate() {
        assert!(event.iter().all(|flow| flow.dst.0 == 2 && flow.start == event[0].start));
        assert!(event.iter().all(|flow| flow.group == ix as u32 + 1));
    }
    let (list, warnings) = generate(&topology(), &loaded(0.5, "incast:fan_in=6", "poisson", 10), 1).unwrap();
    assert_eq!(list.flows.len(), 12);
    assert!(matches!(warnings[..], [Warning::OtherCount { asked: 10, made: 12, .. }]));
}

#[test]
fn a_shuffle_keeps_its_concurrency_by_triggers() {
    let list = make(&spec("fixed:size=1MB", "shuffle:concurrency=3", "all-at-once"));
    assert_eq!(list.flows.len(), 240);
    for (ix, flow) in list.flows.iter().enumerate() {
        match flow.start {
            Start::At(time) => assert!(ix % 15 < 3 && time == Time::ZERO),
            Start::After { flow: before, delay } => {
                assert_eq!((before as usize, delay), (ix - 3, Time::ZERO));
                assert_eq!(list.flows[before as usize].src, flow.src);
            }
            Start::AfterGroups { .. } | Start::AfterTasks => panic!("a shuffle has no barriers"),
        }
    }
    let error = generate(&topology(), &loaded(0.5, "shuffle", "poisson", 10), 1).unwrap_err();
    assert!(matches!(error, TrafficError::Triggered(_)));
}

#[test]
fn on_off_senders_are_merged_in_order() {
    for pattern in ["stride", "random-pairs", "one-to-n:n=4", "incast:fan_in=4"] {
        let spec = TrafficSpec { until: Some(Time::from_s(5)), ..spec("web-search", pattern, "on-off") };
        let list = make(&spec);
        assert!(list.flows.len() > 100, "{pattern}");
        assert!(list.flows.windows(2).all(|pair| start(&pair[0]) <= start(&pair[1])));
        assert!(list.flows.iter().all(|flow| flow.src != flow.dst && start(flow) < Time::from_s(5)));
    }
    // Half of the time ON, about 100 flows per second and sender, one more for each ON period.
    let long = TrafficSpec {
        until: Some(Time::from_s(200)),
        ..spec("web-search", "stride", "on-off:on_sigma=0.5,off_sigma=0.5,gap_sigma=0.5")
    };
    let per_sender_s = make(&long).flows.len() as f64 / 16.0 / 200.0;
    assert!((50.0..57.0).contains(&per_sender_s), "{per_sender_s}");
}

#[test]
fn the_end_time_excludes_later_flows() {
    let spec = TrafficSpec { flows: None, until: Some(Time::from_ms(2)), ..loaded(0.5, "random-pairs", "poisson", 1) };
    let list = make(&spec);
    assert!(list.last_start() < Time::from_ms(2));
    let expected = 2e-3 * 0.5 * 160e9 / (8.0 * 24_850.0);
    assert!((list.flows.len() as f64 / expected - 1.0).abs() < 0.1);
    let both = TrafficSpec { flows: Some(1_000_000), ..spec };
    let (same, warnings) = generate(&topology(), &both, 7).unwrap();
    assert_eq!(same.flows, list.flows);
    let text = warnings[0].to_string();
    assert!(text.starts_with("1000000 flows were asked for and "), "{text}");
    assert!(text.ends_with(" made: the end time came first"), "{text}");
}

#[test]
fn loads_at_and_above_one_are_warned_about() {
    for (fraction, warned) in [(0.99, false), (1.0, true), (1.5, true)] {
        let (_, warnings) = generate(&topology(), &loaded(fraction, "random-pairs", "poisson", 10), 1).unwrap();
        assert_eq!(matches!(warnings[..], [Warning::LoadAtLeastOne { .. }]), warned);
        assert_eq!(warnings.is_empty(), !warned);
    }
    let mut unused = spec("fixed:size=1B", "stride", "all-at-once");
    unused.load = Some(Load::of_bisection(0.5, Bandwidth::from_gbps(1)));
    let (_, warnings) = generate(&topology(), &unused, 1).unwrap();
    assert!(matches!(warnings[..], [Warning::LoadNotUsed { .. }]));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let fail = |spec: &TrafficSpec| generate(&topology(), spec, 1).unwrap_err();
    for fraction in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = fail(&loaded(fraction, "random-pairs", "poisson", 10));
        assert!(matches!(error, TrafficError::BadLoad(_)), "{error}");
    }
    let mut no_end = loaded(0.5, "random-pairs", "poisson", 10);
    no_end.flows = None;
    assert_eq!(fail(&no_end), TrafficError::NoEnd);
    let mut no_load = loaded(0.5, "random-pairs", "poisson", 10);
    no_load.load = None;
    assert!(matches!(fail(&no_load), TrafficError::LoadMissing(_)));
    let mut no_capacity = loaded(0.5, "random-pairs", "poisson", 10);
    no_capacity.load = Some(Load::of_bisection(0.5, Bandwidth::from_bps(0)));
    assert!(matches!(fail(&no_capacity), TrafficError::NoCapacity("bisection")));
    let endless = TrafficSpec { until: Some(Time::from_s(1)), ..spec("fixed:size=1B", "random-pairs", "all-at-once") };
    assert_eq!(fail(&endless), TrafficError::NoEnd);
    let slow = TrafficSpec {
        load: Some(Load::of_bisection(1e-12, Bandwidth::from_bps(1))),
        ..loaded(0.5, "random-pairs", "poisson", 10)
    };
    assert!(matches!(fail(&slow), TrafficError::TooLate(0)));
    let impossible = TrafficSpec { flows: Some(1), ..spec("fixed:size=1B", "stride:step=16", "all-at-once") };
    assert!(matches!(fail(&impossible), TrafficError::Pattern(_)));
}

/// A change of any draw changes every published result: change this test on purpose only.
#[test]
fn the_same_seed_gives_the_same_list_for_ever() {
    let list = make(&loaded(0.5, "random-pairs", "poisson", 4));
    assert_eq!(
        write_csv(&list).lines().collect::<Vec<_>>(),
        [
            "# description: 4 flows: sizes bimodal-f3 (mean 24850 B), pattern random-pairs, arrivals poisson, load 0.5 of the host links (160Gbps), seed 7",
            "id,src,dst,size_bytes,start_ps,after,group",
            "0,15,10,10000,776062,,0",
            "1,10,5,10000,5264896,,0",
            "2,6,2,10000,5346053,,0",
            "3,14,4,10000,5439276,,0",
        ]
    );
    let list = make(&TrafficSpec { flows: Some(4), ..spec("web-search", "one-to-n:n=2", "on-off") });
    assert_eq!(
        write_csv(&list).lines().collect::<Vec<_>>(),
        [
            "# description: 4 flows: sizes web-search (mean 1711250 B), pattern one-to-n:n=2, arrivals on-off:on=100ms,on_sigma=1,off=100ms,off_sigma=1,gap=10ms,gap_sigma=1, no set load, seed 7",
            "id,src,dst,size_bytes,start_ps,after,group",
            "0,3,6,67373,1033399162,,0",
            "1,15,9,135334,1310470844,,0",
            "2,15,1,141938,1377657079,,0",
            "3,6,4,9748081,1408068915,,0",
        ]
    );
}
