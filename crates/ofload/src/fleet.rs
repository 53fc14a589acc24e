//! The emulated switches of one controller, driven by one thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use openflow::{PortNo, wire};
use switch::Switch;

use crate::channel::{Channel, State};
use crate::control::CONNECTION;
use crate::fabric::Fabric;
use crate::options::Options;
use crate::outstanding::{OutstandingProbes, Tally};
use crate::probe::Template;
use crate::repair_bench::AuditRequests;
use crate::service::Service;
use crate::{Error, control, load};

pub(crate) const TICK: Duration = Duration::from_millis(10);
pub(crate) const TIMER: Token = Token(usize::MAX);

#[derive(Debug)]
pub(crate) struct FakeSwitch {
    pub(crate) channel: Channel,
    pub(crate) switch: Switch,
    pub(crate) outstanding: OutstandingProbes,
    pub(crate) got_features_request: bool,
    is_touched: bool,
}

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
    /// Outstanding packet-ins per switch; 0 without a closed loop.
    pub(crate) window: u32,
    pub(crate) is_in_loop: bool,
    pub(crate) is_measuring: bool,
    pub(crate) has_timer_fired: bool,
    touched: Vec<usize>,
    /// Time of the last message that is neither an echo nor part of the load.
    pub(crate) last_control_ns: u64,
    /// Directed links, by their far ends, over which a discovery frame has returned to the
    /// controller.
    pub(crate) links_seen: BTreeSet<(usize, PortNo)>,
    pub(crate) last_link_ns: u64,
    pub(crate) last_open_ns: u64,
    pub(crate) refusals: BTreeMap<String, u64>,
    pub(crate) service: Service,
    pub(crate) frames_dropped: u64,
    pub(crate) audit_requests: AuditRequests,
}

impl Fleet {
    pub(crate) fn connect(options: &Options) -> Result<Fleet, Error> {
        let fabric = Fabric::new(&options.shape, options.base)?;
        let poll = Poll::new().map_err(Error::Poll)?;
        let mut switches = Vec::with_capacity(fabric.nodes.len());
        for (at, node) in fabric.nodes.iter().enumerate() {
            let mut stream = TcpStream::connect(options.controller)
                .map_err(|error| Error::Connect { controller: options.controller, message: error.to_string() })?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(at), interest).map_err(Error::Poll)?;
            switches.push(FakeSwitch {
                channel: Channel::new(stream),
                switch: Switch::new(control::config(node, options.has_flow_monitors)),
                outstanding: load::outstanding_probes(options, &fabric, at)?,
                got_features_request: false,
                is_touched: false,
            });
        }
        Ok(Fleet {
            poll,
            events: Events::with_capacity(1_024),
            fabric,
            switches,
            options: options.clone(),
            template: Template::default(),
            epoch: Instant::now(),
            tally: Tally::default(),
            window: 0,
            is_in_loop: false,
            is_measuring: false,
            has_timer_fired: false,
            touched: Vec::new(),
            last_control_ns: 0,
            links_seen: BTreeSet::new(),
            last_link_ns: 0,
            last_open_ns: 0,
            refusals: BTreeMap::new(),
            service: Service::new(options.response),
            frames_dropped: 0,
            audit_requests: AuditRequests::default(),
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Runs until all switches have finished the handshake and the controller sends no further
    /// requests.
    pub(crate) fn handshake(&mut self) -> Result<(), Error> {
        let deadline = self.epoch + self.options.handshake;
        while !self.switches.iter().all(|fake| fake.got_features_request) {
            self.service(TICK)?;
            self.first_loss().map_or(Ok(()), Err)?;
            if Instant::now() >= deadline {
                let silent = self.switches.iter().filter(|fake| !fake.got_features_request).count();
                let (controller, after) = (self.options.controller, self.options.handshake);
                return Err(Error::Silent { silent, switches: self.switches.len(), controller, after });
            }
        }
        // Controllers request features one after the other; half a second of silence shows that
        // they are done. Some never are silent.
        let is_quiet = |fleet: &Fleet| fleet.now_ns() - fleet.last_control_ns > 500_000_000;
        let end = Instant::now() + Duration::from_secs(3);
        while !is_quiet(self) && Instant::now() < end {
            self.service(TICK)?;
        }
        Ok(())
    }

    pub(crate) fn learn(&mut self) -> Result<(), Error> {
        let most = self.fabric.nodes.iter().map(|node| node.hosts.len()).max().unwrap_or(0);
        for _ in 0..2 {
            for at in 0..most {
                (0..self.switches.len()).for_each(|switch| self.send_arp_request(switch, at, None));
                self.serve_until(Instant::now() + Duration::from_millis(2))?;
            }
        }
        self.resolve_service();
        self.serve_until(Instant::now() + self.options.settle_time)?;
        self.expect_service()
    }

    /// Sends an ARP request of a host of a switch, if it exists: for an address, or gratuitous.
    pub(crate) fn send_arp_request(&mut self, switch: usize, host: usize, target: Option<Ipv4Addr>) {
        if let Some(host) = self.fabric.nodes[switch].hosts.clone().nth(host) {
            let host = self.fabric.hosts[host];
            self.template.write_arp(&host, target.unwrap_or(host.ip), &mut self.switches[switch].channel.outbox);
            self.touch(switch);
        }
    }

    pub(crate) fn serve_until(&mut self, end: Instant) -> Result<(), Error> {
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            self.service((end - now).min(TICK))?;
        }
    }
    /// Returns the lost connections: switch number from 1 and reason.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (usize, &str)> {
        self.switches.iter().enumerate().filter_map(|(at, fake)| match &fake.channel.state {
            State::Closed(reason) => Some((at + 1, reason.as_str())),
            _ => None,
        })
    }

