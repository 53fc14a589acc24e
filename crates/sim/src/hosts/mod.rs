//! Hosts: balancers that run in hosts, connections, the sending and the receiving side.

pub(crate) mod connection;
pub(crate) mod receiving;
mod records;
mod sending;
pub(crate) mod slots;
pub(crate) mod starts;

use balance::{Commands, Cx, HostBalancer};
use net::{RandomStream, Time};

use crate::links::network::Network;

pub(crate) struct Hosts {
    balancer: Box<dyn HostBalancer>,
    labels_acks: bool,
    seed: u64,
    /// A random stream for each host that draws.
    random: Vec<Option<RandomStream>>,
    /// Command list passed to the balancer; hosts issue no commands.
    no_commands: Commands,
}

impl Hosts {
    pub(crate) fn new(balancer: Box<dyn HostBalancer>, seed: u64) -> Hosts {
        Hosts {
            labels_acks: balancer.labels_acks(),
            balancer,
            seed,
            random: Vec::new(),
            no_commands: Commands::default(),
        }
    }

    /// Returns the entropy value of a cumulative acknowledgement, if the balancer picks one.
    #[inline]
    pub(crate) fn ack_entropy(&mut self, flow: u32) -> Option<u16> {
        self.labels_acks.then(|| self.balancer.ack_entropy(flow))
    }

    /// Notifies the balancer of data that reached a receiver twice.
    pub(crate) fn note_duplicate(&mut self, network: &Network, receiver: u32, flow: u32) {
        if self.labels_acks {
            self.call(network, receiver, |hosts, cx| hosts.on_duplicate(cx, flow));
        }
    }

    /// Calls the balancer for a host.
    #[inline]
    pub(crate) fn call<T>(
        &mut self,
        network: &Network,
        host: u32,
        f: impl FnOnce(&mut dyn HostBalancer, &mut Cx<'_>) -> T,
    ) -> T {
        if self.random.len() <= host as usize {
            self.random.resize(host as usize + 1, None);
        }
        let seed = self.seed;
        let rng = self.random[host as usize].get_or_insert_with(|| RandomStream::new(seed, &format!("host {host}")));
        let commands = &mut self.no_commands;
        let mut cx = Cx { now: Time::from_ps(network.now), rng, ports: network, commands };
        f(self.balancer.as_mut(), &mut cx)
    }
}
