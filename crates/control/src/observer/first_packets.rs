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

use std::collections::BTreeSet;

use balance::central::{FlowId, FlowInfo, FlowSource};
use net::{Bandwidth, FiveTuple, HostIx, NodeIx, Time};
use openflow::{ConnectionId, DatapathId, FlowRemoved, FlowStats, Headers, Match, Message, Xid};

use super::sample::{Reading, Sample};
use super::{Cx, Observer};
use crate::changes::Change;
use crate::channels::ReadBack;
use crate::limits::Expiring;
use crate::updater::Updater;
use crate::updater::compile::{Compiler, Entry, PURPOSE_MASK, Purpose, tuple_of};
use crate::{Config, SwitchPort};

/// Shortest time between two transmissions of the same rule: packets in flight before it took
/// effect are copied, too.
const RESEND_AFTER: Time = Time::from_s(1);
/// Maximum number of remembered flows that a switch rejected to count.
const UNCOUNTABLE_MAX: usize = 16_384;

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

impl Observer {
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
    pub(super) fn first_packet(
        &mut self,
        cx: &mut Cx<'_>,
        updater: &Updater,
        connection: ConnectionId,
        at: SwitchPort,
        source: Option<HostIx>,
        headers: &Headers,
    ) {
        if !self.is_by_first_packets() {
            return;
        }
        let tuple = super::flows::tuple_of_packet(headers);
        let ends = match source {
            Some(src) => self.network.find_host(tuple.dst).map(|dst| (src, dst)),
            None => self.ends_at(&tuple, at),
        };
        let Some((src, dst)) = ends else { return };
        let now = cx.now;
        match self.flows.table.find(&tuple) {
            Some(flow) => match self.flows.switch_owned.mark(flow, State::FlowCounters) {
                Some(mark) if now >= mark.sent.saturating_add(RESEND_AFTER) => mark.sent = now,
                // A flow that has ended begins again with the next packet.
                _ => return,
            },
            None if self.flows.switch_owned.uncountable.has(now, &tuple) => return,
            None if self.flows.table.len() >= cx.config.flows_max => cx.channels.tally.flows_over_limit += 1,
            None => self.track_flow(
                cx,
                FlowInfo { tuple, src, dst, started: now, bytes: 0, rate: None, size: None },
                0,
                None,
            ),
        }
        let entry = cx.compiler().counter_at(&tuple, at.1, cx.config.flow_idle_timeout_s);
        if updater.is_any_occupied(self.network.node_of(at.0), std::slice::from_ref(&entry)) {
            return self.mark_uncountable(cx, &tuple);
        }
        send_counter(cx, connection, tuple, entry);
    }

    fn track_flow(&mut self, cx: &mut Cx<'_>, facts: FlowInfo, poll: u32, sample: Option<Sample>) {
        let Some(edge) = self.network.host(facts.src).map(|host| host.edge) else { return };
        let flow = self.flows.table.insert(facts);
        self.flows
            .switch_owned
            .begin(flow, CounterState { edge, poll, sent: cx.now, sample, state: State::FlowCounters });
        cx.changes.push(Change::FlowStarted(flow));
    }

    /// Handles the rejection of a message. Returns whether it was a counting rule.
    pub(crate) fn counter_refused(&mut self, cx: &mut Cx<'_>, connection: ConnectionId, xid: Xid) -> bool {
        let session = cx.channels.sessions.get_mut(&connection);
        let Some(tuple) = session.and_then(|session| session.recent.take(xid)) else { return false };
        if self.is_by_first_packets() {
            self.mark_uncountable(cx, &tuple);
        }
        true
    }

    /// Marks a flow as uncountable for a while. It counts as ended, since no switch would report
    /// its end.
    fn mark_uncountable(&mut self, cx: &mut Cx<'_>, tuple: &FiveTuple) {
        let pause = Time::from_s(u64::from(cx.config.flow_idle_timeout_s.max(1)));
        self.flows.switch_owned.uncountable.add(*tuple, cx.now.saturating_add(pause));
        if let Some(flow) = self.flows.table.find(tuple) {
            self.end_flow(cx, flow);
        }
    }

    fn end_flow(&mut self, cx: &mut Cx<'_>, flow: FlowId) {
        if self.flows.switch_owned.end(flow, State::FlowCounters) {
            cx.changes.push(Change::FlowEnded(flow));
        }
    }

    /// Handles the removal of a rule. Returns whether it was a counting rule.
    pub(crate) fn counter_removed(&mut self, cx: &mut Cx<'_>, datapath: DatapathId, removed: &FlowRemoved) -> bool {
        let is_soft = removed.idle_timeout_s > 0
            && removed.cookie & PURPOSE_MASK == cx.compiler().cookie(Purpose::CountFirst)
            && self.is_by_first_packets();
        if !is_soft {
            return false;
        }
        if let (Some(tuple), Some(port)) = (tuple_of(&removed.match_), removed.match_.in_port)
            && let Some(flow) = self.flows.table.find(&tuple)
            && self.ends_at(&tuple, (datapath, port)).is_some()
        {
            self.flows.table.get_mut(flow).expect("a flow that was found").bytes = removed.bytes;
            self.end_flow(cx, flow);
        }
        true
    }

