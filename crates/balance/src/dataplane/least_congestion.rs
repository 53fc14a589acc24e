//! Least congestion: each new flow takes the path whose busiest link is least utilised
//! (mechanisms.md P28; F0 section 3.2).
//!
//! F0's pickers are in a controller that knows the network. So every edge here reads the
//! utilisation of every link immediately, without messages. Ties, mostly between idle paths, are
//! broken at random.
//!
//! Pitfalls: utilisation lags by the time constant of the estimators, so flows that begin together
//! all take the path that was idle before. Flows never move, regardless of later load.
//!
//! - Helps: as a yardstick for decisions at the start of flows: it has knowledge that no real edge
//!   has.
//! - Hurts: when many flows begin together, since all take the path that was idle before; flows
//!   never move afterwards.

use crate::dataplane::common::{ALPHA, PathLinks, T_DRE, at_start, least, sensing};
use crate::dataplane::{EdgeHooks, Needs};
use crate::entry::Entry;

pub(crate) static ENTRY: Entry = Entry::declare("least-congestion", "Least congestion")
    .summary("Gives each new flow the path whose busiest link is least utilised.")
    .source("P28 least congestion; F0 section 3.2")
    .senses("utilisation of every link of a path")
    .params(&[T_DRE, ALPHA])
    .needs(|scale, params| Needs {
        sensing: Some(sensing(scale, params, 8)),
        reads_all_links: true,
        ..Needs::default()
    })
    .edge(|env, _| {
        let links = PathLinks::new(env);
        at_start(EdgeHooks::default(), move |cx, packet, paths| {
            let busiest = |path: u16| {
                let links = links.of(packet.to, path).iter();
                links.map(|link| cx.ports.utilisation(*link)).fold(0.0, f64::max)
            };
            least(cx.rng, paths.live.iter().map(|path| (busiest(*path), *path))).unwrap_or(paths.live[0])
        })
    });

#[cfg(test)]
mod tests {
    use net::routes::ClassIx;

    use crate::dataplane::testing::{Bench, packet};

    fn bench() -> Bench {
        let mut bench = Bench::edge_on("least-congestion", "fat-tree:k=4", 0);
        bench.live = (0..4).collect();
        bench
    }

    /// Makes a packet to another pod.
    fn far(flow: u32) -> crate::dataplane::PacketView {
        crate::dataplane::PacketView { to: ClassIx(2), ..packet(flow) }
    }

    #[test]
    fn busiest_link_counts_at_any_position() {
        let mut bench = bench();
        for (path, hop, utilisation) in [(0, 2, 0.9), (1, 1, 0.3), (1, 3, 0.2), (2, 1, 0.5), (3, 2, 0.4)] {
            bench.load((2, path), hop, utilisation);
        }
        // Hop 3, down to the destination, is shared below one aggregation: 0.2 for 0 and 1.
        assert!((0..50).all(|flow| bench.choose_path(&far(flow), None) == 1));
        assert_eq!(bench.choose_path(&far(1), Some(0)), 0, "flows stay");
        bench.live = vec![0, 2, 3];
        assert!((0..50).all(|flow| bench.choose_path(&far(flow), None) == 3));
    }

    #[test]
    fn idle_paths_share_new_flows_evenly() {
        let mut bench = bench();
        bench.load((2, 1), 1, 0.1);
        let hits: [u32; 4] = bench.hits((0..3000).map(far));
        assert!(hits[1] == 0 && [0, 2, 3].iter().all(|path| (900..1100).contains(&hits[*path])), "{hits:?}");
    }
}
