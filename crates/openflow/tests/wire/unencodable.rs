//! Messages that cannot be encoded.

use anabranch_openflow::wire::{MAX_LEN, encode};
use anabranch_openflow::*;

use crate::messages_of;

fn entries(count: u64) -> Vec<FlowStats> {
    let entry = |cookie| FlowStats {
        duration_ns: 1,
        priority: 1,
        cookie,
        match_: Match { in_port: Some(PortNo(1)), ..Match::default() },
        instructions: Instructions::apply(vec![Action::output(PortNo(2))]),
        ..FlowStats::default()
    };
    (0..count).map(entry).collect()
}

fn reply(reply: MultipartReply, has_more: bool) -> Envelope {
    Envelope { xid: Xid(5), message: Message::MultipartReply { reply, has_more } }
}

#[test]
fn too_long_messages_leave_nothing_behind() {
    let rule = |actions: usize| Instructions::apply(vec![Action::output(PortNo(1)); actions]);
    let add = FlowMod::add(TableId(0), 1, Match::default(), rule(5000));
    let mut long_entry = entries(2);
    long_entry[1].instructions = rule(5000);
    let bucket = Bucket { actions: vec![Action::DecNwTtl; 9000], ..Bucket::watching(PortNo(1), 1) };
    let group =
        GroupMod { command: GroupModCommand::Add, kind: GroupKind::All, group: GroupId(1), buckets: vec![bucket] };
    let packet = PacketOut {
        buffer: BufferId::NO_BUFFER,
        in_port: PortNo::CONTROLLER,
        actions: vec![Action::PopVlan; 9000],
        data: Vec::new(),
    };
    let long = [
        Message::EchoRequest(vec![0; MAX_LEN - 7]),
        Message::FlowMod(add),
        Message::GroupMod(group),
        Message::PacketOut(packet),
        Message::MultipartReply { reply: MultipartReply::Other { kind: 9, body: vec![0; MAX_LEN] }, has_more: false },
        Message::MultipartReply { reply: MultipartReply::Flow(long_entry), has_more: false },
    ];
    for message in long {
        let envelope = Envelope { xid: Xid(1), message };
        let mut bytes = vec![9; 3];
        let error = encode(&envelope, &mut bytes).unwrap_err();
        assert!(error.message.contains("65,535"), "{error}");
        assert_eq!(bytes, [9; 3]);
    }
    // 16 bytes of headers and 88 of each entry: 744 entries are 65,488 bytes.
    let mut bytes = Vec::new();
    encode(&reply(MultipartReply::Flow(entries(744)), true), &mut bytes).unwrap();
    assert_eq!(messages_of(&bytes), [reply(MultipartReply::Flow(entries(744)), true)]);
    bytes.clear();
    assert!(encode(&reply(MultipartReply::Flow(entries(745)), false), &mut bytes).is_err());
    encode(&Envelope { xid: Xid(1), message: Message::EchoRequest(vec![0; MAX_LEN - 8]) }, &mut bytes).unwrap();
    assert_eq!(bytes.len(), MAX_LEN);
}

#[test]
fn values_out_of_range_are_refused() {
    let outside = Masked { value: 3, mask: 1 };
    let matches = [
        Match { vlan: Some(VlanMatch::Id(4096)), ..Match::default() },
        Match { vlan_pcp: Some(8), ..Match::default() },
        Match { ip_dscp: Some(64), ..Match::default() },
        Match { ip_ecn: Some(4), ..Match::default() },
        Match { metadata: Some(outside), ..Match::default() },
    ];
    let rule = |m, actions| Message::FlowMod(FlowMod::add(TableId(0), 1, m, Instructions::apply(actions)));
    let set = |field| rule(Match::default(), vec![Action::SetField(field)]);
    let fields = [SetField::VlanVid(4096), SetField::VlanPcp(8), SetField::IpDscp(64), SetField::IpEcn(4)];
    let ports = ["sixteen bytes ab", "a\0b"].map(|name| PortDesc::up(PortNo(1), MacAddr::default(), name, 0));
    let old = FlowStats { duration_ns: u64::MAX, ..entries(1).remove(0) };
    let old = Message::MultipartReply { reply: MultipartReply::Flow(vec![old]), has_more: false };
    let messages = matches
        .into_iter()
        .map(|m| rule(m, Vec::new()))
        .chain(fields.into_iter().map(set))
        .chain(ports.into_iter().map(|port| Message::PortStatus { reason: PortReason::Add, port }))
        .chain([old]);
    for message in messages {
        let mut bytes = vec![7];
        let result = encode(&Envelope { xid: Xid(1), message: message.clone() }, &mut bytes);
        assert!(result.is_err(), "{message:?}");
        assert_eq!(bytes, [7]);
    }
}
