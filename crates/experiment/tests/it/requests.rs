//! Requests to virtual services in the simulator: through the controller's own rules, against
//! closed forms.

use anabranch_experiment::run::controller::run;
use balance::Spec;
use net::{Bandwidth, HostIx, NodeIx, Time, Topology, TopologyBuilder};
use sim::{
    AgentConfig, Boot, ControlConfig, FlowEnd, Outcome, RequestClass, Scenario, ServerConfig, ServicesConfig,
    SimConfig, StopRule, TransportConfig, VirtualService,
};
use traffic::{Flow, FlowList, Start};

pub(crate) const MSS: u64 = 1460;
const HEADER: u64 = 40;

/// Clients, then servers, at one switch; all links have the same rate and delay.
pub(crate) fn star(clients: u32, servers: u32, mbps: u64, delay: Time) -> Topology {
    let mut builder = TopologyBuilder::new("star");
    let switch = builder.switch("switch", 1, None);
    for ix in 0..clients + servers {
        let host = builder.host(format!("h{ix}"), 0, None);
        builder.connect(host, switch, Bandwidth::from_mbps(mbps), delay);
    }
    builder.build().expect("a network")
}

pub(crate) fn services(servers: &[(u32, u32)], classes: &[(u64, u32, Time)]) -> ServicesConfig {
    let servers: Vec<ServerConfig> = servers
        .iter()
        .map(|(host, cores)| ServerConfig { host: HostIx(*host), cores: *cores, speed: 1.0, weight: 1 })
        .collect();
    let class = |(ix, (page_bytes, pages, cpu)): (usize, &(u64, u32, Time))| RequestClass {
        name: format!("class {ix}"),
        service: 0,
        request_bytes: 500,
        page_bytes: *page_bytes,
        pages: *pages,
        cpu: *cpu,
        path: "/".to_owned(),
        host: String::new(),
    };
    let address = "10.100.0.1".parse().expect("an address");
    let service = VirtualService {
        name: "web".to_owned(),
        address,
        mac: control::vip::mac_of(address).0,
        port: 80,
        members: servers.iter().map(|server| server.host).collect(),
        member_port: Some(8080),
        pool: 0,
        idle_timeout_s: 30,
        buckets: None,
        is_tunnelled: false,
        content: None,
        mux_traffic: None,
    };
    ServicesConfig {
        services: vec![service],
        servers,
        classes: classes.iter().enumerate().map(class).collect(),
        agents: None,
        base: "sdn-ecmp".to_owned(),
    }
}

pub(crate) fn config(services: ServicesConfig) -> SimConfig {
    let transport = TransportConfig { handshake: true, min_rto: Time::from_ms(200), ..TransportConfig::new_reno() };
    SimConfig { transport, services: Some(services), ..SimConfig::default() }
}

fn request_list(requests: &[(u32, Time, u32)], config: &ServicesConfig) -> FlowList {
    let flow = |(client, at, class): &(u32, Time, u32)| {
        let kind = &config.classes[*class as usize];
        let size_bytes = kind.page_bytes * u64::from(kind.pages);
        let dst = config.servers[0].host;
        Flow { src: HostIx(*client), dst, size_bytes, start: Start::At(*at), group: class + 1 }
    };
    FlowList { flows: requests.iter().map(flow).collect(), ..FlowList::default() }
}

fn run_flows(topology: &Topology, balancer: &str, config: &SimConfig, flows: &FlowList) -> Outcome {
    let balancer = Spec::parse(balancer).expect("a balancer");
    let scenario = Scenario { topology, flows, balancer: &balancer, seed: 1, config };
    run(&scenario, 1, &mut |_| true).unwrap_or_else(|error| panic!("{error}")).0
}

pub(crate) fn served(
    topology: &Topology,
    balancer: &str,
    config: &SimConfig,
    requests: &[(u32, Time, u32)],
) -> Outcome {
    let outcome =
        run_flows(topology, balancer, config, &request_list(requests, config.services.as_ref().expect("services")));
    let record = outcome.services.as_ref().expect("there are services");
    let counts = record.connections;
    assert_eq!(counts.opened, counts.answered + counts.failed + counts.open);
    assert_eq!(record.misaddressed, 0, "rules rewrite both ways");
    outcome
}

pub(crate) fn on_wire(payload: u64, mbps: u64) -> Time {
    Bandwidth::from_mbps(mbps).time_for(payload + HEADER)
}

