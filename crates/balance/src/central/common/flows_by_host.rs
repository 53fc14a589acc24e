//! Flows grouped by one of their hosts.

/// Numbers of flows grouped by one of their hosts, in order within each group.
pub(crate) struct FlowsByHost {
    start: Vec<u32>,
    flows: Vec<u32>,
}

impl FlowsByHost {
    /// Groups flows 0, 1, ... by the given hosts, each below `hosts`.
    pub(crate) fn by(hosts: usize, host_of: impl Iterator<Item = usize> + Clone) -> FlowsByHost {
        let mut start = vec![0u32; hosts + 1];
        host_of.clone().for_each(|host| start[host + 1] += 1);
        (0..hosts).for_each(|host| start[host + 1] += start[host]);
        let mut next = start.clone();
        let mut flows = vec![0; start[hosts] as usize];
        for (flow, host) in host_of.enumerate() {
            flows[next[host] as usize] = flow as u32;
            next[host] += 1;
        }
        FlowsByHost { start, flows }
    }
    pub(crate) fn range(&self, host: usize) -> std::ops::Range<usize> {
        self.start[host] as usize..self.start[host + 1] as usize
    }
    pub(crate) fn of(&self, host: usize) -> &[u32] {
        &self.flows[self.range(host)]
    }
    /// Returns all flows, ordered by host.
    pub(crate) fn all(&self) -> &[u32] {
        &self.flows
    }
}
