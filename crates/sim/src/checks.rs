//! What cannot be simulated, and why not.

use balance::{Build, Connection};
use net::{LinkIx, NodeKind, Routes, Time};
use traffic::Start;

use crate::SimError;
use crate::scenario::{
    FailureKind, Marking, QueueLimit, Rdma, RdmaRecovery, Scenario, SimConfig, Spray, TransportKind, UdpRate,
};
use crate::services::ServicesConfig;
use crate::setup;
/// Refuses what cannot be simulated.
pub(crate) fn check(scenario: &Scenario<'_>) -> Result<(), SimError> {
    check_transport(scenario.config)?;
    check_queues(scenario.config)?;
    check_failures(scenario)?;
    check_connections(scenario)?;
    if scenario.topology.nodes().len() > usize::from(u16::MAX) {
        let classes = Routes::intact(scenario.topology).class_count();
        if classes >= usize::from(u16::MAX) {
            let reason = "it has more first switches (or multi-homed hosts) than packets can name: 65534 at most";
            return Err(wrong("topology", format!("{classes} destination classes"), reason));
        }
    }
    let hosts = scenario.topology.hosts().len() as u32;
    let flows = &scenario.flows.flows;
    let most = u64::from(u32::MAX - 1) * u64::from(scenario.config.transport.mss_bytes);
    for (ix, flow) in flows.iter().enumerate() {
        let fail = |reason: String| Err(SimError::Flow { flow: ix, reason });
        if flow.src.0 >= hosts || flow.dst.0 >= hosts {
            let worst = flow.src.0.max(flow.dst.0);
            return fail(format!("host {worst} does not exist; the topology has hosts 0 to {}", hosts - 1));
        }
        if flow.src == flow.dst {
            return fail(format!("host {} sends to itself", flow.src.0));
        }
        if flow.size_bytes == 0 || flow.size_bytes > most {
            return fail(format!("size {} B is not between 1 and {most} B", flow.size_bytes));
        }
        if let Start::After { flow: awaited, .. } = flow.start
            && awaited as usize >= flows.len()
        {
            return fail(format!("waits for flow {awaited}, but there are only {}", flows.len()));
        }
    }
    Ok(())
}

/// Refuses balancers of servers, central ones without a controller, others with one, and what no controller here knows.
pub(crate) fn check_world(scenario: &Scenario<'_>, has_controller: bool) -> Result<(), SimError> {
    let (topology, entry) = (scenario.topology, scenario.balancer.entry);
    let services = scenario.config.services.as_ref();
    if entry.is_server() && services.is_none() {
        let reason = "it picks servers for requests, and the scenario has none, only flows between hosts";
        return Err(wrong("balancers", entry.name, reason));
    }
    if let Some(services) = services {
        if !entry.is_server() {
            let reason = "it picks no servers, and flows are requests to virtual services";
            return Err(wrong("balancers", entry.name, reason));
        }
        check_services(scenario, services)?;
    }
    match (matches!(entry.build, Build::Central(_) | Build::Server(_)), has_controller) {
        (true, false) => {
            let reason = "it needs a controller: use `run_controlled`";
            return Err(wrong("balancers", entry.name, reason));
        }
        (false, true) => {
            let reason = "it needs no controller: use `run`, or take a central balancer";
            return Err(wrong("balancers", entry.name, reason));
        }
        (false, false) => return Ok(()),
        (true, true) => {}
    }
    let is_single = |host: &&net::NodeIx| topology.out_links(**host).len() == 1 && !topology.node(**host).forwards;
    if let Some(host) = topology.hosts().iter().find(|host| !is_single(host)) {
        let reason = format!(
            "host `{}` has several links or forwards, and a controller does not reach into hosts; take a topology whose \
             hosts have one link each",
            topology.node(*host).name
        );
        return Err(wrong("topology", topology.name(), &reason));
    }
    let control = &scenario.config.control;
    if control.bandwidth.as_bps() == 0 {
        return Err(wrong("control.bandwidth", control.bandwidth, "it is above 0"));
    }
    if control.max_entries == 0 {
        return Err(wrong("control.max_entries", 0, "a table holds at least one entry"));
    }
    if control.packets_per_s == Some(0) {
        return Err(wrong("control.packets_per_s", 0, "it is at least 1"));
    }
    if control.packet_in_per_s == Some(0) {
        return Err(wrong("control.packet_in_per_s", 0, "it is at least 1"));
    }
    Ok(())
}

