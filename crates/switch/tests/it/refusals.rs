//! Refused messages and their errors.

use core::net::Ipv4Addr;

use crate::common::{Bench, config, group, tcp, to, to_port};
use openflow::frame::build;
use openflow::headers::ether;
use openflow::*;

fn refuse(bench: &mut Bench, message: Message) -> ErrorKind {
    let tables = (bench.switch.entries(), bench.switch.groups());
    let errors = bench.switch.tally().errors;
    let answers = bench.ask(message.clone());
    let [Message::Error { kind, .. }] = &answers[..] else { panic!("{message:?} is answered by {answers:?}") };
    assert_eq!(tables, (bench.switch.entries(), bench.switch.groups()), "{message:?} had an effect");
    assert_eq!(bench.switch.tally().errors, errors + 1);
    *kind
}

fn add(table: u8, match_: Match, instructions: Instructions) -> Message {
    Message::FlowMod(FlowMod::add(TableId(table), 5, match_, instructions))
}

fn matching(match_: Match) -> Message {
    add(0, match_, Instructions::default())
}

fn doing(match_: Match, actions: Vec<Action>) -> Message {
    add(0, match_, Instructions::apply(actions))
}

fn calling(id: u32) -> Bucket {
    Bucket { actions: vec![Action::Group(GroupId(id))], ..to_port(1) }
}

fn packet_out(in_port: PortNo, actions: Vec<Action>) -> PacketOut {
    PacketOut { buffer: BufferId::NO_BUFFER, in_port, actions, data: build(&tcp(1, 2, 9), 0) }
}

/// Returns a switch with tables 0 to 2, the last one full; 3 of 4 groups, of which 2 calls 1.
fn bench() -> Bench {
    let mut bench = Bench::new(config());
    for port in 0..8 {
        bench.add(2, port, Match::default(), Instructions::default());
    }
    bench.add(1, 5, to(2), Instructions::default());
    for (id, bucket) in [(1, to_port(1)), (2, calling(1)), (3, to_port(3))] {
        bench.tell(group(GroupModCommand::Add, GroupKind::Indirect, id, vec![bucket]));
    }
    bench
}

fn matches() -> Vec<(Match, BadMatch)> {
    use BadMatch::*;
    let none = Match::default();
    let ipv4 = Match { eth_type: Some(ether::IPV4), ..none };
    let ip = Masked::<Ipv4Addr>::exact(Ipv4Addr::new(10, 0, 0, 1));
    let beyond = Masked { value: Ipv4Addr::new(10, 0, 0, 1), mask: Ipv4Addr::new(255, 0, 0, 0) };
    let mac = Masked { value: MacAddr([1; 6]), mask: MacAddr([0xff, 0xff, 0xff, 0, 0, 0]) };
    vec![
        (Match { in_port: Some(PortNo(9)), ..none }, BadValue),
        (Match { in_port: Some(PortNo::ANY), ..none }, BadValue),
        (Match { metadata: Some(Masked { value: 2, mask: 1 }), ..none }, BadWildcards),
        (Match { eth_dst: Some(mac), ..none }, BadWildcards),
        (Match { eth_src: Some(mac), ..none }, BadWildcards),
        (Match { ipv4_src: Some(beyond), ..ipv4 }, BadWildcards),
        (Match { vlan: Some(VlanMatch::Id(4096)), ..none }, BadValue),
        (Match { vlan: Some(VlanMatch::Tagged), vlan_pcp: Some(8), ..none }, BadValue),
        (Match { ip_dscp: Some(64), ..ipv4 }, BadValue),
        (Match { ip_ecn: Some(4), ..ipv4 }, BadValue),
        (Match { vlan_pcp: Some(1), ..none }, BadPrereq),
        (Match { vlan: Some(VlanMatch::Untagged), vlan_pcp: Some(1), ..none }, BadPrereq),
        (Match { ip_dscp: Some(1), ..none }, BadPrereq),
        (Match { ip_proto: Some(6), ..none }, BadPrereq),
        (Match { ip_proto: Some(6), eth_type: Some(ether::ARP), ..none }, BadPrereq),
        (Match { ipv4_dst: Some(ip), ..none }, BadPrereq),
        (Match { arp_op: Some(1), ..ipv4 }, BadPrereq),
        (Match { arp_spa: Some(ip), ..none }, BadPrereq),
        (Match { tcp_dst: Some(80), ..ipv4 }, BadPrereq),
        (Match { tcp_dst: Some(80), ip_proto: Some(17), ..ipv4 }, BadPrereq),
        (Match { udp_src: Some(80), ip_proto: Some(6), ..ipv4 }, BadPrereq),
        (Match { icmpv4_type: Some(8), ip_proto: Some(6), ..ipv4 }, BadPrereq),
        // An extension that not every switch supports.
        (Match { tcp_flags: Some(Masked { value: 2, mask: 2 }), ip_proto: Some(6), ..ipv4 }, BadField),
    ]
}

