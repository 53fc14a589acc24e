//! Links with their egress queues.
//!
//! A queue here is FIFO with a constant rate, so the moment a packet will have left is known when it joins:
//! each hop costs one event (its arrival at the far end), not two, and how much is waiting is worked out
//! when someone asks. Only a rate change or a cut has to rewrite those times.

use balance::{Lossless, PortTelemetry};
use net::{LinkIx, Stream};

use crate::lossless::Classes;
use crate::outcome::Drops;
use crate::packet::{Arena, CE, CONTROL, DATA, ECT, Packet, TRIMMED};
use crate::queue::{EventQueue, NIL};
use crate::scenario::{Marking, QueueConfig, QueueLimit, TRIMMED_BYTES};
use crate::sensors::Sensors;

/// Fractional bits of [`Port::ps_per_byte`].
const RATE_BITS: u32 = 16;

/// Why a packet was lost.
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

/// One directed link with the queue before it: one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    /// When the transmitter is free again.
    busy_until: u64,
    /// Picoseconds per byte, fixed point.
    ps_per_byte: u64,
    delay: u64,
    /// Bytes that reached the far end.
    pub(crate) carried_bytes: u64,
    /// First packet on the wire, last packet queued, first packet that has not left.
    head: u32,
    tail: u32,
    waiting: u32,
    pub(crate) queued_bytes: u32,
    pub(crate) queued_packets: u32,
    /// Node at the far end; hosts are numbered first.
    pub(crate) to: u32,
    pub(crate) carried_packets: u32,
    /// Which limit and marking applies: position in [`Network::rules`].
    rule: u8,
    /// Kind for queue statistics: position in [`Network::seen`].
    kind: u8,
    /// [`DOWN`] and [`LOSSY`].
    faults: u8,
}

const DOWN: u8 = 1;
const LOSSY: u8 = 2;

/// Limit and marking in one unit, so that one comparison decides.
#[derive(Clone, Copy, Debug)]
struct Rule {
    limit: u64,
    limit_in_bytes: bool,
    mark: Mark,
}

#[derive(Clone, Copy, Debug)]
enum Mark {
    Off,
    Packets(u32),
    Bytes(u64),
    Ramp { min: u64, max: u64, probability: f64 },
}

/// Counters that change rarely.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortTally {
    pub(crate) drops: u64,
    pub(crate) marks: u64,
    pub(crate) trims: u64,
}

/// Histogram of bytes found queued: eight buckets per octave.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) tier: u8,
    pub(crate) up: bool,
    counts: Vec<u64>,
    max: u64,
    pub(crate) above_mark: u64,
}

const HISTOGRAM_BUCKETS: usize = 8 * 32;

impl Seen {
    fn new(tier: u8, up: bool) -> Seen {
        Seen { tier, up, counts: vec![0; HISTOGRAM_BUCKETS], max: 0, above_mark: 0 }
    }

    #[inline]
    fn record(&mut self, bytes: u32) {
        self.counts[bucket_of(bytes)] += 1;
        self.max = self.max.max(u64::from(bytes));
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Upper edge of the bucket holding quantile `q`, at most the maximum.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        let rank = (self.count() as f64 * q).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper_edge(bucket).min(self.max);
            }
        }
        self.max
    }
}

#[inline]
fn bucket_of(value: u32) -> usize {
    if value < 8 {
        return value as usize;
    }
    let octave = 31 - value.leading_zeros();
    ((octave as usize - 2) << 3) + ((value >> (octave - 3)) & 7) as usize
}

fn upper_edge(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let (octave, step) = ((bucket >> 3) as u32 + 2, (bucket & 7) as u64);
    (1u64 << octave) + ((step + 1) << (octave - 3)) - 1
}

/// What a port is made from.
pub(crate) struct PortSpec {
    pub(crate) bps: u64,
    pub(crate) delay: u64,
    pub(crate) to: u32,
    /// Host interfaces never drop or mark by themselves.
    pub(crate) from_host: bool,
    pub(crate) tier: u8,
    pub(crate) up: bool,
}

