//! Virtual services: connections during changes of controllers, switches, hosts and configurations.

use core::net::Ipv4Addr;

use crate::common::{TestNetwork, config_for, fat_tree};
use crate::services::*;
use anabranch_control::vip::{MemberId, PoolId, Protocol, Service, ServiceId};
use net::{FiveTuple, Time, address};
use openflow::headers::protocol;
use openflow::{DatapathId, MacAddr};

/// After a controller restart everything is recovered: no rule changes, and counting continues.
#[test]
fn restarted_controller_keeps_connections() {
    let mut network = up(all_protocols());
    let flows: Vec<FiveTuple> = (0..6)
        .flat_map(|client| [tcp(client, 5000), tuple(client, protocol::UDP, [5000, 53]), tuple(client, 1, [8, 0])])
        .collect();
    let members: Vec<Option<u32>> = flows.iter().map(|tuple| request(&mut network, *tuple)).collect();
    let rules = |network: &TestNetwork| -> Vec<_> {
        connection_rules(network).into_iter().map(|(at, rule)| (at, rule.match_, rule.instructions)).collect()
    };
    let before = rules(&network);
    network.disconnect_all();
    // While no controller is connected, known connections continue.
    assert_eq!(request(&mut network, flows[0]), members[0]);
    let mut services = all_protocols();
    services.pools[0].members.remove(0); // Changed during the restart: its connections stay.
    let sent = network.sent.len();
    restart(&mut network, services);
    assert!(rules(&network) == before, "no rule is changed");
    assert_eq!(mods(&network, sent), 0, "nor sent again");
    for (tuple, member) in flows.iter().zip(&members) {
        assert_eq!(request(&mut network, *tuple), *member);
    }
    let now = network.controller.inspect().services();
    assert_eq!(now.iter().map(|service| service.counts.connections).sum::<u64>(), 18);
    assert!(now[0].members[0].is_leaving);
    network.assert_exact();
    // Services that are not configured any more when it starts leave nothing.
    network.restart_controller(config_for(&network.topology), quiet());
    network.reconnect(None);
    assert!(connection_rules(&network).is_empty());
    network.assert_exact();
}

#[test]
fn edge_switch_serves_after_disconnect_or_power_loss() {
    let mut network = up(one(all_protocols()));
    let member = request(&mut network, tcp(0, 5000)).expect("served");
    let edge = edge_of(&network, 0);
    network.disconnect(edge);
    network.run(Time::from_ms(100));
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(member));
    // The service changes meanwhile: a member is removed, which keeps its connections.
    let mut services = one(all_protocols());
    services.pools[0].members.retain(|other| other.address != ip(member));
    set(&mut network, services);
    network.reconnect(Some(edge));
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(member));
    network.assert_exact();
    // Power loss: its rules are gone.
    network.disconnect(edge);
    network.lose_power(edge);
    network.reconnect(Some(edge));
    assert!(request(&mut network, tcp(0, 5000)).is_some());
    network.assert_exact();
}

#[test]
fn moved_client_keeps_its_member() {
    let mut network = up(one(all_protocols()));
    let member = request(&mut network, tcp(0, 5000)).expect("served");
    assert_eq!(assert_client_is_followed(&mut network, 5000), Some(member));
    let edge = DatapathId(address::datapath_of(edge_of(&network, 10)));
    assert!(connection_rules(&network).iter().all(|(datapath, _)| *datapath == edge), "none is left where it was");
}

#[test]
fn moved_member_is_followed() {
    let mut network = up(one(all_protocols()));
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
    assert_member_is_followed(&mut network, 12);
    // It changes again while the client's switch is disconnected.
    let edge = edge_of(&network, 0);
    network.disconnect(edge);
    let mac = MacAddr([2, 8, 8, 8, 8, 8]);
    network.move_to(2, mac, ip(12));
    network.run(Time::from_ms(500));
    network.reconnect(Some(edge));
    let number = ask(&mut network, tcp(0, 5000));
    network.run(Time::from_ms(50));
    assert_eq!(network.packets[number as usize].arrived.map(|headers| headers.eth_dst), Some(mac));
}

