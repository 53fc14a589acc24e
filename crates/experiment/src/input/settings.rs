//! Reads [`SimConfig`]: transport, hosts, switches, failures, probes, stop rule.

use net::{Bandwidth, Bytes, LinkIx, Time, Topology};
use sim::{
    CaptureConfig, Failure, Fidelity, HostConfig, HostScheduler, Marking, ProbeConfig, QueueConfig, QueueLimit,
    Resequencing, ResequencingBounds, Scenario, SimConfig, StopRule, TransportConfig, TransportKind,
};
use traffic::FlowList;

use super::control::control;
use super::failures;
use super::traffic_plan::TrafficPlan;
use super::transport::transport;
use config::diagnostic::FileError;
use config::document::Data;
use config::section::Section;

pub(crate) fn read(top: &Section<'_>, topology: &Topology) -> Result<SimConfig, FileError> {
    let transport = transport(&top.section("transport")?)?;
    Ok(SimConfig {
        fidelity: fidelity(top)?,
        host: host(&top.section("host")?)?,
        switch: switch(&top.section("switch")?, &transport)?,
        failures: failures(top, topology)?,
        control: control(&top.section("control")?, topology)?,
        services: None,
        probes: probes(&top.section("probes")?, topology)?,
        stop: StopRule { until: top.section("stop")?.above_zero::<Time>("until")? },
        transport,
    })
}

fn fidelity(top: &Section<'_>) -> Result<Fidelity, FileError> {
    Ok(if top.choice("fidelity")? == Some(Fidelity::Flow.name()) { Fidelity::Flow } else { Fidelity::Packet })
}

/// Rejects balancers and settings that rates of flows cannot represent.
pub(crate) fn check_fidelity(
    top: &Section<'_>,
    balancers: &[balance::Spec],
    topology: &Topology,
    traffic: &TrafficPlan,
    config: &SimConfig,
) -> Result<(), FileError> {
    if config.fidelity == Fidelity::Packet {
        // Single packets delay a round and those after it: some rounds do not give the time of all.
        if traffic.has_sampled_rounds() {
            let error = top.section("traffic")?.error("collective", "has `rounds`, which need rates of flows");
            return Err(error.with_hint("set fidelity = \"flow\", or simulate all rounds"));
        }
        return Ok(());
    }
    let flows = FlowList::default();
    for balancer in balancers {
        let scenario = Scenario { topology, flows: &flows, balancer, seed: 0, config };
        sim::flow_level::check(&scenario)
            .map_err(|refusal| top.error("fidelity", format!("flow: {}", refusal.reason)).with_hint(refusal.remedy))?;
    }
    Ok(())
}

fn failures(top: &Section<'_>, topology: &Topology) -> Result<Vec<Failure>, FileError> {
    let sections = top.sections("failure")?;
    let read = sections.iter().enumerate().map(|(place, section)| failures::read(section, topology, place));
    Ok(read.collect::<Result<Vec<_>, _>>()?.concat())
}

fn host(section: &Section<'_>) -> Result<HostConfig, FileError> {
    let default = HostConfig::default();
    let auto_timeout = section.text("resequencing_timeout").is_ok_and(|text| text == Some("auto"));
    let bounds = ResequencingBounds {
        timeout: if auto_timeout { None } else { section.above_zero("resequencing_timeout")? },
        packets: section.count("resequencing_packets")?,
    };
    let resequencing = section.choice("resequencing")?;
    if resequencing != Some("on") {
        for key in ["resequencing_timeout", "resequencing_packets"] {
            if section.has(key) && !(key == "resequencing_timeout" && auto_timeout) {
                return Err(section.error(key, "needs resequencing = \"on\""));
            }
        }
    }
    Ok(HostConfig {
        queue_packets: section.count("queue_packets")?.unwrap_or(default.queue_packets),
        resequencing: match resequencing {
            Some("on") => Resequencing::On(bounds),
            Some("off") => Resequencing::Off,
            _ => Resequencing::Auto,
        },
        scheduler: match section.choice("scheduler")? {
            Some("fifo") => HostScheduler::Fifo,
            _ => HostScheduler::Fair,
        },
        priority_sizes: priority_sizes(section)?,
        jitter: section.quantity::<Time>("jitter")?.unwrap_or(default.jitter),
    })
}

