//! The table of connections and their members: bounded, and kept for a while after the rules have
//! gone.

use std::collections::{BTreeMap, VecDeque};

use net::{FiveTuple, Time};
use openflow::{DatapathId, MacAddr, Xid};

use super::rules::{Owner, ParsedRule};

/// Maximum number of remembered rules of forgotten connections. Beyond it their bytes may count
/// twice.
const ORPHANED_MAX: usize = 16_384;

/// Size of the smallest table whose list of ended connections is searched for superseded entries.
const SUPERSEDED_MIN: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionState {
    /// Its rules are not confirmed yet.
    Installing,
    Installed,
    /// Its rules are gone since this time. If it continues, it keeps its member.
    Closed(Time),
    /// Its member failed at this time; further packets of its client are answered with a reset.
    MemberFailed(Time),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) owner: Owner,
    /// Five-tuple behind the client's switch.
    pub(crate) translated: FiveTuple,
    pub(crate) edge: DatapathId,
    /// When its rules were sent last.
    pub(crate) sent: Time,
    pub(crate) stage: ConnectionState,
    /// Transaction number of the last barrier after its rules; the reply confirms them.
    pub(crate) barrier: Option<Xid>,
    /// Number of packets sent through the tables since its rules were confirmed.
    pub(crate) late: u8,
    /// Last byte counts of its rules: to member, to client.
    pub(crate) bytes: [u64; 2],
    /// Age of its rules at the last count, ns.
    ages_ns: [u64; 2],
    /// Total bytes of both directions.
    pub(crate) carried: u64,
    /// Ethernet address of the member in its rules.
    pub(crate) mac: MacAddr,
    /// Sequence number of the opening segment, if it was seen: the same number is a copy, another
    /// one opens another connection.
    pub(crate) opened: Option<u32>,
}

impl Connection {
    /// Returns a connection without traffic whose rules are sent or found (`stage`) now.
    pub(crate) fn new(
        owner: Owner,
        translated: FiveTuple,
        edge: DatapathId,
        mac: MacAddr,
        sent: Time,
        stage: ConnectionState,
    ) -> Self {
        let (bytes, ages_ns) = ([0; 2], [0; 2]);
        let (barrier, late, carried, opened) = Default::default();
        Connection { owner, translated, edge, sent, stage, barrier, late, bytes, ages_ns, carried, mac, opened }
    }

    fn rule_tuple(&self, tuple: &FiveTuple, is_to_client: bool) -> FiveTuple {
        if is_to_client { self.translated.reverse() } else { *tuple }
    }

    pub(crate) fn has_rules(&self) -> bool {
        matches!(self.stage, ConnectionState::Installing | ConnectionState::Installed)
    }

    /// Returns whether it closed or failed at this time, and has not continued.
    fn ended_at(&self, at: Time) -> bool {
        [ConnectionState::Closed(at), ConnectionState::MemberFailed(at)].contains(&self.stage)
    }
}

/// Connection and byte counts of one member at one service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub connections: u64,
    /// Connections since the member was added.
    pub connections_total: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.connections += other.connections;
        self.connections_total += other.connections_total;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }
}

/// All connections, by the five-tuple of packets from the client.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_tuple: BTreeMap<FiveTuple, Connection>,
    /// By translated five-tuple, which must be unique.
    by_translated: BTreeMap<FiveTuple, FiveTuple>,
    /// Closed and failed connections, oldest first; some may continue.
    over: VecDeque<(Time, FiveTuple)>,
    pub(crate) counts: BTreeMap<Owner, Counts>,
    /// Byte counts of rules whose connections are forgotten or have moved, by switch and match: the
    /// removal of such a rule reports all of its bytes.
    orphaned_bytes: BTreeMap<(DatapathId, FiveTuple, bool), u64>,
    /// Connections that have lost their rules since the last [`Connections::take_ended`].
    ended: Vec<(FiveTuple, Connection)>,
    max: usize,
    memory: Time,
}

impl Connections {
    /// Returns a table of at most `max` connections; closed ones are kept for `memory`.
    pub(crate) fn new(max: usize, memory: Time) -> Connections {
        Connections { max, memory, ..Connections::default() }
    }

