//! The project's JSON format `topology/1`.
//!
//! One object: `format` (`"topology/1"`), `transit_allowed`, `nodes` and `links`; the other keys
//! are comments for readers. A node has `id` and `role` (`switch`, `host`, `client` or `server`;
//! the last three are all hosts here) and may have `tier` (a number, or `edge`, `aggregation`,
//! `core`), `pod`, `rack`, `forwards`. A link has its ends `a` and `b`, `throughput_ab` and
//! `throughput_ba` in Mbit/s, `latency` in ms one way. Numbers that are null or absent take the
//! defaults of [`ImportOptions`].
//!
//! If `transit_allowed` is true, a host with several links is a site: a switch of that name with a
//! host `<id>/host` behind it, because site and host were one machine. A file without hosts gets
//! hosts behind every switch.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::draft::{DraftLink, DraftNode, Transit, assemble};
use super::{ImportError, ImportOptions, Imported};
use crate::families::MAX_DELAY;
use crate::topology::NodeKind;
use crate::units::{Bandwidth, Time};

/// Highest rate accepted, in Mbit/s: 1 Pbit/s, so that sums of rates do not overflow.
const MAX_MBPS: f64 = 1e9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    #[serde(default)]
    transit_allowed: bool,
    nodes: Vec<FileNode>,
    links: Vec<FileLink>,
    #[serde(default, rename = "name")]
    _name: IgnoredAny,
    #[serde(default, rename = "description")]
    _description: IgnoredAny,
    #[serde(default, rename = "source")]
    _source: IgnoredAny,
    #[serde(default, rename = "licence")]
    _licence: IgnoredAny,
    #[serde(default, rename = "notes")]
    _notes: IgnoredAny,
    #[serde(default, rename = "controller")]
    _controller: IgnoredAny,
    #[serde(default)]
    units: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNode {
    id: String,
    role: Role,
    tier: Option<FileTier>,
    pod: Option<u32>,
    rack: Option<u32>,
    forwards: Option<bool>,
    #[serde(default, rename = "cpus")]
    _cpus: IgnoredAny,
    #[serde(default, rename = "cpu_clock")]
    _cpu_clock: IgnoredAny,
    #[serde(default, rename = "ram")]
    _ram: IgnoredAny,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Role {
    Switch,
    Host,
    Client,
    Server,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(untagged, expecting = "a tier must be a number, `edge`, `aggregation` or `core`")]
enum FileTier {
    Height(u8),
    Name(TierName),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum TierName {
    Edge,
    Aggregation,
    Core,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    a: String,
    b: String,
    throughput_ab: Option<f64>,
    throughput_ba: Option<f64>,
    latency: Option<f64>,
}

/// Reads a `topology/1` text; `file` is for messages and the topology's name.
///
/// # Errors
/// Text that is not such JSON (with line and column), links to unknown nodes or with impossible
/// numbers (with their position in the list), or no usable network.
pub fn read(file: &str, text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    let parsed: File = serde_json::from_str(text).map_err(|error| at(file, &error))?;
    let entry = |entry: String, reason: String| ImportError::Entry { file: file.to_owned(), entry, reason };
    if parsed.format != "topology/1" {
        let reason = format!("`{}` is not known; write `topology/1`", parsed.format);
        return Err(entry("format".to_owned(), reason));
    }
    for (quantity, unit) in [("throughput", "Mbit/s"), ("latency", "ms")] {
        let given = parsed.units.get(quantity).map_or(unit, String::as_str);
        if given != unit {
            let reason = format!("`{given}` is not known; convert the numbers to {unit}");
            return Err(entry(format!("units.{quantity}"), reason));
        }
    }
    let mut position: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, node) in parsed.nodes.iter().enumerate() {
        if let Some(first) = position.insert(&node.id, i) {
            let reason = format!("`{}` is also the id of nodes[{first}]", node.id);
            return Err(entry(format!("nodes[{i}].id"), reason));
        }
    }
    let mut links = Vec::with_capacity(parsed.links.len());
    for (i, link) in parsed.links.iter().enumerate() {
        let drafted = draft_link(link, &position, options);
        links.push(drafted.map_err(|(key, reason)| entry(format!("links[{i}].{key}"), reason))?);
    }
    let nodes: Vec<DraftNode> = parsed.nodes.into_iter().map(draft_node).collect();
    let transit = if parsed.transit_allowed { Transit::Sites } else { Transit::No };
    Ok(Imported { topology: assemble(file, &nodes, &links, transit, options)?, warnings: Vec::new() })
}

fn at(file: &str, error: &serde_json::Error) -> ImportError {
    // The message ends with the position, which the error already shows.
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or_default();
    ImportError::Text {
        file: file.to_owned(),
        line: (error.line() as u32).max(1),
        column: (error.column() as u32).max(1),
        reason: reason.to_owned(),
    }
}

fn draft_node(node: FileNode) -> DraftNode {
    DraftNode {
        name: node.id,
        kind: match node.role {
            Role::Switch => NodeKind::Switch,
            Role::Host | Role::Client | Role::Server => NodeKind::Host,
        },
        tier: node.tier.map(|tier| match tier {
            FileTier::Height(height) => height,
            FileTier::Name(TierName::Edge) => 1,
            FileTier::Name(TierName::Aggregation) => 2,
            FileTier::Name(TierName::Core) => 3,
        }),
        pod: node.pod,
        rack: node.rack,
        forwards: node.forwards,
    }
}

fn draft_link(
    link: &FileLink,
    position: &BTreeMap<&str, usize>,
    options: &ImportOptions,
) -> Result<DraftLink, (&'static str, String)> {
    let end = |key, id: &str| {
        let found = position.get(id).copied();
        found.ok_or_else(|| (key, format!("unknown node `{id}`; add it to `nodes`")))
    };
    Ok(DraftLink {
        a: end("a", &link.a)?,
        b: end("b", &link.b)?,
        ab: rate("throughput_ab", link.throughput_ab, options)?,
        ba: rate("throughput_ba", link.throughput_ba, options)?,
        delay: match link.latency {
            None => options.default_delay,
            Some(ms) if (0.0..=MAX_DELAY.as_s_f64() * 1e3).contains(&ms) => Time::from_ps((ms * 1e9).round() as u64),
            Some(ms) => return Err(("latency", format!("{ms} ms is not from 0 to one hour"))),
        },
    })
}

fn rate(key: &'static str, mbps: Option<f64>, options: &ImportOptions) -> Result<Bandwidth, (&'static str, String)> {
    let Some(mbps) = mbps else { return Ok(options.default_rate) };
    let bps = (mbps * 1e6).round();
    if bps < 1.0 || mbps > MAX_MBPS {
        let reason = format!("{mbps} Mbit/s is not above zero and at most {MAX_MBPS}");
        return Err((key, reason));
    }
    Ok(Bandwidth::from_bps(bps as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    fn import(text: &str) -> Result<Topology, String> {
        let read = read("net.json", text, &ImportOptions::default());
        read.map(|imported| imported.topology).map_err(|error| error.to_string())
    }

    fn with(nodes: &str, links: &str) -> String {
        format!("{{\"format\": \"topology/1\",\n\"nodes\": [{nodes}],\n\"links\": [{links}]}}")
    }

    const AB: &str = r#"{"id": "a", "role": "host"}, {"id": "b", "role": "server"}"#;

    #[test]
    fn omitted_numbers_take_defaults() {
        let topology = import(&with(AB, r#"{"a": "a", "b": "b", "throughput_ba": 0.5}"#)).unwrap();
        assert_eq!(topology.name(), "net");
        let [there, back] = topology.links() else { panic!("one cable") };
        assert_eq!((there.rate, there.delay), (Bandwidth::from_gbps(10), Time::from_us(1)));
        assert_eq!(back.rate, Bandwidth::from_bps(500_000));
    }

    #[test]
    fn host_with_several_links_is_site_if_transit_is_allowed() {
        let nodes = r#"{"id": "a", "role": "client"}, {"id": "m", "role": "server"}, {"id": "b", "role": "host"}"#;
        let text = with(nodes, r#"{"a": "a", "b": "m"}, {"a": "m", "b": "b"}"#);
        assert!(import(&text).unwrap_err().contains("disconnected"));
        let text = text.replacen('{', "{\"transit_allowed\": true, ", 1);
        let topology = import(&text).unwrap();
        let names: Vec<&str> = topology.nodes().iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a", "m", "m/host", "b"]);
        assert_eq!(topology.hosts().len(), 3);
    }

    #[test]
    fn error_of_wrong_file_names_position() {
        for (text, expected) in [
            ("{\n\"format\": \"topology/1\",\n\"nodes\": [", "net.json:3:10: EOF"),
            ("{\"format\": \"topology/1\"}", "net.json:1:24: missing field `nodes`"),
            (&with(AB, "").replace("/1", "/9"), "format: `topology/9` is not known"),
            (&with(AB, "").replace("host", "router"), "net.json:2:38: unknown variant `router`"),
            (&with(AB, "{\"a\": \"a\", \"b\": \"c\"}"), "links[0].b: unknown node `c`"),
            (&with(&AB.replace("\"b\"", "\"a\""), ""), "nodes[1].id: `a` is also the id of nodes[0]"),
            (&with(AB, "{\"a\": \"a\", \"b\": \"b\", \"latency\": -1}"), "links[0].latency: -1 ms is not"),
            (&with(AB, "{\"a\": \"a\", \"b\": \"b\", \"throughput_ab\": 0}"), "links[0].throughput_ab: 0 Mbit/s"),
            (&with(AB, ""), "net.json: the topology is disconnected"),
            (&with("", ""), "has no hosts"),
            (&with(AB, "").replacen('{', "{\"colour\": 1, ", 1), "unknown field `colour`"),
        ] {
            let error = import(text).unwrap_err();
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }
}
