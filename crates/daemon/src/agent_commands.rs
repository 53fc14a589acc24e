//! The agent commands in force, for agents that request them later.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use balance::central::{AgentCommand, AgentReport};
use net::{Bandwidth, FiveTuple};

#[derive(Debug, Default)]
pub(crate) struct AgentCommands {
    /// Report threshold in bytes; `None` if the balancer requests no reports.
    pub(crate) report_threshold_bytes: Option<u64>,
    /// Rate limits of flows, ordered by source address first.
    rate_limits: BTreeMap<FiveTuple, Bandwidth>,
}

impl AgentCommands {
    pub(crate) fn note(&mut self, command: AgentCommand) {
        match command {
            AgentCommand::SetReportThreshold(bytes) => self.report_threshold_bytes = Some(bytes),
            AgentCommand::SetRateLimit { tuple, rate: Some(rate) } => drop(self.rate_limits.insert(tuple, rate)),
            AgentCommand::SetRateLimit { tuple, rate: None } => drop(self.rate_limits.remove(&tuple)),
        }
    }
    /// Records a report. The end of a flow ends its rate limit, without a command.
    pub(crate) fn reported(&mut self, report: &AgentReport) {
        if let AgentReport::Ended { tuple, .. } = report {
            self.rate_limits.remove(tuple);
        }
    }
    pub(crate) fn rate_limits_of(&self, host: Ipv4Addr) -> impl Iterator<Item = (&FiveTuple, Bandwidth)> {
        let first = |src| FiveTuple { src, dst: Ipv4Addr::UNSPECIFIED, protocol: 0, src_port: 0, dst_port: 0 };
        let from = self.rate_limits.range(first(host)..);
        from.take_while(move |(tuple, _)| tuple.src == host).map(|(tuple, rate)| (tuple, *rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limits_listed_by_host_until_flow_ends() {
        let flow = |src: u8, port| {
            let at = |last| Ipv4Addr::new(10, 0, 0, last);
            FiveTuple { src: at(src), dst: at(9), protocol: 6, src_port: port, dst_port: 80 }
        };
        let mut commands = AgentCommands::default();
        let rate = Bandwidth::from_mbps(3);
        for tuple in [flow(1, 5), flow(2, 5), flow(2, 6), flow(3, 5)] {
            commands.note(AgentCommand::SetRateLimit { tuple, rate: Some(rate) });
        }
        let of = |commands: &AgentCommands, last| {
            commands.rate_limits_of(Ipv4Addr::new(10, 0, 0, last)).map(|(tuple, _)| *tuple).collect::<Vec<_>>()
        };
        assert_eq!(of(&commands, 2), [flow(2, 5), flow(2, 6)]);
        commands.note(AgentCommand::SetRateLimit { tuple: flow(2, 5), rate: None });
        commands.reported(&AgentReport::Ended { tuple: flow(2, 6), bytes: 1 });
        assert_eq!((of(&commands, 2), of(&commands, 3)), (vec![], vec![flow(3, 5)]));
        commands.note(AgentCommand::SetReportThreshold(7));
        assert_eq!(commands.report_threshold_bytes, Some(7));
    }
}
