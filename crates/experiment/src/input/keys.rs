//! All keys of experiment files with their meaning. Files are checked against this list, and
//! `anabranch list keys` prints it.

use config::document::Layout;
use config::keys::{Key, key, names, sections};

/// Sections that may occur several times (`[[server]]`).
pub const REPEATED: &[&str] = &["server", "service", "requests", "failure", "expect"];

/// All keys, in the order a file is written.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("", "name", "text", "the name of the file", "short name, for the results folder and reports"),
    key("", "title", "text", "none", "one line for the top of the report"),
    key("", "question", "text", "none", "question the experiment answers"),
    key("", "source", "text", "none", "origin, such as a paper and its section"),
    key("", "seeds", "count or list", "3", "seeds 1 to n, or exactly these; the same for every balancer"),
    key("", "balancers", "list of specifications", "required", "balancers to compare, such as `hermes-rtt:good=1.25`"),

    key("", "measure", "slowdown|throughput", "slowdown; throughput for udp", "quantity that ranks balancers: mean slowdown; or throughput, for senders that do not react to congestion and flows that never end"),

    key("topology", "spec", "text", "this or file is required", "a family with parameters, such as `fat-tree:k=8`"),
    key("topology", "file", "path", "this or spec is required", "network file to read: Topology Zoo GraphML, htsim .topo, or our JSON"),
    key("topology", "rate", "bandwidth", "10Gbps", "rate of links without one in the file"),
    key("topology", "delay", "time", "1us", "delay of links without one in the file"),
    key("topology", "coordinates", "delays|ignore", "delays", "GraphML: whether geographic positions determine delays"),
    key("topology", "hosts_per_node", "count", "1", "hosts added to each switch of a file without hosts"),
    key("topology", "host_rate", "bandwidth", "100Gbps", "rate of the links of added hosts"),
    key("topology", "host_delay", "time", "0s", "delay of the links of added hosts"),

    key("traffic", "workload", "text", "required, except for flow_list, collective and trace", "flow sizes: a published distribution, `fixed:size=1MB`, `file:path=TABLE.cdf`, …"),
    key("traffic", "pattern", "text", "random-pairs", "senders and receivers"),
    key("traffic", "arrivals", "text", "poisson", "start times of flows"),
    key("traffic", "load", "number or list", "required by arrivals that follow a load", "offered payload / capacity of load_reference"),
    key("traffic", "load_reference", "hosts|uplinks|bisection", "hosts", "capacity that a load of 1 fills: host links, first-switch uplinks, or the bisection"),
    key("traffic", "flows", "count", "none", "maximum number of flows"),
    key("traffic", "until", "time", "none", "only flows that start before this time"),
    key("traffic", "flow_list", "path", "none", "flows to replay instead: our .csv, an htsim .cm, or a coflow trace (.txt)"),
    key("traffic", "start_unit", "ps|us", "ps", "unit of start times in a .cm file"),
    key("traffic", "coflows", "count", "all", "only this number of coflows from the beginning of a trace"),
    key("traffic", "time_scale", "number", "1", "factor on arrival times of a coflow trace, computation times of a training trace, and times of a matrix"),
    key("traffic", "size_scale", "number", "1", "factor on sizes of a trace"),
    key("traffic", "megabyte", "size", "1MB", "size of a megabyte in a trace: 1MB or 1MiB"),
    key("traffic", "collective", "text or list", "none", "collectives between ranks instead, such as `ring-all-reduce:size=64MB,group_size=8,repeat=4`; those of a list run in parallel"),
    key("traffic", "trace", "path", "none", "collectives of a training run instead: an AICB trace (.csv) or SimAI workload (.txt, computation times in nanoseconds)"),
    key("traffic", "ranks", "count", "one per host; of a trace as many as it has, if there are as many hosts", "number of ranks of collectives; with fewer than a trace has, its data-parallel groups shrink"),
    key("traffic", "placement", "consecutive|strided|shuffled", "consecutive", "ranks on consecutive hosts, on racks in turn, or shuffled with the seed"),
    key("traffic", "order", "program|group", "program", "a collective of a trace waits for the previous one of all its ranks, or only of the same group"),
    key("traffic", "collectives", "count", "all", "only this number of collectives from the beginning of a training trace"),
    key("traffic", "max_bytes", "size", "none", "only collectives from the beginning of a training trace that together send at most this much"),
    key("traffic", "matrix", "path", "none", "rates between nodes in Mbit/s instead (CSV: time_s, then from>to); flows are Poisson with sizes of `workload`"),
    key("traffic", "rate_scale", "number", "1", "factor on rates of a matrix"),
    key("traffic", "names", "list of texts", "as in the matrix", "nodes of the topology by their names in the matrix, such as [\"NYCM=New York\"]; the routers of Abilene are built in"),

    key("server", "host", "text", "required", "name of a host that is a server"),
    key("server", "cores", "count", "1", "number of cores; jobs share them evenly, each job at most one"),
    key("server", "weight", "count", "1", "weight of the server, for balancers that use weights"),

    key("service", "name", "text", "required", "name that [[requests]] refer to"),
    key("service", "address", "IPv4 address", "required", "virtual address; no host may have it"),
    key("service", "port", "count", "required", "TCP port; MALOB selects an algorithm by it"),
    key("service", "members", "list of hosts", "all servers", "servers of the service"),
    key("service", "member_port", "count", "the service's", "port of the members"),
    key("service", "pool", "text", "the service's name", "services with the same pool have the same members and share the balancer's state"),
    key("service", "idle_timeout_s", "count", "30", "idle time in seconds after which the rules of a connection are removed"),
    key("service", "rules", "connection, wildcard", "connection", "connection: each connection gets its own rules; wildcard: proactive rules divide the clients among the members"),
    key("service", "buckets", "count", "64", "client slots of wildcard rules; a power of two"),

    key("requests", "service", "text", "required", "name of the requested service"),
    key("requests", "name", "text", "the service", "name of this request class, for claims and reports"),
    key("requests", "clients", "list of hosts", "all hosts that are not servers", "hosts that send the requests, in turn"),
    key("requests", "count", "count", "required", "number of requests of all clients together"),
    key("requests", "request", "size", "500B", "size of what a client sends for each page"),
    key("requests", "size", "size", "1B", "size of the response for each page"),
    key("requests", "pages", "count", "1", "pages of a request, one after another, each over a new connection"),
    key("requests", "cpu", "time", "0s", "CPU time of one core for a page"),
    key("requests", "start", "time", "0s", "earliest start of the first request"),
    key("requests", "start_within", "time", "0s", "upper bound of a random delay added to `start`, drawn for each seed"),
    key("requests", "arrivals", "paced|poisson|gap", "paced", "each client at equal gaps from a random start; at exponential gaps; or exactly `gap` apart"),
    key("requests", "over", "time", "required by paced, poisson", "time in which all requests start"),
    key("requests", "gap", "time", "required by gap", "time between two requests"),

    key("agents", "report", "direct|in-band", "direct", "agents on servers report connections and CPU load to the controller over the management network, or by UDP through the switches"),
    key("agents", "pause", "time", "5s", "pause before each measurement"),
    key("agents", "sampling", "time", "10s", "duration of each measurement of the CPU load"),

    key("transport", "kind", "newreno|dctcp|cubic|udp|spray|rdma", "dctcp", "transport protocol of hosts"),
    key("transport", "gain", "number", "0.0625; rdma: 1/256", "gain of the marked fraction (DCTCP) or of alpha (DCQCN)"),
    key("transport", "rate", "bandwidth", "required by udp, or min_packets", "constant sending rate of a UDP flow, on the wire"),
    key("transport", "min_packets", "packets/s", "none", "UDP: minimum of a uniform packet rate"),
    key("transport", "max_packets", "packets/s", "none", "UDP: maximum of a uniform packet rate"),
    key("transport", "sack", "true|false", "true for cubic, else false", "TCP: recover losses from selective acknowledgements (RFC 6675)"),
    key("transport", "target_delay", "time", "3/4 of the base round-trip time", "spray: target queueing delay of the window"),
    key("transport", "reorder_packets", "count", "a bandwidth-delay product and a switch queue", "spray: a packet counts as lost when this number of later ones has arrived"),
    key("transport", "packet_timeout", "time", "the base round-trip time and three full queues", "spray, rdma: minimum time-out of a packet"),
    key("transport", "recovery", "go-back-n|selective", "go-back-n", "rdma: loss recovery, as in RoCE or as in IRN"),
    key("transport", "notify_interval", "time", "50us", "rdma: minimum interval between a receiver's notifications of marks"),
    key("transport", "alpha_timer", "time", "55us", "rdma: interval at which alpha decays without notifications"),
    key("transport", "rate_timer", "time", "55us", "rdma: interval at which the rate is raised"),
    key("transport", "byte_counter", "size", "10MB", "rdma: number of bytes after which the rate is also raised"),
    key("transport", "additive_increase", "bandwidth", "a thousandth of the line rate", "rdma: R_AI of DCQCN"),
    key("transport", "hyper_increase", "bandwidth", "a hundredth of the line rate", "rdma: R_HAI of DCQCN"),
    key("transport", "mss", "size", "1460B", "payload of a full packet"),
    key("transport", "header", "size", "40B", "headers of a data packet"),
    key("transport", "ack", "size", "40B", "size of a bare ACK"),
    key("transport", "initial_window", "packets", "10", "TCP: initial congestion window"),
    key("transport", "max_window", "packets|\"auto\"", "auto", "receive window; auto is twice the largest bandwidth-delay product plus one switch queue; rdma: one product, or none with go-back-n"),
    key("transport", "min_rto", "time", "5ms", "TCP: minimum retransmission time-out"),
    key("transport", "dup_ack_threshold", "count", "3", "TCP: duplicate ACKs that trigger a fast retransmit"),
    key("transport", "limited_transmit", "true|false", "true", "TCP: each of the first two duplicate ACKs allows one new packet (RFC 3042)"),
    key("transport", "ack_every", "count", "1", "TCP: the receiver acknowledges every n-th packet; 1 turns delayed ACKs off"),
    key("transport", "ack_timeout", "time", "500us", "maximum delay of an ACK"),
    key("transport", "handshake", "true|false", "false", "begin with SYN and SYN-ACK, included in the completion time"),
    key("transport", "max_timeouts", "count", "15", "consecutive time-outs after which a flow has failed"),

    key("host", "queue_packets", "count", "1000", "queue limit of a host interface (bounds UDP only)"),
    key("host", "resequencing", "auto|on|off", "auto", "hold packets that arrive early; auto enables it for balancers that always reorder"),
    key("host", "resequencing_timeout", "time|\"auto\"", "auto", "with on: maximum time a packet is held"),
    key("host", "resequencing_packets", "count", "the receive window", "with on: maximum number of packets held per flow"),
    key("host", "scheduler", "fair|fifo", "fair", "scheduling of TCP flows at a host's interface: packet by packet in turn, or first come, first served"),
    key("host", "priority_sizes", "list of sizes", "none", "with traffic classes: a flow is one class more urgent for each size it does not exceed"),
    key("host", "jitter", "time", "0s", "maximum random gap after each packet of a host; breaks phase effects between TCP flows"),

    key("switch", "queue", "\"100pkt\" or size", "100pkt", "drop-tail limit of every switch queue"),
    key("switch", "ecn", "\"20pkt\", size, \"off\" or {min, max, probability}", "20pkt", "ECN marking: a step, or a linear ramp as in RED"),
    key("switch", "trimming", "true|false", "false", "with kind = spray: full queues trim packets to 64 B headers instead of dropping them"),

    key("switch", "pfc", "true|false", "false", "priority flow control: switches and hosts pause instead of dropping; balancers that need it turn it on"),
    key("switch", "priorities", "count", "1", "with pfc: traffic classes, served in order of urgency"),
    key("switch", "pause_above", "size", "40KB", "with pfc: buffered bytes of a class from one link above which its sender is paused"),
    key("switch", "resume_below", "size", "half of pause_above", "with pfc: buffered bytes at which a paused sender resumes"),

    key("control", "latency", "time", "100us", "with central balancers: one-way delay of the control channel of each switch"),
    key("control", "bandwidth", "bandwidth", "1Gbps", "rate of each control channel, in each direction"),
    key("control", "poll", "time", "the controller's: 5s", "interval between two polls of counters, for balancers that need them"),
    key("control", "stats_refresh", "time", "0s", "refresh interval of the counters of switches"),
    key("control", "packet_in_per_s", "count", "no limit", "maximum rate of packet-ins of a switch; further ones are dropped"),
    key("control", "max_entries", "count", "1000000", "maximum number of entries of a flow table"),
    key("control", "max_groups", "count", "100000", "maximum number of groups of a switch"),
    key("control", "hash", "per-switch|identical", "per-switch", "hash seeds of select groups"),
    key("control", "frames", "reserved|plain", "reserved", "reserved: frames of the controller (discovery) are queued even in full queues; plain: they are dropped like data"),
    key("control", "boot", "warm|cold", "warm", "warm: the network was up and the controller knew it before time 0; cold: switches are empty at time 0"),
    key("control", "connect_at", "time", "0s", "with boot = cold: time at which switches connect"),
    key("control", "reconnect_after", "time", "1s", "time after which a switch whose connection the controller closed reconnects"),
    key("control", "agent_latency", "time", "100us", "delay between agents on hosts and the controller, in each direction"),
    key("control", "packets_per_s", "count", "no limit", "maximum packets per second of a switch that forwards in software, data and acknowledgements alike"),
    key("control", "backlog", "packets", "1000", "with packets_per_s: maximum number of packets that wait for the CPU of a switch"),
    key("control", "discovery", "time", "the controller's: 15s", "interval between two rounds of LLDP, which also measure the latency of links; a link times out after two rounds and 5 s without a probe, at least 35 s"),
    key("control", "base", "a central balancer", "sdn-ecmp", "with requests: balancer of all traffic whose path is not chosen together with its server"),
    key("control", "sizes", "told|unknown", "told", "whether agents report the total size of a flow"),

    key("failure", "kind", "text", "required", "link-down, link-rate, random-drop, blackhole or switch-down; for central balancers also channel-stall, channel-down and controller-down; a failure can also be one text, such as failure = [\"link-down:leaf0->spine1,at=1ms\"]"),
    key("failure", "at", "time", "0s", "beginning of the failure"),
    key("failure", "until", "time", "never", "end of the failure"),
    key("failure", "detection", "time", "10ms", "delay until routing detects the beginning and the end; with central balancers, until the ports of switches do"),
    key("failure", "direction", "both|one-way", "both", "of link-down: one-way loses only packets from the first to the second end; with central balancers only the second end then detects it"),
    key("failure", "link", "text", "required by link-down, link-rate; by random-drop, or switch", "`leaf0 -> spine1` (for parallel links `leaf0 -> spine1 #2`); `any` link between switches; or a share such as `20%` of the cables between the two lowest tiers of switches"),
    key("failure", "switch", "text", "required by blackhole, switch-down, channel-stall, channel-down; by random-drop, or link", "name of the switch (a random drop then applies in every direction); `any` or a share such as `20%` of the highest tier"),
    key("failure", "pick", "count", "1 for the first failure, 2 for the second, …", "seed of `any` and shares: the same links and switches for every balancer and seed"),
    key("failure", "fraction", "number", "required by link-rate, blackhole", "remaining share of the rate; share of lost pairs"),
    key("failure", "from_rack", "count", "any", "of a blackhole: only pairs from hosts of this rack"),
    key("failure", "to_rack", "count", "any", "of a blackhole: only pairs to hosts of this rack"),
    key("failure", "probability", "number", "required by random-drop", "loss probability of a packet"),

    key("probes", "series", "true|false", "true", "record link load over time"),
    key("probes", "bin", "time", "10us", "initial width of a time bin"),
    key("probes", "max_bins", "count", "128", "maximum number of bins; widths double when it is reached"),
    key("probes", "fixed_bins", "true|false", "false", "keep the width, for metrics with a published window"),

    key("stop", "until", "time", "none", "end of simulated time; without it a run ends when every flow has ended"),

    key("testbed", "source", "sockets|d-itg|iperf3", "sockets for udp, iperf3 for tcp", "`[testbed]` is for `anabranch testbed`, and the simulator ignores it: program that sends flows"),
    key("testbed", "rules", "controller|static", "controller", "static: pre-installed rules of one shortest path, without a controller, for `sdn-spt:tie=first`"),
    key("testbed", "hosts", "configured|remembered|seen", "configured", "how the controller learns the hosts: from its configuration; from traffic, persisted in a file (`serve --state`); only from traffic"),
    key("testbed", "datapath", "auto|user|kernel", "auto", "where Open vSwitch forwards; auto uses the kernel if it has the module"),
    key("testbed", "shape", "true|false", "true", "whether links have the rates and queues of the experiment, or are as fast as the machine allows"),
    key("testbed", "turns", "arrival|senders|flows", "arrival", "scheduling of switch queues: first in, first out (with Open vSwitch's userspace datapath, a full queue then always admits packets of the same port), or sending hosts in turn; flows: as arrival, and TCP flows of a host in turn at its own interface, as with host.scheduler = \"fair\""),
    key("testbed", "sample", "time", "1s", "interval between two samples of port counters, from which the series is computed"),
    key("testbed", "proof", "time", "5s", "duration of the preflight check, in which paced probes verify that the network loses no packets; 0s for none"),
    key("testbed", "client", "own|wget", "own", "client of requests to services: connections of the program itself, or GNU wget, started for each page"),
    key("testbed", "ftp", "list of services", "those at port 21", "services whose members run vsftpd; passive mode, with a port for each member's data connections"),
    key("testbed", "jobs", "list of services", "none", "services whose requests keep a core of their server busy for `requests.cpu`; all others have pages served by nginx, which ignore `cpu`"),
    key("testbed", "core", "share", "1", "share of a CPU of this machine that a core of a `[[server]]` gets for jobs: six cores of 0.1 fit a machine of two"),

    key("sweep", "(any key)", "list of values", "none", "a further axis, such as `transport.min_rto = [\"5ms\", \"200ms\"]`"),

    key("table", "title", "text", "the name", "short heading of the experiment's column in `anabranch matrix`"),
    key("table", "loads", "number or list", "all of traffic.load", "loads in a matrix, instead of traffic.load"),
    key("table", "variants", "{ axis = values }", "all of the sweep", "values of swept keys in a matrix, such as `{ \"transport.kind\" = [\"dctcp\"] }`"),
    key("table", "flows", "count", "traffic.flows", "flows of each run in a matrix, instead of traffic.flows"),
    key("table", "seeds", "count or list", "seeds", "seeds in a matrix, instead of seeds"),

    key("agree", "from", "time", "all the time", "`[agree]` is for `anabranch testbed agree` and changes no run; metrics of the core: only time bins that end after this; needs `fixed_bins`"),
    key("agree", "until", "time", "all the time", "metrics of the core: only time bins that have ended by this; needs `fixed_bins`"),
    key("agree", "metrics", "list of metrics", "the four of the core", "metrics to compare, as in expect.metric"),
    key("agree", "tolerance", "share", "0.1", "maximum difference between the simulator and the testbed, as a share of the first one's value"),

    key("expect", "id", "text", "required", "short name of a published claim, such as `E3.2`; `[[expect]]` changes no run and can be edited afterwards"),
    key("expect", "claim", "text", "required", "the claim in a sentence"),
    key("expect", "metric", "text", "required", "fct_mean_us, fct_p50_us, fct_p95_us, fct_p99_us, small_fct_mean_us (up to 100 KB), fct_mean_to_1mb_us, fct_mean_to_10mb_us, slowdown_mean, slowdown_min (of all runs), group_mean_us, group_max_us (of jobs, coflows, collectives), completed_share, slowdown_bound_mean (unfinished flows count with the slowdown they had reached), throughput_share, flow_share_min, flow_share_mean (of the flows' shares of their ideal rates), flow_share_half, flow_share_80 (share of the flows that get half, and 0.8, of it), dropped_packets, reorder_extent (largest, in segments), moves (of flows, by a controller), core_cllbl_rx, core_cllbl_tx, core_bb_rx or core_bb_tx (max / mean load, and mean utilisation, of links into and out of the top tier); of requests: response_mean, response_p10, response_median, response_p90, response_p99, response_spread (10th to 90th percentile), download_rate (bytes per second), server_share"),
    key("expect", "balancer", "label or list", "the only one", "balancer of the claim, as in `balancers`; a list makes one claim for each"),
    key("expect", "at_most", "label or list", "one comparison is required", "the metric is not above that of this balancer, paired over seeds"),
    key("expect", "times", "number", "1", "with at_most or at_least: factor on the other balancer's metric, such as 0.8"),
    key("expect", "at_least", "label or list", "one comparison is required", "the metric is not below that of this balancer, paired over seeds"),
    key("expect", "within", "[low, high]", "one comparison is required", "the mean over seeds is in this range"),
    key("expect", "rises_with_load", "true", "one comparison is required", "the mean over seeds does not fall from one load to the next"),
    key("expect", "loads_from", "number", "all loads", "only loads from this value on"),
    key("expect", "loads_up_to", "number", "all loads", "only loads up to this value"),
    key("expect", "lightest_load", "true|false", "false", "only the lowest load"),
    key("expect", "from", "time", "all the time", "metrics of the core: only time bins that end after this; needs `fixed_bins`"),
    key("expect", "until", "time", "all the time", "metrics of the core: only time bins that have ended by this; needs `fixed_bins`"),
    key("expect", "variant", "text", "all variants", "only this variant, as reports name it, such as `transport.min_rto=5ms`"),
    key("expect", "class", "text", "all requests", "metrics of requests: only those of this class"),
    key("expect", "server", "text", "required by server_share", "host whose share of pages is compared"),
    key("expect", "reason", "text", "none", "shown if the claim is not reproduced: the cause found in the packets"),
];

/// Layout of experiment files.
pub(crate) static LAYOUT: Layout = Layout { keys: known, flat: &["sweep", "table.variants"] };

fn known(section: &str) -> Option<Vec<&'static str>> {
    match section {
        "" => Some(names(KEYS, "").into_iter().chain(sections(KEYS)).collect()),
        "sweep" => None,
        _ => Some(names(KEYS, section)),
    }
}

/// Returns the position of a key in a written file.
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
