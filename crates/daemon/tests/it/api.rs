//! The HTTP interface: responses conform to the OpenAPI document, errors are problems, and
//! balancers are replaced under traffic.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use crate::common::{Fabric, connect, fat_tree, get, metric_in, network, request, request_with, served, wait};
use serde_json::Value;

/// Set `UPDATE_OPENAPI=1` to rewrite the file.
#[test]
fn committed_openapi_document_matches_served() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace").join("docs/openapi.json");
    let document = anabranch_daemon::http::openapi();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&file, &document).expect("the document can be written");
    }
    let committed = std::fs::read_to_string(&file).expect("docs/openapi.json is committed");
    assert!(
        committed == document,
        "docs/openapi.json is old: run UPDATE_OPENAPI=1 cargo test -p anabranch-daemon --test it"
    );
    let (_daemon, http) = served(|_| {});
    let (status, text) = request(http, "GET", "/v1/openapi.json", None);
    assert_eq!((status, text == document), (200, true));
}

fn document() -> Value {
    serde_json::from_str(&anabranch_daemon::http::openapi()).expect("JSON")
}

/// Returns the violations of a schema by a value, as paths into the value.
fn violations(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').expect("a reference into the document");
        let target = document.pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"));
        return violations(document, target, value, at);
    }
    if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let fits = choices.iter().filter(|choice| violations(document, choice, value, at).is_empty()).count();
        let wrong = (fits != 1).then(|| format!("{at}: fits not exactly one of its kinds"));
        return wrong.into_iter().collect();
    }
    let mut found = Vec::new();
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_whole_number = kind == "integer" && allowed.contains(&"number");
    if !allowed.contains(&kind) && !is_whole_number {
        found.push(format!("{at}: is {kind}, not {allowed:?}"));
    }
    let is_of = |constants: &Value| constants.as_array().is_none_or(|constants| constants.contains(value));
    if !is_of(&schema["enum"]) || !(schema["const"].is_null() || schema["const"] == *value) {
        found.push(format!("{at}: is not one of its constants"));
    }
    for (ix, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(violations(document, &schema["items"], item, &format!("{at}/{ix}")));
    }
    let Some(object) = value.as_object() else { return found };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            found.push(format!("{at}/{name}: is missing"));
        }
    }
    for (name, inner) in object {
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, any @ Value::Object(_)) => found.extend(violations(document, any, inner, at)),
            (Value::Null, _) => found.push(format!("{at}/{name}: is not described")),
            (described, _) => found.extend(violations(document, described, inner, &format!("{at}/{name}"))),
        }
    }
    found
}

#[test]
fn responses_conform_to_openapi_document() {
    let document = document();
    let (_daemon, http, _fabric) = network(|settings| {
        settings.balancer = anabranch_daemon::balancer::parse("sdn-vlb").expect("a balancer");
    });
    wait("all links and latencies are known", || {
        let links = get(http, "/v1/links");
        links.as_array().is_some_and(|links| links.len() == 64 && links.iter().all(|link| link["is_up"] == true))
    });
    let service = r#"{"address": "10.255.0.1", "port": 80, "pool": "web"}"#;
    let pool = r#"{"members": [{"name": "a", "address": "10.0.0.1"}]}"#;
    assert_eq!(request(http, "PUT", "/v1/pools/web", Some(pool)).0, 201);
    assert_eq!(request(http, "PUT", "/v1/services/web", Some(service)).0, 201);
    let stats = r#"{"cpu": 0.5, "connections": 3, "probes": [{"to": "10.0.0.2", "rate_bps": 1000}]}"#;
    assert_eq!(
        request(http, "POST", "/v1/agents/10.0.0.1/stats", Some(stats)),
        (200, r#"{"is_member":true}"#.to_owned())
    );
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        if item["get"].is_null() {
            continue;
        }
        let content = &item["get"]["responses"]["200"]["content"];
        let schema = &content["application/json"]["schema"];
        if schema.is_null() {
            assert_eq!(path, "/v1/events", "a path without a JSON answer");
            continue;
        }
        let switch = get(http, "/v1/switches")[0]["dpid"].as_str().expect("a number").to_owned();
        let names = [("{switch}", switch.as_str()), ("{host}", "10.0.0.1"), ("{member}", "a")];
        let names = names.into_iter().chain([("{service}", "web"), ("{pool}", "web")]);
        let path = &names.fold(path.clone(), |path, (what, name)| path.replace(what, name));
        let answer = get(http, path);
        let found = violations(&document, schema, &answer, path);
        assert!(found.is_empty(), "{found:#?}");
        checked += 1;
    }
    assert_eq!(checked, 21);
    assert_eq!(get(http, "/v1/switches").as_array().map(Vec::len), Some(20));
    assert_eq!(get(http, "/v1/hosts").as_array().map(Vec::len), Some(16));
    assert!(get(http, "/v1/groups").as_array().is_some_and(|groups| !groups.is_empty()));
    assert!(get(http, "/v1/paths")["splits"].as_array().is_some_and(|pairs| !pairs.is_empty()));
    // The schema checker reports violations.
    let schema = &document["paths"]["/v1/switches"]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    let found = violations(&document, schema, &serde_json::json!([{"dpid": 3}]), "");
    assert!(found.len() > 5, "{found:?}");
}

