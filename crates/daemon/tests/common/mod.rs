//! Switches of the `switch` crate on loopback sockets, wired as a topology; hosts exist as
//! addresses only.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

mod http;
mod process;

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch_daemon::settings::Limits;
use anabranch_daemon::{Daemon, Settings};
use control::KnownHost;
use net::{FiveTuple, HostIx, NodeIx, Time, Topology, address};
use openflow::{ConnectionId, Envelope, MacAddr, Message, PortNo, Xid, frame, wire};
pub use process::Process;
pub use switch::testing::{fat_tree, udp};
use switch::testing::{packet, switches};
use switch::{Output, Switch};

pub use http::{
    ask, connect, connect_from, exchange, get, metric, metric_in, network, request, request_with, resident_bytes,
    served, status_of,
};

/// Time limit of an expected event.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns settings for tests: any port of the loopback interface.
pub fn settings() -> Settings {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Settings { listen: any, http: Some(any), ..Settings::default() }
}

/// Starts a daemon with the hosts of a topology configured.
pub fn daemon(topology: &Topology, edit: impl FnOnce(&mut Settings)) -> Daemon {
    let mut settings = settings();
    settings.control.hosts = KnownHost::all_of(topology);
    edit(&mut settings);
    Daemon::start(&settings).expect("a daemon on the loopback interface")
}

pub fn small_limits() -> Limits {
    Limits { handshake_timeout: Time::from_ms(500), write_timeout: Time::from_ms(500), ..Limits::default() }
}

/// Waits until a condition holds.
pub fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + WAIT_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < limit, "{what}: not within {WAIT_TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the bytes of a message.
pub fn bytes(xid: u32, message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(&Envelope { xid: Xid(xid), message }, &mut bytes).expect("it fits");
    bytes
}

/// Returns the first message of a switch.
pub fn hello() -> Vec<u8> {
    bytes(1, Message::Hello { versions: 1 << 4 })
}

/// A switch with its end of the channel.
pub struct Node {
    pub switch: Switch,
    stream: Option<TcpStream>,
    pub connection: ConnectionId,
    input: Vec<u8>,
    output: Vec<u8>,
    retry_at: Instant,
    /// Whether the switch reconnects on its own.
    pub is_connecting: bool,
    /// Whether the switch neither reads nor sends, with its connection open.
    is_mute: bool,
}

/// All switches and the links between them.
pub struct Wires {
    pub topology: Topology,
    pub nodes: BTreeMap<NodeIx, Node>,
    /// Frames that reached hosts.
    pub arrived: Vec<(HostIx, Vec<u8>)>,
    pub connects: u32,
    frames: VecDeque<(NodeIx, PortNo, Vec<u8>)>,
    controller: SocketAddr,
    began: Instant,
}

type Order = Box<dyn FnOnce(&mut Wires) + Send>;

