//! Virtual services over the API: created, read, changed and removed by name. Errors name the field
//! and change nothing. Acknowledged changes survive a restart.

use std::net::SocketAddr;
use std::path::Path;

use crate::common::{Fabric, ask, fat_tree, get, request, served, settings, wait};
use anabranch_daemon::{Daemon, Settings, StartError, config};
use net::HostIx;
use openflow::{Headers, MacAddr, frame};
use serde_json::{Value, json};

fn make_web(http: SocketAddr) {
    let members = json!([{"name": "a", "address": "10.0.0.1"}, {"name": "b", "address": "10.0.0.2", "port": 8080}]);
    let pool = json!({"name": "servers", "members": members});
    let web = json!({"name": "web", "address": "10.255.0.1", "port": 80, "pool": "servers"});
    for (path, body) in [("/v1/pools", pool), ("/v1/services", web)] {
        let (status, made) = ask(http, "POST", path, Some(body));
        assert_eq!(status, 201, "{made}");
    }
}

#[test]
fn services_created_read_changed_and_removed_by_name() {
    let (_daemon, http) = served(|_| {});
    make_web(http);
    let web = get(http, "/v1/services/web");
    assert_eq!((&web["id"], &web["origin"], &web["port"]), (&json!(1), &json!("api"), &json!(80)));
    assert_eq!((&web["mac"], &web["idle_timeout_s"]), (&json!("06:a7:0a:ff:00:01"), &json!(300)));
    assert_eq!(web["members"].as_array().map(Vec::len), Some(2));
    assert_eq!(web["members"][0]["state"], "unknown", "no switch is connected: {web}");
    let pool = get(http, "/v1/pools/servers");
    assert_eq!((&pool["services"], &pool["balancer"]), (&json!(["web"]), &json!("server-rr")));
    assert_eq!((&pool["members"][1]["name"], &pool["members"][1]["port"]), (&json!("b"), &json!(8080)));

    let (status, drained) =
        ask(http, "PATCH", "/v1/pools/servers/members/b", Some(json!({"is_enabled": false, "weight": 3})));
    assert_eq!((status, &drained["is_enabled"], &drained["weight"]), (200, &json!(false), &json!(3)));
    assert_eq!(drained["port"], 8080, "other fields are unchanged");
    let (status, _) = ask(http, "PATCH", "/v1/pools/servers/members/b", Some(json!({"port": null})));
    assert_eq!((status, &get(http, "/v1/pools/servers/members/b")["port"]), (200, &Value::Null));
    let (status, added) = ask(http, "PUT", "/v1/pools/servers/members/c", Some(json!({"address": "10.0.0.3"})));
    assert_eq!((status, &added["id"]), (201, &json!(4)), "b is a new member since its port changed");
    assert_eq!(ask(http, "DELETE", "/v1/pools/servers/members/a", None).0, 204);
    let left: Vec<_> =
        get(http, "/v1/pools/servers/members").as_array().expect("a list").iter().map(|m| m["name"].clone()).collect();
    assert_eq!(left, ["b", "c"]);
    let (status, changed) =
        ask(http, "PATCH", "/v1/pools/servers", Some(json!({"balancer": "maglev", "on_unavailable": "drop"})));
    assert_eq!((status, &changed["balancer"], &changed["on_unavailable"]), (200, &json!("maglev"), &json!("drop")));

    assert_eq!(
        (&web["rules"], &web["client_slots"], &web["client_slots_migrating"]),
        (&json!("connection"), &json!(64), &json!(0))
    );
    let (status, wild) = ask(http, "PATCH", "/v1/services/web", Some(json!({"rules": "wildcard", "client_slots": 8})));
    assert_eq!((status, &wild["rules"], &wild["client_slots"]), (200, &json!("wildcard"), &json!(8)), "{wild}");
    let (status, problem) = ask(http, "PATCH", "/v1/pools/servers", Some(json!({"balancer": "server-rr"})));
    assert_eq!(
        (status, &problem["field"]),
        (422, &json!("services.web.rules")),
        "its rules need another balancer: {problem}"
    );

    let (status, problem) = ask(http, "DELETE", "/v1/pools/servers", None);
    assert_eq!(status, 409, "{problem}");
    let (status, web) = ask(http, "PATCH", "/v1/services/web", Some(json!({"pool": null})));
    assert_eq!((status, &web["pool"], &web["members"]), (200, &Value::Null, &json!([])));
    assert_eq!(ask(http, "DELETE", "/v1/pools/servers", None).0, 204);
    let moved = json!({"address": "10.255.0.1", "port": 81, "protocol": "udp"});
    assert_eq!(ask(http, "PUT", "/v1/services/web", Some(moved)).0, 200);
    assert_eq!(ask(http, "DELETE", "/v1/services/web", None).0, 204);
    assert_eq!((get(http, "/v1/services"), get(http, "/v1/pools")), (json!([]), json!([])));
}

