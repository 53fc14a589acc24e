//! The flows the balancer is told of, and the counters behind them.

use std::collections::BTreeMap;

use balance::central::{FlowFacts, FlowId, FlowSource, FlowTable};
use net::{FiveTuple, NodeIx, Time};

use crate::compile::Compiler;
use crate::fabric::Fabric;
use crate::network::Network;
use crate::soft::Counted;
use crate::stats::{Reading, Sample};

/// What counting has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Started(FlowId),
    Ended(FlowId),
}

/// Flows and their counters.
#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) table: FlowTable,
    source: FlowSource,
    idle_timeout_s: u16,
    samples: BTreeMap<FiveTuple, Sample>,
    /// Bytes a flow had sent before it was counted.
    before: BTreeMap<FiveTuple, u64>,
    /// Rules that count and are the controller's, with their switches.
    counters: BTreeMap<FiveTuple, NodeIx>,
    /// Of flows known by their first packets.
    pub(crate) soft: Counted,
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
            soft: Counted::default(),
            stale: 0,
        }
    }

    /// Hosts came or went: pairs of them are counted beforehand, where the balancer wants pairs. Answers flows whose hosts
    /// are gone.
    pub(crate) fn set_hosts(&mut self, compiler: Compiler, network: &Network, fabric: &mut Fabric) -> Vec<FlowId> {
        if self.source == FlowSource::Pairs {
            self.set_pairs(compiler, network, fabric);
        }
        let is_lost = |facts: &FlowFacts| !network.is_current(facts.src) || !network.is_current(facts.dst);
        self.table.iter().filter(|(_, facts)| is_lost(facts)).map(|(flow, _)| flow).collect()
    }

    fn set_pairs(&mut self, compiler: Compiler, network: &Network, fabric: &mut Fabric) {
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
        gone.iter().for_each(|tuple| self.uncount(compiler, tuple, fabric));
        for (tuple, node) in wanted {
            self.count(compiler, tuple, node, fabric);
        }
    }

    fn count(&mut self, compiler: Compiler, tuple: FiveTuple, node: NodeIx, fabric: &mut Fabric) {
        if self.counters.insert(tuple, node).is_none() {
            let (key, wanted) = compiler.counter(&tuple, 0);
            fabric.set((node, key, Some(wanted)));
        }
    }
    fn uncount(&mut self, compiler: Compiler, tuple: &FiveTuple, fabric: &mut Fabric) {
        self.samples.remove(tuple);
        if let Some(node) = self.counters.remove(tuple) {
            fabric.set((node, compiler.counter(tuple, 0).0, None));
        }
    }

    /// An agent reports a flow; it is counted from now on if counters are wanted.
    #[expect(clippy::too_many_arguments, reason = "what an agent tells, and what it is told to")]
    pub(crate) fn reported(
        &mut self,
        now: Time,
        compiler: Compiler,
        tuple: FiveTuple,
        bytes: u64,
        size: Option<u64>,
        is_counted: bool,
        network: &Network,
        fabric: &mut Fabric,
    ) -> Option<FlowId> {
        if self.source != FlowSource::Agents || self.table.find(&tuple).is_some() {
            return None;
        }
        let facts = facts(now, tuple, bytes, size, network)?;
        if is_counted {
            self.before.insert(tuple, bytes);
            self.count(compiler, tuple, network.host(facts.src)?.edge, fabric);
        }
        Some(self.table.insert(facts))
    }

    /// Counters of a flow's rule at the switch of its source.
    pub(crate) fn counted(
        &mut self,
        now: Time,
        tuple: FiveTuple,
        bytes: u64,
        duration_ns: u64,
        network: &Network,
    ) -> Option<News> {
        let sample = self.samples.get(&tuple).copied();
        let is_pairs = self.source == FlowSource::Pairs;
        let mut next = sample.unwrap_or_else(|| Sample::first(bytes, duration_ns));
        let reading = if sample.is_some() { next.next(bytes, duration_ns) } else { Reading::First };
        self.stale += u64::from(reading == Reading::Stale);
        self.samples.insert(tuple, next);
        let has_moved = bytes > sample.map_or(0, |sample| sample.bytes);
        let Some(flow) = self.table.find(&tuple) else {
            // A pair is a flow when it has sent anything, or something again after it had ended.
            return (is_pairs && has_moved && reading != Reading::Stale)
                .then(|| facts(now, tuple, bytes, None, network))
                .flatten()
                .map(|facts| News::Started(self.table.insert(facts)));
        };
        let before = self.before.get(&tuple).copied().unwrap_or(0);
        let facts = self.table.get_mut(flow).expect("a flow that was found");
        if let Reading::Rate(rate) = reading {
            facts.rate = Some(rate);
            facts.bytes = before + bytes;
        }
        let is_over = is_pairs && next.idle() >= Time::from_s(u64::from(self.idle_timeout_s.max(1)));
        is_over.then_some(News::Ended(flow))
    }

    /// Another balancer wants flows from this source. Those known stay where the source does; otherwise they are
    /// forgotten, and these are those that were.
    pub(crate) fn set_source(
        &mut self,
        compiler: Compiler,
        source: FlowSource,
        is_counted: bool,
        network: &Network,
        fabric: &mut Fabric,
    ) -> Vec<FlowFacts> {
        if source == self.source {
            if source == FlowSource::Agents {
                self.recount(compiler, is_counted, network, fabric);
            }
            return Vec::new();
        }
        let counted: Vec<FiveTuple> = self.counters.keys().copied().collect();
        counted.iter().for_each(|tuple| self.uncount(compiler, tuple, fabric));
        let forgotten = self.table.iter().map(|(_, facts)| *facts).collect();
        *self = Flows { stale: self.stale, ..Flows::new(source, self.idle_timeout_s) };
        forgotten
    }

    /// Flows that agents reported are to be counted, or not any more.
    fn recount(&mut self, compiler: Compiler, is_counted: bool, network: &Network, fabric: &mut Fabric) {
        let flows: Vec<FlowFacts> = self.table.iter().map(|(_, facts)| *facts).collect();
        for FlowFacts { tuple, src, bytes, .. } in flows {
            match (is_counted, self.counters.contains_key(&tuple)) {
                (true, false) => {
                    let Some(edge) = network.host(src).map(|host| host.edge) else { continue };
                    self.before.insert(tuple, bytes);
                    self.count(compiler, tuple, edge, fabric);
                }
                (false, true) => self.uncount(compiler, &tuple, fabric),
                _ => {}
            }
        }
    }

    /// A flow is over and its balancer has been told.
    pub(crate) fn forget(&mut self, compiler: Compiler, flow: FlowId, fabric: &mut Fabric) -> Option<FlowFacts> {
        let facts = self.table.remove(flow)?;
        self.before.remove(&facts.tuple);
        self.soft.forget(flow);
        if self.source != FlowSource::Pairs {
            self.uncount(compiler, &facts.tuple, fabric);
        }
        Some(facts)
    }
}

fn facts(now: Time, tuple: FiveTuple, bytes: u64, size: Option<u64>, network: &Network) -> Option<FlowFacts> {
    let (src, dst) = (network.find_host(tuple.src)?, network.find_host(tuple.dst)?);
    Some(FlowFacts { tuple, src, dst, started: now, bytes, rate: None, size })
}
