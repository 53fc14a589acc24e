//! Tests of the session: every state with every kind of message.

use super::*;
use openflow::{
    AsyncConfig, BufferId, DatapathId, FlowMod, FlowRemoved, GroupMod, Instructions, Match, PacketIn, PacketOut,
    PortMod, Role, TableId,
};

const STATES: [State; 6] = [State::Hello, State::Features, State::Ports, State::Groups, State::Rules, State::Ready];

fn features(auxiliary: u8) -> Message {
    let datapath = DatapathId(7);
    Message::FeaturesReply(Features { datapath, buffers: 0, tables: 4, auxiliary, capabilities: 0 })
}
fn port(is_link_down: bool) -> PortDesc {
    PortDesc {
        port: PortNo(1),
        hw_addr: openflow::MacAddr::default(),
        name: "p1".into(),
        is_admin_down: false,
        is_link_down,
        speed_kbps: 0,
    }
}
fn reply(reply: MultipartReply, has_more: bool) -> Message {
    Message::MultipartReply { reply, has_more }
}

fn session(state: State) -> (Session, Xid) {
    let mut session = Session::new(Time::ZERO, 7, false);
    let answers = [
        Message::Hello { versions: 0b1_0010 },
        features(0),
        reply(MultipartReply::PortDesc(vec![port(false)]), false),
        reply(MultipartReply::GroupDesc(Vec::new()), false),
        reply(MultipartReply::Flow(Vec::new()), false),
    ];
    let mut awaited = session.seal(Session::hello()).xid;
    for answer in answers {
        if session.state == state {
            break;
        }
        if let SessionAction::Send(messages) = session.receive(Time::ZERO, awaited, &answer) {
            messages.into_iter().for_each(|message| awaited = session.seal(message).xid);
        }
    }
    assert_eq!(session.state, state);
    (session, awaited)
}

/// Returns a message of every kind, and two where the reaction depends on the content.
fn kinds() -> Vec<(&'static str, Message)> {
    let (mut kinds, answers) = (messages_of_controllers(), messages_of_switches());
    kinds.extend(answers);
    kinds
}

fn messages_of_switches() -> Vec<(&'static str, Message)> {
    let kind = ErrorKind::BadRequest(BadRequest::BadType);
    let packet_in = PacketIn {
        buffer: BufferId::NO_BUFFER,
        total_len: 0,
        reason: openflow::PacketInReason::Action,
        table: TableId(0),
        cookie: 0,
        match_: Match::default(),
        data: Vec::new(),
    };
    vec![
        ("hello", Message::Hello { versions: VERSION_1_3 }),
        ("hello, other version", Message::Hello { versions: 0b10 }),
        ("error", Message::Error { kind, data: Vec::new() }),
        ("echo reply", Message::EchoReply(vec![1])),
        ("features", features(0)),
        ("features, auxiliary", features(1)),
        ("config", Message::GetConfigReply(CONFIG)),
        ("packet in", Message::PacketIn(packet_in)),
        ("flow removed", flow_removed(openflow::RemovedReason::Delete, 0, 0)),
        ("port status", Message::PortStatus { reason: PortReason::Modify, port: port(true) }),
        ("ports", reply(MultipartReply::PortDesc(vec![port(false)]), false)),
        ("some ports", reply(MultipartReply::PortDesc(vec![port(false)]), true)),
        ("rules", reply(MultipartReply::Flow(Vec::new()), false)),
        ("groups", reply(MultipartReply::GroupDesc(Vec::new()), false)),
        ("barrier", Message::BarrierReply),
        ("role", Message::RoleReply(ROLE)),
        ("async", Message::GetAsyncReply(ASYNC)),
    ]
}

