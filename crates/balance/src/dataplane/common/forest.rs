//! Loop-free sets of cables.

use net::{LinkIx, NodeIx, Topology};

/// A set of cables, as a bit set.
#[derive(Clone, Debug)]
pub struct Cables(Vec<u64>);

impl Cables {
    pub fn none(topology: &Topology) -> Cables {
        Cables(vec![0; (topology.links().len() / 2).div_ceil(64)])
    }

    /// Adds the cable of links 2i and 2i + 1 for i = `cable`.
    pub fn insert(&mut self, cable: u32) {
        self.0[cable as usize / 64] |= 1 << (cable % 64);
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn union_count(&self, other: &Cables) -> u32 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a | b).count_ones()).sum()
    }

    fn without<'a>(&'a self, other: &'a Cables) -> impl Iterator<Item = u32> + 'a {
        self.0.iter().zip(&other.0).zip(0u32..).flat_map(|((word, other), at)| {
            let mut rest = word & !other;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

/// A loop-free set of cables: a union-find structure that can undo its last additions.
#[derive(Clone, Debug)]
pub struct Forest {
    parent: Vec<u32>,
    size: Vec<u32>,
    cables: Cables,
    /// Maximum number of cables without a loop: one less than the nodes that can be on paths.
    most: u32,
}

impl Forest {
    pub fn new(topology: &Topology) -> Forest {
        let nodes = topology.nodes().len() as u32;
        let is_on_paths = |node: &u32| {
            let node = NodeIx(*node);
            topology.node(node).forwards || topology.out_links(node).len() > 1
        };
        let most = (0..nodes).filter(is_on_paths).count().max(1) as u32 - 1;
        let size = vec![1; nodes as usize];
        Forest { parent: (0..nodes).collect(), size, cables: Cables::none(topology), most }
    }

    fn root(&self, mut node: u32) -> u32 {
        while self.parent[node as usize] != node {
            node = self.parent[node as usize];
        }
        node
    }

    /// Adds all cables, or none if they would make a loop.
    pub fn add(&mut self, topology: &Topology, cables: &Cables) -> bool {
        // Counting rejects most trees immediately in networks such as tori.
        let union = self.cables.union_count(cables);
        if union > self.most {
            return false;
        }
        let ends = |cable: u32| {
            let link = topology.link(LinkIx(cable * 2));
            (link.from.0, link.to.0)
        };
        // Nothing needs to be undone if a single cable makes a loop.
        let is_loop = |cable| self.root(ends(cable).0) == self.root(ends(cable).1);
        if cables.without(&self.cables).any(is_loop) {
            return false;
        }
        let new: Vec<u32> = cables.without(&self.cables).collect();
        let mut joined = Vec::with_capacity(new.len());
        for cable in new {
            let (a, b) = (self.root(ends(cable).0), self.root(ends(cable).1));
            if a == b {
                self.take_back(&joined);
                return false;
            }
            let (small, large) = if self.size[a as usize] < self.size[b as usize] { (a, b) } else { (b, a) };
            self.parent[small as usize] = large;
            self.size[large as usize] += self.size[small as usize];
            joined.push((small, large));
        }
        self.cables.0.iter_mut().zip(&cables.0).for_each(|(word, more)| *word |= more);
        debug_assert_eq!(self.cables.count(), union, "a union has been counted wrong");
        true
    }

    fn take_back(&mut self, joined: &[(u32, u32)]) {
        for (small, large) in joined.iter().rev() {
            self.parent[*small as usize] = *small;
            self.size[*large as usize] -= self.size[*small as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(topology: &Topology, cables: &[u32]) -> Cables {
        let mut set = Cables::none(topology);
        cables.iter().for_each(|cable| set.insert(*cable));
        set
    }

    #[test]
    fn cables_with_a_loop_are_rejected_completely() {
        let t = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=2").unwrap();
        let name = |cable: u32| t.link_name(LinkIx(cable * 2));
        let fabric: Vec<u32> = (0..t.links().len() as u32 / 2).filter(|c| !t.is_host_link(LinkIx(c * 2))).collect();
        let [a, b, c, d] = fabric[..] else { panic!("four fabric cables, not {:?}", fabric.len()) };
        let mut forest = Forest::new(&t);
        assert!(forest.add(&t, &of(&t, &[a, b])));
        assert!(!forest.add(&t, &of(&t, &[c, d])), "{} and {} close a loop", name(c), name(d));
        assert!(forest.add(&t, &of(&t, &[c])), "the refused set left nothing behind");
        assert!(!forest.add(&t, &of(&t, &[d])));
        assert!(forest.add(&t, &of(&t, &[a, b, c])), "cables already there are no loop");
        assert_eq!(forest.cables.count(), 3);
    }

    #[test]
    fn parallel_cables_are_a_loop() {
        let t = net::spec::parse("leaf-spine:leaves=2,spines=1,hosts_per_leaf=1,parallel=2").unwrap();
        let fabric: Vec<u32> = (0..t.links().len() as u32 / 2).filter(|c| !t.is_host_link(LinkIx(c * 2))).collect();
        let mut forest = Forest::new(&t);
        assert!(!forest.add(&t, &of(&t, &fabric[..2])));
        assert!(forest.add(&t, &of(&t, &fabric[..1])));
    }
}
