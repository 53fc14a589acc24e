//! The load: writes packet-ins and matches responses. This is the hot path.

use openflow::wire;

use crate::fabric::Fabric;
use crate::fleet::Fleet;
use crate::options::{Load, Options, ResponseCriterion};
use crate::outstanding::OutstandingProbes;
use crate::{Error, probe, scan};

impl Fleet {
    #[inline]
    pub(crate) fn send_probe(&mut self, at: usize, now_ns: u64) -> bool {
        let fake = &mut self.switches[at];
        if self.fabric.nodes[at].hosts.is_empty() || !fake.channel.is_open() {
            return false;
        }
        let Some(n) = fake.outstanding.send(now_ns) else {
            self.tally.counts.not_sent += 1;
            return false;
        };
        let (source, destination) = self.fabric.pair(at, n);
        match self.options.response {
            ResponseCriterion::Service(_) => self.write_connection(at, n),
            ResponseCriterion::Arp => self.template.write_arp(source, destination.ip, &mut fake.channel.outbox),
            _ => self.template.write(source, destination, n, &mut fake.channel.outbox),
        }
        self.tally.counts.packet_ins += 1;
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
                    self.tally.counts.errors += 1;
                }
                self.last_control_ns = now_ns;
                self.control(at, message, now_ns);
            }
        }
    }

    fn reply_alike(&mut self, at: usize, kind: u8, message: &[u8]) {
        let outbox = &mut self.switches[at].channel.outbox;
        outbox.extend_from_slice(&[wire::VERSION, kind]);
        outbox.extend_from_slice(&message[2..]);
    }

    #[inline]
    fn packet_out(&mut self, at: usize, message: &[u8], now_ns: u64) {
        self.tally.counts.packet_outs += 1;
        match scan::packet_out(message) {
            Some(scan::Carried::Probe { source, n }) => match self.options.response {
                ResponseCriterion::PacketOut => self.answered(self.fabric.switch_of(source), n, None, now_ns),
                ResponseCriterion::Service(_) => self.connection_sent_on(at, source, n, message, now_ns),
                _ => {}
            },
            Some(scan::Carried::ArpReply { sender, target }) if self.options.response == ResponseCriterion::Arp => {
                match self.fabric.number(target, sender) {
                    Some((switch, n)) => {
                        let pairs = self.fabric.pairs(switch);
                        self.answered(Some(switch), n, Some(pairs), now_ns);
                    }
                    None => self.tally.counts.unmatched += 1,
                }
            }
            _ => self.control(at, message, now_ns),
        }
    }

    #[inline]
    pub(crate) fn answered(&mut self, switch: Option<usize>, n: u32, modulus: Option<u32>, now_ns: u64) {
        let Some(switch) = switch else {
            self.tally.counts.unmatched += 1;
            return;
        };
        let verdict = self.switches[switch].outstanding.answer(n, modulus, now_ns);
        self.tally.note(verdict, self.is_in_loop);
        self.touch(switch);
    }

    fn flow_mod(&mut self, at: usize, message: &[u8], now_ns: u64) {
        self.tally.counts.flow_mods += 1;
        if self.options.response == ResponseCriterion::FlowMod {
            self.match_rule(at, message, now_ns);
        }
        let must_apply = match self.options.response {
            ResponseCriterion::Service(_) => self.must_apply_rule(message),
            _ => self.options.applies_flow_mods,
        };
        if must_apply {
            self.control(at, message, now_ns);
        }
    }

    /// Finds the probe that a rule was installed for. Rules that name ports count at the switch the
    /// probe came from, which is the last one if a path is set up from its end. Other switches of
    /// the path get the same rule, which does not count.
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
        let (fabric, outstanding) = (&self.fabric, &self.switches[at].outstanding);
        let matches = |n: u32| {
            let (source, destination) = fabric.pair(at, n);
            let agrees = |wanted: Option<[u8; 4]>, is: [u8; 4]| wanted.is_none_or(|wanted| wanted == is);
            (rule.destination.is_some() || rule.mac.is_some())
                && agrees(rule.source, source.ip.octets())
                && agrees(rule.destination, destination.ip.octets())
                && rule.mac.is_none_or(|mac| mac == destination.mac.0)
        };
        if !fabric.nodes[at].hosts.is_empty()
            && let Some(n) = outstanding.oldest(matches)
        {
            self.answered(Some(at), n, None, now_ns);
        }
    }
}

/// Creates the probe table of a switch, with slots for the maximum number of outstanding probes and
/// for answered ones that may get duplicates.
pub(crate) fn outstanding_probes(
    options: &Options,
    fabric: &Fabric,
    switch: usize,
) -> Result<OutstandingProbes, Error> {
    let pairs = if fabric.nodes[switch].hosts.is_empty() { 1 } else { fabric.pairs(switch) };
    let sending = fabric.nodes.iter().filter(|node| !node.hosts.is_empty()).count().max(1);
    let waiting = match options.load {
        Load::Window(window) => window,
        // All probes that become due within the response timeout.
        Load::Rate(rate) => (rate * options.response_timeout.as_secs_f64() / sending as f64).ceil() as u32 + 1,
    };
    match options.response {
        // The pair of hosts is the only identification of an ARP request.
        ResponseCriterion::Arp if !fabric.nodes[switch].hosts.is_empty() && waiting > pairs => {
            Err(Error::TooFewPairs { waiting, pairs })
        }
        ResponseCriterion::Arp => Ok(OutstandingProbes::new(pairs)),
        _ => Ok(OutstandingProbes::new(waiting.saturating_mul(4).clamp(1_024, 1 << 24))),
    }
}
