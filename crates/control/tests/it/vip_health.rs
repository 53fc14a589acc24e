//! Virtual services: health checks.

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};

use crate::services::*;
use anabranch_control::vip::{Check, Failure, MemberState, Monitor};
use net::{HostIx, Time};
use openflow::MacAddr;
use openflow::frame::{self, flags, segment};

#[test]
fn checks_detect_failed_members_within_an_interval() {
    let http = Check::Http { path: "/health".into(), statuses: (200, 299) };
    let pages: BTreeMap<HostIx, u16> =
        [(12, 200), (13, 0), (14, 503)].map(|(host, status)| (HostIx(host), status)).into();
    for (check, expected) in [
        (Check::Icmp, [None, None, None, Some(Failure::NoAnswer)]),
        (Check::Tcp, [None, Some(Failure::Refused), None, Some(Failure::NoAnswer)]),
        (http, [None, Some(Failure::Refused), Some(Failure::Status(503)), Some(Failure::NoAnswer)]),
    ] {
        let mut network = checked(check.clone(), pages.clone());
        let expected = expected.map(|failure| failure.map_or(MemberState::Up, MemberState::Failing));
        assert_eq!(states(&network), expected, "{check:?}");
        let good: BTreeSet<u32> = SERVERS
            .into_iter()
            .zip(expected)
            .filter(|(_, state)| *state == MemberState::Up)
            .map(|(host, _)| host)
            .collect();
        let got: BTreeSet<u32> = (0..8).map(|port| request(&mut network, tcp(0, port + 1)).expect("served")).collect();
        assert_eq!(got, good, "{check:?}");
        // It fails, and new connections go to others within an interval (and the reply timeout).
        network.pages.remove(&HostIx(12));
        network.pages.insert(HostIx(7), 204);
        network.run(Time::from_ms(1300));
        assert_eq!(states(&network)[0], MemberState::Failing(Failure::NoAnswer), "{check:?}");
        assert_ne!(states(&network)[3], MemberState::Up, "{check:?}: two in a row are needed");
        network.run(Time::from_s(1));
        assert_eq!(states(&network)[3], MemberState::Up, "{check:?}");
        let got: BTreeSet<u32> = (0..8).map(|port| request(&mut network, tcp(1, port + 1)).expect("served")).collect();
        assert!(got.contains(&7) && !got.contains(&12), "{check:?}");
        network.assert_exact();
    }
}

#[test]
fn health_check_closes_its_connections_and_answers_arp() {
    let mut network = checked(Check::Tcp, SERVERS.into_iter().map(|host| (HostIx(host), 200)).collect());
    let to_member: Vec<u8> =
        received_frames(&network, 12).iter().filter_map(|bytes| Some(segment(bytes).ok()??.flags)).collect();
    assert!(to_member.len() >= 8 && to_member.chunks(2).all(|pair| pair == [flags::SYN, flags::RST]), "{to_member:?}");
    network.to_hosts.clear();
    network.request_arp(12, Ipv4Addr::new(10, 250, 0, 250));
    network.run(Time::from_ms(2));
    let is_answer = |bytes: &[u8]| {
        frame::parse(bytes).is_ok_and(|headers| headers.arp_op == 2 && headers.eth_src == MacAddr([6, 1, 1, 1, 1, 1]))
    };
    assert!(network.to_hosts.iter().any(|(_, bytes)| is_answer(bytes)));
}

/// Results of a different kind of check are void, also if the balancer changes at the same time.
#[test]
fn unchecked_members_count_as_healthy_again() {
    let mut network = checked(Check::Tcp, BTreeMap::new());
    assert!(states(&network).iter().all(|state| *state != MemberState::Up));
    set(&mut network, by("server-lc", 4));
    assert_eq!(states(&network), [MemberState::Up; 4]);
}

/// The time from the request of a check to the first byte of the reply decides.
#[test]
fn http_checks_measure_response_times() {
    let http = Check::Http { path: "/health".into(), statuses: (200, 299) };
    let mut network = checked(http, SERVERS.into_iter().map(|host| (HostIx(host), 200)).collect());
    let mut services = one(all_protocols());
    let monitor = Monitor {
        check: Check::Http { path: "/health".into(), statuses: (200, 299) },
        port: None,
        interval: Time::from_s(1),
        timeout: Time::from_ms(300),
        rise: 2,
        fall: 1,
    };
    services.pools[0].monitor = Some(monitor);
    services.pools[0].balancer = "server-least-response:factor=none,gain=1".into();
    set(&mut network, services);
    for (fast, slow) in [(13, 14), (14, 13)] {
        network.page_time = SERVERS.into_iter().map(|host| (HostIx(host), Time::from_ms(100))).collect();
        network.page_time.insert(HostIx(fast), Time::from_ms(20));
        network.page_time.insert(HostIx(slow), Time::from_ms(200));
        network.run(Time::from_s(3));
        let ports = (0..6).map(|port| fast as u16 * 100 + port);
        let got: Vec<u32> = ports.map(|port| request(&mut network, tcp(0, port)).expect("served")).collect();
        assert_eq!(got, [fast; 6]);
    }
}
