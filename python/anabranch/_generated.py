"""Sections of experiment files, and families of networks: written by scripts/python-classes from the lists of the program.

Do not edit: a key is declared in the program once.
"""

# ruff: noqa
from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Mapping, Sequence, TypedDict

from ._section import Section
from .topology import Topology

if TYPE_CHECKING:
    from .balancer import Balancer
    from .experiment import InputFile


class ImportOptions(TypedDict, total=False):
    """What a file of a network leaves out."""

    rate: str
    """Rate of links without one in the file (default: 10Gbps)."""
    delay: str
    """Delay of links without one in the file (default: 1us)."""
    coordinates: Literal["delays", "ignore"]
    """GraphML: whether geographic positions determine delays (default: delays)."""
    hosts_per_node: int
    """Hosts added to each switch of a file without hosts (default: 1)."""
    host_rate: str
    """Rate of the links of added hosts (default: 100Gbps)."""
    host_delay: str
    """Delay of the links of added hosts (default: 0s)."""


@dataclass
class Link(Section):
    """Section `[link]` of an experiment file."""

    link: str | None = None
    """`[[link]]` changes links of the topology; later tables replace earlier ones: one cable by name, `leaf0 -> spine1` (for parallel links `leaf0 -> spine1 #2`) (default: this or tier is required)."""
    _: KW_ONLY
    tier: int | None = None
    """All cables from this tier upwards: 0 for host links, 1 for uplinks of the lowest switches, and so on (default: this or link is required)."""
    rate: str | None = None
    """Rate (default: as in the topology)."""
    delay: str | None = None
    """Propagation delay (default: as in the topology)."""
    oversubscription: float | None = None
    """With tier: rate with which a switch has this many times as much capacity below as above (default: none)."""
    direction: Literal["both", "one-way"] | None = None
    """One-way changes only the direction as written; for a tier, upwards (default: both)."""


@dataclass
class Traffic(Section):
    """Section `[traffic]` of an experiment file."""

    workload: str | InputFile | None = None
    """Flow sizes: a published distribution, `fixed:size=1MB`, `file:path=TABLE.cdf`, …; next to a collective, of flows in its background (default: required, except for flow_list, collective and trace)."""
    _: KW_ONLY
    pattern: str | None = None
    """Senders and receivers (default: random-pairs)."""
    arrivals: str | None = None
    """Start times of flows (default: poisson)."""
    load: float | Sequence[float] | None = None
    """Offered payload / capacity of load_reference (default: required by arrivals that follow a load)."""
    load_reference: Literal["hosts", "uplinks", "bisection"] | None = None
    """Capacity that a load of 1 fills: host links, first-switch uplinks, or the bisection (default: hosts)."""
    flows: int | None = None
    """Maximum number of flows (default: none)."""
    until: str | None = None
    """Only flows that start before this time (default: none)."""
    flow_list: str | InputFile | None = None
    """Flows to replay instead: our .csv, an htsim .cm, or a coflow trace (.txt) (default: none)."""
    start_unit: Literal["ps", "us"] | None = None
    """Unit of start times in a .cm file (default: ps)."""
    max_coflows: int | None = None
    """Only this number of coflows from the beginning of a trace (default: all)."""
    time_scale: float | None = None
    """Factor on arrival times of a coflow trace, computation times of a training or execution trace, and times of a matrix (default: 1)."""
    size_scale: float | None = None
    """Factor on sizes of a trace (default: 1)."""
    megabyte: str | None = None
    """Size of a megabyte in a trace: 1MB or 1MiB (default: 1MB)."""
    collective: str | Sequence[str] | None = None
    """Collectives between ranks instead, such as `ring-all-reduce:size=64MB,group_size=8,repeat=4`; those of a list run in parallel (default: none)."""
    queue_pairs: int | None = None
    """Connections over which each flow is split in equal parts, as RDMA transfers are over queue pairs; each has its own ports, hence its own hash; every part counts as a flow (default: 1)."""
    stragglers: Sequence[int] | str | None = None
    """Late ranks of a collective: their numbers, or a share of all ranks, drawn with the seed (default: none)."""
    straggler_delay: str | None = None
    """Time that a late rank waits before each transfer, in addition to the wait for its data (default: required by stragglers)."""
    trace: str | InputFile | None = None
    """Collectives of a training run instead: an AICB trace (.csv) or SimAI workload (.txt, computation times in nanoseconds); or an execution trace with dependencies: GOAL (.goal), or Chakra with the number of the rank as {rank} (`all_reduce.{rank}.et` or `.json`) (default: none)."""
    ranks: int | None = None
    """Number of ranks of collectives; with fewer than a trace has, its data-parallel groups shrink (default: one per host; of a trace as many as it has, if there are as many hosts)."""
    placement: Literal["consecutive", "strided", "shuffled"] | None = None
    """Ranks on consecutive hosts, on racks in turn, or shuffled with the seed (default: consecutive)."""
    order: Literal["program", "group"] | None = None
    """A collective of a trace waits for the previous one of all its ranks, or only of the same group (default: program)."""
    max_collectives: int | None = None
    """Only this number of collectives from the beginning of a training trace (default: all)."""
    max_bytes: str | None = None
    """Only collectives from the beginning of a training trace that together send at most this much (default: none)."""
    matrix: str | InputFile | None = None
    """Rates between nodes in Mbit/s instead (CSV: time_s, then from>to); flows are Poisson with sizes of `workload` (default: none)."""
    rate_scale: float | None = None
    """Factor on rates of a matrix (default: 1)."""
    node_names: Sequence[str] | None = None
    """Nodes of the topology by their names in the matrix, such as ["NYCM=New York"]; the routers of Abilene are built in (default: as in the matrix)."""


@dataclass
class Server(Section):
    """Section `[server]` of an experiment file."""

    host: str | None = None
    """Name of a host that is a server (default: required)."""
    _: KW_ONLY
    cores: int | None = None
    """Number of cores; jobs share them evenly, each job at most one (default: 1)."""
    speed: float | None = None
    """Speed of a core: a job takes its `cpu_time` divided by this (default: 1)."""
    weight: int | None = None
    """Weight of the server, for balancers that use weights (default: 1)."""


