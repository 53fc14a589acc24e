//! Counters, timeouts, limits and the splitting of replies.

use std::num::NonZeroUsize;

use crate::common::{Bench, config, group, out, tcp, to};
use anabranch_switch::{Config, Output, Switch};
use net::Time;
use openflow::frame::build;
use openflow::*;

fn flows(bench: &mut Bench) -> Vec<FlowStats> {
    match bench.statistics(MultipartRequest::Flow(FlowSelection::all())) {
        MultipartReply::Flow(flows) => flows,
        other => panic!("{other:?}"),
    }
}

fn send(bench: &mut Bench, at_ms: u64, dst: u8) {
    bench.now = Time::from_ms(at_ms);
    let decision = bench.decide(1, &tcp(1, dst, 9));
    bench.switch.count(bench.now, PortNo(1), &decision, 1, 1000);
}

#[test]
fn everything_a_packet_uses_counts_it() {
    let mut bench = Bench::new(config());
    let buckets = vec![Bucket::watching(PortNo(2), 1), Bucket::watching(PortNo(3), 0)];
    bench.tell(group(GroupModCommand::Add, GroupKind::Select, 1, buckets.clone()));
    let by_group = Instructions { write: vec![Action::Group(GroupId(1))], ..Instructions::default() };
    bench.add(0, 1, to(2), Instructions { goto: Some(TableId(1)), ..Instructions::default() });
    bench.add(1, 1, Match::default(), by_group);
    bench.add(0, 1, to(3), out(4));
    for (ms, dst) in [(1, 2), (2, 2), (3, 3), (4, 4)] {
        send(&mut bench, ms, dst);
    }
    let counted: Vec<(u8, u64, u64)> = flows(&mut bench).iter().map(|f| (f.table.0, f.packets, f.bytes)).collect();
    assert_eq!(counted, [(0, 2, 2000), (0, 1, 1000), (1, 2, 2000)]);
    let first_table = FlowSelection { table: TableId(0), ..FlowSelection::all() };
    let aggregate = bench.statistics(MultipartRequest::Aggregate(first_table));
    assert_eq!(aggregate, MultipartReply::Aggregate { packets: 3, bytes: 3000, flows: 2 });
    let MultipartReply::Table(tables) = bench.statistics(MultipartRequest::Table) else { panic!() };
    let tables: Vec<_> = tables.iter().map(|t| (t.active, t.lookups, t.matched)).collect();
    assert_eq!(tables, [(2, 4, 3), (1, 2, 2), (0, 0, 0)]);
    let MultipartReply::Port(ports) = bench.statistics(MultipartRequest::Port(PortNo::ANY)) else { panic!() };
    let ports: Vec<_> = ports.iter().map(|p| (p.rx_packets, p.rx_bytes, p.tx_packets, p.tx_bytes)).collect();
    assert_eq!(ports, [(4, 4000, 0, 0), (0, 0, 2, 2000), (0, 0, 0, 0), (0, 0, 1, 1000)]);
    let MultipartReply::Group(groups) = bench.statistics(MultipartRequest::Group(GroupId::ALL)) else { panic!() };
    let expected = GroupStats {
        group: GroupId(1),
        references: 1,
        packets: 2,
        bytes: 2000,
        duration_ns: 4_000_000,
        buckets: vec![(2, 2000), (0, 0)],
    };
    assert_eq!(groups, std::slice::from_ref(&expected));
    bench.tell(group(GroupModCommand::Modify, GroupKind::Select, 1, buckets));
    let MultipartReply::Group(groups) = bench.statistics(MultipartRequest::Group(GroupId(1))) else { panic!() };
    let expected = GroupStats { buckets: vec![(0, 0); 2], ..expected };
    assert_eq!(groups, [expected], "bucket counters restart, group counters continue");
    assert_eq!(bench.statistics(MultipartRequest::Group(GroupId(9))), MultipartReply::Group(vec![]));
}

