//! Counters of the rules for prefixes: the loads that are divided.

use std::collections::BTreeMap;

use bgp::Prefix;
use net::Time;
use openflow::{DatapathId, FlowSelection, Message, MultipartReply, MultipartRequest, Xid};

use super::EdgeService;
use super::rules::prefix_of;
use crate::observer::discovery::next_after;
use crate::observer::sample::Sample;
use crate::updater::compile::{FORWARD, PURPOSE_MASK};
use crate::vip::Parts;

#[derive(Debug, Default)]
pub(super) struct Poll {
    pub(super) next: Option<Time>,
    /// Transaction number of the request without a complete reply.
    xid: Option<Xid>,
    samples: BTreeMap<Prefix, Option<Sample>>,
}

impl Poll {
    pub(super) fn forget(&mut self, prefix: Prefix) {
        self.samples.remove(&prefix);
    }
}

impl EdgeService {
    /// Requests the counters, if they are due.
    pub(super) fn request_counters(&mut self, on: &mut Parts<'_>) {
        let (now, interval) = (on.cx.now, on.cx.config.poll_interval);
        let due = self.poll.next.unwrap_or(now);
        if due > now {
            return;
        }
        let connection = on.cx.channels.connection_of(self.config.datapath);
        self.poll.next = connection.map(|_| next_after(now, due, interval));
        // A request without a reply yet is not repeated: the switch is slow.
        let Some(connection) = connection.filter(|_| self.poll.xid.is_none()) else { return };
        let cookie = on.updater.compiler.edge_cookie();
        let selection = FlowSelection { table: FORWARD, cookie, cookie_mask: PURPOSE_MASK, ..FlowSelection::all() };
        on.cx.channels.tally.polls += 1;
        self.poll.xid = on.cx.channels.send(connection, Message::MultipartRequest(MultipartRequest::Flow(selection)));
    }

    /// Begins to poll a switch that has connected.
    pub(crate) fn switch_ready(&mut self, now: Time, datapath: DatapathId) {
        if datapath == self.config.datapath {
            (self.poll.next, self.poll.xid) = (Some(now), None);
        }
    }

    /// Handles a statistics reply. Returns whether it has the counters of prefixes.
    pub(crate) fn counted(
        &mut self,
        now: Time,
        (datapath, xid): (DatapathId, Xid),
        reply: &MultipartReply,
        has_more: bool,
    ) -> bool {
        if datapath != self.config.datapath || self.poll.xid != Some(xid) {
            return false;
        }
        if let MultipartReply::Flow(entries) = reply {
            for entry in entries {
                let Some(prefix) = prefix_of(&entry.match_).filter(|prefix| self.egress.piece(*prefix).is_some())
                else {
                    continue;
                };
                let sample = self.poll.samples.entry(prefix).or_default();
                if let Some(rate) = Sample::read(sample, entry.bytes, entry.duration_ns).rate() {
                    self.egress.set_rate(prefix, rate.as_bps_f64());
                }
            }
        }
        if !has_more {
            self.poll.xid = None;
            self.egress.rebalance(now);
        }
        true
    }
}