@dataclass
class Service(Section):
    """Section `[service]` of an experiment file."""

    name: str | None = None
    """Name that [[requests]] refer to (default: required)."""
    _: KW_ONLY
    address: str | None = None
    """Virtual address; no host may have it (default: required)."""
    port: int | None = None
    """TCP port; MALOB selects an algorithm by it (default: required)."""
    members: Sequence[str] | None = None
    """Servers of the service (default: all servers)."""
    member_port: int | None = None
    """Port of the members (default: the service's)."""
    pool: str | None = None
    """Services with the same pool have the same members and share the balancer's state (default: the service's name)."""
    idle_timeout_s: int | None = None
    """Idle time in seconds after which the rules of a connection are removed (default: 30)."""
    rules: Literal["connection", "wildcard", "mux"] | None = None
    """Connection: each connection gets its own rules; wildcard: proactive rules divide the clients among the members; mux: the same at one switch, which all packets to members cross (default: connection)."""
    client_slots: int | None = None
    """Client slots of wildcard rules, or of a mux; a power of two (default: 64)."""
    expected_traffic: str | None = None
    """With rules = "mux": expected traffic; services with more of it get their switch first (default: 1Mbps)."""
    forwarding: Literal["rewrite", "tunnel", "splice", "redirect"] | None = None
    """Rewrite: switches translate addresses to those of a member, blind to content; tunnel: they add an outer header to a member (IP-in-IP, 20 B), which replies directly, only in the simulator; splice: a front end reads the request, connects to a member by [[content]] and relays the response; redirect: it answers with the member's address, to which the client connects (default: rewrite)."""
    front_ends: Sequence[str] | None = None
    """Servers that read requests; they are no members by default, and with rewrite or tunnel they are unused (default: required by splice, redirect)."""
    connection_time: str | None = None
    """CPU time of a front end for a connection, at speed 1; the default is measured with `anabranch testbed front-end` (default: 160us for splice, 80us for redirect)."""
    relay_rate: str | None = None
    """With splice: rate at which a core of a front end relays responses, at speed 1; the default is measured with splice(2) (default: 20Gbps)."""
    redirect_size: str | None = None
    """With redirect: size of the answer of a front end (default: 200B)."""


@dataclass
class Content(Section):
    """Section `[content]` of an experiment file."""

    service: str | None = None
    """Name of the service; the first of its [[content]] that matches a request gives the members, and without one all members may serve it; ignored with rewrite or tunnel (default: required)."""
    _: KW_ONLY
    path: str | InputFile | None = None
    """Beginning of the path, such as `/images/` (default: all paths)."""
    host: str | None = None
    """Name in the `Host` field of requests (default: all hosts)."""
    members: Sequence[str] | None = None
    """Servers that serve matching requests (default: required)."""
    balancer: str | None = None
    """Server balancer that picks among them, such as `server-least-response` (default: the run's)."""


@dataclass
class Requests(Section):
    """Section `[requests]` of an experiment file."""

    service: str | None = None
    """Name of the requested service (default: required)."""
    _: KW_ONLY
    name: str | None = None
    """Name of this request class, for claims and reports (default: the service)."""
    path: str | InputFile | None = None
    """Path of the requests, which [[content]] matches (default: /)."""
    host: str | None = None
    """Name in the `Host` field of the requests, which [[content]] matches (default: none)."""
    clients: Sequence[str] | None = None
    """Hosts that send the requests, in turn (default: all hosts that are not servers)."""
    count: int | None = None
    """Number of requests of all clients together (default: required)."""
    request_size: str | None = None
    """Size of what a client sends for each page (default: 500B)."""
    response_size: str | None = None
    """Size of the response for each page (default: 1B)."""
    pages: int | None = None
    """Pages of a request, one after another, each over a new connection (default: 1)."""
    cpu_time: str | None = None
    """CPU time of one core for a page (default: 0s)."""
    start: str | None = None
    """Earliest start of the first request (default: 0s)."""
    start_jitter: str | None = None
    """Upper bound of a random delay added to `start`, drawn for each seed (default: 0s)."""
    arrivals: Literal["paced", "poisson", "gap"] | None = None
    """Each client at equal gaps from a random start; at exponential gaps; or exactly `gap` apart (default: paced)."""
    duration: str | None = None
    """Time in which all requests start (default: required by paced, poisson)."""
    gap: str | None = None
    """Time between two requests (default: required by gap)."""


@dataclass
class Agents(Section):
    """Section `[agents]` of an experiment file."""

    report: Literal["direct", "in-band"] | None = None
    """Agents on servers report connections and CPU load to the controller over the management network, or by UDP through the switches (default: direct)."""
    _: KW_ONLY
    pause: str | None = None
    """Pause before each measurement (default: 5s)."""
    sampling: str | None = None
    """Duration of each measurement of the CPU load (default: 10s)."""


@dataclass
class Transport(Section):
    """Section `[transport]` of an experiment file."""

    kind: Literal["dctcp", "newreno", "cubic", "spray", "rdma", "udp", "annulus"] | None = None
    """Transport protocol of hosts (default: dctcp)."""
    _: KW_ONLY
    gain: float | None = None
    """Gain of the marked fraction (DCTCP, Annulus) or of alpha (DCQCN) (default: 0.0625; rdma: 1/256)."""
    rate: str | None = None
    """Constant sending rate of a UDP flow, on the wire (default: required by udp, or min_packets)."""
    min_packets: float | None = None
    """UDP: minimum of a uniform packet rate (default: none)."""
    max_packets: float | None = None
    """UDP: maximum of a uniform packet rate (default: none)."""
    sack: bool | None = None
    """TCP: recover losses from selective acknowledgements (RFC 6675); annulus always does (default: true for cubic, else false)."""
    hystart: bool | None = None
    """Cubic: slow start ends when round-trip times grow (HyStart++, RFC 9406), as in Linux (default: true)."""
    local_delay: str | None = None
    """Annulus: links with a longer delay lead to other sites (default: 100us)."""
    equilibrium: str | None = None
    """Annulus: queue length above which switches of the sender's site return feedback (default: 26kB)."""
    target_delay: str | None = None
    """Spray: target queueing delay of the window (default: 3/4 of the base round-trip time)."""
    reorder_packets: int | None = None
    """Spray: a packet counts as lost when this number of later ones has arrived (default: a bandwidth-delay product and a switch queue)."""
    packet_timeout: str | None = None
    """Spray, rdma: minimum time-out of a packet (default: the base round-trip time and three full queues)."""
    recovery: Literal["go-back-n", "selective"] | None = None
    """Rdma: loss recovery, as in RoCE or as in IRN (default: go-back-n)."""
    notify_interval: str | None = None
    """Rdma: minimum interval between a receiver's notifications of marks (default: 50us)."""
    alpha_timer: str | None = None
    """Rdma: interval at which alpha decays without notifications (default: 55us)."""
    rate_timer: str | None = None
    """Rdma: interval at which the rate is raised (default: 55us)."""
    byte_counter: str | None = None
    """Rdma: number of bytes after which the rate is also raised (default: 10MB)."""
    additive_increase: str | None = None
    """Rdma: R_AI of DCQCN (default: a thousandth of the line rate)."""
    hyper_increase: str | None = None
    """Rdma: R_HAI of DCQCN (default: a hundredth of the line rate)."""
    mss: str | None = None
    """Payload of a full packet (default: 1460B)."""
    header: str | None = None
    """Headers of a data packet (default: 40B)."""
    ack: str | None = None
    """Size of a bare ACK (default: 40B)."""
    initial_window: int | None = None
    """TCP: initial congestion window (default: 10)."""
    max_window: int | Literal["auto"] | None = None
    """Receive window; auto is twice the largest bandwidth-delay product plus one switch queue; rdma: one product, or none with go-back-n (default: auto)."""
    min_rto: str | None = None
    """TCP: minimum retransmission time-out (default: 5ms)."""
    dup_ack_threshold: int | None = None
    """TCP: duplicate ACKs that trigger a fast retransmit (default: 3)."""
    limited_transmit: bool | None = None
    """TCP: each of the first two duplicate ACKs allows one new packet (RFC 3042) (default: true)."""
    ack_every: int | None = None
    """TCP: the receiver acknowledges every n-th packet; 1 turns delayed ACKs off (default: 1)."""
    ack_timeout: str | None = None
    """Maximum delay of an ACK (default: 500us)."""
    handshake: bool | None = None
    """Begin with SYN and SYN-ACK, included in the completion time (default: false)."""
    max_timeouts: int | None = None
    """Consecutive time-outs after which a flow has failed (default: 15)."""


