//! Short descriptions of rules and messages for failures and traces.

use openflow::{
    Action, Envelope, FlowMod, FlowStats, GroupMod, Instructions, Match, Message, MultipartReply, MultipartRequest,
    PortNo, SetField, VlanMatch, frame, headers::ether,
};

pub fn entry(entry: &FlowStats) -> String {
    rule(entry.table.0, entry.priority, entry.cookie, &entry.match_, &entry.instructions)
}

pub fn flow_mod(flow_mod: &FlowMod) -> String {
    let FlowMod { table, priority, cookie, match_, instructions, .. } = flow_mod;
    format!("{:?} {}", flow_mod.command, rule(table.0, *priority, *cookie, match_, instructions))
}

fn rule(table: u8, priority: u16, cookie: u64, match_: &Match, instructions: &Instructions) -> String {
    let goto = instructions.goto.map_or_else(String::new, |table| format!(" goto {}", table.0));
    format!(
        "t{table} p{priority} c{cookie:x} [{}] -> {}{goto}",
        matching(match_),
        joined(&instructions.apply, action, " ")
    )
}

fn joined<T>(items: &[T], describe: impl Fn(&T) -> String, separator: &str) -> String {
    items.iter().map(describe).collect::<Vec<String>>().join(separator)
}

fn matching(match_: &Match) -> String {
    let mut parts = Vec::new();
    let mut part = |name: &str, value: Option<String>| parts.extend(value.map(|value| format!("{name}={value}")));
    part("in", match_.in_port.map(|port| port.0.to_string()));
    part("type", match_.eth_type.map(|kind| format!("{kind:x}")));
    part("meta", match_.metadata.map(|metadata| metadata.value.to_string()));
    part(
        "vlan",
        match_.vlan.map(|vlan| match vlan {
            VlanMatch::Untagged => "none".to_owned(),
            VlanMatch::Tagged => "any".to_owned(),
            VlanMatch::Id(id) => id.to_string(),
        }),
    );
    part("proto", match_.ip_proto.map(|protocol| protocol.to_string()));
    part("src", match_.ipv4_src.map(|address| address.value.to_string()));
    part("dst", match_.ipv4_dst.map(|address| address.value.to_string()));
    let ports = [match_.tcp_src.or(match_.udp_src), match_.tcp_dst.or(match_.udp_dst)];
    part("sport", ports[0].map(|port| port.to_string()));
    part("dport", ports[1].map(|port| port.to_string()));
    parts.join(" ")
}

fn action(action: &Action) -> String {
    match action {
        Action::Output { port: PortNo::CONTROLLER, .. } => "controller".to_owned(),
        Action::Output { port: PortNo::IN_PORT, .. } => "back".to_owned(),
        Action::Output { port, .. } => format!("out:{}", port.0),
        Action::Group(group) => format!("group:{:x}", group.0),
        Action::SetField(SetField::VlanVid(vid)) => format!("vlan:{vid}"),
        other => format!("{other:?}"),
    }
}

fn group_mod(group: &GroupMod) -> String {
    let bucket = |bucket: &openflow::Bucket| format!("{}*({})", bucket.weight, joined(&bucket.actions, action, " "));
    format!("{:?} group {:x}: {}", group.command, group.group.0, joined(&group.buckets, bucket, ", "))
}

fn bytes(data: &[u8]) -> String {
    match frame::parse(data) {
        Ok(headers) if headers.eth_type == ether::LLDP => "LLDP".to_owned(),
        Ok(headers) => format!(
            "type {:x} {} -> {} {}:{} op {}",
            headers.eth_type, headers.ipv4_src, headers.ipv4_dst, headers.l4_src, headers.l4_dst, headers.arp_op
        ),
        Err(error) => error.to_string(),
    }
}

pub fn message(message: &Message) -> String {
    match message {
        Message::FlowMod(change) => flow_mod(change),
        Message::GroupMod(change) => group_mod(change),
        Message::PacketIn(packet) => {
            format!("PacketIn port {:?}: {}", packet.match_.in_port.map(|port| port.0), bytes(&packet.data))
        }
        Message::PacketOut(packet) => {
            format!("PacketOut {}: {}", joined(&packet.actions, action, " "), bytes(&packet.data))
        }
        Message::FlowRemoved(gone) => {
            format!("FlowRemoved ({:?}) t{} p{} [{}]", gone.reason, gone.table.0, gone.priority, matching(&gone.match_))
        }
        Message::PortStatus { port, .. } => {
            format!("PortStatus {} {}", port.port.0, if port.is_live() { "live" } else { "dead" })
        }
        Message::MultipartRequest(MultipartRequest::Flow(_)) => "MultipartRequest Flow".to_owned(),
        Message::MultipartReply { reply: MultipartReply::Flow(entries), .. } => {
            let counted = |found: &FlowStats| format!("{} ({} B)", entry(found), found.bytes);
            format!("MultipartReply Flow: {}", joined(entries, counted, "; "))
        }
        other => format!("{other:?}").chars().take(160).collect(),
    }
}

/// Describes virtual services and their pools, one line each.
pub fn services(version: usize, wanted: &crate::vip::Services) -> Vec<String> {
    let service = |service: &crate::vip::Service| {
        let (id, pool, idle) = (service.id.0, service.pool.0, service.idle_timeout_s);
        let place = (service.address, service.protocol, service.port);
        let buckets = service.buckets().map_or(String::new(), |count| format!(", {count} buckets"));
        format!("services {version}: {id} at {place:?} by pool {pool}, idle {idle} s{buckets}")
    };
    let pool = |pool: &crate::vip::Pool| {
        let member = |member: &crate::vip::Member| {
            let (id, port, weight) = (member.id.0, member.port, member.weight);
            let drains = if member.is_enabled { "" } else { " drains" };
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            format!("{id}={}{port}*{weight}{drains}", member.address)
        };
        let check = pool.monitor.as_ref().map(|monitor| &monitor.check);
        let (id, picker, members) = (pool.id.0, &pool.balancer, joined(&pool.members, member, ", "));
        format!(
            "services {version}: pool {id} by {picker}, {:?}, {:?}, {check:?}: {members}",
            pool.established, pool.refusal
        )
    };
    wanted.services.iter().map(service).chain(wanted.pools.iter().map(pool)).collect()
}

pub fn envelope(envelope: &Envelope) -> String {
    format!("#{:<4} {}", envelope.xid.0, message(&envelope.message))
}
