//! Prometheus metrics.

mod services;

use std::sync::atomic::AtomicU64;

use control::ControllerStats;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::channel::{Closing, kinds};
pub(crate) use services::{Served, ServiceFigures, Serving};

/// All metrics. Those of the controller are copied from its statistics at every scrape.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) connections: Gauge,
    pub(crate) handshaking: Gauge,
    pub(crate) switches: Gauge,
    pub(crate) hosts: Gauge,
    pub(crate) links: Gauge,
    pub(crate) flows: Gauge,
    /// Connections with a batch in the latest round.
    pub(crate) queue_depth: Gauge,
    /// Tasks of the runtime that serves switches: one per connection and the listener.
    pub(crate) tasks: Gauge,
    pub(crate) refused_connections: Counter,
    /// Number of pauses of switches above their message rate.
    pub(crate) throttled: Counter,
    closed: Family<Reason, Counter>,
    /// By message type number.
    pub(crate) received: [Counter; kinds::COUNT],
    pub(crate) sent: [Counter; kinds::COUNT],
    pub(crate) decode_errors: Counter,
    pub(crate) encode_errors: Counter,
    pub(crate) rounds: Counter,
    pub(crate) decision_time: Histogram,
    control: ControlCounters,
    pub(crate) services: ServiceFigures,
}

#[derive(Debug, Default)]
struct ControlCounters {
    decisions: Counter,
    moves: Counter,
    flow_mods: Counter,
    group_mods: Counter,
    packet_ins: Counter,
    packet_outs: Counter,
    polls: Counter,
    stale_samples: Counter,
    flows_untold: Counter,
    hosts_refused: Counter,
    questions_dropped: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("anabranch");
        let (received, sent) = (Family::<Kind, Counter>::default(), Family::<Kind, Counter>::default());
        registry.register("messages_received", "OpenFlow messages from switches, by type", received.clone());
        registry.register("messages_sent", "OpenFlow messages to switches, by type", sent.clone());
        let by_kind =
            |family: &Family<Kind, Counter>| kinds::NAMES.map(|kind| family.get_or_create_owned(&Kind { kind }));
        let metrics = Metrics {
            connections: Gauge::default(),
            handshaking: Gauge::default(),
            switches: Gauge::default(),
            hosts: Gauge::default(),
            links: Gauge::default(),
            flows: Gauge::default(),
            queue_depth: Gauge::default(),
            tasks: Gauge::default(),
            refused_connections: Counter::default(),
            throttled: Counter::default(),
            closed: Family::default(),
            received: by_kind(&received),
            sent: by_kind(&sent),
            decode_errors: Counter::default(),
            encode_errors: Counter::default(),
            rounds: Counter::default(),
            // 10 µs to 2.6 s.
            decision_time: Histogram::new(exponential_buckets(1e-5, 4.0, 10)),
            control: ControlCounters::default(),
            services: ServiceFigures::default(),
            registry,
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let gauges = [
            ("connections", "Open connections", &self.connections),
            ("connections_handshaking", "Open connections that have not finished the handshake", &self.handshaking),
            ("switches", "Connected switches", &self.switches),
            ("hosts", "Known hosts", &self.hosts),
            ("links", "Directed links between switches that are up", &self.links),
            ("flows", "Flows known to the balancer", &self.flows),
            ("tasks", "Tasks that serve switches: one per connection and the listener", &self.tasks),
            ("queue_depth", "Connections with a batch in the latest round", &self.queue_depth),
        ];
        for (name, help, gauge) in gauges {
            self.registry.register(name, help, gauge.clone());
        }
        let ControlCounters {
            decisions,
            moves,
            flow_mods,
            group_mods,
            packet_ins,
            packet_outs,
            polls,
            stale_samples,
            flows_untold,
            hosts_refused,
            questions_dropped,
        } = &self.control;
        let counters = [
            ("connections_refused", "Connections rejected because a limit is reached", &self.refused_connections),
            ("throttled", "Pauses of switches that exceeded their message rate", &self.throttled),
            ("decode_errors", "Messages rejected as malformed OpenFlow 1.3", &self.decode_errors),
            ("encode_errors", "Messages that could not be encoded", &self.encode_errors),
            ("rounds", "Rounds of the engine", &self.rounds),
            ("decisions", "Decisions of the balancer", decisions),
            ("moves", "Flows migrated from one path to another", moves),
            ("flow_mods", "Rule additions, changes and deletions sent", flow_mods),
            ("group_mods", "Group changes sent", group_mods),
            ("packet_ins", "Packet-ins received from switches", packet_ins),
            ("packet_outs", "Packet-outs sent to switches", packet_outs),
            ("polls", "Statistics requests sent", polls),
            ("stale_samples", "Counter samples ignored as stale", stale_samples),
            ("flows_untold", "First packets and reports of flows over the limit", flows_untold),
            ("hosts_refused", "Packets from hosts over the host limits", hosts_refused),
            ("questions_dropped", "ARP requests for unknown hosts suppressed by the rate limiter", questions_dropped),
        ];
        for (name, help, counter) in counters {
            self.registry.register(name, help, counter.clone());
        }
        self.registry.register("connections_closed", "Connections that ended, by reason", self.closed.clone());
        let help = "Time from input to the last resulting message, in rounds with a decision of the balancer";
        self.registry.register("decision_seconds", help, self.decision_time.clone());
        self.services.register(&mut self.registry);
        self
    }

    /// Counts a closed connection.
    pub(crate) fn closed(&self, reason: &Closing) {
        let reason = match reason {
            Closing::ByPeer => "by_peer",
            Closing::ByController => "by_controller",
            Closing::Malformed(_) => "malformed",
            Closing::HandshakeTimeout => "handshake_timeout",
            Closing::Evicted => "displaced",
            Closing::OutputLimit => "output_limit",
            Closing::NotReading => "not_reading",
            Closing::Io(_) => "io",
        };
        self.closed.get_or_create(&Reason { reason }).inc();
    }

    /// Copies the statistics of the controller.
    pub(crate) fn note(&self, tally: &ControllerStats) {
        let set = |counter: &Counter<u64, AtomicU64>, value: u64| {
            counter.inner().store(value, std::sync::atomic::Ordering::Relaxed);
        };
        let control = &self.control;
        set(&control.decisions, tally.decisions);
        set(&control.moves, tally.moves);
        set(&control.flow_mods, tally.flow_mods);
        set(&control.group_mods, tally.group_mods);
        set(&control.packet_ins, tally.packet_ins);
        set(&control.packet_outs, tally.packet_outs);
        set(&control.polls, tally.polls);
        set(&control.stale_samples, tally.stale_samples);
        set(&control.flows_untold, tally.flows_untold);
        set(&control.hosts_refused, tally.hosts_refused);
        set(&control.questions_dropped, tally.questions_dropped);
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string fails only if a metric cannot be encoded.
        let written = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        debug_assert!(written.is_ok(), "every metric can be written");
        text
    }
}