@dataclass
class Host(Section):
    """Section `[host]` of an experiment file."""

    queue_packets: int | None = None
    """Queue limit of a host interface (bounds UDP only) (default: 1000)."""
    _: KW_ONLY
    resequencing: Literal["auto", "on", "off"] | None = None
    """Hold packets that arrive early; auto enables it for balancers that always reorder (default: auto)."""
    resequencing_timeout: str | Literal["auto"] | None = None
    """With on: maximum time a packet is held (default: auto)."""
    resequencing_packets: int | None = None
    """With on: maximum number of packets held per flow (default: the receive window)."""
    scheduler: Literal["fair", "fifo"] | None = None
    """Scheduling of TCP flows at a host's interface: packet by packet in turn, or first come, first served (default: fair)."""
    priority_sizes: Sequence[str] | None = None
    """With traffic classes: a flow is one class more urgent for each size it does not exceed (default: none)."""
    jitter: str | None = None
    """Maximum random gap after each packet of a host; breaks phase effects between TCP flows (default: 0s)."""


@dataclass
class Switch(Section):
    """Section `[switch]` of an experiment file."""

    queue: str | None = None
    """Drop-tail limit of every switch queue (default: 100pkt)."""
    _: KW_ONLY
    ecn: str | Literal["off"] | SwitchEcn | Mapping[str, Any] | None = None
    """ECN marking: a step, off, or a linear ramp as in RED, written as `{ min, max, probability }` (default: 20pkt)."""
    reference_rate: str | None = None
    """Rate of links for which `queue` and `ecn` are given; those of other links are in proportion (default: none)."""
    control_class: bool | None = None
    """Switches serve acknowledgements, handshakes and trimmed headers before data; not with pfc (default: true with kind = spray, else false)."""
    trimming: bool | None = None
    """With kind = spray: full queues trim packets to 64 B headers instead of dropping them (default: false)."""
    pfc: bool | None = None
    """Priority flow control: switches and hosts pause instead of dropping; balancers that need it turn it on (default: false)."""
    priorities: int | None = None
    """With pfc: traffic classes, served in order of urgency (default: 1)."""
    pause_above: str | None = None
    """With pfc: buffered bytes of a class from one link above which its sender is paused (default: 40KB)."""
    resume_below: str | None = None
    """With pfc: buffered bytes at which a paused sender resumes (default: half of pause_above)."""


@dataclass
class SwitchEcn(Section):
    """Section `[switch.ecn]` of an experiment file."""

    max: str | None = None
    """Ramp: queue from which packets are marked with `probability`; above it all are (default: required)."""
    _: KW_ONLY
    min: str | None = None
    """Ramp: queue from which packets are marked (default: required)."""
    probability: float | None = None
    """Ramp: share of packets marked at `max` (default: required)."""


@dataclass
class Control(Section):
    """Section `[control]` of an experiment file."""

    latency: str | None = None
    """With central balancers: one-way delay of the control channel of each switch (default: 100us)."""
    _: KW_ONLY
    bandwidth: str | None = None
    """Rate of each control channel, in each direction (default: 1Gbps)."""
    poll_interval: str | None = None
    """Interval between two polls of counters, for balancers that need them (default: the controller's: 5s)."""
    stats_refresh: str | None = None
    """Refresh interval of the counters of switches (default: 0s)."""
    packet_in_per_s: int | None = None
    """Maximum rate of packet-ins of a switch; further ones are dropped (default: no limit)."""
    max_entries: int | None = None
    """Maximum number of entries of a flow table (default: 1000000)."""
    max_groups: int | None = None
    """Maximum number of groups of a switch (default: 100000)."""
    hash: Literal["per-switch", "identical"] | None = None
    """Hash seeds of select groups (default: per-switch)."""
    queue: Literal["reserved", "shared"] | None = None
    """Reserved: frames of the controller (discovery) are queued even in full queues; shared: they are dropped like data (default: reserved)."""
    boot: Literal["warm", "cold"] | None = None
    """Warm: the network was up and the controller knew it before time 0; cold: switches are empty at time 0 (default: warm)."""
    connect_at: str | None = None
    """With boot = cold: time at which switches connect (default: 0s)."""
    reconnect_after: str | None = None
    """Time after which a switch whose connection the controller closed reconnects (default: 1s)."""
    agent_latency: str | None = None
    """Delay between agents on hosts and the controller, in each direction (default: 100us)."""
    packets_per_s: int | None = None
    """Maximum packets per second of a switch that forwards in software, data and acknowledgements alike (default: no limit)."""
    cpu_queue_packets: int | None = None
    """With packets_per_s: maximum number of packets that wait for the CPU of a switch (default: 1000)."""
    discovery_interval: str | None = None
    """Interval between two rounds of LLDP, which also measure the latency of links; a link times out after two rounds and 5 s without a probe, at least 35 s (default: the controller's: 15s)."""
    mux_rules: int | None = None
    """Maximum number of slot rules that a switch has as the mux of services (default: 512)."""
    routing: str | None = None
    """With requests: balancer of all traffic whose path is not chosen together with its server (default: sdn-ecmp)."""
    addressing: Literal["flat", "portland", "seattle", "vl2", "trill"] | None = None
    """How hosts are addressed: one of `anabranch list addressing` (default: flat)."""
    arp: Literal["known", "resolve"] | None = None
    """Known: hosts know the Ethernet addresses of all others; resolve: they send ARP requests before their first packet (default: known with flat addresses, else resolve)."""
    refuse: Sequence[str] | None = None
    """With addressing = vl2: pairs such as "10.0.0.1 > 10.0.0.16"; the directory does not tell the first host the location of the second. Host number n has the address 10.0.0.n, counted on through 10.0.0.0/8 (default: [])."""
    legacy: Sequence[str] | str | None = None
    """Switches that take no rules and forward over the first shortest path by port: their names, or a share of all switches, those with the fewest links to other switches first; for partial-te, sdn-spt:tie=first and bounds (default: none)."""
    flow_sizes: Literal["known", "unknown"] | None = None
    """Whether agents report the total size of a flow (default: known)."""


