//! Messages whose bytes were laid out by hand from the structures of the specification (1.3.5;
//! sections beside each).

use std::net::Ipv4Addr;

use anabranch_openflow::*;

use crate::{bytes_of, messages_of};

/// A message with its bytes.
pub struct Golden {
    pub name: &'static str,
    pub message: Message,
    /// The bytes from the header on, in hexadecimal; white space does not count.
    hex: &'static str,
}

/// The number of every message here.
const XID: Xid = Xid(0x0102_0304);

impl Golden {
    pub fn envelope(&self) -> Envelope {
        Envelope { xid: XID, message: self.message.clone() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let digits: Vec<u8> = self.hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }
}

fn golden(name: &'static str, hex: &'static str, message: Message) -> Golden {
    Golden { name, message, hex }
}

pub fn all() -> Vec<Golden> {
    [symmetric(), settings(), news(), changes(), requests(), replies()].into_iter().flatten().collect()
}

/// 7.5.1 hello, 7.4.4 error, 7.5.2 echo, 7.5.4 experimenter.
fn symmetric() -> Vec<Golden> {
    let table_full = ErrorKind::FlowModFailed(FlowModFailed::TableFull);
    vec![
        golden("hello", "04000010 01020304  0001 0008 00000010", Message::Hello { versions: 1 << 4 }),
        golden(
            "error",
            "04010014 01020304  0005 0001  0414000800000007",
            Message::Error { kind: table_full, data: vec![4, 20, 0, 8, 0, 0, 0, 7] },
        ),
        golden("echo request", "0402000b 01020304  616263", Message::EchoRequest(b"abc".to_vec())),
        golden("echo reply", "04030008 01020304", Message::EchoReply(Vec::new())),
        // Nicira's NXT_SET_PACKET_IN_FORMAT (16), standard (0).
        golden(
            "experimenter",
            "04040014 01020304  00002320 00000010 00000000",
            Message::Experimenter { experimenter: 0x2320, kind: 16, data: vec![0; 4] },
        ),
    ]
}

/// 7.3.1 features, 7.3.2 configuration, 7.3.8 barrier, 7.3.9 role, 7.3.10 asynchronous messages.
fn settings() -> Vec<Golden> {
    let features = Features {
        datapath: DatapathId(0x0000_0a0b_0c0d_0e0f),
        buffers: 256,
        tables: 254,
        auxiliary: 0,
        capabilities: capability::FLOW_STATS | capability::PORT_STATS | capability::GROUP_STATS,
    };
    let asynchronous = AsyncConfig { packet_in: [7, 0], port_status: [7, 4], flow_removed: [15, 0] };
    let config = SwitchConfig { flags: 0, miss_send_len: 128 };
    let master = Role { role: ControllerRole::Master, generation: 9 };
    let asked = Role { role: ControllerRole::NoChange, generation: 0 };
    vec![
        golden("features request", "04050008 01020304", Message::FeaturesRequest),
        golden(
            "features reply",
            "04060020 01020304  00000a0b0c0d0e0f 00000100 fe 00 0000 0000000d 00000000",
            Message::FeaturesReply(features),
        ),
        golden("get config request", "04070008 01020304", Message::GetConfigRequest),
        golden("get config reply", "0408000c 01020304  0000 0080", Message::GetConfigReply(config)),
        golden("set config", "0409000c 01020304  0000 0080", Message::SetConfig(config)),
        golden("barrier request", "04140008 01020304", Message::BarrierRequest),
        golden("barrier reply", "04150008 01020304", Message::BarrierReply),
        golden("role request", "04180018 01020304  00000002 00000000 0000000000000009", Message::RoleRequest(master)),
        golden("role reply", "04190018 01020304  00000000 00000000 0000000000000000", Message::RoleReply(asked)),
        golden("get async request", "041a0008 01020304", Message::GetAsyncRequest),
        golden(
            "get async reply",
            "041b0020 01020304  00000007 00000000  00000007 00000004  0000000f 00000000",
            Message::GetAsyncReply(asynchronous),
        ),
        golden(
            "set async",
            "041c0020 01020304  00000007 00000000  00000007 00000004  0000000f 00000000",
            Message::SetAsync(asynchronous),
        ),
    ]
}

/// 7.4.1 packet-in, 7.4.2 flow-removed, 7.4.3 port-status.
fn news() -> Vec<Golden> {
    // Ethernet, a type reserved for experiments: 14 + 2 bytes.
    let data = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 0xca, 0xfe];
    let packet = PacketIn {
        buffer: BufferId::NO_BUFFER,
        total_len: 16,
        reason: PacketInReason::Action,
        table: TableId(3),
        cookie: 0x55,
        match_: Match { in_port: Some(PortNo(7)), ..Match::default() },
        data,
    };
    let removed = FlowRemoved {
        cookie: 0x66,
        priority: 100,
        reason: RemovedReason::HardTimeout,
        table: TableId(1),
        duration_ns: 2_000_000_003,
        idle_timeout_s: 5,
        hard_timeout_s: 10,
        packets: 1000,
        bytes: 64_000,
        match_: Match { eth_dst: Some(Masked::<MacAddr>::exact(MacAddr([2, 0, 0, 0, 0, 9]))), ..Match::default() },
    };
    let port = PortDesc {
        port: PortNo(2),
        hw_addr: MacAddr([2, 0, 0, 0, 1, 2]),
        name: "s1-eth2".to_owned(),
        is_admin_down: true,
        is_link_down: true,
        speed_kbps: 10_000_000,
    };
    vec![
        golden(
            "packet-in",
            "040a003a 01020304  ffffffff 0010 01 03 0000000000000055
             0001 000c 80000004 00000007 00000000  0000
             020000000002 020000000001 88b5 cafe",
            Message::PacketIn(packet),
        ),
        golden(
            "flow-removed",
            "040b0040 01020304  0000000000000066 0064 01 01 00000002 00000003 0005 000a
             00000000000003e8 000000000000fa00
             0001 000e 80000606 020000000009 0000",
            Message::FlowRemoved(removed),
        ),
        golden(
            "port-status",
            "040c0050 01020304  02 00000000000000
             00000002 00000000 020000000102 0000 73312d65746832000000000000000000
             00000001 00000001 00000000 00000000 00000000 00000000 00989680 00000000",
            Message::PortStatus { reason: PortReason::Modify, port },
        ),
    ]
}

