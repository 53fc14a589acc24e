//! All fake switches of one controller, driven by one thread.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use openflow::frame::{arp_reply, parse};
use openflow::headers::ether;
use openflow::{
    ConnectionId, Description, Envelope, Message, MultipartReply, MultipartRequest, PacketIn, PortNo, wire,
};
use switch::{Config, HashFields, Output, Select, Switch};

use crate::book::{Book, Tally};
use crate::channel::{Channel, Filled, State};
use crate::fabric::Fabric;
use crate::options::{Answer, Load, Options};
use crate::probe::{self, Template};
use crate::{Error, features, scan};

/// Tables of a fake switch.
const TABLES: u8 = 16;
/// Entries it holds: more than controllers install in a measurement.
const MAX_ENTRIES: u32 = 1_000_000;
const MAX_GROUPS: u32 = 65_536;
/// How often deadlines are looked after.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// Bytes of a refused message that go back with the error (specification 7.4.4).
const REFUSED_BYTES: usize = 64;
/// EtherType of discovery packets that pass bridges, as Floodlight and Ryu send them beside LLDP.
const BROADCAST_DISCOVERY: u16 = 0x8942;
/// Each fake switch has one connection.
const CONNECTION: ConnectionId = ConnectionId(0);
/// The token of the timer that paces an open loop.
pub(crate) const TIMER: Token = Token(usize::MAX);

/// What one fake switch is made of.
#[derive(Debug)]
pub(crate) struct FakeSwitch {
    pub(crate) channel: Channel,
    pub(crate) switch: Switch,
    pub(crate) book: Book,
    /// Whether the controller has asked what it is.
    has_introduced_itself: bool,
    is_touched: bool,
}

/// The fake switches of one controller.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) poll: Poll,
    events: Events,
    pub(crate) fabric: Fabric,
    pub(crate) switches: Vec<FakeSwitch>,
    pub(crate) options: Options,
    pub(crate) template: Template,
    pub(crate) epoch: Instant,
    pub(crate) tally: Tally,
    /// Packet-ins kept waiting per switch; 0 for none.
    pub(crate) window: u32,
    pub(crate) is_in_loop: bool,
    is_measuring: bool,
    touched: Vec<usize>,
    /// When a message other than an echo last came that is not part of the load.
    last_control_ns: u64,
    /// Directed links, by their far ends, from which a discovery packet has gone to the controller.
    pub(crate) links_seen: BTreeSet<(usize, PortNo)>,
    /// When the last of these did first.
    pub(crate) last_link_ns: u64,
    /// When the last connection was made.
    pub(crate) last_open_ns: u64,
    /// Frames the controller sent to where nothing is, or that are not carried.
    pub(crate) frames_dropped: u64,
}

