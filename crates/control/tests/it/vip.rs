//! Virtual services: connections are delivered to one member and back, or rejected.

use std::collections::BTreeSet;

use crate::common::{AMPLE, TestNetwork, fat_tree, is_arp};
use crate::services::*;
use anabranch_control::vip::{Established, MemberId, MemberState, Refusal, Services, mac_of};
use anabranch_control::{Config, Event};
use net::{HostIx, Time, address};
use openflow::DatapathId;
use openflow::frame::{self, flags, segment};
use openflow::headers::protocol;

#[test]
fn first_and_later_packets_are_delivered_and_answered() {
    let mut network = up(all_protocols());
    for (ip_proto, ports) in [(protocol::TCP, [5000, 80]), (protocol::UDP, [5000, 53]), (protocol::ICMP, [8, 0])] {
        let tuple = tuple(0, ip_proto, ports);
        let before = network.sent.len();
        let first = request(&mut network, tuple).expect("the first packet is served");
        assert_eq!(mods(&network, before), 2, "two rules, at one switch");
        assert_eq!(sent_on(&network, before), 1, "and the packet");
        let before = network.sent.len();
        for _ in 0..5 {
            assert_eq!(request(&mut network, tuple), Some(first));
        }
        assert_eq!((mods(&network, before), sent_on(&network, before)), (0, 0), "the switch knows");
    }
    let rules = connection_rules(&network);
    let edge = DatapathId(address::datapath_of(edge_of(&network, 0)));
    assert_eq!(rules.len(), 6);
    assert!(rules.iter().all(|(datapath, _)| *datapath == edge), "only where the client is");
    network.assert_exact();
    // The member's port is written; replies come from the service's (`served` has checked it).
    let at_server = network.packets[0].arrived.expect("it was delivered");
    assert_eq!((at_server.l4_src, at_server.l4_dst), (5000, 8080));
}

#[test]
fn connections_use_members_in_turn_and_stay() {
    let mut network = up(one(all_protocols()));
    let members: Vec<u32> =
        (0..8).map(|number| request(&mut network, tcp(number % 3, 6000 + number as u16)).expect("served")).collect();
    assert_eq!(members, [12, 13, 14, 7, 12, 13, 14, 7]);
    for (number, member) in members.iter().enumerate() {
        let again = request(&mut network, tcp(number as u32 % 3, 6000 + number as u16));
        assert_eq!(again, Some(*member));
    }
    let now = network.controller.inspect().services();
    assert_eq!((now[0].counts.connections, now[0].counts.connections_total), (8, 8));
    assert!(now[0].members.iter().all(|member| member.counts.connections == 2 && member.state == MemberState::Up));
}

#[test]
fn copies_of_a_first_packet_go_to_the_same_member() {
    let mut network = up(all_protocols());
    let tuple = tuple(1, protocol::UDP, [9000, 53]);
    let numbers: Vec<u32> = (0..20)
        .map(|_| {
            let number = ask(&mut network, tuple);
            network.run(Time::from_us(50));
            number
        })
        .collect();
    network.run(Time::from_ms(20));
    let members: BTreeSet<Option<u32>> = numbers.iter().map(|number| served(&network, *number, tuple)).collect();
    assert!(members.len() == 1 && !members.contains(&None), "{members:?}");
    assert_eq!(connection_rules(&network).len(), 2);
}

#[test]
fn arp_request_for_a_virtual_address_is_answered_at_once() {
    let mut network = up(all_protocols());
    network.request_arp(3, VIP);
    network.run(Time::from_ms(2));
    let answers: Vec<_> = network.to_hosts.iter().filter(|(_, bytes)| is_arp(bytes, 2)).collect();
    let [(_, answer)] = answers[..] else { panic!("one reply: {answers:?}") };
    let answer = frame::parse(answer).expect("a frame");
    assert_eq!((answer.ipv4_src, answer.eth_src, answer.ipv4_dst), (VIP, mac_of(VIP), ip(3)));
}