/// Services, servers and classes that cannot be, and requests of no class.
fn check_services(scenario: &Scenario<'_>, config: &ServicesConfig) -> Result<(), SimError> {
    let transport = &scenario.config.transport;
    if !matches!(transport.kind, TransportKind::NewReno | TransportKind::Dctcp { .. } | TransportKind::Cubic) {
        let reason = "requests go over connections of TCP: take newreno, dctcp or cubic";
        return Err(wrong("transport.kind", transport.kind.name(), reason));
    }
    let hosts = scenario.topology.hosts().len();
    let mut servers: Vec<net::HostIx> = config.servers.iter().map(|server| server.host).collect();
    servers.sort_unstable();
    if let Some(pair) = servers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(wrong("services", pair[0].0, "this host is there twice among the servers"));
    }
    if let Some(server) = config.servers.iter().find(|server| server.host.ix() >= hosts || server.cores == 0) {
        let reason = "a server is a host that exists, with one core at least";
        return Err(wrong("services", format!("{server:?}"), reason));
    }
    let is_member = |host: &net::HostIx| servers.binary_search(host).is_ok();
    if let Some(service) = config.services.iter().find(|service| !service.members.iter().all(is_member)) {
        return Err(wrong("services", &service.name, "one of its members is not among the servers"));
    }
    let most = u64::from(u32::MAX - 1) * u64::from(transport.mss_bytes);
    for class in &config.classes {
        let sizes = [class.request_bytes, class.page_bytes];
        let is_known = (class.service as usize) < config.services.len();
        if !is_known || class.pages == 0 || sizes.iter().any(|size| *size == 0 || *size > most) {
            let reason = "a class names a service, and has a page and a byte at least each way";
            return Err(wrong("requests", &class.name, reason));
        }
    }
    if config.agents.is_some_and(|agents| agents.pause == Time::ZERO && agents.sampling == Time::ZERO) {
        return Err(wrong("agents.sampling", Time::ZERO, "agents need some time between two reports"));
    }
    let is_classless = |flow: &traffic::Flow| flow.group == 0 || flow.group as usize > config.classes.len();
    match scenario.flows.flows.iter().position(is_classless) {
        Some(flow) => {
            Err(SimError::Flow { flow, reason: "its group is not the number of a class of requests".to_owned() })
        }
        None => Ok(()),
    }
}

fn wrong(key: &'static str, value: impl ToString, reason: &str) -> SimError {
    SimError::Config { key, value: value.to_string(), reason: reason.to_owned() }
}

fn check_transport(config: &SimConfig) -> Result<(), SimError> {
    let t = &config.transport;
    if t.mss_bytes == 0 {
        return Err(wrong("transport.mss", t.mss_bytes, "a packet must carry at least one byte"));
    }
    if t.packet_bytes() > 65_535 {
        return Err(wrong("transport.mss", t.mss_bytes, "a packet with its headers must fit in 65535 bytes"));
    }
    if t.ack_bytes == 0 || t.ack_bytes > 65_535 {
        return Err(wrong("transport.ack_bytes", t.ack_bytes, "an ACK has 1 to 65535 bytes"));
    }
    if t.initial_window_packets == 0 {
        return Err(wrong("transport.initial_window", 0, "the window must let at least one packet out"));
    }
    if t.max_window_packets == Some(0) || t.max_window_packets.is_some_and(|w| w > 1 << 24) {
        return Err(wrong("transport.max_window", t.max_window_packets.unwrap_or(0), "it is 1 to 16777216 packets"));
    }
    if t.dup_ack_threshold == 0 {
        return Err(wrong("transport.dup_ack_threshold", 0, "it is at least 1"));
    }
    if t.min_rto == Time::ZERO {
        return Err(wrong("transport.min_rto", t.min_rto, "it is above 0"));
    }
    if t.sack {
        check_selective_window(config)?;
    }
    match t.kind {
        TransportKind::Rdma(rdma) => check_rdma(&rdma, config),
        TransportKind::Spray(spray) => check_spray(&spray, config),
        TransportKind::Dctcp { gain } if !(gain > 0.0 && gain <= 1.0) => {
            Err(wrong("transport.gain", gain, "it lies above 0 and is at most 1"))
        }
        TransportKind::Udp(UdpRate::Constant(rate)) if rate.as_bps() == 0 => {
            Err(wrong("transport.rate", rate, "it is above 0"))
        }
        TransportKind::Udp(UdpRate::UniformPackets { min_per_s, max_per_s })
            if !(min_per_s > 0.0 && max_per_s >= min_per_s && max_per_s < 1e12) =>
        {
            Err(wrong("transport.rate", format!("{min_per_s}..{max_per_s} packets/s"), "0 < min <= max is needed"))
        }
        _ => Ok(()),
    }
}