/// All links, all packets, and the events that move them.
pub(crate) struct Network {
    pub(crate) now: u64,
    pub(crate) events: EventQueue,
    pub(crate) arena: Arena,
    pub(crate) ports: Vec<Port>,
    pub(crate) tallies: Vec<PortTally>,
    pub(crate) seen: Vec<Seen>,
    rules: [Rule; 2],
    /// Bytes beyond a full queue that headers may use where packets are trimmed; else 0.
    header_room: u64,
    /// Frames of the controller always find room.
    pub(crate) have_frames_room: bool,
    /// Probability of silent loss, for links that have one, by link.
    loss_probability: Vec<(u32, f64)>,
    pub(crate) dropped: Drops,
    /// Largest random gap after a packet of a host, picoseconds.
    jitter: u64,
    rng: Stream,
    /// Rate estimators, where the balancer reads them.
    pub(crate) sensors: Option<Sensors>,
    /// Traffic classes with flow control, where the run has them: then no queue is plain.
    pub(crate) classes: Option<Classes>,
}

impl Network {
    pub(crate) fn new(
        specs: &[PortSpec],
        switch: &QueueConfig,
        lossless: Option<Lossless>,
        events: EventQueue,
        jitter: u64,
        seed: u64,
    ) -> Network {
        let mut seen: Vec<Seen> = Vec::new();
        let mut ports = Vec::with_capacity(specs.len());
        for spec in specs {
            let kind = seen.iter().position(|s| s.tier == spec.tier && s.up == spec.up).unwrap_or_else(|| {
                seen.push(Seen::new(spec.tier, spec.up));
                seen.len() - 1
            });
            ports.push(Port {
                busy_until: 0,
                ps_per_byte: ps_per_byte(spec.bps),
                delay: spec.delay,
                carried_bytes: 0,
                head: NIL,
                tail: NIL,
                waiting: NIL,
                queued_bytes: 0,
                queued_packets: 0,
                to: spec.to,
                carried_packets: 0,
                rule: u8::from(!spec.from_host),
                kind: kind as u8,
                faults: 0,
            });
        }
        Network {
            now: 0,
            events,
            arena: Arena::new(),
            tallies: vec![PortTally::default(); ports.len()],
            ports,
            seen,
            rules: [
                Rule { limit: u64::MAX, limit_in_bytes: false, mark: Mark::Off },
                Rule::new(switch, lossless.is_some()),
            ],
            header_room: 0,
            have_frames_room: false,
            loss_probability: Vec::new(),
            dropped: Drops::default(),
            jitter,
            rng: Stream::new(seed, "network"),
            sensors: None,
            classes: lossless.map(|rules| Classes::new(rules, specs.len())),
        }
    }

    /// Puts a packet into the queue of a link, or says why it is lost (it is then still alive).
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
            free_at = now.max(free_at) + self.rng.below(self.jitter + 1);
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

    /// Brings a port up to date: what has left its queue is forgotten, and told to its estimator where links are sensed.
    #[inline]
    fn settle(&mut self, link: u32) -> &mut Port {
        let port = &mut self.ports[link as usize];
        match &mut self.sensors {
            None => port.settle(&self.arena, self.now, |_, _| {}),
            Some(sensors) => port.settle(&self.arena, self.now, |bytes, at| sensors.add(link, bytes, at)),
        }
        port
    }

    /// Whether a packet may join: faults, the limit, and marking.
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

    /// A packet whose time of departure is known follows those before it.
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

    /// Full switch queues cut packets to their headers instead of dropping them; `queue_bytes` is their limit.
    pub(crate) fn set_trimming(&mut self, queue_bytes: u64) {
        self.rules[1].limit = queue_bytes;
        self.rules[1].limit_in_bytes = true;
        self.header_room = queue_bytes / 4;
    }

    /// A packet found the queue full: whether it may wait there as a header, or is small enough to wait as it is, or is one
    /// that room is kept for.
    #[cold]
    fn is_cut_to_header(&mut self, link: u32, packet: u32) -> bool {
        let port = &self.ports[link as usize];
        let entry = self.arena.get_mut(packet);
        let size = entry.bytes.min(TRIMMED_BYTES);
        let is_whole = entry.is(DATA) && !entry.is(TRIMMED);
        let room = self.rules[port.rule as usize].limit.saturating_add(self.header_room);
        let has_room = u64::from(port.queued_bytes) + u64::from(size) <= room;
        if self.have_frames_room && entry.is(CONTROL) {
            return true;
        }
        if self.header_room == 0 || !has_room || (!is_whole && entry.bytes > size) {
            return false;
        }
        if is_whole {
            entry.bytes = size;
            entry.flags |= TRIMMED;
            self.tallies[link as usize].trims += 1;
        }
        true
    }

