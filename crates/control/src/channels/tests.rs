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

/// Returns the letter of a reaction: `.` nothing, `>` next request, `a` reply, `R` ready, `x`
/// close, `p` pass on.
fn letter(reaction: &SessionAction) -> char {
    match reaction {
        SessionAction::Nothing => '.',
        SessionAction::Send(_) => '>',
        SessionAction::Answer(_) => 'a',
        SessionAction::Ready => 'R',
        SessionAction::Close(..) => 'x',
        SessionAction::Pass => 'p',
    }
}

/// Returns messages of every kind, more than one where the reaction depends on the content, with
/// the expected reactions in the order hello, features, ports, groups, rules, ready.
fn reactions() -> Vec<(Message, &'static str)> {
    let of_kinds = [
        ("Hello", ">....."),
        ("Error", "xxxxxp"),
        ("EchoRequest", "xaaaaa"),
        ("EchoReply", "x....."),
        ("FeaturesRequest", "xaaaaa"),
        ("FeaturesReply", "x>...."),
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
fn undecodable_foreign_rules_are_left_out() {
    let (mut session, mut awaited) = session(State::Groups);
    let unknown = |known| reply(MultipartReply::Partial { known: Box::new(known), opaque: vec![vec![1]] }, false);
    let asked = |reaction: SessionAction| match reaction {
        SessionAction::Send(messages) => messages[0].clone(),
        other => panic!("{other:?}"),
    };
    let all = asked(session.receive(Time::ZERO, awaited, &unknown(MultipartReply::GroupDesc(Vec::new()))));
    assert_eq!(all, Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all())));
    awaited = session.seal(all).xid;
    let own = asked(session.receive(Time::ZERO, awaited, &unknown(MultipartReply::Flow(Vec::new()))));
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
