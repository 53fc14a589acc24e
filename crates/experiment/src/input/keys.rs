//! All keys of experiment files with their meaning. Files are checked against this list, and
//! `anabranch list keys` prints it.

use config::keys::{Key, Kind, Layout, key};
use config::kind::{COUNT, SIZE, TEXT};
use config::timetable;
use control::vip::BUCKETS;
use sim::TransportKind;
use traffic::{Placement, TraceOrder};

use crate::summary::Measure;

/// The forms of a queue limit.
const QUEUE_FORMS: [Kind; 2] = [Kind::Text("\"100pkt\""), SIZE];
const QUEUE: Kind = Kind::Either(&QUEUE_FORMS);

/// The name of a metric.
const METRIC: Kind = Kind::Choice(&crate::claims::NAMES);

/// All keys, in the order a file is written.
#[rustfmt::skip]
const KEYS: &[Key] = &[
    key("", "name", TEXT, "the name of the file", "short name, for the results folder and reports"),
    key("", "title", TEXT, "none", "one line for the top of the report"),
    key("", "question", TEXT, "none", "question the experiment answers"),
    key("", "source", TEXT, "none", "origin, such as a paper and its section"),
    key("", "seeds", Kind::Either(&[Kind::Count(1, 100_000), Kind::List(&Kind::Count(1, 100_000))]), "3", "seeds 1 to n, or exactly these; the same for every balancer"),
    key("", "balancers", Kind::List(&Kind::Text("specification")), "required", "balancers to compare, such as `hermes-rtt:good=1.25`; `all` is every dataplane balancer, and `all,-mptcp` all but one"),

    key("", "rank_by", Kind::Choice(&Measure::NAMES), "slowdown; throughput for udp; group-time for collectives", "quantity that ranks balancers: mean slowdown; throughput, for senders that do not react to congestion and flows that never end; or the mean time of groups of flows, which end with their last flow"),
    key("", "margin", Kind::Positive(1.0), "0.01", "difference that does not matter, as a share: balancers that surely differ by less are tied"),
    key("", "confidence", Kind::Positive(0.999_999), "0.95", "probability that all comparisons of a point contain the true ratios"),

    key("", "fidelity", Kind::Choice(&sim::Fidelity::NAMES), "packet", "packet: every packet is simulated; flow: rates of flows, for networks too large for that, with an error that `--check-fidelity` measures"),

    key("topology", "spec", TEXT, "this or file is required", "a family with parameters, such as `fat-tree:k=8`"),
    key("topology", "file", Kind::Text("path"), "this or spec is required", "network file to read: Topology Zoo GraphML, htsim .topo, or our JSON"),
    key("topology", "rate", Kind::Bandwidth, "10Gbps", "rate of links without one in the file"),
    key("topology", "delay", Kind::Time, "1us", "delay of links without one in the file"),
    key("topology", "coordinates", Kind::Choice(&["delays", "ignore"]), "delays", "GraphML: whether geographic positions determine delays"),
    key("topology", "hosts_per_node", Kind::Count(1, 100_000), "1", "hosts added to each switch of a file without hosts"),
    key("topology", "host_rate", Kind::Bandwidth, "100Gbps", "rate of the links of added hosts"),
    key("topology", "host_delay", Kind::Time, "0s", "delay of the links of added hosts"),

    key("link", "link", TEXT, "this or tier is required", "`[[link]]` changes links of the topology; later tables replace earlier ones: one cable by name, `leaf0 -> spine1` (for parallel links `leaf0 -> spine1 #2`)"),
    key("link", "tier", Kind::Count(0, 255), "this or link is required", "all cables from this tier upwards: 0 for host links, 1 for uplinks of the lowest switches, and so on"),
    key("link", "rate", Kind::Bandwidth, "as in the topology", "rate"),
    key("link", "delay", Kind::Time, "as in the topology", "propagation delay"),
    key("link", "oversubscription", Kind::Positive(f64::INFINITY), "none", "with tier: rate with which a switch has this many times as much capacity below as above"),
    key("link", "direction", Kind::Choice(&["both", "one-way"]), "both", "one-way changes only the direction as written; for a tier, upwards"),

    key("traffic", "workload", TEXT, "required, except for flow_list, collective and trace", "flow sizes: a published distribution, `fixed:size=1MB`, `file:path=TABLE.cdf`, …; next to a collective, of flows in its background"),
    key("traffic", "pattern", TEXT, "random-pairs", "senders and receivers"),
    key("traffic", "arrivals", TEXT, "poisson", "start times of flows"),
    key("traffic", "load", Kind::Either(&[Kind::Positive(f64::INFINITY), Kind::List(&Kind::Positive(f64::INFINITY))]), "required by arrivals that follow a load", "offered payload / capacity of load_reference"),
    key("traffic", "load_reference", Kind::Choice(&["hosts", "uplinks", "bisection"]), "hosts", "capacity that a load of 1 fills: host links, first-switch uplinks, or the bisection"),
    key("traffic", "flows", Kind::Count(1, 100_000_000), "none", "maximum number of flows"),
    key("traffic", "until", Kind::Time, "none", "only flows that start before this time"),
    key("traffic", "flow_list", Kind::Text("path"), "none", "flows to replay instead: our .csv, an htsim .cm, or a coflow trace (.txt)"),
    key("traffic", "start_unit", Kind::Choice(&["ps", "us"]), "ps", "unit of start times in a .cm file"),
    key("traffic", "max_coflows", COUNT, "all", "only this number of coflows from the beginning of a trace"),
    key("traffic", "time_scale", Kind::Positive(f64::INFINITY), "1", "factor on arrival times of a coflow trace, computation times of a training or execution trace, and times of a matrix"),
    key("traffic", "size_scale", Kind::Positive(f64::INFINITY), "1", "factor on sizes of a trace"),
    key("traffic", "megabyte", SIZE, "1MB", "size of a megabyte in a trace: 1MB or 1MiB"),
    key("traffic", "collective", Kind::Either(&[TEXT, Kind::List(&TEXT)]), "none", "collectives between ranks instead, such as `ring-all-reduce:size=64MB,group_size=8,repeat=4`; those of a list run in parallel"),
    key("traffic", "queue_pairs", Kind::Count(1, 64), "1", "connections over which each flow is split in equal parts, as RDMA transfers are over queue pairs; each has its own ports, hence its own hash; every part counts as a flow"),
    key("traffic", "stragglers", Kind::Either(&[Kind::List(&Kind::Count(0, 4_294_967_295)), Kind::Text("\"5%\"")]), "none", "late ranks of a collective: their numbers, or a share of all ranks, drawn with the seed"),
    key("traffic", "straggler_delay", Kind::Time, "required by stragglers", "time that a late rank waits before each transfer, in addition to the wait for its data"),
    key("traffic", "trace", Kind::Text("path"), "none", "collectives of a training run instead: an AICB trace (.csv) or SimAI workload (.txt, computation times in nanoseconds); or an execution trace with dependencies: GOAL (.goal), or Chakra with the number of the rank as {rank} (`all_reduce.{rank}.et` or `.json`)"),
    key("traffic", "ranks", Kind::Count(2, 4_294_967_295), "one per host; of a trace as many as it has, if there are as many hosts", "number of ranks of collectives; with fewer than a trace has, its data-parallel groups shrink"),
    key("traffic", "placement", Kind::Choice(&Placement::NAMES), "consecutive", "ranks on consecutive hosts, on racks in turn, or shuffled with the seed"),
    key("traffic", "order", Kind::Choice(&TraceOrder::NAMES), "program", "a collective of a trace waits for the previous one of all its ranks, or only of the same group"),
    key("traffic", "max_collectives", COUNT, "all", "only this number of collectives from the beginning of a training trace"),
    key("traffic", "max_bytes", SIZE, "none", "only collectives from the beginning of a training trace that together send at most this much"),
    key("traffic", "matrix", Kind::Text("path"), "none", "rates between nodes in Mbit/s instead (CSV: time_s, then from>to); flows are Poisson with sizes of `workload`"),
    key("traffic", "rate_scale", Kind::Positive(f64::INFINITY), "1", "factor on rates of a matrix"),
    key("traffic", "node_names", Kind::List(&TEXT), "as in the matrix", "nodes of the topology by their names in the matrix, such as [\"NYCM=New York\"]; the routers of Abilene are built in"),

    key("server", "host", TEXT, "required", "name of a host that is a server"),
    key("server", "cores", Kind::Count(1, 4_096), "1", "number of cores; jobs share them evenly, each job at most one"),
    key("server", "speed", Kind::Positive(1_000.0), "1", "speed of a core: a job takes its `cpu_time` divided by this"),
    key("server", "weight", Kind::Count(0, 1_000_000), "1", "weight of the server, for balancers that use weights"),

    key("service", "name", TEXT, "required", "name that [[requests]] refer to"),
    key("service", "address", Kind::Text("IPv4 address"), "required", "virtual address; no host may have it"),
    key("service", "port", Kind::Count(1, 65_535), "required", "TCP port; MALOB selects an algorithm by it"),
    key("service", "members", Kind::List(&Kind::Text("host")), "all servers", "servers of the service"),
    key("service", "member_port", Kind::Count(1, 65_535), "the service's", "port of the members"),
    key("service", "pool", TEXT, "the service's name", "services with the same pool have the same members and share the balancer's state"),
    key("service", "idle_timeout_s", Kind::Count(1, 65_000), "30", "idle time in seconds after which the rules of a connection are removed"),
    key("service", "rules", Kind::Choice(&["connection", "wildcard", "mux"]), "connection", "connection: each connection gets its own rules; wildcard: proactive rules divide the clients among the members; mux: the same at one switch, which all packets to members cross"),
    key("service", "client_slots", Kind::Count(*BUCKETS.start() as u64, *BUCKETS.end() as u64), "64", "client slots of wildcard rules, or of a mux; a power of two"),
    key("service", "expected_traffic", Kind::Bandwidth, "1Mbps", "with rules = \"mux\": expected traffic; services with more of it get their switch first"),

    key("service", "forwarding", Kind::Choice(&super::content::FORWARDING), "rewrite", "rewrite: switches translate addresses to those of a member, blind to content; tunnel: they add an outer header to a member (IP-in-IP, 20 B), which replies directly, only in the simulator; splice: a front end reads the request, connects to a member by [[content]] and relays the response; redirect: it answers with the member's address, to which the client connects"),
    key("service", "front_ends", Kind::List(&Kind::Text("host")), "required by splice, redirect", "servers that read requests; they are no members by default, and with rewrite or tunnel they are unused"),
    key("service", "connection_time", Kind::Time, "160us for splice, 80us for redirect", "CPU time of a front end for a connection, at speed 1; the default is measured with `anabranch testbed front-end`"),
    key("service", "relay_rate", Kind::Bandwidth, "20Gbps", "with splice: rate at which a core of a front end relays responses, at speed 1; the default is measured with splice(2)"),
    key("service", "redirect_size", Kind::Size(1, 1_000_000), "200B", "with redirect: size of the answer of a front end"),

    key("content", "service", TEXT, "required", "name of the service; the first of its [[content]] that matches a request gives the members, and without one all members may serve it; ignored with rewrite or tunnel"),
    key("content", "path", Kind::Text("path"), "all paths", "beginning of the path, such as `/images/`"),
    key("content", "host", TEXT, "all hosts", "name in the `Host` field of requests"),
    key("content", "members", Kind::List(&Kind::Text("host")), "required", "servers that serve matching requests"),
    key("content", "balancer", Kind::Text("specification"), "the run's", "server balancer that picks among them, such as `server-least-response`"),

    key("requests", "service", TEXT, "required", "name of the requested service"),
    key("requests", "name", TEXT, "the service", "name of this request class, for claims and reports"),
    key("requests", "path", Kind::Text("path"), "/", "path of the requests, which [[content]] matches"),
    key("requests", "host", TEXT, "none", "name in the `Host` field of the requests, which [[content]] matches"),
    key("requests", "clients", Kind::List(&Kind::Text("host")), "all hosts that are not servers", "hosts that send the requests, in turn"),
    key("requests", "count", Kind::Count(1, 10_000_000), "required", "number of requests of all clients together"),
    key("requests", "request_size", SIZE, "500B", "size of what a client sends for each page"),
    key("requests", "response_size", SIZE, "1B", "size of the response for each page"),
    key("requests", "pages", Kind::Count(1, 100_000), "1", "pages of a request, one after another, each over a new connection"),
    key("requests", "cpu_time", Kind::Time, "0s", "CPU time of one core for a page"),
    key("requests", "start", Kind::Time, "0s", "earliest start of the first request"),
    key("requests", "start_jitter", Kind::Time, "0s", "upper bound of a random delay added to `start`, drawn for each seed"),
    key("requests", "arrivals", Kind::Choice(&["paced", "poisson", "gap"]), "paced", "each client at equal gaps from a random start; at exponential gaps; or exactly `gap` apart"),
    key("requests", "duration", Kind::Time, "required by paced, poisson", "time in which all requests start"),
    key("requests", "gap", Kind::Time, "required by gap", "time between two requests"),

    key("agents", "report", Kind::Choice(&["direct", "in-band"]), "direct", "agents on servers report connections and CPU load to the controller over the management network, or by UDP through the switches"),
    key("agents", "pause", Kind::Time, "5s", "pause before each measurement"),
    key("agents", "sampling", Kind::Time, "10s", "duration of each measurement of the CPU load"),

    key("transport", "kind", Kind::Choice(TransportKind::NAMES), "dctcp", "transport protocol of hosts"),
    key("transport", "gain", Kind::Positive(1.0), "0.0625; rdma: 1/256", "gain of the marked fraction (DCTCP, Annulus) or of alpha (DCQCN)"),
    key("transport", "rate", Kind::Bandwidth, "required by udp, or min_packets", "constant sending rate of a UDP flow, on the wire"),
    key("transport", "min_packets", Kind::Positive(1e12), "none", "UDP: minimum of a uniform packet rate"),
    key("transport", "max_packets", Kind::Positive(1e12), "none", "UDP: maximum of a uniform packet rate"),
    key("transport", "sack", Kind::Flag, "true for cubic, else false", "TCP: recover losses from selective acknowledgements (RFC 6675); annulus always does"),
    key("transport", "hystart", Kind::Flag, "true", "cubic: slow start ends when round-trip times grow (HyStart++, RFC 9406), as in Linux"),
    key("transport", "local_delay", Kind::Time, "100us", "annulus: links with a longer delay lead to other sites"),
    key("transport", "equilibrium", Kind::Size(1, 4_294_967_295), "26kB", "annulus: queue length above which switches of the sender's site return feedback"),
    key("transport", "target_delay", Kind::Time, "3/4 of the base round-trip time", "spray: target queueing delay of the window"),
    key("transport", "reorder_packets", Kind::Count(1, 1_000_000), "a bandwidth-delay product and a switch queue", "spray: a packet counts as lost when this number of later ones has arrived"),
    key("transport", "packet_timeout", Kind::Time, "the base round-trip time and three full queues", "spray, rdma: minimum time-out of a packet"),
    key("transport", "recovery", Kind::Choice(&["go-back-n", "selective"]), "go-back-n", "rdma: loss recovery, as in RoCE or as in IRN"),
    key("transport", "notify_interval", Kind::Time, "50us", "rdma: minimum interval between a receiver's notifications of marks"),
    key("transport", "alpha_timer", Kind::Time, "55us", "rdma: interval at which alpha decays without notifications"),
    key("transport", "rate_timer", Kind::Time, "55us", "rdma: interval at which the rate is raised"),
    key("transport", "byte_counter", Kind::Size(1, 4_294_967_295), "10MB", "rdma: number of bytes after which the rate is also raised"),
    key("transport", "additive_increase", Kind::Bandwidth, "a thousandth of the line rate", "rdma: R_AI of DCQCN"),
    key("transport", "hyper_increase", Kind::Bandwidth, "a hundredth of the line rate", "rdma: R_HAI of DCQCN"),
    key("transport", "mss", Kind::Size(1, 65_495), "1460B", "payload of a full packet"),
    key("transport", "header", Kind::Size(0, 65_535), "40B", "headers of a data packet"),
    key("transport", "ack", Kind::Size(1, 65_535), "40B", "size of a bare ACK"),
    key("transport", "initial_window", Kind::Count(1, 1_000_000), "10", "TCP: initial congestion window"),
    key("transport", "max_window", Kind::Either(&[Kind::Count(1, 100_000_000), Kind::Choice(&["auto"])]), "auto", "receive window; auto is twice the largest bandwidth-delay product plus one switch queue; rdma: one product, or none with go-back-n"),
    key("transport", "min_rto", Kind::Time, "5ms", "TCP: minimum retransmission time-out"),
    key("transport", "dup_ack_threshold", Kind::Count(1, 1_000_000), "3", "TCP: duplicate ACKs that trigger a fast retransmit"),
    key("transport", "limited_transmit", Kind::Flag, "true", "TCP: each of the first two duplicate ACKs allows one new packet (RFC 3042)"),
    key("transport", "ack_every", Kind::Count(1, 1_000), "1", "TCP: the receiver acknowledges every n-th packet; 1 turns delayed ACKs off"),
    key("transport", "ack_timeout", Kind::Time, "500us", "maximum delay of an ACK"),
    key("transport", "handshake", Kind::Flag, "false", "begin with SYN and SYN-ACK, included in the completion time"),
    key("transport", "max_timeouts", Kind::Count(1, 1_000), "15", "consecutive time-outs after which a flow has failed"),

    key("host", "queue_packets", Kind::Count(1, 100_000_000), "1000", "queue limit of a host interface (bounds UDP only)"),
    key("host", "resequencing", Kind::Choice(&["auto", "on", "off"]), "auto", "hold packets that arrive early; auto enables it for balancers that always reorder"),
    key("host", "resequencing_timeout", Kind::Either(&[Kind::Time, Kind::Choice(&["auto"])]), "auto", "with on: maximum time a packet is held"),
    key("host", "resequencing_packets", Kind::Count(1, 100_000_000), "the receive window", "with on: maximum number of packets held per flow"),
    key("host", "scheduler", Kind::Choice(&["fair", "fifo"]), "fair", "scheduling of TCP flows at a host's interface: packet by packet in turn, or first come, first served"),
    key("host", "priority_sizes", Kind::List(&SIZE), "none", "with traffic classes: a flow is one class more urgent for each size it does not exceed"),
    key("host", "jitter", Kind::Time, "0s", "maximum random gap after each packet of a host; breaks phase effects between TCP flows"),

    key("switch", "queue", QUEUE, "100pkt", "drop-tail limit of every switch queue"),
    key("switch", "ecn", Kind::Either(&[QUEUE_FORMS[0], QUEUE_FORMS[1], Kind::Choice(&["off"])]), "20pkt", "ECN marking: a step, off, or a linear ramp as in RED, written as `{ min, max, probability }`"),
    key("switch", "reference_rate", Kind::Bandwidth, "none", "rate of links for which `queue` and `ecn` are given; those of other links are in proportion"),
    key("switch", "control_class", Kind::Flag, "true with kind = spray, else false", "switches serve acknowledgements, handshakes and trimmed headers before data; not with pfc"),
    key("switch", "trimming", Kind::Flag, "false", "with kind = spray: full queues trim packets to 64 B headers instead of dropping them"),

    key("switch", "pfc", Kind::Flag, "false", "priority flow control: switches and hosts pause instead of dropping; balancers that need it turn it on"),
    key("switch", "priorities", Kind::Count(1, 8), "1", "with pfc: traffic classes, served in order of urgency"),
    key("switch", "pause_above", SIZE, "40KB", "with pfc: buffered bytes of a class from one link above which its sender is paused"),
    key("switch", "resume_below", SIZE, "half of pause_above", "with pfc: buffered bytes at which a paused sender resumes"),

    key("switch.ecn", "max", SIZE, "required", "ramp: queue from which packets are marked with `probability`; above it all are"),
    key("switch.ecn", "min", SIZE, "required", "ramp: queue from which packets are marked"),
    key("switch.ecn", "probability", Kind::Positive(1.0), "required", "ramp: share of packets marked at `max`"),

    key("control", "latency", Kind::Time, "100us", "with central balancers: one-way delay of the control channel of each switch"),
    key("control", "bandwidth", Kind::Bandwidth, "1Gbps", "rate of each control channel, in each direction"),
    key("control", "poll_interval", Kind::Time, "the controller's: 5s", "interval between two polls of counters, for balancers that need them"),
    key("control", "stats_refresh", Kind::Time, "0s", "refresh interval of the counters of switches"),
    key("control", "packet_in_per_s", COUNT, "no limit", "maximum rate of packet-ins of a switch; further ones are dropped"),
    key("control", "max_entries", COUNT, "1000000", "maximum number of entries of a flow table"),
    key("control", "max_groups", Kind::Count(0, 4_294_967_295), "100000", "maximum number of groups of a switch"),
    key("control", "hash", Kind::Choice(&["per-switch", "identical"]), "per-switch", "hash seeds of select groups"),
    key("control", "queue", Kind::Choice(&["reserved", "shared"]), "reserved", "reserved: frames of the controller (discovery) are queued even in full queues; shared: they are dropped like data"),
    key("control", "boot", Kind::Choice(&["warm", "cold"]), "warm", "warm: the network was up and the controller knew it before time 0; cold: switches are empty at time 0"),
    key("control", "connect_at", Kind::Time, "0s", "with boot = cold: time at which switches connect"),
    key("control", "reconnect_after", Kind::Time, "1s", "time after which a switch whose connection the controller closed reconnects"),
    key("control", "agent_latency", Kind::Time, "100us", "delay between agents on hosts and the controller, in each direction"),
    key("control", "packets_per_s", COUNT, "no limit", "maximum packets per second of a switch that forwards in software, data and acknowledgements alike"),
    key("control", "cpu_queue_packets", Kind::Count(0, 4_294_967_295), "1000", "with packets_per_s: maximum number of packets that wait for the CPU of a switch"),
    key("control", "discovery_interval", Kind::Time, "the controller's: 15s", "interval between two rounds of LLDP, which also measure the latency of links; a link times out after two rounds and 5 s without a probe, at least 35 s"),
    key("control", "mux_rules", Kind::Count(1, 1_000_000), "512", "maximum number of slot rules that a switch has as the mux of services"),
    key("control", "routing", Kind::Text("a central balancer"), "sdn-ecmp", "with requests: balancer of all traffic whose path is not chosen together with its server"),
    key("control", "addressing", Kind::Choice(&["flat", "portland", "seattle", "vl2", "trill"]), "flat", "how hosts are addressed: one of `anabranch list addressing`"),
    key("control", "arp", Kind::Choice(&["known", "resolve"]), "known with flat addresses, else resolve", "known: hosts know the Ethernet addresses of all others; resolve: they send ARP requests before their first packet"),
    key("control", "refuse", Kind::List(&Kind::Text("pair of addresses")), "[]", "with addressing = vl2: pairs such as \"10.0.0.1 > 10.0.0.16\"; the directory does not tell the first host the location of the second. Host number n has the address 10.0.0.n, counted on through 10.0.0.0/8"),
    key("control", "legacy", Kind::Either(&[Kind::List(&Kind::Text("switch")), Kind::Text("\"50%\"")]), "none", "switches that take no rules and forward over the first shortest path by port: their names, or a share of all switches, those with the fewest links to other switches first; for partial-te, sdn-spt:tie=first and bounds"),
    key("control", "flow_sizes", Kind::Choice(&["known", "unknown"]), "known", "whether agents report the total size of a flow"),

    timetable::ZONE,
    Key { default: "required by `[[timetable]]`", doc: "date and time in the zone at simulated time 0, such as `2026-11-27T07:59:59.5`", ..timetable::START },
    timetable::DAYS,
    timetable::DATES,
    timetable::EXCEPT,
    timetable::FROM,
    timetable::TO,
    key("timetable", "balancer", Kind::Text("specification"), "the balancer of the run", "balancer while the entry is in effect: central, or for files with requests a server balancer"),
    key("timetable.weights", "HOST", Kind::Count(0, 1_000_000), "`server.weight`", "weight of a server while the entry is in effect; 0 for no new connections"),

    key("", "failure", Kind::List(&Kind::Text("failure")), "none", "failures as texts, such as `link-down:leaf0->spine1,at=1ms`, instead of tables"),
    key("failure", "kind", Kind::Choice(&super::failures::NAMES), "required", "what fails: the last three are for central balancers"),
    key("failure", "at", Kind::Time, "0s", "beginning of the failure"),
    key("failure", "until", Kind::Time, "never", "end of the failure"),
    key("failure", "detection_delay", Kind::Time, "10ms", "delay until routing detects the beginning and the end; with central balancers, until the ports of switches do"),
    key("failure", "direction", Kind::Choice(&["both", "one-way"]), "both", "of link-down and link-rate: one-way concerns only packets from the first to the second end; when a link is down, with central balancers only the second end then detects it"),
    key("failure", "link", TEXT, "required by link-down, link-rate; by random-drop, or switch", "`leaf0 -> spine1` (for parallel links `leaf0 -> spine1 #2`); `any` link between switches; or a share such as `20%` of the cables between the two lowest tiers of switches"),
    key("failure", "switch", TEXT, "required by blackhole, switch-down, channel-stall, channel-down; by random-drop, or link", "name of the switch (a random drop then applies in every direction); `any` or a share such as `20%` of the highest tier"),
    key("failure", "selection_seed", Kind::Count(0, u64::MAX), "1 for the first failure, 2 for the second, …", "seed of `any` and shares: the same links and switches for every balancer and seed"),
    key("failure", "fraction", Kind::Positive(1.0), "required by link-rate, blackhole", "remaining share of the rate; share of lost pairs"),
    key("failure", "from_rack", Kind::Count(0, u64::MAX), "any", "of a blackhole: only pairs from hosts of this rack"),
    key("failure", "to_rack", Kind::Count(0, u64::MAX), "any", "of a blackhole: only pairs to hosts of this rack"),
    key("failure", "probability", Kind::Positive(1.0), "required by random-drop", "loss probability of a packet"),

    key("probes", "series", Kind::Flag, "true", "record link load over time"),
    key("probes", "bin", Kind::Time, "10us", "initial width of a time bin; interval at which queues of `links` are read"),
    key("probes", "max_bins", Kind::Count(2, 1_000_000), "128", "maximum number of bins; widths double when it is reached"),
    key("probes", "fixed_bins", Kind::Flag, "false", "keep the width, for metrics with a published window"),
    key("probes", "links", Kind::List(&Kind::Text("link")), "none", "links, such as `leaf0 -> spine1`, whose queue and load are written to series.parquet and drawn in the report; queues are read every `bin`"),
    key("probes", "capture", Kind::List(&Kind::Text("link")), "none", "links, such as `leaf0 -> spine1`, whose packets are written to captures/*.pcapng as they arrive; not for requests"),
    key("probes", "capture_packets", Kind::Count(1, 100_000_000), "100000", "with capture: maximum number of packets of a run"),
    key("probes", "warm_up", Kind::Time, "0s", "flows that start before this time are simulated, and left out of averages over flows and groups; not for requests"),

    key("stop", "until", Kind::Time, "none", "end of simulated time; without it a run ends when every flow has ended"),

    key("testbed", "source", Kind::Choice(&["sockets", "d-itg", "iperf3"]), "sockets", "`[testbed]` is for `anabranch testbed`, and the simulator ignores it: program that sends flows"),
    key("testbed", "rules", Kind::Choice(&["controller", "static"]), "controller", "static: pre-installed rules of one shortest path, without a controller, for `sdn-spt:tie=first`"),
    key("testbed", "host_learning", Kind::Choice(&["configured", "persisted", "learned"]), "configured", "how the controller learns the hosts: from its configuration; from traffic, persisted in a file (`serve --state`); only from traffic"),
    key("testbed", "datapath", Kind::Choice(&["auto", "user", "kernel"]), "auto", "where Open vSwitch forwards; auto uses the kernel if it has the module"),
    key("testbed", "shape", Kind::Flag, "true", "whether links have the rates and queues of the experiment, or are as fast as the machine allows"),
    key("testbed", "queue_scheduling", Kind::Choice(&["fifo", "per-sender", "per-flow"]), "fifo", "scheduling of switch queues: first in, first out (with Open vSwitch's userspace datapath, a full queue then always admits packets of the same port), or sending hosts in turn; per-flow: as fifo, and TCP flows of a host in turn at its own interface, as with host.scheduler = \"fair\""),
    key("testbed", "sample_interval", Kind::Time, "1s", "interval between two samples of port counters, from which the series is computed"),
    key("testbed", "preflight", Kind::Time, "5s", "duration of the preflight check, in which paced probes verify that the network loses no packets; 0s for none"),
    key("testbed", "request_client", Kind::Choice(&["builtin", "wget"]), "builtin", "client of requests to services: connections of the program itself, or GNU wget, started for each page"),
    key("testbed", "ftp", Kind::List(&Kind::Text("service")), "those at port 21", "services whose members run vsftpd; passive mode, with a port for each member's data connections"),
    key("testbed", "compute", Kind::List(&Kind::Text("service")), "none", "services whose requests keep a core of their server busy for `requests.cpu_time`; all others have pages served by nginx, which ignore `cpu_time`"),
    key("testbed", "core_share", Kind::Positive(1.0), "1", "share of a CPU of this machine that a core of a `[[server]]` gets for jobs: six cores of 0.1 fit a machine of two"),

    key("sweep", "KEY", Kind::Form("list of values"), "none", "a further axis, such as `transport.min_rto = [\"5ms\", \"200ms\"]`"),

    key("matrix", "title", TEXT, "the name", "short heading of the experiment's column in `anabranch matrix`"),
    key("matrix", "loads", Kind::Either(&[Kind::Positive(f64::INFINITY), Kind::List(&Kind::Positive(f64::INFINITY))]), "all of traffic.load", "loads in a matrix, instead of traffic.load"),
    key("matrix", "variants", Kind::Form("{ axis = values }"), "all of the sweep", "values of swept keys in a matrix, such as `{ \"transport.kind\" = [\"dctcp\"] }`"),
    key("matrix", "flows", Kind::Count(1, 100_000_000), "traffic.flows", "flows of each run in a matrix, instead of traffic.flows"),
    key("matrix", "seeds", Kind::Either(&[Kind::Count(1, 100_000), Kind::List(&Kind::Count(1, 100_000))]), "seeds", "seeds in a matrix, instead of seeds"),

    key("validation", "from", Kind::Time, "all the time", "`[validation]` is for `anabranch testbed validate` and changes no run; metrics of the core: only time bins that end after this; needs `fixed_bins`"),
    key("validation", "until", Kind::Time, "all the time", "metrics of the core: only time bins that have ended by this; needs `fixed_bins`"),
    key("validation", "metrics", Kind::List(&METRIC), "the four of the core", "metrics to compare (`anabranch list metrics`)"),
    key("validation", "tolerance", Kind::Positive(1.0), "0.1", "maximum difference between the simulator and the testbed, as a share of the first one's value"),

    key("expect", "id", TEXT, "required", "short name of a published claim, such as `E3.2`; `[[expect]]` changes no run and can be edited afterwards"),
    key("expect", "claim", TEXT, "required", "the claim in a sentence"),
    key("expect", "metric", METRIC, "required", "metric of the claim (`anabranch list metrics`)"),
    key("expect", "balancer", Kind::Either(&[Kind::Text("label"), Kind::List(&Kind::Text("label"))]), "the only one", "balancer of the claim, as in `balancers`; a list makes one claim for each"),
    key("expect", "at_most", Kind::Either(&[Kind::Text("label"), Kind::List(&Kind::Text("label"))]), "one comparison is required", "the metric is not above that of this balancer, paired over seeds"),
    key("expect", "factor", Kind::Positive(f64::INFINITY), "1", "with at_most or at_least: factor on the other balancer's metric, such as 0.8"),
    key("expect", "at_least", Kind::Either(&[Kind::Text("label"), Kind::List(&Kind::Text("label"))]), "one comparison is required", "the metric is not below that of this balancer, paired over seeds"),
    key("expect", "within", Kind::Form("[low, high]"), "one comparison is required", "the mean over seeds is in this range"),
    key("expect", "rises_with_load", Kind::Flag, "one comparison is required", "the mean over seeds does not fall from one load to the next"),
    key("expect", "load_min", Kind::Positive(f64::INFINITY), "all loads", "only loads from this value on"),
    key("expect", "load_max", Kind::Positive(f64::INFINITY), "all loads", "only loads up to this value"),
    key("expect", "lowest_load_only", Kind::Flag, "false", "only the lowest load"),
    key("expect", "from", Kind::Time, "all the time", "metrics of the core: only time bins that end after this; needs `fixed_bins`"),
    key("expect", "until", Kind::Time, "all the time", "metrics of the core: only time bins that have ended by this; needs `fixed_bins`"),
    key("expect", "variant", TEXT, "all variants", "only this variant, as reports name it, such as `transport.min_rto=5ms`"),
    key("expect", "class", TEXT, "all requests", "metrics of requests: only those of this class"),
    key("expect", "server", TEXT, "required by server_share and server_busy_us", "host whose share or time is compared"),
    key("expect", "reason", TEXT, "none", "shown if the claim is not reproduced: the cause found in the packets"),
];

