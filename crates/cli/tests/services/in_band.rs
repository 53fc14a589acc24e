//! `anabranch agent --in-band` on a member: its datagrams reach the balancer through the data
//! plane.

use std::net::TcpStream;

use testbed::network::driver::Program;
use testbed::traffic::namespace::run_in_namespace;

use super::*;

/// Connections that bypass the virtual service, so that the controller cannot count them.
const VISITORS: usize = 60;
const REQUESTS: u64 = 20;

/// Makes requests one after another from one client. Returns the number that each server answered.
fn request(scene: &mut Scene) -> BTreeMap<String, u64> {
    let mut clients = scene.clients(SocketAddrV4::new(VIP, 80), "/page", REQUESTS, 1);
    clients.truncate(1);
    let requests = scene.request(&clients);
    assert_eq!((requests.len() as u64, failures(&requests)), (REQUESTS, vec![]));
    spread(&requests)
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test long"]
fn in_band_report_changes_member_choice() {
    let mut scene = Scene::new();
    let (busy, other) = (MEMBERS[0], MEMBERS[1]);
    scene.define_service(&[busy, other], json!({"balancer": "server-lc"}));
    scene.wait_for_members(2);
    // Without a report both members look alike.
    let half = REQUESTS / 2;
    assert_eq!(request(&mut scene), [(host_name(HostIx(busy)), half), (host_name(HostIx(other)), half)].into());
    let visitor = || TcpStream::connect(SocketAddrV4::new(ip(busy), PORT));
    let visitors =
        run_in_namespace(scene.live.hosts[CLIENTS[0] as usize], || (0..VISITORS).map(|_| visitor()).collect());
    let visitors: Vec<TcpStream> = visitors.expect("connections");
    let log = scene.live.folder.join("agent.log");
    let (checker, port) = (CHECKER.to_string(), PORT.to_string());
    let program = env!("CARGO_BIN_EXE_anabranch");
    let argv = [program, "agent", "--in-band", &checker, "--connections", &port, "--interval", "200ms", "--count", "3"];
    let agent = Program {
        name: "agent",
        host: Some(&host_name(HostIx(busy))),
        argv: argv.map(str::to_owned).to_vec(),
        log: &log,
        cwd: &scene.live.folder,
        at_s: None,
    };
    scene.live.driver.spawn(&agent).expect("the agent starts");
    let until = Instant::now() + Duration::from_secs(20);
    while !scene.live.exits.contains_key("agent") {
        scene.live.poll_events(Duration::from_millis(20)).expect("the network is there");
        assert!(Instant::now() < until, "it has not ended: {}", fs::read_to_string(&log).unwrap_or_default());
    }
    assert_eq!(scene.live.exits["agent"], 0, "{}", fs::read_to_string(&log).unwrap_or_default());
    // Twenty more connections leave the other member with fewer than the reported ones.
    assert_eq!(request(&mut scene), [(host_name(HostIx(other)), REQUESTS)].into());
    drop(visitors);
    scene.end();
}
