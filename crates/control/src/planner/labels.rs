//! VLAN labels of paths: a label and the switch of the destination determine the path.
//!
//! For one destination a label is a tree: every switch has at most one next hop in it. Paths to the
//! destination that agree wherever they meet share a label. A tree in which every branch comes from
//! a whole path ends at the destination: from any switch follow the path that added it; if the next
//! switch has its hop from another path, follow that one, and it is the same hop.

use std::collections::BTreeMap;

use net::{LinkIx, NodeIx};

/// Largest VLAN id that may be used.
const LABEL_MAX: usize = 4094;

/// Next hop and number of paths through each switch.
type Tree = BTreeMap<NodeIx, (LinkIx, u32)>;

#[derive(Debug, Default)]
pub(crate) struct Labels(BTreeMap<NodeIx, Vec<Tree>>);

/// The switches of a path that match its label, with the links they forward it on: all but the
/// first, which writes it.
pub(crate) type Hops = [(NodeIx, LinkIx)];

impl Labels {
    /// Returns a label for a path, shared if possible; `None` if all are in use.
    pub(crate) fn assign(&mut self, to: NodeIx, hops: &Hops) -> Option<u16> {
        let trees = self.0.entry(to).or_default();
        let agrees =
            |tree: &Tree| hops.iter().all(|(node, link)| tree.get(node).is_none_or(|(other, _)| other == link));
        let position = match trees.iter().position(agrees) {
            Some(position) => position,
            None if trees.len() < LABEL_MAX => {
                trees.push(Tree::new());
                trees.len() - 1
            }
            None => return None,
        };
        for (node, link) in hops {
            trees[position].entry(*node).or_insert((*link, 0)).1 += 1;
        }
        Some(position as u16 + 1)
    }

    pub(crate) fn release(&mut self, to: NodeIx, label: u16, hops: &Hops) {
        let Some(tree) = self.0.get_mut(&to).and_then(|trees| trees.get_mut(usize::from(label) - 1)) else {
            return;
        };
        for (node, _) in hops {
            if let Some((_, paths)) = tree.get_mut(node) {
                *paths -= 1;
                if *paths == 0 {
                    tree.remove(node);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_compatible_paths_share_a_label() {
        let (mut labels, to) = (Labels::default(), NodeIx(9));
        let hop = |node, link| (NodeIx(node), LinkIx(link));
        let through_1 = [hop(1, 10), hop(2, 20)];
        assert_eq!(labels.assign(to, &through_1), Some(1));
        assert_eq!(labels.assign(to, &[hop(3, 30), hop(2, 20)]), Some(1), "meets at 2 and has the same next hop");
        assert_eq!(labels.assign(to, &[hop(1, 11), hop(4, 40)]), Some(2), "has another next hop at 1");
        assert_eq!(labels.assign(NodeIx(8), &[hop(1, 11)]), Some(1), "another destination");
        labels.release(to, 1, &through_1);
        assert_eq!(labels.assign(to, &[hop(1, 11)]), Some(1), "no path uses label 1 at switch 1 any more");
    }
}
