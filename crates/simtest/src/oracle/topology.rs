//! The controller discovers the network.

use std::collections::BTreeSet;

use control::Event;
use control::vip::MemberState;
use openflow::{DatapathId, PortNo};

use crate::plan::End;
use crate::simulation::{Simulation, datapath_of};

type Port = (DatapathId, PortNo);

/// The links that the controller knows.
pub(crate) type Links = BTreeSet<(Port, Port)>;

impl Simulation {
    pub(crate) fn record_event(&mut self, event: &Event) {
        match event {
            Event::LinkUp { from, to } => drop(self.oracles.topology.insert((*from, *to))),
            Event::LinkDown { from, to } => drop(self.oracles.topology.remove(&(*from, *to))),
            Event::Member { address, state, .. } if *state != MemberState::Up => {
                self.services.not_up.insert(*address, self.now);
            }
            Event::Closed { connection, reason } => self.disruptions.closed = Some((*connection, *reason)),
            _ => {}
        }
    }

    /// Returns a description of the difference between the network and the controller's topology.
    pub(crate) fn wrong_topology(&self) -> Option<String> {
        let mut there = BTreeSet::new();
        for cable in &self.cables {
            let [End::Switch(a, a_port), End::Switch(b, b_port)] = cable.ends else { continue };
            if !self.switches[a].is_reached() || !self.switches[b].is_reached() {
                continue;
            }
            let ends = [(datapath_of(a), a_port), (datapath_of(b), b_port)];
            (0..2).filter(|side| cable.is_usable_from(*side)).for_each(|side| {
                there.insert((ends[side], ends[1 - side]));
            });
        }
        let discovered = &self.oracles.topology;
        let name = |(from, to): &(Port, Port)| format!("s{}:{} -> s{}:{}", from.0.0 - 1, from.1.0, to.0.0 - 1, to.1.0);
        let missing = there.difference(discovered).next().map(|link| format!("{} is not discovered", name(link)));
        let extra =
            discovered.difference(&there).next().map(|link| format!("{} is assumed but does not exist", name(link)));
        missing.or(extra)
    }
}
