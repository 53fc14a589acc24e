//! Ports with traffic classes, strict priority and priority flow control (IEEE 802.1Qbb).
//!
//! A plain port knows departure times when packets join. Here a more urgent packet may overtake, or
//! the neighbour may pause the port, so every transmission has an event.
//!
//! Buffers are counted per input link and class, as in switches. When more than `pause_above` bytes
//! from a link are buffered, its sender must pause that class until `resume_below`. A pause takes
//! effect after the time of its 64 bytes and of the cable. The headroom for packets in flight is
//! assumed to suffice, so nothing is dropped for lack of space. Pauses can deadlock in a cycle
//! where routes form one (not in up-and-down fabrics). As in real switches, a watchdog ends the
//! deadlock: it drops what has been paused for 200 ms.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use balance::Lossless;

use crate::links::network::{Loss, Network};
use crate::links::port::serialisation_of;
use crate::packet::{PRIORITY_SHIFT, Packet};
use crate::queue::NIL;

/// First of the components that represent transmitters becoming free.
pub(crate) const TRANSMITTER: u32 = 1 << 30;
pub(crate) const PAUSE: u32 = NIL - 5;

const CLASSES: usize = 8;
const PAUSE_BYTES: u16 = 64;
/// Maximum pause of a class, picoseconds, before its packets are dropped, as in switches.
const WATCHDOG: u64 = 200_000_000_000;
const IDLE: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Transmitter {
    first: [u32; CLASSES],
    last: [u32; CLASSES],
    bytes: [u32; CLASSES],
    /// Classes the far end has paused, one bit each, and since when.
    paused: u8,
    paused_since: [u64; CLASSES],
    /// End of the current transmission, or [`IDLE`].
    until: u64,
    /// Packet in transmission: bytes, class, input link.
    sending: (u16, u8, u32),
}

/// Bytes buffered at the far end of a link that arrived over it.
#[derive(Clone, Debug, Default)]
struct Arrivals {
    bytes: [u32; CLASSES],
    /// Classes whose sender has been asked to pause.
    pausing: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PauseEvent {
    Pause,
    Resume,
    Watchdog,
}

/// Time, link, its serial number for this link, class, event.
type Timed = Reverse<(u64, u32, u32, u8, PauseEvent)>;

/// A pause or its end on the way to the sender of a link in another partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseFrame {
    pub(crate) link: u32,
    at: u64,
    class: u8,
    is_pause: bool,
}

pub(crate) struct PfcPorts {
    rules: Lossless,
    transmitters: Vec<Transmitter>,
    arrivals: Vec<Arrivals>,
    /// Input link of each packet of the arena, or [`NIL`].
    came_over: Vec<u32>,
    frames: BinaryHeap<Timed>,
    /// Number of the next event of each link.
    serials: Vec<u32>,
    /// Frames for other partitions, since the last crossing.
    crossing: Vec<PauseFrame>,
    pub(crate) pauses_sent: u64,
}

impl PfcPorts {
    pub(crate) fn new(rules: Lossless, links: usize) -> PfcPorts {
        let transmitter = Transmitter {
            first: [NIL; CLASSES],
            last: [NIL; CLASSES],
            bytes: [0; CLASSES],
            paused: 0,
            paused_since: [0; CLASSES],
            until: IDLE,
            sending: (0, 0, NIL),
        };
        PfcPorts {
            rules,
            transmitters: vec![transmitter; links],
            arrivals: vec![Arrivals::default(); links],
            came_over: Vec::new(),
            frames: BinaryHeap::new(),
            serials: vec![0; links],
            crossing: Vec::new(),
            pauses_sent: 0,
        }
    }

    fn class_of(&self, packet: &Packet) -> u8 {
        ((packet.flags >> PRIORITY_SHIFT) as u8).min(self.rules.priorities - 1)
    }

    pub(crate) fn note_arrival(&mut self, packet: u32, link: u32) {
        if self.came_over.len() <= packet as usize {
            self.came_over.resize(packet as usize + 1, NIL);
        }
        self.came_over[packet as usize] = link;
    }

    /// Returns the bytes that leave before a packet of this priority.
    pub(crate) fn drain_bytes(&self, link: u32, priority: u8) -> u64 {
        let transmitter = &self.transmitters[link as usize];
        let from = usize::from(priority.min(self.rules.priorities - 1));
        let queued: u64 = transmitter.bytes[from..].iter().map(|bytes| u64::from(*bytes)).sum();
        let (bytes, ..) = transmitter.sending;
        queued + if transmitter.until == IDLE { 0 } else { u64::from(bytes) }
    }

