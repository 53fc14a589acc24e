//! Ports with a control class: acknowledgements, handshakes, trimmed headers and control packets leave
//! before waiting data; or only control packets, if the balancer has messages between switches.
//!
//! A plain port knows departure times when packets join. Here a control packet may still overtake, so
//! a port decides what it sends next only when its transmitter is free. It does so on demand: code
//! that reads or changes the port first catches up with the transmissions that have begun by then. The
//! arrival of a packet does that too, never later than the departure of the next one from the wire,
//! so a hop still costs one event. A transmission is never interrupted.

use super::network::{Loss, Network};
use super::port::serialisation_of;
use crate::packet::{ACK, Arena, CONTROL, Packet, SYN, TRIMMED};
use crate::queue::NIL;

pub(super) const DATA_LANE: usize = 0;
pub(super) const CONTROL_LANE: usize = 1;

/// Packets of one lane of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    first: u32,
    last: u32,
    /// With the packet in transmission.
    pub(super) bytes: u32,
    pub(super) packets: u32,
}

impl Lane {
    const EMPTY: Lane = Lane { first: NIL, last: NIL, bytes: 0, packets: 0 };

    fn push(&mut self, packet: u32, arena: &mut Arena) {
        self.bytes += u32::from(arena.get(packet).bytes);
        self.packets += 1;
        match std::mem::replace(&mut self.last, packet) {
            NIL => self.first = packet,
            before => arena.get_mut(before).next = packet,
        }
    }

    /// Takes the first packet for transmission; it still counts.
    fn pop(&mut self, arena: &mut Arena) -> Option<u32> {
        let packet = Some(self.first).filter(|first| *first != NIL)?;
        let entry = arena.get_mut(packet);
        self.first = std::mem::replace(&mut entry.next, NIL);
        if self.first == NIL {
            self.last = NIL;
        }
        Some(packet)
    }
}

/// Flags of the packets of a control class: all but data, or control packets only.
pub(crate) const ALL_BUT_DATA: u16 = ACK | SYN | CONTROL | TRIMMED;
pub(crate) const ONLY_CONTROL: u16 = CONTROL;

#[inline]
pub(super) fn lane_of(packet: &Packet, control_flags: u16) -> usize {
    if packet.is(control_flags) { CONTROL_LANE } else { DATA_LANE }
}

/// Lanes of the ports of switches, by link. Interfaces of hosts have none: they offer a data packet
/// only to a free transmitter.
pub(crate) struct Lanes {
    ports: Vec<[Lane; 2]>,
}

impl Lanes {
    pub(super) fn new(links: usize) -> Lanes {
        Lanes { ports: vec![[Lane::EMPTY; 2]; links] }
    }

    /// Returns the packets that wait at a link, control packets first.
    fn waiting<'a>(&self, link: u32, arena: &'a Arena) -> impl Iterator<Item = (u32, &'a Packet)> + use<'a> {
        let [data, control] = self.ports[link as usize];
        [control.first, data.first].into_iter().flat_map(|first| {
            std::iter::successors(arena.find(first).map(|entry| (first, entry)), |(_, entry)| {
                arena.find(entry.next).map(|next| (entry.next, next))
            })
        })
    }
}

impl Network {
    /// Gives the ports of switches a control class for packets with one of these flags, whose queue has
    /// this limit.
    pub(crate) fn set_control_class(&mut self, flags: u16, queue_bytes: u64, trims: bool) {
        self.lanes = Some(Lanes::new(self.ports.len()));
        self.is_fifo = false;
        self.admission.set_control_class(flags, queue_bytes, trims);
    }

    #[inline]
    pub(super) fn has_lanes(&self, link: u32) -> bool {
        self.lanes.is_some() && self.ports[link as usize].rule != 0
    }

    pub(super) fn enqueue_by_lane(&mut self, link: u32, packet: u32) -> Result<(), Loss> {
        self.settle_lanes(link);
        let Network { now, arena, ports, admission, lanes: Some(lanes), .. } = self else { return Err(Loss::Queue) };
        let (port, lanes) = (&mut ports[link as usize], &mut lanes.ports[link as usize]);
        let entry = arena.get_mut(packet);
        let lane = admission.admit_to_lane(*now, link, port, *lanes, entry)?;
        entry.next = NIL;
        port.queued_bytes += u32::from(entry.bytes);
        port.queued_packets += 1;
        lanes[lane].push(packet, arena);
        if port.waiting == NIL {
            self.transmit_next(link, self.now);
        }
        Ok(())
    }

    /// Begins the transmission of the next packet; returns whether there was one.
    fn transmit_next(&mut self, link: u32, begin: u64) -> bool {
        let Network { arena, ports, lanes: Some(lanes), .. } = self else { return false };
        let [data, control] = &mut lanes.ports[link as usize];
        let Some(packet) = control.pop(arena).or_else(|| data.pop(arena)) else { return false };
        let port = &mut ports[link as usize];
        let entry = arena.get_mut(packet);
        entry.departs = begin + serialisation_of(port, entry.bytes);
        port.busy_until = entry.departs;
        port.waiting = packet;
        self.put_on_wire(link, packet);
        true
    }

    /// Catches up: removes what has departed from the queue, and begins what the transmitter has begun
    /// since.
    pub(super) fn settle_lanes(&mut self, link: u32) {
        loop {
            let Network { now, arena, ports, admission, lanes: Some(lanes), .. } = self else { return };
            let port = &mut ports[link as usize];
            if port.waiting != NIL {
                let entry = arena.get(port.waiting);
                if entry.departs > *now {
                    return;
                }
                let lane = &mut lanes.ports[link as usize][lane_of(entry, admission.control_flags)];
                lane.bytes -= u32::from(entry.bytes);
                lane.packets -= 1;
                admission.settle(*now, link, port, arena);
            }
            let begin = port.busy_until;
            if !self.transmit_next(link, begin) {
                return;
            }
        }
    }

    /// Returns size and departure time of the waiting packets that have left by now, although the port
    /// has not caught up.
    pub(super) fn departed_from_lanes(&self, link: u32) -> impl Iterator<Item = (u16, u64)> + use<'_> {
        let port = &self.ports[link as usize];
        let waiting = self.lanes.iter().flat_map(move |lanes| lanes.waiting(link, &self.arena));
        let times = waiting.scan(port.busy_until, move |free_at, (_, entry)| {
            *free_at += serialisation_of(port, entry.bytes);
            Some((entry.bytes, *free_at))
        });
        times.take_while(|(_, departs)| *departs <= self.now)
    }

    /// Returns the time that the waiting packets of a link take, picoseconds.
    pub(super) fn lanes_drain_time(&self, link: u32) -> u64 {
        let port = &self.ports[link as usize];
        let waiting = self.lanes.iter().flat_map(|lanes| lanes.waiting(link, &self.arena));
        waiting.map(|(_, entry)| serialisation_of(port, entry.bytes)).sum()
    }

    /// Adds the packets that wait at a cut link to `lost`.
    pub(super) fn flush_lanes(&mut self, link: u32, lost: &mut Vec<u32>) {
        let Some(lanes) = &mut self.lanes else { return };
        lost.extend(lanes.waiting(link, &self.arena).map(|(packet, _)| packet));
        lanes.ports[link as usize] = [Lane::EMPTY; 2];
    }
}