@dataclass
class Calendar(Section):
    """Section `[calendar]` of an experiment file."""

    zone: str | None = None
    """Time zone of `[[timetable]]`: a name of the IANA time zone database, such as `Europe/Lisbon`; its rules are part of this program (default: "UTC"). """
    _: KW_ONLY
    start: str | None = None
    """Date and time in the zone at simulated time 0, such as `2026-11-27T07:59:59.5` (default: required by `[[timetable]]`)."""


@dataclass
class Timetable(Section):
    """Section `[timetable]` of an experiment file."""

    _names = {"except_": "except", "from_": "from"}
    days: Sequence[str] | None = None
    """`[[timetable]]`: what is in effect at a time of day; days of the week on which it begins, such as ["mon-fri", "sun"] (default: all days)."""
    _: KW_ONLY
    dates: Sequence[str] | None = None
    """Dates on which the entry begins, such as ["2026-12-24", "2026-12-31..2027-01-02"] (default: all dates)."""
    except_: Sequence[str] | None = None
    """Dates on which the entry does not begin (default: none)."""
    from_: str | None = None
    """Time of day at which the entry begins, such as `08:00` or `08:00:30` (default: "00:00"). """
    to: str | None = None
    """Time of day at which the entry ends; on the next day if it is not after `from` (default: "24:00"). """
    balancer: str | None = None
    """Balancer while the entry is in effect: central, or for files with requests a server balancer (default: the balancer of the run)."""
    weights: Mapping[str, Any] | None = None
    """Section `[timetable.weights]`."""


@dataclass
class Failure(Section):
    """Section `[failure]` of an experiment file."""

    kind: Literal["link-down", "link-rate", "random-drop", "blackhole", "switch-down", "channel-stall", "channel-down", "controller-down"] | None = None
    """What fails: the last three are for central balancers (default: required)."""
    _: KW_ONLY
    at: str | None = None
    """Beginning of the failure (default: 0s)."""
    until: str | None = None
    """End of the failure (default: never)."""
    detection_delay: str | None = None
    """Delay until routing detects the beginning and the end; with central balancers, until the ports of switches do (default: 10ms)."""
    direction: Literal["both", "one-way"] | None = None
    """Of link-down and link-rate: one-way concerns only packets from the first to the second end; when a link is down, with central balancers only the second end then detects it (default: both)."""
    link: str | None = None
    """`leaf0 -> spine1` (for parallel links `leaf0 -> spine1 #2`); `any` link between switches; or a share such as `20%` of the cables between the two lowest tiers of switches (default: required by link-down, link-rate; by random-drop, or switch)."""
    switch: str | None = None
    """Name of the switch (a random drop then applies in every direction); `any` or a share such as `20%` of the highest tier (default: required by blackhole, switch-down, channel-stall, channel-down; by random-drop, or link)."""
    selection_seed: int | None = None
    """Seed of `any` and shares: the same links and switches for every balancer and seed (default: 1 for the first failure, 2 for the second, …)."""
    fraction: float | None = None
    """Remaining share of the rate; share of lost pairs (default: required by link-rate, blackhole)."""
    from_rack: int | None = None
    """Of a blackhole: only pairs from hosts of this rack (default: any)."""
    to_rack: int | None = None
    """Of a blackhole: only pairs to hosts of this rack (default: any)."""
    probability: float | None = None
    """Loss probability of a packet (default: required by random-drop)."""


@dataclass
class Probes(Section):
    """Section `[probes]` of an experiment file."""

    series: bool | None = None
    """Record link load over time (default: true)."""
    _: KW_ONLY
    bin: str | None = None
    """Initial width of a time bin; interval at which queues of `links` are read (default: 10us)."""
    max_bins: int | None = None
    """Maximum number of bins; widths double when it is reached (default: 128)."""
    fixed_bins: bool | None = None
    """Keep the width, for metrics with a published window (default: false)."""
    links: Sequence[str] | None = None
    """Links, such as `leaf0 -> spine1`, whose queue and load are written to series.parquet and drawn in the report; queues are read every `bin` (default: none)."""
    capture: Sequence[str] | None = None
    """Links, such as `leaf0 -> spine1`, whose packets are written to captures/*.pcapng as they arrive; not for requests (default: none)."""
    capture_packets: int | None = None
    """With capture: maximum number of packets of a run (default: 100000)."""
    warm_up: str | None = None
    """Flows that start before this time are simulated, and left out of averages over flows and groups; not for requests (default: 0s)."""


@dataclass
class Stop(Section):
    """Section `[stop]` of an experiment file."""

    until: str | None = None
    """End of simulated time; without it a run ends when every flow has ended (default: none)."""


