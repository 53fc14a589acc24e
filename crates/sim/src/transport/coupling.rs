//! Coupled congestion control: the window growth of one subflow, given all windows (P11).
//!
//! Windows count segments: the segment size, one for all, cancels out of the published formulas.

use balance::Coupling;

pub(crate) const MAX_SUBFLOWS: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Path {
    /// Congestion window of the path, segments.
    pub(crate) window: f64,
    /// Smoothed round-trip time, picoseconds; 0 while unknown, which excludes the path.
    pub(crate) rtt: f64,
    /// Slow-start threshold at the last update: it changes when the window is reduced.
    threshold: f64,
    /// Segments acknowledged since the last reduction, and between the two before it.
    acked_since: u64,
    acked_between: u64,
}

impl Path {
    /// Handles an acknowledgement or a time-out. A reduction of the window shifts the counters.
    pub(crate) fn update(&mut self, window: f64, rtt: u64, threshold: f64, acked: u32, has_lost: bool) {
        self.acked_since += u64::from(acked);
        if has_lost || (threshold != self.threshold && self.threshold != 0.0) {
            self.acked_between = std::mem::take(&mut self.acked_since);
        }
        (self.window, self.rtt, self.threshold) = (window, rtt as f64, threshold);
    }

    fn is_known(&self) -> bool {
        self.rtt > 0.0
    }

    /// Returns OLIA's estimate of what the path carries between losses, per squared RTT.
    fn quality(&self) -> f64 {
        self.acked_since.max(self.acked_between) as f64 / (self.rtt * self.rtt)
    }
}

/// Returns the growth of subflow `own` in congestion avoidance, segments per acknowledged segment;
/// `None` if subflows are not coupled or have no measurements yet.
pub(crate) fn increase(coupling: Coupling, paths: &[Path], own: usize) -> Option<f64> {
    if !paths[own].is_known() {
        return None;
    }
    match coupling {
        Coupling::Lia => Some(lia(paths, own)),
        Coupling::Olia => Some(olia(paths, own)),
        Coupling::None => None,
    }
}

fn squared_rate(paths: &[Path]) -> f64 {
    let rate: f64 = paths.iter().filter(|p| p.is_known()).map(|p| p.window / p.rtt).sum();
    rate * rate
}

/// RFC 6356 §3: min(alpha / w_total, 1 / w) with alpha = w_total · max(w/rtt²) / (Σ w/rtt)².
fn lia(paths: &[Path], own: usize) -> f64 {
    let best = paths.iter().filter(|p| p.is_known()).map(|p| p.window / (p.rtt * p.rtt)).fold(0.0, f64::max);
    (best / squared_rate(paths)).min(1.0 / paths[own].window)
}

