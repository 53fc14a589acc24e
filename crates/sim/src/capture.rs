//! Packets that arrive over chosen links, as bytes for packet analysers.
//!
//! A packet of the simulator has no bytes. A captured one gets the headers that it would have:
//! Ethernet, IPv4, and TCP or UDP, with the addresses of hosts ([`net::address`]) and the ports of
//! its flow. Its simulated size is that of the IPv4 packet. Payload is not captured.
//!
//! Without captured links the engine tests one option for each packet that arrives.

use etherparse::{Ethernet2Header, IpNumber, Ipv4Header, TcpHeader, UdpHeader};
use net::{HostIx, Time, address};

use crate::engine::Engine;
use crate::packet::{ACK, CE, CONTROL, DATA, ECT, Packet, SYN, TRIMMED};
use crate::scenario::CaptureConfig;

const IPV4: u16 = 0x0800;
/// EtherType for local experiments (IEEE 802): control packets of edges, which have no format.
const EXPERIMENTAL: u16 = 0x88b5;
const ETHERNET_LEN: u32 = 14;
/// Number of switches a packet may pass, as in common hosts.
const TTL: u8 = 64;

/// A packet as it arrives at the far end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Arrival of its last bit.
    pub at: Time,
    /// Number of its link: the position in [`CaptureConfig::links`].
    pub link: u32,
    /// Bytes of the whole frame, without its check sequence.
    pub frame_len: u32,
    /// The beginning of the frame: its headers.
    pub headers: Vec<u8>,
}

/// The captured packets of a run, in the order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    pub packets: Vec<CapturedPacket>,
    /// Number of later packets, beyond [`CaptureConfig::packets_max`].
    pub packets_left_out: u64,
}

pub(crate) struct Tap {
    /// Per link of the network: its position among the captured ones plus 1; 0 for others.
    positions: Vec<u32>,
    packets_max: u64,
    /// Source and destination port, by the number of the flow.
    ports: Vec<(u16, u16)>,
    captured: Capture,
}

impl Tap {
    /// Creates a tap; `None` if no link is chosen.
    pub(crate) fn new(config: &CaptureConfig, link_count: usize) -> Option<Box<Tap>> {
        let mut positions = vec![0; link_count];
        for (position, link) in (1..).zip(&config.links) {
            positions[link.ix()] = position;
        }
        let tap =
            || Tap { positions, packets_max: config.packets_max, ports: Vec::new(), captured: Capture::default() };
        (!config.links.is_empty()).then(|| Box::new(tap()))
    }

    /// Notes the ports of the flow that has this number from now on.
    pub(crate) fn flow_opened(&mut self, number: u32, src_port: u16, dst_port: u16) {
        if self.ports.len() <= number as usize {
            self.ports.resize(number as usize + 1, (0, 0));
        }
        self.ports[number as usize] = (src_port, dst_port);
    }

    pub(crate) fn finish(self) -> Capture {
        self.captured
    }

    fn headers(&self, packet: &Packet, wire: &Wire) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(66);
        let host = |host: u32| HostIx(host);
        let (source, destination) = (host(packet.src), host(packet.dst));
        let ethernet = Ethernet2Header {
            source: address::host_mac(source),
            destination: address::host_mac(destination),
            ether_type: etherparse::EtherType(IPV4),
        };
        let (mut from, mut to) = self.ports.get(packet.flow as usize).copied().unwrap_or_default();
        if packet.is(ACK) {
            (from, to) = (to, from);
        }
        let transport_len = if wire.is_tcp { TcpHeader::MIN_LEN } else { UdpHeader::LEN };
        let ip_len = usize::from(packet.bytes).max(Ipv4Header::MIN_LEN + transport_len);
        let ip_payload = (ip_len - Ipv4Header::MIN_LEN) as u16;
        let protocol = if wire.is_tcp { IpNumber::TCP } else { IpNumber::UDP };
        let addresses = [source, destination].map(|host| address::host_ipv4(host).octets());
        let Ok(mut ip) = Ipv4Header::new(ip_payload, TTL, protocol, addresses[0], addresses[1]) else { return bytes };
        ip.ecn = match () {
            () if packet.is(CE) && !packet.is(ACK) => etherparse::IpEcn::CongestionExperienced,
            () if packet.is(ECT) => etherparse::IpEcn::Ect0,
            () => etherparse::IpEcn::ZERO,
        };
        ip.header_checksum = ip.calc_header_checksum();
        let written = ethernet.write(&mut bytes).and_then(|()| ip.write(&mut bytes).map_err(std::io::Error::other));
        let transport = if wire.is_tcp {
            tcp(packet, wire, (from, to)).write(&mut bytes)
        } else {
            UdpHeader { source_port: from, destination_port: to, length: ip_payload, checksum: 0 }.write(&mut bytes)
        };
        debug_assert!(written.is_ok() && transport.is_ok(), "memory takes all bytes");
        bytes
    }
}

/// Properties of the transport that headers show.
struct Wire {
    is_tcp: bool,
    mss: u32,
}

/// Returns the TCP header. The first byte of payload has sequence number 1, as after a SYN.
fn tcp(packet: &Packet, wire: &Wire, (source_port, destination_port): (u16, u16)) -> TcpHeader {
    let position = 1u32.wrapping_add(packet.seq.wrapping_mul(wire.mss));
    let is_syn = packet.is(SYN);
    let (sequence_number, acknowledgment_number) = match (is_syn, packet.is(ACK)) {
        (true, is_answer) => (0, u32::from(is_answer)),
        (false, true) => (1, position),
        (false, false) => (position, 1),
    };
    let mut header = TcpHeader::new(source_port, destination_port, sequence_number, u16::MAX);
    header.acknowledgment_number = acknowledgment_number;
    (header.syn, header.ack) = (is_syn, !is_syn || packet.is(ACK));
    // An acknowledgement of a marked packet echoes the mark.
    header.ece = packet.is(ACK) && packet.is(CE);
    header.psh = packet.is(DATA) && !packet.is(TRIMMED);
    header
}

impl Engine<'_> {
    /// Captures a packet that has arrived over a link, if the link is chosen.
    #[cold]
    pub(crate) fn capture(&mut self, link: u32, packet: u32) {
        let Some(tap) = &mut self.tap else { return };
        let Some(position) = tap.positions[link as usize].checked_sub(1) else { return };
        if tap.captured.packets.len() as u64 >= tap.packets_max {
            tap.captured.packets_left_out += 1;
            return;
        }
        let packet = self.network.arena.get(packet);
        let wire = Wire { is_tcp: self.params.properties.is_tcp, mss: self.params.mss };
        let headers = if packet.is(CONTROL) {
            self.controlled.as_ref().map_or_else(experimental, |controlled| controlled.frame(packet.seq).to_vec())
        } else {
            tap.headers(packet, &wire)
        };
        let size = if packet.is(CONTROL) && self.controlled.is_some() { 0 } else { ETHERNET_LEN };
        let frame_len = (u32::from(packet.bytes) + size).max(headers.len() as u32);
        let at = Time::from_ps(self.network.now);
        tap.captured.packets.push(CapturedPacket { at, link: position, frame_len, headers });
    }
}

fn experimental() -> Vec<u8> {
    let mut bytes = vec![0; ETHERNET_LEN as usize];
    bytes[12..].copy_from_slice(&EXPERIMENTAL.to_be_bytes());
    bytes
}