/// One-way delay of a packet over two links, store-and-forward.
pub(crate) fn one_way(payload: u64, mbps: u64, delay: Time) -> Time {
    let hop = on_wire(payload, mbps).saturating_add(delay);
    hop.saturating_add(hop)
}

pub(crate) fn sum(times: &[Time]) -> Time {
    times.iter().fold(Time::ZERO, |sum, time| sum.saturating_add(*time))
}

#[test]
fn single_request_matches_closed_form() {
    let (mbps, delay, cpu) = (10, Time::from_ms(5), Time::from_ms(40));
    let topology = star(1, 1, mbps, delay);
    // Ten segments at most: one initial window, so the whole response leaves at once.
    let page = 10 * MSS;
    let latency = Time::from_ms(3);
    let mut config = config(services(&[(1, 1)], &[(page, 1, cpu)]));
    config.control = ControlConfig { latency, ..ControlConfig::default() };
    let outcome = served(&topology, "server-rr", &config, &[(0, Time::from_s(1), 0)]);
    assert_eq!(outcome.flows[0].end, FlowEnd::Completed, "{:?} {:?}", outcome.accounting, outcome.services);
    // SYN, via the controller; SYN-ACK; request; computation; response, its later segments one
    // after the other.
    let behind = Time::from_ps(on_wire(MSS, mbps).as_ps() * 9);
    let without = sum(&[
        one_way(0, mbps, delay),
        one_way(0, mbps, delay),
        one_way(500, mbps, delay),
        cpu,
        one_way(MSS, mbps, delay),
        behind,
    ]);
    let controller = Time::from_ps(2 * latency.as_ps());
    let took = outcome.flows[0].fct;
    let over = took.saturating_sub(without.saturating_add(controller));
    // Messages take some time on the channel of 1 Gb/s: less than 20 us.
    assert!(took >= without.saturating_add(controller), "{took} {without}");
    assert!(over < Time::from_us(20), "{over} beyond {without} and {controller}");
    assert!(outcome.flows[0].ideal <= took);
    let record = outcome.services.expect("there are services");
    assert_eq!((record.servers[0].pages[0], record.servers[0].busy), (1, cpu));
    assert_eq!(outcome.flows[0].delivered_bytes, page);
}

#[test]
fn connection_rules_forward_all_later_packets() {
    let topology = star(1, 1, 100, Time::from_ms(1));
    let config = config(services(&[(1, 1)], &[(500_000, 1, Time::ZERO)]));
    let outcome = served(&topology, "server-rr", &config, &[(0, Time::from_s(1), 0)]);
    assert_eq!(outcome.accounting.packets_to_controller, 1, "{:?}", outcome.accounting);
    assert_eq!((outcome.accounting.flows_completed, outcome.accounting.dropped.no_route), (1, 0));
}

#[test]
fn two_jobs_share_one_core_and_not_four() {
    let topology = star(2, 1, 1_000, Time::from_us(10));
    let requests = [(0, Time::from_s(1), 0), (1, Time::from_s(2), 0)];
    for (cores, expected) in [(1, [3.0, 3.0]), (4, [2.0, 2.0])] {
        // The second request starts 1 s after the first, which is then half complete: each has 1 s
        // or 2 s left at half a core.
        let config = config(services(&[(2, cores)], &[(1_000, 1, Time::from_s(2))]));
        let outcome = served(&topology, "server-rr", &config, &requests);
        for (flow, expected) in outcome.flows.iter().zip(expected) {
            assert!((flow.fct.as_s_f64() - expected).abs() < 0.002, "{cores} cores: {} not {expected}", flow.fct);
        }
    }
}

#[test]
fn pages_use_successive_connections() {
    let topology = star(1, 3, 100, Time::from_ms(1));
    let config = config(services(&[(1, 1), (2, 1), (3, 1)], &[(60_000, 5, Time::ZERO)]));
    let outcome = served(&topology, "server-rr", &config, &[(0, Time::from_s(1), 0)]);
    let record = outcome.services.expect("there are services");
    let pages: Vec<u64> = record.servers.iter().map(|server| server.pages[0]).collect();
    assert_eq!(pages, [2, 2, 1], "in turn");
    assert_eq!((record.connections.answered, outcome.accounting.flows_completed), (5, 1));
    assert_eq!(outcome.flows[0].delivered_bytes, 300_000);
    let alone = config_of_one_page(&topology);
    assert!(outcome.flows[0].fct.as_ps() > 49 * alone.as_ps() / 10, "{} and {alone}", outcome.flows[0].fct);
}

