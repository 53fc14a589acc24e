//! The length of messages on the wire, computed without encoding them. Simulated
//! channels use it.

use crate::action::{Action, Bucket, Instructions};
use crate::matching::{Match, VlanMatch};
use crate::message::Message;
use crate::multipart::{FlowSelection, MultipartReply, MultipartRequest};

/// `ofp_header`.
const HEADER: usize = 8;
/// `ofp_port`.
const PORT: usize = 64;
/// `ofp_desc`: four strings of 256 bytes and a serial number of 32.
const DESCRIPTION: usize = 4 * 256 + 32;
/// An OXM field without its value: class, field and length.
const FIELD: usize = 4;

/// Returns the length of a message in bytes, header included.
pub fn wire_len(message: &Message) -> usize {
    HEADER + body(message)
}

fn body(message: &Message) -> usize {
    match message {
        // One element: the bitmap of versions.
        Message::Hello { .. } => 8,
        Message::Error { data, .. } => 4 + data.len(),
        Message::EchoRequest(data) | Message::EchoReply(data) => data.len(),
        Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::BarrierRequest
        | Message::BarrierReply
        | Message::GetAsyncRequest => 0,
        Message::FeaturesReply(_) | Message::GetAsyncReply(_) | Message::SetAsync(_) => 24,
        Message::GetConfigReply(_) | Message::SetConfig(_) => 4,
        Message::PacketIn(packet) => 16 + match_len(&packet.match_) + 2 + packet.data.len(),
        Message::FlowRemoved(removed) => 40 + match_len(&removed.match_),
        Message::PortStatus { .. } => 8 + PORT,
        Message::PacketOut(packet) => 16 + actions_len(&packet.actions) + packet.data.len(),
        Message::FlowMod(change) => 40 + match_len(&change.match_) + instructions_len(&change.instructions),
        Message::GroupMod(change) => 8 + buckets_len(&change.buckets),
        Message::PortMod(_) => 32,
        Message::TableMod { .. } => 8,
        Message::MultipartRequest(request) => 8 + request_len(request),
        Message::MultipartReply { reply, .. } => 8 + reply_len(reply),
        Message::RoleRequest(_) | Message::RoleReply(_) => 16,
        Message::Experimenter { data, .. } => 8 + data.len(),
    }
}

/// Returns the length of `ofp_match` with its padding.
pub fn match_len(m: &Match) -> usize {
    let field = |is_there: bool, value: usize| if is_there { FIELD + value } else { 0 };
    // A mask is written unless all of its bits are set.
    let masked = |full: Option<bool>, value: usize| match full {
        None => 0,
        Some(true) => FIELD + value,
        Some(false) => FIELD + 2 * value,
    };
    let ethernet = |masked: crate::Masked<crate::MacAddr>| masked.mask.0 == [0xff; 6];
    let ipv4 = |masked: crate::Masked<core::net::Ipv4Addr>| masked.mask == core::net::Ipv4Addr::BROADCAST;
    let two_bytes = [m.eth_type, m.tcp_src, m.tcp_dst, m.udp_src, m.udp_dst, m.arp_op];
    let one_byte = [m.vlan_pcp, m.ip_dscp, m.ip_ecn, m.ip_proto, m.icmpv4_type, m.icmpv4_code];
    let addresses = [m.ipv4_src, m.ipv4_dst, m.arp_spa, m.arp_tpa];
    // The experimenter id comes before the value.
    let tcp_flags = m.tcp_flags.map_or(0, |flags| FIELD + 4 + if flags.mask == 0x0fff { 2 } else { 4 });
    let fields = field(m.in_port.is_some(), 4)
        + tcp_flags
        + masked(m.metadata.map(|metadata| metadata.mask == u64::MAX), 8)
        + masked(m.eth_dst.map(ethernet), 6)
        + masked(m.eth_src.map(ethernet), 6)
        // "Any tag" is a value with a mask.
        + masked(m.vlan.map(|vlan| vlan != VlanMatch::Tagged), 2)
        + two_bytes.iter().map(|value| field(value.is_some(), 2)).sum::<usize>()
        + one_byte.iter().map(|value| field(value.is_some(), 1)).sum::<usize>()
        + addresses.iter().map(|address| masked(address.map(ipv4), 4)).sum::<usize>();
    (4 + fields).next_multiple_of(8)
}

/// Returns the length of a list of actions.
pub fn actions_len(actions: &[Action]) -> usize {
    let length = |action: &Action| match action {
        // Every settable field is at most 6 bytes long: 8 to 14 bytes with its headers, padded to
        // 16.
        Action::Output { .. } | Action::SetField(_) => 16,
        Action::Bundle(bundle) => 32 + (2 * bundle.ports().count()).next_multiple_of(8),
        Action::Group(_) | Action::PushVlan(_) | Action::PopVlan | Action::SetQueue(_) | Action::DecNwTtl => 8,
    };
    actions.iter().map(length).sum()
}

/// Returns the length of the instructions of an entry.
pub fn instructions_len(instructions: &Instructions) -> usize {
    let actions = |actions: &[Action]| if actions.is_empty() { 0 } else { 8 + actions_len(actions) };
    let fixed = |is_there: bool, length: usize| if is_there { length } else { 0 };
    fixed(instructions.meter.is_some(), 8)
        + actions(&instructions.apply)
        + fixed(instructions.clear, 8)
        + actions(&instructions.write)
        + fixed(instructions.metadata.is_some(), 24)
        + fixed(instructions.goto.is_some(), 8)
}

/// Returns the length of the buckets of a group.
pub fn buckets_len(buckets: &[Bucket]) -> usize {
    buckets.iter().map(|bucket| 16 + actions_len(&bucket.actions)).sum()
}

