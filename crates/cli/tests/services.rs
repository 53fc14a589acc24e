//! Virtual services on real switches, with real servers and real clients: Open vSwitch, nginx, the kernel's TCP.
//! They need root; `scripts/test long` runs them.

#[path = "services/files.rs"]
mod files;
#[path = "services/in_band.rs"]
mod in_band;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use experiment::Experiment;
use experiment::file::KnownHosts;
use net::{HostIx, Topology, address};
use serde_json::{Value, json};
use testbed::clock::now_ns;
use testbed::controller::{Controller, Wanted, free_port};
use testbed::driver;
use testbed::live::Live;
use testbed::plan::{NetworkPlan, host_name};
use testbed::requests::{Asked, Asker, Asking};
use testbed::servers::{Server, cpu_s};

#[path = "services/wildcard.rs"]
mod wildcard;

/// A fat-tree of four pods whose cables are as fast as Open vSwitch is.
const FILE: &str = r#"
seeds = 1
balancers = ["sdn-ecmp"]
[topology]
spec = "fat-tree:k=4,host_delay=10us,fabric_delay=10us"
[traffic]
workload = "fixed:size=10KB"
arrivals = "all-at-once"
pattern = "stride"
[stop]
until = "1s"
[testbed]
shape = false
"#;

const VIP: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 100);
const CHECKER: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);
/// Members listen where the service does not: ports are rewritten too.
const PORT: u16 = 8080;
/// One client in each pod, and members beside them and elsewhere.
const CLIENTS: [u32; 4] = [0, 4, 8, 12];
const MEMBERS: [u32; 4] = [1, 6, 9, 14];
const SPARE: u32 = 3;
const BOX: u32 = 11;

/// A network with a controller and servers.
struct Scene {
    live: Live,
    controller: Controller,
    topology: Arc<Topology>,
    servers: BTreeMap<u32, Server>,
}

impl Scene {
    fn new() -> Scene {
        driver::down().expect("root, and Mininet");
        let experiment = Experiment::parse("f.toml", FILE, "f", Path::new("."), &[]).expect("a right file");
        let variant = &experiment.variants[0];
        let plan = NetworkPlan::new(&variant.topology, &variant.config, &variant.testbed);
        let mut live = Live::build(plan, &variant.topology, &driver::folder()).expect("a network");
        fs::create_dir_all(&live.folder).expect("a folder for logs");
        let wanted = Wanted {
            balancer: "sdn-ecmp",
            poll: None,
            seed: 1,
            openflow: free_port().expect("a port"),
            http: free_port().expect("a port"),
            hosts: KnownHosts::Configured,
            discovery: None,
            checker: Some(CHECKER),
            tables: "",
        };
        let program = Path::new(env!("CARGO_BIN_EXE_anabranch"));
        let mut controller =
            Controller::start(program, &live.folder, &variant.topology, &wanted).expect("a controller");
        let target = json!({"target": controller.target(), "backoff_ms": 1000});
        live.ask("controller", target).expect("switches are told");
        let known = controller.wait_until_known(&variant.topology, &mut || true, &mut || Ok(()));
        known.expect("it knows the network");
        Scene { live, controller, topology: Arc::clone(&variant.topology), servers: BTreeMap::new() }
    }

    /// Starts nginx on a host.
    fn serve(&mut self, host: u32) {
        let at = SocketAddrV4::new(ip(host), PORT);
        let pages = [("page", 1 << 10), ("large", 10 << 20)];
        let server = Server::nginx(&self.live, &host_name(HostIx(host)), at, &pages).expect("its files");
        server.start(&mut self.live).expect("nginx");
        self.servers.insert(host, server);
    }

    fn api(&self, method: &str, path: &str, body: &Value) {
        let until = Instant::now() + Duration::from_secs(10);
        while let Err(cause) = self.controller.http().send(method, path, body) {
            // One that has just been started may not listen yet.
            assert!(Instant::now() < until, "{method} {path}: {cause}");
            sleep(Duration::from_millis(50));
        }
    }