    /// The head packet of a link has reached the far end: answers it and the node there.
    #[inline]
    pub(crate) fn arrive(&mut self, link: u32) -> (u32, u32) {
        let port = &mut self.ports[link as usize];
        let packet = port.head;
        let entry = self.arena.get(packet);
        if port.waiting == packet {
            port.waiting = entry.next;
            port.queued_bytes -= u32::from(entry.bytes);
            port.queued_packets -= 1;
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

    /// What balancers may see of the ports.
    #[inline]
    pub(crate) fn telemetry(&self) -> Telemetry<'_> {
        Telemetry {
            now: self.now,
            arena: &self.arena,
            ports: &self.ports,
            sensors: self.sensors.as_ref(),
            classes: self.classes.as_ref(),
        }
    }

    /// Counts a lost packet and takes it out of the world; answers it.
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
        // A lossy switch makes many lossy links.
        let place = self.loss_probability.binary_search_by_key(&link, |(lossy, _)| *lossy);
        let probability = place.map_or(0.0, |place| self.loss_probability[place].1);
        if self.rng.unit() < probability {
            self.tallies[link as usize].drops += 1;
            return Err(Loss::Random);
        }
        Ok(())
    }

    /// When the transmitter of a link is free; the past if it is, `u64::MAX` while it is paused.
    #[inline]
    pub(crate) fn free_at(&self, link: u32) -> u64 {
        if self.classes.as_ref().is_some_and(|classes| classes.is_paused(link)) {
            return u64::MAX;
        }
        self.ports[link as usize].busy_until
    }

    /// Packets queued at a link now, the one in transmission included.
    pub(crate) fn queued_packets(&mut self, link: u32) -> u32 {
        self.settle(link).queued_packets
    }

    /// Cuts a link: answers the packets lost from its queue and wire.
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

    /// Ends a cut.
    pub(crate) fn mend(&mut self, link: u32) {
        self.ports[link as usize].faults &= !DOWN;
    }

    /// Starts (`Some`) or ends (`None`) silent random loss.
    pub(crate) fn set_loss(&mut self, link: u32, probability: Option<f64>) {
        self.loss_probability.retain(|(l, _)| *l != link);
        let port = &mut self.ports[link as usize];
        port.faults &= !LOSSY;
        if let Some(probability) = probability {
            port.faults |= LOSSY;
            let place = self.loss_probability.partition_point(|(lossy, _)| *lossy < link);
            self.loss_probability.insert(place, (link, probability));
        }
    }

    /// Changes the rate of a link; what is in transmission continues at the new rate.
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

/// Picoseconds a packet takes to leave.
#[inline]
pub(crate) fn serialisation_of(port: &Port, bytes: u16) -> u64 {
    (u64::from(bytes) * port.ps_per_byte) >> RATE_BITS
}

impl Port {
    pub(crate) fn delay(&self) -> u64 {
        self.delay
    }

    pub(crate) fn set_busy_until(&mut self, at: u64) {
        self.busy_until = at;
    }

    /// Forgets the packets that have left the queue by `now`, telling `left` the bytes and the time of each.
    #[inline]
    fn settle(&mut self, arena: &Arena, now: u64, mut left: impl FnMut(u16, u64)) {
        while self.waiting != NIL {
            let packet = arena.get(self.waiting);
            if packet.departs > now {
                return;
            }
            self.queued_bytes -= u32::from(packet.bytes);
            self.queued_packets -= 1;
            self.waiting = packet.next;
            left(packet.bytes, packet.departs);
        }
    }
}

impl Rule {
    fn new(config: &QueueConfig, is_lossless: bool) -> Rule {
        let (limit, limit_in_bytes) = match config.limit {
            _ if is_lossless => (u64::MAX, false),
            QueueLimit::Packets(packets) => (u64::from(packets), false),
            QueueLimit::Bytes(bytes) => (bytes, true),
        };
        let mark = match config.marking {
            Marking::Off => Mark::Off,
            Marking::Step(QueueLimit::Packets(packets)) => Mark::Packets(packets),
            Marking::Step(QueueLimit::Bytes(bytes)) => Mark::Bytes(bytes),
            Marking::Ramp { min_bytes, max_bytes, max_probability } => {
                Mark::Ramp { min: min_bytes, max: max_bytes, probability: max_probability }
            }
        };
        Rule { limit, limit_in_bytes, mark }
    }

