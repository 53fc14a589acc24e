//! Values that a reload of the configuration replaces.

use std::sync::{PoisonError, RwLock};

/// A value that threads read and a reload replaces. Readers get a copy, so a value should be small
/// or shared.
#[derive(Debug, Default)]
pub(crate) struct Live<T>(RwLock<T>);

impl<T: Clone> Live<T> {
    pub(crate) fn new(value: T) -> Live<T> {
        Live(RwLock::new(value))
    }
    pub(crate) fn get(&self) -> T {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    pub(crate) fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}
