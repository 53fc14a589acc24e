//! Every key an experiment file can have, with its meaning: checked against, suggested from, and printed.

use net::document::Layout;
use net::keys::{Key, key, names, sections};

/// Sections that may come several times (`[[server]]`).
pub const REPEATED: &[&str] = &["server", "service", "requests", "failure", "expect"];

/// All keys, in the order a file is written.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("", "name", "text", "the name of the file", "short name, for the results folder and reports"),
    key("", "title", "text", "none", "one line for the top of the report"),
    key("", "question", "text", "none", "what the experiment is to find out"),
    key("", "source", "text", "none", "where it comes from, such as a paper and its section"),
    key("", "seeds", "count or list", "3", "seeds 1 to n, or exactly these; every balancer sees the same ones"),
    key("", "balancers", "list of specifications", "required", "what is compared, such as `hermes-rtt:good=1.25`"),

    key("", "measure", "slowdown|throughput", "slowdown, for udp throughput", "what balancers are ranked by: mean slowdown, or throughput where senders do not react or flows never end"),

    key("topology", "spec", "text", "required, or file", "a family with parameters, such as `fat-tree:k=8`"),
    key("topology", "file", "path", "required, or spec", "a network to read: Topology Zoo GraphML, htsim .topo, or our JSON"),
    key("topology", "rate", "bandwidth", "10Gbps", "rate of links for which the file gives none"),
    key("topology", "delay", "time", "1us", "delay of links for which the file gives none"),
    key("topology", "coordinates", "delays|ignore", "delays", "GraphML: whether geographic positions give delays"),
    key("topology", "hosts_per_node", "count", "1", "hosts added to each switch of a file without hosts"),
    key("topology", "host_rate", "bandwidth", "100Gbps", "rate of the links of such hosts"),
    key("topology", "host_delay", "time", "0s", "delay of the links of such hosts"),

    key("traffic", "workload", "text", "required, but for flow_list, collective and trace", "flow sizes: a published distribution, `fixed:size=1MB`, `file:path=TABLE.cdf`, …"),
    key("traffic", "pattern", "text", "random-pairs", "who sends to whom"),
    key("traffic", "arrivals", "text", "poisson", "when flows begin"),
    key("traffic", "load", "number or list", "required by arrivals that follow a load", "offered payload / capacity of load_reference"),
    key("traffic", "load_reference", "hosts|uplinks|bisection", "hosts", "what a load of 1 fills: host links, first-switch uplinks, or the bisection"),
    key("traffic", "flows", "count", "none", "stop after this many flows"),
    key("traffic", "until", "time", "none", "only flows that start before this time"),
    key("traffic", "flow_list", "path", "none", "flows to replay instead: our .csv, an htsim .cm, or a coflow trace (.txt)"),
    key("traffic", "start_unit", "ps|us", "ps", "unit of start times in a .cm file"),
    key("traffic", "coflows", "count", "all", "only the first coflows of a trace"),
    key("traffic", "time_scale", "number", "1", "arrival times of a coflow trace, computation times of a training trace and times of a matrix are multiplied by this"),
    key("traffic", "size_scale", "number", "1", "sizes of a trace are multiplied by this"),
    key("traffic", "megabyte", "size", "1MB", "what a trace means by a megabyte: 1MB or 1MiB"),
    key("traffic", "collective", "text or list", "none", "collectives between ranks instead, such as `ring-all-reduce:size=64MB,group_size=8,repeat=4`; those of a list run beside each other"),
    key("traffic", "trace", "path", "none", "collectives of a training run instead: an AICB trace (.csv) or SimAI workload (.txt, computation times in nanoseconds)"),
    key("traffic", "ranks", "count", "one per host; of a trace as many as it has, if there are as many hosts", "ranks of collectives; with fewer than a trace has, its data-parallel groups shrink"),
    key("traffic", "placement", "consecutive|strided|shuffled", "consecutive", "ranks on hosts one after the other, on racks in turn, or as drawn with the seed"),
    key("traffic", "order", "program|group", "program", "a collective of a trace waits for the one before of all its ranks, or of the same group alone"),
    key("traffic", "collectives", "count", "all", "only the first collectives of a training trace"),
    key("traffic", "max_bytes", "size", "none", "only the first collectives of a training trace that send at most this much together"),
    key("traffic", "matrix", "path", "none", "rates between nodes in Mbit/s instead (CSV: time_s, then from>to); flows are Poisson with sizes of `workload`"),
    key("traffic", "rate_scale", "number", "1", "rates of a matrix are multiplied by this"),
    key("traffic", "names", "list of texts", "as in the matrix", "nodes of the topology by their names in the matrix, such as [\"NYCM=New York\"]; the routers of Abilene are known"),

    key("server", "host", "text", "required", "name of a host that serves"),
    key("server", "cores", "count", "1", "its cores: jobs share them evenly, and none gets more than one"),
    key("server", "weight", "count", "1", "its share of connections relative to the others', for balancers that mind weights"),

    key("service", "name", "text", "required", "what [[requests]] call it"),
    key("service", "address", "IPv4 address", "required", "virtual address: no host has it"),
    key("service", "port", "count", "required", "its TCP port; MALOB picks an algorithm by it"),
    key("service", "members", "list of hosts", "all servers", "who serves it"),
    key("service", "member_port", "count", "the service's", "port of its members"),
    key("service", "pool", "text", "the service's name", "services that name the same pool have the same members and share the balancer's state"),
    key("service", "idle_timeout_s", "count", "30", "a connection that has been silent for so many seconds has no rules any more"),
    key("service", "rules", "connection, wildcard", "connection", "whether each connection gets its rules, or clients are divided among members by rules that stand beforehand"),
    key("service", "buckets", "count", "64", "parts clients are divided into by wildcard rules; a power of two"),

    key("requests", "service", "text", "required", "name of the service that is asked"),
    key("requests", "name", "text", "the service", "name of this class of requests, for claims and reports"),
    key("requests", "clients", "list of hosts", "all hosts that are no servers", "who asks, in turn"),
    key("requests", "count", "count", "required", "requests of all clients together"),
    key("requests", "request", "size", "500B", "what a client sends for each page"),
    key("requests", "size", "size", "1B", "what comes back for each page"),
    key("requests", "pages", "count", "1", "pages of a request, one after another, each over a fresh connection"),
    key("requests", "cpu", "time", "0s", "time one core takes for a page"),
    key("requests", "start", "time", "0s", "when the first request may come"),
    key("requests", "start_within", "time", "0s", "`start` is later by a time below this, another one for each seed"),
    key("requests", "arrivals", "paced|poisson|gap", "paced", "each client at equal gaps from a time of its own on; at exponential gaps; or exactly `gap` apart"),
    key("requests", "over", "time", "required by paced, poisson", "how long all requests take to come"),
    key("requests", "gap", "time", "required by gap", "time between two requests"),

    key("agents", "report", "direct|in-band", "direct", "agents on servers tell the controller of connections and processors over the management network, or by UDP through the switches"),
    key("agents", "pause", "time", "5s", "pause before each measurement"),
    key("agents", "sampling", "time", "10s", "how long the load of the processors is measured before it is told"),

    key("transport", "kind", "newreno|dctcp|cubic|udp|spray|rdma", "dctcp", "how hosts send"),
    key("transport", "gain", "number", "0.0625; rdma: 1/256", "gain of the marked fraction (DCTCP) or of alpha (DCQCN)"),
    key("transport", "rate", "bandwidth", "required by udp, or min_packets", "constant sending rate of a UDP flow, on the wire"),
    key("transport", "min_packets", "packets/s", "none", "UDP: least of a uniform packet rate"),
    key("transport", "max_packets", "packets/s", "none", "UDP: greatest of a uniform packet rate"),
    key("transport", "sack", "true|false", "true for cubic, else false", "TCP: recover losses from selective acknowledgements (RFC 6675)"),
    key("transport", "target_delay", "time", "3/4 of the base round-trip time", "spray: queueing delay the window aims at"),
    key("transport", "reorder_packets", "count", "a bandwidth-delay product and a switch queue", "spray: a packet is lost when so many sent later have arrived"),
    key("transport", "packet_timeout", "time", "the base round-trip time and three full queues", "spray, rdma: least time-out of a packet"),
    key("transport", "recovery", "go-back-n|selective", "go-back-n", "rdma: what happens at a gap, as in RoCE or as in IRN"),
    key("transport", "notify_interval", "time", "50us", "rdma: a receiver notifies of marks at most this often"),
    key("transport", "alpha_timer", "time", "55us", "rdma: without notifications alpha decays this often"),
    key("transport", "rate_timer", "time", "55us", "rdma: the rate is raised this often"),
    key("transport", "byte_counter", "size", "10MB", "rdma: and every so many bytes"),
    key("transport", "additive_increase", "bandwidth", "a thousandth of the line rate", "rdma: R_AI of DCQCN"),
    key("transport", "hyper_increase", "bandwidth", "a hundredth of the line rate", "rdma: R_HAI of DCQCN"),
    key("transport", "mss", "size", "1460B", "payload of a full packet"),
    key("transport", "header", "size", "40B", "headers of a data packet"),
    key("transport", "ack", "size", "40B", "a bare ACK"),
    key("transport", "initial_window", "packets", "10", "TCP: initial congestion window"),
    key("transport", "max_window", "packets|\"auto\"", "auto", "receive window; auto is twice the largest bandwidth-delay product plus one switch queue; rdma: one product, or none with go-back-n"),
    key("transport", "min_rto", "time", "5ms", "TCP: least retransmission time-out"),
    key("transport", "dup_ack_threshold", "count", "3", "TCP: duplicate ACKs that trigger a fast retransmit"),
    key("transport", "limited_transmit", "true|false", "true", "TCP: the first two duplicate ACKs let a new packet out each (RFC 3042)"),
    key("transport", "ack_every", "count", "1", "TCP: the receiver acknowledges every n-th packet; 1 turns delayed ACKs off"),
    key("transport", "ack_timeout", "time", "500us", "longest a delayed ACK waits"),
    key("transport", "handshake", "true|false", "false", "begin with SYN and SYN-ACK, inside the completion time"),
    key("transport", "max_timeouts", "count", "15", "consecutive time-outs after which a flow has failed"),

    key("host", "queue_packets", "count", "1000", "packets a host interface queues (bounds UDP only)"),
    key("host", "resequencing", "auto|on|off", "auto", "hold back early packets; auto does for balancers that always reorder"),
    key("host", "resequencing_timeout", "time|\"auto\"", "auto", "with on: release after this long"),
    key("host", "resequencing_packets", "count", "the receive window", "with on: packets held per flow"),
    key("host", "scheduler", "fair|fifo", "fair", "how TCP flows share a host's interface: packet by packet in turn, or first come, first served"),
    key("host", "priority_sizes", "list of sizes", "none", "with traffic classes: a flow is one class more urgent for each size it does not exceed"),
    key("host", "jitter", "time", "0s", "largest random gap after each packet a host sends; breaks phase effects between TCP flows"),

    key("switch", "queue", "\"100pkt\" or size", "100pkt", "drop-tail limit of every switch queue"),
    key("switch", "ecn", "\"20pkt\", size, \"off\" or {min, max, probability}", "20pkt", "ECN marking: a step, or a linear ramp as in RED"),
    key("switch", "trimming", "true|false", "false", "with kind = spray: full queues cut packets to 64 B headers instead of dropping them"),

    key("switch", "pfc", "true|false", "false", "priority flow control: switches and hosts pause instead of dropping; balancers that need it turn it on"),
    key("switch", "priorities", "count", "1", "with pfc: traffic classes, the most urgent first out"),
    key("switch", "pause_above", "size", "40KB", "with pfc: bytes of a class buffered from one link above which its sender is paused"),
    key("switch", "resume_below", "size", "half of pause_above", "with pfc: bytes at which it may go on"),

    key("control", "latency", "time", "100us", "with central balancers: one-way delay of the control channel of each switch"),
    key("control", "bandwidth", "bandwidth", "1Gbps", "rate of each control channel, each way"),
    key("control", "poll", "time", "the controller's: 5s", "time between two polls of counters, where the balancer wants them"),
    key("control", "stats_refresh", "time", "0s", "switches show counters as of the last multiple of this"),
    key("control", "packet_in_per_s", "count", "no limit", "most packet-in messages a switch sends per second; what exceeds it is dropped"),
    key("control", "max_entries", "count", "1000000", "entries a flow table holds"),
    key("control", "max_groups", "count", "100000", "groups a switch holds"),
    key("control", "hash", "per-switch|identical", "per-switch", "seeds of the hashes by which select groups choose"),
    key("control", "frames", "reserved|plain", "reserved", "whether frames of the controller (discovery) find room in full queues or are dropped like data"),
    key("control", "boot", "warm|cold", "warm", "warm: the network was up and the controller knew it before time 0; cold: switches are empty at time 0"),
    key("control", "connect_at", "time", "0s", "with boot = cold: when switches connect"),
    key("control", "reconnect_after", "time", "1s", "a switch whose connection the controller closed connects again after this long"),
    key("control", "agent_latency", "time", "100us", "delay between agents on hosts and the controller, each way"),
    key("control", "packets_per_s", "count", "no limit", "packets a switch handles per second, data and acknowledgements alike: one that forwards in software"),
    key("control", "backlog", "packets", "1000", "with packets_per_s: packets that may wait for the processor of a switch"),
    key("control", "discovery", "time", "the controller's: 15s", "time between two rounds of LLDP, which also measure the latency of links; a link is given up when two rounds and 5 s have brought nothing, and not before 35 s"),
    key("control", "base", "a central balancer", "sdn-ecmp", "with requests: how everything is routed whose path is not picked with its server"),
    key("control", "sizes", "told|unknown", "told", "whether agents tell how much a flow will have sent in all"),

    key("failure", "kind", "text", "required", "link-down, link-rate, random-drop, blackhole or switch-down; for central balancers also channel-stall, channel-down and controller-down; a failure can also be one text, such as failure = [\"link-down:leaf0->spine1,at=1ms\"]"),
    key("failure", "at", "time", "0s", "when it begins"),
    key("failure", "until", "time", "never", "when it is over"),
    key("failure", "detection", "time", "10ms", "how long routing takes to notice the beginning and the end; with central balancers, how long the ports of switches take"),
    key("failure", "direction", "both|one-way", "both", "of link-down: whether only packets from the first to the second end are lost; with central balancers only the second then notices"),
    key("failure", "link", "text", "required by link-down, link-rate; by random-drop, or switch", "`leaf0 -> spine1` (for parallel links `leaf0 -> spine1 #2`); `any` link between switches; or a share such as `20%` of the cables between the two lowest tiers of switches"),
    key("failure", "switch", "text", "required by blackhole, switch-down, channel-stall, channel-down; by random-drop, or link", "name of the switch, through which a random drop loses in every direction; `any` or a share such as `20%` of the highest tier"),
    key("failure", "pick", "count", "1 for the first failure, 2 for the second, …", "draws `any` and shares: the same links and switches for every balancer and seed"),
    key("failure", "fraction", "number", "required by link-rate, blackhole", "of the rate that is left; of the pairs that are lost"),
    key("failure", "from_rack", "count", "any", "of a blackhole: only pairs from hosts of this rack"),
    key("failure", "to_rack", "count", "any", "of a blackhole: only pairs to hosts of this rack"),
    key("failure", "probability", "number", "required by random-drop", "of losing a packet"),

    key("probes", "series", "true|false", "true", "record link load over time"),
    key("probes", "bin", "time", "10us", "first width of a time bin"),
    key("probes", "max_bins", "count", "128", "most bins; widths double when they are reached"),
    key("probes", "fixed_bins", "true|false", "false", "keep the width, for metrics with a published window"),

    key("stop", "until", "time", "none", "end of simulated time; without it a run ends when every flow has"),

    key("testbed", "source", "sockets|d-itg|iperf3", "sockets for udp, iperf3 for tcp", "`[testbed]` is for `anabranch testbed`, the simulator does not look at it: which programs send"),
    key("testbed", "rules", "controller|static", "controller", "static: one shortest path by rules put there beforehand, without a controller, for `sdn-spt:tie=first`"),
    key("testbed", "hosts", "configured|remembered|seen", "configured", "how the controller comes to know hosts: it is told of them; it sees them speak and keeps a file of them (`serve --state`); it only sees them speak"),
    key("testbed", "datapath", "auto|user|kernel", "auto", "where Open vSwitch forwards; auto takes the kernel where it has the module"),
    key("testbed", "shape", "true|false", "true", "whether links have the rates and queues of the experiment, or whatever the machine carries"),
    key("testbed", "turns", "arrival|senders|flows", "arrival", "who gets the room in a full queue of a switch: the packet that comes first (with Open vSwitch's userspace datapath always one of the same port), or sending hosts in turn; flows: as arrival, and TCP flows of a host in turn at its own interface, as with host.scheduler = \"fair\""),
    key("testbed", "sample", "time", "1s", "time between two samples of port counters; the series is put together from them"),
    key("testbed", "proof", "time", "5s", "how long paced probes prove first that the network loses nothing by itself; 0s for no proof"),
    key("testbed", "client", "own|wget", "own", "who makes requests to services: connections of the program itself, or GNU wget, started for each page"),
    key("testbed", "ftp", "list of services", "those at port 21", "services whose members run vsftpd; passive mode, with a port for each member's data connections"),
    key("testbed", "jobs", "list of services", "none", "services whose requests keep a core of their server busy for `requests.cpu`; all others have pages, which nginx serves, and there `cpu` is whatever nginx takes"),
    key("testbed", "core", "share", "1", "what a core of a `[[server]]` is worth where it works on jobs, as a share of one of this machine's: six cores of 0.1 fit a machine of two"),

    key("sweep", "(any key)", "list of values", "none", "a further axis, such as `transport.min_rto = [\"5ms\", \"200ms\"]`"),

    key("table", "title", "text", "the name", "heading of the experiment's column in `anabranch matrix`, a few words"),
    key("table", "loads", "number or list", "all of traffic.load", "loads that represent the experiment in a matrix, instead of traffic.load"),
    key("table", "variants", "{ axis = values }", "all of the sweep", "values of swept keys that represent it, such as `{ \"transport.kind\" = [\"dctcp\"] }`"),
    key("table", "flows", "count", "traffic.flows", "flows of each run there, instead of traffic.flows"),
    key("table", "seeds", "count or list", "seeds", "seeds there, instead of seeds"),

    key("agree", "from", "time", "all the time", "`[agree]` is for `anabranch testbed agree` and changes no run. Metrics of the core: only time bins that end after this; needs `fixed_bins`"),
    key("agree", "until", "time", "all the time", "metrics of the core: only time bins that have ended by this; needs `fixed_bins`"),
    key("agree", "metrics", "list of metrics", "the four of the core", "what is compared, as in expect.metric"),
    key("agree", "tolerance", "share", "0.1", "greatest difference between two worlds, as a share of the first one's value"),

    key("expect", "id", "text", "required", "short name of a published claim, such as `E3.2`; `[[expect]]` changes no run and can be edited afterwards"),
    key("expect", "claim", "text", "required", "the claim in a sentence"),
    key("expect", "metric", "text", "required", "fct_mean_us, fct_p50_us, fct_p95_us, fct_p99_us, small_fct_mean_us (up to 100 KB), fct_mean_to_1mb_us, fct_mean_to_10mb_us, slowdown_mean, slowdown_min (of all runs), group_mean_us, group_max_us (of jobs, coflows, collectives), completed_share, slowdown_bound_mean (unfinished flows count with what they had reached), throughput_share, flow_share_min, flow_share_mean (of the flows' shares of their ideal rates), flow_share_half, flow_share_80 (part of the flows that get half, and 0.8, of it), dropped_packets, reorder_extent (largest, in segments), moves (of flows, by a controller), core_cllbl_rx, core_cllbl_tx, core_bb_rx or core_bb_tx (max / mean load, and mean utilisation, of links into and out of the top tier); of requests: response_mean, response_p10, response_median, response_p90, response_p99, response_spread (10th to 90th percentile), download_rate (bytes per second), server_share"),
    key("expect", "balancer", "label or list", "the only one", "the balancer it is about, as in `balancers`; of a list each, in a claim of its own"),
    key("expect", "at_most", "label or list", "one comparison is required", "the metric is at most that of this balancer, paired over seeds"),
    key("expect", "times", "number", "1", "with at_most or at_least: the metric is compared with so many times the other balancer's, such as 0.8"),
    key("expect", "at_least", "label or list", "one comparison is required", "the metric is at least that of this balancer, paired over seeds"),
    key("expect", "within", "[low, high]", "one comparison is required", "the mean over seeds is in this range"),
    key("expect", "rises_with_load", "true", "one comparison is required", "the mean over seeds does not fall from one load to the next"),
    key("expect", "loads_from", "number", "all loads", "only loads from here on"),
    key("expect", "loads_up_to", "number", "all loads", "only loads up to here"),
    key("expect", "lightest_load", "true|false", "false", "only the least load"),
    key("expect", "from", "time", "all the time", "metrics of the core: only time bins that end after this; needs `fixed_bins`"),
    key("expect", "until", "time", "all the time", "metrics of the core: only time bins that have ended by this; needs `fixed_bins`"),
    key("expect", "variant", "text", "all variants", "only this variant, as reports name it, such as `transport.min_rto=5ms`"),
    key("expect", "class", "text", "all requests", "metrics of requests: only those of this class"),
    key("expect", "server", "text", "required by server_share", "the host whose share of pages is meant"),
    key("expect", "reason", "text", "none", "shown if the claim is not reproduced: what was found by looking at the packets"),
];

/// What experiment files look like.
pub(crate) static LAYOUT: Layout = Layout { keys: known, flat: &["sweep", "table.variants"] };

fn known(section: &str) -> Option<Vec<&'static str>> {
    match section {
        "" => Some(names(KEYS, "").into_iter().chain(sections(KEYS)).collect()),
        "sweep" => None,
        _ => Some(names(KEYS, section)),
    }
}

/// Where a key stands in a written file.
pub(crate) fn order(section: &str, name: &str) -> usize {
    let position = |section: &str, name: &str| KEYS.iter().position(|key| key.section == section && key.name == name);
    let of_section = KEYS.iter().position(|key| key.section == name && section.is_empty());
    position(section, name).or(of_section).unwrap_or(KEYS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_listed_once_with_a_meaning() {
        for (ix, key) in KEYS.iter().enumerate() {
            assert!(!key.doc.is_empty() && !key.takes.is_empty());
            assert!(KEYS[..ix].iter().all(|other| (other.section, other.name) != (key.section, key.name)), "{key:?}");
        }
        assert_eq!(sections(KEYS)[..2], ["topology", "traffic"]);
        assert!(order("", "name") < order("", "balancers") && order("", "topology") < order("", "sweep"));
    }
}
