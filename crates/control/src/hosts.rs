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
//! A question for an unknown host costs a packet at every edge port, so questions are rationed: one for a target at a time,
//! and an allowance for the port they come from ([`Ration`]).
//!
//! Whoever gets an answer sends at once: answers wait until rules lead both ways, or the first packets would be lost.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use core::net::Ipv4Addr;
use net::Time;
use openflow::frame::{arp_reply, arp_request};
use openflow::{Headers, MacAddr};

use crate::KnownHost;
use crate::network::{CONTROLLER_MAC, End, Network};
use crate::vip::Vips;

const REQUEST: u16 = 1;
/// A question for an unknown host is passed on once in this time, whoever asks. Hosts ask again after a second
/// (`net.ipv4.neigh.*.retrans_time_ms` of Linux): a question that was lost must be asked again then, and not be found to
/// have come a millisecond too early.
const PASS_ON_AGAIN: Time = Time::from_ms(900);
/// The controller itself asks for the same host at most this often: one packet at one port.
const SEEK_AGAIN: Time = Time::from_ms(100);
/// Hosts asked for at once; more questions are not asked until these are old.
const ASKED_MAX: usize = 4096;
/// Questions for unknown hosts a port may ask at once, and per second in the long run. Behind a port may be a switch with
/// many hosts that all start at once; more than that is somebody who looks for addresses that are not there.
const QUESTIONS_AT_ONCE: u64 = 128;
const QUESTIONS_PER_S: u64 = 32;
/// Answers that may wait for the hosts at one port.
const HELD_PER_PORT: usize = 512;
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
        let to = held.to;
        let at_port =
            (to, Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED)..=(to, Ipv4Addr::BROADCAST, Ipv4Addr::BROADCAST);
        if self.0.len() < ASKED_MAX && self.0.range(at_port).count() < HELD_PER_PORT {
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
    /// What each port may still ask.
    rations: BTreeMap<End, Ration>,
    /// Questions for unknown hosts that were not passed on.
    pub(crate) not_asked: u64,
}

/// Who has been asked for lately.
#[derive(Debug, Default)]
struct Asked {
    targets: BTreeMap<Ipv4Addr, Time>,
    /// The same, oldest first.
    order: VecDeque<(Time, Ipv4Addr)>,
}

impl Asked {
    /// Whether a target has not been asked for since `again` ago, and there is room to remember it.
    fn may_ask(&mut self, now: Time, again: Time, target: Ipv4Addr) -> bool {
        while let Some((at, oldest)) = self.order.front().copied().filter(|(at, _)| at.saturating_add(again) <= now) {
            self.order.pop_front();
            if self.targets.get(&oldest) == Some(&at) {
                self.targets.remove(&oldest);
            }
        }
        self.order.len() < ASKED_MAX && !self.targets.contains_key(&target)
    }
    fn note(&mut self, now: Time, target: Ipv4Addr) {
        self.targets.insert(target, now);
        self.order.push_back((now, target));
    }
}

/// A token bucket: [`QUESTIONS_AT_ONCE`] questions, refilled with [`QUESTIONS_PER_S`].
#[derive(Clone, Copy, Debug)]
struct Ration {
    /// Picoseconds of refilling that are left; one question costs [`Ration::QUESTION`].
    left: u64,
    at: Time,
}

impl Ration {
    const QUESTION: u64 = Time::from_s(1).as_ps() / QUESTIONS_PER_S;
    const FULL: u64 = Ration::QUESTION * QUESTIONS_AT_ONCE;

    fn full(now: Time) -> Ration {
        Ration { left: Ration::FULL, at: now }
    }
    fn take(&mut self, now: Time) -> bool {
        let refilled = self.left.saturating_add(now.saturating_sub(self.at).as_ps()).min(Ration::FULL);
        let is_enough = refilled >= Ration::QUESTION;
        (self.left, self.at) = (refilled - if is_enough { Ration::QUESTION } else { 0 }, now);
        is_enough
    }
}