/// 7.3.4.1 flow-mod (7.2.3 match, 7.2.4 instructions, 7.2.5 actions), 7.3.4.2 group-mod, 7.3.4.3
/// port-mod, 7.3.3 table-mod, 7.3.7 packet-out.
fn changes() -> Vec<Golden> {
    let prefix = Masked { value: Ipv4Addr::new(10, 1, 0, 0), mask: Ipv4Addr::new(255, 255, 0, 0) };
    let udp = Match {
        eth_type: Some(0x0800),
        vlan: Some(VlanMatch::Tagged),
        ip_proto: Some(17),
        ipv4_dst: Some(prefix),
        udp_dst: Some(53),
        ..Match::default()
    };
    let instructions = Instructions {
        meter: None,
        apply: vec![Action::PopVlan, Action::DecNwTtl, Action::SetField(SetField::EthDst(MacAddr([2, 0, 0, 0, 0, 3])))],
        clear: true,
        write: vec![Action::Group(GroupId(6))],
        metadata: Some(Masked { value: 1, mask: 0xff }),
        goto: Some(TableId(2)),
    };
    let bundle = Bundle::new(77, [1, 2, 2].map(PortNo)).map(Action::Bundle).expect("three members");
    let flags = FlowModFlags { send_flow_removed: true, ..FlowModFlags::default() };
    let add = FlowMod { cookie: 0x77, idle_timeout_s: 30, flags, ..FlowMod::add(TableId(1), 200, udp, instructions) };
    let arp = Match { eth_type: Some(0x0806), arp_op: Some(1), ..Match::default() };
    let address = Some(Masked::<Ipv4Addr>::exact(Ipv4Addr::new(10, 0, 0, 1)));
    let syn = Match {
        eth_type: Some(0x0800),
        ip_proto: Some(6),
        ipv4_dst: address,
        tcp_dst: Some(80),
        tcp_flags: Some(Masked { value: 0x002, mask: 0x012 }),
        ..Match::default()
    };
    let group = GroupMod {
        command: GroupModCommand::Modify,
        kind: GroupKind::Select,
        group: GroupId(6),
        buckets: vec![Bucket::watching(PortNo(1), 2), Bucket::watching(PortNo(2), 1)],
    };
    let tagged = vec![
        Action::PushVlan(0x8100),
        Action::SetField(SetField::VlanVid(5)),
        Action::SetQueue(1),
        Action::to_controller(),
    ];
    let packet =
        PacketOut { buffer: BufferId::NO_BUFFER, in_port: PortNo::CONTROLLER, actions: tagged, data: vec![0xaa; 4] };
    let port_mod = PortMod { port: PortNo(2), hw_addr: MacAddr([2, 0, 0, 0, 1, 2]), config: 1, mask: 1, advertise: 0 };
    vec![
        golden(
            "flow-mod add",
            "040e00c0 01020304  0000000000000077 0000000000000000 01 00 001e 0000 00c8 ffffffff ffffffff ffffffff
             0001 0000
             0001 0029 80000a02 0800 80000d04 1000 1000 80001401 11 80001908 0a010000 ffff0000 80002002 0035 00000000000000
             0004 0028 00000000  0012 0008 00000000  0018 0008 00000000  0019 0010 80000606 020000000003 0000
             0005 0008 00000000
             0003 0010 00000000  0016 0008 00000006
             0002 0018 00000000 0000000000000001 00000000000000ff
             0001 0008 02 000000",
            Message::FlowMod(add),
        ),
        // ovs-actions(7), struct nx_action_bundle: vendor, subtype, algorithm, fields, basis, type
        // and number of members, bits and field to load, zeros; members.
        golden(
            "flow-mod bundle",
            "040e0068 01020304  0000000000000000 0000000000000000 01 00 0000 0000 0005 ffffffff ffffffff ffffffff
             0000 0000
             0001 0004 00000000
             0004 0030 00000000
             ffff 0028 00002320 000c 0001 0003 004d 00000002 0003 0000 00000000 00000000 0001 0002 0002 0000",
            Message::FlowMod(FlowMod::add(TableId(1), 5, Match::default(), Instructions::apply(vec![bundle]))),
        ),
        // The fields in the order of the specification, then ONF EXT-109: class, field, length, the
        // Foundation's number.
        golden(
            "flow-mod syn",
            "040e0078 01020304  0000000000000000 0000000000000000 00 00 0000 0000 0212 ffffffff ffffffff ffffffff
             0000 0000
             0001 0029 80000a02 0800 80001401 06 80001804 0a000001 80001c02 0050 ffff5508 4f4e4600 0002 0012 00000000000000
             0004 0018 00000000  0000 0010 fffffffd ffff 000000000000",
            Message::FlowMod(FlowMod::add(TableId(0), 530, syn, Instructions::apply(vec![Action::to_controller()]))),
        ),
        golden(
            "flow-mod delete strict",
            "040e0048 01020304  0000000000000000 0000000000000000 00 04 0000 0000 0001 ffffffff ffffffff ffffffff
             0000 0000
             0001 0018 80000a02 0806 80002a02 0001 80002c04 0a000001",
            Message::FlowMod(FlowMod::delete_strict(TableId(0), 1, Match { arp_spa: address, ..arp })),
        ),
        golden(
            "group-mod",
            "040f0050 01020304  0001 01 00 00000006
             0020 0002 00000001 ffffffff 00000000  0000 0010 00000001 0000 000000000000
             0020 0001 00000002 ffffffff 00000000  0000 0010 00000002 0000 000000000000",
            Message::GroupMod(group),
        ),
        golden(
            "port-mod",
            "04100028 01020304  00000002 00000000 020000000102 0000 00000001 00000001 00000000 00000000",
            Message::PortMod(port_mod),
        ),
        golden(
            "table-mod",
            "04110010 01020304  ff 000000 00000000",
            Message::TableMod { table: TableId::ALL, config: 0 },
        ),
        golden(
            "packet-out",
            "040d004c 01020304  ffffffff fffffffd 0030 000000000000
             0011 0008 8100 0000  0019 0010 80000c02 1005 000000000000  0015 0008 00000001
             0000 0010 fffffffd ffff 000000000000
             aaaaaaaa",
            Message::PacketOut(packet),
        ),
    ]
}

