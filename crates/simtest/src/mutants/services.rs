//! Mutants of virtual services.

use control::vip::Services;
use net::Time;
use openflow::headers::protocol;
use openflow::{Action, FlowMod, FlowModCommand, Instructions, Masked, Message, PortNo, SetField, TableId, frame};

use crate::generate::ipv4_of;
use crate::generate::services::CHECKER;
use crate::mutants::{Effect, Mutant};
use crate::simulation::{CONNECTS, Simulation, is_of_kind, mac_of};

const TO_MEMBER: u16 = 520;
const TO_CLIENT: u16 = 510;
const SLOT_TO_CLIENT: u16 = 480;
const SLOT_TO_MEMBER: u16 = 460;

/// The kind of slot rules in cookies, after the owner.
const SLOTS: u64 = 7;

fn is_added(rule: &FlowMod, kind: u64, priority: u16) -> bool {
    rule.command == FlowModCommand::Add && rule.priority == priority && is_of_kind(rule.cookie, kind)
}

impl Simulation {
    /// Applies the mutant to a message about services.
    pub(super) fn service_effect(&self, mutant: Mutant, message: &mut Message) -> Effect {
        let is_lost = match (mutant, &*message) {
            (Mutant::NoReturnRule, Message::FlowMod(rule)) => is_added(rule, CONNECTS, TO_CLIENT),
            (Mutant::NoWildcardReturn, Message::FlowMod(rule)) => is_added(rule, SLOTS, SLOT_TO_CLIENT),
            (Mutant::DeletesNoConnections, Message::FlowMod(rule)) => {
                rule.command == FlowModCommand::Delete && is_of_kind(rule.cookie, CONNECTS)
            }
            (Mutant::MissesReopenings, Message::FlowMod(rule)) => rule.match_.tcp_flags.is_some(),
            (Mutant::LosesFirstPackets, Message::PacketOut(out)) => {
                out.actions.ends_with(&[Action::output(PortNo::TABLE)])
            }
            (Mutant::NeverRefuses, Message::PacketOut(out)) => is_refusal(&out.data),
            (Mutant::SkipsHealthChecks, Message::PacketOut(out)) => {
                frame::parse(&out.data).is_ok_and(|headers| headers.ipv4_src == CHECKER)
            }
            _ => false,
        };
        let rule = match message {
            _ if is_lost => return Effect::Drop,
            Message::FlowMod(rule) => rule,
            _ => return Effect::None,
        };
        match mutant {
            Mutant::WrongReturnPort if is_added(rule, CONNECTS, TO_CLIENT) => {
                rule.instructions.apply.extend(match rule.match_.ip_proto {
                    Some(protocol::TCP) => Some(Action::SetField(SetField::TcpSrc(7))),
                    Some(protocol::UDP) => Some(Action::SetField(SetField::UdpSrc(7))),
                    _ => None,
                });
            }
            Mutant::ChangesMember if is_added(rule, CONNECTS, TO_MEMBER) => {
                return Effect::Then(Time::from_ms(700), Message::FlowMod(self.to_other(rule)));
            }
            Mutant::MigratesAtOnce if is_added(rule, SLOTS, SLOT_TO_MEMBER) && rule.instructions.goto.is_none() => {
                *rule = self.to_some_host(rule);
            }
            Mutant::SlotToOtherMember if is_added(rule, SLOTS, SLOT_TO_MEMBER) => *rule = self.to_other(rule),
            _ => {}
        }
        Effect::None
    }

    /// Returns the rule to member with the next host.
    fn to_other(&self, flow_mod: &FlowMod) -> FlowMod {
        let mut other = flow_mod.clone();
        let hosts = self.hosts.len();
        let is_to =
            |host: &usize| other.instructions.apply.contains(&Action::SetField(SetField::Ipv4Dst(ipv4_of(*host))));
        let next = ((0..hosts).find(is_to).unwrap_or(0) + 1) % hosts;
        for action in &mut other.instructions.apply {
            match action {
                Action::SetField(SetField::Ipv4Dst(to)) => *to = ipv4_of(next),
                Action::SetField(SetField::EthDst(to)) => *to = mac_of(next),
                _ => {}
            }
        }
        other
    }

    fn to_some_host(&self, flow_mod: &FlowMod) -> FlowMod {
        let host = (flow_mod.cookie as usize) % self.hosts.len();
        let apply =
            vec![Action::SetField(SetField::EthDst(mac_of(host))), Action::SetField(SetField::Ipv4Dst(ipv4_of(host)))];
        let metadata = Some(Masked { value: 1, mask: 1 });
        let instructions = Instructions { metadata, goto: Some(TableId(1)), ..Instructions::apply(apply) };
        FlowMod { instructions, ..flow_mod.clone() }
    }

    pub(crate) fn mutate_services(&self, wanted: &Services) -> Services {
        let mut services = wanted.clone();
        if self.injector.mutant == Some(Mutant::NeverDrains) {
            services.pools.iter_mut().flat_map(|pool| &mut pool.members).for_each(|member| member.is_enabled = true);
        }
        if self.injector.mutant == Some(Mutant::IgnoresWeights) {
            services.pools.iter_mut().flat_map(|pool| &mut pool.members).for_each(|member| member.weight = 1);
        }
        services
    }
}

fn is_refusal(data: &[u8]) -> bool {
    let is_error =
        frame::parse(data).is_ok_and(|headers| headers.ip_proto == protocol::ICMP) && data.get(34) == Some(&3);
    is_error || frame::segment(data).is_ok_and(|segment| segment.is_some_and(|one| one.has(frame::flags::RST)))
}
