//! State per path in arrays, and the links of every path.

use std::collections::BTreeMap;

use net::routes::ClassIx;
use net::{LinkIx, NodeIx, Routes, Time, Topology};

use crate::dataplane::EdgeEnv;

/// Returns whether `path` is in `live`, which is ascending. Constant time if all paths are live.
#[inline]
pub fn is_live(live: &[u16], path: u16) -> bool {
    live.get(usize::from(path)) == Some(&path) || live.binary_search(&path).is_ok()
}

/// Returns the number of a path among the shortest ones, as [`Routes::path`] counts, saturating;
/// `None` if it is not one of them any more.
pub fn rank_of(topology: &Topology, routes: &Routes, from: NodeIx, to: ClassIx, path: &[LinkIx]) -> Option<u32> {
    let (mut at, mut rank) = (from, 0u32);
    for link in path {
        let hops = routes.next_hops(at, to);
        let position = hops.iter().position(|hop| hop == link)?;
        for hop in &hops[..position] {
            rank = rank.saturating_add(routes.path_count(topology.link(*hop).to, to));
        }
        at = topology.link(*link).to;
    }
    (at == routes.class_node(to)).then_some(rank)
}

/// Stores equal values once: returns the number of each value, and the values by number.
pub fn distinct<T: Ord + Clone>(values: impl Iterator<Item = T>) -> (Vec<u32>, Vec<T>) {
    let (mut known, mut distinct) = (BTreeMap::new(), Vec::new());
    let number = |value: T| {
        *known.entry(value).or_insert_with_key(|value| {
            distinct.push(value.clone());
            distinct.len() as u32 - 1
        })
    };
    (values.map(number).collect(), distinct)
}

/// Returns the links from a node to nodes that forward, in port order.
pub fn links_to_forwarders(topology: &Topology, node: NodeIx) -> impl Iterator<Item = LinkIx> {
    topology.out_links(node).iter().copied().filter(|link| topology.node(topology.link(*link).to).forwards)
}

/// Returns the time that `bytes` bytes take over an empty link: delay and transmission.
pub fn crossing(topology: &Topology, link: LinkIx, bytes: u32) -> Time {
    let link = topology.link(link);
    link.delay.saturating_add(link.rate.time_for(u64::from(bytes)))
}

/// Returns the delay of the first path from each class to this edge while it is empty: propagation,
/// picoseconds, and picoseconds per byte of a packet that every link stores and forwards.
pub fn empty_delays(env: &EdgeEnv<'_>) -> Vec<(u64, f64)> {
    let empty = (0..env.path_counts.len() as u32).map(|class| {
        let from = env.routes.class_node(ClassIx(class));
        let links = env.routes.path(env.topology, from, env.class, 0);
        links.iter().map(|link| env.topology.link(*link)).fold((0, 0.0), |(delay, per_byte), link| {
            (delay + link.delay.as_ps(), per_byte + 8e12 / link.rate.as_bps_f64())
        })
    });
    empty.collect()
}

/// Consecutive numbers for the paths of all classes, so that an array can hold a value for each.
#[derive(Clone, Debug)]
pub struct PathIndex {
    /// Number of the first path of each class, and the end as a last element.
    first: Vec<u32>,
}

impl PathIndex {
    pub fn new(counts: impl IntoIterator<Item = u16>) -> PathIndex {
        let mut first = vec![0u32];
        let mut total = 0u32;
        first.extend(counts.into_iter().map(|count| {
            total += u32::from(count);
            total
        }));
        PathIndex { first }
    }

    pub fn outward(env: &EdgeEnv<'_>) -> PathIndex {
        PathIndex::new(env.path_counts.iter().copied())
    }

    pub fn inward(env: &EdgeEnv<'_>) -> PathIndex {
        let count = |class: u32| env.routes.path_count(env.routes.class_node(ClassIx(class)), env.class);
        let classes = 0..env.path_counts.len() as u32;
        PathIndex::new(classes.map(|class| count(class).min(u32::from(u16::MAX) - 1) as u16))
    }

    pub fn class_count(&self) -> usize {
        self.first.len() - 1
    }

    /// Returns the first link of each path that begins at the edge, by the numbers of this index, made by
    /// [`PathIndex::outward`]. The path to the own class has no links: its number has link 0.
    pub fn first_links(&self, env: &EdgeEnv<'_>) -> Vec<LinkIx> {
        let first = |to, path| env.routes.step(env.topology, env.edge, to, path).map_or(LinkIx(0), |(link, _)| link);
        let classes = (0..self.class_count() as u32).map(ClassIx);
        classes.flat_map(|to| (0..self.count(to) as u32).map(move |path| first(to, path))).collect()
    }