#[test]
fn statistics_stand_still_between_refreshes() {
    let mut bench = Bench::new(Config { stats_refresh: Time::from_s(20), ..config() });
    bench.now = Time::from_s(1);
    bench.add(0, 1, to(2), out(2));
    let mut at = |s: u64, packets: u64| {
        (0..packets).for_each(|_| send(&mut bench, s * 1000, 2));
        bench.now = Time::from_s(s);
        bench.switch.handle_timeout(bench.now);
        let flow = flows(&mut bench).remove(0);
        (flow.packets, flow.duration_ns / 1_000_000_000)
    };
    assert_eq!(at(5, 3), (0, 0));
    assert_eq!(at(19, 1), (0, 0));
    assert_eq!(at(20, 0), (4, 19));
    assert_eq!(at(30, 5), (4, 19));
    assert_eq!(at(39, 5), (4, 19));
    assert_eq!(at(41, 1), (14, 39));
    assert_eq!(at(1000, 0), (15, 999));
    let entry = &bench.switch.entries()[0];
    assert_eq!((entry.packets, entry.duration_ns), (15, 999_000_000_000), "entries() shows this moment");
}

#[test]
fn replaced_entries_keep_their_counters_unless_told_otherwise() {
    let mut bench = Bench::new(config());
    bench.add(0, 1, to(2), out(2));
    send(&mut bench, 1000, 2);
    bench.add(0, 1, to(2), out(3));
    assert_eq!(flows(&mut bench)[0].packets, 1);
    let flags = FlowModFlags { reset_counts: true, ..FlowModFlags::default() };
    let add = FlowMod { flags, ..FlowMod::add(TableId(0), 1, to(2), out(3)) };
    bench.tell(Message::FlowMod(add.clone()));
    assert_eq!((flows(&mut bench)[0].packets, flows(&mut bench)[0].duration_ns), (0, 0));
    send(&mut bench, 2000, 2);
    let modify = FlowMod { command: FlowModCommand::Modify, ..FlowMod::add(TableId(0), 1, Match::default(), out(4)) };
    bench.tell(Message::FlowMod(modify.clone()));
    let flow = flows(&mut bench).remove(0);
    assert_eq!((flow.packets, flow.instructions), (1, out(4)));
    bench.tell(Message::FlowMod(FlowMod { flags, ..modify }));
    assert_eq!(flows(&mut bench)[0].packets, 0);
}

fn removed(bench: &mut Bench) -> Vec<(RemovedReason, u64, u64)> {
    let messages = bench.messages().into_iter().filter_map(|(_, message)| match message {
        Message::FlowRemoved(removed) => Some((removed.reason, removed.duration_ns / 1_000_000, removed.packets)),
        _ => None,
    });
    messages.collect()
}

#[test]
fn entries_expire_when_unused_or_when_their_time_is_over() {
    use RemovedReason::{HardTimeout, IdleTimeout};
    let mut bench = Bench::new(config());
    let flags = FlowModFlags { send_flow_removed: true, ..FlowModFlags::default() };
    let timed = |dst, idle_timeout_s, hard_timeout_s| {
        let add = FlowMod::add(TableId(0), 1, to(dst), out(2));
        Message::FlowMod(FlowMod { flags, idle_timeout_s, hard_timeout_s, ..add })
    };
    [timed(2, 5, 0), timed(3, 0, 8), timed(4, 5, 8), timed(5, 0, 0)].into_iter().for_each(|add| bench.tell(add));
    assert_eq!(bench.switch.poll_timeout(), Some(Time::from_s(5)));
    send(&mut bench, 3000, 2);
    send(&mut bench, 4000, 4);
    let mut at = |ms| {
        bench.now = Time::from_ms(ms);
        bench.switch.handle_timeout(bench.now);
        (removed(&mut bench), bench.switch.poll_timeout())
    };
    assert_eq!(at(4999), (vec![], Some(Time::from_s(5))));
    assert_eq!(at(5000), (vec![], Some(Time::from_s(8))), "both were used since");
    assert_eq!(at(8000).0, [(IdleTimeout, 8000, 1), (HardTimeout, 8000, 0), (HardTimeout, 8000, 1)]);
    assert_eq!(at(9000), (vec![], None));
    assert_eq!(bench.switch.entries().len(), 1);
}