    /// Whether a packet that finds the port like this is to be marked.
    #[inline]
    fn is_marking(&self, port: &Port, rng: &mut Stream) -> bool {
        match self.mark {
            Mark::Off => false,
            Mark::Packets(threshold) => port.queued_packets >= threshold,
            Mark::Bytes(threshold) => u64::from(port.queued_bytes) >= threshold,
            Mark::Ramp { min, max, probability } => {
                let queued = u64::from(port.queued_bytes);
                if queued < min {
                    return false;
                }
                queued >= max || rng.unit() < probability * (queued - min) as f64 / (max - min) as f64
            }
        }
    }
}

/// Picoseconds per byte as fixed point; exact for the usual rates.
fn ps_per_byte(bps: u64) -> u64 {
    let exact = (8_000_000_000_000u128 << RATE_BITS) / u128::from(bps.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// Serialisation time at `bps`, exactly as the ports compute it.
pub(crate) fn serialisation_ps(bytes: u64, bps: u64) -> u64 {
    ((u128::from(bytes) * u128::from(ps_per_byte(bps))) >> RATE_BITS) as u64
}

/// A read-only view of the queues for balancers.
pub(crate) struct Telemetry<'a> {
    pub(crate) now: u64,
    pub(crate) arena: &'a Arena,
    pub(crate) ports: &'a [Port],
    pub(crate) sensors: Option<&'a Sensors>,
    pub(crate) classes: Option<&'a Classes>,
}

impl Telemetry<'_> {
    /// Bytes that have left the queue of a port although it has not been settled since.
    #[inline]
    fn unsettled(&self, port: &Port) -> u64 {
        let (mut bytes, mut at) = (0, port.waiting);
        while at != NIL && self.arena.get(at).departs <= self.now {
            bytes += u64::from(self.arena.get(at).bytes);
            at = self.arena.get(at).next;
        }
        bytes
    }
}

impl PortTelemetry for Telemetry<'_> {
    fn queued_bytes(&self, link: LinkIx) -> u64 {
        let port = &self.ports[link.ix()];
        u64::from(port.queued_bytes) - self.unsettled(port)
    }

    fn drain_bytes(&self, link: LinkIx, priority: u8) -> u64 {
        self.classes.map_or_else(|| self.queued_bytes(link), |classes| classes.drain_bytes(link.0, priority))
    }

    fn utilisation(&self, link: LinkIx) -> f64 {
        self.sensors
            .map_or(0.0, |sensors| sensors.utilisation(link.0, self.now, self.unsettled(&self.ports[link.ix()])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_one_cache_line() {
        assert_eq!(size_of::<Port>(), 64);
    }

    #[test]
    fn serialisation_is_exact_for_common_rates() {
        for (gbps, ps) in [(1, 12_000_000), (10, 1_200_000), (40, 300_000), (100, 120_000), (400, 30_000)] {
            assert_eq!(serialisation_ps(1500, gbps * 1_000_000_000), ps);
        }
        assert_eq!(serialisation_ps(1500, 1_000_000), 12_000_000_000);
    }

    #[test]
    fn histogram_quantiles_are_within_an_eighth() {
        let mut seen = Seen::new(1, true);
        for value in 0..10_000u32 {
            seen.record(value);
        }
        for (q, exact) in [(0.5, 5_000.0), (0.99, 9_900.0)] {
            let got = seen.quantile(q) as f64;
            assert!(got >= exact - 1.0 && got <= exact * 1.13, "{q}: {got}");
        }
        assert_eq!(seen.max(), 9_999);
        for value in [0, 7, 8, 9, 1_000, u32::MAX] {
            assert!(upper_edge(bucket_of(value)) >= u64::from(value));
        }
    }
}
