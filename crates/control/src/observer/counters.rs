//! Counter polls: requested at the configured interval, and read.

use balance::central::{FlowSource, LinkLoad};
use net::{LinkIx, Time};
use openflow::{DatapathId, FlowSelection, Message, MultipartReply, MultipartRequest, PortNo, Xid};

use super::discovery::{is_physical, next_after};
use super::sample::{Reading, Sample};
use super::{Cx, Observer};
use crate::SwitchPort;
use crate::updater::compile::{CLASSIFY, PURPOSE_MASK, Purpose, tuple_of};

#[derive(Clone, Copy, Debug)]
pub(super) struct PendingPoll {
    /// Transaction number of the request; `None` if its reply is incomplete, or has ended.
    pub(super) xid: Option<Xid>,
    pub(super) number: u32,
    pub(super) sent: Time,
}

impl Observer {
    pub(crate) fn wants_ports(&self) -> bool {
        self.needs.counters || self.server_needs.link_load
    }
    /// Returns whether a central balancer uses counters of connections to virtual services.
    pub(crate) fn wants_flows_counted(&self) -> bool {
        self.needs.flows == FlowSource::FirstPackets && self.needs.counters && self.has_services
    }
    pub(crate) fn wants_connections(&self) -> bool {
        self.server_needs.bytes || self.wants_flows_counted()
    }
    pub(super) fn wants_polls(&self) -> bool {
        self.wants_ports() || self.wants_connections()
    }

    /// Handles a change of the measurements that balancers need. `had_ports`: loads of links were
    /// measured before.
    pub(crate) fn update_needs(&mut self, cx: &Cx<'_>, had_ports: bool) {
        if self.wants_ports() != had_ports {
            self.load.fill(LinkLoad::default());
            self.port_samples.clear();
        }
        let is_polled = self.wants_polls() && cx.channels.is_any_connected();
        self.next_poll = is_polled.then(|| self.next_poll.unwrap_or(cx.now));
    }

    /// Begins the next poll if it is due. Returns whether it has begun.
    pub(crate) fn begin_poll(&mut self, cx: &Cx<'_>) -> bool {
        let Some(due) = self.next_poll.filter(|due| *due <= cx.now) else { return false };
        self.next_poll = Some(next_after(cx.now, due, cx.config.poll_interval));
        self.next_poll_number = self.next_poll_number.wrapping_add(1).max(1);
        true
    }

    /// Requests the counters of ports and flows.
    pub(crate) fn request_counters(&mut self, cx: &mut Cx<'_>) {
        if !self.wants_ports() {
            return;
        }
        let connected: Vec<_> = cx.channels.connected().collect();
        for (datapath, connection) in connected {
            if self.polls_out.contains_key(&datapath) {
                continue; // It has not answered the previous one yet.
            }
            let mut poll = PendingPoll { xid: None, number: self.next_poll_number, sent: cx.now };
            if self.needs.counters && self.needs.flows != FlowSource::None {
                let is_by_first = self.needs.flows == FlowSource::FirstPackets;
                let cookie = cx.compiler().cookie(if is_by_first { Purpose::CountFirst } else { Purpose::Count });
                let selection =
                    FlowSelection { table: CLASSIFY, cookie, cookie_mask: PURPOSE_MASK, ..FlowSelection::all() };
                poll.xid = cx.channels.send(connection, Message::MultipartRequest(MultipartRequest::Flow(selection)));
                cx.channels.tally.polls += 1;
            }
            self.polls_out.insert(datapath, poll);
            // The reply to this request ends the poll.
            cx.channels.send(connection, Message::MultipartRequest(MultipartRequest::Port(PortNo::ANY)));
            cx.channels.tally.polls += 1;
        }
    }

    /// Forgets the poll that a switch will not answer.
    pub(crate) fn forget_polls_of(&mut self, datapath: DatapathId) {
        self.polls_out.remove(&datapath);
    }

    pub(crate) fn counters(
        &mut self,
        cx: &mut Cx<'_>,
        (datapath, xid): (DatapathId, Xid),
        reply: &MultipartReply,
        has_more: bool,
    ) {
        match reply {
            MultipartReply::Flow(entries) if self.needs.flows == FlowSource::FirstPackets => {
                let Some(poll) = self.polls_out.get(&datapath).map(|poll| poll.number) else { return };
                entries.iter().for_each(|entry| self.counter_found(cx, datapath, entry, poll));
                if !has_more {
                    self.poll_completed(cx, datapath, xid);
                }
            }
            MultipartReply::Flow(entries) => {
                for entry in entries {
                    let Some(tuple) = tuple_of(&entry.match_) else { continue };
                    let fact = self.flows.counted(cx.now, tuple, entry.bytes, entry.duration_ns, &self.network);
                    fact.into_iter().for_each(|fact| cx.changes.push(fact));
                }
            }
            MultipartReply::Port(ports) => {
                for port in ports.iter().filter(|port| is_physical(port.port)) {
                    self.port_counted(cx, (datapath, port.port), [port.tx_bytes, port.rx_bytes], port.duration_ns);
                }
                if !has_more {
                    self.polls_out.remove(&datapath);
                }
            }
            // A part that cannot be decoded: its content does not count as missing.
            MultipartReply::Partial { .. } => {
                if let Some(poll) = self.polls_out.get_mut(&datapath) {
                    poll.xid = None;
                }
            }
            _ => {}
        }
    }

    /// Handles the bytes sent and received by a port: the load of its links and of the links of its
    /// hosts.
    fn port_counted(&mut self, cx: &mut Cx<'_>, end: SwitchPort, bytes: [u64; 2], duration_ns: u64) {
        let Some(samples) = self.port_samples.get_mut(&end) else {
            self.port_samples.insert(end, bytes.map(|bytes| Sample::first(bytes, duration_ns)));
            return;
        };
        let [sent, received] = [0, 1].map(|way| samples[way].next(bytes[way], duration_ns));
        cx.channels.tally.stale_samples += u64::from(sent == Reading::Stale);
        let leaving: Vec<LinkIx> = self.network.links_from(end).collect();
        for link in leaving {
            self.record_load(cx.now, link, sent);
            if self.network.is_host_link(link) {
                self.record_load(cx.now, link.reverse(), received);
            }
        }
    }

    fn record_load(&mut self, now: Time, link: LinkIx, reading: Reading) {
        if let (Reading::Rate(rate), Some(load)) = (reading, self.load.get_mut(link.ix())) {
            *load = LinkLoad { rate: Some(rate), at: now };
        }
    }
}
