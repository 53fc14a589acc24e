//! Checks of the machine and of experiments that run on emulated networks.

use std::collections::BTreeSet;

use balance::central::{CentralEnv, FlowSource};
use balance::{Build, Spec};
use experiment::Experiment;
use experiment::input::{QueueScheduling, RuleSource, TrafficSource, Variant};
use experiment::runner::{FailureKind, TransportKind};
use net::NodeKind;

use crate::error::{Result, TestbedError, not_here};
use crate::network::driver::Machine;
use crate::network::plan::IGNORED_DELAY_US;
use crate::services::serving;
use crate::traffic::datagrams::PAYLOAD_MIN;

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
pub fn check_machine(machine: &Machine, variants: &[Variant]) -> Result<()> {
    if !machine.is_root {
        return Err(TestbedError::NotRoot);
    }
    let mut missing: Vec<(&str, &str)> = Vec::new();
    if machine.mininet.is_none() {
        missing.push(("Mininet's Python module", "mininet"));
    }
    let of_variant = |variant: &Variant| -> Vec<(&str, &str)> {
        match (&variant.config.services, variant.testbed.source) {
            (Some(_), _) => serving::check::tools(variant),
            (None, TrafficSource::Sockets) => Vec::new(),
            (None, TrafficSource::Ditg) => vec![("ITGSend", "d-itg"), ("ITGRecv", "d-itg"), ("ITGDec", "d-itg")],
            (None, TrafficSource::Iperf3) => vec![("iperf3", "iperf3")],
        }
    };
    let needed = TOOLS.iter().copied().chain(variants.iter().flat_map(of_variant));
    for (tool, package) in needed.filter(|(tool, _)| !machine.tools.iter().any(|found| found == tool)) {
        if !missing.contains(&(tool, package)) {
            missing.push((tool, package));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (tools, packages): (Vec<&str>, BTreeSet<&str>) = missing.into_iter().unzip();
    let packages: Vec<&str> = packages.into_iter().collect();
    Err(TestbedError::Missing { missing: tools.join(", "), packages: packages.join(" ") })
}

/// Returns the balancer that the controller runs for `spec`.
pub fn openflow_equivalent(spec: &Spec) -> Result<String> {
    if matches!(spec.entry.build, Build::Central(_)) {
        return Ok(spec.label());
    }
    if let Some((_, central)) = OPENFLOW_EQUIVALENTS.iter().find(|(name, _)| *name == spec.entry.name) {
        return Ok((*central).to_owned());
    }
    let name = spec.entry.name;
    let reason = format!(
        "`{name}` cannot run on OpenFlow switches; on real switches run central balancers and ecmp, wcmp, vlb, such as --balancers sdn-ecmp,hedera"
    );
    Err(not_here("balancers", reason))
}

pub fn has_agents(spec: &Spec) -> bool {
    match spec.entry.build {
        Build::Central(build) => build(&CentralEnv { seed: 0 }, &spec.params).needs().flows == FlowSource::Agents,
        _ => false,
    }
}

/// Returns an error if an experiment cannot run on an emulated network, before the first run.
pub fn check_experiment(experiment: &Experiment, machine: &Machine) -> Result<()> {
    for spec in experiment.balancers.iter().filter(|spec| !spec.entry.is_server()) {
        openflow_equivalent(spec)?;
    }
    for variant in &experiment.variants {
        check_network(variant, machine)?;
        serving::check::check(variant)?;
        check_traffic(variant)?;
        check_probes(variant)?;
        let reason = "only the simulator has switches without OpenFlow";
        refuse_if(!variant.config.control.legacy.is_empty(), "control.legacy", reason)?;
        let reason = "on the testbed put [[timetable]] into the configuration of `anabranch serve`";
        refuse_if(!variant.config.control.schedule.is_empty(), "timetable", reason)?;
        let reason = "all queues of the testbed are FIFO and have one size";
        refuse_if(variant.config.switch.control_class == Some(true), "switch.control_class", reason)?;
        refuse_if(variant.config.switch.reference_rate.is_some(), "switch.reference_rate", reason)?;
        check_agents(variant, &experiment.balancers)?;
        if variant.testbed.rules == RuleSource::Static {
            check_static(experiment)?;
        }
    }
    Ok(())
}

fn check_probes(variant: &Variant) -> Result<()> {
    let probes = &variant.config.probes;
    let reason = "only the simulator records queues of single links";
    refuse_if(!probes.links.is_empty(), "probes.links", reason)?;
    let reason = "only the simulator captures packets; on the testbed use tcpdump at an interface";
    refuse_if(!probes.capture.links.is_empty(), "probes.capture", reason)
}

fn check_agents(variant: &Variant, balancers: &[Spec]) -> Result<()> {
    match balancers.iter().find(|spec| has_agents(spec)) {
        Some(spec) if variant.testbed.source == TrafficSource::Ditg => {
            let reason = format!(
                "`{}` needs flow reports of host agents, which cannot read the progress of D-ITG; use sockets or iperf3",
                spec.entry.name
            );
            Err(not_here("testbed.source", reason))
        }
        _ => Ok(()),
    }
}

fn check_static(experiment: &Experiment) -> Result<()> {
    let is_first = |spec: &Spec| spec.entry.name == "sdn-spt" && spec.params.text("tie") == "first";
    let Some(spec) = experiment.balancers.iter().find(|spec| !is_first(spec)) else { return Ok(()) };
    let label = spec.label();
    let reason = format!("static rules implement only `sdn-spt:tie=first`, one shortest path, and not `{label}`");
    Err(not_here("testbed.rules", reason))
}

pub(crate) fn refuse_if(is_refused: bool, key: &str, reason: impl Into<String>) -> Result<()> {
    if is_refused { Err(not_here(key, reason)) } else { Ok(()) }
}

fn check_network(variant: &Variant, machine: &Machine) -> Result<()> {
    let (topology, testbed) = (&variant.topology, &variant.testbed);
    let hosts = topology.hosts().len();
    let reason = format!("{hosts} hosts exceed the 4000 namespaces of one machine; use a smaller network");
    refuse_if(hosts > 4000, "topology.spec", reason)?;
    let is_plain = |node: &net::NodeIx| topology.out_links(*node).len() == 1 && !topology.node(*node).forwards;
    if let Some(host) = topology.hosts().iter().find(|host| !is_plain(host)) {
        let name = &topology.node(*host).name;
        let reason = format!("host `{name}` has several links or forwards; emulated hosts have one link each");
        return Err(not_here("topology.spec", reason));
    }
    let is_host = |node| topology.node(node).kind == NodeKind::Host;
    let is_direct = topology.links().iter().any(|link| is_host(link.from) && is_host(link.to));
    refuse_if(is_direct, "topology.spec", "two hosts are connected without a switch between them")?;
    let reason = "this kernel cannot limit rates (no htb); set it to false";
    refuse_if(testbed.is_shaped && !machine.has_htb, "testbed.shape", reason)?;
    let reason = "this kernel cannot distinguish discovery frames from data (no cls_u32), so full queues would drop them; set it to false";
    refuse_if(testbed.is_shaped && !machine.has_u32, "testbed.shape", reason)?;
    let reason = "this kernel cannot distinguish senders or flows (no cls_bpf); use \"fifo\"";
    refuse_if(
        testbed.queue_scheduling != QueueScheduling::Fifo && !machine.has_bpf,
        "testbed.queue_scheduling",
        reason,
    )?;
    let longest = topology.links().iter().map(|link| link.delay).max().unwrap_or_default();
    let (needs_netem, kernel) = (longest.as_us_f64() > IGNORED_DELAY_US as f64, &machine.kernel);
    let reason = format!(
        "a link has a delay of {longest}, and kernel {kernel} cannot delay packets (no netem); use a kernel with sch_netem, or delays up to {IGNORED_DELAY_US}us, which are ignored because a hop through a software switch takes longer"
    );
    refuse_if(needs_netem && !machine.has_netem, "topology.spec", reason)?;
    for failure in &variant.config.failures {
        let reason = match failure.kind {
            FailureKind::LinkDown(_) => continue,
            FailureKind::ControllerDown if testbed.rules == RuleSource::Controller => continue,
            FailureKind::ControllerDown => "there is no controller to kill with testbed.rules = \"static\"",
            _ => "emulated networks support only link-down and controller-down",
        };
        return Err(not_here("failure.kind", reason));
    }
    Ok(())
}

fn check_traffic(variant: &Variant) -> Result<()> {
    let (kind, source, mss) =
        (variant.config.transport.kind, variant.testbed.source, variant.config.transport.mss_bytes);
    let (is_udp, name) = (matches!(kind, TransportKind::Udp(_)), kind.name());
    let reason = format!("emulated hosts use the kernel's TCP and UDP, not `{name}`");
    refuse_if(!is_udp && variant.config.transport.properties().linux.is_none(), "transport.kind", reason)?;
    let reason = format!("`{}` cannot send `{name}`: use sockets, d-itg for UDP or iperf3 for TCP", source.name());
    let program = if is_udp { TrafficSource::Iperf3 } else { TrafficSource::Ditg };
    let is_mismatch = variant.config.services.is_none() && source == program;
    refuse_if(is_mismatch, "testbed.source", reason)?;
    let reason = "is missing: a run on a real network needs an end, such as until = \"30s\"";
    refuse_if(variant.config.stop.until.is_none(), "stop.until", reason)?;
    let reason = format!("{mss} bytes of UDP payload exceed an Ethernet frame; use at most 1472B");
    refuse_if(is_udp && mss > 1472, "transport.mss", reason)?;
    let reason = format!("{mss} bytes are too few for the sequence and sending time of a packet; use at least 24B");
    refuse_if(is_udp && (mss as usize) < PAYLOAD_MIN, "transport.mss", reason)
}

/// Returns an error if the kernel does not have a congestion control.
pub(crate) fn check_congestion_control(congestion: &str) -> Result<()> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if known.split_whitespace().any(|known| known == congestion) {
        return Ok(());
    }
    let known = known.trim();
    let reason = format!("this kernel's TCP supports {known} but not {congestion}; set transport.kind to one of them");
    Err(not_here("transport.kind", reason))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use experiment::Override;
    use serde_json::json;

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
        let tools: Vec<&str> = TOOLS.iter().map(|(tool, _)| *tool).chain(["iperf3"]).collect();
        let machine = json!({
            "is_root": true, "mininet": "2.3.0", "openvswitch": "3.1.0", "kernel": "6.1", "tools": tools,
            "has_kernel_datapath": false, "has_netem": false, "has_htb": true, "has_u32": true, "has_bpf": false,
        });
        serde_json::from_value(machine).expect("as from the driver")
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
            ("probes.links", "[\"h0 -> pod0/edge0\"]", "probes.links:"),
            ("probes.capture", "[\"h0 -> pod0/edge0\"]", "probes.capture:"),
            ("testbed.rules", "static", "testbed.rules:"),
            ("testbed.queue_scheduling", "per-sender", "testbed.queue_scheduling:"),
            ("testbed.queue_scheduling", "per-flow", "testbed.queue_scheduling:"),
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
        let of_tcp = |source: &str| error_with(&[("transport", "{ kind = \"cubic\" }"), ("testbed.source", source)]);
        assert_eq!((of_tcp("sockets"), of_tcp("iperf3")), (String::new(), String::new()));
        assert!(of_tcp("d-itg").starts_with("testbed.source: `d-itg` cannot send `cubic`"), "{}", of_tcp("d-itg"));
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
