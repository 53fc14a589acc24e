//! Authorisation over HTTP: tokens with roles, and requests without tokens.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{exchange, request_with, served, status_of, wait};
use anabranch_daemon::auth::Tokens;
use anabranch_daemon::config;

const POOL: &str = r#"{"members": [{"name": "a", "address": "10.0.0.1"}]}"#;
const ADMIN: &str = "admin-token-0123456789";
const READ: &str = "read-token-0123456789";
const JSON: &str = "Content-Type: application/json\r\n";
const AGENT: &str = "agent-token-0123456789";

#[test]
fn tokens_grant_permissions_of_their_role() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokens"), format!("admin {ADMIN}\nread {READ}\nagent {AGENT} 10.0.0.1\n"))
        .expect("a file");
    let parsed = config::parse("serve.toml", "[api]\ntokens = \"tokens\"\n", folder.path()).expect("a configuration");
    assert!(!format!("{parsed:?}").contains("0123456789"), "tokens are not shown");
    let (_daemon, http) = served(|settings| settings.tokens = parsed.tokens);
    let change = ("PUT", "/v1/pools/p", POOL);
    let old = ("POST", "/quantum/v1.0/vips/", r#"{"id":"1","address":"10.0.0.100"}"#);
    let look = ("GET", "/v1/pools", "");
    let page = ("GET", "/", "");
    let own = ("POST", "/v1/agents/10.0.0.1/stats", "{}");
    let other = ("POST", "/v1/agents/10.0.0.2/stats", "{}");
    for (token, statuses) in [
        (None, [401; 6]),
        (Some("another-token-0123456789"), [401; 6]),
        (Some(READ), [403, 403, 200, 200, 403, 403]),
        (Some(AGENT), [403, 403, 403, 403, 200, 403]),
        (Some(ADMIN), [201, 200, 200, 200, 200, 200]),
    ] {
        for ((method, path, body), status) in [change, old, look, page, own, other].into_iter().zip(statuses) {
            let header = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default() + JSON;
            let (found, answer) = request_with(http, method, path, &header, body);
            assert_eq!(found, status, "{method} {path} with {token:?}: {answer}");
            assert!(!answer.contains("0123456789"), "{answer}");
            if status > 400 {
                assert!(answer.contains("application/problem+json"), "{answer}");
            }
            assert_eq!(answer.to_ascii_lowercase().contains("www-authenticate:"), status == 401, "{answer}");
        }
    }
    // Basic authentication, as browsers and `curl -u` send it: admin:admin-token-0123456789
    let basic = "Authorization: Basic YWRtaW46YWRtaW4tdG9rZW4tMDEyMzQ1Njc4OQ==\r\n";
    assert_eq!(request_with(http, "GET", "/v1/pools", basic, "").0, 200);
}

#[test]
fn tokenless_loopback_may_write_cross_site_may_not() {
    let (_daemon, http) = served(|_| {});
    let origin = |origin: &str| format!("Origin: {origin}\r\n{JSON}");
    assert_eq!(request_with(http, "PUT", "/v1/pools/p", &origin("http://example.org"), POOL).0, 403);
    assert_eq!(request_with(http, "PUT", "/v1/pools/p", &origin(&format!("http://{http}")), POOL).0, 201);
    assert_eq!(request_with(http, "PUT", "/v1/pools/p", JSON, POOL).0, 200);
}

/// A web page that makes its own name resolve to this machine ("DNS rebinding") must not be able to
/// change anything.
#[test]
fn tokenless_requests_to_foreign_host_names_rejected() {
    let (_daemon, http) = served(|settings| settings.http_names = vec!["Controller.Example".to_owned()]);
    let send = |host: &str| {
        let length = POOL.len();
        let head = format!("PUT /v1/pools/p HTTP/1.1\r\n{host}Connection: close\r\n{JSON}Content-Length: {length}");
        status_of(&exchange(http, &format!("{head}\r\n\r\n{POOL}")))
    };
    assert_eq!(send("Host: evil.example\r\nOrigin: http://evil.example\r\n"), 421);
    assert_eq!(send(""), 400);
    assert_eq!(send("Host: 127.0.0.1\r\nHost: evil.example\r\n"), 400);
    assert_eq!(send("Host: controller.example:8080\r\n"), 201);
    assert_eq!(send("Host: localhost\r\n"), 200);
    let twice = r#"{"members": [], "members": [{"name": "a", "address": "10.0.0.1"}]}"#;
    let (status, answer) = request_with(http, "PUT", "/v1/pools/p", JSON, twice);
    assert!(status == 400 && answer.contains("key `members` is repeated"), "{answer}");
    for (method, path, twice, status) in [
        ("PUT", "/v1/balancer", r#"{"spec": "ecmp", "spec": "wcmp"}"#, 422),
        ("POST", "/v1/agents/10.0.0.1/stats", r#"{"cpu": 0.5, "cpu": 0.1}"#, 400),
        ("POST", "/v1/agents/10.0.0.1/reports", r#"{"reports": [], "reports": []}"#, 422),
        ("POST", "/quantum/v1.0/vips/", r#"{"id": "1", "id": "2", "address": "10.0.0.100"}"#, 400),
    ] {
        assert_eq!(request_with(http, method, path, JSON, twice).0, status, "{method} {path} {twice}");
    }
}

#[test]
fn token_file_errors_hide_tokens() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokens"), format!("admin {ADMIN}\nroot {READ}\n")).expect("a file");
    let parse =
        |text: &str| config::parse("serve.toml", text, Path::new(folder.path())).expect_err("a mistake").to_string();
    let error = parse("[api]\ntokens = \"tokens\"\n");
    assert!(error.contains("line 2: unknown role") && !error.contains("0123456789"), "{error}");
    assert!(parse("[api]\ntokens = \"none\"\n").contains("cannot read tokens"));
}

/// A search for a token is slowed down; other addresses and requests without a token are not
/// affected.
#[test]
fn wrong_tokens_are_limited_per_source() {
    let (_daemon, http) = served(|settings| settings.tokens = tokens(&format!("admin {ADMIN}\n")));
    let send = |token: &str| request_with(http, "GET", "/v1/pools", &format!("Authorization: Bearer {token}\r\n"), "");
    assert_eq!(send(ADMIN).0, 200);
    let began = Instant::now();
    let answers: Vec<(u16, String)> = (0..200).map(|turn| send(&format!("wrong-token-{turn:016}"))).collect();
    let compared = answers.iter().filter(|(status, _)| *status == 401).count() as u64;
    // A budget of 20, and one more each second.
    let allowed = 20 + began.elapsed().as_secs() + 1;
    assert!((20..=allowed).contains(&compared), "{compared} of 200 wrong tokens were compared, {allowed} are allowed");
    let (status, answer) = answers.last().expect("200 answers");
    assert!(*status == 429 && answer.to_ascii_lowercase().contains("retry-after: 1\r\n"), "{answer}");
    // Otherwise a search would succeed in spite of the limit.
    assert_eq!(send(ADMIN).0, 429, "the right token is not compared either");
    assert_eq!(request_with(http, "GET", "/v1/pools", "", "").0, 401);
    let patience = Instant::now();
    wait("the right token is accepted after the time to wait", || send(ADMIN).0 == 200);
    assert!(patience.elapsed() < Duration::from_secs(3), "{:?}", patience.elapsed());
}

fn tokens(text: &str) -> Tokens {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tokens");
    std::fs::write(&file, text).expect("a file");
    Tokens::load(&file).expect("tokens")
}
