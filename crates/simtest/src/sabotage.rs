//! Controllers and switches that do one thing wrong: what stands between a correct controller and a correct switch changes,
//! loses, repeats or invents messages. Every oracle has someone here whom it must catch.

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use net::{Stream, Time};
use openflow::{
    Action, Envelope, FlowMod, FlowModCommand, GroupModCommand, Masked, Match, Message, PacketIn, PacketOut, PortNo,
    TableId, Xid, frame, headers::ether,
};

use crate::cutback::Cutback;
use crate::plan::Plan;
use crate::report::Oracle;
use crate::world::World;

macro_rules! sabotages {
    ($(#[doc = $words:literal] $name:ident,)+) => {
        /// What is done wrong.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Sabotage {
            $(#[doc = $words] $name,)+
        }

        impl Sabotage {
            /// All of them.
            pub const ALL: &[Sabotage] = &[$(Sabotage::$name,)+];

            /// What it is, in a sentence.
            pub fn words(self) -> &'static str {
                match self {
                    $(Sabotage::$name => $words.trim_start(),)+
                }
            }
        }
    };
}

sabotages! {
    /// A switch confirms barriers at once and makes the changes half a second later.
    EarlyBarrier,
    /// Rules are sent before the groups they use, and before what they replace is deleted.
    RulesBeforeGroups,
    /// Additions arrive half a second late, deletions at once: the old path goes before the new one is there.
    OldPathFirst,
    /// One change in twenty is lost.
    LosesChanges,
    /// Output ports 1 and 2 are exchanged in some rules.
    SwapsPorts,
    /// Rules are never deleted.
    KeepsDeadRules,
    /// Port status is ignored.
    IgnoresPortStatus,
    /// Deletions take along the rules of others.
    IgnoresCookies,
    /// Additions arrive a second time two seconds later.
    RepeatsLate,
    /// Hosts are told a wrong Ethernet address.
    WrongMac,
    /// A switch forgets a rule now and then.
    ForgetsRules,
    /// A bucket of each group sends where nothing is.
    DeadBucket,
    /// After the first change of the network nothing is sent to that switch any more.
    StopsAfterChange,
    /// Refusals for want of room are not told, so that they count as done.
    HidesRefusals,
    /// A link is never found: its discovery packets are dropped.
    BlindLink,
    /// Groups are never deleted.
    LeaksGroups,
    /// All messages have the same number.
    SameNumber,
    /// Switches do not answer barriers.
    NoBarrier,
    /// Some rules send packets back where they came from.
    SendsBack,
    /// A copy of everything forwarded goes to port 1, too.
    Copies,
    /// The controller writes the same rule over and over.
    Chatters,
    /// Rules that count flows never idle out.
    KeepsCounters,
    /// The rules of answers of connections are lost.
    NoWayBack,
    /// Answers of connections come from another port.
    WrongPortBack,
    /// Connections are given to another host after a while.
    ChangesMember,
    /// The rules of connections are never deleted.
    DeletesNoConnections,
    /// First packets of connections are lost.
    LosesFirstPackets,
    /// Clients are not told that nobody serves.
    NeverRefuses,
    /// Members are not asked how they are.
    ChecksNobody,
    /// Members that drain get new connections.
    NeverDrains,
    /// The controller does not see connections that are opened from a port whose rules are there.
    MissesOpenings,
    /// What leads back to clients of services with wildcard rules is lost.
    NoWayBackBeforehand,
    /// A bucket that is to move gets another member at once.
    MovesAtOnce,
    /// A bucket is led to a host that is not its member.
    LeadsElsewhere,
}