    fn schedule(&mut self, at: u64, link: u32, class: u8, frame: PauseEvent) {
        let serial = &mut self.serials[link as usize];
        *serial = serial.wrapping_add(1);
        self.frames.push(Reverse((at, link, *serial, class, frame)));
    }

    pub(crate) fn is_paused(&self, link: u32) -> bool {
        self.transmitters[link as usize].paused != 0
    }
}

impl Network {
    pub(crate) fn enqueue_by_class(&mut self, link: u32, packet: u32) -> Result<(), Loss> {
        self.admit(link, packet)?;
        let Some(classes) = &mut self.classes else { return Err(Loss::Queue) };
        let entry = self.arena.get_mut(packet);
        let class = classes.class_of(entry);
        let bytes = entry.bytes;
        entry.next = NIL;
        let queue = &mut classes.transmitters[link as usize];
        let at = usize::from(class);
        queue.bytes[at] += u32::from(bytes);
        match std::mem::replace(&mut queue.last[at], packet) {
            NIL => queue.first[at] = packet,
            before => self.arena.get_mut(before).next = packet,
        }
        let port = &mut self.ports[link as usize];
        port.queued_bytes += u32::from(bytes);
        port.queued_packets += 1;
        let origin = self.origin_at(link, packet);
        self.buffer(origin, class, i64::from(bytes));
        self.transmit(link);
        Ok(())
    }

    /// Notes that a packet begins its way here: its place may have been that of one that arrived.
    #[inline]
    pub(crate) fn note_origin(&mut self, packet: u32) {
        if let Some(classes) = &mut self.classes {
            classes.note_arrival(packet, NIL);
        }
    }

    /// Returns the input link of a packet at a forwarding node before `link`; else [`NIL`].
    fn origin_at(&self, link: u32, packet: u32) -> u32 {
        let Some(classes) = &self.classes else { return NIL };
        let origin = classes.came_over.get(packet as usize).copied().unwrap_or(NIL);
        let here = self.ports[(link ^ 1) as usize].to;
        if origin != NIL && self.ports[origin as usize].to == here { origin } else { NIL }
    }

    fn transmit(&mut self, link: u32) {
        let now = self.now;
        let Some(classes) = &mut self.classes else { return };
        let queue = &mut classes.transmitters[link as usize];
        if queue.until != IDLE {
            return;
        }
        let may_go = |class: &usize| queue.first[*class] != NIL && queue.paused & (1 << class) == 0;
        let Some(class) = (0..CLASSES).rev().find(may_go) else { return };
        let packet = queue.first[class];
        let entry = self.arena.get_mut(packet);
        queue.first[class] = entry.next;
        if entry.next == NIL {
            queue.last[class] = NIL;
        }
        queue.bytes[class] -= u32::from(entry.bytes);
        let port = &mut self.ports[link as usize];
        let departs = now + serialisation_of(port, entry.bytes);
        entry.departs = departs;
        entry.next = NIL;
        let bytes = entry.bytes;
        queue.until = departs;
        port.busy_until = departs;
        self.put_on_wire(link, packet);
        self.events.push(departs, TRANSMITTER + link);
        let origin = self.origin_at(link, packet);
        if let Some(classes) = &mut self.classes {
            classes.transmitters[link as usize].sending = (bytes, class as u8, origin);
        }
    }

    /// Ends a transmission, unless the link was cut in the meantime.
    pub(crate) fn on_transmitted(&mut self, link: u32) {
        let now = self.now;
        let Some(classes) = &mut self.classes else { return };
        let queue = &mut classes.transmitters[link as usize];
        if queue.until != now {
            return;
        }
        queue.until = IDLE;
        let (bytes, class, origin) = queue.sending;
        self.ports[link as usize].dequeue(bytes);
        if let Some(sensors) = &mut self.admission.sensors {
            sensors.add(link, bytes, now);
        }
        self.buffer(origin, class, -i64::from(bytes));
        self.transmit(link);
    }

    /// Counts bytes buffered or released that came over a link; pauses or resumes its sender.
    fn buffer(&mut self, origin: u32, class: u8, change: i64) {
        let Some(classes) = &mut self.classes else { return };
        if origin == NIL {
            return;
        }
        let arrivals = &mut classes.arrivals[origin as usize];
        let bytes = &mut arrivals.bytes[usize::from(class)];
        *bytes = (i64::from(*bytes) + change) as u32;
        let (bytes, bit) = (*bytes, 1 << class);
        let is_pausing = arrivals.pausing & bit != 0;
        let wants_pause = bytes > classes.rules.pause_above_bytes;
        let wants_end = bytes <= classes.rules.resume_below_bytes;
        if (is_pausing && wants_end) || (!is_pausing && wants_pause) {
            arrivals.pausing ^= bit;
            classes.pauses_sent += u64::from(wants_pause);
            self.send_pause(origin, class, wants_pause);
        }
    }

