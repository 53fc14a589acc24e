//! `anabranch agent --in-band` on a member: its datagrams come through the data plane to the balancer.

use std::net::TcpStream;

use testbed::driver::Program;
use testbed::sockets::inside;

use super::*;

/// Connections past the virtual service: the controller cannot know of them.
const VISITORS: usize = 60;
const REQUESTS: u64 = 20;

/// Requests one after the other from one client, and who answered how many.
fn ask(scene: &mut Scene) -> BTreeMap<String, u64> {
    let mut askers = scene.askers(SocketAddrV4::new(VIP, 80), "/page", REQUESTS, 1);
    askers.truncate(1);
    let asked = scene.ask(&askers);
    assert_eq!((asked.len() as u64, failures(&asked)), (REQUESTS, vec![]));
    spread(&asked)
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test long"]
fn an_agent_in_band_is_heard() {
    let mut scene = Scene::new();
    let (busy, other) = (MEMBERS[0], MEMBERS[1]);
    scene.wants(&[busy, other], json!({"balancer": "server-lc"}));
    scene.wait_for_members(2);
    // Nobody has told: both look alike.
    let half = REQUESTS / 2;
    assert_eq!(ask(&mut scene), [(host_name(HostIx(busy)), half), (host_name(HostIx(other)), half)].into());
    let visitor = || TcpStream::connect(SocketAddrV4::new(ip(busy), PORT));
    let visitors = inside(scene.live.hosts[CLIENTS[0] as usize], || (0..VISITORS).map(|_| visitor()).collect());
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
        scene.live.listen(Duration::from_millis(20)).expect("the network is there");
        assert!(Instant::now() < until, "it has not ended: {}", fs::read_to_string(&log).unwrap_or_default());
    }
    assert_eq!(scene.live.exits["agent"], 0, "{}", fs::read_to_string(&log).unwrap_or_default());
    // Twenty more leave the other with fewer than what was told of this one.
    assert_eq!(ask(&mut scene), [(host_name(HostIx(other)), REQUESTS)].into());
    drop(visitors);
    scene.end();
}