#[test]
fn invalid_requests_return_problems() {
    let (_daemon, http) = served(|_| {});
    for (method, path, body, expected, word) in [
        ("GET", "/nothing", None, 404, "openapi.json"),
        ("GET", "/v1/switches/xyz", None, 404, "hexadecimal"),
        ("GET", "/v1/switches/ff", None, 404, "unknown switch ff"),
        ("DELETE", "/v1/balancer", None, 405, "method"),
        ("PUT", "/v1/balancer", Some("{"), 400, "JSON"),
        ("GET", "/v1/agents/h1/commands", None, 404, "10.0.0.1"),
        ("POST", "/v1/agents/h1/reports", Some(r#"{"reports": []}"#), 404, "10.0.0.1"),
        ("POST", "/v1/agents/10.0.0.1/reports", Some("["), 400, "JSON"),
        ("POST", "/v1/agents/10.0.0.1/reports", Some(r#"{"reports": [{"event": "began"}]}"#), 422, "began"),
        ("PUT", "/v1/balancer", Some(r#"{"spec": 3}"#), 422, "spec"),
        ("PUT", "/v1/balancer", Some(r#"{"spce": "ecmp"}"#), 422, "spce"),
        ("PUT", "/v1/balancer", Some(r#"{"spec": "ecpm"}"#), 422, "did you mean `ecmp`?"),
        ("PUT", "/v1/balancer", Some(r#"{"spec": "conga"}"#), 422, "does not run on OpenFlow switches"),
        ("PUT", "/v1/balancer", Some(r#"{"spec": "hedera:x=1"}"#), 422, "has no parameter `x`"),
    ] {
        let (status, body) = request(http, method, path, body);
        assert_eq!(status, expected, "{method} {path}: {body}");
        let problem: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{method} {path}: {body}"));
        assert_eq!(problem["status"], expected, "{body}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(word)), "{method} {path}: {body}");
    }
    let huge = format!(r#"{{"spec": "{}"}}"#, "x".repeat(100_000));
    assert_eq!(request(http, "PUT", "/v1/balancer", Some(&huge)).0, 413);
    // The message does not contain the name of the Rust type.
    let (status, answer) = request_with(http, "PUT", "/v1/balancer", "", "{}");
    assert!(status == 415 && answer.contains("application/problem+json"), "{answer}");
    assert_eq!(get(http, "/v1/balancer")["name"], "sdn-ecmp", "no rejected request changed anything");
}

#[test]
fn balancer_replaced_without_loss() {
    let (_daemon, http, fabric) = network(|_| {});
    for (spec, name) in [("sdn-vlb", "sdn-vlb"), ("spt", "sdn-spt"), ("hedera", "hedera"), ("ecmp", "sdn-ecmp")] {
        let body = serde_json::json!({ "spec": spec }).to_string();
        let (status, answer) = request(http, "PUT", "/v1/balancer", Some(&body));
        assert_eq!(status, 200, "{answer}");
        assert_eq!(get(http, "/v1/balancer")["name"], name);
        fabric.assert_reached_for(Duration::from_millis(700), &format!("while switching to {spec}"));
        wait("it settles", || get(http, "/v1/statistics")["is_settled"] == true);
    }
    assert!(get(http, "/v1/statistics")["balancer_decisions"].as_u64() >= Some(5));
}

#[test]
fn agents_report_flows_and_receive_commands() {
    let (_daemon, http, _fabric) = network(|settings| {
        settings.balancer = anabranch_daemon::balancer::parse("ofpt:provision=fair").expect("a balancer");
    });
    wait("all links are known", || get(http, "/v1/links").as_array().is_some_and(|links| links.len() == 64));
    let [src, dst] = [0, 9].map(|host| net::address::host_ipv4(net::HostIx(host)).to_string());
    let path = format!("/v1/agents/{src}/reports");
    let report = |event: &str, bytes: u64| {
        let flow = serde_json::json!({"dst": dst, "protocol": 6, "src_port": 5000, "dst_port": 80});
        let body = serde_json::json!({"reports": [{"event": event, "flow": flow, "bytes": bytes}]}).to_string();
        let (status, answer) = request(http, "POST", &path, Some(&body));
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Value>(&answer).expect("JSON")
    };
    let commands = report("started", 2_000_000);
    let document = document();
    let found = violations(&document, &document["components"]["schemas"]["AgentCommands"], &commands, "commands");
    assert!(found.is_empty(), "{commands}: {found:#?}");
    assert!(commands["report_threshold_bytes"].is_u64(), "{commands}");
    let flows = get(http, "/v1/flows");
    assert_eq!(flows.as_array().map(Vec::len), Some(1), "{flows}");
    let commands_now = || get(http, &format!("/v1/agents/{src}/commands"));
    wait("the flow is paced", || commands_now()["rate_limits"].as_array().is_some_and(|paces| paces.len() == 1));
    assert_eq!(commands_now()["rate_limits"][0]["flow"]["src"], src, "{}", commands_now());
    assert_eq!(get(http, &format!("/v1/agents/{dst}/commands"))["rate_limits"], serde_json::json!([]));
    report("ended", 9_000_000);
    assert_eq!(
        (get(http, "/v1/flows"), commands_now()["rate_limits"].clone()),
        (serde_json::json!([]), serde_json::json!([]))
    );
    // A balancer without agents clears all commands.
    let (status, _) = request(http, "PUT", "/v1/balancer", Some(r#"{"spec": "ecmp"}"#));
    assert_eq!((status, commands_now()["report_threshold_bytes"].clone()), (200, Value::Null));
    report("started", 2_000_000);
    assert_eq!(get(http, "/v1/flows"), serde_json::json!([]));
}

#[test]
fn events_are_streamed() {
    let (daemon, http) = served(|_| {});
    let mut stream = connect(http);
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a request");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line within the time limit"));
    // The response head arrives as soon as the stream is subscribed.
    assert!(lines.next().is_some_and(|line| line.ends_with("200 OK")));
    let _fabric = Fabric::start(fat_tree(), daemon.openflow);
    let document = document();
    let schema = &document["components"]["schemas"]["EventMessage"];
    let mut seen = BTreeSet::new();
    while !(seen.contains("switch_up") && seen.contains("link_up")) {
        let line = lines.next().expect("the stream does not end");
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(data).expect("JSON");
        let found = violations(&document, schema, &event, "event");
        assert!(found.is_empty(), "{event}: {found:#?}");
        seen.insert(event["event"].as_str().expect("a name").to_owned());
    }
}

#[test]
fn metrics_and_dashboard_show_network_state() {
    let (_daemon, http, _fabric) = network(|_| {});
    let (status, text) = request(http, "GET", "/metrics", None);
    assert_eq!(status, 200);
    assert!(text.ends_with("# EOF\n"), "{text}");
    let value = |name: &str| metric_in(&text, name);
    assert_eq!((value("switches"), value("hosts")), (20, 16));
    assert!(value("balancer_decisions_total") > 0 && value("decision_seconds_count") > 0);
    assert!(value("messages_received_total{kind=\"hello\"}") >= 20);
    assert!(value("messages_sent_total{kind=\"flow_mod\"}") >= value("flow_mods_total"));
    let (status, page) = request(http, "GET", "/", None);
    assert_eq!(status, 200);
    assert!(page.contains("sdn-ecmp") && page.contains("10.0.0.") || page.contains("10."), "{page}");
    assert!(!page.contains("<script"));
}
