//! Connections: handshake, roles, asynchronous messages.

use crate::common::{Bench, C, config, tcp, to};
use anabranch_switch::{Output, Switch};
use net::Time;
use openflow::frame::build;
use openflow::testing::one_of_each;
use openflow::*;

const OTHER: ConnectionId = ConnectionId(2);

fn role(role: ControllerRole, generation: u64) -> Message {
    Message::RoleRequest(Role { role, generation })
}

fn error(kind: ErrorKind) -> Message {
    Message::Error { kind, data: Vec::new() }
}

/// The expected effect of a message. The match fails to compile when a kind is added.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Silence,
    Answer,
    Refusal(BadRequest),
}

fn fate(message: &Message, role: ControllerRole) -> Fate {
    use Fate::*;
    let unless_slave = if role == ControllerRole::Slave { Refusal(BadRequest::IsSlave) } else { Silence };
    match message {
        Message::Hello { .. } | Message::Error { .. } | Message::EchoReply(_) => Silence,
        Message::SetConfig(_) | Message::SetAsync(_) => Silence,
        Message::EchoRequest(_)
        | Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::MultipartRequest(_)
        | Message::BarrierRequest
        | Message::RoleRequest(_)
        | Message::GetAsyncRequest => Answer,
        Message::PacketOut(_)
        | Message::FlowMod(_)
        | Message::GroupMod(_)
        | Message::PortMod(_)
        | Message::TableMod { .. } => unless_slave,
        Message::FlowMonitor(_) | Message::Experimenter { .. } => Refusal(BadRequest::BadExperimenter),
        Message::FeaturesReply(_)
        | Message::GetConfigReply(_)
        | Message::PacketIn(_)
        | Message::FlowRemoved(_)
        | Message::PortStatus { .. }
        | Message::MultipartReply { .. }
        | Message::BarrierReply
        | Message::RoleReply(_)
        | Message::GetAsyncReply(_) => Refusal(BadRequest::BadType),
    }
}

#[test]
fn every_kind_of_message_from_every_role_has_its_fate() {
    for of_role in [ControllerRole::Equal, ControllerRole::Master, ControllerRole::Slave] {
        for message in one_of_each() {
            let mut bench = Bench::new(config());
            bench.ask(role(of_role, 1));
            let answers = bench.ask(message.clone());
            let seen = match &answers[..] {
                [] => Fate::Silence,
                [Message::Error { kind: ErrorKind::BadRequest(why), .. }] => Fate::Refusal(*why),
                [Message::Error { kind, .. }] => panic!("{message:?} of {of_role:?}: {kind:?}"),
                [_] => Fate::Answer,
                _ => panic!("{message:?} of {of_role:?}: {answers:?}"),
            };
            assert_eq!(seen, fate(&message, of_role), "{message:?} of {of_role:?}");
        }
    }
}

#[test]
fn before_the_hello_nothing_is_done() {
    for message in one_of_each() {
        let mut switch = Switch::new(config());
        switch.connected(Time::ZERO, C);
        assert!(matches!(switch.poll_output(), Some(Output::Message(C, _))), "its hello");
        switch.handle(Time::ZERO, C, Envelope { xid: Xid(5), message: message.clone() });
        let expected = match message {
            Message::Hello { .. } | Message::Error { .. } => None,
            _ => {
                let message = error(ErrorKind::BadRequest(BadRequest::BadVersion));
                Some(Output::Message(C, Envelope { xid: Xid(5), message }))
            }
        };
        assert_eq!(switch.poll_output(), expected);
        assert_eq!(switch.tally().entries, 0);
        switch.handle(Time::ZERO, OTHER, Envelope { xid: Xid(6), message: Message::BarrierRequest });
        assert_eq!(switch.poll_output(), None, "the connection is unknown");
    }
}

#[test]
fn without_a_common_version_the_connection_is_over() {
    for (versions, is_open) in [(1 << 4, true), (1 << 4 | 1 << 5, true), (1 << 1, false), (1 << 5, false), (0, false)] {
        let mut bench = Bench::unopened(Switch::new(config()));
        bench.switch.connected(Time::ZERO, C);
        bench.drain();
        let answers = bench.ask(Message::Hello { versions });
        let failed = ErrorKind::HelloFailed(HelloFailed::Incompatible);
        let is_refused = matches!(&answers[..], [Message::Error { kind, .. }] if *kind == failed);
        assert_eq!(is_refused, !is_open, "{answers:?}");
        assert_eq!(bench.ask(Message::BarrierRequest).len(), usize::from(is_open));
    }
}