/// Nothing is known but the client's ARP request: its first packet waits until rules lead in both
/// directions.
#[test]
fn unknown_hosts_are_served() {
    let mut network = network_without_hosts();
    // The controller probes for members, and they reply.
    let asked: BTreeSet<HostIx> = network.receivers_of_arp(1).into_iter().collect();
    assert_eq!(asked.len(), 16, "at every edge port");
    for host in SERVERS {
        network.announce(host);
    }
    network.run(Time::from_s(2));
    network.to_hosts.clear();
    network.request_arp(0, VIP);
    for _ in 0..1000 {
        network.run(Time::from_us(100));
        if !network.receivers_of_arp(2).is_empty() {
            break;
        }
    }
    assert!(!network.receivers_of_arp(2).is_empty());
    let number = ask(&mut network, tcp(0, 5000));
    network.run(Time::from_ms(100));
    assert!(served(&network, number, tcp(0, 5000)).is_some());
}

fn network_without_hosts() -> TestNetwork {
    let mut network = TestNetwork::new(fat_tree(), Config::default(), quiet(), AMPLE);
    network.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut network, one(all_protocols()));
    network.connect_all();
    network.run(Time::from_s(2));
    network
}
/// Returns a network with one known host, the client, which knows the virtual address already.
fn network_with_one_client() -> TestNetwork {
    let mut network = network_without_hosts();
    announce(&mut network, 0);
    network
}
fn announce(network: &mut TestNetwork, host: u32) {
    network.announce(host);
    network.run(Time::from_ms(100));
}

/// A client need not retry because its switch connected before those of the members.
#[test]
fn first_packets_wait_for_members_that_may_come_up() {
    let mut network = network_with_one_client();
    let number = ask(&mut network, tcp(0, 5000));
    network.run(Time::from_s(1));
    assert!(
        served(&network, number, tcp(0, 5000)).is_none() && received_frames(&network, 0).is_empty(),
        "no rejection yet"
    );
    announce(&mut network, SERVERS[1]);
    assert_eq!(served(&network, number, tcp(0, 5000)), Some(SERVERS[1]));
    assert!(received_frames(&network, 0).is_empty());
    // A member is known now: when it goes, no packet waits for a member that was never up.
    network.run(Time::from_s(10));
    network.set_cable(network.uplink(SERVERS[1]), false);
    network.run(Time::from_ms(100));
    assert_eq!(request(&mut network, tcp(0, 5001)), None);
    assert!(segment(&received_frames(&network, 0)[0]).unwrap().unwrap().has(flags::RST));
}

#[test]
fn first_packets_are_rejected_after_their_timeout() {
    let mut network = network_with_one_client();
    ask(&mut network, tcp(0, 5000));
    ask(&mut network, tcp(0, 5000));
    network.run(Time::from_s(12));
    let [reset] = &received_frames(&network, 0)[..] else { panic!("one rejection for a packet and its copy") };
    assert!(segment(reset).unwrap().unwrap().has(flags::RST));
    assert_eq!(request(&mut network, tcp(0, 5001)), None);
    assert_eq!(received_frames(&network, 0).len(), 2, "the next one is rejected at once");
}

#[test]
fn client_without_member_gets_a_rejection() {
    let mut services = all_protocols();
    services.pools[0].members.clear();
    let mut network = up(services.clone());
    assert_eq!(request(&mut network, tcp(0, 5000)), None);
    let (flags, _, ack) = only_segment(&network, 0);
    assert_eq!((flags, ack), (flags::RST | flags::ACK, 7 + 1 + 12));
    assert_eq!(frame::parse(&received_frames(&network, 0)[0]).unwrap().ipv4_src, VIP);
    for (client, tuple, kind) in [
        (1, tuple(1, protocol::UDP, [5000, 53]), (3, 3)),
        (2, tuple(2, protocol::ICMP, [8, 0]), (3, 1)),
        (3, tuple(3, protocol::UDP, [5000, 99]), (3, 3)),
    ] {
        assert_eq!(request(&mut network, tuple), None);
        let [answer] = &received_frames(&network, client)[..] else { panic!("one answer") };
        let headers = frame::parse(answer).unwrap();
        assert_eq!((headers.ip_proto, headers.l4_src, headers.l4_dst), (protocol::ICMP, kind.0, kind.1));
    }
    // No process listens at port 81.
    assert_eq!(request(&mut network, tuple(4, protocol::TCP, [5000, 81])), None);
    assert!(segment(&received_frames(&network, 4)[0]).unwrap().unwrap().has(flags::RST));
    services.pools[0].refusal = Refusal::Unreachable;
    set(&mut network, services.clone());
    assert_eq!(request(&mut network, tcp(5, 5000)), None);
    let headers = frame::parse(&received_frames(&network, 5)[0]).unwrap();
    assert_eq!((headers.ip_proto, headers.l4_src, headers.l4_dst), (protocol::ICMP, 3, 1));
    services.pools[0].refusal = Refusal::Drop;
    set(&mut network, services);
    assert_eq!(request(&mut network, tcp(6, 5000)), None);
    assert!(received_frames(&network, 6).is_empty() && connection_rules(&network).is_empty());
}

