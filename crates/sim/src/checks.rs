//! Checks of scenarios that cannot be simulated.

use std::collections::BTreeSet;

use balance::{Build, Connection};
use net::{Routes, Time};
use traffic::Start;

use crate::SimError;
use crate::scenario::{Acks, Marking, QueueLimit, Scenario, SimConfig, TransportKind};
use crate::services::requests::balancer_of;
use crate::services::{ContentConfig, ContentRule, OUTER_HEADER, ServicesConfig, VirtualService};
use crate::setup;

pub(crate) fn check(scenario: &Scenario<'_>, has_controller: bool) -> Result<(), SimError> {
    check_transport(scenario.config)?;
    check_queues(scenario.config)?;
    check_rates(scenario)?;
    check_failures(scenario)?;
    check_connections(scenario)?;
    if scenario.topology.nodes().len() > usize::from(u16::MAX) {
        let classes = Routes::intact(scenario.topology).class_count();
        if classes >= usize::from(u16::MAX) {
            let reason =
                "must have at most 65534 first switches and multi-homed hosts, since packets cannot address more";
            return Err(wrong("topology", format!("{classes} destination classes"), reason));
        }
    }
    let hosts = scenario.topology.hosts().len() as u32;
    let flows = &scenario.flows.flows;
    let max_bytes = u64::from(u32::MAX - 1) * u64::from(scenario.config.transport.mss_bytes);
    let tasks = scenario.flows.tasks.as_ref();
    let is_foreign = tasks.is_some_and(|tasks| tasks.flow_count() != flows.len());
    for (ix, flow) in flows.iter().enumerate() {
        let fail = |reason: String| Err(SimError::Flow { flow: ix, reason });
        if flow.src.0 >= hosts || flow.dst.0 >= hosts {
            let worst = flow.src.0.max(flow.dst.0);
            return fail(format!("host {worst} does not exist; the topology has hosts 0 to {}", hosts - 1));
        }
        if flow.src == flow.dst {
            return fail(format!("host {} sends to itself", flow.src.0));
        }
        if flow.size_bytes == 0 || flow.size_bytes > max_bytes {
            return fail(format!("size {} B is not between 1 and {max_bytes} B", flow.size_bytes));
        }
        if let Start::After { flow: awaited, .. } = flow.start
            && awaited as usize >= flows.len()
        {
            return fail(format!("waits for flow {awaited}, but the list has only {} flows", flows.len()));
        }
        if flow.start == Start::AfterTasks && tasks.is_none() || is_foreign {
            return fail("waits for tasks, but the list has no graph of tasks for its flows".to_owned());
        }
    }
    check_control_plane(scenario, has_controller)
}

/// Rejects server balancers without services, central balancers without a controller, other
/// balancers with one, and features that a run with a controller does not support.
fn check_control_plane(scenario: &Scenario<'_>, has_controller: bool) -> Result<(), SimError> {
    let (topology, entry) = (scenario.topology, scenario.balancer.entry);
    let services = scenario.config.services.as_ref();
    let needs_controller = matches!(entry.build, Build::Central(_) | Build::Server(_));
    let reason = match (entry.is_server(), services.is_some()) {
        (true, false) => "it picks servers for requests, but the scenario has only flows between hosts",
        (false, true) => "it does not pick servers, but flows are requests to virtual services",
        _ if needs_controller && !has_controller => "it needs a controller: use `run_controlled`",
        _ if !needs_controller && has_controller => "it needs no controller: use `run`, or a central balancer",
        _ => "",
    };
    reject_if(!reason.is_empty(), "balancers", entry.name, reason)?;
    if let Some(services) = services {
        check_services(scenario, services)?;
    }
    if !has_controller {
        return Ok(());
    }
    let is_single = |host: &&net::NodeIx| topology.out_links(**host).len() == 1 && !topology.node(**host).forwards;
    if let Some(host) = topology.hosts().iter().find(|host| !is_single(host)) {
        let reason = format!(
            "host `{}` has several links or forwards, but a controller cannot control hosts; use a topology whose \
             hosts have one link each",
            topology.node(*host).name
        );
        return Err(wrong("topology", topology.name(), &reason));
    }
    let kind = &scenario.config.transport.kind;
    let reason = "OpenFlow switches send no congestion feedback to hosts: use dctcp or cubic";
    reject_if(kind.feedback().is_some(), "transport.kind", kind.name(), reason)?;
    let control = &scenario.config.control;
    reject_if(control.bandwidth.as_bps() == 0, "control.bandwidth", control.bandwidth, "must be above 0")?;
    reject_if(control.max_entries == 0, "control.max_entries", 0, "must be at least 1")?;
    reject_if(control.packets_per_s == Some(0), "control.packets_per_s", 0, "must be at least 1")?;
    reject_if(control.packet_in_per_s == Some(0), "control.packet_in_per_s", 0, "must be at least 1")
}