/// Khalili et al. (CoNEXT 2012) with the quality of Linux, l/rtt²: (w/rtt²) / (Σ w/rtt)² + a/w.
fn olia(paths: &[Path], own: usize) -> f64 {
    let known = || paths.iter().filter(|p| p.is_known());
    let best_quality = known().map(Path::quality).fold(0.0, f64::max);
    let largest = known().map(|p| p.window).fold(0.0, f64::max);
    let is_best = |p: &Path| p.quality() >= best_quality;
    let is_largest = |p: &Path| p.window >= largest;
    let path = &paths[own];
    // Best paths that do not have the largest window.
    let collected = known().filter(|p| is_best(p) && !is_largest(p)).count() as f64;
    let count = known().count() as f64;
    let shift = if collected == 0.0 {
        0.0
    } else if is_best(path) && !is_largest(path) {
        1.0 / (count * collected)
    } else if is_largest(path) {
        -1.0 / (count * known().filter(|p| is_largest(p)).count() as f64)
    } else {
        0.0
    };
    path.window / (path.rtt * path.rtt) / squared_rate(paths) + shift / path.window
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(window: f64, rtt: f64, acked_since: u64, acked_between: u64) -> Path {
        Path { window, rtt, threshold: 1.0, acked_since, acked_between }
    }

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-12, "{got}, expected {expected}");
    }

    #[test]
    fn lia_by_hand() {
        // Equal paths: alpha = 20 · (10/4) / (2 · 10/2)² = 1/2, so 1/40 per segment, below 1/10.
        let equal = [path(10.0, 2.0, 0, 0), path(10.0, 2.0, 0, 0)];
        close(lia(&equal, 0), 1.0 / 40.0);
        // max(10/1, 30/9) = 10; (10/1 + 30/3)² = 400: 1/40 for both, below 1/10 and 1/30 in turn.
        let unequal = [path(10.0, 1.0, 0, 0), path(30.0, 3.0, 0, 0)];
        close(lia(&unequal, 0), 1.0 / 40.0);
        close(lia(&unequal, 1), 1.0 / 40.0);
        // The cap: max(4/1, 100/400) = 4; (4/1 + 100/20)² = 81: 4/81 = 0.049 exceeds 1/100.
        let capped = [path(4.0, 1.0, 0, 0), path(100.0, 20.0, 0, 0)];
        close(lia(&capped, 1), 0.01);
        close(lia(&capped, 0), 4.0 / 81.0);
        // A single path is plain TCP, and so is one whose sibling paths have no measurements.
        close(lia(&[path(8.0, 5.0, 0, 0)], 0), 1.0 / 8.0);
        close(lia(&[path(8.0, 5.0, 0, 0), Path::default()], 0), 1.0 / 8.0);
    }

    #[test]
    fn olia_by_hand() {
        // Path 0 is best (100/1 against 50/1) but path 1 is larger: window moves from 1 to 0.
        // Rates: (4 + 16)² = 400. Path 0: 4/400 + 1/(2·1)/4; path 1: 16/400 − 1/(2·1)/16.
        let paths = [path(4.0, 1.0, 100, 20), path(16.0, 1.0, 10, 50)];
        close(olia(&paths, 0), 0.01 + 0.125);
        close(olia(&paths, 1), 0.04 - 0.03125);
        // The best path is the largest: nothing moves.
        let settled = [path(4.0, 1.0, 10, 20), path(16.0, 1.0, 10, 50)];
        close(olia(&settled, 0), 0.01);
        close(olia(&settled, 1), 0.04);
        // Three paths, one neither best nor largest; qualities 90/9 = 10 and 40/4 = 10 tie.
        let three = [path(6.0, 3.0, 90, 0), path(2.0, 2.0, 0, 40), path(8.0, 1.0, 5, 0)];
        // Rates: (6/3 + 2/2 + 8/1)² = 121; B \ W = {0, 1}, W = {2}.
        close(olia(&three, 0), 6.0 / 9.0 / 121.0 + 1.0 / 6.0 / 6.0);
        close(olia(&three, 1), 2.0 / 4.0 / 121.0 + 1.0 / 6.0 / 2.0);
        close(olia(&three, 2), 8.0 / 121.0 - 1.0 / 3.0 / 8.0);
        close(olia(&[path(8.0, 5.0, 0, 0)], 0), 1.0 / 8.0);
    }

    #[test]
    fn equal_paths_that_share_a_bottleneck_grow_like_one_tcp() {
        // In a round trip every segment is acknowledged. With two equal paths the total grows by
        // 1/2, and each loss takes a quarter of it: the balance of 1 and 1/2 of one TCP.
        for coupling in [Coupling::Lia, Coupling::Olia] {
            let paths = [path(20.0, 1.0, 7, 7), path(20.0, 1.0, 7, 7)];
            let total: f64 = (0..2).map(|p| increase(coupling, &paths, p).unwrap() * 20.0).sum();
            close(total, 0.5);
        }
        assert_eq!(increase(Coupling::None, &[path(1.0, 1.0, 0, 0)], 0), None);
        assert_eq!(increase(Coupling::Lia, &[Path::default()], 0), None);
    }

    #[test]
    fn a_reduction_shifts_the_counters() {
        let mut p = Path::default();
        p.update(10.0, 5, f64::INFINITY, 10, false);
        p.update(20.0, 5, f64::INFINITY, 20, false);
        assert_eq!((p.acked_since, p.acked_between), (30, 0));
        p.update(10.0, 5, 10.0, 1, true);
        p.update(9.0, 5, 9.0, 4, false);
        assert_eq!((p.acked_since, p.acked_between), (0, 4), "a mark that reduces counts as a loss does");
        p.update(9.0, 5, 9.0, 4, true);
        assert_eq!((p.acked_since, p.acked_between), (0, 4), "an equal threshold hides no loss");
    }
}