    pub(crate) fn first_loss(&self) -> Option<Error> {
        let controller = self.options.controller;
        self.lost().next().map(|(switch, reason)| Error::Lost { switch, controller, message: reason.to_owned() })
    }

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
                self.has_timer_fired = true;
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
            let has_more = self.switches[at].channel.fill();
            let now_ns = self.now_ns();
            let (inbox, range) = self.switches[at].channel.take_inbox();
            let used = self.scan(at, &inbox[range.clone()], now_ns);
            self.switches[at].channel.put_back(inbox, range.start + used..range.end);
            if !has_more {
                return;
            }
            self.settle();
        }
    }

    pub(crate) fn touch(&mut self, at: usize) {
        if !self.switches[at].is_touched {
            self.switches[at].is_touched = true;
            self.touched.push(at);
        }
    }
    pub(crate) fn settle(&mut self) {
        while let Some(at) = self.touched.pop() {
            self.switches[at].is_touched = false;
            if self.window > 0 {
                let now_ns = self.now_ns();
                while self.switches[at].outstanding.waiting() < self.window && self.send_probe(at, now_ns) {}
            }
            self.switches[at].channel.flush();
        }
    }

    fn scan(&mut self, at: usize, bytes: &[u8], now_ns: u64) -> usize {
        let mut used = 0;
        while let Some(header) = bytes.get(used..used + wire::HEADER_LEN) {
            let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
            if len < wire::HEADER_LEN {
                self.tally.counts.errors += 1;
                let reason = format!("the controller sent a message of {len} bytes, but a header has 8");
                self.switches[at].channel.close(reason);
                return bytes.len();
            }
            let Some(message) = bytes.get(used..used + len) else { break };
            self.message(at, message, now_ns);
            used += len;
        }
        self.touch(at);
        used
    }

    pub(crate) fn tick(&mut self) {
        let now_ns = self.now_ns();
        let deadline_ns = now_ns.saturating_sub(self.options.response_timeout.as_nanos() as u64);
        for at in 0..self.switches.len() {
            let fake = &mut self.switches[at];
            let expired = fake.outstanding.expire(deadline_ns);
            self.tally.counts.unanswered += u64::from(expired);
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
