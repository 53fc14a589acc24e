//! Mutants of hosts and ports.

use control::{Config, PortRoles};
use net::Time;
use openflow::{Action, BufferId, Envelope, Message, PacketIn, PacketOut, PortNo, Xid, frame, headers::ether};

use super::Mutant;
use crate::generate::ipv4_of;
use crate::plan::End;
use crate::simulation::{Event, Simulation, mac_of};

/// Returns whether a packet is the ARP reply of a host to a request of the controller.
pub(super) fn is_reply_to_controller(packet: &PacketIn) -> bool {
    frame::parse(&packet.data)
        .is_ok_and(|headers| headers.eth_type == ether::ARP && headers.arp_op == 2 && headers.ipv4_dst.is_unspecified())
}

impl Simulation {
    pub(crate) fn mutate_config(&self, mut config: Config) -> Config {
        match self.injector.mutant {
            Some(Mutant::IgnoresPortRoles) => {
                config.port_roles = PortRoles::default();
                config.pins_hosts = false;
            }
            Some(Mutant::MovesPinnedHosts) => config.pins_hosts = false,
            Some(Mutant::NeverForgetsHosts) => {
                (config.host_idle_timeout, config.host_port_down_timeout) = (Time::MAX, Time::MAX);
            }
            _ => {}
        }
        config
    }

    /// Sends an ARP reply to its target, as it is.
    pub(super) fn relay_reply(&mut self, data: &[u8]) {
        let Ok(headers) = frame::parse(data) else { return };
        let is_reply = headers.eth_type == ether::ARP && headers.arp_op == 2;
        let mut hosts = 0..self.hosts.len();
        let target = hosts.find(|host| (ipv4_of(*host), mac_of(*host)) == (headers.ipv4_dst, headers.eth_dst));
        let Some(host) = target.filter(|_| is_reply) else { return };
        let End::Switch(switch, port) = self.cables[host].ends[1] else { return };
        let message = Message::PacketOut(PacketOut {
            buffer: BufferId::NO_BUFFER,
            in_port: PortNo::CONTROLLER,
            actions: vec![Action::output(port)],
            data: data.to_vec(),
        });
        let envelope = Box::new(Envelope { xid: Xid(0xffff_0001), message });
        self.schedule(self.now, Event::Injected { switch, envelope });
    }
}
