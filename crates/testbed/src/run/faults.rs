//! Injected faults of a run, and the loss after each of them.

use experiment::summary::Fault;

use crate::traffic::datagrams::DeliveryGap;

#[derive(Clone, Debug, PartialEq)]
pub struct InjectedFault {
    pub at_ns: u64,
    /// As in [`Fault::kind`].
    pub kind: &'static str,
    /// Name of the link, of faults of links.
    pub link: Option<String>,
}

/// Returns the faults in order of time, each with the loss between it and the next one. The sending
/// time of the first packet that arrived after a gap decides which fault caused the gap.
pub fn faults(mut injected: Vec<InjectedFault>, gaps: &[DeliveryGap], start_ns: u64) -> Vec<Fault> {
    injected.sort_by_key(|fault| fault.at_ns);
    let fault = |fault: &InjectedFault| {
        let at_us = fault.at_ns.saturating_sub(start_ns) as f64 / 1e3;
        Fault { kind: fault.kind.to_owned(), link: fault.link.clone(), at_us, lost: 0, longest_gap_us: 0.0 }
    };
    let mut faults: Vec<Fault> = injected.iter().map(fault).collect();
    for gap in gaps {
        let after = injected.partition_point(|fault| fault.at_ns <= gap.sent_ns);
        if let Some(fault) = after.checked_sub(1).and_then(|place| faults.get_mut(place)) {
            fault.lost += gap.lost;
            fault.longest_gap_us = fault.longest_gap_us.max(gap.silence_ns as f64 / 1e3);
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_belong_to_last_fault_before_gap_ended() {
        let fault = |at_ns, kind| InjectedFault { at_ns, kind, link: None };
        let gap = |sent_ns, silence_ns, lost| DeliveryGap { sent_ns, silence_ns, lost, ..DeliveryGap::default() };
        let injected = vec![fault(5_000, "b"), fault(3_000, "a")];
        let gaps = [gap(2_000, 1, 9), gap(3_500, 700, 3), gap(3_400, 900, 1), gap(5_000, 50, 0)];
        let faults = faults(injected, &gaps, 1_000);
        let found: Vec<_> = faults.iter().map(|f| (f.kind.as_str(), f.at_us, f.lost, f.longest_gap_us)).collect();
        assert_eq!(found, [("a", 2.0, 4, 0.9), ("b", 4.0, 0, 0.05)]);
    }
}
