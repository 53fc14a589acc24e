//! Flows whose rates follow a traffic matrix.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use net::random::RandomStream;
use net::{HostIx, NodeIx, NodeKind, Time, Topology, did_you_mean};

use crate::flow::{Flow, FlowList, Start};
use crate::generate::{FLOWS_MAX, START_MAX, TrafficError, Warning};
use crate::import::matrix::TrafficMatrix;
use crate::sizes::SizeDistribution;

/// How a traffic matrix becomes flows.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandOptions {
    pub sizes: SizeDistribution,
    /// Times of the rows are multiplied by this: 0.001 makes an hour 3.6 seconds of the same rates.
    pub time_scale: f64,
    pub rate_scale: f64,
    pub flows: Option<u32>,
    /// Only flows that start before this time.
    pub until: Option<Time>,
    /// Nodes of the topology by their names in the matrix, where these differ.
    pub names: Vec<(String, String)>,
}

/// A matrix that does not fit a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DemandError {
    #[error("topology `{topology}` has no node `{name}` of {file}; {hint}")]
    UnknownNode { file: String, topology: String, name: String, hint: String },
    #[error("node `{node}` has no hosts, but {file} sends to or from it; add some (topology.hosts_per_node)")]
    NoHosts { file: String, node: String },
    #[error("{0} gives no flow at all; raise the rates or the time")]
    Nothing(String),
}

/// Routers of the Abilene matrices (Y. Zhang, 2004) and their cities in the Topology Zoo.
const ABILENE: [(&str, &str); 12] = [
    ("ATLA-M5", "Atlanta"),
    ("ATLAng", "Atlanta"),
    ("CHINng", "Chicago"),
    ("DNVRng", "Denver"),
    ("HSTNng", "Houston"),
    ("IPLSng", "Indianapolis"),
    ("KSCYng", "Kansas City"),
    ("LOSAng", "Los Angeles"),
    ("NYCMng", "New York"),
    ("SNVAng", "Sunnyvale"),
    ("STTLng", "Seattle"),
    ("WASHng", "Washington DC"),
];

/// One pair with a rate, on its way through the rows.
struct Demand {
    pair: usize,
    from: Vec<HostIx>,
    to: Vec<HostIx>,
    stream: RandomStream,
    /// The last flow: the row it is in, and its time.
    row: usize,
    at_s: f64,
}

impl TrafficMatrix {
    /// The flows of a run: for every pair a Poisson process whose rate times the mean flow size is
    /// that of the matrix, between hosts drawn from those of both nodes. Sizes, and the flows of
    /// each pair, are drawn from separate streams.
    ///
    /// # Errors
    /// A name that is no node, a node without hosts, no end (a single row without a time or a
    /// number of flows), no flow at all, too many flows.
    pub fn flows(
        &self,
        topology: &Topology,
        options: &DemandOptions,
        seed: u64,
    ) -> Result<(FlowList, Vec<Warning>), TrafficError> {
        if self.begins.len() == 1 && options.until.is_none() && options.flows.is_none() {
            return Err(TrafficError::NoEnd);
        }
        let mut warnings = Vec::new();
        let mut demands = self.demands(topology, options, seed, &mut warnings)?;
        let mut queue: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
        for (ix, demand) in demands.iter_mut().enumerate() {
            queue.extend(self.advance(demand, options).map(|at| Reverse((at, ix))));
        }
        let most = options.flows.unwrap_or(FLOWS_MAX) as usize;
        let mut flows: Vec<Flow> = Vec::new();
        while let Some(Reverse((start, ix))) = queue.pop() {
            if options.until.is_some_and(|until| start >= until) || flows.len() >= most {
                // A limit asked for ends the list; the limit of all lists is an error.
                if flows.len() >= FLOWS_MAX as usize {
                    return Err(TrafficError::TooMany);
                }
                break;
            }
            if start > START_MAX {
                return Err(TrafficError::TooLate(flows.len()));
            }
            let demand = &mut demands[ix];
            let (src, dst) = demand.hosts();
            flows.push(Flow { src, dst, size_bytes: 1, start: Start::At(start), group: 0 });
            queue.extend(self.advance(demand, options).map(|at| Reverse((at, ix))));
        }
        let mut sizes = RandomStream::new(seed, "traffic/sizes");
        flows.iter_mut().for_each(|flow| flow.size_bytes = options.sizes.sample(&mut sizes));
        if flows.is_empty() {
            return Err(DemandError::Nothing(self.file.clone()).into());
        }
        if let Some(asked) = options.flows.filter(|asked| *asked as usize != flows.len()) {
            let reason = "the matrix or the end time came first";
            warnings.push(Warning::OtherCount { asked, made: flows.len() as u32, reason });
        }
        Ok((FlowList { flows, description: self.describe(options), ..FlowList::default() }, warnings))
    }

    pub fn describe(&self, options: &DemandOptions) -> String {
        format!(
            "traffic matrix {}, {} rows of {} pairs, rates x {}, times x {}, sizes {} (mean {:.0} B)",
            self.file,
            self.begins.len(),
            self.pairs.len(),
            options.rate_scale,
            options.time_scale,
            options.sizes.name(),
            options.sizes.mean_bytes()
        )
    }

