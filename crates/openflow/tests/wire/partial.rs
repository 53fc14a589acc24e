//! Reports with content that no value represents: what can be decoded is, the rest is kept as bytes.

use anabranch_openflow::*;

use crate::{bytes_from_hex, bytes_of, messages_of};

/// Decodes a message of this type, and asserts that it is written as it was.
fn decoded(kind: u8, body: &str) -> Message {
    let body = bytes_from_hex(body);
    let mut bytes = vec![4, kind, 0, 8 + body.len() as u8, 0, 0, 0, 7];
    bytes.extend(body);
    let [envelope] = &messages_of(&bytes)[..] else { panic!("one message") };
    assert_eq!(bytes_of(envelope), bytes);
    envelope.message.clone()
}

/// Decodes a reply of two records, of which the second one is opaque. Returns the first one.
fn known_beside(kind: &str, known: &str, opaque: &str) -> MultipartReply {
    let message = decoded(19, &format!("{kind} 0000 00000000 {known} {opaque}"));
    let Message::MultipartReply { reply: MultipartReply::Partial { known, opaque: kept }, has_more: false } = message
    else {
        panic!("{message:?}")
    };
    assert_eq!(kept, [bytes_from_hex(opaque)]);
    *known
}

#[test]
fn own_rules_are_known_beside_foreign_ones() {
    let entry = |length: &str, match_: &str| {
        format!("{length} 00 00 00000001 00000000 0005 0000 0000 0000 00000000 {} {match_}", "00".repeat(24))
    };
    let (own, foreign) = (entry("0038", "0001 0004 00000000"), entry("0040", "0001 000c 80000d04 1010 1ff0 00000000"));
    let MultipartReply::Flow(rules) = known_beside("0001", &own, &foreign) else { panic!() };
    assert_eq!((rules.len(), rules[0].priority), (1, 5));
}

#[test]
fn own_groups_are_known_beside_foreign_ones() {
    // A group of type 9; a bucket that pushes MPLS.
    let own = "0008 01 00 00000001";
    for foreign in
        ["0008 09 00 00000002", "0020 00 00 00000002 0018 0000 ffffffff ffffffff 00000000 0013 0008 8847 0000"]
    {
        let MultipartReply::GroupDesc(groups) = known_beside("0007", own, foreign) else { panic!() };
        assert_eq!((groups.len(), groups[0].group), (1, GroupId(1)));
    }
}

#[test]
fn meters_and_tables_are_known_beside_others() {
    // A band of an experimenter.
    let own = "0018 0001 00000001 0001 0010 00000001 00000002 00000000";
    let foreign = "0018 0001 00000002 ffff 0010 00000001 00000002 00abcdef";
    let MultipartReply::MeterConfig(meters) = known_beside("000a", own, foreign) else { panic!() };
    assert_eq!((meters.len(), meters[0].meter), (1, MeterId(1)));
    // Statistics of half a band.
    let stats = |length: &str, rest: &str| format!("00000001 {length} 000000000000 {} {rest}", "00".repeat(28));
    let (own, foreign) = (stats("0028", ""), stats("0030", "0000000000000001"));
    let MultipartReply::Meter(meters) = known_beside("0009", &own, &foreign) else { panic!() };
    assert_eq!((meters.len(), meters[0].meter), (1, MeterId(1)));
    // A property of an experimenter.
    let table = |length: &str, rest: &str| format!("{length} 03 0000000000 {} {rest}", "00".repeat(56));
    let (own, foreign) = (table("0040", ""), table("0050", "fffe 000c 00abcdef 00000001 00000000"));
    let MultipartReply::TableFeatures(tables) = known_beside("000c", &own, &foreign) else { panic!() };
    assert_eq!((tables.len(), tables[0].table), (1, TableId(3)));
    // An event of a later version of flow monitors.
    let (own, foreign) = ("4f4e4600 0000074e 0008 0003 00000042", "0008 0007 00000000");
    let MultipartReply::FlowMonitor(updates) = known_beside("ffff", own, foreign) else { panic!() };
    assert_eq!(updates, [FlowUpdate::Abbreviated(Xid(0x42))]);
}

/// `tun_id=5,vlan_tci=0x1010/0x1ff0`, for example.
#[test]
fn removal_of_a_foreign_rule_keeps_its_match() {
    let fields = "80000a02 0800 80004c08 0000000000000005 80000d04 1010 1ff0";
    let body =
        format!("0000000000000066 0064 01 01 00000002 00000003 0005 000a {} 0001 001e {fields} 0000", "00".repeat(16));
    let Message::FlowRemoved(removed) = decoded(11, &body) else { panic!() };
    assert_eq!((removed.cookie, removed.match_.eth_type), (0x66, Some(0x0800)));
    assert_eq!(removed.other_fields, bytes_from_hex(&fields[13..]));
}
