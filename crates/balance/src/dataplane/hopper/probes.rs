//! Probes to far edges, and replies to those of other edges.

use net::routes::ClassIx;
use net::{HostIx, LinkIx};

use crate::dataplane::common::PathIndex;
use crate::dataplane::common::probe_paths::{longer_ps, ways_back};
use crate::dataplane::{Control, ControlArrival, Cx, EdgeEnv};

/// Size of a probe and of its reply on the wire, bytes.
pub(super) const PROBE_BYTES: u16 = 64;

/// The second word of a probe or a reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Tag {
    pub(super) is_reply: bool,
    pub(super) number: u8,
    /// Distinguishes probes of a flow from its earlier ones, 9 bits.
    pub(super) generation: u16,
    /// Number of the flow's receiver; in a reply the queueing delay of its link. 20 bits.
    pub(super) value: u32,
}

pub(super) const GENERATIONS: u16 = 1 << 9;
pub(super) const VALUE_MAX: u32 = (1 << 20) - 1;

impl Tag {
    pub(super) fn pack(self) -> u32 {
        u32::from(self.is_reply) << 31
            | u32::from(self.number) << 29
            | u32::from(self.generation) << 20
            | self.value.min(VALUE_MAX)
    }

    pub(super) fn unpack(tag: u32) -> Tag {
        let generation = (tag >> 20) as u16 % GENERATIONS;
        Tag { is_reply: tag >> 31 != 0, number: (tag >> 29 & 3) as u8, generation, value: tag & VALUE_MAX }
    }
}

/// Sends a probe or a reply on a path to an edge.
pub(super) fn send(cx: &mut Cx<'_>, (to, path): (ClassIx, u16), flow: u32, tag: Tag) {
    let tag = tag.pack();
    cx.send(Control { to, path, bytes: PROBE_BYTES, is_ecn_capable: false, word: flow, tag });
}

/// Paths of replies, and times that probes do not take but data packets do.
pub(super) struct Prober {
    /// Unit of queueing delays in replies, the same at all edges.
    unit_ps: u64,
    /// Additional time of a data packet and its ACK over a probe and its reply, by class.
    longer_ps: Vec<u64>,
    inward: PathIndex,
    /// Reverse path of every path that leads here, by path of `inward`.
    back: Vec<u16>,
    /// Links to the hosts of this edge, in the order of hosts.
    hosts: Vec<(HostIx, LinkIx)>,
}

impl Prober {
    pub(super) fn new(env: &EdgeEnv<'_>) -> Prober {
        let inward = PathIndex::inward(env);
        let classes = (0..env.path_counts.len() as u32).map(ClassIx);
        let hosts = (0..env.topology.hosts().len() as u32).map(HostIx);
        let own = hosts.filter(|host| env.routes.class_of(*host) == env.class);
        Prober {
            unit_ps: (env.scale.base_rtt.as_ps() / 256).max(1),
            longer_ps: classes.map(|class| longer_ps(env, class, u32::from(PROBE_BYTES))).collect(),
            back: ways_back(env, &inward),
            inward,
            hosts: own.filter_map(|host| Some((host, env.routes.last_link(host)?))).collect(),
        }
    }

    /// Replies to a probe of another edge over the same cables.
    pub(super) fn reply(&self, cx: &mut Cx<'_>, probe: &ControlArrival, tag: Tag) {
        let Some(path) = self.inward.get(probe.from, probe.path).and_then(|at| self.back.get(at)) else { return };
        let receiver = self.hosts.binary_search_by_key(&HostIx(tag.value), |(host, _)| *host);
        let queueing_ps = receiver.map_or(0, |at| cx.ports.queueing_delay(self.hosts[at].1).as_ps());
        let value = (queueing_ps / self.unit_ps).min(u64::from(VALUE_MAX)) as u32;
        send(cx, (probe.from, *path), probe.word, Tag { is_reply: true, value, ..tag });
    }

    /// Returns the time that a data packet and its ACK take more than a probe and this reply.
    pub(super) fn additional_ps(&self, from: ClassIx, reply: Tag) -> Option<u64> {
        let longer_ps = self.longer_ps.get(from.0 as usize)?;
        Some(longer_ps.saturating_add(u64::from(reply.value).saturating_mul(self.unit_ps)))
    }
}