#[test]
fn matches_the_specification_forbids() {
    for (match_, why) in matches() {
        let kind = ErrorKind::BadMatch(why);
        assert_eq!(refuse(&mut bench(), matching(match_)), kind, "{match_:?}");
        let delete = FlowMod { command: FlowModCommand::Delete, ..FlowMod::delete_strict(TableId(0), 0, match_) };
        assert_eq!(refuse(&mut bench(), Message::FlowMod(delete)), kind, "{match_:?}");
        let selection = FlowSelection { match_, ..FlowSelection::all() };
        let request = Message::MultipartRequest(MultipartRequest::Flow(selection));
        assert_eq!(refuse(&mut bench(), request), kind, "{match_:?}");
    }
}

#[test]
fn actions_that_cannot_be_done() {
    use Action::{Output, PopVlan, PushVlan, SetQueue};
    use BadAction::*;
    use SetField::*;
    let set = Action::SetField;
    let ipv4 = to(2);
    let (tcp, udp) = (Match { ip_proto: Some(6), ..ipv4 }, Match { ip_proto: Some(17), ..ipv4 });
    let tagged = Match { vlan: Some(VlanMatch::Tagged), ..Match::default() };
    let ip = Ipv4Addr::new(1, 2, 3, 4);
    let cases = [
        (ipv4, vec![Action::output(PortNo(5))], BadOutPort),
        (ipv4, vec![Action::output(PortNo(0))], BadOutPort),
        (ipv4, vec![Action::output(PortNo::TABLE)], BadOutPort),
        (ipv4, vec![Action::output(PortNo::NORMAL)], BadOutPort),
        (ipv4, vec![Action::output(PortNo::LOCAL)], BadOutPort),
        (ipv4, vec![Action::output(PortNo::ANY)], BadOutPort),
        (ipv4, vec![Output { port: PortNo::CONTROLLER, max_len: 0xfffe }], BadArgument),
        (ipv4, vec![Action::Group(GroupId(9))], BadOutGroup),
        (ipv4, vec![Action::Group(GroupId::ANY)], BadOutGroup),
        (ipv4, vec![SetQueue(1)], BadQueue),
        (ipv4, vec![Action::DecNwTtl], BadType),
        (ipv4, vec![PushVlan(0x88a8)], BadTag),
        (ipv4, vec![PushVlan(ether::VLAN), PushVlan(ether::VLAN)], BadTag),
        (tagged, vec![PushVlan(ether::VLAN)], BadTag),
        (ipv4, vec![PopVlan], MatchInconsistent),
        (tagged, vec![PopVlan, PopVlan], MatchInconsistent),
        (tagged, vec![PopVlan, set(VlanVid(1))], MatchInconsistent),
        (ipv4, vec![set(VlanPcp(1))], MatchInconsistent),
        (Match::default(), vec![set(Ipv4Dst(ip))], MatchInconsistent),
        (Match::default(), vec![set(IpDscp(1))], MatchInconsistent),
        (udp, vec![set(TcpDst(1))], MatchInconsistent),
        (tcp, vec![set(UdpSrc(1))], MatchInconsistent),
        (tagged, vec![set(VlanVid(4096))], BadSetArgument),
        (tagged, vec![set(VlanPcp(8))], BadSetArgument),
        (ipv4, vec![set(IpDscp(64))], BadSetArgument),
        (ipv4, vec![set(IpEcn(4))], BadSetArgument),
        (ipv4, vec![Action::output(PortNo(1)); 65], TooMany),
    ];
    for (match_, actions, why) in cases {
        let kind = ErrorKind::BadAction(why);
        assert_eq!(refuse(&mut bench(), doing(match_, actions.clone())), kind, "{actions:?}");
        let modify = FlowMod {
            command: FlowModCommand::Modify,
            ..FlowMod::add(TableId(1), 5, match_, Instructions::apply(actions.clone()))
        };
        assert_eq!(refuse(&mut bench(), Message::FlowMod(modify)), kind, "{actions:?} in a modification");
        let written = Instructions { write: actions.clone(), ..Instructions::default() };
        // In their own order one of two of a kind is dropped, and tags are removed first.
        if actions.len() == 1 {
            assert_eq!(refuse(&mut bench(), add(0, match_, written)), kind, "{actions:?} written");
        }
    }
}

