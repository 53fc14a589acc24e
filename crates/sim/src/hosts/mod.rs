//! Hosts: balancers that run in hosts, connections, the sending and the receiving side.

pub(crate) mod connection;
mod receiving;
pub(crate) mod resequencing;
mod sending;

use balance::{Commands, Cx, HostBalancer, HostFeedback, HostLoss, HostPacket};
use net::{RandomStream, Time};

use crate::links::network::Network;

/// The host balancer of a run with its random stream.
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
    fn call<T>(&mut self, network: &Network, f: impl FnOnce(&mut dyn HostBalancer, &mut Cx<'_>) -> T) -> T {
        let telemetry = network.telemetry();
        let commands = &mut self.no_commands;
        let mut cx = Cx { now: Time::from_ps(network.now), rng: &mut self.rng, ports: &telemetry, commands };
        f(self.balancer.as_mut(), &mut cx)
    }

    #[inline]
    pub(crate) fn entropy(&mut self, network: &Network, packet: &HostPacket) -> u16 {
        self.call(network, |hosts, cx| hosts.entropy(cx, packet))
    }

    #[inline]
    pub(crate) fn on_ack(&mut self, network: &Network, feedback: &HostFeedback) {
        self.call(network, |hosts, cx| hosts.on_ack(cx, feedback));
    }

    pub(crate) fn on_loss(&mut self, network: &Network, flow: u32, loss: HostLoss) {
        self.call(network, |hosts, cx| hosts.on_loss(cx, flow, loss));
    }
}
