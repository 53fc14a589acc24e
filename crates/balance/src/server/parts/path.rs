//! Which path a request takes to the member it got (mechanisms.md S01): SPH, SPL, HTP, or whatever the base is.
//!
//! All three are Dijkstra searches; HTP is the widest path, which has the same optimum as F1's enumeration of all simple
//! paths. Ties: fewer hops, then lower ports. Latency breaks none of SPH and HTP: measured on links that are alike it is noise, by
//! which a path would be another one in every run.
//!
//! Readings: F1 measured throughput of idle links by iperf, which is their capacity (`htp=capacity`); with counters what is
//! left of it is known (`available`, the default). F1 chooses by what the request's direction offers; downloads load the
//! other one (`direction=reply`).

use net::paths::Metric;
use net::{Bandwidth, LinkIx};

use crate::central::{NetworkView, Path};
use crate::params::{Param, ParamKind, Params};
use crate::server::{Member, Request, ServerNeeds, Way, available};

/// Which path.
pub const PATH: Param = Param {
    name: "path",
    kind: ParamKind::Choice(&["base", "sph", "spl", "htp"]),
    default: "base",
    unit: "",
    doc: "Path to the member: as other traffic, fewest hops, least latency, or greatest throughput of its narrowest link.",
};

/// What throughput of a link is.
pub const HTP: Param = Param {
    name: "htp",
    kind: ParamKind::Choice(&["available", "capacity"]),
    default: "available",
    unit: "",
    doc: "Throughput of a link: its capacity less its load, or its capacity.",
};

/// Whose throughput counts.
pub const DIRECTION: Param = Param {
    name: "direction",
    kind: ParamKind::Choice(&["request", "reply"]),
    default: "request",
    unit: "",
    doc: "Direction whose throughput counts: from client to member, or back.",
};

/// What a link offers, by the parameters [`HTP`] and [`DIRECTION`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throughput {
    is_available: bool,
    is_reply: bool,
}

impl Throughput {
    /// As given.
    pub fn new(params: &Params) -> Throughput {
        Throughput {
            is_available: params.text(HTP.name) == "available",
            is_reply: params.text(DIRECTION.name) == "reply",
        }
    }

    /// The direction whose throughput counts of a link on the way to a member.
    pub const fn loaded(&self, link: LinkIx) -> LinkIx {
        if self.is_reply { link.reverse() } else { link }
    }

    /// What a link on the way to a member offers.
    pub fn of(&self, view: &NetworkView<'_>, link: LinkIx) -> Bandwidth {
        let link = self.loaded(link);
        if self.is_available { available(view, link) } else { view.topology.link(link).rate }
    }

    /// What it reads of the network.
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

/// The path picker of a balancer that chooses its server first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathPicker {
    rule: Rule,
    throughput: Throughput,
}

impl PathPicker {
    /// By [`PATH`], [`HTP`] and [`DIRECTION`].
    pub fn new(params: &Params) -> PathPicker {
        let rule = match params.text(PATH.name) {
            "sph" => Rule::Sph,
            "spl" => Rule::Spl,
            "htp" => Rule::Htp,
            _ => Rule::Base,
        };
        PathPicker { rule, throughput: Throughput::new(params) }
    }

    /// Whether requests go as other traffic does.
    pub fn is_base(&self) -> bool {
        self.rule == Rule::Base
    }

    /// The path to a member; `None` for the base. No base leads over a chosen uplink, so there the path is always told.
    pub fn pick(&self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        let way = Way::to(view, request.edge, member.place)?;
        let path = match self.rule {
            Rule::Base if way.tail.is_none() => return None,
            Rule::Base | Rule::Sph => way.shortest(Metric::Hops, |_| true),
            Rule::Spl => way.shortest(Metric::Delay, |_| true),
            Rule::Htp => way.widest(|link| self.throughput.of(view, link)).map(|(path, _)| path),
        };
        path.map(Path::from)
    }

    /// What it reads of the network.
    pub fn needs(&self) -> ServerNeeds {
        match self.rule {
            Rule::Base | Rule::Sph => ServerNeeds::default(),
            Rule::Spl => ServerNeeds { latency: true, ..ServerNeeds::default() },
            Rule::Htp => self.throughput.needs(),
        }
    }
}