#[test]
fn services_of_one_address_do_not_collide() {
    let mut services = all_protocols();
    services.services[1] = Service { protocol: Protocol::Tcp, port: 443, ..services.services[1].clone() };
    // Both lead to port 8080 of the same members: the same ports of a client must not collide
    // there.
    let mut network = up(services);
    let flows: Vec<FiveTuple> = [80, 443].map(|port| tuple(0, protocol::TCP, [5000, port])).into();
    for round in 0..3 {
        let members: Vec<Option<u32>> = flows.iter().map(|tuple| request(&mut network, *tuple)).collect();
        assert!(members[0].is_some() && members[1].is_some() && members[0] != members[1], "{round}: {members:?}");
    }
    assert_eq!(connection_rules(&network).len(), 4);
}

#[test]
fn paused_connection_keeps_its_member() {
    let mut network = up(one(all_protocols()));
    let member = request(&mut network, tcp(0, 5000)).expect("served");
    network.run(Time::from_s(50));
    assert!(connection_rules(&network).is_empty());
    assert_eq!(network.controller.inspect().services()[0].counts.connections, 0);
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(member));
    let now = network.controller.inspect().services();
    assert_eq!((now[0].counts.connections, now[0].counts.connections_total), (1, 1), "the same one");
    assert!(now[0].counts.bytes_in > 0 && now[0].counts.bytes_out > 0, "{:?}", now[0].counts);
}

#[test]
fn full_switch_rejects_the_client() {
    let network = TestNetwork::new(fat_tree(), config_for(&fat_tree()), quiet(), (19, 10_000));
    let mut network = connected(network, one(all_protocols()));
    let free =
        19 - { network.switches[&edge_of(&network, 0)].entries() }.iter().filter(|entry| entry.table.0 == 0).count();
    for port in 0..40 {
        request(&mut network, tcp(0, 5000 + port));
    }
    let served = network.packets.iter().filter(|packet| packet.answer.is_some()).count();
    assert_eq!(served, free / 2);
    assert_eq!(received_frames(&network, 0).len(), 40 - served, "the others are rejected");
    assert_eq!(network.rejections(), 1, "reported once");
    network.assert_exact();
}

#[test]
fn invalid_services_are_rejected_and_change_nothing() {
    let mut network = up(one(all_protocols()));
    assert_rejected(
        &mut network,
        all_protocols,
        &[
            ("no pool", |wanted| wanted.services[0].pool = PoolId(9)),
            ("port above 0", |wanted| wanted.services[0].port = 0),
            ("must be 0", |wanted| wanted.services[2].port = 1),
            ("idle timeout", |wanted| wanted.services[0].idle_timeout_s = 0),
            ("not a unicast address", |wanted| wanted.services[0].address = Ipv4Addr::BROADCAST),
            ("same address, protocol and port", |wanted| {
                let twin = Service { id: ServiceId(9), ..wanted.services[0].clone() };
                wanted.services.push(twin);
            }),
            ("have the number", |wanted| wanted.services[1].id = ServiceId(1)),
            ("another Ethernet address", |wanted| wanted.services[1].mac = Some(MacAddr([2; 6]))),
            ("does not pick servers", |wanted| wanted.pools[0].balancer = "ecmp".into()),
            ("did you mean", |wanted| wanted.pools[0].balancer = "server-r".into()),
            ("has its number", |wanted| wanted.pools[0].members[1].id = MemberId(1)),
            ("number is above", |wanted| wanted.pools[0].members[1].id = MemberId(1 << 24)),
            ("cannot serve another", |wanted| wanted.pools[0].members[1].address = VIP),
        ],
    );
}

/// Its member was removed when its last rule expired; it is remembered, and the connection
/// continues with it.
#[test]
fn paused_connection_keeps_a_removed_member() {
    let mut network = up(one(all_protocols()));
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
    let mut services = one(all_protocols());
    services.pools[0].members.remove(0);
    set(&mut network, services.clone());
    assert!(network.controller.inspect().services()[0].members[0].is_leaving);
    network.run(Time::from_s(60));
    assert_eq!(connection_rules(&network).len(), 0);
    assert_eq!(network.controller.inspect().services()[0].members.len(), 3, "no connection waits for it");
    // Not a SYN: a new connection gets another member.
    send_data(&mut network);
    assert_eq!((received_frames(&network, 12).len(), received_frames(&network, 0).len()), (1, 0));
    assert!(network.controller.inspect().services()[0].members[0].is_leaving, "it is waited for again");
    assert_eq!(request(&mut network, tcp(0, 5001)).map(|host| host != 12), Some(true));
    network.run(Time::from_s(60));
    network.assert_exact();
}