/// A thread that emulates a network.
pub struct Fabric {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Fabric {
    pub fn start(topology: Topology, controller: SocketAddr) -> Fabric {
        let (orders, todo) = mpsc::channel();
        let mut wires = Wires::new(topology, controller);
        let thread = std::thread::spawn(move || {
            loop {
                match todo.try_recv() {
                    Ok(order) => {
                        let order: Order = order;
                        order(&mut wires);
                    }
                    Err(mpsc::TryRecvError::Empty) => {}
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
                if !wires.step() {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        Fabric { orders: Some(orders), thread: Some(thread) }
    }

    /// Runs a closure on the network.
    pub fn with<T: Send + 'static>(&self, act: impl FnOnce(&mut Wires) -> T + Send + 'static) -> T {
        let (answer, answered) = mpsc::channel();
        let order: Order = Box::new(move |wires| drop(answer.send(act(wires))));
        self.orders.as_ref().expect("it runs").send(order).expect("the network runs");
        answered.recv().expect("the network answers")
    }

    /// Waits until every host reaches every other.
    pub fn wait_reached(&self) {
        wait("every host reaches every other", || self.with(|wires| wires.unreached().is_empty()));
    }

    /// Checks for some time that every host reaches every other.
    pub fn assert_reached_for(&self, time: Duration, why: &str) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            assert_eq!(self.with(|wires| wires.unreached()), [], "{why}");
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the network panicked");
        }
    }
}

impl Wires {
    fn new(topology: Topology, controller: SocketAddr) -> Wires {
        let node = |node| Node::new(Switch::new(switch::testing::config(&topology, node)));
        let nodes = switches(&topology).map(|ix| (ix, node(ix))).collect();
        Wires {
            nodes,
            arrived: Vec::new(),
            connects: 0,
            frames: VecDeque::new(),
            controller,
            began: Instant::now(),
            topology,
        }
    }

    pub fn now(&self) -> Time {
        Time::from_ns(self.began.elapsed().as_nanos() as u64)
    }

    /// Moves bytes and frames. Returns whether there were any.
    pub fn step(&mut self) -> bool {
        let mut has_moved = false;
        let now = self.now();
        for (ix, node) in self.nodes.iter_mut().filter(|(_, node)| !node.is_mute) {
            if node.stream.is_none() && node.is_connecting && Instant::now() >= node.retry_at {
                self.connects += 1;
                node.connect(now, self.controller, ConnectionId(self.connects));
            }
            has_moved |= node.receive(now);
            if node.switch.poll_timeout().is_some_and(|at| at <= now) {
                node.switch.handle_timeout(now);
            }
            while let Some(output) = node.switch.poll_output() {
                has_moved = true;
                match output {
                    Output::Message(connection, envelope) if connection == node.connection => {
                        wire::encode(&envelope, &mut node.output).expect("a switch's messages have bytes");
                    }
                    Output::Message(..) => {}
                    Output::Frame(port, bytes) => self.frames.push_back((*ix, port, bytes)),
                }
            }
            node.transmit();
        }
        while let Some((node, port, bytes)) = self.frames.pop_front() {
            has_moved = true;
            let link = self.topology.out_links(node)[port.0 as usize - 1];
            self.travel(link, &bytes);
        }
        has_moved
    }

    /// Forwards a frame along a link.
    fn travel(&mut self, link: net::LinkIx, bytes: &[u8]) {
        let to = self.topology.link(link).to;
        let now = self.now();
        match self.nodes.get_mut(&to) {
            Some(node) => {
                let port = PortNo(address::port_of(&self.topology, link.reverse()));
                node.switch.receive(now, port, bytes);
            }
            None => {
                let host = self.topology.hosts().iter().position(|host| *host == to).expect("a host");
                self.arrived.push((HostIx(host as u32), bytes.to_vec()));
            }
        }
    }

    /// Sends a frame from a host.
    pub fn transmit(&mut self, from: HostIx, bytes: &[u8]) {
        let link = self.topology.out_links(self.topology.host(from))[0];
        self.travel(link, bytes);
    }
    /// Sends a gratuitous ARP request from every host, as hosts do at start-up.
    pub fn announce(&mut self) {
        for host in (0..self.topology.hosts().len() as u32).map(HostIx) {
            let (mac, ipv4) = (MacAddr(address::host_mac(host)), address::host_ipv4(host));
            self.transmit(host, &frame::arp_request(mac, ipv4, ipv4));
        }
    }
    /// Sends a packet of a flow.
    pub fn send(&mut self, tuple: FiveTuple) {
        let (from, headers) = packet(&self.topology, &tuple);
        self.transmit(from, &frame::build(&headers, 100));
    }

    /// Sends a packet from every host to every other. Returns the pairs whose packet was lost.
    pub fn unreached(&mut self) -> Vec<(u32, u32)> {
        let hosts = self.topology.hosts().len() as u32;
        self.arrived.clear();
        let pairs: Vec<(u32, u32)> =
            (0..hosts).flat_map(|src| (0..hosts).map(move |dst| (src, dst))).filter(|(src, dst)| src != dst).collect();
        for (src, dst) in &pairs {
            self.send(udp(*src, *dst, 1000));
        }
        // Limits the steps to the longest path: the controller may send its own frames
        // indefinitely.
        for _ in 0..32 {
            self.step();
        }
        let key = |(host, bytes): &(HostIx, Vec<u8>)| {
            let headers = frame::parse(bytes).ok()?;
            Some((address::host_of_ipv4(headers.ipv4_src, hosts as usize)?.0, host.0))
        };
        let reached: std::collections::BTreeSet<(u32, u32)> = self.arrived.iter().filter_map(key).collect();
        pairs.into_iter().filter(|pair| !reached.contains(pair)).collect()
    }

    pub fn connected(&self) -> usize {
        self.nodes.values().filter(|node| node.stream.is_some()).count()
    }
    /// Returns the number of rules on all switches.
    pub fn entries(&self) -> usize {
        self.nodes.values().map(|node| node.switch.entries().len()).sum()
    }
    /// Closes the channel of a switch.
    pub fn disconnect(&mut self, node: NodeIx) {
        let now = self.now();
        self.nodes.get_mut(&node).expect("a switch").lost(now);
    }
}

impl Node {
    fn new(switch: Switch) -> Node {
        Node {
            switch,
            stream: None,
            connection: ConnectionId(0),
            input: Vec::new(),
            output: Vec::new(),
            retry_at: Instant::now(),
            is_connecting: true,
            is_mute: false,
        }
    }

    /// Makes the switch silent for the rest of the test.
    pub fn mute(&mut self) {
        self.is_mute = true;
    }

    fn connect(&mut self, now: Time, to: SocketAddr, connection: ConnectionId) {
        self.retry_at = Instant::now() + Duration::from_millis(20);
        let Ok(stream) = TcpStream::connect(to) else { return };
        stream.set_nonblocking(true).expect("a socket that does not block");
        stream.set_nodelay(true).expect("a socket that does not wait");
        self.stream = Some(stream);
        self.connection = connection;
        self.switch.connected(now, connection);
    }

    fn lost(&mut self, now: Time) {
        if self.stream.take().is_some() {
            self.switch.disconnected(now, self.connection);
            self.input.clear();
            self.output.clear();
            self.retry_at = Instant::now() + Duration::from_millis(20);
        }
    }

    fn receive(&mut self, now: Time) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let mut bytes = [0; 65_536];
        match stream.read(&mut bytes) {
            Ok(length @ 1..) => self.input.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            _ => {
                self.lost(now);
                return true;
            }
        }
        let mut used = 0;
        while let Some((envelope, length)) =
            wire::decode(&self.input[used..]).expect("the controller's bytes are right")
        {
            used += length;
            self.switch.handle(now, self.connection, envelope);
        }
        self.input.drain(..used);
        true
    }

    fn transmit(&mut self) {
        let Some(stream) = &mut self.stream else { return self.output.clear() };
        while !self.output.is_empty() {
            match stream.write(&self.output) {
                Ok(length) => drop(self.output.drain(..length)),
                Err(_) => break, // Full or closed: the next read shows which.
            }
        }
    }
}
