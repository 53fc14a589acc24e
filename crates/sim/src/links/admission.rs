//! Admission of a packet to an egress queue: its limit, marks, trimming, faults, and the statistics of
//! what packets find there.

use net::RandomStream;

use super::histogram::QueueHistogram;
use super::lanes::{CONTROL_LANE, DATA_LANE, Lane, lane_of};
use super::network::Loss;
use super::port::{DOWN, LOSSY, Port};
use super::queue_rule::{Queued, Rule};
use super::sensors::Sensors;
use crate::outcome::LinkRecord;
use crate::packet::{Arena, CE, CONTROL, ECT, Packet, TRIMMED};
use crate::scenario::TRIMMED_BYTES;

pub(crate) struct Admission {
    /// Rules of ports: the first of host interfaces, which never drop or mark on their own; the others
    /// of ports of switches, by rate. As many as a port can name, so that no index needs a check.
    rules: Box<[Rule; 256]>,
    /// Flags of the packets of the control class, and limit of its queues, if ports have them.
    pub(super) control_flags: u16,
    control_limit: u64,
    /// Whether a full queue cuts packets to their headers instead of dropping them.
    trims: bool,
    /// Whether packets of the control plane are accepted by full queues.
    pub(crate) reserves_control_queue: bool,
    /// Queue lengths that packets found, by kind of port.
    pub(crate) seen: Vec<QueueHistogram>,
    /// Counters that change rarely, kept out of the cache lines of ports.
    pub(crate) tallies: Vec<LinkRecord>,
    /// Rate estimators; `None` if the balancer does not read them.
    pub(crate) sensors: Option<Sensors>,
    /// Probability of silent loss by link, sorted by link; only links that have one.
    loss_probability: Vec<(u32, f64)>,
    /// Maximum random gap after a packet of a host, picoseconds.
    jitter: u64,
    random: LinkStreams,
}

/// A random stream for each link that draws: no link's draws depend on those of another.
struct LinkStreams {
    seed: u64,
    streams: Vec<Option<RandomStream>>,
}

impl LinkStreams {
    #[inline]
    fn of(&mut self, link: u32) -> &mut RandomStream {
        let ix = link as usize;
        if self.streams.len() <= ix {
            self.streams.resize(ix + 1, None);
        }
        self.streams[ix].get_or_insert_with(|| RandomStream::new(self.seed, &format!("link {link}")))
    }
}

impl Admission {
    pub(super) fn new(queues: &[Rule], seen: Vec<QueueHistogram>, links: usize, jitter: u64, seed: u64) -> Admission {
        Admission {
            rules: Box::new(std::array::from_fn(|ix| {
                let queue = ix.checked_sub(1).and_then(|ix| queues.get(ix));
                *queue.unwrap_or(&Rule::UNLIMITED)
            })),
            control_flags: 0,
            control_limit: 0,
            trims: false,
            reserves_control_queue: false,
            seen,
            tallies: vec![LinkRecord::default(); links],
            sensors: None,
            loss_probability: Vec::new(),
            jitter,
            random: LinkStreams { seed, streams: Vec::new() },
        }
    }

    /// Limits the queues of the control class. With `trims`, packets above the limit of those of data
    /// are cut to their headers, not dropped.
    pub(super) fn set_control_class(&mut self, flags: u16, queue_bytes: u64, trims: bool) {
        (self.control_flags, self.control_limit, self.trims) = (flags, queue_bytes, trims);
    }

    /// Removes the packets that have departed from a queue, and reports them to the estimator.
    #[inline(always)]
    pub(super) fn settle(&mut self, now: u64, link: u32, port: &mut Port, arena: &Arena) {
        match &mut self.sensors {
            None => port.settle(arena, now, |_, _| {}),
            Some(sensors) => port.settle(arena, now, |bytes, at| sensors.add(link, bytes, at)),
        }
    }

