//! MP-HULA: HULA for Multipath TCP; switches keep the best next hops for each destination, and
//! flowlets of the subflows of one connection take different ones (mechanisms-2.md P38; Benet,
//! Kassler, Benson and Pongracz, NetCompute 2018).
//!
//! Probes, ages and estimators are those of HULA (`hula`), and hosts send as with `mptcp`. A switch
//! keeps for each destination the `best` (k) next hops of the lowest utilisation. A flowlet of
//! subflow i, or of its acknowledgements, takes the (i mod k)-th best at its start. Under HULA all
//! subflows follow the same next hop, and one connection has no more capacity than one path.
//!
//! Readings; only notes on the source were at hand, without the value of k.
//! - The source reads options of MPTCP to find the subflow of a packet. Here packets carry its
//!   number, in the order in which the sender opened subflows.
//! - More than one next hop per subflow is never used: k is at most the number of subflows. With
//!   one subflow the table has one row, and every decision and probe is that of HULA.
//! - A next hop is usable if its probe is not older than `age` and routing has it. With fewer than
//!   k usable ones, i is taken modulo their number; without any, flowlets take a random next hop.
//! - A probe replaces the worst entry if it is lower. Equal ones keep their order, so that subflows
//!   do not change places in an idle network. Switches pass on only the probe of the best next hop:
//!   neighbours learn what the first subflow would find, not what the others find.
//!
//! - Helps: connections of several subflows use k paths that are the least utilised, rather than
//!   those that hashes collide on.
//! - Hurts: first subflows of all connections share the best next hop, so connections that are too
//!   short to open others gain nothing over HULA.

use net::{LinkIx, Time};

