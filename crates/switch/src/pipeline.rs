//! The pipeline: from a packet to its decision (specification 5).

use net::Time;
use openflow::{Action, GroupId, GroupKind, Headers, PacketInReason, PortNo, TableId};
use smallvec::SmallVec;

use crate::actions::{ActionSet, UnsupportedAction, change};
use crate::counters::Clock;
use crate::groups::{Group, Groups};
use crate::key::Key;
use crate::ports::Ports;
use crate::table::Table;
use crate::{Decision, Egress, NoOutput, Select};

#[derive(Debug)]
pub struct Datapath<'a> {
    pub tables: &'a [Table],
    pub groups: &'a Groups,
    pub ports: &'a Ports,
    pub select: &'a Select,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub table: TableId,
    pub entry: Option<(u32, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupStep {
    pub group: GroupId,
    pub serial: u64,
    /// Index and serial number of the bucket; `None` counts the group itself.
    pub bucket: Option<(u32, u64)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ControllerCopy {
    pub headers: Headers,
    pub metadata: u64,
    pub max_len: u16,
    pub origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    pub reason: PacketInReason,
    pub table: TableId,
    pub cookie: u64,
}

impl Origin {
    pub const PACKET_OUT: Origin = Origin { reason: PacketInReason::Action, table: TableId(0), cookie: u64::MAX };
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trace {
    pub headers: Headers,
    pub steps: SmallVec<[Step; 2]>,
    pub groups: SmallVec<[GroupStep; 2]>,
    pub down: Vec<PortNo>,
    pub copies: Vec<ControllerCopy>,
}

impl Decision {
    fn reset(&mut self, version: u64, headers: &Headers) {
        self.version = version;
        self.egress.clear();
        self.to_controller = false;
        self.no_output = None;
        self.trace.headers = *headers;
        self.trace.steps.clear();
        self.trace.groups.clear();
        self.trace.down.clear();
        self.trace.copies.clear();
    }

    fn finish(&mut self) {
        self.to_controller = !self.trace.copies.is_empty();
        let goes_somewhere = self.to_controller || !self.egress.is_empty();
        self.no_output = if goes_somewhere { None } else { Some(self.no_output.unwrap_or(NoOutput::Dropped)) };
    }
}

impl Datapath<'_> {
    /// Decides a packet: by the tables, or by the actions of a packet-out.
    pub fn decide(
        &self,
        version: u64,
        in_port: PortNo,
        headers: &Headers,
        actions: Option<&[Action]>,
        decision: &mut Decision,
    ) {
        decision.reset(version, headers);
        let mut walk = Walk { datapath: self, in_port, metadata: 0, origin: Origin::PACKET_OUT, decision };
        match actions {
            None => walk.tables(*headers),
            Some(actions) => {
                let mut headers = *headers;
                if walk.apply(actions, &mut headers).is_err() {
                    walk.record(NoOutput::Dropped);
                }
            }
        }
        decision.finish();
    }
}

struct Walk<'a> {
    datapath: &'a Datapath<'a>,
    in_port: PortNo,
    metadata: u64,
    origin: Origin,
    decision: &'a mut Decision,
}

impl Walk<'_> {
    /// Records a reason. The first one counts: it is nearest to the cause.
    fn record(&mut self, why: NoOutput) {
        self.decision.no_output.get_or_insert(why);
    }

    fn tables(&mut self, mut headers: Headers) {
        self.metadata = 0;
        let mut set = ActionSet::default();
        let mut table = TableId(0);
        while let Some(at) = self.datapath.tables.get(usize::from(table.0)) {
            let hit = at.lookup(&Key::of_packet(self.in_port, self.metadata, &headers));
            let entry = hit.map(|(slot, entry)| (slot, entry.serial));
            self.decision.trace.steps.push(Step { table, entry });
            let Some((_, entry)) = hit else {
                self.record(NoOutput::Miss);
                return;
            };
            let reason = if entry.is_table_miss { PacketInReason::NoMatch } else { PacketInReason::Action };
            self.origin = Origin { reason, table, cookie: entry.cookie };
            let instructions = &entry.instructions;
            if self.apply(&instructions.apply, &mut headers).is_err() {
                self.record(NoOutput::Dropped);
                return;
            }
            if instructions.clear {
                set = ActionSet::default();
            }
            instructions.write.iter().for_each(|action| set.write(action));
            if let Some(metadata) = instructions.metadata {
                self.metadata = self.metadata & !metadata.mask | metadata.value;
            }
            if let Some(next) = instructions.goto { table = next } else { break }
        }
        self.execute(&set, headers);
    }

    fn apply(&mut self, actions: &[Action], headers: &mut Headers) -> Result<(), UnsupportedAction> {
        for action in actions {
            match *action {
                Action::Output { port, max_len } => self.output(port, max_len, headers),
                Action::Group(group) => self.group(group, headers),
                _ => change(action, headers)?,
            }
        }
        Ok(())
    }

    fn execute(&mut self, set: &ActionSet, mut headers: Headers) {
        if set.change(&mut headers).is_err() {
            self.record(NoOutput::Dropped);
            return;
        }
        // A group in the set replaces its output (specification 5.10).
        match (set.group, set.output) {
            (Some(group), _) => self.group(group, &headers),
            (None, Some((port, max_len))) => self.output(port, max_len, &headers),
            (None, None) => {}
        }
    }

    fn output(&mut self, port: PortNo, max_len: u16, headers: &Headers) {
        match port {
            PortNo::CONTROLLER => {
                let (metadata, origin) = (self.metadata, self.origin);
                self.decision.trace.copies.push(ControllerCopy { headers: *headers, metadata, max_len, origin });
            }
            PortNo::TABLE => {
                self.tables(*headers);
                // The rest of the packet-out belongs to no entry again.
                (self.metadata, self.origin) = (0, Origin::PACKET_OUT);
            }
            PortNo::IN_PORT => self.leave(self.in_port, headers),
            PortNo::ALL | PortNo::FLOOD => {
                let datapath = self.datapath;
                let others = datapath.ports.iter().filter(|port| port.desc.port != self.in_port);
                for port in others.filter(|port| port.desc.is_live()) {
                    self.decision.egress.push(Egress { port: port.desc.port, headers: *headers });
                }
            }
            // A packet returns to its ingress port only by `IN_PORT` (specification 4.5).
            port if port == self.in_port => self.record(NoOutput::Dropped),
            port => self.leave(port, headers),
        }
    }

    fn leave(&mut self, port: PortNo, headers: &Headers) {
        match self.datapath.ports.get(port) {
            Some(at) if at.desc.is_live() => self.decision.egress.push(Egress { port, headers: *headers }),
            Some(_) => {
                self.decision.trace.down.push(port);
                self.record(NoOutput::PortDown);
            }
            None => self.record(NoOutput::Dropped),
        }
    }

    fn group(&mut self, id: GroupId, headers: &Headers) {
        let datapath = self.datapath;
        let Some(group) = datapath.groups.by_id.get(&id) else {
            self.record(NoOutput::Dropped);
            return;
        };
        self.decision.trace.groups.push(GroupStep { group: id, serial: group.serial, bucket: None });
        if group.kind == GroupKind::All {
            (0..group.buckets.len()).for_each(|ix| self.bucket(id, group, ix, headers));
            return;
        }
        match datapath.groups.choose(group, datapath.ports, datapath.select, headers) {
            Some(ix) => self.bucket(id, group, ix, headers),
            None => self.record(NoOutput::NoLiveBucket),
        }
    }

    fn bucket(&mut self, id: GroupId, group: &Group, ix: usize, headers: &Headers) {
        let bucket = Some((ix as u32, group.bucket_serial));
        self.decision.trace.groups.push(GroupStep { group: id, serial: group.serial, bucket });
        self.execute(&group.buckets[ix].actions, *headers);
    }
}

