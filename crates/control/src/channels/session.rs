//! One connection to a switch: handshake, table read-back, keep-alive.
//!
//! hello → features → ports → groups → rules → ready. Groups and rules are read before anything is
//! written, so that correct ones are left alone ([`crate::updater::store`]). Groups are read first: a
//! group that another controller makes between the two replies is then not mistaken for an unused
//! one. The whole session is one `match (state, message)` that decides every pair.

use std::collections::BTreeMap;

use net::Time;
use openflow::{
    BadRequest, Envelope, ErrorKind, Features, FlowSelection, FlowStats, GroupDescription, HelloFailed, Message,
    MultipartReply, MultipartRequest, PortDesc, PortNo, PortReason, SwitchConfig, Xid,
};

use super::close_reason::CloseReason;
use super::role::RoleElection;
use super::sent::{PendingInstalls, RecentXids};

/// Version bitmap with OpenFlow 1.3 alone.
const VERSION_1_3: u32 = 1 << 4;

/// Maximum number of ports per switch that port-status messages may add.
const PORTS_MAX: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum State {
    /// Hello sent, not received yet.
    #[default]
    Hello,
    Features,
    Ports,
    Groups,
    Rules,
    Ready,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SessionAction {
    Nothing,
    Send(Vec<Message>),
    Answer(Message),
    /// The datapath id is known; the connection waits for [`Session::begin_read_back`].
    Identified,
    /// The switch has answered a challenge.
    Alive,
    /// The switch has another master, which has the same owner or another one.
    Demoted,
    /// The switch is ready: its ports, rules and groups are known.
    Ready,
    /// Close the connection, after sending this message, if any.
    Close(CloseReason, Option<Message>),
    /// Not a session matter: counters, packets, errors, ports.
    Pass,
}

#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) state: State,
    pub(crate) features: Option<Features>,
    pub(crate) ports: BTreeMap<PortNo, PortDesc>,
    /// Rules of the table read-back; taken when the switch is ready.
    pub(crate) rules: Vec<FlowStats>,
    /// Groups of the table read-back; taken when the switch is ready.
    pub(crate) groups: Vec<GroupDescription>,
    /// Whether foreign rules or groups are missing from the read-back.
    pub(crate) is_partial: bool,
    /// Whether the switch has rejected the request for groups: it has none.
    pub(crate) lacks_groups: bool,
    /// The election of this controller as master; `None` if it requests no role.
    pub(crate) election: Option<RoleElection>,
    /// Estimated memory of the table read-back so far, bytes: ports, groups and rules kept until
    /// the switch is ready. Zero before and after.
    pub(crate) read_back_bytes: usize,
    requests_manufacturer: bool,
    /// Manufacturer, if it was requested and the switch has replied.
    pub(crate) manufacturer: Option<String>,
    /// Round trip of the latest echo.
    pub(crate) rtt: Option<Time>,
    /// Transaction numbers of recent counting rules.
    pub(crate) recent: RecentXids,
    /// Unconfirmed rules of connections to virtual services.
    pub(crate) connecting: PendingInstalls,
    next_xid: u32,
    /// Transaction number of the request whose reply the state waits for.
    awaited: Xid,
    echo: Option<(Time, u64)>,
    /// Number of the challenge that the switch has not answered.
    challenge: Option<u64>,
    echo_count: u64,
    next_echo: Time,
    last_heard: Time,
}

impl Session {
    pub(crate) fn new(now: Time, requests_manufacturer: bool) -> Session {
        let (next_xid, next_echo, last_heard) = (1, Time::MAX, now);
        Session { requests_manufacturer, next_xid, next_echo, last_heard, ..Session::default() }
    }

    pub(crate) fn hello() -> Message {
        Message::Hello { versions: VERSION_1_3 }
    }

    /// Assigns a transaction number to a message. It is unique for the first 2³² messages of a
    /// connection.
    pub(crate) fn seal(&mut self, message: Message) -> Envelope {
        let xid = Xid(self.next_xid);
        self.next_xid = self.next_xid.wrapping_add(1);
        if let (Message::RoleRequest(_), Some(election)) = (&message, &mut self.election) {
            election.requested(xid);
        }
        if matches!(message, Message::FeaturesRequest | Message::MultipartRequest(_)) && self.state != State::Ready {
            self.awaited = xid;
        }
        Envelope { xid, message }
    }

    #[cfg(test)]
    pub(crate) fn next_xid(&self) -> u32 {
        self.next_xid
    }

    pub(crate) fn is_silent(&self, now: Time, echo_timeout: Time) -> bool {
        now >= self.last_heard.saturating_add(echo_timeout)
    }

    /// Returns when the next echo is due or the echo timeout expires.
    pub(crate) fn poll_timeout(&self, echo_timeout: Time) -> Time {
        self.next_echo.min(self.last_heard.saturating_add(echo_timeout))
    }

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

