//! Forwarding by content in the simulator, against closed forms.

use net::{Bandwidth, HostIx, Time};
use sim::{ContentConfig, ContentRule, FlowEnd, Forwarding, ServicesConfig};

use crate::requests::{MSS, config, on_wire, one_way, served, services, star, sum};

const CONNECTION: Time = Time::from_us(700);
const REDIRECT: u64 = 300;

fn rule(path: &str, members: &[u32]) -> ContentRule {
    let members = members.iter().map(|host| HostIx(*host)).collect();
    ContentRule { path: path.to_owned(), host: None, members, balancer: None }
}

/// Returns services whose front end is the first server; the last rule matches everything.
fn by_content(
    forwarding: Forwarding,
    rules: Vec<ContentRule>,
    servers: &[(u32, u32)],
    classes: &[(u64, u32, Time)],
) -> ServicesConfig {
    let mut config = services(servers, classes);
    let relay_rate = Some(Bandwidth::from_mbps(1_000));
    let content =
        ContentConfig { forwarding, rules, connection_time: CONNECTION, relay_rate, redirect_bytes: REDIRECT };
    (config.services[0].members, config.services[0].content) = (vec![config.servers[0].host], Some(content));
    config
}

/// Client, front end and member at one switch; one request for ten segments. Returns what exceeds
/// the closed form of `steps`.
fn excess(forwarding: Forwarding, steps: &dyn Fn(Time) -> Vec<Time>) -> Time {
    let (mbps, delay, cpu) = (10, Time::from_ms(5), Time::from_ms(40));
    let topology = star(1, 2, mbps, delay);
    let config = config(by_content(forwarding, vec![rule("", &[2])], &[(1, 1), (2, 1)], &[(10 * MSS, 1, cpu)]));
    let outcome = served(&topology, "server-rr", &config, &[(0, Time::from_s(1), 0)]);
    assert_eq!(outcome.flows[0].end, FlowEnd::Completed, "{:?} {:?}", outcome.accounting, outcome.services);
    assert_eq!(outcome.flows[0].delivered_bytes, 10 * MSS);
    let record = outcome.services.expect("there are services");
    assert_eq!((record.served_by[0], record.connections.opened, record.connections.answered), (Some(1), 2, 2));
    assert_eq!((record.servers[0].pages[0], record.servers[1].pages[0]), (0, 1));
    assert_eq!(record.servers[1].busy, cpu);
    let relayed = Bandwidth::from_mbps(1_000).time_for(10 * MSS);
    let work = if forwarding == Forwarding::Splice { CONNECTION.saturating_add(relayed) } else { CONNECTION };
    assert!(record.servers[0].busy.saturating_sub(work) < Time::from_ns(100), "{} {work}", record.servers[0].busy);
    let latency = config.control.latency;
    // The first SYN goes through the controller.
    let closed = sum(&[sum(&steps(cpu)), latency, latency]);
    let took = outcome.flows[0].fct;
    assert!(took >= closed && outcome.flows[0].ideal <= took, "{took} {closed}");
    took.saturating_sub(closed)
}

#[test]
fn spliced_request_matches_closed_form() {
    let (mbps, delay) = (10, Time::from_ms(5));
    let way = |payload: u64| one_way(payload, mbps, delay);
    let behind = Time::from_ps(on_wire(MSS, mbps).as_ps() * 9);
    let over = excess(Forwarding::Splice, &|cpu| {
        let front = [way(0), way(0), way(500), CONNECTION];
        let back = [way(0), way(0), way(500), cpu, way(MSS), behind];
        let relay = [Bandwidth::from_mbps(1_000).time_for(MSS), way(MSS)];
        [&front[..], &back[..], &relay[..]].concat()
    });
    // Acknowledgements to the member leave by the same link as the relayed segments.
    let acks = Time::from_ps(on_wire(0, mbps).as_ps() * 10);
    assert!(over < acks.saturating_add(Time::from_us(20)), "{over}");
}

#[test]
fn redirected_request_matches_closed_form() {
    let (mbps, delay) = (10, Time::from_ms(5));
    let way = |payload: u64| one_way(payload, mbps, delay);
    let behind = Time::from_ps(on_wire(MSS, mbps).as_ps() * 9);
    let over = excess(Forwarding::Redirect, &|cpu| {
        let front = [way(0), way(0), way(500), CONNECTION, way(REDIRECT)];
        let direct = [way(0), way(0), way(500), cpu, way(MSS), behind];
        [front.as_slice(), direct.as_slice()].concat()
    });
    // The acknowledgement of the redirect precedes the SYN.
    assert!(over < on_wire(0, mbps).saturating_add(Time::from_us(20)), "{over}");
}

#[test]
fn first_matching_rule_gives_the_members() {
    let topology = star(2, 4, 100, Time::from_us(100));
    for forwarding in [Forwarding::Splice, Forwarding::Redirect] {
        let rules = vec![rule("/images/", &[3]), rule("/i", &[4]), rule("", &[5])];
        let servers = [(2, 1), (3, 1), (4, 1), (5, 1)];
        let page = (20 * MSS, 3, Time::from_us(50));
        let mut services = by_content(forwarding, rules, &servers, &[page, page, page]);
        for (class, path) in services.classes.iter_mut().zip(["/images/a", "/index", "/"]) {
            class.path = path.to_owned();
        }
        let requests: Vec<_> = (0..30u32).map(|ix| (ix % 2, Time::from_us(u64::from(ix) * 90), ix % 3)).collect();
        let outcome = served(&topology, "server-rr", &config(services), &requests);
        let record = outcome.services.expect("there are services");
        let served_by = (0..30).map(|ix| Some(ix % 3 + 1)).collect::<Vec<_>>();
        assert_eq!(record.served_by, served_by, "{forwarding:?}");
        assert_eq!(record.connections.answered, 180, "two connections a page");
        let pages: Vec<&[u64]> = record.servers.iter().map(|server| server.pages.as_slice()).collect();
        assert_eq!(pages, [&[0, 0, 0], &[30, 0, 0], &[0, 30, 0], &[0, 0, 30]], "{forwarding:?}");
    }
}

/// A front end measures each response, so a slow member gets few requests.
#[test]
fn front_end_measures_response_times() {
    let topology = star(1, 3, 100, Time::from_us(100));
    let page = (MSS, 1, Time::from_ms(1));
    let mut services = by_content(Forwarding::Splice, vec![rule("", &[2, 3])], &[(1, 1), (2, 1), (3, 1)], &[page]);
    services.servers[2].speed = 0.1;
    let requests: Vec<_> = (0..100u32).map(|ix| (0, Time::from_ms(20 * u64::from(ix)), 0)).collect();
    let balancer = "server-least-response:factor=none";
    let record = served(&topology, balancer, &config(services), &requests).services.expect("there are services");
    let pages: Vec<u64> = record.servers.iter().map(|server| server.pages[0]).collect();
    // Without a measurement, a member counts as the fastest one; ties take turns.
    assert_eq!(pages, [0, 99, 1]);
}
