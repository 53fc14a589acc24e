//! Switches without groups, with small tables, or without optional multipart messages.

use core::net::Ipv4Addr;

use crate::common::{Bench, config, group, out, tcp, to, to_port};
use anabranch_switch::{Config, NoOutput, Support};
use openflow::headers::protocol;
use openflow::*;

fn refused(bench: &mut Bench, message: Message) -> ErrorKind {
    match &bench.ask(message)[..] {
        [Message::Error { kind, .. }] => *kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn switch_without_groups_knows_no_message_about_them() {
    let support = Support { groups: false, ..Support::default() };
    let mut bench = Bench::new(Config { support, ..config() });
    let add = group(GroupModCommand::Add, GroupKind::All, 1, vec![to_port(1)]);
    assert_eq!(refused(&mut bench, add.clone()), ErrorKind::BadRequest(BadRequest::BadType));
    for request in [MultipartRequest::GroupDesc, MultipartRequest::Group(GroupId::ALL), MultipartRequest::GroupFeatures]
    {
        let kind = refused(&mut bench, Message::MultipartRequest(request));
        assert_eq!(kind, ErrorKind::BadRequest(BadRequest::BadMultipart));
    }
    let [Message::FeaturesReply(features)] = &bench.ask(Message::FeaturesRequest)[..] else { panic!() };
    assert_eq!(features.capabilities & capability::GROUP_STATS, 0);
    // The other way to have none: they are known, but the capacity is zero.
    let mut bench = Bench::new(Config { max_groups: 0, ..config() });
    assert_eq!(refused(&mut bench, add), ErrorKind::GroupModFailed(GroupModFailed::OutOfGroups));
    assert_eq!(bench.statistics(MultipartRequest::GroupDesc), MultipartReply::GroupDesc(Vec::new()));
}

#[test]
fn full_table_refuses_rules_until_others_remove_some() {
    let mut bench = Bench::new(Config { max_entries: 2, ..config() });
    bench.add(0, 1, to(1), out(1));
    bench.add(0, 1, to(2), out(1));
    let third = Message::FlowMod(FlowMod::add(TableId(0), 1, to(3), out(1)));
    assert_eq!(refused(&mut bench, third.clone()), ErrorKind::FlowModFailed(FlowModFailed::TableFull));
    bench.switch.flow_mod_by_other(bench.now, FlowMod::delete_strict(TableId(0), 1, to(1))).expect("a deletion");
    bench.tell(third);
}

#[test]
fn features_are_those_of_the_configuration() {
    let mut bench = Bench::new(config());
    let MultipartReply::TableFeatures(tables) = bench.statistics(MultipartRequest::TableFeatures(Vec::new())) else {
        panic!()
    };
    assert_eq!(
        tables.iter().map(|table| (table.table.0, table.max_entries)).collect::<Vec<_>>(),
        [(0, 8), (1, 8), (2, 8)]
    );
    let kinds: Vec<u16> = tables[0].properties.iter().map(|property| property.kind).collect();
    assert_eq!(kinds, [0, 2, 4, 6, 8, 10, 12, 14]);
    assert_eq!(tables[0].properties[1].ids, [FeatureId::plain(1), FeatureId::plain(2)]);
    let change = Message::MultipartRequest(MultipartRequest::TableFeatures(tables));
    let eperm = ErrorKind::TableFeaturesFailed(TableFeaturesFailed::Eperm);
    assert_eq!(refused(&mut bench, change.clone()), eperm);
    bench.ask(Message::RoleRequest(Role { role: ControllerRole::Slave, generation: 1 }));
    assert_eq!(refused(&mut bench, change), ErrorKind::BadRequest(BadRequest::IsSlave));

    let none = MultipartReply::MeterFeatures(MeterFeatures::default());
    assert_eq!(bench.statistics(MultipartRequest::MeterFeatures), none);
    assert_eq!(bench.statistics(MultipartRequest::Meter(MeterId::ALL)), MultipartReply::Meter(Vec::new()));
    let unknown = ErrorKind::MeterModFailed(MeterModFailed::UnknownMeter);
    let one = Message::MultipartRequest(MultipartRequest::MeterConfig(MeterId(1)));
    assert_eq!(refused(&mut bench, one), unknown);
    let queue = |port, queue| MultipartRequest::Queue { port, queue };
    assert_eq!(bench.statistics(queue(PortNo::ANY, QueueId::ALL)), MultipartReply::Queue(Vec::new()));
    for (port, id, why) in
        [(PortNo(9), QueueId::ALL, QueueOpFailed::BadPort), (PortNo(1), QueueId(1), QueueOpFailed::BadQueue)]
    {
        let kind = refused(&mut bench, Message::MultipartRequest(queue(port, id)));
        assert_eq!(kind, ErrorKind::QueueOpFailed(why));
    }
}

/// All 255 tables fit into messages of 64 KiB.
#[test]
fn features_of_many_tables_come_in_parts_that_can_be_encoded() {
    let mut bench = Bench::new(Config { tables: 255, ..config() });
    let parts = bench.ask(Message::MultipartRequest(MultipartRequest::TableFeatures(Vec::new())));
    let longest = parts.iter().map(wire_len).max().unwrap_or_default();
    assert!(parts.len() > 1 && longest <= wire::MAX_LEN, "{} parts of up to {longest} bytes", parts.len());
}

#[test]
fn unknown_features_are_refused() {
    let support = Support { features: false, ..Support::default() };
    let mut bench = Bench::new(Config { support, ..config() });
    for request in [
        MultipartRequest::TableFeatures(Vec::new()),
        MultipartRequest::MeterFeatures,
        MultipartRequest::Meter(MeterId::ALL),
        MultipartRequest::MeterConfig(MeterId::ALL),
        MultipartRequest::Queue { port: PortNo::ANY, queue: QueueId::ALL },
        MultipartRequest::Other { kind: 77, body: Vec::new() },
    ] {
        let kind = refused(&mut bench, Message::MultipartRequest(request));
        assert_eq!(kind, ErrorKind::BadRequest(BadRequest::BadMultipart));
    }
    let experimenter = MultipartRequest::Experimenter { experimenter: 1, kind: 1, data: Vec::new() };
    let kind = refused(&mut bench, Message::MultipartRequest(experimenter));
    assert_eq!(kind, ErrorKind::BadRequest(BadRequest::BadExperimenter));
}

#[test]
fn outer_headers_are_added_by_switches_that_support_them() {
    let ip = |last| Ipv4Addr::new(10, 0, 0, last);
    let push = vec![Action::PushIpv4, Action::SetField(SetField::Ipv4Dst(ip(9))), Action::output(PortNo(2))];
    let add = |match_| Message::FlowMod(FlowMod::add(TableId(0), 1, match_, Instructions::apply(push.clone())));
    let unknown = ErrorKind::BadAction(BadAction::BadExperimenter);
    assert_eq!(refused(&mut Bench::new(config()), add(to(2))), unknown);
    let support = Support { ip_in_ip: true, ..Support::default() };
    let mut bench = Bench::new(Config { support, ..config() });
    let inconsistent = ErrorKind::BadAction(BadAction::MatchInconsistent);
    assert_eq!(refused(&mut bench, add(Match::default())), inconsistent, "it may not be IPv4");
    let bucket = Bucket { actions: push.clone(), ..to_port(2) };
    assert_eq!(refused(&mut bench, group(GroupModCommand::Add, GroupKind::All, 1, vec![bucket])), unknown);
    bench.tell(add(to(2)));
    let headers = tcp(1, 2, 9);
    let decision = bench.decide(1, &headers);
    let outer =
        Headers { ip_proto: protocol::IP_IN_IP, ipv4_dst: ip(9), l4_src: 0, l4_dst: 0, tcp_flags: 0, ..headers };
    assert_eq!((decision.egress.len(), decision.egress[0].headers), (1, outer));
    let again = Headers { ipv4_dst: ip(2), ..outer };
    assert_eq!(bench.decide(1, &again).no_output, Some(NoOutput::Dropped), "one outer header");
}
