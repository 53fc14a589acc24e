//! YAML: containerlab topologies and InfraGraph.

use serde_json::Value;

use super::{Cable, End, Reports, items, mbps, number, text, wrong};
use crate::import::ImportError;
use crate::topology::NodeKind;
use crate::units::{Bandwidth, Time};

/// Most ends that the pattern of an edge of InfraGraph may have.
const ENDS_MAX: usize = 100_000;

pub(super) fn read(file: &str, text: &str, reports: &mut Reports) -> Result<(), ImportError> {
    let value: Value = serde_saphyr::from_str(text).map_err(|cause| {
        let (line, column) = cause.location().map_or((0, 0), |at| (at.line() as u32, at.column() as u32));
        let reason = cause.to_string().lines().next().unwrap_or_default().to_owned();
        ImportError::Text { file: file.to_owned(), line, column, reason }
    })?;
    match () {
        () if value["topology"]["nodes"].is_object() => containerlab(file, &value["topology"], reports),
        () if value.get("instances").is_some() => infragraph(file, &value, reports),
        () => Err(super::unknown(file, "the YAML has neither `topology.nodes` nor `instances`")),
    }
}

/// containerlab's links have no rates. Those in a label `rate` are used, in Mb/s or with a unit.
fn containerlab(file: &str, topology: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    for (name, node) in topology["nodes"].as_object().into_iter().flatten() {
        let label =
            text(&node["labels"], "tier").or_else(|| text(&node["labels"], "role")).or_else(|| text(node, "group"));
        let (kind, tier) = match label {
            Some("leaf" | "tor" | "edge") => (Some(NodeKind::Switch), Some(1)),
            Some("spine" | "aggregation") => (Some(NodeKind::Switch), Some(2)),
            Some("superspine" | "super-spine" | "core") => (Some(NodeKind::Switch), Some(3)),
            Some("host" | "server" | "client") => (Some(NodeKind::Host), None),
            _ => (None, None),
        };
        reports.device(name, kind, tier);
    }
    for (number_of, link) in items(&topology["links"]).iter().enumerate() {
        let place = format!("topology.links[{number_of}]");
        if let Some(kind) = text(link, "type").filter(|kind| *kind != "veth") {
            reports.warn(file, format!("{place} of type {kind} is no cable"));
            continue;
        }
        let end = |value: &Value| -> Option<End> {
            let (device, port) = match value.as_str() {
                Some(both) => both.split_once(':')?,
                None => (text(value, "node")?, text(value, "interface")?),
            };
            Some(End { device: device.to_owned(), ports: vec![port.to_owned()] })
        };
        let [a, b] = items(&link["endpoints"]) else { return Err(wrong(file, place, "needs two endpoints")) };
        let (Some(a), Some(b)) = (end(a), end(b)) else {
            return Err(wrong(file, place, "needs endpoints such as `leaf1:e1-1`"));
        };
        if let Some(lost) = [&a, &b].iter().find(|end| topology["nodes"].get(&end.device).is_none()) {
            return Err(wrong(file, place, &format!("`{}` is no node of this file", lost.device)));
        }
        let label = &link["labels"]["rate"];
        let rate = number(label).and_then(mbps).or_else(|| label.as_str()?.parse::<Bandwidth>().ok());
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

/// InfraGraph: devices, instances of them, and edges between ports by patterns. The edges within a
/// device are not used.
fn infragraph(file: &str, graph: &Value, reports: &mut Reports) -> Result<(), ImportError> {
    if graph.get("connections").is_some() {
        let reason = "is of an older schema than `edges`: convert the file with InfraGraph 3";
        return Err(wrong(file, "connections", reason));
    }
    let named = |list: &str, name: &str| items(&graph[list]).iter().find(|one| text(one, "name") == Some(name));
    for (number_of, instance) in items(&graph["instances"]).iter().enumerate() {
        let place = format!("instances[{number_of}]");
        let (Some(name), Some(device)) = (text(instance, "name"), text(instance, "device")) else {
            return Err(wrong(file, place, "lacks `name` or `device`"));
        };
        let device =
            named("devices", device).ok_or_else(|| wrong(file, &place, &format!("`{device}` is no device")))?;
        let has_switch =
            items(&device["components"]).iter().any(|component| text(component, "choice") == Some("switch"));
        let kind = if has_switch { NodeKind::Switch } else { NodeKind::Host };
        for ix in 0..count(instance) {
            reports.device(&format!("{name}{ix}"), Some(kind), None);
        }
    }
    for (number_of, edge) in items(&graph["edges"]).iter().enumerate() {
        let place = format!("edges[{number_of}]");
        let ends = |key: &str| ends(&edge[key], graph).map_err(|reason| wrong(file, format!("{place}.{key}"), &reason));
        let (first, second) = (ends("ep1")?, ends("ep2")?);
        let pairs: Vec<(&End, &End)> = match text(edge, "scheme").unwrap_or("one2one") {
            "one2one" if first.len() == second.len() => first.iter().zip(&second).collect(),
            "one2one" => {
                let reason = format!("connects {} ends with {} one to one", first.len(), second.len());
                return Err(wrong(file, place, &reason));
            }
            "many2many" if first.len().saturating_mul(second.len()) <= ENDS_MAX => {
                first.iter().flat_map(|a| second.iter().map(move |b| (a, b))).collect()
            }
            other => {
                return Err(wrong(
                    file,
                    place,
                    &format!("the scheme `{other}` is not supported, or makes too many cables"),
                ));
            }
        };
        let link = text(edge, "link").unwrap_or_default();
        let physical = named("links", link).map_or(&Value::Null, |link| &link["physical"]);
        let (rate, delay) = (rate(&physical["bandwidth"]), delay(&physical["latency"]));
        if rate.is_none() {
            reports.warn(file, format!("{place}: the link `{link}` has no rate in gigabits or gigabytes per second"));
        }
        let cable = |(a, b): (&End, &End)| Cable {
            ends: [a.clone(), b.clone()],
            rate,
            delay,
            is_seen: false,
            place: format!("{file}: {place}"),
        };
        reports.cables.extend(pairs.into_iter().map(cable));
    }
    Ok(())
}

fn count(of: &Value) -> usize {
    number(&of["count"]).map_or(1, |count| count.clamp(0.0, ENDS_MAX as f64) as usize)
}

fn rate(bandwidth: &Value) -> Option<Bandwidth> {
    let of = |key: &str, factor: f64| bandwidth.get(key).and_then(number).and_then(|value| mbps(value * factor));
    of("gigabits_per_second", 1e3).or_else(|| of("gigabytes_per_second", 8e3))
}

fn delay(latency: &Value) -> Option<Time> {
    let of = |key: &str, ps: f64| {
        let value = latency.get(key).and_then(number).filter(|value| *value >= 0.0 && value * ps <= 1e12)?;
        Some(Time::from_ps((value * ps) as u64))
    };
    of("ns", 1e3).or_else(|| of("us", 1e6)).or_else(|| of("ms", 1e9))
}

/// Expands an end such as `{instance: "leaf[0:4]", component: "port[0]"}`, instances first.
fn ends(end: &Value, graph: &Value) -> Result<Vec<End>, String> {
    let (instance, component) = (text(end, "instance"), text(end, "component"));
    let (Some(instance), Some(component)) = (instance, component) else {
        return Err("needs `instance` and `component`".to_owned());
    };
    let named = |list: &Value, name: &str| items(list).iter().find(|one| text(one, "name") == Some(name)).cloned();
    let name = instance.split('[').next().unwrap_or_default();
    let of_instance = named(&graph["instances"], name).ok_or_else(|| format!("`{name}` is no instance"))?;
    let device = named(&graph["devices"], text(&of_instance, "device").unwrap_or_default()).unwrap_or_default();
    let port = component.split('[').next().unwrap_or_default();
    let of_port = named(&device["components"], port).ok_or_else(|| format!("`{port}` is no component of `{name}`"))?;
    let (instances, ports) = (slice(instance, count(&of_instance))?, slice(component, count(&of_port))?);
    if instances.len().saturating_mul(ports.len()) > ENDS_MAX {
        return Err(format!("has more than {ENDS_MAX} ends"));
    }
    let end = |device: usize, number: usize| End {
        device: format!("{name}{device}"),
        ports: vec![format!("{port}[{number}]")],
    };
    Ok(instances.flat_map(|device| ports.clone().map(move |number| end(device, number))).collect())
}

/// Returns the indexes of `leaf[0:4]`, `leaf[2]` or `leaf`, as slices of Python.
fn slice(text: &str, count: usize) -> Result<core::ops::Range<usize>, String> {
    let Some((_, inner)) = text.split_once('[') else { return Ok(0..count) };
    let wrong = || format!("`{text}` is no index such as [2] or [0:4] below {count}");
    let inner = inner.strip_suffix(']').ok_or_else(wrong)?;
    let bound =
        |text: &str, default: usize| if text.is_empty() { Ok(default) } else { text.parse().map_err(|_| wrong()) };
    let range = match inner.split_once(':') {
        Some((from, to)) => bound(from, 0)?..bound(to, count)?,
        None => {
            let index = bound(inner, usize::MAX)?;
            index..index.checked_add(1).ok_or_else(wrong)?
        }
    };
    if range.end <= count && range.start < range.end { Ok(range) } else { Err(wrong()) }
}
