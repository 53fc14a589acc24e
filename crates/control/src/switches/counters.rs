//! Counting rules of flows known by their first packet: *switch-owned rules*.
//!
//! A counting rule forwards packets from its port exactly as the rule below it (mark them as from a
//! host, go to table 1), so a missing or extra counting rule is harmless. It counts, and stops
//! further copies to the controller. The controller sends it immediately and does not add it to the
//! desired state. The switch deletes it after its idle timeout and reports that; polls and the
//! table read-back after a reconnect show rules whose report was lost. After a controller restart,
//! flows that are being counted are tracked again.
//!
//! The rule names the port of the flow's source: when a host moves away, its remaining rules match
//! nothing.
//!
//! Rates are the difference of bytes divided by the difference of the *durations in the replies*,
//! never by the nominal poll interval (mechanisms.md §5).

use std::collections::{BTreeSet, VecDeque};

use balance::central::{DecisionTrigger, FlowId, FlowInfo, FlowSource};
use net::{Bandwidth, FiveTuple, HostIx, NodeIx, Time};
use openflow::{
    ConnectionId, DatapathId, FlowMod, FlowModCommand, FlowRemoved, FlowStats, Headers, Match, Message, Xid,
};

use crate::controller::{Controller, tuple_of_packet};
use crate::limits::Expiring;
use crate::network::SwitchPort;
use crate::planning::compile::{CLASSIFY, Entry, PURPOSE_MASK, Purpose, tuple_of};

/// Shortest time between two transmissions of the same rule: packets in flight before it took
/// effect are copied, too.
const RESEND_AFTER: Time = Time::from_s(1);
/// Maximum number of remembered flows that a switch rejected to count.
const UNCOUNTABLE_MAX: usize = 16_384;
/// Maximum number of remembered transaction numbers of rules sent on a connection, in case they are
/// rejected.
const SENT_MAX: usize = 512;

