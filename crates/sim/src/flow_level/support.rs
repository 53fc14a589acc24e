//! Scenarios that rates of flows cannot represent, with the reason and a remedy.

use balance::{Build, Connection, FlowLevel, Receiving};

use crate::SimError;
use crate::failures::FailureKind;
use crate::scenario::{Scenario, TransportKind};
use crate::setup;

/// The reason why a scenario cannot be run by rates of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The balancer, the feature or the failure, and why packets matter to it.
    pub reason: String,
    /// An instruction: other settings that work.
    pub remedy: String,
}

impl Refusal {
    /// Creates a refusal; `other` is a further remedy than simulating packets, or empty.
    fn new(reason: String, other: &str) -> Result<(), Refusal> {
        let or = if other.is_empty() { "" } else { ", or " };
        Err(Refusal { reason, remedy: format!("set fidelity = \"packet\"{or}{other}") })
    }
}

impl From<Refusal> for SimError {
    fn from(Refusal { reason, remedy }: Refusal) -> SimError {
        SimError::Config { key: "fidelity", value: "flow".to_owned(), reason: format!("{reason}; {remedy}") }
    }
}

/// Rejects scenarios whose results depend on single packets. The flows are not examined.
pub fn check(scenario: &Scenario<'_>) -> Result<(), Refusal> {
    check_balancer(scenario)?;
    check_features(scenario)?;
    scenario.config.failures.iter().try_for_each(|failure| check_failure(scenario, &failure.kind))
}

fn check_balancer(scenario: &Scenario<'_>) -> Result<(), Refusal> {
    let (entry, label) = (scenario.balancer.entry, scenario.balancer.label());
    let (decides, senses) = (entry.granularity.describe(), entry.senses);
    let refuse = |reason: &str, other: &str| Refusal::new(format!("balancer `{label}` {reason}"), other);
    match entry.build {
        Build::Bound(_) => return Ok(()),
        Build::Central(_) => {
            return refuse(
                "decides in a controller, by counters and rules of switches",
                "use a data-plane balancer such as ecmp, wcmp or vlb",
            );
        }
        Build::Server(_) => return refuse("picks servers for requests, which need packets", ""),
        Build::Switch(_) | Build::Edge(_) | Build::Host(_) => {}
    }
    // Connections and order do not depend on times: any scale will do.
    let needs = (entry.needs)(&setup::scale(scenario, 0), &scenario.balancer.params);
    match entry.flow_level {
        _ if needs.connection != Connection::Single => {
            refuse("opens several connections for a flow, which compete packet by packet", "use ecmp")
        }
        FlowLevel::None => {
            let reason = format!("depends on single packets: it decides for {decides}, by {senses}");
            refuse(&reason, "use a balancer such as ecmp, wcmp or spray")
        }
        FlowLevel::Path if needs.receiving == Receiving::Resequenced => {
            refuse("decides for each packet with these parameters", "use its defaults")
        }
        FlowLevel::Path | FlowLevel::EvenSplit | FlowLevel::AdaptiveSplit => Ok(()),
    }
}

fn check_features(scenario: &Scenario<'_>) -> Result<(), Refusal> {
    let config = scenario.config;
    if config.services.is_some() {
        return Refusal::new("requests to services need packets".to_owned(), "");
    }
    if matches!(config.transport.kind, TransportKind::Udp(_)) {
        let reason = "transport.kind = \"udp\" does not adapt its rate, so losses of packets decide".to_owned();
        return Refusal::new(reason, "use another transport");
    }
    if config.switch.reference_rate.is_some() {
        return Refusal::new("switch.reference_rate gives queues different sizes".to_owned(), "leave it out");
    }
    if !config.host.priority_sizes.is_empty() {
        return Refusal::new("host.priority_sizes orders single packets".to_owned(), "leave it out");
    }
    Ok(())
}

fn check_failure(scenario: &Scenario<'_>, kind: &FailureKind) -> Result<(), Refusal> {
    let entry = scenario.balancer.entry;
    let label = scenario.balancer.label();
    let (name, is_rate) = match kind {
        FailureKind::LinkDown(_) | FailureKind::SwitchDown(_) | FailureKind::OneWayDown(_) => (None, false),
        FailureKind::LinkRate { .. } | FailureKind::OneWayRate { .. } => (None, true),
        FailureKind::RandomDrop { .. } | FailureKind::SwitchDrop { .. } => (Some("random-drop"), false),
        FailureKind::Blackhole { .. } => (Some("blackhole"), false),
        FailureKind::ChannelStall(_) => (Some("channel-stall"), false),
        FailureKind::ChannelDown(_) => (Some("channel-down"), false),
        FailureKind::ControllerDown => (Some("controller-down"), false),
    };
    if let Some(name) = name {
        let reason = format!("failure `{name}` concerns single packets or the control plane");
        return Refusal::new(reason, "use link-down, switch-down or link-rate");
    }
    match (entry.flow_level, entry.build) {
        (_, Build::Bound(_)) => Ok(()),
        (FlowLevel::AdaptiveSplit, _) => {
            let reason = format!("balancer `{label}` reacts to queues or marks where a failure makes paths differ");
            Refusal::new(reason, "leave out the failures")
        }
        (FlowLevel::EvenSplit, Build::Edge(_)) if is_rate => {
            let reason = format!("balancer `{label}` may weight paths by the rates that a failure changes");
            Refusal::new(reason, "use spray")
        }
        _ => Ok(()),
    }
}