    fn demands(
        &self,
        topology: &Topology,
        options: &DemandOptions,
        seed: u64,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Demand>, DemandError> {
        let mut demands = Vec::new();
        let (mut local_count, mut local_mbps) = (0, 0.0);
        for (pair, (from, to)) in self.pairs.iter().enumerate() {
            // Names are checked even where nothing is sent.
            let (from_hosts, to_hosts) = (self.hosts(topology, options, from)?, self.hosts(topology, options, to)?);
            let mean_mbps = self.mean_mbps(pair);
            if mean_mbps == 0.0 {
                continue;
            }
            if from_hosts.len() == 1 && from_hosts == to_hosts {
                local_count += 1;
                local_mbps += mean_mbps;
                continue;
            }
            let stream = RandomStream::new(seed, &format!("traffic/matrix/{from}>{to}"));
            demands.push(Demand { pair, from: from_hosts, to: to_hosts, stream, row: 0, at_s: 0.0 });
        }
        if local_count > 0 {
            warnings.push(Warning::LocalDemands { count: local_count, mbps: local_mbps });
        }
        Ok(demands)
    }

    fn mean_mbps(&self, pair: usize) -> f64 {
        let rates = self.rates_mbps.iter().skip(pair).step_by(self.pairs.len());
        rates.sum::<f64>() / self.begins.len() as f64
    }

    fn hosts(&self, topology: &Topology, options: &DemandOptions, name: &str) -> Result<Vec<HostIx>, DemandError> {
        let node = self.node(topology, options, name)?;
        let host_at = |node: NodeIx| topology.hosts().iter().position(|host| *host == node).map(|ix| HostIx(ix as u32));
        let hosts: Vec<HostIx> = match topology.node(node).kind {
            NodeKind::Host => host_at(node).into_iter().collect(),
            NodeKind::Switch => {
                topology.out_links(node).iter().filter_map(|link| host_at(topology.link(*link).to)).collect()
            }
        };
        if hosts.is_empty() {
            let (file, node) = (self.file.clone(), topology.node(node).name.clone());
            return Err(DemandError::NoHosts { file, node });
        }
        Ok(hosts)
    }

    fn node(&self, topology: &Topology, options: &DemandOptions, name: &str) -> Result<NodeIx, DemandError> {
        let find = |name: &str| topology.nodes().iter().position(|node| node.name == name).map(|ix| NodeIx(ix as u32));
        let given = options.names.iter().find(|(from, _)| from == name).map(|(_, to)| to.as_str());
        let known = || ABILENE.iter().find(|(router, _)| *router == name).and_then(|(_, city)| find(city));
        let wanted = given.unwrap_or(name);
        find(wanted).or_else(|| if given.is_none() { known() } else { None }).ok_or_else(|| {
            let names = topology.nodes().iter().map(|node| node.name.as_str());
            let hint = match did_you_mean::nearest(wanted, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    let some: Vec<&str> = names.filter(|name| !name.contains('/')).take(8).collect();
                    format!("there are {}, …; say which it is with traffic.node_names", some.join(", "))
                }
            };
            DemandError::UnknownNode {
                file: self.file.clone(),
                topology: topology.name().to_owned(),
                name: wanted.to_owned(),
                hint,
            }
        })
    }

    /// When the next flow of a pair begins; `None` after the last row.
    fn advance(&self, demand: &mut Demand, options: &DemandOptions) -> Option<Time> {
        // A Poisson process in the time in which the rate is 1, mapped back through the rows.
        let mut left = demand.stream.exponential(1.0);
        while demand.row < self.begins.len() {
            let mbps = self.rates_mbps[demand.row * self.pairs.len() + demand.pair] * options.rate_scale;
            let per_s = mbps * 1e6 / (8.0 * options.sizes.mean_bytes());
            let end_s = self.end_s(demand.row) * options.time_scale;
            let at_s = demand.at_s + left / per_s;
            if per_s > 0.0 && at_s < end_s {
                demand.at_s = at_s;
                return Some(Time::from_s_f64(at_s));
            }
            left -= (end_s - demand.at_s).max(0.0) * per_s;
            left = left.max(0.0);
            demand.at_s = end_s;
            demand.row += 1;
        }
        None
    }

    /// When a row ends, seconds from the first; never, for a single one.
    fn end_s(&self, row: usize) -> f64 {
        let begin = |row: usize| self.begins[row].as_s_f64();
        match (row + 1 < self.begins.len(), row) {
            (true, _) => begin(row + 1),
            (false, 0) => f64::INFINITY,
            (false, row) => 2.0 * begin(row) - begin(row - 1),
        }
    }
}

impl Demand {
    /// A uniform pair of different hosts. There is one: pairs of a single host were left out.
    fn hosts(&mut self) -> (HostIx, HostIx) {
        let mut draw = |hosts: &[HostIx]| hosts[self.stream.next_below(hosts.len() as u64) as usize];
        loop {
            // Both again: a host at both ends may have no other to send to.
            let (src, dst) = (draw(&self.from), draw(&self.to));
            if dst != src {
                return (src, dst);
            }
        }
    }
}

#[cfg(test)]
mod tests;