#[derive(Clone, Copy, Debug)]
struct CounterState {
    edge: NodeIx,
    poll: u32,
    /// When its rule was sent last.
    sent: Time,
    sample: Option<Sample>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No flow has this number.
    Free,
    FlowCounters,
    /// A rule of a connection to a virtual service counts it ([`crate::vip`]).
    Connected,
    /// The flow has ended, and the balancer has not been notified yet.
    Ended,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingPoll {
    /// Transaction number of the request; `None` if its reply is incomplete, or has ended.
    pub(crate) xid: Option<Xid>,
    pub(crate) number: u32,
    pub(crate) sent: Time,
}

/// Transaction numbers of the latest rules sent on a connection.
#[derive(Debug, Default)]
pub(crate) struct RecentXids(VecDeque<(Xid, FiveTuple)>);

impl RecentXids {
    fn note(&mut self, xid: Xid, tuple: FiveTuple) {
        if self.0.len() >= SENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((xid, tuple));
    }
    fn take(&mut self, xid: Xid) -> Option<FiveTuple> {
        let at = self.0.iter().position(|(sent, _)| *sent == xid)?;
        self.0.remove(at).map(|(_, tuple)| tuple)
    }
}

/// Flows counted by switch-owned rules.
#[derive(Debug, Default)]
pub(crate) struct FlowCounters {
    marks: Vec<CounterState>,
    /// Flows that a switch rejected to count, until their retry.
    uncountable: Expiring<FiveTuple, UNCOUNTABLE_MAX>,
    /// Ports with counting rules of a previous controller instance. Hosts are behind them, unless a
    /// disconnected switch was in between.
    found: BTreeSet<SwitchPort>,
}

impl FlowCounters {
    /// Returns the counter of a flow in this state.
    fn mark(&mut self, flow: FlowId, state: State) -> Option<&mut CounterState> {
        self.marks.get_mut(flow.ix()).filter(|mark| mark.state == state)
    }
    fn begin(&mut self, flow: FlowId, mark: CounterState) {
        if self.marks.len() <= flow.ix() {
            let free = CounterState { state: State::Free, ..mark };
            self.marks.resize(flow.ix() + 1, free);
        }
        self.marks[flow.ix()] = mark;
    }
    /// Ends a flow in this state. Returns whether it was.
    fn end(&mut self, flow: FlowId, state: State) -> bool {
        self.mark(flow, state).map(|mark| mark.state = State::Ended).is_some()
    }
    pub(crate) fn begin_connected(&mut self, flow: FlowId, edge: NodeIx, now: Time) {
        self.begin(flow, CounterState { edge, poll: 0, sent: now, sample: None, state: State::Connected });
    }
    /// Ends such a flow. Returns whether this is new.
    pub(crate) fn end_connected(&mut self, flow: FlowId) -> bool {
        self.end(flow, State::Connected)
    }
    /// Records the counters of such a flow. Returns its rate if they have changed.
    pub(crate) fn connected_counted(&mut self, flow: FlowId, bytes: u64, duration_ns: u64) -> Option<Bandwidth> {
        match Sample::read(&mut self.mark(flow, State::Connected)?.sample, bytes, duration_ns) {
            Reading::Rate(rate) => Some(rate),
            Reading::First | Reading::Stale => None,
        }
    }
    /// Forgets a flow whose end the balancer has received.
    pub(crate) fn forget(&mut self, flow: FlowId) {
        if let Some(mark) = self.marks.get_mut(flow.ix()) {
            mark.state = State::Free;
        }
    }
    /// Returns the flows that have ended and whose end the balancer has not received.
    pub(crate) fn ended_flows(&self) -> impl Iterator<Item = FlowId> {
        let flows = (0u32..).map(FlowId).zip(&self.marks);
        flows.filter(|(_, mark)| mark.state == State::Ended).map(|(flow, _)| flow)
    }
    /// Ends the flows that a switch should count and does not.
    fn end_missing(&mut self, at: NodeIx, is_missing: impl Fn(FlowId, &CounterState) -> bool) -> Vec<FlowId> {
        let mut gone = Vec::new();
        for (flow, mark) in (0u32..).map(FlowId).zip(&mut self.marks) {
            if mark.edge == at && mark.state == State::FlowCounters && is_missing(flow, mark) {
                mark.state = State::Ended;
                gone.push(flow);
            }
        }
        gone
    }
}

impl Controller {
    fn is_by_first_packets(&self) -> bool {
        self.needs.flows == FlowSource::FirstPackets
    }

    /// Returns source and destination of a flow, if its source is at that port now.
    fn ends_at(&self, tuple: &FiveTuple, at: SwitchPort) -> Option<(HostIx, HostIx)> {
        let (src, dst) = (self.network.find_host(tuple.src)?, self.network.find_host(tuple.dst)?);
        (self.network.host(src)?.known.end() == at).then_some((src, dst))
    }

    /// Handles the first packet of a flow, or one more from before its rule took effect. The flow
    /// is always counted, so that the switch stops copying; the balancer is notified if there is
    /// capacity. The source is given if it is known to be at the port.
    pub(crate) fn first_packet(
        &mut self,
        connection: ConnectionId,
        at: SwitchPort,
        source: Option<HostIx>,
        headers: &Headers,
    ) {
        if !self.is_by_first_packets() {
            return;
        }
        let tuple = tuple_of_packet(headers);
        let ends = match source {
            Some(src) => self.network.find_host(tuple.dst).map(|dst| (src, dst)),
            None => self.ends_at(&tuple, at),
        };
        let Some((src, dst)) = ends else { return };
        let now = self.now;
        match self.flows.table.find(&tuple) {
            Some(flow) => match self.flows.switch_owned.mark(flow, State::FlowCounters) {
                Some(mark) if now >= mark.sent.saturating_add(RESEND_AFTER) => mark.sent = now,
                // A flow that has ended begins again with the next packet.
                _ => return,
            },
            None if self.flows.switch_owned.uncountable.has(now, &tuple) => return,
            None if self.flows.table.len() >= self.config.flows_max => self.tally.flows_over_limit += 1,
            None => {
                self.track_flow(FlowInfo { tuple, src, dst, started: now, bytes: 0, rate: None, size: None }, 0, None)
            }
        }
        let entry = self.compiler.counter_at(&tuple, at.1, self.config.flow_idle_timeout_s);
        if self.is_any_occupied(at.0, std::slice::from_ref(&entry)) {
            return self.mark_uncountable(&tuple);
        }
        self.send_counter(connection, tuple, entry);
    }

