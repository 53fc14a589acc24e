//! Runs with a controller: accounting, recovery from failures, channels, agents, overhead.

use crate::common::static_plane::{Kind, StaticPlane};
use crate::common::{fault, flow, link, list, node, some_flows, topology, with};
use anabranch_sim::{
    Boot, ControlConfig, Failure, FailureKind, Outcome, Scenario, SimConfig, StopRule, TransportConfig, TransportKind,
    UdpRate, run, run_controlled,
};
use balance::Spec;
use balance::central::{AgentCommand, AgentReport};
use net::{Bandwidth, NodeKind, Time, Topology, address};
use traffic::FlowList;

const SMALL: &str = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2";

/// Runs one UDP flow of 1,000 packets, of 12 us each, from the first leaf to the second.
fn one_flow<'t>(t: &'t Topology, kind: Kind, config: SimConfig) -> (Outcome, StaticPlane<'t>) {
    let flows = list(vec![flow(0, 2, 1460 * 1000, Time::ZERO)]);
    let mut plane = StaticPlane::new(t, kind);
    let o = controlled_by(&mut plane, t, &flows, &SimConfig { transport: udp(1_000), ..config });
    (o, plane)
}

fn controlled_by(plane: &mut StaticPlane<'_>, topology: &Topology, flows: &FlowList, config: &SimConfig) -> Outcome {
    let scenario = Scenario { topology, flows, balancer: &Spec::parse("sdn-spt").unwrap(), seed: 1, config };
    run_controlled(&scenario, plane, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
}

fn controlled(kind: Kind, t: &Topology, flows: &FlowList, config: &SimConfig) -> Outcome {
    controlled_by(&mut StaticPlane::new(t, kind), t, flows, config)
}

fn udp(mbps: u64) -> TransportConfig {
    let rate = Bandwidth::from_mbps(mbps);
    TransportConfig { kind: TransportKind::Udp(UdpRate::Constant(rate)), ..TransportConfig::default() }
}

fn failure(kind: FailureKind, at_us: u64, until_us: Option<u64>) -> Failure {
    fault(kind, at_us, until_us, 50)
}

#[test]
fn every_flow_completes_over_rules_and_groups() {
    let t = topology("fat-tree:k=4");
    let flows = some_flows(16, 200, 3, Time::from_us(2_000), 100_000);
    for kind in [Kind::Single, Kind::Groups] {
        let o = controlled(kind, &t, &flows, &SimConfig::default());
        let ended = (o.accounting.flows_completed, o.accounting.packets_in_flight);
        assert_eq!(ended, (200, 0), "{kind:?}: {:?}", o.accounting);
        assert_eq!(o.accounting.dropped.no_route + o.accounting.dropped.looped, 0);
        let plane = o.plane.expect("there is a controller");
        // The network was up before: a rule per host and switch, and no message from time 0 on.
        assert_eq!((plane.entries_max, plane.entries_mean), (16, 16.0), "{plane:?}");
        assert_eq!(plane.to_switches.total().messages + plane.to_controller.total().messages, 0);
        assert!(plane.boot.messages > 20 * 16);
        assert_eq!(o, controlled(kind, &t, &flows, &SimConfig::default()), "the same again");
    }
}

#[test]
fn groups_spread_flows_and_single_paths_do_not() {
    let t = topology("leaf-spine:leaves=2,spines=4,hosts_per_leaf=8");
    let flows = list((0..8).flat_map(|i| (0..8).map(move |j| flow(i, 8 + j, 20_000, Time::ZERO))).collect());
    let used = |kind| {
        let o = controlled(kind, &t, &flows, &SimConfig::default());
        let up = |spine: &String| o.links[link(&t, "leaf0", spine).ix()].bytes > 1_000_000 / 10;
        (0..4).map(|spine| format!("spine{spine}")).filter(up).count()
    };
    assert_eq!((used(Kind::Single), used(Kind::Groups)), (1, 4));
}

#[test]
fn controller_requirement_mismatch_rejected() {
    let t = topology(SMALL);
    let (flows, config) = (list(vec![flow(0, 2, 1000, Time::ZERO)]), SimConfig::default());
    let scenario = |balancer| Scenario { topology: &t, flows: &flows, balancer, seed: 1, config: &config };
    let (central, ecmp) = (Spec::parse("sdn-spt").unwrap(), Spec::parse("ecmp").unwrap());
    let error = run(&scenario(&central), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("balancers = sdn-spt") && error.contains("run_controlled"), "{error}");
    let mut plane = StaticPlane::new(&t, Kind::Single);
    let error = run_controlled(&scenario(&ecmp), &mut plane, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("needs no controller"), "{error}");
    let bcube = topology("bcube:n=4,k=1");
    let balancer = &central;
    let homed = Scenario { topology: &bcube, flows: &flows, balancer, seed: 1, config: &config };
    let error = run_controlled(&homed, &mut StaticPlane::new(&bcube, Kind::Single), &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("several links"), "{error}");
}

/// Runs one UDP flow over the path that is cut, which loses packets until there are new rules.
fn lost_packets(config: &SimConfig) -> (u64, Outcome) {
    let t = topology(SMALL);
    let (o, _) = one_flow(&t, Kind::Single, config.clone());
    (o.accounting.dropped.total(), o)
}

/// A packet takes 12 us at this rate.
fn cut(control: ControlConfig, more: &[Failure]) -> SimConfig {
    let t = topology(SMALL);
    let mut failures = vec![failure(FailureKind::LinkDown(link(&t, "leaf0", "spine0")), 2_000, None)];
    failures.extend_from_slice(more);
    SimConfig { transport: udp(1_000), control, failures, ..SimConfig::default() }
}

#[test]
fn cut_repaired_after_detection_and_channel_round_trip() {
    let packets_in = |us: u64| us / 12;
    for latency_us in [10, 300, 3_000] {
        let latency = Time::from_us(latency_us);
        let (lost, o) = lost_packets(&cut(ControlConfig { latency, ..ControlConfig::default() }, &[]));
        let expected = packets_in(50 + 2 * latency_us);
        assert!(lost.abs_diff(expected) <= 3, "{latency_us} us: {lost} lost, {expected} expected: {:?}", o.accounting);
        assert_eq!(o.accounting.dropped.total(), o.accounting.dropped.link_down);
        let plane = o.plane.expect("there is a controller");
        assert!(plane.to_switches.flow_mod.messages > 0 && plane.to_controller.other.messages >= 2, "{plane:?}");
        assert_eq!(plane.flow_mods_per_s_peak, plane.to_switches.flow_mod.messages);
        assert_eq!(plane.tally.decisions, 2, "one for each end of the cable");
    }
}

#[test]
fn a_stalled_channel_delays_recovery_and_loses_nothing() {
    let t = topology(SMALL);
    let stall = failure(FailureKind::ChannelStall(node(&t, "leaf0")), 1_000, Some(6_000));
    let config = cut(ControlConfig { latency: Time::from_us(10), ..ControlConfig::default() }, &[stall]);
    let (lost, o) = lost_packets(&config);
    // The stall ends 4 ms after the cut; the delayed messages then arrive immediately.
    let expected = 4_000 / 12;
    assert!(lost.abs_diff(expected) <= 6, "{lost} lost, {expected} expected");
    assert_eq!(o.plane.expect("a controller").messages_lost, 0);
}

#[test]
fn broken_connection_loses_messages_and_reconnects() {
    let t = topology(SMALL);
    let broken = failure(FailureKind::ChannelDown(node(&t, "leaf0")), 1_000, Some(6_000));
    let config = cut(ControlConfig { latency: Time::from_us(10), ..ControlConfig::default() }, &[broken]);
    let (o, plane) = one_flow(&t, Kind::Single, config);
    assert_eq!((plane.connected, plane.disconnected), (5, 1));
    // The other end of the cable notifies the controller. The controller cannot reach the first
    // switch before that is back, with a handshake of two round trips and a message.
    let (lost, expected) = (o.accounting.dropped.total(), 4_050 / 12);
    assert!(lost.abs_diff(expected) <= 6, "{lost} lost, {expected} expected");
}

#[test]
fn without_the_controller_switches_go_on() {
    let t = topology(SMALL);
    let down = failure(FailureKind::ControllerDown, 1_000, Some(9_000));
    let config = SimConfig { failures: vec![down.clone()], ..SimConfig::default() };
    let (o, plane) = one_flow(&t, Kind::Single, config);
    assert_eq!((plane.connected, plane.disconnected), (8, 4));
    assert_eq!((o.accounting.flows_completed, o.accounting.dropped.total()), (1, 0));
    // A cable cut meanwhile is repaired only afterwards.
    let (lost, _) = lost_packets(&cut(ControlConfig::default(), &[down]));
    assert!(lost > 7_000 / 12, "{lost}");
}

#[test]
fn switch_after_power_loss_gets_rules_again() {
    let t = topology("leaf-spine:leaves=2,spines=1,hosts_per_leaf=2");
    let off = failure(FailureKind::SwitchDown(node(&t, "spine0")), 2_000, Some(4_000));
    let config = SimConfig { failures: vec![off], ..SimConfig::default() };
    let (o, plane) = one_flow(&t, Kind::Single, config);
    assert_eq!((plane.connected, plane.disconnected), (4, 1));
    // 50 us until its port notices and 200 us until the rules are gone; without a rule until, after
    // 2 ms, the switch is connected (four one-way delays of 100 us).
    let dropped = o.accounting.dropped;
    assert!(dropped.link_down.abs_diff(250 / 12) <= 4, "{dropped:?}");
    assert!(dropped.total().abs_diff(2_400 / 12) <= 4, "{dropped:?}");
    assert!(o.links[link(&t, "leaf0", "spine0").ix()].packets > 600, "it carries again");
}

#[test]
fn only_the_receiving_end_of_a_one_way_cut_notices() {
    let t = topology(SMALL);
    let cut = failure(FailureKind::OneWayDown(link(&t, "leaf0", "spine0")), 2_000, None);
    let config = SimConfig { failures: vec![cut], ..SimConfig::default() };
    let (o, _) = one_flow(&t, Kind::Single, config);
    let plane = o.plane.expect("a controller");
    assert_eq!(plane.tally.decisions, 1, "one port-status, from spine0");
    assert!(o.accounting.dropped.link_down > 0 && o.accounting.dropped.link_down < 40, "{:?}", o.accounting.dropped);
}

#[test]
fn rules_that_loop_are_found_by_the_hop_limit() {
    let t = topology(SMALL);
    let flows = list(vec![flow(0, 2, 14_600, Time::ZERO)]);
    let config = with(udp(1_000));
    let o = controlled(Kind::Loop, &t, &flows, &config);
    assert_eq!((o.accounting.dropped.total(), o.accounting.dropped.looped), (10, 10), "{:?}", o.accounting);
    // Back and forth 64 times, and the link of the host.
    assert_eq!(o.engine.packet_hops, 10 * 65);
}

#[test]
fn packets_for_the_controller_are_capped_and_counted() {
    let t = topology(SMALL);
    // 1000 packets in 12 ms at 1000 per second: a burst of 100 and 12 more.
    let control = ControlConfig { packet_in_per_s: Some(1_000), ..ControlConfig::default() };
    let config = SimConfig { control, ..SimConfig::default() };
    let (o, _) = one_flow(&t, Kind::Sink, config);
    assert_eq!(o.accounting.packets_to_controller, 1000);
    let record = o.plane.expect("a controller");
    let sent = record.to_controller.packet_in.messages;
    assert_eq!(sent + record.packet_ins_suppressed, 1000);
    assert!(sent.abs_diff(112) <= 2, "{sent}");
    // 24 bytes, a match of the port (16), 2 of padding, and the frame: the packet and its Ethernet
    // header less what the simulator's 40 bytes of IP and TCP are longer than those of UDP.
    let per_message = record.to_controller.packet_in.bytes / sent;
    assert!((1_500..1_600).contains(&per_message), "{per_message}");
}

#[test]
fn packets_forwarded_by_controller_arrive() {
    let t = topology(SMALL);
    let flows = list(vec![flow(0, 2, 14_600, Time::ZERO), flow(3, 1, 14_600, Time::from_us(3))]);
    let mut plane = StaticPlane::new(&t, Kind::Reactive);
    let o = controlled_by(&mut plane, &t, &flows, &SimConfig::default());
    assert_eq!((o.accounting.flows_completed, o.accounting.dropped.total()), (2, 0), "{:?}", o.accounting);
    // Ten segments and their acknowledgements, at each of three switches, for each flow.
    assert_eq!((plane.packet_ins, o.accounting.packets_to_controller), (120, 120));
    let record = o.plane.expect("a controller");
    let sent = (record.to_switches.packet_out.messages, o.control.packets);
    assert_eq!(sent, (120, 0), "they are packets of flows again");
    // Each goes up and down a channel of 100 us three times, and so does its acknowledgement.
    assert!(o.flows.iter().all(|flow| flow.sender_fct > Time::from_us(1_200)), "{:?}", o.flows);
}

/// A flow of 240 ms; statistics are requested 105 ms after the begin and after its end. Switches have
/// then counted every packet that has passed them, or that had at the last refresh.
#[test]
fn statistics_count_every_packet() {
    let t = topology(SMALL);
    // The second one only keeps the run going until the last request.
    let flows = list(vec![flow(0, 2, 1460 * 20_000, Time::ZERO), flow(0, 1, 1460, Time::from_ms(500))]);
    for (refresh_ms, expected) in [(0, 105_100 / 12), (100, 100_000 / 12)] {
        let control = ControlConfig { stats_refresh: Time::from_ms(refresh_ms), ..ControlConfig::default() };
        let config = SimConfig { transport: udp(1_000), control, ..SimConfig::default() };
        let mut plane = StaticPlane::new(&t, Kind::Single).polling([105, 400].map(Time::from_ms));
        let o = controlled_by(&mut plane, &t, &flows, &config);
        assert_eq!(o.accounting.packets_delivered, 20_001);
        let passed = |counted: &[u64]| counted.iter().copied().filter(|count| *count > 0).collect::<Vec<u64>>();
        let (during, after) = plane.counted.split_at(4);
        let during = passed(during);
        assert!(during.iter().all(|count| count.abs_diff(expected) < 10), "{refresh_ms} ms: {during:?}");
        assert_eq!((during.len(), passed(after)), (3, vec![20_000; 3]), "{refresh_ms} ms");
    }
}

#[test]
fn agents_report_flows_above_the_threshold_and_their_end() {
    let t = topology(SMALL);
    let flows = list(vec![flow(0, 2, 1460 * 100, Time::from_us(5)), flow(1, 3, 1460 * 10, Time::from_us(5))]);
    let above = |bytes| StaticPlane::new(&t, Kind::Single).ordering(AgentCommand::SetReportThreshold(bytes));
    let mut plane = above(1460 * 20);
    let o = controlled_by(&mut plane, &t, &flows, &SimConfig::default());
    let [(_, AgentReport::Started { tuple, bytes, size })] = plane.reports[..] else { panic!("{:?}", plane.reports) };
    assert_eq!((bytes, size), (1460 * 21, Some(1460 * 100)), "the first segment above");
    assert_eq!((tuple.src, tuple.dst), (address::host_ipv4(net::HostIx(0)), address::host_ipv4(net::HostIx(2))));
    assert_eq!((tuple.protocol, o.plane.expect("a controller").agent_reports), (6, 1));
    // With a threshold of 0 at once; the end of the first flow while the second still runs.
    let mut config = SimConfig::default();
    config.control.reports_flow_sizes = false;
    config.control.agent_latency = Time::from_us(20);
    let mut plane = above(0);
    controlled_by(&mut plane, &t, &flows, &config);
    let started = |(at, report): &(Time, AgentReport)| match report {
        AgentReport::Started { bytes: 0, size: None, .. } => Some(*at),
        _ => None,
    };
    let starts: Vec<Time> = plane.reports.iter().filter_map(started).collect();
    assert_eq!(starts, [Time::from_us(25); 2]);
    let ended = plane.reports.iter().filter(|(_, report)| matches!(report, AgentReport::Ended { bytes: 14_600, .. }));
    assert_eq!(ended.count(), 1, "{:?}", plane.reports);
}

#[test]
fn cold_switches_drop_until_connected() {
    let t = topology(SMALL);
    let latency = Time::from_us(100);
    let boot = Boot::Cold { connect_at: Time::from_us(1_000) };
    let control = ControlConfig { boot, latency, ..ControlConfig::default() };
    let config = SimConfig { control, ..SimConfig::default() };
    let (o, _) = one_flow(&t, Kind::Single, config);
    // Hello, features request, features reply, rules: four one-way delays of 100 us.
    let expected = 1_400 / 12;
    assert!(o.accounting.dropped.no_route.abs_diff(expected) <= 4, "{:?}: {expected}", o.accounting.dropped);
    let plane = o.plane.expect("a controller");
    assert_eq!(plane.boot.messages, 0);
    assert!(plane.entries_mean < 4.0 && plane.entries_mean > 3.0, "4 entries but for the beginning: {plane:?}");
}

#[test]
fn slow_channels_carry_one_message_after_the_other() {
    let lost = |bandwidth| {
        let control = ControlConfig { latency: Time::from_us(10), bandwidth, ..ControlConfig::default() };
        let (lost, o) = lost_packets(&cut(control, &[]));
        (lost, o.plane.expect("a controller").to_controller.other.bytes)
    };
    // A port-status of 80 bytes alone takes 0.64 ms at 1 Mb/s.
    let ((fast, _), (slow, bytes)) = (lost(Bandwidth::from_gbps(1)), lost(Bandwidth::from_mbps(1)));
    assert!(slow > fast + 80 * 8 / 12, "{slow} against {fast}");
    assert_eq!(bytes, 2 * 80);
}

#[test]
fn a_full_table_is_an_error_that_is_counted() {
    let t = topology(SMALL);
    let flows = list(vec![flow(0, 3, 1460 * 10, Time::ZERO)]);
    let control = ControlConfig { max_entries: 3, ..ControlConfig::default() };
    let stop = StopRule { until: Some(Time::from_ms(50)) };
    let config = SimConfig { transport: udp(1_000), control, stop, ..SimConfig::default() };
    let o = controlled(Kind::Single, &t, &flows, &config);
    let plane = o.plane.expect("a controller");
    let switches = t.nodes().iter().filter(|node| node.kind == NodeKind::Switch).count() as u64;
    assert_eq!((plane.errors, plane.entries_max), (switches, 3));
    assert_eq!(o.accounting.dropped.no_route, 10, "the rule of the last host is the one refused");
}

#[test]
fn rate_limits_slow_udp_and_count_as_ignored_elsewhere() {
    let t = topology(SMALL);
    let run = |transport: TransportConfig, packets: u64| {
        let flows = list(vec![flow(0, 2, 1460 * packets, Time::from_us(500))]);
        let config = SimConfig { transport, ..SimConfig::default() };
        let mut plane = StaticPlane::new(&t, Kind::Single)
            .ordering(AgentCommand::SetReportThreshold(0))
            .pacing(Bandwidth::from_mbps(100));
        let o = controlled_by(&mut plane, &t, &flows, &config);
        let ignored = o.plane.expect("a controller").rate_limits_ignored;
        (o.flows[0].fct, plane.paced, ignored)
    };
    let (fct, paced, ignored) = run(udp(1_000), 100);
    assert_eq!((paced, ignored), (1, 0));
    // The command arrives after 200 us. The 18th packet leaves at 17 * 12 us, and from then on one
    // every 120 us. The last one needs a few microseconds for its path.
    let sent = Time::from_us(17 * 12 + 82 * 120);
    assert!(fct > sent && fct < sent + Time::from_us(20), "{fct} against {sent}");
    // Long enough for the command to reach it.
    let (_, paced, ignored) = run(TransportConfig::default(), 1_000);
    assert_eq!((paced, ignored), (1, 1));
}
