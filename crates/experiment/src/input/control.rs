//! The `[control]` section: control channels, and the controller and switches at their ends.

use net::{Bandwidth, Time};
use sim::{Boot, ControlConfig, HashSeeds};

use config::diagnostic::FileError;
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
        mux_rules: section.count("mux_rules")?.unwrap_or(default.mux_rules),
        discovery: section.above_zero("discovery_interval")?,
        poll: section.above_zero("poll_interval")?,
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
