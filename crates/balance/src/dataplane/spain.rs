//! SPAIN: a few paths per pair of edges are computed in advance as VLANs; each flow takes one of
//! them at random (mechanisms.md P06; Mudigonda et al., NSDI 2010).
//!
//! Offline, once per run (`common/vlans.rs`): for every pair of edges up to `k` paths, each sharing
//! as few links as possible with the previous ones. The paths to one destination are packed into
//! few trees; trees of different destinations are merged while their union is free of loops. Paths
//! that do not fit into `vlans` VLANs are not used.
//!
//! Online: a flow takes a random usable VLAN of its destination and stays. If a sender's timer
//! expires, its VLAN becomes unusable for that destination for `retry`, and the flows there take
//! another.
//!
//! Readings: knowledge is kept per edge switch, not per host. k, the number of packings tried and
//! the retry time are not in the reference. All flows of an edge leave an unusable VLAN, not only
//! the one whose timer expired. If all VLANs are unusable, the one that has been so for longest is
//! taken. If routing itself knows that a path is dead, its VLAN is not usable; if no VLAN remains,
//! any live path represents the VLAN of the plain spanning tree that SPAIN falls back to.
//!
//! Paths are numbered shortest paths. This excludes SPAIN's longer detours, which it uses if there
//! are fewer than k shortest ones: between neighbours in tori, flattened butterflies and wide-area
//! networks, and inside a pod. A timeout caused by congestion looks like silence, and moves flows
//! too.
//!
//! - Helps: where switches cannot do ECMP but know VLANs; flows leave a VLAN whose path went
//!   silent.
//! - Hurts: where few shortest paths exist (longer detours are not modelled); under congestion,
//!   whose timeouts look like silence.

use std::sync::Arc;

use net::Time;
use net::routes::ClassIx;

use crate::dataplane::common::{Plan, Tagged, Vlans};
use crate::dataplane::{Cx, EdgeBalancer, Loss, PacketView, PathLoss, Paths};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("spain", "SPAIN")
    .summary("Sends each flow over a random one of several precomputed VLANs, and leaves those that fall silent.")
    .source("P06; NSDI 2010; F2")
    .granularity(Granularity::MovableFlow)
    .senses("timeouts")
    .params(&[
        Plan::K,
        Plan::VLANS,
        Plan::TRIALS,
        Param::scaled("retry", "1000rtt")
            .doc("Time for which a silent VLAN is not used: 100ms at a base RTT of 100 us."),
    ])
    .edge(|env, params| {
        let plan = Plan::from_params(params);
        let vlans = env.shared.get_or_make(|| Vlans::new(env.topology, env.routes, env.seed, &plan));
        let own_paths = vlans.offset(env.class, ClassIx(env.path_counts.len() as u32));
        let (own, retry) = (env.class, params.scaled("retry", &env.scale));
        Box::new(Spain { own, retry, vlans, unusable_until: vec![Time::ZERO; own_paths] })
    });

struct Spain {
    own: ClassIx,
    retry: Time,
    vlans: Arc<Vlans>,
    /// By path of this edge, numbered like [`Vlans::offset`].
    unusable_until: Vec<Time>,
}

impl Spain {
    /// Returns the live paths to a class, with the time until which each is unusable.
    fn candidates<'a>(&'a self, to: ClassIx, live: &'a [u16]) -> impl Iterator<Item = (u16, Time)> + 'a {
        let until = &self.unusable_until[self.vlans.offset(self.own, to)..];
        let tagged = self.vlans.paths(self.own, to).iter().zip(until);
        tagged.map(|(tagged, until)| (tagged.path, *until)).filter(|(path, _)| live.binary_search(path).is_ok())
    }
}