fn config_of_one_page(topology: &Topology) -> Time {
    let config = config(services(&[(1, 1), (2, 1), (3, 1)], &[(60_000, 1, Time::ZERO)]));
    served(topology, "server-rr", &config, &[(0, Time::from_s(1), 0)]).flows[0].fct
}

#[test]
fn agent_reports_select_the_idle_server() {
    let topology = star(1, 2, 100, Time::from_ms(1));
    // Long jobs for the first clients, then short ones: all go to the server that reports itself
    // idle.
    let classes = [(1_000, 1, Time::from_s(100)), (1_000, 1, Time::from_ms(1))];
    let mut config = config(services(&[(1, 1), (2, 1)], &classes));
    for is_in_band in [false, true] {
        let services = config.services.as_mut().expect("services");
        let to = sim::ReportsTo {
            address: "10.254.254.254".parse().expect("an address"),
            mac: [6, 0, 0, 0, 0, 1],
            port: control::vip::REPORT_PORT,
        };
        let in_band = is_in_band.then_some(to);
        services.agents = Some(AgentConfig { pause: Time::from_s(1), sampling: Time::from_s(1), in_band });
        config.stop = StopRule { until: Some(Time::from_s(60)) };
        let mut requests = vec![(0, Time::from_s(1), 0)];
        requests.extend((0..10).map(|ix| (0, Time::from_s(20 + ix), 1)));
        let outcome = served(&topology, "server-cpu", &config, &requests);
        let record = outcome.services.as_ref().expect("there are services");
        assert_eq!(record.servers[0].pages[1] + record.servers[1].pages[1], 10);
        let busy = usize::from(record.servers[1].jobs_max > 0 && record.servers[1].busy > record.servers[0].busy);
        assert_eq!(record.servers[busy].pages[1], 0, "in band {is_in_band}: {record:?}");
        assert_eq!((outcome.accounting.flows_completed, outcome.accounting.flows_running), (10, 1));
    }
}

#[test]
fn unreachable_member_fails_requests_immediately() {
    let topology = star(2, 1, 100, Time::from_ms(1));
    // The only member sends a request to itself: a switch does not send a packet back where it came
    // from.
    let mut services = services(&[(1, 1)], &[(1_000, 1, Time::ZERO)]);
    services.services[0].members = vec![HostIx(1)];
    let mut config = config(services);
    config.stop = StopRule { until: Some(Time::from_s(30)) };
    let start = Start::At(Time::from_s(1));
    let flow = Flow { src: HostIx(1), dst: HostIx(0), size_bytes: 1_000, start, group: 1 };
    let flows = FlowList { flows: vec![flow], ..FlowList::default() };
    let outcome = run_flows(&topology, "server-rr", &config, &flows);
    assert_eq!(outcome.flows[0].end, FlowEnd::Failed);
    assert!(outcome.flows[0].fct < Time::from_ms(10), "a reset, not a time-out: {}", outcome.flows[0].fct);
}

#[test]
fn software_switch_is_limited_to_its_packet_rate() {
    let topology = star(1, 1, 100, Time::from_ms(1));
    let mut config = config(services(&[(1, 1)], &[(3_000_000, 1, Time::ZERO)]));
    config.control.packets_per_s = Some(1_000);
    config.transport.ack_every = 2;
    config.transport.ack_timeout = Time::from_ms(40);
    let outcome = served(&topology, "server-rr", &config, &[(0, Time::from_s(1), 0)]);
    assert_eq!(outcome.accounting.flows_completed, 1);
    // Every packet passes the switch once; the window keeps it busy.
    let packets = outcome.accounting.packets_sent as f64;
    let took = outcome.flows[0].fct.as_s_f64();
    assert!(took >= packets / 1_000.0 * 0.99 && took < packets / 1_000.0 * 1.1, "{took} s for {packets} packets");
}

