//! Virtual services alone: first packets in, rules of connections out.

use balance::Spec;
use balance::central::CentralEnv;
use net::Time;
use openflow::frame::{Segment, flags, tcp};
use openflow::{ConnectionId, FlowRemoved, FlowStats, FromController, Message, RemovedReason};

use super::*;
use crate::changes::ChangeQueue;
use crate::channels::Channels;
use crate::{KnownHost, Output};

const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 9);

fn host(number: u8) -> KnownHost {
    let (mac, ipv4) = (MacAddr([2, 0, 0, 0, 0, number]), [10, 0, 0, number].into());
    KnownHost { mac, ipv4, datapath: DatapathId(1), port: openflow::PortNo(u32::from(number)) }
}

fn services(members: &[u8]) -> Services {
    let member = |number: &u8| Member {
        id: MemberId(u32::from(*number)),
        address: host(*number).ipv4,
        port: None,
        weight: 1,
        is_enabled: true,
    };
    let pool = Pool {
        id: PoolId(1),
        balancer: "server-rr".to_owned(),
        monitor: None,
        members: members.iter().map(member).collect(),
        established: Established::Keep,
        refusal: Refusal::Reset,
    };
    let service = Service {
        id: ServiceId(1),
        address: VIP,
        protocol: Protocol::Tcp,
        port: 80,
        pool: PoolId(1),
        idle_timeout_s: 60,
        rules: Rules::Connection,
        is_tunnelled: false,
        mac: None,
    };
    Services { services: vec![service], pools: vec![pool] }
}

/// One switch with a client (host 1) and servers (hosts 2 and 3).
struct Alone {
    config: Config,
    channels: Channels,
    changes: ChangeQueue,
    observer: Observer,
    planner: Planner,
    updater: Updater,
    vips: VipService,
}

impl Alone {
    fn new(members: &[u8]) -> Alone {
        let config = Config { hosts: [1, 2, 3].map(host).to_vec(), ..Config::default() };
        let spec = Spec::parse("sdn-ecmp").expect("a balancer of the registry");
        let balance::Build::Central(build) = spec.entry.build else { panic!("a central balancer") };
        let balancer = build(&CentralEnv { seed: 1 }, &spec.params);
        let mut channels = Channels::default();
        channels.add_ready(ConnectionId(1), DatapathId(1));
        let mut observer = Observer::new(&config, balancer.needs());
        config.hosts.iter().for_each(|host| {
            observer.network.set_hosts_alive(host.end(), true);
        });
        let mut alone = Alone {
            channels,
            changes: ChangeQueue::default(),
            observer,
            planner: Planner::new(&config, balancer),
            updater: Updater::new(config.owner),
            vips: VipService::new(&config),
            config,
        };
        alone.with(|vips, on| {
            vips.set_services(on, services(members));
            vips.update(on, true);
        });
        alone
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut VipService, &mut Parts<'_>) -> T) -> T {
        let Alone { config, channels, changes, observer, planner, updater, vips } = self;
        let cx = Cx { now: Time::ZERO, config, channels, changes };
        act(vips, &mut Parts { cx, observer, planner, updater })
    }

    /// Sends an opening segment from the client. Returns the messages that follow.
    fn open(&mut self, port: u16) -> Vec<Message> {
        let (client, segment) = (host(1), Segment { flags: flags::SYN, seq: 1, ack: 0, window: 1, payload: &[] });
        let data = tcp([client.mac, mac_of(VIP)], [client.ipv4, VIP], [port, 80], &segment);
        let headers = openflow::frame::parse(&data).expect("a packet");
        self.with(|vips, on| vips.virtual_packet(on, client.end(), &headers, &data));
        let message = |output| match output {
            Output::Channel(FromController::Message(_, envelope)) => Some(envelope.message),
            _ => None,
        };
        std::iter::from_fn(|| self.channels.next_output()).filter_map(message).collect()
    }
}

#[test]
fn first_packets_get_rules_and_members_in_turn() {
    let mut alone = Alone::new(&[2, 3]);
    for (port, sent) in [(1000, 1), (1001, 1)] {
        let rules = alone.open(port).into_iter().filter(|message| matches!(message, Message::FlowMod(_))).count();
        assert_eq!(rules, 2 * sent, "to the member and back");
    }
    let mut members: Vec<MemberId> = alone.vips.virtual_connections().map(|(.., member)| member).collect();
    members.sort_unstable();
    assert_eq!(members, [MemberId(2), MemberId(3)]);
}

#[test]
fn pool_without_members_is_refused_with_a_reset() {
    let mut alone = Alone::new(&[]);
    let sent = alone.open(1000);
    assert!(matches!(sent[..], [Message::PacketOut(_)]), "{sent:?}");
    assert_eq!(alone.vips.virtual_connections().count(), 0);
}

#[test]
fn observer_knows_virtual_addresses() {
    let mut alone = Alone::new(&[2]);
    assert!(alone.observer.is_virtual(VIP));
    alone.with(|vips, on| vips.set_services(on, Services::default()));
    assert!(!alone.observer.is_virtual(VIP));
}

/// The control channel breaks before the rules of a connection are confirmed, and the switch has them.
#[test]
fn recovered_connection_ends_with_its_rule() {
    let mut alone = Alone::new(&[2]);
    let rules = alone.open(1000).into_iter().filter_map(|message| match message {
        Message::FlowMod(rule) => Some(FlowStats {
            table: rule.table,
            priority: rule.priority,
            idle_timeout_s: rule.idle_timeout_s,
            flags: rule.flags,
            cookie: rule.cookie,
            match_: rule.match_,
            instructions: rule.instructions,
            ..FlowStats::default()
        }),
        _ => None,
    });
    let mut rules: Vec<FlowStats> = rules.collect();
    let to_member = rules.iter().find(|rule| rule.match_.ipv4_dst.is_some_and(|to| to.value == VIP)).cloned();
    let to_member = to_member.expect("the rule to the member");
    alone.with(|vips, on| vips.recover_connections(on, ConnectionId(1), DatapathId(1), &mut rules));
    assert_eq!(alone.vips.virtual_connections().count(), 1);
    let removed = FlowRemoved {
        table: to_member.table,
        priority: to_member.priority,
        cookie: to_member.cookie,
        match_: to_member.match_,
        reason: RemovedReason::IdleTimeout,
        duration_ns: 0,
        idle_timeout_s: 60,
        hard_timeout_s: 0,
        packets: 0,
        bytes: 0,
        other_fields: Vec::new(),
    };
    assert!(alone.with(|vips, on| vips.connection_removed(on, DatapathId(1), &removed)));
    assert_eq!(alone.vips.virtual_connections().count(), 0);
}
