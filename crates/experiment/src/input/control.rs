//! The `[control]` section: control channels, and the controller and switches at their ends.

use balance::Spec;
use net::did_you_mean::suggestion;
use net::{Addressing, Bandwidth, HostIx, NodeIx, NodeKind, Time, Topology, address};
use sim::{Boot, ControlConfig, HashSeeds};

use config::diagnostic::FileError;
use config::document::Data;
use config::section::Section;

pub(crate) fn control(section: &Section<'_>, topology: &Topology) -> Result<ControlConfig, FileError> {
    let default = ControlConfig::default();
    let addressing = section.choice("addressing")?.and_then(Addressing::named).unwrap_or_default();
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
        hosts_resolve: hosts_resolve(section, addressing)?,
        refused: refused(section, addressing, topology.hosts().len())?,
        addressing,
        mux_rules: section.count("mux_rules")?.unwrap_or(default.mux_rules),
        discovery: section.above_zero("discovery_interval")?,
        poll: section.above_zero("poll_interval")?,
        legacy: legacy(section, topology, addressing)?,
        // The timetable needs the network and the balancers, which are read later.
        schedule: Vec::new(),
    })
}

fn hosts_resolve(section: &Section<'_>, addressing: Addressing) -> Result<bool, FileError> {
    match section.choice("arp")? {
        Some("known") if addressing != Addressing::Flat => {
            let error =
                section.error("arp", format!("cannot be \"known\" with addressing = \"{}\"", addressing.name()));
            Err(error.with_hint("hosts learn the addresses of this mode from ARP replies: write arp = \"resolve\""))
        }
        None => Ok(addressing != Addressing::Flat),
        arp => Ok(arp == Some("resolve")),
    }
}

/// Reads the pairs of hosts whose addresses the directory refuses.
fn refused(section: &Section<'_>, addressing: Addressing, hosts: usize) -> Result<Vec<(HostIx, HostIx)>, FileError> {
    if !section.list("refuse").is_empty() && addressing != Addressing::Vl2 {
        let error = section.error("refuse", "needs a directory of addresses");
        return Err(error.with_hint("only addressing = \"vl2\" has one"));
    }
    let mut pairs = Vec::new();
    for value in section.list("refuse") {
        let Data::Text(text) = &value.data else { return Err(section.error("refuse", "must be pairs in quotes")) };
        let host = |text: &str| address::host_of_ipv4(text.trim().parse().ok()?, hosts);
        let pair = text.split_once('>').and_then(|(from, to)| Some((host(from)?, host(to)?)));
        let Some(pair) = pair.filter(|(from, to)| from != to) else {
            let error = section.error("refuse", format!("`{text}` is not a pair of hosts of this network"));
            return Err(error.with_hint("write the addresses, such as \"10.0.0.1 > 10.0.0.16\""));
        };
        pairs.push(pair);
    }
    Ok(pairs)
}

/// Checks that the addressing mode can work with the network, the balancers and the traffic.
pub(crate) fn check_addressing(
    top: &Section<'_>,
    (mode, is_served): (Addressing, bool),
    balancers: &[balance::Spec],
    topology: &Topology,
) -> Result<(), FileError> {
    if mode == Addressing::Flat {
        return Ok(());
    }
    let section = top.section("control")?;
    let wrong = |reason: String| section.error("addressing", reason);
    let needs_flat =
        [(is_served, "[[requests]]", "virtual addresses"), (top.has("timetable"), "[[timetable]]", "timetables")];
    if let Some((_, other, what)) = needs_flat.into_iter().find(|(is_there, ..)| *is_there) {
        let error = wrong(format!("\"{}\" cannot go with {other}", mode.name()));
        return Err(error.with_hint(format!("{what} need addressing = \"flat\"")));
    }
    for spec in balancers {
        mode.check_balancer(spec.entry.name).map_err(|reason| {
            wrong(reason).with_hint(format!("write balancers = [\"{}\"]", mode.info().balancers[0]))
        })?;
    }
    control::addressing::check_topology(mode, topology).map_err(|reason| {
        wrong(format!("\"{}\" cannot address this network: {reason}", mode.name()))
            .with_hint("use a fat-tree or a leaf-spine topology, or addressing = \"flat\"")
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
fn legacy(section: &Section<'_>, topology: &Topology, addressing: Addressing) -> Result<Vec<NodeIx>, FileError> {
    if section.has("legacy") && addressing != Addressing::Flat {
        let error = section.error("legacy", format!("cannot go with addressing = \"{}\"", addressing.name()));
        return Err(error.with_hint("its addresses need rules at every switch"));
    }
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
