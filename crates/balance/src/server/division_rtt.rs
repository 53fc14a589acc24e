//! Traffic division by delay: connections go to the member, or uplink, with the least measured
//! round-trip time (F4, related work: "send more flow to the link with the smallest delay").
//!
//! The controller measures each link by its discovery probes: the time of a probe around the loop
//! of controller, switch, link and switch, less the halves of the round trips to both switches.
//! Probes queue like data, so a link with a full queue is slow. The round-trip time of a member is
//! the latency of its fastest path and that of the same path back.
//!
//! Readings:
//! - F4 prints no rule. A member stays preferred by the clients of a switch until another one is
//!   faster by `margin`, and until `hold` has passed since the last change. Otherwise noise, and
//!   the load that the division itself moves, would change the link all the time.
//! - Among members that are within `margin` of the fastest when there is no preferred one, the
//!   first is taken. Weights only exclude members of weight 0.
//!
//! Pitfall: measurements are as old as `discovery_interval`, and averaged over eight of them.
//!
//! - Helps: where links to the same destinations differ in latency, or one of them is congested.
//! - Hurts: where links differ in rate and not in delay: all connections go to one link until its
//!   queue shows.

use std::collections::BTreeMap;

use net::paths::{self, Metric};
use net::{LinkIx, NodeIx, Time};

use crate::central::{NetworkView, Path};
use crate::entry::Entry;
use crate::params::Param;
use crate::server::{Choice, Member, MemberId, MemberRoute, Pool, Request, ServerBalancer, ServerCx, ServerNeeds};

pub(crate) static ENTRY: Entry = Entry::declare("division-rtt", "Division by round-trip time")
    .summary("Gives each request to the member with the least measured round-trip time, with hysteresis.")
    .source("F4")
    .senses("measured latencies of links")
    .params(&[
        Param::number("margin", 0.0..=0.99, "0.2")
            .doc("Share by which another member must be faster than the preferred one."),
        Param::duration("hold", "1s").doc("Minimum time between two changes of the preferred member of a switch."),
    ])
    .example("division-rtt:margin=0.1")
    .server(|_, params| {
        let (margin, hold) = (params.number("margin"), params.duration("hold"));
        Box::new(DivisionRtt { margin, hold, preferred: BTreeMap::new() })
    });

struct DivisionRtt {
    margin: f64,
    hold: Time,
    /// By switch of clients: the preferred member, and since when.
    preferred: BTreeMap<NodeIx, (MemberId, Time)>,
}

/// Returns the fastest path to a member, and its round-trip time.
fn fastest(view: &NetworkView<'_>, from: NodeIx, member: &Member) -> Option<(Time, Path)> {
    let path = MemberRoute::to(view, from, member.place)?.shortest(Metric::Delay, |_| true)?;
    let back: Vec<LinkIx> = path.iter().map(|link| link.reverse()).collect();
    let rtt = paths::delay(view.topology, &path).saturating_add(paths::delay(view.topology, &back));
    Some((rtt, path.into()))
}

impl ServerBalancer for DivisionRtt {
    fn needs(&self) -> ServerNeeds {
        ServerNeeds { latency: true, round_trips: true, ..ServerNeeds::default() }
    }

    fn pick(&mut self, _: &mut ServerCx<'_>, request: &Request, pool: &Pool, view: &NetworkView<'_>) -> Option<Choice> {
        let edge = request.edge_in(view)?;
        let candidates = pool.candidates(edge, view);
        let measured: Vec<(Time, Path, MemberId)> = candidates
            .into_iter()
            .filter_map(|member| fastest(view, edge, member).map(|(rtt, path)| (rtt, path, member.id)))
            .collect();
        let best = measured.iter().min_by_key(|(rtt, ..)| *rtt)?;
        let preferred = self.preferred.get(&edge).copied();
        let kept = preferred.and_then(|(id, since)| {
            let own = measured.iter().find(|(.., member)| *member == id)?;
            let is_slow = (best.0.as_ps() as f64) < own.0.as_ps() as f64 * (1.0 - self.margin);
            (!is_slow || view.now < since.saturating_add(self.hold)).then_some(own)
        });
        let is_near =
            |(rtt, ..): &&(Time, Path, MemberId)| rtt.as_ps() as f64 * (1.0 - self.margin) <= best.0.as_ps() as f64;
        // A change goes to the fastest member; without a preferred one, noise does not decide.
        let chosen = match (kept, preferred) {
            (Some(kept), _) => kept,
            (None, Some(_)) => best,
            (None, None) => measured.iter().find(is_near).unwrap_or(best),
        };
        if kept.is_none() {
            self.preferred.insert(edge, (chosen.2, view.now));
        }
        Some(Choice { member: chosen.2, path: Some(chosen.1.clone()) })
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        fastest(view, request.edge_in(view)?, member).map(|(_, path)| path)
    }

