//! Tests of the session: every state with every kind of message.

use super::*;
use openflow::FlowRemoved;
use openflow::testing::one_of_each;

const STATES: [State; 6] = [State::Hello, State::Features, State::Ports, State::Groups, State::Rules, State::Ready];

fn features(auxiliary: u8) -> Message {
    let datapath = openflow::DatapathId(7);
    Message::FeaturesReply(Features { datapath, buffers: 0, tables: 4, auxiliary, capabilities: 0 })
}
fn port(is_link_down: bool) -> PortDesc {
    PortDesc { is_link_down, ..PortDesc::up(PortNo(1), openflow::MacAddr::default(), "p1", 0) }
}
fn reply(reply: MultipartReply, has_more: bool) -> Message {
    Message::MultipartReply { reply, has_more }
}

fn session(state: State) -> (Session, Xid) {
    let mut session = Session::new(Time::ZERO, false);
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
        let requests = match session.receive(Time::ZERO, awaited, &answer) {
            SessionAction::Send(messages) => messages,
            SessionAction::Identified => session.begin_read_back(None),
            _ => Vec::new(),
        };
        requests.into_iter().for_each(|message| awaited = session.seal(message).xid);
    }
    assert_eq!(session.state, state);
    (session, awaited)
}

/// Returns the letter of a reaction: `.` nothing, `>` next request, `a` reply, `i` identified, `R`
/// ready, `l` alive, `d` demoted, `x` close, `p` pass on.
fn letter(reaction: &SessionAction) -> char {
    match reaction {
        SessionAction::Nothing => '.',
        SessionAction::Send(_) => '>',
        SessionAction::Answer(_) => 'a',
        SessionAction::Ready => 'R',
        SessionAction::Identified => 'i',
        SessionAction::Alive => 'l',
        SessionAction::Demoted => 'd',
        SessionAction::Close(..) => 'x',
        SessionAction::Pass => 'p',
    }
}

/// Returns messages of every kind, more than one where the reaction depends on the content, with
/// the expected reactions in the order hello, features, ports, groups, rules, ready.
fn reactions() -> Vec<(Message, &'static str)> {
    let of_kinds = [
        ("Hello", ">....."),
        ("Error", "xxx>xp"),
        ("EchoRequest", "xaaaaa"),
        ("EchoReply", "x....."),
        ("FeaturesRequest", "xaaaaa"),
        ("FeaturesReply", "xi...."),
        ("GetConfigRequest", "xaaaaa"),
        ("GetConfigReply", "x....."),
        ("SetConfig", "xaaaaa"),
        ("PacketIn", "x....p"),
        ("FlowRemoved", "x....p"),
        ("PortStatus", "x....p"),
        ("PacketOut", "xaaaaa"),
        ("FlowMod", "xaaaaa"),
        ("GroupMod", "xaaaaa"),
        ("PortMod", "xaaaaa"),
        ("TableMod", "xaaaaa"),
        ("MultipartRequest", "xaaaaa"),
        ("MultipartReply", "x....p"),
        ("BarrierRequest", "xaaaaa"),
        ("BarrierReply", "x....p"),
        ("RoleRequest", "xaaaaa"),
        ("RoleReply", "x....."),
        ("GetAsyncRequest", "xaaaaa"),
        ("GetAsyncReply", "x....."),
        ("SetAsync", "xaaaaa"),
        ("FlowMonitor", "x....."),
        ("Experimenter", "xaaaaa"),
    ];
    let messages = one_of_each();
    assert_eq!(messages.len(), of_kinds.len());
    let named = |(message, (name, letters))| {
        assert!(format!("{message:?}").starts_with(name), "{name}: {message:?}");
        (message, letters)
    };
    let more = [
        (Message::Hello { versions: 0b10 }, "x....."),
        (features(1), "xx...."),
        (reply(MultipartReply::PortDesc(vec![port(false)]), false), "x.>..p"),
        (reply(MultipartReply::PortDesc(vec![port(false)]), true), "x....p"),
        (reply(MultipartReply::Flow(Vec::new()), false), "x...Rp"),
        (reply(MultipartReply::GroupDesc(Vec::new()), false), "x..>.p"),
    ];
    messages.into_iter().zip(of_kinds).map(named).chain(more).collect()
}

