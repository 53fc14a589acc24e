//! Joint choice in the style of LOBUS (mechanisms.md S02; Handigol et al., Plug-n-Serve, SIGCOMM
//! demo 2009, and Aster*x, GEC 2010): the server and path with the shortest expected response time.
//!
//! `cost = 2 latency(p) + size / avail(p) + wait(s)`, with `wait(s) = service(s) x (1 + connections
//! / cores)`, over all members and the `paths` shortest paths to each. Ties: fewer hops, then the
//! lower number.
//!
//! Readings: no algorithm was published; this is the reference's. A request immediately adds load
//! to its path: it shares the remaining capacity of each link with the requests placed there since
//! the last sample of that link's counters; earlier ones are in the counters. `service` is an
//! average, weight `gain`, of the response times that members reported. A link without remaining
//! capacity gives a new connection one hundredth of its capacity, since other connections back off.
//! `size` is a download, so `direction` is `reply`. `choose=disjoint` takes the server of the
//! lowest wait, then the path of the lowest cost to it.
//!
//! Pitfall: with `htp=capacity`, without counters, only ended connections free a path.
//!
//! - Helps: where both server and path matter: latency, transfer and waiting are one sum.
//! - Hurts: where sizes of responses differ much from `size`; with `htp=capacity`, which ignores
//!   the load of paths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use net::{FiveTuple, LinkIx, NodeIx, Time, paths};

use crate::central::{NetworkView, Path};
use crate::entry::Entry;
use crate::params::Param;
use crate::server::common::{Connections, DIRECTION, HTP, Throughput, least};
use crate::server::{
    Choice, Ended, Member, MemberId, MemberRoute, Pool, Request, ServerBalancer, ServerCx, ServerNeeds,
};

const PATHS: Param =
    Param::count("paths", 1..=64, "4").doc("Number of shortest paths by latency considered per member.");

const SIZE: Param =
    Param::count("size", 0..=1_000_000_000_000, "100000").unit("B").doc("Bytes expected of a request of unknown size.");

const SERVICE: Param = Param::duration("service", "10ms").doc("Service time of an idle member without a report.");

const GAIN: Param =
    Param::number("gain", 0.0..=1.0, "0.125").doc("Weight of a newly reported response time in the average.");

const CHOOSE: Param =
    Param::choice("choose", &["joint", "disjoint"], "joint").doc("Server and path together, or the server first.");

/// A download loads the return direction.
const REPLY: Param = Param { default: "reply", ..DIRECTION };

pub(crate) static ENTRY: Entry = Entry::declare("lobus", "LOBUS")
    .summary("Picks the server and path with the least expected response time: latency, transfer and waiting together.")
    .source("S02; Plug-n-Serve, Aster*x (LOBUS)")
    .senses("latencies, capacities and load of links; reported response times, connections and cores")
    .params(&[PATHS, SIZE, SERVICE, GAIN, CHOOSE, HTP, REPLY])
    .server(|_, params| {
        Box::new(Lobus {
            path_count: params.count(PATHS.name) as usize,
            size: params.count(SIZE.name),
            first_service: params.duration(SERVICE.name).as_s_f64(),
            gain: params.number(GAIN.name),
            is_joint: params.text(CHOOSE.name) == "joint",
            throughput: Throughput::new(params),
            connections: Connections::default(),
            service: BTreeMap::new(),
            recent: Recent::default(),
            known: KnownPaths::default(),
        })
    });

/// Minimum share of a link's capacity that a new connection is assumed to get.
const LEAST_SHARE: f64 = 0.01;

struct Lobus {
    path_count: usize,
    size: u64,
    first_service: f64,
    gain: f64,
    is_joint: bool,
    throughput: Throughput,
    connections: Connections,
    /// Average response time of each member, seconds.
    service: BTreeMap<MemberId, f64>,
    recent: Recent,
    known: KnownPaths,
}

/// Cache of shortest paths, valid until a link appears, fails or changes its latency.
#[derive(Default)]
struct KnownPaths {
    alive: Vec<bool>,
    latencies: Vec<Time>,
    /// By the client's switch and the member's, or the uplink.
    found: BTreeMap<(NodeIx, NodeIx, Option<LinkIx>), Arc<[Path]>>,
}

impl KnownPaths {
    /// Clears the cache if the network has changed.
    fn refresh(&mut self, view: &NetworkView<'_>) {
        let latencies = view.topology.links().iter().map(|link| link.delay);
        if self.alive != view.alive || !self.latencies.iter().copied().eq(latencies.clone()) {
            self.alive = view.alive.to_vec();
            self.latencies = latencies.collect();
            self.found.clear();
        }
    }

    fn of(&mut self, route: &MemberRoute<'_>, count: usize) -> Arc<[Path]> {
        let search = || route.k_shortest(count).into_iter().map(Path::from).collect();
        self.found.entry((route.from, route.to, route.tail)).or_insert_with(search).clone()
    }
}

/// Requests on each link that its counters do not include yet.
#[derive(Default)]
struct Recent {
    on: BTreeMap<LinkIx, BTreeSet<(Time, FiveTuple)>>,
    placed: BTreeMap<FiveTuple, Placed>,
}

/// A request on at least one link whose counters do not include it yet.
struct Placed {
    at: Time,
    links: Path,
    /// Number of links on which it still counts.
    left: usize,
}