    pub(crate) fn receive(&mut self, now: Time, xid: Xid, message: &Message) -> SessionAction {
        use SessionAction::{Alive, Answer, Close, Demoted, Nothing, Pass, Send};
        self.last_heard = now;
        let is_awaited = xid == self.awaited;
        if self.state == State::Hello {
            return self.receive_first(message);
        }
        match (self.state, message) {
            (_, Message::EchoRequest(data)) => Answer(Message::EchoReply(data.clone())),
            (_, Message::EchoReply(data)) if self.echo_reply(now, data) => Alive,
            (State::Features, Message::FeaturesReply(features)) if is_awaited && self.features.is_none() => {
                self.features_received(features)
            }
            (_, Message::RoleReply(role)) => match self.election.as_mut().and_then(|own| own.replied(xid, *role)) {
                Some(request) => Send(vec![request]),
                None => Nothing,
            },
            (_, Message::Error { kind, .. }) if self.is_role_rejected(xid, *kind) => self.role_rejected(xid, *kind),
            // Every message sent before the controller noticed is refused.
            (State::Ready, Message::Error { kind: ErrorKind::BadRequest(BadRequest::IsSlave), .. }) => {
                if self.demoted() { Demoted } else { Nothing }
            }
            // A switch without groups may reject the request for them.
            (State::Groups, Message::Error { .. }) if is_awaited => {
                (self.state, self.lacks_groups) = (State::Rules, true);
                Send(vec![Message::MultipartRequest(MultipartRequest::Flow(FlowSelection::all()))])
            }
            (State::Ports | State::Groups | State::Rules, Message::MultipartReply { reply, has_more }) => {
                if is_awaited {
                    self.read_back_bytes += memory_of(reply) + openflow::wire_len(message);
                }
                self.read_back(now, is_awaited, reply, *has_more)
            }
            (State::Ports | State::Groups | State::Rules | State::Ready, Message::PortStatus { reason, port }) => {
                self.port_changed(*reason, port);
                if self.state == State::Ready { Pass } else { Nothing }
            }
            // Its match says more than `Match` can: it was a foreign rule.
            (_, Message::FlowRemoved(gone)) if !gone.other_fields.is_empty() => Nothing,
            // Between parts of the reply a rule may go that an earlier part has listed.
            (State::Rules, Message::FlowRemoved(gone)) => {
                let is_gone = |rule: &FlowStats| {
                    (rule.table, rule.priority, rule.match_) == (gone.table, gone.priority, gone.match_)
                };
                self.rules.retain(|rule| !is_gone(rule));
                Nothing
            }
            (
                State::Ready,
                Message::Error { .. }
                | Message::PacketIn(_)
                | Message::FlowRemoved(_)
                | Message::MultipartReply { .. }
                | Message::BarrierReply,
            ) => Pass,
            // A switch that rejects the table read-back cannot be used; it may reject the
            // configuration.
            (state, Message::Error { kind, .. }) if is_awaited => Close(CloseReason::rejected(state, *kind), None),

            // Before the read-back ends, packets and notifications are ignored: the read-back shows
            // their effect, or they are repeated. Late and repeated replies have no new content.
            (
                _,
                Message::Hello { .. }
                | Message::Error { .. }
                | Message::PacketIn(_)
                | Message::FlowRemoved(_)
                | Message::PortStatus { .. }
                | Message::MultipartReply { .. }
                | Message::BarrierReply
                | Message::EchoReply(_)
                | Message::FeaturesReply(_)
                | Message::GetConfigReply(_)
                | Message::GetAsyncReply(_)
                | Message::FlowMonitor(_),
            ) => Nothing,
            // Requests that only a controller sends, and messages of other specifications.
            _ => Answer(bad_type()),
        }
    }

    /// Handles the first message, which is the hello of an OpenFlow 1.3 switch.
    fn receive_first(&mut self, message: &Message) -> SessionAction {
        match message {
            Message::Hello { versions } if versions & VERSION_1_3 != 0 => {
                self.state = State::Features;
                SessionAction::Send(vec![Message::FeaturesRequest])
            }
            Message::Hello { versions } => {
                SessionAction::Close(CloseReason::Version { versions: *versions }, Some(incompatible()))
            }
            _ => SessionAction::Close(CloseReason::NotHello, None),
        }
    }

    fn features_received(&mut self, features: &Features) -> SessionAction {
        self.features = Some(*features);
        if features.auxiliary != 0 {
            // The controller does not need auxiliary connections.
            return SessionAction::Close(CloseReason::Auxiliary { id: features.auxiliary }, None);
        }
        SessionAction::Identified
    }

    /// Begins the table read-back of an identified switch. Returns the first requests.
    pub(crate) fn begin_read_back(&mut self, election: Option<RoleElection>) -> Vec<Message> {
        (self.state, self.election) = (State::Ports, election);
        let config = SwitchConfig { flags: 0, miss_send_len: openflow::Action::WHOLE_PACKET };
        let role = election.map(|election| election.request());
        let maker = self.requests_manufacturer.then_some(Message::MultipartRequest(MultipartRequest::Desc));
        let ports = Message::MultipartRequest(MultipartRequest::PortDesc);
        [Some(Message::SetConfig(config)), role, maker, Some(ports)].into_iter().flatten().collect()
    }

