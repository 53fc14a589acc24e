//! Packets on their way between partitions: a box for each pair and for even and odd steps, so that one
//! partition may fill the next box while another one still empties the last.

use std::mem;
use std::sync::Mutex;

use super::steps::lock;
use crate::engine::Engine;
use crate::links::border::Crossing;
use crate::links::pfc::PauseFrame;

pub(super) struct Crossings {
    partitions: usize,
    boxes: Vec<Mutex<Parcel>>,
}

/// Packets and pause frames from one partition to another.
#[derive(Debug, Default)]
struct Parcel {
    packets: Vec<Crossing>,
    frames: Vec<PauseFrame>,
}

impl Parcel {
    fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.frames.is_empty()
    }
}

/// What one partition sends in a step, by receiving partition.
#[derive(Debug)]
pub(super) struct Departures {
    boxes: Vec<Parcel>,
}

impl Crossings {
    pub(super) fn new(partitions: usize) -> Crossings {
        Crossings { partitions, boxes: (0..2 * partitions * partitions).map(|_| Mutex::default()).collect() }
    }

    /// Returns empty boxes for the packets of one partition.
    pub(super) fn departures(&self) -> Departures {
        Departures { boxes: (0..self.partitions).map(|_| Parcel::default()).collect() }
    }

    fn exchange(&self, step: usize, from: usize, to: usize, content: &mut Parcel) {
        let place = ((step % 2) * self.partitions + from) * self.partitions + to;
        mem::swap(content, &mut *lock(&self.boxes[place]));
    }

    /// Takes the packets that have departed from a partition. `space` is kept for the next step.
    pub(super) fn send(&self, step: usize, engine: &mut Engine<'_>, space: &mut Departures) {
        let from = usize::from(engine.partition);
        engine.network.take_departed(|to, crossing| space.boxes[to].packets.push(crossing));
        for (to, frame) in engine.network.crossing_frames() {
            space.boxes[to].frames.push(frame);
        }
        for (to, content) in space.boxes.iter_mut().enumerate().filter(|(_, content)| !content.is_empty()) {
            self.exchange(step, from, to, content);
        }
    }

    /// Puts the packets that have departed into a partition on their links.
    pub(super) fn receive(&self, step: usize, engine: &mut Engine<'_>, space: &mut Departures) {
        let to = usize::from(engine.partition);
        engine.network.border.crossing = 0;
        for from in (0..self.partitions).filter(|from| *from != to) {
            let content = &mut space.boxes[from];
            self.exchange(step, from, to, content);
            content.packets.drain(..).for_each(|crossing| engine.network.put_crossing_on_wire(&crossing));
            content.frames.drain(..).for_each(|frame| engine.network.take_frame(frame));
            self.exchange(step, from, to, content);
        }
    }
}