/// The layout of experiment files.
pub static LAYOUT: Layout = Layout {
    keys: KEYS,
    repeated: &["link", "server", "service", "content", "requests", "timetable", "failure", "expect"],
    flat: &["sweep", "matrix.variants"],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_listed_once_with_a_meaning() {
        for (ix, key) in KEYS.iter().enumerate() {
            assert!(!key.doc.is_empty() && !key.kind.to_string().is_empty());
            assert!(KEYS[..ix].iter().all(|other| (other.section, other.name) != (key.section, key.name)), "{key:?}");
        }
        assert_eq!(LAYOUT.sections("")[..3], ["topology", "link", "traffic"]);
        let order = |name: &str| LAYOUT.position("", name);
        assert!(order("name") < order("balancers") && order("topology") < order("sweep"));
    }

    /// Settings that some keys need next to them; each key is tried with each of these.
    const CONTEXTS: &[&str] = &[
        "",
        "transport = { kind = \"udp\", rate = \"1Gbps\" }",
        "transport = { kind = \"cubic\" }",
        "transport = { kind = \"spray\" }",
        "transport = { kind = \"rdma\" }",
        "transport = { kind = \"annulus\" }",
        "host = { resequencing = \"on\" }",
        "switch = { pfc = true }",
        "control = { boot = \"cold\" }",
        "control = { packets_per_s = 1000 }",
        "failure = [{ kind = \"link-down\", link = \"any\" }]",
        SERVICES,
        MUX,
        FRONT_END,
    ];

    const MUX: &str = r#"
balancers = ["maglev"]
topology = { spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2" }
server = [{ host = "h0" }]
service = [{ name = "web", address = "10.100.0.1", port = 80, rules = "mux" }]
requests = [{ service = "web", count = 3, duration = "1s" }]
agents = {}
"#;

    const FRONT_END: &str = r#"
balancers = ["server-rr"]
topology = { spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2" }
server = [{ host = "h0" }, { host = "h1" }]
service = [{ name = "web", address = "10.100.0.1", port = 80, forwarding = "splice", front_ends = ["h1"] }]
requests = [{ service = "web", count = 3, duration = "1s" }]
agents = {}
"#;

    const SERVICES: &str = r#"
balancers = ["server-rr"]
topology = { spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2" }
[[server]]
host = "h0"
[[service]]
name = "web"
address = "10.100.0.1"
port = 80
rules = "wildcard"
[[requests]]
service = "web"
count = 3
duration = "1s"
[agents]
"#;

    fn read(context: &str, key: Option<(&Key, serde_json::Value)>) -> Option<String> {
        let file = if [SERVICES, MUX, FRONT_END].contains(&context) {
            context.to_owned()
        } else {
            format!("{context}\n{}", crate::testing::SMALL)
        };
        let set = key.map(|(key, value)| {
            let place =
                if LAYOUT.repeated.contains(&key.section) { format!("{}.0", key.section) } else { key.section.into() };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            crate::input::Override::set(format!("{place}.{}", key.name).trim_start_matches('.'), &text)
        });
        let overrides: Vec<_> = set.into_iter().collect();
        let experiment =
            crate::input::Experiment::parse("t", &file, "t", std::path::Path::new("."), &overrides).ok()?;
        // The file and its canonical text differ, because they hold what the user wrote.
        let variants = experiment.variants.iter().map(|variant| (&variant.config, &variant.testbed, &variant.traffic));
        Some(format!("{:?} {:?} {:?}", experiment.rule, variants.collect::<Vec<_>>(), experiment.validation))
    }

    /// A file that sets a declared default is the same experiment.
    #[test]
    fn declared_defaults_are_the_defaults() {
        let mut untried = Vec::new();
        for key in KEYS {
            let Some(value) = key.kind.literal(key.default) else { continue };
            let sets = |context: &&&str| context.contains(&format!("{} =", key.name));
            let tried = CONTEXTS.iter().filter(|context| !sets(context)).filter(|context| {
                let (Some(without), Some(with)) = (read(context, None), read(context, Some((key, value.clone()))))
                else {
                    return false;
                };
                assert_eq!(with, without, "{}.{} = {value} after {context}", key.section, key.name);
                true
            });
            if tried.count() == 0 {
                untried.push(format!("{}.{}", key.section, key.name));
            }
        }
        assert_eq!(untried, UNTRIED, "sections that need files, and claims");
    }

    const UNTRIED: &[&str] = &[
        "topology.rate",
        "topology.delay",
        "topology.coordinates",
        "topology.hosts_per_node",
        "topology.host_rate",
        "topology.host_delay",
        "link.direction",
        "traffic.start_unit",
        "traffic.time_scale",
        "traffic.size_scale",
        "traffic.megabyte",
        "traffic.placement",
        "traffic.order",
        "traffic.rate_scale",
        "timetable.from",
        "timetable.to",
        "probes.capture_packets",
        "expect.factor",
        "expect.lowest_load_only",
    ];
}
