//! Dragonfly(p, a, h): groups of fully connected routers, and links between all groups.

use super::{Size, at_least, product, refuse};
use crate::topology::{NodeIx, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

family! {
    /// Parameters of a dragonfly. The default is the balanced one of 72 hosts (a = 2p = 2h).
    ///
    /// Links between groups are in the absolute arrangement: those of a group to the others in the
    /// order of their numbers, `h` at each router.
    Dragonfly: "dragonfly",
    title: "Dragonfly: groups of fully connected routers, linked with all other groups",
    source: "Kim, Dally, Scott, Abts: Technology-Driven, Highly-Scalable Dragonfly Topology, ISCA 2008",
    p: u32 = ("2", "hosts per router"),
    a: u32 = ("4", "routers per group"),
    h: u32 = ("2", "links to other groups per router"),
    groups: Option<u32> = ("a*h+1", "groups; with fewer, two groups have more links"),
    host_rate: Bandwidth = ("10Gbps", "rate of host links"),
    local_rate: Bandwidth = ("10Gbps", "rate of links within a group"),
    global_rate: Bandwidth = ("10Gbps", "rate of links between groups"),
    host_delay: Time = ("1us", "propagation delay of host links"),
    local_delay: Time = ("1us", "propagation delay of links within a group"),
    global_delay: Time = ("1us", "propagation delay of links between groups"),
}

impl Dragonfly {
    pub fn groups(&self) -> u32 {
        self.groups.unwrap_or_else(|| self.a.saturating_mul(self.h).saturating_add(1))
    }
    /// Returns the links between two groups: floor(a*h / (groups - 1)).
    pub fn links_between_groups(&self) -> u32 {
        self.a.saturating_mul(self.h) / self.groups().saturating_sub(1).max(1)
    }
    /// Returns p*a*g hosts and a*g routers; cables: g*a*(a-1)/2 local ones, g*(g-1)/2 times the links
    /// between two groups, and one per host.
    pub fn size(&self) -> Size {
        let (a, groups) = (u64::from(self.a), u64::from(self.groups()));
        let switches = product([a, groups]);
        let hosts = product([self.p.into(), switches]);
        let local = product([switches, a.saturating_sub(1)]) / 2;
        let global = product([groups, groups.saturating_sub(1)]) / 2;
        let global = product([global, self.links_between_groups().into()]);
        Size { hosts, switches, cables: hosts.saturating_add(local).saturating_add(global) }
    }

    fn check(&self) -> Result<(), TopologyError> {
        at_least(NAME, "p", self.p, 1)?;
        at_least(NAME, "a", self.a, 1)?;
        at_least(NAME, "h", self.h, 1)?;
        at_least(NAME, "groups", self.groups(), 2)?;
        if self.links_between_groups() == 0 {
            let reason = format!("must be at most a*h+1 = {}", self.a.saturating_mul(self.h).saturating_add(1));
            return Err(refuse(NAME, "groups", self.groups(), reason));
        }
        self.size().check(NAME)
    }

    /// Adds group by group the routers with their hosts, then local and global links. Ports of a
    /// router are hosts, local links, global links.
    fn add_to(&self, b: &mut TopologyBuilder) {
        let (a, groups, parallel) = (self.a, self.groups(), self.links_between_groups());
        let mut routers: Vec<NodeIx> = Vec::new();
        for group in 0..groups {
            for router in 0..a {
                let node = b.switch(format!("group{group}/router{router}"), 1, Some(group));
                b.rack(node, group * a + router, Some(group), self.p, (self.host_rate, self.host_delay));
                routers.push(node);
            }
        }
        let router = |group: u32, number: u32| routers[(group * a + number) as usize];
        for group in 0..groups {
            for from in 0..a {
                for to in from + 1..a {
                    b.connect(router(group, from), router(group, to), self.local_rate, self.local_delay);
                }
            }
        }
        for from in 0..groups {
            for to in from + 1..groups {
                for copy in 0..parallel {
                    // A group does not count itself among the others.
                    let (out, back) = ((to - 1) * parallel + copy, from * parallel + copy);
                    let ends = (router(from, out / self.h), router(to, back / self.h));
                    b.connect(ends.0, ends.1, self.global_rate, self.global_delay);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::distances;
    use super::*;

    #[test]
    fn counts_diameter_and_mean_distance_are_the_published_ones() {
        for ((p, a, h), (groups, routers, hosts), mean) in
            [((2, 4, 2), (9, 36, 72), 2.35), ((3, 6, 3), (19, 114, 342), 2.58), ((4, 8, 4), (33, 264, 1056), 2.69)]
        {
            let net = Dragonfly { p, a, h, ..Dragonfly::default() };
            let size = net.size();
            assert_eq!((net.groups(), size.switches, size.hosts), (groups, routers, hosts));
            let topology = net.build().unwrap();
            assert_eq!(Size::of(&topology), size);
            let (farthest, average) = distances(&topology);
            assert_eq!(farthest, 3, "local, global, local");
            assert!((average - mean).abs() < 0.005, "{average} for {mean}");
            // Every router has p + a - 1 + h ports.
            let radix = (p + a - 1 + h) as usize;
            let switches = (0u32..).map(NodeIx).take(topology.nodes().len()).filter(|n| topology.node(*n).forwards);
            assert!(switches.into_iter().all(|node| topology.out_links(node).len() == radix));
        }
    }

    #[test]
    fn fewer_groups_have_more_links_between_them() {
        let net = Dragonfly { groups: Some(5), ..Dragonfly::default() };
        assert_eq!(net.links_between_groups(), 2);
        let topology = net.build().unwrap();
        assert_eq!(Size::of(&topology), net.size());
        let too_many = Dragonfly { groups: Some(10), ..Dragonfly::default() };
        assert!(too_many.build().unwrap_err().to_string().contains("at most a*h+1 = 9"));
    }
}
