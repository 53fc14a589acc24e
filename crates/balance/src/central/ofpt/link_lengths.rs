//! The state of links in OFPT: room, and a length that grows exponentially with the placed load.

use net::LinkIx;

use crate::central::NetworkView;
use crate::central::common::{is_switch, rate_of};

#[derive(Clone, Debug, Default)]
pub(super) struct LinkLengths {
    eps: f64,
    capacity: Vec<f64>,
    /// Capacity that background traffic leaves.
    left: Vec<f64>,
    /// b(e): the part of `left` not used by placed flows; negative on overload.
    room: Vec<f64>,
    /// l(e), the length in the dual program.
    length: Vec<f64>,
    fabric: Vec<LinkIx>,
    /// D: capacity times length, summed over links between switches.
    volume: f64,
}

impl LinkLengths {
    /// Makes the state without placed flows; `background` returns a link's other traffic.
    pub(super) fn new(view: &NetworkView<'_>, eps: f64, background: impl Fn(LinkIx) -> f64) -> LinkLengths {
        let links = || (0..view.topology.links().len() as u32).map(LinkIx);
        let nodes = (0..view.topology.nodes().len() as u32).map(net::NodeIx);
        let switches = nodes.filter(|node| is_switch(view, *node)).count() as f64;
        let delta = (1.0 + eps) * libm::pow((1.0 + eps) * switches, -1.0 / eps);
        let capacity: Vec<f64> = links().map(|link| rate_of(view, link)).collect();
        let left: Vec<f64> = links().map(|link| (capacity[link.ix()] - background(link)).max(0.0)).collect();
        let is_fabric = |link: &LinkIx| view.alive[link.ix()] && !view.topology.is_host_link(*link);
        let fabric: Vec<LinkIx> = links().filter(is_fabric).collect();
        LinkLengths {
            eps,
            room: left.clone(),
            left,
            length: capacity.iter().map(|capacity| delta / capacity).collect(),
            capacity,
            volume: fabric.len() as f64 * delta,
            fabric,
        }
    }

    /// Returns whether the algorithm would continue placing: D < 1.
    pub(super) fn is_open(&self) -> bool {
        self.volume < 1.0
    }
    pub(super) fn of_link(&self, link: LinkIx) -> (f64, f64) {
        (self.room[link.ix()], self.length[link.ix()])
    }
    /// Returns the minimum room and the sum of lengths.
    pub(super) fn room_and_cost(&self, path: &[LinkIx]) -> (f64, f64) {
        path.iter()
            .map(|link| self.of_link(*link))
            .fold((f64::INFINITY, 0.0), |sum, link| (sum.0.min(link.0), sum.1 + link.1))
    }
    pub(super) fn add(&mut self, path: &[LinkIx], weight: f64) {
        self.change(path, weight, |room, length, factor| (room - weight, length * factor));
    }
    pub(super) fn remove(&mut self, path: &[LinkIx], weight: f64) {
        self.change(path, weight, |room, length, factor| (room + weight, length / factor));
    }
    fn change(&mut self, path: &[LinkIx], weight: f64, change: impl Fn(f64, f64, f64) -> (f64, f64)) {
        for link in path.iter().map(|link| link.ix()) {
            let before = self.length[link];
            let factor = 1.0 + self.eps * weight / self.capacity[link];
            (self.room[link], self.length[link]) = change(self.room[link], before, factor);
            self.volume += self.capacity[link] * (self.length[link] - before);
        }
    }
    pub(super) fn is_overloaded(&self, path: &[LinkIx]) -> bool {
        path.iter().any(|link| self.room[link.ix()] < -1e-9 * self.capacity[link.ix()])
    }
    /// Returns whether moving flows could reduce the overload. All paths of a flow have the same
    /// number of links, so the total load is constant: a lower overload on some links requires room
    /// on others.
    pub(super) fn is_improvable(&self) -> bool {
        self.fabric.iter().any(|link| self.room[link.ix()] > 0.0)
    }
    pub(super) fn overload(&self) -> f64 {
        self.room.iter().map(|room| (-room).max(0.0)).sum()
    }
    /// Returns a flow's share of its demand on a path if all flows on a link get the same share.
    pub(super) fn fair_share(&self, path: &[LinkIx]) -> f64 {
        let share = |link: &LinkIx| {
            let (left, room) = (self.left[link.ix()], self.room[link.ix()]);
            if room < 0.0 { left / (left - room) } else { 1.0 }
        };
        path.iter().map(share).fold(1.0, f64::min)
    }
    /// Returns the capacity of every link that background traffic leaves.
    pub(super) fn left(&self) -> &[f64] {
        &self.left
    }
}