    fn track_flow(&mut self, facts: FlowInfo, poll: u32, sample: Option<Sample>) {
        let Some(edge) = self.network.host(facts.src).map(|host| host.edge) else { return };
        let flow = self.flows.table.insert(facts);
        self.flows
            .switch_owned
            .begin(flow, CounterState { edge, poll, sent: self.now, sample, state: State::FlowCounters });
        self.pending_triggers.push_back(DecisionTrigger::FlowStarted(flow));
    }

    fn send_counter(&mut self, connection: ConnectionId, tuple: FiveTuple, (key, wanted): Entry) {
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        let envelope = session.seal(Message::FlowMod(wanted.into_switch_owned(key)));
        session.recent.note(envelope.xid, tuple);
        self.tally.flow_mods += 1;
        self.push(connection, envelope);
    }

    /// Handles the rejection of a message. Returns whether it was a counting rule.
    pub(crate) fn counter_refused(&mut self, connection: ConnectionId, xid: Xid) -> bool {
        let session = self.sessions.get_mut(&connection);
        let Some(tuple) = session.and_then(|session| session.recent.take(xid)) else { return false };
        if self.is_by_first_packets() {
            self.mark_uncountable(&tuple);
        }
        true
    }

    /// Marks a flow as uncountable for a while. It counts as ended, since no switch would report
    /// its end.
    fn mark_uncountable(&mut self, tuple: &FiveTuple) {
        let pause = Time::from_s(u64::from(self.config.flow_idle_timeout_s.max(1)));
        self.flows.switch_owned.uncountable.add(*tuple, self.now.saturating_add(pause));
        if let Some(flow) = self.flows.table.find(tuple) {
            self.end_flow(flow);
        }
    }

    fn end_flow(&mut self, flow: FlowId) {
        if self.flows.switch_owned.end(flow, State::FlowCounters) {
            self.pending_triggers.push_back(DecisionTrigger::FlowEnded(flow));
        }
    }

    /// Handles the removal of a rule. Returns whether it was a counting rule.
    pub(crate) fn counter_removed(&mut self, datapath: DatapathId, removed: &FlowRemoved) -> bool {
        let is_soft = removed.idle_timeout_s > 0
            && removed.cookie & PURPOSE_MASK == self.compiler.cookie(Purpose::Count)
            && self.is_by_first_packets();
        if !is_soft {
            return false;
        }
        if let (Some(tuple), Some(port)) = (tuple_of(&removed.match_), removed.match_.in_port)
            && let Some(flow) = self.flows.table.find(&tuple)
            && self.ends_at(&tuple, (datapath, port)).is_some()
        {
            self.flows.table.get_mut(flow).expect("a flow that was found").bytes = removed.bytes;
            self.end_flow(flow);
        }
        true
    }

    /// Handles the counters of a flow in a poll reply or in a table read-back (poll 0). An unknown
    /// flow is tracked if there is capacity.
    pub(crate) fn counter_found(&mut self, datapath: DatapathId, entry: &FlowStats, poll: u32) {
        let (Some(tuple), Some(port)) = (tuple_of(&entry.match_), entry.match_.in_port) else { return };
        let Some((src, dst)) = self.ends_at(&tuple, (datapath, port)) else { return };
        let (bytes, duration_ns) = (entry.bytes, entry.duration_ns);
        let Some(flow) = self.flows.table.find(&tuple) else {
            if self.flows.table.len() < self.config.flows_max {
                let facts = FlowInfo { tuple, src, dst, started: self.now, bytes, rate: None, size: None };
                self.track_flow(facts, poll, Some(Sample::first(bytes, duration_ns)));
            }
            return;
        };
        let Some(mark) = self.flows.switch_owned.mark(flow, State::FlowCounters) else { return };
        mark.poll = poll;
        let reading = Sample::read(&mut mark.sample, bytes, duration_ns);
        self.flows.stale += u64::from(reading == Reading::Stale);
        if let Reading::Rate(rate) = reading {
            let facts = self.flows.table.get_mut(flow).expect("a flow that was found");
            (facts.rate, facts.bytes) = (Some(rate), bytes);
        }
    }

