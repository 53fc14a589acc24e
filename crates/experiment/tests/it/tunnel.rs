//! Tunnelled services (IP-in-IP, direct return) in the simulator, against closed forms.

use anabranch_experiment::run::controller::run;
use balance::Spec;
use net::{Bandwidth, HostIx, Time, Topology};
use sim::{FlowEnd, OUTER_HEADER, Outcome, Scenario, ServicesConfig, SimConfig};
use traffic::FlowList;

use crate::requests::{MSS, config, served, services, sum};

const MBPS: u64 = 10;
const DELAY: Time = Time::from_ms(1);
const HEADER: u64 = 40;

/// Two leaves with hosts, all links alike.
fn network(spines: u32, hosts_per_leaf: u32) -> Topology {
    let rate = format!("host_rate={MBPS}Mbps,fabric_rate={MBPS}Mbps,host_delay={DELAY},fabric_delay={DELAY}");
    let spec = format!("leaf-spine:leaves=2,spines={spines},hosts_per_leaf={hosts_per_leaf},{rate}");
    net::spec::parse(&spec).expect("a family")
}

fn with(mut services: ServicesConfig, is_tunnelled: bool, change: &dyn Fn(&mut sim::VirtualService)) -> SimConfig {
    let service = &mut services.services[0];
    (service.member_port, service.is_tunnelled) = (None, is_tunnelled);
    change(service);
    config(services)
}

fn wildcard(service: &mut sim::VirtualService) {
    service.buckets = Some(8);
}

fn wire(bytes: u64) -> Time {
    Bandwidth::from_mbps(MBPS).time_for(bytes)
}

fn times(count: u64, time: Time) -> Time {
    Time::from_ps(count * time.as_ps())
}

/// A request of one client alone, with proactive rules, so the controller takes no time. On all four
/// links but the first, packets to the member have the outer header.
#[test]
fn tunnelled_request_matches_closed_form() {
    let (topology, cpu, outer) = (network(1, 1), Time::from_ms(40), u64::from(OUTER_HEADER));
    let flight = times(4, DELAY);
    for (bytes, segments) in [(500, 1), (5 * MSS, 5)] {
        let run = |is_tunnelled| {
            let mut services = services(&[(1, 1)], &[(10 * MSS, 1, cpu)]);
            services.classes[0].request_bytes = bytes;
            served(&topology, "maglev", &with(services, is_tunnelled, &wildcard), &[(0, Time::from_s(1), 0)])
        };
        let (rewritten, tunnelled) = (run(false), run(true));
        let closed = |added: u64| {
            let packet = bytes.min(MSS) + HEADER;
            let syn = [wire(HEADER), times(3, wire(HEADER + added)), flight, times(4, wire(HEADER)), flight];
            // The second link has longer packets than the first, so they wait there for one another.
            let request = [wire(packet), times(segments + 2, wire(packet + added)), flight];
            let response = [cpu, times(4 + 9, wire(MSS + HEADER)), flight];
            sum(&[sum(&syn), sum(&request), sum(&response)])
        };
        assert_eq!((rewritten.flows[0].end, tunnelled.flows[0].end), (FlowEnd::Completed, FlowEnd::Completed));
        assert_eq!((rewritten.flows[0].fct, tunnelled.flows[0].fct), (closed(0), closed(outer)), "{segments}");
        assert_eq!(tunnelled.flows[0].delivered_bytes, 10 * MSS);
        assert_eq!(tunnelled.accounting.packets_sent, rewritten.accounting.packets_sent);
        assert_eq!(lengthened(&topology, &rewritten, &tunnelled), 3, "from the client's switch to the member");
    }
}

/// Checks that a link carries the same packets in both runs, and that of those that the first host sent
/// all or none have an outer header. Links between switches carry discovery probes, too. Returns the
/// number of links with outer headers.
fn lengthened(topology: &Topology, rewritten: &Outcome, tunnelled: &Outcome) -> usize {
    let uplink = topology.out_links(topology.host(HostIx(0)))[0];
    let outer = rewritten.links[uplink.ix()].packets * u64::from(OUTER_HEADER);
    let links = rewritten.links.iter().zip(&tunnelled.links);
    let added = links.map(|(plain, longer)| {
        assert_eq!(plain.packets, longer.packets);
        longer.bytes - plain.bytes
    });
    added.filter(|added| *added > 0).map(|added| assert_eq!(added, outer)).count()
}

