//! Malformed messages: offset and code of the error, its reply, and where the stream continues.

use anabranch_openflow::wire::{DecodeError, decode};
use anabranch_openflow::*;

use crate::{bytes_from_hex, bytes_of, messages_of};

fn refused(bytes: &[u8]) -> DecodeError {
    match decode(bytes) {
        Err(error) => error,
        other => panic!("{other:?}"),
    }
}

fn message(kind: u8, body: &str) -> Vec<u8> {
    let body = bytes_from_hex(body);
    let mut message = vec![4, kind, 0, 8 + body.len() as u8, 0, 0, 0, 7];
    message.extend(body);
    message
}

/// Asserts that a message is refused with this error, and that the stream continues after it.
fn check(bytes: &[u8], offset: usize, kind: ErrorKind) {
    let error = refused(bytes);
    assert_eq!((error.offset, error.kind), (offset, kind), "{error}");
    assert_eq!((error.skip, error.xid), (Some(bytes.len()), Xid(7)), "{error}");
}

#[test]
fn headers() {
    // Shorter than a header.
    let error = refused(&bytes_from_hex("0414 0007 00000007"));
    assert_eq!((error.offset, error.skip), (2, None));
    assert_eq!(error.kind, ErrorKind::BadRequest(BadRequest::BadLen));
    // Messages of other versions are refused when they are complete: their end is known.
    let bad_version = ErrorKind::BadRequest(BadRequest::BadVersion);
    for version in [1, 2, 3, 5, 6] {
        let mut features = bytes_from_hex("0005 000a 00000007 aabb");
        features[0] = version;
        assert_eq!(decode(&features[..9]), Ok(None));
        check(&features, 0, bad_version);
    }
    // Bytes of other protocols, whose length field has no meaning.
    for start in ["GET / HTTP/1.1\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\u{7f}", "SSH-2.0-OpenSSH_9"] {
        let error = refused(start.as_bytes());
        assert_eq!((error.offset, error.kind, error.skip), (0, bad_version, None));
    }
    for kind in [22, 23, 29, 30, 255] {
        check(&message(kind, "00000000"), 1, ErrorKind::BadRequest(BadRequest::BadType));
    }
}

/// `ofp_hello`: versions of the bitmap, or all up to that of the header.
#[test]
fn hellos() {
    let versions = |hex: &str| match &messages_of(&bytes_from_hex(hex))[..] {
        [Envelope { message: Message::Hello { versions }, .. }] => *versions,
        other => panic!("{other:?}"),
    };
    assert_eq!(versions("0100 0008 00000007"), 0b10);
    assert_eq!(versions("0400 0008 00000007"), 0b1_1110);
    // A later version includes 1.3 unless its bitmap excludes it.
    assert_eq!(versions("0600 0008 00000007"), 0b111_1110);
    assert_eq!(versions("0600 0010 00000007 0001 0008 00000040"), 0b100_0000);
    assert_eq!(versions("ff00 0008 00000007"), 0xffff_fffe);
    // Unknown elements before and after the bitmap, padding present and missing, several words.
    assert_eq!(versions("0400 0020 00000007 0009 0005 aa000000 0001 000c 00000012 00000001 00000000"), 0b1_0010);
    assert_eq!(versions("0400 001c 00000007 0001 0008 00000010 0001 0008 00000002 0009 0004"), 0b1_0000);
    // The hello of an older version may contain anything.
    assert_eq!(versions("0100 000b 00000007 abcdef"), 0b10);
    // In version 1.3 an invalid element is an error.
    let bad_len = ErrorKind::BadRequest(BadRequest::BadLen);
    check(&message(0, "0001 0003 00000010"), 12, bad_len);
    check(&message(0, "0001 0009 00000010"), 12, bad_len);
}

