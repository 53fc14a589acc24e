//! Flows as members of links: the hops of each flow in one pool, and the members of each link, with
//! insertion and removal in constant time.

use prefetch_index::prefetch_index;

/// Members of a link that are loaded in advance; a longer list is loaded as it is read.
const PREFETCHED: usize = 8;

/// Hops of the pool in one line of the cache.
const HOPS_IN_LINE: usize = 4;

/// One link of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowHop {
    pub(super) link: u32,
    /// Position among the members of the link.
    at: u32,
    /// Share of the rate of the flow that crosses the link; 0 for a link of its acknowledgements.
    pub(super) weight: f64,
}

/// One flow of a link. What an update reads of all members is here, one after the other: the flows
/// themselves are all over the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) flow: u32,
    /// Position of the hop in the pool.
    hop: u32,
    /// Weight of the hop, which an update then needs not read.
    pub(super) weight: f64,
    pub(super) rate: f64,
    /// The last update that solved the flow.
    pub(super) solved: u32,
    /// Whether this link is the bottleneck of the flow.
    pub(super) is_held: bool,
}

/// A link with its flows: one line of the cache, because an update goes from link to link.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Link {
    pub(super) capacity: f64,
    /// The update in which the link was last examined, and its place among the links of that.
    pub(super) update: u32,
    pub(super) place: u32,
    members: Vec<Member>,
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
    pub(super) links: Vec<Link>,
    /// Unused parts of the pool, by their length.
    free: Vec<Vec<u32>>,
}

impl Memberships {
    pub(super) fn new(capacities: impl Iterator<Item = f64>) -> Memberships {
        let links = capacities.map(|capacity| Link { capacity, ..Link::default() }).collect();
        Memberships { links, ..Memberships::default() }
    }

    pub(super) fn hops(&self, flow: u32) -> &[FlowHop] {
        let Extent { first, count } = self.extents[flow as usize];
        &self.pool[first as usize..(first + count) as usize]
    }

    pub(super) fn members(&self, link: u32) -> &[Member] {
        &self.links[link as usize].members
    }

    /// Tells the links of a flow its rate and its bottleneck.
    pub(super) fn set_rate(&mut self, flow: u32, rate: f64, bottleneck: u32) {
        self.update_members(flow, |link, member| (member.rate, member.is_held) = (rate, link == bottleneck));
    }

    /// Tells the links of a flow that an update solves it.
    pub(super) fn set_solved(&mut self, flow: u32, update: u32) {
        self.update_members(flow, |_, member| member.solved = update);
    }

    /// Calls `change` with each link of a flow and the flow as its member.
    fn update_members(&mut self, flow: u32, change: impl Fn(u32, &mut Member)) {
        let Extent { first, count } = self.extents[flow as usize];
        for hop in &self.pool[first as usize..(first + count) as usize] {
            change(hop.link, &mut self.links[hop.link as usize].members[hop.at as usize]);
        }
    }

    /// Loads memory of flows that [`Memberships::hops`] and the links of these will need.
    pub(super) fn prefetch(&self, flows: &[u32]) {
        flows.iter().for_each(|flow| prefetch_index(&self.extents, *flow as usize));
        for flow in flows {
            let Extent { first, count } = self.extents[*flow as usize];
            (first..first + count).step_by(HOPS_IN_LINE).for_each(|hop| prefetch_index(&self.pool, hop as usize));
        }
        for hop in flows.iter().flat_map(|flow| self.hops(*flow)) {
            prefetch_index(&self.links, hop.link as usize);
        }
    }

    /// Loads the first members of a link.
    pub(super) fn prefetch_members(&self, link: u32) {
        let members = self.members(link);
        (0..members.len().min(PREFETCHED)).step_by(2).for_each(|at| prefetch_index(members, at));
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
            let members = &mut self.links[*link as usize].members;
            self.pool[hop as usize] = FlowHop { link: *link, at: members.len() as u32, weight: *weight };
            members.push(Member { flow, hop, weight: *weight, rate: 0.0, solved: 0, is_held: false });
        }
    }

    /// Removes a flow from all its links.
    pub(super) fn remove(&mut self, flow: u32) {
        let Some(extent) = self.extents.get_mut(flow as usize) else { return };
        let Extent { first, count } = std::mem::take(extent);
        for hop in first..first + count {
            let FlowHop { link, at, .. } = self.pool[hop as usize];
            let members = &mut self.links[link as usize].members;
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