@dataclass
class Testbed(Section):
    """Section `[testbed]` of an experiment file."""

    source: Literal["sockets", "d-itg", "iperf3"] | None = None
    """`[testbed]` is for `anabranch testbed`, and the simulator ignores it: program that sends flows (default: sockets)."""
    _: KW_ONLY
    rules: Literal["controller", "static"] | None = None
    """Static: pre-installed rules of one shortest path, without a controller, for `sdn-spt:tie=first` (default: controller)."""
    host_learning: Literal["configured", "persisted", "learned"] | None = None
    """How the controller learns the hosts: from its configuration; from traffic, persisted in a file (`serve --state`); only from traffic (default: configured)."""
    datapath: Literal["auto", "user", "kernel"] | None = None
    """Where Open vSwitch forwards; auto uses the kernel if it has the module (default: auto)."""
    shape: bool | None = None
    """Whether links have the rates and queues of the experiment, or are as fast as the machine allows (default: true)."""
    queue_scheduling: Literal["fifo", "per-sender", "per-flow"] | None = None
    """Scheduling of switch queues: first in, first out (with Open vSwitch's userspace datapath, a full queue then always admits packets of the same port), or sending hosts in turn; per-flow: as fifo, and TCP flows of a host in turn at its own interface, as with host.scheduler = "fair" (default: fifo)."""
    sample_interval: str | None = None
    """Interval between two samples of port counters, from which the series is computed (default: 1s)."""
    preflight: str | None = None
    """Duration of the preflight check, in which paced probes verify that the network loses no packets; 0s for none (default: 5s)."""
    request_client: Literal["builtin", "wget"] | None = None
    """Client of requests to services: connections of the program itself, or GNU wget, started for each page (default: builtin)."""
    ftp: Sequence[str] | None = None
    """Services whose members run vsftpd; passive mode, with a port for each member's data connections (default: those at port 21)."""
    compute: Sequence[str] | None = None
    """Services whose requests keep a core of their server busy for `requests.cpu_time`; all others have pages served by nginx, which ignore `cpu_time` (default: none)."""
    core_share: float | None = None
    """Share of a CPU of this machine that a core of a `[[server]]` gets for jobs: six cores of 0.1 fit a machine of two (default: 1)."""


@dataclass
class Matrix(Section):
    """Section `[matrix]` of an experiment file."""

    title: str | None = None
    """Short heading of the experiment's column in `anabranch matrix` (default: the name)."""
    _: KW_ONLY
    loads: float | Sequence[float] | None = None
    """Loads in a matrix, instead of traffic.load (default: all of traffic.load)."""
    variants: Any | None = None
    """Values of swept keys in a matrix, such as `{ "transport.kind" = ["dctcp"] }` (default: all of the sweep)."""
    flows: int | None = None
    """Flows of each run in a matrix, instead of traffic.flows (default: traffic.flows)."""
    seeds: int | Sequence[int] | None = None
    """Seeds in a matrix, instead of seeds (default: seeds)."""


@dataclass
class Validation(Section):
    """Section `[validation]` of an experiment file."""

    _names = {"from_": "from"}
    from_: str | None = None
    """`[validation]` is for `anabranch testbed validate` and changes no run; metrics of the core: only time bins that end after this; needs `fixed_bins` (default: all the time)."""
    _: KW_ONLY
    until: str | None = None
    """Metrics of the core: only time bins that have ended by this; needs `fixed_bins` (default: all the time)."""
    metrics: Sequence[Literal["fct_mean_us", "fct_p50_us", "fct_p95_us", "fct_p99_us", "fct_max_us", "small_fct_mean_us", "fct_mean_to_1mb_us", "fct_mean_to_10mb_us", "slowdown_mean", "slowdown_p99", "slowdown_min", "group_mean_us", "group_max_us", "completed_share", "slowdown_lower_bound_mean", "throughput_share", "flow_share_min", "flow_share_mean", "flow_share_half", "flow_share_80", "dropped_packets", "dead_link_packets", "retransmitted_share", "reorder_extent", "queue_max_bytes", "moves", "core_cllbl_rx", "core_cllbl_tx", "core_bb_rx", "core_bb_tx", "response_mean", "response_p10", "response_median", "response_p90", "response_p99", "response_spread", "download_bytes_per_s", "server_share", "server_busy_us", "rules_edge_max", "rules_aggregation_max", "rules_core_max", "controller_cpu", "arp_answered", "arp_relayed", "arp_copies", "packet_ins"]] | None = None
    """Metrics to compare (`anabranch list metrics`) (default: the four of the core)."""
    tolerance: float | None = None
    """Maximum difference between the simulator and the testbed, as a share of the first one's value (default: 0.1)."""


@dataclass
class Expect(Section):
    """Section `[expect]` of an experiment file."""

    _names = {"from_": "from", "class_": "class"}
    id: str | None = None
    """Short name of a published claim, such as `E3.2`; `[[expect]]` changes no run and can be edited afterwards (default: required)."""
    _: KW_ONLY
    claim: str | None = None
    """The claim in a sentence (default: required)."""
    metric: Literal["fct_mean_us", "fct_p50_us", "fct_p95_us", "fct_p99_us", "fct_max_us", "small_fct_mean_us", "fct_mean_to_1mb_us", "fct_mean_to_10mb_us", "slowdown_mean", "slowdown_p99", "slowdown_min", "group_mean_us", "group_max_us", "completed_share", "slowdown_lower_bound_mean", "throughput_share", "flow_share_min", "flow_share_mean", "flow_share_half", "flow_share_80", "dropped_packets", "dead_link_packets", "retransmitted_share", "reorder_extent", "queue_max_bytes", "moves", "core_cllbl_rx", "core_cllbl_tx", "core_bb_rx", "core_bb_tx", "response_mean", "response_p10", "response_median", "response_p90", "response_p99", "response_spread", "download_bytes_per_s", "server_share", "server_busy_us", "rules_edge_max", "rules_aggregation_max", "rules_core_max", "controller_cpu", "arp_answered", "arp_relayed", "arp_copies", "packet_ins"] | None = None
    """Metric of the claim (`anabranch list metrics`) (default: required)."""
    balancer: str | Sequence[str] | None = None
    """Balancer of the claim, as in `balancers`; a list makes one claim for each (default: the only one)."""
    at_most: str | Sequence[str] | None = None
    """The metric is not above that of this balancer, paired over seeds (default: one comparison is required)."""
    factor: float | None = None
    """With at_most or at_least: factor on the other balancer's metric, such as 0.8 (default: 1)."""
    at_least: str | Sequence[str] | None = None
    """The metric is not below that of this balancer, paired over seeds (default: one comparison is required)."""
    within: Any | None = None
    """The mean over seeds is in this range (default: one comparison is required)."""
    rises_with_load: bool | None = None
    """The mean over seeds does not fall from one load to the next (default: one comparison is required)."""
    load_min: float | None = None
    """Only loads from this value on (default: all loads)."""
    load_max: float | None = None
    """Only loads up to this value (default: all loads)."""
    lowest_load_only: bool | None = None
    """Only the lowest load (default: false)."""
    from_: str | None = None
    """Metrics of the core: only time bins that end after this; needs `fixed_bins` (default: all the time)."""
    until: str | None = None
    """Metrics of the core: only time bins that have ended by this; needs `fixed_bins` (default: all the time)."""
    variant: str | None = None
    """Only this variant, as reports name it, such as `transport.min_rto=5ms` (default: all variants)."""
    class_: str | None = None
    """Metrics of requests: only those of this class (default: all requests)."""
    server: str | None = None
    """Host whose share or time is compared (default: required by server_share and server_busy_us)."""
    reason: str | None = None
    """Shown if the claim is not reproduced: the cause found in the packets (default: none)."""


