//! The `[control]` section: control channels, and the controller and switches at their ends.

use balance::Spec;
use net::did_you_mean::suggestion;
use net::{Bandwidth, NodeIx, NodeKind, Time, Topology};
use sim::{Boot, ControlConfig, HashSeeds};

use config::diagnostic::FileError;
use config::document::Data;
use config::section::Section;

pub(crate) fn control(section: &Section<'_>) -> Result<ControlConfig, FileError> {
    let default = ControlConfig::default();
    Ok(ControlConfig {
        latency: section.quantity("latency")?.unwrap_or(default.latency),
        bandwidth: section.above_zero::<Bandwidth>("bandwidth")?.unwrap_or(default.bandwidth),
        stats_refresh: section.quantity("stats_refresh")?.unwrap_or(default.stats_refresh),
        packet_in_per_s: section.count("packet_in_per_s")?,
        max_entries: section.count("max_entries")?.unwrap_or(default.max_entries),
        max_groups: section.count("max_groups")?.unwrap_or(default.max_groups),
        hash: match section.choice("hash")? {
            Some("identical") => HashSeeds::Identical,
            _ => HashSeeds::PerSwitch,
        },
        reserves_control_queue: section.choice("queue")? != Some("shared"),
        boot: boot(section)?,
        reconnect_after: section.above_zero("reconnect_after")?.unwrap_or(default.reconnect_after),
        agent_latency: section.quantity("agent_latency")?.unwrap_or(default.agent_latency),
        reports_flow_sizes: section.choice("flow_sizes")? != Some("unknown"),
        packets_per_s: section.count("packets_per_s")?,
        backlog_packets: section.count("cpu_queue_packets")?.unwrap_or(default.backlog_packets),
        discovery: section.above_zero("discovery_interval")?,
        poll: section.above_zero("poll_interval")?,
        legacy: Vec::new(),
        // The timetable needs the network and the balancers, which are read later.
        schedule: Vec::new(),
    })
}

fn boot(section: &Section<'_>) -> Result<Boot, FileError> {
    let is_cold = section.choice("boot")? == Some("cold");
    let connect_at = section.quantity::<Time>("connect_at")?;
    match (is_cold, connect_at) {
        (true, connect_at) => Ok(Boot::Cold { connect_at: connect_at.unwrap_or(Time::ZERO) }),
        (false, None) => Ok(Boot::Warm),
        (false, Some(_)) => Err(section.error("connect_at", "needs boot = \"cold\"")),
    }
}

/// Reads `legacy`: names of switches, or a share of all switches.
pub(crate) fn legacy(section: &Section<'_>, topology: &Topology) -> Result<Vec<NodeIx>, FileError> {
    let nodes = (0..topology.nodes().len() as u32).map(NodeIx);
    let switches: Vec<NodeIx> = nodes.filter(|node| topology.node(*node).kind == NodeKind::Switch).collect();
    if let Some(Data::Text(text)) = section.get("legacy").map(|value| &value.data) {
        let percent = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        let wrong = || section.error("legacy", format!("`{text}` is not a share of the switches"));
        let percent = percent.ok_or_else(|| wrong().with_hint("write a share such as \"50%\", or a list of names"))?;
        let is_switch = |link: &&net::LinkIx| topology.node(topology.link(**link).to).kind == NodeKind::Switch;
        let mut ranked = switches;
        ranked.sort_by_key(|node| (topology.out_links(*node).iter().filter(is_switch).count(), *node));
        ranked.truncate((ranked.len() as f64 * percent / 100.0).round() as usize);
        return Ok(ranked);
    }
    let mut legacy = Vec::new();
    for value in section.list("legacy") {
        let Data::Text(name) = &value.data else {
            return Err(section.error("legacy", "must be names of switches, or a share such as \"50%\""));
        };
        let name_of = |node: &NodeIx| topology.node(*node).name.as_str();
        let Some(node) = switches.iter().find(|node| name_of(node) == name) else {
            let error =
                section.document.error(&value.at, &section.dotted_key("legacy"), format!("unknown switch `{name}`"));
            return Err(error.with_hint(suggestion(name, switches.iter().map(name_of))));
        };
        legacy.push(*node);
    }
    Ok(legacy)
}

/// Rejects balancers whose paths legacy switches would not follow.
pub(crate) fn check_legacy(
    top: &Section<'_>,
    legacy: &[NodeIx],
    balancers: &[Spec],
    is_served: bool,
) -> Result<(), FileError> {
    if legacy.is_empty() {
        return Ok(());
    }
    if is_served {
        return Err(top
            .section("control")?
            .error("legacy", "cannot go with [[requests]], which need rules everywhere"));
    }
    let is_possible = |spec: &&Spec| match spec.entry.name {
        "partial-te" => true,
        "sdn-spt" => spec.params.text("tie") == "first",
        _ => spec.entry.is_bound(),
    };
    let Some(other) = balancers.iter().find(|spec| !is_possible(spec)) else { return Ok(()) };
    let message = format!("`{}` has paths that legacy switches do not follow", other.label());
    let error = top.section("control")?.error("legacy", message);
    Err(error.with_hint("use partial-te, sdn-spt:tie=first or bounds"))
}
