//! Inventories and analysers: NetBox, Batfish layer 1, NetJSON.

use serde_json::Value;

use super::{Cable, End, Port, Reports, items, mbps, number, text, wrong};
use crate::import::ImportError;
use crate::topology::NodeKind;
use crate::units::Time;

/// Speed of light in fibre, metres per second.
const FIBRE: f64 = 2e8;

/// `/api/dcim/cables/` or `/api/dcim/interfaces/` of NetBox.
pub(super) fn netbox(file: &str, value: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    if value["next"].is_string() {
        reports.warn(file, "is one page of several (`next`): export with ?limit=0");
    }
    let mut skipped = 0;
    for (number_of, result) in items(&value["results"]).iter().enumerate() {
        let place = format!("results[{number_of}]");
        match (result.get("a_terminations").or_else(|| result.get("termination_a")), result.get("device")) {
            (Some(_), _) => skipped += usize::from(!cable(file, &place, result, reports)?),
            (None, Some(device)) => interface(device, result, reports),
            (None, None) => return Err(wrong(file, place, "is neither a cable nor an interface")),
        }
    }
    if skipped > 0 {
        reports.warn(file, format!("{skipped} cables are not connected, or do not end at one interface a side"));
    }
    Ok(())
}

/// Returns whether the entry is a cable between two interfaces.
fn cable(file: &str, place: &str, result: &Value, reports: &mut Reports) -> Result<bool, ImportError> {
    let status = result["status"].as_str().or_else(|| text(&result["status"], "value"));
    let end = |new: &str, old: &str| -> Option<End> {
        let list = result.get(new).or_else(|| result.get(old))?;
        let [one] = items(list) else { return None };
        let object = one.get("object").unwrap_or(one);
        let kind = text(one, "object_type").unwrap_or("dcim.interface");
        let (device, port) = (text(&object["device"], "name")?, text(object, "name")?);
        (kind == "dcim.interface").then(|| End { device: device.to_owned(), ports: vec![port.to_owned()] })
    };
    let ends = (end("a_terminations", "termination_a"), end("b_terminations", "termination_b"));
    let (Some(a), Some(b)) = ends else { return Ok(false) };
    if status.is_some_and(|status| status != "connected") {
        return Ok(false);
    }
    let unit = result["length_unit"].as_str().or_else(|| text(&result["length_unit"], "value"));
    let metres = match unit {
        Some("km") => 1000.0,
        Some("cm") => 0.01,
        Some("mi") => 1609.344,
        Some("ft") => 0.3048,
        Some("in") => 0.0254,
        _ => 1.0,
    };
    let length = number(&result["length"]).filter(|length| *length > 0.0 && *length < 1e8);
    let delay = length.map(|length| Time::from_ps((length * metres / FIBRE * 1e12) as u64));
    reports.cables.push(Cable { ends: [a, b], rate: None, delay, is_seen: false, place: format!("{file}: {place}") });
    Ok(true)
}

fn interface(device: &Value, result: &Value, reports: &mut Reports) {
    let (Some(device), Some(name)) = (text(device, "name"), text(result, "name")) else { return };
    // Speed in kbit/s, often missing; then the type has it, such as `25gbase-x-sfp28`.
    let by_speed = number(&result["speed"]).and_then(|kbps| mbps(kbps / 1e3));
    let kind = result["type"].as_str().or_else(|| text(&result["type"], "value")).unwrap_or_default();
    let by_type =
        kind.split_once("gbase").and_then(|(gbps, _)| gbps.parse::<f64>().ok()).and_then(|gbps| mbps(gbps * 1e3));
    let by_type = by_type.or_else(|| kind.split_once("base").and_then(|(mb, _)| mb.parse().ok()).and_then(mbps));
    let is_down = result["enabled"] == false;
    let (device, name) = (device.to_owned(), name.to_owned());
    reports.ports.push(Port { device, name, aliases: Vec::new(), rate: by_speed.or(by_type), is_down });
}

/// `layer1_topology.json` of Batfish: directed edges, often in both directions.
pub(super) fn batfish(file: &str, value: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    for (number, edge) in items(&value["edges"]).iter().enumerate() {
        let end = |key: &str| -> Option<End> {
            let ports = text(&edge[key], "interfaceName").map(str::to_owned).into_iter().collect();
            Some(End { device: text(&edge[key], "hostname")?.to_owned(), ports })
        };
        let place = format!("edges[{number}]");
        let (Some(a), Some(b)) = (end("node1"), end("node2")) else {
            return Err(wrong(file, place, "lacks node1.hostname or node2.hostname"));
        };
        reports.cables.push(Cable {
            ends: [a, b],
            rate: None,
            delay: None,
            is_seen: false,
            place: format!("{file}: {place}"),
        });
    }
    Ok(())
}

/// NetJSON NetworkGraph. Costs are those of routing, not rates; `properties` are free, and those with
/// the names `rate_mbps`, `source_port` and `target_port` are used.
pub(super) fn netjson(file: &str, value: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    let name = |id: &str| {
        let node = items(&value["nodes"]).iter().find(|node| text(node, "id") == Some(id));
        node.and_then(|node| text(node, "label")).unwrap_or(id).to_owned()
    };
    for node in items(&value["nodes"]) {
        let Some(id) = text(node, "id") else { continue };
        let kind = match text(&node["properties"], "role") {
            Some("switch" | "router") => Some(NodeKind::Switch),
            Some("host" | "server" | "client") => Some(NodeKind::Host),
            _ => None,
        };
        reports.device(&name(id), kind, None);
    }
    for (number_of, link) in items(&value["links"]).iter().enumerate() {
        let place = format!("links[{number_of}]");
        let about = &link["properties"];
        let end = |key: &str, port: &str| {
            let ports = text(about, port).map(str::to_owned).into_iter().collect();
            text(link, key).map(|id| End { device: name(id), ports })
        };
        let (Some(a), Some(b)) = (end("source", "source_port"), end("target", "target_port")) else {
            return Err(wrong(file, place, "lacks `source` or `target`"));
        };
        let rate = about.get("rate_mbps").and_then(number).and_then(mbps);
        reports.cables.push(Cable {
            ends: [a, b],
            rate,
            delay: None,
            is_seen: false,
            place: format!("{file}: {place}"),
        });
    }
    Ok(())
}
