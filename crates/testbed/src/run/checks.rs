//! Checks of the machine and of experiments that run on emulated networks.

use balance::central::{CentralEnv, FlowSource};
use balance::{Build, Spec};
use experiment::Experiment;
use experiment::input::{QueueScheduling, RuleSource, TrafficSource, Variant};
use experiment::runner::{FailureKind, TransportKind};
use net::NodeKind;

use crate::error::{TestbedError, not_here};
use crate::network::driver::Machine;
use crate::network::plan::IGNORED_DELAY_US;
use crate::services::serving;

/// Programs that every testbed needs, with their Debian packages.
const TOOLS: [(&str, &str); 6] = [
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-common"),
    ("ovsdb-server", "openvswitch-switch"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
    ("mnexec", "mininet"),
];

/// Data-plane balancers that OpenFlow groups can express, with the central balancers that do so.
const OPENFLOW_EQUIVALENTS: [(&str, &str); 3] = [("ecmp", "sdn-ecmp"), ("wcmp", "sdn-wcmp"), ("vlb", "sdn-vlb")];

/// Returns an error if the machine cannot run a testbed.
///
/// # Errors
/// The user is not root, or a program is not installed.
pub fn check_machine(machine: &Machine, variants: &[Variant]) -> Result<(), TestbedError> {
    if !machine.is_root {
        return Err(TestbedError::NotRoot);
    }
    let mut missing: Vec<(&str, &str)> = Vec::new();
    if machine.mininet.is_none() {
        missing.push(("Mininet's Python module", "mininet"));
    }
    let of_variant = |variant: &Variant| -> Vec<(&str, &str)> {
        match (&variant.config.services, source_of(variant)) {
            (Some(_), _) => serving::check::tools(variant),
            (None, TrafficSource::Sockets) => Vec::new(),
            (None, TrafficSource::Ditg) => vec![("ITGSend", "d-itg"), ("ITGRecv", "d-itg"), ("ITGDec", "d-itg")],
            (None, TrafficSource::Iperf3) => vec![("iperf3", "iperf3")],
        }
    };
    let has = |tool: &str| machine.tools.iter().any(|found| found == tool);
    let needed = TOOLS.iter().copied().chain(variants.iter().flat_map(of_variant));
    for tool in needed.filter(|(tool, _)| !has(tool)) {
        if !missing.contains(&tool) {
            missing.push(tool);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    let missing = missing.iter().map(|(tool, _)| *tool).collect::<Vec<_>>().join(", ");
    Err(TestbedError::Missing { missing, packages: packages.join(" ") })
}

/// Returns the traffic program of a variant.
pub fn source_of(variant: &Variant) -> TrafficSource {
    let is_udp = matches!(variant.config.transport.kind, TransportKind::Udp(_));
    variant.testbed.source.unwrap_or(if is_udp { TrafficSource::Sockets } else { TrafficSource::Iperf3 })
}

/// Returns the balancer that the controller runs for `spec`.
///
/// # Errors
/// OpenFlow switches cannot express the balancer.
pub fn openflow_equivalent(spec: &Spec) -> Result<String, TestbedError> {
    if matches!(spec.entry.build, Build::Central(_)) {
        return Ok(spec.label());
    }
    if let Some((_, central)) = OPENFLOW_EQUIVALENTS.iter().find(|(name, _)| *name == spec.entry.name) {
        return Ok((*central).to_owned());
    }
    let reason = format!(
        "`{}` cannot run on OpenFlow switches; on real switches run central balancers and ecmp, wcmp, vlb, such as --balancers sdn-ecmp,hedera",
        spec.entry.name
    );
    Err(not_here("balancers", reason))
}

/// Returns whether a balancer receives flow reports from host agents.
pub fn has_agents(spec: &Spec) -> bool {
    match spec.entry.build {
        Build::Central(build) => build(&CentralEnv { seed: 0 }, &spec.params).needs().flows == FlowSource::Agents,
        _ => false,
    }
}

/// Returns an error if an experiment cannot run on an emulated network, before the first run.
///
/// # Errors
/// Names the first unsupported key.
pub fn check_experiment(experiment: &Experiment, machine: &Machine) -> Result<(), TestbedError> {
    for spec in experiment.balancers.iter().filter(|spec| !spec.entry.is_server()) {
        openflow_equivalent(spec)?;
    }
    for variant in &experiment.variants {
        check_network(variant, machine)?;
        serving::check::check(variant)?;
        check_traffic(variant)?;
        check_agents(variant, &experiment.balancers)?;
        if variant.testbed.rules == RuleSource::Static {
            check_static(experiment)?;
        }
    }
    Ok(())
}

fn check_agents(variant: &Variant, balancers: &[Spec]) -> Result<(), TestbedError> {
    match balancers.iter().find(|spec| has_agents(spec)) {
        Some(spec) if source_of(variant) == TrafficSource::Ditg => {
            let name = spec.entry.name;
            let reason = format!(
                "`{name}` needs flow reports of host agents, which cannot read the progress of D-ITG; use sockets or iperf3"
            );
            Err(not_here("testbed.source", reason))
        }
        _ => Ok(()),
    }
}

fn check_static(experiment: &Experiment) -> Result<(), TestbedError> {
    let is_first = |spec: &Spec| spec.entry.name == "sdn-spt" && spec.params.text("tie") == "first";
    match experiment.balancers.iter().find(|spec| !is_first(spec)) {
        None => Ok(()),
        Some(spec) => {
            let reason = format!(
                "static rules implement only `sdn-spt:tie=first`, one shortest path, and not `{}`",
                spec.label()
            );
            Err(not_here("testbed.rules", reason))
        }
    }
}

fn check_network(variant: &Variant, machine: &Machine) -> Result<(), TestbedError> {
    let topology = &variant.topology;
    let hosts = topology.hosts().len();
    if hosts > 4000 {
        return Err(not_here(
            "topology.spec",
            format!("{hosts} hosts exceed the 4000 namespaces of one machine; use a smaller network"),
        ));
    }
    let is_plain = |node: &net::NodeIx| topology.out_links(*node).len() == 1 && !topology.node(*node).forwards;
    if let Some(host) = topology.hosts().iter().find(|host| !is_plain(host)) {
        let name = &topology.node(*host).name;
        let reason = format!("host `{name}` has several links or forwards; emulated hosts have one link each");
        return Err(not_here("topology.spec", reason));
    }
    let to_host = |link: &&net::Link| topology.node(link.from).kind == NodeKind::Host;
    if topology.links().iter().filter(to_host).any(|link| topology.node(link.to).kind == NodeKind::Host) {
        return Err(not_here("topology.spec", "two hosts are connected without a switch between them"));
    }
    if variant.testbed.is_shaped && !machine.has_htb {
        return Err(not_here("testbed.shape", "this kernel cannot limit rates (no htb); set it to false"));
    }
    if variant.testbed.is_shaped && !machine.has_u32 {
        let reason = "this kernel cannot distinguish discovery frames from data (no cls_u32), so full queues would drop them; set it to false";
        return Err(not_here("testbed.shape", reason));
    }
    if variant.testbed.turns != QueueScheduling::Arrival && !machine.has_bpf {
        return Err(not_here(
            "testbed.turns",
            "this kernel cannot distinguish senders or flows (no cls_bpf); use \"arrival\"",
        ));
    }
    let longest = topology.links().iter().map(|link| link.delay).max().unwrap_or_default();
    if longest.as_us_f64() > IGNORED_DELAY_US as f64 && !machine.has_netem {
        let reason = format!(
            "a link has a delay of {longest}, and kernel {} cannot delay packets (no netem); use a kernel with sch_netem, or delays up to {IGNORED_DELAY_US}us, which are ignored because a hop through a software switch takes longer",
            machine.kernel
        );
        return Err(not_here("topology.spec", reason));
    }
    for failure in &variant.config.failures {
        match failure.kind {
            FailureKind::LinkDown(_) => {}
            FailureKind::ControllerDown if variant.testbed.rules == RuleSource::Controller => {}
            FailureKind::ControllerDown => {
                return Err(not_here("failure.kind", "there is no controller to kill with testbed.rules = \"static\""));
            }
            _ => {
                let reason = "emulated networks support only link-down and controller-down";
                return Err(not_here("failure.kind", reason));
            }
        }
    }
    Ok(())
}

fn check_traffic(variant: &Variant) -> Result<(), TestbedError> {
    let kind = variant.config.transport.kind;
    let is_udp = matches!(kind, TransportKind::Udp(_));
    if !is_udp && !matches!(kind, TransportKind::Cubic | TransportKind::NewReno | TransportKind::Dctcp { .. }) {
        let reason = format!("emulated hosts use the kernel's TCP and UDP, not `{}`", kind.name());
        return Err(not_here("transport.kind", reason));
    }
    let source = source_of(variant);
    if variant.config.services.is_none() && is_udp == (source == TrafficSource::Iperf3) {
        let reason =
            format!("`{}` cannot send `{}`: use sockets or d-itg for UDP, iperf3 for TCP", source.name(), kind.name());
        return Err(not_here("testbed.source", reason));
    }
    if variant.config.stop.until.is_none() {
        return Err(not_here(
            "stop.until",
            "is missing: a run on a real network needs an end, such as until = \"30s\"",
        ));
    }
    let mss = variant.config.transport.mss_bytes;
    if is_udp && mss > 1472 {
        return Err(not_here(
            "transport.mss",
            format!("{mss} bytes of UDP payload exceed an Ethernet frame; use at most 1472B"),
        ));
    }
    if is_udp && (mss as usize) < crate::traffic::sockets::PAYLOAD_MIN {
        return Err(not_here(
            "transport.mss",
            format!("{mss} bytes are too few for the sequence and sending time of a packet; use at least 24B"),
        ));
    }
    Ok(())
}

/// Returns an error if the kernel does not have a congestion control.
pub(crate) fn check_congestion_control(congestion: &str) -> Result<(), TestbedError> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if known.split_whitespace().any(|known| known == congestion) {
        return Ok(());
    }
    let reason =
        format!("this kernel's TCP supports {} but not {congestion}; set transport.kind to one of them", known.trim());
    Err(not_here("transport.kind", reason))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use experiment::Override;

    use super::*;

    const FILE: &str = r#"
seeds = 1
balancers = ["sdn-ecmp"]
[topology]
spec = "fat-tree:k=4,host_delay=10us,fabric_delay=10us"
[traffic]
workload = "fixed:size=10KB"
arrivals = "all-at-once"
pattern = "stride"
[transport]
kind = "udp"
rate = "1Mbps"
[stop]
until = "1s"
"#;

    fn machine() -> Machine {
        let tools = TOOLS.iter().map(|(tool, _)| (*tool).to_owned()).chain(["iperf3".to_owned()]).collect();
        let (mininet, openvswitch) = (Some("2.3.0".to_owned()), Some("3.1.0".to_owned()));
        Machine {
            is_root: true,
            mininet,
            openvswitch,
            has_htb: true,
            has_u32: true,
            tools,
            kernel: "6.1".to_owned(),
            ..Machine::default()
        }
    }

    /// Returns the error of [`FILE`] with one key changed; empty if there is no error.
    fn error_of(key: &str, value: &str) -> String {
        // The loader itself rejects central balancers on some networks.
        error_with(&[("balancers", "[\"ecmp\"]"), (key, value)])
    }

    fn error_with(changes: &[(&str, &str)]) -> String {
        let overrides: Vec<_> = changes.iter().map(|(key, value)| Override::set(key, value)).collect();
        let experiment = Experiment::parse("f.toml", FILE, "f", Path::new("."), &overrides).expect("a right file");
        check_experiment(&experiment, &machine()).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn unsupported_experiments_are_rejected_with_key() {
        assert_eq!(error_of("seeds", "2"), "");
        assert_eq!(error_of("balancers", "[\"ecmp\", \"hedera\"]"), "");
        for (key, value, start) in [
            ("balancers", "[\"spray\"]", "balancers: `spray`"),
            ("topology.spec", "fat-tree:k=4,host_delay=1ms", "topology.spec: a link has a delay"),
            ("topology.spec", "bcube:n=2,k=1", "topology.spec: host"),
            ("transport", "{ kind = \"rdma\" }", "transport.kind:"),
            ("testbed.source", "iperf3", "testbed.source:"),
            ("testbed.rules", "static", "testbed.rules:"),
            ("testbed.turns", "senders", "testbed.turns:"),
            ("testbed.turns", "flows", "testbed.turns:"),
            ("transport.mss", "9000B", "transport.mss:"),
            ("transport.mss", "8B", "transport.mss:"),
            ("failure", "[\"switch-down:core0,at=1ms\"]", "failure.kind:"),
        ] {
            let error = error_of(key, value);
            assert!(error.starts_with(start), "{key} = {value}: {error}");
        }
    }

    #[test]
    fn agents_and_controller_faults_need_support() {
        let of = |balancer: &str, key: &str, value: &str| error_with(&[("balancers", balancer), (key, value)]);
        assert_eq!(of("[\"ofpt\"]", "testbed.source", "sockets"), "");
        let error = of("[\"ofpt\"]", "testbed.source", "d-itg");
        assert!(error.starts_with("testbed.source: `ofpt`"), "{error}");
        let down = ("failure", "[\"controller-down,at=1ms\"]");
        assert_eq!(of("[\"sdn-ecmp\"]", down.0, down.1), "");
        let error = error_with(&[("balancers", "[\"sdn-spt:tie=first\"]"), ("testbed.rules", "static"), down]);
        assert!(error.starts_with("failure.kind: there is no controller"), "{error}");
    }

    #[test]
    fn missing_programs_are_named_with_packages() {
        let of = |source: &str| {
            let source = Override::set("testbed.source", source);
            Experiment::parse("f.toml", FILE, "f", Path::new("."), &[source]).expect("a right file").variants
        };
        assert!(check_machine(&machine(), &of("sockets")).is_ok() && check_machine(&machine(), &of("iperf3")).is_ok());
        let error = check_machine(&machine(), &of("d-itg")).expect_err("D-ITG is missing").to_string();
        assert!(error.contains("ITGSend") && error.contains("apt-get install d-itg"), "{error}");
        let bare = Machine { is_root: true, ..Machine::default() };
        let error = check_machine(&bare, &[]).expect_err("all is missing").to_string();
        assert!(error.contains("mininet") && error.contains("openvswitch-switch"), "{error}");
        let user = Machine { is_root: false, ..machine() };
        assert!(matches!(check_machine(&user, &[]), Err(TestbedError::NotRoot)));
    }
}