fn messages_of_controllers() -> Vec<(&'static str, Message)> {
    let (table, actions, data) = (TableId(0), Vec::new(), Vec::new());
    let packet_out = PacketOut { buffer: BufferId::NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
    let (command, kind) = (openflow::GroupModCommand::Add, openflow::GroupKind::Select);
    let group_mod = GroupMod { command, kind, group: openflow::GroupId(1), buckets: Vec::new() };
    let hw_addr = openflow::MacAddr::default();
    let port_mod = PortMod { port: PortNo(1), hw_addr, config: 0, mask: 0, advertise: 0 };
    let flow_mod = FlowMod::add(table, 0, Match::default(), Instructions::default());
    vec![
        ("echo request", Message::EchoRequest(vec![1])),
        ("features request", Message::FeaturesRequest),
        ("get config", Message::GetConfigRequest),
        ("set config", Message::SetConfig(CONFIG)),
        ("packet out", Message::PacketOut(packet_out)),
        ("flow mod", Message::FlowMod(flow_mod)),
        ("group mod", Message::GroupMod(group_mod)),
        ("port mod", Message::PortMod(port_mod)),
        ("table mod", Message::TableMod { table, config: 0 }),
        ("multipart request", Message::MultipartRequest(MultipartRequest::Table)),
        ("barrier request", Message::BarrierRequest),
        ("role request", Message::RoleRequest(ROLE)),
        ("get async", Message::GetAsyncRequest),
        ("set async", Message::SetAsync(ASYNC)),
        ("experimenter", Message::Experimenter { experimenter: 1, kind: 1, data: Vec::new() }),
    ]
}

const ROLE: Role = Role { role: openflow::ControllerRole::Master, generation: 0 };
const CONFIG: SwitchConfig = SwitchConfig { flags: 0, miss_send_len: 0 };
const ASYNC: AsyncConfig = AsyncConfig { packet_in: [0; 2], port_status: [0; 2], flow_removed: [0; 2] };

fn flow_removed(reason: openflow::RemovedReason, priority: u16, idle_timeout_s: u16) -> Message {
    Message::FlowRemoved(FlowRemoved {
        cookie: 0,
        priority,
        reason,
        table: TableId(0),
        duration_ns: 0,
        idle_timeout_s,
        hard_timeout_s: 0,
        packets: 0,
        bytes: 0,
        match_: Match::default(),
    })
}

/// Returns the letter of a reaction: `.` nothing, `>` next request, `a` reply, `R` ready, `x`
/// close, `p` pass on.
fn letter(reaction: &SessionAction) -> char {
    match reaction {
        SessionAction::Nothing => '.',
        SessionAction::Send(_) => '>',
        SessionAction::Answer(_) => 'a',
        SessionAction::Ready => 'R',
        SessionAction::Close(_) => 'x',
        SessionAction::Pass => 'p',
    }
}

/// Every (state, message) in the order hello, features, ports, groups, rules, ready, with the
/// expected transaction number.
#[test]
fn every_message_is_decided_in_every_state() {
    let expected = [
        ("hello", ">....."),
        ("hello, other version", "x....."),
        ("error", "xxxxxp"),
        ("echo request", "xaaaaa"),
        ("echo reply", "x....."),
        ("features request", "xaaaaa"),
        ("features", "x>...."),
        ("features, auxiliary", "xx...."),
        ("get config", "xaaaaa"),
        ("config", "x....."),
        ("set config", "xaaaaa"),
        ("packet in", "x....p"),
        ("flow removed", "x....p"),
        ("port status", "x....p"),
        ("packet out", "xaaaaa"),
        ("flow mod", "xaaaaa"),
        ("group mod", "xaaaaa"),
        ("port mod", "xaaaaa"),
        ("table mod", "xaaaaa"),
        ("multipart request", "xaaaaa"),
        ("ports", "x.>..p"),
        ("some ports", "x....p"),
        ("rules", "x...Rp"),
        ("groups", "x..>.p"),
        ("barrier request", "xaaaaa"),
        ("barrier", "x....p"),
        ("role request", "xaaaaa"),
        ("role", "x....."),
        ("get async", "xaaaaa"),
        ("async", "x....."),
        ("set async", "xaaaaa"),
        ("experimenter", "xaaaaa"),
    ];
    let kinds = kinds();
    assert_eq!(kinds.len(), expected.len());
    for (name, letters) in expected {
        let (_, message) = kinds.iter().find(|(kind, _)| *kind == name).expect(name);
        let got: String = STATES
            .iter()
            .map(|state| {
                let (mut session, awaited) = session(*state);
                letter(&session.receive(Time::ZERO, awaited, message))
            })
            .collect();
        assert_eq!(got, letters, "{name}");
    }
}

#[test]
fn replies_to_other_requests_do_not_advance_the_handshake() {
    for state in &STATES[1..5] {
        for (name, message) in kinds() {
            let (mut session, awaited) = session(*state);
            session.receive(Time::ZERO, Xid(awaited.0 + 100), &message);
            assert_eq!(session.state, *state, "{name}");
        }
    }
}

/// Simulation test 22346: a counting rule idled out during the table read-back, and was missed from
/// then on.
#[test]
fn rules_removed_during_the_read_back_are_dropped() {
    let (mut session, awaited) = session(State::Rules);
    let rule = |priority: u16| FlowStats { priority, idle_timeout_s: 5, ..FlowStats::default() };
    session.receive(Time::ZERO, awaited, &reply(MultipartReply::Flow(vec![rule(1), rule(2)]), true));
    session.receive(Time::ZERO, Xid(0), &flow_removed(openflow::RemovedReason::IdleTimeout, 2, 5));
    let ready = session.receive(Time::ZERO, awaited, &reply(MultipartReply::Flow(vec![rule(3)]), false));
    assert_eq!(ready, SessionAction::Ready);
    let kept: Vec<u16> = session.rules.iter().map(|rule| rule.priority).collect();
    assert_eq!(kept, [1, 3]);
}

#[test]
fn undecodable_foreign_rules_are_left_out() {
    let (mut session, mut awaited) = session(State::Groups);
    let unknown = |kind| reply(MultipartReply::Other { kind, body: vec![1] }, false);
    let asked = |reaction: SessionAction| match reaction {
        SessionAction::Send(messages) => messages[0].clone(),
        other => panic!("{other:?}"),
    };
    let all = asked(session.receive(Time::ZERO, awaited, &unknown(7)));
    assert_eq!(all, Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all())));
    awaited = session.seal(all).xid;
    let own = asked(session.receive(Time::ZERO, awaited, &unknown(1)));
    let Message::MultipartRequest(MultipartRequest::Flow(selection)) = &own else { panic!("{own:?}") };
    assert_eq!((selection.cookie, selection.cookie_mask), (7 << 48, 0xffff << 48));
    awaited = session.seal(own).xid;
    let ready = session.receive(Time::ZERO, awaited, &reply(MultipartReply::Flow(Vec::new()), false));
    assert_eq!((ready, session.is_partial), (SessionAction::Ready, true));
}

