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
//! (`direction=reply`).

use net::paths::Metric;
use net::{Bandwidth, LinkIx};

use crate::central::{NetworkView, Path};
use crate::params::{Param, ParamKind, Params};
use crate::server::{Member, MemberRoute, Request, ServerNeeds, available};

/// The parameter for the path picker.
pub const PATH: Param = Param {
    name: "path",
    kind: ParamKind::Choice(&["base", "sph", "spl", "htp"]),
    default: "base",
    unit: "",
    doc: "Path to the member: the default routes, fewest hops, lowest latency, or highest throughput of its narrowest link.",
};

/// The parameter for the throughput of a link.
pub const HTP: Param = Param {
    name: "htp",
    kind: ParamKind::Choice(&["available", "capacity"]),
    default: "available",
    unit: "",
    doc: "Throughput of a link: its capacity less its load, or its capacity.",
};

/// The parameter for the direction whose throughput counts.
pub const DIRECTION: Param = Param {
    name: "direction",
    kind: ParamKind::Choice(&["request", "reply"]),
    default: "request",
    unit: "",
    doc: "Direction whose throughput counts: from client to member, or back.",
};

/// The throughput of links by the parameters [`HTP`] and [`DIRECTION`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throughput {
    is_available: bool,
    is_reply: bool,
}

impl Throughput {
    /// Reads the parameters.
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

    /// Returns the throughput of a link towards a member.
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
    Base,
    Sph,
    Spl,
    Htp,
}

/// The path picker of a balancer that picks its server first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathPicker {
    rule: Rule,
    throughput: Throughput,
}

impl PathPicker {
    /// Reads [`PATH`], [`HTP`] and [`DIRECTION`].
    pub fn new(params: &Params) -> PathPicker {
        let rule = match params.text(PATH.name) {
            "sph" => Rule::Sph,
            "spl" => Rule::Spl,
            "htp" => Rule::Htp,
            _ => Rule::Base,
        };
        PathPicker { rule, throughput: Throughput::new(params) }
    }

    /// Returns whether requests use the default routes.
    pub fn is_base(&self) -> bool {
        self.rule == Rule::Base
    }

    /// Returns the path to a member; `None` for the default routes. Default routes do not lead over
    /// a chosen uplink, so for uplinks the result is always a path.
    pub fn pick(&self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        let route = MemberRoute::to(view, request.edge, member.place)?;
        let path = match self.rule {
            Rule::Base if route.tail.is_none() => return None,
            Rule::Base | Rule::Sph => route.shortest(Metric::Hops, |_| true),
            Rule::Spl => route.shortest(Metric::Delay, |_| true),
            Rule::Htp => route.widest(|link| self.throughput.of(view, link)).map(|(path, _)| path),
        };
        path.map(Path::from)
    }

    /// Returns the network data it reads.
    pub fn needs(&self) -> ServerNeeds {
        match self.rule {
            Rule::Base | Rule::Sph => ServerNeeds::default(),
            Rule::Spl => ServerNeeds { latency: true, ..ServerNeeds::default() },
            Rule::Htp => self.throughput.needs(),
        }
    }
}
