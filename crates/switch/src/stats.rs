//! Multipart replies: state and statistics (specification 7.3.5).

use std::collections::BTreeMap;

use openflow::{
    Action, BadRequest, ConnectionId, ErrorKind, FlowSelection, FlowStats, GroupFeatures, GroupId, GroupStats,
    Instructions, Message, MeterFeatures, MultipartReply, MultipartRequest, PortNo, PortStats, TableId, TableStats,
    Xid,
};

use crate::counters::age_ns;
use crate::groups::{Group, callees};
use crate::key::Pattern;
use crate::ports::Port;
use crate::table::Entry;
use crate::{Switch, checks};

const GROUP_TYPES: u32 = 0b1111;
const GROUP_CAPABILITIES: u32 = 0b1111;
/// Output, push and pop VLAN, group, set field (`OFPAT_*`).
const GROUP_ACTIONS: u32 = 1 | 1 << 17 | 1 << 18 | 1 << 22 | 1 << 25;

/// Number of tables in one part of a reply: the features of each have at most 640 bytes.
const PART_TABLES: usize = 64;

impl Switch {
    pub(crate) fn multipart(&mut self, by: ConnectionId, xid: Xid, request: MultipartRequest) -> Result<(), ErrorKind> {
        use MultipartRequest as Request;
        if !self.is_supported(&request) {
            return Err(ErrorKind::BadRequest(BadRequest::BadMultipart));
        }
        let reply = match request {
            Request::Desc => MultipartReply::Desc(self.config.description.clone()),
            Request::Flow(selection) => {
                return self.in_parts(by, xid, self.flow_stats(&selection)?, MultipartReply::Flow);
            }
            Request::Aggregate(selection) => self.aggregate(&selection)?,
            Request::Table => return self.in_parts(by, xid, self.table_stats(), MultipartReply::Table),
            Request::Port(port) => return self.in_parts(by, xid, self.port_stats(port)?, MultipartReply::Port),
            Request::Queue { port, queue } => self.queues(port, queue)?,
            Request::Group(group) => return self.in_parts(by, xid, self.group_stats(group), MultipartReply::Group),
            Request::GroupDesc => return self.in_parts(by, xid, self.groups.describe(), MultipartReply::GroupDesc),
            Request::GroupFeatures => self.group_features(),
            Request::Meter(meter) => Switch::meters(meter, MultipartReply::Meter(Vec::new()))?,
            Request::MeterConfig(meter) => Switch::meters(meter, MultipartReply::MeterConfig(Vec::new()))?,
            Request::MeterFeatures => MultipartReply::MeterFeatures(MeterFeatures::default()),
            Request::TableFeatures(wanted) => {
                let (tables, part_len) = (self.table_features(&wanted)?, self.part_entries.min(PART_TABLES));
                return self.in_parts_of(part_len, by, xid, tables, MultipartReply::TableFeatures);
            }
            Request::PortDesc => {
                let ports = self.ports.iter().map(|port| port.desc.clone()).collect();
                return self.in_parts(by, xid, ports, MultipartReply::PortDesc);
            }
            Request::FlowMonitor(monitors) => return self.add_monitors(by, xid, &monitors),
            Request::Experimenter { .. } => return Err(ErrorKind::BadRequest(BadRequest::BadExperimenter)),
            Request::Other { .. } => return Err(ErrorKind::BadRequest(BadRequest::BadMultipart)),
        };
        self.answer(by, xid, Message::MultipartReply { reply, has_more: false });
        Ok(())
    }

    fn is_supported(&self, request: &MultipartRequest) -> bool {
        use MultipartRequest as Request;
        match request {
            Request::Group(_) | Request::GroupDesc | Request::GroupFeatures => self.config.support.groups,
            Request::Aggregate(_) => self.config.support.aggregate,
            Request::Queue { .. }
            | Request::Meter(_)
            | Request::MeterConfig(_)
            | Request::MeterFeatures
            | Request::TableFeatures(_) => self.config.support.features,
            _ => true,
        }
    }

    fn group_features(&self) -> MultipartReply {
        MultipartReply::GroupFeatures(GroupFeatures {
            types: GROUP_TYPES,
            capabilities: GROUP_CAPABILITIES,
            max_groups: [self.config.max_groups; 4],
            actions: [GROUP_ACTIONS; 4],
        })
    }

    /// Replies with a list in parts; an empty list is one empty part.
    pub(crate) fn in_parts<T>(
        &mut self,
        by: ConnectionId,
        xid: Xid,
        list: Vec<T>,
        reply: fn(Vec<T>) -> MultipartReply,
    ) -> Result<(), ErrorKind> {
        self.in_parts_of(self.part_entries, by, xid, list, reply)
    }

    fn in_parts_of<T>(
        &mut self,
        part_len: usize,
        by: ConnectionId,
        xid: Xid,
        list: Vec<T>,
        reply: fn(Vec<T>) -> MultipartReply,
    ) -> Result<(), ErrorKind> {
        let mut rest = list.into_iter();
        loop {
            let part: Vec<T> = rest.by_ref().take(part_len).collect();
            let has_more = rest.len() > 0;
            self.answer(by, xid, Message::MultipartReply { reply: reply(part), has_more });
            if !has_more {
                return Ok(());
            }
        }
    }

