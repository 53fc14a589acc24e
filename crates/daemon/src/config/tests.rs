use bgp::bmp::Policy;

use super::*;

const FULL: &str = r#"
listen = "127.0.0.1:6653"
balancer = "hedera"
seed = 7
owner = 0x1234
state = "hosts.json"
[tls]
certificate = "c.pem"
key = "k.pem"
ca = "ca.pem"
crl = "crl.pem"
datapath_ids = "certificate"
[[switch]]
dpid = "a1"
certificate = "S1.example"
[http]
listen = "127.0.0.1:9000"
[api]
tls = { certificate = "web.pem", key = "/keys/web.pem" }
[log]
format = "json"
filter = "anabranch_daemon=debug"
audit = "audit.jsonl"
[control]
echo_interval = "1s"
echo_timeout = "3s"
discovery_interval = "2s"
link_timeout = "5s"
poll_interval = "500ms"
flow_idle_timeout = "9s"
ecmp_hashing = "shuffled"
[limits]
connections = 100
pending_handshakes = 10
handshake_timeout = "2s"
messages_per_s = 2000
accepts_per_s = 500
flows = 5000
service_connections = 7000
hosts = 300
hosts_per_port = 20
send_buffer_bytes = "2MB"
write_timeout = "3s"
[links]
capacity = "1Gbps"
[[link]]
dpid = "00:00:00:00:00:00:00:a1"
port = 3
capacity = "10Mbps"
[ports]
role = "link"
[[port]]
dpid = 161
port = 2
role = "either"
[hosts]
idle_timeout = "300s"
port_down_timeout = "30s"
[[host]]
mac = "00:00:00:00:00:01"
ipv4 = "10.0.0.1"
dpid = 161
port = 1
"#;

fn read(text: &str) -> Result<Settings, FileError> {
    parse("a.toml", text, Path::new("etc"))
}

#[test]
fn full_file_sets_every_key() {
    let settings = read(FULL).unwrap();
    assert_eq!(settings.balancer.entry.name, "hedera");
    let tls = settings.tls.unwrap();
    assert_eq!((tls.key.as_path(), tls.crl.as_deref()), (Path::new("etc/k.pem"), Some(Path::new("etc/crl.pem"))));
    assert_eq!(tls.datapaths.unlisted, UnlistedDatapaths::Certificate);
    assert_eq!(tls.datapaths.listed.get(&DatapathId(0xa1)).map(String::as_str), Some("s1.example"));
    assert_eq!(settings.state.as_deref(), Some(Path::new("etc/hosts.json")));
    assert_eq!(settings.http.unwrap().port(), 9000);
    let files = HttpTls { certificate: "etc/web.pem".into(), key: "/keys/web.pem".into() };
    assert_eq!(settings.http_tls, Some(files));
    let config = settings.control;
    assert_eq!((config.seed, config.owner, config.flow_idle_timeout_s), (7, 0x1234, 9));
    assert_eq!(config.poll_interval, Time::from_ms(500));
    assert_eq!(
        (config.ecmp_hashing, Settings::default().control.ecmp_hashing),
        (EcmpHashing::Shuffled, EcmpHashing::Auto)
    );
    let end = (DatapathId(0xa1), PortNo(3));
    assert_eq!(config.capacities.get(&end), Some(&Bandwidth::from_mbps(10)));
    assert_eq!((config.default_capacity, config.hosts[0].datapath), (Bandwidth::from_gbps(1), DatapathId(161)));
    assert_eq!((settings.limits.send_buffer_bytes, settings.limits.pending_handshakes), (2_000_000, 10));
    assert_eq!((config.flows_max, config.hosts_max, config.hosts_per_port), (5000, 300, 20));
    assert_eq!(config.connections_max, 7000);
    let roles = config.port_roles;
    assert_eq!((roles.of((end.0, PortNo(2))), roles.of(end)), (PortRole::Either, PortRole::Link));
    assert_eq!(
        (config.pins_hosts, config.host_idle_timeout, config.host_port_down_timeout),
        (true, Time::from_s(300), Time::from_s(30))
    );
    assert_eq!((settings.limits.messages_per_s, settings.limits.accepts_per_s), (2000, 500));
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.log.audit.as_deref(), Some(Path::new("etc/audit.jsonl")));
}

#[test]
fn empty_file_yields_defaults() {
    let settings = read("").unwrap();
    assert_eq!((settings.listen.port(), settings.http.unwrap().port()), (6653, 8080));
    assert_eq!(settings.balancer.entry.name, "sdn-ecmp");
    assert_eq!(read("[http]\nlisten = \"off\"").unwrap().http, None);
}

/// A section with uplinks to BGP peers, and nothing but the required keys.
const EDGE: &str = r#"[[uplink]]
name = "a"
port = 3
peer = "192.0.2.1"
local = "192.0.2.2"
rate = "1Gbps"
[edge]
dpid = "e1"
gateway = "10.0.0.254"
"#;

