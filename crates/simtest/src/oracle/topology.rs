//! The controller discovers the network.

use std::collections::BTreeSet;

use control::vip::MemberState;
use control::{Event, KnownHost};
use openflow::{DatapathId, PortNo};

use crate::generate::ipv4_of;
use crate::plan::End;
use crate::report::Oracle;
use crate::simulation::{Simulation, datapath_of, mac_of};

type Port = (DatapathId, PortNo);

/// The links that the controller knows.
pub(crate) type Links = BTreeSet<(Port, Port)>;

impl Simulation {
    pub(crate) fn record_event(&mut self, event: &Event) {
        match event {
            Event::LinkUp { from, to } => {
                self.oracles.topology.insert((*from, *to));
                self.check_cable(*from, *to);
            }
            Event::LinkDown { from, to } => drop(self.oracles.topology.remove(&(*from, *to))),
            Event::Member { address, state, .. } => {
                // The end of an outage counts too.
                if *state != MemberState::Up {
                    self.services.down.insert(*address);
                    self.services.not_up.insert(*address, self.now);
                } else if self.services.down.remove(address) {
                    self.services.not_up.insert(*address, self.now);
                }
            }
            Event::Closed { connection, reason } => self.disruptions.closed = Some((*connection, *reason)),
            _ => {}
        }
    }

    /// Checks that there is a cable where the controller found a link, at any time.
    fn check_cable(&mut self, from: Port, to: Port) {
        let end = |(datapath, port): Port| End::Switch(datapath.0 as usize - 1, port);
        let ends = [end(from), end(to)];
        if !self.cables.iter().any(|cable| cable.ends == ends || cable.ends == [ends[1], ends[0]]) {
            let words = format!("{} -> {} was found, and there is no cable", ends[0], ends[1]);
            self.fail(Oracle::Topology, || words);
        }
    }

    /// Returns a description of a host that the controller knows and that does not exist. Nothing
    /// is known about the hosts of switches that the controller cannot reach.
    pub(crate) fn wrong_hosts(&self) -> Option<String> {
        let controller = self.controller.as_ref().filter(|_| !self.plan.knows_hosts)?;
        let is_there = |known: &KnownHost| {
            let hosts = 0..self.hosts.len();
            hosts.into_iter().any(|host| {
                let end = End::Switch(known.datapath.0 as usize - 1, known.port);
                let is_at = self.cables[host].ends[1] == end && self.cables[host].is_usable();
                is_at && (ipv4_of(host), mac_of(host)) == (known.ipv4, known.mac)
            })
        };
        let known = controller.inspect().hosts().map(|host| host.known);
        let mut reached = known.filter(|known| self.switches[known.datapath.0 as usize - 1].is_reached());
        let wrong = reached.find(|known| !is_there(known))?;
        Some(format!("the controller knows a host that does not exist: {wrong:?}"))
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