    fn selected(&self, selection: &FlowSelection) -> Result<Vec<(TableId, &Entry)>, ErrorKind> {
        let tables = match selection.table {
            TableId::ALL => 0..self.config.tables,
            TableId(table) if table < self.config.tables => table..table + 1,
            _ => return Err(ErrorKind::BadRequest(BadRequest::BadTableId)),
        };
        checks::match_(&selection.match_, &self.ports, self.config.supports_tcp_flags)?;
        let pattern = Pattern::of(&selection.match_);
        let is_meant = |entry: &Entry| {
            (entry.cookie ^ selection.cookie) & selection.cookie_mask == 0
                && entry.sends_to(selection.out_port)
                && entry.uses_group(selection.out_group)
                && pattern.covers(&entry.pattern())
        };
        let mut chosen = Vec::new();
        for id in tables {
            let table = &self.tables[usize::from(id)];
            let slots = table.select(is_meant);
            chosen.extend(slots.into_iter().filter_map(|slot| Some((TableId(id), table.get(slot)?))));
        }
        Ok(chosen)
    }

    fn flow_stats(&self, selection: &FlowSelection) -> Result<Vec<FlowStats>, ErrorKind> {
        let stats = |(table, entry): (TableId, &Entry)| {
            let usage = entry.usage();
            let age_ns = self.clock.shown_age_ns(usage.counted_since);
            stats_of(table, entry, usage.counter.shown(&self.clock), age_ns)
        };
        Ok(self.selected(selection)?.into_iter().map(stats).collect())
    }

    fn aggregate(&self, selection: &FlowSelection) -> Result<MultipartReply, ErrorKind> {
        let chosen = self.selected(selection)?;
        let shown = chosen.iter().map(|(_, entry)| entry.usage().counter.shown(&self.clock));
        let (packets, bytes) = shown.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Ok(MultipartReply::Aggregate { packets, bytes, flows: chosen.len() as u32 })
    }

    fn table_stats(&self) -> Vec<TableStats> {
        let stats = |(id, table): (usize, &crate::table::Table)| {
            let (lookups, matched) = table.counter.shown(&self.clock);
            TableStats { table: TableId(id as u8), active: table.len(), lookups, matched }
        };
        self.tables.iter().enumerate().map(stats).collect()
    }

    fn port_stats(&self, port: PortNo) -> Result<Vec<PortStats>, ErrorKind> {
        if port == PortNo::ANY {
            return Ok(self.ports.iter().map(|port| self.stats_of_port(port)).collect());
        }
        let port = self.ports.get(port).ok_or(ErrorKind::BadRequest(BadRequest::BadPort))?;
        Ok(vec![self.stats_of_port(port)])
    }

    fn stats_of_port(&self, port: &Port) -> PortStats {
        let (rx_packets, rx_bytes) = port.rx.shown(&self.clock);
        let (tx_packets, tx_bytes) = port.tx.shown(&self.clock);
        PortStats {
            rx_packets,
            tx_packets,
            rx_bytes,
            tx_bytes,
            rx_dropped: port.rx_dropped.shown(&self.clock).0,
            tx_dropped: port.tx_dropped.shown(&self.clock).0,
            duration_ns: self.clock.shown_age_ns(Switch::PORTS_SINCE),
            ..PortStats::unsupported(port.desc.port)
        }
    }

    /// Returns the statistics of one group, none if it is unknown (there is no error), or of all.
    fn group_stats(&self, wanted: GroupId) -> Vec<GroupStats> {
        let references = self.group_references();
        let stats = |(group, state): (&GroupId, &Group)| {
            let (packets, bytes) = state.counter.shown(&self.clock);
            GroupStats {
                group: *group,
                references: references.get(group).copied().unwrap_or(0),
                packets,
                bytes,
                duration_ns: self.clock.shown_age_ns(state.since),
                buckets: state.buckets.iter().map(|bucket| bucket.counter.shown(&self.clock)).collect(),
            }
        };
        self.groups.by_id.iter().filter(|(group, _)| wanted == GroupId::ALL || wanted == **group).map(stats).collect()
    }

    /// Returns the number of entries and groups that use each group, each counted once.
    fn group_references(&self) -> BTreeMap<GroupId, u32> {
        let mut references = BTreeMap::new();
        let mut note = |mut used: Vec<GroupId>| {
            used.sort();
            used.dedup();
            used.into_iter().for_each(|group| *references.entry(group).or_default() += 1);
        };
        let called = |action: &Action| if let Action::Group(group) = action { Some(*group) } else { None };
        for (_, entry) in self.tables.iter().flat_map(|table| table.iter()) {
            note(entry.actions().filter_map(called).collect());
        }
        for group in self.groups.by_id.values() {
            note(group.buckets.iter().flat_map(|bucket| callees(&bucket.bucket)).collect());
        }
        references
    }

    /// Returns all entries with their current counters (at the latest time passed to the switch), by
    /// table, priority (highest first) and match. Tests compare them with the desired state.
    pub fn entries(&self) -> Vec<FlowStats> {
        self.entries_with(|_| true)
    }

    /// Returns the entries whose cookie fulfils a condition, as [`Switch::entries`] does.
    pub fn entries_with(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<FlowStats> {
        let stats = |(id, table): (usize, &crate::table::Table)| {
            let of = |slot| {
                let entry = table.get(slot)?;
                let usage = entry.usage();
                let age_ns = age_ns(usage.counted_since, self.clock.now);
                Some(stats_of(TableId(id as u8), entry, usage.counter.now, age_ns))
            };
            table.select(|entry| is_wanted(entry.cookie)).into_iter().filter_map(of).collect::<Vec<_>>()
        };
        self.tables.iter().enumerate().flat_map(stats).collect()
    }
}

fn stats_of(table: TableId, entry: &Entry, (packets, bytes): (u64, u64), duration_ns: u64) -> FlowStats {
    FlowStats {
        table,
        duration_ns,
        priority: entry.priority,
        idle_timeout_s: entry.idle_timeout_s,
        hard_timeout_s: entry.hard_timeout_s,
        flags: entry.flags,
        cookie: entry.cookie,
        packets,
        bytes,
        match_: entry.match_(),
        instructions: Instructions::clone(&entry.instructions),
    }
}
