//! Admission of a packet to an egress queue: its limit, marks, trimming, faults, and the statistics of
//! what packets find there.

use net::RandomStream;

use super::histogram::QueueHistogram;
use super::network::Loss;
use super::port::{DOWN, LOSSY, Port};
use super::queue_rule::Rule;
use super::sensors::Sensors;
use crate::outcome::LinkRecord;
use crate::packet::{Arena, CE, CONTROL, DATA, ECT, Packet, TRIMMED};
use crate::scenario::{Marking, TRIMMED_BYTES};

pub(crate) struct Admission {
    /// Rules of host interfaces, which never drop or mark on their own, and of switches.
    rules: [Rule; 2],
    /// Bytes above a full queue that headers may use if packets are trimmed; else 0.
    header_allowance: u64,
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
    pub(super) fn new(queue: Rule, seen: Vec<QueueHistogram>, links: usize, jitter: u64, seed: u64) -> Admission {
        Admission {
            rules: [Rule { limit: u64::MAX, limit_in_bytes: false, mark: Marking::Off }, queue],
            header_allowance: 0,
            reserves_control_queue: false,
            seen,
            tallies: vec![LinkRecord::default(); links],
            sensors: None,
            loss_probability: Vec::new(),
            jitter,
            random: LinkStreams { seed, streams: Vec::new() },
        }
    }

    /// Makes switch queues above `queue_bytes` cut packets to their headers, not drop them.
    pub(super) fn set_trimming(&mut self, queue_bytes: u64) {
        self.rules[1].limit = queue_bytes;
        self.rules[1].limit_in_bytes = true;
        self.header_allowance = queue_bytes / 4;
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
        let rule = &self.rules[usize::from(port.rule != 0)];
        let occupancy = if rule.limit_in_bytes {
            u64::from(port.queued_bytes) + u64::from(packet.bytes)
        } else {
            u64::from(port.queued_packets) + 1
        };
        if occupancy > rule.limit && !self.is_cut_to_header(link, port, packet) {
            self.tallies[link as usize].drops += 1;
            return Err(Loss::Queue);
        }
        if let Some(sensors) = &self.sensors
            && sensors.is_sensed(link)
        {
            packet.note_utilisation(sensors.reading(link, now));
        }
        if port.rule != 0 {
            let seen = &mut self.seen[port.kind as usize];
            seen.record(port.queued_bytes);
            if self.rules[1].is_marking(port, || self.random.of(link).next_f64()) {
                seen.above_mark += 1;
                if packet.flags & ECT != 0 {
                    packet.flags |= CE;
                    self.tallies[link as usize].marks += 1;
                }
            }
        }
        Ok(())
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

    /// Returns whether a packet may join a full queue: cut, small, or with reserved space.
    #[cold]
    fn is_cut_to_header(&mut self, link: u32, port: &Port, packet: &mut Packet) -> bool {
        let size = packet.bytes.min(TRIMMED_BYTES);
        let is_whole = packet.is(DATA) && !packet.is(TRIMMED);
        let room = self.rules[usize::from(port.rule != 0)].limit.saturating_add(self.header_allowance);
        let has_room = u64::from(port.queued_bytes) + u64::from(size) <= room;
        if self.reserves_control_queue && packet.is(CONTROL) {
            return true;
        }
        if self.header_allowance == 0 || !has_room || (!is_whole && packet.bytes > size) {
            return false;
        }
        if is_whole {
            packet.bytes = size;
            packet.flags |= TRIMMED;
            self.tallies[link as usize].trims += 1;
        }
        true
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