impl Fleet {
    /// Begins to connect all switches.
    pub(crate) fn connect(options: &Options) -> Result<Fleet, Error> {
        let fabric = Fabric::new(&options.shape)?;
        let poll = Poll::new().map_err(Error::Poll)?;
        let mut switches = Vec::with_capacity(fabric.nodes.len());
        for (at, node) in fabric.nodes.iter().enumerate() {
            let mut stream = TcpStream::connect(options.controller)
                .map_err(|error| Error::Connect { controller: options.controller, words: error.to_string() })?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(at), interest).map_err(Error::Poll)?;
            switches.push(FakeSwitch {
                channel: Channel::new(stream),
                switch: Switch::new(config(node)),
                book: Book::new(slots(options, &fabric, at)?),
                has_introduced_itself: false,
                is_touched: false,
            });
        }
        Ok(Fleet {
            poll,
            events: Events::with_capacity(1_024),
            fabric,
            switches,
            options: options.clone(),
            template: Template::new(),
            epoch: Instant::now(),
            tally: Tally::default(),
            window: 0,
            is_in_loop: false,
            is_measuring: false,
            touched: Vec::new(),
            last_control_ns: 0,
            links_seen: BTreeSet::new(),
            last_link_ns: 0,
            last_open_ns: 0,
            frames_dropped: 0,
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn controller(&self) -> SocketAddr {
        self.options.controller
    }

    /// Everything that happens until all switches have introduced themselves and nothing more is asked.
    pub(crate) fn handshake(&mut self) -> Result<(), Error> {
        let deadline = self.epoch + self.options.handshake;
        while !self.switches.iter().all(|fake| fake.has_introduced_itself) {
            self.service(TICK)?;
            if let Some((at, State::Closed(words))) = self
                .switches
                .iter()
                .map(|fake| &fake.channel.state)
                .enumerate()
                .find(|(_, s)| matches!(s, State::Closed(_)))
            {
                return Err(Error::Lost { switch: at + 1, controller: self.controller(), words: words.clone() });
            }
            if Instant::now() >= deadline {
                let silent = self.switches.iter().filter(|fake| !fake.has_introduced_itself).count();
                let (controller, after) = (self.controller(), self.options.handshake);
                return Err(Error::Silent { silent, switches: self.switches.len(), controller, after });
            }
        }
        // Controllers go on asking after the features; half a second of silence means that they are done. Some never are.
        let is_quiet = |fleet: &Fleet| fleet.now_ns() - fleet.last_control_ns > 500_000_000;
        let end = Instant::now() + Duration::from_secs(3);
        while !is_quiet(self) && Instant::now() < end {
            self.service(TICK)?;
        }
        Ok(())
    }

    /// Tells the controller of all hosts, twice, and lets it rest.
    pub(crate) fn learn(&mut self) -> Result<(), Error> {
        let most = self.fabric.nodes.iter().map(|node| node.hosts.len()).max().unwrap_or(0);
        for _ in 0..2 {
            for at in 0..most {
                for switch in 0..self.switches.len() {
                    if let Some(host) = self.fabric.nodes[switch].hosts.clone().nth(at) {
                        let host = self.fabric.hosts[host];
                        probe::write_arp(&host, host.ip, &mut self.switches[switch].channel.outbox);
                        self.touch(switch);
                    }
                }
                self.serve_until(Instant::now() + Duration::from_millis(2))?;
            }
        }
        self.serve_until(Instant::now() + self.options.quiet)
    }

    /// Answers what the controller asks until then.
    pub(crate) fn serve_until(&mut self, end: Instant) -> Result<(), Error> {
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            self.service((end - now).min(TICK))?;
        }
    }

    /// From here on messages are part of the load.
    pub(crate) fn begin_measuring(&mut self) {
        self.is_measuring = true;
    }

    /// Connections that are gone.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (usize, &str)> {
        self.switches.iter().enumerate().filter_map(|(at, fake)| match &fake.channel.state {
            State::Closed(words) => Some((at + 1, words.as_str())),
            _ => None,
        })
    }

