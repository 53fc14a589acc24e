//! ConWeave: the source edge reroutes a flow as soon as its path shows congestion, and the
//! destination edge puts the packets back in order (mechanisms.md P27; Song, Khooi, Joshi, Choi,
//! Li, Chan, SIGCOMM 2023).
//!
//! The source (`source.rs`) requests a reply from the destination about once per round trip. Each
//! request begins an *epoch* in *phase 0*. A reply within base RTT + `extra` indicates a good path:
//! the next packet sends a new request. Without such a reply, the next packet is the TAIL, the last
//! on the old path, and later packets are *phase 1* on a new path: the first of two random ones
//! that is not paused, or the old one if both are paused. No second reroute begins before the
//! destination sends CLEAR. A flow idle for `expiry` begins an epoch on a newly picked path.
//!
//! The destination (`destination.rs`) holds phase-1 packets until the TAIL has arrived, and sends
//! CLEAR. If the TAIL is lost, the destination stops waiting at its expected arrival: as long after
//! the last phase-0 packet as the TAIL left after it, plus `flush_extra`. Without a phase-0 packet
//! of the epoch, it waits `wait` + `flush_extra`. Each phase-0 packet renews the estimate. For a
//! packet marked by ECN it sends NOTIFY, and the source pauses the path.
//!
//! Both ends identify flows by the hash of the five-tuple in addition to their number, and use the
//! format of `tag.rs`. ACKs take paths by hash.
//!
//! Readings where the paper is silent or public code differs. The base RTT of a request is from
//! edge to edge, as in public code, but includes the time to send a full packet there and a control
//! packet back in addition to the delays. The published `extra` is half of the base RTT and also
//! half of a queue at its marking threshold: it scales with the base RTT here (with the queue,
//! CONGA's testbed at 40 Gb/s has a mean slowdown of 6.3 instead of 3.9, and 10 Gb/s networks are
//! unchanged). The first packet of a newer epoch releases held packets before it continues itself
//! (public code forwards it immediately). A flow whose path died starts again, since nothing on
//! that path can still arrive. Control packets take the last path used to that edge, which was live
//! a moment ago, and have no priority (the published ones have that of ACKs). As published, packets
//! of an epoch that has ended send no NOTIFY, and marks of all other packets send one.
//!
//! Pitfalls: a lost TAIL or CLEAR leaves the flow on its path until it idles for `expiry`. An
//! `expiry` shorter than the difference between paths mixes epochs. Bursts distort the estimate,
//! and an early release is reordering. Requests that queue behind the flow's own burst are late and
//! cause reroutes.
//!
//! - Helps: with RDMA, which suffers from reordering: packets are put in order before hosts see
//!   them.
//! - Hurts: where requests queue behind the flow's own burst and cause needless reroutes; where its
//!   control packets are lost.

use crate::dataplane::common::{FlowTable, PathIndex, crossing};
use crate::dataplane::{
    Arrival, Control, ControlArrival, Cx, Delivery, EdgeBalancer, EdgeEnv, EdgeHooks, PacketView, Paths,
};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};
use net::routes::ClassIx;
use net::{LinkIx, Time};

use destination::Destination;
use source::{Pauses, Source};
use tag::{Message, Tag, Ticks};

mod destination;
mod source;
mod tag;
#[cfg(test)]
mod tests;

pub(crate) static ENTRY: Entry = Entry::declare("conweave", "ConWeave")
    .summary(
        "Edges reroute flows whose path replies late, and hold packets of the new path back until the old \
         one is empty.",
    )
    .source("P27; ConWeave, SIGCOMM 2023")
    .granularity(Granularity::MovableFlow)
    .senses("round trips between edges, ECN marks at the far edge")
    .params(&[
        Param::scaled("extra", "0.5rtt").doc(
            "A reply is timely within the round trip between the edges and this; published: 4us, where hosts \
             have a base RTT of 8 us (and a queue at its marking threshold takes 8 us too: `0.5hop` is the other \
             reading).",
        ),
        Param::scaled("pause", "2rtt").doc("Time for which a path is not picked after a NOTIFY; published: 16us."),
        Param::scaled("flush_extra", "2rtt")
            .doc("Grace beyond the estimated arrival of the TAIL; published: 16us, and 64us for lossless fat-trees."),
        Param::scaled("wait", "25rtt")
            .doc("Wait for a TAIL without an estimate; published: 200us in two tiers, 300us and 600us in three."),
        Param::scaled("expiry", "37.5rtt")
            .doc("A flow idle for longer may change path freely; published: 300us in two tiers, 1000us in three."),
        Param::scaled("aging", "250rtt").doc("Idle time after which the far edge forgets a flow; published: 2ms."),
    ])
    .example("conweave:pause=1rtt")
    .edge(|env, params| Box::new(ConWeave::new(env, params)));