#[test]
fn invalid_changes_name_field_and_change_nothing() {
    let (_daemon, http) = served(|_| {});
    make_web(http);
    let state = || (get(http, "/v1/services"), get(http, "/v1/pools"));
    let before = state();
    let web = |field: &str, value: Value| {
        let mut body = json!({"address": "10.255.0.2", "port": 80, "pool": "servers"});
        body[field] = value;
        body
    };
    for (method, path, body, status, field) in [
        ("PUT", "/v1/services/x", web("address", json!("10.0.0.1")), 422, "address"),
        ("PUT", "/v1/services/x", web("address", json!("10.0.0.256")), 422, "address"),
        ("PUT", "/v1/services/x", web("address", json!("10.255.0.1")), 422, "port"),
        ("PUT", "/v1/services/x", web("port", json!(65536)), 422, "port"),
        ("PUT", "/v1/services/x", web("port", json!("80")), 422, "port"),
        ("PUT", "/v1/services/x", web("protocol", json!("sctp")), 422, "protocol"),
        ("PUT", "/v1/services/x", web("pool", json!("absent")), 422, "pool"),
        ("PUT", "/v1/services/x", web("name", json!("y")), 422, "name"),
        ("PATCH", "/v1/services/web", json!({"idle_timeout_s": 0}), 422, "idle_timeout_s"),
        ("PATCH", "/v1/services/web", json!({"address": null}), 422, "address"),
        ("PATCH", "/v1/services/web", json!({"rules": "both"}), 422, "rules"),
        ("PATCH", "/v1/services/web", json!({"rules": "wildcard"}), 422, "rules"),
        ("PATCH", "/v1/services/web", json!({"client_slots": 100}), 422, "client_slots"),
        ("POST", "/v1/services", web("prot", json!(1)), 422, "name"),
        ("POST", "/v1/services", web("name", json!("a/b")), 422, "name"),
        ("POST", "/v1/services", web("name", json!("web")), 409, ""),
        ("POST", "/v1/pools", json!({"name": "servers"}), 409, ""),
        ("PUT", "/v1/pools/p", json!({"balancer": "server-rrr"}), 422, "balancer"),
        ("PUT", "/v1/pools/p", json!({"monitor": {"check": "ping"}}), 422, "monitor.check"),
        ("PUT", "/v1/pools/p", json!({"monitor": {"check": "icmp"}}), 422, "monitor"),
        ("PUT", "/v1/pools/p", json!({"members": [{"name": "a"}]}), 422, "members[0].address"),
        (
            "PATCH",
            "/v1/pools/servers",
            json!({"members": [{"name": "a", "address": "10.255.0.1"}]}),
            422,
            "members[0].address",
        ),
        ("POST", "/v1/pools/servers/members", json!({"name": "a", "address": "10.0.0.9"}), 409, ""),
        ("POST", "/v1/pools/servers/members", json!({"name": "c", "address": "10.255.0.1"}), 422, "address"),
        ("PUT", "/v1/pools/servers/members/b", json!({"address": "10.0.0.2", "port": 0}), 422, "port"),
        ("PUT", "/v1/pools/absent/members/b", json!({"address": "10.0.0.2"}), 404, ""),
        ("PATCH", "/v1/services/absent", json!({}), 404, ""),
        ("PATCH", "/v1/pools/servers", json!([1]), 422, ""),
    ] {
        let (found, problem) = ask(http, method, path, Some(body.clone()));
        assert_eq!(found, status, "{method} {path} {body}: {problem}");
        assert_eq!(problem["field"].as_str().unwrap_or_default(), field, "{method} {path} {body}: {problem}");
        assert_eq!(state(), before, "{method} {path} {body}");
    }
    for (method, path, status) in [
        ("DELETE", "/v1/services/absent", 404),
        ("DELETE", "/v1/pools/servers", 409),
        ("DELETE", "/v1/pools/servers/members/absent", 404),
        ("GET", "/v1/services/a%20b", 404),
        ("DELETE", "/v1/services", 405),
    ] {
        assert_eq!(ask(http, method, path, None).0, status, "{method} {path}");
    }
    assert_eq!(request(http, "POST", "/v1/services", Some("{")).0, 400);
    let huge = format!(r#"{{"name": "{}"}}"#, "x".repeat(100_000));
    assert_eq!(request(http, "POST", "/v1/services", Some(&huge)).0, 413);
    assert_eq!(state(), before);
}

#[test]
fn connected_members_are_up() {
    let (daemon, http) = served(|_| {});
    make_web(http);
    let address = |host| net::address::host_ipv4(net::HostIx(host)).to_string();
    for (name, host) in [("a", 0), ("b", 5)] {
        let body = json!({"address": address(host)});
        assert_eq!(ask(http, "PUT", &format!("/v1/pools/servers/members/{name}"), Some(body)).0, 200);
    }
    let fabric = Fabric::start(fat_tree(), daemon.openflow);
    fabric.wait_reached();
    wait("both members are up", || {
        let members = get(http, "/v1/services/web")["members"].clone();
        members.as_array().expect("a list").iter().filter(|member| member["state"] == "up").count() == 2
    });
}

/// Sends a packet of a client to the virtual address from this port.
fn call(fabric: &Fabric, client: u32, port: u16) {
    let (address, vip) = (net::address::host_ipv4(HostIx(client)), [10, 255, 0, 1].into());
    let macs = [MacAddr(net::address::host_mac(HostIx(client))), control::vip::mac_of(vip)];
    let bytes = frame::build(&Headers::ipv4(macs, [address, vip], 17, [port, 53]), 100);
    fabric.with(move |wires| wires.transmit(HostIx(client), &bytes));
}

/// Returns the hosts that received packets from a client's port, one entry each.
fn came_to(fabric: &Fabric, port: u16) -> Vec<u32> {
    fabric.with(move |wires| {
        let is_its =
            |bytes: &[u8]| frame::parse(bytes).is_ok_and(|headers| (headers.l4_src, headers.l4_dst) == (port, 53));
        wires.arrived.iter().filter(|(_, bytes)| is_its(bytes)).map(|(host, _)| host.0).collect()
    })
}

#[test]
fn connections_keep_members_after_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json");
    let (first, http) = served(|settings| settings.state = Some(state.clone()));
    let member =
        |host| json!({"name": format!("m{host}"), "address": net::address::host_ipv4(HostIx(host)).to_string()});
    let pool = json!({"members": [member(0), member(5)]});
    assert_eq!(ask(http, "PUT", "/v1/pools/dns", Some(pool)).0, 201);
    let dns = json!({"address": "10.255.0.1", "protocol": "udp", "port": 53, "pool": "dns"});
    assert_eq!(ask(http, "PUT", "/v1/services/dns", Some(dns)).0, 201);
    let fabric = Fabric::start(fat_tree(), first.openflow);
    fabric.wait_reached();
    let connections = |http| get(http, "/v1/services/dns")["stats"]["connections"].clone();
    let mut members = Vec::new();
    for port in [4000, 4001, 4002] {
        call(&fabric, 9, port);
        wait("the first packet arrives", || came_to(&fabric, port).len() == 1);
        members.push((port, came_to(&fabric, port)[0]));
    }
    assert_eq!(connections(http), 3);
    assert!(members.iter().any(|(_, host)| *host == 0) && members.iter().any(|(_, host)| *host == 5), "{members:?}");

    let at = first.openflow;
    first.stop();
    let (_second, http) = served(|settings| (settings.state, settings.listen) = (Some(state.clone()), at));
    wait("the connections are found again", || connections(http) == 3);
    fabric.wait_reached();
    fabric.with(|wires| wires.arrived.clear());
    for (port, host) in members {
        call(&fabric, 9, port);
        wait("it arrives", || came_to(&fabric, port).len() == 1);
        assert_eq!(came_to(&fabric, port), [host], "the same member as before");
    }
}