/// Connections that race need a transport that acknowledges; those that share data need one of the two whose windows and
/// recovery they know.
fn check_connections(scenario: &Scenario<'_>) -> Result<(), SimError> {
    let transport = &scenario.config.transport;
    let is_udp = matches!(transport.kind, TransportKind::Udp(_));
    let is_plain = matches!(transport.kind, TransportKind::NewReno | TransportKind::Dctcp { .. }) && !transport.sack;
    if is_plain {
        return Ok(());
    }
    // Whether a flow becomes several connections does not depend on times.
    let scale = setup::scale(scenario, 0);
    let name = scenario.balancer.entry.name;
    match (scenario.balancer.entry.needs)(&scale, &scenario.balancer.params).connection {
        Connection::Subflows(_) if !is_udp => {
            let reason = format!(
                "balancer `{name}` couples the windows of subflows without SACK; take newreno or dctcp with sack = false, or \
                 a balancer with one connection per flow"
            );
            let with = if transport.sack { " with sack" } else { "" };
            Err(wrong("transport", format!("{}{with}", transport.kind.name()), &reason))
        }
        Connection::Subflows(_) | Connection::Copies(_) if is_udp => {
            let reason = format!(
                "balancer `{name}` makes several connections of a flow, and UDP has none; take newreno or dctcp, or a balancer \
                 with one connection per flow"
            );
            Err(wrong("transport", "udp", &reason))
        }
        _ => Ok(()),
    }
}

/// Windows of transports that acknowledge selectively: acknowledgements name segments up to this far ahead.
pub(crate) const MOST_SELECTIVE: u32 = 65_000;

fn check_spray(spray: &Spray, config: &SimConfig) -> Result<(), SimError> {
    if spray.target_delay == Some(Time::ZERO) {
        return Err(wrong("transport.target_delay", Time::ZERO, "it is above 0"));
    }
    if spray.packet_timeout == Some(Time::ZERO) {
        return Err(wrong("transport.packet_timeout", Time::ZERO, "it is above 0"));
    }
    if spray.reorder_packets == Some(0) {
        return Err(wrong("transport.reorder_packets", 0, "it is at least 1"));
    }
    check_selective_window(config)
}

fn check_selective_window(config: &SimConfig) -> Result<(), SimError> {
    match config.transport.max_window_packets {
        Some(window) if window > MOST_SELECTIVE => {
            let reason = "selective acknowledgements reach 65000 packets";
            Err(wrong("transport.max_window", window, reason))
        }
        _ => Ok(()),
    }
}

fn check_rdma(rdma: &Rdma, config: &SimConfig) -> Result<(), SimError> {
    let d = &rdma.dcqcn;
    if !(d.gain > 0.0 && d.gain <= 1.0) {
        return Err(wrong("transport.gain", d.gain, "it lies above 0 and is at most 1"));
    }
    let times = [
        ("transport.notify_interval", Some(d.notify_interval)),
        ("transport.alpha_timer", Some(d.alpha_timer)),
        ("transport.rate_timer", Some(d.rate_timer)),
        ("transport.packet_timeout", rdma.packet_timeout),
    ];
    for (key, time) in times {
        if time == Some(Time::ZERO) {
            return Err(wrong(key, Time::ZERO, "it is above 0"));
        }
    }
    if d.byte_counter == 0 {
        return Err(wrong("transport.byte_counter", 0, "it is above 0"));
    }
    match rdma.recovery {
        RdmaRecovery::Selective => check_selective_window(config),
        RdmaRecovery::GoBackN => Ok(()),
    }
}