impl EdgeBalancer for Spain {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let now = cx.now;
        let mut usable = 0;
        let (mut chosen, mut first_to_retry) = (None, None);
        for (path, until) in self.candidates(packet.to, paths.live) {
            if until > now {
                first_to_retry = first_to_retry.min(Some((until, path))).or(Some((until, path)));
                continue;
            }
            if paths.current == Some(path) {
                return path;
            }
            // Reservoir sampling: every usable one is equally likely.
            usable += 1;
            if cx.rng.next_below(usable) == 0 {
                chosen = Some(path);
            }
        }
        let fallback = || first_to_retry.map(|(_, path)| path).or(paths.current);
        chosen.or_else(fallback).unwrap_or_else(|| paths.live[cx.rng.next_below(paths.live.len() as u64) as usize])
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &PathLoss) {
        if loss.loss != Loss::Timeout {
            return;
        }
        let is_silent = |tagged: &Tagged| tagged.path == loss.path;
        if let Some(at) = self.vlans.paths(self.own, loss.to).iter().position(is_silent) {
            let at = at + self.vlans.offset(self.own, loss.to);
            self.unusable_until[at] = cx.now.saturating_add(self.retry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn new_flows_take_every_vlan_evenly_and_stay() {
        let mut bench = Bench::edge("spain", 4);
        let mut hits = [0u32; 4];
        for flow in 0..40_000 {
            let path = bench.choose_path(&packet(flow), None);
            assert_eq!(bench.choose_path(&packet(flow), Some(path)), path);
            hits[usize::from(path)] += 1;
        }
        assert!(hits.iter().all(|n| (9_500..10_500).contains(n)), "{hits:?}");
    }

    #[test]
    fn only_k_paths_are_used() {
        let mut bench = Bench::edge("spain:k=3", 8);
        let used: BTreeSet<u16> = (0..500).map(|flow| bench.choose_path(&packet(flow), None)).collect();
        assert_eq!(used.len(), 3);
    }

    #[test]
    fn a_silent_vlan_is_left_by_all_flows_until_the_retry_time() {
        let mut bench = Bench::edge("spain:retry=10ms", 4);
        bench.loss(1, 2, Loss::FastRetransmit);
        assert_eq!(bench.choose_path(&packet(1), Some(2)), 2, "duplicate acknowledgements are no silence");
        bench.loss(1, 2, Loss::Timeout);
        for flow in 0..200 {
            assert_ne!(bench.choose_path(&packet(flow), Some(2)), 2);
            assert_ne!(bench.choose_path(&packet(flow), None), 2);
        }
        let elsewhere = PacketView { to: ClassIx(2), ..packet(1) };
        assert_eq!(bench.choose_path(&elsewhere, Some(2)), 2, "usable for another destination");
        bench.wait(Time::from_us(9_999));
        assert_ne!(bench.choose_path(&packet(1), Some(2)), 2);
        bench.wait(Time::from_us(1));
        assert_eq!(bench.choose_path(&packet(1), Some(2)), 2);
    }

    #[test]
    fn all_vlans_silent_selects_longest_silent() {
        let mut bench = Bench::edge("spain:retry=10ms", 3);
        for path in [1, 0, 2] {
            bench.loss(1, path, Loss::Timeout);
            bench.wait(Time::from_us(10));
        }
        assert!((0..50).all(|flow| bench.choose_path(&packet(flow), Some(2)) == 1));
        bench.loss(1, 1, Loss::Timeout);
        assert!((0..50).all(|flow| bench.choose_path(&packet(flow), None) == 0));
    }

    #[test]
    fn dead_paths_are_not_usable_and_come_back() {
        let mut bench = Bench::edge("spain:k=2", 8);
        let used: Vec<u16> = (0..100).map(|flow| bench.choose_path(&packet(flow), None)).collect();
        let vlans: BTreeSet<u16> = used.iter().copied().collect();
        let (a, b) = (*vlans.first().unwrap(), *vlans.last().unwrap());
        bench.live.retain(|path| *path != a);
        assert!((0..50).all(|flow| bench.choose_path(&packet(flow), None) == b));
        bench.live.retain(|path| *path != b);
        let fallback = bench.choose_path(&packet(1), None);
        assert_eq!(bench.choose_path(&packet(1), Some(fallback)), fallback, "no VLAN is left: it stays on a live path");
        bench.loss(1, fallback, Loss::Timeout); // A path in no VLAN.
        bench.live = (0..8).collect();
        assert!(vlans.contains(&bench.choose_path(&packet(1), Some(fallback))), "back to a VLAN once there is one");
    }
}
