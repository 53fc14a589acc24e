//! Chakra: execution traces of MLCommons, one file for each rank.
//!
//! A file is the protobuf stream `.et` (messages with their lengths before them) or the text that
//! `chakra_jsonizer` prints of it (objects in a row; what is 0 is left out). The first message is
//! about the file. Each further one is a node: computation, memory access, send, receipt,
//! collective or metadata. A node begins when all its `data_deps` and `ctrl_deps` have ended, and
//! nothing else orders nodes. Our readings:
//!
//! - `COMP`, `MEM_LOAD` and `MEM_STORE` take their duration on the CPU of the rank, or on its GPU
//!   if `is_cpu_op` is false; each runs its nodes one after the other. `METADATA` takes no time.
//! - Sends and receipts of the same ranks and tag form pairs in the order of the files. A send ends
//!   when its bytes are delivered. 0 bytes are a message of 1 byte. Durations of these nodes and of
//!   collectives are not used, since the network decides on them.
//! - The ranks whose files name a `pg_name` are that group, in the order of their numbers; without
//!   a name all ranks that have such a collective are. The k-th collective of a group in each of
//!   their files is the same one. `comm_size` is the buffer that a rank has before, as in
//!   ASTRA-sim, so an all-gather makes it n times as large. The algorithms are those of
//!   [`CollectiveKind`]; a broadcast begins at the first rank of the group.
//! - A collective begins at a rank when its dependencies have ended there: a rank sends nothing
//!   before, but can receive. It ends at a rank when all transfers to and from it are delivered.
//! - Collectives are groups with numbers from 2; single messages are group 1.

mod json;
mod protobuf;

use std::collections::BTreeMap;
use std::io::BufRead;

use net::Time;

use super::{ImportError, missing, not, twice, unknown};
use crate::collectives::{CollectiveKind, Step};
use crate::tasks::{Builder, DURATION_MAX, Problem, Task, TaskTrace, Transfer};

/// Maximum length of a message or object.
const MESSAGE_MAX: u64 = 1 << 24;

