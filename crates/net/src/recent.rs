//! Values that many owners share.

use std::collections::VecDeque;
use std::sync::Arc;

/// Number of values that are remembered. Rules of one change are mostly of a few kinds.
const REMEMBERED: usize = 8;

/// The values added last. An equal value that is added later shares the memory of the earlier one.
#[derive(Clone, Debug)]
pub struct RecentValues<T> {
    values: VecDeque<Arc<T>>,
}

impl<T> Default for RecentValues<T> {
    fn default() -> RecentValues<T> {
        RecentValues { values: VecDeque::new() }
    }
}

impl<T: PartialEq> RecentValues<T> {
    /// Returns a value as one that later equal values share while it is remembered.
    pub fn share(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.values.iter().find(|known| ***known == value) {
            return known.clone();
        }
        if self.values.len() == REMEMBERED {
            self.values.pop_front();
        }
        let value = Arc::new(value);
        self.values.push_back(value.clone());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_shared_while_they_are_remembered() {
        let mut recent = RecentValues::default();
        let first = recent.share(1);
        assert!(Arc::ptr_eq(&first, &recent.share(1)));
        (2..10).for_each(|value| drop(recent.share(value)));
        let again = recent.share(1);
        assert!(!Arc::ptr_eq(&first, &again) && first == again, "forgotten after eight others");
    }
}