impl Recent {
    /// Returns the number of requests on a link; those that the counters include are removed.
    fn count(&mut self, link: LinkIx, view: &NetworkView<'_>) -> usize {
        let Some(on) = self.on.get_mut(&link) else { return 0 };
        let sampled = view.load.get(link.ix()).filter(|load| load.rate.is_some()).map(|load| load.at);
        while let Some((_, tuple)) = on.first().copied().filter(|(placed, _)| Some(*placed) <= sampled) {
            on.pop_first();
            // A request without a reported end must not be stored indefinitely.
            if let Some(placed) = self.placed.get_mut(&tuple) {
                placed.left -= 1;
                if placed.left == 0 {
                    self.placed.remove(&tuple);
                }
            }
        }
        on.len()
    }

    fn add(&mut self, request: &Request, links: Path) {
        self.remove(&request.tuple);
        if links.is_empty() {
            return;
        }
        for link in links.iter() {
            self.on.entry(*link).or_default().insert((request.at, request.tuple));
        }
        self.placed.insert(request.tuple, Placed { at: request.at, left: links.len(), links });
    }

    fn remove(&mut self, tuple: &FiveTuple) {
        let Some(placed) = self.placed.remove(tuple) else { return };
        for link in placed.links.iter() {
            if let Some(on) = self.on.get_mut(link) {
                on.remove(&(placed.at, *tuple));
            }
        }
    }
}

/// A candidate: a member and a path.
struct Offer {
    cost: f64,
    member: MemberId,
    path: Path,
}

/// Returns the offer of the lowest cost, among equals that of the fewest hops; the first of equals.
fn best(offers: impl Iterator<Item = Offer>) -> Option<Offer> {
    offers.min_by(|a, b| a.cost.total_cmp(&b.cost).then(a.path.len().cmp(&b.path.len())))
}

impl Lobus {
    /// Returns the seconds a request waits for and is served by a member.
    fn wait(&self, member: &Member) -> f64 {
        let service = self.service.get(&member.id).copied().unwrap_or(self.first_service);
        service * (1.0 + f64::from(self.connections.of(member.id)) / member.stats.core_count())
    }

    /// Returns the seconds a request spends on a path.
    fn on_path(&mut self, request: &Request, path: &[LinkIx], view: &NetworkView<'_>) -> f64 {
        let bits = request.size.unwrap_or(self.size) as f64 * 8.0;
        let mut rate = f64::INFINITY;
        for link in path {
            let sharing = self.recent.count(self.throughput.loaded(*link), view) as f64 + 1.0;
            let least = view.topology.link(self.throughput.loaded(*link)).rate.as_bps_f64() * LEAST_SHARE;
            rate = rate.min(f64::max(self.throughput.of(view, *link).as_bps_f64() / sharing, least));
        }
        2.0 * paths::delay(view.topology, path).as_s_f64() + bits / rate
    }

    fn best_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Offer> {
        let route = MemberRoute::to(view, request.edge, member.place)?;
        let found = self.known.of(&route, self.path_count);
        let wait = self.wait(member);
        best(found.iter().map(|path| {
            let cost = wait + self.on_path(request, path, view);
            Offer { cost, member: member.id, path: path.clone() }
        }))
    }
}

impl ServerBalancer for Lobus {
    fn needs(&self) -> ServerNeeds {
        let own = ServerNeeds { reports: true, latency: true, ..ServerNeeds::default() };
        own.and(self.throughput.needs())
    }

    fn pick(&mut self, _: &mut ServerCx<'_>, request: &Request, pool: &Pool, view: &NetworkView<'_>) -> Option<Choice> {
        self.known.refresh(view);
        let mut candidates = pool.candidates(request.edge, view);
        if !self.is_joint && !candidates.is_empty() {
            candidates = vec![candidates[least(&candidates, |member| self.wait(member))]];
        }
        let best = best(candidates.into_iter().filter_map(|member| self.best_to(request, member, view)))?;
        let choice = Choice { member: best.member, path: Some(best.path) };
        self.on_placed(request, &choice);
        Some(choice)
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        self.known.refresh(view);
        self.best_to(request, member, view).map(|offer| offer.path)
    }

    fn on_placed(&mut self, request: &Request, choice: &Choice) {
        self.connections.placed(choice.member);
        if let Some(path) = &choice.path {
            let loaded = path.iter().map(|link| self.throughput.loaded(*link)).collect();
            self.recent.add(request, loaded);
        }
    }

    fn on_ended(&mut self, request: &Request, ended: &Ended) {
        self.connections.ended(ended.member);
        self.recent.remove(&request.tuple);
    }

    fn on_report(&mut self, member: &Member) {
        self.connections.reported(member);
        if let Some(response) = member.stats.response {
            let response = response.as_s_f64();
            let service = self.service.entry(member.id).or_insert(response);
            *service += self.gain * (response - *service);
        } else {
            self.service.remove(&member.id); // The report has expired or is missing: the average is discarded.
        }
    }

    fn on_pool_changed(&mut self, pool: &Pool) {
        self.connections.pool_changed(pool);
        self.service.retain(|member, _| pool.get(*member).is_some());
    }
}

#[cfg(test)]
mod tests;