/// Replies match no rule of a service: each connection has one rule less; with proactive rules each
/// client that is not a member has one less, at a mux as elsewhere.
#[test]
fn tunnels_need_no_return_rules() {
    let (topology, requests) = (network(2, 4), 12);
    let list: Vec<_> = (0..requests).map(|ix| (ix % 3, Time::from_ms(1000 + 100 * u64::from(ix)), 0)).collect();
    let mux = |service: &mut sim::VirtualService| {
        (service.buckets, service.mux_traffic) = (Some(8), Some(Bandwidth::from_mbps(1)));
    };
    type Change<'a> = &'a dyn Fn(&mut sim::VirtualService);
    let cases: [(&str, Change<'_>, u64); 3] =
        [("server-rr", &|_| {}, requests.into()), ("maglev", &wildcard, 6), ("maglev", &mux, 6)];
    for (balancer, change, fewer) in cases {
        let run = |is_tunnelled| {
            let services = services(&[(3, 1), (7, 1)], &[(1_000, 1, Time::ZERO)]);
            let outcome = served(&topology, balancer, &with(services, is_tunnelled, change), &list);
            assert_eq!(outcome.accounting.flows_completed, u64::from(requests), "{:?}", outcome.accounting);
            outcome
        };
        let (rewritten, tunnelled) = (run(false), run(true));
        let rules = |outcome: &Outcome| -> u64 {
            let plane = outcome.plane.as_ref().expect("a controller");
            plane.entries_by_tier.iter().map(|tier| tier.sum).sum()
        };
        assert_eq!(rules(&rewritten) - rules(&tunnelled), fewer, "{balancer}");
        assert_eq!(tunnelled, run(true), "{balancer}");
    }
}

/// At a mux packets get the outer header there, and not before.
#[test]
fn mux_encapsulates_at_its_switch() {
    let topology = network(1, 1);
    let run = |is_tunnelled| {
        let services = services(&[(1, 1)], &[(10 * MSS, 1, Time::ZERO)]);
        let change = |service: &mut sim::VirtualService| {
            (service.buckets, service.mux_traffic) = (Some(8), Some(Bandwidth::from_mbps(1)));
        };
        served(&topology, "maglev", &with(services, is_tunnelled, &change), &[(0, Time::from_s(1), 0)])
    };
    let (rewritten, tunnelled) = (run(false), run(true));
    assert_eq!(tunnelled.accounting.packets_to_controller, 0);
    assert!((1..=3).contains(&lengthened(&topology, &rewritten, &tunnelled)));
}

/// Switches behind the first one hash the outer addresses alone, which all connections of a member
/// share.
#[test]
fn tunnelled_connections_of_a_member_share_a_path() {
    let topology = network(2, 2);
    let run = |is_tunnelled| {
        let services = services(&[(3, 1)], &[(1_000, 1, Time::ZERO)]);
        let requests: Vec<_> = (0..40).map(|ix| (u32::from(ix % 2 == 0), Time::from_ms(1000 + 50 * ix), 0)).collect();
        served(&topology, "server-rr", &with(services, is_tunnelled, &|_| {}), &requests)
    };
    let uplinks = |outcome: &Outcome| -> Vec<u64> {
        let is_up = |link: &&net::Link| {
            let [from, to] = [link.from, link.to].map(|node| &topology.node(node).name);
            from.starts_with("leaf0") && to.starts_with("spine")
        };
        let links = topology.links().iter().zip(&outcome.links).filter(|(link, _)| is_up(link));
        links.map(|(_, record)| record.packets).collect()
    };
    let (rewritten, tunnelled) = (uplinks(&run(false)), uplinks(&run(true)));
    // Each link carries a discovery probe, too.
    assert!(rewritten.len() == 2 && rewritten.iter().all(|packets| *packets > 1), "{rewritten:?}");
    assert_eq!(tunnelled.iter().filter(|packets| **packets > 1).count(), 1, "{tunnelled:?}");
}

#[test]
fn balancers_that_need_more_than_outer_headers_are_refused() {
    let topology = network(1, 1);
    let config = with(services(&[(1, 1)], &[(1_000, 1, Time::ZERO)]), true, &|_| {});
    for (balancer, expected) in [
        ("server-rr:path=sph", "picks paths, but switches do not see the ports of tunnelled packets"),
        ("ht-ps", "picks paths"),
        ("division-load", "counts bytes of replies, which match no rule of a tunnelled service"),
    ] {
        let balancer = Spec::parse(balancer).expect("a balancer");
        let flows = FlowList::default();
        let scenario = Scenario { topology: &topology, flows: &flows, balancer: &balancer, seed: 1, config: &config };
        let error = run(&scenario, 1, &mut |_| true).expect_err("a refusal").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
