//! The flows the balancer knows, and their counters.

use std::collections::BTreeMap;

use balance::central::{AgentReport, FlowId, FlowInfo, FlowSource, FlowTable};
use net::{FiveTuple, NodeIx, Time};

use super::first_packets::FlowCounters;
use super::network::Network;
use super::sample::{Reading, Sample};
use super::{Cx, Observer};
use crate::changes::Change;
use crate::updater::Updater;

#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) table: FlowTable,
    source: FlowSource,
    idle_timeout_s: u16,
    samples: BTreeMap<FiveTuple, Sample>,
    /// Bytes a flow had sent before it was counted.
    before: BTreeMap<FiveTuple, u64>,
    /// Counting rules in the desired state, with their switches.
    counters: BTreeMap<FiveTuple, NodeIx>,
    pub(crate) switch_owned: FlowCounters,
    pub(crate) stale: u64,
}

impl Flows {
    pub(crate) fn new(source: FlowSource, idle_timeout_s: u16) -> Flows {
        Flows {
            table: FlowTable::default(),
            source,
            idle_timeout_s,
            samples: BTreeMap::new(),
            before: BTreeMap::new(),
            counters: BTreeMap::new(),
            switch_owned: FlowCounters::default(),
            stale: 0,
        }
    }

    /// Updates the counted pairs of hosts, if the balancer uses pairs as flows. Returns the flows
    /// whose hosts are gone.
    pub(crate) fn set_hosts(&mut self, network: &Network, updater: &mut Updater) -> Vec<FlowId> {
        if self.source == FlowSource::Pairs {
            self.set_pairs(network, updater);
        }
        let is_lost = |facts: &FlowInfo| !network.is_current(facts.src) || !network.is_current(facts.dst);
        self.table.iter().filter(|(_, facts)| is_lost(facts)).map(|(flow, _)| flow).collect()
    }

    fn set_pairs(&mut self, network: &Network, updater: &mut Updater) {
        let mut wanted: BTreeMap<FiveTuple, NodeIx> = BTreeMap::new();
        for (src, from) in network.current_hosts() {
            for (dst, to) in network.current_hosts().filter(|(dst, _)| *dst != src) {
                let _ = dst;
                let (src, dst) = (from.known.ipv4, to.known.ipv4);
                wanted.insert(FiveTuple { src, dst, protocol: 0, src_port: 0, dst_port: 0 }, from.edge);
            }
        }
        let gone: Vec<FiveTuple> = self
            .counters
            .iter()
            .filter(|(tuple, node)| wanted.get(tuple) != Some(node))
            .map(|(tuple, _)| *tuple)
            .collect();
        gone.iter().for_each(|tuple| self.uncount(tuple, updater));
        for (tuple, node) in wanted {
            self.count(tuple, node, updater);
        }
    }

    fn count(&mut self, tuple: FiveTuple, node: NodeIx, updater: &mut Updater) {
        if self.counters.insert(tuple, node).is_none() {
            let (key, wanted) = updater.compiler.counter(&tuple, 0);
            updater.set((node, key, Some(wanted)));
        }
    }
    fn uncount(&mut self, tuple: &FiveTuple, updater: &mut Updater) {
        self.samples.remove(tuple);
        if let Some(node) = self.counters.remove(tuple) {
            updater.set((node, updater.compiler.counter(tuple, 0).0, None));
        }
    }

    /// Handles an agent's report of a flow, and counts the flow if counters are configured.
    #[expect(clippy::too_many_arguments, reason = "the fields of a report, and what they are applied to")]
    pub(crate) fn reported(
        &mut self,
        now: Time,
        tuple: FiveTuple,
        bytes: u64,
        size: Option<u64>,
        is_counted: bool,
        network: &Network,
        updater: &mut Updater,
    ) -> Option<FlowId> {
        if self.source != FlowSource::Agents || self.table.find(&tuple).is_some() {
            return None;
        }
        let facts = facts(now, tuple, bytes, size, network)?;
        if is_counted {
            self.before.insert(tuple, bytes);
            self.count(tuple, network.host(facts.src)?.edge, updater);
        }
        Some(self.table.insert(facts))
    }

