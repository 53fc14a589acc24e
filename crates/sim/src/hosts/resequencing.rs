//! Bounds of the resequencing buffer.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Resequencer {
    pub(crate) timeout: u64,
    pub(crate) packets: u32,
    /// Flowcells: gaps inside a flowcell are delivered immediately, others are held for this
    /// multiple of the average reordering time. `None` holds for `timeout`.
    pub(crate) patience: Option<f64>,
}

impl Resequencer {
    /// Returns how long a gap may last if earlier ones that were reordering lasted `average`.
    #[inline]
    pub(crate) fn hold_time(&self, average: u64) -> u64 {
        match self.patience {
            Some(patience) if average > 0 => (average as f64 * patience) as u64,
            _ => self.timeout,
        }
    }
}
