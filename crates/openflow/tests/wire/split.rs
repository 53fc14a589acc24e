//! Lists that are longer than a message can be.

use anabranch_openflow::wire::{MAX_LEN, encode, encode_split};
use anabranch_openflow::*;

use crate::messages_of;

fn entries(count: u64) -> Vec<FlowStats> {
    let entry = |cookie| FlowStats {
        table: TableId(0),
        duration_ns: 1,
        priority: 1,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        flags: FlowModFlags::default(),
        cookie,
        packets: 0,
        bytes: 0,
        match_: Match { in_port: Some(PortNo(1)), ..Match::default() },
        instructions: Instructions::apply(vec![Action::output(PortNo(2))]),
    };
    (0..count).map(entry).collect()
}

fn reply(reply: MultipartReply, has_more: bool) -> Envelope {
    Envelope { xid: Xid(5), message: Message::MultipartReply { reply, has_more } }
}

/// 16 bytes of headers and 88 of each entry: 744 entries are 65,488 bytes, one more does not fit.
#[test]
fn long_lists_go_out_in_parts() {
    for (count, parts, has_more) in [(0, 1, false), (744, 1, true), (745, 2, false), (3000, 5, true)] {
        let all = entries(count);
        let mut bytes = vec![1, 2];
        encode_split(&reply(MultipartReply::Flow(all.clone()), has_more), &mut bytes).unwrap();
        let messages = messages_of(&bytes[2..]);
        assert_eq!(messages.len(), parts);
        let mut read = Vec::new();
        for (at, envelope) in messages.into_iter().enumerate() {
            let Message::MultipartReply { reply: MultipartReply::Flow(part), has_more: more } = envelope.message else {
                panic!("{envelope:?}")
            };
            assert_eq!((envelope.xid, more), (Xid(5), has_more || at + 1 < parts));
            read.extend(part);
        }
        assert_eq!(read, all);
    }
}

#[test]
fn what_fits_is_written_alike() {
    for golden in crate::goldens::all() {
        let mut bytes = Vec::new();
        encode_split(&golden.envelope(), &mut bytes).unwrap();
        assert_eq!(bytes, golden.bytes(), "{}", golden.name);
    }
}

#[test]
fn too_long_messages_leave_nothing_behind() {
    let rule = |actions: usize| {
        let apply = vec![Action::output(PortNo(1)); actions];
        Instructions::apply(apply)
    };
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
        for encode in [encode, encode_split] {
            let mut bytes = vec![9; 3];
            let error = encode(&envelope, &mut bytes).unwrap_err();
            assert!(error.message.contains("65,535"), "{error}");
            assert_eq!(bytes, [9; 3]);
        }
    }
    let mut bytes = Vec::new();
    assert!(encode(&reply(MultipartReply::Flow(entries(745)), false), &mut bytes).is_err());
    encode(&Envelope { xid: Xid(1), message: Message::EchoRequest(vec![0; MAX_LEN - 8]) }, &mut bytes).unwrap();
    assert_eq!(bytes.len(), MAX_LEN);
}

/// Values outside the range of their field.
#[test]
fn values_without_bytes_are_refused() {
    let outside = Masked { value: 3, mask: 1 };
    let matches = [
        Match { vlan: Some(VlanMatch::Id(4096)), ..Match::default() },
        Match { vlan_pcp: Some(8), ..Match::default() },
        Match { ip_dscp: Some(64), ..Match::default() },
        Match { ip_ecn: Some(4), ..Match::default() },
        Match { metadata: Some(outside), ..Match::default() },
    ];
    let rule = |m| Message::FlowMod(FlowMod::add(TableId(0), 1, m, Instructions::default()));
    let set = |field| {
        let instructions = Instructions::apply(vec![Action::SetField(field)]);
        Message::FlowMod(FlowMod::add(TableId(0), 1, Match::default(), instructions))
    };
    let fields = [SetField::VlanVid(4096), SetField::VlanPcp(8), SetField::IpDscp(64), SetField::IpEcn(4)];
    let port = |name: &str| PortDesc {
        port: PortNo(1),
        hw_addr: MacAddr::default(),
        name: name.to_owned(),
        is_admin_down: false,
        is_link_down: false,
        speed_kbps: 0,
    };
    let ports = [port("sixteen bytes ab"), port("a\0b")];
    let old = FlowStats { duration_ns: u64::MAX, ..entries(1).remove(0) };
    let old = Message::MultipartReply { reply: MultipartReply::Flow(vec![old]), has_more: false };
    let messages = matches
        .into_iter()
        .map(rule)
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
