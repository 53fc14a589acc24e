//! Experiment files with requests to services: error messages with their places, and results.

use std::path::Path;

use crate::support::{NEVER, experiment, options};
use anabranch_experiment::input::TrafficPlan;
use anabranch_experiment::summary::{Judgement, Summary};
use anabranch_experiment::{Experiment, run};

const FILE: &str = include_str!("../data/requests.toml");

fn parse(text: &str) -> Result<Experiment, String> {
    experiment(text, &[]).map_err(|error| {
        let hint = error.hint.as_ref().map(|hint| format!(" | {hint}")).unwrap_or_default();
        format!("{error}{hint}")
    })
}

#[test]
fn request_file_is_read() {
    let experiment = parse(FILE).expect("a valid file");
    let variant = &experiment.variants[0];
    let services = variant.config.services.as_ref().expect("it has services");
    assert_eq!((services.servers[0].cores, services.servers[1].weight), (2, 3));
    assert_eq!(services.services[0].pool, services.services[1].pool);
    assert_eq!((services.services[1].member_port, services.services[1].members.len()), (Some(8081), 2));
    assert_eq!((services.classes[0].pages, services.classes[1].name.as_str()), (2, "work"));
    assert_eq!(variant.flow_counts, [48]);
    let TrafficPlan::Requests { classes, .. } = &variant.traffic else { panic!("requests") };
    assert_eq!((classes[0].clients.len(), classes[1].clients.len()), (2, 4), "all hosts that are not servers");
    assert_eq!(experiment.claims.len(), 3, "one for each balancer of the list");
}

#[test]
fn errors_show_line_and_key() {
    for (wrong, right, expected) in [
        ("host = \"h3\"", "host = \"h9\"", "test.toml:9: server.0.host: unknown host `h9`"),
        ("host = \"h4\"", "host = \"h3\"", "server.1.host: is listed twice among the servers"),
        ("cores = 2", "cores = 0", "0 is not from 1 to 4096"),
        ("cores = 2", "core = 2", "there is no such key | did you mean `cores`?"),
        ("\"10.100.0.1\"\nport = 80", "\"10.0.0.1\"\nport = 80", "10.0.0.1 belongs to a host"),
        ("\"10.100.0.1\"\nport = 80", "\"10.100\"\nport = 80", "is not an IPv4 address"),
        ("port = 81", "port = 80", "another service is at 10.100.0.1, port 80"),
        ("port = 81", "port = 70000", "70000 is not from 1 to 65535"),
        ("service = \"work\"", "service = \"wrok\"", "unknown service `wrok` | did you mean `work`?"),
        ("count = 8", "", "count: is missing"),
        ("gap = \"100ms\"", "duration = \"1s\"", "belongs to other arrivals; these take `gap`"),
        ("clients = [\"h0\", \"h1\"]", "clients = [\"h0\", 1]", "must be the name of a host in quotes"),
        ("pause = \"100ms\"\nsampling = \"100ms\"", "pause = \"0s\"\nsampling = \"0s\"", "must be above zero"),
        (
            "kind = \"newreno\"\nhandshake = true",
            "kind = \"udp\"\nrate = \"1Gbps\"",
            "requests need TCP connections, not udp",
        ),
        (
            "[\"server-rr\", \"server-wrr\"]\n\n[topology]",
            "[\"server-rr\", \"ecmp\"]\n\n[topology]",
            "test.toml:3: balancers: `ecmp` is not a server balancer",
        ),
        (
            "[transport]",
            "[traffic]\nworkload = \"web-search\"\n[transport]",
            "cannot be combined with requests to services",
        ),
        ("[transport]", "[control]\nrouting = \"ecmp\"\n[transport]", "`ecmp` is not a central balancer"),
        ("server = \"h3\"", "server = \"h0\"", "unknown server `h0`"),
        ("class = \"work\"", "class = \"words\"", "unknown request class `words`"),
        (
            "metric = \"response_median\"",
            "metric = \"fct_p50_us\"",
            "belongs to metrics of requests, and this metric is about flows",
        ),
        (
            "member_port = 8081",
            "member_port = 8081\nforwarding = \"tunnel\"",
            "service.1.member_port: cannot go with `forwarding = \"tunnel\"`: ports stay unchanged | leave out",
        ),
    ] {
        assert!(FILE.contains(wrong), "{wrong}");
        let error = parse(&FILE.replacen(wrong, right, 1)).expect_err(right);
        assert!(error.contains(expected), "`{right}`: {error}");
    }
}

fn results(folder: &Path, jobs: usize) -> Summary {
    let experiment = parse(FILE).expect("a valid file");
    run(&experiment, &options(folder, jobs), &(), &NEVER).expect("it runs")
}

#[test]
fn response_times_are_in_the_results_and_reproducible() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let summary = results(folders[0].path(), 1);
    for run in &summary.runs {
        let requests = run.requests.as_ref().expect("requests");
        assert_eq!((requests.all.started, requests.all.completed, requests.misaddressed), (48, 48, 0));
        assert_eq!(requests.all.pages.iter().sum::<u64>(), 2 * 40 + 8);
        assert_eq!(requests.connections.opened, 88);
        let times = &requests.classes[0].response_us;
        assert!(times.p10 <= times.p50 && times.p50 <= times.p90 && times.p90 <= times.p99 && times.p99 <= times.max);
        assert!(run.slowdown_min >= 1.0, "no response is faster than its bound: {}", run.slowdown_min);
    }
    for claim in &summary.claims {
        assert_eq!(claim.verdict, Judgement::Holds, "{}: {}", claim.id, claim.sentence);
    }
    let share = summary.runs[2].requests.as_ref().and_then(|requests| requests.share_of(None, "h4"));
    assert!((share.expect("pages") - 0.75).abs() < 0.02, "weights 1 and 3: {share:?}");
    let read = |folder: &Path, name: &str| std::fs::read_to_string(folder.join(name)).expect("a file");
    let table = read(folders[0].path(), "responses.csv");
    // A header, and for both balancers all requests and two classes.
    assert_eq!(table.lines().count(), 1 + 2 * 3, "{table}");
    let report = read(folders[0].path(), "report.html");
    assert!(report.contains("Response times") && report.contains("h4 served"));
    // Rows of flows name the actual server: hosts 3 and 4, and not one host for all, as in the
    // list.
    let rows = read(folders[0].path(), "flows.csv");
    assert!(rows.lines().skip(1).any(|row| row.split(',').nth(6) == Some("4")) || rows.contains(",4,"), "{rows:.200}");
    results(folders[1].path(), 2);
    for name in ["summary.json", "responses.csv", "report.html"] {
        assert_eq!(read(folders[0].path(), name), read(folders[1].path(), name), "{name}");
    }
}