#[inline]
pub fn count(
    (tables, groups, ports): (&mut [Table], &mut Groups, &mut Ports),
    clock: &Clock,
    last: Time,
    decision: &Decision,
    (packets, bytes): (u64, u64),
) {
    for step in &decision.trace.steps {
        let table = &mut tables[usize::from(step.table.0)];
        let hits = if step.entry.is_some() { packets } else { 0 };
        table.counter.add(clock, packets, hits);
        let Some((slot, serial)) = step.entry else { continue };
        if let Some(entry) = table.get_mut(slot).filter(|entry| entry.serial == serial) {
            entry.count(clock, packets, bytes, last);
        }
    }
    for step in &decision.trace.groups {
        let Some(group) = groups.by_id.get_mut(&step.group).filter(|group| group.serial == step.serial) else {
            continue;
        };
        match step.bucket {
            None => group.counter.add(clock, packets, bytes),
            Some((ix, serial)) if serial == group.bucket_serial => {
                group.buckets[ix as usize].counter.add(clock, packets, bytes);
            }
            Some(_) => {}
        }
    }
    for egress in &decision.egress {
        if let Some(port) = ports.get_mut(egress.port) {
            port.tx.add(clock, packets, bytes);
        }
    }
    for port in &decision.trace.down {
        if let Some(port) = ports.get_mut(*port) {
            port.tx_dropped.add(clock, packets, bytes);
        }
    }
}
