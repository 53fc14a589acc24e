//! Hostile hosts. Apart from their attacks they behave like other hosts.

use std::collections::VecDeque;

use core::net::Ipv4Addr;
use net::{RandomStream, Time};
use openflow::frame::{self, Lldp};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, PortNo};

use crate::generate::services::CHECKER;
use crate::generate::{ipv4_of, stream};
use crate::plan::{ActionKind, Attack};
use crate::simulation::{CHECKS, Event, Frame, Simulation, datapath_of, mac_of};

/// Number of probes that a host stores.
const STORED_MAX: usize = 8;

/// An attack in progress, from the start of its action to the end.
#[derive(Debug)]
pub(crate) struct AttackState {
    action: usize,
    host: usize,
    attack: Attack,
    interval: Time,
    rng: RandomStream,
    /// Discovery probes that the host has received.
    stored: VecDeque<Vec<u8>>,
    turn: u64,
}

impl Simulation {
    pub(crate) fn begin_attack(&mut self, action: usize) {
        let ActionKind::Attack { host, attack, interval } = self.plan.actions[action].what else { return };
        let rng = stream(self.plan.seed, &format!("attack.{}", self.plan.actions[action].number));
        self.attacks.push(AttackState { action, host, attack, interval, rng, stored: VecDeque::new(), turn: 0 });
        self.schedule(self.now, Event::Attack { action });
    }

    pub(crate) fn is_attacking(&self, host: usize, attack: Attack) -> bool {
        self.attacks.iter().any(|state| (state.host, state.attack) == (host, attack))
    }

    pub(crate) fn end_attack(&mut self, action: usize) {
        self.attacks.retain(|attack| attack.action != action);
        if let ActionKind::Attack { host, attack: Attack::Flood, .. } = self.plan.actions[action].what {
            // Its own address may have been evicted, and the forged ones age.
            self.hosts[host].flooded_until = self.now + self.bounds.forgotten;
        }
    }

    /// Sends the next frames of an attack.
    pub(crate) fn attack(&mut self, action: usize) {
        let Some(at) = self.attacks.iter().position(|attack| attack.action == action) else { return };
        let (host, interval) = (self.attacks[at].host, self.attacks[at].interval);
        for bytes in self.attack_frames(at) {
            self.report.attack_frames += 1;
            self.send_frame(host, 0, Frame::new(bytes));
        }
        self.after(interval, Event::Attack { action });
    }

    fn attack_frames(&mut self, at: usize) -> Vec<Vec<u8>> {
        let switches = self.plan.wiring.ports.len() as u64;
        let hosts = self.hosts.len() as u64;
        let AttackState { host, attack, ref mut rng, ref mut stored, ref mut turn, .. } = self.attacks[at];
        *turn += 1;
        match attack {
            Attack::ForgedProbes => {
                let switch = rng.next_below(switches) as usize;
                let port = PortNo(1 + rng.next_below(u64::from(self.plan.wiring.ports[switch].max(1))) as u32);
                let probe = Lldp { datapath: datapath_of(switch), port, ttl_s: 120, nonce: rng.next_u64() };
                vec![probe.build(mac_of(host))]
            }
            Attack::ReplayedProbes => stored.front().cloned().into_iter().collect(),
            Attack::Relay { .. } => Vec::new(), // Frames are relayed when they arrive.
            Attack::Flood => {
                let [a, b, c, d] = (rng.next_u64() as u32).to_be_bytes();
                let (mac, address) = (MacAddr([2, 0xee, a, b, c, d]), Ipv4Addr::new(172, 16 | b & 15, c, d));
                let target = if a & 1 == 0 { address } else { Ipv4Addr::new(172, 31, d, c) };
                vec![frame::arp_request(mac, address, target)]
            }
            Attack::Claims { victim } => {
                self.hosts[host].claims.insert(ipv4_of(victim));
                let target = rng.next_below(hosts) as usize;
                vec![claim(*turn, host, victim, target)]
            }
        }
    }

    /// Handles a discovery probe that a host has received.
    pub(crate) fn host_hears_probe(&mut self, host: usize, bytes: &[u8]) {
        let mut relayed_to = Vec::new();
        for attack in &mut self.attacks {
            match attack.attack {
                Attack::ReplayedProbes if attack.host == host => {
                    attack.stored.push_back(bytes.to_vec());
                    attack.stored.truncate(STORED_MAX);
                }
                Attack::Relay { with } if attack.host == host => relayed_to.push(with),
                Attack::Relay { with } if with == host => relayed_to.push(attack.host),
                _ => {}
            }
        }
        for other in relayed_to {
            self.report.attack_frames += 1;
            self.send_frame(other, 0, Frame::new(bytes.to_vec()));
        }
    }
}

/// Returns a frame by which a host claims the address of another one, or speaks for it.
fn claim(turn: u64, host: usize, victim: usize, target: usize) -> Vec<u8> {
    let (mac, address) = (mac_of(host), ipv4_of(victim));
    match turn % 4 {
        0 => frame::arp_request(mac, address, address),
        1 => frame::arp_reply(mac, address, mac_of(target), ipv4_of(target)),
        2 => frame::arp_request(mac, address, ipv4_of(target)),
        // A report about the server of the victim.
        _ => frame::build(&Headers::ipv4([mac, CHECKS.mac], [address, CHECKER], protocol::UDP, [4000, 9876]), 20),
    }
}
