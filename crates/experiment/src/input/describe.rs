//! A description of an experiment for reports: all shared settings that change results.

use sim::{
    Dcqcn, Fidelity, HostScheduler, Marking, QueueLimit, Rdma, RdmaRecovery, Resequencing, Spray, TransportConfig,
    TransportKind, UdpRate,
};

use super::failures::few;
use super::{Experiment, Variant};

impl Experiment {
    pub fn setting(&self) -> Vec<(String, String)> {
        let variant = &self.variants[0];
        let mut setting: Vec<(&str, String)> = Vec::new();
        for (name, text) in [("title", &self.title), ("question", &self.question), ("source", &self.source)] {
            setting.extend(text.clone().map(|text| (name, text)));
        }
        setting.push(("topology", topology(variant)));
        setting.push(("traffic", variant.traffic.describe()));
        if variant.config.fidelity == Fidelity::Flow {
            let text = "flow: rates of flows that share links max-min fairly; no packet is simulated";
            setting.push(("fidelity", text.to_owned()));
        }
        setting.push(("transport", transport(&variant.config.transport)));
        setting.push(("switch queues", queues(variant)));
        setting.push(("hosts", hosts(variant)));
        if !variant.config.failures.is_empty() {
            setting.push(("failures", describe_failures(variant)));
        }
        if !variant.config.control.legacy.is_empty() {
            let name = |node: &net::NodeIx| variant.topology.node(*node).name.as_str();
            let names: Vec<&str> = variant.config.control.legacy.iter().map(name).collect();
            setting.push(("legacy switches", names.join(", ")));
        }
        if !variant.config.control.schedule.is_empty() {
            setting.push(("timetable", timetable(variant)));
        }
        if let Some(until) = variant.config.stop.until {
            setting.push(("stop", format!("at {until}, or when every flow has ended")));
        } else {
            setting.push(("stop", "when every flow has ended".to_owned()));
        }
        if self.variants.len() > 1 {
            let labels = self.variants.iter().map(|variant| variant.label.as_str());
            setting.push(("variants", labels.collect::<Vec<_>>().join("; ")));
        }
        setting.push(("seeds", describe_seeds(&self.seeds)));
        setting.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
    }
}

fn topology(variant: &Variant) -> String {
    let topology = &variant.topology;
    let hosts = topology.hosts().len();
    format!(
        "{}: {hosts} hosts, {} switches, {} cables",
        topology.name(),
        topology.nodes().len() - hosts,
        topology.links().len() / 2
    )
}

fn transport(config: &TransportConfig) -> String {
    let kind = match config.kind {
        TransportKind::Dctcp(dctcp) => format!("{} (gain {})", config.kind.about().title, dctcp.gain),
        TransportKind::Spray(spray) => return describe_spray(config, &spray),
        TransportKind::Rdma(rdma) => return describe_rdma(config, &rdma),
        TransportKind::Udp(UdpRate::Constant(rate)) => {
            return format!("UDP at {rate}, {} B packets", config.packet_bytes());
        }
        TransportKind::Udp(UdpRate::UniformPackets { min_per_s, max_per_s }) => {
            return format!("UDP at {min_per_s} to {max_per_s} packets/s, {} B packets", config.packet_bytes());
        }
        kind => kind.about().title.to_owned(),
    };
    let kind = if config.sack { format!("{kind} with SACK") } else { kind };
    let window = window(config);
    format!(
        "{kind}, {} B packets ({} B payload), initial window {} packets, receive window {window}, min RTO {}, {} duplicate \
         ACKs, {}, {}",
        config.packet_bytes(),
        config.mss_bytes,
        config.initial_window_packets,
        config.min_rto,
        config.dup_ack_threshold,
        if config.ack_every == 1 {
            "every packet acknowledged".to_owned()
        } else {
            format!("every {}th packet acknowledged or after {}", config.ack_every, config.ack_timeout)
        },
        if config.handshake { "with handshake" } else { "no handshake" },
    )
}

fn window(config: &TransportConfig) -> String {
    config.max_window_packets.map_or("scaled to the network".to_owned(), |window| format!("{window} packets"))
}

fn scaled(time: Option<net::Time>) -> String {
    time.map_or("scaled to the network".to_owned(), |time| time.to_string())
}

fn describe_spray(config: &TransportConfig, spray: &Spray) -> String {
    format!(
        "per-packet transport for spraying (window by ECN and delay), {} B packets ({} B payload), target delay {}, packet \
         time-out {}, lost when overtaken by {}, window at most {}, {}",
        config.packet_bytes(),
        config.mss_bytes,
        scaled(spray.target_delay),
        scaled(spray.packet_timeout),
        spray.reorder_packets.map_or("a product and a queue".to_owned(), |count| format!("{count} packets")),
        window(config),
        if config.handshake { "with handshake" } else { "no handshake" },
    )
}