impl Arp {
    /// An ARP packet came in at `at`.
    pub(crate) fn packet(&mut self, now: Time, at: End, headers: &Headers, network: &Network, vips: &Vips) -> Answer {
        let (sender, target) = (headers.ipv4_src, headers.ipv4_dst);
        if let Some(mac) = vips.mac_of(target) {
            let frame = arp_reply(mac, target, headers.eth_src, sender);
            let is_question = headers.arp_op == REQUEST && sender != target;
            return if is_question {
                Answer::Send(Held { to: at, asker: sender, target, frame })
            } else {
                Answer::Nothing
            };
        }
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
            None if headers.arp_op == REQUEST && is_unicast(target) && sender != target => {
                match self.may_pass_on(now, at, target) {
                    true => Answer::AskEdges(arp_request(headers.eth_src, sender, target)),
                    false => Answer::Nothing,
                }
            }
            _ => Answer::Nothing,
        }
    }

    /// Whether a question from a port is passed on; it is counted if not.
    fn may_pass_on(&mut self, now: Time, at: End, target: Ipv4Addr) -> bool {
        let ration = self.rations.entry(at).or_insert(Ration::full(now));
        let may = self.asked.may_ask(now, PASS_ON_AGAIN, target) && ration.take(now);
        if may {
            self.asked.note(now, target);
        } else {
            self.not_asked += 1;
        }
        may
    }
    /// A port is not there any more.
    pub(crate) fn forget_port(&mut self, end: End) {
        self.rations.remove(&end);
    }

    /// A question to send out of a port where an IPv4 packet shows a host to be, if it has not just been asked.
    pub(crate) fn seek(&mut self, now: Time, address: Ipv4Addr) -> Option<Vec<u8>> {
        if !self.sought.may_ask(now, SEEK_AGAIN, address) {
            return None;
        }
        self.sought.note(now, address);
        Some(question_for(address))
    }
}

/// Hosts that seem to be at ports where none was known. A link that was dead when its ports were probed shows hosts far
/// behind it as soon as it is alive again: they are believed when another probe of such ports has not come back either.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    hosts: BTreeMap<Ipv4Addr, (KnownHost, Time)>,
    /// How many there are at each port.
    at: BTreeMap<End, usize>,
}

impl Claims {
    /// A host seems to be there; whether ports are to be probed, so that it can be believed at `due`. No more than
    /// `per_port` at one port: whoever makes up addresses must not take the room of those at other ports.
    pub(crate) fn claim(&mut self, known: KnownHost, due: Time, per_port: usize) -> bool {
        let end = (known.datapath, known.port);
        let before = self.hosts.get(&known.ipv4).map(|(before, _)| *before);
        let has_room = || self.at.get(&end).is_none_or(|count| *count < per_port);
        let is_new = before.map_or(self.hosts.len() < ASKED_MAX, |before| before != known) && has_room();
        if is_new {
            self.forget(&known.ipv4);
            self.hosts.insert(known.ipv4, (known, due));
            *self.at.entry(end).or_insert(0) += 1;
        }
        is_new
    }
    fn forget(&mut self, address: &Ipv4Addr) -> Option<KnownHost> {
        let (known, _) = self.hosts.remove(address)?;
        if let Entry::Occupied(mut count) = self.at.entry((known.datapath, known.port)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(known)
    }
    /// When the next one can be believed.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.hosts.values().map(|(_, due)| *due).min()
    }
    /// Those that can be believed now, if their ports still seem to have no switch behind them.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<KnownHost> {
        let due = self.hosts.iter().filter(|(_, (_, due))| *due <= now).map(|(address, _)| *address);
        let due: Vec<Ipv4Addr> = due.collect();
        due.iter().filter_map(|address| self.forget(address)).collect()
    }
}

/// A question of the controller's own (RFC 5227, section 1.1: whoever asks without an address of its own changes nobody's
/// memory).
pub(crate) fn question_for(address: Ipv4Addr) -> Vec<u8> {
    arp_request(CONTROLLER_MAC, Ipv4Addr::UNSPECIFIED, address)
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
