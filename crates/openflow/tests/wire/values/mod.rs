//! Any legal value of every message.

mod parts;

use anabranch_openflow::*;
use proptest::collection::vec;
use proptest::prelude::*;

use parts::{actions, buckets, bytes, duration, group, instructions, mac, match_, port, table, text};

fn group_kind() -> impl Strategy<Value = GroupKind> {
    proptest::sample::select(vec![GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover])
}

fn flags() -> impl Strategy<Value = FlowModFlags> {
    any::<[bool; 5]>().prop_map(|[send_flow_removed, check_overlap, reset_counts, no_packet_counts, no_byte_counts]| {
        FlowModFlags { send_flow_removed, check_overlap, reset_counts, no_packet_counts, no_byte_counts }
    })
}

fn port_desc() -> impl Strategy<Value = PortDesc> {
    (port(), mac(), text(16), any::<[bool; 2]>(), any::<u32>()).prop_map(
        |(port, hw_addr, name, [is_admin_down, is_link_down], speed_kbps)| PortDesc {
            port,
            hw_addr,
            name,
            is_admin_down,
            is_link_down,
            speed_kbps,
        },
    )
}

fn features() -> impl Strategy<Value = Features> {
    any::<(u64, u32, u8, u8, u32)>().prop_map(|(datapath, buffers, tables, auxiliary, capabilities)| Features {
        datapath: DatapathId(datapath),
        buffers,
        tables,
        auxiliary,
        capabilities,
    })
}

fn packet_in() -> impl Strategy<Value = PacketIn> {
    use PacketInReason::{Action, InvalidTtl, NoMatch};
    let reason = proptest::sample::select(vec![NoMatch, Action, InvalidTtl]);
    (any::<(u32, u16, u64)>(), reason, table(), match_(), bytes()).prop_map(
        |((buffer, total_len, cookie), reason, table, match_, data)| PacketIn {
            buffer: BufferId(buffer),
            total_len,
            reason,
            table,
            cookie,
            match_,
            data,
        },
    )
}

fn flow_removed() -> impl Strategy<Value = FlowRemoved> {
    use RemovedReason::{Delete, GroupDelete, HardTimeout, IdleTimeout};
    let reason = proptest::sample::select(vec![IdleTimeout, HardTimeout, Delete, GroupDelete]);
    (any::<(u64, u16, u16, u16, u64, u64)>(), reason, table(), duration(), match_()).prop_map(
        |((cookie, priority, idle_timeout_s, hard_timeout_s, packets, bytes), reason, table, duration_ns, match_)| {
            FlowRemoved {
                cookie,
                priority,
                reason,
                table,
                duration_ns,
                idle_timeout_s,
                hard_timeout_s,
                packets,
                bytes,
                match_,
            }
        },
    )
}

fn flow_mod() -> impl Strategy<Value = FlowMod> {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let command = proptest::sample::select(vec![Add, Modify, ModifyStrict, Delete, DeleteStrict]);
    let numbers = any::<(u64, u64, u16, u16, u16, u32)>();
    (numbers, command, table(), port(), group(), flags(), match_(), instructions()).prop_map(
        |(numbers, command, table, out_port, out_group, flags, match_, instructions)| {
            let (cookie, cookie_mask, idle_timeout_s, hard_timeout_s, priority, buffer) = numbers;
            FlowMod {
                cookie,
                cookie_mask,
                table,
                command,
                idle_timeout_s,
                hard_timeout_s,
                priority,
                buffer: BufferId(buffer),
                out_port,
                out_group,
                flags,
                match_,
                instructions,
            }
        },
    )
}

fn group_mod() -> impl Strategy<Value = GroupMod> {
    use GroupModCommand::{Add, Delete, Modify};
    let command = proptest::sample::select(vec![Add, Modify, Delete]);
    (command, group_kind(), group(), buckets()).prop_map(|(command, kind, group, buckets)| GroupMod {
        command,
        kind,
        group,
        buckets,
    })
}

/// Types of multipart messages that have no value of their own.
fn other_kind() -> impl Strategy<Value = u16> {
    prop_oneof![Just(5u16), 9..=12u16, 14..=u16::MAX]
}

fn selection() -> impl Strategy<Value = FlowSelection> {
    (table(), port(), group(), any::<(u64, u64)>(), match_()).prop_map(
        |(table, out_port, out_group, (cookie, cookie_mask), match_)| FlowSelection {
            table,
            out_port,
            out_group,
            cookie,
            cookie_mask,
            match_,
        },
    )
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
        (other_kind(), bytes()).prop_map(|(kind, body)| MultipartRequest::Other { kind, body }),
    ]
}

fn flow_stats() -> impl Strategy<Value = FlowStats> {
    let numbers = any::<(u16, u16, u16, u64, u64, u64)>();
    (table(), duration(), numbers, flags(), match_(), instructions()).prop_map(
        |(table, duration_ns, numbers, flags, match_, instructions)| {
            let (priority, idle_timeout_s, hard_timeout_s, cookie, packets, bytes) = numbers;
            FlowStats {
                table,
                duration_ns,
                priority,
                idle_timeout_s,
                hard_timeout_s,
                flags,
                cookie,
                packets,
                bytes,
                match_,
                instructions,
            }
        },
    )
}