fn request_len(request: &MultipartRequest) -> usize {
    let selection = |selection: &FlowSelection| 32 + match_len(&selection.match_);
    match request {
        MultipartRequest::Desc
        | MultipartRequest::Table
        | MultipartRequest::GroupDesc
        | MultipartRequest::GroupFeatures
        | MultipartRequest::PortDesc => 0,
        MultipartRequest::Flow(entries) | MultipartRequest::Aggregate(entries) => selection(entries),
        MultipartRequest::Port(_) | MultipartRequest::Group(_) => 8,
        MultipartRequest::Other { body, .. } => body.len(),
    }
}

fn reply_len(reply: &MultipartReply) -> usize {
    match reply {
        MultipartReply::Desc(_) => DESCRIPTION,
        MultipartReply::Flow(entries) => {
            entries.iter().map(|entry| 48 + match_len(&entry.match_) + instructions_len(&entry.instructions)).sum()
        }
        MultipartReply::Aggregate { .. } => 24,
        MultipartReply::Table(tables) => 24 * tables.len(),
        MultipartReply::Port(ports) => 112 * ports.len(),
        MultipartReply::Group(groups) => groups.iter().map(|group| 40 + 16 * group.buckets.len()).sum(),
        MultipartReply::GroupDesc(groups) => groups.iter().map(|group| 8 + buckets_len(&group.buckets)).sum(),
        MultipartReply::GroupFeatures(_) => 40,
        MultipartReply::PortDesc(ports) => PORT * ports.len(),
        MultipartReply::Other { body, .. } => body.len(),
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;
    use crate::{
        BufferId, FlowMod, GroupId, GroupKind, GroupMod, GroupModCommand, Masked, PacketOut, PortNo, SetField, TableId,
    };

    /// The expected lengths were computed by hand from the structures of the specification.
    #[test]
    fn lengths_are_those_of_the_specification() {
        assert_eq!(wire_len(&Message::Hello { versions: 1 << 4 }), 16);
        assert_eq!(wire_len(&Message::BarrierRequest), 8);
        assert_eq!(wire_len(&Message::EchoRequest(vec![0; 5])), 13);
        // ofp_packet_out: 24, one output of 16, the packet.
        let data = vec![0; 60];
        let out = PacketOut {
            buffer: BufferId::NO_BUFFER,
            in_port: PortNo::CONTROLLER,
            actions: vec![Action::output(PortNo(1))],
            data,
        };
        assert_eq!(wire_len(&Message::PacketOut(out)), 24 + 16 + 60);
        assert_eq!(wire_len(&Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all()))), 16 + 32 + 8);
        assert_eq!(wire_len(&Message::MultipartRequest(MultipartRequest::PortDesc)), 16);
        let desc = MultipartReply::Desc(crate::Description::default());
        assert_eq!(wire_len(&Message::MultipartReply { reply: desc, has_more: false }), 16 + 1056);
    }

    #[test]
    fn matches_are_padded_to_eight() {
        assert_eq!(match_len(&Match::default()), 8);
        let dst = Some(Masked::<Ipv4Addr>::exact(Ipv4Addr::new(10, 0, 0, 1)));
        // eth_type 6 and ipv4_dst 8 after the header of 4: 18, padded to 24.
        let exact = Match { eth_type: Some(0x0800), ipv4_dst: dst, ..Match::default() };
        assert_eq!(match_len(&exact), 24);
        let prefix = Masked { value: Ipv4Addr::new(10, 0, 0, 0), mask: Ipv4Addr::new(255, 0, 0, 0) };
        // 4 + 6 + 12 = 22.
        assert_eq!(match_len(&Match { ipv4_dst: Some(prefix), ..exact }), 24);
        // 22 + 8 (both ports are 6 each, in_port 8): 4 + 6 + 12 + 8 = 30.
        assert_eq!(match_len(&Match { ipv4_dst: Some(prefix), in_port: Some(PortNo(1)), ..exact }), 32);
        // TCP flags: 4 + 4 for the experimenter id, 2, and 2 for a mask: 4 + 10 and 4 + 12 are
        // padded to 16.
        let flags = |mask| match_len(&Match { tcp_flags: Some(Masked { value: 2, mask }), ..Match::default() });
        assert_eq!((flags(0x0fff), flags(2)), (16, 16));
        // Any tag needs a mask: 4 + 4 + 4; one id does not: 4 + 4 + 2. Both are padded to 16.
        let tagged = |vlan| match_len(&Match { vlan: Some(vlan), ..Match::default() });
        assert_eq!((tagged(VlanMatch::Tagged), tagged(VlanMatch::Id(7))), (16, 16));
    }

    #[test]
    fn rules_and_groups_have_their_parts() {
        let apply = vec![Action::SetField(SetField::VlanVid(7)), Action::Group(GroupId(1))];
        let instructions = Instructions { goto: Some(TableId(1)), ..Instructions::apply(apply) };
        // ofp_instruction_actions 8 + 16 + 8, ofp_instruction_goto_table 8.
        assert_eq!(instructions_len(&instructions), 40);
        let rule = FlowMod::add(TableId(0), 1, Match::default(), instructions);
        assert_eq!(wire_len(&Message::FlowMod(rule)), 48 + 8 + 40);
        let buckets = vec![Bucket::watching(PortNo(1), 1), Bucket::watching(PortNo(2), 1)];
        let group = GroupMod { command: GroupModCommand::Add, kind: GroupKind::Select, group: GroupId(1), buckets };
        assert_eq!(wire_len(&Message::GroupMod(group)), 16 + 2 * 32);
    }
}
