//! MRC, multipath reliable connection: the packets of a flow rotate over a set of paths that is
//! spread equally over the planes of the network (mechanisms-2.md P33; Araujo et al., arXiv
//! 2605.04333, from a rendering by others; OCP headers of the MRC interface; the specification was
//! not available).
//!
//! A connection has a set of entropy values (EVs), the same number in each plane, and some in
//! reserve. Routes are static and chosen by the source: an EV is a path of the intact network. The
//! edge keeps the state that the sending network card has, separately for each flow.
//!
//! - A packet takes the next plane in turn, and in it the next GOOD path.
//! - A path whose packet was marked or trimmed is set to SKIP: it misses one turn. A mark means a
//!   better path, not a lower rate. The repetition of a packet does not take the path of the copy
//!   before it.
//! - A packet lost without a trim makes its path ASSUMED_BAD at once. A reserve path of the same
//!   plane replaces it, because a shift between planes becomes congestion at the receivers.
//! - Probes test paths that are ASSUMED_BAD; after `successes` replies in a row a path is GOOD
//!   again. At least `ev_min_active` paths remain in use, bad or not.
//! - Paths that routing reports as dead are DENIED until they return.
//!
//! The plane of a path is its first link: the port of a host with several links, the uplink of a
//! leaf.
//!
//! Readings where the source is silent. A mark lasts one turn, and three probes in a row bring a
//! path back; the size of the reserve, the interval of probes and the minimum of active paths are
//! readings too. If all paths of a plane miss their turn, so does the plane. A flow probes its
//! paths only while it sends, one after the other, each once per `probe`; a probe without a reply
//! by its next turn is lost. Replies take a random path, since they test one direction.
//! Acknowledgements take one path per plane, by the hash of the flow, in random order. A path is
//! blamed for the lowest packet without an acknowledgement, unless this packet left less than an
//! empty round trip ago (then another was lost).
//!
//! Pitfalls: it needs switches that trim (`[switch] trimming = true`). Without, a full queue looks
//! like a broken path. MRC turns marking off at the last hop; if last hops mark, an incast makes
//! every path miss turns. Planes stay equal even if one has lost half its links: then that plane
//! limits the flow. If only some pairs of hosts lose packets at a switch, probes between leaves may
//! not meet the fault.
//!
//! - Helps: on networks of several planes with switches that trim: a silently broken path is left
//!   after one loss, and all planes carry the same.
//! - Hurts: where switches drop instead of trimming; where one plane is slower than the others;
//!   with receivers that need packets in order.

mod ev_set;

use net::Time;
use net::routes::ClassIx;