fn switch(section: &Section<'_>, transport: &TransportConfig) -> Result<QueueConfig, FileError> {
    let packet_bytes = transport.packet_bytes();
    let default = QueueConfig::default();
    let limit = queue_limit(section, "queue")?.unwrap_or(default.limit);
    if let QueueLimit::Bytes(bytes) = limit
        && bytes < u64::from(packet_bytes)
    {
        let message = format!("{bytes} bytes are less than one packet of {packet_bytes} bytes");
        return Err(section.error("queue", message));
    }
    let marking = match section.get("ecn").map(|value| (value, &value.data)) {
        None => default.marking,
        Some((_, Data::Text(text))) if text == "off" => Marking::Off,
        Some((value, Data::Table(_))) => ramp(&section.table("switch.ecn", "switch.ecn".to_owned(), value)?)?,
        Some(_) => queue_limit(section, "ecn")?.map_or(Marking::Off, Marking::Step),
    };
    let trimming = section.flag("trimming")?.unwrap_or(default.trimming);
    if trimming && !matches!(transport.kind, TransportKind::Spray(_)) {
        let error = section.error("trimming", "only the spray transport supports trimmed packets");
        return Err(error.with_hint("set transport.kind = \"spray\""));
    }
    let lossless = flow_control(section)?;
    if trimming && lossless.is_some() {
        let error = section.error("trimming", "with pfc = true queues never fill, so packets are never trimmed");
        return Err(error.with_hint("choose one of them"));
    }
    let control_class = section.flag("control_class")?;
    if control_class == Some(true) && lossless.is_some() {
        let error = section.error("control_class", "with pfc = true the classes are those of flows");
        return Err(error.with_hint("choose one of them"));
    }
    if control_class == Some(false) && trimming {
        let error = section.error("control_class", "trimmed headers need the control class");
        return Err(error.with_hint("leave it out, or set trimming = false"));
    }
    let reference_rate = section.quantity::<Bandwidth>("reference_rate")?;
    if reference_rate.is_some_and(|rate| rate.as_bps() == 0) {
        return Err(section.error("reference_rate", "must be above 0"));
    }
    Ok(QueueConfig { limit, marking, reference_rate, lossless, control_class, trimming })
}

/// Reads `pfc = true` with the thresholds of its buffers; off unless the file or the balancer
/// enables it.
fn flow_control(section: &Section<'_>) -> Result<Option<balance::Lossless>, FileError> {
    let is_on = section.flag("pfc")?.unwrap_or(false);
    if !is_on {
        if let Some(key) = ["priorities", "pause_above", "resume_below"].into_iter().find(|key| section.has(key)) {
            return Err(section.error(key, "needs pfc = true"));
        }
        return Ok(None);
    }
    let size = |key: &str, default: u32| -> Result<u32, FileError> {
        let Some(bytes) = section.quantity::<Bytes>(key)? else { return Ok(default) };
        u32::try_from(bytes.as_u64()).map_err(|_| section.error(key, "must be below 4 GiB"))
    };
    let pause_above_bytes = size("pause_above", 40_000)?;
    let rules = balance::Lossless {
        priorities: section.count("priorities")?.unwrap_or(1),
        pause_above_bytes,
        resume_below_bytes: size("resume_below", pause_above_bytes / 2)?,
    };
    if rules.resume_below_bytes > rules.pause_above_bytes {
        return Err(section.error("resume_below", "must not be above pause_above"));
    }
    Ok(Some(rules))
}

