//! Counting rules of flows that are known by their first packets: *soft state of the switch*.
//!
//! Such a rule does to packets from its port what the rule below it does (note that they come from a host, go on to table
//! 1), so that having it or not is never wrong: it only keeps further copies from the controller, and counts. It is sent
//! at once and not remembered as a wish. The switch lets it go when it idles out and says so; polls and the survey after
//! a reconnection notice what was said and lost. A controller that starts again takes up flows that are being counted.
//!
//! The rule names the port of the flow's source: where a host has moved away, what is left of its rules matches nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use balance::central::{FlowFacts, FlowId, FlowSource, Why};
use net::{Bandwidth, FiveTuple, HostIx, NodeIx, Time};
use openflow::{
    BufferId, ConnectionId, DatapathId, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved, FlowStats, Headers, Match,
    Message, PortNo, Xid,
};

use crate::compile::{CLASSIFY, PURPOSE_MASK, Purpose, tuple_of};
use crate::controller::{Controller, tuple_of_packet};
use crate::network::End;
use crate::stats::{Reading, Sample};

/// A rule that was sent is not sent again before: packets under way before it took effect come in copies, too.
const AGAIN_AFTER: Time = Time::from_s(1);
/// Flows remembered that a switch would not count.
const UNCOUNTABLE_MAX: usize = 16_384;
/// Rules sent on a connection whose numbers are remembered, in case they are refused.
const SENT_MAX: usize = 512;

/// What is known of the counting of a flow.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The switch of its source.
    edge: NodeIx,
    /// Number of the poll that found it last.
    poll: u32,
    /// When its rule was sent last.
    sent: Time,
    sample: Option<Sample>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No such flow.
    Free,
    Counted,
    /// The rule of a connection to a virtual service counts it ([`crate::vip`]).
    Connected,
    /// It has ended, and the balancer has not been told yet.
    Over,
}

/// A poll of counting rules under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollOut {
    /// The request's number; `None` where its answer will not tell everything, or is over.
    pub(crate) xid: Option<Xid>,
    pub(crate) number: u32,
    pub(crate) sent: Time,
}

/// Numbers of the latest rules sent on a connection.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<(Xid, FiveTuple)>);

impl Recent {
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

/// Flows a switch would not count, for a while.
#[derive(Debug, Default)]
struct Uncountable {
    until: BTreeMap<FiveTuple, Time>,
    order: VecDeque<(Time, FiveTuple)>,
}

impl Uncountable {
    /// Times ascend from call to call.
    fn add(&mut self, tuple: FiveTuple, until: Time) {
        if self.order.len() >= UNCOUNTABLE_MAX {
            self.drop_first();
        }
        self.order.push_back((until, tuple));
        self.until.insert(tuple, until);
    }
    fn has(&mut self, now: Time, tuple: &FiveTuple) -> bool {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.drop_first();
        }
        self.until.contains_key(tuple)
    }
    fn drop_first(&mut self) {
        if let Some((until, tuple)) = self.order.pop_front()
            && self.until.get(&tuple) == Some(&until)
        {
            self.until.remove(&tuple);
        }
    }
}

/// Flows counted by rules that are the switches' own, besides what balancers know of them.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// By number of the flow.
    marks: Vec<Mark>,
    uncountable: Uncountable,
    /// Ports that rules of an earlier life were found for. Hosts are behind them, unless these were seen through a switch that
    /// was not known.
    found: BTreeSet<End>,
}