#[test]
fn instructions_that_cannot_be_done() {
    use BadInstruction::*;
    let cases = [
        (Instructions { meter: Some(1), ..Instructions::default() }, UnsupInst),
        (Instructions { metadata: Some(Masked { value: 2, mask: 1 }), ..Instructions::default() }, UnsupMetadataMask),
        (Instructions { goto: Some(TableId(0)), ..Instructions::default() }, BadTableId),
        (Instructions { goto: Some(TableId(1)), ..Instructions::default() }, BadTableId),
        (Instructions { goto: Some(TableId(3)), ..Instructions::default() }, BadTableId),
        (Instructions { goto: Some(TableId::ALL), ..Instructions::default() }, BadTableId),
    ];
    for (instructions, why) in cases {
        let message = add(1, Match::default(), instructions);
        assert_eq!(refuse(&mut bench(), message.clone()), ErrorKind::BadInstruction(why), "{message:?}");
    }
}

#[test]
fn flow_table_changes_that_fail() {
    use FlowModFailed::*;
    let everything = FlowMod::add(TableId(0), 5, Match::default(), Instructions::default());
    let check_overlap = FlowModFlags { check_overlap: true, ..FlowModFlags::default() };
    let cases = [
        (FlowMod { table: TableId(3), ..everything.clone() }, BadTableId),
        (FlowMod { table: TableId::ALL, ..everything.clone() }, BadTableId),
        (FlowMod { table: TableId::ALL, command: FlowModCommand::Modify, ..everything.clone() }, BadTableId),
        (FlowMod { table: TableId(7), command: FlowModCommand::Delete, ..everything.clone() }, BadTableId),
        (FlowMod { table: TableId(2), priority: 77, ..everything.clone() }, TableFull),
        (FlowMod { table: TableId(1), flags: check_overlap, ..everything.clone() }, Overlap),
        (FlowMod { table: TableId(1), match_: to(2), flags: check_overlap, ..everything.clone() }, Overlap),
    ];
    for (flow_mod, why) in cases {
        let kind = ErrorKind::FlowModFailed(why);
        assert_eq!(refuse(&mut bench(), Message::FlowMod(flow_mod.clone())), kind, "{flow_mod:?}");
    }
    let mut bench = bench();
    bench.tell(Message::FlowMod(FlowMod { table: TableId(2), ..everything.clone() }));
    bench.tell(Message::FlowMod(FlowMod { table: TableId(1), match_: to(3), flags: check_overlap, ..everything }));
    assert_eq!(bench.switch.tally().entries_max, 10, "one in place of another, one more");
}