impl Sabotage {
    /// Oracles that may be the first to see it.
    pub fn expected(self) -> &'static [Oracle] {
        use Oracle::{Delivery, Foreign, Installed, Loop, Loss, Messages, Quiet, Service, Settled, Topology, Virtual};
        match self {
            // What is confirmed before it is done is taken for done: it can be wrong for good, too.
            Sabotage::EarlyBarrier => &[Loss, Loop, Service, Installed, Virtual],
            // Additions that come after a later deletion stay.
            Sabotage::OldPathFirst => &[Loss, Loop, Service, Installed, Virtual],
            Sabotage::RulesBeforeGroups => &[Service, Loss, Installed, Settled],
            Sabotage::LosesChanges | Sabotage::ForgetsRules => &[Service, Loss, Installed, Loop],
            Sabotage::SwapsPorts => &[Delivery, Loop, Service, Loss],
            Sabotage::KeepsDeadRules => &[Installed, Service, Loss, Loop],
            Sabotage::IgnoresPortStatus => &[Service, Loss],
            Sabotage::IgnoresCookies => &[Foreign],
            Sabotage::RepeatsLate => &[Installed, Loss, Service, Loop, Quiet],
            Sabotage::WrongMac => &[Delivery],
            Sabotage::DeadBucket => &[Service, Loss],
            Sabotage::StopsAfterChange => &[Service, Loss, Installed, Settled, Topology, Loop],
            Sabotage::HidesRefusals => &[Installed, Service, Loss, Settled, Virtual],
            Sabotage::BlindLink => &[Topology, Service, Loss],
            Sabotage::LeaksGroups => &[Installed],
            // Rules of connections that stay are not those the controller knows.
            Sabotage::KeepsCounters => &[Installed, Virtual],
            Sabotage::SameNumber => &[Messages],
            Sabotage::NoBarrier => &[Settled, Service, Loss],
            Sabotage::SendsBack => &[Delivery, Loop, Loss, Service],
            Sabotage::Copies => &[Delivery],
            Sabotage::Chatters => &[Quiet],
            Sabotage::NoWayBack | Sabotage::WrongPortBack | Sabotage::LosesFirstPackets => &[Virtual],
            Sabotage::ChangesMember | Sabotage::NeverRefuses | Sabotage::ChecksNobody => &[Virtual],
            Sabotage::NeverDrains => &[Virtual],
            Sabotage::MissesOpenings => &[Virtual, Installed],
            Sabotage::DeletesNoConnections => &[Virtual, Installed],
            // What stands beforehand is compared in the calm, too.
            Sabotage::NoWayBackBeforehand | Sabotage::MovesAtOnce | Sabotage::LeadsElsewhere => &[Virtual, Installed],
        }
    }

    /// Storms within which it must be caught.
    pub fn seeds_max(self) -> u64 {
        match self {
            Sabotage::HidesRefusals | Sabotage::IgnoresCookies => 60,
            Sabotage::OldPathFirst | Sabotage::EarlyBarrier | Sabotage::LeaksGroups | Sabotage::RulesBeforeGroups => 20,
            Sabotage::MovesAtOnce => 20,
            _ => 10,
        }
    }

    /// What of a storm it is to be caught in: where faults would excuse it, what is left without them.
    pub fn cutback(self, plan: &Plan) -> Cutback {
        match self {
            Sabotage::MovesAtOnce => Cutback::without_faults(plan),
            _ => Cutback::default(),
        }
    }
}

/// Who does it.
#[derive(Debug)]
pub(crate) struct Saboteur {
    what: Option<Sabotage>,
    rng: Stream,
    /// Switches whose orders are withheld.
    muted: BTreeSet<usize>,
}

impl Saboteur {
    pub(crate) fn new(seed: u64, what: Option<Sabotage>) -> Saboteur {
        Saboteur { what, rng: Stream::new(seed, "storm.sabotage"), muted: BTreeSet::new() }
    }
    pub(crate) fn is_doing(&self, what: Sabotage) -> bool {
        self.what == Some(what)
    }
}

const LATE: Time = Time::from_ms(500);

/// Rewrites the actions of a rule.
fn rewrite(flow_mod: &mut FlowMod, mut change: impl FnMut(&mut Vec<Action>)) {
    change(&mut flow_mod.instructions.apply);
}

