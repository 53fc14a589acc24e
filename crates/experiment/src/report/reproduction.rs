//! The report of a reproduction.

use crate::reproduction::Reproduction;

/// The report page of a reproduction: one file that loads nothing.
pub fn reproduction_html(_: &Reproduction) -> String {
    String::new()
}
