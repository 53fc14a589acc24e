//! Links: probes sent and received, and the consequences for the network.

use net::{HostIx, LinkIx, Time};
use openflow::DatapathId;

use super::discovery::{EDGE_AFTER, Found, Heard};
use super::{Cx, Observer};
use crate::changes::Change;
use crate::channels::Channels;
use crate::{Config, Departure, Event, PortRole, SwitchPort};

impl Observer {
    pub(super) fn probe_heard(&mut self, cx: &mut Cx<'_>, at: SwitchPort, data: &[u8]) {
        if self.discovery.role(at) == PortRole::Host {
            cx.channels.tally.probes_rejected += 1;
            if self.alarms.may_raise(cx.now, at, None) {
                cx.channels.event(Event::ProbeAtHostPort { datapath: at.0, port: at.1 });
            }
            return;
        }
        let channels = &*cx.channels;
        let has_hosts = |end| self.network.has_host_at(end);
        let heard = self.discovery.heard(cx.now, at, data, |datapath| channels.rtt_of(datapath), has_hosts);
        let Found { from, to, is_new, instead_of } = match heard {
            Some(Heard::Link(found)) => found,
            Some(Heard::OneWay(back)) => return self.probe(cx, back),
            None => return,
        };
        if !self.is_port_live(from) || !self.is_port_live(to) {
            self.discovery.port_down(from);
            return; // The port went down while the probe was in flight; it is probed again when it is up.
        }
        if let Some(before) = instead_of {
            self.links_gone(cx, &[(from, before)]);
        }
        if !is_new {
            return;
        }
        self.network.add_link(cx.config, from, to);
        cx.changes.push(Change::Network);
        cx.channels.event(Event::LinkUp { from, to });
        // The host candidates at this port were seen through the link.
        for end in [from, to] {
            let hosts: Vec<HostIx> = self.network.hosts_at(end).collect();
            let had_hosts = !hosts.is_empty();
            hosts.into_iter().for_each(|host| self.forget_host(cx, host, Departure::LinkFound));
            self.drop_counters_of(cx, end, had_hosts);
        }
        cx.changes.push(Change::Ports);
        // The reverse direction may have been probed before this switch was ready.
        self.probe(cx, to);
    }

    pub(super) fn links_gone(&mut self, cx: &mut Cx<'_>, gone: &[(SwitchPort, SwitchPort)]) {
        for (from, to) in gone {
            if let Some(link) = self.network.link(*from, *to)
                && self.network.set_alive(link, false)
            {
                cx.changes.push(Change::Network);
                cx.channels.event(Event::LinkDown { from: *from, to: *to });
            }
        }
    }

    pub(super) fn probe(&mut self, cx: &mut Cx<'_>, end: SwitchPort) {
        let may_lead_to_switch = self.discovery.role(end) != PortRole::Host;
        if may_lead_to_switch && cx.channels.connection_of(end.0).is_some() {
            let ttl_s = (cx.config.link_timeout.as_s_f64() as u64).clamp(1, 65_535) as u16;
            let data = self.discovery.probe(cx.now, end, ttl_s);
            cx.channels.packet_out(end, data);
        }
    }

    pub(super) fn probe_all(&mut self, cx: &mut Cx<'_>) {
        if !self.discovery.is_round_due(cx.now) {
            return; // Most timers are others, and the walk over all ports is slow.
        }
        let live: Vec<SwitchPort> = self.live_ports().collect();
        let due = self.discovery.round(cx.now, cx.config.discovery_interval, live.into_iter());
        due.into_iter().for_each(|end| self.probe(cx, end));
    }

    /// Schedules one probe of all ports for all switches that became ready at about the same time.
    pub(crate) fn probe_soon(&mut self, cx: &Cx<'_>) {
        let soon = cx.config.discovery_interval.min(EDGE_AFTER / 2);
        self.discovery.schedule_round(cx.now.saturating_add(soon));
    }

    /// Updates topology and routes after a change of links or hosts.
    pub(crate) fn refresh_network(&mut self) {
        let Observer { network, discovery, .. } = self;
        network.refresh(|from, to| discovery.latency(from, to).unwrap_or(Time::ZERO));
    }

    /// Applies measured latencies to the topology, if a server balancer uses them. Central balancers
    /// receive them with the next change of the network only.
    pub(crate) fn update_latencies(&mut self) {
        if !self.server_needs.latency || !std::mem::take(&mut self.discovery.has_measured) {
            return;
        }
        let ends = self.network.switch_links();
        let discovery = &self.discovery;
        let latency = |link: LinkIx| ends.get(&link).and_then(|(from, to)| discovery.latency(*from, *to));
        self.network
            .set_delays(self.server_needs.round_trips, |link| latency(link).filter(|measured| *measured > Time::ZERO));
    }

    /// Returns when the next disconnected switch will count as gone. While no switch is connected,
    /// the controller itself is cut off.
    pub(super) fn gone_at(&self, now: Time, config: &Config, channels: &Channels) -> Option<Time> {
        if !channels.is_any_connected() {
            return None;
        }
        let due = self.offline.iter().map(|datapath| self.status[datapath].since.saturating_add(config.link_timeout));
        due.filter(|at| *at > now).min()
    }

    pub(super) fn find_gone(&mut self, cx: &mut Cx<'_>) {
        if self.expiry_at.is_some_and(|at| at <= cx.now) {
            let gone = self.discovery.expire(cx.now, cx.config.link_timeout, &self.status);
            self.links_gone(cx, &gone);
        }
        if !cx.channels.is_any_connected() {
            return;
        }
        let is_gone =
            |datapath: &DatapathId| self.status[datapath].since.saturating_add(cx.config.link_timeout) <= cx.now;
        let switches: Vec<DatapathId> = self.offline.iter().copied().filter(is_gone).collect();
        if switches.is_empty() {
            return;
        }
        for (_, end) in self.network.host_ends() {
            if switches.contains(&end.0) {
                let has_changed = self.network.set_hosts_alive(end, false);
                cx.changes.push_if(has_changed, Change::Network);
            }
        }
    }
}