#[test]
fn bodies_too_short_and_too_long() {
    let bad_len = ErrorKind::BadRequest(BadRequest::BadLen);
    check(&message(5, "00"), 8, bad_len);
    check(&message(9, "0000 00"), 10, bad_len);
    check(&message(9, "0000 0080 00"), 12, bad_len);
    check(&message(1, "0001"), 10, bad_len);
    check(&message(24, "00000002 00000000 00000000"), 16, bad_len);
    let bad_role = ErrorKind::RoleRequestFailed(RoleRequestFailed::BadRole);
    check(&message(24, "00000004 00000000 0000000000000000"), 8, bad_role);
    // Multipart: trailing bytes, several parts of a request.
    check(&message(18, "0000 0000 00000000 00"), 16, bad_len);
    check(&message(18, "000c 0001 00000000"), 10, ErrorKind::BadRequest(BadRequest::MultipartBufferOverflow));
    // A table of 23 bytes; a group of 39; an entry that is longer than the message.
    check(&message(19, "0003 0000 00000000 00 000000 00000001 0000000000000002 00000000000003"), 32, bad_len);
    check(&message(19, "0006 0000 00000000 0027 0000 00000000"), 18, bad_len);
    check(&message(19, "0001 0000 00000000 0100 0000 00000000"), 16, bad_len);
}

/// A record that no value represents makes the whole reply opaque; the connection continues.
#[test]
fn multipart_reply_with_unreadable_record_is_opaque() {
    let flow_stats = |match_: &str| {
        let entry = format!("00 00 00000001 00000000 0005 0000 0000 0000 00000000 {} {match_}", "00".repeat(24));
        let length = 2 + bytes_from_hex(&entry).len();
        format!("0001 0000 00000000 {length:04x} {entry}")
    };
    for match_ in [
        // `vlan_tci=0x1010/0x1ff0` and `tcp,tp_src=0x8000/0x8000`, as Open vSwitch reports them.
        "0001 000c 80000d04 1010 1ff0 00000000",
        "0001 0017 80000a02 0800 80001401 06 80001b04 8000 8000 00",
        // A value outside its mask; a field of the wrong length; a match that is longer than its
        // record.
        "0001 0010 80001908 0a000001 ffffff00",
        "0001 000b 80000a03 080000 0000000000",
        "0001 0080 80000a02 0800 000000000000",
    ] {
        let messages = messages_of(&message(19, &flow_stats(match_)));
        let [Envelope { message: Message::MultipartReply { reply, .. }, .. }] = &messages[..] else {
            panic!("{match_}: {messages:?}")
        };
        let MultipartReply::Partial { known, opaque } = reply else { panic!("{match_}: {reply:?}") };
        assert_eq!((&**known, opaque.len()), (&MultipartReply::Flow(Vec::new()), 1), "{match_}");
    }
}

/// Returns an addition of this match and these instructions; the match is at byte 48.
fn flow_mod(match_and_instructions: &str) -> Vec<u8> {
    let fixed = "0000000000000000 0000000000000000 00 00 0000 0000 0001 ffffffff ffffffff ffffffff 0000 0000";
    message(14, &format!("{fixed}{match_and_instructions}"))
}

#[test]
fn flow_mods() {
    let mut command = flow_mod("0001 0004 00000000");
    command[25] = 5;
    check(&command, 25, ErrorKind::FlowModFailed(FlowModFailed::BadCommand));
    let mut flags = flow_mod("0001 0004 00000000");
    flags[45] = 0x20;
    check(&flags, 44, ErrorKind::FlowModFailed(FlowModFailed::BadFlags));
}

