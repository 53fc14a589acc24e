//! Strategies for all messages.

mod parts;
mod statistics;

use anabranch_openflow::*;
use proptest::collection::vec;
use proptest::prelude::*;

use parts::{actions, buckets, bytes, duration, group, instructions, mac, match_, port, table, text};

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> {
    proptest::sample::select(values.to_vec())
}

fn group_kind() -> impl Strategy<Value = GroupKind> {
    one_of(&[GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover])
}

prop_compose! {
    fn flags()(
        [send_flow_removed, check_overlap, reset_counts, no_packet_counts, no_byte_counts] in any::<[bool; 5]>(),
    ) -> FlowModFlags {
        FlowModFlags { send_flow_removed, check_overlap, reset_counts, no_packet_counts, no_byte_counts }
    }
}

prop_compose! {
    fn port_desc()(
        (port, hw_addr, name) in (port(), mac(), text(16)),
        ([is_admin_down, is_link_down], max_speed_kbps) in any::<([bool; 2], u32)>(),
        // A speed of 0 would be read as that of the features.
        (speed_kbps, [current, advertised, supported, peer]) in (1..=u32::MAX, any::<[u32; 4]>()),
    ) -> PortDesc {
        let features = PortFeatures { current, advertised, supported, peer };
        PortDesc { port, hw_addr, name, is_admin_down, is_link_down, speed_kbps, max_speed_kbps, features }
    }
}

prop_compose! {
    fn features()(
        (datapath, buffers, tables, auxiliary, capabilities) in any::<(u64, u32, u8, u8, u32)>(),
    ) -> Features {
        Features { datapath: DatapathId(datapath), buffers, tables, auxiliary, capabilities }
    }
}

prop_compose! {
    fn packet_in()(
        (buffer, total_len, cookie) in any::<(u32, u16, u64)>(),
        reason in one_of(&[PacketInReason::NoMatch, PacketInReason::Action, PacketInReason::InvalidTtl]),
        (table, match_, other_fields, data) in (table(), match_(), other_fields(), bytes()),
    ) -> PacketIn {
        PacketIn { buffer: BufferId(buffer), total_len, reason, table, cookie, match_, other_fields, data }
    }
}

prop_compose! {
    fn flow_removed()(
        (table, duration_ns, match_, other_fields) in (table(), duration(), match_(), other_fields()),
        (priority, idle_timeout_s, hard_timeout_s) in any::<(u16, u16, u16)>(),
        (cookie, packets, bytes) in any::<(u64, u64, u64)>(),
        reason in removed_reason(),
    ) -> FlowRemoved {
        FlowRemoved {
            cookie, priority, reason, table, duration_ns, idle_timeout_s, hard_timeout_s, packets, bytes, match_,
            other_fields,
        }
    }
}

/// Fields that no value represents: the id of a tunnel, a VLAN id without `OFPVID_PRESENT`, a field
/// of an unknown class.
fn other_fields() -> impl Strategy<Value = Vec<u8>> {
    let known = [&[0x80, 0, 38 << 1, 8, 0, 0, 0, 0, 0, 0, 0, 5][..], &[0x80, 0, 12, 2, 0, 5], &[0, 1, 62, 1, 7]];
    proptest::sample::subsequence(known.to_vec(), 0..=3).prop_map(|fields| fields.concat())
}

pub fn removed_reason() -> impl Strategy<Value = RemovedReason> {
    use RemovedReason::{Delete, Eviction, GroupDelete, HardTimeout, IdleTimeout, MeterDelete};
    one_of(&[IdleTimeout, HardTimeout, Delete, GroupDelete, MeterDelete, Eviction])
}

fn flow_mod_command() -> impl Strategy<Value = FlowModCommand> {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    one_of(&[Add, Modify, ModifyStrict, Delete, DeleteStrict])
}

prop_compose! {
    fn flow_mod()(
        (cookie_mask, buffer) in any::<(u64, u32)>(),
        (command, out_port, out_group) in (flow_mod_command(), port(), group()),
        entry in flow_stats(),
    ) -> FlowMod {
        let FlowStats { table, priority, idle_timeout_s, hard_timeout_s, flags, cookie, .. } = entry;
        let add = FlowMod::add(table, priority, entry.match_, entry.instructions);
        let add = FlowMod { cookie, cookie_mask, idle_timeout_s, hard_timeout_s, flags, ..add };
        FlowMod { command, buffer: BufferId(buffer), out_port, out_group, ..add }
    }
}

