//! Prometheus metrics.

mod edge;
mod services;

use std::sync::atomic::Ordering;

use control::ControllerStats;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::channel::{Closing, kinds};
pub(crate) use edge::EdgeMetrics;
pub(crate) use services::{MemberLabels, ServiceMetrics};

/// All metrics. Their meanings are in [`Metrics::new`].
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) connections: Gauge,
    pub(crate) handshaking: Gauge,
    pub(crate) switches: Gauge,
    pub(crate) hosts: Gauge,
    pub(crate) links: Gauge,
    pub(crate) flows: Gauge,
    pub(crate) connections_pending: Gauge,
    pub(crate) runtime_tasks: Gauge,
    pub(crate) refused_connections: Counter,
    pub(crate) throttled: Counter,
    closed: Family<Label, Counter>,
    /// By message type number.
    pub(crate) received: [Counter; kinds::COUNT],
    pub(crate) sent: [Counter; kinds::COUNT],
    pub(crate) decode_errors: Counter,
    pub(crate) encode_errors: Counter,
    pub(crate) engine_rounds: Counter,
    pub(crate) decision_time: Histogram,
    /// In the order of [`CONTROL`].
    control: [Counter; CONTROL.len()],
    pub(crate) services: ServiceMetrics,
    pub(crate) edge: EdgeMetrics,
}

/// Name, meaning and value.
type ControlCounter = (&'static str, &'static str, fn(&ControllerStats) -> u64);

/// Counters that are copied from the statistics of the controller at every scrape.
const CONTROL: [ControlCounter; 18] = [
    ("balancer_decisions", "Decisions of the balancer", |stats| stats.decisions),
    ("flow_migrations", "Flows migrated from one path to another", |stats| stats.moves),
    ("flow_mods", "Rule additions, changes and deletions sent", |stats| stats.flow_mods),
    ("group_mods", "Group changes sent", |stats| stats.group_mods),
    ("packet_ins", "Packet-ins received from switches", |stats| stats.packet_ins),
    ("packet_outs", "Packet-outs sent to switches", |stats| stats.packet_outs),
    ("stats_requests", "Statistics requests sent", |stats| stats.polls),
    ("counter_samples_stale", "Counter samples ignored as stale", |stats| stats.stale_samples),
    ("flows_over_limit", "First packets and reports of flows over the limit", |stats| stats.flows_over_limit),
    ("rules_restored", "Rules restored after a change behind the controller's back", |stats| stats.rules_restored),
    ("host_packets_over_limit", "Packets from hosts over the host limits", |stats| stats.hosts_refused),
    ("arp_requests_answered", "ARP requests answered from the knowledge of hosts", |stats| stats.arp_requests_answered),
    ("arp_requests_relayed", "ARP requests for unknown hosts relayed to all edge ports", |stats| {
        stats.arp_requests_relayed
    }),
    ("directory_lookups", "Locations told by the directory of an addressing mode", |stats| stats.lookups),
    ("arp_requests_suppressed", "ARP requests for unknown hosts suppressed by the rate limiter", |stats| {
        stats.arp_requests_suppressed
    }),
    ("arp_packets_rejected", "ARP packets with the sender address of another host or a virtual one", |stats| {
        stats.arp_packets_rejected
    }),
    ("host_claims_rejected", "Packets that claimed the address of another host", |stats| stats.host_claims_rejected),
    ("discovery_probes_rejected", "Discovery probes that arrived at ports for hosts", |stats| stats.probes_rejected),
];

/// The only label of a metric: name and value.
type Label = [(&'static str, &'static str); 1];

fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("anabranch");
        let all = &mut registry;
        let by_kind =
            |family: &Family<Label, Counter>| kinds::NAMES.map(|kind| family.get_or_create_owned(&[("kind", kind)]));
        // 10 µs to 2.6 s.
        let decision_time = Histogram::new(exponential_buckets(1e-5, 4.0, 10));
        let help = "Time from input to the last resulting message, in rounds with a decision of the balancer";
        all.register("decision_seconds", help, decision_time.clone());
        Metrics {
            connections: add(all, "connections", "Open connections"),
            handshaking: add(all, "connections_handshaking", "Open connections that have not finished the handshake"),
            switches: add(all, "switches", "Connected switches"),
            hosts: add(all, "hosts", "Known hosts"),
            links: add(all, "links", "Directed links between switches that are up"),
            flows: add(all, "flows", "Flows known to the balancer"),
            connections_pending: add(all, "connections_pending", "Connections with a batch in the latest round"),
            runtime_tasks: add(all, "runtime_tasks", "Tasks that serve switches: one per connection and the listener"),
            refused_connections: add(all, "connections_refused", "Connections rejected because a limit is reached"),
            throttled: add(all, "connections_throttled", "Pauses of switches that exceeded their message rate"),
            closed: add(all, "connections_closed", "Connections that ended, by reason"),
            received: by_kind(&add(all, "messages_received", "OpenFlow messages from switches, by type")),
            sent: by_kind(&add(all, "messages_sent", "OpenFlow messages to switches, by type")),
            decode_errors: add(all, "decode_errors", "Messages rejected as malformed OpenFlow 1.3"),
            encode_errors: add(all, "encode_errors", "Messages that could not be encoded"),
            engine_rounds: add(all, "engine_rounds", "Rounds of the engine"),
            decision_time,
            control: CONTROL.map(|(name, help, _)| add(all, name, help)),
            services: ServiceMetrics::new(all),
            edge: EdgeMetrics::new(all),
            registry,
        }
    }

    pub(crate) fn closed(&self, reason: &Closing) {
        let reason = match reason {
            Closing::ByPeer => "peer",
            Closing::ByController | Closing::Refused(_) => "controller",
            Closing::TlsHandshake(_) => "tls_handshake",
            Closing::Certificate(_) => "certificate",
            Closing::Datapath(_) => "datapath_id",
            Closing::Malformed(_) => "malformed",
            Closing::HandshakeTimeout => "handshake_timeout",
            Closing::Evicted => "evicted",
            Closing::OutputLimit => "send_buffer_full",
            Closing::NotReading => "write_timeout",
            Closing::Io(_) => "io",
        };
        self.closed.get_or_create(&[("reason", reason)]).inc();
    }

    pub(crate) fn copy_control(&self, stats: &ControllerStats) {
        for (counter, (_, _, value)) in self.control.iter().zip(CONTROL) {
            counter.inner().store(value(stats), Ordering::Relaxed);
        }
    }
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string fails only if a metric cannot be encoded.
        let written = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        debug_assert!(written.is_ok(), "every metric can be written");
        text
    }
}