#[test]
fn metrics_and_dashboard_show_services() {
    let (daemon, http) = served(|_| {});
    let members = json!([
        {"name": "on", "address": net::address::host_ipv4(HostIx(0)).to_string()},
        {"name": "off", "address": net::address::host_ipv4(HostIx(5)).to_string(), "is_enabled": false},
        {"name": "away", "address": "10.99.0.1"},
    ]);
    assert_eq!(ask(http, "PUT", "/v1/pools/names", Some(json!({"members": members}))).0, 201);
    let dns = json!({"address": "10.255.0.1", "protocol": "udp", "port": 53, "pool": "names"});
    assert_eq!(ask(http, "PUT", "/v1/services/dns", Some(dns)).0, 201);
    assert_eq!(ask(http, "PUT", "/v1/services/shut", Some(json!({"address": "10.255.0.2", "port": 1}))).0, 201);
    let fabric = Fabric::start(fat_tree(), daemon.openflow);
    fabric.wait_reached();
    for port in [4000, 4001] {
        call(&fabric, 9, port);
        wait("the first packet arrives", || came_to(&fabric, port) == [0]);
    }
    let figures = || request(http, "GET", "/metrics", None).1;
    let text = figures();
    for line in [
        "service_member_up{service=\"dns\",member=\"on\"} 1",
        "service_member_up{service=\"dns\",member=\"away\"} 0",
        "service_connections{service=\"dns\",member=\"on\"} 2",
        "service_connections_opened_total{service=\"dns\",member=\"on\"} 2",
        "service_connections_opened_total{service=\"dns\",member=\"off\"} 0",
        "service_bytes_total{service=\"dns\",member=\"on\",direction=\"in\"} ",
    ] {
        assert!(text.contains(&format!("anabranch_{line}")), "{line}: {text}");
    }
    let (_, page) = request(http, "GET", "/", None);
    for text in ["up, disabled", "not seen: no ARP reply", "none (refuses clients)", "1 of 3"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    // Metrics of removed services disappear.
    assert_eq!(ask(http, "DELETE", "/v1/services/dns", None).0, 204);
    assert!(!figures().contains("service=\"dns\""), "{}", figures());
}

const FILE: &str = r#"
[services]
health_check_address = "10.255.255.1"
[services.shop]
address = "10.255.0.7"
port = 443
pool = "shops"
[pools.shops]
balancer = "server-lc"
monitor = { check = "http", path = "/health", interval_s = 5, timeout_s = 1.5 }
members = [{ name = "s1", address = "10.0.0.11", weight = 2 }, { name = "s2", address = "10.0.0.12" }]
"#;

#[test]
fn file_services_follow_file_and_api_services_persist() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json");
    let start = |text: &str| {
        let parsed = config::parse("serve.toml", text, Path::new("")).unwrap_or_else(|error| panic!("{error}"));
        let Settings { listen, http, .. } = settings();
        Daemon::start(&Settings { listen, http, state: Some(state.clone()), ..parsed })
    };
    let first = start(FILE).expect("a daemon");
    let http = first.http.expect("HTTP is on");
    make_web(http);
    let shop = get(http, "/v1/services/shop");
    assert_eq!((&shop["origin"], &shop["pool"], &shop["id"]), (&json!("file"), &json!("shops"), &json!(1)));
    assert_eq!(get(http, "/v1/pools/shops")["monitor"]["path"], "/health");
    for (method, path) in [("DELETE", "/v1/services/shop"), ("PATCH", "/v1/pools/shops")] {
        let (status, problem) = ask(http, method, path, Some(json!({"balancer": "server-rr"})));
        assert_eq!(status, 409, "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("configuration file")), "{problem}");
    }
    let before = (get(http, "/v1/services"), get(http, "/v1/pools"));
    let second = start(FILE).expect_err("another daemon uses the store");
    assert!(second.to_string().starts_with("another daemon uses"), "{second}");
    drop(first);

    let again = start(FILE).expect("a daemon");
    let http = again.http.expect("HTTP is on");
    assert_eq!((get(http, "/v1/services"), get(http, "/v1/pools")), before, "including names and ids");
    drop(again);
    // The file no longer contains the shop; the service of the API is kept.
    let without = start("[services]\nhealth_check_address = \"10.255.255.1\"\n").expect("a daemon");
    let http = without.http.expect("HTTP is on");
    assert_eq!(get(http, "/v1/services").as_array().map(Vec::len), Some(1));
    drop(without);
    let clash =
        start("[services.web]\naddress = \"10.255.0.9\"\nport = 80\n").expect_err("the API made one of that name");
    assert!(matches!(&clash, StartError::Services { message } if message.contains("defined by the API")), "{clash}");
    // A damaged store is reported and not overwritten.
    let store = folder.path().join("state.json.services");
    let damaged = std::fs::read(&store).expect("the store").split_last().expect("bytes").1.to_vec();
    std::fs::write(&store, &damaged).expect("the store");
    let refused = start(FILE).expect_err("the store is damaged").to_string();
    assert!(refused.contains("left unchanged"), "{refused}");
    assert_eq!(std::fs::read(&store).expect("the store"), damaged);
}

#[test]
fn file_errors_name_their_location() {
    let message = |text: &str| config::parse("serve.toml", text, Path::new("")).expect_err("a mistake").to_string();
    for (text, expected) in [
        ("[services.web]\nadress = \"10.0.0.1\"\n", "services.web.adress: unknown field `adress`"),
        // Real switches have no action that adds an outer IP header.
        ("[services.web]\nforwarding = \"tunnel\"\n", "services.web.forwarding: unknown field `forwarding`"),
        ("[services.web]\nport = 80\n", "services.web.address: is missing"),
        ("[services.web]\naddress = \"10.0.0.1\"\nport = 70000\n", "services.web.port: invalid value: integer `70000`"),
        ("[services.\"a b\"]\n", "`a b` is not a valid name"),
        ("[services]\nweb = 3\n", "services.web: must be a table"),
        ("[services]\nhealth_check_address = \"x\"\n", "services.health_check_address: "),
        ("[pools.p]\nmembers = [{ name = \"a\" }]\n", "pools.p.members: members[0].address: is missing"),
    ] {
        let found = message(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}
