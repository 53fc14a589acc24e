//! A session with a real Open vSwitch, all of whose messages must be decoded.

use anabranch_openflow::*;

use crate::switch::{Captured, Controller, Switch, is_available};

const TWO_PORTS: [PortNo; 2] = [PortNo(1), PortNo(2)];

fn groups() -> [GroupMod; 2] {
    let buckets = |weight: u16| TWO_PORTS.map(|port| Bucket::watching(port, weight)).to_vec();
    let add = |group, kind, buckets| GroupMod { command: GroupModCommand::Add, kind, group: GroupId(group), buckets };
    [add(6, GroupKind::Select, buckets(3)), add(7, GroupKind::FastFailover, buckets(0))]
}

fn matches() -> [Match; 4] {
    let ip = |a, b, c, d| std::net::Ipv4Addr::new(a, b, c, d);
    let exact = |address| Some(Masked::<std::net::Ipv4Addr>::exact(address));
    let prefix = Some(Masked { value: ip(10, 2, 0, 0), mask: ip(255, 255, 0, 0) });
    let ipv4 = Match { eth_type: Some(0x0800), ..Match::default() };
    let tcp = Match {
        in_port: Some(PortNo(1)),
        eth_src: Some(Masked { value: MacAddr([2, 0, 0, 0, 0, 0]), mask: MacAddr([255, 255, 0, 0, 0, 0]) }),
        eth_dst: Some(Masked::<MacAddr>::exact(MacAddr([2, 0, 0, 0, 0, 9]))),
        vlan: Some(VlanMatch::Id(5)),
        vlan_pcp: Some(3),
        ip_dscp: Some(46),
        ip_ecn: Some(1),
        ip_proto: Some(6),
        ipv4_src: exact(ip(10, 0, 0, 1)),
        ipv4_dst: prefix,
        tcp_src: Some(80),
        tcp_dst: Some(1024),
        tcp_flags: Some(Masked { value: 0x002, mask: 0x012 }),
        ..ipv4
    };
    let udp = Match {
        vlan: Some(VlanMatch::Tagged),
        metadata: Some(Masked { value: 4, mask: 0xf }),
        ip_proto: Some(17),
        udp_src: Some(53),
        udp_dst: Some(5353),
        ..ipv4
    };
    let icmp = Match {
        vlan: Some(VlanMatch::Untagged),
        ip_proto: Some(1),
        icmpv4_type: Some(8),
        icmpv4_code: Some(0),
        ..ipv4
    };
    let arp = Match {
        eth_type: Some(0x0806),
        arp_op: Some(2),
        arp_spa: prefix,
        arp_tpa: exact(ip(10, 0, 0, 2)),
        ..Match::default()
    };
    [tcp, udp, icmp, arp]
}

/// Returns rules with every field and action of this crate, in valid combinations.
fn rules() -> Vec<FlowMod> {
    let [tcp, udp, icmp, arp] = matches();
    let ip = |host| std::net::Ipv4Addr::new(10, 0, 0, host);
    let set = Action::SetField;
    let fields = vec![
        set(SetField::EthDst(MacAddr([2, 0, 0, 0, 0, 1]))),
        set(SetField::EthSrc(MacAddr([2, 0, 0, 0, 0, 2]))),
        set(SetField::VlanVid(9)),
        set(SetField::VlanPcp(1)),
        set(SetField::IpDscp(10)),
        set(SetField::IpEcn(2)),
        set(SetField::Ipv4Src(ip(3))),
        set(SetField::Ipv4Dst(ip(4))),
        set(SetField::TcpSrc(1)),
        set(SetField::TcpDst(2)),
        Action::PopVlan,
        Action::DecNwTtl,
        Action::SetQueue(1),
        Action::Group(GroupId(6)),
    ];
    let ports = vec![set(SetField::UdpSrc(1)), set(SetField::UdpDst(2)), Action::Group(GroupId(7))];
    let later = Instructions {
        clear: true,
        write: vec![Action::output(PortNo(2))],
        metadata: Some(Masked { value: 1, mask: 3 }),
        goto: Some(TableId(1)),
        ..Instructions::apply(vec![Action::PushVlan(0x8100), Action::SetField(SetField::VlanVid(7))])
    };
    let add = |table, priority, m, instructions| FlowMod {
        cookie: u64::from(priority),
        ..FlowMod::add(TableId(table), priority, m, instructions)
    };
    let announced = FlowModFlags { send_flow_removed: true, reset_counts: true, ..FlowModFlags::default() };
    vec![
        add(0, 500, tcp, Instructions::apply(fields)),
        add(1, 400, udp, Instructions::apply(ports)),
        add(0, 300, icmp, later),
        FlowMod { flags: announced, idle_timeout_s: 100, ..add(0, 200, arp, Instructions::default()) },
        add(0, 0, Match::default(), Instructions::apply(vec![Action::to_controller()])),
    ]
}