#[test]
fn manufacturer_is_requested_if_configured_and_optional() {
    for (asks, answer) in [(false, None), (true, None), (true, Some("Nicira, Inc."))] {
        let mut session = Session::new(Time::ZERO, 7, asks);
        session.receive(Time::ZERO, Xid(0), &Message::Hello { versions: VERSION_1_3 });
        let request = session.seal(Message::FeaturesRequest).xid;
        let SessionAction::Send(asked) = session.receive(Time::ZERO, request, &features(0)) else { panic!("{asks}") };
        assert_eq!(asked.contains(&Message::MultipartRequest(MultipartRequest::Desc)), asks);
        let sent: Vec<Xid> = asked.into_iter().map(|message| session.seal(message).xid).collect();
        if asks {
            let message = match answer {
                Some(maker) => {
                    let manufacturer = maker.to_owned();
                    reply(MultipartReply::Desc(openflow::Description { manufacturer, ..Default::default() }), false)
                }
                None => bad_type(),
            };
            assert_eq!(session.receive(Time::ZERO, sent[1], &message), SessionAction::Nothing);
        }
        session.receive(Time::ZERO, *sent.last().unwrap(), &reply(MultipartReply::PortDesc(Vec::new()), false));
        assert_eq!((session.state, session.manufacturer.as_deref()), (State::Groups, answer));
    }
}

#[test]
fn round_trip_is_measured_and_silence_detected() {
    let (mut session, _) = session(State::Ready);
    let ms = Time::from_ms;
    let Some(Message::EchoRequest(data)) = session.echo_due(ms(5), ms(1000)) else { panic!("no echo") };
    assert_eq!(session.echo_due(ms(5), ms(1000)), None);
    session.receive(ms(6), Xid(0), &Message::EchoReply(vec![9; 8]));
    assert_eq!(session.rtt, None, "a reply with other data");
    session.receive(ms(25), Xid(0), &Message::EchoReply(data));
    assert_eq!(session.rtt, Some(ms(20)));
    assert!(!session.is_silent(ms(15_024), ms(15_000)) && session.is_silent(ms(15_025), ms(15_000)));
}

#[test]
fn ports_are_kept_up_to_date() {
    let (mut session, awaited) = session(State::Ready);
    let status = |reason| Message::PortStatus { reason, port: port(true) };
    session.receive(Time::ZERO, awaited, &status(PortReason::Modify));
    assert!(!session.ports[&PortNo(1)].is_live());
    session.receive(Time::ZERO, awaited, &status(PortReason::Delete));
    assert!(session.ports.is_empty());
}
