//! Senders that have an old address of a host: their packets are passed on, and they learn the new
//! one.

use core::net::Ipv4Addr;
use net::Time;
use openflow::frame::arp_request;
use openflow::{MacAddr, PacketIn};

use crate::KnownHost;
use crate::limits::Expiring;
use crate::observer::{Cx, Observer};

/// Shortest time between two corrections of a sender about one host. Packets in flight before the
/// first one arrives need none.
const CORRECT_AGAIN: Time = Time::from_ms(20);
const CORRECTIONS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct StaleSenders {
    recent: Expiring<(Ipv4Addr, Ipv4Addr), CORRECTIONS_MAX>,
}

impl StaleSenders {
    /// Passes a packet on to a host that has another address now, and tells it to the sender.
    pub(super) fn redirect(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        (host, address): (&KnownHost, MacAddr),
        (sender, packet): (Ipv4Addr, &PacketIn),
    ) {
        let mut data = packet.data.clone();
        data[..6].copy_from_slice(&host.mac.0);
        cx.channels.packet_out(host.end(), data);
        let Some(sender) = observer.network.host_at(sender).map(|host| host.known) else { return };
        let between = (sender.ipv4, host.ipv4);
        if !self.recent.has(cx.now, &between) && !self.recent.is_full() {
            self.recent.add(between, cx.now.saturating_add(CORRECT_AGAIN));
            // An ARP request of a host for its own address replaces known entries and adds none.
            let mut correction = arp_request(address, host.ipv4, host.ipv4);
            correction[..6].copy_from_slice(&sender.mac.0);
            cx.channels.packet_out(sender.end(), correction);
        }
    }
}