/// An Ethernet packet of a type reserved for experiments.
const PACKET: [u8; 18] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5, 1, 2, 3, 4];

#[test]
fn real_switch_is_understood() {
    if !is_available() {
        return;
    }
    let switch = Switch::start();
    switch.add_bridge("s1", "OpenFlow13");
    let mut controller = Controller::of(&switch, "s1");
    let mut captured = Captured::default();
    handshake(&mut captured, &mut controller);
    change(&mut captured, &mut controller);
    read_back(&mut captured, &mut controller);
    limits(&mut captured, &mut controller, &switch);
    packets_and_notifications(&mut captured, &mut controller, &switch);
    foreign(&mut captured, &mut controller, &switch);

    // A switch with version 1.0 only announces it, with or without a bitmap.
    switch.add_bridge("s0", "OpenFlow10");
    let hello = captured.until(&mut Controller::of(&switch, "s0"), "hello_1_0", |_| true);
    assert_eq!(hello, Message::Hello { versions: 1 << 1 });

    // Open vSwitch sends an echo request after 5 s.
    captured.until(&mut controller, "echo_request", |envelope| matches!(envelope.message, Message::EchoRequest(_)));
    captured.write();
}

fn handshake(captured: &mut Captured, controller: &mut Controller) {
    let hello = captured.until(controller, "hello", |_| true);
    assert_eq!(hello, Message::Hello { versions: 1 << 4 });
    controller.send(0, Message::Hello { versions: 1 << 4 });
    let features = captured.ask(controller, "features_reply", Message::FeaturesRequest);
    let Message::FeaturesReply(features) = features else { panic!("{features:?}") };
    assert_eq!((features.tables, features.auxiliary), (254, 0));
    let echo = captured.ask(controller, "echo_reply", Message::EchoRequest(b"anabranch".to_vec()));
    assert_eq!(echo, Message::EchoReply(b"anabranch".to_vec()));
    let config = SwitchConfig { flags: 0, miss_send_len: Action::WHOLE_PACKET };
    controller.send(1, Message::SetConfig(config));
    let told = captured.ask(controller, "get_config_reply", Message::GetConfigRequest);
    assert_eq!(told, Message::GetConfigReply(config));
    let role = Role { role: ControllerRole::Master, generation: 3 };
    assert_eq!(captured.ask(controller, "role_reply", Message::RoleRequest(role)), Message::RoleReply(role));
    let stale = Message::RoleRequest(Role { role: ControllerRole::Master, generation: 2 });
    let error = captured.error(controller, "error_stale", stale);
    assert_eq!(error, ErrorKind::RoleRequestFailed(RoleRequestFailed::Stale));
    let slave = Role { role: ControllerRole::Slave, generation: 4 };
    let told = captured.ask(controller, "role_reply_slave", Message::RoleRequest(slave));
    assert_eq!(told, Message::RoleReply(slave));
    let rule = Message::FlowMod(FlowMod::add(TableId(0), 1, Match::default(), Instructions::default()));
    let error = captured.error(controller, "error_is_slave", rule);
    assert_eq!(error, ErrorKind::BadRequest(BadRequest::IsSlave));
    let equal = Role { role: ControllerRole::Equal, generation: 0 };
    let told = captured.ask(controller, "role_reply", Message::RoleRequest(equal));
    assert_eq!(told, Message::RoleReply(Role { generation: 4, ..equal }));
    let wanted = AsyncConfig { packet_in: [7, 0], port_status: [7, 0], flow_removed: [15, 0] };
    controller.send(2, Message::SetAsync(wanted));
    let told = captured.ask(controller, "get_async_reply", Message::GetAsyncRequest);
    assert_eq!(told, Message::GetAsyncReply(wanted));
}

