//! Rail-optimised network: the accelerators of a server have one port each, in different leaves.

use super::{Size, at_least, half_of, product};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a rail-optimised network. The default has 32 hosts.
    ///
    /// A host is one accelerator with its port. Port j of every server of a unit is in leaf j, the rail of
    /// its unit; spines join all leaves. The accelerators of a server also share a switch of the server,
    /// a link class with a separate rate (NVLink). It joins no other server, since accelerators do not
    /// forward: traffic between rails crosses a spine.
    Rail: "rail",
    title: "Rail-optimised: port j of every server in leaf j, with a switch inside each server",
    source: "NVIDIA DGX SuperPOD reference architecture; Wang et al., arXiv 2307.12169",
    units: u32 = ("2", "scalable units"),
    servers: u32 = ("4", "servers per unit"),
    gpus: u32 = ("4", "accelerators per server, each a host; and leaves per unit"),
    spines: u32 = ("4", "spines"),
    nic_rate: Bandwidth = ("400Gbps", "rate of the port of an accelerator"),
    fabric_rate: Bandwidth = ("400Gbps", "rate of links between leaves and spines"),
    scale_up_rate: Bandwidth = ("3600Gbps", "rate of the link of an accelerator to the switch of its server"),
    nic_delay: Time = ("500ns", "propagation delay between accelerators and leaves"),
    fabric_delay: Time = ("500ns", "propagation delay between leaves and spines"),
    scale_up_delay: Time = ("200ns", "propagation delay inside a server"),
}

impl Rail {
    /// Returns units * servers * gpus hosts; units * gpus leaves, the spines, and a switch for each server.
    pub fn size(&self) -> Size {
        let servers = product([self.units.into(), self.servers.into()]);
        let hosts = product([servers, self.gpus.into()]);
        let leaves = product([self.units.into(), self.gpus.into()]);
        let in_servers = if self.gpus > 1 { servers } else { 0 };
        let scale_up = if self.gpus > 1 { hosts } else { 0 };
        Size {
            hosts,
            switches: leaves.saturating_add(self.spines.into()).saturating_add(in_servers),
            cables: hosts.saturating_add(scale_up).saturating_add(product([leaves, self.spines.into()])),
        }
    }
    /// Returns the smallest capacity between two halves of the units in one direction, exact for an even
    /// number of units: that of half the ports, or of half the uplinks.
    pub fn bisection(&self) -> Bandwidth {
        let uplinks = product([self.units.into(), self.gpus.into(), self.spines.into()]);
        half_of(self.size().hosts, self.nic_rate).min(half_of(uplinks, self.fabric_rate))
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "units", self.units, 1)?;
        at_least(NAME, "servers", self.servers, 1)?;
        at_least(NAME, "gpus", self.gpus, 1)?;
        at_least(NAME, "spines", self.spines, 1)?;
        self.size().check(NAME)
    }

    /// Adds spines, then unit by unit the leaves and the servers. Ports of a leaf are hosts, then spines.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let spines: Vec<NodeIx> = (0..self.spines).map(|i| b.switch(format!("spine{i}"), 2, None)).collect();
        for unit in 0..self.units {
            let leaves: Vec<NodeIx> =
                (0..self.gpus).map(|rail| b.switch(format!("unit{unit}/rail{rail}"), 1, Some(unit))).collect();
            for server in 0..self.servers {
                let number = unit * self.servers + server;
                let inside = (self.gpus > 1).then(|| b.switch(format!("server{number}"), 1, Some(unit)));
                for (gpu, leaf) in leaves.iter().enumerate() {
                    let host = b.host(format!("server{number}/gpu{gpu}"), number, Some(unit));
                    b.connect(host, *leaf, self.nic_rate, self.nic_delay);
                    if let Some(inside) = inside {
                        b.connect(host, inside, self.scale_up_rate, self.scale_up_delay);
                    }
                }
            }
            for leaf in &leaves {
                for spine in &spines {
                    b.connect(*leaf, *spine, self.fabric_rate, self.fabric_delay);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn counts_and_paths_agree_with_enumeration() {
        for (units, servers, gpus, spines) in [(2, 4, 4, 4), (1, 3, 2, 1), (3, 2, 1, 2)] {
            let net = Rail { units, servers, gpus, spines, ..Rail::default() };
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), net.size());
        }
        let topology = Rail::default().build().unwrap();
        assert_eq!(paths(&topology, "server0/gpu0", "server0/gpu3"), (1, 2), "inside the server");
        assert_eq!(paths(&topology, "server0/gpu1", "server3/gpu1"), (1, 2), "one leaf");
        assert_eq!(paths(&topology, "server0/gpu1", "server3/gpu2"), (4, 4), "another rail: a spine");
        assert_eq!(paths(&topology, "server0/gpu1", "server7/gpu1"), (4, 4), "another unit: a spine");
    }

    #[test]
    fn published_scalable_units_of_32_servers_have_the_counts_of_the_reference_text() {
        let net = Rail { units: 4, servers: 32, gpus: 8, spines: 16, ..Rail::default() };
        let size = net.size();
        assert_eq!((size.hosts, size.switches - 128), (1_024, 32 + 16), "without the switches of servers");
    }
}
