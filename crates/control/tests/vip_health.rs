//! Virtual services: health checks.

mod services;
mod world;

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};

use anabranch_control::vip::{Check, Failure, MemberState};
use net::{HostIx, Time, address};
use openflow::MacAddr;
use openflow::frame::{self, flags, segment};
use services::*;

#[test]
fn checks_find_members_that_do_not_serve_within_an_interval() {
    let http = Check::Http { path: "/health".into(), statuses: (200, 299) };
    let pages: BTreeMap<HostIx, u16> =
        [(12, 200), (13, 0), (14, 503)].map(|(host, status)| (HostIx(host), status)).into();
    for (check, expected) in [
        (Check::Icmp, [None, None, None, Some(Failure::NoAnswer)]),
        (Check::Tcp, [None, Some(Failure::Refused), None, Some(Failure::NoAnswer)]),
        (http, [None, Some(Failure::Refused), Some(Failure::Status(503)), Some(Failure::NoAnswer)]),
    ] {
        let mut world = checked(check.clone(), pages.clone());
        let expected = expected.map(|failure| failure.map_or(MemberState::Up, MemberState::Failing));
        assert_eq!(states(&world), expected, "{check:?}");
        let good: BTreeSet<u32> = SERVERS
            .into_iter()
            .zip(expected)
            .filter(|(_, state)| *state == MemberState::Up)
            .map(|(host, _)| host)
            .collect();
        let got: BTreeSet<u32> = (0..8).map(|port| request(&mut world, tcp(0, port + 1)).expect("served")).collect();
        assert_eq!(got, good, "{check:?}");
        // It fails, and new connections go elsewhere within an interval (and the time an answer is waited for).
        world.pages.remove(&HostIx(12));
        world.pages.insert(HostIx(7), 204);
        world.run(Time::from_ms(1300));
        assert_eq!(states(&world)[0], MemberState::Failing(Failure::NoAnswer), "{check:?}");
        assert_ne!(states(&world)[3], MemberState::Up, "{check:?}: two in a row are needed");
        world.run(Time::from_s(1));
        assert_eq!(states(&world)[3], MemberState::Up, "{check:?}");
        let got: BTreeSet<u32> = (0..8).map(|port| request(&mut world, tcp(1, port + 1)).expect("served")).collect();
        assert!(got.contains(&7) && !got.contains(&12), "{check:?}");
        world.assert_exact();
    }
}

#[test]
fn a_checker_closes_what_it_opened_and_can_be_found_by_arp() {
    let mut world = checked(Check::Tcp, SERVERS.into_iter().map(|host| (HostIx(host), 200)).collect());
    let to_member: Vec<u8> = told(&world, 12).iter().filter_map(|bytes| Some(segment(bytes).ok()??.flags)).collect();
    assert!(to_member.len() >= 8 && to_member.chunks(2).all(|pair| pair == [flags::SYN, flags::RST]), "{to_member:?}");
    world.to_hosts.clear();
    let (mac, checker) = (MacAddr(address::host_mac(HostIx(12))), Ipv4Addr::new(10, 250, 0, 250));
    world.transmit(HostIx(12), frame::arp_request(mac, ip(12), checker), None);
    world.run(Time::from_ms(2));
    let is_answer = |bytes: &[u8]| {
        frame::parse(bytes).is_ok_and(|headers| headers.arp_op == 2 && headers.eth_src == MacAddr([6, 1, 1, 1, 1, 1]))
    };
    assert!(world.to_hosts.iter().any(|(_, bytes)| is_answer(bytes)));
}

/// What was found in another way does not count, also where the picker is another one, too.
#[test]
fn members_count_as_well_again_when_they_are_not_checked_any_more() {
    let mut world = checked(Check::Tcp, BTreeMap::new());
    assert!(states(&world).iter().all(|state| *state != MemberState::Up));
    let mut services = one(all_protocols());
    services.pools[0].balancer = "server-lc".into();
    set(&mut world, services);
    assert_eq!(states(&world), [MemberState::Up; 4]);
}