fn change(captured: &mut Captured, controller: &mut Controller) {
    for group in groups() {
        controller.send(10, Message::GroupMod(group));
    }
    for rule in rules() {
        controller.send(11, Message::FlowMod(rule));
    }
    // An error would arrive before the barrier reply.
    controller.send(12, Message::BarrierRequest);
    let answer = captured.until(controller, "barrier_reply", |envelope| (10..=12).contains(&envelope.xid.0));
    assert_eq!(answer, Message::BarrierReply);
    let [group, _] = groups();
    let error = captured.error(controller, "error_group_exists", Message::GroupMod(group));
    assert_eq!(error, ErrorKind::GroupModFailed(GroupModFailed::GroupExists));
    let nowhere = Instructions::apply(vec![Action::Group(GroupId(99))]);
    let nowhere = FlowMod::add(TableId(0), 1, Match::default(), nowhere);
    let error = captured.error(controller, "error_bad_out_group", Message::FlowMod(nowhere));
    assert_eq!(error, ErrorKind::BadAction(BadAction::BadOutGroup));
}

fn read_back(captured: &mut Captured, controller: &mut Controller) {
    use MultipartReply as Reply;
    use MultipartRequest as Request;
    let reply = captured.ask_multipart(controller, "desc", Request::Desc);
    assert!(matches!(&reply, Reply::Desc(told) if told.manufacturer == "Nicira, Inc."), "{reply:?}");

    // All rules are installed as they were sent.
    let reply = captured.ask_multipart(controller, "flow", Request::Flow(FlowSelection::all()));
    let Reply::Flow(entries) = reply else { panic!("{reply:?}") };
    assert_eq!(entries.len(), rules().len());
    for rule in rules() {
        let same = |entry: &&FlowStats| {
            (entry.table, entry.priority, entry.match_) == (rule.table, rule.priority, rule.match_)
        };
        let entry = entries.iter().find(same).unwrap_or_else(|| panic!("{rule:?} in {entries:?}"));
        assert_eq!((&entry.instructions, entry.cookie, entry.flags), (&rule.instructions, rule.cookie, rule.flags));
        assert_eq!((entry.idle_timeout_s, entry.hard_timeout_s), (rule.idle_timeout_s, rule.hard_timeout_s));
    }
    let reply = captured.ask_multipart(controller, "group_desc", Request::GroupDesc);
    let Reply::GroupDesc(described) = reply else { panic!("{reply:?}") };
    for group in groups() {
        let GroupMod { kind, group, buckets, .. } = group;
        let told = described.iter().find(|told| told.group == group);
        assert_eq!(told, Some(&GroupDescription { group, kind, buckets }));
    }
    let reply = captured.ask_multipart(controller, "aggregate", Request::Aggregate(FlowSelection::all()));
    assert!(matches!(reply, Reply::Aggregate { flows: 5, .. }), "{reply:?}");
    let reply = captured.ask_multipart(controller, "table", Request::Table);
    assert!(matches!(&reply, Reply::Table(tables) if tables[0].active == 4 && tables[1].active == 1), "{reply:?}");
    let reply = captured.ask_multipart(controller, "port", Request::Port(PortNo::ANY));
    assert!(matches!(&reply, Reply::Port(ports) if ports.len() == 3), "{reply:?}");
    let reply = captured.ask_multipart(controller, "group", Request::Group(GroupId::ALL));
    let counted = |group: &GroupStats| group.references == 1 && group.buckets.len() == 2;
    assert!(matches!(&reply, Reply::Group(groups) if groups.len() == 2 && groups.iter().all(counted)), "{reply:?}");
    let reply = captured.ask_multipart(controller, "group_features", Request::GroupFeatures);
    assert!(matches!(&reply, Reply::GroupFeatures(features) if features.types == 0b1111), "{reply:?}");
    let reply = captured.ask_multipart(controller, "port_desc", Request::PortDesc);
    let Reply::PortDesc(ports) = reply else { panic!("{reply:?}") };
    let first = ports.iter().find(|port| port.port == PortNo(1)).unwrap();
    assert_eq!((&*first.name, first.is_live()), ("s1p1", true));
}

