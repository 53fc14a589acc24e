//! Which connection is whose: bounded, and remembered for a while after its rules have gone.

use std::collections::{BTreeMap, VecDeque};

use net::{FiveTuple, Time};
use openflow::{DatapathId, MacAddr, Xid};

use super::rules::Owner;

/// Rules remembered whose connections are not known any more. Where there are more, their bytes may count twice.
const LEFT_MAX: usize = 16_384;

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Its rules are under way.
    Sent,
    /// They are there.
    Standing,
    /// They are gone since then: if it goes on, it goes to the same member.
    Over(Time),
    /// Its member has failed, then; whatever its client still sends is answered with a reset.
    Broken(Time),
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) owner: Owner,
    /// What it is beyond the client's switch.
    pub(crate) inner: FiveTuple,
    /// The switch of the client.
    pub(crate) edge: DatapathId,
    /// When rules were sent last.
    pub(crate) sent: Time,
    pub(crate) stage: Stage,
    /// The barrier that was sent after its rules last; once it is answered, they are there.
    pub(crate) barrier: Option<Xid>,
    /// Packets sent on to the tables since its rules were confirmed.
    pub(crate) late: u8,
    /// Bytes of its rules as counted last: forth, back.
    pub(crate) bytes: [u64; 2],
    /// Age of its rules then, ns.
    ages_ns: [u64; 2],
    /// Bytes in all, both ways together.
    pub(crate) carried: u64,
    /// The member's interface, as its rules have it.
    pub(crate) mac: MacAddr,
    /// Sequence number of the segment that opened it, if that was seen: the same again is a copy, another one opens another
    /// connection.
    pub(crate) opened: Option<u32>,
}

impl Connection {
    /// One that has carried nothing yet; its rules are sent, or found (`stage`), now.
    pub(crate) fn new(
        owner: Owner,
        inner: FiveTuple,
        edge: DatapathId,
        mac: MacAddr,
        sent: Time,
        stage: Stage,
    ) -> Self {
        let (bytes, ages_ns) = ([0; 2], [0; 2]);
        let (barrier, late, carried, opened) = Default::default();
        Connection { owner, inner, edge, sent, stage, barrier, late, bytes, ages_ns, carried, mac, opened }
    }

    /// What the rule of one of its ways matches.
    fn rule_tuple(&self, tuple: &FiveTuple, is_back: bool) -> FiveTuple {
        if is_back { self.inner.reverse() } else { *tuple }
    }

    /// Whether there are rules of it, or will be.
    pub(crate) fn has_rules(&self) -> bool {
        matches!(self.stage, Stage::Sent | Stage::Standing)
    }
}

/// What the connections of one member at one service have come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// With rules, now.
    pub connections: u64,
    /// In all.
    pub connections_total: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
}

impl Counts {
    /// Adds what others have come to.
    pub fn add(&mut self, other: &Counts) {
        self.connections += other.connections;
        self.connections_total += other.connections_total;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }
}

/// All connections, by what clients send.
#[derive(Debug)]
pub(crate) struct Connections {
    by_tuple: BTreeMap<FiveTuple, Connection>,
    /// By what they are beyond the client's switch: no two may be the same there.
    by_inner: BTreeMap<FiveTuple, FiveTuple>,
    /// Those that are over or broken, oldest first; some may live again.
    over: VecDeque<(Time, FiveTuple)>,
    counts: BTreeMap<Owner, Counts>,
    /// Bytes that have been counted by rules whose connections are not known any more, or have moved, by switch and what
    /// the rule matches: when such a rule goes it tells of all of its bytes.
    left: BTreeMap<(DatapathId, FiveTuple, bool), u64>,
    /// Those that have lost their rules since this was last asked for.
    ended: Vec<(FiveTuple, Connection)>,
    max: usize,
    memory: Time,
}

impl Connections {
    /// At most `max` at once; those that are over are remembered for `memory`.
    pub(crate) fn new(max: usize, memory: Time) -> Connections {
        let (by_tuple, by_inner, counts) = Default::default();
        let (over, left, ended) = Default::default();
        Connections { by_tuple, by_inner, over, counts, left, ended, max, memory }
    }

