//! What was done to a network while it was measured, and what each of it cost.

use experiment::summary::Fault;

use crate::sockets::Break;

/// Something that was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Deed {
    /// When, nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What, in words.
    pub what: String,
}

/// Deeds in order of time, each with what was lost after it and before the next. What is lost belongs to the last deed before
/// the first packet that arrived again was sent.
pub fn faults(mut deeds: Vec<Deed>, breaks: &[Break], start_ns: u64) -> Vec<Fault> {
    deeds.sort_by_key(|deed| deed.at_ns);
    let mut faults: Vec<Fault> = deeds
        .iter()
        .map(|deed| Fault {
            what: deed.what.clone(),
            at_us: deed.at_ns.saturating_sub(start_ns) as f64 / 1e3,
            lost: 0,
            longest_gap_us: 0.0,
        })
        .collect();
    for one in breaks {
        let after = deeds.partition_point(|deed| deed.at_ns <= one.sent_ns);
        if let Some(fault) = after.checked_sub(1).and_then(|place| faults.get_mut(place)) {
            fault.lost += one.lost;
            fault.longest_gap_us = fault.longest_gap_us.max(one.silence_ns as f64 / 1e3);
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_belong_to_the_deed_before_they_were_over() {
        let deed = |at_ns, what: &str| Deed { at_ns, what: what.to_owned() };
        let one = |sent_ns, silence_ns, lost| Break { sent_ns, silence_ns, lost, ..Break::default() };
        let deeds = vec![deed(5_000, "b"), deed(3_000, "a")];
        let breaks = [one(2_000, 1, 9), one(3_500, 700, 3), one(3_400, 900, 1), one(5_000, 50, 0)];
        let faults = faults(deeds, &breaks, 1_000);
        let found: Vec<_> = faults.iter().map(|f| (f.what.as_str(), f.at_us, f.lost, f.longest_gap_us)).collect();
        assert_eq!(found, [("a", 2.0, 4, 0.9), ("b", 4.0, 0, 0.05)]);
    }
}