/// Queues, meters, and features of tables, whose many parts are too long to be kept.
fn limits(captured: &mut Captured, controller: &mut Controller, switch: &Switch) {
    use MultipartReply as Reply;
    use MultipartRequest as Request;
    let all_queues = Request::Queue { port: PortNo::ANY, queue: QueueId::ALL };
    let reply = captured.ask_multipart(controller, "queue", all_queues);
    assert!(matches!(reply, Reply::Queue(_)), "{reply:?}");
    let reply = captured.ask_multipart(controller, "meter_features", Request::MeterFeatures);
    assert!(matches!(&reply, Reply::MeterFeatures(meters) if meters.max_meters > 0), "{reply:?}");
    switch.ofctl("add-meter", "s1", "meter=7,kbps,burst,band=type=drop,rate=100,burst_size=10");
    let reply = captured.ask_multipart(controller, "meter", Request::Meter(MeterId::ALL));
    assert!(matches!(&reply, Reply::Meter(meters) if meters[0].meter == MeterId(7)), "{reply:?}");
    let reply = captured.ask_multipart(controller, "meter_config", Request::MeterConfig(MeterId::ALL));
    let bands = vec![MeterBand { rate: 100, burst: 10, kind: MeterBandKind::Drop }];
    assert_eq!(reply, Reply::MeterConfig(vec![MeterConfig { meter: MeterId(7), flags: 0b101, bands }]));

    captured.ask_multipart(controller, "table_features", Request::TableFeatures(Vec::new()));
    let parts = crate::messages_of(&captured.0.remove("table_features").unwrap());
    let tables_of = |envelope: &Envelope| match &envelope.message {
        Message::MultipartReply { reply: Reply::TableFeatures(tables), .. } => tables.len(),
        other => panic!("{other:?}"),
    };
    assert!(parts.len() > 1, "{} parts", parts.len());
    assert_eq!(parts.iter().map(tables_of).sum::<usize>(), 254);
}