fn check_content(
    scenario: &Scenario<'_>,
    (service, content): (&VirtualService, &ContentConfig),
    is_member: &dyn Fn(&net::HostIx) -> bool,
) -> Result<(), SimError> {
    let matches_all = |rule: &ContentRule| rule.path.is_empty() && rule.host.is_none();
    let has_last = content.rules.last().is_some_and(matches_all) && content.redirect_bytes > 0;
    reject_if(!has_last, "services", &service.name, "the last rule of content must match all requests")?;
    for rule in &content.rules {
        let is_right = !rule.members.is_empty() && rule.members.iter().all(is_member);
        reject_if(!is_right, "services", &service.name, "a rule of content needs members, which must be servers")?;
        if let Err(reason) = balancer_of(rule, scenario.balancer) {
            return Err(wrong("content", &rule.path, &reason));
        }
    }
    Ok(())
}

fn check_services(scenario: &Scenario<'_>, config: &ServicesConfig) -> Result<(), SimError> {
    let transport = &scenario.config.transport;
    let is_tcp = transport.properties().is_tcp;
    let reason = "requests need a TCP transport: use newreno, dctcp or cubic";
    reject_if(!is_tcp, "transport.kind", transport.kind.name(), reason)?;
    let hosts = scenario.topology.hosts().len();
    let mut servers: Vec<net::HostIx> = config.servers.iter().map(|server| server.host).collect();
    servers.sort_unstable();
    if let Some(pair) = servers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(wrong("services", pair[0].0, "this host is listed twice among the servers"));
    }
    if let Some(server) = config.servers.iter().find(|server| server.host.ix() >= hosts || server.cores == 0) {
        let reason = "a server must be an existing host with at least one core";
        return Err(wrong("services", format!("{server:?}"), reason));
    }
    let is_member = |host: &net::HostIx| servers.binary_search(host).is_ok();
    if let Some(service) = config.services.iter().find(|service| !service.members.iter().all(is_member)) {
        return Err(wrong("services", &service.name, "one of its members is not a server"));
    }
    let tunnelled = config.services.iter().find(|service| service.is_tunnelled);
    let packet_max = u64::from(transport.packet_bytes()) + u64::from(OUTER_HEADER);
    let reason = "a packet with its headers and an outer one must fit in 65535 bytes";
    reject_if(tunnelled.is_some() && packet_max > 65_535, "transport.mss", transport.mss_bytes, reason)?;
    if let Some(service) = tunnelled.filter(|service| service.content.is_some()) {
        return Err(wrong(
            "services",
            &service.name,
            "front ends cannot read requests that switches tunnel to members",
        ));
    }
    let contents = config.services.iter().filter_map(|service| Some((service, service.content.as_ref()?)));
    for (service, content) in contents {
        check_content(scenario, (service, content), &is_member)?;
    }
    let max_bytes = u64::from(u32::MAX - 1) * u64::from(transport.mss_bytes);
    for class in &config.classes {
        let sizes = [class.request_bytes, class.page_bytes];
        let is_known = (class.service as usize) < config.services.len();
        if !is_known || class.pages == 0 || sizes.iter().any(|size| *size == 0 || *size > max_bytes) {
            let reason = "a class must name a service and have at least one page, and one byte in each direction";
            return Err(wrong("requests", &class.name, reason));
        }
    }
    reject_if(
        config.agents.is_some_and(|agents| agents.pause == Time::ZERO && agents.sampling == Time::ZERO),
        "agents.sampling",
        Time::ZERO,
        "the time between two reports must be above 0",
    )?;
    let is_classless = |flow: &traffic::Flow| flow.group == 0 || flow.group as usize > config.classes.len();
    match scenario.flows.flows.iter().position(is_classless) {
        Some(flow) => Err(SimError::Flow { flow, reason: "its group is not the number of a request class".to_owned() }),
        None => Ok(()),
    }
}

