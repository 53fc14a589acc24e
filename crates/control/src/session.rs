//! One connection to a switch: handshake, survey of what it holds, keep-alive.
//!
//! hello → features → ports → rules → groups → ready. The survey of rules and groups comes before anything is written,
//! so that what is right is left alone ([`crate::install`]). Everything is one `match (state, message)`, with every pair
//! decided.

use std::collections::BTreeMap;

use net::Time;
use openflow::{
    BadRequest, Envelope, ErrorKind, Features, FlowSelection, FlowStats, GroupDescription, HelloFailed, Message,
    MultipartReply, MultipartRequest, PortDesc, PortNo, PortReason, SwitchConfig, Xid,
};

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
    /// Asked for its rules.
    Rules,
    /// Asked for its groups.
    Groups,
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
    /// Round trip of the latest echo.
    pub(crate) rtt: Option<Time>,
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
    pub(crate) fn new(now: Time) -> Session {
        Session {
            state: State::Hello,
            features: None,
            ports: BTreeMap::new(),
            rules: Vec::new(),
            groups: Vec::new(),
            rtt: None,
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
                Send(vec![Message::SetConfig(config), Message::MultipartRequest(MultipartRequest::PortDesc)])
            }
            (State::Ports, Message::MultipartReply { reply: Reply::PortDesc(ports), has_more })
                if xid == self.awaited =>
            {
                self.ports.extend(ports.iter().map(|port| (port.port, port.clone())));
                if *has_more {
                    return Nothing;
                }
                self.state = State::Rules;
                Send(vec![Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all()))])
            }
            (State::Rules, Message::MultipartReply { reply: Reply::Flow(rules), has_more }) if xid == self.awaited => {
                self.rules.extend(rules.iter().cloned());
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
