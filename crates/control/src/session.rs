//! One connection to a switch: handshake, survey of what it holds, keep-alive.
//!
//! hello → features → ports → groups → rules → ready. The survey of groups and rules comes before anything is written,
//! so that what is right is left alone ([`crate::install`]). Groups come first: one that someone else makes between the
//! two answers is not taken for one that no rule uses. Everything is one `match (state, message)`, with every pair decided.

use std::collections::BTreeMap;

use net::Time;
use openflow::{
    BadRequest, Envelope, ErrorKind, Features, FlowSelection, FlowStats, GroupDescription, HelloFailed, Message,
    MultipartReply, MultipartRequest, PortDesc, PortNo, PortReason, SwitchConfig, Xid,
};

use crate::soft::Recent;
use crate::vip::Connecting;

/// Bitmap of versions with OpenFlow 1.3 alone.
const VERSION_1_3: u32 = 1 << 4;

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum State {
    /// Our hello is out, theirs has not come.
    Hello,
    /// Asked what it is.
    Features,
    /// Asked for its ports.
    Ports,
    /// Asked for its groups.
    Groups,
    /// Asked for its rules.
    Rules,
    /// In use.
    Ready,
}

/// What is to be done about a message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Reaction {
    /// Nothing.
    Nothing,
    /// Send these.
    Send(Vec<Message>),
    /// Answer under the number of the message.
    Answer(Message),
    /// The switch is ready: its ports, rules and groups are known.
    Ready,
    /// Close the connection, after sending this if anything.
    Close(Option<Message>),
    /// Not a matter of the session: counters, packets, errors, ports.
    Pass,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) state: State,
    pub(crate) features: Option<Features>,
    pub(crate) ports: BTreeMap<PortNo, PortDesc>,
    /// Rules found by the survey; taken when ready.
    pub(crate) rules: Vec<FlowStats>,
    /// Groups found by the survey; taken when ready.
    pub(crate) groups: Vec<GroupDescription>,
    /// Whether rules or groups of others are there that are not among those.
    pub(crate) is_partial: bool,
    /// Whether a part of the answer about rules could not be read.
    is_cut: bool,
    asks_for_ours: bool,
    owner: u16,
    /// Whether to ask who made the switch.
    asks_maker: bool,
    /// Who made it, if it was asked and has answered.
    pub(crate) manufacturer: Option<String>,
    /// Round trip of the latest echo.
    pub(crate) rtt: Option<Time>,
    /// Counting rules sent of late.
    pub(crate) recent: Recent,
    /// Rules of connections to virtual addresses under way.
    pub(crate) connecting: Connecting,
    next_xid: u32,
    /// Number of the request the state waits for an answer to.
    awaited: Xid,
    echo: Option<(Time, u64)>,
    echo_count: u64,
    next_echo: Time,
    last_heard: Time,
}

impl Session {
    /// A connection just opened.
    pub(crate) fn new(now: Time, owner: u16, asks_maker: bool) -> Session {
        Session {
            owner,
            asks_maker,
            manufacturer: None,
            is_partial: false,
            is_cut: false,
            asks_for_ours: false,
            state: State::Hello,
            features: None,
            ports: BTreeMap::new(),
            rules: Vec::new(),
            groups: Vec::new(),
            rtt: None,
            recent: Recent::default(),
            connecting: Connecting::default(),
            next_xid: 1,
            awaited: Xid(0),
            echo: None,
            echo_count: 0,
            next_echo: Time::MAX,
            last_heard: now,
        }
    }

    /// What opens the conversation.
    pub(crate) fn hello() -> Message {
        Message::Hello { versions: VERSION_1_3 }
    }

    /// Numbers a message. Unique until 2³² messages have been sent on the connection.
    pub(crate) fn seal(&mut self, message: Message) -> Envelope {
        let xid = Xid(self.next_xid);
        self.next_xid = self.next_xid.wrapping_add(1);
        if matches!(message, Message::FeaturesRequest | Message::MultipartRequest(_)) && self.state != State::Ready {
            self.awaited = xid;
        }
        Envelope { xid, message }
    }

    /// Whether the far side has been silent for too long.
    pub(crate) fn is_silent(&self, now: Time, echo_timeout: Time) -> bool {
        now >= self.last_heard.saturating_add(echo_timeout)
    }

    /// When something is due: the next echo, or the end of patience.
    pub(crate) fn poll_timeout(&self, echo_timeout: Time) -> Time {
        self.next_echo.min(self.last_heard.saturating_add(echo_timeout))
    }