    /// Handles the counters of a flow's rule at the switch of its source. Returns whether the flow
    /// started or ended.
    pub(crate) fn counted(
        &mut self,
        now: Time,
        tuple: FiveTuple,
        bytes: u64,
        duration_ns: u64,
        network: &Network,
    ) -> Option<Change> {
        let is_pairs = self.source == FlowSource::Pairs;
        // The rule of a pair has counted from zero since it was installed, before the pair sent
        // anything: its first reading is a rate.
        let mut sample = self.samples.get(&tuple).copied().or_else(|| is_pairs.then(Sample::default));
        let has_moved = bytes > sample.map_or(0, |sample| sample.bytes);
        let reading = Sample::read(&mut sample, bytes, duration_ns);
        self.stale += u64::from(reading == Reading::Stale);
        self.samples.extend(sample.map(|sample| (tuple, sample)));
        let Some(flow) = self.table.find(&tuple) else {
            // A pair is a flow once it has sent anything, or something again after it had ended.
            return (is_pairs && has_moved && reading != Reading::Stale)
                .then(|| facts(now, tuple, bytes, None, network))
                .flatten()
                .map(|facts| Change::FlowStarted(self.table.insert(FlowInfo { rate: reading.rate(), ..facts })));
        };
        let before = self.before.get(&tuple).copied().unwrap_or(0);
        let facts = self.table.get_mut(flow).expect("a flow that was found");
        if let Reading::Rate(rate) = reading {
            facts.rate = Some(rate);
            facts.bytes = before + bytes;
        }
        let idle = sample.map_or(Time::ZERO, |sample| sample.idle());
        let is_over = is_pairs && idle >= Time::from_s(u64::from(self.idle_timeout_s.max(1)));
        is_over.then_some(Change::FlowEnded(flow))
    }

    /// Changes the source of flows. Known flows stay if the source is the same; otherwise they are
    /// forgotten and returned.
    pub(crate) fn set_source(
        &mut self,
        source: FlowSource,
        is_counted: bool,
        network: &Network,
        updater: &mut Updater,
    ) -> Vec<FlowInfo> {
        if source == self.source {
            if source == FlowSource::Agents {
                self.recount(is_counted, network, updater);
            }
            return Vec::new();
        }
        let counted: Vec<FiveTuple> = self.counters.keys().copied().collect();
        counted.iter().for_each(|tuple| self.uncount(tuple, updater));
        let forgotten = self.table.iter().map(|(_, facts)| *facts).collect();
        *self = Flows { stale: self.stale, ..Flows::new(source, self.idle_timeout_s) };
        forgotten
    }

    /// Starts or stops to count the flows that agents reported.
    fn recount(&mut self, is_counted: bool, network: &Network, updater: &mut Updater) {
        let flows: Vec<FlowInfo> = self.table.iter().map(|(_, facts)| *facts).collect();
        for FlowInfo { tuple, src, bytes, .. } in flows {
            match (is_counted, self.counters.contains_key(&tuple)) {
                (true, false) => {
                    let Some(edge) = network.host(src).map(|host| host.edge) else { continue };
                    self.before.insert(tuple, bytes);
                    self.count(tuple, edge, updater);
                }
                (false, true) => self.uncount(&tuple, updater),
                _ => {}
            }
        }
    }

    /// Forgets a flow whose end the balancer has received.
    pub(crate) fn forget(&mut self, flow: FlowId, updater: &mut Updater) -> Option<FlowInfo> {
        let facts = self.table.remove(flow)?;
        self.before.remove(&facts.tuple);
        self.switch_owned.forget(flow);
        if self.source != FlowSource::Pairs {
            self.uncount(&facts.tuple, updater);
        }
        Some(facts)
    }
}

impl Observer {
    pub(crate) fn agent_report(&mut self, cx: &mut Cx<'_>, updater: &mut Updater, report: AgentReport) {
        match report {
            AgentReport::Started { tuple, .. } if self.is_full(cx, &tuple) => {}
            AgentReport::Started { tuple, bytes, size } => {
                let is_counted = self.needs.counters;
                let flow = self.flows.reported(cx.now, tuple, bytes, size, is_counted, &self.network, updater);
                flow.into_iter().for_each(|flow| cx.changes.push(Change::FlowStarted(flow)));
            }
            AgentReport::Ended { tuple, bytes } => {
                let flow = self.flows.table.find(&tuple).filter(|_| self.needs.flows == FlowSource::Agents);
                if let Some(facts) = flow.and_then(|flow| self.flows.table.get_mut(flow)) {
                    facts.bytes = bytes;
                }
                flow.into_iter().for_each(|flow| cx.changes.push(Change::FlowEnded(flow)));
            }
        }
    }

    /// Returns whether an unknown flow cannot be tracked because of the limit.
    fn is_full(&self, cx: &mut Cx<'_>, tuple: &FiveTuple) -> bool {
        let is_full = self.flows.table.len() >= cx.config.flows_max && self.flows.table.find(tuple).is_none();
        cx.channels.tally.flows_over_limit += u64::from(is_full);
        is_full
    }
}

fn facts(now: Time, tuple: FiveTuple, bytes: u64, size: Option<u64>, network: &Network) -> Option<FlowInfo> {
    let (src, dst) = (network.find_host(tuple.src)?, network.find_host(tuple.dst)?);
    Some(FlowInfo { tuple, src, dst, started: now, bytes, rate: None, size })
}

/// Returns the flow of a pinned or counted packet, in the form balancers use.
pub(crate) fn tuple_of_packet(headers: &openflow::Headers) -> FiveTuple {
    FiveTuple {
        src: headers.ipv4_src,
        dst: headers.ipv4_dst,
        protocol: headers.ip_proto,
        src_port: headers.l4_src,
        dst_port: headers.l4_dst,
    }
}