fn packets_and_notifications(captured: &mut Captured, controller: &mut Controller, switch: &Switch) {
    let hex: String = PACKET.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_packet = |envelope: &Envelope| matches!(envelope.message, Message::PacketIn(_));
    switch.appctl(&["netdev-dummy/receive", "s1p1", &hex]);
    let message = captured.until(controller, "packet_in_no_match", is_packet);
    let Message::PacketIn(packet) = message else { panic!("{message:?}") };
    assert_eq!((packet.match_.in_port, packet.reason), (Some(PortNo(1)), PacketInReason::NoMatch));
    assert!(packet.data.starts_with(&PACKET));

    let out = PacketOut {
        buffer: BufferId::NO_BUFFER,
        in_port: PortNo::CONTROLLER,
        actions: vec![Action::output(PortNo(2)), Action::to_controller()],
        data: PACKET.to_vec(),
    };
    controller.send(20, Message::PacketOut(out));
    let message = captured.until(controller, "packet_in_action", is_packet);
    let Message::PacketIn(packet) = message else { panic!("{message:?}") };
    assert_eq!((packet.reason, &*packet.data), (PacketInReason::Action, &PACKET[..]));

    let gone = rules().remove(3);
    controller.send(21, Message::FlowMod(FlowMod::delete_strict(gone.table, gone.priority, gone.match_)));
    let is_removal = |envelope: &Envelope| matches!(envelope.message, Message::FlowRemoved(_));
    let message = captured.until(controller, "flow_removed", is_removal);
    let Message::FlowRemoved(removed) = message else { panic!("{message:?}") };
    assert_eq!((removed.match_, removed.reason, removed.cookie), (gone.match_, RemovedReason::Delete, gone.cookie));

    // Changes come in several steps: first a port is no longer alive for groups, then it is down.
    let mut status = |controller: &mut Controller, name, expected: PortReason, is_it: fn(&PortDesc) -> bool| {
        let is_status = |envelope: &Envelope| match &envelope.message {
            Message::PortStatus { reason, port } => *reason == expected && is_it(port),
            _ => false,
        };
        drop(captured.until(controller, name, is_status));
    };
    switch.appctl(&["netdev-dummy/set-admin-state", "s1p2", "down"]);
    status(controller, "port_status_down", PortReason::Modify, |port| port.port == PortNo(2) && port.is_admin_down);
    let down =
        PortMod { port: PortNo(1), hw_addr: port_address(controller, PortNo(1)), config: 1, mask: 1, advertise: 0 };
    controller.send(22, Message::PortMod(down));
    let is_down = |port: &PortDesc| port.port == PortNo(1) && port.is_admin_down;
    status(controller, "port_status_admin_down", PortReason::Modify, is_down);
    switch.vsctl("add-port s1 s1p3 -- set interface s1p3 type=dummy ofport_request=3");
    status(controller, "port_status_add", PortReason::Add, |port| port.port == PortNo(3) && port.name == "s1p3");
    switch.vsctl("del-port s1p3");
    status(controller, "port_status_delete", PortReason::Delete, |port| port.port == PortNo(3));
}

fn port_address(controller: &mut Controller, port: PortNo) -> MacAddr {
    controller.send(30, Message::MultipartRequest(MultipartRequest::PortDesc));
    loop {
        if let Message::MultipartReply { reply: MultipartReply::PortDesc(ports), .. } = controller.receive().0.message {
            return ports.iter().find(|found| found.port == port).unwrap().hw_addr;
        }
    }
}

/// Foreign rules with fields and actions that this crate does not represent.
fn foreign(captured: &mut Captured, controller: &mut Controller, switch: &Switch) {
    switch.ofctl("add-flow", "s1", "table=2,priority=7,ipv6,ipv6_dst=2001:db8::/32,actions=push_mpls:0x8847,output:1");
    switch.ofctl("add-flow", "s1", "table=3,priority=8,reg0=5,actions=load:1->NXM_NX_REG1[],resubmit(,4)");
    // Legal OpenFlow 1.3, but of forms that are not modelled: OpenFlow allows any mask on a VLAN
    // id, Open vSwitch on ports too.
    switch.ofctl("add-flow", "s1", "table=4,priority=5,vlan_tci=0x1010/0x1ff0,actions=drop");
    switch.ofctl("add-flow", "s1", "table=5,priority=5,tcp,tp_src=0x8000/0x8000,actions=drop");
    for (name, table) in [
        ("flow_foreign_basic", 2),
        ("flow_foreign_experimenter", 3),
        ("flow_foreign_vlan_mask", 4),
        ("flow_foreign_port_mask", 5),
    ] {
        let selection = FlowSelection { table: TableId(table), ..FlowSelection::all() };
        let reply = captured.ask_multipart(controller, name, MultipartRequest::Flow(selection));
        assert!(matches!(&reply, MultipartReply::Partial { opaque, .. } if opaque.len() == 1), "{reply:?}");
    }
    let unknown = Message::Experimenter { experimenter: 0x00ab_cdef, kind: 1, data: vec![0; 8] };
    let error = captured.error(controller, "error_bad_experimenter", unknown);
    assert_eq!(error, ErrorKind::BadRequest(BadRequest::BadExperimenter));
    // Nicira's role request (10): 1 is "master" there.
    let role = Message::Experimenter { experimenter: 0x2320, kind: 10, data: vec![0, 0, 0, 1] };
    let answer = captured.ask(controller, "experimenter", role);
    assert!(matches!(answer, Message::Experimenter { experimenter: 0x2320, kind: 11, .. }), "{answer:?}");
}
