//! Connection matrices (`.cm`) of the htsim simulator.
//!
//! `Nodes n`, `Connections n`, optionally `Triggers n`; then one line per connection `src->dst [id
//! i] (start t | trigger i) size bytes [send_done_trigger i]`, and one line `trigger id i oneshot`
//! per trigger. A connection of a trigger starts when the connection that names it in
//! `send_done_trigger` is done; we take the delivery of its last byte, where htsim takes the last
//! acknowledgement.

use std::collections::BTreeMap;

use net::{HostIx, Time};

use super::{ImportError, check_count, ends, missing, never_starts, size_bytes, time, twice, unknown, whole};
use crate::flow::{Flow, FlowList, Start};

/// Unit of the `start` key. The format means picoseconds; some published files hold microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StartUnit {
    /// As the parser of htsim reads it.
    #[default]
    Picoseconds,
    /// As some files evidently mean it.
    Microseconds,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionMatrix {
    pub host_count: u32,
    pub list: FlowList,
}

pub fn read_cm(file: &str, text: &str, unit: StartUnit) -> Result<ConnectionMatrix, ImportError> {
    let mut matrix = Parsed::default();
    for (line, content) in (1..).zip(text.lines()) {
        matrix.line(content, line, unit).map_err(|problem| ImportError::new(file, line, problem))?;
    }
    let last_line = text.lines().count().max(1) as u64;
    matrix.check_counts().map_err(|problem| ImportError::new(file, last_line, problem))?;
    let mut flows = Vec::with_capacity(matrix.connections.len());
    for connection in &matrix.connections {
        let flow = matrix.flow(connection);
        flows.push(flow.map_err(|problem| ImportError::new(file, connection.line, problem))?);
    }
    let description = format!("{} flows of connection matrix {file}", flows.len());
    let list = FlowList::sorted(flows, description).map_err(|bad| {
        let problem = never_starts("its trigger waits, directly or through others, for itself");
        ImportError::new(file, matrix.connections[bad.place()].line, problem)
    })?;
    Ok(ConnectionMatrix { host_count: matrix.host_count.unwrap_or(0), list })
}

#[derive(Default)]
struct Parsed {
    host_count: Option<u32>,
    connection_count: Option<usize>,
    trigger_count: Option<usize>,
    connections: Vec<Connection>,
    declared: BTreeMap<u64, u64>,
    fired_by: BTreeMap<u64, u32>,
}

struct Connection {
    line: u64,
    src: HostIx,
    dst: HostIx,
    size_bytes: u64,
    starts: Starts,
}

#[derive(Clone, Copy)]
enum Starts {
    At(Time),
    Trigger(u64),
}

impl Parsed {
    fn line(&mut self, content: &str, line: u64, unit: StartUnit) -> Result<(), String> {
        let words: Vec<&str> = content.split_whitespace().collect();
        match words[..] {
            [] => Ok(()),
            [first, ..] if first.starts_with('#') => Ok(()),
            ["Nodes", count] => set("Nodes", &mut self.host_count, count),
            ["Connections", count] => set("Connections", &mut self.connection_count, count),
            ["Triggers", count] => set("Triggers", &mut self.trigger_count, count),
            ["trigger", "id", id, "oneshot"] => {
                let id = whole("trigger", id)?;
                match self.declared.insert(id, line) {
                    None => Ok(()),
                    Some(_) => Err(twice(&format!("trigger {id}"))),
                }
            }
            ["trigger", "id", _, kind] => Err(unknown(kind, "oneshot, the only kind of trigger supported")),
            [pair, ref rest @ ..] => self.connection(pair, rest, line, unit),
        }
    }

    fn connection(&mut self, pair: &str, rest: &[&str], line: u64, unit: StartUnit) -> Result<(), String> {
        let kinds = "Nodes, Connections, Triggers, trigger or a connection `src->dst`";
        let (src, dst) = pair.split_once("->").ok_or_else(|| unknown(pair, kinds))?;
        let host_count = self.host_count.ok_or_else(|| missing("the line `Nodes n` before the connections"))?;
        let (src, dst) = ends(src, dst, host_count)?;
        let (mut starts, mut size) = (None, None);
        let mut seen: Vec<&str> = Vec::new();
        for pair in rest.chunks(2) {
            let [key, value] = *pair else {
                return Err(missing(&format!("the value of `{}`", pair[0])));
            };
            if seen.contains(&key) {
                return Err(twice(&format!("`{key}`")));
            }
            seen.push(key);
            match key {
                // Ids only name connections in logs of htsim.
                "id" => drop(whole::<u64>("id", value)?),
                "start" => starts = Some(Starts::At(time(value, unit.name())?)),
                "trigger" => starts = Some(Starts::Trigger(whole("trigger", value)?)),
                "size" => size = Some(size_bytes(value)?),
                "send_done_trigger" => self.fires(whole("trigger", value)?)?,
                _ => return Err(unknown(key, "id, start, trigger, size, send_done_trigger")),
            }
        }
        if seen.contains(&"start") && seen.contains(&"trigger") {
            return Err("`start` and `trigger` exclude each other; keep one".to_owned());
        }
        self.connections.push(Connection {
            line,
            src,
            dst,
            size_bytes: size.ok_or_else(|| missing("`size`"))?,
            starts: starts.ok_or_else(|| missing("`start` or `trigger`"))?,
        });
        Ok(())
    }

    fn fires(&mut self, trigger: u64) -> Result<(), String> {
        match self.fired_by.insert(trigger, self.connections.len() as u32) {
            None => Ok(()),
            Some(_) => Err(format!("trigger {trigger} is fired by two connections; one is supported")),
        }
    }

    fn check_counts(&self) -> Result<(), String> {
        if self.host_count.is_none() {
            return Err(missing("the line `Nodes n`"));
        }
        let promised = self.connection_count.ok_or_else(|| missing("the line `Connections n`"))?;
        check_count("connections", promised, self.connections.len())?;
        check_count("triggers", self.trigger_count.unwrap_or(0), self.declared.len())
    }

    fn flow(&self, connection: &Connection) -> Result<Flow, String> {
        let start = match connection.starts {
            Starts::At(time) => Start::At(time),
            Starts::Trigger(id) if !self.declared.contains_key(&id) => {
                let problem = format!("trigger {id} is not declared by a line `trigger id {id} oneshot`");
                return Err(never_starts(&problem));
            }
            Starts::Trigger(id) => {
                let fired_by = self.fired_by.get(&id).copied();
                let unfired = || never_starts(&format!("no connection fires trigger {id}"));
                Start::After { flow: fired_by.ok_or_else(unfired)?, delay: Time::ZERO }
            }
        };
        Ok(Flow { src: connection.src, dst: connection.dst, size_bytes: connection.size_bytes, start, group: 0 })
    }
}

impl StartUnit {
    fn name(self) -> &'static str {
        match self {
            StartUnit::Picoseconds => "ps",
            StartUnit::Microseconds => "us",
        }
    }
}

fn set<T: std::str::FromStr>(key: &'static str, place: &mut Option<T>, text: &str) -> Result<(), String> {
    if place.is_some() {
        return Err(twice(&format!("the line `{key}`")));
    }
    *place = Some(whole(key, text)?);
    Ok(())
}
