//! Services with a mux on real switches.

use super::*;

const CONNECTIONS: u64 = 4_000;

impl Scene {
    fn mux(&self, previous: Option<&str>) -> String {
        let is_new = |service: &Value| service["mux"].as_str().is_some_and(|mux| Some(mux) != previous);
        self.wait_for("/v1/services/web", 30, is_new);
        let service = self.controller.http().get("/v1/services/web").expect("the service");
        service["mux"].as_str().expect("a mux").to_owned()
    }

    /// Cuts all cables of a switch.
    fn kill_switch(&mut self, dpid: &str) {
        let datapath = u64::from_str_radix(dpid, 16).expect("a datapath id");
        let nodes = (0..self.topology.nodes().len() as u32).map(net::NodeIx);
        let node = nodes.into_iter().find(|node| address::datapath_of(*node) == datapath).expect("its switch");
        for link in self.topology.out_links(node).to_vec() {
            let cable = link.0.min(link.reverse().0);
            let number = self.live.plan.links.iter().position(|link| link.forward == cable).expect("its cable");
            self.live.request("link", json!({"link": number, "up": false})).expect("the driver does it");
        }
    }
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test long"]
fn killed_mux_loses_only_connections_on_their_way_through_it() {
    let mut scene = Scene::new();
    scene.define_service(&MEMBERS, json!({"balancer": "maglev"}));
    scene.wait_for_members(4);
    let service = json!({"address": VIP, "port": 80, "pool": "web", "idle_timeout_s": 10, "rules": "mux"});
    scene.api("PUT", "/v1/services/web", &service);
    let first = scene.mux(None);
    let before = scene.controller.counts().expect("counts").packet_ins;
    let requests = scene.request(&scene.clients(SocketAddrV4::new(VIP, 80), "/page", CONNECTIONS / 4, 8));
    let packet_ins = scene.controller.counts().expect("counts").packet_ins - before;
    let times = [0.5, 0.99, 1.0].map(|quantile| connect_ms(&requests, quantile));
    println!(
        "{:?} through {first}; until connected, median, p99, longest: {times:.2?} ms; {packet_ins} packet-ins",
        spread(&requests)
    );
    assert_eq!((requests.len() as u64, failures(&requests)), (CONNECTIONS, vec![]));
    assert!(packet_ins < CONNECTIONS / 20, "{packet_ins}: connections need no controller");

    let requests_run = scene.start_slow_clients(3000);
    let long =
        RequestRun::start(&scene.clients(SocketAddrV4::new(VIP, 80), "/large", 2, 2), now_ns()).expect("clients");
    scene.wait_for_requests(&requests_run, 3000);
    let killed_ns = now_ns();
    scene.kill_switch(&first);
    let next = scene.mux(Some(&first));
    let moved_ms = (now_ns() - killed_ns) / 1_000_000;
    let (requests, long) = (requests_run.finish(), long.finish());
    let slow = requests.iter().filter(|one| one.end_ns - one.start_ns > 150_000_000).count();
    println!(
        "{first} killed, {next} after {moved_ms} ms: {} of {} requests failed, {slow} took more than 150 ms, longest until connected {:.0} ms",
        failures(&requests).len(),
        requests.len(),
        connect_ms(&requests, 1.0)
    );
    assert!(requests.len() == 12_000 && long.len() == 8);
    // TCP repeats what was lost on the way: the connections keep their members.
    assert_eq!((failures(&requests), failures(&long)), (vec![], vec![]));
    scene.end();
}