/// 7.3.5, requests.
fn requests() -> Vec<Golden> {
    let request = Message::MultipartRequest;
    let one_port = FlowSelection { table: TableId(0), out_port: PortNo(3), ..FlowSelection::all() };
    vec![
        golden("desc request", "04120010 01020304  0000 0000 00000000", request(MultipartRequest::Desc)),
        golden(
            "flow request",
            "04120038 01020304  0001 0000 00000000
             ff 000000 ffffffff ffffffff 00000000 0000000000000000 0000000000000000  0001 0004 00000000",
            request(MultipartRequest::Flow(FlowSelection::all())),
        ),
        golden(
            "aggregate request",
            "04120038 01020304  0002 0000 00000000
             00 000000 00000003 ffffffff 00000000 0000000000000000 0000000000000000  0001 0004 00000000",
            request(MultipartRequest::Aggregate(one_port)),
        ),
        golden("table request", "04120010 01020304  0003 0000 00000000", request(MultipartRequest::Table)),
        golden(
            "port request",
            "04120018 01020304  0004 0000 00000000  ffffffff 00000000",
            request(MultipartRequest::Port(PortNo::ANY)),
        ),
        golden(
            "group request",
            "04120018 01020304  0006 0000 00000000  fffffffc 00000000",
            request(MultipartRequest::Group(GroupId::ALL)),
        ),
        golden("group-desc request", "04120010 01020304  0007 0000 00000000", request(MultipartRequest::GroupDesc)),
        golden(
            "group-features request",
            "04120010 01020304  0008 0000 00000000",
            request(MultipartRequest::GroupFeatures),
        ),
        golden("port-desc request", "04120010 01020304  000d 0000 00000000", request(MultipartRequest::PortDesc)),
        // OFPMP_METER_FEATURES.
        golden(
            "other request",
            "04120010 01020304  000b 0000 00000000",
            request(MultipartRequest::Other { kind: 11, body: Vec::new() }),
        ),
    ]
}