    /// Handles the end of a poll reply: flows it should contain and does not have ended.
    pub(crate) fn poll_completed(&mut self, datapath: DatapathId, xid: Xid) {
        let Some(node) = self.network.node_of(datapath) else { return };
        let Some(poll) = self.polls_out.get_mut(&datapath).filter(|poll| poll.xid == Some(xid)) else { return };
        poll.xid = None;
        let (number, sent) = (poll.number, poll.sent);
        let gone = self.flows.switch_owned.end_missing(node, |_, mark| mark.poll != number && mark.sent < sent);
        self.pending_triggers.extend(gone.into_iter().map(DecisionTrigger::FlowEnded));
    }

    /// Handles the table read-back of a switch: removes the counting rules from it, since the
    /// switch owns them. Flows that should be among them and are not have ended.
    pub(crate) fn recover_counters(&mut self, datapath: DatapathId, node: NodeIx, rules: &mut Vec<FlowStats>) {
        if !self.is_by_first_packets() {
            return;
        }
        let counters: Vec<FlowStats> = rules.extract_if(.., |rule| self.is_counting_rule(datapath, rule)).collect();
        let ports = counters.iter().filter_map(|rule| Some((datapath, rule.match_.in_port?)));
        self.flows.switch_owned.found.extend(ports);
        let is_here = |rule: &&FlowStats| {
            let at = rule.match_.in_port.map(|port| (datapath, port));
            at.zip(tuple_of(&rule.match_)).is_some_and(|(at, tuple)| self.ends_at(&tuple, at).is_some())
        };
        let present = counters.iter().filter(is_here).filter_map(|rule| tuple_of(&rule.match_));
        let table = &self.flows.table;
        let present: BTreeSet<FlowId> = present.filter_map(|tuple| table.find(&tuple)).collect();
        let gone = self.flows.switch_owned.end_missing(node, |flow, _| !present.contains(&flow));
        self.pending_triggers.extend(gone.into_iter().map(DecisionTrigger::FlowEnded));
        counters.iter().for_each(|rule| self.counter_found(datapath, rule, 0));
    }

    /// Returns whether a rule counts a flow known by its first packet, exactly as this controller
    /// writes it. Such rules are owned by the switch: they are not among
    /// [`Controller::desired_entries`].
    pub fn is_counting_rule(&self, datapath: DatapathId, rule: &FlowStats) -> bool {
        let (Some(port), Some(tuple)) = (rule.match_.in_port, tuple_of(&rule.match_)) else { return false };
        let (key, wanted) = self.compiler.counter_at(&tuple, port, self.config.flow_idle_timeout_s);
        self.is_by_first_packets()
            && rule.idle_timeout_s > 0
            && !self.discovery.is_link((datapath, port))
            && wanted.is_switch_owned(&key, rule)
    }

    /// Returns the running flows known by their first packet, with the switch that counts them.
    pub fn counted_flows(&self) -> impl Iterator<Item = (FiveTuple, DatapathId)> {
        self.flows.table.iter().filter_map(|(flow, facts)| {
            let mark = self.flows.switch_owned.marks.get(flow.ix()).filter(|mark| mark.state == State::FlowCounters)?;
            Some((facts.tuple, self.network.datapath_of(mark.edge)?))
        })
    }

    /// Deletes the counting rules of a port that leads to a switch: its packets do not come from a
    /// host.
    pub(crate) fn drop_counters_of(&mut self, at: SwitchPort, had_hosts: bool) {
        if self.is_by_first_packets() && (self.flows.switch_owned.found.remove(&at) || had_hosts) {
            self.delete_counters(Some(at));
        }
    }

    /// Deletes the counting rules of a port, or all.
    pub(crate) fn delete_counters(&mut self, at: Option<SwitchPort>) {
        let match_ = Match { in_port: at.map(|(_, port)| port), ..Match::default() };
        let is_meant = |datapath: &DatapathId| at.is_none_or(|(meant, _)| meant == *datapath);
        self.delete_rules(is_meant, match_, self.compiler.cookie(Purpose::Count), PURPOSE_MASK);
    }

