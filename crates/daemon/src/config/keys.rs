//! All keys of a configuration file with their meaning, used for checks, suggestions and
//! `--print-config`.

use config::keys::{Key, Kind, Layout, key};
use config::timetable;
use openflow::PortNo;

const FILE: Kind = Kind::Text("file");
const PORT: Kind = Kind::Count(1, PortNo::MAX.0 as u64);
const DATAPATH: Kind = Kind::Either(&[Kind::Count(0, u64::MAX), Kind::Text("datapath id")]);
const ROLE: Kind = Kind::Choice(&["host", "link", "either"]);
/// Memory for at least one message.
const MEMORY: Kind = Kind::Size(1 << 20, 1 << 32);

/// Returns a limit as a key of `[timetable.limits]`.
const fn scheduled(limit: Key) -> Key {
    Key { section: "timetable.limits", default: "as in `[limits]`", ..limit }
}

#[rustfmt::skip]
const LIMIT_CONNECTIONS: Key =
    key("limits", "connections", Kind::Count(1, 1_000_000), "4096", "maximum number of switch connections");
#[rustfmt::skip]
const LIMIT_PENDING_HANDSHAKES: Key =
    key("limits", "pending_handshakes", Kind::Count(1, 1_000_000), "1024", "maximum number of connections that have not finished the handshake; at the limit a new connection evicts one of the source address that has most: the oldest silent one, or the oldest one");
#[rustfmt::skip]
const LIMIT_HANDSHAKE_TIMEOUT: Key =
    key("limits", "handshake_timeout", Kind::Time, "\"10s\"", "time for the handshake, including the table read-back");
#[rustfmt::skip]
const LIMIT_MESSAGES_PER_S: Key =
    key("limits", "messages_per_s", Kind::Count(100, 100_000_000), "250000", "messages of one switch per second, with bursts of a tenth of that number; further messages wait in the socket. The unfinished handshakes of a source address share the messages of one switch");
#[rustfmt::skip]
const LIMIT_ACCEPTS_PER_S: Key =
    key("limits", "accepts_per_s", Kind::Count(100, 100_000_000), "4000", "connections accepted per second, with bursts of a hundredth of that number; further ones wait in the kernel");
#[rustfmt::skip]
const LIMIT_HTTP_CONNECTIONS: Key =
    key("limits", "http_connections", Kind::Count(1, 1_000_000), "256", "maximum number of HTTP connections; at the limit a new one closes one of the source address that has most, the oldest one without a request in progress first");
#[rustfmt::skip]
const LIMIT_HTTP_REQUEST_TIMEOUT: Key =
    key("limits", "http_request_timeout", Kind::Time, "\"10s\"", "time for an HTTP client to send a request; an HTTP connection that is idle for this time is closed");
#[rustfmt::skip]
const LIMIT_SEND_BUFFER_BYTES: Key =
    key("limits", "send_buffer_bytes", MEMORY, "\"16MiB\"", "maximum output that waits for a switch to read it; above it the connection is closed, and from a sixteenth of it on the switch is not read from");
#[rustfmt::skip]
const LIMIT_WRITE_TIMEOUT: Key =
    key("limits", "write_timeout", Kind::Time, "\"10s\"", "disconnect a switch or HTTP client that reads none of its pending output for this time");

/// The layout of configuration files.
pub static LAYOUT: Layout =
    Layout { keys: KEYS, repeated: &["link", "port", "host", "switch", "timetable", "uplink"], flat: &[] };