/// 7.3.5, replies.
fn replies() -> Vec<Golden> {
    let reply = |reply| Message::MultipartReply { reply, has_more: false };
    let flow = FlowStats {
        table: TableId(1),
        duration_ns: 5_000_000_006,
        priority: 7,
        idle_timeout_s: 8,
        hard_timeout_s: 9,
        flags: FlowModFlags { reset_counts: true, ..FlowModFlags::default() },
        cookie: 10,
        packets: 11,
        bytes: 12,
        match_: Match { in_port: Some(PortNo(1)), ..Match::default() },
        instructions: Instructions::apply(vec![Action::output(PortNo(2))]),
    };
    let port = PortStats {
        port: PortNo(1),
        rx_packets: 1,
        tx_packets: 2,
        rx_bytes: 3,
        tx_bytes: 4,
        rx_dropped: 5,
        tx_dropped: 6,
        duration_ns: 7_000_000_008,
    };
    let group = GroupStats {
        group: GroupId(6),
        references: 1,
        packets: 2,
        bytes: 3,
        duration_ns: 4_000_000_005,
        buckets: vec![(1, 2), (1, 1)],
    };
    let buckets = vec![Bucket::watching(PortNo(1), 0)];
    let described = GroupDescription { group: GroupId(6), kind: GroupKind::FastFailover, buckets };
    let features = GroupFeatures {
        types: 0b1111,
        capabilities: 0b111,
        max_groups: [0xffff_ff00; 4],
        actions: [1 | 1 << 22, 1, 1, 1],
    };
    let port_desc = PortDesc {
        port: PortNo::LOCAL,
        hw_addr: MacAddr([2, 0, 0, 0, 0, 1]),
        name: "s1".to_owned(),
        is_admin_down: false,
        is_link_down: false,
        speed_kbps: 0,
    };
    let tables = vec![TableStats { table: TableId(0), active: 1, lookups: 2, matched: 3 }];
    vec![
        golden(
            "flow reply, more to come",
            "04130068 01020304  0001 0001 00000000
             0058 01 00 00000005 00000006 0007 0008 0009 0004 00000000
             000000000000000a 000000000000000b 000000000000000c
             0001 000c 80000004 00000001 00000000
             0004 0018 00000000 0000 0010 00000002 0000 000000000000",
            Message::MultipartReply { reply: MultipartReply::Flow(vec![flow]), has_more: true },
        ),
        golden(
            "aggregate reply",
            "04130028 01020304  0002 0000 00000000  0000000000000001 0000000000000002 00000003 00000000",
            reply(MultipartReply::Aggregate { packets: 1, bytes: 2, flows: 3 }),
        ),
        golden(
            "table reply",
            "04130028 01020304  0003 0000 00000000  00 000000 00000001 0000000000000002 0000000000000003",
            reply(MultipartReply::Table(tables)),
        ),
        golden(
            "port reply",
            "04130080 01020304  0004 0000 00000000  00000001 00000000
             0000000000000001 0000000000000002 0000000000000003 0000000000000004 0000000000000005 0000000000000006
             ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff
             00000007 00000008",
            reply(MultipartReply::Port(vec![port])),
        ),
        golden(
            "group reply",
            "04130058 01020304  0006 0000 00000000
             0048 0000 00000006 00000001 00000000 0000000000000002 0000000000000003 00000004 00000005
             0000000000000001 0000000000000002 0000000000000001 0000000000000001",
            reply(MultipartReply::Group(vec![group])),
        ),
        golden(
            "group-desc reply",
            "04130038 01020304  0007 0000 00000000
             0028 03 00 00000006
             0020 0000 00000001 ffffffff 00000000  0000 0010 00000001 0000 000000000000",
            reply(MultipartReply::GroupDesc(vec![described])),
        ),
        golden(
            "group-features reply",
            "04130038 01020304  0008 0000 00000000  0000000f 00000007
             ffffff00 ffffff00 ffffff00 ffffff00  00400001 00000001 00000001 00000001",
            reply(MultipartReply::GroupFeatures(features)),
        ),
        golden(
            "port-desc reply",
            "04130050 01020304  000d 0000 00000000
             fffffffe 00000000 020000000001 0000 73310000000000000000000000000000
             00000000 00000004 00000000 00000000 00000000 00000000 00000000 00000000",
            reply(MultipartReply::PortDesc(vec![port_desc])),
        ),
        // OFPMP_METER_FEATURES: max_meter, band types, capabilities, max_bands, max_color.
        golden(
            "other reply",
            "04130020 01020304  000b 0000 00000000  00000010 00000002 00000001 01 00 0000",
            reply(MultipartReply::Other { kind: 11, body: vec![0, 0, 0, 16, 0, 0, 0, 2, 0, 0, 0, 1, 1, 0, 0, 0] }),
        ),
    ]
}