    fn on_pool_changed(&mut self, pool: &Pool) {
        self.preferred.retain(|_, (member, _)| pool.get(*member).is_some());
    }
}

#[cfg(test)]
mod tests {
    use net::{Bandwidth, TopologyBuilder};

    use super::*;
    use crate::central::testing::TestNetwork;
    use crate::server::testing::{Bench, uplink};

    /// A site whose border has two uplinks, of 1 and 5 ms.
    fn bench(spec: &str) -> (Bench, [LinkIx; 2]) {
        let mut b = TopologyBuilder::new("site");
        let border = b.switch("border", 1, None);
        let client = b.host("client", 0, None);
        b.connect(client, border, Bandwidth::from_gbps(1), Time::ZERO);
        let uplinks = [1, 5].map(|ms| {
            let provider = b.switch(format!("provider-{ms}"), 1, None);
            b.connect(border, provider, Bandwidth::from_mbps(100), Time::from_ms(ms))
        });
        let network = TestNetwork::of(b.build().expect("a site"));
        let pool = Pool::new((1..).zip(uplinks).map(|(id, link)| uplink(id, link)));
        (Bench::on(spec, network, pool), uplinks)
    }

    fn set_delay(bench: &mut Bench, uplink: LinkIx, delay: Time) {
        bench.network.topology = bench.network.topology.with_links_changed(|link, info| {
            if link == uplink || link == uplink.reverse() {
                info.delay = delay;
            }
        });
    }

    #[test]
    fn connections_follow_the_measured_delay() {
        let (mut bench, uplinks) = bench("division-rtt");
        assert_eq!(bench.picks(3), [1; 3], "2 ms against 10 ms");
        bench.wait(Time::from_s(2));
        set_delay(&mut bench, uplinks[0], Time::from_ms(20));
        assert_eq!(bench.picks(3), [2; 3], "40 ms against 10 ms");
        bench.wait(Time::from_s(2));
        set_delay(&mut bench, uplinks[0], Time::from_ms(1));
        assert_eq!(bench.pick(), 1);
    }

    #[test]
    fn the_way_back_counts() {
        let (mut bench, uplinks) = bench("division-rtt");
        bench.network.topology = bench.network.topology.with_links_changed(|link, info| {
            if link == uplinks[0].reverse() {
                info.delay = Time::from_ms(30);
            }
        });
        assert_eq!(bench.pick(), 2, "1 + 30 ms against 5 + 5 ms");
    }

    #[test]
    fn small_differences_and_early_changes_do_not_move_connections() {
        let (mut bench, uplinks) = bench("division-rtt:margin=0.5,hold=10s");
        assert_eq!(bench.pick(), 1);
        bench.wait(Time::from_s(20));
        set_delay(&mut bench, uplinks[0], Time::from_ms(9));
        assert_eq!(bench.pick(), 1, "5 ms is not below half of 9 ms");
        set_delay(&mut bench, uplinks[0], Time::from_ms(11));
        assert_eq!(bench.pick(), 2);
        bench.wait(Time::from_s(9));
        set_delay(&mut bench, uplinks[0], Time::from_ms(1));
        assert_eq!(bench.pick(), 2, "one second too early");
        bench.wait(Time::from_s(1));
        assert_eq!(bench.pick(), 1);
    }

    #[test]
    fn equal_links_are_not_changed_by_noise() {
        let (mut bench, uplinks) = bench("division-rtt");
        set_delay(&mut bench, uplinks[0], Time::from_us(5050));
        assert_eq!(bench.pick(), 1, "1 % slower, but the first");
        set_delay(&mut bench, uplinks[0], Time::from_us(5200));
        bench.wait(Time::from_s(60));
        assert_eq!(bench.pick(), 1);
        bench.network.set_cable(uplinks[0], false);
        assert_eq!(bench.pick(), 2, "a failed link is left at once");
    }
}
