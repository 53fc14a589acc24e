//! Virtual services on real switches, with real servers and real clients: Open vSwitch, nginx, the
//! kernel's TCP. The tests need root; `scripts/test soak` runs them.

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
use experiment::input::HostLearning;
use net::{HostIx, Topology, address};
use serde_json::{Value, json};
use testbed::clock::now_ns;
use testbed::network::driver;
use testbed::network::plan::{NetworkPlan, host_name};
use testbed::network::running_network::RunningNetwork;
use testbed::processes::cpu_s;
use testbed::run::controller::{Controller, LaunchOptions, free_port};
use testbed::services::requests::{ClientSpec, CompletedRequest, RequestRun};
use testbed::services::servers::Server;

#[path = "services/mux.rs"]
mod mux;
#[path = "services/timetable.rs"]
mod timetable;
#[path = "services/wildcard.rs"]
mod wildcard;

/// A fat-tree of four pods whose cables have no rate limit.
const FILE: &str = include_str!("data/fat-tree.toml");

const VIP: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 100);
const CHECKER: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);
/// Members listen on another port than the service, so that ports are rewritten too.
const PORT: u16 = 8080;
/// One client in each pod, and members in the same pods and elsewhere.
const CLIENTS: [u32; 4] = [0, 4, 8, 12];
const MEMBERS: [u32; 4] = [1, 6, 9, 14];
const SPARE: u32 = 3;
const BOX: u32 = 11;

struct Scene {
    live: RunningNetwork,
    controller: Controller,
    topology: Arc<Topology>,
    servers: BTreeMap<u32, Server>,
}

impl Scene {
    fn new() -> Scene {
        Scene::with("")
    }

    /// Starts the network, and a controller whose configuration also has these tables.
    fn with(tables: &str) -> Scene {
        driver::down().expect("root, and Mininet");
        let experiment = Experiment::parse("f.toml", FILE, "f", Path::new("."), &[]).expect("a right file");
        let variant = &experiment.variants[0];
        let plan = NetworkPlan::new(&variant.topology, &variant.config, &variant.testbed);
        let mut live = RunningNetwork::build(plan, &variant.topology, &driver::folder()).expect("a network");
        fs::create_dir_all(&live.folder).expect("a folder for logs");
        let options = LaunchOptions {
            balancer: "sdn-ecmp",
            poll: None,
            seed: 1,
            openflow: free_port().expect("a port"),
            http: free_port().expect("a port"),
            hosts: HostLearning::Configured,
            discovery: None,
            health_check_address: Some(CHECKER),
            addressing: net::Addressing::Flat,
            refused: &[],
            tables,
        };
        let program = Path::new(env!("CARGO_BIN_EXE_anabranch"));
        let mut controller =
            Controller::start(program, &live.folder, &variant.topology, &options).expect("a controller");
        let target = json!({"target": controller.target(), "backoff_ms": 1000});
        live.request("controller", target).expect("switches receive the address");
        let known = controller.wait_until_known(&variant.topology, &mut || true, &mut || Ok(()));
        known.expect("it knows the network");
        Scene { live, controller, topology: Arc::clone(&variant.topology), servers: BTreeMap::new() }
    }

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
            // A controller that has just started may not listen yet.
            assert!(Instant::now() < until, "{method} {path}: {cause}");
            sleep(Duration::from_millis(50));
        }
    }

    fn define_service(&mut self, members: &[u32], pool: Value) {
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

    /// Waits until a resource of the API is as wanted.
    fn wait_for(&self, path: &str, limit_s: u64, is_wanted: impl Fn(&Value) -> bool) {
        let until = Instant::now() + Duration::from_secs(limit_s);
        loop {
            let found = self.controller.http().get(path).unwrap_or_default();
            if is_wanted(&found) {
                return;
            }
            assert!(Instant::now() < until, "{path} is not as wanted: {found}");
            sleep(Duration::from_millis(50));
        }
    }

    fn wait_for_members(&self, wanted: usize) {
        let is_up = |member: &&Value| member["state"] == "up";
        let up = |pool: &Value| pool["members"].as_array().into_iter().flatten().filter(is_up).count();
        self.wait_for("/v1/pools/web", 20, |pool| up(pool) == wanted);
    }

    /// Returns a client on each of the hosts. `gap_ns`: pause between two requests.
    fn clients_on(
        &self,
        hosts: &[u32],
        (to, path): (SocketAddrV4, &str),
        requests: u64,
        at_once: usize,
        gap_ns: u64,
    ) -> Vec<ClientSpec> {
        let client_spec = |client: &u32| ClientSpec {
            host: self.live.hosts[*client as usize],
            to,
            path: path.to_owned(),
            requests,
            at_once,
            gap_ns,
            patience: Duration::from_secs(20),
        };
        hosts.iter().map(client_spec).collect()
    }

    fn clients(&self, to: SocketAddrV4, path: &str, requests: u64, at_once: usize) -> Vec<ClientSpec> {
        self.clients_on(&CLIENTS, (to, path), requests, at_once, 0)
    }

    /// Starts clients that make a thousand requests a second, so that the network is not the limit.
    fn start_slow_clients(&self, requests: u64) -> RequestRun {
        let clients = self.clients_on(&CLIENTS, (SocketAddrV4::new(VIP, 80), "/page"), requests, 8, 4_000_000);
        RequestRun::start(&clients, now_ns()).expect("clients")
    }

    /// Waits until `ended` requests have ended.
    fn wait_for_requests(&mut self, requests_run: &RequestRun, ended: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while requests_run.ended() < ended {
            self.live.poll_events(Duration::from_millis(10)).expect("the network is there");
            assert!(Instant::now() < until, "{} of {ended} requests have ended", requests_run.ended());
        }
    }

    fn member(&self, host: u32, is_enabled: bool) {
        let path = format!("/v1/pools/web/members/{}", host_name(HostIx(host)));
        self.api("PUT", &path, &json!({"address": ip(host), "port": PORT, "is_enabled": is_enabled}));
    }

    fn request(&mut self, clients: &[ClientSpec]) -> Vec<CompletedRequest> {
        RequestRun::start(clients, now_ns()).expect("clients").finish()
    }

    /// Returns the retransmitted SYN and SYN-ACK segments of all hosts.
    fn opening_retransmissions(&self) -> u64 {
        self.live.hosts.iter().map(|host| syn_retransmissions(host.pid)).sum()
    }

    fn set_cable(&mut self, host: u32, up: bool) {
        let node = self.topology.host(HostIx(host));
        let link = self.topology.out_links(node)[0];
        let cable = link.0.min(link.reverse().0);
        let number = self.live.plan.links.iter().position(|link| link.forward == cable).expect("its cable");
        self.live.request("link", json!({"link": number, "up": up})).expect("the driver does it");
    }

    fn end(self) {
        drop(self.controller);
        self.live.driver.stop().expect("nothing is left");
    }
}

