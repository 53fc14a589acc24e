//! Rules of a front end, and the balancers that pick members.

use std::io;
use std::net::SocketAddrV4;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use balance::Spec;
use balance::central::{FlowTable, NetworkView};
use balance::server::{Ended, Member, MemberId, MemberLocation, PoolPicker, Request, ServerStats};
use net::{Bandwidth, FiveTuple, HostIx, NodeIx, Routes, Time, Topology, TopologyBuilder};

/// A rule of the configuration: the requests that match, and their members.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FrontRule {
    /// Beginning of the paths that match; empty for all.
    pub path: String,
    /// Host name that matches; `None` for all.
    pub host: Option<String>,
    /// Server balancer with its parameters.
    pub balancer: String,
    pub members: Vec<FrontMember>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FrontMember {
    pub at: SocketAddrV4,
    pub weight: u32,
}

/// A request and the member that gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) at: SocketAddrV4,
    member: MemberId,
    request: Request,
}

pub(super) struct Rule {
    config: FrontRule,
    began: Instant,
    /// The members at one switch, as far as the front end knows.
    topology: Topology,
    edge: NodeIx,
    routes: Routes,
    alive: Vec<bool>,
    picker: Mutex<PoolPicker>,
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

impl Rule {
    pub(super) fn new(config: &FrontRule, seed: u64) -> io::Result<Rule> {
        let spec = Spec::parse(&config.balancer).map_err(|cause| invalid(cause.to_string()))?;
        let mut builder = TopologyBuilder::new("front end");
        let edge = builder.switch("switch", 1, None);
        for number in 0..config.members.len() {
            let host = builder.host(format!("member{number}"), 0, None);
            builder.connect(host, edge, Bandwidth::from_gbps(1), Time::ZERO);
        }
        let topology = builder.build().map_err(|cause| invalid(cause.to_string()))?;
        let member = |(number, member): (u32, &FrontMember)| Member {
            id: MemberId(number + 1),
            place: MemberLocation::Host { host: HostIx(number), edge },
            weight: member.weight,
            is_accepting: true,
            stats: ServerStats::default(),
        };
        let (stream, members) = (format!("front end {}", config.path), (0u32..).zip(&config.members).map(member));
        let picker = Mutex::new(PoolPicker::new(&spec, (seed, &stream), members).map_err(invalid)?);
        let (routes, alive) = (Routes::intact(&topology), vec![true; topology.links().len()]);
        Ok(Rule { config: config.clone(), began: Instant::now(), topology, edge, routes, alive, picker })
    }

    pub(super) fn matches(&self, path: &str, host: &str) -> bool {
        path.starts_with(&self.config.path) && self.config.host.as_ref().is_none_or(|name| name == host)
    }

    fn picker(&self) -> MutexGuard<'_, PoolPicker> {
        self.picker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::from_ns(self.began.elapsed().as_nanos() as u64)
    }

    pub(super) fn pick(&self, from: SocketAddrV4, to: SocketAddrV4) -> Option<Placed> {
        let tuple =
            FiveTuple { src: *from.ip(), dst: *to.ip(), protocol: 6, src_port: from.port(), dst_port: to.port() };
        let request = Request { tuple, edge: self.edge, size: None, at: self.now() };
        let flows = FlowTable::default();
        let Rule { topology, routes, alive, .. } = self;
        let view = NetworkView { now: request.at, topology, alive, routes, load: &[], flows: &flows, legacy: &[] };
        let member = self.picker().pick(&request, &view)?;
        Some(Placed { at: self.config.members.get(member.0 as usize - 1)?.at, member, request })
    }

    pub(super) fn responded(&self, placed: &Placed, took: Duration) {
        self.picker().on_response(placed.member, Time::from_ns(took.as_nanos() as u64));
    }

    pub(super) fn ended(&self, placed: &Placed, bytes: u64) {
        let ended = Ended { member: placed.member, bytes, at: self.now() };
        self.picker().on_ended(&placed.request, &ended);
    }
}