    pub(crate) fn get(&self, tuple: &FiveTuple) -> Option<&Connection> {
        self.by_tuple.get(tuple)
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&FiveTuple, &Connection)> {
        self.by_tuple.iter()
    }
    pub(crate) fn find_translated(&self, translated: &FiveTuple) -> Option<FiveTuple> {
        self.by_translated.get(translated).copied()
    }
    pub(crate) fn is_translated_taken(&self, translated: &FiveTuple, tuple: &FiveTuple) -> bool {
        let other = self.by_translated.get(translated).filter(|other| *other != tuple);
        other.and_then(|other| self.by_tuple.get(other)).is_some_and(Connection::has_rules)
    }

    /// Returns the connection that a rule of a switch belongs to, with its five-tuple.
    pub(super) fn of_rule(&self, at: DatapathId, rule: &ParsedRule) -> Option<(FiveTuple, Connection)> {
        let tuple = match rule.is_to_client {
            false => rule.tuple,
            true => self.find_translated(&rule.tuple.reverse())?,
        };
        let known = self.get(&tuple).filter(|known| (known.owner, known.edge) == (rule.owner, at))?;
        Some((tuple, *known))
    }

    /// Removes and returns the connections that have lost their rules since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<(FiveTuple, Connection)> {
        std::mem::take(&mut self.ended)
    }

    /// Evicts closed connections to free capacity for one. Returns whether there is any.
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
    /// Removes entries of `over` whose connections have continued since, once they are the majority: a
    /// client that opens and closes the same connections must not fill the memory.
    fn drop_superseded(&mut self) {
        if self.over.len() > 2 * self.by_tuple.len().max(SUPERSEDED_MIN) {
            let by_tuple = &self.by_tuple;
            self.over.retain(|(at, tuple)| by_tuple.get(tuple).is_some_and(|connection| connection.ended_at(*at)));
        }
    }
    fn forget_if(&mut self, tuple: &FiveTuple, at: Time) {
        if self.by_tuple.get(tuple).is_some_and(|connection| connection.ended_at(at)) {
            self.remove(tuple);
        }
    }

    /// Adds a connection, or moves it to another member or switch.
    pub(crate) fn begin(&mut self, tuple: FiveTuple, mut connection: Connection) {
        let before = self.remove(&tuple);
        let is_same = before.is_some_and(|before| before.owner == connection.owner);
        if let Some(other) = self.find_translated(&connection.translated) {
            self.remove(&other);
        }
        for is_to_client in [false, true] {
            // A rule that is sent again continues to count, if it still existed. The rule of
            // another member starts at zero, and the removal of the former one reports its bytes.
            let rule = (connection.edge, connection.rule_tuple(&tuple, is_to_client), is_to_client);
            let counted = if is_same { self.orphaned_bytes.remove(&rule) } else { None };
            connection.bytes[usize::from(is_to_client)] = counted.unwrap_or(0);
        }
        self.by_translated.insert(connection.translated, tuple);
        let counts = self.counts.entry(connection.owner).or_default();
        counts.connections += 1;
        let is_another = before.is_none_or(|before| before.opened != connection.opened);
        counts.connections_total += u64::from(!is_same || is_another);
        self.by_tuple.insert(tuple, connection);
    }

    /// Records that rules of a connection were sent, followed by a barrier.
    pub(crate) fn sent(&mut self, tuple: &FiveTuple, now: Time, barrier: Option<Xid>) {
        self.edit(tuple, |connection| (connection.sent, connection.barrier) = (now, barrier));
        self.set_stage(tuple, ConnectionState::Installing);
    }
    /// Records that a table read-back shows the rules of a connection, which confirms them: the reply
    /// to their barrier may have been lost with the earlier session.
    pub(crate) fn recovered(&mut self, tuple: &FiveTuple) {
        self.edit(tuple, |connection| connection.barrier = None);
        if self.get(tuple).is_some_and(|known| known.stage == ConnectionState::Installing) {
            self.set_stage(tuple, ConnectionState::Installed);
        }
    }

    /// Handles a barrier reply: the rules sent before it are confirmed, unless others were sent
    /// since.
    pub(crate) fn confirmed(&mut self, tuple: &FiveTuple, edge: DatapathId, barrier: Xid) {
        let is_meant = |known: &&Connection| {
            (known.edge, known.stage, known.barrier) == (edge, ConnectionState::Installing, Some(barrier))
        };
        if self.get(tuple).filter(is_meant).is_some() {
            self.set_stage(tuple, ConnectionState::Installed);
        }
    }

    pub(crate) fn edit(&mut self, tuple: &FiveTuple, edit: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.by_tuple.get_mut(tuple) {
            edit(connection);
        }
    }

    pub(crate) fn set_stage(&mut self, tuple: &FiveTuple, stage: ConnectionState) {
        let Some(connection) = self.by_tuple.get_mut(tuple) else { return };
        let had_rules = connection.has_rules();
        connection.stage = stage;
        let (has_rules, owner) = (connection.has_rules(), connection.owner);
        if had_rules && !has_rules {
            self.ended.push((*tuple, *connection));
        }
        if let ConnectionState::Closed(at) | ConnectionState::MemberFailed(at) = stage {
            self.over.push_back((at, *tuple));
            self.drop_superseded();
        }
        let counts = self.counts.entry(owner).or_default();
        match (had_rules, has_rules) {
            (false, true) => counts.connections += 1,
            (true, false) => counts.connections = counts.connections.saturating_sub(1),
            _ => {}
        }
    }

    pub(crate) fn counted(&mut self, tuple: &FiveTuple, is_to_client: bool, bytes: u64) {
        let Some(connection) = self.by_tuple.get_mut(tuple) else { return };
        let last = &mut connection.bytes[usize::from(is_to_client)];
        let more = if bytes >= *last { bytes - *last } else { bytes };
        *last = bytes;
        connection.carried += more;
        let owner = connection.owner;
        self.add_bytes(owner, is_to_client, more);
    }
    /// Records the byte counter and age of a rule. Returns whether they were refreshed since the
    /// last sample.
    pub(crate) fn read(&mut self, tuple: &FiveTuple, is_to_client: bool, bytes: u64, age_ns: u64) -> bool {
        let Some(connection) = self.by_tuple.get_mut(tuple) else { return false };
        let before = std::mem::replace(&mut connection.ages_ns[usize::from(is_to_client)], age_ns);
        self.counted(tuple, is_to_client, bytes);
        before != age_ns
    }
    /// Records the final bytes of a rule that was removed or replaced; its counter restarts at
    /// zero.
    pub(crate) fn counter_gone(&mut self, tuple: &FiveTuple, is_to_client: bool, bytes: u64) {
        self.counted(tuple, is_to_client, bytes);
        self.edit(tuple, |connection| connection.bytes[usize::from(is_to_client)] = 0);
    }
    /// Records the removal of a rule whose connection is forgotten, or has moved. `rule` is its
    /// match.
    pub(crate) fn stray_gone(&mut self, at: DatapathId, rule: FiveTuple, owner: Owner, is_to_client: bool, bytes: u64) {
        let counted = self.orphaned_bytes.remove(&(at, rule, is_to_client)).unwrap_or(0);
        self.add_bytes(owner, is_to_client, bytes.saturating_sub(counted));
    }
    fn leave(&mut self, tuple: &FiveTuple, connection: &Connection) {
        if self.orphaned_bytes.len() >= ORPHANED_MAX {
            self.orphaned_bytes.clear();
        }
        for (is_to_client, bytes) in [false, true].into_iter().zip(connection.bytes).filter(|(_, bytes)| *bytes > 0) {
            self.orphaned_bytes
                .insert((connection.edge, connection.rule_tuple(tuple, is_to_client), is_to_client), bytes);
        }
    }
    fn add_bytes(&mut self, owner: Owner, is_to_client: bool, bytes: u64) {
        let Some(counts) = self.counts.get_mut(&owner) else { return };
        match is_to_client {
            false => counts.bytes_in += bytes,
            true => counts.bytes_out += bytes,
        }
    }

    pub(crate) fn remove(&mut self, tuple: &FiveTuple) -> Option<Connection> {
        let connection = self.by_tuple.remove(tuple)?;
        self.leave(tuple, &connection);
        if self.by_translated.get(&connection.translated) == Some(tuple) {
            self.by_translated.remove(&connection.translated);
        }
        if connection.has_rules()
            && let Some(counts) = self.counts.get_mut(&connection.owner)
        {
            counts.connections = counts.connections.saturating_sub(1);
            self.ended.push((*tuple, connection));
        }
        Some(connection)
    }

    pub(crate) fn select(&self, is_meant: impl Fn(&Connection) -> bool) -> Vec<FiveTuple> {
        self.by_tuple.iter().filter(|(_, connection)| is_meant(connection)).map(|(tuple, _)| *tuple).collect()
    }

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
    fn connection(port: u16, translated_port: u16) -> Connection {
        let translated = FiveTuple { dst: Ipv4Addr::new(10, 0, 0, 2), src_port: translated_port, ..tuple(port) };
        Connection::new(OWNER, translated, DatapathId(1), MacAddr::default(), Time::ZERO, ConnectionState::Installing)
    }
    fn now(connections: &Connections) -> u64 {
        connections.counts[&OWNER].connections
    }

    #[test]
    fn closed_connections_are_evicted_oldest_first() {
        let mut table = Connections::new(3, Time::from_s(60));
        for port in 1..=3 {
            assert!(table.make_room(Time::ZERO));
            table.begin(tuple(port), connection(port, port));
        }
        assert!(!table.make_room(Time::ZERO));
        assert_eq!(now(&table), 3);
        table.set_stage(&tuple(2), ConnectionState::Closed(Time::from_s(1)));
        table.set_stage(&tuple(1), ConnectionState::Closed(Time::from_s(2)));
        table.set_stage(&tuple(2), ConnectionState::Installing); // It continues after all.
        assert_eq!(now(&table), 2);
        assert!(table.make_room(Time::from_s(3)));
        assert!(table.get(&tuple(1)).is_none() && table.get(&tuple(2)).is_some());
        assert_eq!(table.counts[&OWNER].connections_total, 3);
    }

    #[test]
    fn connections_that_continue_again_and_again_use_no_memory() {
        let mut table = Connections::new(3, Time::from_s(60));
        table.begin(tuple(1), connection(1, 1));
        for ms in 0..10_000 {
            table.set_stage(&tuple(1), ConnectionState::Closed(Time::from_ms(ms)));
            table.set_stage(&tuple(1), ConnectionState::Installing);
        }
        assert!(table.over.len() <= 2 * SUPERSEDED_MIN, "{} entries of one connection", table.over.len());
        table.set_stage(&tuple(1), ConnectionState::Closed(Time::from_s(11)));
        table.make_room(Time::from_s(71));
        assert!(table.get(&tuple(1)).is_none() && table.over.is_empty());
    }

    #[test]
    fn closed_connections_expire() {
        let mut table = Connections::new(3, Time::from_s(60));
        table.begin(tuple(1), connection(1, 1));
        table.set_stage(&tuple(1), ConnectionState::Closed(Time::from_s(10)));
        table.make_room(Time::from_s(69));
        assert!(table.get(&tuple(1)).is_some());
        table.make_room(Time::from_s(70));
        assert!(table.get(&tuple(1)).is_none() && table.by_translated.is_empty() && table.over.is_empty());
    }

    #[test]
    fn translated_tuples_are_unique() {
        let mut table = Connections::new(9, Time::from_s(60));
        table.begin(tuple(1), connection(1, 7));
        let same = connection(2, 7).translated;
        assert!(table.is_translated_taken(&same, &tuple(2)) && !table.is_translated_taken(&same, &tuple(1)));
        table.set_stage(&tuple(1), ConnectionState::Closed(Time::ZERO));
        assert!(!table.is_translated_taken(&same, &tuple(2)));
        table.begin(tuple(2), connection(2, 7));
        assert_eq!((table.find_translated(&same), table.get(&tuple(1)).is_some()), (Some(tuple(2)), false));
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
        let counts = table.counts[&OWNER];
        assert_eq!((counts.bytes_in, counts.bytes_out), (200, 1000));
        // Its rules are sent again while they still count; then it moves to another switch, and the
        // old ones are removed.
        table.begin(tuple(1), connection(1, 1));
        table.counted(&tuple(1), true, 1500);
        table.begin(tuple(1), Connection { edge: DatapathId(2), ..connection(1, 1) });
        table.counted(&tuple(1), true, 7);
        let back = connection(1, 1).translated.reverse();
        table.stray_gone(DatapathId(1), back, OWNER, true, 1600);
        table.stray_gone(DatapathId(1), tuple(1), OWNER, false, 31);
        let counts = table.counts[&OWNER];
        assert_eq!((counts.bytes_in, counts.bytes_out), (201, 1607));
        assert_eq!((counts.connections, counts.connections_total), (1, 1));
    }
}