impl Counted {
    fn mark(&mut self, flow: FlowId) -> Option<&mut Mark> {
        self.marks.get_mut(flow.ix()).filter(|mark| mark.state == State::Counted)
    }
    fn begin(&mut self, flow: FlowId, mark: Mark) {
        if self.marks.len() <= flow.ix() {
            let free = Mark { state: State::Free, ..mark };
            self.marks.resize(flow.ix() + 1, free);
        }
        self.marks[flow.ix()] = mark;
    }
    /// A flow has ended; whether it was not known yet.
    fn end(&mut self, flow: FlowId) -> bool {
        self.mark(flow).map(|mark| mark.state = State::Over).is_some()
    }
    /// A flow that a rule of a connection counts.
    pub(crate) fn begin_connected(&mut self, flow: FlowId, edge: NodeIx, now: Time) {
        self.begin(flow, Mark { edge, poll: 0, sent: now, sample: None, state: State::Connected });
    }
    fn connected(&mut self, flow: FlowId) -> Option<&mut Mark> {
        self.marks.get_mut(flow.ix()).filter(|mark| mark.state == State::Connected)
    }
    /// Such a flow has ended; whether it was not known yet.
    pub(crate) fn end_connected(&mut self, flow: FlowId) -> bool {
        self.connected(flow).map(|mark| mark.state = State::Over).is_some()
    }
    /// Counters of such a flow: its rate, if they tell.
    pub(crate) fn connected_counted(&mut self, flow: FlowId, bytes: u64, duration_ns: u64) -> Option<Bandwidth> {
        let sample = &mut self.connected(flow)?.sample;
        match sample.get_or_insert_with(|| Sample::first(bytes, duration_ns)).next(bytes, duration_ns) {
            Reading::Rate(rate) => Some(rate),
            Reading::First | Reading::Stale => None,
        }
    }
    /// The balancer has been told.
    pub(crate) fn forget(&mut self, flow: FlowId) {
        if let Some(mark) = self.marks.get_mut(flow.ix()) {
            mark.state = State::Free;
        }
    }
    /// Flows that have ended, of which the balancer has not been told.
    pub(crate) fn over(&self) -> impl Iterator<Item = FlowId> {
        let flows = (0u32..).map(FlowId).zip(&self.marks);
        flows.filter(|(_, mark)| mark.state == State::Over).map(|(flow, _)| flow)
    }
    /// Ends flows that a switch should count and that are not among those found there.
    fn end_missing(&mut self, at: NodeIx, is_missing: impl Fn(FlowId, &Mark) -> bool) -> Vec<FlowId> {
        let mut gone = Vec::new();
        for (flow, mark) in (0u32..).map(FlowId).zip(&mut self.marks) {
            if mark.edge == at && mark.state == State::Counted && is_missing(flow, mark) {
                mark.state = State::Over;
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

    /// The ends of a flow, if its source is at that port now.
    fn ends_at(&self, tuple: &FiveTuple, at: End) -> Option<(HostIx, HostIx)> {
        let (src, dst) = (self.network.find_host(tuple.src)?, self.network.find_host(tuple.dst)?);
        let known = self.network.host(src)?.known;
        ((known.datapath, known.port) == at).then_some((src, dst))
    }

    /// The first packet of a flow, or one more that came before its rule took effect. Counted it is in any case, so that the
    /// switch stops asking; the balancer is told where there is room. Its source is given where it is known to be there.
    pub(crate) fn first_packet(
        &mut self,
        connection: ConnectionId,
        at: End,
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
            Some(flow) => match self.flows.soft.mark(flow) {
                Some(mark) if now >= mark.sent.saturating_add(AGAIN_AFTER) => mark.sent = now,
                // One that is over begins anew with the packet after this one.
                _ => return,
            },
            None if self.flows.soft.uncountable.has(now, &tuple) => return,
            None if self.flows.table.len() >= self.config.flows_max => self.tally.flows_untold += 1,
            None => {
                self.take_in(FlowFacts { tuple, src, dst, started: now, bytes: 0, rate: None, size: None }, 0, None)
            }
        }
        if self.is_taken(at, &tuple) {
            return self.uncounted(&tuple);
        }
        self.send_counter(connection, at.1, tuple);
    }

    /// A flow that was not known begins.
    fn take_in(&mut self, facts: FlowFacts, poll: u32, sample: Option<Sample>) {
        let Some(edge) = self.network.host(facts.src).map(|host| host.edge) else { return };
        let flow = self.flows.table.insert(facts);
        self.flows.soft.begin(flow, Mark { edge, poll, sent: self.now, sample, state: State::Counted });
        self.questions.push_back(Why::FlowStarted(flow));
    }

    /// Whether a rule of somebody else is where the one that counts a flow would go.
    fn is_taken(&self, at: End, tuple: &FiveTuple) -> bool {
        let switch = self.network.node_of(at.0).and_then(|node| self.fabric.switches.get(&node));
        let has = |switch: &crate::install::Installer| {
            let (key, _) = self.compiler.counter_at(tuple, at.1, self.config.flow_idle_timeout_s);
            switch.is_foreign(&key)
        };
        switch.is_some_and(|switch| switch.has_foreign() && has(switch))
    }

    fn send_counter(&mut self, connection: ConnectionId, port: PortNo, tuple: FiveTuple) {
        let (key, wanted) = self.compiler.counter_at(&tuple, port, self.config.flow_idle_timeout_s);
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        let envelope = session.seal(Message::FlowMod(FlowMod {
            cookie: wanted.cookie,
            idle_timeout_s: wanted.idle_timeout_s,
            flags: TELLS,
            ..FlowMod::add(key.table, key.priority.0, key.match_, wanted.instructions)
        }));
        session.recent.note(envelope.xid, tuple);
        self.tally.flow_mods += 1;
        self.push(connection, envelope);
    }

    /// A switch refused what was sent under a number; whether that was a counting rule.
    pub(crate) fn counter_refused(&mut self, connection: ConnectionId, xid: Xid) -> bool {
        let session = self.sessions.get_mut(&connection);
        let Some(tuple) = session.and_then(|session| session.recent.take(xid)) else { return false };
        if self.is_by_first_packets() {
            self.uncounted(&tuple);
        }
        true
    }

    /// A flow cannot be counted: it is as good as over, since nobody would tell of its end, and not tried again for a while.
    fn uncounted(&mut self, tuple: &FiveTuple) {
        let pause = Time::from_s(u64::from(self.config.flow_idle_timeout_s.max(1)));
        self.flows.soft.uncountable.add(*tuple, self.now.saturating_add(pause));
        if let Some(flow) = self.flows.table.find(tuple) {
            self.end_flow(flow);
        }
    }

    fn end_flow(&mut self, flow: FlowId) {
        if self.flows.soft.end(flow) {
            self.questions.push_back(Why::FlowEnded(flow));
        }
    }

    /// A rule is gone; whether it is one of these.
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

    /// Counters of a flow, in the answer to a poll or in a survey (poll 0). One that is not known is taken in if there is room.
    pub(crate) fn counter_found(&mut self, datapath: DatapathId, entry: &FlowStats, poll: u32) {
        let (Some(tuple), Some(port)) = (tuple_of(&entry.match_), entry.match_.in_port) else { return };
        let Some((src, dst)) = self.ends_at(&tuple, (datapath, port)) else { return };
        let (bytes, duration_ns) = (entry.bytes, entry.duration_ns);
        let Some(flow) = self.flows.table.find(&tuple) else {
            if self.flows.table.len() < self.config.flows_max {
                let facts = FlowFacts { tuple, src, dst, started: self.now, bytes, rate: None, size: None };
                self.take_in(facts, poll, Some(Sample::first(bytes, duration_ns)));
            }
            return;
        };
        let Some(mark) = self.flows.soft.mark(flow) else { return };
        mark.poll = poll;
        let reading = match &mut mark.sample {
            Some(sample) => sample.next(bytes, duration_ns),
            none => {
                *none = Some(Sample::first(bytes, duration_ns));
                Reading::First
            }
        };
        self.flows.stale += u64::from(reading == Reading::Stale);
        if let Reading::Rate(rate) = reading {
            let facts = self.flows.table.get_mut(flow).expect("a flow that was found");
            (facts.rate, facts.bytes) = (Some(rate), bytes);
        }
    }

    /// The whole answer to a poll has come: flows it does not tell of, and should, are over.
    pub(crate) fn poll_answered(&mut self, datapath: DatapathId, xid: Xid) {
        let Some(node) = self.network.node_of(datapath) else { return };
        let Some(poll) = self.polls_out.get_mut(&datapath).filter(|poll| poll.xid == Some(xid)) else { return };
        poll.xid = None;
        let (number, sent) = (poll.number, poll.sent);
        let gone = self.flows.soft.end_missing(node, |_, mark| mark.poll != number && mark.sent < sent);
        self.questions.extend(gone.into_iter().map(Why::FlowEnded));
    }

    /// A switch was surveyed: rules that count flows are left to it, and taken out of what it was found with. Flows that should
    /// be among them and are not are over.
    pub(crate) fn survey_counters(&mut self, datapath: DatapathId, node: NodeIx, rules: &mut Vec<FlowStats>) {
        if !self.is_by_first_packets() {
            return;
        }
        let counters: Vec<FlowStats> = rules.extract_if(.., |rule| self.is_counting_rule(datapath, rule)).collect();
        let ports = counters.iter().filter_map(|rule| Some((datapath, rule.match_.in_port?)));
        self.flows.soft.found.extend(ports);
        let is_here = |rule: &&FlowStats| {
            let at = rule.match_.in_port.map(|port| (datapath, port));
            at.zip(tuple_of(&rule.match_)).is_some_and(|(at, tuple)| self.ends_at(&tuple, at).is_some())
        };
        let present = counters.iter().filter(is_here).filter_map(|rule| tuple_of(&rule.match_));
        let table = &self.flows.table;
        let present: BTreeSet<FlowId> = present.filter_map(|tuple| table.find(&tuple)).collect();
        let gone = self.flows.soft.end_missing(node, |flow, _| !present.contains(&flow));
        self.questions.extend(gone.into_iter().map(Why::FlowEnded));
        counters.iter().for_each(|rule| self.counter_found(datapath, rule, 0));
    }

    /// Whether a rule is one that counts a flow known by its first packet, exactly as this controller writes it. Such rules are
    /// the switch's: they are not among [`Controller::desired_entries`].
    pub fn is_counting_rule(&self, datapath: DatapathId, rule: &FlowStats) -> bool {
        let (Some(port), Some(tuple)) = (rule.match_.in_port, tuple_of(&rule.match_)) else { return false };
        let (key, wanted) = self.compiler.counter_at(&tuple, port, self.config.flow_idle_timeout_s);
        self.is_by_first_packets()
            && rule.idle_timeout_s > 0
            && !self.discovery.is_link((datapath, port))
            && (rule.table, rule.priority, rule.match_) == (key.table, key.priority.0, key.match_)
            && (rule.cookie, rule.idle_timeout_s) == (wanted.cookie, wanted.idle_timeout_s)
            && (rule.hard_timeout_s, rule.flags, &rule.instructions) == (0, TELLS, &wanted.instructions)
    }

    /// Flows known by their first packets and not ended, with the switch that counts them.
    pub fn counted_flows(&self) -> impl Iterator<Item = (FiveTuple, DatapathId)> {
        self.flows.table.iter().filter_map(|(flow, facts)| {
            let mark = self.flows.soft.marks.get(flow.ix()).filter(|mark| mark.state == State::Counted)?;
            Some((facts.tuple, self.network.datapath_of(mark.edge)?))
        })
    }

    /// Another balancer does not learn of flows by first packets: the rules go before anything else is sent.
    pub(crate) fn drop_counters(&mut self) {
        self.delete_counters(None);
    }
    /// A port turned out to lead to a switch: what comes from there is not from a host.
    pub(crate) fn drop_counters_of(&mut self, at: End, had_hosts: bool) {
        if self.is_by_first_packets() && (self.flows.soft.found.remove(&at) || had_hosts) {
            self.delete_counters(Some(at));
        }
    }

    fn delete_counters(&mut self, at: Option<End>) {
        let match_ = Match { in_port: at.map(|(_, port)| port), ..Match::default() };
        let delete = FlowMod {
            command: FlowModCommand::Delete,
            cookie: self.compiler.cookie(Purpose::Count),
            cookie_mask: PURPOSE_MASK,
            buffer: BufferId::NO_BUFFER,
            ..FlowMod::add(CLASSIFY, 0, match_, openflow::Instructions::default())
        };
        let is_meant = |datapath: &DatapathId| at.is_none_or(|(meant, _)| meant == *datapath);
        let meant = self.connections.iter().filter(|(datapath, _)| is_meant(datapath));
        let connections: Vec<ConnectionId> = meant.map(|(_, connection)| *connection).collect();
        for connection in connections {
            self.tally.flow_mods += 1;
            self.send(connection, Message::FlowMod(delete.clone()));
            // Counters of another kind may follow, with the same cookie.
            self.send(connection, Message::BarrierRequest);
        }
    }
}

/// The switch tells when a rule is gone.
pub(crate) const TELLS: FlowModFlags = FlowModFlags {
    send_flow_removed: true,
    check_overlap: false,
    reset_counts: false,
    no_packet_counts: false,
    no_byte_counts: false,
};

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    fn tuple(port: u16) -> FiveTuple {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        FiveTuple { src, dst, protocol: 6, src_port: port, dst_port: 80 }
    }

    #[test]
    fn what_cannot_be_counted_is_remembered_for_a_while_and_not_without_bound() {
        let mut flows = Uncountable::default();
        let s = Time::from_s;
        flows.add(tuple(1), s(5));
        flows.add(tuple(2), s(6));
        flows.add(tuple(1), s(7));
        assert!(flows.has(s(4), &tuple(1)) && flows.has(s(4), &tuple(2)) && !flows.has(s(4), &tuple(3)));
        assert!(flows.has(s(6), &tuple(1)), "it was refused a second time");
        assert!(!flows.has(s(6), &tuple(2)) && !flows.has(s(7), &tuple(1)));
        assert!(flows.until.is_empty() && flows.order.is_empty());
        for port in 0..=UNCOUNTABLE_MAX as u16 {
            flows.add(tuple(port), s(9));
        }
        assert_eq!((flows.until.len(), flows.order.len()), (UNCOUNTABLE_MAX, UNCOUNTABLE_MAX));
        assert!(!flows.has(s(8), &tuple(0)) && flows.has(s(8), &tuple(UNCOUNTABLE_MAX as u16)));
    }

    #[test]
    fn only_the_latest_numbers_are_remembered_and_each_counts_once() {
        let mut recent = Recent::default();
        for number in 0..=SENT_MAX as u32 {
            recent.note(Xid(number), tuple(number as u16));
        }
        assert_eq!((recent.take(Xid(0)), recent.take(Xid(1)), recent.take(Xid(1))), (None, Some(tuple(1)), None));
    }
}