    /// Waits for events, at most so long, and does what follows from them.
    pub(crate) fn service(&mut self, timeout: Duration) -> Result<(), Error> {
        self.settle();
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let polled = match self.poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(Error::Poll(error)),
            _ => Ok(()),
        };
        for event in &events {
            let Token(at) = event.token();
            if event.token() == TIMER {
                continue;
            }
            if event.is_writable() {
                self.writable(at);
            }
            if event.is_readable() || event.is_error() || event.is_read_closed() {
                self.readable(at);
            }
            self.settle();
        }
        self.events = events;
        polled
    }

    fn writable(&mut self, at: usize) {
        let fake = &mut self.switches[at];
        let was_open = fake.channel.is_open();
        fake.channel.writable();
        if !was_open && fake.channel.is_open() {
            self.last_open_ns = self.now_ns();
            self.switches[at].switch.connected(net::Time::from_ns(self.last_open_ns), CONNECTION);
            self.drain(at, &[]);
        }
        self.touch(at);
    }

    fn readable(&mut self, at: usize) {
        loop {
            let filled = self.switches[at].channel.fill();
            let now_ns = self.now_ns();
            let (inbox, range) = self.switches[at].channel.take_inbox();
            let used = self.scan(at, &inbox[range.clone()], now_ns);
            self.switches[at].channel.put_back(inbox, range.start + used..range.end);
            if filled == Filled::Drained {
                return;
            }
            self.settle();
        }
    }

    /// Marks a switch that has something to write or may send more.
    pub(crate) fn touch(&mut self, at: usize) {
        if !self.switches[at].is_touched {
            self.switches[at].is_touched = true;
            self.touched.push(at);
        }
    }

    /// Fills windows and writes.
    pub(crate) fn settle(&mut self) {
        while let Some(at) = self.touched.pop() {
            self.switches[at].is_touched = false;
            if self.window > 0 {
                let now_ns = self.now_ns();
                while self.switches[at].book.waiting() < self.window && self.send_probe(at, now_ns) {}
            }
            self.switches[at].channel.flush();
        }
    }

    /// Writes a new probe of a switch; whether it could.
    #[inline]
    pub(crate) fn send_probe(&mut self, at: usize, now_ns: u64) -> bool {
        let fake = &mut self.switches[at];
        if self.fabric.nodes[at].hosts.is_empty() || !fake.channel.is_open() {
            return false;
        }
        let Some(n) = fake.book.send(now_ns) else {
            self.tally.withheld += 1;
            return false;
        };
        let (source, destination) = self.fabric.pair(at, n);
        match self.options.answer {
            Answer::Arp => probe::write_arp(source, destination.ip, &mut fake.channel.outbox),
            _ => self.template.write(source, destination, n, &mut fake.channel.outbox),
        }
        self.tally.sent += 1;
        true
    }

    /// Takes whole messages; how many bytes they were.
    fn scan(&mut self, at: usize, bytes: &[u8], now_ns: u64) -> usize {
        let mut used = 0;
        while let Some(header) = bytes.get(used..used + wire::HEADER_LEN) {
            let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
            if len < wire::HEADER_LEN {
                self.tally.errors += 1;
                let words = format!("the controller sent a message of {len} bytes, where a header alone is 8");
                self.switches[at].channel.close(words);
                return bytes.len();
            }
            let Some(message) = bytes.get(used..used + len) else { break };
            self.message(at, message, now_ns);
            used += len;
        }
        self.touch(at);
        used
    }

    #[inline]
    fn message(&mut self, at: usize, message: &[u8], now_ns: u64) {
        match (message[0], message[1]) {
            (wire::VERSION, scan::PACKET_OUT) if self.is_measuring => self.packet_out(at, message, now_ns),
            (wire::VERSION, scan::FLOW_MOD) if self.is_measuring => self.flow_mod(at, message, now_ns),
            (wire::VERSION, scan::BARRIER_REQUEST) if message.len() == wire::HEADER_LEN && self.is_measuring => {
                self.reply_alike(at, scan::BARRIER_REPLY, message);
            }
            (wire::VERSION, scan::ECHO_REQUEST) => self.reply_alike(at, scan::ECHO_REPLY, message),
            (_, kind) => {
                if kind == scan::ERROR {
                    self.tally.errors += 1;
                }
                self.last_control_ns = now_ns;
                self.control(at, message, now_ns);
            }
        }
    }

    /// Answers with the same bytes under another type.
    fn reply_alike(&mut self, at: usize, kind: u8, message: &[u8]) {
        let outbox = &mut self.switches[at].channel.outbox;
        outbox.extend_from_slice(&[wire::VERSION, kind]);
        outbox.extend_from_slice(&message[2..]);
    }

    #[inline]
    fn packet_out(&mut self, at: usize, message: &[u8], now_ns: u64) {
        self.tally.packet_outs += 1;
        match scan::packet_out(message) {
            Some(scan::Carried::Probe { source, n }) => {
                if self.options.answer == Answer::PacketOut {
                    self.answered(self.fabric.switch_of(source), n, None, now_ns);
                }
            }
            Some(scan::Carried::ArpReply { sender, target }) if self.options.answer == Answer::Arp => {
                match self.fabric.number(target, sender) {
                    Some((switch, n)) => {
                        let pairs = self.fabric.pairs(switch);
                        self.answered(Some(switch), n, Some(pairs), now_ns);
                    }
                    None => self.tally.strays += 1,
                }
            }
            _ => self.control(at, message, now_ns),
        }
    }

    #[inline]
    fn answered(&mut self, switch: Option<usize>, n: u32, modulus: Option<u32>, now_ns: u64) {
        let Some(switch) = switch else {
            self.tally.strays += 1;
            return;
        };
        let verdict = self.switches[switch].book.answer(n, modulus, now_ns);
        self.tally.note(verdict, self.is_in_loop);
        self.touch(switch);
    }

    fn flow_mod(&mut self, at: usize, message: &[u8], now_ns: u64) {
        self.tally.flow_mods += 1;
        if self.options.answer == Answer::FlowMod {
            self.match_rule(at, message, now_ns);
        }
        if self.options.keeps_rules {
            self.control(at, message, now_ns);
        }
    }

    /// Looks for the probe a rule was made for. Rules that name its ports count at the switch the probe came from, which is
    /// the last one of a path set up from its end; other switches on the path get the same rule, and say nothing.
    fn match_rule(&mut self, at: usize, message: &[u8], now_ns: u64) {
        let Some(rule) = scan::flow_mod(message) else { return };
        if let (Some(source), Some(from), Some(to)) = (rule.source, rule.from_port, rule.to_port) {
            if self.fabric.switch_of(source) == Some(at)
                && let Some(n) = probe::number([from, to])
            {
                self.answered(Some(at), n, Some(probe::NUMBERS), now_ns);
            }
            return;
        }
        let (fabric, book) = (&self.fabric, &self.switches[at].book);
        let is_meant = |n: u32| {
            let (source, destination) = fabric.pair(at, n);
            let agrees = |wanted: Option<[u8; 4]>, is: [u8; 4]| wanted.is_none_or(|wanted| wanted == is);
            (rule.destination.is_some() || rule.mac.is_some())
                && agrees(rule.source, source.ip.octets())
                && agrees(rule.destination, destination.ip.octets())
                && rule.mac.is_none_or(|mac| mac == destination.mac.0)
        };
        if !fabric.nodes[at].hosts.is_empty()
            && let Some(n) = book.oldest(is_meant)
        {
            self.answered(Some(at), n, None, now_ns);
        }
    }

    /// Any message that is not part of the load: decoded and obeyed.
    fn control(&mut self, at: usize, message: &[u8], now_ns: u64) {
        let now = net::Time::from_ns(now_ns);
        match wire::decode(message) {
            Ok(Some((envelope, _))) => {
                match features_reply(&envelope) {
                    Some(replies) => replies.iter().for_each(|reply| self.encode(at, reply)),
                    None => self.switches[at].switch.handle(now, CONNECTION, envelope),
                }
                self.drain(at, message);
            }
            // Its length is in its header and it is whole: a decoder that wants more is wrong, and so is the message.
            Ok(None) => self.switches[at].channel.close("the controller sent a message that does not end"),
            Err(error) => {
                self.tally.errors += 1;
                let data = message[..message.len().min(REFUSED_BYTES)].to_vec();
                self.encode(at, &Envelope { xid: error.xid, message: Message::Error { kind: error.kind, data } });
                if error.skip.is_none() {
                    self.switches[at].channel.flush();
                    self.switches[at].channel.close(format!("the controller sent no OpenFlow 1.3: {}", error.words));
                }
            }
        }
    }

    fn encode(&mut self, at: usize, envelope: &Envelope) {
        // What a switch says of itself always fits: parts are cut by the switch.
        if let Err(error) = wire::encode(envelope, &mut self.switches[at].channel.outbox) {
            self.switches[at].channel.close(format!("an answer has no bytes: {}", error.words));
        }
        self.touch(at);
    }

    /// Sends what a switch has to say, and carries its frames to wherever they lead. `request` is what it answers.
    fn drain(&mut self, at: usize, request: &[u8]) {
        let mut work = VecDeque::from([at]);
        while let Some(switch) = work.pop_front() {
            while let Some(output) = self.switches[switch].switch.poll_output() {
                match output {
                    Output::Message(_, envelope) => {
                        match &envelope.message {
                            Message::FeaturesReply(_) => self.switches[switch].has_introduced_itself = true,
                            Message::PacketIn(packet) => self.note_discovery(switch, packet),
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

    /// A frame that came over a link goes to the controller, which knows the link then.
    fn note_discovery(&mut self, switch: usize, packet: &PacketIn) {
        let came_over_link = packet.match_.in_port.filter(|port| self.fabric.beyond(switch, *port).is_some());
        if let Some(port) = came_over_link
            && self.links_seen.insert((switch, port))
        {
            self.last_link_ns = self.now_ns();
        }
    }

    /// A frame leaves a switch by a port; the switch it arrives at, if that has to do with it.
    fn carry(&mut self, switch: usize, port: PortNo, frame: &[u8]) -> Option<usize> {
        let headers = parse(frame).ok();
        let eth_type = headers.map_or(0, |headers| headers.eth_type);
        if let Some((to, in_port)) = self.fabric.beyond(switch, port) {
            // Only discovery: what else is flooded into a fabric with loops would never end.
            if eth_type != ether::LLDP && eth_type != BROADCAST_DISCOVERY {
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
                probe::write_frame(host.port, &reply, &mut self.switches[switch].channel.outbox);
                self.touch(switch);
            }
            // Hosts have nothing to say to the rest.
            _ => self.frames_dropped += 1,
        }
        None
    }

    /// What time brings: probes given up, entries that expire.
    pub(crate) fn tick(&mut self) {
        let now_ns = self.now_ns();
        let deadline_ns = now_ns.saturating_sub(self.options.patience.as_nanos() as u64);
        for at in 0..self.switches.len() {
            let fake = &mut self.switches[at];
            let expired = fake.book.expire(deadline_ns);
            self.tally.unanswered += u64::from(expired);
            let now = net::Time::from_ns(now_ns);
            if fake.switch.poll_timeout().is_some_and(|due| due <= now) {
                fake.switch.handle_timeout(now);
                self.drain(at, &[]);
            }
            if expired > 0 {
                self.touch(at);
            }
        }
    }
}

/// Slots of a switch's book: as many probes as may wait, and the answered ones a duplicate could come for.
fn slots(options: &Options, fabric: &Fabric, switch: usize) -> Result<u32, Error> {
    let pairs = if fabric.nodes[switch].hosts.is_empty() { 1 } else { fabric.pairs(switch) };
    let sending = fabric.nodes.iter().filter(|node| !node.hosts.is_empty()).count().max(1);
    let waiting = match options.load {
        Load::Window(window) => window,
        // All that are due while one waits.
        Load::Rate(rate) => (rate * options.patience.as_secs_f64() / sending as f64).ceil() as u32 + 1,
    };
    match options.answer {
        // A pair of hosts is all that tells one from another.
        Answer::Arp if !fabric.nodes[switch].hosts.is_empty() && waiting > pairs => {
            Err(Error::TooFewPairs { waiting, pairs })
        }
        Answer::Arp => Ok(pairs),
        _ => Ok(waiting.saturating_mul(4).clamp(1_024, 1 << 24)),
    }
}

fn config(node: &crate::fabric::Node) -> Config {
    let text = |words: &str| words.to_owned();
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
        description: Description {
            manufacturer: text("Anabranch"),
            hardware: text("load generator"),
            software: text(env!("CARGO_PKG_VERSION")),
            serial: node.datapath.0.to_string(),
            datapath: format!("s{}", node.datapath.0),
        },
    }
}

/// Answers to what `switch` does not know and controllers ask all the same.
fn features_reply(envelope: &Envelope) -> Option<Vec<Envelope>> {
    let Message::MultipartRequest(MultipartRequest::Other { kind, body }) = &envelope.message else { return None };
    let reply = |body, has_more| {
        let reply = MultipartReply::Other { kind: *kind, body };
        Envelope { xid: envelope.xid, message: Message::MultipartReply { reply, has_more } }
    };
    match *kind {
        features::METER_FEATURES => Some(vec![reply(features::meters(), false)]),
        // With a body it would be a request to change them.
        features::TABLE_FEATURES if body.is_empty() => {
            let part = |table| reply(features::table(table, TABLES, MAX_ENTRIES), table + 1 < TABLES);
            Some((0..TABLES).map(part).collect())
        }
        _ => None,
    }
}

/// Errors name the message they refuse.
fn with_request(envelope: Envelope, request: &[u8]) -> Envelope {
    match envelope {
        Envelope { xid, message: Message::Error { kind, data } } if data.is_empty() => {
            let data = request[..request.len().min(REFUSED_BYTES)].to_vec();
            Envelope { xid, message: Message::Error { kind, data } }
        }
        other => other,
    }
}
