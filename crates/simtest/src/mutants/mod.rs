//! Mutants: a controller or switch with one defect. A filter between a correct controller and a
//! correct switch changes, drops, repeats or inserts messages. Every oracle must find at least one
//! mutant.

mod disruptions;
mod hosts;
mod services;

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use net::{RandomStream, Time};
use openflow::{
    Action, Envelope, FlowMod, FlowModCommand, GroupMod, GroupModCommand, Masked, Match, Message, PacketIn, PacketOut,
    PortNo, TableId, Xid, frame, headers::ether,
};

use crate::generate::stream;
use crate::plan::Plan;
use crate::reduction::Reduction;
use crate::report::Oracle;
use crate::simulation::Simulation;

macro_rules! mutants {
    ($(#[doc = $words:literal] $name:ident,)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Mutant {
            $(#[doc = $words] $name,)+
        }

        impl Mutant {
            pub const ALL: &[Mutant] = &[$(Mutant::$name,)+];

            pub fn description(self) -> &'static str {
                match self {
                    $(Mutant::$name => $words.trim_start(),)+
                }
            }
        }
    };
}

mutants! {
    /// A switch confirms barriers immediately and makes the changes half a second later.
    EarlyBarrier,
    /// Rules are sent before the groups they use, and before what they replace is deleted.
    RulesBeforeGroups,
    /// Additions arrive half a second late and deletions on time: the old path goes first.
    OldPathFirst,
    /// One change in twenty is lost.
    LosesChanges,
    /// Output ports 1 and 2 are exchanged in some rules.
    SwapsPorts,
    /// Rules are never deleted.
    KeepsDeadRules,
    /// Port status is ignored.
    IgnoresPortStatus,
    /// Deletions remove the rules of other controllers, too.
    IgnoresCookies,
    /// Additions arrive again two seconds later.
    RepeatsLate,
    /// ARP replies contain a wrong Ethernet address.
    WrongMac,
    /// A switch sometimes forgets a rule.
    ForgetsRules,
    /// One bucket of each group has no output.
    DeadBucket,
    /// After its first port status a switch receives no more changes.
    StopsAfterChange,
    /// Table-full errors are hidden, so that refused rules count as installed.
    HidesRefusals,
    /// A link is never found: its discovery packets are dropped.
    BlindLink,
    /// Groups are never deleted.
    LeaksGroups,
    /// All messages have the same number.
    ReusesXid,
    /// Switches do not answer barriers.
    NoBarrier,
    /// Some rules send packets back where they came from.
    SendsBack,
    /// A copy of everything forwarded is sent to port 1, too.
    Copies,
    /// The controller writes the same rule repeatedly.
    Chatters,
    /// Counting rules never idle out.
    KeepsCounters,
    /// Return rules of connections are lost.
    NoReturnRule,
    /// Responses of connections have a wrong source port.
    WrongReturnPort,
    /// Connections are redirected to another host after a while.
    ChangesMember,
    /// The rules of connections are never deleted.
    DeletesNoConnections,
    /// First packets of connections are lost.
    LosesFirstPackets,
    /// Refused clients receive no refusal.
    NeverRefuses,
    /// Members are not health-checked.
    SkipsHealthChecks,
    /// Draining members get new connections.
    NeverDrains,
    /// The controller does not see connections that reopen from a port with rules.
    MissesReopenings,
    /// Return rules of proactive services are lost.
    NoWildcardReturn,
    /// A migrating client slot gets the new member immediately.
    MigratesAtOnce,
    /// A client slot leads to a host that is not its member.
    SlotToOtherMember,
    /// Discovery probes are accepted at ports for hosts.
    IgnoresPortRoles,
    /// Hosts move without evidence from their ports: replies to the controller are lost.
    MovesHostsAtOnce,
    /// Configured hosts move like others.
    MovesPinnedHosts,
    /// Hosts that are unplugged or silent are never forgotten.
    NeverForgetsHosts,
    /// ARP replies are relayed without a check of the sender.
    RelaysForgedArp,
    /// The rules of switches are never audited.
    AuditsNever,
    /// Audits do not see changed rules.
    AuditsMissChanges,
    /// A peer with the datapath id of a connected switch is admitted immediately.
    AdmitsNewcomers,
    /// The controller does not request to be the master of switches.
    NoMastership,
    /// After a pause, timers run before waiting messages are handled.
    TimersBeforeInput,
    /// Rules to distant hosts are never evicted from a full table.
    EvictsNever,
    /// Without groups, rules with several next hops are left out.
    RefusedGroupDropsRule,
    /// A timer that is due is never cleared.
    Livelock,
    /// Members get equal shares regardless of their weights.
    IgnoresWeights,
}

