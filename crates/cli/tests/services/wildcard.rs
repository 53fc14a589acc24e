//! Services whose rules stand beforehand, on real switches.

use super::*;

/// Connections of a run that packets to the controller are counted of.
const CONNECTIONS: u64 = 10_000;

impl Scene {
    /// Everybody who does not serve asks.
    fn all_askers(&self, path: &str, requests: u64, at_once: usize, gap_ns: u64) -> Vec<Asker> {
        let clients = (0..16u32).filter(|host| !MEMBERS.contains(host) && *host != SPARE);
        let asker = |host: u32| Asker {
            host: self.live.hosts[host as usize],
            to: SocketAddrV4::new(VIP, 80),
            path: path.to_owned(),
            requests,
            at_once,
            gap_ns,
            patience: Duration::from_secs(20),
        };
        clients.map(asker).collect()
    }

    fn rules(&self, rules: &str) {
        let service = json!({"address": VIP, "port": 80, "pool": "web", "idle_timeout_s": 10, "rules": rules});
        self.api("PUT", "/v1/services/web", &service);
        sleep(Duration::from_nanos(IN_FORCE_NS));
    }

    /// Packets switches send to the controller while so many connections are made, and who answers these.
    fn packet_ins(&mut self, connections: u64) -> (u64, BTreeMap<String, u64>) {
        let before = self.controller.counts().expect("counts").packet_ins;
        let askers = self.all_askers("/page", connections / 11 + 1, 4, 0);
        let asked = self.ask(&askers);
        assert!(asked.len() as u64 >= connections && failures(&asked).is_empty(), "{:?}", failures(&asked));
        (self.controller.counts().expect("counts").packet_ins - before, spread(&asked))
    }

    /// Waits until no clients are moving from one member to another.
    fn wait_for_buckets(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let service = self.controller.http().get("/v1/services/web").unwrap_or_default();
            if service["buckets_moving"] == json!(0) {
                return;
            }
            assert!(Instant::now() < until, "clients still move: {service}");
            sleep(Duration::from_millis(100));
        }
    }
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test long"]
fn connections_need_no_controller_where_rules_stand_beforehand() {
    let mut scene = Scene::new();
    scene.wants(&MEMBERS, json!({"balancer": "maglev"}));
    scene.serve(SPARE);
    scene.wait_for_members(4);
    let (asked, one_by_one) = scene.packet_ins(CONNECTIONS);
    scene.rules("wildcard");
    let (asked_beforehand, by_buckets) = scene.packet_ins(CONNECTIONS);
    println!("packets to the controller per {CONNECTIONS} connections: {asked}, beforehand {asked_beforehand}");
    println!("who answers: {one_by_one:?}, beforehand {by_buckets:?}");
    assert!(asked >= CONNECTIONS, "each connection has a first packet");
    // Switches and hosts have other things to say: discovery, and questions for addresses.
    assert!(asked_beforehand < CONNECTIONS / 20, "{asked_beforehand}");

    let drained = MEMBERS[0];
    let askers = scene.all_askers("/page", 2300, 4, 11_000_000);
    let asking = Asking::start(&askers, now_ns()).expect("clients");
    scene.wait_for_requests(&asking, 2000);
    scene.controller.kill().expect("it lives");
    let killed_ns = now_ns();
    sleep(Duration::from_secs(4));
    let restarted_ns = now_ns();
    scene.controller.start_again().expect("it starts");
    scene.wait_for_members(4);
    scene.wait_for_requests(&asking, 8000);
    scene.member(SPARE, true);
    let added_ns = now_ns();
    scene.wait_for_requests(&asking, 11_000);
    // Long connections are under way when their member begins to drain.
    let long = Asking::start(&scene.all_askers("/large", 3, 1, 0), now_ns()).expect("clients");
    sleep(Duration::from_millis(200));
    scene.member(drained, false);
    let drained_ns = now_ns();
    let long = long.finish();
    let asked = asking.finish();
    println!("{:?}, longest until connected {:.0} ms", spread(&asked), connect_ms(&asked, 1.0));
    assert_eq!((asked.len(), failures(&asked)), (11 * 2300, vec![]));
    assert_eq!((long.len(), failures(&long)), (33, vec![]));
    let alone = asked.iter().filter(|one| (killed_ns..restarted_ns).contains(&one.start_ns)).count();
    println!("{alone} connections began while there was no controller");
    assert!(alone > 2000, "{alone}");
    let outlived = long.iter().filter(|one| one.start_ns < drained_ns && one.end_ns > drained_ns + IN_FORCE_NS).count();
    println!("{outlived} long connections were under way when a member began to drain");
    assert!(served_between(&asked, SPARE, added_ns + IN_FORCE_NS, u64::MAX) > 100, "a member that was added serves");
    assert_eq!(served_between(&asked, drained, drained_ns + IN_FORCE_NS, u64::MAX), 0, "it gets no new connections");
    // All have moved: again nobody asks.
    scene.wait_for_buckets();
    let (asked_later, by_buckets) = scene.packet_ins(CONNECTIONS);
    println!("after members have come and gone: {asked_later}; {by_buckets:?}");
    assert!(asked_later < CONNECTIONS / 20 && !by_buckets.contains_key(&host_name(HostIx(drained))), "{by_buckets:?}");
    scene.end();
}