#[test]
fn a_new_master_makes_the_old_one_a_slave_and_old_claims_are_stale() {
    let mut bench = Bench::new(config());
    bench.open(OTHER);
    let asked = |bench: &mut Bench, by| bench.ask_as(by, role(ControllerRole::NoChange, 0));
    let is = |role, generation| vec![Message::RoleReply(Role { role, generation })];
    assert_eq!(asked(&mut bench, C), is(ControllerRole::Equal, u64::MAX), "no generation yet");
    assert_eq!(bench.ask(role(ControllerRole::Master, 5)), is(ControllerRole::Master, 5));
    let stale = error(ErrorKind::RoleRequestFailed(RoleRequestFailed::Stale));
    assert_eq!(bench.ask_as(OTHER, role(ControllerRole::Master, 4)), std::slice::from_ref(&stale));
    assert_eq!(asked(&mut bench, C), is(ControllerRole::Master, 5));
    assert_eq!(bench.ask_as(OTHER, role(ControllerRole::Master, 6)), is(ControllerRole::Master, 6));
    assert_eq!(asked(&mut bench, C), is(ControllerRole::Slave, 6));
    assert_eq!(bench.ask(role(ControllerRole::Slave, 5)), [stale], "a slave's claim too");
    assert_eq!(bench.ask(role(ControllerRole::Equal, 0)), is(ControllerRole::Equal, 6), "equals make no claim");
    // Half of all generations are ahead, because they wrap around.
    assert_eq!(bench.ask(role(ControllerRole::Slave, 6 + (1 << 62))).len(), 1);
    assert_eq!(bench.ask(role(ControllerRole::Slave, 6 + (1 << 63))), is(ControllerRole::Slave, 6 + (1 << 63)));
}

#[test]
fn news_go_to_those_who_want_them() {
    let mut bench = Bench::new(config());
    bench.open(OTHER);
    bench.ask_as(OTHER, role(ControllerRole::Slave, 1));
    bench.add(0, 0, Match::default(), Instructions::apply(vec![Action::to_controller()]));
    let flags = FlowModFlags { send_flow_removed: true, ..FlowModFlags::default() };
    let watched = FlowMod { flags, ..FlowMod::add(TableId(0), 3, to(3), Instructions::default()) };
    let news = |bench: &mut Bench| {
        bench.switch.receive(bench.now, PortNo(1), &build(&tcp(1, 2, 9), 0));
        bench.switch.set_port_live(bench.now, PortNo(4), false);
        bench.switch.set_port_live(bench.now, PortNo(4), true);
        for message in [watched.clone(), FlowMod::delete_strict(TableId(0), 3, to(3))] {
            bench.handle(C, Xid(9), Message::FlowMod(message));
        }
        let messages = bench.messages();
        let count = |of, is: fn(&Message) -> bool| messages.iter().filter(|(to, m)| *to == of && is(m)).count();
        [C, OTHER].map(|of| {
            let packet_ins = count(of, |m| matches!(m, Message::PacketIn(_)));
            let ports = count(of, |m| matches!(m, Message::PortStatus { .. }));
            (packet_ins, ports, count(of, |m| matches!(m, Message::FlowRemoved(_))))
        })
    };
    assert_eq!(news(&mut bench), [(1, 2, 1), (0, 2, 0)]);
    let everything = AsyncConfig { packet_in: [3, 3], port_status: [0, 0], flow_removed: [0, 15] };
    bench.ask(Message::SetAsync(everything));
    bench.ask_as(OTHER, Message::SetAsync(everything));
    assert_eq!(bench.ask(Message::GetAsyncRequest), [Message::GetAsyncReply(everything)]);
    assert_eq!(news(&mut bench), [(1, 0, 0), (1, 0, 1)]);
    bench.switch.disconnected(bench.now, OTHER);
    assert_eq!(news(&mut bench), [(1, 0, 0), (0, 0, 0)]);
    assert_eq!(bench.switch.tally().entries, 1, "entries stay");
}
