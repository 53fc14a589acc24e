//! Messages for the tests of this workspace.

use crate::*;

/// Returns one message of every kind, in the order of [`Message`], with as little content as
/// possible.
pub fn one_of_each() -> Vec<Message> {
    let (buffer, match_, hw_addr) = (BufferId::NO_BUFFER, Match::default(), MacAddr([2, 0, 0, 0, 0, 1]));
    let (table, cookie, total_len, priority) = (TableId(0), 0, 0, 0);
    let features = Features { datapath: DatapathId(7), buffers: 0, tables: 4, auxiliary: 0, capabilities: 0 };
    let config = SwitchConfig { flags: 0, miss_send_len: 0 };
    let reason = PacketInReason::Action;
    let packet_in =
        PacketIn { buffer, total_len, reason, table, cookie, match_, other_fields: Vec::new(), data: Vec::new() };
    let removed = FlowRemoved {
        cookie,
        priority,
        reason: RemovedReason::Delete,
        table,
        duration_ns: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        packets: 0,
        bytes: 0,
        match_,
        other_fields: Vec::new(),
    };
    let data = frame::build(&Headers::default(), 0);
    let packet_out = PacketOut { buffer, in_port: PortNo::CONTROLLER, actions: Vec::new(), data };
    let (command, kind) = (GroupModCommand::Delete, GroupKind::All);
    let group_mod = GroupMod { command, kind, group: GroupId::ALL, buckets: Vec::new() };
    let role = Role { role: ControllerRole::NoChange, generation: 0 };
    let notified = AsyncConfig { packet_in: [0; 2], port_status: [0; 2], flow_removed: [0; 2] };
    vec![
        Message::Hello { versions: 1 << 4 },
        Message::Error { kind: ErrorKind::BadRequest(BadRequest::BadType), data: Vec::new() },
        Message::EchoRequest(vec![1]),
        Message::EchoReply(vec![1]),
        Message::FeaturesRequest,
        Message::FeaturesReply(features),
        Message::GetConfigRequest,
        Message::GetConfigReply(config),
        Message::SetConfig(config),
        Message::PacketIn(packet_in),
        Message::FlowRemoved(removed),
        Message::PortStatus { reason: PortReason::Modify, port: PortDesc::up(PortNo(1), hw_addr, "p1", 0) },
        Message::PacketOut(packet_out),
        Message::FlowMod(FlowMod::add(table, priority, match_, Instructions::default())),
        Message::GroupMod(group_mod),
        Message::PortMod(PortMod { port: PortNo(1), hw_addr, config: 0, mask: 0, advertise: 0 }),
        Message::TableMod { table, config: 0 },
        Message::MultipartRequest(MultipartRequest::Table),
        Message::MultipartReply { reply: MultipartReply::Table(Vec::new()), has_more: false },
        Message::BarrierRequest,
        Message::BarrierReply,
        Message::RoleRequest(role),
        Message::RoleReply(role),
        Message::GetAsyncRequest,
        Message::GetAsyncReply(notified),
        Message::SetAsync(notified),
        Message::FlowMonitor(FlowMonitorControl::Paused),
        Message::Experimenter { experimenter: 1, kind: 1, data: Vec::new() },
    ]
}