    fn is_role_rejected(&self, xid: Xid, error: ErrorKind) -> bool {
        self.election.is_some_and(|mut election| election.rejected(xid, error).is_ok())
    }
    fn role_rejected(&mut self, xid: Xid, error: ErrorKind) -> SessionAction {
        let Some(election) = &mut self.election else { return SessionAction::Nothing };
        match election.rejected(xid, error) {
            Ok(Some(request)) => SessionAction::Send(vec![request]),
            _ if election.is_slave() && self.state == State::Ready => SessionAction::Demoted,
            _ => SessionAction::Nothing,
        }
    }
    /// Records that the switch has another master. Returns whether this is new.
    fn demoted(&mut self) -> bool {
        let was_slave = self.is_slave();
        self.election.get_or_insert(RoleElection::again(0, true)).demoted();
        !was_slave
    }
    pub(crate) fn is_slave(&self) -> bool {
        self.election.is_some_and(|election| election.is_slave())
    }

    /// Handles a statistics reply before the switch is ready. Only the awaited reply advances the
    /// table read-back.
    fn read_back(&mut self, now: Time, is_awaited: bool, reply: &MultipartReply, has_more: bool) -> SessionAction {
        use MultipartReply as Reply;
        match (self.state, reply) {
            // Received before the ports; a switch that rejects the request is not asked again.
            (State::Ports, Reply::Desc(description)) if self.requests_manufacturer => {
                self.manufacturer = Some(description.manufacturer.clone());
                return SessionAction::Nothing;
            }
            _ if !is_awaited => return SessionAction::Nothing,
            (State::Ports, Reply::PortDesc(ports)) => {
                self.ports.extend(ports.iter().map(|port| (port.port, port.clone())));
            }
            (State::Groups, Reply::GroupDesc(groups)) => self.groups.extend(groups.iter().cloned()),
            (State::Rules, Reply::Flow(rules)) => self.rules.extend(rules.iter().cloned()),
            // Records that only foreign rules and groups can be.
            (State::Groups | State::Rules, Reply::Partial { known, .. }) => {
                self.is_partial = true;
                match &**known {
                    Reply::GroupDesc(groups) => self.groups.extend(groups.iter().cloned()),
                    Reply::Flow(rules) => self.rules.extend(rules.iter().cloned()),
                    _ => {}
                }
            }
            _ => return SessionAction::Nothing,
        }
        if has_more {
            return SessionAction::Nothing;
        }
        let (next, request) = match self.state {
            State::Ports => (State::Groups, MultipartRequest::GroupDesc),
            State::Groups => (State::Rules, MultipartRequest::Flow(FlowSelection::all())),
            _ => {
                (self.state, self.next_echo, self.read_back_bytes) = (State::Ready, now, 0);
                return SessionAction::Ready;
            }
        };
        self.state = next;
        SessionAction::Send(vec![Message::MultipartRequest(request)])
    }

    fn port_changed(&mut self, reason: PortReason, port: &PortDesc) {
        match reason {
            PortReason::Delete => drop(self.ports.remove(&port.port)),
            // Numbers are 32 bits wide: a switch with invented ports could fill the memory.
            PortReason::Add | PortReason::Modify
                if self.ports.len() < PORTS_MAX || self.ports.contains_key(&port.port) =>
            {
                self.ports.insert(port.port, port.clone());
            }
            PortReason::Add | PortReason::Modify => {}
        }
    }

    /// Returns an echo request. The reply shows that the switch is alive.
    pub(crate) fn challenge(&mut self) -> Message {
        self.echo_count += 1;
        self.challenge = Some(self.echo_count);
        Message::EchoRequest(self.echo_count.to_be_bytes().to_vec())
    }

    /// Handles an echo reply. Returns whether it is the reply to a challenge.
    fn echo_reply(&mut self, now: Time, data: &[u8]) -> bool {
        if let Some((sent, number)) = self.echo
            && data == number.to_be_bytes()
        {
            self.rtt = Some(now.saturating_sub(sent));
            self.echo = None;
        }
        self.challenge.take_if(|number| data == number.to_be_bytes()).is_some()
    }
}

/// Returns the memory of the records of a read-back reply, bytes, without what they point to: that
/// is about their length on the wire.
fn memory_of(reply: &MultipartReply) -> usize {
    match reply {
        MultipartReply::Flow(rules) => size_of_val(&rules[..]),
        MultipartReply::GroupDesc(groups) => size_of_val(&groups[..]),
        MultipartReply::PortDesc(ports) => size_of_val(&ports[..]),
        MultipartReply::Partial { known, .. } => memory_of(known),
        _ => 0,
    }
}

fn incompatible() -> Message {
    let kind = ErrorKind::HelloFailed(HelloFailed::Incompatible);
    Message::Error { kind, data: b"this controller supports OpenFlow 1.3 (bit 4 of the bitmap) only".to_vec() }
}

fn bad_type() -> Message {
    Message::Error { kind: ErrorKind::BadRequest(BadRequest::BadType), data: Vec::new() }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