    pub(crate) fn get(&self, tuple: &FiveTuple) -> Option<&Connection> {
        self.by_tuple.get(tuple)
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&FiveTuple, &Connection)> {
        self.by_tuple.iter()
    }
    pub(crate) fn counts(&self) -> &BTreeMap<Owner, Counts> {
        &self.counts
    }
    /// The connection that is this beyond its client's switch.
    pub(crate) fn find_inner(&self, inner: &FiveTuple) -> Option<FiveTuple> {
        self.by_inner.get(inner).copied()
    }
    /// Whether another connection with rules is this beyond its client's switch.
    pub(crate) fn is_inner_taken(&self, inner: &FiveTuple, tuple: &FiveTuple) -> bool {
        let other = self.by_inner.get(inner).filter(|other| *other != tuple);
        other.and_then(|other| self.by_tuple.get(other)).is_some_and(Connection::has_rules)
    }

    /// Those that have lost their rules since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<(FiveTuple, Connection)> {
        std::mem::take(&mut self.ended)
    }

    /// Makes room for one more; whether there is any.
    pub(crate) fn make_room(&mut self, now: Time) -> bool {
        self.forget_old(now);
        while self.by_tuple.len() >= self.max {
            let Some((at, tuple)) = self.over.pop_front() else { return false };
            self.forget_if(&tuple, at);
        }
        true
    }

    fn forget_old(&mut self, now: Time) {
        while let Some((at, tuple)) = self.over.front().copied()
            && at.saturating_add(self.memory) <= now
        {
            self.over.pop_front();
            self.forget_if(&tuple, at);
        }
    }
    fn forget_if(&mut self, tuple: &FiveTuple, at: Time) {
        let is_meant = |connection: &Connection| [Stage::Over(at), Stage::Broken(at)].contains(&connection.stage);
        if self.by_tuple.get(tuple).is_some_and(is_meant) {
            self.remove(tuple);
        }
    }

    /// A connection begins, or goes on with another member or at another switch.
    pub(crate) fn begin(&mut self, tuple: FiveTuple, mut connection: Connection) {
        let before = self.remove(&tuple);
        let is_same = before.is_some_and(|before| before.owner == connection.owner);
        if let Some(other) = self.find_inner(&connection.inner) {
            self.remove(&other);
        }
        for is_back in [false, true] {
            // A rule that is sent again goes on counting, if it was still there. One of another member begins anew, and the one
            // before it will tell of its own bytes when it goes.
            let rule = (connection.edge, connection.rule_tuple(&tuple, is_back), is_back);
            let counted = if is_same { self.left.remove(&rule) } else { None };
            connection.bytes[usize::from(is_back)] = counted.unwrap_or(0);
        }
        self.by_inner.insert(connection.inner, tuple);
        let counts = self.counts.entry(connection.owner).or_default();
        counts.connections += 1;
        let is_another = before.is_none_or(|before| before.opened != connection.opened);
        counts.connections_total += u64::from(!is_same || is_another);
        self.by_tuple.insert(tuple, connection);
    }

    /// Rules of one were sent, with a barrier after them.
    pub(crate) fn sent(&mut self, tuple: &FiveTuple, now: Time, barrier: Option<Xid>) {
        self.edit(tuple, |connection| (connection.sent, connection.barrier) = (now, barrier));
        self.set_stage(tuple, Stage::Sent);
    }
    /// A barrier was answered: the rules sent before it are there, unless others were sent since.
    pub(crate) fn confirmed(&mut self, tuple: &FiveTuple, edge: DatapathId, barrier: Xid) {
        let is_meant =
            |known: &&Connection| (known.edge, known.stage, known.barrier) == (edge, Stage::Sent, Some(barrier));
        if self.get(tuple).filter(is_meant).is_some() {
            self.set_stage(tuple, Stage::Standing);
        }
    }

    /// Changes one without changing its stage.
    pub(crate) fn edit(&mut self, tuple: &FiveTuple, edit: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.by_tuple.get_mut(tuple) {
            edit(connection);
        }
    }

    /// Rules of a connection were sent, or confirmed.
    pub(crate) fn set_stage(&mut self, tuple: &FiveTuple, stage: Stage) {
        let Some(connection) = self.by_tuple.get_mut(tuple) else { return };
        let had_rules = connection.has_rules();
        connection.stage = stage;
        let (has_rules, owner) = (connection.has_rules(), connection.owner);
        if had_rules && !has_rules {
            self.ended.push((*tuple, *connection));
        }
        if let Stage::Over(at) | Stage::Broken(at) = stage {
            self.over.push_back((at, *tuple));
        }
        let counts = self.counts.entry(owner).or_default();
        match (had_rules, has_rules) {
            (false, true) => counts.connections += 1,
            (true, false) => counts.connections = counts.connections.saturating_sub(1),
            _ => {}
        }
    }

    /// Counters of a rule: bytes so far.
    pub(crate) fn counted(&mut self, tuple: &FiveTuple, is_back: bool, bytes: u64) {
        let Some(connection) = self.by_tuple.get_mut(tuple) else { return };
        let last = &mut connection.bytes[usize::from(is_back)];
        let more = if bytes >= *last { bytes - *last } else { bytes };
        *last = bytes;
        connection.carried += more;
        let owner = connection.owner;
        self.add_bytes(owner, is_back, more);
    }
    /// Counters of a rule, and its age: whether they had been refreshed since they were read last.
    pub(crate) fn read(&mut self, tuple: &FiveTuple, is_back: bool, bytes: u64, age_ns: u64) -> bool {
        let Some(connection) = self.by_tuple.get_mut(tuple) else { return false };
        let before = std::mem::replace(&mut connection.ages_ns[usize::from(is_back)], age_ns);
        self.counted(tuple, is_back, bytes);
        before != age_ns
    }
    /// A rule is gone, or begins anew: its counters begin at zero.
    pub(crate) fn counter_gone(&mut self, tuple: &FiveTuple, is_back: bool, bytes: u64) {
        self.counted(tuple, is_back, bytes);
        self.edit(tuple, |connection| connection.bytes[usize::from(is_back)] = 0);
    }
    /// A rule is gone whose connection is not known any more, or is elsewhere: `rule` is what it matched.
    pub(crate) fn stray_gone(&mut self, at: DatapathId, rule: FiveTuple, owner: Owner, is_back: bool, bytes: u64) {
        let counted = self.left.remove(&(at, rule, is_back)).unwrap_or(0);
        self.add_bytes(owner, is_back, bytes.saturating_sub(counted));
    }
    fn leave(&mut self, tuple: &FiveTuple, connection: &Connection) {
        if self.left.len() >= LEFT_MAX {
            self.left.clear();
        }
        for (is_back, bytes) in [false, true].into_iter().zip(connection.bytes).filter(|(_, bytes)| *bytes > 0) {
            self.left.insert((connection.edge, connection.rule_tuple(tuple, is_back), is_back), bytes);
        }
    }
    fn add_bytes(&mut self, owner: Owner, is_back: bool, bytes: u64) {
        let Some(counts) = self.counts.get_mut(&owner) else { return };
        match is_back {
            false => counts.bytes_in += bytes,
            true => counts.bytes_out += bytes,
        }
    }

    pub(crate) fn remove(&mut self, tuple: &FiveTuple) -> Option<Connection> {
        let connection = self.by_tuple.remove(tuple)?;
        self.leave(tuple, &connection);
        if self.by_inner.get(&connection.inner) == Some(tuple) {
            self.by_inner.remove(&connection.inner);
        }
        if connection.has_rules()
            && let Some(counts) = self.counts.get_mut(&connection.owner)
        {
            counts.connections = counts.connections.saturating_sub(1);
            self.ended.push((*tuple, connection));
        }
        Some(connection)
    }

    /// Connections that are meant, by what clients send.
    pub(crate) fn select(&self, is_meant: impl Fn(&Connection) -> bool) -> Vec<FiveTuple> {
        self.by_tuple.iter().filter(|(_, connection)| is_meant(connection)).map(|(tuple, _)| *tuple).collect()
    }

    /// Nothing is known any more of those with such owners.
    pub(crate) fn forget(&mut self, is_meant: impl Fn(&Owner) -> bool) {
        for tuple in self.select(|connection| is_meant(&connection.owner)) {
            self.remove(&tuple);
        }
        self.counts.retain(|owner, _| !is_meant(owner));
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::super::spec::{MemberId, ServiceId};
    use super::*;

    const OWNER: Owner = Owner { service: ServiceId(1), member: MemberId(1) };

    fn tuple(port: u16) -> FiveTuple {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 9, 9));
        FiveTuple { src, dst, protocol: 6, src_port: port, dst_port: 80 }
    }
    fn connection(port: u16, inner_port: u16) -> Connection {
        let inner = FiveTuple { dst: Ipv4Addr::new(10, 0, 0, 2), src_port: inner_port, ..tuple(port) };
        Connection::new(OWNER, inner, DatapathId(1), MacAddr::default(), Time::ZERO, Stage::Sent)
    }
    fn now(connections: &Connections) -> u64 {
        connections.counts()[&OWNER].connections
    }

    #[test]
    fn those_that_are_over_give_way_oldest_first_and_those_with_rules_do_not() {
        let mut table = Connections::new(3, Time::from_s(60));
        for port in 1..=3 {
            assert!(table.make_room(Time::ZERO));
            table.begin(tuple(port), connection(port, port));
        }
        assert!(!table.make_room(Time::ZERO));
        assert_eq!(now(&table), 3);
        table.set_stage(&tuple(2), Stage::Over(Time::from_s(1)));
        table.set_stage(&tuple(1), Stage::Over(Time::from_s(2)));
        table.set_stage(&tuple(2), Stage::Sent); // It goes on after all.
        assert_eq!(now(&table), 2);
        assert!(table.make_room(Time::from_s(3)));
        assert!(table.get(&tuple(1)).is_none() && table.get(&tuple(2)).is_some());
        assert_eq!(table.counts()[&OWNER].connections_total, 3);
    }

    #[test]
    fn what_is_over_is_forgotten_after_a_while() {
        let mut table = Connections::new(3, Time::from_s(60));
        table.begin(tuple(1), connection(1, 1));
        table.set_stage(&tuple(1), Stage::Over(Time::from_s(10)));
        table.make_room(Time::from_s(69));
        assert!(table.get(&tuple(1)).is_some());
        table.make_room(Time::from_s(70));
        assert!(table.get(&tuple(1)).is_none() && table.by_inner.is_empty() && table.over.is_empty());
    }

    #[test]
    fn two_connections_are_never_one_beyond_the_edge() {
        let mut table = Connections::new(9, Time::from_s(60));
        table.begin(tuple(1), connection(1, 7));
        let same = connection(2, 7).inner;
        assert!(table.is_inner_taken(&same, &tuple(2)) && !table.is_inner_taken(&same, &tuple(1)));
        table.set_stage(&tuple(1), Stage::Over(Time::ZERO));
        assert!(!table.is_inner_taken(&same, &tuple(2)));
        table.begin(tuple(2), connection(2, 7));
        assert_eq!((table.find_inner(&same), table.get(&tuple(1)).is_some()), (Some(tuple(2)), false));
    }

    #[test]
    fn bytes_are_counted_once() {
        let mut table = Connections::new(9, Time::from_s(60));
        table.begin(tuple(1), connection(1, 1));
        table.counted(&tuple(1), false, 100);
        table.counted(&tuple(1), false, 150);
        table.counted(&tuple(1), true, 1000);
        table.counter_gone(&tuple(1), false, 170);
        table.counted(&tuple(1), false, 30);
        let counts = table.counts()[&OWNER];
        assert_eq!((counts.bytes_in, counts.bytes_out), (200, 1000));
        // Its rules are sent again, where they still count; then it is at another switch, and the old ones go.
        table.begin(tuple(1), connection(1, 1));
        table.counted(&tuple(1), true, 1500);
        table.begin(tuple(1), Connection { edge: DatapathId(2), ..connection(1, 1) });
        table.counted(&tuple(1), true, 7);
        let back = connection(1, 1).inner.reverse();
        table.stray_gone(DatapathId(1), back, OWNER, true, 1600);
        table.stray_gone(DatapathId(1), tuple(1), OWNER, false, 31);
        let counts = table.counts()[&OWNER];
        assert_eq!((counts.bytes_in, counts.bytes_out), (201, 1607));
        assert_eq!((counts.connections, counts.connections_total), (1, 1));
    }
}
