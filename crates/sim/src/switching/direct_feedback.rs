//! Congestion feedback from switches to the senders of wide-area traffic in their own site
//! (Annulus, SIGCOMM 2020), computed as by the congestion points of QCN (IEEE 802.1Qau).
//!
//! Links longer than a bound divide the network into sites. A port is near a packet if its switch
//! is in the site of the sender and the receiver is in another one. A port samples the packets that
//! it is near to: the more the queue exceeds its equilibrium, or grows, the more often, and the
//! higher the feedback.

use std::collections::VecDeque;

use net::{LinkIx, NodeIx, NodeKind, Time, Topology};

use crate::packet::{ACK, DATA, DIRECT, NO_PATH, Packet};
use crate::queue::NIL;
use crate::scenario::FeedbackRule;

/// Weight of the growth of the queue against its excess (802.1Qau, cpW).
const GROWTH_WEIGHT: i64 = 2;

/// Largest feedback: it has six bits.
const FEEDBACK_MAX: u8 = 63;

/// Bytes between two samples, by an eighth of the feedback (802.1Qau, 30.2.2).
const SAMPLE_BYTES: [i64; 8] = [150_000, 75_000, 50_000, 37_500, 30_000, 25_000, 21_500, 18_500];

#[derive(Clone, Copy, Debug)]
struct Sampling {
    bytes_left: i64,
    /// Queue length at the last sample, bytes.
    queued: i64,
}

pub(crate) struct DirectFeedback {
    /// Site of the switch at the near end of each link; [`NIL`] for a host.
    site_of_link: Box<[u32]>,
    site_of_host: Box<[u32]>,
    equilibrium: i64,
    sampling: Box<[Sampling]>,
}

impl DirectFeedback {
    pub(crate) fn new(topology: &Topology, rule: FeedbackRule) -> DirectFeedback {
        let sites = sites(topology, rule.local_delay);
        let links = || (0..topology.links().len() as u32).map(LinkIx);
        let site_of_link = links().map(|link| {
            let node = topology.link(link.reverse()).to;
            if topology.node(node).kind == NodeKind::Switch { sites[node.ix()] } else { NIL }
        });
        DirectFeedback {
            site_of_link: site_of_link.collect(),
            site_of_host: topology.hosts().iter().map(|host| sites[host.ix()]).collect(),
            equilibrium: i64::from(rule.equilibrium_bytes),
            sampling: links().map(|_| Sampling { bytes_left: SAMPLE_BYTES[0], queued: 0 }).collect(),
        }
    }

    /// Returns whether the port of a link is near to a packet.
    #[inline]
    pub(crate) fn is_near(&self, link: u32, packet: &Packet) -> bool {
        let site = |host: u32| self.site_of_host[host as usize];
        packet.is(DATA) && self.site_of_link[link as usize] == site(packet.src) && site(packet.src) != site(packet.dst)
    }

    /// Counts a packet that joined a queue, which has `queued` bytes with it. Returns the feedback
    /// for its sender, if it is sampled and the queue is too long.
    pub(crate) fn sample(&mut self, link: u32, bytes: u16, queued: u32) -> Option<u8> {
        let sampling = &mut self.sampling[link as usize];
        sampling.bytes_left -= i64::from(bytes);
        if sampling.bytes_left > 0 {
            return None;
        }
        let queued = i64::from(queued);
        let excess = queued - self.equilibrium + GROWTH_WEIGHT * (queued - sampling.queued);
        let most = self.equilibrium * (2 * GROWTH_WEIGHT + 1);
        let feedback = (excess.clamp(0, most) * i64::from(FEEDBACK_MAX) / most.max(1)) as u8;
        *sampling = Sampling { bytes_left: SAMPLE_BYTES[usize::from(feedback) / 8], queued };
        (feedback > 0).then_some(feedback)
    }

    /// Makes the packet that carries feedback to the sender of `sampled`, whose class is `class`.
    pub(crate) fn packet(sampled: &Packet, feedback: u8, class: u32, bytes: u16, is_ranked: bool) -> Packet {
        Packet {
            hash: balance::hash::mix(sampled.hash),
            flow: sampled.flow,
            src: sampled.dst,
            dst: sampled.src,
            class: class as u16,
            tag: u32::from(feedback),
            bytes,
            // Where edges choose paths, switches need one: the first.
            path: if is_ranked { 0 } else { NO_PATH },
            flags: ACK | DIRECT,
            ..Packet::BLANK
        }
    }
}

/// Returns the site of each node: nodes of one site hang together by links of at most this delay.
fn sites(topology: &Topology, local_delay: Time) -> Vec<u32> {
    let mut sites = vec![NIL; topology.nodes().len()];
    for start in (0..topology.nodes().len() as u32).map(NodeIx) {
        if sites[start.ix()] != NIL {
            continue;
        }
        sites[start.ix()] = start.0;
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for link in topology.out_links(node).iter().map(|link| topology.link(*link)) {
                if link.delay <= local_delay && sites[link.to.ix()] == NIL {
                    sites[link.to.ix()] = start.0;
                    queue.push_back(link.to);
                }
            }
        }
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u8; 0] = [];
    const RULE: FeedbackRule = FeedbackRule { local_delay: Time::from_us(100), equilibrium_bytes: 33_000 };

    /// Hosts 0 and 1 at one end of a link of 10 ms between two switches, 2 and 3 at the other; the
    /// link has number 0 in the direction from host 0.
    fn two_sites() -> Topology {
        net::spec::parse("dumbbell:n=2,bottleneck_delay=10ms").unwrap()
    }

    fn packet(src: u32, dst: u32) -> Packet {
        Packet { src, dst, bytes: 1500, flags: DATA, ..Packet::BLANK }
    }

    #[test]
    fn port_is_near_to_packets_that_leave_its_site() {
        let topology = two_sites();
        let feedback = DirectFeedback::new(&topology, RULE);
        let is_near = |link: LinkIx, src, dst| feedback.is_near(link.0, &packet(src, dst));
        assert!(is_near(LinkIx(0), 0, 2) && is_near(LinkIx(1), 2, 0));
        assert!(!is_near(LinkIx(1), 0, 2), "the switch of the other site");
        assert!(!is_near(LinkIx(0), 0, 1), "local traffic");
        let uplink = topology.out_links(topology.hosts()[0])[0];
        assert!(!is_near(uplink, 0, 2), "the interface of a host");
    }

    #[test]
    fn feedback_follows_excess_and_growth() {
        let mut feedback = DirectFeedback::new(&two_sites(), RULE);
        let mut after = |bytes: u32, queued: u32| {
            let samples = (0..bytes / 1500).filter_map(|_| feedback.sample(0, 1500, queued));
            samples.collect::<Vec<u8>>()
        };
        assert_eq!(after(148_500, 100_000), NONE);
        // (66 + 2 * 99) KB of at most 165 KB.
        assert_eq!(after(1_500, 99_000), [63]);
        // 66 KB without growth; after the largest feedback samples are 18,500 bytes apart.
        assert_eq!(after(19_500, 99_000), [25]);
        assert_eq!(after(37_500, 33_000), NONE, "it shrinks");
    }
}