    /// Returns the number of paths of all classes.
    pub fn total(&self) -> usize {
        self.first[self.class_count()] as usize
    }

    #[inline]
    pub fn count(&self, class: ClassIx) -> usize {
        self.range(class).len()
    }

    #[inline]
    pub fn range(&self, class: ClassIx) -> std::ops::Range<usize> {
        let class = class.0 as usize;
        self.first[class] as usize..self.first[class + 1] as usize
    }

    /// Returns the number of a path from another edge, or `None` if it does not exist.
    #[inline]
    pub fn get(&self, class: ClassIx, path: u16) -> Option<usize> {
        if class.0 as usize >= self.class_count() {
            return None;
        }
        let range = self.range(class);
        (usize::from(path) < range.len()).then(|| range.start + usize::from(path))
    }
}

#[derive(Clone, Debug)]
pub struct PathLinks {
    /// Start index of the paths to each class, and the number of links of each of these paths.
    classes: Vec<(u32, u16)>,
    links: Vec<LinkIx>,
}

impl PathLinks {
    /// Walks all paths of the intact network; call it once, when an instance is made.
    pub fn new(env: &EdgeEnv<'_>) -> PathLinks {
        let mut all = PathLinks { classes: Vec::with_capacity(env.path_counts.len()), links: Vec::new() };
        for (class, count) in env.path_counts.iter().enumerate() {
            let to = ClassIx(class as u32);
            // Equal cost means an equal number of links.
            let length = env.routes.distance(env.edge, to).unwrap_or(0);
            all.classes.push((all.links.len() as u32, length));
            for path in 0..u32::from(*count) {
                all.links.extend(env.routes.path(env.topology, env.edge, to, path));
            }
        }
        all
    }

    #[inline]
    pub fn of(&self, class: ClassIx, path: u16) -> &[LinkIx] {
        let (start, length) = self.classes[class.0 as usize];
        let start = start as usize + usize::from(path) * usize::from(length);
        &self.links[start..start + usize::from(length)]
    }
}

#[derive(Clone, Debug)]
pub struct PathSets {
    /// First word of each class, and the end as a last element.
    first: Vec<u32>,
    words: Vec<u64>,
}

impl PathSets {
    pub fn new(index: &PathIndex) -> PathSets {
        let mut first = vec![0u32];
        for class in 0..index.class_count() as u32 {
            let words = index.count(ClassIx(class)).div_ceil(64) as u32;
            first.push(first[class as usize] + words);
        }
        let words = vec![0; first[index.class_count()] as usize];
        PathSets { first, words }
    }

    #[inline]
    pub fn insert(&mut self, class: ClassIx, path: u16) {
        let word = self.word(class, path);
        self.words[word] |= 1 << (path % 64);
    }

    #[inline]
    pub fn remove(&mut self, class: ClassIx, path: u16) {
        let word = self.word(class, path);
        self.words[word] &= !(1 << (path % 64));
    }

    #[inline]
    pub fn contains(&self, class: ClassIx, path: u16) -> bool {
        self.words[self.word(class, path)] & (1 << (path % 64)) != 0
    }

    /// Returns the first member from `start` on, in circular order.
    pub fn next(&self, class: ClassIx, start: u16) -> Option<u16> {
        let class = class.0 as usize;
        let words = &self.words[self.first[class] as usize..self.first[class + 1] as usize];
        let from = usize::from(start / 64).min(words.len().checked_sub(1)?);
        let high = u64::MAX << (start % 64);
        // The word of `start` is read twice: its high part first, its low part last.
        let found = |word: usize, mask: u64| {
            let bits = words[word] & mask;
            (bits != 0).then(|| (word * 64) as u16 + bits.trailing_zeros() as u16)
        };
        found(from, high)
            .or_else(|| (from + 1..words.len()).chain(0..from).find_map(|word| found(word, u64::MAX)))
            .or_else(|| found(from, !high))
    }

    #[inline]
    fn word(&self, class: ClassIx, path: u16) -> usize {
        self.first[class.0 as usize] as usize + usize::from(path / 64)
    }
}

/// The live paths of every class as of the last packet, for timers and other edges' packets.
#[derive(Clone, Debug)]
pub struct KnownLive {
    classes: Vec<KnownPaths>,
    all: Vec<u16>,
}

#[derive(Clone, Debug, Default)]
struct KnownPaths {
    /// Empty while all paths are live.
    live: Vec<u16>,
    changes: u32,
}