use self::ev_set::{EvSet, Sizes};
use crate::dataplane::common::{Branches, FlowTable, KnownLive, PathIndex, SentPaths, is_live, remembered};
use crate::dataplane::{Control, ControlArrival, Cx, EdgeBalancer, EdgeEnv, PacketView, PathFeedback, PathLoss, Paths};
use crate::entry::{Entry, Granularity};
use crate::hash::{mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("mrc", "MRC")
    .summary("Rotates a flow's packets over equally many paths of every plane, and replaces paths that lose packets.")
    .source("P33; MRC, arXiv 2605.04333")
    .granularity(Granularity::Packet)
    .senses("ECN echoes, trims and losses per path, probes")
    .params(&[
        Param::count("set", 1..=4096, "128")
            .unit("paths")
            .doc("Paths in use by a flow, divided equally among planes, at least one of each; published: 128 to 256."),
        Param::count("reserve", 0..=4096, "32")
            .unit("paths")
            .doc("Further paths of a flow that replace bad ones of their plane, divided among planes (a reading)."),
        Param::count("ev_min_active", 1..=4096, "1")
            .unit("paths")
            .doc("Paths of a flow that stay in use even if they lose packets (a reading)."),
        Param::scaled("probe", "4rtt")
            .doc("Time between two probes of a bad path; a reply that takes longer is lost (a reading)."),
        Param::count("successes", 1..=100, "3")
            .unit("probes")
            .doc("Probes in a row with a reply after which a bad path is used again (a reading)."),
        Param::count("probe_bytes", 40..=1500, "64").unit("bytes").doc("Size of a probe and of its reply."),
    ])
    .example("mrc:set=64,reserve=16")
    .edge(|env, params| Box::new(Mrc::new(env, params)));

/// Time between two probes of a flow, at the shortest.
const PROBE_GAP_MIN: Time = Time::from_ns(100);

/// Bit of [`Control::word`] that distinguishes replies; below it are the number of the probe and
/// the path.
const REPLY: u32 = 1 << 31;

struct Mrc {
    sizes: Sizes,
    successes: u8,
    probe: Time,
    probe_bytes: u16,
    /// Packets of a flow whose paths are remembered.
    remembered: usize,
    base_rtt: Box<[Time]>,
    branches: Branches,
    live: KnownLive,
    flows: FlowTable<Flow>,
    drawn: Vec<u16>,
}

// In two lines of a cache instead of three.
#[repr(align(64))]
#[derive(Clone, Default)]
struct Flow {
    /// Hash of the flow. Flow numbers are used again.
    hash: u64,
    /// Its destination; `None` before the first packet.
    to: Option<ClassIx>,
    set: EvSet,
    /// Value of [`KnownLive::changes`] that the set conforms to.
    changes: u32,
    sent: SentPaths,
    probe_at: Time,
}

impl Flow {
    fn is_to(&self, class: ClassIx) -> bool {
        self.to == Some(class)
    }
}

impl Mrc {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Mrc {
        let index = PathIndex::outward(env);
        let size = |name| params.count(name) as usize;
        Mrc {
            sizes: Sizes { active: size("set"), reserve: size("reserve"), min_active: size("ev_min_active") },
            successes: params.count("successes") as u8,
            probe: params.scaled("probe", &env.scale),
            probe_bytes: params.count("probe_bytes") as u16,
            remembered: remembered(env),
            base_rtt: env.base_rtt.into(),
            branches: Branches::new(env),
            live: KnownLive::new(&index),
            flows: FlowTable::new(),
            drawn: Vec::new(),
        }
    }

    /// Returns the path of an acknowledgement: one per plane, so that a fault of one plane delays
    /// the news of arrivals but cannot stop it.
    fn path_back(&self, cx: &mut Cx<'_>, packet: &PacketView, live: &[u16]) -> u16 {
        let planes = self.branches.to(packet.to);
        let drawn = live[cx.rng.next_below(live.len() as u64) as usize];
        let plane = planes.of(drawn).map_or(drawn..drawn, |plane| planes.paths(plane));
        let path = plane.start + reduce(mix(packet.hash), plane.len()) as u16;
        if is_live(live, path) { path } else { drawn }
    }

    /// Sends a probe of the next bad path of a flow that has some, if it is time.
    fn probe(&mut self, cx: &mut Cx<'_>, number: u32, to: ClassIx) {
        let flow = self.flows.slot(number);
        if flow.set.bad_count() == 0 || cx.now < flow.probe_at {
            return;
        }
        let gap = Time::from_ps(self.probe.as_ps() / u64::from(flow.set.bad_count())).max(PROBE_GAP_MIN);
        flow.probe_at = cx.now.saturating_add(gap);
        if let Some((path, probe)) = flow.set.next_probe() {
            let word = u32::from(probe) << 16 | u32::from(path);
            cx.send(Control { to, path, bytes: self.probe_bytes, is_ecn_capable: false, word, tag: number });
        }
    }
}

impl EdgeBalancer for Mrc {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let planes = self.branches.to(packet.to);
        self.live.note(packet.to, paths.live, planes.path_count());
        if !packet.is_data {
            return self.path_back(cx, packet, paths.live);
        }
        let changes = self.live.changes(packet.to);
        let flow = self.flows.slot(packet.flow);
        if !flow.is_to(packet.to) || flow.hash != packet.hash {
            (flow.hash, flow.to) = (packet.hash, Some(packet.to));
            flow.changes = changes;
            flow.probe_at = cx.now;
            flow.sent.begin(self.remembered, packet, &paths);
            flow.set.draw(cx.rng, planes, paths.live, &self.sizes, &mut self.drawn);
        } else if flow.changes != changes {
            flow.changes = changes;
            flow.set.conform(paths.live, &self.sizes);
        }
        let before = if packet.is_retransmission { flow.sent.path_of(packet.seq) } else { None };
        let path = flow.set.pick_other_than(before).unwrap_or_else(|| {
            // All paths of the set are dead, but others are not.
            flow.set.draw(cx.rng, planes, paths.live, &self.sizes, &mut self.drawn);
            flow.set.pick().unwrap_or(paths.live[0])
        });
        flow.sent.note(packet.seq, path, cx.now);
        self.probe(cx, packet.flow, packet.to);
        path
    }

    fn on_feedback(&mut self, _: &mut Cx<'_>, feedback: &PathFeedback) {
        if !feedback.marked && !feedback.is_nack {
            return;
        }
        let flow = self.flows.slot(feedback.flow);
        if flow.is_to(feedback.to)
            && let Some(plane) = self.branches.to(feedback.to).of(feedback.path)
        {
            flow.set.skip(plane, feedback.path);
            if feedback.is_nack {
                flow.sent.note_trimmed(feedback.ack, feedback.path);
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &PathLoss) {
        let flow = self.flows.slot(loss.flow);
        if flow.is_to(loss.to)
            && let Some(path) = flow.sent.path_of_lost(loss.una, cx.now, self.base_rtt[loss.to.0 as usize])
            && let Some(plane) = self.branches.to(loss.to).of(path)
        {
            flow.set.assume_bad(plane, path, &self.sizes);
        }
    }

    fn on_control(&mut self, cx: &mut Cx<'_>, control: &ControlArrival) {
        let (from, planes) = (control.from, self.branches.to(control.from));
        if planes.count() == 0 {
            return;
        }
        if control.word & REPLY == 0 {
            let live = self.live.of(from, planes.path_count());
            let path = live[cx.rng.next_below(live.len() as u64) as usize];
            let (bytes, word) = (self.probe_bytes, control.word | REPLY);
            return cx.send(Control { to: from, path, bytes, is_ecn_capable: false, word, tag: control.tag });
        }
        let (path, probe) = (control.word as u16, (control.word & !REPLY) >> 16);
        let flow = self.flows.slot(control.tag);
        if flow.is_to(from)
            && let Some(plane) = planes.of(path)
        {
            flow.set.on_reply(plane, path, probe as u16, self.successes);
        }
    }
}

#[cfg(test)]
mod tests;