    /// Deletes switch-owned rules by match and cookie on some switches. A barrier follows: other
    /// rules may be sent with the same matches or cookie.
    pub(crate) fn delete_rules(
        &mut self,
        is_meant: impl Fn(&DatapathId) -> bool,
        match_: Match,
        cookie: u64,
        cookie_mask: u64,
    ) {
        let add = FlowMod::add(CLASSIFY, 0, match_, openflow::Instructions::default());
        let delete = FlowMod { command: FlowModCommand::Delete, cookie, cookie_mask, ..add };
        let meant = self.connections.iter().filter(|(datapath, _)| is_meant(datapath));
        let connections: Vec<ConnectionId> = meant.map(|(_, connection)| *connection).collect();
        for connection in connections {
            self.tally.flow_mods += 1;
            self.send(connection, Message::FlowMod(delete.clone()));
            self.send(connection, Message::BarrierRequest);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) bytes: u64,
    /// Age of the counters, ns.
    pub(crate) duration_ns: u64,
    /// Age at which the bytes last changed, ns.
    pub(crate) moved_at_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// There is no earlier sample, or the counters were reset.
    First,
    Stale,
    Rate(Bandwidth),
}

impl Sample {
    pub(crate) fn first(bytes: u64, duration_ns: u64) -> Sample {
        Sample { bytes, duration_ns, moved_at_ns: duration_ns }
    }

    /// Replaces the last sample, if there is any, by a new one.
    pub(crate) fn read(last: &mut Option<Sample>, bytes: u64, duration_ns: u64) -> Reading {
        match last {
            Some(sample) => sample.next(bytes, duration_ns),
            None => {
                *last = Some(Sample::first(bytes, duration_ns));
                Reading::First
            }
        }
    }

    pub(crate) fn next(&mut self, bytes: u64, duration_ns: u64) -> Reading {
        if bytes < self.bytes || duration_ns < self.duration_ns {
            *self = Sample::first(bytes, duration_ns);
            return Reading::First;
        }
        let (more, elapsed_ns) = (bytes - self.bytes, duration_ns - self.duration_ns);
        if elapsed_ns == 0 {
            return Reading::Stale; // Bytes without time give no rate; they count with the next sample.
        }
        let moved_at_ns = if more > 0 { duration_ns } else { self.moved_at_ns };
        *self = Sample { bytes, duration_ns, moved_at_ns };
        let bps = u128::from(more) * 8 * 1_000_000_000 / u128::from(elapsed_ns);
        Reading::Rate(Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    /// Returns how long nothing has been counted, by the switch's clock.
    pub(crate) fn idle(&self) -> Time {
        Time::from_ns(self.duration_ns - self.moved_at_ns)
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    fn tuple(port: u16) -> FiveTuple {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        FiveTuple { src, dst, protocol: 6, src_port: port, dst_port: 80 }
    }

    #[test]
    fn recent_xids_are_bounded_and_match_once() {
        let mut recent = RecentXids::default();
        for number in 0..=SENT_MAX as u32 {
            recent.note(Xid(number), tuple(number as u16));
        }
        assert_eq!((recent.take(Xid(0)), recent.take(Xid(1)), recent.take(Xid(1))), (None, Some(tuple(1)), None));
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn rates_use_the_clock_of_the_switch() {
        let mut sample = Sample::first(1_000, S);
        assert_eq!(sample.next(126_000, 3 * S), Reading::Rate(Bandwidth::from_bps(500_000)));
        assert_eq!(sample.next(126_000, 3 * S), Reading::Stale);
        assert_eq!(sample.next(126_000, 4 * S), Reading::Rate(Bandwidth::from_bps(0)));
        assert_eq!(sample.idle(), Time::from_s(1));
        assert_eq!(sample.next(10, S), Reading::First, "the counters were reset");
        assert_eq!(sample.next(u64::MAX, S + 1), Reading::Rate(Bandwidth::from_bps(u64::MAX)));
    }
}
