//! What agents on hosts are to do, kept for those who ask later than it was said.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use balance::central::{AgentOrder, AgentReport};
use net::{Bandwidth, FiveTuple};

/// Orders that stand.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Flows that have sent more bytes than this are to be reported; `None` if nobody wants to hear of any.
    pub(crate) report_above: Option<u64>,
    /// Limits of flows. Ordered by source first.
    paces: BTreeMap<FiveTuple, Bandwidth>,
}

impl Orders {
    /// Something was ordered.
    pub(crate) fn note(&mut self, order: AgentOrder) {
        match order {
            AgentOrder::ReportAbove(bytes) => self.report_above = Some(bytes),
            AgentOrder::Pace { tuple, rate: Some(rate) } => drop(self.paces.insert(tuple, rate)),
            AgentOrder::Pace { tuple, rate: None } => drop(self.paces.remove(&tuple)),
        }
    }
    /// A flow was reported: what has ended has no limit any more, and nobody says so.
    pub(crate) fn reported(&mut self, report: &AgentReport) {
        if let AgentReport::Ended { tuple, .. } = report {
            self.paces.remove(tuple);
        }
    }
    /// Limits of the flows of a host.
    pub(crate) fn paces_of(&self, host: Ipv4Addr) -> impl Iterator<Item = (&FiveTuple, Bandwidth)> {
        let least = |src| FiveTuple { src, dst: Ipv4Addr::UNSPECIFIED, protocol: 0, src_port: 0, dst_port: 0 };
        let from = self.paces.range(least(host)..);
        from.take_while(move |(tuple, _)| tuple.src == host).map(|(tuple, rate)| (tuple, *rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_of_their_own_flows_until_these_end() {
        let flow = |src: u8, port| {
            let at = |last| Ipv4Addr::new(10, 0, 0, last);
            FiveTuple { src: at(src), dst: at(9), protocol: 6, src_port: port, dst_port: 80 }
        };
        let mut orders = Orders::default();
        let rate = Bandwidth::from_mbps(3);
        for tuple in [flow(1, 5), flow(2, 5), flow(2, 6), flow(3, 5)] {
            orders.note(AgentOrder::Pace { tuple, rate: Some(rate) });
        }
        let of = |orders: &Orders, last| {
            orders.paces_of(Ipv4Addr::new(10, 0, 0, last)).map(|(tuple, _)| *tuple).collect::<Vec<_>>()
        };
        assert_eq!(of(&orders, 2), [flow(2, 5), flow(2, 6)]);
        orders.note(AgentOrder::Pace { tuple: flow(2, 5), rate: None });
        orders.reported(&AgentReport::Ended { tuple: flow(2, 6), bytes: 1 });
        assert_eq!((of(&orders, 2), of(&orders, 3)), (vec![], vec![flow(3, 5)]));
        orders.note(AgentOrder::ReportAbove(7));
        assert_eq!(orders.report_above, Some(7));
    }
}
