//! Links with their egress queues.
//!
//! A queue is FIFO with a constant rate, so the departure time of a packet is known when it joins.
//! Each hop therefore costs one event (the arrival at the far end) instead of two. The queue length
//! is computed on demand. Only a rate change or a cut rewrites departure times.

use balance::Lossless;
use net::{LinkIx, NodeKind};

use super::admission::Admission;
use super::border::Border;
use super::histogram::QueueHistogram;
use super::lanes::Lanes;
use super::pfc::PfcPorts;
use super::port::{DOWN, Port, RATE_BITS, ps_per_byte, serialisation_of};
use super::queue_rule::Rule;
use crate::numbering::Numbering;
use crate::outcome::Drops;
use crate::packet::{Arena, Packet};
use crate::queue::{EventQueue, NIL};
use crate::scenario::Scenario;

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

/// State of a link at one time.
#[derive(Clone, Copy, Debug)]
pub struct LinkSample {
    pub queued_bytes: u32,
    /// Bytes since the beginning of the run.
    pub carried_bytes: u64,
}

pub(crate) struct Network {
    pub(crate) now: u64,
    pub(crate) events: EventQueue,
    pub(crate) arena: Arena,
    pub(crate) ports: Vec<Port>,
    pub(crate) admission: Admission,
    pub(crate) dropped: Drops,
    /// Whether all queues are plain FIFO, so that departure times are known when packets join.
    pub(super) is_fifo: bool,
    /// Traffic classes with flow control, of all ports.
    pub(crate) classes: Option<PfcPorts>,
    /// A control class before the data, at the ports of switches.
    pub(super) lanes: Option<Lanes>,
    /// Packets for and from other partitions.
    pub(crate) border: Border,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario<'_>, lossless: Option<Lossless>, events: EventQueue) -> Network {
        let (topology, config) = (scenario.topology, scenario.config);
        let queue = Rule::new(&config.switch, lossless.is_some(), config.transport.packet_bytes());
        let numbering = Numbering::new(topology);
        let mut seen: Vec<QueueHistogram> = Vec::new();
        let (mut rates, mut rules) = (Vec::new(), Vec::new());
        let mut rule_of = |bps: u64| {
            let ratio = config.switch.reference_rate.map_or(1.0, |rate| bps as f64 / rate.as_bps() as f64);
            let ix = rates.iter().position(|known| *known == ratio).unwrap_or_else(|| {
                rates.push(ratio);
                rules.push(queue.scaled(ratio));
                rates.len() - 1
            });
            // A network with more rates is refused (`checks.rs`).
            ix as u8 + 1
        };
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
                rule: if is_host { 0 } else { rule_of(link.rate.as_bps()) },
                kind: kind as u8,
                faults: 0,
                remote: 0,
            });
        }
        Network {
            now: 0,
            events,
            arena: Arena::new(),
            admission: Admission::new(&rules, seen, ports.len(), config.host.jitter.as_ps(), scenario.seed),
            ports,
            dropped: Drops::default(),
            is_fifo: lossless.is_none(),
            lanes: None,
            classes: lossless.map(|rules| PfcPorts::new(rules, topology.links().len())),
            border: Border::default(),
        }
    }

    /// Puts a packet into the queue of a link. On an error it is lost but still in the arena.
    #[inline]
    pub(crate) fn enqueue(&mut self, link: u32, packet: u32) -> Result<(), Loss> {
        if !self.is_fifo {
            return self.enqueue_by_kind(link, packet);
        }
        self.enqueue_last(link, packet)
    }

    /// Puts a packet into a queue of a run in which not all queues are FIFO.
    #[inline(never)]
    fn enqueue_by_kind(&mut self, link: u32, packet: u32) -> Result<(), Loss> {
        if self.has_lanes(link) {
            self.enqueue_by_lane(link, packet)
        } else if self.classes.is_some() {
            self.enqueue_by_class(link, packet)
        } else {
            self.enqueue_last(link, packet)
        }
    }

    #[inline(always)]
    fn enqueue_last(&mut self, link: u32, packet: u32) -> Result<(), Loss> {
        let Network { now, events, arena, ports, admission, border, .. } = self;
        let port = &mut ports[link as usize];
        admission.settle(*now, link, port, arena);
        let entry = arena.get_mut(packet);
        admission.admit(*now, link, port, entry)?;
        let bytes = entry.bytes;
        let departs = admission.transmission_start(*now, link, port) + serialisation_of(port, bytes);
        entry.departs = departs;
        entry.next = NIL;
        port.queued_bytes += u32::from(bytes);
        port.queued_packets += 1;
        port.busy_until = departs;
        if port.waiting == NIL {
            port.waiting = packet;
        }
        match std::mem::replace(&mut port.tail, packet) {
            NIL => {
                port.head = packet;
                await_head(port, link, departs, events, border);
            }
            tail => arena.get_mut(tail).next = packet,
        }
        Ok(())
    }

    /// Catches up with the packets that have departed from a queue by now.
    #[inline]
    pub(super) fn settle(&mut self, link: u32) -> &mut Port {
        if self.has_lanes(link) {
            self.settle_lanes(link);
        }
        let port = &mut self.ports[link as usize];
        self.admission.settle(self.now, link, port, &self.arena);
        port
    }

    /// Decides whether a packet may join the queues of a link with flow control.
    pub(super) fn admit(&mut self, link: u32, packet: u32) -> Result<(), Loss> {
        self.settle(link);
        let port = &self.ports[link as usize];
        self.admission.admit(self.now, link, port, self.arena.get_mut(packet))
    }

    #[inline]
    pub(crate) fn put_on_wire(&mut self, link: u32, packet: u32) {
        let Network { events, arena, ports, border, .. } = self;
        let port = &mut ports[link as usize];
        let tail = std::mem::replace(&mut port.tail, packet);
        if tail == NIL {
            port.head = packet;
            await_head(port, link, arena.get(packet).departs, events, border);
        } else {
            arena.get_mut(tail).next = packet;
        }
    }

    #[inline]
    pub(crate) fn arrive(&mut self, link: u32) -> (u32, u32) {
        if !self.is_fifo && self.has_lanes(link) {
            self.settle_lanes(link);
        }
        let port = &mut self.ports[link as usize];
        let packet = port.head;
        let entry = self.arena.get(packet);
        if port.waiting == packet {
            port.waiting = entry.next;
            port.dequeue(entry.bytes);
            if let Some(sensors) = &mut self.admission.sensors {
                sensors.add(link, entry.bytes, entry.departs);
            }
        }
        port.carried_bytes += u64::from(entry.bytes);
        port.carried_packets += 1;
        port.head = entry.next;
        if port.head == NIL {
            port.tail = NIL;
        } else {
            let next = self.arena.get(port.head);
            // Its successor has waited for long in a full queue, and is needed one transmission later.
            self.arena.prefetch(next.next);
            self.events.push_link(next.departs + port.delay, link);
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

    /// Returns when the transmitter is free, perhaps in the past; `u64::MAX` while paused.
    #[inline]
    pub(crate) fn free_at(&self, link: u32) -> u64 {
        if self.classes.as_ref().is_some_and(|classes| classes.is_paused(link)) {
            return u64::MAX;
        }
        let waiting = if self.has_lanes(link) { self.lanes_drain_time(link) } else { 0 };
        self.ports[link as usize].busy_until + waiting
    }

    /// Returns the packets queued at a link now, including the one in transmission.
    pub(crate) fn queued_packets(&mut self, link: u32) -> u32 {
        self.settle(link).queued_packets
    }

    /// Returns the queue of a link now, and the bytes it has carried.
    pub(crate) fn sample(&mut self, link: u32) -> LinkSample {
        let port = self.settle(link);
        LinkSample { queued_bytes: port.queued_bytes, carried_bytes: port.carried_bytes }
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
        self.flush_lanes(link, &mut lost);
        let port = &mut self.ports[link as usize];
        (port.queued_bytes, port.queued_packets) = (0, 0);
        self.admission.tallies[link as usize].drops += lost.len() as u64;
        lost
    }

    pub(crate) fn restore(&mut self, link: u32) {
        self.ports[link as usize].faults &= !DOWN;
    }

    pub(crate) fn set_loss(&mut self, link: u32, probability: Option<f64>) {
        self.admission.set_loss(link, &mut self.ports[link as usize], probability);
    }

    /// Changes the rate of a link. The packet in transmission continues at the new rate.
    pub(crate) fn set_rate(&mut self, link: u32, bps: u64) {
        let now = self.now;
        self.settle(link);
        if let Some(sensors) = &mut self.admission.sensors {
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
        if port.head == port.waiting && port.remote == 0 {
            let arrives = self.arena.get(port.head).departs + port.delay;
            self.events.cancel_link(link);
            self.events.push_link(arrives, link);
        }
    }
}

/// Sees to it that the first packet of a link arrives: here, or in the partition of its far end.
#[inline(always)]
fn await_head(port: &Port, link: u32, departs: u64, events: &mut EventQueue, border: &mut Border) {
    if port.remote == 0 {
        events.push_link(departs + port.delay, link);
    } else {
        border.note_queued(link);
    }
}
