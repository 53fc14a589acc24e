//! Services with proactive rules on real switches.

use super::*;

/// Connections per measurement of packet-ins.
const CONNECTIONS: u64 = 10_000;

impl Scene {
    /// Returns clients on all hosts that do not serve.
    fn all_clients(&self, path: &str, requests: u64, at_once: usize, gap_ns: u64) -> Vec<ClientSpec> {
        let hosts: Vec<u32> = (0..16).filter(|host| !MEMBERS.contains(host) && *host != SPARE).collect();
        self.clients_on(&hosts, (SocketAddrV4::new(VIP, 80), path), requests, at_once, gap_ns)
    }

    fn rules(&self, rules: &str) {
        let service = json!({"address": VIP, "port": 80, "pool": "web", "idle_timeout_s": 10, "rules": rules});
        self.api("PUT", "/v1/services/web", &service);
        sleep(Duration::from_nanos(IN_FORCE_NS));
    }

    /// Returns the packet-ins during `connections` connections, and the number that each server
    /// answered.
    fn packet_ins(&mut self, connections: u64) -> (u64, BTreeMap<String, u64>) {
        let before = self.controller.counts().expect("counts").packet_ins;
        let clients = self.all_clients("/page", connections / 11 + 1, 4, 0);
        let requests = self.request(&clients);
        assert!(requests.len() as u64 >= connections && failures(&requests).is_empty(), "{:?}", failures(&requests));
        (self.controller.counts().expect("counts").packet_ins - before, spread(&requests))
    }

    /// Waits until no client slot is migrating.
    fn wait_for_slot_migrations(&self) {
        self.wait_for("/v1/services/web", 30, |service| service["client_slots_migrating"] == json!(0));
    }
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test long"]
fn connections_with_proactive_rules_need_no_controller() {
    let mut scene = Scene::new();
    scene.define_service(&MEMBERS, json!({"balancer": "maglev"}));
    scene.serve(SPARE);
    scene.wait_for_members(4);
    let (reactive_packet_ins, one_by_one) = scene.packet_ins(CONNECTIONS);
    scene.rules("wildcard");
    let (proactive_packet_ins, by_slots) = scene.packet_ins(CONNECTIONS);
    println!(
        "packets to the controller per {CONNECTIONS} connections: {reactive_packet_ins}, with proactive rules {proactive_packet_ins}"
    );
    println!("servers: {one_by_one:?}, with proactive rules {by_slots:?}");
    assert!(reactive_packet_ins >= CONNECTIONS, "each connection has a first packet");
    // Other packet-ins remain: discovery probes and ARP requests.
    assert!(proactive_packet_ins < CONNECTIONS / 20, "{proactive_packet_ins}");

    let drained = MEMBERS[0];
    let clients = scene.all_clients("/page", 2300, 4, 11_000_000);
    let requests_run = RequestRun::start(&clients, now_ns()).expect("clients");
    scene.wait_for_requests(&requests_run, 2000);
    scene.controller.kill().expect("the controller runs");
    let killed_ns = now_ns();
    sleep(Duration::from_secs(4));
    let restarted_ns = now_ns();
    scene.controller.restart().expect("it starts");
    scene.wait_for_members(4);
    scene.wait_for_requests(&requests_run, 8000);
    scene.member(SPARE, true);
    let added_ns = now_ns();
    scene.wait_for_requests(&requests_run, 11_000);
    // Long connections are in progress when their member begins to drain.
    let long = RequestRun::start(&scene.all_clients("/large", 3, 1, 0), now_ns()).expect("clients");
    sleep(Duration::from_millis(200));
    scene.member(drained, false);
    let drained_ns = now_ns();
    let long = long.finish();
    let requests = requests_run.finish();
    println!("{:?}, longest until connected {:.0} ms", spread(&requests), connect_ms(&requests, 1.0));
    assert_eq!((requests.len(), failures(&requests)), (11 * 2300, vec![]));
    assert_eq!((long.len(), failures(&long)), (33, vec![]));
    let alone = requests.iter().filter(|one| (killed_ns..restarted_ns).contains(&one.start_ns)).count();
    println!("{alone} connections began while there was no controller");
    assert!(alone > 2000, "{alone}");
    let outlived = long.iter().filter(|one| one.start_ns < drained_ns && one.end_ns > drained_ns + IN_FORCE_NS).count();
    println!("{outlived} long connections were in progress when a member began to drain");
    assert!(served_between(&requests, SPARE, added_ns + IN_FORCE_NS, u64::MAX) > 100, "a member that was added serves");
    assert_eq!(served_between(&requests, drained, drained_ns + IN_FORCE_NS, u64::MAX), 0, "it gets no new connections");
    // All client slots have migrated: again no connection involves the controller.
    scene.wait_for_slot_migrations();
    let (later_packet_ins, by_slots) = scene.packet_ins(CONNECTIONS);
    println!("after members have come and gone: {later_packet_ins}; {by_slots:?}");
    assert!(later_packet_ins < CONNECTIONS / 20 && !by_slots.contains_key(&host_name(HostIx(drained))), "{by_slots:?}");
    scene.end();
}
