//! A value for each ordered pair of classes, such as a distance, which all edges of a run share.

use net::Routes;
use net::routes::ClassIx;

/// The values of pairs, in one array.
#[derive(Clone, Debug)]
pub(crate) struct ClassPairs<T> {
    count: usize,
    /// By destination, then by source.
    values: Vec<T>,
}

impl<T: Copy> ClassPairs<T> {
    /// Collects the values of all pairs; `to_class` returns those of all sources to one destination,
    /// in the order of the classes.
    pub(crate) fn new<C: IntoIterator<Item = T>>(count: usize, to_class: impl FnMut(ClassIx) -> C) -> ClassPairs<T> {
        ClassPairs { count, values: (0..count as u32).map(ClassIx).flat_map(to_class).collect() }
    }

    #[inline]
    pub(crate) fn of(&self, from: ClassIx, to: ClassIx) -> T {
        self.values[to.0 as usize * self.count + from.0 as usize]
    }
}

/// Returns the number of links of the shortest paths between classes; `u16::MAX` without a path.
pub(crate) fn distances(routes: &Routes) -> ClassPairs<u16> {
    let classes = || (0..routes.class_count() as u32).map(ClassIx);
    ClassPairs::new(routes.class_count(), |to| {
        classes().map(move |from| routes.distance(routes.class_node(from), to).unwrap_or(u16::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_source_and_destination() {
        let pairs = ClassPairs::new(3, |to| (0..3).map(move |from| 10 * from + to.0));
        assert_eq!([(0, 2), (2, 0), (1, 1)].map(|(from, to)| pairs.of(ClassIx(from), ClassIx(to))), [2, 20, 11]);
    }

    #[test]
    fn distances_are_those_of_the_routes() {
        let topology = net::spec::parse("dragonfly:p=2,a=4,h=2").unwrap();
        let routes = Routes::intact(&topology);
        let all = distances(&routes);
        for (from, to) in [(0, 0), (0, 3), (3, 20), (20, 3)].map(|(from, to)| (ClassIx(from), ClassIx(to))) {
            assert_eq!(Some(all.of(from, to)), routes.distance(routes.class_node(from), to));
        }
    }
}
