//! Changes over HTTP: revisions and the audit log.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_daemon::config;
use serde_json::{Value, json};

use crate::common::{ask, request_with, served};

const JSON: &str = "Content-Type: application/json\r\n";

fn pool(weight: u64) -> String {
    json!({"members": [{"name": "a", "address": "10.0.0.1", "weight": weight}]}).to_string()
}

/// Sends a request with `If-Match`, unless `revision` is empty. Returns the status and the ETag.
fn conditional(http: SocketAddr, method: &str, path: &str, revision: &str, body: &str) -> (u16, Option<String>) {
    let header = if revision.is_empty() { String::new() } else { format!("If-Match: {revision}\r\n") };
    let (status, response) = request_with(http, method, path, &(header + JSON), body);
    let etag = response
        .lines()
        .find_map(|line| Some(line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("etag"))?.1));
    (status, etag.map(|etag| etag.trim().to_owned()))
}

#[test]
fn stale_revision_is_refused() {
    let (_daemon, http) = served(|_| {});
    let send = |method: &str, path: &str, revision: &str, body: &str| conditional(http, method, path, revision, body);
    let path = "/v1/pools/p";
    assert_eq!(send("PUT", path, "*", &pool(1)).0, 412, "the pool does not exist");
    let (status, first) = send("PUT", path, "", &pool(1));
    let first = first.expect("a revision");
    assert_eq!((status, send("GET", path, "", "")), (201, (200, Some(first.clone()))));
    let (status, second) = send("PUT", path, &first, &pool(2));
    let second = second.expect("a revision");
    assert!(status == 200 && second != first, "{status} {second}");
    for (method, path, body) in [
        ("PUT", path, pool(3)),
        ("PATCH", path, pool(3)),
        ("DELETE", path, String::new()),
        ("PUT", "/v1/pools/p/members/a", json!({"address": "10.0.0.9"}).to_string()),
        ("DELETE", "/v1/pools/p/members/a", String::new()),
        ("POST", "/v1/pools", json!({"name": "q"}).to_string()),
    ] {
        assert_eq!(send(method, path, &first, &body).0, 412, "{method} {path} with a stale revision");
    }
    assert_eq!(send("GET", path, "", "").1, Some(second.clone()), "nothing has changed");
    // A change of a member is one of its pool; the same content again is no change.
    let (status, third) = send("PATCH", "/v1/pools/p/members/a", &second, r#"{"weight": 5}"#);
    assert!(status == 200 && third != Some(second.clone()) && third == send("GET", path, "", "").1, "{third:?}");
    assert_eq!(send("PUT", path, "", &pool(5)).1, third);
    // Other objects keep their revision.
    assert_eq!(send("PUT", "/v1/pools/q", "", &pool(1)).0, 201);
    assert_eq!(send("GET", path, "", "").1, third);
    // A pool that is removed and created again is another one.
    assert_eq!(send("DELETE", path, &third.expect("a revision"), "").0, 204);
    let (status, again) = send("PUT", path, "", &pool(1));
    assert!(status == 201 && again.is_some_and(|again| again != first));

    let (_, balancer) = send("GET", "/v1/balancer", "", "");
    let balancer = balancer.expect("a revision");
    assert_eq!(send("PUT", "/v1/balancer", &balancer, r#"{"spec": "wcmp"}"#).0, 200);
    assert_eq!(send("PUT", "/v1/balancer", &balancer, r#"{"spec": "hedera"}"#).0, 412);
    assert_eq!(ask(http, "GET", "/v1/balancer", None).1["name"], "sdn-wcmp");
}

/// Of several clients that read a revision and write the next one, exactly one succeeds each time.
#[test]
fn concurrent_increments_are_not_lost() {
    let (_daemon, http) = served(|_| {});
    assert_eq!(ask(http, "PUT", "/v1/pools/p", serde_json::from_str(&pool(1)).ok()).0, 201);
    let refused = AtomicU64::new(0);
    let increment = || loop {
        let (_, response) = request_with(http, "GET", "/v1/pools/p", "", "");
        let (head, body) = response.split_once("\r\n\r\n").expect("head and body");
        let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a revision");
        let weight = serde_json::from_str::<Value>(body).expect("JSON")["members"][0]["weight"].as_u64();
        match conditional(http, "PUT", "/v1/pools/p", etag, &pool(weight.expect("a weight") + 1)).0 {
            200 => return,
            412 => refused.fetch_add(1, Ordering::Relaxed),
            other => panic!("status {other}"),
        };
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| increment()));
        }
    });
    let weight = ask(http, "GET", "/v1/pools/p", None).1["members"][0]["weight"].clone();
    assert_eq!(weight, 101, "{} requests were refused", refused.load(Ordering::Relaxed));
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("the audit log");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn audit_log_shows_who_changed_what() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = "admin-token-0123456789";
    std::fs::write(folder.path().join("tokens"), format!("admin {secret} name=alice\n")).expect("a file");
    let text = "[api]\ntokens = \"tokens\"\n[log]\naudit = \"audit.jsonl\"\n[pools.fixed]\nmembers = []\n";
    let parsed = config::parse("serve.toml", text, folder.path()).expect("a configuration");
    let (_daemon, http) = served(|settings| {
        settings.tokens = parsed.tokens.clone();
        settings.log = parsed.log.clone();
        settings.services = parsed.services.clone();
    });
    let authorisation = format!("Authorization: Bearer {secret}\r\n{JSON}");
    let send = |method: &str, path: &str, body: &str| request_with(http, method, path, &authorisation, body).0;
    assert_eq!(send("PUT", "/v1/pools/p", &pool(1)), 201);
    assert_eq!(send("PUT", "/v1/pools/p", &pool(1)), 200, "the same again");
    assert_eq!(send("PATCH", "/v1/pools/p/members/a", r#"{"weight": 7}"#), 200);
    assert_eq!(send("PUT", "/v1/pools/p", r#"{"unknown": 1}"#), 422);
    assert_eq!(request_with(http, "DELETE", "/v1/pools/p", JSON, "").0, 401);
    assert_eq!(send("GET", "/v1/pools/p", ""), 200);
    assert_eq!(send("POST", "/quantum/v1.0/vips/", r#"{"id":"1","address":"10.0.0.100"}"#), 200);
    assert_eq!(send("PUT", "/v1/balancer", r#"{"spec": "wcmp"}"#), 200);
    assert_eq!(send("DELETE", "/v1/pools/p", ""), 204);

    let file = folder.path().join("audit.jsonl");
    let all = lines(&file);
    let requests: Vec<(&str, &str)> = all[1..]
        .iter()
        .map(|line| (line["method"].as_str().expect("a method"), line["path"].as_str().expect("a path")))
        .collect();
    let expected = [
        ("PUT", "/v1/pools/p"),
        ("PATCH", "/v1/pools/p/members/a"),
        ("POST", "/quantum/v1.0/vips/"),
        ("PUT", "/v1/balancer"),
        ("DELETE", "/v1/pools/p"),
    ];
    assert_eq!(requests, expected);
    assert!(all[1..].iter().all(|line| line["token"] == "alice" && line["source"] == "127.0.0.1"), "{all:?}");
    assert_eq!(
        (&all[0]["source"], &all[0]["after"]["pools"]["fixed"]["origin"]),
        (&json!("configuration file"), &json!("file"))
    );
    let weight = |line: &Value, side: &str| line[side]["pools"]["p"]["spec"]["members"][0]["weight"].clone();
    assert_eq!((weight(&all[2], "before"), weight(&all[2], "after")), (json!(1), json!(7)));
    assert!(all[1]["before"]["pools"].get("p").is_none() && all[5]["after"]["pools"].get("p").is_none(), "{all:?}");
    assert_eq!(all[3]["after"]["floodlight"]["vips"]["1"]["address"], "10.0.0.100");
    assert_eq!(
        (&all[4]["before"], &all[4]["after"]),
        (&json!({"balancer": "sdn-ecmp"}), &json!({"balancer": "sdn-wcmp"}))
    );
    let revisions: Vec<u64> = all.iter().filter_map(|line| line["revision"].as_u64()).collect();
    assert_eq!(revisions, [1, 2, 3, 4, 5]);
    let text = std::fs::read_to_string(&file).expect("the audit log");
    assert!(!text.contains("0123456789"), "no token is written");
    let mode = std::fs::metadata(&file).expect("the audit log").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may read it");
}
