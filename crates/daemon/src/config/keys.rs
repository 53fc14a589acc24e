//! All keys of a configuration file with their meaning, used for checks, suggestions and
//! `--print-config`.

use config::keys::{Key, key};

/// Sections that may occur several times (`[[link]]`).
pub const REPEATED: &[&str] = &["link", "host"];

/// All keys, in the order of the sections of a file.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("", "listen", "address and port", "\"0.0.0.0:6653\"", "listen address for switches"),
    key("", "balancer", "specification", "\"ecmp\"", "the central balancer; one of `anabranch list balancers`; `ecmp`, `wcmp`, `vlb` and `spt` are short for `sdn-ecmp` and so on"),
    key("", "seed", "count", "1", "seed of all random decisions"),
    key("", "owner", "1 to 65535", "42923", "owner of this controller's rules and groups, in the upper 16 bits of their cookies and group ids; rules of other owners are never changed"),
    key("", "state", "file", "none", "stores learned hosts over restarts; virtual services are stored next to it in a file whose name ends in `.services`"),
    key("tls", "certificate", "file", "required", "PEM file: certificate of the controller for switches that connect by TLS; omit `[tls]` for TCP"),
    key("tls", "key", "file", "required", "PEM file: private key of the certificate"),
    key("tls", "ca", "file", "required", "PEM file: authorities that sign the certificates of switches; a switch without such a certificate is rejected"),
    key("http", "listen", "address and port, or off", "\"127.0.0.1:8080\"", "listen address of the dashboard, the API and the metrics"),
    key("api", "tokens", "file", "none", "a role and a token per line; without tokens only this machine may change anything"),
    key("api", "names", "list of names", "[]", "further host names that requests may use if no tokens are configured; addresses, `localhost` and the name of this machine are always accepted. Other names are rejected, since a web page could make its own name resolve to this machine"),
    key("api", "tls", "{ certificate, key }", "none", "PEM files; with them the HTTP interface accepts TLS only"),
    key("log", "format", "text|json", "\"text\"", "format of log lines"),
    key("log", "filter", "filter", "\"info\"", "a level, or levels by module, such as `info,anabranch_daemon=debug`"),
    key("control", "echo_interval", "time", "\"5s\"", "send an echo request to a switch that has sent nothing for this time"),
    key("control", "echo_timeout", "time", "\"15s\"", "disconnect a switch that has sent nothing for this time; must exceed `echo_interval`"),
    key("control", "discovery_interval", "time", "\"15s\"", "time between two rounds of link discovery (LLDP)"),
    key("control", "link_timeout", "time", "\"35s\"", "remove a link that no discovery probe has crossed for this time; must exceed `discovery_interval`"),
    key("control", "poll_interval", "time", "\"5s\"", "time between two statistics requests, unless the balancer requests other times"),
    key("control", "flow_idle_timeout", "whole seconds", "\"5s\"", "idle timeout of counting rules"),
    key("control", "spread", "auto|switch|shuffled", "\"auto\"", "how a switch maps flows to equal-cost next hops: by the method that suits the switch (on Open vSwitch a hash that differs between switches), by select groups with the hash of the switch, or by select groups whose bucket order differs between switches"),
    key("limits", "connections", "count", "4096", "maximum number of switch connections"),
    key("limits", "handshaking", "count", "1024", "maximum number of connections that have not finished the handshake; at the limit a new connection evicts the oldest one, silent ones first"),
    key("limits", "handshake_timeout", "time", "\"10s\"", "time for the handshake, including the table read-back"),
    key("limits", "messages_per_s", "100 or more", "250000", "messages of one switch per second, with bursts of a tenth of that number; further messages wait in the socket"),
    key("limits", "accepts_per_s", "100 or more", "4000", "connections accepted per second, with bursts of a hundredth of that number; further ones wait in the kernel"),
    key("limits", "http_connections", "count", "256", "maximum number of HTTP connections; at the limit the oldest one without a request in progress is closed"),
    key("limits", "http_request_timeout", "time", "\"10s\"", "time for an HTTP client to send a request; an HTTP connection that is idle for this time is closed"),
    key("limits", "flows", "count", "32768", "maximum number of flows reported to the balancer; further flows use the default routes, and switches still count them"),
    key("limits", "service_connections", "count", "250000", "maximum number of connections to virtual services; further ones are refused"),
    key("limits", "hosts", "count", "10000", "maximum number of learned hosts"),
    key("limits", "hosts_per_port", "count", "256", "maximum number of learned hosts at one port"),
    key("limits", "output_bytes", "1MiB to 4GiB", "\"16MiB\"", "maximum output that waits for a switch to read it; above it the connection is closed, and from a sixteenth of it on the switch is not read from"),
    key("limits", "read_back_bytes", "1MiB to 4GiB", "\"64MiB\"", "memory for the ports, groups and rules of one switch while they are read after it connects; a switch that reports more is disconnected. All switches that are being read may take four times as much together"),
    key("limits", "write_timeout", "time", "\"10s\"", "disconnect a switch or HTTP client that reads none of its pending output for this time"),
    key("links", "capacity", "bandwidth", "\"10Gbps\"", "capacity of links that `[[link]]` does not name; the speeds that switches report are ignored (Open vSwitch always reports 10 Gbit/s)"),
    key("link", "switch", "switch", "required", "datapath id of the switch: a number, or up to 16 hexadecimal digits as text"),
    key("link", "port", "port", "required", "egress port of the link"),
    key("link", "capacity", "bandwidth", "required", "capacity of the link"),
    key("host", "mac", "Ethernet address", "required", "Ethernet address of a configured host, which needs no ARP request"),
    key("host", "ipv4", "IPv4 address", "required", "address of the host"),
    key("host", "switch", "switch", "required", "datapath id of its switch, written as in `[[link]]`"),
    key("host", "port", "port", "required", "port of that switch"),
    key("services", "checker", "IPv4 address", "none", "source address of health checks and destination of in-band reports; it must not belong to a host. Without it there are no health checks"),
    key("services", "NAME", "table", "none", "`[services.NAME]`: a virtual service; its fields are those of `ServiceSpec` in the HTTP API"),
    key("pools", "NAME", "table", "none", "`[pools.NAME]`: a pool; its fields are those of `PoolSpec` in the HTTP API"),
];
