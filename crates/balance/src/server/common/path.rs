//! The path of a request to its member (mechanisms.md S01): SPH, SPL, HTP, or the default routes.
//!
//! All three are Dijkstra searches; HTP is the widest path, which has the same optimum as F1's
//! enumeration of all simple paths. Ties: fewer hops, then lower ports. Latency is no tie-break of
//! SPH and HTP: measured latencies of similar links are noise, which would change the path in every
//! run.
//!
//! Readings: F1 measured the throughput of idle links by iperf, which is their capacity
//! (`htp=capacity`); with counters the remaining capacity is known (`available`, the default). F1
//! uses the throughput of the request's direction; downloads load the other one
//! (`direction=reply`). F1 does not mention ties of SPH: with `ties=random` results can be averaged
//! over the orders of links, on which the lower ports depend.

use net::paths::Metric;
use net::{Bandwidth, LinkIx};

use crate::central::{NetworkView, Path};
use crate::hash::mix;
use crate::params::{Param, Params};
use crate::server::{Member, MemberRoute, Request, ServerNeeds, available};

pub const PATH: Param = Param::choice("path", &["default", "sph", "spl", "htp"], "default").doc(
    "Path to the member: the default routes, fewest hops, lowest latency, or highest throughput of its \
     narrowest link.",
);

/// The parameter for equally short paths of SPH.
pub const TIES: Param = Param::choice("ties", &["ports", "random"], "ports")
    .doc("Path with the fewest hops among several: that of the lower ports, or one drawn for each pair of switches.");

/// Number of paths with the fewest hops that `ties=random` considers.
const TIED_MAX: usize = 64;

/// The parameter for the throughput of a link.
pub const HTP: Param = Param::choice("htp", &["available", "capacity"], "available")
    .doc("Throughput of a link: its capacity less its load, or its capacity.");

/// The parameter for the direction whose throughput counts.
pub const DIRECTION: Param = Param::choice("direction", &["request", "reply"], "request")
    .doc("Direction whose throughput counts: from client to member, or back.");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throughput {
    is_available: bool,
    is_reply: bool,
}

impl Throughput {
    pub fn new(params: &Params) -> Throughput {
        Throughput {
            is_available: params.text(HTP.name) == "available",
            is_reply: params.text(DIRECTION.name) == "reply",
        }
    }

    /// Returns the direction whose throughput counts, of a link towards a member.
    pub const fn loaded(&self, link: LinkIx) -> LinkIx {
        if self.is_reply { link.reverse() } else { link }
    }

    pub fn of(&self, view: &NetworkView<'_>, link: LinkIx) -> Bandwidth {
        let link = self.loaded(link);
        if self.is_available { available(view, link) } else { view.topology.link(link).rate }
    }

    /// Returns the network data it reads.
    pub fn needs(&self) -> ServerNeeds {
        ServerNeeds { link_load: self.is_available, ..ServerNeeds::default() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Default,
    Sph,
    Spl,
    Htp,
}

/// The path picker of a balancer that picks its server first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathPicker {
    rule: Rule,
    throughput: Throughput,
    are_ties_drawn: bool,
}

impl PathPicker {
    pub fn new(params: &Params) -> PathPicker {
        let rule = match params.text(PATH.name) {
            "sph" => Rule::Sph,
            "spl" => Rule::Spl,
            "htp" => Rule::Htp,
            _ => Rule::Default,
        };
        let are_ties_drawn = rule == Rule::Sph && params.text(TIES.name) == "random";
        PathPicker { rule, throughput: Throughput::new(params), are_ties_drawn }
    }

    pub fn is_default(&self) -> bool {
        self.rule == Rule::Default
    }

    pub fn are_ties_drawn(&self) -> bool {
        self.are_ties_drawn
    }

    /// Returns the path to a member; `None` for the default routes. `draw` decides drawn ties.
    /// Default routes do not lead over a chosen uplink, so for uplinks the result is always a path.
    pub fn pick(&self, request: &Request, member: &Member, view: &NetworkView<'_>, draw: u64) -> Option<Path> {
        let route = MemberRoute::to(view, request.edge, member.place)?;
        let path = match self.rule {
            Rule::Default if route.tail.is_none() => return None,
            Rule::Sph if self.are_ties_drawn => drawn(&route, draw),
            Rule::Default | Rule::Sph => route.shortest(Metric::Hops, |_| true),
            Rule::Spl => route.shortest(Metric::Delay, |_| true),
            Rule::Htp => route.widest(|link| self.throughput.of(view, link)).map(|(path, _)| path),
        };
        path.map(Path::from)
    }

    /// Returns the network data it reads.
    pub fn needs(&self) -> ServerNeeds {
        match self.rule {
            Rule::Default | Rule::Sph => ServerNeeds::default(),
            Rule::Spl => ServerNeeds { latency: true, ..ServerNeeds::default() },
            Rule::Htp => self.throughput.needs(),
        }
    }
}

/// Returns one of the paths with the fewest hops, the same for a pair of switches and a draw.
fn drawn(route: &MemberRoute<'_>, draw: u64) -> Option<Vec<LinkIx>> {
    let mut tied = route.fewest_hops(TIED_MAX);
    if tied.is_empty() {
        return None;
    }
    let pair = u64::from(route.from.0) << 32 | u64::from(route.to.0);
    let nth = mix(draw ^ mix(pair)) % tied.len() as u64;
    Some(tied.swap_remove(nth as usize))
}
