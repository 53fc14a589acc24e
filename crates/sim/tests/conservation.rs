//! Every loss has a counted cause in any scenario, and packets cause no allocation.

#![allow(unsafe_code, reason = "a counting allocator cannot be written without")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anabranch_sim::conformance::is_refused;
use anabranch_sim::{
    Annulus, Boot, ControlConfig, Cubic, Dctcp, Failure, FailureKind, FlowEnd, HashSeeds, HostConfig, HostScheduler,
    Marking, NewReno, Outcome, QueueConfig, QueueLimit, RdmaRecovery, Resequencing, ResequencingBounds, Scenario,
    SimConfig, SimError, Spray, StopRule, TransportConfig, TransportKind, UdpRate, run_controlled,
};
use balance::central::AgentCommand;
use balance::{Lossless, Spec};
use common::static_plane::{Kind, StaticPlane};
use common::{all_transports, fault, flow, list, simulate, simulate_on, some_flows, topology, try_simulate, with};
use net::{Bandwidth, LinkIx, NodeIx, Time, Topology};
use proptest::prelude::*;
use traffic::FlowList;

struct Counting;

thread_local! {
    /// Counts this thread only: the other tests of this binary allocate meanwhile.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn is_controllable(transport: &TransportConfig) -> bool {
    !matches!(transport.kind, TransportKind::Annulus(_))
}

fn transports() -> impl Strategy<Value = TransportConfig> {
    let kind = prop_oneof![
        Just(TransportKind::NewReno(NewReno)),
        Just(TransportKind::Dctcp(Dctcp { gain: 0.0625 })),
        Just(TransportKind::Udp(UdpRate::Constant(Bandwidth::from_gbps(3)))),
        any::<bool>().prop_map(|has_hystart| TransportKind::Cubic(Cubic { has_hystart })),
        Just(TransportConfig::spray().kind),
        (1u64..200, 1u32..40).prop_map(|(us, packets)| TransportKind::Spray(Spray {
            target_delay: Some(Time::from_us(us)),
            reorder_packets: Some(packets),
            packet_timeout: Some(Time::from_us(us)),
        })),
        Just(TransportConfig::rdma(RdmaRecovery::GoBackN).kind),
        Just(TransportConfig::rdma(RdmaRecovery::Selective).kind),
        // Each leaf is a site, whose uplinks send feedback.
        Just(TransportKind::Annulus(Annulus { local_delay: Time::from_ns(900), ..Annulus::default() })),
    ];
    let flags = (any::<bool>(), any::<bool>());
    (kind, 1u32..4, 1u32..30, flags, prop_oneof![Just(None), (1u32..300).prop_map(Some)]).prop_map(
        |(kind, ack_every, initial_window_packets, (handshake, sack), max_window_packets)| TransportConfig {
            kind,
            sack,
            ack_every,
            initial_window_packets,
            handshake,
            max_window_packets,
            min_rto: Time::from_us(400),
            ..TransportConfig::default()
        },
    )
}

fn switches() -> impl Strategy<Value = QueueConfig> {
    let limit = prop_oneof![(1u32..40).prop_map(QueueLimit::Packets), (1_500u64..90_000).prop_map(QueueLimit::Bytes)];
    let marking = prop_oneof![
        Just(Marking::Off),
        Just(Marking::Step(QueueLimit::Packets(5))),
        Just(Marking::Ramp { min_bytes: 5_000, max_bytes: 20_000, max_probability: 0.3 }),
    ];
    let lossless = prop_oneof![
        3 => Just(None),
        1 => (1u8..=8, 3_000u32..40_000).prop_map(|(priorities, pause_above_bytes)| Some(Lossless {
            priorities,
            pause_above_bytes,
            resume_below_bytes: pause_above_bytes / 2,
        })),
    ];
    (limit, marking, lossless).prop_map(|(limit, marking, lossless)| QueueConfig {
        limit,
        marking,
        lossless,
        ..QueueConfig::default()
    })
}

fn resequencing() -> impl Strategy<Value = Resequencing> {
    prop_oneof![
        Just(Resequencing::Off),
        Just(Resequencing::Auto),
        (1u64..200, 1u32..50).prop_map(|(us, packets)| Resequencing::On(ResequencingBounds {
            timeout: Some(Time::from_us(us)),
            packets: Some(packets),
        })),
    ]
}

fn failures_of(kind: impl Strategy<Value = FailureKind>, most: usize) -> impl Strategy<Value = Vec<Failure>> {
    let failure = (kind, 0u64..500, 1u64..2_000, 0u64..300)
        .prop_map(|(kind, at, lasts, detection)| fault(kind, at, Some(at + lasts), detection));
    proptest::collection::vec(failure, 0..=most)
}

fn failures() -> impl Strategy<Value = Vec<Failure>> {
    let kind = prop_oneof![
        (0u32..30).prop_map(|l| FailureKind::LinkDown(LinkIx(l))),
        (0u32..30, 0.05f64..1.0).prop_map(|(l, fraction)| FailureKind::LinkRate { link: LinkIx(l), fraction }),
        (0u32..30, 0.0f64..0.3).prop_map(|(l, probability)| FailureKind::RandomDrop { link: LinkIx(l), probability }),
        (0u32..10, 0.0f64..0.2).prop_map(|(n, probability)| FailureKind::SwitchDrop { node: NodeIx(n), probability }),
    ];
    failures_of(kind, 3)
}

