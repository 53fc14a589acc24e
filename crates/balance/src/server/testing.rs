//! A test bench: a pool on a network, and a balancer.

use core::net::Ipv4Addr;

use net::{FiveTuple, HostIx, LinkIx, NodeIx, RandomStream, Time};

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

pub fn server(network: &TestNetwork, id: u32, host: u32) -> Member {
    let node = network.topology.host(HostIx(host));
    let edge = network.topology.link(network.topology.out_links(node)[0]).to;
    member(id, MemberLocation::Host { host: HostIx(host), edge })
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
        let edge = network.topology.link(network.topology.out_links(network.topology.host(HostIx(0)))[0]).to;
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

    pub fn change(&mut self, id: u32, change: impl FnOnce(&mut Member)) {
        change(self.pool.get_mut(MemberId(id)).expect("a member"));
        self.balancer.on_pool_changed(&self.pool);
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
