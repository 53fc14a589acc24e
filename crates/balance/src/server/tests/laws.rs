//! Invariants of every registered server balancer, under any events.

use net::{NodeIx, Time};
use proptest::prelude::*;

use super::paths::{cables, network};
use crate::central::testing::TestNetwork;
use crate::registry::SERVER;
use crate::server::testing::{Bench, edge_of, server};
use crate::server::{Choice, Member, MemberId, MemberRoute, Pool, Request};

/// A random event; numbers are reduced to the valid range.
#[derive(Clone, Debug)]
enum Event {
    Request { from: u8, port: u16, size: Option<u64> },
    Ended { which: u8, bytes: u64 },
    Report { member: u8, connections: Option<u32>, cpu: Option<u8>, response_ms: Option<u16>, bytes: Option<u64> },
    Weight { member: u8, weight: u8 },
    Accepting { member: u8, is_accepting: bool },
    Removed { member: u8 },
    Cable { link: u8, is_alive: bool },
    Wait { ms: u16 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let request = (any::<u8>(), prop::sample::select(vec![80, 21, 6789, 443]), proptest::option::of(0u64..1_000_000));
    let report = (
        any::<u8>(),
        proptest::option::of(0u32..100),
        proptest::option::of(0u8..=100),
        proptest::option::of(0u16..500),
        proptest::option::of(0u64..1_000_000_000),
    );
    let event = prop_oneof![
        6 => request.prop_map(|(from, port, size)| Event::Request { from, port, size }),
        2 => (any::<u8>(), 0u64..1_000_000).prop_map(|(which, bytes)| Event::Ended { which, bytes }),
        2 => report.prop_map(|(member, connections, cpu, response_ms, bytes)| {
            Event::Report { member, connections, cpu, response_ms, bytes }
        }),
        1 => (any::<u8>(), 0u8..4).prop_map(|(member, weight)| Event::Weight { member, weight }),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(member, is_accepting)| Event::Accepting { member, is_accepting }),
        1 => any::<u8>().prop_map(|member| Event::Removed { member }),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(link, is_alive)| Event::Cable { link, is_alive }),
        1 => (0u16..10_000).prop_map(|ms| Event::Wait { ms }),
    ];
    prop::collection::vec(event, 0..80)
}

/// Returns whether a member may get a request, by an independent walk over live links.
fn is_allowed(network: &TestNetwork, member: &Member, from: NodeIx) -> bool {
    let route = MemberRoute::to(&network.view(), from, member.place).map(|route| route.to);
    let Some(to) = route.filter(|_| member.is_accepting && member.weight > 0) else { return false };
    let (mut seen, mut queue) = (vec![from], vec![from]);
    while let Some(node) = queue.pop() {
        for link in network.topology.out_links(node) {
            let next = network.topology.link(*link).to;
            if network.alive[link.ix()] && network.topology.node(next).forwards && !seen.contains(&next) {
                seen.push(next);
                queue.push(next);
            }
        }
    }
    seen.contains(&to)
}

/// Checks that a choice is allowed and its path leads to the member, live and simple.
fn check(bench: &Bench, request: &Request, choice: &Choice) {
    let (network, member) = (&bench.network, bench.pool.get(choice.member).expect("one of the pool"));
    assert!(is_allowed(network, member, request.edge), "{choice:?}");
    let Some(path) = &choice.path else { return };
    let to = MemberRoute::to(&network.view(), request.edge, member.place).map(|route| route.to);
    network.check_path(path, request.edge, to.expect("a live link to the member"));
}

fn run(spec: &str, network: TestNetwork, members: u32, events: &[Event]) -> Vec<Option<Choice>> {
    let pool = Pool::new((1..=members).map(|id| server(&network, id, id)).collect::<Vec<_>>());
    let mut bench = Bench::on(spec, network, pool);
    let (mut running, mut choices) = (Vec::new(), Vec::new());
    events.iter().for_each(|event| happen(&mut bench, event, &mut running, &mut choices));
    choices
}