/// Reads the files of all ranks, rank 0 first, in the format that the end of a name gives: `.et` or
/// `.json`. `name` describes them all.
///
/// # Errors
/// Damaged files, nodes that are unknown or lack an attribute, dependencies that are circular or
/// missing, messages and collectives without their other sides, more tasks than a run can hold.
pub fn read_chakra(
    name: &str,
    files: &mut dyn Iterator<Item = (String, Box<dyn BufRead + '_>)>,
) -> Result<TaskTrace, ImportError> {
    let mut chakra = Chakra::default();
    for (file, mut input) in files {
        chakra.files.push(file);
        let file = &chakra.files[chakra.files.len() - 1];
        let read = if file.to_ascii_lowercase().ends_with(".json") { json::read } else { protobuf::read };
        let mut waits = Vec::new();
        let mut ids = BTreeMap::new();
        let result = read(&mut *input, &mut |node, at| chakra.nodes.add(node, at, (&mut ids, &mut waits)));
        result.map_err(|(at, problem)| chakra.error_at(chakra.files.len() - 1, at, &problem))?;
        chakra.nodes.resolve(&ids, waits).map_err(|problem| chakra.error(&problem))?;
        chakra.nodes.rank += 1;
        chakra.nodes.processors = [None; 2];
    }
    let Chakra { mut nodes, files } = chakra;
    let result = nodes.collectives();
    let rank_count = nodes.rank;
    let builder = std::mem::take(&mut nodes.builder);
    let chakra = Chakra { nodes, files };
    result.and_then(|()| builder.finish(name, rank_count)).map_err(|problem| chakra.error(&problem))
}

#[derive(Default)]
struct Chakra {
    files: Vec<String>,
    nodes: Nodes,
}

impl Chakra {
    /// Makes an error at a line of a text, or a byte of a binary file.
    fn error_at(&self, file: usize, at: u64, problem: &str) -> ImportError {
        let file = self.files.get(file).map_or("", String::as_str);
        if file.to_ascii_lowercase().ends_with(".json") {
            return ImportError::new(file, at, problem.to_owned());
        }
        ImportError::new(file, 0, format!("byte {at}: {problem}"))
    }

    fn error(&self, problem: &Problem) -> ImportError {
        match self.nodes.places.get(problem.place as usize) {
            Some(place) => {
                self.error_at(place.rank as usize, place.at, &format!("node {}: {}", place.id, problem.text))
            }
            None => self.error_at(0, 0, &problem.text),
        }
    }
}

/// The type of a node, as its number and name.
const KINDS: [&str; 8] = [
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
];

const COLLECTIVES: [&str; 10] = [
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
];

/// A node as both formats give it.
#[derive(Default, Debug, PartialEq)]
struct Node {
    id: u64,
    kind: u64,
    duration_us: u64,
    dependencies: Vec<u64>,
    attributes: Attributes,
}

/// The attributes that are read.
#[derive(Default, Debug, PartialEq)]
struct Attributes {
    is_cpu_op: Option<i128>,
    comm_type: Option<i128>,
    comm_size: Option<i128>,
    comm_src: Option<i128>,
    comm_dst: Option<i128>,
    comm_tag: Option<i128>,
    pg_name: Option<String>,
}

impl Attributes {
    fn set_number(&mut self, name: &str, value: i128) {
        let number = match name {
            "is_cpu_op" => &mut self.is_cpu_op,
            "comm_type" => &mut self.comm_type,
            "comm_size" => &mut self.comm_size,
            "comm_src" => &mut self.comm_src,
            "comm_dst" => &mut self.comm_dst,
            "comm_tag" => &mut self.comm_tag,
            _ => return,
        };
        *number = Some(value);
    }

    fn set_text(&mut self, name: &str, value: &str) {
        if name == "pg_name" {
            self.pg_name = Some(value.to_owned());
        }
    }
}

fn required<T: TryFrom<i128>>(name: &str, value: Option<i128>) -> Result<T, String> {
    let value = value.ok_or_else(|| missing(&format!("attribute `{name}`")))?;
    T::try_from(value).map_err(|_| not(name, &value.to_string(), "a whole number in range"))
}

/// A rank's part in a collective.
#[derive(Clone, Copy)]
struct Part {
    group: u32,
    rank: u32,
    /// `None` for a barrier, which moves no bytes.
    kind: Option<CollectiveKind>,
    size_bytes: u64,
    begin: Task,
    end: Task,
    place: u32,
}

/// The place of a node in its file: the rank, and the line or byte.
struct Place {
    rank: u32,
    id: u64,
    at: u64,
}

/// The nodes read so far, in the order of the files.
#[derive(Default)]
struct Nodes {
    builder: Builder,
    places: Vec<Place>,
    parts: Vec<Part>,
    groups: BTreeMap<Option<String>, u32>,
    /// The rank whose file is read, and its CPU and GPU.
    rank: u32,
    processors: [Option<u32>; 2],
}

/// The task that ends with each node of a file, and tasks with the nodes that they wait for.
type Links<'l> = (&'l mut BTreeMap<u64, Task>, &'l mut Vec<(Task, u64, u32)>);

impl Nodes {
    fn add(&mut self, node: Node, at: u64, (ids, waits): Links<'_>) -> Result<(), String> {
        let Node { id, dependencies, .. } = &node;
        let place = self.places.len() as u32;
        let (begin, end) = self.tasks(&node, place).map_err(|problem| format!("node {id}: {problem}"))?;
        self.places.push(Place { rank: self.rank, id: *id, at });
        if ids.insert(*id, end).is_some() {
            return Err(twice(&format!("node {id}")));
        }
        self.builder.reserve_waits(waits.len() + dependencies.len())?;
        waits.extend(dependencies.iter().map(|awaited| (begin, *awaited, place)));
        Ok(())
    }

    /// Adds the tasks of a node. Returns the one that begins and the one that ends with it.
    fn tasks(&mut self, node: &Node, place: u32) -> Result<(Task, Task), String> {
        let (rank, attributes) = (self.rank, &node.attributes);
        let same = |task: Task| (task, task);
        let tag = || required("comm_tag", attributes.comm_tag.or(Some(0)));
        let check_own = |name: &str, value: Option<i128>| match value {
            Some(other) if other != i128::from(rank) => {
                Err(format!("{name} {other} is not {rank}, the rank of this file; are the files in order?"))
            }
            _ => Ok(()),
        };
        match node.kind {
            1 => self.builder.join(place).map(same),
            2..=4 => {
                let ps = node.duration_us.checked_mul(1_000_000).map(Time::from_ps);
                let duration = ps.filter(|time| *time <= DURATION_MAX).ok_or_else(|| {
                    not("duration", &node.duration_us.to_string(), "at most 200 days in microseconds")
                })?;
                let is_gpu = attributes.is_cpu_op == Some(0);
                let builder = &mut self.builder;
                let processor = *self.processors[usize::from(is_gpu)].get_or_insert_with(|| builder.processor());
                builder.computation(processor, duration, place).map(same)
            }
            5 => {
                check_own("comm_src", attributes.comm_src)?;
                let dst = required("comm_dst", attributes.comm_dst)?;
                let size_bytes = required("comm_size", attributes.comm_size)?;
                let task = self.builder.transfer(Transfer { src: rank, dst, group: 1, size_bytes }, place)?;
                self.builder.send((rank, dst, tag()?), task, place);
                Ok(same(task))
            }
            6 => {
                check_own("comm_dst", attributes.comm_dst)?;
                let (src, tag) = (required("comm_src", attributes.comm_src)?, tag()?);
                let task = self.builder.join(place)?;
                self.builder.receipt((src, rank, tag), task, place);
                Ok(same(task))
            }
            7 => self.part(attributes, place),
            other => {
                let name = usize::try_from(other).ok().and_then(|ix| KINDS.get(ix).copied());
                let name = name.map_or_else(|| format!("type {other}"), str::to_owned);
                Err(unknown(&name, &KINDS[1..].join(", ")))
            }
        }
    }

    fn part(&mut self, attributes: &Attributes, place: u32) -> Result<(Task, Task), String> {
        let kind = match required::<u64>("comm_type", attributes.comm_type)? {
            0 => Some(CollectiveKind::AllReduce),
            2 => Some(CollectiveKind::AllGather),
            5 => Some(CollectiveKind::Broadcast { root: 0 }),
            6 => Some(CollectiveKind::AllToAll),
            7 | 8 => Some(CollectiveKind::ReduceScatter),
            9 => None,
            other => {
                let name = usize::try_from(other).ok().and_then(|ix| COLLECTIVES.get(ix).copied());
                let name = name.map_or_else(|| format!("comm_type {other}"), str::to_owned);
                let known = "ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER or BARRIER";
                return Err(unknown(&name, known));
            }
        };
        let size_bytes = if kind.is_none() { 0 } else { required("comm_size", attributes.comm_size)? };
        let next = self.groups.len() as u32;
        let group = *self.groups.entry(attributes.pg_name.clone()).or_insert(next);
        let (begin, end) = (self.builder.join(place)?, self.builder.join(place)?);
        self.builder.after(end, begin)?;
        self.parts.push(Part { group, rank: self.rank, kind, size_bytes, begin, end, place });
        Ok((begin, end))
    }

    /// Adds the dependencies of a file, whose nodes are all known.
    fn resolve(&mut self, ids: &BTreeMap<u64, Task>, waits: Vec<(Task, u64, u32)>) -> Result<(), Problem> {
        for (waiting, id, place) in waits {
            let absent =
                || format!("it waits for node {id}, which is not in the file; add the node or remove the dependency");
            let awaited = ids.get(&id).ok_or_else(|| Problem::new(place, absent()))?;
            self.builder.after(waiting, *awaited).map_err(|text| Problem::new(place, text))?;
        }
        Ok(())
    }

    /// Adds the transfers of all collectives.
    fn collectives(&mut self) -> Result<(), Problem> {
        let mut parts = std::mem::take(&mut self.parts);
        parts.sort_by_key(|part| (part.group, part.rank));
        let (mut steps, mut number) = (Vec::new(), 2);
        for group in parts.chunk_by(|a, b| a.group == b.group) {
            let ranks: Vec<&[Part]> = group.chunk_by(|a, b| a.rank == b.rank).collect();
            let Some(first) = ranks.first() else { continue };
            for rank in &ranks {
                if rank.len() != first.len() {
                    let (one, other) = (&rank[0], &first[0]);
                    let text = format!(
                        "rank {} has {} collectives of this group, but rank {} has {}; every rank must take part in all",
                        one.rank,
                        rank.len(),
                        other.rank,
                        first.len()
                    );
                    return Err(Problem::new(one.place, text));
                }
            }
            for turn in 0..first.len() {
                let members: Vec<Part> = ranks.iter().map(|rank| rank[turn]).collect();
                let first = members[0];
                let differs = |part: &&Part| (part.kind, part.size_bytes) != (first.kind, first.size_bytes);
                if let Some(other) = members.iter().find(differs) {
                    let text = format!(
                        "collective {} of its group has another comm_type or comm_size than at rank {}",
                        turn + 1,
                        first.rank
                    );
                    return Err(Problem::new(other.place, text));
                }
                self.collective(&members, number, &mut steps).map_err(|text| Problem::new(first.place, text))?;
                number += 1;
            }
        }
        Ok(())
    }

    fn collective(&mut self, members: &[Part], group: u32, steps: &mut Vec<Step>) -> Result<(), String> {
        let (first, n) = (members[0], members.len() as u32);
        let Some(kind) = first.kind else {
            let all = self.builder.join(first.place)?;
            for part in members {
                self.builder.after(all, part.begin)?;
                self.builder.after(part.end, all)?;
            }
            return Ok(());
        };
        let whole = if kind == CollectiveKind::AllGather { u64::from(n) } else { 1 };
        let bytes = first.size_bytes.checked_mul(whole).ok_or_else(|| missing("a comm_size in range"))?;
        self.builder.reserve(kind.flow_count(n, u32::MAX))?;
        steps.clear();
        // No collective of a trace draws.
        kind.steps(n, bytes, u32::MAX, &mut net::RandomStream::new(0, "trace"), steps);
        let mut tasks: Vec<Task> = Vec::with_capacity(steps.len());
        for step in &*steps {
            let (from, to) = (&members[step.from as usize], &members[step.to as usize]);
            let transfer = Transfer { src: from.rank, dst: to.rank, group, size_bytes: step.bytes };
            let task = self.builder.transfer(transfer, from.place)?;
            self.builder.after(task, from.begin)?;
            if let Some(before) = step.after {
                self.builder.after(task, tasks[before as usize])?;
            }
            self.builder.after(from.end, task)?;
            self.builder.after(to.end, task)?;
            tasks.push(task);
        }
        Ok(())
    }
}