pub(crate) fn wrong(key: &'static str, value: impl ToString, reason: &str) -> SimError {
    SimError::Config { key, value: value.to_string(), reason: reason.to_owned() }
}

pub(crate) fn reject_if(is_wrong: bool, key: &'static str, value: impl ToString, reason: &str) -> Result<(), SimError> {
    if is_wrong { Err(wrong(key, value, reason)) } else { Ok(()) }
}

fn check_transport(config: &SimConfig) -> Result<(), SimError> {
    let t = &config.transport;
    reject_if(t.mss_bytes == 0, "transport.mss", t.mss_bytes, "a packet must carry at least one byte")?;
    let reason = "a packet with its headers must fit in 65535 bytes";
    reject_if(t.packet_bytes() > 65_535, "transport.mss", t.mss_bytes, reason)?;
    let is_size = (1..=65_535).contains(&t.ack_bytes);
    reject_if(!is_size, "transport.ack_bytes", t.ack_bytes, "must be 1 to 65535 bytes")?;
    reject_if(t.initial_window_packets == 0, "transport.initial_window", 0, "must be at least one packet")?;
    let window = t.max_window_packets.unwrap_or(1);
    reject_if(!(1..=1 << 24).contains(&window), "transport.max_window", window, "must be 1 to 16777216 packets")?;
    reject_if(t.dup_ack_threshold == 0, "transport.dup_ack_threshold", 0, "must be at least 1")?;
    reject_if(t.min_rto == Time::ZERO, "transport.min_rto", t.min_rto, "must be above 0")?;
    if t.sack {
        check_selective_window(config)?;
    }
    t.kind.check(config)
}

/// Checks the transport of flows with several connections: those that race need acknowledgements,
/// those that share data a transport whose windows and recovery they support.
fn check_connections(scenario: &Scenario<'_>) -> Result<(), SimError> {
    let transport = &scenario.config.transport;
    let properties = transport.properties();
    if properties.couples_subflows {
        return Ok(());
    }
    let has_acks = properties.acks != Acks::None;
    // Whether a flow becomes several connections does not depend on times: any scale will do.
    let scale = setup::scale(scenario, 0);
    let (name, kind) = (scenario.balancer.entry.name, transport.kind.name());
    match (scenario.balancer.entry.needs)(&scale, &scenario.balancer.params).connection {
        Connection::Subflows(_) if has_acks => {
            let reason = format!(
                "balancer `{name}` couples the windows of subflows without SACK; use newreno or dctcp with sack = \
                 false, or a balancer with one connection per flow"
            );
            let with = if transport.sack { " with sack" } else { "" };
            Err(wrong("transport", format!("{kind}{with}"), &reason))
        }
        Connection::Subflows(_) | Connection::Copies(_) if !has_acks => {
            let title = transport.kind.about().title;
            let reason = format!(
                "balancer `{name}` opens several connections per flow, but {title} has none; use newreno or dctcp, or a \
                 balancer with one connection per flow"
            );
            Err(wrong("transport", kind, &reason))
        }
        _ => Ok(()),
    }
}

/// Maximum window with selective acknowledgements: they name segments up to this far ahead.
pub(crate) const MAX_SELECTIVE_WINDOW: u32 = 65_000;