fn check_completed(o: &Outcome, flows: &FlowList, transport: &TransportConfig) -> Result<(), TestCaseError> {
    for (record, flow) in o.flows.iter().zip(&flows.flows) {
        if record.end == FlowEnd::Completed && !matches!(transport.kind, TransportKind::Udp(_)) {
            prop_assert!(record.fct >= record.ideal, "{:?} below its bound", record);
            prop_assert_eq!(record.delivered_bytes, flow.size_bytes);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// `simulate` fails on an accounting mismatch. There must be none under any combination of
    /// settings and faults, also when the run is cut short, and runs on any number of threads must be
    /// identical.
    #[test]
    fn accounting_consistent_under_any_settings_and_faults(
        transport in transports(),
        switch in switches(),
        resequencing in resequencing(),
        failures in failures(),
        balancer in 0usize..balance::registry::DATAPLANE.len(),
        seed in 0u64..1_000,
        until in prop_oneof![Just(None), (50u64..1_500).prop_map(|us| Some(Time::from_us(us)))],
    ) {
        let t = topology("leaf-spine:leaves=3,spines=3,hosts_per_leaf=2,host_delay=900ns");
        let flows = some_flows(6, 40, seed, Time::from_us(400), 60_000);
        let is_spray = matches!(transport.kind, TransportKind::Spray(_));
        let config = SimConfig {
            transport,
            // Only that transport understands trimmed packets, and lossless switches have none.
            switch: QueueConfig { trimming: is_spray && seed % 3 > 0 && switch.lossless.is_none(), ..switch },
            failures,
            host: HostConfig {
                resequencing,
                queue_packets: 50,
                priority_sizes: if seed % 4 < 2 { vec![] } else { vec![50_000, 10_000] },
                jitter: Time::from_ns(seed % 3 * 40),
                scheduler: if seed % 2 == 0 { HostScheduler::Fair } else { HostScheduler::Fifo },
            },
            stop: StopRule { until },
            ..SimConfig::default()
        };
        let entry = balance::registry::DATAPLANE[balancer];
        let balancer = entry.example;
        if is_refused(&Spec::parse(balancer).unwrap(), &config.transport) {
            let refused = try_simulate(&t, &flows, balancer, seed, &config);
            prop_assert!(matches!(refused, Err(SimError::Config { key: "transport", .. })), "{:?}", refused.err());
            return Ok(());
        }
        let o = simulate(&t, &flows, balancer, seed, &config);
        prop_assert!(o.accounting.check().is_ok());
        if until.is_none() {
            prop_assert_eq!(o.accounting.flows_running, 0);
            // Only probes and notifications may be in flight when the last flow ends.
            prop_assert_eq!(o.accounting.packets_in_flight, o.control.in_flight);
        }
        check_completed(&o, &flows, &config.transport)?;
        let sent: u64 = o.flows.iter().map(|f| u64::from(f.packets_sent)).sum();
        let delivered: u64 = o.flows.iter().map(|f| f.delivered_bytes.div_ceil(1460)).sum();
        let is_whole = entry.is_bound() || sent >= delivered + o.accounting.packets_trimmed;
        prop_assert!(is_whole, "a trimmed packet delivers nothing: {:?}", o.accounting);
        for threads in [1, 2, 3, 8] {
            let again = simulate_on(threads, &t, &flows, balancer, seed, &config);
            let differing = o.flows.iter().zip(&again.flows).position(|(one, many)| one != many);
            prop_assert!(o == again, "on {threads} threads with {balancer}, flow {differing:?} and others");
        }
    }
}

fn control_plane() -> impl Strategy<Value = ControlConfig> {
    let boot = prop_oneof![
        2 => Just(Boot::Warm),
        1 => (0u64..300).prop_map(|us| Boot::Cold { connect_at: Time::from_us(us) }),
    ];
    let packet_in_per_s = prop_oneof![Just(None), (1u32..100_000).prop_map(Some)];
    let limits = (1u32..12, 0u32..8);
    (1u64..400, 1u64..2_000, packet_in_per_s, limits, boot, any::<bool>()).prop_map(
        |(latency_us, mbps, packet_in_per_s, (max_entries, max_groups), boot, is_plain)| ControlConfig {
            latency: Time::from_us(latency_us),
            bandwidth: Bandwidth::from_mbps(mbps),
            stats_refresh: Time::from_us(latency_us % 7 * 100),
            packet_in_per_s,
            max_entries,
            max_groups,
            hash: if is_plain { HashSeeds::Identical } else { HashSeeds::PerSwitch },
            reserves_control_queue: !is_plain,
            boot,
            ..ControlConfig::default()
        },
    )
}

const SMALL: &str = "leaf-spine:leaves=3,spines=3,hosts_per_leaf=2";

fn controlled_failures(t: &Topology) -> impl Strategy<Value = Vec<Failure>> + use<> {
    let all = (0..t.nodes().len() as u32).map(NodeIx);
    let switches: Vec<NodeIx> = all.filter(|node| t.node(*node).kind == net::NodeKind::Switch).collect();
    let switch = || proptest::sample::select(switches.clone());
    let link = || (0..t.links().len() as u32).prop_map(LinkIx);
    let kind = prop_oneof![
        link().prop_map(FailureKind::LinkDown),
        link().prop_map(FailureKind::OneWayDown),
        (link(), 0.0f64..0.3).prop_map(|(link, probability)| FailureKind::RandomDrop { link, probability }),
        switch().prop_map(FailureKind::SwitchDown),
        switch().prop_map(FailureKind::ChannelStall),
        switch().prop_map(FailureKind::ChannelDown),
        Just(FailureKind::ControllerDown),
        (switch(), 0.0f64..0.5).prop_map(|(node, fraction)| FailureKind::Blackhole { node, fraction, racks: None }),
    ];
    failures_of(kind, 4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The same with a controller: under any failures of network, channels and switches, with rules
    /// that are rejected, missing, or loop, and with packets that pass through the controller.
    #[test]
    fn accounting_consistent_with_controller(
        transport in transports().prop_filter("switches with a controller send no feedback", is_controllable),
        switch in switches(),
        control in control_plane(),
        failures in controlled_failures(&topology(SMALL)),
        kind in prop_oneof![
            3 => Just(Kind::Single),
            3 => Just(Kind::Groups),
            2 => Just(Kind::Reactive),
            1 => Just(Kind::Sink),
            1 => Just(Kind::Loop),
        ],
        seed in 0u64..1_000,
        until in 50u64..4_000,
    ) {
        let t = topology(SMALL);
        let flows = some_flows(6, 30, seed, Time::from_us(400), 60_000);
        let stop = StopRule { until: Some(Time::from_us(until)) };
        let config = SimConfig { transport, switch, control, failures, stop, ..SimConfig::default() };
        let balancer = Spec::parse("sdn-spt").unwrap();
        let scenario = Scenario { topology: &t, flows: &flows, balancer: &balancer, seed, config: &config };
        let run = || {
            let commands = [AgentCommand::SetReportThreshold(seed % 3 * 10_000)];
            let plane = commands.into_iter().fold(StaticPlane::new(&t, kind), StaticPlane::ordering);
            let mut plane = plane.pacing(Bandwidth::from_mbps(500));
            run_controlled(&scenario, &mut plane, &mut |_| true).map(|o| (o, plane.packet_ins, plane.reports.len()))
        };
        let (o, packet_ins, reports) = run().unwrap_or_else(|error| panic!("{error}"));
        prop_assert!(o.accounting.check().is_ok());
        let plane = o.plane.expect("there is a controller");
        prop_assert_eq!(plane.agent_reports, reports as u64);
        if config.control.boot == Boot::Warm {
            prop_assert!(plane.boot.messages > 0);
        }
        prop_assert!(packet_ins <= plane.to_controller.packet_in.messages);
        if matches!(kind, Kind::Single | Kind::Groups) {
            prop_assert_eq!(o.accounting.packets_to_controller, 0);
        }
        check_completed(&o, &flows, &config.transport)?;
        let again = run().map(|(o, ..)| o);
        prop_assert_eq!(Ok(o), again);
    }
}

/// Checks that ten times the packets cause no more allocations, but for vectors that grow.
fn check_allocations(name: &str, run: impl Fn(&Topology, &FlowList) -> Outcome) {
    let t = topology("fat-tree:k=4");
    let of = |packets: u64| {
        let flows = list((0..16).map(|i| flow(i, (i + 8) % 16, packets * 1460, Time::from_us(u64::from(i)))).collect());
        let before = ALLOCATIONS.get();
        assert_eq!(run(&t, &flows).accounting.flows_completed, 16, "{name}");
        ALLOCATIONS.get() - before
    };
    let (short, long) = (of(500), of(5_000));
    assert!(long < short + 200, "{name}: {short} allocations for 500 packets per flow, {long} for 5000");
}

#[test]
fn packets_cost_no_allocation_with_a_controller() {
    let (balancer, config) = (&Spec::parse("sdn-ecmp").unwrap(), &SimConfig::default());
    for kind in [Kind::Single, Kind::Groups] {
        check_allocations(&format!("{kind:?}"), |topology, flows| {
            let scenario = Scenario { topology, flows, balancer, seed: 1, config };
            run_controlled(&scenario, &mut StaticPlane::new(topology, kind), &mut |_| true).unwrap()
        });
    }
}

#[test]
fn packets_cost_no_allocation() {
    let check = |name: &str, balancer: &str, transport: TransportConfig| {
        let config = with(transport);
        check_allocations(name, |t, flows| simulate(t, flows, balancer, 1, &config));
    };
    for entry in balance::registry::DATAPLANE {
        check(entry.name, entry.example, TransportConfig::default());
    }
    for (name, transport) in all_transports() {
        check(&name, "ecmp", transport);
    }
}