#[test]
fn matches() {
    for (fields, offset, error) in [
        ("0000 0004 00000000", 48, BadMatch::BadType),
        ("0001 0003 00000000", 52, BadMatch::BadLen),
        ("0001 0009 00000000", 52, BadMatch::BadLen),
        // Padding missing.
        ("0001 000a 80000a02 0800", 58, BadMatch::BadLen),
        // The value of a field beyond the match; of the wrong length; half a mask.
        ("0001 0009 80000a02 08 00000000000000", 56, BadMatch::BadLen),
        ("0001 000b 80000a03 080000 0000000000", 52, BadMatch::BadLen),
        ("0001 000b 80000b03 080000 0000000000", 52, BadMatch::BadLen),
        // SCTP, IPv6, fields of an experimenter and of a class of Nicira's.
        ("0001 000a 80002202 0800 000000000000", 52, BadMatch::BadField),
        ("0001 0018 80003410 20010db8000000000000000000000001", 52, BadMatch::BadField),
        ("0001 000c ffff0004 00002320 00000000", 52, BadMatch::BadField),
        ("0001 000c 00010004 00002320 00000000", 52, BadMatch::BadField),
        // A mask of a field without masks; one that contradicts the value; one of a VLAN id.
        ("0001 000c 80000b04 0800 ff00 00000000", 52, BadMatch::BadMask),
        ("0001 0010 80001908 0a000001 ffffff00", 52, BadMatch::BadWildcards),
        ("0001 000c 80000d04 1001 1001 00000000", 52, BadMatch::BadMask),
        // Values out of range: VLAN id without the bit above, priority 8, DSCP 64, ECN 4.
        ("0001 000a 80000c02 0005 000000000000", 52, BadMatch::BadValue),
        ("0001 0009 80000e01 08 00000000000000", 52, BadMatch::BadValue),
        ("0001 0009 80001001 40 00000000000000", 52, BadMatch::BadValue),
        ("0001 0009 80001201 04 00000000000000", 52, BadMatch::BadValue),
        ("0001 0010 80000a02 0800 80000a02 0800", 58, BadMatch::DupField),
    ] {
        check(&flow_mod(fields), offset, ErrorKind::BadMatch(error));
    }
}

#[test]
fn other_ways_to_write_the_same_match() {
    let read = |fields: &str| match &messages_of(&flow_mod(fields))[..] {
        [Envelope { message: Message::FlowMod(change), .. }] => change.match_,
        other => panic!("{other:?}"),
    };
    let ipv4 = Match { eth_type: Some(0x0800), ..Match::default() };
    // A mask of all ones; fields in another order; padding that is not zero.
    assert_eq!(read("0001 000c 80000b04 0800 ffff deadbeef"), ipv4);
    let port = Match { in_port: Some(PortNo(1)), ..ipv4 };
    assert_eq!(read("0001 0012 80000a02 0800 80000004 00000001 000000000000"), port);
    for (field, vlan) in
        [("80000c02 0000 000000000000", VlanMatch::Untagged), ("80000c02 1005 000000000000", VlanMatch::Id(5))]
    {
        let expected = Match { vlan: Some(vlan), ..Match::default() };
        assert_eq!(read(&format!("0001 000a {field}")), expected);
    }
    for (field, vlan) in [
        ("0000 1fff", VlanMatch::Untagged),
        ("0000 1000", VlanMatch::Untagged),
        ("1000 1000", VlanMatch::Tagged),
        ("1005 1fff", VlanMatch::Id(5)),
        ("1000 ffff", VlanMatch::Id(0)),
    ] {
        let expected = Match { vlan: Some(vlan), ..Match::default() };
        assert_eq!(read(&format!("0001 000c 80000d04 {field} 00000000")), expected);
    }
}

/// Instructions follow a match of 8 bytes and start at byte 56.
#[test]
fn instructions() {
    for (instructions, offset, error) in [
        ("0004 0004", 60, BadInstruction::BadLen),
        ("0001 000c 00000000 00000000", 60, BadInstruction::BadLen),
        ("0001 0010 00000000 00000000 00000000", 64, BadInstruction::BadLen),
        ("0002 0010 00000000 0000000000000000", 72, BadInstruction::BadLen),
        ("0001 0010 00000000", 60, BadInstruction::BadLen),
        ("0007 0008 00000000", 56, BadInstruction::UnknownInst),
        ("ffff 0008 00002320", 56, BadInstruction::BadExperimenter),
        ("0001 0008 01000000 0001 0008 02000000", 64, BadInstruction::DupInst),
        ("0005 0008 00000000 0005 0008 00000000", 64, BadInstruction::DupInst),
    ] {
        check(&flow_mod(&format!("0001 0004 00000000 {instructions}")), offset, ErrorKind::BadInstruction(error));
    }
}