impl Mutant {
    /// Returns the oracles that may find the mutant first.
    pub fn expected(self) -> &'static [Oracle] {
        use Oracle::{Admission, Balance, Connection, Growth, Livelock, Mastership, Restored};
        use Oracle::{
            Delivery, Foreign, Hosts, Installed, Loop, Loss, Messages, Quiet, Service, Settled, Topology, Virtual,
        };
        match self {
            // Changes that are confirmed before they are made count as made, and may stay wrong.
            Mutant::EarlyBarrier => &[Loss, Loop, Service, Installed, Virtual],
            // Additions that arrive after a later deletion stay.
            Mutant::OldPathFirst => &[Loss, Loop, Service, Installed, Virtual],
            Mutant::RulesBeforeGroups => &[Service, Loss, Installed, Settled],
            // Audits restore lost rules of hosts; those of connections have none.
            Mutant::LosesChanges | Mutant::ForgetsRules => &[Service, Loss, Installed, Loop, Virtual, Restored, Quiet],
            // A switch may lack the other port.
            Mutant::SwapsPorts => &[Delivery, Loop, Service, Loss, Virtual, Messages],
            Mutant::KeepsDeadRules => &[Installed, Service, Loss, Loop, Restored],
            Mutant::IgnoresPortStatus => &[Service, Loss, Topology],
            Mutant::IgnoresCookies => &[Foreign],
            Mutant::RepeatsLate => &[Installed, Loss, Service, Loop, Quiet, Virtual, Restored],
            Mutant::WrongMac => &[Delivery],
            Mutant::DeadBucket => &[Service, Loss],
            Mutant::StopsAfterChange => &[Service, Loss, Installed, Settled, Topology, Loop, Virtual, Restored],
            // Refusals of requests are hidden, too: of roles, and of the read-back.
            Mutant::HidesRefusals => &[Installed, Service, Loss, Settled, Virtual, Mastership, Connection, Restored],
            Mutant::BlindLink => &[Topology, Service, Loss],
            Mutant::LeaksGroups => &[Installed],
            // Connection rules that stay differ from those the controller knows.
            Mutant::KeepsCounters => &[Installed, Virtual],
            Mutant::ReusesXid => &[Messages],
            Mutant::NoBarrier => &[Settled, Service, Loss],
            Mutant::SendsBack => &[Delivery, Loop, Loss, Service],
            Mutant::Copies => &[Delivery],
            Mutant::Chatters => &[Quiet],
            Mutant::NoReturnRule | Mutant::WrongReturnPort | Mutant::LosesFirstPackets => &[Virtual],
            Mutant::ChangesMember | Mutant::NeverRefuses | Mutant::SkipsHealthChecks => &[Virtual],
            Mutant::NeverDrains => &[Virtual],
            Mutant::MissesReopenings => &[Virtual, Installed],
            Mutant::DeletesNoConnections => &[Virtual, Installed],
            // Proactive rules are compared in the convergence phase, too.
            Mutant::AuditsNever | Mutant::AuditsMissChanges => &[Restored, Service, Loss, Installed, Virtual],
            Mutant::AdmitsNewcomers => &[Admission, Connection],
            Mutant::NoMastership => &[Mastership],
            Mutant::TimersBeforeInput => &[Connection],
            // Rules to hosts of the switch stay refused, so changes may never end.
            Mutant::EvictsNever => &[Installed, Settled],
            Mutant::RefusedGroupDropsRule => &[Service, Loss, Installed, Virtual],
            Mutant::Livelock => &[Livelock],
            Mutant::IgnoresWeights => &[Balance],
            Mutant::NoWildcardReturn | Mutant::MigratesAtOnce | Mutant::SlotToOtherMember => &[Virtual, Installed],
            // Frames to the hosts that relay arrive at the wrong one.
            Mutant::IgnoresPortRoles => &[Topology, Delivery],
            Mutant::MovesHostsAtOnce | Mutant::MovesPinnedHosts => &[Delivery, Service, Loss, Virtual],
            Mutant::NeverForgetsHosts => &[Hosts, Growth],
            Mutant::RelaysForgedArp => &[Delivery],
        }
    }

    /// Returns the reduction in which the mutant must be found: without faults where faults would
    /// exempt it.
    pub fn reduction(self, plan: &Plan) -> Reduction {
        match self {
            Mutant::MigratesAtOnce => Reduction::without_faults(plan),
            _ => Reduction::default(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct MutantInjector {
    pub(crate) mutant: Option<Mutant>,
    rng: RandomStream,
    /// Switches that receive no more changes.
    silenced: BTreeSet<usize>,
}

impl MutantInjector {
    pub(crate) fn new(seed: u64, mutant: Option<Mutant>) -> MutantInjector {
        MutantInjector { mutant, rng: stream(seed, "sabotage"), silenced: BTreeSet::new() }
    }
}

const LATE: Time = Time::from_ms(500);

fn is_forwarding(flow_mod: &FlowMod) -> bool {
    let is_output = |action: &Action| match action {
        Action::Output { port, .. } => !port.is_reserved(),
        Action::Group(_) => true,
        _ => false,
    };
    is_addition(flow_mod) && flow_mod.instructions.apply.iter().any(is_output)
}

fn swap_ports(action: &mut Action) {
    if let Action::Output { port, .. } = action {
        *port = match *port {
            PortNo(1) => PortNo(2),
            PortNo(2) => PortNo(1),
            other => other,
        };
    }
}

/// Effect of a mutant on a message to a switch, apart from changes of the message itself.
#[allow(clippy::large_enum_variant, reason = "used once and dropped")]
enum Effect {
    None,
    Drop,
    Delay,
    /// Another message reaches the switch after this time.
    Then(Time, Message),
}

impl Simulation {
    /// Applies the mutant to a message to a switch. Returns messages with their delays; zero means
    /// in order.
    pub(crate) fn mutate_down(&mut self, switch: usize, envelope: Envelope) -> Vec<(Time, Envelope)> {
        let Some(mutant) = self.injector.mutant else { return vec![(Time::ZERO, envelope)] };
        let draw = self.injector.rng.next_below(20);
        let Envelope { xid, mut message } = envelope;
        let is_silenced = self.injector.silenced.contains(&switch);
        let effect = match self.service_effect(mutant, &mut message) {
            Effect::None => match self.limit_effect(mutant, switch, &message) {
                Effect::None => effect(mutant, draw, is_silenced, &mut message),
                effect => effect,
            },
            effect => effect,
        };
        match effect {
            Effect::None => vec![(Time::ZERO, Envelope { xid, message })],
            Effect::Drop => Vec::new(),
            Effect::Delay => vec![(LATE, Envelope { xid, message })],
            Effect::Then(delay, other) => {
                let other_xid = if mutant == Mutant::RepeatsLate { xid } else { Xid(0xffff_0000) };
                if mutant == Mutant::Chatters {
                    self.check_quiet_message(switch, &other);
                }
                vec![(Time::ZERO, Envelope { xid, message }), (delay, Envelope { xid: other_xid, message: other })]
            }
        }
    }

    pub(crate) fn mutate_xid(&self, xid: Xid) -> Xid {
        if self.injector.mutant == Some(Mutant::ReusesXid) { Xid(7) } else { xid }
    }

    pub(crate) fn mutate_up(&mut self, switch: usize, mut envelope: Envelope) -> Vec<Envelope> {
        let Some(mutant) = self.injector.mutant else { return vec![envelope] };
        if mutant == Mutant::AuditsMissChanges {
            self.hide_changes(switch, &mut envelope.message);
        }
        let is_dropped = match (mutant, &envelope.message) {
            (Mutant::IgnoresPortStatus, Message::PortStatus { .. }) => true,
            (Mutant::StopsAfterChange, Message::PortStatus { .. }) => {
                self.injector.silenced.insert(switch);
                false
            }
            (Mutant::HidesRefusals, Message::Error { .. }) => true,
            (Mutant::NoBarrier, Message::BarrierReply) => true,
            (Mutant::MovesHostsAtOnce, Message::PacketIn(packet)) => hosts::is_reply_to_controller(packet),
            (Mutant::RelaysForgedArp, Message::PacketIn(packet)) => {
                self.relay_reply(&packet.data);
                false
            }
            (Mutant::BlindLink, Message::PacketIn(PacketIn { match_, data, .. })) => {
                let is_lldp = frame::parse(data).is_ok_and(|headers| headers.eth_type == ether::LLDP);
                is_lldp && switch == 1 && match_.in_port.is_some_and(|port| port.0 <= 2)
            }
            _ => false,
        };
        if is_dropped { Vec::new() } else { vec![envelope] }
    }

    pub(crate) fn inject(&mut self, switch: usize, envelope: Envelope) {
        if let Some(connection) = self.switches[switch].channel.connection {
            self.switch_handles(switch, connection, envelope);
        }
    }
}

/// Changes a message to a switch as the mutant does, and returns what else the mutant does.
/// `draw` is a random number below 20.
fn effect(mutant: Mutant, draw: u64, is_silenced: bool, message: &mut Message) -> Effect {
    use FlowModCommand::DeleteStrict;
    let is_change = matches!(message, Message::FlowMod(_) | Message::GroupMod(_));
    alter(mutant, draw, message);
    match (mutant, message) {
        (Mutant::EarlyBarrier, _) if is_change => Effect::Delay,
        (Mutant::StopsAfterChange, _) if is_change && is_silenced => Effect::Drop,
        (Mutant::OldPathFirst, Message::FlowMod(rule)) if is_addition(rule) => Effect::Delay,
        (Mutant::RulesBeforeGroups, Message::GroupMod(group)) if !is_group_deletion(group) => Effect::Delay,
        (Mutant::LosesChanges, Message::FlowMod(_)) if draw == 0 => Effect::Drop,
        (Mutant::KeepsDeadRules, Message::FlowMod(rule)) if rule.command == DeleteStrict => Effect::Drop,
        (Mutant::LeaksGroups, Message::GroupMod(group)) if is_group_deletion(group) => Effect::Drop,
        (Mutant::IgnoresCookies, Message::FlowMod(rule)) if is_deletion(rule) => {
            Effect::Then(Time::ZERO, deletion_of_foreign_rules(rule))
        }
        (Mutant::RepeatsLate, Message::FlowMod(rule)) if is_addition(rule) => {
            Effect::Then(LATE * 4, Message::FlowMod(rule.clone()))
        }
        // More often than other mutants: audits restore what was forgotten within seconds.
        (Mutant::ForgetsRules, Message::FlowMod(rule)) if draw < 4 && is_forwarding(rule) => {
            let deletion = FlowMod::delete_strict(rule.table, rule.priority, rule.match_);
            Effect::Then(LATE * 2, Message::FlowMod(deletion))
        }
        (Mutant::Chatters, Message::EchoRequest(_)) => {
            let rule = FlowMod::add(TableId(3), 9, Match::default(), openflow::Instructions::default());
            Effect::Then(Time::ZERO, Message::FlowMod(rule))
        }
        _ => Effect::None,
    }
}

/// Changes the content of a message as the mutant does.
fn alter(mutant: Mutant, draw: u64, message: &mut Message) {
    match (mutant, message) {
        (Mutant::SwapsPorts, Message::FlowMod(rule)) if draw < 4 => {
            rule.instructions.apply.iter_mut().for_each(swap_ports);
        }
        (Mutant::SendsBack, Message::FlowMod(rule)) if draw < 4 && is_forwarding(rule) => {
            rule.instructions.apply = vec![Action::output(PortNo::IN_PORT)];
        }
        (Mutant::Copies, Message::FlowMod(rule)) if is_forwarding(rule) => {
            rule.instructions.apply.push(Action::output(PortNo(1)));
        }
        (Mutant::KeepsCounters, Message::FlowMod(rule)) => rule.idle_timeout_s = 0,
        (Mutant::WrongMac, Message::PacketOut(out)) => corrupt_arp_reply(out),
        (Mutant::DeadBucket, Message::GroupMod(group)) => {
            if let Some(bucket) = group.buckets.last_mut() {
                bucket.watch_port = PortNo::ANY;
                bucket.actions.clear();
            }
        }
        _ => {}
    }
}

fn is_group_deletion(group: &GroupMod) -> bool {
    group.command == GroupModCommand::Delete
}

fn is_addition(rule: &FlowMod) -> bool {
    rule.command == FlowModCommand::Add
}

fn is_deletion(rule: &FlowMod) -> bool {
    matches!(rule.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict)
}

/// Returns a deletion regardless of the cookie: it removes the rules of other controllers.
fn deletion_of_foreign_rules(rule: &FlowMod) -> Message {
    Message::FlowMod(FlowMod {
        command: FlowModCommand::Delete,
        match_: to_elsewhere(),
        cookie: 0,
        cookie_mask: 0,
        table: TableId::ALL,
        ..rule.clone()
    })
}

/// Returns a match of addresses that no host has; the rules of other controllers use them.
fn to_elsewhere() -> Match {
    let net = Masked { value: Ipv4Addr::new(192, 168, 0, 0), mask: Ipv4Addr::new(255, 255, 0, 0) };
    Match { eth_type: Some(ether::IPV4), ipv4_dst: Some(net), ..Match::default() }
}

/// Changes the Ethernet address in an ARP reply to one that no host has.
fn corrupt_arp_reply(out: &mut PacketOut) {
    let is_reply = frame::parse(&out.data).is_ok_and(|headers| headers.eth_type == ether::ARP && headers.arp_op == 2);
    if is_reply {
        // Source of the Ethernet header, and the sender's address inside.
        out.data[11] ^= 0x80;
        out.data[27] ^= 0x80;
    }
}
