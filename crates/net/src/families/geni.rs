//! GENI WAN: the measured nine-site network of founding document 001.

use super::at_least;
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

/// Sites that send requests: switches `Client-1` .. `Client-4`, each with a host `…/host`.
pub const CLIENTS: [&str; 4] = ["Client-1", "Client-2", "Client-3", "Client-4"];
pub const SERVERS: [&str; 3] = ["Server-1", "Server-2", "Server-3"];
pub const TRANSIT: [&str; 2] = ["Kansas", "Kentucky"];

/// Table 4.3 of founding document 001: ends, measured throughput from the first to the second and
/// back in kbit/s, one-way latency in ms.
const TABLE: [(&str, &str, u64, u64, u64); 14] = [
    ("Client-1", "Server-1", 57_800, 58_100, 15),
    ("Client-1", "Kansas", 30_700, 26_800, 21),
    ("Client-1", "Server-3", 12_100, 23_900, 36),
    ("Client-2", "Server-1", 39_900, 51_200, 19),
    ("Client-2", "Kentucky", 52_200, 53_000, 11),
    ("Client-2", "Server-2", 89_700, 83_000, 10),
    ("Client-3", "Server-2", 90_300, 90_400, 7),
    ("Client-3", "Kentucky", 56_700, 53_600, 9),
    ("Client-3", "Client-4", 62_600, 57_000, 14),
    ("Client-4", "Kentucky", 76_900, 71_800, 8),
    ("Client-4", "Server-3", 91_200, 91_100, 2),
    ("Server-1", "Kansas", 20_300, 17_400, 28),
    ("Server-3", "Kansas", 11_700, 15_300, 16),
    ("Kansas", "Kentucky", 36_700, 39_100, 10),
];

family! {
    /// Parameters of the GENI WAN: the link between a site's host and its switch. Host and switch
    /// of a site were one machine, so the default is too fast to matter.
    GeniWan: "geni-wan",
    title: "GENI WAN: 4 clients, 3 servers and 2 transit sites, as measured",
    source: "founding document 001 (Semedo, University of Lisbon, 2014), table 4.3",
    host_rate: Bandwidth = ("100Gbps", "rate of the link between a site's host and switch"),
    host_delay: Time = ("0ms", "propagation delay of that link"),
    throughput_percent: u32 = ("100", "part of the measured throughputs that the links carry, percent"),
}

impl GeniWan {
    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "throughput_percent", self.throughput_percent, 1)
    }

    /// Adds clients first, then servers; port 0 of a switch leads to its host.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let mut sites: Vec<(&str, NodeIx)> = Vec::new();
        for site in CLIENTS.into_iter().chain(SERVERS).chain(TRANSIT) {
            let switch = b.switch(site, 1, None);
            if !TRANSIT.contains(&site) {
                let host = b.host(format!("{site}/host"), sites.len() as u32, None);
                b.connect(host, switch, self.host_rate, self.host_delay);
            }
            sites.push((site, switch));
        }
        let switch = |name: &str| {
            let found = sites.iter().find(|(site, _)| *site == name);
            found.expect("the table names only its sites").1
        };
        for (from, to, there, back, latency_ms) in TABLE {
            let rate = |kbps: u64| Bandwidth::from_bps(kbps * 10 * u64::from(self.throughput_percent));
            b.connect_asymmetric(switch(from), switch(to), rate(there), rate(back), Time::from_ms(latency_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_sites_fourteen_links_seven_hosts() {
        let topology = GeniWan::default().build().unwrap();
        assert_eq!(topology.hosts().len(), 7);
        assert_eq!(topology.nodes().len(), 16);
        assert_eq!(topology.links().len() / 2, 14 + 7);
    }
}