    /// Decides whether a packet may join a queue, whose departed packets have been removed, and marks it.
    #[inline(always)]
    pub(super) fn admit(&mut self, now: u64, link: u32, port: &Port, packet: &mut Packet) -> Result<(), Loss> {
        if port.faults != 0 {
            self.check_faults(link, port.faults)?;
        }
        let queued = Queued { bytes: port.queued_bytes, packets: port.queued_packets };
        let rule = &self.rules[usize::from(port.rule)];
        if rule.is_full(queued, packet.bytes) && !(self.reserves_control_queue && packet.is(CONTROL)) {
            self.tallies[link as usize].drops += 1;
            return Err(Loss::Queue);
        }
        self.note_utilisation(now, link, packet);
        if port.rule != 0 {
            self.mark(link, port, queued, packet);
        }
        Ok(())
    }

    /// The same at a port of a switch with a control class; returns the lane of the packet.
    pub(super) fn admit_to_lane(
        &mut self,
        now: u64,
        link: u32,
        port: &Port,
        lanes: [Lane; 2],
        packet: &mut Packet,
    ) -> Result<usize, Loss> {
        if port.faults != 0 {
            self.check_faults(link, port.faults)?;
        }
        let [data, control] = lanes.map(|lane| Queued { bytes: lane.bytes, packets: lane.packets });
        let mut lane = lane_of(packet, self.control_flags);
        if lane == DATA_LANE && self.rules[usize::from(port.rule)].is_full(data, packet.bytes) {
            if !self.trims {
                self.tallies[link as usize].drops += 1;
                return Err(Loss::Queue);
            }
            packet.bytes = packet.bytes.min(TRIMMED_BYTES);
            packet.flags |= TRIMMED;
            self.tallies[link as usize].trims += 1;
            lane = CONTROL_LANE;
        }
        let is_full = u64::from(control.bytes) + u64::from(packet.bytes) > self.control_limit;
        if lane == CONTROL_LANE && is_full && !(self.reserves_control_queue && packet.is(CONTROL)) {
            self.tallies[link as usize].drops += 1;
            return Err(Loss::Queue);
        }
        self.note_utilisation(now, link, packet);
        if lane == DATA_LANE {
            self.mark(link, port, data, packet);
        }
        Ok(lane)
    }

    #[inline(always)]
    fn note_utilisation(&self, now: u64, link: u32, packet: &mut Packet) {
        if let Some(sensors) = &self.sensors
            && sensors.is_stamped(link)
        {
            packet.note_utilisation(sensors.reading(link, now));
        }
    }

    /// Records the queue that a packet finds at a switch, and marks the packet if the queue is long.
    #[inline(always)]
    fn mark(&mut self, link: u32, port: &Port, queued: Queued, packet: &mut Packet) {
        let seen = &mut self.seen[port.kind as usize];
        seen.record(queued.bytes);
        if self.rules[usize::from(port.rule)].is_marking(queued, || self.random.of(link).next_f64()) {
            seen.above_mark += 1;
            if packet.flags & ECT != 0 {
                packet.flags |= CE;
                self.tallies[link as usize].marks += 1;
            }
        }
    }

    /// Returns when the transmission of a packet that joins a FIFO queue begins.
    #[inline(always)]
    pub(super) fn transmission_start(&mut self, now: u64, link: u32, port: &Port) -> u64 {
        let free_at = now.max(port.busy_until);
        if self.jitter > 0 && port.rule == 0 {
            free_at + self.random.of(link).next_below(self.jitter + 1)
        } else {
            free_at
        }
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
        if self.random.of(link).next_f64() < probability {
            self.tallies[link as usize].drops += 1;
            return Err(Loss::Random);
        }
        Ok(())
    }

    pub(super) fn set_loss(&mut self, link: u32, port: &mut Port, probability: Option<f64>) {
        self.loss_probability.retain(|(other, _)| *other != link);
        port.faults &= !LOSSY;
        if let Some(probability) = probability {
            port.faults |= LOSSY;
            let position = self.loss_probability.partition_point(|(lossy, _)| *lossy < link);
            self.loss_probability.insert(position, (link, probability));
        }
    }
}