@dataclass
class Fields:
    """The keys at the top of an experiment file, and its sections."""

    topology: Topology | Mapping[str, Any] | None = None
    """Section `[topology]`."""
    traffic: Traffic | Mapping[str, Any] | None = None
    """Section `[traffic]`."""
    _: KW_ONLY
    balancers: Sequence[str | type[Balancer]] | None = None
    """Balancers to compare, such as `hermes-rtt:good=1.25`; `all` is every dataplane balancer, and `all,-mptcp` all but one (default: required)."""
    seeds: int | Sequence[int] | None = None
    """Seeds 1 to n, or exactly these; the same for every balancer (default: 3)."""
    name: str | None = None
    """Short name, for the results folder and reports (default: the name of the file)."""
    title: str | None = None
    """One line for the top of the report (default: none)."""
    question: str | None = None
    """Question the experiment answers (default: none)."""
    source: str | None = None
    """Origin, such as a paper and its section (default: none)."""
    rank_by: Literal["slowdown", "throughput", "group-time"] | None = None
    """Quantity that ranks balancers: mean slowdown; throughput, for senders that do not react to congestion and flows that never end; or the mean time of groups of flows, which end with their last flow (default: slowdown; throughput for udp; group-time for collectives)."""
    margin: float | None = None
    """Difference that does not matter, as a share: balancers that surely differ by less are tied (default: 0.01)."""
    confidence: float | None = None
    """Probability that all comparisons of a point contain the true ratios (default: 0.95)."""
    fidelity: Literal["packet", "flow"] | None = None
    """Packet: every packet is simulated; flow: rates of flows, for networks too large for that, with an error that `--check-fidelity` measures (default: packet)."""
    failure: Sequence[str] | Sequence[Failure | Mapping[str, Any]] | None = None
    """Section `[[failure]]`."""
    link: Sequence[Link | Mapping[str, Any]] | None = None
    """Section `[[link]]`."""
    server: Sequence[Server | Mapping[str, Any]] | None = None
    """Section `[[server]]`."""
    service: Sequence[Service | Mapping[str, Any]] | None = None
    """Section `[[service]]`."""
    content: Sequence[Content | Mapping[str, Any]] | None = None
    """Section `[[content]]`."""
    requests: Sequence[Requests | Mapping[str, Any]] | None = None
    """Section `[[requests]]`."""
    agents: Agents | Mapping[str, Any] | None = None
    """Section `[agents]`."""
    transport: Transport | Mapping[str, Any] | None = None
    """Section `[transport]`."""
    host: Host | Mapping[str, Any] | None = None
    """Section `[host]`."""
    switch: Switch | Mapping[str, Any] | None = None
    """Section `[switch]`."""
    control: Control | Mapping[str, Any] | None = None
    """Section `[control]`."""
    calendar: Calendar | Mapping[str, Any] | None = None
    """Section `[calendar]`."""
    timetable: Sequence[Timetable | Mapping[str, Any]] | None = None
    """Section `[[timetable]]`."""
    probes: Probes | Mapping[str, Any] | None = None
    """Section `[probes]`."""
    stop: Stop | Mapping[str, Any] | None = None
    """Section `[stop]`."""
    testbed: Testbed | Mapping[str, Any] | None = None
    """Section `[testbed]`."""
    sweep: Mapping[str, Any] | None = None
    """Section `[sweep]`."""
    matrix: Matrix | Mapping[str, Any] | None = None
    """Section `[matrix]`."""
    validation: Validation | Mapping[str, Any] | None = None
    """Section `[validation]`."""
    expect: Sequence[Expect | Mapping[str, Any]] | None = None
    """Section `[[expect]]`."""