/// Clients reuse ports. A former connection to a member that is drained now does not lead there.
#[test]
fn reused_port_does_not_lead_to_a_drained_member() {
    let mut services = one(all_protocols());
    let mut network = up(services.clone());
    let first = request(&mut network, tcp(0, 5000)).expect("served");
    assert_eq!(first, SERVERS[0]);
    network.run(Time::from_s(40));
    assert!(connection_rules(&network).is_empty(), "the rules have idled out");
    services.pools[0].members[0].is_enabled = false;
    set(&mut network, services);
    let again = request(&mut network, tcp(0, 5000)).expect("served");
    assert_ne!(again, first);
}

#[test]
fn opening_segments_reach_the_controller_despite_rules() {
    let mut services = one(all_protocols());
    let mut network = up_with_extensions(services.clone());
    let first = request(&mut network, tcp(0, 5000)).expect("served");
    let total = |network: &TestNetwork| {
        let now = network.controller.inspect().services();
        now[0].members.iter().map(|member| member.counts.connections_total).sum::<u64>()
    };
    // A copy of the opening segment, and later packets, go to the same member.
    assert_eq!((request(&mut network, tcp(0, 5000)), total(&network)), (Some(first), 1));
    services.pools[0].members[0].is_enabled = false;
    set(&mut network, services);
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(first), "a late copy");
    network.opening = None;
    let before = network.controller.tally().packet_ins;
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(first), "it keeps its member");
    assert_eq!(network.controller.tally().packet_ins, before, "no packet goes to the controller");
    network.opening = Some(8);
    let again = request(&mut network, tcp(0, 5000)).expect("served");
    assert_ne!(again, first, "another connection, while the rules of the former one are installed");
    assert_eq!(total(&network), 2);
    network.opening = None;
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(again));
    assert_eq!(connection_rules(&network).len(), 3, "the old member may still send");
    network.opening = Some(9);
    let third = request(&mut network, tcp(0, 5000)).expect("served");
    assert!(third == again && total(&network) == 3, "another connection keeps a member that serves");
    network.assert_exact();
}

/// Open vSwitch forwards by cached decisions for some milliseconds after a rule has changed. A
/// restarted controller leaves the return rule of a former member, so that packets of this member
/// are translated when the client gets it again.
#[test]
fn return_rule_of_former_member_survives_a_restart() {
    let mut services = one(all_protocols());
    let mut network = up_with_extensions(services.clone());
    let first = request(&mut network, tcp(0, 5000)).expect("served");
    services.pools[0].members[0].is_enabled = false;
    set(&mut network, services.clone());
    network.opening = Some(8);
    assert_ne!(request(&mut network, tcp(0, 5000)), Some(first));
    let rules = connection_rules(&network).len();
    assert_eq!(rules, 3, "the former member may still send");
    network.disconnect_all();
    restart(&mut network, services);
    assert_eq!(connection_rules(&network).len(), rules);
    network.assert_exact();
}

#[test]
fn rejections_of_a_flood_are_limited() {
    let mut network = up(one(all_protocols()));
    for port in 0..1000 {
        ask(&mut network, tuple(0, protocol::TCP, [port, 81]));
    }
    network.run(Time::from_ms(20));
    let answers = received_frames(&network, 0).len();
    assert!((100..150).contains(&answers), "{answers}");
    assert!(request(&mut network, tcp(0, 5000)).is_some(), "others are served");
}