prop_compose! {
    fn group_mod()(
        command in one_of(&[GroupModCommand::Add, GroupModCommand::Modify, GroupModCommand::Delete]),
        (kind, group, buckets) in (group_kind(), group(), buckets()),
    ) -> GroupMod {
        GroupMod { command, kind, group, buckets }
    }
}

/// Multipart types that are kept as opaque bytes.
fn other_kind() -> impl Strategy<Value = u16> {
    14..u16::MAX
}

prop_compose! {
    fn selection()(
        (table, out_port, out_group, match_) in (table(), port(), group(), match_()),
        (cookie, cookie_mask) in any::<(u64, u64)>(),
    ) -> FlowSelection {
        FlowSelection { table, out_port, out_group, cookie, cookie_mask, match_ }
    }
}

fn request() -> impl Strategy<Value = MultipartRequest> {
    prop_oneof![
        Just(MultipartRequest::Desc),
        selection().prop_map(MultipartRequest::Flow),
        selection().prop_map(MultipartRequest::Aggregate),
        Just(MultipartRequest::Table),
        port().prop_map(MultipartRequest::Port),
        group().prop_map(MultipartRequest::Group),
        Just(MultipartRequest::GroupDesc),
        Just(MultipartRequest::GroupFeatures),
        Just(MultipartRequest::PortDesc),
        statistics::request(),
        (other_kind(), bytes()).prop_map(|(kind, body)| MultipartRequest::Other { kind, body }),
    ]
}

prop_compose! {
    fn flow_stats()(
        (table, duration_ns, flags) in (table(), duration(), flags()),
        (priority, idle_timeout_s, hard_timeout_s) in any::<(u16, u16, u16)>(),
        (cookie, packets, bytes) in any::<(u64, u64, u64)>(),
        (match_, instructions) in (match_(), instructions()),
    ) -> FlowStats {
        let numbers = FlowStats { priority, idle_timeout_s, hard_timeout_s, cookie, packets, bytes, ..FlowStats::default() };
        FlowStats { table, duration_ns, flags, match_, instructions, ..numbers }
    }
}

prop_compose! {
    fn port_stats()(
        (port, duration_ns) in (port(), duration()),
        [rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped] in any::<[u64; 6]>(),
        [rx_errors, tx_errors, rx_frame_err, rx_over_err, rx_crc_err, collisions] in any::<[u64; 6]>(),
    ) -> PortStats {
        PortStats {
            port, rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped, rx_errors, tx_errors,
            rx_frame_err, rx_over_err, rx_crc_err, collisions, duration_ns,
        }
    }
}

prop_compose! {
    fn group_stats()(
        (group, duration_ns) in (group(), duration()),
        (references, packets, bytes) in any::<(u32, u64, u64)>(),
        buckets in vec(any::<(u64, u64)>(), 0..4),
    ) -> GroupStats {
        GroupStats { group, references, packets, bytes, duration_ns, buckets }
    }
}

prop_compose! {
    fn description()(
        (manufacturer, hardware, software) in (text(256), text(256), text(256)),
        (serial, datapath) in (text(32), text(256)),
    ) -> Description {
        Description { manufacturer, hardware, software, serial, datapath }
    }
}

prop_compose! {
    fn table_stats()(table in table(), (active, lookups, matched) in any::<(u32, u64, u64)>()) -> TableStats {
        TableStats { table, active, lookups, matched }
    }
}

prop_compose! {
    fn group_description()((group, kind, buckets) in (group(), group_kind(), buckets())) -> GroupDescription {
        GroupDescription { group, kind, buckets }
    }
}

prop_compose! {
    fn group_features()(
        (types, capabilities, max_groups, actions) in any::<(u32, u32, [u32; 4], [u32; 4])>(),
    ) -> GroupFeatures {
        GroupFeatures { types, capabilities, max_groups, actions }
    }
}