/// Actions are in an instruction after a match of 8 bytes and start at byte 64.
#[test]
fn actions() {
    let check_list = |actions: &str, offset, error| {
        let length = 8 + bytes_from_hex(actions).len();
        let instruction = format!("0001 0004 00000000 0004 {length:04x} 00000000 {actions}");
        check(&flow_mod(&instruction), offset, ErrorKind::BadAction(error));
    };
    for (actions, offset, error) in [
        ("0000 0008 00000001", 72, BadAction::BadLen),
        ("0000 0018 00000001 0000 000000000000 0000000000000000", 80, BadAction::BadLen),
        ("0018 0004 00000000", 68, BadAction::BadLen),
        ("0018 000c 00000000 00000000 00000000", 68, BadAction::BadLen),
        ("0018 0010 00000000", 68, BadAction::BadLen),
        // Copy TTL outwards; one of an experimenter.
        ("000b 0008 00000000", 64, BadAction::BadType),
        ("ffff 0010 00002320 0000 000000000000", 64, BadAction::BadExperimenter),
        // The input port, IPv6 and a register cannot be set; a mask; lengths; values.
        ("0019 0010 80000004 00000001 00000000", 68, BadAction::BadSetType),
        ("0019 0010 00010004 00000001 00000000", 68, BadAction::BadSetType),
        ("0019 0010 80001603 0a0000 0000000000", 68, BadAction::BadSetLen),
        ("0019 0018 80001908 0a000000 ff000000 00000000 00000000", 68, BadAction::BadSetArgument),
        ("0019 0010 80000c02 0005 000000000000", 68, BadAction::BadSetArgument),
        ("0019 0010 80000c02 0000 000000000000", 68, BadAction::BadSetArgument),
        ("0019 0010 80000e01 08 00000000000000", 68, BadAction::BadSetArgument),
        // Eight bytes more than the field needs.
        ("0019 0018 80000606 020000000001 0000 0000000000000000", 80, BadAction::BadLen),
    ] {
        check_list(actions, offset, error);
    }
    // Bundles: cut; another hash; loaded into a field; without members; the port 0; fewer members
    // than it says.
    for bundle in [
        "0018 00002320 000c 0001 0003 004d 00000002 0001 0000",
        "0028 00002320 000c 0001 0002 004d 00000002 0001 0000 00000000 00000000 0001 000000000000",
        "0028 00002320 000c 0001 0003 004d 00000002 0001 0010 00010002 00000000 0001 000000000000",
        "0020 00002320 000c 0001 0003 004d 00000002 0000 0000 00000000 00000000",
        "0028 00002320 000c 0001 0003 004d 00000002 0002 0000 00000000 00000000 0001 000000000000",
        "0028 00002320 000c 0001 0003 004d 00000002 0005 0000 00000000 00000000 0001 0001 0001 0001",
    ] {
        check_list(&format!("ffff {bundle}"), 64, BadAction::BadExperimenter);
    }
    // The list of a packet-out that is longer than the message.
    let packet_out = message(13, "ffffffff fffffffd 0010 000000000000 0000 0008");
    check(&packet_out, 24, ErrorKind::BadRequest(BadRequest::BadLen));
}

#[test]
fn groups() {
    let failed = ErrorKind::GroupModFailed;
    check(&message(15, "0003 00 00 00000001"), 8, failed(GroupModFailed::BadCommand));
    check(&message(15, "0000 04 00 00000001"), 10, failed(GroupModFailed::BadType));
    let bad_bucket = failed(GroupModFailed::BadBucket);
    check(&message(15, "0000 00 00 00000001 0008 0000 00000001"), 18, bad_bucket);
    check(&message(15, "0000 00 00 00000001 0020 0000 00000001 ffffffff 00000000"), 18, bad_bucket);
}