fn priority_sizes(section: &Section<'_>) -> Result<Vec<u64>, FileError> {
    let Some(value) = section.get("priority_sizes") else { return Ok(Vec::new()) };
    let Data::List(items) = &value.data else {
        return Err(section.error("priority_sizes", format!("must be a list of sizes, not {}", value.kind())));
    };
    if items.len() > 7 {
        return Err(section.error("priority_sizes", "at most 7 sizes are allowed, for 8 traffic classes"));
    }
    let size = |item: &config::document::Value| match &item.data {
        Data::Text(text) => text.parse::<Bytes>().map(Bytes::as_u64).ok(),
        _ => None,
    };
    items
        .iter()
        .map(|item| {
            size(item).ok_or_else(|| section.error("priority_sizes", "write a list such as [\"10KB\", \"100KB\"]"))
        })
        .collect()
}

fn ramp(section: &Section<'_>) -> Result<Marking, FileError> {
    section.check_keys()?;
    let size = |key: &str| Ok(section.quantity::<Bytes>(key)?.ok_or_else(|| section.missing(key))?.as_u64());
    let (min_bytes, max_bytes) = (size("min")?, size("max")?);
    if max_bytes <= min_bytes {
        return Err(section.error("max", "must be above min"));
    }
    let max_probability = section.positive("probability")?.ok_or_else(|| section.missing("probability"))?;
    Ok(Marking::Ramp { min_bytes, max_bytes, max_probability })
}

fn queue_limit(section: &Section<'_>, key: &str) -> Result<Option<QueueLimit>, FileError> {
    let packets = section.text(key).ok().flatten().and_then(|text| text.strip_suffix("pkt"));
    let limit = match packets {
        Some(count) => {
            let parsed = count.trim().parse::<u32>();
            let wrong = || section.error(key, "is not a number of packets").with_hint("write it as \"100pkt\"");
            QueueLimit::Packets(parsed.map_err(|_| wrong())?)
        }
        None => match section.quantity::<Bytes>(key) {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => QueueLimit::Bytes(bytes.as_u64()),
            Err(error) => return Err(error.with_hint("write packets as \"100pkt\", bytes as \"150KB\"")),
        },
    };
    if matches!(limit, QueueLimit::Packets(0) | QueueLimit::Bytes(0)) {
        return Err(section.error(key, "must be above zero"));
    }
    Ok(Some(limit))
}

/// Reads a list of links by name.
pub(crate) fn link_list(
    section: &Section<'_>,
    key: &'static str,
    topology: &Topology,
) -> Result<Vec<LinkIx>, FileError> {
    let mut links = Vec::new();
    for value in section.list(key) {
        let Data::Text(text) = &value.data else {
            let message = format!("must be names of links, not {}", value.kind());
            return Err(section.error(key, message).with_hint("write [\"leaf0 -> spine1\"]"));
        };
        let link = failures::link_named(section, key, text.trim(), topology, "write it as \"leaf0 -> spine1\"")?;
        if links.contains(&link) {
            return Err(section.error(key, format!("`{text}` is listed twice")));
        }
        links.push(link);
    }
    Ok(links)
}

fn probes(section: &Section<'_>, topology: &Topology) -> Result<ProbeConfig, FileError> {
    let default = ProbeConfig::default();
    if section.has("capture_packets") && !section.has("capture") {
        return Err(section.error("capture_packets", "needs links to capture").with_hint("name them in `capture`"));
    }
    Ok(ProbeConfig {
        series: section.flag("series")?.unwrap_or(default.series),
        bin: section.above_zero("bin")?.unwrap_or(default.bin),
        max_bins: section.count("max_bins")?.unwrap_or(default.max_bins),
        fixed_bins: section.flag("fixed_bins")?.unwrap_or(default.fixed_bins),
        links: link_list(section, "links", topology)?,
        capture: CaptureConfig {
            links: link_list(section, "capture", topology)?,
            packets_max: section.count("capture_packets")?.unwrap_or(default.capture.packets_max),
        },
        warm_up: section.quantity("warm_up")?.unwrap_or(default.warm_up),
    })
}