#[test]
fn goldens_are_written_as_laid_out() {
    for golden in all() {
        let (written, expected) = (bytes_of(&golden.envelope()), golden.bytes());
        assert_eq!(written.len(), expected.len(), "{}", golden.name);
        assert_eq!(usize::from(u16::from_be_bytes([written[2], written[3]])), written.len(), "{}", golden.name);
        for (at, (written, expected)) in written.iter().zip(&expected).enumerate() {
            assert_eq!(written, expected, "{} at byte {at}", golden.name);
        }
    }
}

#[test]
fn goldens_are_read_as_laid_out() {
    for golden in all() {
        assert_eq!(messages_of(&golden.bytes()), [golden.envelope()], "{}", golden.name);
    }
}

/// The description is longer than what anyone would lay out by hand: four strings of 256 and one of
/// 32 bytes.
#[test]
fn descriptions_have_their_strings_at_fixed_places() {
    let description = Description {
        manufacturer: "m".repeat(255),
        hardware: "h".to_owned(),
        software: "s".to_owned(),
        serial: "n".repeat(31),
        datapath: "d".to_owned(),
    };
    let reply = Message::MultipartReply { reply: MultipartReply::Desc(description), has_more: false };
    let envelope = Envelope { xid: XID, message: reply };
    let bytes = bytes_of(&envelope);
    assert_eq!(bytes.len(), 16 + 1056);
    assert_eq!(bytes[..16], [4, 19, 4, 48, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (at, expected) in [(16, b'm'), (270, b'm'), (271, 0), (272, b'h'), (273, 0), (528, b's'), (784, b'n')] {
        assert_eq!(bytes[at], expected, "byte {at}");
    }
    for (at, expected) in [(814, b'n'), (815, 0), (816, b'd'), (817, 0), (1071, 0)] {
        assert_eq!(bytes[at], expected, "byte {at}");
    }
    assert_eq!(messages_of(&bytes), [envelope]);
}