#[test]
fn entries_of_deleted_groups_go_with_them() {
    let mut bench = Bench::new(config());
    let flags = FlowModFlags { send_flow_removed: true, ..FlowModFlags::default() };
    for id in [1, 2] {
        bench.tell(group(GroupModCommand::Add, GroupKind::Select, id, vec![Bucket::watching(PortNo(2), 1)]));
        let through = Instructions::apply(vec![Action::Group(GroupId(id))]);
        let add = FlowMod::add(TableId(0), 1, to(id as u8), through);
        bench.tell(Message::FlowMod(FlowMod { flags, ..add }));
    }
    bench.add(0, 1, to(9), out(2));
    for GroupId(id) in [GroupId(1), GroupId::ALL] {
        bench.handle(crate::common::C, Xid(3), group(GroupModCommand::Delete, GroupKind::Select, id, vec![]));
        assert_eq!(removed(&mut bench), [(RemovedReason::GroupDelete, 0, 0)]);
    }
    assert_eq!((bench.switch.entries().len(), bench.switch.groups().len()), (1, 0));
}

#[test]
fn long_answers_come_in_parts() {
    let mut bench = Bench::of(Switch::new(config()).with_part_entries(NonZeroUsize::new(3).expect("not zero")));
    for (count, expected) in [(0, vec![0]), (3, vec![3]), (4, vec![3, 1]), (7, vec![3, 3, 1])] {
        (0..count).for_each(|dst| bench.add(1, 1, to(dst), out(2)));
        let parts = bench.ask(Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all())));
        let last = parts.len() - 1;
        let size = |(ix, part): (usize, &Message)| match part {
            Message::MultipartReply { reply: MultipartReply::Flow(flows), has_more } => {
                assert_eq!(*has_more, ix < last);
                flows.len()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(parts.iter().enumerate().map(size).collect::<Vec<_>>(), expected);
    }
    let parts = bench.ask(Message::MultipartRequest(MultipartRequest::PortDesc));
    assert_eq!(parts.len(), 2, "four ports");
}

#[test]
fn packets_for_the_controller_are_limited_in_rate() {
    let mut bench = Bench::new(Config { packet_in_per_s: Some(2000), ..config() });
    bench.add(0, 0, Match::default(), Instructions::apply(vec![Action::to_controller()]));
    let frame = build(&tcp(1, 2, 9), 0);
    let mut arrive = |ms: u64, packets: u32| {
        bench.now = Time::from_ms(ms);
        (0..packets).for_each(|_| bench.switch.receive(bench.now, PortNo(1), &frame));
        bench.messages().len()
    };
    assert_eq!(arrive(1000, 500), 200, "a tenth of a second's worth at once");
    assert_eq!(arrive(1001, 500), 2);
    assert_eq!(arrive(1050, 10), 10);
    assert_eq!(arrive(5000, 500), 200, "no more is saved up");
    assert_eq!(bench.switch.tally().packet_ins_suppressed, 300 + 498 + 300);
    let mut closed = Bench::new(Config { packet_in_per_s: Some(0), ..config() });
    closed.add(0, 0, Match::default(), Instructions::apply(vec![Action::to_controller()]));
    closed.switch.receive(closed.now, PortNo(1), &frame);
    assert_eq!(closed.messages(), []);
}

#[test]
fn what_cannot_be_parsed_or_comes_from_a_dead_port_is_dropped_and_counted() {
    let mut bench = Bench::new(config());
    bench.add(0, 0, Match::default(), out(2));
    let frame = build(&tcp(1, 2, 9), 0);
    bench.switch.receive(bench.now, PortNo(1), &frame[..20]);
    let hw_addr = crate::common::port_desc(3).hw_addr;
    bench.handle(
        crate::common::C,
        Xid(3),
        Message::PortMod(PortMod { port: PortNo(3), hw_addr, config: 1, mask: 1, advertise: 0 }),
    );
    let news = bench.messages();
    assert!(matches!(&news[..], [(_, Message::PortStatus { port, .. })] if port.is_admin_down), "{news:?}");
    bench.switch.receive(bench.now, PortNo(3), &frame);
    bench.switch.receive(bench.now, PortNo(77), &frame);
    assert_eq!(bench.drain(), []);
    for (port, dropped) in [(1, 1), (3, 1), (4, 0)] {
        let MultipartReply::Port(ports) = bench.statistics(MultipartRequest::Port(PortNo(port))) else { panic!() };
        assert_eq!((ports[0].rx_packets, ports[0].rx_dropped), (0, dropped));
    }
    bench.switch.receive(bench.now, PortNo(1), &frame);
    assert_eq!(bench.drain(), [Output::Frame(PortNo(2), frame)]);
}
