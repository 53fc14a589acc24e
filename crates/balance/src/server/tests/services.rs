//! Tests of MALOB's table of services.

use crate::Spec;
use crate::server::testing::{Bench, server};
use crate::server::{Pool, Services};

use super::geni::kbps;
use crate::central::testing::TestNetwork;

fn table(text: &str) -> Services {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn pick(bench: &mut Bench, port: u16) -> u32 {
    bench.port = port;
    bench.pick()
}

/// Makes a pool whose members suit one algorithm each: near, wide, idle.
fn bench(spec: &str) -> Bench {
    let mut network = TestNetwork::new("geni-wan");
    network.topology = network.topology.with_links_changed(|_, link| {
        if link.rate == kbps(12_100) {
            link.rate = kbps(99_000_000);
        }
    });
    // From Client-1: Server-1 is near (15 ms), Server-3 wide now, and Server-2 reports a low load.
    let pool = Pool::new([server(&network, 1, 4), server(&network, 2, 6), server(&network, 3, 5)]);
    let mut bench = Bench::on(spec, network, pool);
    for (id, cpu) in [(1, 0.9), (2, 0.8), (3, 0.1)] {
        bench.report(id, |stats| {
            stats.cpu = Some(cpu);
            stats.connections = Some(100);
        });
    }
    bench
}

#[test]
fn each_service_has_its_algorithm_and_others_the_default() {
    let mut bench = bench("malob");
    assert_eq!([80, 21, 20, 6789].map(|port| pick(&mut bench, port)), [1, 2, 2, 3]);
    // F1's released code would continue with the algorithm of 6789.
    assert_eq!(pick(&mut bench, 8080), 1);
    assert_eq!(pick(&mut bench, 65_535), 1);
}

#[test]
fn table_changes_at_run_time_keep_algorithm_state() {
    let mut bench = bench("malob:services=80=server-rr;default=sl-ps");
    assert_eq!([80, 80].map(|port| pick(&mut bench, port)), [1, 2]);
    let mut services = bench.balancer.services().expect("a table").clone();
    let given = services.set(8080, Services::algorithm("server-rr").unwrap()).unwrap();
    assert!(given.is_none());
    services.set(6789, Services::algorithm("3").unwrap()).unwrap();
    bench.balancer.set_services(services).expect("it has a table");
    assert_eq!(pick(&mut bench, 8080), 3, "one instance, whose turn goes on");
    assert_eq!(pick(&mut bench, 6789), 3, "a newcomer knows what was reported");
    let mut services = bench.balancer.services().expect("a table").clone();
    assert_eq!(services.remove(80).map(|spec| spec.label()), Some("server-rr".to_owned()));
    bench.balancer.set_services(services).expect("it has a table");
    assert_eq!(pick(&mut bench, 80), 1, "the default");
}

#[test]
fn connections_of_all_services_count() {
    let mut bench = Bench::new("malob:services=80=division-no;default=server-lc", &[1, 1]);
    for _ in 0..3 {
        assert_eq!(pick(&mut bench, 80), 1);
    }
    assert_eq!([443, 443, 443].map(|port| pick(&mut bench, port)), [2, 2, 2]);
    bench.port = 80;
    let request = bench.request();
    bench.pick_for(&request);
    bench.end(&request, 1, 10);
    assert_eq!([443, 443].map(|port| pick(&mut bench, port)), [1, 2]);
}

#[test]
fn others_have_no_table() {
    let mut bench = Bench::new("server-rr", &[1]);
    assert!(bench.balancer.services().is_none());
    let error = bench.balancer.set_services(table("default=sl-ps")).unwrap_err();
    assert_eq!(error.to_string(), "this balancer has no table of services; use `malob`");
}

#[test]
fn tables_are_written_as_they_are_read() {
    let text = "21=server-rr:htp=capacity+path=htp;80=sl-ps;default=server-cpu";
    assert_eq!(table(text).to_string(), text);
    assert_eq!(table(" 80 = 1 ; 21=2;;default=3 ").to_string(), "21=ht-ps;80=sl-ps;default=server-cpu");
    let services = table(text);
    assert_eq!(services.ports().map(|(port, _)| port).collect::<Vec<_>>(), [21, 80]);
    assert_eq!((services.of(21).entry.name, services.of(22).entry.name), ("server-rr", "server-cpu"));
    assert_eq!(services.default().entry.name, "server-cpu");
    let specs = Spec::parse_list(&format!("malob:services={text},ecmp:seeds=none,hash=threshold,sl-ps")).unwrap();
    let names: Vec<&str> = specs.iter().map(|spec| spec.entry.name).collect();
    assert_eq!(names, ["malob", "ecmp", "sl-ps"]);
}

#[test]
fn invalid_tables_are_rejected_with_hint() {
    let message = |text: &str| text.parse::<Services>().unwrap_err().to_string();
    assert_eq!(message("80"), "`80` is not of the form port=algorithm, such as 80=sl-ps");
    let port =
        |text: &str| format!("`{text}` is not a valid port: it must be a whole number from 0 to 65535, or `default`");
    assert_eq!(message("65536=sl-ps;default=sl-ps"), port("65536"));
    assert_eq!(message("http=sl-ps;default=sl-ps"), port("http"));
    assert_eq!(message("80=sl-ps;80=ht-ps;default=sl-ps"), "`80` occurs twice");
    assert_eq!(message("default=sl-ps;default=ht-ps"), "`default` occurs twice");
    assert!(message("80=sl-ps").starts_with("the table has no default; add default=ALGORITHM"));
    assert_eq!(message("80=sl-pss;default=sl-ps"), "unknown balancer `sl-pss`; did you mean `sl-ps`?");
    assert!(message("80=ecmp;default=sl-ps").starts_with("`ecmp` does not pick servers for a service; there are: "));
    assert!(message("80=malob;default=sl-ps").starts_with("`malob` does not pick servers for a service; "));
    assert!(message("80=sl-ps:x=1;default=sl-ps").contains("has no parameter `x`"));
    let error = Spec::parse("malob:services=80=sl-ps").unwrap_err().to_string();
    assert!(
        error.starts_with("balancer `malob`: services = `80=sl-ps` is not possible: the table has no default"),
        "{error}"
    );
    assert!(Services::new(Spec::parse("hedera").unwrap()).is_err());
    assert_eq!(Services::new(Spec::parse("ht-ps").unwrap()).unwrap().of(1).entry.name, "ht-ps");
}