fn ip(host: u32) -> Ipv4Addr {
    address::host_ipv4(HostIx(host))
}

/// Returns `TCPSynRetrans` of a namespace.
fn syn_retransmissions(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/net/netstat")).expect("a living namespace");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let rows: Vec<&Vec<&str>> = rows.iter().filter(|row| row[0] == "TcpExt:").collect();
    let place = rows[0].iter().position(|name| *name == "TCPSynRetrans").expect("Linux counts them");
    rows[1][place].parse().expect("a number")
}

fn spread(requests: &[CompletedRequest]) -> BTreeMap<String, u64> {
    let mut spread = BTreeMap::new();
    for answer in requests.iter().filter_map(|one| one.result.as_ref().ok()) {
        *spread.entry(answer.server.clone().unwrap_or_default()).or_insert(0) += 1;
    }
    spread
}

fn failures(requests: &[CompletedRequest]) -> Vec<&CompletedRequest> {
    requests.iter().filter(|one| one.result.is_err()).collect()
}

/// Returns a quantile of the connect times, milliseconds.
fn connect_ms(requests: &[CompletedRequest], quantile: f64) -> f64 {
    let mut times: Vec<u64> = requests.iter().filter_map(|one| Some(one.result.as_ref().ok()?.connect_ns)).collect();
    times.sort_unstable();
    let place = ((times.len() - 1) as f64 * quantile).round() as usize;
    times[place] as f64 / 1e6
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test soak"]
fn ten_thousand_requests_succeed_and_are_spread_evenly() {
    let mut scene = Scene::new();
    scene.define_service(&MEMBERS, json!({"balancer": "server-rr"}));
    scene.wait_for_members(4);
    let before = scene.opening_retransmissions();
    let requests = scene.request(&scene.clients(SocketAddrV4::new(VIP, 80), "/page", 2500, 8));
    let spread = spread(&requests);
    let times = [0.5, 0.99, 1.0].map(|quantile| connect_ms(&requests, quantile));
    println!("{spread:?}; until connected, median, p99, longest: {times:.2?} ms");
    assert_eq!((requests.len(), failures(&requests)), (10_000, vec![]));
    assert!(spread.len() == 4 && spread.values().all(|served| (2450..=2550).contains(served)), "{spread:?}");
    // No client had to retransmit an opening segment.
    assert_eq!(scene.opening_retransmissions(), before);
    assert!(times[2] < 1000.0, "{times:?}");
    scene.end();
}

/// Returns the number of requests that `host` answered and that began and connected within a time.
/// Requests that began earlier or connected later may have met earlier or later rules. Prints the
/// requests if they are few.
fn served_between(requests: &[CompletedRequest], host: u32, from_ns: u64, until_ns: u64) -> usize {
    let name = host_name(HostIx(host));
    let is_its = |one: &&CompletedRequest| {
        let answer = one.result.as_ref().ok().filter(|answer| answer.server.as_ref() == Some(&name));
        answer.is_some_and(|answer| one.start_ns >= from_ns && one.start_ns + answer.connect_ns < until_ns)
    };
    let served: Vec<&CompletedRequest> = requests.iter().filter(is_its).collect();
    for one in served.iter().filter(|_| served.len() < 20) {
        let (after, before) = ((one.start_ns - from_ns) / 1_000_000, (until_ns - one.start_ns) / 1_000_000);
        println!("{name} received a request {after} ms into a time, {before} ms before its end: {one:?}");
    }
    served.len()
}

/// Time until a change of the API is in force in all switches, nanoseconds.
const IN_FORCE_NS: u64 = 200_000_000;

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test soak"]
fn member_changes_and_controller_restart_fail_no_request() {
    let mut scene = Scene::new();
    let monitor = json!({"check": "tcp", "interval_s": 0.5, "timeout_s": 0.4, "fall": 1});
    scene.define_service(&MEMBERS, json!({"balancer": "server-rr", "on_member_failure": "move", "monitor": monitor}));
    scene.serve(SPARE);
    scene.wait_for_members(4);
    let (drained, killed) = (MEMBERS[0], MEMBERS[1]);
    let requests_run = scene.start_slow_clients(5000);

    scene.wait_for_requests(&requests_run, 1500);
    scene.member(SPARE, true);
    let added_ns = now_ns();
    scene.wait_for_requests(&requests_run, 3500);
    scene.member(drained, false);
    let drained_ns = now_ns();
    scene.wait_for_requests(&requests_run, 6000);
    // The whole host dies: its cable, and with it the connections of nginx.
    let killed_ns = now_ns();
    scene.set_cable(killed, false);
    let server = scene.servers[&killed].clone();
    server.kill(&mut scene.live).expect("nginx dies");
    scene.wait_for_requests(&requests_run, 8500);
    scene.set_cable(killed, true);
    server.start(&mut scene.live).expect("nginx");
    scene.wait_for_members(5);
    let restored_ns = now_ns();
    scene.wait_for_requests(&requests_run, 10_500);
    // The member may serve before the API call returns.
    let enabling_ns = now_ns();
    scene.member(drained, true);
    let enabled_ns = now_ns();
    scene.wait_for_requests(&requests_run, 12_500);
    scene.controller.kill().expect("the controller runs");
    sleep(Duration::from_millis(700));
    scene.controller.restart().expect("it starts");
    scene.wait_for_requests(&requests_run, 16_000);
    scene.wait_for_members(5);
    let removed = format!("/v1/pools/web/members/{}", host_name(HostIx(SPARE)));
    scene.api("DELETE", &removed, &json!({}));
    let removed_ns = now_ns();
    let requests = requests_run.finish();

    println!("{:?}, longest until connected {:.0} ms", spread(&requests), connect_ms(&requests, 1.0));
    let failed = failures(&requests);
    for one in &failed {
        println!("{} ms after the kill began: {one:?}", (one.start_ns as i64 - killed_ns as i64) / 1_000_000);
    }
    assert_eq!(requests.len(), 20_000);
    // The failed requests had a connection to the killed member: they began before the kill and had
    // not ended.
    assert!(failed.iter().all(|one| one.start_ns <= killed_ns && one.end_ns >= killed_ns), "{failed:?}");
    assert!(failed.len() <= 32, "more failures than concurrent connections: {}", failed.len());
    let served = |host, from, until| served_between(&requests, host, from, until);
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
#[ignore = "needs root, Open vSwitch and nginx: scripts/test soak"]
fn dead_server_is_found_by_next_health_check() {
    let mut scene = Scene::new();
    let monitor = json!({"check": "http", "path": "/page", "interval_s": 0.5, "timeout_s": 0.4, "fall": 1});
    scene.define_service(&MEMBERS, json!({"balancer": "server-rr", "monitor": monitor}));
    scene.wait_for_members(4);
    let requests_run = scene.start_slow_clients(1000);
    scene.wait_for_requests(&requests_run, 1000);
    // The host stays up and refuses connections: rules alone cannot detect that before the next
    // health check.
    let killed_ns = now_ns();
    let server = scene.servers[&MEMBERS[2]].clone();
    server.kill(&mut scene.live).expect("nginx dies");
    scene.wait_for_members(3);
    let found_ns = now_ns();
    scene.wait_for_requests(&requests_run, 2500);
    server.start(&mut scene.live).expect("nginx");
    scene.wait_for_members(4);
    let requests = requests_run.finish();
    let failed = failures(&requests);
    let (mut kinds, last) = (BTreeMap::new(), failed.iter().map(|one| one.start_ns).max().unwrap_or(0));
    for one in &failed {
        *kinds.entry(one.result.as_ref().err().map(ToString::to_string)).or_insert(0) += 1;
    }
    let found_ms = (found_ns - killed_ns) as f64 / 1e6;
    println!("{} of {} failed: {kinds:?}; found after {found_ms:.0} ms", failed.len(), requests.len());
    assert_eq!(requests.len(), 4000);
    // One interval, and the timeout of the check.
    assert!(found_ms < 500.0 + 400.0 + 200.0, "{found_ms} ms");
    assert!(failed.iter().all(|one| one.end_ns >= killed_ns) && last <= found_ns, "{failed:?}");
    scene.end();
}

/// Figures of one kind of load balancing.
struct Figures {
    requests_per_s: f64,
    connect_median_ms: f64,
    connect_p99_ms: f64,
    large_mbps: f64,
    switch_cpu_us: f64,
    balancer_cpu_us: f64,
}

/// Fetches pages of a kilobyte as fast as possible, then large ones. Processor time is per small
/// page.
fn measure(scene: &mut Scene, to: SocketAddrV4, balancer_cpu_s: &dyn Fn(&Scene) -> f64) -> Figures {
    const REQUESTS: u64 = 8000;
    let cpu = |scene: &mut Scene| {
        (scene.live.driver.counters().expect("counters").switch_cpu_s, balancer_cpu_s(scene), now_ns())
    };
    let before = cpu(scene);
    let requests = scene.request(&scene.clients(to, "/page", REQUESTS / 4, 8));
    let after = cpu(scene);
    assert_eq!((requests.len() as u64, failures(&requests)), (REQUESTS, vec![]));
    let large_from = now_ns();
    let large = scene.request(&scene.clients(to, "/large", 8, 2));
    assert_eq!((large.len(), failures(&large)), (32, vec![]));
    let bytes: u64 = large.iter().filter_map(|one| Some(one.result.as_ref().ok()?.bytes)).sum();
    let seconds = |from: u64, until: u64| (until - from) as f64 / 1e9;
    Figures {
        requests_per_s: REQUESTS as f64 / seconds(before.2, after.2),
        connect_median_ms: connect_ms(&requests, 0.5),
        connect_p99_ms: connect_ms(&requests, 0.99),
        large_mbps: bytes as f64 * 8.0 / 1e6 / seconds(large_from, now_ns()),
        switch_cpu_us: (after.0 - before.0) * 1e6 / REQUESTS as f64,
        balancer_cpu_us: (after.1 - before.1) * 1e6 / REQUESTS as f64,
    }
}

#[test]
#[ignore = "needs root, Open vSwitch, nginx and HAProxy: scripts/test soak"]
fn service_outperforms_middlebox_for_large_pages() {
    let mut scene = Scene::new();
    scene.define_service(&MEMBERS, json!({"balancer": "server-rr"}));
    scene.wait_for_members(4);
    let members: Vec<SocketAddrV4> = MEMBERS.iter().map(|host| SocketAddrV4::new(ip(*host), PORT)).collect();
    let at = SocketAddrV4::new(ip(BOX), 80);
    let haproxy = Server::haproxy(&scene.live, &host_name(HostIx(BOX)), at, &members).expect("its files");
    haproxy.start(&mut scene.live).expect("HAProxy");
    let service = measure(&mut scene, SocketAddrV4::new(VIP, 80), &|scene| {
        cpu_s(scene.controller.pid().expect("the controller runs")).expect("its time")
    });
    let middlebox = measure(&mut scene, at, &|_| haproxy.cpu_s());
    let direct = measure(&mut scene, members[0], &|_| 0.0);
    println!(
        "                       requests/s  connect ms  p99 ms  large Mbit/s  switch us/request  balancer us/request"
    );
    for (name, of) in [("virtual service", &service), ("HAProxy, a box", &middlebox), ("one server, direct", &direct)] {
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
    // Large pages bypass any middlebox here.
    assert!(service.large_mbps > middlebox.large_mbps, "{} and {} Mbit/s", service.large_mbps, middlebox.large_mbps);
    scene.end();
}
