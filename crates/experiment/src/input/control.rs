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
        packet_in_per_s: section.count32("packet_in_per_s", 1..=u32::MAX)?,
        max_entries: section.count32("max_entries", 1..=u32::MAX)?.unwrap_or(default.max_entries),
        max_groups: section.count32("max_groups", 0..=u32::MAX)?.unwrap_or(default.max_groups),
        hash: match section.choice("hash", &["per-switch", "identical"])? {
            Some(1) => HashSeeds::Identical,
            _ => HashSeeds::PerSwitch,
        },
        reserves_control_queue: section.choice("frames", &["reserved", "plain"])? != Some(1),
        boot: boot(section)?,
        reconnect_after: section.above_zero("reconnect_after")?.unwrap_or(default.reconnect_after),
        agent_latency: section.quantity("agent_latency")?.unwrap_or(default.agent_latency),
        reports_flow_sizes: section.choice("sizes", &["told", "unknown"])? != Some(1),
        packets_per_s: section.count32("packets_per_s", 1..=u32::MAX)?,
        backlog_packets: section.count32("backlog", 0..=u32::MAX)?.unwrap_or(default.backlog_packets),
        discovery: section.above_zero("discovery")?,
        poll: section.above_zero("poll")?,
    })
}

fn boot(section: &Section<'_>) -> Result<Boot, FileError> {
    let is_cold = section.choice("boot", &["warm", "cold"])? == Some(1);
    let connect_at = section.quantity::<Time>("connect_at")?;
    match (is_cold, connect_at) {
        (true, connect_at) => Ok(Boot::Cold { connect_at: connect_at.unwrap_or(Time::ZERO) }),
        (false, None) => Ok(Boot::Warm),
        (false, Some(_)) => Err(section.error("connect_at", "needs boot = \"cold\"")),
    }
}