#[test]
fn repeated_run_is_equal_and_accounted() {
    let topology = net::spec::parse("geni-wan").expect("a family");
    let servers = [(4, 4), (5, 1), (6, 1)];
    let mut config = config(services(&servers, &[(60_000, 2, Time::from_ms(30)), (400_000, 1, Time::from_ms(5))]));
    let agents = AgentConfig { pause: Time::from_s(1), sampling: Time::from_s(1), in_band: None };
    config.services.as_mut().expect("services").agents = Some(agents);
    let requests: Vec<(u32, Time, u32)> =
        (0..60).map(|ix| (ix % 4, Time::from_ms(u64::from(1_000 + 173 * ix)), ix % 2)).collect();
    for balancer in ["server-rr:path=sph", "server-lc:path=spl", "server-cpu:path=htp,htp=capacity", "malob", "maglev"]
    {
        let once = served(&topology, balancer, &config, &requests);
        assert_eq!(once.accounting.flows_completed, 60, "{balancer}: {:?}", once.accounting);
        assert_eq!(once.accounting.packets_in_flight, 0, "{balancer}");
        assert!(once.flows.iter().all(|flow| flow.fct >= flow.ideal), "{balancer}");
        assert_eq!(once, served(&topology, balancer, &config, &requests), "{balancer}");
    }
}

/// Mechanisms 6.9: the server of each client, with latencies that the controller measured.
#[test]
fn clients_of_f1_get_the_published_servers() {
    let topology = net::spec::parse("geni-wan").expect("a family");
    let mut config = config(services(&[(4, 4), (5, 1), (6, 1)], &[(60_000, 1, Time::ZERO)]));
    config.control.boot = Boot::Cold { connect_at: Time::ZERO };
    let requests: Vec<(u32, Time, u32)> = (0..4).map(|client| (client, Time::from_s(60), 0)).collect();
    for balancer in ["sl-ps", "ht-ps:htp=capacity"] {
        let outcome = served(&topology, balancer, &config, &requests);
        let record = outcome.services.expect("there are services");
        assert_eq!(record.served_by, [Some(0), Some(1), Some(1), Some(2)], "{balancer}");
        // Over the direct cables: five packets' worth of a megabit at most crossed any other one.
        for (client, server) in ["Server-1", "Server-2", "Server-2", "Server-3"].iter().enumerate() {
            let (from, to) = (node(&topology, server), node(&topology, &format!("Client-{}", client + 1)));
            let link = topology.out_links(from).iter().find(|link| topology.link(**link).to == to).expect("a cable");
            assert!(outcome.links[link.ix()].bytes > 60_000, "{balancer}: {server}");
        }
    }
}

fn node(topology: &Topology, name: &str) -> NodeIx {
    NodeIx(topology.nodes().iter().position(|node| node.name == name).expect("a node of this name") as u32)
}

/// No packet of a connection goes to the controller, so no connection waits for it.
#[test]
fn proactive_rules_avoid_the_controller_round_trip() {
    let (topology, latency) = (star(8, 2, 100, Time::from_ms(1)), Time::from_ms(3));
    let run = |buckets| {
        let mut config = config(services(&[(8, 1), (9, 1)], &[(10_000, 1, Time::ZERO)]));
        config.control = ControlConfig { latency, ..ControlConfig::default() };
        config.services.as_mut().expect("services").services[0].buckets = buckets;
        let requests: Vec<(u32, Time, u32)> =
            (0..8).map(|client| (client, Time::from_ms(1000 + 100 * u64::from(client)), 0)).collect();
        served(&topology, "maglev", &config, &requests)
    };
    let (reactive, proactive) = (run(None), run(Some(8)));
    let to_controller = (reactive.accounting.packets_to_controller, proactive.accounting.packets_to_controller);
    assert_eq!((to_controller, proactive.accounting.flows_completed), ((8, 0), 8));
    let pages = |outcome: &Outcome| -> Vec<u64> {
        outcome.services.as_ref().expect("services").servers.iter().map(|server| server.pages[0]).collect()
    };
    assert_eq!(pages(&proactive), [4, 4], "eight client slots with a client each");
    for (reactive, proactive) in reactive.flows.iter().zip(&proactive.flows) {
        let saved = reactive.fct.saturating_sub(proactive.fct);
        let round_trip = Time::from_ps(2 * latency.as_ps());
        // Messages take some time on the channel of 1 Gb/s: less than 20 us.
        assert!(saved >= round_trip && saved < round_trip.saturating_add(Time::from_us(20)), "{saved}");
    }
}