fn describe_rdma(config: &TransportConfig, rdma: &Rdma) -> String {
    let Dcqcn { gain, notify_interval, alpha_timer, rate_timer, byte_counter, additive_increase, hyper_increase } =
        rdma.dcqcn;
    let step = |rate: Option<net::Bandwidth>, share: &str| rate.map_or(share.to_owned(), |rate| rate.to_string());
    format!(
        "RDMA, {}, {} B packets ({} B payload), packet time-out {}, in flight at most {}, DCQCN (gain {gain}, notified \
         every {notify_interval}, alpha every {alpha_timer}, rate every {rate_timer} or {byte_counter} B by {} or {})",
        match rdma.recovery {
            RdmaRecovery::GoBackN => "go-back-n",
            RdmaRecovery::Selective => "selective retransmission",
        },
        config.packet_bytes(),
        config.mss_bytes,
        scaled(rdma.packet_timeout),
        match (rdma.recovery, config.max_window_packets) {
            (RdmaRecovery::GoBackN, None) => "anything".to_owned(),
            (RdmaRecovery::Selective, None) => "a bandwidth-delay product".to_owned(),
            _ => window(config),
        },
        step(additive_increase, "1/1000 of the line rate"),
        step(hyper_increase, "1/100"),
    )
}

fn queues(variant: &Variant) -> String {
    let limit = |limit: QueueLimit| match limit {
        QueueLimit::Packets(count) => format!("{count} packets"),
        QueueLimit::Bytes(bytes) => format!("{bytes} B"),
    };
    let marking = match variant.config.switch.marking {
        Marking::Off => "no ECN".to_owned(),
        Marking::Step(at) => format!("ECN from {}", limit(at)),
        Marking::Ramp { min_bytes, max_bytes, max_probability } => {
            format!("ECN from {min_bytes} B to {max_bytes} B with probability up to {max_probability}")
        }
    };
    let full = if variant.config.switch.trimming { "trimmed to headers" } else { "drop-tail" };
    let scaled =
        variant.config.switch.reference_rate.map_or(String::new(), |rate| format!(", in proportion to {rate}"));
    let class = if variant.config.has_control_class() { ", acknowledgements before data" } else { "" };
    format!("{full} at {}, {marking}{scaled}{class}", limit(variant.config.switch.limit))
}

fn hosts(variant: &Variant) -> String {
    let host = &variant.config.host;
    let resequencing = match host.resequencing {
        Resequencing::Auto => "resequencing for balancers that always reorder".to_owned(),
        Resequencing::Off => "no resequencing".to_owned(),
        Resequencing::On(bounds) => {
            let timeout = bounds.timeout.map_or("scaled to the network".to_owned(), |timeout| timeout.to_string());
            format!("resequencing for all, released after {timeout}")
        }
    };
    let resequencing = match host.scheduler {
        HostScheduler::Fair => format!("flows take turns at the interface, {resequencing}"),
        HostScheduler::Fifo => format!("first come, first served at the interface, {resequencing}"),
    };
    if host.jitter == net::Time::ZERO { resequencing } else { format!("{resequencing}, jitter up to {}", host.jitter) }
}

fn describe_failures(variant: &Variant) -> String {
    let mut phrases: Vec<(String, Vec<String>)> = Vec::new();
    for failure in &variant.config.failures {
        let (subject, phrase) = failure.describe(&variant.topology);
        match phrases.last_mut() {
            Some((last, subjects)) if *last == phrase => subjects.push(subject),
            _ => phrases.push((phrase, vec![subject])),
        }
    }
    let phrase = |(phrase, subjects): &(String, Vec<String>)| {
        format!("{}: {phrase}", few(&subjects.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    phrases.iter().map(phrase).collect::<Vec<_>>().join("; ")
}

fn timetable(variant: &Variant) -> String {
    let change = |change: &sim::ControlChange| {
        let mut parts = vec![change.balancer.clone().unwrap_or_else(|| "the balancer of the run".to_owned())];
        let topology = &variant.topology;
        let name = |host: net::HostIx| &topology.node(topology.hosts()[host.ix()]).name;
        parts.extend(change.weights.iter().map(|(host, weight)| format!("weight {weight} of {}", name(*host))));
        format!("from {}: {}", change.at, parts.join(", "))
    };
    variant.config.control.schedule.iter().map(change).collect::<Vec<_>>().join("; ")
}

fn describe_seeds(seeds: &[u64]) -> String {
    let range = seeds.windows(2).all(|pair| pair[1] == pair[0] + 1);
    match (seeds, range) {
        ([seed], _) => seed.to_string(),
        ([first, .., last], true) => format!("{first} to {last}"),
        _ => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}