    /// A pool of hosts, and the service they serve.
    fn wants(&mut self, members: &[u32], pool: Value) {
        members.iter().for_each(|host| self.serve(*host));
        let list: Vec<Value> = members
            .iter()
            .map(|host| json!({"name": host_name(HostIx(*host)), "address": ip(*host), "port": PORT}))
            .collect();
        let mut pool = pool;
        pool["members"] = list.into();
        self.api("PUT", "/v1/pools/web", &pool);
        self.api("PUT", "/v1/services/web", &json!({"address": VIP, "port": 80, "pool": "web", "idle_timeout_s": 10}));
    }

    /// Waits until so many members can serve.
    fn wait_for_members(&self, wanted: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let pool = self.controller.http().get("/v1/pools/web").unwrap_or_default();
            let up = pool["members"].as_array().into_iter().flatten().filter(|member| member["state"] == "up").count();
            if up == wanted {
                return;
            }
            assert!(Instant::now() < until, "{up} of {wanted} members can serve: {pool}");
            sleep(Duration::from_millis(50));
        }
    }

    fn askers(&self, to: SocketAddrV4, path: &str, requests: u64, at_once: usize) -> Vec<Asker> {
        let asker = |client: &u32| Asker {
            host: self.live.hosts[*client as usize],
            to,
            path: path.to_owned(),
            requests,
            at_once,
            gap_ns: 0,
            patience: Duration::from_secs(20),
        };
        CLIENTS.iter().map(asker).collect()
    }

    /// Waits until so many requests are over.
    fn wait_for_requests(&mut self, asking: &Asking, ended: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while asking.ended() < ended {
            self.live.listen(Duration::from_millis(10)).expect("the network is there");
            assert!(Instant::now() < until, "{} of {ended} requests are over", asking.ended());
        }
    }

    fn member(&self, host: u32, is_enabled: bool) {
        let path = format!("/v1/pools/web/members/{}", host_name(HostIx(host)));
        self.api("PUT", &path, &json!({"address": ip(host), "port": PORT, "is_enabled": is_enabled}));
    }

    /// All requests, from their beginning to their end.
    fn ask(&mut self, askers: &[Asker]) -> Vec<Asked> {
        Asking::start(askers, now_ns()).expect("clients").finish()
    }

    /// SYNs and their answers that were sent again, of all hosts so far.
    fn opening_retransmissions(&self) -> u64 {
        self.live.hosts.iter().map(|host| syn_retransmissions(host.pid)).sum()
    }

    /// Plugs a host's cable in or out.
    fn plug(&mut self, host: u32, up: bool) {
        let node = self.topology.host(HostIx(host));
        let link = self.topology.out_links(node)[0];
        let cable = link.0.min(link.reverse().0);
        let number = self.live.plan.links.iter().position(|link| link.forward == cable).expect("its cable");
        self.live.ask("link", json!({"link": number, "up": up})).expect("the driver does it");
    }

    fn end(self) {
        drop(self.controller);
        self.live.driver.stop().expect("nothing is left");
    }
}

fn ip(host: u32) -> Ipv4Addr {
    address::host_ipv4(HostIx(host))
}

/// `TCPSynRetrans` of a namespace.
fn syn_retransmissions(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/net/netstat")).expect("a living namespace");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let rows: Vec<&Vec<&str>> = rows.iter().filter(|row| row[0] == "TcpExt:").collect();
    let place = rows[0].iter().position(|name| *name == "TCPSynRetrans").expect("Linux counts them");
    rows[1][place].parse().expect("a number")
}

/// Requests each server answered.
fn spread(asked: &[Asked]) -> BTreeMap<String, u64> {
    let mut spread = BTreeMap::new();
    for answer in asked.iter().filter_map(|one| one.result.as_ref().ok()) {
        *spread.entry(answer.server.clone().unwrap_or_default()).or_insert(0) += 1;
    }
    spread
}

fn failures(asked: &[Asked]) -> Vec<&Asked> {
    asked.iter().filter(|one| one.result.is_err()).collect()
}

