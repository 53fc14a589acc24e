//! The load itself: packet-ins written, answers recognised. This is what has to be fast.

use openflow::wire;

use crate::book::Book;
use crate::fabric::Fabric;
use crate::fleet::Fleet;
use crate::options::{Answer, Load, Options};
use crate::{Error, probe, scan};

impl Fleet {
    /// Writes a new probe of a switch; whether it could.
    #[inline]
    pub(crate) fn send_probe(&mut self, at: usize, now_ns: u64) -> bool {
        let fake = &mut self.switches[at];
        if self.fabric.nodes[at].hosts.is_empty() || !fake.channel.is_open() {
            return false;
        }
        let Some(n) = fake.book.send(now_ns) else {
            self.tally.withheld += 1;
            return false;
        };
        let (source, destination) = self.fabric.pair(at, n);
        match self.options.answer {
            Answer::Service(_) => self.write_connection(at, n),
            Answer::Arp => probe::write_arp(source, destination.ip, &mut fake.channel.outbox),
            _ => self.template.write(source, destination, n, &mut fake.channel.outbox),
        }
        self.tally.sent += 1;
        true
    }

    #[inline]
    pub(crate) fn message(&mut self, at: usize, message: &[u8], now_ns: u64) {
        match (message[0], message[1]) {
            (wire::VERSION, scan::PACKET_OUT) if self.is_measuring => self.packet_out(at, message, now_ns),
            (wire::VERSION, scan::FLOW_MOD) if self.is_measuring => self.flow_mod(at, message, now_ns),
            (wire::VERSION, scan::BARRIER_REQUEST) if message.len() == wire::HEADER_LEN && self.is_measuring => {
                self.reply_alike(at, scan::BARRIER_REPLY, message);
            }
            (wire::VERSION, scan::ECHO_REQUEST) => self.reply_alike(at, scan::ECHO_REPLY, message),
            (_, kind) => {
                if kind == scan::ERROR {
                    self.tally.errors += 1;
                }
                self.last_control_ns = now_ns;
                self.control(at, message, now_ns);
            }
        }
    }

    /// Answers with the same bytes under another type.
    fn reply_alike(&mut self, at: usize, kind: u8, message: &[u8]) {
        let outbox = &mut self.switches[at].channel.outbox;
        outbox.extend_from_slice(&[wire::VERSION, kind]);
        outbox.extend_from_slice(&message[2..]);
    }

    #[inline]
    fn packet_out(&mut self, at: usize, message: &[u8], now_ns: u64) {
        self.tally.packet_outs += 1;
        match scan::packet_out(message) {
            Some(scan::Carried::Probe { source, n }) => match self.options.answer {
                Answer::PacketOut => self.answered(self.fabric.switch_of(source), n, None, now_ns),
                Answer::Service(_) => self.connection_sent_on(at, source, n, message, now_ns),
                _ => {}
            },
            Some(scan::Carried::ArpReply { sender, target }) if self.options.answer == Answer::Arp => {
                match self.fabric.number(target, sender) {
                    Some((switch, n)) => {
                        let pairs = self.fabric.pairs(switch);
                        self.answered(Some(switch), n, Some(pairs), now_ns);
                    }
                    None => self.tally.strays += 1,
                }
            }
            _ => self.control(at, message, now_ns),
        }
    }

    #[inline]
    pub(crate) fn answered(&mut self, switch: Option<usize>, n: u32, modulus: Option<u32>, now_ns: u64) {
        let Some(switch) = switch else {
            self.tally.strays += 1;
            return;
        };
        let verdict = self.switches[switch].book.answer(n, modulus, now_ns);
        self.tally.note(verdict, self.is_in_loop);
        self.touch(switch);
    }

    fn flow_mod(&mut self, at: usize, message: &[u8], now_ns: u64) {
        self.tally.flow_mods += 1;
        if self.options.answer == Answer::FlowMod {
            self.match_rule(at, message, now_ns);
        }
        let is_wanted = match self.options.answer {
            Answer::Service(_) => self.is_rule_wanted(message),
            _ => self.options.keeps_rules,
        };
        if is_wanted {
            self.control(at, message, now_ns);
        }
    }

    /// Looks for the probe a rule was made for. Rules that name its ports count at the switch the probe came from, which is
    /// the last one of a path set up from its end; other switches on the path get the same rule, and say nothing.
    fn match_rule(&mut self, at: usize, message: &[u8], now_ns: u64) {
        let Some(rule) = scan::flow_mod(message) else { return };
        if let (Some(source), Some(from), Some(to)) = (rule.source, rule.from_port, rule.to_port) {
            if self.fabric.switch_of(source) == Some(at)
                && let Some(n) = probe::number([from, to])
            {
                self.answered(Some(at), n, Some(probe::NUMBERS), now_ns);
            }
            return;
        }
        let (fabric, book) = (&self.fabric, &self.switches[at].book);
        let is_meant = |n: u32| {
            let (source, destination) = fabric.pair(at, n);
            let agrees = |wanted: Option<[u8; 4]>, is: [u8; 4]| wanted.is_none_or(|wanted| wanted == is);
            (rule.destination.is_some() || rule.mac.is_some())
                && agrees(rule.source, source.ip.octets())
                && agrees(rule.destination, destination.ip.octets())
                && rule.mac.is_none_or(|mac| mac == destination.mac.0)
        };
        if !fabric.nodes[at].hosts.is_empty()
            && let Some(n) = book.oldest(is_meant)
        {
            self.answered(Some(at), n, None, now_ns);
        }
    }
}

/// A switch's book: room for as many probes as may wait, and the answered ones a duplicate could come for.
///
/// # Errors
/// More ARP requests would wait than can be told apart.
pub(crate) fn book(options: &Options, fabric: &Fabric, switch: usize) -> Result<Book, Error> {
    let pairs = if fabric.nodes[switch].hosts.is_empty() { 1 } else { fabric.pairs(switch) };
    let sending = fabric.nodes.iter().filter(|node| !node.hosts.is_empty()).count().max(1);
    let waiting = match options.load {
        Load::Window(window) => window,
        // All that are due while one waits.
        Load::Rate(rate) => (rate * options.patience.as_secs_f64() / sending as f64).ceil() as u32 + 1,
    };
    match options.answer {
        // A pair of hosts is all that tells one from another.
        Answer::Arp if !fabric.nodes[switch].hosts.is_empty() && waiting > pairs => {
            Err(Error::TooFewPairs { waiting, pairs })
        }
        Answer::Arp => Ok(Book::new(pairs)),
        _ => Ok(Book::new(waiting.saturating_mul(4).clamp(1_024, 1 << 24))),
    }
}
