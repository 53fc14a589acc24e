//! E2.6 of F2 with the rules of the document: on its diamond S1 has a rule to S3 that times out after
//! 5 s, and below it one to S4 that times out after 10 s (figure 10). No controller acts in between.
//!
//! `experiments/f2-ofpt/e2.6-diamond.toml` makes the same move through the controller.

use crate::common::static_plane::{Kind, StaticPlane};
use crate::common::{flow, link, list, node, topology};
use anabranch_sim::{
    Boot, ControlConfig, Outcome, QueueConfig, QueueLimit, Scenario, SimConfig, StopRule, TransportConfig,
    TransportKind, UdpRate, run_controlled,
};
use balance::Spec;
use core::net::Ipv4Addr;
use net::{Bandwidth, HostIx, NodeIx, Time, Topology, address};
use openflow::headers::ether;
use openflow::{Action, FlowMod, FlowModCommand, Instructions, Masked, Match, PortNo, TableId};

/// A rule for packets to the receiver, which ends `seconds` after it was installed.
fn rule(t: &Topology, (from, to): (&str, &str), priority: u16, seconds: u16) -> (NodeIx, FlowMod) {
    let receiver = Masked::<Ipv4Addr>::exact(address::host_ipv4(HostIx(1)));
    let match_ = Match { eth_type: Some(ether::IPV4), ipv4_dst: Some(receiver), ..Match::default() };
    let out = Action::output(PortNo(address::port_of(t, link(t, from, to))));
    let add = FlowMod::add(TableId(0), priority, match_, Instructions::apply(vec![out]));
    (node(t, from), FlowMod { hard_timeout_s: seconds, ..add })
}

/// Sends UDP at a rate for ten seconds while the rules of S1 time out, with further changes of rules.
fn moved(t: &Topology, rate: Bandwidth, more: &[(NodeIx, FlowMod)]) -> Outcome {
    let rules = [rule(t, ("S1", "S3"), 3, 5), rule(t, ("S1", "S4"), 2, 10)];
    let mut plane = StaticPlane::new(t, Kind::Single).changing(rules).changing(more.iter().cloned());
    let transport = TransportConfig {
        kind: TransportKind::Udp(UdpRate::Constant(rate)),
        mss_bytes: 1472,
        header_bytes: 28,
        ..TransportConfig::default()
    };
    let config = SimConfig {
        transport,
        switch: QueueConfig { limit: QueueLimit::Packets(100), ..QueueConfig::default() },
        control: ControlConfig { boot: Boot::Cold { connect_at: Time::ZERO }, ..ControlConfig::default() },
        stop: StopRule { until: Some(Time::from_ms(9_990)) },
        ..SimConfig::default()
    };
    // The switches have their rules before the flow begins.
    let flows = list(vec![flow(0, 1, 20_000_000, Time::from_ms(10))]);
    let balancer = &Spec::parse("sdn-spt").unwrap();
    let scenario = Scenario { topology: t, flows: &flows, balancer, seed: 1, config: &config };
    run_controlled(&scenario, &mut plane, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn time_out_of_the_upper_rule_moves_the_flow_without_loss() {
    let t = topology("diamond:form=migration");
    for kbps in (1..=10).map(|tenth| tenth * 100) {
        let o = moved(&t, Bandwidth::from_bps(kbps * 1000), &[]);
        let record = &o.flows[0];
        assert_eq!(o.accounting.dropped.total(), 0, "{kbps} kb/s: {:?}", o.accounting.dropped);
        assert!(record.reorder_extent <= 2, "{kbps} kb/s: {} packets", record.reorder_extent);
        let [first, second] = ["S3", "S4"].map(|to| o.links[link(&t, "S1", to).ix()].packets);
        assert!(first > 0 && first.abs_diff(second) <= 2, "{kbps} kb/s: {first} and {second} packets");
    }
}

/// F2 installs the whole new path before the old rule ends: without the rule at S4 the second half
/// of the flow is lost.
#[test]
fn move_to_an_incomplete_path_loses_packets() {
    let t = topology("diamond:form=migration");
    let (at, missing) = rule(&t, ("S4", "S2"), 1, 0);
    let o = moved(&t, Bandwidth::from_mbps(1), &[(at, FlowMod { command: FlowModCommand::DeleteStrict, ..missing })]);
    let second = o.links[link(&t, "S1", "S4").ix()].packets;
    assert!(
        second > 400 && o.accounting.dropped.no_route.abs_diff(second) <= 2,
        "{second}: {:?}",
        o.accounting.dropped
    );
}