/// The messages have the expected transaction number.
#[test]
fn every_message_is_decided_in_every_state() {
    for (message, letters) in reactions() {
        let reaction = |state: &State| {
            let (mut session, awaited) = session(*state);
            letter(&session.receive(Time::ZERO, awaited, &message))
        };
        assert_eq!(STATES.iter().map(reaction).collect::<String>(), letters, "{message:?}");
    }
}

#[test]
fn replies_to_other_requests_do_not_advance_the_handshake() {
    for state in &STATES[1..5] {
        for (message, _) in reactions() {
            let (mut session, awaited) = session(*state);
            session.receive(Time::ZERO, Xid(awaited.0 + 100), &message);
            assert_eq!(session.state, *state, "{message:?}");
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
    let removed = one_of_each().into_iter().find_map(|message| match message {
        Message::FlowRemoved(removed) => {
            let reason = openflow::RemovedReason::IdleTimeout;
            Some(FlowRemoved { reason, priority: 2, idle_timeout_s: 5, ..removed })
        }
        _ => None,
    });
    session.receive(Time::ZERO, Xid(0), &Message::FlowRemoved(removed.expect("one of each")));
    let ready = session.receive(Time::ZERO, awaited, &reply(MultipartReply::Flow(vec![rule(3)]), false));
    assert_eq!(ready, SessionAction::Ready);
    let kept: Vec<u16> = session.rules.iter().map(|rule| rule.priority).collect();
    assert_eq!(kept, [1, 3]);
}

#[test]
fn records_that_only_foreign_rules_can_be_are_left_out() {
    let (mut session, mut awaited) = session(State::Groups);
    let partial = |known| reply(MultipartReply::Partial { known: Box::new(known), opaque: vec![vec![1]] }, false);
    let groups = partial(MultipartReply::GroupDesc(Vec::new()));
    let SessionAction::Send(messages) = session.receive(Time::ZERO, awaited, &groups) else { panic!("rules follow") };
    assert_eq!(messages, [Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all()))]);
    awaited = session.seal(messages[0].clone()).xid;
    let rules = partial(MultipartReply::Flow(vec![FlowStats::default()]));
    assert_eq!(session.receive(Time::ZERO, awaited, &rules), SessionAction::Ready);
    assert_eq!((session.is_partial, session.rules.len()), (true, 1));
}

#[test]
fn switch_without_groups_is_read_on() {
    let (mut session, awaited) = session(State::Groups);
    let kind = ErrorKind::BadRequest(BadRequest::BadMultipart);
    let request = session.receive(Time::ZERO, awaited, &Message::Error { kind, data: Vec::new() });
    let rules = Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all()));
    assert_eq!((request, session.lacks_groups), (SessionAction::Send(vec![rules]), true));
}

#[test]
fn refusals_of_a_slave_are_reported_once() {
    let (mut session, _) = session(State::Ready);
    let refusal = Message::Error { kind: ErrorKind::BadRequest(BadRequest::IsSlave), data: Vec::new() };
    assert_eq!(session.receive(Time::ZERO, Xid(900), &refusal), SessionAction::Demoted);
    assert_eq!(session.receive(Time::ZERO, Xid(901), &refusal), SessionAction::Nothing);
    assert!(session.is_slave());
}

#[test]
fn manufacturer_is_requested_if_configured_and_optional() {
    for (asks, answer) in [(false, None), (true, None), (true, Some("Nicira, Inc."))] {
        let mut session = Session::new(Time::ZERO, asks);
        session.receive(Time::ZERO, Xid(0), &Message::Hello { versions: VERSION_1_3 });
        let request = session.seal(Message::FeaturesRequest).xid;
        assert_eq!(session.receive(Time::ZERO, request, &features(0)), SessionAction::Identified);
        let asked = session.begin_read_back(None);
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
