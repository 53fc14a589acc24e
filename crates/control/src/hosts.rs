//! Hosts: learnt when they speak, asked for when somebody wants them; ARP is answered by the controller.
//!
//! A host is believed to be where its ARP packets come from. IPv4 packets may have come through a switch that has kept the
//! rules of an earlier life of this controller and is not connected, so that no discovery packet tells of it; ARP packets
//! no switch of ours passes on. So an IPv4 packet from an unknown host only makes the controller ask for it, out of the
//! port it came from.
//!
//! Nothing is flooded: a question for an unknown host leaves by ports without a switch behind them only, so it cannot
//! loop however the switches are wired.
//!
//! Whoever gets an answer sends at once: answers wait until rules lead both ways, or the first packets would be lost.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;
use net::Time;
use openflow::frame::{arp_reply, arp_request};
use openflow::{Headers, MacAddr};

use crate::KnownHost;
use crate::network::{CONTROLLER_MAC, End, Network};

const REQUEST: u16 = 1;
/// The same unknown host is asked for at most this often.
const ASK_AGAIN: Time = Time::from_ms(100);
/// Hosts asked for at once; more questions are not asked until these are old.
const ASKED_MAX: usize = 4096;
/// Answers wait for rules at most this long: some switch may not confirm for longer, or have no room, and packets may
/// find their way all the same.
const HELD: Time = Time::from_ms(500);

/// What is to be done about an ARP packet.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer {
    /// Nothing.
    Nothing,
    /// An answer to send when packets find their way.
    Send(Held),
    /// Send out of every edge port but the one it came from.
    AskEdges(Vec<u8>),
}

/// An answer, and between whom packets will go when it is there.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Held {
    /// Where the host that gets it is.
    pub(crate) to: End,
    /// Its address.
    pub(crate) asker: Ipv4Addr,
    /// The address it asked for.
    pub(crate) target: Ipv4Addr,
    pub(crate) frame: Vec<u8>,
}

/// Answers that wait for rules, with when they go in any case.
#[derive(Debug, Default)]
pub(crate) struct HeldAnswers(BTreeMap<(End, Ipv4Addr, Ipv4Addr), (Vec<u8>, Time)>);

impl HeldAnswers {
    /// Keeps an answer; the oldest question counts where it was asked more than once.
    pub(crate) fn hold(&mut self, now: Time, held: Held) {
        if self.0.len() < ASKED_MAX {
            let until = now.saturating_add(HELD);
            self.0.entry((held.to, held.asker, held.target)).or_insert((held.frame, until));
        }
    }
    /// When the next one goes in any case.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.0.values().map(|(_, until)| *until).min()
    }
    /// Those that `can_go`, and those that have waited long enough.
    pub(crate) fn take(
        &mut self,
        now: Time,
        mut can_go: impl FnMut(End, Ipv4Addr, Ipv4Addr) -> bool,
    ) -> Vec<(End, Vec<u8>)> {
        let is_due = |(to, asker, target): &(End, Ipv4Addr, Ipv4Addr), (_, until): &mut (Vec<u8>, Time)| {
            *until <= now || can_go(*to, *asker, *target)
        };
        let ready = self.0.extract_if(.., is_due);
        ready.map(|((to, ..), (frame, _))| (to, frame)).collect()
    }
}

/// Questions under way.
#[derive(Debug, Default)]
pub(crate) struct Arp {
    /// Passed on.
    asked: Asked,
    /// Asked for by the controller itself.
    sought: Asked,
}

/// Who has been asked for lately.
#[derive(Debug, Default)]
struct Asked(BTreeMap<Ipv4Addr, Time>);

impl Asked {
    fn may_ask(&mut self, now: Time, target: Ipv4Addr) -> bool {
        self.0.retain(|_, at| now < at.saturating_add(ASK_AGAIN));
        let is_new = self.0.len() < ASKED_MAX && !self.0.contains_key(&target);
        if is_new {
            self.0.insert(target, now);
        }
        is_new
    }
}

impl Arp {
    /// An ARP packet came in at `at`.
    pub(crate) fn packet(&mut self, now: Time, at: End, headers: &Headers, network: &Network) -> Answer {
        let (sender, target) = (headers.ipv4_src, headers.ipv4_dst);
        let known = network.find_host(target).and_then(|host| network.host(host)).map(|host| host.known);
        match known {
            // A host that asks for itself only tells where it is.
            Some(host) if headers.arp_op == REQUEST && sender != target => {
                let frame = arp_reply(host.mac, host.ipv4, headers.eth_src, sender);
                Answer::Send(Held { to: at, asker: sender, target, frame })
            }
            // An answer to a question we passed on goes to whoever asked.
            Some(host) if headers.arp_op != REQUEST && sender != target => {
                let frame = arp_reply(headers.eth_src, sender, host.mac, host.ipv4);
                Answer::Send(Held { to: (host.datapath, host.port), asker: host.ipv4, target: sender, frame })
            }
            None if headers.arp_op == REQUEST && is_unicast(target) && self.asked.may_ask(now, target) => {
                Answer::AskEdges(arp_request(headers.eth_src, sender, target))
            }
            _ => Answer::Nothing,
        }
    }

    /// A question to send out of a port where an IPv4 packet shows a host to be, if it has not just been asked (RFC 5227,
    /// section 1.1: whoever asks without an address of its own changes nobody's memory).
    pub(crate) fn seek(&mut self, now: Time, seen: &KnownHost) -> Option<Vec<u8>> {
        let question = || arp_request(CONTROLLER_MAC, Ipv4Addr::UNSPECIFIED, seen.ipv4);
        self.sought.may_ask(now, seen.ipv4).then(question)
    }
}

/// Hosts that seem to be at ports where none was known. A link that was dead when its ports were probed shows hosts far
/// behind it as soon as it is alive again: they are believed when another probe of such ports has not come back either.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<Ipv4Addr, (KnownHost, Time)>);

impl Claims {
    /// A host seems to be there; whether ports are to be probed, so that it can be believed at `due`.
    pub(crate) fn claim(&mut self, known: KnownHost, due: Time) -> bool {
        let is_new = match self.0.get(&known.ipv4) {
            Some((before, _)) => *before != known,
            None => self.0.len() < ASKED_MAX,
        };
        if is_new {
            self.0.insert(known.ipv4, (known, due));
        }
        is_new
    }
    /// When the next one can be believed.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.0.values().map(|(_, due)| *due).min()
    }
    /// Those that can be believed now, if their ports still seem to have no switch behind them.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<KnownHost> {
        self.0.extract_if(.., |_, (_, due)| *due <= now).map(|(_, (known, _))| known).collect()
    }
}

/// The host a packet shows to be at a port, if it can be believed.
pub(crate) fn speaker(at: End, headers: &Headers) -> Option<KnownHost> {
    let is_station = !headers.eth_src.is_multicast() && headers.eth_src != MacAddr::default();
    (is_station && is_unicast(headers.ipv4_src)).then_some(KnownHost {
        mac: headers.eth_src,
        ipv4: headers.ipv4_src,
        datapath: at.0,
        port: at.1,
    })
}

fn is_unicast(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback())
}