#[test]
fn edge_is_read_with_its_uplinks() {
    let more = r#"routers = ["10.9.9.2"]
routes_of = "pre-policy"
paths = "shortest"
rules = 50
routes = 60
stale_time = "9s"
hysteresis = 0.1
decrement_ttl = false
damping = false
"#;
    let settings = read(&format!("{EDGE}{more}")).unwrap();
    let bmp = settings.bmp.unwrap();
    assert_eq!((bmp.listen.port(), bmp.policy, bmp.routers.len()), (11019, Policy::Pre, 1));
    let edge = settings.control.edge.unwrap();
    assert_eq!((edge.datapath, edge.uplinks[0].port), (DatapathId(0xe1), PortNo(3)));
    assert_eq!((edge.rules_max, edge.routes_max, edge.stale_time), (50, 60, Time::from_s(9)));
    assert!(edge.shortest_only && !edge.decrements_ttl && edge.damping.suppress.is_infinite());
    assert_eq!((edge.hysteresis, edge.damping.reuse), (0.1, 750.0));
    let second = EDGE.replace("\"a\"", "\"b\"");
    let second = second.split("[edge]").next().unwrap();
    let hint = |text: &str| read(text).map(|_| ()).unwrap_err();
    for (text, message) in [
        (second.to_owned(), "a.toml:2: uplink.0.name: has no effect without [edge]"),
        ("[edge]\ndpid = 1\ngateway = \"10.0.0.254\"".to_owned(), "a.toml:2: edge.dpid: there is no uplink"),
        (format!("{second}{EDGE}"), "a.toml:9: uplink.1.port: another uplink earlier in the file has the same value"),
        (EDGE.replace("192.0.2.2", "192.0.2.1"), "a.toml:5: uplink.0.local: is the address of the peer"),
        (EDGE.replace("rate = \"1Gbps\"\n", ""), "a.toml:1: uplink.0.rate: is missing"),
        (format!("{EDGE}routers = [\"x\"]"), "a.toml:10: edge.routers: must be a list of IPv4 addresses"),
        (format!("{EDGE}suppress = 12000"), "a.toml:10: edge.suppress: no route would be suppressed"),
        (format!("{EDGE}reuse = 7000"), "a.toml:10: edge.reuse: 7000 is not below suppress, which is 6000"),
        (format!("{EDGE}rules = 1"), "a.toml:10: edge.rules: 1 is not from 2 to "),
    ] {
        let error = hint(&text);
        assert!(error.to_string().starts_with(message), "{text}: {error}");
    }
}

const TIMETABLE: &str = "[[timetable]]\nbalancer = \"hedera\"\n";

/// Every printed default equals the built-in one: a file that sets it changes nothing.
#[test]
fn printed_defaults_are_the_defaults() {
    let shown = |settings: Settings| format!("{:?}", Settings { document: None, ..settings });
    let mut count = 0;
    for key in LAYOUT.keys.iter().filter(|key| key.default.starts_with(|c: char| c == '"' || c.is_ascii_digit())) {
        // Some sections have required keys.
        let (base, section) = match key.section {
            "" => ("", String::new()),
            "edge" => (EDGE, String::new()),
            "timetable" => (TIMETABLE, String::new()),
            section => ("", format!("[{section}]\n")),
        };
        let default = shown(read(base).unwrap());
        let text = format!("{base}{section}{} = {}", key.name, key.default);
        let settings = read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shown(settings), default, "{text}");
        count += 1;
    }
    assert!(count > 20, "only {count} defaults were read");
    assert!(LAYOUT.keys.iter().all(|key| !key.doc.is_empty()));
}

const LINK_WITH_HOST: &str = r#"[[port]]
dpid = 1
port = 1
role = "link"
[[host]]
mac = "00:00:00:00:00:01"
ipv4 = "10.0.0.1"
dpid = 1
port = 1
"#;