fn happen(bench: &mut Bench, event: &Event, running: &mut Vec<(Request, MemberId)>, choices: &mut Vec<Option<Choice>>) {
    let member = |number: u8, bench: &Bench| {
        let members = bench.pool.members();
        (!members.is_empty()).then(|| members[usize::from(number) % members.len()].id.0)
    };
    match event {
        Event::Request { from, port, size } => {
            (bench.port, bench.size) = (*port, *size);
            bench.edge = edge_of(&bench.network, u32::from(*from) % 6);
            let request = bench.request();
            let choice = bench.pick_for(&request);
            match &choice {
                Some(choice) => {
                    check(bench, &request, choice);
                    running.push((request, choice.member));
                }
                None => {
                    let mut members = bench.pool.members().iter();
                    assert!(
                        !members.any(|member| is_allowed(&bench.network, member, request.edge)),
                        "no member was picked"
                    );
                }
            }
            choices.push(choice);
        }
        Event::Ended { which, bytes } if !running.is_empty() => {
            let (request, member) = running.swap_remove(usize::from(*which) % running.len());
            bench.end(&request, member.0, *bytes);
        }
        Event::Report { member: number, connections, cpu, response_ms, bytes } => {
            let Some(id) = member(*number, bench) else { return };
            bench.report(id, |stats| {
                stats.connections = *connections;
                stats.cpu = cpu.map(|percent| f64::from(percent) / 100.0);
                stats.response = response_ms.map(|ms| Time::from_ms(u64::from(ms)));
                stats.bytes = *bytes;
            });
        }
        Event::Weight { member: number, weight } => {
            let Some(id) = member(*number, bench) else { return };
            bench.change(id, |member| member.weight = u32::from(*weight));
        }
        Event::Accepting { member: number, is_accepting } => {
            let Some(id) = member(*number, bench) else { return };
            bench.change(id, |member| member.is_accepting = *is_accepting);
        }
        Event::Removed { member: number } => {
            let Some(id) = member(*number, bench) else { return };
            bench.set_pool(Pool::new(bench.pool.members().iter().filter(|member| member.id.0 != id).copied()));
        }
        Event::Cable { link, is_alive } => {
            let count = bench.network.topology.links().len();
            bench.network.set_cable(net::LinkIx((usize::from(*link) % count) as u32), *is_alive);
        }
        Event::Wait { ms } => bench.wait(Time::from_ms(u64::from(*ms))),
        Event::Ended { .. } => {}
    }
}

/// Returns each entry with every path picker it accepts.
fn specs() -> Vec<String> {
    let mut specs = Vec::new();
    for entry in SERVER {
        specs.push(entry.example.to_owned());
        if entry.params.iter().any(|param| param.name == "path") {
            specs.extend(["sph", "spl", "htp"].map(|path| format!("{}:path={path}", entry.name)));
        }
    }
    specs.push("malob:services=80=server-cpu:path=htp;21=server-lc;default=maglev:size=101".to_owned());
    specs.extend(["rate", "inflight"].map(|load| format!("division-load:load={load}")));
    specs.extend(["next", "none"].map(|factor| format!("server-least-response:factor={factor}")));
    specs.push("lobus:choose=disjoint".to_owned());
    specs.push("mesf:deadline=50ms,slots=1".to_owned());
    specs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn pick_returns_eligible_member_exactly_if_one_exists(
        cables in cables(), members in 0u32..6, events in events()
    ) {
        for spec in specs() {
            let choices = run(&spec, network(&cables), members, &events);
            prop_assert_eq!(&choices, &run(&spec, network(&cables), members, &events), "{} decides otherwise", spec);
        }
    }
}

#[test]
fn empty_or_draining_pool_returns_no_member() {
    for spec in specs() {
        let mut bench = Bench::new(&spec, &[1, 1]);
        assert!(bench.pick() > 0, "{spec}");
        bench.change(1, |member| member.is_accepting = false);
        assert_eq!(bench.picks(20), [2; 20], "{spec}");
        bench.change(2, |member| member.weight = 0);
        let request = bench.request();
        assert_eq!(bench.pick_for(&request), None, "{spec}");
        bench.change(1, |member| member.is_accepting = true);
        assert_eq!(bench.picks(3), [1; 3], "{spec}");
        bench.set_pool(Pool::default());
        assert_eq!(bench.pick_for(&request), None, "{spec}");
    }
}

#[test]
fn locations_outside_network_are_skipped() {
    use crate::server::MemberLocation;
    for spec in specs() {
        let mut bench = Bench::new(&spec, &[1, 1]);
        let nowhere = [
            MemberLocation::Host { host: net::HostIx(77), edge: bench.edge },
            MemberLocation::Host { host: net::HostIx(1), edge: NodeIx(77) },
            MemberLocation::Uplink { link: net::LinkIx(77) },
        ];
        for place in nowhere {
            bench.change(1, |member| member.place = place);
            assert_eq!(bench.picks(5), [2; 5], "{spec}");
        }
        bench.edge = NodeIx(99);
        let request = bench.request();
        assert_eq!(bench.pick_for(&request), None, "{spec}");
    }
}
