//! Messages whose bytes were laid out by hand from the structures of the specification (1.3.5):
//! `goldens.txt` has the bytes.

use std::net::Ipv4Addr;

use anabranch_openflow::table_features::table_property;
use anabranch_openflow::*;

use crate::{bytes_from_hex, bytes_of, messages_of};

/// The bytes of the messages, and the title and a part of the content that Open vSwitch prints.
const TEXT: &str = include_str!("goldens.txt");

pub struct Golden {
    pub name: &'static str,
    pub message: Message,
    /// Title that Open vSwitch prints, and a part of its description.
    pub shown: (&'static str, String),
    hex: String,
}

const XID: Xid = Xid(0x0102_0304);

impl Golden {
    pub fn envelope(&self) -> Envelope {
        Envelope { xid: XID, message: self.message.clone() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        bytes_from_hex(&self.hex)
    }
}

pub fn all() -> Vec<Golden> {
    let mut blocks: Vec<Vec<&'static str>> = TEXT.split("\n\n").map(|block| block.lines().collect()).collect();
    blocks.remove(0); // The description of the format.
    let parts = [symmetric(), settings(), notifications(), changes(), requests(), replies(), more_replies()];
    let messages: Vec<_> = parts.into_iter().flatten().collect();
    assert_eq!(messages.len(), blocks.len(), "goldens.txt has the bytes of every message");
    let golden = |(name, message)| {
        let its_title = |block: &Vec<&'static str>| block[0].strip_prefix(name)?.strip_prefix(": ");
        let (title, block) = blocks.iter().find_map(|block| Some((its_title(block)?, block))).expect(name);
        let content = block[1].trim_start_matches(['>', ' ']).replace("\\n", "\n");
        Golden { name, message, shown: (title, content), hex: block[2..].concat() }
    };
    messages.into_iter().map(golden).collect()
}

type Named = (&'static str, Message);

/// Symmetric messages, and the error.
fn symmetric() -> Vec<Named> {
    let table_full = ErrorKind::FlowModFailed(FlowModFailed::TableFull);
    vec![
        ("hello", Message::Hello { versions: 1 << 4 }),
        ("error", Message::Error { kind: table_full, data: vec![4, 20, 0, 8, 0, 0, 0, 7] }),
        ("echo request", Message::EchoRequest(b"abc".to_vec())),
        ("echo reply", Message::EchoReply(Vec::new())),
        // Nicira's NXT_SET_PACKET_IN_FORMAT (16), standard (0).
        ("experimenter", Message::Experimenter { experimenter: 0x2320, kind: 16, data: vec![0; 4] }),
    ]
}

/// Features, configuration, barrier, role, and asynchronous configuration.
fn settings() -> Vec<Named> {
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
        ("features request", Message::FeaturesRequest),
        ("features reply", Message::FeaturesReply(features)),
        ("get config request", Message::GetConfigRequest),
        ("get config reply", Message::GetConfigReply(config)),
        ("set config", Message::SetConfig(config)),
        ("barrier request", Message::BarrierRequest),
        ("barrier reply", Message::BarrierReply),
        ("role request", Message::RoleRequest(master)),
        ("role reply", Message::RoleReply(asked)),
        ("get async request", Message::GetAsyncRequest),
        ("get async reply", Message::GetAsyncReply(asynchronous)),
        ("set async", Message::SetAsync(asynchronous)),
    ]
}

fn notifications() -> Vec<Named> {
    // Ethernet, a type reserved for experiments: 14 + 2 bytes.
    let data = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 0xca, 0xfe];
    let packet = PacketIn {
        buffer: BufferId::NO_BUFFER,
        total_len: 16,
        reason: PacketInReason::Action,
        table: TableId(3),
        cookie: 0x55,
        match_: Match { in_port: Some(PortNo(7)), ..Match::default() },
        other_fields: Vec::new(),
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
        // The id of a tunnel.
        other_fields: vec![0x80, 0, 0x4c, 8, 0, 0, 0, 0, 0, 0, 0, 5],
    };
    let port = PortDesc {
        is_admin_down: true,
        is_link_down: true,
        ..PortDesc::up(PortNo(2), MacAddr([2, 0, 0, 0, 1, 2]), "s1-eth2", 10_000_000)
    };
    vec![
        ("packet-in", Message::PacketIn(packet)),
        ("flow-removed", Message::FlowRemoved(removed)),
        ("port-status", Message::PortStatus { reason: PortReason::Modify, port }),
    ]
}

/// Messages that change the state of a switch.
fn changes() -> Vec<Named> {
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
    let tag = [Action::PushVlan(0x8100), Action::SetField(SetField::VlanVid(5))];
    let actions = [&tag[..], &[Action::SetQueue(1), Action::to_controller()]].concat();
    let packet = PacketOut { buffer: BufferId::NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data: vec![0xaa; 4] };
    let port_mod = PortMod { port: PortNo(2), hw_addr: MacAddr([2, 0, 0, 0, 1, 2]), config: 1, mask: 1, advertise: 0 };
    let apply = |table, priority, m, action| {
        Message::FlowMod(FlowMod::add(TableId(table), priority, m, Instructions::apply(vec![action])))
    };
    let delete = FlowMod::delete_strict(TableId(0), 1, Match { arp_spa: address, ..arp });
    vec![
        ("flow-mod add", Message::FlowMod(add)),
        // ovs-actions(7), struct nx_action_bundle: vendor, subtype, algorithm, fields, basis, type
        // and number of members, bits and field to load, zeros; members.
        ("flow-mod bundle", apply(1, 5, Match::default(), bundle)),
        // The fields in the order of the specification, then ONF EXT-109: class, field, length, the
        // Foundation's number.
        ("flow-mod syn", apply(0, 530, syn, Action::to_controller())),
        ("flow-mod delete strict", Message::FlowMod(delete)),
        ("group-mod", Message::GroupMod(group)),
        ("port-mod", Message::PortMod(port_mod)),
        ("table-mod", Message::TableMod { table: TableId::ALL, config: 0 }),
        ("packet-out", Message::PacketOut(packet)),
    ]
}

fn requests() -> Vec<Named> {
    let request = Message::MultipartRequest;
    // Nicira's NXST_IPFIX_BRIDGE (3).
    let ipfix = MultipartRequest::Experimenter { experimenter: 0x2320, kind: 3, data: Vec::new() };
    let flags = FlowMonitorFlags { initial: true, own: true, ..FlowMonitorRequest::all(5).flags };
    let match_ = Match { eth_type: Some(0x0800), ..Match::default() };
    let monitor =
        FlowMonitorRequest { flags, out_port: PortNo(3), table: TableId(1), match_, ..FlowMonitorRequest::all(5) };
    let one_port = FlowSelection { table: TableId(0), out_port: PortNo(3), ..FlowSelection::all() };
    vec![
        ("desc request", request(MultipartRequest::Desc)),
        ("flow request", request(MultipartRequest::Flow(FlowSelection::all()))),
        ("aggregate request", request(MultipartRequest::Aggregate(one_port))),
        ("table request", request(MultipartRequest::Table)),
        ("port request", request(MultipartRequest::Port(PortNo::ANY))),
        ("group request", request(MultipartRequest::Group(GroupId::ALL))),
        ("group-desc request", request(MultipartRequest::GroupDesc)),
        ("group-features request", request(MultipartRequest::GroupFeatures)),
        ("port-desc request", request(MultipartRequest::PortDesc)),
        ("queue request", request(MultipartRequest::Queue { port: PortNo(1), queue: QueueId::ALL })),
        ("meter request", request(MultipartRequest::Meter(MeterId::ALL))),
        ("meter-config request", request(MultipartRequest::MeterConfig(MeterId(7)))),
        ("meter-features request", request(MultipartRequest::MeterFeatures)),
        ("table-features request", request(MultipartRequest::TableFeatures(Vec::new()))),
        ("flow-monitor request", request(MultipartRequest::FlowMonitor(vec![monitor]))),
        ("experimenter multipart request", request(ipfix)),
    ]
}

fn replies() -> Vec<Named> {
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
        rx_errors: 7,
        tx_errors: 8,
        rx_frame_err: 9,
        rx_over_err: 10,
        rx_crc_err: 11,
        collisions: PortStats::UNSUPPORTED,
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
    let features_of_port = PortFeatures { current: 0x840, advertised: 0x40, supported: 0x60, peer: 0x20 };
    let port_desc = PortDesc {
        features: features_of_port,
        max_speed_kbps: 40_000_000,
        ..PortDesc::up(PortNo::LOCAL, MacAddr([2, 0, 0, 0, 0, 1]), "s1", 10_000_000)
    };
    let tables = vec![TableStats { table: TableId(0), active: 1, lookups: 2, matched: 3 }];
    let begin = Message::MultipartReply { reply: MultipartReply::Flow(vec![flow]), has_more: true };
    vec![
        ("flow reply, more to come", begin),
        ("aggregate reply", reply(MultipartReply::Aggregate { packets: 1, bytes: 2, flows: 3 })),
        ("table reply", reply(MultipartReply::Table(tables))),
        ("port reply", reply(MultipartReply::Port(vec![port]))),
        ("group reply", reply(MultipartReply::Group(vec![group]))),
        ("group-desc reply", reply(MultipartReply::GroupDesc(vec![described]))),
        ("group-features reply", reply(MultipartReply::GroupFeatures(features))),
        ("port-desc reply", reply(MultipartReply::PortDesc(vec![port_desc]))),
    ]
}

/// Replies about queues, meters, features of tables, and flow monitors.
fn more_replies() -> Vec<Named> {
    let reply = |reply| Message::MultipartReply { reply, has_more: false };
    let (tx_bytes, tx_packets, tx_errors) = (1, 2, 3);
    let queue =
        QueueStats { port: PortNo(1), queue: QueueId(2), tx_bytes, tx_packets, tx_errors, duration_ns: 4_000_000_005 };
    let meter = MeterStats { meter: MeterId(7), flows: 1, packets: 2, bytes: 3, duration_ns: 4, bands: vec![(5, 6)] };
    let bands = vec![
        MeterBand { rate: 100, burst: 10, kind: MeterBandKind::Drop },
        MeterBand { rate: 50, burst: 5, kind: MeterBandKind::DscpRemark(1) },
    ];
    let config = MeterConfig { meter: MeterId(7), flags: 0b101, bands };
    let features = MeterFeatures { max_meters: 16, band_types: 2, capabilities: 1, max_bands: 1, max_color: 0 };
    let plain = |ids: &[u32]| ids.iter().copied().map(FeatureId::plain).collect();
    let tables = TableFeatures {
        table: TableId(1),
        name: "acl".to_owned(),
        metadata_match: 0xff,
        metadata_write: 0xf,
        max_entries: 1000,
        properties: vec![
            TableProperty { kind: table_property::INSTRUCTIONS, ids: plain(&[1, 4, 5]) },
            TableProperty { kind: table_property::NEXT_TABLES, ids: plain(&[2, 3]) },
            TableProperty { kind: table_property::WRITE_ACTIONS, ids: plain(&[0, 22]) },
            TableProperty { kind: table_property::APPLY_ACTIONS, ids: plain(&[0]) },
            TableProperty { kind: table_property::MATCH, ids: plain(&[0x8000_0004]) },
            TableProperty { kind: table_property::WILDCARDS, ids: plain(&[0x8000_0004]) },
            TableProperty { kind: table_property::WRITE_SETFIELD, ids: plain(&[0x8000_0606]) },
            TableProperty { kind: table_property::APPLY_SETFIELD, ids: plain(&[]) },
        ],
        ..TableFeatures::default()
    };
    let change = FlowChange {
        event: FlowEvent::Deleted(RemovedReason::HardTimeout),
        table: TableId(1),
        priority: 7,
        idle_timeout_s: 60,
        hard_timeout_s: 70,
        cookie: 0x99,
        match_: Match { eth_type: Some(0x0800), ..Match::default() },
        instructions: Instructions::apply(vec![Action::output(PortNo(1))]),
    };
    let updates = vec![FlowUpdate::Full(change), FlowUpdate::Abbreviated(Xid(0x42))];
    vec![
        ("queue reply", reply(MultipartReply::Queue(vec![queue]))),
        ("meter reply", reply(MultipartReply::Meter(vec![meter]))),
        ("meter-config reply", reply(MultipartReply::MeterConfig(vec![config]))),
        ("meter-features reply", reply(MultipartReply::MeterFeatures(features))),
        ("table-features reply", reply(MultipartReply::TableFeatures(vec![tables]))),
        ("flow-monitor reply", reply(MultipartReply::FlowMonitor(updates))),
        ("flow-monitor cancel", Message::FlowMonitor(FlowMonitorControl::Cancel(5))),
        ("flow-monitor paused", Message::FlowMonitor(FlowMonitorControl::Paused)),
        ("flow-monitor resumed", Message::FlowMonitor(FlowMonitorControl::Resumed)),
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

/// The description is too long to be laid out by hand: four strings of 256 bytes and one of 32.
#[test]
fn description_has_its_strings_at_fixed_places() {
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
    let starts = [(16, b'm'), (270, b'm'), (271, 0), (272, b'h'), (273, 0), (528, b's'), (784, b'n')];
    for (at, expected) in starts.into_iter().chain([(814, b'n'), (815, 0), (816, b'd'), (817, 0), (1071, 0)]) {
        assert_eq!(bytes[at], expected, "byte {at}");
    }
    assert_eq!(messages_of(&bytes), [envelope]);
}
