//! Next hops by destination switch and switch.
//!
//! The table is a column per destination. Successive tables share the columns that are equal, so
//! their comparison takes time for changed destinations only.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::{LinkIx, NodeIx};

/// A next hop with its share of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NextHop {
    /// The outgoing link.
    pub link: LinkIx,
    /// Share of the traffic, relative to the other next hops; above 0.
    pub weight: u16,
}

/// Next hops of switches towards one destination switch; one is a plain rule, several a select
/// group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HopColumn(Vec<(NodeIx, Arc<[NextHop]>)>);

impl HopColumn {
    /// Returns the next hops of a switch.
    pub fn get(&self, from: NodeIx) -> Option<&Arc<[NextHop]>> {
        self.place(from).ok().map(|place| &self.0[place].1)
    }
    /// Returns the next hops of all switches that have some, in the order of their numbers.
    pub fn rows(&self) -> &[(NodeIx, Arc<[NextHop]>)] {
        &self.0
    }
    /// Returns the switches whose next hops differ between two columns, with those of each column.
    pub fn differences<'a>(&'a self, other: &'a HopColumn) -> impl Iterator<Item = Difference<'a>> {
        let (mut left, mut right) = (&self.0[..], &other.0[..]);
        std::iter::from_fn(move || {
            loop {
                let same = left.iter().zip(right).take_while(|(a, b)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1)).count();
                (left, right) = (&left[same..], &right[same..]);
                let (a, b) = (left.first(), right.first());
                let node = a.into_iter().chain(b).map(|(node, _)| *node).min()?;
                let a = a.filter(|(of, _)| *of == node).map(|(_, hops)| hops);
                let b = b.filter(|(of, _)| *of == node).map(|(_, hops)| hops);
                left = &left[usize::from(a.is_some())..];
                right = &right[usize::from(b.is_some())..];
                if a != b {
                    return Some((node, a, b));
                }
            }
        })
    }
    /// Sets the next hops of switches, given in the order of their numbers; `None` removes them.
    pub fn merge(&mut self, changes: impl Iterator<Item = (NodeIx, Option<Arc<[NextHop]>>)>) {
        let mut moved = Vec::new();
        for (node, hops) in changes {
            match (self.place(node), hops.filter(|hops| !hops.is_empty())) {
                (Ok(place), Some(hops)) => self.0[place].1 = hops,
                (Err(_), None) => {}
                (_, hops) => moved.push((node, hops)),
            }
        }
        if moved.is_empty() {
            return;
        }
        let mut before = std::mem::take(&mut self.0).into_iter().peekable();
        for (node, hops) in moved {
            self.0.extend(std::iter::from_fn(|| before.next_if(|(other, _)| *other < node)));
            before.next_if(|(other, _)| *other == node);
            self.0.extend(hops.map(|hops| (node, hops)));
        }
        self.0.extend(before);
    }
    fn place(&self, node: NodeIx) -> Result<usize, usize> {
        self.0.binary_search_by_key(&node, |(other, _)| *other)
    }
}

/// A switch, and its next hops in two columns.
pub type Difference<'a> = (NodeIx, Option<&'a Arc<[NextHop]>>, Option<&'a Arc<[NextHop]>>);

impl FromIterator<(NodeIx, Arc<[NextHop]>)> for HopColumn {
    fn from_iter<I: IntoIterator<Item = (NodeIx, Arc<[NextHop]>)>>(rows: I) -> HopColumn {
        let mut rows: Vec<_> = rows.into_iter().filter(|(_, hops)| !hops.is_empty()).collect();
        rows.sort_by_key(|(node, _)| *node);
        HopColumn(rows)
    }
}

/// Next hops by destination switch and switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HopTable(BTreeMap<NodeIx, Arc<HopColumn>>);

impl HopTable {
    /// Returns the next hops of one switch towards another.
    pub fn get(&self, from: NodeIx, to: NodeIx) -> Option<&Arc<[NextHop]>> {
        self.0.get(&to)?.get(from)
    }
    /// Returns the next hops towards a switch.
    pub fn column(&self, to: NodeIx) -> Option<&Arc<HopColumn>> {
        self.0.get(&to)
    }
    /// Returns all columns with their destination, in the order of their numbers.
    pub fn columns(&self) -> impl Iterator<Item = (NodeIx, &Arc<HopColumn>)> {
        self.0.iter().map(|(to, column)| (*to, column))
    }
    /// Replaces the next hops towards a switch.
    pub fn set_column(&mut self, to: NodeIx, column: Arc<HopColumn>) {
        if column.0.is_empty() {
            self.0.remove(&to)
        } else {
            self.0.insert(to, column)
        };
    }
    /// Sets the next hops of one switch towards another.
    pub fn insert(&mut self, from: NodeIx, to: NodeIx, hops: Arc<[NextHop]>) {
        Arc::make_mut(self.0.entry(to).or_default()).merge([(from, Some(hops))].into_iter());
    }
}

impl FromIterator<(NodeIx, Arc<HopColumn>)> for HopTable {
    fn from_iter<I: IntoIterator<Item = (NodeIx, Arc<HopColumn>)>>(columns: I) -> HopTable {
        HopTable(columns.into_iter().filter(|(_, column)| !column.0.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(rows: &[(u32, u32)]) -> HopColumn {
        let hops = |link| Arc::new([NextHop { link: LinkIx(link), weight: 1 }]) as Arc<[NextHop]>;
        rows.iter().map(|(node, link)| (NodeIx(*node), hops(*link))).collect()
    }

    #[test]
    fn merge_of_the_differences_makes_columns_equal() {
        let columns = [column(&[]), column(&[(3, 1), (1, 2), (7, 3)]), column(&[(1, 2), (2, 5), (7, 4), (9, 9)])];
        for from in &columns {
            for to in &columns {
                let mut merged = from.clone();
                merged.merge(from.differences(to).map(|(node, _, hops)| (node, hops.cloned())));
                assert_eq!(merged, *to);
                assert_eq!(from.differences(to).count() == 0, from == to);
            }
        }
        let changed: Vec<u32> = columns[1].differences(&columns[2]).map(|(node, ..)| node.0).collect();
        assert_eq!(changed, [2, 3, 7, 9]);
        assert_eq!(columns[1].get(NodeIx(3)).map(|hops| hops[0].link), Some(LinkIx(1)));
        assert_eq!(columns[1].get(NodeIx(2)), None);
    }
}
