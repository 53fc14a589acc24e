//! Messages that are not part of the load: the switches decode and execute them, and frames are
//! carried between switches.

use std::collections::VecDeque;

use openflow::flow_monitor::monitor_error;
use openflow::frame::{arp_reply, parse};
use openflow::headers::ether;
use openflow::{ConnectionId, Description, Envelope, Message, MultipartRequest, PacketIn, PortNo, wire};
use switch::{Config, HashFields, Output, Select, Support};

use crate::fleet::Fleet;

const TABLES: u8 = 16;
/// Table capacity: more entries than controllers install in a measurement.
const MAX_ENTRIES: u32 = 1_000_000;
const MAX_GROUPS: u32 = 65_536;
/// Bytes of a rejected message that its error contains (specification 7.4.4).
const ERROR_DATA_BYTES: usize = 64;
/// `OFPET_EXPERIMENTER`: the data starts with the experimenter; here only errors of flow monitors.
const EXPERIMENTER_ERROR: u16 = 0xffff;
/// EtherType of discovery frames that pass bridges; Floodlight and Ryu send them in addition to
/// LLDP.
const BROADCAST_DISCOVERY: u16 = 0x8942;
/// Connection id within an emulated switch, which has one connection.
pub(crate) const CONNECTION: ConnectionId = ConnectionId(0);

impl Fleet {
    pub(crate) fn control(&mut self, at: usize, message: &[u8], now_ns: u64) {
        let now = net::Time::from_ns(now_ns);
        match wire::decode(message) {
            Ok(Some((envelope, _))) => {
                match &envelope.message {
                    Message::MultipartRequest(MultipartRequest::Flow(_)) => self.audit_requests.flow_statistics += 1,
                    Message::MultipartRequest(MultipartRequest::FlowMonitor(_)) => {
                        self.audit_requests.flow_monitors += 1;
                    }
                    _ => {}
                }
                self.switches[at].switch.handle(now, CONNECTION, envelope);
                self.drain(at, message);
            }
            // The message is complete by its header, so a decoder that needs more bytes shows that
            // it is malformed.
            Ok(None) => {
                self.switches[at].channel.close("the controller sent a message whose content exceeds its length")
            }
            Err(error) => {
                self.tally.counts.errors += 1;
                if let Some(answer) = error.error_reply(message) {
                    self.encode(at, &answer);
                }
                if error.skip.is_none() {
                    self.switches[at].channel.flush();
                    self.switches[at]
                        .channel
                        .close(format!("the controller sent a malformed OpenFlow 1.3 message: {}", error.message));
                }
            }
        }
    }

    fn encode(&mut self, at: usize, envelope: &Envelope) {
        // Messages of the switch always fit: it splits long replies into parts.
        if let Err(error) = wire::encode(envelope, &mut self.switches[at].channel.outbox) {
            self.switches[at].channel.close(format!("a reply cannot be encoded: {}", error.message));
        }
        self.touch(at);
    }

    /// Sends the output of a switch and carries its frames over links. `request` is the message it
    /// replies to.
    pub(crate) fn drain(&mut self, at: usize, request: &[u8]) {
        let mut work = VecDeque::from([at]);
        while let Some(switch) = work.pop_front() {
            while let Some(output) = self.switches[switch].switch.poll_output() {
                match output {
                    Output::Message(_, envelope) => {
                        match &envelope.message {
                            Message::FeaturesReply(_) => self.switches[switch].got_features_request = true,
                            Message::PacketIn(packet) => self.note_discovery(switch, packet),
                            Message::Error { kind, .. } => {
                                let of =
                                    request.get(1).map_or_else(String::new, |kind| format!(" (message type {kind})"));
                                *self.refusals.entry(format!("{kind:?}{of}")).or_default() += 1;
                            }
                            _ => {}
                        }
                        let request = if switch == at { request } else { &[] };
                        self.encode(switch, &with_request(envelope, request));
                    }
                    Output::Frame(port, frame) => work.extend(self.carry(switch, port, &frame)),
                }
            }
        }
    }

    fn note_discovery(&mut self, switch: usize, packet: &PacketIn) {
        let came_over_link = packet.match_.in_port.filter(|port| self.fabric.beyond(switch, *port).is_some());
        if let Some(port) = came_over_link
            && self.links_seen.insert((switch, port))
        {
            self.last_link_ns = self.now_ns();
        }
    }

    fn carry(&mut self, switch: usize, port: PortNo, frame: &[u8]) -> Option<usize> {
        let headers = parse(frame).ok();
        let eth_type = headers.map_or(0, |headers| headers.eth_type);
        if let Some((to, in_port)) = self.fabric.beyond(switch, port) {
            // Only discovery frames are carried: other frames flooded into a fabric with loops
            // would circulate forever.
            let is_discovery = eth_type == ether::LLDP || eth_type == BROADCAST_DISCOVERY;
            if !(is_discovery || eth_type == ether::IPV4 && self.may_cross()) {
                self.frames_dropped += 1;
                return None;
            }
            let now = net::Time::from_ns(self.now_ns());
            self.switches[to].switch.receive(now, in_port, frame);
            return Some(to);
        }
        let host = self.fabric.host_at(switch, port).copied();
        match (host, headers) {
            (Some(host), Some(asked))
                if asked.eth_type == ether::ARP && asked.arp_op == 1 && asked.ipv4_dst == host.ip =>
            {
                let reply = arp_reply(host.mac, host.ip, asked.eth_src, asked.ipv4_src);
                self.template.write_frame(host.port, &reply, &mut self.switches[switch].channel.outbox);
                self.touch(switch);
            }
            (Some(host), Some(got)) => {
                let answer = self.host_got(&host, &got, frame)?;
                let now = net::Time::from_ns(self.now_ns());
                self.switches[switch].switch.receive(now, host.port, &answer);
                return Some(switch);
            }
            _ => self.frames_dropped += 1,
        }
        None
    }
}

pub(crate) fn config(node: &crate::fabric::Node, flow_monitors: bool) -> Config {
    let text = |text: &str| text.to_owned();
    Config {
        datapath: node.datapath,
        ports: node.ports.clone(),
        tables: TABLES,
        max_entries: MAX_ENTRIES,
        max_groups: MAX_GROUPS,
        buffers: 0,
        select: Select { seed: node.datapath.0, fields: HashFields::FiveTuple },
        stats_refresh: net::Time::ZERO,
        packet_in_per_s: None,
        supports_tcp_flags: false,
        support: Support { flow_monitors, ..Support::default() },
        description: Description {
            // The controller asks Open vSwitch only for flow monitors.
            manufacturer: text(if flow_monitors { "Nicira, Inc." } else { "Anabranch" }),
            hardware: text("load generator"),
            software: text(env!("CARGO_PKG_VERSION")),
            serial: node.datapath.0.to_string(),
            datapath: format!("s{}", node.datapath.0),
        },
    }
}

fn with_request(envelope: Envelope, request: &[u8]) -> Envelope {
    match envelope {
        Envelope { xid, message: Message::Error { kind, data } } if data.is_empty() => {
            let mut data = Vec::new();
            if kind.numbers().0 == EXPERIMENTER_ERROR {
                data.extend(monitor_error::EXPERIMENTER.to_be_bytes());
            }
            data.extend(&request[..request.len().min(ERROR_DATA_BYTES)]);
            Envelope { xid, message: Message::Error { kind, data } }
        }
        other => other,
    }
}