impl KnownLive {
    pub fn new(index: &PathIndex) -> KnownLive {
        let most = (0..index.class_count() as u32).map(|class| index.count(ClassIx(class))).max().unwrap_or(0);
        KnownLive { classes: vec![KnownPaths::default(); index.class_count()], all: (0..most as u16).collect() }
    }

    /// Updates the live paths of a class with `count` paths; returns whether they changed.
    #[inline]
    pub fn note(&mut self, class: ClassIx, live: &[u16], count: usize) -> bool {
        let known = &mut self.classes[class.0 as usize];
        let now: &[u16] = if live.len() == count { &[] } else { live };
        if known.live.as_slice() == now {
            return false;
        }
        known.live.clear();
        known.live.extend_from_slice(now);
        known.changes += 1;
        true
    }

    /// Returns how often the live paths of a class have changed.
    #[inline]
    pub fn changes(&self, class: ClassIx) -> u32 {
        self.classes[class.0 as usize].changes
    }

    /// Returns the live paths of a class that has `count` paths.
    #[inline]
    pub fn of(&self, class: ClassIx, count: usize) -> &[u16] {
        let known = &self.classes[class.0 as usize].live;
        if known.is_empty() { &self.all[..count] } else { known }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::with_edge_env;

    #[test]
    fn live_paths_are_found_with_any_missing() {
        assert!((0..4).all(|path| is_live(&[0, 1, 2, 3], path)) && !is_live(&[0, 1, 2, 3], 4));
        let live = [1, 2, 5, 300];
        let found: Vec<u16> = (0..400).filter(|path| is_live(&live, *path)).collect();
        assert_eq!(found, live);
        assert!(!is_live(&[], 0));
    }

    #[test]
    fn paths_are_numbered_through() {
        let index = PathIndex::new([1, 4, 0, 2]);
        assert_eq!((index.total(), index.class_count(), index.count(ClassIx(2))), (7, 4, 0));
        assert_eq!(index.range(ClassIx(1)), 1..5);
        assert_eq!(
            [index.get(ClassIx(3), 1), index.get(ClassIx(3), 2), index.get(ClassIx(9), 0)],
            [Some(6), None, None]
        );
    }

    #[test]
    fn links_are_those_of_the_routes() {
        with_edge_env("fat-tree:k=4", 1, |env| {
            let links = PathLinks::new(env);
            for class in 0..env.path_counts.len() as u32 {
                let to = ClassIx(class);
                for path in 0..env.path_counts[class as usize] {
                    let expected = env.routes.path(env.topology, env.edge, to, u32::from(path));
                    assert_eq!(links.of(to, path), expected, "class {class}, path {path}");
                }
            }
            let (outward, inward) = (PathIndex::outward(env), PathIndex::inward(env));
            assert_eq!(outward.total(), inward.total(), "a tree of cables is the same from both ends");
        });
    }

    #[test]
    fn the_last_seen_live_paths_are_known() {
        let (index, class) = (PathIndex::new([3, 4]), ClassIx(1));
        let mut known = KnownLive::new(&index);
        assert_eq!((known.of(class, 4), known.of(ClassIx(0), 3)), (&[0, 1, 2, 3][..], &[0, 1, 2][..]));
        assert!(!known.note(class, &[0, 1, 2, 3], 4));
        assert!(known.note(class, &[1, 3], 4) && !known.note(class, &[1, 3], 4));
        assert_eq!(known.of(class, 4), [1, 3]);
        assert!(known.note(class, &[0, 3], 4), "as many, but others");
        assert!(known.note(class, &[0, 1, 2, 3], 4));
        assert_eq!((known.of(class, 4), known.changes(class)), (&[0, 1, 2, 3][..], 3));
    }

    #[test]
    fn sets_are_walked_in_circles() {
        let (index, class) = (PathIndex::new([3, 200]), ClassIx(1));
        let mut sets = PathSets::new(&index);
        assert_eq!(sets.next(class, 0), None);
        assert_eq!(PathSets::new(&PathIndex::new([0])).next(ClassIx(0), 0), None);
        let members = [2u16, 63, 64, 130, 199];
        members.iter().for_each(|path| sets.insert(class, *path));
        for start in 0..200 {
            let expected = members.iter().copied().find(|path| *path >= start).unwrap_or(2);
            assert_eq!(sets.next(class, start), Some(expected), "from {start}");
        }
        assert_eq!(sets.next(class, 250), Some(2), "a start beyond the end begins again");
        sets.remove(class, 64);
        assert!(!sets.contains(class, 64) && sets.contains(class, 63));
        assert_eq!(sets.next(ClassIx(0), 1), None, "classes do not mix");
    }
}
