//! Lengths of messages, computed by hand from the structures of the specification.

use std::net::Ipv4Addr;

use anabranch_openflow::*;

/// Returns the length of `ofp_match` with its padding, which follows 48 bytes of `ofp_flow_mod`.
fn match_len(match_: Match) -> usize {
    wire_len(&Message::FlowMod(FlowMod::add(TableId(0), 0, match_, Instructions::default()))) - 48
}

#[test]
fn lengths_are_those_of_the_specification() {
    assert_eq!(wire_len(&Message::Hello { versions: 1 << 4 }), 16);
    assert_eq!(wire_len(&Message::BarrierRequest), 8);
    assert_eq!(wire_len(&Message::EchoRequest(vec![0; 5])), 13);
    // ofp_packet_out: 24, one output of 16, the packet.
    let data = vec![0; 60];
    let out = PacketOut {
        buffer: BufferId::NO_BUFFER,
        in_port: PortNo::CONTROLLER,
        actions: vec![Action::output(PortNo(1))],
        data,
    };
    assert_eq!(wire_len(&Message::PacketOut(out)), 24 + 16 + 60);
    assert_eq!(wire_len(&Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all()))), 16 + 32 + 8);
    assert_eq!(wire_len(&Message::MultipartRequest(MultipartRequest::PortDesc)), 16);
    let desc = MultipartReply::Desc(Description::default());
    assert_eq!(wire_len(&Message::MultipartReply { reply: desc, has_more: false }), 16 + 1056);
}

#[test]
fn matches_are_padded_to_eight() {
    assert_eq!(match_len(Match::default()), 8);
    let dst = Some(Masked::<Ipv4Addr>::exact(Ipv4Addr::new(10, 0, 0, 1)));
    // eth_type 6 and ipv4_dst 8 after the header of 4: 18, padded to 24.
    let exact = Match { eth_type: Some(0x0800), ipv4_dst: dst, ..Match::default() };
    assert_eq!(match_len(exact), 24);
    let prefix = Masked { value: Ipv4Addr::new(10, 0, 0, 0), mask: Ipv4Addr::new(255, 0, 0, 0) };
    // 4 + 6 + 12 = 22.
    assert_eq!(match_len(Match { ipv4_dst: Some(prefix), ..exact }), 24);
    // 22 + 8 (both ports are 6 each, in_port 8): 4 + 6 + 12 + 8 = 30.
    assert_eq!(match_len(Match { ipv4_dst: Some(prefix), in_port: Some(PortNo(1)), ..exact }), 32);
    // TCP flags: 4 + 4 for the experimenter id, 2, and 2 for a mask: 4 + 10 and 4 + 12 are
    // padded to 16.
    let flags = |mask| match_len(Match { tcp_flags: Some(Masked { value: 2, mask }), ..Match::default() });
    assert_eq!((flags(0x0fff), flags(2)), (16, 16));
    // Any tag needs a mask: 4 + 4 + 4; one id does not: 4 + 4 + 2. Both are padded to 16.
    let tagged = |vlan| match_len(Match { vlan: Some(vlan), ..Match::default() });
    assert_eq!((tagged(VlanMatch::Tagged), tagged(VlanMatch::Id(7))), (16, 16));
}

#[test]
fn rules_and_groups_have_their_parts() {
    let apply = vec![Action::SetField(SetField::VlanVid(7)), Action::Group(GroupId(1))];
    let instructions = Instructions { goto: Some(TableId(1)), ..Instructions::apply(apply) };
    // ofp_instruction_actions 8 + 16 + 8, ofp_instruction_goto_table 8.
    let rule = FlowMod::add(TableId(0), 1, Match::default(), instructions);
    assert_eq!(wire_len(&Message::FlowMod(rule)), 48 + 8 + 40);
    let buckets = vec![Bucket::watching(PortNo(1), 1), Bucket::watching(PortNo(2), 1)];
    let group = GroupMod { command: GroupModCommand::Add, kind: GroupKind::Select, group: GroupId(1), buckets };
    assert_eq!(wire_len(&Message::GroupMod(group)), 16 + 2 * 32);
}
