//! Nothing is lost without a cause, whatever the scenario; and packets cost no allocation.

#![allow(unsafe_code, reason = "a counting allocator cannot be written without")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anabranch_sim::{
    Failure, FailureKind, FlowEnd, HostConfig, HostScheduler, Marking, QueueConfig, QueueLimit, RdmaRecovery,
    Resequencing, ResequencingBounds, SimConfig, SimError, Spray, StopRule, TransportConfig, TransportKind, UdpRate,
};
use balance::Lossless;
use common::{flow, is_refused, list, simulate, some_flows, topology, try_simulate};
use net::{Bandwidth, LinkIx, NodeIx, Time};
use proptest::prelude::*;

struct Counting;

thread_local! {
    /// Of this thread: the other tests of this binary allocate meanwhile.
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

fn transports() -> impl Strategy<Value = TransportConfig> {
    let kind = prop_oneof![
        Just(TransportKind::NewReno),
        Just(TransportKind::Dctcp { gain: 0.0625 }),
        Just(TransportKind::Udp(UdpRate::Constant(Bandwidth::from_gbps(3)))),
        Just(TransportKind::Cubic),
        Just(TransportConfig::spray().kind),
        (1u64..200, 1u32..40).prop_map(|(us, packets)| TransportKind::Spray(Spray {
            target_delay: Some(Time::from_us(us)),
            reorder_packets: Some(packets),
            packet_timeout: Some(Time::from_us(us)),
        })),
        Just(TransportConfig::rdma(RdmaRecovery::GoBackN).kind),
        Just(TransportConfig::rdma(RdmaRecovery::Selective).kind),
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

fn failures() -> impl Strategy<Value = Vec<Failure>> {
    let kind = prop_oneof![
        (0u32..30).prop_map(|l| FailureKind::LinkDown(LinkIx(l))),
        (0u32..30, 0.05f64..1.0).prop_map(|(l, fraction)| FailureKind::LinkRate { link: LinkIx(l), fraction }),
        (0u32..30, 0.0f64..0.3).prop_map(|(l, probability)| FailureKind::RandomDrop { link: LinkIx(l), probability }),
        (0u32..10, 0.0f64..0.2).prop_map(|(n, probability)| FailureKind::SwitchDrop { node: NodeIx(n), probability }),
    ];
    let failure = (kind, 0u64..500, 1u64..2_000, 0u64..300).prop_map(|(kind, at, lasts, detection)| Failure {
        at: Time::from_us(at),
        until: Some(Time::from_us(at + lasts)),
        detection: Time::from_us(detection),
        kind,
    });
    proptest::collection::vec(failure, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// `simulate` fails when the books do not balance; here they must, under any combination of settings
    /// and faults, also when the run is cut short, and twice the same.
    #[test]
    fn books_balance_whatever_happens(
        transport in transports(),
        switch in switches(),
        resequencing in resequencing(),
        failures in failures(),
        balancer in 0usize..balance::registry::DATAPLANE.len(),
        seed in 0u64..1_000,
        until in prop_oneof![Just(None), (50u64..1_500).prop_map(|us| Some(Time::from_us(us)))],
    ) {
        let t = topology("leaf-spine:leaves=3,spines=3,hosts_per_leaf=2");
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
        if is_refused(entry, &config.transport) {
            let refused = try_simulate(&t, &flows, balancer, seed, &config);
            prop_assert!(matches!(refused, Err(SimError::Config { key: "transport", .. })), "{:?}", refused.err());
            return Ok(());
        }
        let o = simulate(&t, &flows, balancer, seed, &config);
        prop_assert!(o.books.check().is_ok());
        if until.is_none() {
            prop_assert_eq!(o.books.flows_running, 0);
            // Probes and notifications may be under way when the last flow ends; nothing else may.
            prop_assert_eq!(o.books.packets_in_flight, o.control.in_flight);
        }
        for (record, flow) in o.flows.iter().zip(&flows.flows) {
            if record.end == FlowEnd::Completed && !matches!(config.transport.kind, TransportKind::Udp(_)) {
                prop_assert!(record.fct >= record.ideal, "{:?} below its bound", record);
                prop_assert_eq!(record.delivered_bytes, flow.size_bytes);
            }
        }
        let sent: u64 = o.flows.iter().map(|f| u64::from(f.packets_sent)).sum();
        let delivered: u64 = o.flows.iter().map(|f| f.delivered_bytes.div_ceil(1460)).sum();
        let is_whole = entry.is_bound() || sent >= delivered + o.books.packets_trimmed;
        prop_assert!(is_whole, "a trimmed packet delivers nothing: {:?}", o.books);
        prop_assert_eq!(&o, &simulate(&t, &flows, balancer, seed, &config));
    }
}

#[test]
fn packets_cost_no_allocation() {
    let t = topology("fat-tree:k=4");
    let allocations = |packets: u64, balancer: &str, transport: &TransportConfig| {
        let flows = list((0..16).map(|i| flow(i, (i + 8) % 16, packets * 1460, Time::from_us(u64::from(i)))).collect());
        let before = ALLOCATIONS.get();
        let config = SimConfig { transport: transport.clone(), ..SimConfig::default() };
        let o = simulate(&t, &flows, balancer, 1, &config);
        assert_eq!(o.books.flows_completed, 16);
        ALLOCATIONS.get() - before
    };
    let check = |name: &str, balancer: &str, transport: &TransportConfig| {
        let of = |packets| allocations(packets, balancer, transport);
        let (short, long) = (of(500), of(5_000));
        // Ten times the packets may grow a vector a few more times, and no more.
        assert!(long < short + 200, "{name}: {short} allocations for 500 packets per flow, {long} for 5000");
    };
    for entry in balance::registry::DATAPLANE {
        check(entry.name, entry.example, &TransportConfig::default());
    }
    for (name, transport) in [
        ("DCTCP with SACK", TransportConfig { sack: true, ..TransportConfig::default() }),
        ("CUBIC", TransportConfig::cubic()),
        ("spray", TransportConfig::spray()),
        ("RDMA selective", TransportConfig::rdma(RdmaRecovery::Selective)),
        ("RDMA go-back-n", TransportConfig::rdma(RdmaRecovery::GoBackN)),
    ] {
        check(name, "ecmp", &transport);
    }
}