/// A quantile of the time until connections stood, milliseconds.
fn connect_ms(asked: &[Asked], quantile: f64) -> f64 {
    let mut times: Vec<u64> = asked.iter().filter_map(|one| Some(one.result.as_ref().ok()?.connect_ns)).collect();
    times.sort_unstable();
    let place = ((times.len() - 1) as f64 * quantile).round() as usize;
    times[place] as f64 / 1e6
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test long"]
fn ten_thousand_requests_are_answered_and_spread_evenly() {
    let mut scene = Scene::new();
    scene.wants(&MEMBERS, json!({"balancer": "server-rr"}));
    scene.wait_for_members(4);
    let before = scene.opening_retransmissions();
    let asked = scene.ask(&scene.askers(SocketAddrV4::new(VIP, 80), "/page", 2500, 8));
    let spread = spread(&asked);
    let times = [0.5, 0.99, 1.0].map(|quantile| connect_ms(&asked, quantile));
    println!("{spread:?}; until connected, median, p99, longest: {times:.2?} ms");
    assert_eq!((asked.len(), failures(&asked)), (10_000, vec![]));
    assert!(spread.len() == 4 && spread.values().all(|served| (2450..=2550).contains(served)), "{spread:?}");
    // Nobody had to send a first packet twice.
    assert_eq!(scene.opening_retransmissions(), before);
    assert!(times[2] < 1000.0, "{times:?}");
    scene.end();
}

/// Requests of `asked` that `host` answered, and that began and were connected within a time: who began earlier or was connected later may
/// have met rules of before or after. Few of them are shown.
fn served_between(asked: &[Asked], host: u32, from_ns: u64, until_ns: u64) -> usize {
    let name = host_name(HostIx(host));
    let is_its = |one: &&Asked| {
        let answer = one.result.as_ref().ok().filter(|answer| answer.server.as_ref() == Some(&name));
        answer.is_some_and(|answer| one.start_ns >= from_ns && one.start_ns + answer.connect_ns < until_ns)
    };
    let served: Vec<&Asked> = asked.iter().filter(is_its).collect();
    for one in served.iter().filter(|_| served.len() < 20) {
        let (after, before) = ((one.start_ns - from_ns) / 1_000_000, (until_ns - one.start_ns) / 1_000_000);
        println!("{name} was asked {after} ms into a time, {before} ms before its end: {one:?}");
    }
    served.len()
}

/// Time for what was asked of the API to be in force in all switches, nanoseconds.
const IN_FORCE_NS: u64 = 200_000_000;

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test long"]
fn members_come_and_go_and_the_controller_dies_without_a_failed_request() {
    let mut scene = Scene::new();
    let monitor = json!({"check": "tcp", "interval_s": 0.5, "timeout_s": 0.4, "fall": 1});
    scene.wants(&MEMBERS, json!({"balancer": "server-rr", "established": "move", "monitor": monitor}));
    scene.serve(SPARE);
    scene.wait_for_members(4);
    let (drained, killed) = (MEMBERS[0], MEMBERS[1]);
    let askers = scene.askers(SocketAddrV4::new(VIP, 80), "/page", 5000, 8);
    // A thousand a second: the network is not the question.
    let askers: Vec<Asker> = askers.into_iter().map(|asker| Asker { gap_ns: 4_000_000, ..asker }).collect();
    let asking = Asking::start(&askers, now_ns()).expect("clients");

    scene.wait_for_requests(&asking, 1500);
    scene.member(SPARE, true);
    let added_ns = now_ns();
    scene.wait_for_requests(&asking, 3500);
    scene.member(drained, false);
    let drained_ns = now_ns();
    scene.wait_for_requests(&asking, 6000);
    // The whole host: its cable, and with it what nginx held.
    let killed_ns = now_ns();
    scene.plug(killed, false);
    let server = scene.servers[&killed].clone();
    server.kill(&mut scene.live).expect("nginx dies");
    scene.wait_for_requests(&asking, 8500);
    scene.plug(killed, true);
    server.start(&mut scene.live).expect("nginx");
    scene.wait_for_members(5);
    let restored_ns = now_ns();
    scene.wait_for_requests(&asking, 10_500);
    // It serves before we are told that it does.
    let enabling_ns = now_ns();
    scene.member(drained, true);
    let enabled_ns = now_ns();
    scene.wait_for_requests(&asking, 12_500);
    scene.controller.kill().expect("it lives");
    sleep(Duration::from_millis(700));
    scene.controller.start_again().expect("it starts");
    scene.wait_for_requests(&asking, 16_000);
    scene.wait_for_members(5);
    let removed = format!("/v1/pools/web/members/{}", host_name(HostIx(SPARE)));
    scene.api("DELETE", &removed, &json!({}));
    let removed_ns = now_ns();
    let asked = asking.finish();

    println!("{:?}, longest until connected {:.0} ms", spread(&asked), connect_ms(&asked, 1.0));
    let failed = failures(&asked);
    for one in &failed {
        println!("{} ms after the kill began: {one:?}", (one.start_ns as i64 - killed_ns as i64) / 1_000_000);
    }
    assert_eq!(asked.len(), 20_000);
    // Those that fail had a connection to the killed member: they began before it was killed and were not over.
    assert!(failed.iter().all(|one| one.start_ns <= killed_ns && one.end_ns >= killed_ns), "{failed:?}");
    assert!(failed.len() <= 32, "no more connections can stand at once: {}", failed.len());
    let served = |host, from, until| served_between(&asked, host, from, until);
    assert_eq!(served(SPARE, 0, added_ns - IN_FORCE_NS), 0);
    assert!(served(SPARE, added_ns + IN_FORCE_NS, drained_ns) > 100, "a member that was added serves");
    let while_enabling = served(drained, enabling_ns, enabled_ns);
    println!("the drained member got {while_enabling} connections while it was being enabled again");
    assert_eq!(served(drained, drained_ns + IN_FORCE_NS, enabling_ns), 0, "a drained member gets no new connections");
    assert_eq!(served(killed, killed_ns + IN_FORCE_NS, restored_ns - 1_000_000_000), 0);
    assert!(served(killed, restored_ns, u64::MAX) > 100, "a restored member serves again");
    assert!(served(drained, enabled_ns + IN_FORCE_NS, u64::MAX) > 100);
    assert_eq!(served(SPARE, removed_ns + IN_FORCE_NS, u64::MAX), 0);
    scene.end();
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test long"]
fn a_server_program_that_dies_is_found_by_the_next_check() {
    let mut scene = Scene::new();
    let monitor = json!({"check": "http", "path": "/page", "interval_s": 0.5, "timeout_s": 0.4, "fall": 1});
    scene.wants(&MEMBERS, json!({"balancer": "server-rr", "monitor": monitor}));
    scene.wait_for_members(4);
    let askers = scene.askers(SocketAddrV4::new(VIP, 80), "/page", 1000, 8);
    let askers: Vec<Asker> = askers.into_iter().map(|asker| Asker { gap_ns: 4_000_000, ..asker }).collect();
    let asking = Asking::start(&askers, now_ns()).expect("clients");
    scene.wait_for_requests(&asking, 1000);
    // Its host stays, and refuses connections: what balances by rules alone cannot know before it asks.
    let killed_ns = now_ns();
    let server = scene.servers[&MEMBERS[2]].clone();
    server.kill(&mut scene.live).expect("nginx dies");
    scene.wait_for_members(3);
    let found_ns = now_ns();
    scene.wait_for_requests(&asking, 2500);
    server.start(&mut scene.live).expect("nginx");
    scene.wait_for_members(4);
    let asked = asking.finish();
    let failed = failures(&asked);
    let (mut kinds, last) = (BTreeMap::new(), failed.iter().map(|one| one.start_ns).max().unwrap_or(0));
    for one in &failed {
        *kinds.entry(one.result.as_ref().err().map(|why| why.name())).or_insert(0) += 1;
    }
    let found_ms = (found_ns - killed_ns) as f64 / 1e6;
    println!("{} of {} failed: {kinds:?}; found after {found_ms:.0} ms", failed.len(), asked.len());
    assert_eq!(asked.len(), 4000);
    // An interval, and the answer that does not come.
    assert!(found_ms < 500.0 + 400.0 + 200.0, "{found_ms} ms");
    assert!(failed.iter().all(|one| one.end_ns >= killed_ns) && last <= found_ns, "{failed:?}");
    scene.end();
}

/// Figures of one way of balancing.
struct Figures {
    requests_per_s: f64,
    connect_median_ms: f64,
    connect_p99_ms: f64,
    large_mbps: f64,
    switch_cpu_us: f64,
    balancer_cpu_us: f64,
}

/// Pages of a kilobyte as fast as they come, then large ones. Processor time is that of a small page.
fn measure(scene: &mut Scene, to: SocketAddrV4, balancer_cpu_s: &dyn Fn(&Scene) -> f64) -> Figures {
    const REQUESTS: u64 = 8000;
    let cpu = |scene: &mut Scene| {
        (scene.live.driver.counters().expect("counters").switch_cpu_s, balancer_cpu_s(scene), now_ns())
    };
    let before = cpu(scene);
    let asked = scene.ask(&scene.askers(to, "/page", REQUESTS / 4, 8));
    let after = cpu(scene);
    assert_eq!((asked.len() as u64, failures(&asked)), (REQUESTS, vec![]));
    let large_from = now_ns();
    let large = scene.ask(&scene.askers(to, "/large", 8, 2));
    assert_eq!((large.len(), failures(&large)), (32, vec![]));
    let bytes: u64 = large.iter().filter_map(|one| Some(one.result.as_ref().ok()?.bytes)).sum();
    let seconds = |from: u64, until: u64| (until - from) as f64 / 1e9;
    Figures {
        requests_per_s: REQUESTS as f64 / seconds(before.2, after.2),
        connect_median_ms: connect_ms(&asked, 0.5),
        connect_p99_ms: connect_ms(&asked, 0.99),
        large_mbps: bytes as f64 * 8.0 / 1e6 / seconds(large_from, now_ns()),
        switch_cpu_us: (after.0 - before.0) * 1e6 / REQUESTS as f64,
        balancer_cpu_us: (after.1 - before.1) * 1e6 / REQUESTS as f64,
    }
}

#[test]
#[ignore = "needs root, Open vSwitch, nginx and HAProxy: scripts/test long"]
fn beside_a_box_in_the_path() {
    let mut scene = Scene::new();
    scene.wants(&MEMBERS, json!({"balancer": "server-rr"}));
    scene.wait_for_members(4);
    let members: Vec<SocketAddrV4> = MEMBERS.iter().map(|host| SocketAddrV4::new(ip(*host), PORT)).collect();
    let at = SocketAddrV4::new(ip(BOX), 80);
    let haproxy = Server::haproxy(&scene.live, &host_name(HostIx(BOX)), at, &members).expect("its files");
    haproxy.start(&mut scene.live).expect("HAProxy");
    let ours = measure(&mut scene, SocketAddrV4::new(VIP, 80), &|scene| {
        cpu_s(scene.controller.pid().expect("it lives")).expect("its time")
    });
    let theirs = measure(&mut scene, at, &|_| haproxy.cpu_s());
    let direct = measure(&mut scene, members[0], &|_| 0.0);
    println!(
        "                       requests/s  connect ms  p99 ms  large Mbit/s  switch us/request  balancer us/request"
    );
    for (name, of) in [("virtual service", &ours), ("HAProxy, a box", &theirs), ("one server, direct", &direct)] {
        println!(
            "{name:<22} {:>10.0} {:>11.2} {:>7.2} {:>13.0} {:>18.0} {:>20.0}",
            of.requests_per_s,
            of.connect_median_ms,
            of.connect_p99_ms,
            of.large_mbps,
            of.switch_cpu_us,
            of.balancer_cpu_us
        );
    }
    // Nothing of a large page goes through a box here.
    assert!(ours.large_mbps > theirs.large_mbps, "{} and {} Mbit/s", ours.large_mbps, theirs.large_mbps);
    scene.end();
}
