//! Mechanisms that live in hosts, and the stream they draw from.

use balance::{Commands, Cx, HostBalancer, HostFeedback, HostLoss, HostPacket};
use net::{Stream, Time};

use crate::network::Network;

/// The mechanism of all hosts.
pub(crate) struct Hosts {
    balancer: Box<dyn HostBalancer>,
    rng: Stream,
    /// Hosts have nothing to ask for.
    no_commands: Commands,
}

impl Hosts {
    pub(crate) fn new(balancer: Box<dyn HostBalancer>, seed: u64) -> Hosts {
        Hosts { balancer, rng: Stream::new(seed, "hosts"), no_commands: Commands::default() }
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