/// Size of a control packet on the wire, bytes.
const CONTROL_BYTES: u16 = 64;

/// Returns the round trip of a request to the edge of `to` in an empty network, first path.
fn request_rtt(env: &EdgeEnv<'_>, to: ClassIx) -> Time {
    let one_way = |link, bytes| crossing(env.topology, link, bytes);
    let there_and_back = |link: LinkIx| {
        one_way(link, env.scale.packet_bytes).saturating_add(one_way(link.reverse(), u32::from(CONTROL_BYTES)))
    };
    let links = env.routes.path(env.topology, env.edge, to, 0);
    links.into_iter().map(there_and_back).fold(Time::ZERO, Time::saturating_add)
}

struct ConWeave {
    source: Source,
    destination: Destination,
    /// Header of the packet whose path was chosen last.
    header: u32,
    path_counts: Vec<u16>,
    /// Last path to each class, of any packet.
    last_path: Vec<Option<u16>>,
}

impl ConWeave {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> ConWeave {
        let time = |name| params.scaled(name, &env.scale);
        let (extra, expiry) = (time("extra"), time("expiry"));
        // The value covers the whole network, so that both ends use the same unit.
        let longest = env.scale.base_rtt.saturating_add(extra).saturating_add(expiry);
        let ticks = Ticks::covering(longest);
        let classes = (0..env.path_counts.len() as u32).map(ClassIx);
        ConWeave {
            source: Source {
                ticks,
                patience: classes.map(|to| request_rtt(env, to).saturating_add(extra)).collect(),
                expiry,
                pause: time("pause"),
                pauses: Pauses::new(PathIndex::outward(env)),
                flows: FlowTable::new(),
            },
            destination: Destination {
                ticks,
                flush_extra: time("flush_extra"),
                default_wait: time("wait"),
                aging: time("aging"),
                flows: FlowTable::new(),
            },
            header: 0,
            path_counts: env.path_counts.to_vec(),
            last_path: vec![None; env.path_counts.len()],
        }
    }

    fn tell(&self, cx: &mut Cx<'_>, to: ClassIx, message: Message) {
        let class = to.0 as usize;
        let path = self.last_path[class]
            .unwrap_or_else(|| cx.rng.next_below(u64::from(self.path_counts[class]).max(1)) as u16);
        let (word, tag) = message.pack();
        cx.send(Control { to, path, bytes: CONTROL_BYTES, is_ecn_capable: false, word, tag });
    }
}

impl EdgeBalancer for ConWeave {
    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { overlay: true, ..EdgeHooks::default() }
    }

    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let path = if packet.is_data {
            let (path, tag) = self.source.send(cx.now, cx.rng, packet, paths);
            self.header = tag.pack();
            path
        } else {
            self.header = 0;
            paths.hashed(packet)
        };
        self.last_path[packet.to.0 as usize] = Some(path);
        path
    }

    fn encapsulate(&mut self, _: &mut Cx<'_>, _: &PacketView, _: u16) -> u32 {
        std::mem::take(&mut self.header)
    }

    fn decapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, arrival: &Arrival) -> Delivery {
        let Some(tag) = Tag::unpack(arrival.tag).filter(|_| packet.is_data) else { return Delivery::Pass };
        let Some((delivery, reply)) = self.destination.receive(cx, packet, tag) else { return Delivery::Pass };
        if arrival.marked {
            self.tell(cx, arrival.from, Message::Notify(arrival.path));
        }
        if let Some(reply) = reply {
            self.tell(cx, arrival.from, reply);
        }
        delivery
    }

    fn on_control(&mut self, cx: &mut Cx<'_>, control: &ControlArrival) {
        match Message::unpack(control.word, control.tag) {
            Some(Message::RttReply(of)) => self.source.on_reply(cx.now, of),
            Some(Message::Clear(of)) => self.source.on_clear(of),
            Some(Message::Notify(path)) => self.source.on_notify(cx.now, control.from, path),
            None => (),
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, token: u64) {
        self.destination.on_timer(cx, token as u32);
    }
}
