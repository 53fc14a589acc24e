//! Forwarding of packets.

use crate::common::{Bench, config, group, out, tcp, to, to_port};
use anabranch_switch::{NoOutput, Output};
use openflow::frame::{build, parse};
use openflow::{
    Action, Bucket, BufferId, FlowMod, GroupId, GroupKind, GroupModCommand, Instructions, Masked, Match, Message,
    PacketInReason, PacketOut, PortNo, SetField, TableId, VlanMatch,
};

fn to_group(id: u32) -> Instructions {
    Instructions::apply(vec![Action::Group(GroupId(id))])
}

#[test]
fn the_highest_priority_wins_and_nothing_means_dropped() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.decide(1, &tcp(1, 2, 9)).no_output, Some(NoOutput::Miss));
    bench.add(0, 1, Match::default(), out(2));
    bench.add(0, 9, to(2), out(3));
    bench.add(0, 5, Match { in_port: Some(PortNo(1)), ..Match::default() }, Instructions::default());
    assert_eq!(bench.ports(1, &tcp(1, 2, 9)), [3]);
    assert_eq!(bench.decide(1, &tcp(1, 3, 9)).no_output, Some(NoOutput::Dropped));
    assert_eq!(bench.ports(4, &tcp(1, 3, 9)), [2]);
    assert_eq!(bench.decide(2, &tcp(1, 3, 9)).no_output, Some(NoOutput::Dropped), "not back where it came from");
}

#[test]
fn tables_hand_on_metadata_and_an_action_set() {
    let mut bench = Bench::new(config());
    let first = Instructions {
        write: vec![Action::output(PortNo(2)), Action::SetField(SetField::IpDscp(7))],
        metadata: Some(Masked { value: 0x50, mask: 0xf0 }),
        goto: Some(TableId(2)),
        ..Instructions::default()
    };
    bench.add(0, 1, to(2), first);
    let marked = Match { metadata: Some(Masked { value: 0x50, mask: 0x70 }), ..Match::default() };
    bench.add(2, 1, marked, Instructions { write: vec![Action::output(PortNo(3))], ..Instructions::default() });
    let decision = bench.decide(1, &tcp(1, 2, 9));
    assert_eq!(decision.egress.len(), 1);
    assert_eq!((decision.egress[0].port, decision.egress[0].headers.ip_dscp), (PortNo(3), 7));
    bench.tell(Message::FlowMod(FlowMod::add(
        TableId(2),
        1,
        marked,
        Instructions { clear: true, ..Instructions::default() },
    )));
    assert_eq!(bench.decide(1, &tcp(1, 2, 9)).no_output, Some(NoOutput::Dropped), "the set is cleared");
    bench.tell(Message::FlowMod(FlowMod::delete_strict(TableId(2), 1, marked)));
    assert_eq!(bench.decide(1, &tcp(1, 2, 9)).no_output, Some(NoOutput::Miss), "a miss later on drops too");
}