#[test]
fn group_changes_that_fail() {
    use GroupKind::{All, FastFailover, Indirect, Select};
    use GroupModCommand::{Add, Delete, Modify};
    use GroupModFailed::*;
    let mut twice = to_port(1);
    twice.actions.push(Action::output(PortNo(2)));
    let cases = [
        (group(Add, All, 1, vec![to_port(1)]), GroupExists),
        (group(Add, All, GroupId::MAX.0 + 1, vec![to_port(1)]), InvalidGroup),
        (group(Delete, All, GroupId::ANY.0, vec![]), InvalidGroup),
        (group(Modify, All, 4, vec![to_port(1)]), UnknownGroup),
        (group(Add, Indirect, 4, vec![]), InvalidGroup),
        (group(Add, Indirect, 4, vec![to_port(1), to_port(2)]), InvalidGroup),
        (group(Add, All, 4, vec![to_port(1); 257]), OutOfBuckets),
        (group(Add, All, 4, vec![Bucket { weight: 1, ..to_port(1) }]), WeightUnsupported),
        (group(Add, FastFailover, 4, vec![Bucket::watching(PortNo(1), 1)]), WeightUnsupported),
        (group(Add, All, 4, vec![Bucket::watching(PortNo(1), 0)]), WatchUnsupported),
        (group(Add, Indirect, 4, vec![Bucket { watch_group: GroupId(1), ..to_port(1) }]), WatchUnsupported),
        (group(Add, FastFailover, 4, vec![Bucket { watch_port: PortNo(9), ..to_port(1) }]), BadWatch),
        (group(Add, Select, 4, vec![Bucket { watch_group: GroupId::ALL, ..to_port(1) }]), BadWatch),
        (group(Add, All, 4, vec![twice]), BadBucket),
        (group(Add, All, 4, vec![calling(4)]), Loop),
        (group(Modify, All, 1, vec![calling(2)]), Loop),
        (group(Modify, FastFailover, 1, vec![Bucket { watch_group: GroupId(2), ..to_port(1) }]), Loop),
        (group(Add, All, 4, vec![calling(2)]), ChainingUnsupported),
        (group(Modify, All, 1, vec![calling(3)]), ChainingUnsupported),
        (group(Delete, All, 1, vec![]), ChainedGroup),
    ];
    for (message, why) in cases {
        assert_eq!(refuse(&mut bench(), message.clone()), ErrorKind::GroupModFailed(why), "{message:?}");
    }
    for (bucket, why) in [(to_port(9), BadAction::BadOutPort), (calling(9), BadAction::BadOutGroup)] {
        assert_eq!(refuse(&mut bench(), group(Add, All, 4, vec![bucket])), ErrorKind::BadAction(why));
    }
    let mut bench = bench();
    bench.tell(group(Delete, All, 99, vec![]));
    bench.tell(group(Add, Select, 4, vec![Bucket::watching(PortNo(1), 1)]));
    let fifth = group(Add, All, 5, vec![]);
    assert_eq!(refuse(&mut bench, fifth), ErrorKind::GroupModFailed(OutOfGroups));
}