    /// An echo request, if one is due.
    pub(crate) fn echo_due(&mut self, now: Time, interval: Time) -> Option<Message> {
        if self.state != State::Ready || now < self.next_echo {
            return None;
        }
        self.next_echo = now.saturating_add(interval);
        if self.echo.is_some() {
            return None; // One at a time: the round trip is measured from the oldest.
        }
        self.echo_count += 1;
        self.echo = Some((now, self.echo_count));
        Some(Message::EchoRequest(self.echo_count.to_be_bytes().to_vec()))
    }

    /// A message came.
    pub(crate) fn receive(&mut self, now: Time, xid: Xid, message: &Message) -> Reaction {
        use MultipartReply as Reply;
        use Reaction::{Answer, Close, Nothing, Pass, Send};
        self.last_heard = now;
        match (self.state, message) {
            (State::Hello, Message::Hello { versions }) if versions & VERSION_1_3 != 0 => {
                self.state = State::Features;
                Send(vec![Message::FeaturesRequest])
            }
            (State::Hello, Message::Hello { .. }) => Close(Some(incompatible())),
            // Whatever else comes first comes from something that does not speak OpenFlow as we know it.
            (State::Hello, _) => Close(None),
            (_, Message::Hello { .. }) => Nothing,

            (_, Message::EchoRequest(data)) => Answer(Message::EchoReply(data.clone())),
            (_, Message::EchoReply(data)) => {
                self.echo_reply(now, data);
                Nothing
            }

            (State::Features, Message::FeaturesReply(features)) if xid == self.awaited => {
                self.features = Some(*features);
                if features.auxiliary != 0 {
                    return Close(None); // Auxiliary connections carry nothing we need.
                }
                self.state = State::Ports;
                let config = SwitchConfig { flags: 0, miss_send_len: openflow::Action::WHOLE_PACKET };
                let maker = self.asks_maker.then_some(Message::MultipartRequest(MultipartRequest::Desc));
                let ports = Message::MultipartRequest(MultipartRequest::PortDesc);
                Send([Some(Message::SetConfig(config)), maker, Some(ports)].into_iter().flatten().collect())
            }
            // Answered before the ports are; a switch that refuses to say is asked nothing more.
            (State::Ports, Message::MultipartReply { reply: Reply::Desc(description), .. }) if self.asks_maker => {
                self.manufacturer = Some(description.manufacturer.clone());
                Nothing
            }
            (State::Ports, Message::MultipartReply { reply: Reply::PortDesc(ports), has_more })
                if xid == self.awaited =>
            {
                self.ports.extend(ports.iter().map(|port| (port.port, port.clone())));
                if *has_more {
                    return Nothing;
                }
                self.state = State::Groups;
                Send(vec![Message::MultipartRequest(MultipartRequest::GroupDesc)])
            }
            (State::Groups, Message::MultipartReply { reply: Reply::GroupDesc(groups), has_more })
                if xid == self.awaited =>
            {
                self.groups.extend(groups.iter().cloned());
                if *has_more {
                    return Nothing;
                }
                self.state = State::Rules;
                Send(vec![Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all()))])
            }
            // Somebody has rules or groups there that these values cannot hold, and that part of the answer is of no use. Our
            // rules can be asked for by their cookies; groups cannot: those there are somebody else's then.
            (State::Groups, Message::MultipartReply { reply: Reply::Other { .. }, has_more })
                if xid == self.awaited =>
            {
                self.is_partial = true;
                if *has_more {
                    return Nothing;
                }
                self.groups.clear();
                self.state = State::Rules;
                Send(vec![Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all()))])
            }
            (State::Rules, Message::MultipartReply { reply: Reply::Other { .. }, has_more }) if xid == self.awaited => {
                self.is_cut = true;
                if *has_more { Nothing } else { self.ask_for_ours() }
            }
            (State::Rules, Message::MultipartReply { reply: Reply::Flow(rules), has_more }) if xid == self.awaited => {
                self.rules.extend(rules.iter().cloned());
                if *has_more {
                    return Nothing;
                }
                if self.is_cut {
                    return self.ask_for_ours();
                }
                self.state = State::Ready;
                self.next_echo = now;
                Reaction::Ready
            }
            // A switch that cannot answer the survey cannot be worked with; the configuration it may refuse.
            (State::Features | State::Ports | State::Rules | State::Groups, Message::Error { .. })
                if xid == self.awaited =>
            {
                Close(None)
            }
            (State::Features | State::Ports | State::Rules | State::Groups, Message::Error { .. }) => Nothing,
            (State::Ports | State::Rules | State::Groups, Message::PortStatus { reason, port }) => {
                self.port_changed(*reason, port);
                Nothing
            }

            // Between parts of the answer a rule may go that an earlier part has named.
            (State::Rules, Message::FlowRemoved(gone)) => {
                let is_gone = |rule: &FlowStats| {
                    (rule.table, rule.priority, rule.match_) == (gone.table, gone.priority, gone.match_)
                };
                self.rules.retain(|rule| !is_gone(rule));
                Nothing
            }

            (State::Ready, Message::PortStatus { reason, port }) => {
                self.port_changed(*reason, port);
                Pass
            }
            (
                State::Ready,
                Message::Error { .. }
                | Message::PacketIn(_)
                | Message::FlowRemoved(_)
                | Message::MultipartReply { .. }
                | Message::BarrierReply,
            ) => Pass,

            // Packets and news before the survey is over are found by it, or come again; late or repeated answers
            // tell nothing.
            (
                _,
                Message::PacketIn(_)
                | Message::FlowRemoved(_)
                | Message::PortStatus { .. }
                | Message::MultipartReply { .. }
                | Message::BarrierReply
                | Message::FeaturesReply(_)
                | Message::GetConfigReply(_)
                | Message::RoleReply(_)
                | Message::GetAsyncReply(_),
            ) => Nothing,
            // Requests only a controller makes, and other specifications' messages.
            (
                _,
                Message::FeaturesRequest
                | Message::GetConfigRequest
                | Message::SetConfig(_)
                | Message::PacketOut(_)
                | Message::FlowMod(_)
                | Message::GroupMod(_)
                | Message::PortMod(_)
                | Message::TableMod { .. }
                | Message::MultipartRequest(_)
                | Message::BarrierRequest
                | Message::RoleRequest(_)
                | Message::GetAsyncRequest
                | Message::SetAsync(_)
                | Message::Experimenter { .. },
            ) => Answer(bad_type()),
        }
    }

    /// Part of the answer about rules could not be read: those of others are left out.
    fn ask_for_ours(&mut self) -> Reaction {
        if self.asks_for_ours {
            return Reaction::Close(None); // Ours can always be read: this switch tells something else.
        }
        (self.asks_for_ours, self.is_partial, self.is_cut) = (true, true, false);
        self.rules.clear();
        let (cookie, cookie_mask) = (u64::from(self.owner) << 48, 0xffff << 48);
        let ours = FlowSelection { cookie, cookie_mask, ..FlowSelection::all() };
        Reaction::Send(vec![Message::MultipartRequest(MultipartRequest::Flow(ours))])
    }

    fn port_changed(&mut self, reason: PortReason, port: &PortDesc) {
        match reason {
            PortReason::Delete => drop(self.ports.remove(&port.port)),
            PortReason::Add | PortReason::Modify => drop(self.ports.insert(port.port, port.clone())),
        }
    }

    fn echo_reply(&mut self, now: Time, data: &[u8]) {
        if let Some((sent, number)) = self.echo
            && data == number.to_be_bytes()
        {
            self.rtt = Some(now.saturating_sub(sent));
            self.echo = None;
        }
    }
}