#[test]
fn removed_member_keeps_its_connections_and_gets_no_others() {
    let mut network = up(one(all_protocols()));
    let old: Vec<u32> = (0..4).map(|port| request(&mut network, tcp(0, 5000 + port)).expect("served")).collect();
    assert_eq!(old, [12, 13, 14, 7]);
    let mut services = one(all_protocols());
    services.pools[0].members.remove(0);
    services.pools[0].members[0].is_enabled = false;
    let before = network.sent.len();
    set(&mut network, services.clone());
    network.settle();
    assert_eq!(mods(&network, before), 0, "nothing is changed on switches");
    for port in 0..4 {
        assert_eq!(request(&mut network, tcp(0, 5000 + port)), Some(old[port as usize]));
    }
    let new: BTreeSet<u32> = (0..6).map(|port| request(&mut network, tcp(0, 7000 + port)).expect("served")).collect();
    assert_eq!(new, BTreeSet::from([14, 7]));
    let now = network.controller.inspect().services();
    let leaving: Vec<(u32, bool)> = now[0].members.iter().map(|member| (member.id.0, member.is_leaving)).collect();
    assert_eq!(leaving, [(1, true), (2, false), (3, false), (4, false)]);
    // When its last connection has closed it is forgotten, and nothing is left.
    network.run(Time::from_s(60));
    assert_eq!(network.controller.inspect().services()[0].members.len(), 3);
    assert!(connection_rules(&network).is_empty());
    network.assert_exact();
    assert_eq!(request(&mut network, tcp(0, 5000)).map(|host| host != 12), Some(true));
}

#[test]
fn deleting_services_leaves_nothing_behind() {
    let mut network = up(all_protocols());
    for client in 0..6 {
        request(&mut network, tcp(client, 5000)).expect("served");
        request(&mut network, tuple(client, protocol::UDP, [5000, 53])).expect("served");
    }
    assert_eq!(connection_rules(&network).len(), 24);
    set(&mut network, one(all_protocols()));
    network.settle();
    assert_eq!(connection_rules(&network).len(), 12, "those of the other services are gone");
    assert!(request(&mut network, tcp(0, 5000)).is_some());
    set(&mut network, Services::default());
    network.settle();
    assert!(connection_rules(&network).is_empty());
    assert!(!network.entries().any(|entry| entry.match_.ipv4_dst.is_some_and(|to| to.value == VIP)));
    network.assert_exact();
    network.to_hosts.clear();
    network.request_arp(3, VIP);
    network.run(Time::from_ms(50));
    assert_eq!(network.receivers_of_arp(2), []);
}

/// The port of the member goes down: its connections are handled as configured, new ones go to
/// other members.
#[test]
fn failed_member_loses_connections_only_as_configured() {
    for established in [Established::Keep, Established::Move, Established::Reset] {
        let mut services = one(all_protocols());
        services.pools[0].established = established;
        let mut network = up(services);
        assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
        let other = request(&mut network, tcp(0, 5001)).expect("served");
        let cable = network.uplink(12);
        network.set_cable(cable, false);
        network.run(Time::from_ms(50));
        let is_told = |(_, event): &(Time, Event)| {
            matches!(event, Event::Member { member: MemberId(1), state: MemberState::Unplugged, .. })
        };
        assert!(network.events.iter().any(is_told));
        assert_eq!(request(&mut network, tcp(0, 5001)), Some(other), "others stay");
        let again = request(&mut network, tcp(0, 5000));
        let new: BTreeSet<Option<u32>> = (0..6).map(|port| request(&mut network, tcp(1, port + 1))).collect();
        assert_eq!(new, BTreeSet::from([13, 14, 7].map(Some)), "new ones go to others");
        match established {
            Established::Keep => {
                assert_eq!(again, None, "its packets are lost");
                network.set_cable(cable, true);
                network.run(Time::from_ms(50));
                assert_eq!(request(&mut network, tcp(0, 5000)), Some(12), "it is as it was");
            }
            Established::Move => assert!(again.is_some_and(|host| host != 12), "{again:?}"),
            // A SYN opens a new one at once; anything else is reset.
            Established::Reset => assert!(again.is_some_and(|host| host != 12), "{again:?}"),
        }
        network.run(Time::from_s(60));
        assert!(connection_rules(&network).is_empty());
    }
}

#[test]
fn packets_to_a_failed_member_are_reset() {
    let mut services = one(all_protocols());
    services.pools[0].established = Established::Reset;
    let mut network = up(services);
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
    network.set_cable(network.uplink(12), false);
    network.run(Time::from_ms(50));
    for _ in 0..2 {
        send_data(&mut network);
        let (flags, seq, _) = only_segment(&network, 0);
        assert_eq!((flags, seq), (flags::RST, 4242));
    }
    assert!(connection_rules(&network).is_empty());
    assert!(request(&mut network, tcp(0, 5000)).is_some_and(|host| host != 12), "it may connect again");
}
