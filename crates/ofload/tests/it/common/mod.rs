//! Minimal controllers on the loopback interface, in this process, with a thread per switch.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anabranch_ofload::{Error, Load, Options, Report, Schedule, Shape, Target, measure};
use openflow::frame::{Lldp, arp_reply, parse};
use openflow::headers::{ether, protocol};
use openflow::{
    Action, BufferId, Envelope, FlowChange, FlowEvent, FlowMod, FlowMonitorRequest, FlowUpdate, Headers, Instructions,
    Masked, Match, Message, MultipartReply, MultipartRequest, PacketIn, PacketOut, PortNo, TableId, Xid, wire,
};

/// Replies of a controller to the packet-in of a probe.
pub type Replies = fn(&PacketIn, &Headers, u64) -> Vec<Message>;

#[derive(Clone, Copy)]
pub enum Behaviour {
    /// Finishes the handshake, then sends these replies; the number counts probes of the
    /// connection.
    Replies(Replies),
    Silent,
    Closes,
    /// Finishes the handshake, replies to this number of probes, and closes. Closes immediately on
    /// malformed messages.
    ClosesAfter(u64),
    SendsBytes(&'static [u8]),
    /// Finishes the handshake, sends these requests, and replies to probes by packet-out.
    Requests(fn() -> Vec<Message>),
    /// Installs a rule, and does so again whenever a flow monitor reports that it is gone.
    Repairs,
    /// Installs a rule for discovery frames, sends one out of each of four ports repeatedly, and
    /// replies to probes.
    Discovers,
}

/// A running controller; its threads end with their connections.
#[derive(Clone)]
pub struct Controller {
    pub address: SocketAddr,
    pub probes: Arc<AtomicU64>,
    /// Number of reads that returned such a packet-in.
    pub reads: Arc<AtomicU64>,
    pub discovered: Arc<AtomicU64>,
    /// Messages received that were neither packet-ins nor part of the usual handshake.
    pub heard: Arc<std::sync::Mutex<Vec<Message>>>,
}

/// One loop without warm-up, so that the controller sees exactly the counted packet-ins.
pub const ONE: Schedule = Schedule { loops: 1, warm_up: 0, duration: Duration::from_millis(300) };

/// Options for a star with a short settle time.
pub fn star(controller: &Controller, switches: u32, hosts: u32, load: Load) -> Options {
    let shape = Shape::Star { switches, hosts };
    Options { shape, load, settle_time: Duration::from_millis(50), ..Options::new(controller.address) }
}

pub fn target(name: &str, options: Options) -> Target {
    Target { name: name.to_owned(), options, pid: Some(std::process::id()) }
}

pub fn measure_one(options: Options, schedule: Schedule) -> Result<Report, Error> {
    Ok(measure(vec![target("test", options)], schedule, &mut |_| {})?.remove(0))
}

pub fn start(behaviour: Behaviour) -> Controller {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the loopback interface has free ports");
    let address = listener.local_addr().expect("it is bound");
    let (probes, reads, discovered, heard) = Default::default();
    let controller = Controller { address, probes, reads, discovered, heard };
    let shared = controller.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = shared.clone();
            thread::spawn(move || serve(stream, behaviour, &shared));
        }
    });
    controller
}

fn bytes(messages: Vec<Message>) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        wire::encode(&Envelope { xid: Xid(at as u32 + 1), message }, &mut out).expect("what tests send has bytes");
    }
    out
}

/// Returns the first bytes of a controller; `None` if it closes the connection.
fn greeting(behaviour: Behaviour) -> Option<Vec<u8>> {
    let hello = |more| bytes([vec![Message::Hello { versions: 1 << 4 }, Message::FeaturesRequest], more].concat());
    Some(match behaviour {
        Behaviour::Closes => return None,
        Behaviour::Silent => Vec::new(),
        Behaviour::SendsBytes(bytes) => bytes.to_vec(),
        Behaviour::Replies(_) | Behaviour::ClosesAfter(_) => hello(vec![]),
        Behaviour::Discovers => hello(vec![discovery_rule(), Message::BarrierRequest]),
        Behaviour::Requests(requests) => hello(requests()),
        Behaviour::Repairs => hello(vec![monitor(), discovery_rule()]),
    })
}

