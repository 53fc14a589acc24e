//! SONiC: `config_db.json`, and the links of `minigraph.xml`.
//!
//! Both are intent: what LLDP sees replaces it. SONiC's types are a tier higher than their names say:
//! `ToRRouter` is a leaf, `LeafRouter` a spine.

use serde_json::Value;

use super::{Cable, End, Port, Reports, mbps, number, text, wrong};
use crate::import::ImportError;
use crate::topology::NodeKind;

/// Tables that describe the topology; others are named in a warning.
const READ: [&str; 4] = ["DEVICE_METADATA", "PORT", "DEVICE_NEIGHBOR", "DEVICE_NEIGHBOR_METADATA"];

pub(super) fn config_db(file: &str, value: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    let tables = value.as_object().ok_or_else(|| wrong(file, "file", "is no object of tables"))?;
    let local = &value["DEVICE_METADATA"]["localhost"];
    let device = text(local, "hostname").unwrap_or_else(|| super::device_of(file)).to_owned();
    let (kind, tier) = of_type(text(local, "type"));
    reports.device(&device, kind.or(Some(NodeKind::Switch)), tier);
    for (name, port) in entries(&value["PORT"]) {
        let rate = port.get("speed").and_then(number).and_then(mbps);
        if rate.is_none() {
            reports.warn(
                file,
                format!("PORT.{name} has no usable `speed`: the default of the platform is not in this file"),
            );
        }
        let aliases = text(port, "alias").map(str::to_owned).into_iter().collect();
        let is_down = text(port, "admin_status") == Some("down");
        reports.ports.push(Port { device: device.clone(), name: name.clone(), aliases, rate, is_down });
    }
    for (key, neighbour) in entries(&value["DEVICE_NEIGHBOR"]) {
        let place = format!("{file}: DEVICE_NEIGHBOR.{key}");
        // In older files the key is the neighbour, and the port is inside.
        let (port, other) = match text(neighbour, "local_port") {
            Some(port) => (port, text(neighbour, "name").unwrap_or(key)),
            None => (key.as_str(), text(neighbour, "name").unwrap_or_default()),
        };
        if other.is_empty() {
            reports.warn(file, format!("DEVICE_NEIGHBOR.{key} has no `name`"));
            continue;
        }
        let ports = text(neighbour, "port").map(str::to_owned).into_iter().collect();
        let ends =
            [End { device: device.clone(), ports: vec![port.to_owned()] }, End { device: other.to_owned(), ports }];
        reports.cables.push(Cable { ends, rate: None, delay: None, is_seen: false, place });
    }
    for (name, about) in entries(&value["DEVICE_NEIGHBOR_METADATA"]) {
        let (kind, tier) = of_type(text(about, "type"));
        reports.device(name, kind, tier);
    }
    let unread: Vec<&str> = tables.keys().map(String::as_str).filter(|table| !READ.contains(table)).collect();
    if !unread.is_empty() {
        reports.warn(file, format!("not used for the network: {}", unread.join(", ")));
    }
    Ok(())
}

fn entries(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table.as_object().into_iter().flatten()
}

/// Returns kind and tier of a SONiC type of device.
fn of_type(kind: Option<&str>) -> (Option<NodeKind>, Option<u8>) {
    match kind {
        Some("Server") => (Some(NodeKind::Host), None),
        Some("ToRRouter" | "BackEndToRRouter") => (Some(NodeKind::Switch), Some(1)),
        Some("LeafRouter" | "BackEndLeafRouter") => (Some(NodeKind::Switch), Some(2)),
        Some("SpineRouter" | "FabricSpineRouter") => (Some(NodeKind::Switch), Some(3)),
        Some("UpperSpineRouter") => (Some(NodeKind::Switch), Some(4)),
        _ => (None, None),
    }
}

pub(super) fn minigraph(file: &str, text: &str, reports: &mut Reports) -> Result<(), ImportError> {
    let document = roxmltree::Document::parse(text).map_err(|cause| {
        let at = cause.pos();
        ImportError::Text { file: file.to_owned(), line: at.row, column: at.col, reason: cause.to_string() }
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "DeviceMiniGraph" {
        return Err(super::unknown(
            file,
            &format!("the element <{}> is not that of a minigraph", root.tag_name().name()),
        ));
    }
    let child = |node: roxmltree::Node<'_, '_>, name: &str| -> Option<String> {
        let found = node.children().find(|child| child.tag_name().name() == name)?.text()?.trim().to_owned();
        (!found.is_empty()).then_some(found)
    };
    let named = |name: &'static str| root.descendants().filter(move |node| node.tag_name().name() == name);
    for device in named("Device") {
        let Some(name) = child(device, "Hostname") else { continue };
        let kind = device.attributes().find(|attribute| attribute.name() == "type").map(|attribute| attribute.value());
        let (kind, tier) = of_type(kind);
        reports.device(&name, kind, tier);
    }
    let device = child(root, "Hostname").unwrap_or_else(|| super::device_of(file).to_owned());
    // The bandwidth of a link is often left at 1000, while the speed of its port is right.
    for interface in named("EthernetInterface") {
        let rate = child(interface, "Speed").and_then(|speed| speed.parse().ok()).and_then(mbps);
        if let Some(name) = child(interface, "InterfaceName").filter(|_| rate.is_some()) {
            reports.ports.push(Port { device: device.clone(), name, rate, ..Port::default() });
        }
    }
    let mut skipped = 0;
    for link in named("DeviceLinkBase") {
        let line = document.text_pos_at(link.range().start).row;
        let kind = link.attributes().find(|attribute| attribute.name() == "type").map(|attribute| attribute.value());
        if kind != Some("DeviceInterfaceLink") {
            skipped += 1;
            continue;
        }
        let end = |device: &str, port: &str| {
            let ports = child(link, port).into_iter().collect();
            child(link, device).map(|device| End { device, ports })
        };
        let (Some(a), Some(b)) = (end("StartDevice", "StartPort"), end("EndDevice", "EndPort")) else {
            return Err(wrong(file, format!("line {line}"), "the link lacks StartDevice or EndDevice"));
        };
        reports.cables.push(Cable {
            ends: [a, b],
            rate: None,
            delay: None,
            is_seen: false,
            place: format!("{file}:{line}"),
        });
    }
    if skipped > 0 {
        reports.warn(
            file,
            format!("{skipped} links that are no DeviceInterfaceLink, such as those of management, are not used"),
        );
    }
    Ok(())
}
