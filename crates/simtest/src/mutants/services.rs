//! Mutants of virtual services.

use control::vip::Services;
use net::Time;
use openflow::headers::protocol;
use openflow::{
    Action, Envelope, FlowMod, FlowModCommand, Instructions, Masked, Message, PortNo, SetField, TableId, Xid, frame,
};

use crate::generate::ipv4_of;
use crate::generate::services::CHECKER;
use crate::mutants::Mutant;
use crate::simulation::{OWNER, Simulation, mac_of};

const TO_MEMBER: u16 = 520;
const TO_CLIENT: u16 = 510;
const SLOT_TO_CLIENT: u16 = 480;
const SLOT_TO_MEMBER: u16 = 460;

fn is_connection_rule(flow_mod: &FlowMod) -> bool {
    flow_mod.cookie >> 40 == u64::from(OWNER) << 8 | 6
}
fn is_slot_rule(flow_mod: &FlowMod, priority: u16) -> bool {
    let is_one = flow_mod.cookie >> 40 == u64::from(OWNER) << 8 | 7;
    is_one && flow_mod.command == FlowModCommand::Add && flow_mod.priority == priority
}
fn is_added(flow_mod: &FlowMod, priority: u16) -> bool {
    flow_mod.command == FlowModCommand::Add && flow_mod.priority == priority && is_connection_rule(flow_mod)
}

impl Simulation {
    /// Applies the mutant to a message about services; returns `None` if the message does not
    /// change.
    pub(crate) fn mutate_service_message(&self, mutant: Mutant, envelope: &Envelope) -> Option<Vec<(Time, Envelope)>> {
        let Envelope { xid, message } = envelope;
        let instead = |message| vec![(Time::ZERO, Envelope { xid: *xid, message })];
        match (mutant, message) {
            (Mutant::NoReturnRule, Message::FlowMod(flow_mod)) if is_added(flow_mod, TO_CLIENT) => Some(Vec::new()),
            (Mutant::WrongReturnPort, Message::FlowMod(flow_mod)) if is_added(flow_mod, TO_CLIENT) => {
                let mut wrong = flow_mod.clone();
                wrong.instructions.apply.extend(match wrong.match_.ip_proto {
                    Some(protocol::TCP) => Some(Action::SetField(SetField::TcpSrc(7))),
                    Some(protocol::UDP) => Some(Action::SetField(SetField::UdpSrc(7))),
                    _ => None,
                });
                Some(instead(Message::FlowMod(wrong)))
            }
            (Mutant::ChangesMember, Message::FlowMod(flow_mod)) if is_added(flow_mod, TO_MEMBER) => {
                let other = Envelope { xid: Xid(0xffff_0000), message: Message::FlowMod(self.to_other(flow_mod)) };
                Some(vec![(Time::ZERO, envelope.clone()), (Time::from_ms(700), other)])
            }
            (Mutant::NoWildcardReturn, Message::FlowMod(flow_mod)) if is_slot_rule(flow_mod, SLOT_TO_CLIENT) => {
                Some(Vec::new())
            }
            (Mutant::MigratesAtOnce, Message::FlowMod(flow_mod)) if is_slot_rule(flow_mod, SLOT_TO_MEMBER) => {
                let is_moving = flow_mod.instructions.goto.is_none();
                is_moving.then(|| instead(Message::FlowMod(self.to_some_host(flow_mod))))
            }
            (Mutant::SlotToOtherMember, Message::FlowMod(flow_mod)) if is_slot_rule(flow_mod, SLOT_TO_MEMBER) => {
                Some(instead(Message::FlowMod(self.to_other(flow_mod))))
            }
            (Mutant::DeletesNoConnections, Message::FlowMod(flow_mod))
                if flow_mod.command == FlowModCommand::Delete && is_connection_rule(flow_mod) =>
            {
                Some(Vec::new())
            }
            (Mutant::LosesFirstPackets, Message::PacketOut(out))
                if out.actions.ends_with(&[Action::output(PortNo::TABLE)]) =>
            {
                Some(Vec::new())
            }
            (Mutant::MissesReopenings, Message::FlowMod(flow_mod)) if flow_mod.match_.tcp_flags.is_some() => {
                Some(Vec::new())
            }
            (Mutant::NeverRefuses, Message::PacketOut(out)) if is_refusal(&out.data) => Some(Vec::new()),
            (Mutant::SkipsHealthChecks, Message::PacketOut(out))
                if frame::parse(&out.data).is_ok_and(|headers| headers.ipv4_src == CHECKER) =>
            {
                Some(Vec::new())
            }
            _ => None,
        }
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
        if self.injector.is_active(Mutant::NeverDrains) {
            services.pools.iter_mut().flat_map(|pool| &mut pool.members).for_each(|member| member.is_enabled = true);
        }
        services
    }
}

fn is_refusal(data: &[u8]) -> bool {
    let is_error =
        frame::parse(data).is_ok_and(|headers| headers.ip_proto == protocol::ICMP) && data.get(34) == Some(&3);
    is_error || frame::segment(data).is_ok_and(|segment| segment.is_some_and(|one| one.has(frame::flags::RST)))
}
