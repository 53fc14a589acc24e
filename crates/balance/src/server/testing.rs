//! A test bench: a pool on a network, and a balancer.

use core::net::Ipv4Addr;

use net::{Bandwidth, FiveTuple, HostIx, LinkIx, NodeIx, RandomStream, Time, TopologyBuilder};

use super::{
    Choice, Ended, Member, MemberId, MemberLocation, Pool, Request, ServerBalancer, ServerCx, ServerEnv, ServerStats,
};
use crate::central::testing::TestNetwork;
use crate::entry::Build;
use crate::registry::Spec;

pub fn balancer(spec: &str) -> Box<dyn ServerBalancer> {
    let spec = Spec::parse(spec).unwrap_or_else(|error| panic!("{error}"));
    let Build::Server(build) = spec.entry.build else { panic!("{} does not pick servers", spec.entry.name) };
    build(&ServerEnv { seed: 1 }, &spec.params)
}

/// Returns the switch of a host.
pub fn edge_of(network: &TestNetwork, host: u32) -> NodeIx {
    network.topology.link(network.topology.out_links(network.topology.host(HostIx(host)))[0]).to
}

/// Adds a switch of each name, with a host at a link that limits nothing.
pub fn add_racks<N: Into<String>>(builder: &mut TopologyBuilder, names: impl IntoIterator<Item = N>) -> Vec<NodeIx> {
    let add = |(rack, name): (u32, N)| {
        let name = name.into();
        let switch = builder.switch(name.clone(), 1, None);
        let host = builder.host(name + "/host", rack, None);
        builder.connect(host, switch, Bandwidth::from_gbps(100), Time::ZERO);
        switch
    };
    (0..).zip(names).map(add).collect()
}

pub fn server(network: &TestNetwork, id: u32, host: u32) -> Member {
    let edge = edge_of(network, host);
    member(id, MemberLocation::Host { host: HostIx(host), edge })
}

/// Makes a pool of members with these numbers, all at one place, for mechanisms that see no network.
pub fn pool_of(ids: impl IntoIterator<Item = u32>) -> Pool {
    let place = MemberLocation::Host { host: HostIx(0), edge: NodeIx(0) };
    Pool::new(ids.into_iter().map(|id| member(id, place)))
}

pub fn uplink(id: u32, link: LinkIx) -> Member {
    member(id, MemberLocation::Uplink { link })
}

fn member(id: u32, place: MemberLocation) -> Member {
    Member { id: MemberId(id), place, weight: 1, is_accepting: true, stats: ServerStats::default() }
}

/// A pool, its network and its balancer, with requests that all differ.
pub struct Bench {
    pub network: TestNetwork,
    pub pool: Pool,
    pub balancer: Box<dyn ServerBalancer>,
    pub edge: NodeIx,
    pub port: u16,
    pub size: Option<u64>,
    pub rng: RandomStream,
    requests: u32,
}

impl Bench {
    /// Makes a bench of servers with these weights, behind one switch with their client.
    pub fn new(spec: &str, weights: &[u32]) -> Bench {
        let network = TestNetwork::new(&format!("single-switch:hosts={}", weights.len() + 1));
        let members =
            weights.iter().zip(1..).map(|(weight, id)| Member { weight: *weight, ..server(&network, id, id) });
        let pool = Pool::new(members);
        Bench::on(spec, network, pool)
    }

    /// Makes a bench on a network; the client is the first host.
    pub fn on(spec: &str, network: TestNetwork, pool: Pool) -> Bench {
        let edge = edge_of(&network, 0);
        let mut balancer = balancer(spec);
        balancer.on_pool_changed(&pool);
        Bench { network, pool, balancer, edge, port: 80, size: None, rng: RandomStream::new(1, "server"), requests: 0 }
    }

    pub fn request(&mut self) -> Request {
        self.requests += 1;
        let src = Ipv4Addr::from(0x0b00_0000 + self.requests / 50_000);
        let src_port = 10_000 + (self.requests % 50_000) as u16;
        let dst = Ipv4Addr::new(10, 1, 0, 1);
        let tuple = FiveTuple { src, dst, protocol: 6, src_port, dst_port: self.port };
        Request { tuple, edge: self.edge, size: self.size, at: self.network.now }
    }

    pub fn pick_for(&mut self, request: &Request) -> Option<Choice> {
        let mut cx = ServerCx { rng: &mut self.rng };
        self.balancer.pick(&mut cx, request, &self.pool, &self.network.view())
    }

    /// Returns the member of the next request.
    pub fn pick(&mut self) -> u32 {
        let request = self.request();
        self.pick_for(&request).expect("a member accepts connections").member.0
    }

    pub fn picks(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.pick()).collect()
    }

    /// Returns how many of the next requests each of the members 1 to `N` gets.
    pub fn hits<const N: usize>(&mut self, count: usize) -> [usize; N] {
        let mut hits = [0; N];
        (0..count).for_each(|_| hits[self.pick() as usize - 1] += 1);
        hits
    }

    /// Picks for several requests; returns them and their members.
    pub fn placed(&mut self, count: usize) -> (Vec<Request>, Vec<u32>) {
        let requests: Vec<Request> = (0..count).map(|_| self.request()).collect();
        let picked = requests.iter().map(|request| self.pick_for(request).expect("a member").member.0).collect();
        (requests, picked)
    }

    pub fn change(&mut self, id: u32, change: impl FnOnce(&mut Member)) {
        change(self.pool.get_mut(MemberId(id)).expect("a member"));
        self.balancer.on_pool_changed(&self.pool);
    }

    pub fn set_pool(&mut self, pool: Pool) {
        self.pool = pool;
        self.balancer.on_pool_changed(&self.pool);
    }

    /// Adds a member 9 like the first one, with these statistics.
    pub fn join(&mut self, stats: ServerStats) {
        let newcomer = Member { id: MemberId(9), stats, ..self.pool.members()[0] };
        self.set_pool(Pool::new(self.pool.members().iter().copied().chain([newcomer])));
    }

    pub fn report(&mut self, id: u32, change: impl FnOnce(&mut ServerStats)) {
        let now = self.network.now;
        let member = self.pool.get_mut(MemberId(id)).expect("a member");
        member.stats.at = Some(now);
        change(&mut member.stats);
        self.balancer.on_report(member);
    }

    pub fn count(&mut self, id: u32, bytes: u64) {
        let now = self.network.now;
        let member = self.pool.get_mut(MemberId(id)).expect("a member");
        (member.stats.bytes, member.stats.bytes_at) = (Some(bytes), Some(now));
        self.balancer.on_counters(member);
    }

    pub fn end(&mut self, request: &Request, member: u32, bytes: u64) {
        self.balancer.on_ended(request, &Ended { member: MemberId(member), bytes, at: self.network.now });
    }

    pub fn wait(&mut self, time: Time) {
        self.network.now = self.network.now.saturating_add(time);
    }
}
