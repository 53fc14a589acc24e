//! Flows as members of links: the hops of each flow in one pool, and the members of each link, with
//! insertion and removal in constant time.

/// One link of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowHop {
    pub(super) link: u32,
    /// Position among the members of the link.
    at: u32,
    /// Share of the rate of the flow that crosses the link; 0 for a link of its acknowledgements.
    pub(super) weight: f64,
}

/// One flow of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) flow: u32,
    /// Position of the hop in the pool.
    hop: u32,
    /// As in the hop: here it needs no access to the pool.
    pub(super) weight: f64,
}

/// Part of the pool that one flow has.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    first: u32,
    count: u32,
}

/// The links of all flows and the flows of all links.
#[derive(Clone, Debug, Default)]
pub(super) struct Memberships {
    pool: Vec<FlowHop>,
    extents: Vec<Extent>,
    members: Vec<Vec<Member>>,
    /// Unused parts of the pool, by their length.
    free: Vec<Vec<u32>>,
}

impl Memberships {
    pub(super) fn new(links: usize) -> Memberships {
        Memberships { members: vec![Vec::new(); links], ..Memberships::default() }
    }

    pub(super) fn hops(&self, flow: u32) -> &[FlowHop] {
        let Extent { first, count } = self.extents[flow as usize];
        &self.pool[first as usize..(first + count) as usize]
    }

    pub(super) fn members(&self, link: u32) -> &[Member] {
        &self.members[link as usize]
    }

    /// Returns the link before this one on the path of a member; `None` for its first link.
    pub(super) fn link_before(&self, member: Member) -> Option<u32> {
        let first = self.extents[member.flow as usize].first;
        (member.hop > first).then(|| self.pool[member.hop as usize - 1].link)
    }

    /// Makes a flow a member of links, each with its weight. The flow must have no links.
    pub(super) fn insert(&mut self, flow: u32, links: &[(u32, f64)]) {
        if self.extents.len() <= flow as usize {
            self.extents.resize(flow as usize + 1, Extent::default());
        }
        debug_assert_eq!(self.extents[flow as usize].count, 0, "the flow has links");
        let count = links.len();
        let first = match self.free.get_mut(count).and_then(Vec::pop) {
            Some(first) => first,
            None => {
                self.pool.resize(self.pool.len() + count, FlowHop::default());
                (self.pool.len() - count) as u32
            }
        };
        self.extents[flow as usize] = Extent { first, count: count as u32 };
        for (hop, (link, weight)) in (first..).zip(links) {
            let members = &mut self.members[*link as usize];
            self.pool[hop as usize] = FlowHop { link: *link, at: members.len() as u32, weight: *weight };
            members.push(Member { flow, hop, weight: *weight });
        }
    }

    /// Removes a flow from all its links.
    pub(super) fn remove(&mut self, flow: u32) {
        let Some(extent) = self.extents.get_mut(flow as usize) else { return };
        let Extent { first, count } = std::mem::take(extent);
        for hop in first..first + count {
            let FlowHop { link, at, .. } = self.pool[hop as usize];
            let members = &mut self.members[link as usize];
            members.swap_remove(at as usize);
            if let Some(moved) = members.get(at as usize) {
                self.pool[moved.hop as usize].at = at;
            }
        }
        let length = count as usize;
        if length > 0 {
            if self.free.len() <= length {
                self.free.resize(length + 1, Vec::new());
            }
            self.free[length].push(first);
        }
    }
}