fn serve(mut stream: TcpStream, behaviour: Behaviour, shared: &Controller) {
    let Controller { probes, reads, discovered, heard, .. } = shared;
    stream.set_nodelay(true).expect("it is a TCP socket");
    let Some(greeting) = greeting(behaviour) else { return };
    if stream.write_all(&greeting).is_err() {
        return;
    }
    let (mut inbox, mut chunk, mut count) = (Vec::new(), vec![0; 65_536], 0);
    let mut rounds = 0;
    loop {
        let Ok(read @ 1..) = stream.read(&mut chunk) else { return };
        if matches!(behaviour, Behaviour::Silent | Behaviour::SendsBytes(_)) {
            continue;
        }
        inbox.extend_from_slice(&chunk[..read]);
        let mut used = 0;
        let before = count;
        let mut out = Vec::new();
        loop {
            let (envelope, len) = match wire::decode(&inbox[used..]) {
                Ok(Some(whole)) => whole,
                Ok(None) => break,
                Err(_) if matches!(behaviour, Behaviour::ClosesAfter(_)) => return,
                Err(error) => panic!("malformed message of an emulated switch: {}", error.message),
            };
            used += len;
            match envelope.message {
                Message::PacketIn(packet) => {
                    let headers = parse(&packet.data).expect("hosts send frames");
                    if headers.eth_type == ether::LLDP {
                        discovered.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    if headers.eth_type == ether::ARP && (headers.arp_op != 1 || headers.ipv4_src == headers.ipv4_dst) {
                        continue; // A gratuitous ARP request.
                    }
                    probes.fetch_add(1, Ordering::Relaxed);
                    count += 1;
                    match behaviour {
                        Behaviour::Replies(answer) => out.extend(bytes(answer(&packet, &headers, count))),
                        Behaviour::ClosesAfter(most) if count > most => return,
                        _ => out.extend(bytes(vec![echo_packet(&packet)])),
                    }
                }
                Message::Hello { .. } => {}
                Message::MultipartReply { reply: MultipartReply::FlowMonitor(updates), .. } => {
                    if updates.iter().any(is_deletion) {
                        out.extend(bytes(vec![discovery_rule()]));
                    }
                }
                // A switch that connects late has its rule in the next round.
                Message::BarrierReply if matches!(behaviour, Behaviour::Discovers) && rounds < 8 => {
                    rounds += 1;
                    thread::sleep(Duration::from_millis(50));
                    out.extend(bytes((1..=4).map(discovery).chain([Message::BarrierRequest]).collect()));
                }
                other => heard.lock().expect("no thread panics with it").push(other),
            }
        }
        reads.fetch_add(u64::from(count > before), Ordering::Relaxed);
        inbox.drain(..used);
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn port_of(packet: &PacketIn) -> PortNo {
    packet.match_.in_port.expect("packets come from a port")
}

fn packet_out(in_port: PortNo, out: PortNo, data: Vec<u8>) -> Message {
    let actions = vec![Action::output(out)];
    Message::PacketOut(PacketOut { buffer: BufferId::NO_BUFFER, in_port, actions, data })
}

/// Sends a packet, or another one in reply to it, out of a port.
pub fn send(packet: &PacketIn, out: PortNo, data: Vec<u8>) -> Message {
    packet_out(port_of(packet), out, data)
}

pub fn echo_packet(packet: &PacketIn) -> Message {
    send(packet, PortNo::FLOOD, packet.data.clone())
}

fn add(match_: Match, actions: Vec<Action>) -> Message {
    Message::FlowMod(FlowMod::add(TableId(0), 9, match_, Instructions::apply(actions)))
}

/// Adds a rule for a direction of a TCP connection.
pub fn between(addresses: [Ipv4Addr; 2], ports: [u16; 2], actions: Vec<Action>) -> Message {
    let match_ = Match {
        eth_type: Some(ether::IPV4),
        ip_proto: Some(protocol::TCP),
        ipv4_src: Some(Masked::<Ipv4Addr>::exact(addresses[0])),
        ipv4_dst: Some(Masked::<Ipv4Addr>::exact(addresses[1])),
        tcp_src: Some(ports[0]),
        tcp_dst: Some(ports[1]),
        ..Match::default()
    };
    add(match_, actions)
}

pub fn rule(headers: &Headers, has_ports: bool) -> Message {
    let actions = vec![Action::output(PortNo(1))];
    if has_ports {
        return between([headers.ipv4_src, headers.ipv4_dst], [headers.l4_src, headers.l4_dst], actions);
    }
    let destination = Some(Masked::<Ipv4Addr>::exact(headers.ipv4_dst));
    add(Match { eth_type: Some(ether::IPV4), ipv4_dst: destination, ..Match::default() }, actions)
}

pub fn arp_reply_message(packet: &PacketIn, headers: &Headers) -> Message {
    let [_, a, b, number] = headers.ipv4_dst.octets();
    let mac = openflow::MacAddr([2, 0, a, b, 0, number]);
    let data = arp_reply(mac, headers.ipv4_dst, headers.eth_src, headers.ipv4_src);
    packet_out(PortNo::CONTROLLER, port_of(packet), data)
}

fn is_deletion(update: &FlowUpdate) -> bool {
    matches!(update, FlowUpdate::Full(FlowChange { event: FlowEvent::Deleted(_), .. }))
}

fn monitor() -> Message {
    Message::MultipartRequest(MultipartRequest::FlowMonitor(vec![FlowMonitorRequest::all(1)]))
}

pub fn discovery_rule() -> Message {
    add(Match { eth_type: Some(ether::LLDP), ..Match::default() }, vec![Action::to_controller()])
}

fn discovery(port: u32) -> Message {
    let lldp = Lldp { datapath: openflow::DatapathId(99), port: PortNo(port), ttl_s: 3, nonce: 5 };
    packet_out(PortNo::CONTROLLER, PortNo(port), lldp.build(openflow::MacAddr([2; 6])))
}