#[test]
fn packets_that_cannot_be_sent() {
    let good = packet_out(PortNo::CONTROLLER, vec![Action::output(PortNo(1))]);
    let tcp_dst = Action::SetField(SetField::UdpDst(1));
    let cases = [
        (PacketOut { in_port: PortNo(9), ..good.clone() }, ErrorKind::BadRequest(BadRequest::BadPort)),
        (PacketOut { in_port: PortNo::ANY, ..good.clone() }, ErrorKind::BadRequest(BadRequest::BadPort)),
        (PacketOut { data: vec![], ..good.clone() }, ErrorKind::BadRequest(BadRequest::BadPacket)),
        (PacketOut { buffer: BufferId(0), ..good.clone() }, ErrorKind::BadRequest(BadRequest::BufferUnknown)),
        (packet_out(PortNo(1), vec![Action::output(PortNo(9))]), ErrorKind::BadAction(BadAction::BadOutPort)),
        (packet_out(PortNo(1), vec![Action::Group(GroupId(9))]), ErrorKind::BadAction(BadAction::BadOutGroup)),
        (packet_out(PortNo(1), vec![tcp_dst]), ErrorKind::BadAction(BadAction::MatchInconsistent)),
    ];
    for (message, kind) in cases {
        assert_eq!(refuse(&mut bench(), Message::PacketOut(message.clone())), kind, "{message:?}");
    }
    let mut bench = bench();
    let up = Instructions::apply(vec![Action::Output { port: PortNo::CONTROLLER, max_len: 0 }]);
    bench.add(0, 0, Match::default(), up);
    bench.switch.receive(bench.now, PortNo(1), &good.data);
    assert_eq!(bench.messages().len(), 1);
    let kept = PacketOut { buffer: BufferId(0), data: vec![], ..good };
    let wrong = PacketOut { actions: vec![Action::output(PortNo(9))], ..kept.clone() };
    assert_eq!(refuse(&mut bench, Message::PacketOut(wrong)), ErrorKind::BadAction(BadAction::BadOutPort));
    bench.tell(Message::PacketOut(kept.clone()));
    let again = refuse(&mut bench, Message::PacketOut(kept));
    assert_eq!(again, ErrorKind::BadRequest(BadRequest::BufferEmpty), "used once");
    let add = FlowMod { buffer: BufferId(1), ..FlowMod::add(TableId(0), 9, to(9), Instructions::default()) };
    assert_eq!(refuse(&mut bench, Message::FlowMod(add)), ErrorKind::BadRequest(BadRequest::BufferUnknown));
}

#[test]
fn configurations_and_requests_that_are_not_possible() {
    let hw_addr = crate::common::port_desc(1).hw_addr;
    let port = PortMod { port: PortNo(1), hw_addr, config: 1, mask: 1, advertise: 0 };
    let set_config = |flags, miss_send_len| Message::SetConfig(SwitchConfig { flags, miss_send_len });
    let multipart = Message::MultipartRequest;
    let port_mod = |why| ErrorKind::PortModFailed(why);
    let bad_request = ErrorKind::BadRequest;
    let beyond = FlowSelection { table: TableId(3), ..FlowSelection::all() };
    let cases = [
        (Message::PortMod(PortMod { port: PortNo(9), ..port.clone() }), port_mod(PortModFailed::BadPort)),
        (Message::PortMod(PortMod { hw_addr: MacAddr([9; 6]), ..port.clone() }), port_mod(PortModFailed::BadHwAddr)),
        (Message::PortMod(PortMod { mask: 0x20, ..port.clone() }), port_mod(PortModFailed::BadConfig)),
        (Message::PortMod(PortMod { advertise: 1, ..port.clone() }), port_mod(PortModFailed::BadAdvertise)),
        (Message::TableMod { table: TableId(3), config: 0 }, ErrorKind::TableModFailed(TableModFailed::BadTable)),
        (Message::TableMod { table: TableId(1), config: 3 }, ErrorKind::TableModFailed(TableModFailed::BadConfig)),
        (set_config(1, 128), ErrorKind::SwitchConfigFailed(SwitchConfigFailed::BadFlags)),
        (set_config(0, 0xfff0), ErrorKind::SwitchConfigFailed(SwitchConfigFailed::BadLen)),
        (multipart(MultipartRequest::Port(PortNo(9))), bad_request(BadRequest::BadPort)),
        (multipart(MultipartRequest::Flow(beyond)), bad_request(BadRequest::BadTableId)),
        (multipart(MultipartRequest::Aggregate(beyond)), bad_request(BadRequest::BadTableId)),
        (multipart(MultipartRequest::Other { kind: 9, body: vec![] }), bad_request(BadRequest::BadMultipart)),
        (Message::Experimenter { experimenter: 1, kind: 2, data: vec![] }, bad_request(BadRequest::BadExperimenter)),
        (Message::BarrierReply, bad_request(BadRequest::BadType)),
    ];
    for (message, kind) in cases {
        assert_eq!(refuse(&mut bench(), message.clone()), kind, "{message:?}");
    }
}