def fat_tree(
    *,
    k: int | None = None,
    hosts_per_edge: str | int | Sequence[int | str] | None = None,
    host_rate: str | None = None,
    fabric_rate: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """Fat-tree of k-port switches in three tiers (Al-Fares, Loukissas, Vahdat: A Scalable, Commodity Data Center Network Architecture, SIGCOMM 2008).

    k: ports per switch; even (default: 4).
    hosts_per_edge: hosts per edge switch (default: k/2).
    host_rate: rate of host links (default: 10Gbps).
    fabric_rate: rate of links between switches (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    fabric_delay: propagation delay of links between switches (default: 1us).
    """
    return Topology.of_family("fat-tree", {"k": k, "hosts_per_edge": hosts_per_edge, "host_rate": host_rate, "fabric_rate": fabric_rate, "host_delay": host_delay, "fabric_delay": fabric_delay})


def leaf_spine(
    *,
    leaves: int | None = None,
    spines: int | None = None,
    hosts_per_leaf: int | None = None,
    parallel: int | None = None,
    host_rate: str | None = None,
    fabric_rate: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """Leaf-spine: two tiers, every leaf linked to every spine (Alizadeh et al.: CONGA, SIGCOMM 2014 (section 5); Zhang et al.: Hermes, SIGCOMM 2017).

    leaves: leaf switches (default: 8).
    spines: spine switches (default: 8).
    hosts_per_leaf: hosts per leaf (default: 16).
    parallel: links between each leaf and spine (default: 1).
    host_rate: rate of host links (default: 10Gbps).
    fabric_rate: rate of links between switches (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    fabric_delay: propagation delay of links between switches (default: 1us).
    """
    return Topology.of_family("leaf-spine", {"leaves": leaves, "spines": spines, "hosts_per_leaf": hosts_per_leaf, "parallel": parallel, "host_rate": host_rate, "fabric_rate": fabric_rate, "host_delay": host_delay, "fabric_delay": fabric_delay})


def vl2(
    *,
    d0: int | None = None,
    d1: int | None = None,
    d2: int | None = None,
    hosts_per_tor: str | int | Sequence[int | str] | None = None,
    host_rate: str | None = None,
    fabric_rate: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """VL2: racks under a Clos of aggregation and intermediate switches (Greenberg et al.: VL2: A Scalable and Flexible Data Center Network, SIGCOMM 2009).

    d0: fabric ports per rack switch (default: 2).
    d1: ports per aggregation switch; even (default: 4).
    d2: ports per intermediate switch (default: 4).
    hosts_per_tor: hosts per rack (default: 10*d0).
    host_rate: rate of host links (default: 1Gbps).
    fabric_rate: rate of links between switches (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    fabric_delay: propagation delay of links between switches (default: 1us).
    """
    return Topology.of_family("vl2", {"d0": d0, "d1": d1, "d2": d2, "hosts_per_tor": hosts_per_tor, "host_rate": host_rate, "fabric_rate": fabric_rate, "host_delay": host_delay, "fabric_delay": fabric_delay})


def multi_tier(
    *,
    hosts_per_edge: int | None = None,
    switches: str | int | Sequence[int | str] | None = None,
    uplinks: str | int | Sequence[int | str] | None = None,
    host_rate: str | None = None,
    uplink_rates: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """Multi-tier tree with chosen oversubscription (generic; oversubscription as defined in Al-Fares et al., SIGCOMM 2008 (section 2.1)).

    hosts_per_edge: hosts per edge switch (default: 8).
    switches: switches per tier, edge first (default: 8/4/2).
    uplinks: uplinks per switch, edge tier first (default: 2/2).
    host_rate: rate of host links (default: 10Gbps).
    uplink_rates: rate of the uplinks, one or one per tier (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    fabric_delay: propagation delay of links between switches (default: 1us).
    """
    return Topology.of_family("multi-tier", {"hosts_per_edge": hosts_per_edge, "switches": switches, "uplinks": uplinks, "host_rate": host_rate, "uplink_rates": uplink_rates, "host_delay": host_delay, "fabric_delay": fabric_delay})


def rail(
    *,
    units: int | None = None,
    servers: int | None = None,
    gpus: int | None = None,
    spines: int | None = None,
    nic_rate: str | None = None,
    fabric_rate: str | None = None,
    scale_up_rate: str | None = None,
    nic_delay: str | None = None,
    fabric_delay: str | None = None,
    scale_up_delay: str | None = None,
) -> Topology:
    """Rail-optimised: port j of every server in leaf j, with a switch inside each server (NVIDIA DGX SuperPOD reference architecture; Wang et al., arXiv 2307.12169).

    units: scalable units (default: 2).
    servers: servers per unit (default: 4).
    gpus: accelerators per server, each a host; and leaves per unit (default: 4).
    spines: spines (default: 4).
    nic_rate: rate of the port of an accelerator (default: 400Gbps).
    fabric_rate: rate of links between leaves and spines (default: 400Gbps).
    scale_up_rate: rate of the link of an accelerator to the switch of its server (default: 3600Gbps).
    nic_delay: propagation delay between accelerators and leaves (default: 500ns).
    fabric_delay: propagation delay between leaves and spines (default: 500ns).
    scale_up_delay: propagation delay inside a server (default: 200ns).
    """
    return Topology.of_family("rail", {"units": units, "servers": servers, "gpus": gpus, "spines": spines, "nic_rate": nic_rate, "fabric_rate": fabric_rate, "scale_up_rate": scale_up_rate, "nic_delay": nic_delay, "fabric_delay": fabric_delay, "scale_up_delay": scale_up_delay})


def bcube(
    *,
    n: int | None = None,
    k: int | None = None,
    rate: str | None = None,
    delay: str | None = None,
) -> Topology:
    """BCube: servers with several ports forward over small switches (Guo et al.: BCube: A High Performance, Server-centric Network Architecture, SIGCOMM 2009).

    n: ports per switch; at least 2 (default: 4).
    k: highest level; servers have k+1 ports (default: 1).
    rate: rate of every link (default: 10Gbps).
    delay: propagation delay of every link (default: 1us).
    """
    return Topology.of_family("bcube", {"n": n, "k": k, "rate": rate, "delay": delay})


def camcube(
    *,
    k: int | None = None,
    rate: str | None = None,
    delay: str | None = None,
) -> Topology:
    """CamCube: a 3D torus of servers that forward (Abu-Libdeh et al.: Symbiotic Routing in Future Data Centers, SIGCOMM 2010).

    k: servers along each side; at least 3 (default: 4).
    rate: rate of every link (default: 10Gbps).
    delay: propagation delay of every link (default: 1us).
    """
    return Topology.of_family("camcube", {"k": k, "rate": rate, "delay": delay})


def flattened_butterfly(
    *,
    k: int | None = None,
    n: int | None = None,
    host_rate: str | None = None,
    fabric_rate: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """Flattened butterfly (k-ary n-flat): routers fully connected along each of n-1 dimensions (Kim, Dally, Abts: Flattened Butterfly, ISCA 2007).

    k: routers per dimension and hosts per router (default: 8).
    n: dimensions plus one; at least 2 (default: 2).
    host_rate: rate of host links (default: 10Gbps).
    fabric_rate: rate of links between switches (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    fabric_delay: propagation delay of links between switches (default: 1us).
    """
    return Topology.of_family("flattened-butterfly", {"k": k, "n": n, "host_rate": host_rate, "fabric_rate": fabric_rate, "host_delay": host_delay, "fabric_delay": fabric_delay})


def hyperx(
    *,
    sides: str | int | Sequence[int | str] | None = None,
    parallel: int | None = None,
    hosts_per_router: int | None = None,
    host_rate: str | None = None,
    fabric_rate: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """HyperX: routers fully connected along each of several dimensions (Ahn, Binkert, Davis, McLaren, Schreiber: HyperX, SC 2009).

    sides: routers along each dimension, at least 2 (default: 4/4).
    parallel: cables between two neighbours, one number or one per dimension (default: 1).
    hosts_per_router: hosts per router (default: 4).
    host_rate: rate of host links (default: 10Gbps).
    fabric_rate: rate of links between routers (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    fabric_delay: propagation delay of links between routers (default: 1us).
    """
    return Topology.of_family("hyperx", {"sides": sides, "parallel": parallel, "hosts_per_router": hosts_per_router, "host_rate": host_rate, "fabric_rate": fabric_rate, "host_delay": host_delay, "fabric_delay": fabric_delay})


def torus(
    *,
    sides: str | int | Sequence[int | str] | None = None,
    hosts_per_switch: int | None = None,
    host_rate: str | None = None,
    fabric_rate: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """Torus: switches with two neighbours along each of several dimensions (Dally, Towles: Principles and Practices of Interconnection Networks, 2004).

    sides: switches along each dimension, at least 3 (default: 4/4/4).
    hosts_per_switch: hosts per switch (default: 1).
    host_rate: rate of host links (default: 10Gbps).
    fabric_rate: rate of links between switches (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    fabric_delay: propagation delay of links between switches (default: 1us).
    """
    return Topology.of_family("torus", {"sides": sides, "hosts_per_switch": hosts_per_switch, "host_rate": host_rate, "fabric_rate": fabric_rate, "host_delay": host_delay, "fabric_delay": fabric_delay})


def dragonfly(
    *,
    p: int | None = None,
    a: int | None = None,
    h: int | None = None,
    groups: str | int | Sequence[int | str] | None = None,
    host_rate: str | None = None,
    local_rate: str | None = None,
    global_rate: str | None = None,
    host_delay: str | None = None,
    local_delay: str | None = None,
    global_delay: str | None = None,
) -> Topology:
    """Dragonfly: groups of fully connected routers, linked with all other groups (Kim, Dally, Scott, Abts: Technology-Driven, Highly-Scalable Dragonfly Topology, ISCA 2008).

    p: hosts per router (default: 2).
    a: routers per group (default: 4).
    h: links to other groups per router (default: 2).
    groups: groups; with fewer, two groups have more links (default: a*h+1).
    host_rate: rate of host links (default: 10Gbps).
    local_rate: rate of links within a group (default: 10Gbps).
    global_rate: rate of links between groups (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    local_delay: propagation delay of links within a group (default: 1us).
    global_delay: propagation delay of links between groups (default: 1us).
    """
    return Topology.of_family("dragonfly", {"p": p, "a": a, "h": h, "groups": groups, "host_rate": host_rate, "local_rate": local_rate, "global_rate": global_rate, "host_delay": host_delay, "local_delay": local_delay, "global_delay": global_delay})


def slim_fly(
    *,
    q: int | None = None,
    hosts_per_router: str | None = None,
    host_rate: str | None = None,
    fabric_rate: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """Slim fly: routers with a diameter of two (Besta, Hoefler: Slim Fly, SC 2014).

    q: an odd prime (default: 5).
    hosts_per_router: hosts per router (default: half the links to routers).
    host_rate: rate of host links (default: 10Gbps).
    fabric_rate: rate of links between routers (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    fabric_delay: propagation delay of links between routers (default: 1us).
    """
    return Topology.of_family("slim-fly", {"q": q, "hosts_per_router": hosts_per_router, "host_rate": host_rate, "fabric_rate": fabric_rate, "host_delay": host_delay, "fabric_delay": fabric_delay})


def multi_plane(
    *,
    planes: int | None = None,
    leaves: int | None = None,
    spines: int | None = None,
    hosts_per_leaf: int | None = None,
    port_rate: str | None = None,
    fabric_rate: str | None = None,
    host_delay: str | None = None,
    fabric_delay: str | None = None,
) -> Topology:
    """Multi-plane: hosts with a port in each of several equal leaf-spine networks (Araujo et al.: MRC, arXiv 2605.04333; two planes: Qian et al.: Alibaba HPN, SIGCOMM 2024).

    planes: planes, and ports of a host (default: 2).
    leaves: leaves per plane (default: 4).
    spines: spines per plane (default: 4).
    hosts_per_leaf: hosts at each leaf (default: 4).
    port_rate: rate of each port of a host (default: 100Gbps).
    fabric_rate: rate of links between leaves and spines (default: 100Gbps).
    host_delay: propagation delay of host links (default: 500ns).
    fabric_delay: propagation delay of links between leaves and spines (default: 500ns).
    """
    return Topology.of_family("multi-plane", {"planes": planes, "leaves": leaves, "spines": spines, "hosts_per_leaf": hosts_per_leaf, "port_rate": port_rate, "fabric_rate": fabric_rate, "host_delay": host_delay, "fabric_delay": fabric_delay})


def geni_wan(
    *,
    host_rate: str | None = None,
    host_delay: str | None = None,
    throughput_percent: int | None = None,
) -> Topology:
    """GENI WAN: 4 clients, 3 servers and 2 transit sites, as measured (founding document 001 (Semedo, University of Lisbon, 2014), table 4.3).

    host_rate: rate of the link between a site's host and switch (default: 100Gbps).
    host_delay: propagation delay of that link (default: 0ms).
    throughput_percent: part of the measured throughputs that the links carry, percent (default: 100).
    """
    return Topology.of_family("geni-wan", {"host_rate": host_rate, "host_delay": host_delay, "throughput_percent": throughput_percent})


def diamond(
    *,
    form: str | None = None,
    rate: str | None = None,
    delay: str | None = None,
) -> Topology:
    """Diamond: two hosts, two paths (founding document 002: the two-path example (figure 2) and the migration testbed).

    form: `two-paths` or `migration` (default: two-paths).
    rate: rate of every link (default: 100Mbps, or 1Mbps for migration).
    delay: propagation delay of every link (default: 1us).
    """
    return Topology.of_family("diamond", {"form": form, "rate": rate, "delay": delay})


def dumbbell(
    *,
    n: int | None = None,
    host_rate: str | None = None,
    bottleneck_rate: str | None = None,
    host_delay: str | None = None,
    bottleneck_delay: str | None = None,
) -> Topology:
    """Dumbbell: senders and receivers around one bottleneck (generic; the usual single-bottleneck test of transports).

    n: senders, and as many receivers (default: 2).
    host_rate: rate of host links (default: 10Gbps).
    bottleneck_rate: rate of the link in the middle (default: 10Gbps).
    host_delay: propagation delay of host links (default: 1us).
    bottleneck_delay: propagation delay of the link in the middle (default: 1us).
    """
    return Topology.of_family("dumbbell", {"n": n, "host_rate": host_rate, "bottleneck_rate": bottleneck_rate, "host_delay": host_delay, "bottleneck_delay": bottleneck_delay})


def single_switch(
    *,
    hosts: int | None = None,
    rate: str | None = None,
    delay: str | None = None,
) -> Topology:
    """Single switch with all hosts behind it (generic; the server bench of founding document 004).

    hosts: number of hosts (default: 4).
    rate: rate of every link (default: 10Gbps).
    delay: propagation delay of every link (default: 1us).
    """
    return Topology.of_family("single-switch", {"hosts": hosts, "rate": rate, "delay": delay})


__all__ = [
    "Agents",
    "Calendar",
    "Content",
    "Control",
    "Expect",
    "Failure",
    "Host",
    "ImportOptions",
    "Link",
    "Matrix",
    "Probes",
    "Requests",
    "Server",
    "Service",
    "Stop",
    "Switch",
    "SwitchEcn",
    "Testbed",
    "Timetable",
    "Traffic",
    "Transport",
    "Validation",
    "bcube",
    "camcube",
    "diamond",
    "dragonfly",
    "dumbbell",
    "fat_tree",
    "flattened_butterfly",
    "geni_wan",
    "hyperx",
    "leaf_spine",
    "multi_plane",
    "multi_tier",
    "rail",
    "single_switch",
    "slim_fly",
    "torus",
    "vl2",
]