    /// Handles the counters of a flow in a poll reply or in a table read-back (poll 0). An unknown
    /// flow is tracked if there is capacity.
    pub(super) fn counter_found(&mut self, cx: &mut Cx<'_>, datapath: DatapathId, entry: &FlowStats, poll: u32) {
        let (Some(tuple), Some(port)) = (tuple_of(&entry.match_), entry.match_.in_port) else { return };
        let Some((src, dst)) = self.ends_at(&tuple, (datapath, port)) else { return };
        let (bytes, duration_ns) = (entry.bytes, entry.duration_ns);
        let Some(flow) = self.flows.table.find(&tuple) else {
            if self.flows.table.len() < cx.config.flows_max {
                let facts = FlowInfo { tuple, src, dst, started: cx.now, bytes, rate: None, size: None };
                self.track_flow(cx, facts, poll, Some(Sample::first(bytes, duration_ns)));
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
    pub(super) fn poll_completed(&mut self, cx: &mut Cx<'_>, datapath: DatapathId, xid: Xid) {
        let Some(node) = self.network.node_of(datapath) else { return };
        let Some(poll) = self.polls_out.get_mut(&datapath).filter(|poll| poll.xid == Some(xid)) else { return };
        poll.xid = None;
        let (number, sent) = (poll.number, poll.sent);
        let gone = self.flows.switch_owned.end_missing(node, |_, mark| mark.poll != number && mark.sent < sent);
        gone.into_iter().for_each(|flow| cx.changes.push(Change::FlowEnded(flow)));
    }

    /// Handles the table read-back of a switch: removes the counting rules from it, since the
    /// switch owns them. Flows that should be among them and are not have ended.
    pub(crate) fn recover_counters(&mut self, cx: &mut Cx<'_>, read_back: &mut ReadBack) {
        let datapath = read_back.datapath;
        let Some(node) = self.network.node_of(datapath).filter(|_| self.is_by_first_packets()) else { return };
        let is_counter = |rule: &mut FlowStats| self.is_counting_rule(cx.config, datapath, rule);
        let counters: Vec<FlowStats> = read_back.rules.extract_if(.., is_counter).collect();
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
        gone.into_iter().for_each(|flow| cx.changes.push(Change::FlowEnded(flow)));
        counters.iter().for_each(|rule| self.counter_found(cx, datapath, rule, 0));
    }

    /// Returns whether a rule counts a flow known by its first packet, exactly as this controller
    /// writes it. Such rules are owned by the switch: they are not among
    /// the desired rules.
    pub(crate) fn is_counting_rule(&self, config: &Config, datapath: DatapathId, rule: &FlowStats) -> bool {
        let (Some(port), Some(tuple)) = (rule.match_.in_port, tuple_of(&rule.match_)) else { return false };
        let compiler = Compiler { owner: config.owner };
        let (key, wanted) = compiler.counter_at(&tuple, port, config.flow_idle_timeout_s);
        self.is_by_first_packets()
            && rule.idle_timeout_s > 0
            && !self.discovery.is_link((datapath, port))
            && wanted.is_switch_owned(&key, rule)
    }

    /// Returns the running flows known by their first packet, with the switch that counts them.
    pub(crate) fn counted_flows(&self) -> impl Iterator<Item = (FiveTuple, DatapathId)> {
        self.flows.table.iter().filter_map(|(flow, facts)| {
            let mark = self.flows.switch_owned.marks.get(flow.ix()).filter(|mark| mark.state == State::FlowCounters)?;
            Some((facts.tuple, self.network.datapath_of(mark.edge)?))
        })
    }

    /// Deletes the counting rules of a port that leads to a switch: its packets do not come from a
    /// host.
    pub(super) fn drop_counters_of(&mut self, cx: &mut Cx<'_>, at: SwitchPort, had_hosts: bool) {
        if self.is_by_first_packets() && (self.flows.switch_owned.found.remove(&at) || had_hosts) {
            delete_counters(cx, Some(at));
        }
    }
}

fn send_counter(cx: &mut Cx<'_>, connection: ConnectionId, tuple: FiveTuple, (key, wanted): Entry) {
    let Some(xid) = cx.channels.send(connection, Message::FlowMod(wanted.into_switch_owned(key))) else { return };
    cx.channels.tally.flow_mods += 1;
    if let Some(session) = cx.channels.sessions.get_mut(&connection) {
        session.recent.note(xid, tuple);
    }
}

/// Deletes the counting rules of a port, or all.
pub(crate) fn delete_counters(cx: &mut Cx<'_>, at: Option<SwitchPort>) {
    let match_ = Match { in_port: at.map(|(_, port)| port), ..Match::default() };
    let is_meant = |datapath: DatapathId| at.is_none_or(|(meant, _)| meant == datapath);
    let cookie = cx.compiler().cookie(Purpose::CountFirst);
    cx.channels.delete_rules(is_meant, match_, cookie, PURPOSE_MASK);
}
