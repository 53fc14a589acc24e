//! What is done wrong to virtual services.

use control::vip::Services;
use net::Time;
use openflow::headers::protocol;
use openflow::{
    Action, Envelope, FlowMod, FlowModCommand, Instructions, Masked, Message, PortNo, SetField, TableId, Xid, frame,
};

use crate::draw::ipv4_of;
use crate::draw_services::CHECKER;
use crate::sabotage::Sabotage;
use crate::world::{OWNER, World, mac_of};

const FORTH: u16 = 520;
const BACK: u16 = 510;
const BUCKET_BACK: u16 = 480;
const BUCKET_FORTH: u16 = 460;

fn is_of_connection(flow_mod: &FlowMod) -> bool {
    flow_mod.cookie >> 40 == u64::from(OWNER) << 8 | 6
}
fn is_of_bucket(flow_mod: &FlowMod, priority: u16) -> bool {
    let is_one = flow_mod.cookie >> 40 == u64::from(OWNER) << 8 | 7;
    is_one && flow_mod.command == FlowModCommand::Add && flow_mod.priority == priority
}
fn is_added(flow_mod: &FlowMod, priority: u16) -> bool {
    flow_mod.command == FlowModCommand::Add && flow_mod.priority == priority && is_of_connection(flow_mod)
}

impl World {
    /// What becomes of a message about services: `None` if nothing is done to it.
    pub(crate) fn sabotage_services_down(&self, what: Sabotage, envelope: &Envelope) -> Option<Vec<(Time, Envelope)>> {
        let Envelope { xid, message } = envelope;
        let instead = |message| vec![(Time::ZERO, Envelope { xid: *xid, message })];
        match (what, message) {
            (Sabotage::NoWayBack, Message::FlowMod(flow_mod)) if is_added(flow_mod, BACK) => Some(Vec::new()),
            (Sabotage::WrongPortBack, Message::FlowMod(flow_mod)) if is_added(flow_mod, BACK) => {
                let mut wrong = flow_mod.clone();
                wrong.instructions.apply.extend(match wrong.match_.ip_proto {
                    Some(protocol::TCP) => Some(Action::SetField(SetField::TcpSrc(7))),
                    Some(protocol::UDP) => Some(Action::SetField(SetField::UdpSrc(7))),
                    _ => None,
                });
                Some(instead(Message::FlowMod(wrong)))
            }
            (Sabotage::ChangesMember, Message::FlowMod(flow_mod)) if is_added(flow_mod, FORTH) => {
                let other = Envelope { xid: Xid(0xffff_0000), message: Message::FlowMod(self.to_other(flow_mod)) };
                Some(vec![(Time::ZERO, envelope.clone()), (Time::from_ms(700), other)])
            }
            (Sabotage::NoWayBackBeforehand, Message::FlowMod(flow_mod)) if is_of_bucket(flow_mod, BUCKET_BACK) => {
                Some(Vec::new())
            }
            (Sabotage::MovesAtOnce, Message::FlowMod(flow_mod)) if is_of_bucket(flow_mod, BUCKET_FORTH) => {
                let is_moving = flow_mod.instructions.goto.is_none();
                is_moving.then(|| instead(Message::FlowMod(self.to_anyone(flow_mod))))
            }
            (Sabotage::LeadsElsewhere, Message::FlowMod(flow_mod)) if is_of_bucket(flow_mod, BUCKET_FORTH) => {
                Some(instead(Message::FlowMod(self.to_other(flow_mod))))
            }
            (Sabotage::DeletesNoConnections, Message::FlowMod(flow_mod))
                if flow_mod.command == FlowModCommand::Delete && is_of_connection(flow_mod) =>
            {
                Some(Vec::new())
            }
            (Sabotage::LosesFirstPackets, Message::PacketOut(out))
                if out.actions.ends_with(&[Action::output(PortNo::TABLE)]) =>
            {
                Some(Vec::new())
            }
            (Sabotage::MissesOpenings, Message::FlowMod(flow_mod)) if flow_mod.match_.tcp_flags.is_some() => {
                Some(Vec::new())
            }
            (Sabotage::NeverRefuses, Message::PacketOut(out)) if is_refusal(&out.data) => Some(Vec::new()),
            (Sabotage::ChecksNobody, Message::PacketOut(out))
                if frame::parse(&out.data).is_ok_and(|headers| headers.ipv4_src == CHECKER) =>
            {
                Some(Vec::new())
            }
            _ => None,
        }
    }

    /// The way there to the next host.
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

    /// The way to some host, instead of to the controller.
    fn to_anyone(&self, flow_mod: &FlowMod) -> FlowMod {
        let host = (flow_mod.cookie as usize) % self.hosts.len();
        let apply =
            vec![Action::SetField(SetField::EthDst(mac_of(host))), Action::SetField(SetField::Ipv4Dst(ipv4_of(host)))];
        let metadata = Some(Masked { value: 1, mask: 1 });
        let instructions = Instructions { metadata, goto: Some(TableId(1)), ..Instructions::apply(apply) };
        FlowMod { instructions, ..flow_mod.clone() }
    }

    /// The services a controller is told to want.
    pub(crate) fn sabotage_services(&self, wanted: &Services) -> Services {
        let mut told = wanted.clone();
        if self.saboteur.is_doing(Sabotage::NeverDrains) {
            told.pools.iter_mut().flat_map(|pool| &mut pool.members).for_each(|member| member.is_enabled = true);
        }
        told
    }
}

fn is_refusal(data: &[u8]) -> bool {
    let is_error =
        frame::parse(data).is_ok_and(|headers| headers.ip_proto == protocol::ICMP) && data.get(34) == Some(&3);
    is_error || frame::segment(data).is_ok_and(|segment| segment.is_some_and(|one| one.has(frame::flags::RST)))
}