#[test]
fn frames_leave_with_rewritten_bytes() {
    let mut bench = Bench::new(config());
    let push = vec![
        Action::PushVlan(0x8100),
        Action::SetField(SetField::VlanVid(5)),
        Action::SetField(SetField::TcpDst(8080)),
        Action::output(PortNo(2)),
    ];
    bench.add(0, 1, Match { ip_proto: Some(6), ..to(2) }, Instructions::apply(push));
    let headers = tcp(1, 2, 9);
    bench.switch.receive(bench.now, PortNo(1), &build(&headers, 100));
    let frames = bench.drain();
    let [Output::Frame(PortNo(2), frame)] = &frames[..] else { panic!("{frames:?}") };
    let tagged = openflow::Headers { vlan: Some(5), l4_dst: 8080, ..headers };
    assert_eq!(*frame, build(&tagged, 100));
    let pop = Instructions::apply(vec![Action::PopVlan, Action::output(PortNo(3))]);
    bench.add(0, 2, Match { vlan: Some(VlanMatch::Id(5)), ..Match::default() }, pop);
    bench.switch.receive(bench.now, PortNo(1), frame);
    let frames = bench.drain();
    let [Output::Frame(PortNo(3), frame)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(parse(frame).map(|headers| headers.vlan), Ok(None));
}

#[test]
fn all_sends_everywhere_but_back_and_in_port_only_back() {
    let mut bench = Bench::new(config());
    bench.add(0, 1, to(2), Instructions::apply(vec![Action::output(PortNo::ALL)]));
    bench.add(0, 1, to(3), Instructions::apply(vec![Action::output(PortNo::IN_PORT)]));
    assert_eq!(bench.ports(2, &tcp(1, 2, 9)), [1, 3, 4]);
    assert_eq!(bench.ports(2, &tcp(1, 3, 9)), [2]);
    bench.switch.set_port_live(bench.now, PortNo(3), false);
    assert_eq!(bench.ports(2, &tcp(1, 2, 9)), [1, 4]);
    bench.add(0, 1, to(4), out(3));
    assert_eq!(bench.decide(2, &tcp(1, 4, 9)).no_output, Some(NoOutput::PortDown));
}

#[test]
fn select_groups_share_by_weight_among_the_living_and_keep_flows_together() {
    let mut bench = Bench::new(config());
    let buckets = vec![Bucket::watching(PortNo(2), 3), Bucket::watching(PortNo(3), 1), Bucket::watching(PortNo(4), 0)];
    bench.tell(group(GroupModCommand::Add, GroupKind::Select, 1, buckets));
    bench.add(0, 1, Match::default(), to_group(1));
    let mut hits = [0u32; 5];
    for src_port in 0..40_000 {
        let ports = bench.ports(1, &tcp(1, 2, src_port));
        assert_eq!(ports, bench.ports(1, &tcp(1, 2, src_port)));
        hits[ports[0] as usize] += 1;
    }
    // Binomial with n = 40,000, p = 1/4: standard deviation 87.
    assert!(hits[3].abs_diff(10_000) < 435 && hits[2] + hits[3] == 40_000, "{hits:?}");
    bench.switch.set_port_live(bench.now, PortNo(2), false);
    assert!((0..100).all(|src_port| bench.ports(1, &tcp(1, 2, src_port)) == [3]));
    bench.switch.set_port_live(bench.now, PortNo(3), false);
    assert_eq!(bench.decide(1, &tcp(1, 2, 9)).no_output, Some(NoOutput::NoLiveBucket), "weight 0 takes nothing");
}

#[test]
fn fast_failover_takes_the_first_living_bucket_even_of_watched_groups() {
    let mut bench = Bench::new(config());
    let inner = vec![Bucket::watching(PortNo(2), 0), Bucket::watching(PortNo(3), 0)];
    bench.tell(group(GroupModCommand::Add, GroupKind::FastFailover, 1, inner));
    let through = Bucket { watch_group: GroupId(1), actions: vec![Action::Group(GroupId(1))], ..to_port(1) };
    let outer = vec![through, to_port(4)];
    bench.tell(group(GroupModCommand::Add, GroupKind::FastFailover, 2, outer));
    bench.add(0, 1, Match::default(), to_group(2));
    for (dead, taken) in [(None, 2), (Some(2), 3), (Some(3), 4)] {
        if let Some(dead) = dead {
            bench.switch.set_port_live(bench.now, PortNo(dead), false);
        }
        assert_eq!(bench.ports(1, &tcp(1, 2, 9)), [taken]);
    }
}

#[test]
fn groups_of_type_all_copy_and_each_copy_has_its_own_headers() {
    let mut bench = Bench::new(config());
    let mut marked = to_port(2);
    marked.actions.insert(0, Action::SetField(SetField::IpDscp(9)));
    bench.tell(group(GroupModCommand::Add, GroupKind::All, 1, vec![marked, to_port(3)]));
    bench.add(0, 1, to(2), Instructions::apply(vec![Action::Group(GroupId(1)), Action::output(PortNo(4))]));
    let decision = bench.decide(1, &tcp(1, 2, 9));
    let seen: Vec<(u32, u8)> = decision.egress.iter().map(|egress| (egress.port.0, egress.headers.ip_dscp)).collect();
    assert_eq!(seen, [(2, 9), (3, 0), (4, 0)]);
}

#[test]
fn decisions_last_until_something_changes() {
    let mut bench = Bench::new(config());
    bench.add(0, 1, Match::default(), out(2));
    let decision = bench.decide(1, &tcp(1, 2, 9));
    assert!(bench.switch.is_current(&decision));
    assert!(!bench.switch.is_current(&anabranch_switch::Decision::default()));
    bench.tell(Message::FlowMod(FlowMod::delete_strict(TableId(0), 7, Match::default())));
    bench.switch.set_port_live(bench.now, PortNo(2), true);
    assert!(bench.switch.is_current(&decision), "nothing has changed");
    bench.switch.set_port_live(bench.now, PortNo(2), false);
    assert!(!bench.switch.is_current(&decision));
}

#[test]
fn packets_are_kept_for_the_controller_and_used_once() {
    let mut bench = Bench::new(config());
    let up = Action::Output { port: PortNo::CONTROLLER, max_len: 60 };
    bench.add(0, 0, Match::default(), Instructions::apply(vec![up]));
    let frame = build(&tcp(1, 2, 9), 100);
    bench.switch.receive(bench.now, PortNo(1), &frame);
    let messages = bench.messages();
    let [(crate::common::C, Message::PacketIn(packet_in))] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((packet_in.reason, packet_in.total_len), (PacketInReason::NoMatch, 154));
    assert_eq!((&packet_in.data[..], packet_in.match_.in_port), (&frame[..60], Some(PortNo(1))));
    let actions = vec![Action::output(PortNo(3))];
    let packet_out = PacketOut { buffer: packet_in.buffer, in_port: PortNo(1), actions, data: Vec::new() };
    bench.handle(crate::common::C, openflow::Xid(5), Message::PacketOut(packet_out.clone()));
    assert_eq!(bench.drain(), [Output::Frame(PortNo(3), frame.clone())]);
    let answer = bench.ask(Message::PacketOut(packet_out));
    assert!(matches!(&answer[..], [Message::Error { .. }]), "{answer:?}");
    // The next two fill both slots; the entry added for the second one forwards it.
    bench.switch.receive(bench.now, PortNo(1), &frame);
    bench.switch.receive(bench.now, PortNo(2), &frame);
    let buffers: Vec<BufferId> = bench
        .messages()
        .into_iter()
        .map(|(_, message)| if let Message::PacketIn(p) = message { p.buffer } else { panic!("{message:?}") })
        .collect();
    let add = FlowMod { buffer: buffers[1], ..FlowMod::add(TableId(0), 5, to(2), out(4)) };
    bench.handle(crate::common::C, openflow::Xid(6), Message::FlowMod(add));
    assert_eq!(bench.drain(), [Output::Frame(PortNo(4), frame)]);
}

#[test]
fn of_equal_entries_the_same_one_is_taken_whatever_else_is_installed() {
    let mut bench = Bench::new(config());
    let from = |port| Match { in_port: Some(PortNo(port)), ..Match::default() };
    bench.add(0, 5, from(1), out(2));
    bench.add(0, 5, to(2), out(3));
    let taken = bench.ports(1, &tcp(1, 2, 9));
    for other in [from(3), to(4)] {
        bench.add(0, 9, other, out(4));
        assert_eq!(bench.ports(1, &tcp(1, 2, 9)), taken);
        bench.tell(Message::FlowMod(FlowMod::delete_strict(TableId(0), 9, other)));
    }
}

#[test]
fn an_action_set_with_a_group_does_no_output() {
    let mut bench = Bench::new(config());
    bench.tell(group(GroupModCommand::Add, GroupKind::Indirect, 1, vec![to_port(2)]));
    let write = vec![Action::output(PortNo(3)), Action::Group(GroupId(1))];
    bench.add(0, 1, Match::default(), Instructions { write, ..Instructions::default() });
    assert_eq!(bench.ports(1, &tcp(1, 2, 9)), [2]);
}