#[test]
fn errors_name_line_key_and_remedy() {
    for (text, message, hint) in [
        ("lissen = \"x\"", "a.toml:1: lissen: there is no such key", "did you mean `listen`?"),
        (
            "balancer = \"hedera\"\n[control]\naddressing = \"portland\"",
            "a.toml:3: control.addressing: addressing = \"portland\" decides the next hops itself and needs the balancer \
             sdn-ecmp, not hedera",
            "write balancer = \"sdn-ecmp\"",
        ),
        (
            "[control]\naddressing = \"vl2\"\n[pools.p]\nbalancer = \"server-rr\"",
            "a.toml:2: control.addressing: \"vl2\" cannot go with `pools`",
            "virtual addresses, uplinks and timetables need",
        ),
        (
            "[control]\nrefuse = [\"10.0.0.1 > 10.0.0.2\"]",
            "a.toml:2: control.refuse: needs a directory of addresses",
            "only addressing = \"vl2\" has one",
        ),
        (
            "[control]\naddressing = \"vl2\"\nrefuse = [\"10.0.0.1\"]",
            "a.toml:3: control.refuse: `10.0.0.1` is not a pair of IPv4 addresses",
            "write the source first",
        ),
        ("\n[contrl]", "a.toml:2: contrl: there is no such key", "did you mean `control`?"),
        (
            "[control]\necho_intervall = \"1s\"",
            "a.toml:2: control.echo_intervall: there is no such key",
            "did you mean",
        ),
        (
            "[control]\necho_interval = 5",
            "a.toml:2: control.echo_interval: 5 has no unit",
            "write the number with its unit, in quotes",
        ),
        ("[control]\necho_interval = \"0s\"", "a.toml:2: control.echo_interval: must be above zero", ""),
        ("[control]\necho_timeout = \"1s\"", "a.toml:2: control.echo_timeout: 1s is not above echo_interval", ""),
        ("[control]\nflow_idle_timeout = \"1500ms\"", "a.toml:2: control.flow_idle_timeout: ", "whole seconds"),
        ("listen = \"localhost\"", "a.toml:1: listen: `localhost` is not an address with a port", "0.0.0.0:6653"),
        ("balancer = \"ecpm\"", "a.toml:1: balancer: unknown balancer `ecpm`; did you mean `ecmp`?", ""),
        ("balancer = \"spain\"", "a.toml:1: balancer: balancer `spain` does not run on OpenFlow switches", ""),
        ("[tls]\nkey = \"k\"", "a.toml:1: tls.certificate: is missing", "TLS needs certificate, key and ca"),
        ("[[switch]]\ndpid = 1\ncertificate = \"s1\"", "a.toml:3: switch.0.certificate: has no effect", "add [tls]"),
        (
            "[tls]\ncertificate = \"c\"\nkey = \"k\"\nca = \"a\"\n[[switch]]\ndpid = 1\ncertificate = \"s1\"\n\
             [[switch]]\ndpid = \"1\"\ncertificate = \"s2\"",
            "a.toml:9: switch.1.dpid: this datapath id already has a certificate",
            "",
        ),
        ("[api]\ntls = true", "a.toml:2: api.tls: must be a table", "tls = { certificate = "),
        ("[api]\ntls = { key = \"k\" }", "a.toml:2: api.tls.certificate: is missing", "tls = { certificate = "),
        ("[api]\ntls = { ca = \"k\" }", "a.toml:2: api.tls.ca: there is no such key", ""),
        ("[log]\nformat = \"jsn\"", "a.toml:2: log.format: `jsn` is not possible", "did you mean `json`?"),
        ("[[host]]\nmac = \"0:1\"\nipv4 = \"10.0.0.1\"\ndpid = 1\nport = 1", "a.toml:2: host.0.mac: ", ""),
        ("[[link]]\ndpid = \"xyz\"\nport = 1\ncapacity = \"1Gbps\"", "a.toml:2: link.0.dpid: ", "hexadecimal"),
        ("[[link]]\ndpid = 1\nport = 0\ncapacity = \"1Gbps\"", "a.toml:3: link.0.port: 0 is not from 1", ""),
        ("[ports]\nrole = \"hosts\"", "a.toml:2: ports.role: `hosts` is not possible", "did you mean `host`?"),
        ("[[port]]\ndpid = 1\nport = 1", "a.toml:1: port.0.role: is missing", ""),
        (LINK_WITH_HOST, "a.toml:9: host.0.port: the role of this port is `link`", "role = \"host\""),
        ("link = 3", "a.toml:1: link: must be a list of tables", "[[link]]"),
        ("seed = -1", "a.toml:1: seed: -1 is not 0 or more", ""),
        ("a = = 1", "a.toml:1: ", ""),
        ("[limits]\nmessages_per_s = 10", "a.toml:2: limits.messages_per_s: 10 is not from 100 to ", ""),
        ("[limits]\nsend_buffer_bytes = \"1B\"", "a.toml:2: limits.send_buffer_bytes: ", ""),
    ] {
        let error = read(text).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with(message), "{text}: {error}");
        assert!(error.hint.as_deref().unwrap_or("").contains(hint), "{text}: {:?}", error.hint);
    }
}

#[test]
fn datapath_id_accepts_all_notations() {
    for text in ["a1", "0xa1", "00000000000000a1", "00:00:00:00:00:00:00:a1"] {
        assert_eq!(datapath(text), Some(0xa1), "{text}");
    }
    let largest = "[[link]]\ndpid = 18446744073709551615\nport = 1\ncapacity = \"1Gbps\"";
    assert!(read(largest).unwrap().control.capacities.contains_key(&(DatapathId(u64::MAX), PortNo(1))));
    for text in ["", "0x", "g", "00000000000000000", "-1"] {
        assert_eq!(datapath(text), None, "{text}");
    }
}
