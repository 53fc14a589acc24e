//! Neighbours that devices learnt by LLDP, as JSON of lldpd, EOS, Junos and NX-OS.
//!
//! Rates are not in LLDP. Lists with one element are often the element alone.

use serde_json::Value;

use super::{Cable, End, Reports, device_of, items, text};
use crate::import::ImportError;
use crate::topology::NodeKind;

/// Ports of management, which are no part of the fabric.
const MANAGEMENT: [&str; 4] = ["management", "mgmt", "fxp", "em0"];

/// A neighbour as all forms report it.
struct Neighbour<'a> {
    port: &'a str,
    device: &'a str,
    /// Names of its port, the likeliest first.
    ports: Vec<&'a str>,
}

fn add(file: &str, local: &str, neighbour: &Neighbour<'_>, reports: &mut Reports) {
    let Neighbour { port, device, ports } = neighbour;
    let lower = port.to_ascii_lowercase();
    if MANAGEMENT.iter().any(|name| lower.starts_with(name)) {
        reports.warn(file, format!("the neighbour {device} at the port {port} of management is not used"));
        return;
    }
    let ports = ports.iter().map(|port| (*port).to_owned()).collect();
    let ends = [
        End { device: local.to_owned(), ports: vec![(*port).to_owned()] },
        End { device: (*device).to_owned(), ports },
    ];
    let place = format!("{file}: the neighbour at {port}");
    reports.cables.push(Cable { ends, rate: None, delay: None, is_seen: true, place });
}

/// `lldpctl -f json`, and `-f json0`, in which everything is a list.
pub(super) fn lldpctl(file: &str, value: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    let local = device_of(file);
    let mut found = 0;
    let interfaces = items(&value["lldp"]).iter().flat_map(|lldp| items(&lldp["interface"]));
    for interface in interfaces {
        // Either an object with the name as its key, or in `json0` one with the name inside.
        let named: Vec<(&str, &Value)> = match text(interface, "name") {
            Some(name) => vec![(name, interface)],
            None => interface.as_object().into_iter().flatten().map(|(name, about)| (name.as_str(), about)).collect(),
        };
        for (port, about) in named {
            found += 1;
            for chassis in items(&about["chassis"]) {
                // The name of the neighbour is the key, if it has one.
                let entry = chassis.as_object().and_then(|entries| entries.iter().next());
                let (device, about_device) = match (items(&chassis["name"]).first(), entry) {
                    (Some(name), _) => (leaf(name), chassis),
                    (None, Some((name, about))) if name != "id" => (Some(name.as_str()), about),
                    _ => (None, chassis),
                };
                let Some(device) = device else {
                    reports.warn(file, format!("the neighbour at {port} has no name"));
                    continue;
                };
                let port_of: Vec<&str> = items(&about["port"])
                    .iter()
                    .flat_map(|port| items(&port["descr"]).iter().chain(items(&port["id"]).iter()))
                    .filter_map(|name| leaf(name))
                    .collect();
                let is_able = |kind: &str| {
                    let mut able =
                        items(&about_device["capability"]).iter().filter(|one| text(one, "type") == Some(kind));
                    able.any(|one| one["enabled"] == true || one["enabled"] == "on")
                };
                if is_able("Router") || is_able("Bridge") {
                    reports.device(device, Some(NodeKind::Switch), None);
                } else if is_able("Station") {
                    reports.device(device, Some(NodeKind::Host), None);
                }
                add(file, local, &Neighbour { port, device, ports: port_of }, reports);
            }
        }
    }
    finish(file, local, found, reports)
}

/// Returns a text that may be inside `value`.
fn leaf(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("value")?.as_str()).filter(|text| !text.is_empty())
}

/// `show lldp neighbors | json`, with or without `detail`.
pub(super) fn eos(file: &str, value: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    let (local, mut found) = (device_of(file), 0);
    let neighbours = &value["lldpNeighbors"];
    for one in neighbours.as_array().into_iter().flatten() {
        if let (Some(port), Some(device)) = (text(one, "port"), text(one, "neighborDevice")) {
            found += 1;
            add(
                file,
                local,
                &Neighbour { port, device, ports: text(one, "neighborPort").into_iter().collect() },
                reports,
            );
        }
    }
    for (port, about) in neighbours.as_object().into_iter().flatten() {
        for one in items(&about["lldpNeighborInfo"]) {
            let Some(device) = text(one, "systemName") else {
                reports.warn(file, format!("the neighbour at {port} has no name"));
                continue;
            };
            found += 1;
            let interface = &one["neighborInterfaceInfo"];
            // The older key has quotation marks within.
            let quoted = text(interface, "interfaceId").map(|name| name.trim_matches('"'));
            let ports = text(interface, "interfaceId_v2").or(quoted).into_iter().collect();
            let able = &one["systemCapabilities"];
            if able["bridge"] == true || able["router"] == true {
                reports.device(device, Some(NodeKind::Switch), None);
            }
            add(file, local, &Neighbour { port, device, ports }, reports);
        }
    }
    finish(file, local, found, reports)
}

/// `show lldp neighbors | display json`.
pub(super) fn junos(file: &str, value: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    let (local, mut found) = (device_of(file), 0);
    let tables = items(&value["lldp-neighbors-information"]).iter();
    for one in tables.flat_map(|table| items(&table["lldp-neighbor-information"])) {
        let data = |key: &str| items(&one[key]).first().and_then(|leaf| text(leaf, "data")).filter(|data| *data != "-");
        let port = data("lldp-local-port-id").or_else(|| data("lldp-local-interface"));
        let (Some(port), Some(device)) = (port, data("lldp-remote-system-name")) else { continue };
        found += 1;
        let ports = [data("lldp-remote-port-id"), data("lldp-remote-port-description")].into_iter().flatten().collect();
        add(file, local, &Neighbour { port, device, ports }, reports);
    }
    finish(file, local, found, reports)
}

/// `show lldp neighbors detail | json`.
pub(super) fn nxos(file: &str, value: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    let (local, mut found) = (device_of(file), 0);
    for one in items(&value["TABLE_nbor_detail"]["ROW_nbor_detail"]) {
        let (Some(port), Some(device)) = (text(one, "l_port_id"), text(one, "sys_name")) else { continue };
        found += 1;
        add(file, local, &Neighbour { port, device, ports: text(one, "port_id").into_iter().collect() }, reports);
    }
    finish(file, local, found, reports)
}

/// Adds the device that made the file; without neighbours the file is useless.
fn finish(file: &str, local: &str, found: usize, reports: &mut Reports) -> Result<(), ImportError> {
    if found == 0 {
        reports.warn(file, "no neighbour with a port and a name is in this file");
    }
    // A host has a file too: several neighbours are no proof of a switch, so the kind stays open.
    reports.device(local, None, None);
    Ok(())
}
