//! Timers of the observer.

use net::Time;

use super::{Cx, Observer};
use crate::Config;
use crate::changes::Change;
use crate::channels::Channels;
use crate::updater::Updater;

impl Observer {
    pub(crate) fn poll_timeout(&self, now: Time, config: &Config, channels: &Channels) -> Option<Time> {
        let is_anyone_there = channels.is_any_connected();
        let timers = [
            self.discovery.next_round().filter(|_| is_anyone_there),
            self.expiry_at,
            self.edge_at,
            self.damping.next_due().filter(|_| is_anyone_there),
            self.next_poll.filter(|_| is_anyone_there),
            self.recovering.values().copied().min(),
            self.host_candidates.next_due(),
            Some(self.host_ageing.next_due()).filter(|_| is_anyone_there && self.network.has_hosts()),
            self.host_recovery.next_due(),
        ];
        timers.into_iter().flatten().chain(self.gone_at(now, config, channels)).min()
    }

    /// Applies timeouts: recovery holds, links, switches, ports and host candidates.
    pub(crate) fn expire(&mut self, cx: &mut Cx<'_>, updater: &mut Updater) {
        for (datapath, _) in self.recovering.extract_if(.., |_, at| *at <= cx.now) {
            if let Some(node) = self.network.node_of(datapath) {
                updater.switch(node).is_held = false;
            }
        }
        self.find_gone(cx);
        self.release_damped(cx);
        self.advance_host_candidates(cx);
        self.age_hosts(cx);
    }

    /// Sends the probes that are due.
    pub(crate) fn send_probes(&mut self, cx: &mut Cx<'_>) {
        self.probe_all(cx);
        self.probe_installed_hosts(cx);
    }

    /// Records which of the times of [`Observer::update_expiry`] have come. The walk over all links
    /// and ports is left out otherwise: with 1,000 switches, a timer of some switch is due every
    /// millisecond.
    pub(crate) fn record_due(&self, cx: &mut Cx<'_>) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= cx.now);
        let (is_edge_due, is_expiry_due) = (is_due(self.edge_at), is_due(self.expiry_at));
        cx.changes.push_if(is_edge_due, Change::Ports);
        cx.changes.push_if(is_expiry_due, Change::Switches);
    }

    /// Computes when the first link may expire, and when the next port becomes an edge port.
    pub(crate) fn update_expiry(&mut self, now: Time, config: &Config) {
        self.expiry_at = self.discovery.next_expiry(config.link_timeout, &self.status);
        self.edge_at = self.discovery.next_edge(now);
    }
}