/// Fields that end outside the match, and repeated fields, are refused even there.
#[test]
fn unknown_fields_of_a_packet_in_are_kept() {
    let packet_in = |fields: &str| message(10, &format!("ffffffff 0002 01 00 0000000000000000 {fields} 0000 cafe"));
    // The tunnel id, the ingress port, a register of Nicira.
    let fields = "0001 0020 80004c08 0000000000000009 80000004 00000003 00010004 00000001";
    let messages = messages_of(&packet_in(fields));
    let [Envelope { message: Message::PacketIn(packet), .. }] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(packet.match_, Match { in_port: Some(PortNo(3)), ..Match::default() });
    assert_eq!(packet.other_fields, bytes_from_hex("80004c08 0000000000000009 00010004 00000001"));
    assert_eq!(packet.data, [0xca, 0xfe]);
    // A VLAN id without OFPVID_PRESENT, and a port of five bytes.
    for other in ["80000c02 0005 00000000 0000", "80000005 0000000000 000000"] {
        let messages =
            messages_of(&packet_in(&format!("0001 {} {other}", if other.len() > 26 { "000a" } else { "000d" })));
        let [Envelope { message: Message::PacketIn(packet), .. }] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!((packet.match_, packet.data.len()), (Match::default(), 2));
        assert!(bytes_from_hex(other).starts_with(&packet.other_fields) && packet.other_fields.len() > 5, "{other}");
    }
    let bad_len = ErrorKind::BadMatch(BadMatch::BadLen);
    check(&packet_in("0001 0010 00010009 0000000000000009"), 32, bad_len);
    let twice = ErrorKind::BadMatch(BadMatch::DupField);
    check(&packet_in("0001 0014 80000004 00000001 80000004 00000002 00000000"), 36, twice);
}

/// They are corrected, so that the port can be encoded again.
#[test]
fn malformed_port_names_are_corrected() {
    let port = |name: &str| {
        format!(
            "00000001 00000000 020000000001 0000 {name} 00000000 00000000 00000040 {} 00000000 00000000",
            "0".repeat(24)
        )
    };
    let hex = port("ff41c3414141414141414141414141c3") + &port("00414141414141414141414141414141");
    let messages = messages_of(&message(19, &format!("000d 0000 00000000 {hex}")));
    let [Envelope { message: Message::MultipartReply { reply: MultipartReply::PortDesc(ports), .. }, .. }] =
        &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!((&*ports[0].name, &*ports[1].name), ("?A?AAAAAAAAAAAA", ""));
    // No rate, but the bit of 10 Gb/s.
    assert_eq!(ports[0].speed_kbps, 10_000_000);
    assert_eq!(messages_of(&bytes_of(&messages[0])), messages);
}

#[test]
fn stream_continues_after_a_refused_message() {
    let mut stream = message(99, "0102");
    stream.extend(message(20, ""));
    let skip = refused(&stream).skip.unwrap();
    let next = messages_of(&stream[skip..]);
    assert_eq!(next, [Envelope { xid: Xid(7), message: Message::BarrierRequest }]);
}

/// `ofp_error_msg`: type, code, and at least the first 64 bytes of the refused message.
#[test]
fn errors_contain_the_refused_message() {
    let short = message(99, "0102");
    let mut stream = short.clone();
    stream.extend(message(20, ""));
    let kind = ErrorKind::BadRequest(BadRequest::BadType);
    let answer = refused(&stream).error_reply(&stream);
    assert_eq!(answer, Some(Envelope { xid: Xid(7), message: Message::Error { kind, data: short } }));
    let long = message(99, &"ab".repeat(100));
    let answer = refused(&long).error_reply(&long);
    let data = long[..64].to_vec();
    assert_eq!(answer, Some(Envelope { xid: Xid(7), message: Message::Error { kind, data } }));
    // An error that is cut is not answered with an error.
    let error = message(1, "0001");
    assert_eq!(refused(&error).error_reply(&error), None);
}
