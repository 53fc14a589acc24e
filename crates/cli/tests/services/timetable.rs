//! A timetable on real switches: at 08:00 of the calendar another balancer routes, and a member gets no
//! new connections.

use std::fmt::Write as _;

use super::*;

/// Time from the start of the controller, when the calendar shows 07:59:30, to 08:00.
const BEFORE: Duration = Duration::from_secs(30);
/// Requests of four clients that make a thousand a second.
const REQUESTS: u64 = 8_000;

fn tables() -> String {
    let mut text = "\n[calendar]\nzone = \"Europe/Lisbon\"\nstart = \"2026-11-27T07:59:30\"\n".to_owned();
    let closed = host_name(HostIx(MEMBERS[0]));
    let _ = write!(
        text,
        "\n[[timetable]]\ndays = [\"mon-fri\"]\nfrom = \"08:00\"\nto = \"18:00\"\nbalancer = \"sdn-spt:tie=dst_tor\"\n\
         pools = {{ web = \"server-random\" }}\nweights = {{ web = {{ {closed} = 0 }} }}\n"
    );
    let _ = write!(text, "\n[services.web]\naddress = \"{VIP}\"\nport = 80\npool = \"web\"\nidle_timeout_s = 10\n");
    text += "\n[pools.web]\nbalancer = \"server-rr\"\n";
    for host in MEMBERS {
        let (name, address) = (host_name(HostIx(host)), ip(host));
        let _ = write!(text, "\n[[pools.web.members]]\nname = \"{name}\"\naddress = \"{address}\"\nport = {PORT}\n");
    }
    text
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test soak"]
fn timetable_changes_balancer_and_weights_without_a_failed_request() {
    let started = Instant::now();
    let mut scene = Scene::with(&tables());
    MEMBERS.iter().for_each(|host| scene.serve(*host));
    scene.wait_for_members(4);
    let named = |scene: &Scene| scene.controller.http().get("/v1/balancer").expect("a balancer").to_string();
    assert!(named(&scene).contains("sdn-ecmp"), "{}", named(&scene));
    let margin = Duration::from_secs(4);
    let early = BEFORE.checked_sub(started.elapsed() + margin).expect("the network is up well before 08:00");
    sleep(early);
    let run = scene.start_slow_clients(REQUESTS / 4);
    let requests = run.finish();
    assert!(started.elapsed() > BEFORE + margin / 2, "the run ended before the change: {:?}", started.elapsed());
    assert_eq!((requests.len() as u64, failures(&requests)), (REQUESTS, vec![]));
    assert!(named(&scene).contains("sdn-spt"), "{}", named(&scene));
    let closed = host_name(HostIx(MEMBERS[0]));
    let served = |requests: &[CompletedRequest]| spread(requests).get(&closed).copied().unwrap_or(0);
    let last =
        requests.iter().filter(|one| one.result.as_ref().is_ok_and(|answer| answer.server.as_ref() == Some(&closed)));
    let last = last.map(|one| one.start_ns).max().expect("it served before 08:00");
    let first = requests.iter().map(|one| one.start_ns).min().expect("requests");
    println!(
        "{} of {} requests by the member that closes, the last {:.2} s after the first request; longest time until connected {:.2} ms",
        served(&requests),
        requests.len(),
        (last - first) as f64 / 1e9,
        connect_ms(&requests, 1.0)
    );
    // An opening segment that is lost is sent again after a second.
    let delayed = |one: &&CompletedRequest| one.result.as_ref().is_ok_and(|answer| answer.connect_ns > 900_000_000);
    for one in requests.iter().filter(delayed) {
        println!(
            "an opening segment was lost {:.3} s after the last request to this member",
            (one.start_ns as f64 - last as f64) / 1e9
        );
    }
    let at_change = |one: &&CompletedRequest| delayed(one) && one.start_ns.abs_diff(last) < 100_000_000;
    assert_eq!(requests.iter().filter(at_change).count(), 0, "the change lost opening segments");
    let later = scene.request(&scene.clients(SocketAddrV4::new(VIP, 80), "/page", 250, 8));
    assert_eq!((later.len(), failures(&later), served(&later)), (1000, vec![], 0));
    scene.end();
}