use super::hula::{self, Probing};
use super::mptcp;
use crate::dataplane::common::flowlets::{self, Flowlets};
use crate::dataplane::common::random_port;
use crate::dataplane::{Cx, Needs, NeighbourMessage, NextHops, PacketView, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("mp-hula", "MP-HULA")
    .summary("Sends flowlets of the subflows of a connection to different next hops, the least utilised by probes.")
    .source("P38; NetCompute 2018")
    .granularity(Granularity::Flowlet)
    .senses("utilisation of links, by probes from switch to switch; numbers of subflows")
    .params(&[
        BEST,
        mptcp::SUBFLOWS,
        mptcp::COUPLING,
        mptcp::OPEN_AFTER,
        mptcp::JOIN,
        hula::GAP,
        flowlets::MODE,
        flowlets::ENTRIES,
        hula::PROBE_INTERVAL,
        hula::AGE,
    ])
    .example("mp-hula:subflows=4,open_after=15000")
    .needs(|scale, params| Needs {
        sensing: Some(hula::sensing(scale, params)),
        messages: true,
        connection: mptcp::connection(params),
        ..Needs::default()
    })
    .switch(|env, params| Box::new(MpHula::new(env, params)));

/// Number of next hops among which subflows of one connection are divided.
const BEST: Param = Param::count("best", 1..=mptcp::SUBFLOWS_MAX as u64, "4")
    .doc("Next hops kept for each destination (k), at most the number of subflows; not published.");

struct MpHula {
    flowlets: Flowlets<u32>,
    probing: Probing,
    age: Time,
    /// Maximum number of entries for a class.
    best_max: usize,
    /// The best next hops for each destination class, in the order of their utilisation.
    best: Vec<Vec<Hop>>,
}

#[derive(Clone, Copy)]
struct Hop {
    link: LinkIx,
    utilisation: f64,
    /// Time at which the last probe came from it.
    heard: Time,
}

impl Hop {
    fn is_fresh(&self, now: Time, age: Time) -> bool {
        now.saturating_sub(self.heard) <= age
    }
}

/// Enters a next hop, unless `max` others are at least as good. Returns whether it is now the best.
fn enter(hops: &mut Vec<Hop>, hop: Hop, max: usize) -> bool {
    match hops.iter().position(|known| known.link == hop.link) {
        Some(at) => hops[at] = hop,
        None if hops.len() < max => hops.push(hop),
        None => match hops.last_mut() {
            Some(worst) if hop.utilisation < worst.utilisation => *worst = hop,
            _ => return false,
        },
    }
    hops.sort_by(|one, other| one.utilisation.total_cmp(&other.utilisation));
    hops[0].link == hop.link
}

impl MpHula {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> MpHula {
        let best_max = params.count(BEST.name).min(params.count(mptcp::SUBFLOWS.name)) as usize;
        MpHula {
            flowlets: Flowlets::from_params(params, &env.scale),
            probing: Probing::new(env, params),
            age: params.scaled(hula::AGE.name, &env.scale),
            best_max,
            best: (0..env.class_count).map(|_| Vec::with_capacity(best_max)).collect(),
        }
    }
}

impl SwitchBalancer for MpHula {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let (now, best) = (cx.now, &self.best[packet.to.0 as usize]);
        self.flowlets.position(now, packet, members.links, || {
            let fresh = best.iter().filter(|hop| hop.is_fresh(now, self.age));
            let mut usable = fresh.filter_map(|hop| members.links.iter().position(|link| *link == hop.link));
            let nth = usize::from(packet.subflow).checked_rem(usable.clone().count());
            let position = nth.and_then(|nth| usable.nth(nth));
            position.unwrap_or_else(|| random_port(cx.rng, members.links))
        })
    }

    fn on_start(&mut self, cx: &mut Cx<'_>) {
        self.probing.start(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, _: u64) {
        self.probing.probe(cx);
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, message: &NeighbourMessage) {
        let Some(probe) = self.probing.read(cx, message) else { return };
        let best = &mut self.best[probe.class];
        best.retain(|hop| hop.is_fresh(cx.now, self.age));
        let hop = Hop { link: probe.link, utilisation: probe.utilisation, heard: cx.now };
        if enter(best, hop, self.best_max) {
            self.probing.pass_on(cx, &probe);
        }
    }
}

#[cfg(test)]
mod tests {
    use net::RandomStream;
    use net::routes::ClassIx;

    use super::*;
    use crate::dataplane::testing::{Bench, needs, packet};

    const TIMES: &str = "gap=100us,gap_mode=exact,probe_interval=200us,age=600us";
    const FAMILY: &str = "leaf-spine:leaves=4,spines=6,hosts_per_leaf=4";

    fn bench(best: u32) -> Bench {
        Bench::switch_on(&format!("mp-hula:best={best},{TIMES}"), FAMILY, "leaf0", 1)
    }

    fn probe(link: LinkIx, class: u64, utilisation: f64) -> NeighbourMessage {
        NeighbourMessage { link: link.reverse(), words: [class, utilisation.to_bits()], bytes: 64 }
    }

    fn hear(bench: &mut Bench, utilisations: [f64; 6]) {
        for (link, utilisation) in bench.links.clone().into_iter().zip(utilisations) {
            bench.message(&probe(link, 1, utilisation));
        }
    }

    /// Returns the choices for new subflows of one connection.
    fn choices<const N: usize>(bench: &mut Bench, first_flow: u32) -> [usize; N] {
        std::array::from_fn(|i| bench.choose(&PacketView { subflow: i as u8, ..packet(first_flow + i as u32) }))
    }

    #[test]
    fn subflows_of_a_connection_take_the_best_next_hops_one_each() {
        let mut switch = bench(4);
        hear(&mut switch, [0.5, 0.1, 0.9, 0.3, 0.8, 0.4]);
        (0..20).for_each(|flow| assert_eq!(choices(&mut switch, 8 * flow), [1, 3, 5, 0, 1, 3, 5, 0]));
        // The best becomes the third, and one that was unknown the second.
        hear(&mut switch, [0.5, 0.45, 0.35, 0.3, 0.8, 0.6]);
        assert_eq!(choices(&mut switch, 180), [3, 2, 1, 5], "0 left before 5 became worse");
        assert_eq!(choices(&mut switch, 0), [1, 3, 5, 0], "flowlets go on");
        switch.wait(Time::from_us(101));
        assert_eq!(choices(&mut switch, 0), [3, 2, 1, 5]);
        for flow in [300, 310, 320] {
            hear(&mut switch, [0.3; 6]);
            assert_eq!(choices(&mut switch, flow), [3, 0, 1, 2], "equal ones keep their order");
        }
        let mut two = bench(2);
        hear(&mut two, [0.5, 0.1, 0.9, 0.3, 0.8, 0.4]);
        assert_eq!(choices(&mut two, 0), [1, 3, 1, 3]);
    }

    #[test]
    fn with_one_subflow_all_decisions_and_probes_are_those_of_hula() {
        for (seed, family, name, class) in [(1, FAMILY, "leaf0", 1), (2, "fat-tree:k=6", "pod0/agg0", 9)] {
            let [mut multi, mut hula] = [format!("mp-hula:subflows=1,{TIMES}"), format!("hula:{TIMES}")]
                .map(|spec| Bench::switch_on(&spec, family, name, class));
            let to = |flow| PacketView { to: ClassIx(class), ..packet(flow) };
            let mut rng = RandomStream::new(seed, "probes");
            let links = hula.topology().out_links(hula.node).to_vec();
            let mut passed = 0;
            for round in 0..6_000 {
                let (link, class) = (links[rng.next_below(links.len() as u64) as usize], rng.next_below(18));
                let message = probe(link, class, rng.next_below(8) as f64 / 8.0);
                let (wait, flow) = (Time::from_us(rng.next_below(90) * rng.next_below(2)), rng.next_below(50) as u32);
                let [of_multi, of_hula] = [&mut multi, &mut hula].map(|bench| {
                    bench.wait(wait);
                    bench.message(&message);
                    (std::mem::take(&mut bench.commands.messages), bench.choose(&to(flow)))
                });
                assert_eq!(of_multi, of_hula, "{name}, round {round}");
                passed += of_hula.0.len();
            }
            assert!(name == "leaf0" || passed > 1_000, "{passed} probes passed on");
        }
    }

    #[test]
    fn dead_next_hops_are_not_used() {
        let mut switch = bench(4);
        hear(&mut switch, [0.5, 0.1, 0.9, 0.3, 0.8, 0.4]);
        assert_eq!(choices(&mut switch, 0), [1, 3, 5, 0]);
        let dead = switch.remove(1);
        assert_eq!(choices(&mut switch, 0), [2, 2, 4, 0], "links 3 in place of 1; 3, 5, 0 as before");
        assert_eq!(choices(&mut switch, 100), [2, 4, 0, 2], "links 3, 5, 0 in turn");
        switch.restore(1, dead);
        assert_eq!(choices(&mut switch, 200), [1, 3, 5, 0]);
        // No probe comes over links 1, 3 and 5 any more, and the others are worse.
        for (link, utilisation) in [(0, 0.7), (2, 0.6), (4, 0.9)].repeat(4) {
            switch.wait(Time::from_us(200));
            let link = switch.links[link];
            switch.message(&probe(link, 1, utilisation));
        }
        assert_eq!(choices(&mut switch, 300), [2, 0, 4, 2], "three are left");
        switch.wait(Time::from_us(601));
        let hits: [u32; 6] = switch.port_hits((400..700).map(packet));
        assert!(hits.iter().all(|hits| *hits > 20), "none is fresh: {hits:?}");
    }

    #[test]
    fn needs_are_those_of_hula_and_mptcp() {
        let [both, hula, mptcp] =
            ["mp-hula:subflows=2,join=handshake", "hula", "mptcp:subflows=2,join=handshake"].map(needs);
        assert_eq!(both, Needs { connection: mptcp.connection, ..hula });
    }
}
