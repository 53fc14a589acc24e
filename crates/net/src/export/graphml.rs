//! GraphML with attribute names of the Topology Zoo; see [`crate::import::graphml`].

use std::fmt::Write as _;

use crate::topology::{NodeKind, Topology};

/// Attribute id, name, type, and the element it belongs to.
const KEYS: [[&str; 4]; 9] = [
    ["label", "label", "string", "node"],
    ["kind", "Kind", "string", "node"],
    ["tier", "Tier", "int", "node"],
    ["pod", "Pod", "int", "node"],
    ["rack", "Rack", "int", "node"],
    ["forwards", "Forwards", "int", "node"],
    ["speed", "LinkSpeedRaw", "double", "edge"],
    ["reverse", "LinkSpeedRawReverse", "double", "edge"],
    ["delay", "LinkDelay", "double", "edge"],
];

/// Returns the topology as GraphML: rates in bit/s, delays in seconds. The importer reads the same
/// topology back, named after its file.
pub fn graphml(topology: &Topology) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for [id, name, kind, owner] in KEYS {
        let _ = writeln!(text, "  <key id=\"{id}\" for=\"{owner}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>");
    }
    text.push_str("  <graph edgedefault=\"undirected\">\n");
    for (i, node) in topology.nodes().iter().enumerate() {
        let kind = match node.kind {
            NodeKind::Host => "host",
            NodeKind::Switch => "switch",
        };
        let data = data("label", escape(&node.name))
            + &data("kind", kind)
            + &data("tier", node.tier.0)
            + &node.pod.map_or(String::new(), |pod| data("pod", pod))
            + &node.rack.map_or(String::new(), |rack| data("rack", rack))
            + &data("forwards", u8::from(node.forwards));
        let _ = writeln!(text, "    <node id=\"{i}\">{data}</node>");
    }
    for pair in topology.links().chunks(2) {
        let (from, to) = (pair[0].from.0, pair[0].to.0);
        let data = data("speed", pair[0].rate.as_bps())
            + &data("reverse", pair[1].rate.as_bps())
            + &data("delay", pair[0].delay.as_s_f64());
        let _ = writeln!(text, "    <edge source=\"{from}\" target=\"{to}\">{data}</edge>");
    }
    text.push_str("  </graph>\n</graphml>\n");
    text
}

fn data(key: &str, value: impl std::fmt::Display) -> String {
    format!("<data key=\"{key}\">{value}</data>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