#[rustfmt::skip]
const KEYS: &[Key] = &[
    key("", "listen", Kind::Text("address and port"), "\"0.0.0.0:6653\"", "listen address for switches"),
    key("", "balancer", Kind::Text("specification"), "\"ecmp\"", "the central balancer; one of `anabranch list balancers`; `ecmp`, `wcmp`, `vlb` and `spt` are short for `sdn-ecmp` and so on"),
    key("", "seed", Kind::Count(0, u64::MAX), "1", "seed of all random decisions"),
    key("", "owner", Kind::Count(1, 65_535), "42923", "owner of this controller's rules and groups, in the upper 16 bits of their cookies and group ids; rules of other owners are never changed"),
    key("", "state", FILE, "none", "stores learned hosts over restarts; virtual services are stored next to it in a file whose name ends in `.services`"),
    key("", "state_versions", Kind::Count(0, 10_000), "10", "number of earlier versions of the stored virtual services that are kept next to the file, under names that end in a number"),
    key("tls", "certificate", FILE, "required", "PEM file: certificate of the controller for switches that connect by TLS; omit `[tls]` for TCP"),
    key("tls", "key", FILE, "required", "PEM file: private key of the certificate"),
    key("tls", "ca", FILE, "required", "PEM file: authorities that sign the certificates of switches; a switch without such a certificate is rejected"),
    key("tls", "crl", FILE, "none", "PEM file: lists of revoked certificates, one for each authority of `ca`; a switch whose certificate is revoked, or whose authority has no list, is rejected. The date of the next list is not checked, so that a late list does not disconnect the network"),
    key("tls", "datapath_ids", Kind::Choice(&["any", "certificate"]), "any", "datapath ids of switches without a `[[switch]]`: any, as long as there is no `[[switch]]`; or the one with which a name in the certificate begins, such as `00000000000000a1` or `00000000000000a1.example.org`"),
    key("switch", "dpid", DATAPATH, "required", "datapath id that belongs to a certificate, written as in `[[link]]`; with a `[[switch]]` other datapath ids are rejected, unless `datapath_ids` of `[tls]` allows them"),
    key("switch", "certificate", Kind::Text("name"), "required", "name in the certificate of this switch: a DNS name, or the common name of a certificate without DNS names"),
    key("http", "listen", Kind::Text("address and port, or off"), "\"127.0.0.1:8080\"", "listen address of the dashboard, the API and the metrics"),
    key("api", "tokens", FILE, "none", "a role and a token per line, and optionally `name=NAME` for the audit log; without tokens only this machine may change anything"),
    key("api", "names", Kind::List(&Kind::Text("name")), "[]", "further host names that requests may use if no tokens are configured; addresses, `localhost` and the name of this machine are always accepted. Other names are rejected, since a web page could make its own name resolve to this machine"),
    key("api.tls", "certificate", FILE, "required", "PEM file: certificate of the HTTP interface, which then accepts TLS only"),
    key("api.tls", "key", FILE, "required", "PEM file: private key of the certificate"),
    key("log", "format", Kind::Choice(&["text", "json"]), "\"text\"", "format of log lines"),
    key("log", "filter", Kind::Text("filter"), "\"info\"", "a level, or levels by module, such as `info,anabranch_daemon=debug`"),
    key("log", "audit", FILE, "none", "file of the audit log: for each change of services, pools, members or balancer a line of JSON with time, name of the token, source address, request, and the definitions before and after; it may be renamed at any time, as logrotate does"),
    key("log", "record", FILE, "none", "file of everything that the controller receives, for `anabranch replay`; an earlier recording of this name is renamed, with `.1` at the end"),
    key("log", "record_bytes", Kind::Size(1 << 20, 1 << 40), "\"1GiB\"", "maximum size of the recording, which then ends"),
    key("control", "echo_interval", Kind::Time, "\"5s\"", "send an echo request to a switch that has sent nothing for this time"),
    key("control", "echo_timeout", Kind::Time, "\"15s\"", "disconnect a switch that has sent nothing for this time; must exceed `echo_interval`"),
    key("control", "discovery_interval", Kind::Time, "\"15s\"", "time between two rounds of link discovery (LLDP)"),
    key("control", "link_timeout", Kind::Time, "\"35s\"", "remove a link that no discovery probe has crossed for this time; must exceed `discovery_interval`"),
    key("control", "poll_interval", Kind::Time, "\"5s\"", "time between two statistics requests, unless the balancer requests other times"),
    key("control", "audit_interval", Kind::Time, "\"4.5s\"", "time between two audits of a switch: rules that were removed, changed or added behind the controller's back are restored"),
    key("control", "role", Kind::Choice(&["master", "equal"]), "\"master\"", "role that the controller requests of switches: with `master` a second controller with the same `owner` cannot change rules; `equal` requests none"),
    key("control", "flow_idle_timeout", Kind::Time, "\"5s\"", "idle timeout of counting rules"),
    key("control", "ecmp_hashing", Kind::Choice(&["auto", "native", "shuffled"]), "\"auto\"", "how a switch maps flows to equal-cost next hops: by the method that suits the switch (on Open vSwitch a hash that differs between switches), by select groups with the hash of the switch, or by select groups whose bucket order differs between switches"),
    key("control", "addressing", Kind::Choice(&["flat", "portland", "seattle", "vl2", "trill"]), "\"flat\"", "how hosts are addressed: one of `anabranch list addressing`; a change needs a restart, and hosts keep old addresses in their ARP caches for a while"),
    key("control", "refuse", Kind::List(&Kind::Text("pair of addresses")), "[]", "with addressing = \"vl2\": pairs such as \"10.0.0.1 > 10.0.0.16\"; the directory does not tell the first host the location of the second"),
    LIMIT_CONNECTIONS,
    LIMIT_PENDING_HANDSHAKES,
    LIMIT_HANDSHAKE_TIMEOUT,
    LIMIT_MESSAGES_PER_S,
    LIMIT_ACCEPTS_PER_S,
    LIMIT_HTTP_CONNECTIONS,
    LIMIT_HTTP_REQUEST_TIMEOUT,
    key("limits", "flows", Kind::Count(1, 100_000_000), "32768", "maximum number of flows reported to the balancer; further flows use the default routes, and switches still count them"),
    key("limits", "mux_rules", Kind::Count(1, 1_000_000), "512", "maximum number of slot rules that a switch has as the mux of services with `rules = \"mux\"`"),
    key("limits", "service_connections", Kind::Count(1, 100_000_000), "250000", "maximum number of connections to virtual services; further ones are refused"),
    key("limits", "hosts", Kind::Count(1, 1_000_000), "10000", "maximum number of learned hosts"),
    key("limits", "hosts_per_port", Kind::Count(1, 1_000_000), "256", "maximum number of learned hosts at one port"),
    LIMIT_SEND_BUFFER_BYTES,
    key("limits", "read_back_bytes", MEMORY, "\"64MiB\"", "memory for the ports, groups and rules of one switch while they are read after it connects; a switch that reports more is disconnected. All switches that are being read may take four times as much together"),
    LIMIT_WRITE_TIMEOUT,
    key("links", "capacity", Kind::Bandwidth, "\"10Gbps\"", "capacity of links that `[[link]]` does not name; the speeds that switches report are ignored (Open vSwitch always reports 10 Gbit/s)"),
    key("link", "dpid", DATAPATH, "required", "datapath id of the switch: a number, or up to 16 hexadecimal digits as text"),
    key("link", "port", PORT, "required", "egress port of the link"),
    key("link", "capacity", Kind::Bandwidth, "required", "capacity of the link"),
    key("ports", "role", ROLE, "\"either\"", "role of ports that neither `[[port]]` nor a pinned `[[host]]` names: `host` for ports that lead to hosts only, which never become links; `link` for ports that lead to switches only; `either` to let discovery decide, which two hosts that relay frames can deceive"),
    key("port", "dpid", DATAPATH, "required", "datapath id of the switch, written as in `[[link]]`"),
    key("port", "port", PORT, "required", "port of that switch"),
    key("port", "role", ROLE, "required", "role of the port, as in `[ports]`"),
    key("hosts", "pinned", Kind::Flag, "true", "whether a configured host stays at its port, and its port has the role `host` unless `[[port]]` names it; otherwise configured hosts move like learned ones"),
    key("hosts", "idle_timeout", Kind::Time, "\"600s\"", "time after which a learned host that has sent no ARP packet is sent ARP requests, and forgotten if it does not reply"),
    key("hosts", "port_down_timeout", Kind::Time, "\"60s\"", "time after which a learned host is forgotten whose port is down or missing"),
    key("host", "mac", Kind::Text("Ethernet address"), "required", "Ethernet address of a configured host, which needs no ARP request"),
    key("host", "ipv4", Kind::Text("IPv4 address"), "required", "address of the host"),
    key("host", "dpid", DATAPATH, "required", "datapath id of its switch, written as in `[[link]]`"),
    key("host", "port", PORT, "required", "port of that switch"),
    key("edge", "dpid", DATAPATH, "required", "datapath id of the switch with the uplinks to BGP peers, written as in `[[link]]`; omit `[edge]` without such uplinks"),
    key("edge", "gateway", Kind::Text("IPv4 address"), "required", "address of the default route of hosts; it must not belong to a host, since the controller answers ARP requests for it"),
    key("edge", "listen", Kind::Text("address and port"), "\"127.0.0.1:11019\"", "listen address for BMP sessions, over which routers report the routes of their BGP peers"),
    key("edge", "routers", Kind::List(&Kind::Text("IPv4 address")), "[\"127.0.0.1\"]", "source addresses of BMP sessions; others are rejected"),
    key("edge", "routes_of", Kind::Choice(&["post-policy", "pre-policy"]), "\"post-policy\"", "routes that are used: those that the inbound policy of the router has accepted and changed, or those that peers sent"),
    key("edge", "paths", Kind::Choice(&["any", "shortest"]), "\"any\"", "peers that may carry a prefix, of those with the highest local preference: any, or those with the shortest AS path"),
    key("edge", "rules", Kind::Count(2, 1_000_000), "1000", "maximum number of rules to BGP peers; with more prefixes than rules the rules lead to blocks of addresses"),
    key("edge", "routes", Kind::Count(1, 100_000_000), "2000000", "maximum number of routes of all peers together; further ones are ignored and counted"),
    key("edge", "stale_time", Kind::Time, "\"120s\"", "time for which routes stay in use after the BMP session was lost or the controller was restarted, unless they are reported again"),
    key("edge", "hysteresis", Kind::Positive(1.0), "0.05", "difference of the utilisations of two uplinks up to which no prefix is moved"),
    key("edge", "decrement_ttl", Kind::Flag, "true", "whether the switch takes one from the TTL of routed packets; false for switches without this action"),
    key("edge", "damping", Kind::Flag, "true", "whether flapping routes are damped (RFC 2439)"),
    key("edge", "suppress", Kind::Positive(1e6), "6000", "penalty above which a route is not used; a withdrawal or the loss of the peer adds 1000, a change 500"),
    key("edge", "reuse", Kind::Positive(1e6), "750", "penalty below which the route is used again"),
    key("edge", "half_life", Kind::Time, "\"900s\"", "time in which a penalty halves"),
    key("edge", "suppress_max", Kind::Time, "\"3600s\"", "maximum time from the last flap until a route is used again"),
    key("uplink", "name", Kind::Text("name"), "required", "name of an uplink in the API and in metrics"),
    key("uplink", "port", PORT, "required", "port of the switch of `[edge]` that leads to the peer"),
    key("uplink", "peer", Kind::Text("IPv4 address"), "required", "address of the BGP peer, and next hop of all packets that leave here; to name its Ethernet address instead of learning it by ARP, add a `[[host]]`"),
    key("uplink", "local", Kind::Text("IPv4 address"), "required", "address of the own router on this uplink, from which it has its BGP session"),
    key("uplink", "rate", Kind::Bandwidth, "required", "rate of the uplink, by which the load is divided"),
    key("services", "health_check_address", Kind::Text("IPv4 address"), "none", "source address of health checks and destination of in-band reports; it must not belong to a host. Without it there are no health checks"),
    key("services", "NAME", Kind::Form("table"), "none", "`[services.NAME]`: a virtual service; its fields are those of `ServiceSpec` in the HTTP API"),
    key("pools", "NAME", Kind::Form("table"), "none", "`[pools.NAME]`: a pool; its fields are those of `PoolSpec` in the HTTP API"),
    timetable::ZONE,
    timetable::START,
    timetable::DAYS,
    timetable::DATES,
    timetable::EXCEPT,
    timetable::FROM,
    timetable::TO,
    key("timetable", "balancer", Kind::Text("specification"), "`balancer` of the file", "the central balancer while the entry is in effect"),
    scheduled(LIMIT_CONNECTIONS),
    scheduled(LIMIT_PENDING_HANDSHAKES),
    scheduled(LIMIT_HANDSHAKE_TIMEOUT),
    scheduled(LIMIT_MESSAGES_PER_S),
    scheduled(LIMIT_ACCEPTS_PER_S),
    scheduled(LIMIT_HTTP_CONNECTIONS),
    scheduled(LIMIT_HTTP_REQUEST_TIMEOUT),
    scheduled(LIMIT_SEND_BUFFER_BYTES),
    scheduled(LIMIT_WRITE_TIMEOUT),
    key("timetable.pools", "NAME", Kind::Text("specification"), "as in `[pools.NAME]`", "balancer of this pool of the file while the entry is in effect"),
    key("timetable.weights", "NAME", Kind::Form("{ member = weight }"), "as in `[pools.NAME]`", "weights of members of this pool of the file while the entry is in effect; a member of weight 0 gets no new connections"),
];
