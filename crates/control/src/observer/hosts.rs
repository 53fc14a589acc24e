//! Acceptance of hosts: candidates, and departures.

use net::Time;

use super::discovery::EDGE_AFTER;
use super::{Cx, Observer};
use crate::facts::Fact;
use crate::{Event, KnownHost, SwitchPort};

impl Observer {
    /// Records a host seen at a port. Returns whether it is accepted.
    pub(super) fn host_found(&mut self, cx: &mut Cx<'_>, known: KnownHost) -> bool {
        let has_room = self.has_room(cx, &known);
        if has_room && self.network.add_host(cx.config, known, cx.now) {
            cx.facts.push(Fact::HostsChanged);
            cx.channels.event(Event::Host(known));
        }
        has_room
    }

    /// Adds a candidate at a port without hosts. Returns whether there is capacity for it.
    pub(super) fn add_candidate(&mut self, cx: &mut Cx<'_>, known: KnownHost) -> bool {
        let due = cx.now.saturating_add(probe_time(cx));
        if !self.has_room(cx, &known) {
            return false;
        }
        if self.host_candidates.add(known, due, cx.config.hosts_per_port) {
            self.probe_edges(cx, known.end());
        }
        true
    }

    /// Probes a port with a host candidate, and every other port that may be the far end of a link
    /// to it.
    fn probe_edges(&mut self, cx: &mut Cx<'_>, at: SwitchPort) {
        let mut ends = vec![at];
        if self.candidates_probed_until <= cx.now {
            self.candidates_probed_until = cx.now.saturating_add(probe_time(cx));
            let is_edge = |end: &SwitchPort| {
                *end != at && self.discovery.is_edge(cx.now, *end) && !self.network.has_host_at(*end)
            };
            ends.extend(self.live_ports().filter(is_edge));
        }
        ends.into_iter().for_each(|end| self.probe(cx, end));
    }

    /// Accepts host candidates whose ports have been probed again.
    pub(super) fn accept_host_candidates(&mut self, cx: &mut Cx<'_>) {
        for known in self.host_candidates.take_due(cx.now) {
            let at = known.end();
            if self.is_port_live(at) && self.discovery.is_edge(cx.now, at) {
                self.host_found(cx, known);
            }
        }
    }
}

fn probe_time(cx: &Cx<'_>) -> Time {
    let rtt = cx.channels.sessions.values().filter_map(|session| session.rtt).max().unwrap_or(Time::ZERO);
    (rtt * 2).clamp(Time::from_ms(1), EDGE_AFTER)
}
