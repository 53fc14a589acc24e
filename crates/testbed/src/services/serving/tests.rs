//! Experiment files with services, checked without a network.

use std::path::Path;

use experiment::input::Variant;
use experiment::{Experiment, Override};

use super::*;

const FILE: &str = r#"
seeds = 1
balancers = ["server-rr"]
[topology]
spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=3,host_delay=10us,fabric_delay=10us"
[[server]]
host = "h2"
cores = 4
[[server]]
host = "h3"
cores = 4000
weight = 3
[[service]]
name = "web"
address = "10.100.0.1"
port = 80
member_port = 8080
pool = "all"
[[service]]
name = "alike"
address = "10.100.0.2"
port = 81
member_port = 8080
[[service]]
name = "ftp"
address = "10.100.0.1"
port = 21
[[service]]
name = "work"
address = "10.100.0.1"
port = 6789
members = ["h3"]
[[requests]]
service = "web"
count = 4
duration = "1s"
[[requests]]
service = "work"
count = 4
cpu_time = "1s"
duration = "1s"
[transport]
kind = "cubic"
[stop]
until = "1s"
[testbed]
compute = ["work"]
core_share = 0.0001
"#;

fn variant(changes: &[(&str, &str)]) -> Variant {
    let overrides: Vec<_> = changes.iter().map(|(key, value)| Override::set(key, value)).collect();
    let experiment = Experiment::parse("f.toml", FILE, "f", Path::new("."), &overrides).expect("a right file");
    experiment.variants.into_iter().next().expect("one")
}

fn plan(variant: &Variant) -> Plan<'_> {
    Plan { services: variant.config.services.as_ref().expect("services"), testbed: &variant.testbed }
}

#[test]
fn every_server_port_has_one_program() {
    let variant = variant(&[]);
    let instances = plan(&variant).instances();
    let seen: Vec<_> = instances
        .iter()
        .map(|instance| (instance.server, instance.at.port(), instance.kind, instance.services.len()))
        .collect();
    let wanted = [
        (0, 21, ServerKind::Ftp, 1),
        (0, 8080, ServerKind::Http, 2),
        (1, 21, ServerKind::Ftp, 1),
        (1, 6789, ServerKind::Compute, 1),
        (1, 8080, ServerKind::Http, 2),
    ];
    assert_eq!(seen, wanted);
    assert_eq!((plan(&variant).server_named("ah3"), plan(&variant).server_named("ah9")), (Some(1), None));
}

#[test]
fn each_data_port_has_one_member() {
    let variant = variant(&[]);
    let malob = "malob:services=21=ht-ps:htp=capacity;default=sl-ps";
    let text = config::tables(&plan(&variant), &balance::Spec::parse(malob).expect("a balancer"));
    let of = |start: &str| text.split("\n[").find(|table| table.starts_with(start)).unwrap_or_default().to_owned();
    assert!(of("services.service0]").contains("address = \"10.100.0.1\"\nport = 80\npool = \"pool0\"\n"), "{text}");
    let members = "{ name = \"server0000\", address = \"10.0.0.3\", port = 8080, weight = 1 }, \
                   { name = \"server0001\", address = \"10.0.0.4\", port = 8080, weight = 3 }";
    assert!(of("pools.pool0]").contains(members), "{}", of("pools.pool0]"));
    assert!(of("pools.pool0]").contains(&format!("balancer = \"{malob}\"")), "{text}");
    // Data ports are not in the table of services: they use the algorithm of their service's port.
    assert!(of("services.data2-1-61008]").contains("port = 61008\npool = \"data2-1\"\n"), "{text}");
    let data = of("pools.data2-1]");
    assert!(data.contains("balancer = \"ht-ps:htp=capacity\"\nmembers = [{ name = \"server0001\""), "{data}");
    assert_eq!((data.matches("name =").count(), text.matches("pool = \"data2-0\"").count()), (1, 8));
    assert_eq!(config::pools(&plan(&variant)), ["data2-0", "data2-1", "pool0", "pool1", "pool2", "pool3"]);
}

#[test]
fn unsupported_services_are_rejected_with_key() {
    let said = |key: &str, value: &str| {
        check::check(&variant(&[(key, value)])).err().map_or_else(String::new, |error| error.to_string())
    };
    assert_eq!(said("seeds", "2"), "");
    for (key, value, words) in [
        ("testbed.compute", "[\"wrk\"]", "testbed.compute: there is no service `wrk`"),
        ("testbed.ftp", "[\"web\"]", "service.port: two services of different kinds"),
        ("testbed.core_share", "1", "testbed.core_share: 4000 cores of 1 processors"),
        ("testbed.rules", "static", "testbed.rules:"),
        ("transport.kind", "newreno", "transport.kind:"),
        ("control.stats_refresh", "20s", "control.stats_refresh:"),
        ("control.packets_per_s", "2000", "control.packets_per_s:"),
        ("service.3.forwarding", "tunnel", "service.forwarding: switches cannot add an outer IP header"),
        ("requests.0.request_size", "5KB", "requests.request_size: 5000 bytes"),
        ("requests.1.cpu_time", "0s", "requests.cpu_time: is missing"),
    ] {
        let said = said(key, value);
        assert!(said.starts_with(words), "{key} = {value}: {said}");
    }
}

#[test]
fn tools_match_services() {
    let names = |variant: &Variant| check::tools(variant).into_iter().map(|(tool, _)| tool).collect::<Vec<_>>();
    assert_eq!(names(&variant(&[])), ["nginx", "vsftpd"]);
    assert_eq!(names(&variant(&[("testbed.request_client", "wget"), ("testbed.ftp", "[]")])), ["nginx", "wget"]);
}
