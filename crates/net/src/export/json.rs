//! The project's JSON format `topology/1`; see [`crate::import::json`].

use serde_json::{Map, Value, json as value};

use crate::topology::{Link, Node, NodeKind, Topology};
use crate::units::Bandwidth;

/// Returns the topology as `topology/1`, one node or link per line. The importer reads the same
/// topology back, named after its file.
pub fn json(topology: &Topology) -> String {
    let nodes: Vec<String> = topology.nodes().iter().map(node).collect();
    let links = topology.links().chunks(2).map(|pair| link(topology, pair));
    let links: Vec<String> = links.collect();
    let name = Value::from(topology.name());
    format!(
        "{{\n  \"format\": \"topology/1\",\n  \"name\": {name},\n  \
         \"units\": {{\"throughput\": \"Mbit/s\", \"latency\": \"ms\"}},\n  \"transit_allowed\": false,\n  \
         \"nodes\": [\n    {}\n  ],\n  \"links\": [\n    {}\n  ]\n}}\n",
        nodes.join(",\n    "),
        links.join(",\n    ")
    )
}

fn node(node: &Node) -> String {
    let is_host = node.kind == NodeKind::Host;
    let mut entry = Map::new();
    entry.insert("id".to_owned(), value!(node.name));
    entry.insert("role".to_owned(), value!(if is_host { "host" } else { "switch" }));
    entry.insert("tier".to_owned(), value!(node.tier.0));
    if let Some(pod) = node.pod {
        entry.insert("pod".to_owned(), value!(pod));
    }
    if let Some(rack) = node.rack {
        entry.insert("rack".to_owned(), value!(rack));
    }
    // Written only if the role does not imply it.
    if node.forwards == is_host {
        entry.insert("forwards".to_owned(), value!(node.forwards));
    }
    Value::from(entry).to_string()
}

fn link(topology: &Topology, pair: &[Link]) -> String {
    let name = |node| &topology.node(node).name;
    let mbps = |rate: Bandwidth| rate.as_bps_f64() / 1e6;
    value!({
        "a": name(pair[0].from),
        "b": name(pair[0].to),
        "throughput_ab": mbps(pair[0].rate),
        "throughput_ba": mbps(pair[1].rate),
        "latency": pair[0].delay.as_ps() as f64 / 1e9,
    })
    .to_string()
}