fn port_stats() -> impl Strategy<Value = PortStats> {
    (port(), any::<[u64; 6]>(), duration()).prop_map(
        |(port, [rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped], duration_ns)| PortStats {
            port,
            rx_packets,
            tx_packets,
            rx_bytes,
            tx_bytes,
            rx_dropped,
            tx_dropped,
            duration_ns,
        },
    )
}

fn group_stats() -> impl Strategy<Value = GroupStats> {
    (group(), any::<(u32, u64, u64)>(), duration(), vec(any::<(u64, u64)>(), 0..4)).prop_map(
        |(group, (references, packets, bytes), duration_ns, buckets)| GroupStats {
            group,
            references,
            packets,
            bytes,
            duration_ns,
            buckets,
        },
    )
}

fn description() -> impl Strategy<Value = Description> {
    (text(256), text(256), text(256), text(32), text(256)).prop_map(
        |(manufacturer, hardware, software, serial, datapath)| Description {
            manufacturer,
            hardware,
            software,
            serial,
            datapath,
        },
    )
}

fn reply() -> impl Strategy<Value = MultipartReply> {
    let table_stats = (table(), any::<(u32, u64, u64)>()).prop_map(|(table, (active, lookups, matched))| TableStats {
        table,
        active,
        lookups,
        matched,
    });
    let group_desc =
        (group(), group_kind(), buckets()).prop_map(|(group, kind, buckets)| GroupDescription { group, kind, buckets });
    let features = any::<(u32, u32, [u32; 4], [u32; 4])>().prop_map(|(types, capabilities, max_groups, actions)| {
        GroupFeatures { types, capabilities, max_groups, actions }
    });
    prop_oneof![
        description().prop_map(MultipartReply::Desc),
        vec(flow_stats(), 0..4).prop_map(MultipartReply::Flow),
        any::<(u64, u64, u32)>().prop_map(|(packets, bytes, flows)| MultipartReply::Aggregate {
            packets,
            bytes,
            flows
        }),
        vec(table_stats, 0..4).prop_map(MultipartReply::Table),
        vec(port_stats(), 0..4).prop_map(MultipartReply::Port),
        vec(group_stats(), 0..4).prop_map(MultipartReply::Group),
        vec(group_desc, 0..4).prop_map(MultipartReply::GroupDesc),
        features.prop_map(MultipartReply::GroupFeatures),
        vec(port_desc(), 0..4).prop_map(MultipartReply::PortDesc),
        (other_kind(), bytes()).prop_map(|(kind, body)| MultipartReply::Other { kind, body }),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    use ControllerRole::{Equal, Master, NoChange, Slave};
    (proptest::sample::select(vec![NoChange, Equal, Master, Slave]), any::<u64>())
        .prop_map(|(role, generation)| Role { role, generation })
}

fn async_config() -> impl Strategy<Value = AsyncConfig> {
    any::<[[u32; 2]; 3]>().prop_map(|[packet_in, port_status, flow_removed]| AsyncConfig {
        packet_in,
        port_status,
        flow_removed,
    })
}

fn config() -> impl Strategy<Value = SwitchConfig> {
    any::<(u16, u16)>().prop_map(|(flags, miss_send_len)| SwitchConfig { flags, miss_send_len })
}

fn packet_out() -> impl Strategy<Value = PacketOut> {
    (any::<u32>(), port(), actions(), bytes()).prop_map(|(buffer, in_port, actions, data)| PacketOut {
        buffer: BufferId(buffer),
        in_port,
        actions,
        data,
    })
}

fn port_mod() -> impl Strategy<Value = PortMod> {
    (port(), mac(), any::<(u32, u32, u32)>()).prop_map(|(port, hw_addr, (config, mask, advertise))| PortMod {
        port,
        hw_addr,
        config,
        mask,
        advertise,
    })
}

fn error() -> impl Strategy<Value = Message> {
    let numbers = prop_oneof![(0..14u16, 0..18u16), any::<(u16, u16)>()];
    (numbers, bytes())
        .prop_map(|((kind, code), data)| Message::Error { kind: ErrorKind::from_numbers(kind, code), data })
}

fn port_status() -> impl Strategy<Value = Message> {
    use PortReason::{Add, Delete, Modify};
    (proptest::sample::select(vec![Add, Delete, Modify]), port_desc())
        .prop_map(|(reason, port)| Message::PortStatus { reason, port })
}

/// Messages without a body, and those that hold bytes as they come.
fn simple() -> impl Strategy<Value = Message> {
    prop_oneof![
        any::<u32>().prop_map(|versions| Message::Hello { versions }),
        bytes().prop_map(Message::EchoRequest),
        bytes().prop_map(Message::EchoReply),
        proptest::sample::select(vec![
            Message::FeaturesRequest,
            Message::GetConfigRequest,
            Message::BarrierRequest,
            Message::BarrierReply,
            Message::GetAsyncRequest,
        ]),
        (any::<(u32, u32)>(), bytes()).prop_map(|((experimenter, kind), data)| Message::Experimenter {
            experimenter,
            kind,
            data
        }),
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