fn check_queues(config: &SimConfig) -> Result<(), SimError> {
    let packet = u64::from(config.transport.packet_bytes());
    match config.switch.limit {
        QueueLimit::Packets(0) => return Err(wrong("switch.queue", "0 packets", "a queue holds at least one packet")),
        QueueLimit::Bytes(bytes) if bytes < packet => {
            let reason = format!("a queue must hold at least one full packet of {packet} bytes");
            return Err(wrong("switch.queue", format!("{bytes} bytes"), &reason));
        }
        _ => {}
    }
    if let Marking::Ramp { min_bytes, max_bytes, max_probability } = config.switch.marking
        && !(min_bytes < max_bytes && (0.0..=1.0).contains(&max_probability))
    {
        let value = format!("{min_bytes}..{max_bytes} B up to {max_probability}");
        return Err(wrong("switch.ecn", value, "min < max and a probability from 0 to 1 are needed"));
    }
    if let Some(rules) = config.switch.lossless
        && !((1..=8).contains(&rules.priorities) && rules.resume_below_bytes <= rules.pause_above_bytes)
    {
        let value =
            format!("{} classes, {} to {} B", rules.priorities, rules.resume_below_bytes, rules.pause_above_bytes);
        return Err(wrong("switch.pfc", value, "1 to 8 classes, and resume no higher than pause"));
    }
    if config.host.priority_sizes.len() > 7 {
        return Err(wrong(
            "host.priority_sizes",
            config.host.priority_sizes.len(),
            "there are 8 classes: 7 bounds at most",
        ));
    }
    if config.switch.trimming && !matches!(config.transport.kind, TransportKind::Spray(_)) {
        let reason = "only the spray transport understands trimmed packets: set transport.kind = \"spray\"";
        return Err(wrong("switch.trimming", true, reason));
    }
    if config.switch.trimming && config.switch.lossless.is_some() {
        return Err(wrong("switch.trimming", true, "with switch.pfc no queue is ever full: choose one of them"));
    }
    if config.host.queue_packets == 0 {
        return Err(wrong("host.queue_packets", 0, "an interface holds at least one packet"));
    }
    Ok(())
}

fn check_failures(scenario: &Scenario<'_>) -> Result<(), SimError> {
    let (links, nodes) = (scenario.topology.links().len(), scenario.topology.nodes().len());
    for failure in &scenario.config.failures {
        let is_link = |link: LinkIx| link.ix() < links;
        let ok = match failure.kind {
            FailureKind::LinkDown(link) | FailureKind::OneWayDown(link) => is_link(link),
            FailureKind::LinkRate { link, fraction } => is_link(link) && fraction > 0.0 && fraction <= 1.0,
            FailureKind::RandomDrop { link, probability } => is_link(link) && (0.0..=1.0).contains(&probability),
            FailureKind::SwitchDrop { node, probability } => node.ix() < nodes && (0.0..=1.0).contains(&probability),
            FailureKind::Blackhole { node, fraction, .. } => node.ix() < nodes && (0.0..=1.0).contains(&fraction),
            FailureKind::SwitchDown(node) | FailureKind::ChannelStall(node) | FailureKind::ChannelDown(node) => {
                node.ix() < nodes && scenario.topology.node(node).kind == NodeKind::Switch
            }
            FailureKind::ControllerDown => true,
        };
        if !ok {
            let reason = "it names a link or switch that does not exist, or a fraction outside 0..1";
            return Err(wrong("failure", format!("{:?}", failure.kind), reason));
        }
        if failure.until.is_some_and(|until| until <= failure.at) {
            return Err(wrong("failure.until", failure.until.unwrap_or_default(), "it ends before it begins"));
        }
    }
    Ok(())
}
