//! Recognition of messages by the lengths in their headers, without decoding.

pub const ECHO_REQUEST: u8 = 2;
pub const ECHO_REPLY: u8 = 3;
pub const ERROR: u8 = 1;
pub const PACKET_OUT: u8 = 13;
pub const FLOW_MOD: u8 = 14;
pub const BARRIER_REQUEST: u8 = 20;
pub const BARRIER_REPLY: u8 = 21;

const COMMAND_AT: usize = 25;
const MATCH_AT: usize = 48;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    Probe { source: [u8; 4], n: u32 },
    ArpReply { sender: [u8; 4], target: [u8; 4] },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// IPv4 source, if matched exactly.
    pub source: Option<[u8; 4]>,
    /// IPv4 destination, if matched exactly.
    pub destination: Option<[u8; 4]>,
    pub mac: Option<[u8; 6]>,
    pub from_port: Option<u16>,
    pub to_port: Option<u16>,
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[inline]
fn four(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

#[inline]
pub fn packet_out(message: &[u8]) -> Option<Carried> {
    let actions = usize::from(u16_at(message, 16)?);
    let frame = message.get(24 + actions..)?;
    match u16_at(frame, 12)? {
        0x0800 => {
            let header = usize::from(*frame.get(14)? & 0x0f) * 4;
            if *frame.get(23)? != 6 {
                return None;
            }
            Some(Carried::Probe { source: four(frame, 26)?, n: u32::from_be_bytes(four(frame, 14 + header + 4)?) })
        }
        0x0806 if u16_at(frame, 20)? == 2 => {
            Some(Carried::ArpReply { sender: four(frame, 28)?, target: four(frame, 38)? })
        }
        _ => None,
    }
}

/// Returns the match fields of a complete flow-mod message that adds or changes a rule; `None` for
/// deletions and unreadable ones.
pub fn flow_mod(message: &[u8]) -> Option<Rule> {
    // Add, modify, modify strict.
    if *message.get(COMMAND_AT)? > 2 {
        return None;
    }
    let len = usize::from(u16_at(message, MATCH_AT + 2)?);
    let mut fields = message.get(MATCH_AT + 4..MATCH_AT + len)?;
    let mut rule = Rule::default();
    while let Some((head, rest)) = fields.split_at_checked(4) {
        let (value, rest) = rest.split_at_checked(usize::from(head[3]))?;
        fields = rest;
        let is_masked = head[2] & 1 != 0;
        if head[..2] != [0x80, 0] || is_masked {
            continue;
        }
        match head[2] >> 1 {
            3 => rule.mac = value.try_into().ok(),
            11 => rule.source = value.try_into().ok(),
            12 => rule.destination = value.try_into().ok(),
            13 => rule.from_port = u16_at(value, 0),
            14 => rule.to_port = u16_at(value, 0),
            _ => {}
        }
    }
    Some(rule)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use openflow::frame::{arp_reply, arp_request, build};
    use openflow::headers::{ether, protocol};
    use openflow::{
        Action, BufferId, Envelope, FlowMod, Headers, Instructions, MacAddr, Masked, Match, Message, PacketOut, PortNo,
        TableId, Xid, wire,
    };

    use super::*;

    fn bytes(message: Message) -> Vec<u8> {
        let mut out = Vec::new();
        wire::encode(&Envelope { xid: Xid(7), message }, &mut out).unwrap();
        out
    }
    fn out(data: Vec<u8>, actions: Vec<Action>) -> Vec<u8> {
        bytes(Message::PacketOut(PacketOut { buffer: BufferId::NO_BUFFER, in_port: PortNo(1), actions, data }))
    }

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    #[test]
    fn probe_found_behind_any_actions() {
        let mut frame = build(&Headers::ipv4([MAC; 2], [A, B], protocol::TCP, [1, 2]), 0);
        frame[38..42].copy_from_slice(&99u32.to_be_bytes());
        for actions in [vec![], vec![Action::output(PortNo(3))], vec![Action::DecNwTtl, Action::output(PortNo::FLOOD)]]
        {
            let expected = Carried::Probe { source: A.octets(), n: 99 };
            assert_eq!(packet_out(&out(frame.clone(), actions)), Some(expected));
        }
        let udp = build(&Headers::ipv4([MAC; 2], [A, B], protocol::UDP, [1, 2]), 20);
        assert_eq!(packet_out(&out(udp, vec![])), None);
    }

    #[test]
    fn arp_replies_found_and_requests_ignored() {
        let reply = out(arp_reply(MAC, A, MAC, B), vec![Action::output(PortNo(3))]);
        assert_eq!(packet_out(&reply), Some(Carried::ArpReply { sender: A.octets(), target: B.octets() }));
        assert_eq!(packet_out(&out(arp_request(MAC, A, B), vec![])), None);
    }

    #[test]
    fn flow_mod_yields_exact_fields() {
        let match_ = Match {
            in_port: Some(PortNo(1)),
            eth_dst: Some(Masked::<MacAddr>::exact(MAC)),
            eth_type: Some(ether::IPV4),
            ip_proto: Some(protocol::TCP),
            ipv4_src: Some(Masked { value: Ipv4Addr::new(10, 0, 0, 0), mask: Ipv4Addr::new(255, 0, 0, 0) }),
            ipv4_dst: Some(Masked::<Ipv4Addr>::exact(B)),
            tcp_src: Some(5),
            tcp_dst: Some(6),
            ..Match::default()
        };
        let rule = FlowMod::add(TableId(0), 1, match_, Instructions::apply(vec![Action::output(PortNo(1))]));
        let expected = Rule {
            source: None,
            destination: Some(B.octets()),
            mac: Some(MAC.0),
            from_port: Some(5),
            to_port: Some(6),
        };
        assert_eq!(flow_mod(&bytes(Message::FlowMod(rule))), Some(expected));
        let deletion = FlowMod::delete_strict(TableId(0), 1, match_);
        assert_eq!(flow_mod(&bytes(Message::FlowMod(deletion))), None);
    }

    #[test]
    fn truncated_messages_ignored() {
        let whole = out(arp_reply(MAC, A, MAC, B), vec![Action::output(PortNo(3))]);
        // Up to the last byte of the target's address.
        (0..24 + 16 + 42).for_each(|len| assert_eq!(packet_out(&whole[..len]), None, "{len}"));
        let match_ = Match { eth_type: Some(ether::IPV4), ..Match::default() };
        let rule = bytes(Message::FlowMod(FlowMod::add(TableId(0), 1, match_, Instructions::default())));
        (0..MATCH_AT + 10).for_each(|len| assert_eq!(flow_mod(&rule[..len]), None, "{len}"));
        // Lengths that do not match the content.
        let mut corrupted = rule;
        corrupted[MATCH_AT + 7] = 0xff;
        assert_eq!(flow_mod(&corrupted), None);
    }
}
