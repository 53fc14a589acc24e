//! Every key a configuration file can have, with its meaning: checked against, suggested from, and printed.

use net::keys::{Key, key};

/// Sections that may come several times (`[[link]]`).
pub const REPEATED: &[&str] = &["link", "host"];

/// All keys, in the order of the chapters of a file.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("", "listen", "address and port", "\"0.0.0.0:6653\"", "where switches connect to"),
    key("", "balancer", "specification", "\"ecmp\"", "who decides: a central balancer of `anabranch list balancers`; `ecmp`, `wcmp`, `vlb` and `spt` are other names of `sdn-ecmp` and so on"),
    key("", "seed", "count", "1", "seed of whatever is drawn"),
    key("", "owner", "1 to 65535", "42923", "mark of this controller's rules, in the upper 16 bits of their cookies; rules with another mark are left alone"),
    key("", "state", "file", "none", "hosts are remembered in this file over restarts, and virtual services in one beside it, with `.services` at the end of its name"),
    key("tls", "certificate", "file", "required", "PEM: the controller's certificate, for switches that connect by TLS; `[tls]` is left out for TCP"),
    key("tls", "key", "file", "required", "PEM: its private key"),
    key("tls", "ca", "file", "required", "PEM: authorities that sign switches' certificates; a switch without one is refused"),
    key("http", "listen", "address and port, or off", "\"127.0.0.1:8080\"", "where the page, the API and the metrics are"),
    key("api", "tokens", "file", "none", "who may do what: a role and a token per line"),
    key("api", "tls", "{ certificate, key }", "none", "PEM files: the HTTP interface is offered by TLS alone"),
    key("log", "format", "text|json", "\"text\"", "form of a line of the log"),
    key("log", "filter", "filter", "\"info\"", "what is logged: a level, or levels by part, such as `info,anabranch_daemon=debug`"),
    key("control", "echo_interval", "time", "\"5s\"", "a switch that has been silent so long is asked for a sign of life"),
    key("control", "echo_timeout", "time", "\"15s\"", "a switch that has been silent so long is given up; above `echo_interval`"),
    key("control", "discovery_interval", "time", "\"15s\"", "time between two rounds of link discovery (LLDP)"),
    key("control", "link_timeout", "time", "\"35s\"", "a link that no probe has crossed for so long is given up; above `discovery_interval`"),
    key("control", "poll_interval", "time", "\"5s\"", "time between two readings of counters, where the balancer does not ask for others"),
    key("control", "flow_idle_timeout", "whole seconds", "\"5s\"", "rules that count flows go when nothing has used them for so long"),
    key("control", "spread", "auto|switch|shuffled", "\"auto\"", "how equal next hops are told apart: by what suits the switch (on Open vSwitch a hash of its own for each switch), by select groups as the switch hashes, or by select groups in an order of its own for each switch"),
    key("limits", "connections", "count", "4096", "connections of switches at once"),
    key("limits", "handshaking", "count", "1024", "connections at once that have not finished the handshake; the oldest silent one goes when another comes"),
    key("limits", "handshake_timeout", "time", "\"10s\"", "time for the handshake, until the switch's state has been read"),
    key("limits", "messages_per_s", "100 or more", "250000", "messages of one switch per second, a tenth of it at once; what comes faster waits in its socket"),
    key("limits", "accepts_per_s", "100 or more", "4000", "connections accepted per second, a hundredth of it at once; others wait in the kernel"),
    key("limits", "flows", "count", "32768", "flows the balancer is told of; those beyond are counted by the switches"),
    key("limits", "service_connections", "count", "250000", "connections to virtual addresses that are known at once; further ones are refused"),
    key("limits", "hosts", "count", "10000", "hosts that are learnt"),
    key("limits", "hosts_per_port", "count", "256", "hosts that are learnt at one port"),
    key("limits", "output_bytes", "1MiB to 4GiB", "\"16MiB\"", "bytes that may wait for a switch to read them; beyond, its connection is closed, and from a sixteenth of it on the switch is not read from"),
    key("limits", "write_timeout", "time", "\"10s\"", "a switch that reads nothing of what waits for it for so long is disconnected"),
    key("links", "capacity", "bandwidth", "\"10Gbps\"", "capacity of links that `[[link]]` does not name; switches' own words are not believed (Open vSwitch always says 10 Gbit/s)"),
    key("link", "switch", "switch", "required", "number of a switch: a number, or up to 16 hexadecimal digits as text"),
    key("link", "port", "port", "required", "the port the link leaves by"),
    key("link", "capacity", "bandwidth", "required", "its capacity"),
    key("host", "mac", "Ethernet address", "required", "of a host that is known beforehand and need not be asked for"),
    key("host", "ipv4", "IPv4 address", "required", "its address"),
    key("host", "switch", "switch", "required", "the switch it is at, written as in `[[link]]`"),
    key("host", "port", "port", "required", "the port there"),
    key("services", "checker", "IPv4 address", "none", "where health checks come from and in-band reports go to; no host has it. Without it there are no health checks"),
    key("services", "NAME", "table", "none", "`[services.NAME]`: a virtual service; its fields are those of `ServiceSpec` in the HTTP API"),
    key("pools", "NAME", "table", "none", "`[pools.NAME]`: a pool; its fields are those of `PoolSpec` in the HTTP API"),
];
