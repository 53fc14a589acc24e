//! Links with their egress queues.
//!
//! A queue is FIFO with a constant rate, so the departure time of a packet is known when it joins.
//! Each hop therefore costs one event (the arrival at the far end) instead of two. The queue length
//! is computed on demand. Only a rate change or a cut rewrites departure times.

use balance::Lossless;
use net::{LinkIx, NodeKind, RandomStream};

use super::histogram::QueueHistogram;
use super::pfc::PfcPorts;
use super::port::{DOWN, LOSSY, Port, RATE_BITS, ps_per_byte, serialisation_of};
use super::queue_rule::Rule;
use super::sensors::Sensors;
use crate::outcome::{Drops, LinkRecord};
use crate::packet::{Arena, CE, CONTROL, DATA, ECT, Packet, TRIMMED};
use crate::queue::{EventQueue, NIL};
use crate::scenario::{Marking, Scenario, TRIMMED_BYTES};
use crate::switching::fabric::Numbering;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    Queue,
    LinkDown,
    Random,
    Blackhole,
    NoRoute,
    Watchdog,
    Loop,
}

pub(crate) struct Network {
    pub(crate) now: u64,
    pub(crate) events: EventQueue,
    pub(crate) arena: Arena,
    pub(crate) ports: Vec<Port>,
    /// Counters that change rarely, kept out of the cache lines of ports.
    pub(crate) tallies: Vec<LinkRecord>,
    pub(crate) seen: Vec<QueueHistogram>,
    rules: [Rule; 2],
    /// Bytes above a full queue that headers may use if packets are trimmed; else 0.
    header_allowance: u64,
    /// Whether packets of the control plane are accepted by full queues.
    pub(crate) reserves_control_queue: bool,
    /// Probability of silent loss by link, sorted by link; only links that have one.
    loss_probability: Vec<(u32, f64)>,
    pub(crate) dropped: Drops,
    /// Maximum random gap after a packet of a host, picoseconds.
    jitter: u64,
    rng: RandomStream,
    /// Rate estimators; `None` if the balancer does not read them.
    pub(crate) sensors: Option<Sensors>,
    /// Traffic classes with flow control. With them no queue of the run is plain FIFO.
    pub(crate) classes: Option<PfcPorts>,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario<'_>, lossless: Option<Lossless>, events: EventQueue) -> Network {
        let (topology, config) = (scenario.topology, scenario.config);
        let numbering = Numbering::new(topology);
        let mut seen: Vec<QueueHistogram> = Vec::new();
        let mut ports = Vec::with_capacity(topology.links().len());
        for (ix, link) in (0u32..).zip(topology.links()) {
            let (tier, up) = (topology.link_tier(LinkIx(ix)).0, topology.is_upward(LinkIx(ix)));
            let kind = seen.iter().position(|s| s.tier == tier && s.up == up).unwrap_or_else(|| {
                seen.push(QueueHistogram::new(tier, up));
                seen.len() - 1
            });
            // Interfaces of hosts that do not forward never drop or mark on their own.
            let from = topology.node(link.from);
            let is_host = from.kind == NodeKind::Host && !from.forwards;
            ports.push(Port {
                busy_until: 0,
                ps_per_byte: ps_per_byte(link.rate.as_bps()),
                delay: link.delay.as_ps(),
                carried_bytes: 0,
                head: NIL,
                tail: NIL,
                waiting: NIL,
                queued_bytes: 0,
                queued_packets: 0,
                to: numbering.of(link.to),
                carried_packets: 0,
                rule: u8::from(!is_host),
                kind: kind as u8,
                faults: 0,
            });
        }
        Network {
            now: 0,
            events,
            arena: Arena::new(),
            tallies: vec![LinkRecord::default(); ports.len()],
            ports,
            seen,
            rules: [
                Rule { limit: u64::MAX, limit_in_bytes: false, mark: Marking::Off },
                Rule::new(&config.switch, lossless.is_some()),
            ],
            header_allowance: 0,
            reserves_control_queue: false,
            loss_probability: Vec::new(),
            dropped: Drops::default(),
            jitter: config.host.jitter.as_ps(),
            rng: RandomStream::new(scenario.seed, "network"),
            sensors: None,
            classes: lossless.map(|rules| PfcPorts::new(rules, topology.links().len())),
        }
    }

    /// Puts a packet into the queue of a link. On an error it is lost but still in the arena.
    #[inline]
    pub(crate) fn enqueue(&mut self, link: u32, packet: u32) -> Result<(), Loss> {
        if self.classes.is_some() {
            return self.enqueue_by_class(link, packet);
        }
        self.admit(link, packet)?;
        let now = self.now;
        let port = &mut self.ports[link as usize];
        let entry = self.arena.get_mut(packet);
        let mut free_at = port.busy_until;
        if self.jitter > 0 && port.rule == 0 {
            free_at = now.max(free_at) + self.rng.next_below(self.jitter + 1);
        }
        let departs = now.max(free_at) + serialisation_of(port, entry.bytes);
        entry.departs = departs;
        entry.next = NIL;
        port.queued_bytes += u32::from(entry.bytes);
        port.queued_packets += 1;
        port.busy_until = departs;
        if port.waiting == NIL {
            port.waiting = packet;
        }
        self.put_on_wire(link, packet);
        Ok(())
    }

    /// Removes the packets that have departed from a queue, and reports them to the estimator.
    #[inline]
    fn settle(&mut self, link: u32) -> &mut Port {
        let port = &mut self.ports[link as usize];
        match &mut self.sensors {
            None => port.settle(&self.arena, self.now, |_, _| {}),
            Some(sensors) => port.settle(&self.arena, self.now, |bytes, at| sensors.add(link, bytes, at)),
        }
        port
    }

    #[inline]
    pub(crate) fn admit(&mut self, link: u32, packet: u32) -> Result<(), Loss> {
        let now = self.now;
        let port = self.settle(link);
        if port.faults != 0 {
            let faults = port.faults;
            self.check_faults(link, faults)?;
        }
        let port = &mut self.ports[link as usize];
        let rule = &self.rules[port.rule as usize];
        let occupancy = if rule.limit_in_bytes {
            u64::from(port.queued_bytes) + u64::from(self.arena.get(packet).bytes)
        } else {
            u64::from(port.queued_packets) + 1
        };
        if occupancy > rule.limit && !self.is_cut_to_header(link, packet) {
            self.tallies[link as usize].drops += 1;
            return Err(Loss::Queue);
        }
        let port = &mut self.ports[link as usize];
        let entry = self.arena.get_mut(packet);
        if let Some(sensors) = &self.sensors
            && sensors.is_sensed(link)
        {
            entry.note_utilisation(sensors.reading(link, now));
        }
        if port.rule != 0 {
            let seen = &mut self.seen[port.kind as usize];
            seen.record(port.queued_bytes);
            if self.rules[port.rule as usize].is_marking(port, &mut self.rng) {
                seen.above_mark += 1;
                if entry.flags & ECT != 0 {
                    entry.flags |= CE;
                    self.tallies[link as usize].marks += 1;
                }
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn put_on_wire(&mut self, link: u32, packet: u32) {
        let port = &mut self.ports[link as usize];
        let tail = std::mem::replace(&mut port.tail, packet);
        if tail == NIL {
            port.head = packet;
            let arrives = self.arena.get(packet).departs + port.delay;
            self.events.push_link(arrives, link);
        } else {
            self.arena.get_mut(tail).next = packet;
        }
    }

    /// Makes switch queues above `queue_bytes` cut packets to their headers, not drop them.
    pub(crate) fn set_trimming(&mut self, queue_bytes: u64) {
        self.rules[1].limit = queue_bytes;
        self.rules[1].limit_in_bytes = true;
        self.header_allowance = queue_bytes / 4;
    }

    /// Returns whether a packet may join a full queue: cut, small, or with reserved space.
    #[cold]
    fn is_cut_to_header(&mut self, link: u32, packet: u32) -> bool {
        let port = &self.ports[link as usize];
        let entry = self.arena.get_mut(packet);
        let size = entry.bytes.min(TRIMMED_BYTES);
        let is_whole = entry.is(DATA) && !entry.is(TRIMMED);
        let room = self.rules[port.rule as usize].limit.saturating_add(self.header_allowance);
        let has_room = u64::from(port.queued_bytes) + u64::from(size) <= room;
        if self.reserves_control_queue && entry.is(CONTROL) {
            return true;
        }
        if self.header_allowance == 0 || !has_room || (!is_whole && entry.bytes > size) {
            return false;
        }
        if is_whole {
            entry.bytes = size;
            entry.flags |= TRIMMED;
            self.tallies[link as usize].trims += 1;
        }
        true
    }

    #[inline]
    pub(crate) fn arrive(&mut self, link: u32) -> (u32, u32) {
        let port = &mut self.ports[link as usize];
        let packet = port.head;
        let entry = self.arena.get(packet);
        if port.waiting == packet {
            port.waiting = entry.next;
            port.dequeue(entry.bytes);
            if let Some(sensors) = &mut self.sensors {
                sensors.add(link, entry.bytes, entry.departs);
            }
        }
        port.carried_bytes += u64::from(entry.bytes);
        port.carried_packets += 1;
        port.head = entry.next;
        if port.head == NIL {
            port.tail = NIL;
        } else {
            let arrives = self.arena.get(port.head).departs + port.delay;
            self.events.push_link(arrives, link);
        }
        if let Some(classes) = &mut self.classes {
            classes.note_arrival(packet, link);
        }
        (packet, port.to)
    }

    pub(crate) fn lose(&mut self, packet: u32, loss: Loss) -> Packet {
        *match loss {
            Loss::Queue => &mut self.dropped.queue,
            Loss::LinkDown => &mut self.dropped.link_down,
            Loss::Random => &mut self.dropped.random,
            Loss::Blackhole => &mut self.dropped.blackhole,
            Loss::NoRoute => &mut self.dropped.no_route,
            Loss::Watchdog => &mut self.dropped.watchdog,
            Loss::Loop => &mut self.dropped.looped,
        } += 1;
        let copy = *self.arena.get(packet);
        self.arena.remove(packet);
        copy
    }

    #[cold]
    fn check_faults(&mut self, link: u32, faults: u8) -> Result<(), Loss> {
        if faults & DOWN != 0 {
            self.tallies[link as usize].drops += 1;
            return Err(Loss::LinkDown);
        }
        // A lossy switch has many lossy links, so the lookup is a binary search.
        let position = self.loss_probability.binary_search_by_key(&link, |(lossy, _)| *lossy);
        let probability = position.map_or(0.0, |position| self.loss_probability[position].1);
        if self.rng.next_f64() < probability {
            self.tallies[link as usize].drops += 1;
            return Err(Loss::Random);
        }
        Ok(())
    }

    /// Returns when the transmitter is free, perhaps in the past; `u64::MAX` while paused.
    #[inline]
    pub(crate) fn free_at(&self, link: u32) -> u64 {
        if self.classes.as_ref().is_some_and(|classes| classes.is_paused(link)) {
            return u64::MAX;
        }
        self.ports[link as usize].busy_until
    }

    /// Returns the packets queued at a link now, including the one in transmission.
    pub(crate) fn queued_packets(&mut self, link: u32) -> u32 {
        self.settle(link).queued_packets
    }

    /// Cuts a link. Returns the packets lost from its queue and wire.
    pub(crate) fn cut(&mut self, link: u32) -> Vec<u32> {
        self.events.cancel_link(link);
        let port = &mut self.ports[link as usize];
        port.faults |= DOWN;
        let mut lost = Vec::new();
        let mut at = port.head;
        while at != NIL {
            lost.push(at);
            at = self.arena.get(at).next;
        }
        (port.head, port.tail, port.waiting) = (NIL, NIL, NIL);
        port.busy_until = self.now;
        self.flush_classes(link, &mut lost);
        let port = &mut self.ports[link as usize];
        (port.queued_bytes, port.queued_packets) = (0, 0);
        self.tallies[link as usize].drops += lost.len() as u64;
        lost
    }

    pub(crate) fn restore(&mut self, link: u32) {
        self.ports[link as usize].faults &= !DOWN;
    }

    pub(crate) fn set_loss(&mut self, link: u32, probability: Option<f64>) {
        self.loss_probability.retain(|(l, _)| *l != link);
        let port = &mut self.ports[link as usize];
        port.faults &= !LOSSY;
        if let Some(probability) = probability {
            port.faults |= LOSSY;
            let position = self.loss_probability.partition_point(|(lossy, _)| *lossy < link);
            self.loss_probability.insert(position, (link, probability));
        }
    }

    /// Changes the rate of a link. The packet in transmission continues at the new rate.
    pub(crate) fn set_rate(&mut self, link: u32, bps: u64) {
        let now = self.now;
        self.settle(link);
        if let Some(sensors) = &mut self.sensors {
            sensors.set_rate(link, bps);
        }
        let port = &mut self.ports[link as usize];
        let (old, new) = (port.ps_per_byte, ps_per_byte(bps));
        port.ps_per_byte = new;
        let mut at = port.waiting;
        if at == NIL {
            return;
        }
        let left = u128::from(self.arena.get(at).departs - now) * u128::from(new) / u128::from(old.max(1));
        let mut departs = now + left as u64;
        loop {
            let entry = self.arena.get_mut(at);
            entry.departs = departs;
            at = entry.next;
            if at == NIL {
                break;
            }
            departs += (u64::from(self.arena.get(at).bytes) * new) >> RATE_BITS;
        }
        port.busy_until = departs;
        if port.head == port.waiting {
            let arrives = self.arena.get(port.head).departs + port.delay;
            self.events.cancel_link(link);
            self.events.push_link(arrives, link);
        }
    }
}