fn incompatible() -> Message {
    let kind = ErrorKind::HelloFailed(HelloFailed::Incompatible);
    Message::Error { kind, data: b"this controller speaks OpenFlow 1.3 (bit 4 of the bitmap) only".to_vec() }
}

fn bad_type() -> Message {
    Message::Error { kind: ErrorKind::BadRequest(BadRequest::BadType), data: Vec::new() }
}

#[cfg(test)]
mod tests {
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

    /// A session in a state, and the number of the request it waits on.
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
            if let Reaction::Send(messages) = session.receive(Time::ZERO, awaited, &answer) {
                messages.into_iter().for_each(|message| awaited = session.seal(message).xid);
            }
        }
        assert_eq!(session.state, state);
        (session, awaited)
    }

    /// One message of every kind, and twice where answers matter.
    fn kinds() -> Vec<(&'static str, Message)> {
        let kind = ErrorKind::BadRequest(BadRequest::BadType);
        let role = Role { role: openflow::ControllerRole::Master, generation: 0 };
        let config = SwitchConfig { flags: 0, miss_send_len: 0 };
        let asynchronous = AsyncConfig { packet_in: [0; 2], port_status: [0; 2], flow_removed: [0; 2] };
        let (table, match_) = (TableId(0), Match::default());
        let actions = Vec::new();
        vec![
            ("hello", Message::Hello { versions: VERSION_1_3 }),
            ("hello of others", Message::Hello { versions: 0b10 }),
            ("error", Message::Error { kind, data: Vec::new() }),
            ("echo request", Message::EchoRequest(vec![1])),
            ("echo reply", Message::EchoReply(vec![1])),
            ("features request", Message::FeaturesRequest),
            ("features", features(0)),
            ("features of an auxiliary", features(1)),
            ("get config", Message::GetConfigRequest),
            ("config", Message::GetConfigReply(config)),
            ("set config", Message::SetConfig(config)),
            (
                "packet in",
                Message::PacketIn(PacketIn {
                    buffer: BufferId::NO_BUFFER,
                    total_len: 0,
                    reason: openflow::PacketInReason::Action,
                    table,
                    cookie: 0,
                    match_,
                    data: Vec::new(),
                }),
            ),
            (
                "flow removed",
                Message::FlowRemoved(FlowRemoved {
                    cookie: 0,
                    priority: 0,
                    reason: openflow::RemovedReason::Delete,
                    table,
                    duration_ns: 0,
                    idle_timeout_s: 0,
                    hard_timeout_s: 0,
                    packets: 0,
                    bytes: 0,
                    match_,
                }),
            ),
            ("port status", Message::PortStatus { reason: PortReason::Modify, port: port(true) }),
            (
                "packet out",
                Message::PacketOut(PacketOut {
                    buffer: BufferId::NO_BUFFER,
                    in_port: PortNo::CONTROLLER,
                    actions,
                    data: Vec::new(),
                }),
            ),
            ("flow mod", Message::FlowMod(FlowMod::add(table, 0, match_, Instructions::default()))),
            (
                "group mod",
                Message::GroupMod(GroupMod {
                    command: openflow::GroupModCommand::Add,
                    kind: openflow::GroupKind::Select,
                    group: openflow::GroupId(1),
                    buckets: Vec::new(),
                }),
            ),
            (
                "port mod",
                Message::PortMod(PortMod {
                    port: PortNo(1),
                    hw_addr: openflow::MacAddr::default(),
                    config: 0,
                    mask: 0,
                    advertise: 0,
                }),
            ),
            ("table mod", Message::TableMod { table, config: 0 }),
            ("multipart request", Message::MultipartRequest(MultipartRequest::Table)),
            ("ports", reply(MultipartReply::PortDesc(vec![port(false)]), false)),
            ("some ports", reply(MultipartReply::PortDesc(vec![port(false)]), true)),
            ("rules", reply(MultipartReply::Flow(Vec::new()), false)),
            ("groups", reply(MultipartReply::GroupDesc(Vec::new()), false)),
            ("barrier request", Message::BarrierRequest),
            ("barrier", Message::BarrierReply),
            ("role request", Message::RoleRequest(role)),
            ("role", Message::RoleReply(role)),
            ("get async", Message::GetAsyncRequest),
            ("async", Message::GetAsyncReply(asynchronous)),
            ("set async", Message::SetAsync(asynchronous)),
            ("experimenter", Message::Experimenter { experimenter: 1, kind: 1, data: Vec::new() }),
        ]
    }

    /// What a reaction is, in one letter: `.` nothing, `>` goes on, `a` answers, `R` ready, `x` closes, `p` passes on.
    fn letter(reaction: &Reaction) -> char {
        match reaction {
            Reaction::Nothing => '.',
            Reaction::Send(_) => '>',
            Reaction::Answer(_) => 'a',
            Reaction::Ready => 'R',
            Reaction::Close(_) => 'x',
            Reaction::Pass => 'p',
        }
    }

    /// Every (state, message): in the order hello, features, ports, groups, rules, ready; the awaited number is right.
    #[test]
    fn every_message_is_decided_in_every_state() {
        let expected = [
            ("hello", ">....."),
            ("hello of others", "x....."),
            ("error", "xxxxxp"),
            ("echo request", "xaaaaa"),
            ("echo reply", "x....."),
            ("features request", "xaaaaa"),
            ("features", "x>...."),
            ("features of an auxiliary", "xx...."),
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
        for ((name, message), (expected_name, letters)) in kinds.iter().zip(expected) {
            assert_eq!(*name, expected_name);
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
    fn answers_to_other_questions_do_not_move_the_handshake() {
        for state in &STATES[1..5] {
            for (name, message) in kinds() {
                let (mut session, awaited) = session(*state);
                session.receive(Time::ZERO, Xid(awaited.0 + 100), &message);
                assert_eq!(session.state, *state, "{name}");
            }
        }
    }

    /// Storm 22346: a counting rule idled out during the survey, and was missed ever after.
    #[test]
    fn rules_that_go_while_they_are_listed_are_not_kept() {
        let (mut session, awaited) = session(State::Rules);
        let rule = |priority: u16| FlowStats {
            table: TableId(0),
            duration_ns: 0,
            priority,
            idle_timeout_s: 5,
            hard_timeout_s: 0,
            flags: openflow::FlowModFlags::default(),
            cookie: 0,
            packets: 0,
            bytes: 0,
            match_: Match::default(),
            instructions: Instructions::default(),
        };
        session.receive(Time::ZERO, awaited, &reply(MultipartReply::Flow(vec![rule(1), rule(2)]), true));
        let gone = FlowRemoved {
            cookie: 0,
            priority: 2,
            reason: openflow::RemovedReason::IdleTimeout,
            table: TableId(0),
            duration_ns: 0,
            idle_timeout_s: 5,
            hard_timeout_s: 0,
            packets: 0,
            bytes: 0,
            match_: Match::default(),
        };
        session.receive(Time::ZERO, Xid(0), &Message::FlowRemoved(gone));
        let ready = session.receive(Time::ZERO, awaited, &reply(MultipartReply::Flow(vec![rule(3)]), false));
        assert_eq!(ready, Reaction::Ready);
        let kept: Vec<u16> = session.rules.iter().map(|rule| rule.priority).collect();
        assert_eq!(kept, [1, 3]);
    }

    #[test]
    fn rules_of_others_that_cannot_be_read_are_left_out() {
        let (mut session, mut awaited) = session(State::Groups);
        let unknown = |kind| reply(MultipartReply::Other { kind, body: vec![1] }, false);
        let asked = |reaction: Reaction| match reaction {
            Reaction::Send(messages) => messages[0].clone(),
            other => panic!("{other:?}"),
        };
        let all = asked(session.receive(Time::ZERO, awaited, &unknown(7)));
        assert_eq!(all, Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all())));
        awaited = session.seal(all).xid;
        let ours = asked(session.receive(Time::ZERO, awaited, &unknown(1)));
        let Message::MultipartRequest(MultipartRequest::Flow(selection)) = &ours else { panic!("{ours:?}") };
        assert_eq!((selection.cookie, selection.cookie_mask), (7 << 48, 0xffff << 48));
        awaited = session.seal(ours).xid;
        let ready = session.receive(Time::ZERO, awaited, &reply(MultipartReply::Flow(Vec::new()), false));
        assert_eq!((ready, session.is_partial), (Reaction::Ready, true));
    }

    #[test]
    fn the_maker_is_asked_for_where_it_matters_and_need_not_answer() {
        for (asks, answer) in [(false, None), (true, None), (true, Some("Nicira, Inc."))] {
            let mut session = Session::new(Time::ZERO, 7, asks);
            session.receive(Time::ZERO, Xid(0), &Message::Hello { versions: VERSION_1_3 });
            let request = session.seal(Message::FeaturesRequest).xid;
            let Reaction::Send(asked) = session.receive(Time::ZERO, request, &features(0)) else { panic!("{asks}") };
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
                assert_eq!(session.receive(Time::ZERO, sent[1], &message), Reaction::Nothing);
            }
            session.receive(Time::ZERO, *sent.last().unwrap(), &reply(MultipartReply::PortDesc(Vec::new()), false));
            assert_eq!((session.state, session.manufacturer.as_deref()), (State::Groups, answer));
        }
    }

    #[test]
    fn the_round_trip_is_measured_and_silence_noticed() {
        let (mut session, _) = session(State::Ready);
        let ms = Time::from_ms;
        let Some(Message::EchoRequest(data)) = session.echo_due(ms(5), ms(1000)) else { panic!("no echo") };
        assert_eq!(session.echo_due(ms(5), ms(1000)), None);
        session.receive(ms(6), Xid(0), &Message::EchoReply(vec![9; 8]));
        assert_eq!(session.rtt, None, "an answer to something else");
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
}
