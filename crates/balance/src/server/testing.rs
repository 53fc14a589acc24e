//! A pool on a network and a balancer, for unit tests.

use core::net::Ipv4Addr;

use net::{FiveTuple, HostIx, LinkIx, NodeIx, Stream, Time};

use super::{Choice, Ended, Facts, Member, MemberId, Place, Pool, Request, ServerBalancer, ServerCx, ServerEnv};
use crate::central::testing::World;
use crate::registry::{Build, Spec};

/// A balancer of its specification.
pub fn balancer(spec: &str) -> Box<dyn ServerBalancer> {
    let spec = Spec::parse(spec).unwrap_or_else(|error| panic!("{error}"));
    let Build::Server(build) = spec.entry.build else { panic!("{} picks no servers", spec.entry.name) };
    build(&ServerEnv { seed: 1 }, &spec.params)
}

/// A member behind the switch it has in the topology.
pub fn server(world: &World, id: u32, host: u32) -> Member {
    let node = world.topology.host(HostIx(host));
    let edge = world.topology.link(world.topology.out_links(node)[0]).to;
    member(id, Place::Host { host: HostIx(host), edge })
}

/// An outgoing link as a member.
pub fn uplink(id: u32, link: LinkIx) -> Member {
    member(id, Place::Uplink { link })
}

fn member(id: u32, place: Place) -> Member {
    Member { id: MemberId(id), place, weight: 1, is_accepting: true, facts: Facts::default() }
}

/// A pool, its network and its balancer, with requests that all differ.
pub struct Bench {
    pub world: World,
    pub pool: Pool,
    pub balancer: Box<dyn ServerBalancer>,
    pub edge: NodeIx,
    pub port: u16,
    pub size: Option<u64>,
    pub rng: Stream,
    requests: u32,
}

impl Bench {
    /// So many servers with weights, behind one switch with their client.
    pub fn new(spec: &str, weights: &[u32]) -> Bench {
        let world = World::new(&format!("single-switch:hosts={}", weights.len() + 1));
        let members = weights.iter().zip(1..).map(|(weight, id)| Member { weight: *weight, ..server(&world, id, id) });
        let pool = Pool::new(members);
        Bench::on(spec, world, pool)
    }

    /// On a network; the client is the first host.
    pub fn on(spec: &str, world: World, pool: Pool) -> Bench {
        let edge = world.topology.link(world.topology.out_links(world.topology.host(HostIx(0)))[0]).to;
        let mut balancer = balancer(spec);
        balancer.pool_changed(&pool);
        Bench { world, pool, balancer, edge, port: 80, size: None, rng: Stream::new(1, "server"), requests: 0 }
    }

    /// A request like no other.
    pub fn request(&mut self) -> Request {
        self.requests += 1;
        let src = Ipv4Addr::from(0x0b00_0000 + self.requests / 50_000);
        let src_port = 10_000 + (self.requests % 50_000) as u16;
        let dst = Ipv4Addr::new(10, 1, 0, 1);
        let tuple = FiveTuple { src, dst, protocol: 6, src_port, dst_port: self.port };
        Request { tuple, edge: self.edge, size: self.size, at: self.world.now }
    }

    pub fn pick_for(&mut self, request: &Request) -> Option<Choice> {
        let mut cx = ServerCx { rng: &mut self.rng };
        self.balancer.pick(&mut cx, request, &self.pool, &self.world.view())
    }

    /// Who gets the next request.
    pub fn pick(&mut self) -> u32 {
        let request = self.request();
        self.pick_for(&request).expect("somebody may get it").member.0
    }

    pub fn picks(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.pick()).collect()
    }

    /// Changes a member and tells the balancer.
    pub fn change(&mut self, id: u32, change: impl FnOnce(&mut Member)) {
        change(self.pool.get_mut(MemberId(id)).expect("a member"));
        self.balancer.pool_changed(&self.pool);
    }

    /// A report of a member comes in.
    pub fn report(&mut self, id: u32, change: impl FnOnce(&mut Facts)) {
        let now = self.world.now;
        let member = self.pool.get_mut(MemberId(id)).expect("a member");
        member.facts.at = Some(now);
        change(&mut member.facts);
        self.balancer.reported(member);
    }

    /// Counters of a member are read.
    pub fn count(&mut self, id: u32, bytes: u64) {
        let now = self.world.now;
        let member = self.pool.get_mut(MemberId(id)).expect("a member");
        (member.facts.bytes, member.facts.bytes_at) = (Some(bytes), Some(now));
        self.balancer.counted(member);
    }

    pub fn end(&mut self, request: &Request, member: u32, bytes: u64) {
        self.balancer.ended(request, &Ended { member: MemberId(member), bytes, at: self.world.now });
    }

    pub fn wait(&mut self, time: Time) {
        self.world.now = self.world.now.saturating_add(time);
    }
}