pub(crate) fn check_selective_window(config: &SimConfig) -> Result<(), SimError> {
    let window = config.transport.max_window_packets.unwrap_or(0);
    let reason = "must be at most 65000 packets, the reach of selective acknowledgements";
    reject_if(window > MAX_SELECTIVE_WINDOW, "transport.max_window", window, reason)
}

/// Ports name the rule of their queue by a byte.
fn check_rates(scenario: &Scenario<'_>) -> Result<(), SimError> {
    let Some(rate) = scenario.config.switch.reference_rate else { return Ok(()) };
    let rates: BTreeSet<u64> = scenario.topology.links().iter().map(|link| link.rate.as_bps()).collect();
    let reason = "works with at most 255 different rates of links";
    reject_if(rates.len() > 255, "switch.reference_rate", rate, reason)
}

fn check_queues(config: &SimConfig) -> Result<(), SimError> {
    let packet = u64::from(config.transport.packet_bytes());
    match config.switch.limit {
        QueueLimit::Packets(0) => return Err(wrong("switch.queue", "0 packets", "must be at least one packet")),
        QueueLimit::Bytes(bytes) if bytes < packet => {
            let reason = format!("must be at least one full packet of {packet} bytes");
            return Err(wrong("switch.queue", format!("{bytes} bytes"), &reason));
        }
        _ => {}
    }
    let reference = config.switch.reference_rate;
    reject_if(reference.is_some_and(|rate| rate.as_bps() == 0), "switch.reference_rate", 0, "must be above 0")?;
    if let Marking::Ramp { min_bytes, max_bytes, max_probability } = config.switch.marking
        && !(min_bytes < max_bytes && (0.0..=1.0).contains(&max_probability))
    {
        let value = format!("{min_bytes}..{max_bytes} B up to {max_probability}");
        return Err(wrong("switch.ecn", value, "min < max must hold, with a probability from 0 to 1"));
    }
    if let Some(rules) = config.switch.lossless
        && !((1..=8).contains(&rules.priorities) && rules.resume_below_bytes <= rules.pause_above_bytes)
    {
        let value =
            format!("{} classes, {} to {} B", rules.priorities, rules.resume_below_bytes, rules.pause_above_bytes);
        return Err(wrong("switch.pfc", value, "must have 1 to 8 classes, with resume at most pause"));
    }
    let sizes = config.host.priority_sizes.len();
    reject_if(sizes > 7, "host.priority_sizes", sizes, "must be at most 7 bounds, for 8 classes")?;
    let is_other = config.switch.trimming && !matches!(config.transport.kind, TransportKind::Spray(_));
    let reason = "only the spray transport understands trimmed packets: set transport.kind = \"spray\"";
    reject_if(is_other, "switch.trimming", true, reason)?;
    let is_lossless = config.switch.trimming && config.switch.lossless.is_some();
    let reason = "queues are never full with switch.pfc: set only one of them";
    reject_if(is_lossless, "switch.trimming", true, reason)?;
    let has_class = config.switch.control_class;
    let is_lossless = has_class == Some(true) && config.switch.lossless.is_some();
    let reason = "the classes of switch.pfc are those of flows: set only one of them";
    reject_if(is_lossless, "switch.control_class", true, reason)?;
    let is_missing = config.switch.trimming && has_class == Some(false);
    reject_if(is_missing, "switch.control_class", false, "trimmed headers need the control class")?;
    reject_if(config.host.queue_packets == 0, "host.queue_packets", 0, "must be at least one packet")
}

fn check_failures(scenario: &Scenario<'_>) -> Result<(), SimError> {
    for failure in &scenario.config.failures {
        if !failure.kind.is_valid(scenario.topology) {
            let reason = "its link or switch does not exist, or its fraction is outside 0..1";
            return Err(wrong("failure", format!("{:?}", failure.kind), reason));
        }
        if failure.until.is_some_and(|until| until <= failure.at) {
            return Err(wrong("failure.until", failure.until.unwrap_or_default(), "must be later than the beginning"));
        }
    }
    Ok(())
}
