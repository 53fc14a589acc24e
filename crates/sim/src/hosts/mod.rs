//! Hosts: balancers that run in hosts, connections, the sending and the receiving side.

pub(crate) mod connection;
pub(crate) mod receiving;
mod sending;

use balance::{Commands, Cx, HostBalancer};
use net::{RandomStream, Time};

use crate::links::network::Network;

pub(crate) struct Hosts {
    balancer: Box<dyn HostBalancer>,
    rng: RandomStream,
    /// Command list passed to the balancer; hosts issue no commands.
    no_commands: Commands,
}

impl Hosts {
    pub(crate) fn new(balancer: Box<dyn HostBalancer>, seed: u64) -> Hosts {
        Hosts { balancer, rng: RandomStream::new(seed, "hosts"), no_commands: Commands::default() }
    }

    #[inline]
    pub(crate) fn call<T>(&mut self, network: &Network, f: impl FnOnce(&mut dyn HostBalancer, &mut Cx<'_>) -> T) -> T {
        let commands = &mut self.no_commands;
        let mut cx = Cx { now: Time::from_ps(network.now), rng: &mut self.rng, ports: network, commands };
        f(self.balancer.as_mut(), &mut cx)
    }
}