    fn send_pause(&mut self, link: u32, class: u8, is_pause: bool) {
        let back = &self.ports[(link ^ 1) as usize];
        let at = self.now + serialisation_of(back, PAUSE_BYTES) + back.delay;
        let frame = PauseFrame { link, at, class, is_pause };
        let is_remote = back.remote != 0;
        match &mut self.classes {
            Some(classes) if is_remote => classes.crossing.push(frame),
            _ => self.take_frame(frame),
        }
    }

    /// Schedules what a pause frame does to the sender of a link, which is in this partition.
    pub(crate) fn take_frame(&mut self, frame: PauseFrame) {
        let Some(classes) = &mut self.classes else { return };
        let event = if frame.is_pause { PauseEvent::Pause } else { PauseEvent::Resume };
        classes.schedule(frame.at, frame.link, frame.class, event);
        self.events.push(frame.at, PAUSE);
    }

    /// Returns the pause frames for other partitions, each with its partition, and forgets them.
    pub(crate) fn crossing_frames(&mut self) -> impl Iterator<Item = (usize, PauseFrame)> {
        let Network { classes, ports, border, .. } = self;
        let frames = classes.iter_mut().flat_map(|classes| classes.crossing.drain(..));
        frames.map(|frame| {
            border.note_event(frame.at);
            (usize::from(ports[(frame.link ^ 1) as usize].remote) - 1, frame)
        })
    }

    /// Applies the next pause that begins or ends; drops packets into `lost`. Returns its link.
    pub(crate) fn take_pause(&mut self, lost: &mut Vec<u32>) -> Option<u32> {
        let now = self.now;
        let classes = self.classes.as_mut()?;
        let Reverse((at, link, _, class, frame)) = classes.frames.peek().copied()?;
        if at > now {
            return None;
        }
        classes.frames.pop();
        let bit = 1 << class;
        let queue = &mut classes.transmitters[link as usize];
        let since = &mut queue.paused_since[usize::from(class)];
        match frame {
            PauseEvent::Pause if queue.paused & bit == 0 => {
                queue.paused |= bit;
                *since = now;
                classes.schedule(now + WATCHDOG, link, class, PauseEvent::Watchdog);
                self.events.push(now + WATCHDOG, PAUSE);
            }
            PauseEvent::Resume => {
                queue.paused &= !bit;
                self.transmit(link);
            }
            PauseEvent::Watchdog if queue.paused & bit != 0 && *since + WATCHDOG == now => {
                *since = now;
                classes.schedule(now + WATCHDOG, link, class, PauseEvent::Watchdog);
                self.events.push(now + WATCHDOG, PAUSE);
                self.flush_class(link, class, lost);
            }
            _ => {}
        }
        Some(link)
    }

    fn flush_class(&mut self, link: u32, class: u8, lost: &mut Vec<u32>) {
        let Some(classes) = &mut self.classes else { return };
        let queue = &mut classes.transmitters[link as usize];
        let ix = usize::from(class);
        let mut at = std::mem::replace(&mut queue.first[ix], NIL);
        (queue.last[ix], queue.bytes[ix]) = (NIL, 0);
        while at != NIL {
            let (next, bytes) = (self.arena.get(at).next, self.arena.get(at).bytes);
            let origin = self.origin_at(link, at);
            self.buffer(origin, class, -i64::from(bytes));
            self.ports[link as usize].dequeue(bytes);
            lost.push(at);
            at = next;
        }
    }

    /// Adds the packets queued at a cut link to `lost`, not those on the wire; ends its pauses.
    pub(crate) fn flush_classes(&mut self, link: u32, lost: &mut Vec<u32>) {
        let Some(classes) = &mut self.classes else { return };
        let queue = &mut classes.transmitters[link as usize];
        let was_sending = std::mem::replace(&mut queue.until, IDLE) != IDLE;
        let (bytes, class, origin) = queue.sending;
        queue.paused = 0;
        classes.arrivals[link as usize].pausing = 0;
        // Frames on their way back are lost with the link.
        classes.frames.retain(|Reverse((_, framed, ..))| *framed != link);
        if was_sending {
            self.ports[link as usize].dequeue(bytes);
            self.buffer(origin, class, -i64::from(bytes));
        }
        for class in 0..CLASSES as u8 {
            self.flush_class(link, class, lost);
        }
    }
}