fn reply() -> impl Strategy<Value = MultipartReply> {
    let aggregate = any::<(u64, u64, u32)>();
    prop_oneof![
        description().prop_map(MultipartReply::Desc),
        vec(flow_stats(), 0..4).prop_map(MultipartReply::Flow),
        aggregate.prop_map(|(packets, bytes, flows)| MultipartReply::Aggregate { packets, bytes, flows }),
        vec(table_stats(), 0..4).prop_map(MultipartReply::Table),
        vec(port_stats(), 0..4).prop_map(MultipartReply::Port),
        vec(group_stats(), 0..4).prop_map(MultipartReply::Group),
        vec(group_description(), 0..4).prop_map(MultipartReply::GroupDesc),
        group_features().prop_map(MultipartReply::GroupFeatures),
        vec(port_desc(), 0..4).prop_map(MultipartReply::PortDesc),
        statistics::reply(),
        (other_kind(), bytes()).prop_map(|(kind, body)| MultipartReply::Other { kind, body }),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    let role =
        one_of(&[ControllerRole::NoChange, ControllerRole::Equal, ControllerRole::Master, ControllerRole::Slave]);
    (role, any::<u64>()).prop_map(|(role, generation)| Role { role, generation })
}

prop_compose! {
    fn async_config()([packet_in, port_status, flow_removed] in any::<[[u32; 2]; 3]>()) -> AsyncConfig {
        AsyncConfig { packet_in, port_status, flow_removed }
    }
}

prop_compose! {
    fn config()((flags, miss_send_len) in any::<(u16, u16)>()) -> SwitchConfig {
        SwitchConfig { flags, miss_send_len }
    }
}

prop_compose! {
    fn packet_out()(
        (buffer, in_port) in (any::<u32>(), port()),
        (actions, data) in (actions(), bytes()),
    ) -> PacketOut {
        PacketOut { buffer: BufferId(buffer), in_port, actions, data }
    }
}

prop_compose! {
    fn port_mod()(
        (port, hw_addr) in (port(), mac()),
        (config, mask, advertise) in any::<(u32, u32, u32)>(),
    ) -> PortMod {
        PortMod { port, hw_addr, config, mask, advertise }
    }
}

prop_compose! {
    fn error()(
        (kind, code) in prop_oneof![(0..15u16, 0..18u16), any::<(u16, u16)>()],
        data in bytes(),
    ) -> Message {
        Message::Error { kind: ErrorKind::from_numbers(kind, code), data }
    }
}

prop_compose! {
    fn experimenter()((experimenter, kind) in any::<(u32, u32)>(), data in bytes()) -> Message {
        Message::Experimenter { experimenter, kind, data }
    }
}

prop_compose! {
    fn port_status()(
        reason in one_of(&[PortReason::Add, PortReason::Delete, PortReason::Modify]),
        port in port_desc(),
    ) -> Message {
        Message::PortStatus { reason, port }
    }
}

/// Messages without a body, or with opaque bytes.
fn simple() -> impl Strategy<Value = Message> {
    prop_oneof![
        any::<u32>().prop_map(|versions| Message::Hello { versions }),
        bytes().prop_map(Message::EchoRequest),
        bytes().prop_map(Message::EchoReply),
        one_of(&[
            Message::FeaturesRequest,
            Message::GetConfigRequest,
            Message::BarrierRequest,
            Message::BarrierReply,
            Message::GetAsyncRequest,
        ]),
        experimenter(),
        statistics::monitor_control(),
        (table(), any::<u32>()).prop_map(|(table, config)| Message::TableMod { table, config }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        2 => simple(),
        1 => error(),
        1 => features().prop_map(Message::FeaturesReply),
        1 => prop_oneof![config().prop_map(Message::GetConfigReply), config().prop_map(Message::SetConfig)],
        1 => packet_in().prop_map(Message::PacketIn),
        1 => flow_removed().prop_map(Message::FlowRemoved),
        1 => port_status(),
        1 => packet_out().prop_map(Message::PacketOut),
        1 => flow_mod().prop_map(Message::FlowMod),
        1 => group_mod().prop_map(Message::GroupMod),
        1 => port_mod().prop_map(Message::PortMod),
        2 => request().prop_map(Message::MultipartRequest),
        3 => (reply(), any::<bool>()).prop_map(|(reply, has_more)| Message::MultipartReply { reply, has_more }),
        1 => prop_oneof![role().prop_map(Message::RoleRequest), role().prop_map(Message::RoleReply)],
        1 => prop_oneof![async_config().prop_map(Message::GetAsyncReply), async_config().prop_map(Message::SetAsync)],
    ]
}

pub fn envelope() -> impl Strategy<Value = Envelope> {
    (any::<u32>(), message()).prop_map(|(xid, message)| Envelope { xid: Xid(xid), message })
}