fn is_forwarding(flow_mod: &FlowMod) -> bool {
    let is_output = |action: &Action| match action {
        Action::Output { port, .. } => !port.is_reserved(),
        Action::Group(_) => true,
        _ => false,
    };
    flow_mod.command == FlowModCommand::Add && flow_mod.instructions.apply.iter().any(is_output)
}

fn swap(action: &mut Action) {
    if let Action::Output { port, .. } = action {
        *port = match *port {
            PortNo(1) => PortNo(2),
            PortNo(2) => PortNo(1),
            other => other,
        };
    }
}

impl World {
    /// What becomes of a message to a switch: messages with delays; zero for in order.
    pub(crate) fn sabotage_down(&mut self, switch: usize, envelope: Envelope) -> Vec<(Time, Envelope)> {
        let Some(what) = self.saboteur.what else { return vec![(Time::ZERO, envelope)] };
        if let Some(instead) = self.sabotage_services_down(what, &envelope) {
            return instead;
        }
        let draw = self.saboteur.rng.below(20);
        let Envelope { xid, mut message } = envelope;
        let is_change = matches!(message, Message::FlowMod(_) | Message::GroupMod(_));
        let on_time = |message| vec![(Time::ZERO, Envelope { xid, message })];
        match (what, &mut message) {
            (Sabotage::EarlyBarrier, _) if is_change => vec![(LATE, Envelope { xid, message })],
            (Sabotage::OldPathFirst, Message::FlowMod(FlowMod { command: FlowModCommand::Add, .. })) => {
                vec![(LATE, Envelope { xid, message })]
            }
            (Sabotage::RulesBeforeGroups, Message::GroupMod(group)) if group.command != GroupModCommand::Delete => {
                vec![(LATE, Envelope { xid, message })]
            }
            (Sabotage::LosesChanges, Message::FlowMod(_)) if draw == 0 => Vec::new(),
            (Sabotage::SwapsPorts, Message::FlowMod(flow_mod)) if draw < 4 => {
                rewrite(flow_mod, |actions| actions.iter_mut().for_each(swap));
                on_time(message)
            }
            (Sabotage::KeepsDeadRules, Message::FlowMod(flow_mod))
                if flow_mod.command == FlowModCommand::DeleteStrict =>
            {
                Vec::new()
            }
            (Sabotage::IgnoresCookies, Message::FlowMod(flow_mod)) => {
                let is_deletion = matches!(flow_mod.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
                let others = FlowMod {
                    command: FlowModCommand::Delete,
                    match_: to_elsewhere(),
                    cookie: 0,
                    cookie_mask: 0,
                    table: TableId::ALL,
                    ..flow_mod.clone()
                };
                let others = Envelope { xid: Xid(0xffff_0000), message: Message::FlowMod(others) };
                let mut messages = on_time(message);
                messages.extend(is_deletion.then_some((Time::ZERO, others)));
                messages
            }
            (Sabotage::RepeatsLate, Message::FlowMod(FlowMod { command: FlowModCommand::Add, .. })) => {
                let again = Envelope { xid, message: message.clone() };
                vec![(Time::ZERO, Envelope { xid, message }), (LATE * 4, again)]
            }
            (Sabotage::WrongMac, Message::PacketOut(out)) => {
                lie(out);
                on_time(message)
            }
            (Sabotage::ForgetsRules, Message::FlowMod(flow_mod)) if draw == 0 && is_forwarding(flow_mod) => {
                let forget = FlowMod::delete_strict(flow_mod.table, flow_mod.priority, flow_mod.match_);
                let forget = Envelope { xid: Xid(0xffff_0000), message: Message::FlowMod(forget) };
                vec![(Time::ZERO, Envelope { xid, message }), (LATE * 2, forget)]
            }
            (Sabotage::DeadBucket, Message::GroupMod(group)) => {
                if let Some(bucket) = group.buckets.last_mut() {
                    bucket.watch_port = PortNo::ANY;
                    bucket.actions.clear();
                }
                on_time(message)
            }
            (Sabotage::StopsAfterChange, _) if is_change && self.saboteur.muted.contains(&switch) => Vec::new(),
            (Sabotage::LeaksGroups, Message::GroupMod(group)) if group.command == GroupModCommand::Delete => Vec::new(),
            (Sabotage::SendsBack, Message::FlowMod(flow_mod)) if draw < 4 && is_forwarding(flow_mod) => {
                rewrite(flow_mod, |actions| *actions = vec![Action::output(PortNo::IN_PORT)]);
                on_time(message)
            }
            (Sabotage::Copies, Message::FlowMod(flow_mod)) if is_forwarding(flow_mod) => {
                rewrite(flow_mod, |actions| actions.push(Action::output(PortNo(1))));
                on_time(message)
            }
            (Sabotage::KeepsCounters, Message::FlowMod(flow_mod)) => {
                flow_mod.idle_timeout_s = 0;
                on_time(message)
            }
            (Sabotage::Chatters, Message::EchoRequest(_)) => {
                let nothing = FlowMod::add(TableId(3), 9, Match::default(), openflow::Instructions::default());
                let nothing = Envelope { xid: Xid(0xffff_0000), message: Message::FlowMod(nothing) };
                self.oracle_calm_message(switch, &nothing.message);
                vec![(Time::ZERO, Envelope { xid, message }), (Time::ZERO, nothing)]
            }
            _ => on_time(message),
        }
    }

    /// The number a message sets out with.
    pub(crate) fn sabotage_number(&self, xid: Xid) -> Xid {
        if self.saboteur.what == Some(Sabotage::SameNumber) { Xid(7) } else { xid }
    }

    /// What becomes of a message of a switch.
    pub(crate) fn sabotage_up(&mut self, switch: usize, envelope: Envelope) -> Vec<Envelope> {
        let Some(what) = self.saboteur.what else { return vec![envelope] };
        let is_dropped = match (what, &envelope.message) {
            (Sabotage::IgnoresPortStatus, Message::PortStatus { .. }) => true,
            (Sabotage::StopsAfterChange, Message::PortStatus { .. }) => {
                self.saboteur.muted.insert(switch);
                false
            }
            (Sabotage::HidesRefusals, Message::Error { .. }) => true,
            (Sabotage::NoBarrier, Message::BarrierReply) => true,
            (Sabotage::BlindLink, Message::PacketIn(PacketIn { match_, data, .. })) => {
                let is_lldp = frame::parse(data).is_ok_and(|headers| headers.eth_type == ether::LLDP);
                is_lldp && switch == 1 && match_.in_port.is_some_and(|port| port.0 <= 2)
            }
            _ => false,
        };
        if is_dropped { Vec::new() } else { vec![envelope] }
    }

    /// A message of a saboteur reaches a switch.
    pub(crate) fn inject(&mut self, switch: usize, envelope: Envelope) {
        if let Some(connection) = self.switches[switch].channel.connection {
            self.switch_handles(switch, connection, envelope);
        }
    }
}

/// Packets to addresses no host of a storm has: rules of others are for those.
fn to_elsewhere() -> Match {
    let net = Masked { value: Ipv4Addr::new(192, 168, 0, 0), mask: Ipv4Addr::new(255, 255, 0, 0) };
    Match { eth_type: Some(ether::IPV4), ipv4_dst: Some(net), ..Match::default() }
}

/// Answers to questions for addresses name an address nobody has.
fn lie(out: &mut PacketOut) {
    let is_answer = frame::parse(&out.data).is_ok_and(|headers| headers.eth_type == ether::ARP && headers.arp_op == 2);
    if is_answer {
        // Source of the Ethernet header, and the sender's address inside.
        out.data[11] ^= 0x80;
        out.data[27] ^= 0x80;
    }
}
