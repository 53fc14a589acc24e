//! Flows by host.

/// Numbers of flows grouped by one of their hosts, in order within each.
pub(crate) struct Grouped {
    start: Vec<u32>,
    flows: Vec<u32>,
}

impl Grouped {
    /// Groups flows 0, 1, ... whose hosts, each below `hosts`, are given.
    pub(crate) fn by(hosts: usize, host_of: impl Iterator<Item = usize> + Clone) -> Grouped {
        let mut start = vec![0u32; hosts + 1];
        host_of.clone().for_each(|host| start[host + 1] += 1);
        (0..hosts).for_each(|host| start[host + 1] += start[host]);
        let mut next = start.clone();
        let mut flows = vec![0; start[hosts] as usize];
        for (flow, host) in host_of.enumerate() {
            flows[next[host] as usize] = flow as u32;
            next[host] += 1;
        }
        Grouped { start, flows }
    }
    /// Positions of the flows of a host in [`Grouped::all`].
    pub(crate) fn range(&self, host: usize) -> std::ops::Range<usize> {
        self.start[host] as usize..self.start[host + 1] as usize
    }
    /// The flows of a host.
    pub(crate) fn of(&self, host: usize) -> &[u32] {
        &self.flows[self.range(host)]
    }
    /// All flows by host.
    pub(crate) fn all(&self) -> &[u32] {
        &self.flows
    }
}
