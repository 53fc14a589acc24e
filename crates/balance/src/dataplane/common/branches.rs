//! The branches of an edge: the paths to a class that begin with the same link. With several links
//! of a host these are its planes, at a leaf its uplinks.

use std::ops::Range;

use net::routes::ClassIx;

use super::paths::{PathIndex, distinct};
use crate::dataplane::EdgeEnv;

/// Branches of the paths to every class on the intact network. A path's number begins with its
/// first link, so that the paths of a branch have consecutive numbers.
pub(crate) struct Branches {
    list_of_class: Vec<u32>,
    /// First path of each branch in ascending order, and the number of paths as a last element.
    lists: Vec<Box<[u16]>>,
}

/// The branches of the paths to one class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BranchesTo<'a>(&'a [u16]);

impl Branches {
    pub(crate) fn new(env: &EdgeEnv<'_>) -> Branches {
        let index = PathIndex::outward(env);
        let links = index.first_links(env);
        let bounds = |class: u32| -> Box<[u16]> {
            let mut bounds = vec![0u16];
            for branch in links[index.range(ClassIx(class))].chunk_by(|a, b| a == b) {
                bounds.push(bounds[bounds.len() - 1] + branch.len() as u16);
            }
            bounds.into()
        };
        let (list_of_class, lists) = distinct((0..index.class_count() as u32).map(bounds));
        Branches { list_of_class, lists }
    }

    /// Returns the branches to a class, none for one that does not exist.
    #[inline]
    pub(crate) fn to(&self, class: ClassIx) -> BranchesTo<'_> {
        let list = self.list_of_class.get(class.0 as usize).map_or(&[0][..], |list| &self.lists[*list as usize]);
        BranchesTo(list)
    }
}

impl BranchesTo<'_> {
    #[inline]
    pub(crate) fn count(self) -> usize {
        self.0.len() - 1
    }

    #[inline]
    pub(crate) fn path_count(self) -> usize {
        usize::from(self.0[self.count()])
    }

    /// Returns the paths of a branch.
    #[inline]
    pub(crate) fn paths(self, branch: usize) -> Range<u16> {
        self.0[branch]..self.0[branch + 1]
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Range<u16>> {
        (0..self.count()).map(move |branch| self.paths(branch))
    }

    /// Returns the branch of a path; `None` if the path does not exist.
    #[inline]
    pub(crate) fn of(self, path: u16) -> Option<usize> {
        (usize::from(path) < self.path_count()).then(|| self.0.partition_point(|first| *first <= path) - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dataplane::testing::with_edge_env;

    #[test]
    fn paths_of_a_branch_share_their_first_link_and_no_others_do() {
        for family in [
            "fat-tree:k=8",
            "multi-plane:planes=4,spines=3",
            "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,parallel=2",
            "bcube:n=4,k=1",
        ] {
            with_edge_env(family, 1, |env| {
                let branches = Branches::new(env);
                for class in (0..env.path_counts.len() as u32).map(ClassIx).filter(|class| *class != env.class) {
                    let to = branches.to(class);
                    assert_eq!(to.path_count(), usize::from(env.path_counts[class.0 as usize]), "{family}");
                    let first = |path: u16| env.routes.path(env.topology, env.edge, class, path.into())[0];
                    let links: BTreeSet<_> = to.iter().map(|paths| first(paths.start)).collect();
                    assert_eq!(links.len(), to.count(), "{family}: each branch has another first link");
                    for (branch, paths) in to.iter().enumerate() {
                        for path in paths.clone() {
                            assert_eq!((to.of(path), first(path)), (Some(branch), first(paths.start)), "{family}");
                        }
                    }
                }
            });
        }
    }

    #[test]
    fn paths_and_classes_that_do_not_exist_have_no_branch() {
        with_edge_env("leaf-spine:leaves=2,spines=4,hosts_per_leaf=2", 0, |env| {
            let branches = Branches::new(env);
            let to = branches.to(ClassIx(1));
            assert_eq!((to.count(), to.of(3), to.of(4), to.of(u16::MAX)), (4, Some(3), None, None));
            assert_eq!((branches.to(ClassIx(9)).count(), branches.to(ClassIx(9)).of(0)), (0, None));
        });
    }
}
