//! What records tell: volume, matrix, number and sizes of flows, each with a 95 % interval.
//!
//! Every packet is kept with probability 1/N. So m samples of sizes b represent N·Σb bytes, with the
//! variance N(N - 1)·Σb².

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use super::{FlowKey, Record};

/// Half the width of a 95 % interval of a normal distribution, in standard deviations.
const Z: f64 = 1.959_964;
/// Mean size of IP packets below which a direction has acknowledgements only, bytes.
const ACKNOWLEDGEMENT_MAX: f64 = 80.0;
/// Sizes of IP and TCP headers: without options, and with timestamps.
const HEADERS: [f64; 2] = [40.0, 52.0];
/// Samples from which the size of one flow is known.
const KNOWN_SAMPLES: f64 = 10.0;

/// Ports of exporters that face hosts: exporter and number of the port.
pub type Edges = BTreeSet<(IpAddr, u32)>;

/// An estimate with its 95 % interval, which is empty if everything was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    fn normal(value: f64, variance: f64) -> Estimate {
        let half = Z * variance.max(0.0).sqrt();
        Estimate { value, low: (value - half).max(0.0), high: value + half }
    }

    /// Returns the estimate of a number of which `samples` were seen, one in `sampling`: the interval is
    /// that of a Poisson number (Wilson and Hilferty's approximation of its exact one).
    fn count(samples: f64, sampling: f64) -> Estimate {
        if sampling <= 1.0 {
            return Estimate { value: samples, low: samples, high: samples };
        }
        let end = |k: f64, z: f64| k * (1.0 - 1.0 / (9.0 * k) + z / (3.0 * k.sqrt())).powi(3);
        let low = if samples > 0.0 { end(samples, -Z).max(0.0) } else { 0.0 };
        Estimate { value: samples * sampling, low: low * sampling, high: end(samples + 1.0, Z) * sampling }
    }

    /// Returns the estimate of a ratio. Its interval is that of both together, and so rather too wide.
    fn over(self, other: Estimate) -> Option<Estimate> {
        let is_usable = other.low > 0.0;
        is_usable.then(|| Estimate {
            value: self.value / other.value,
            low: self.low / other.high,
            high: self.high / other.low,
        })
    }

    /// Returns the estimate times a number.
    pub fn times(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    pub fn contains(&self, truth: f64) -> bool {
        (self.low..=self.high).contains(&truth)
    }
}

/// Figures of the traffic during the time of the records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimates {
    pub packets: Estimate,
    pub ip_bytes: Estimate,
    pub payload_bytes: Estimate,
    /// Number of flows that began; `None` if no record shows a beginning.
    pub flows: Option<Estimate>,
    /// Mean payload of a flow, bytes.
    pub mean_size: Option<Estimate>,
    /// Payload from one end to another, by the names of `name_of`.
    pub pairs: BTreeMap<(String, String), Estimate>,
    /// Payload of the flows of which ten samples or more were seen, largest first.
    pub large_flows: Vec<Estimate>,
    /// From the first to the last record, seconds.
    pub duration_s: Option<f64>,
    /// Number of records that were counted, of all.
    pub counted: (usize, usize),
    /// Assumptions behind the estimates, and records that are missing.
    pub warnings: Vec<String>,
}

/// A sum of samples with the variance of its estimate.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    variance: f64,
}

impl Sum {
    /// Adds a number of packets, each with this amount, of which one in `sampling` was seen.
    fn add(&mut self, packets: f64, amount: f64, sampling: f64) {
        self.value += packets * amount;
        self.variance += (sampling - 1.0) * packets * amount * amount;
    }

    fn estimate(self) -> Estimate {
        Estimate::normal(self.value, self.variance)
    }
}

/// Estimates the traffic. With `edges` packets are counted where they enter the network. `name_of` names
/// the host or rack of an address; others are left out of the matrix.
pub fn estimate(records: &[Record], edges: Option<&Edges>, name_of: &dyn Fn(IpAddr) -> Option<String>) -> Estimates {
    let mut out = Estimates::default();
    let counted = count_once(records, edges, &mut out.warnings);
    out.counted = (counted.len(), records.len());
    let header = header(&counted);
    let (mut packets, mut ip_bytes, mut payload) = (Sum::default(), Sum::default(), Sum::default());
    let mut pairs: BTreeMap<(String, String), Sum> = BTreeMap::new();
    let mut flows: BTreeMap<FlowKey, (f64, Sum)> = BTreeMap::new();
    let (mut openings, mut opening_rate, mut unnamed) = (0.0, 1.0f64, BTreeSet::new());
    let mut span: Option<(f64, f64)> = None;
    for record in &counted {
        let sampling = f64::from(record.sampling);
        if record.packets <= 0.0 {
            continue;
        }
        let size = record.ip_bytes / record.packets;
        let content = match record.payload_bytes {
            Some(bytes) => bytes / record.packets,
            None if size < ACKNOWLEDGEMENT_MAX => 0.0,
            None => (size - header).max(0.0),
        };
        packets.add(record.packets, 1.0, sampling);
        ip_bytes.add(record.packets, size, sampling);
        payload.add(record.packets, content, sampling);
        if record.opens {
            openings += 1.0;
            opening_rate = opening_rate.max(sampling);
        }
        if content > 0.0 {
            let flow = flows.entry(record.key()).or_default();
            flow.0 += record.packets / sampling;
            flow.1.add(record.packets, content, sampling);
            match (name_of(record.source), name_of(record.destination)) {
                (Some(from), Some(to)) => pairs.entry((from, to)).or_default().add(record.packets, content, sampling),
                (from, _) => drop(unnamed.insert(if from.is_none() { record.source } else { record.destination })),
            }
        }
        if let Some((first, last)) = record.time_s {
            let (begin, end) = span.unwrap_or((first, last));
            span = Some((begin.min(first), end.max(last)));
        }
    }
    (out.packets, out.ip_bytes, out.payload_bytes) = (packets.estimate(), ip_bytes.estimate(), payload.estimate());
    out.pairs = pairs.into_iter().map(|(pair, sum)| (pair, sum.estimate())).collect();
    out.duration_s = span.map(|(begin, end)| end - begin).filter(|duration| *duration > 0.0);
    let is_known = |(samples, _): &(f64, Sum)| *samples >= KNOWN_SAMPLES;
    out.large_flows = flows.into_values().filter(is_known).map(|(_, sum)| sum.estimate()).collect();
    out.large_flows.sort_by(|a, b| b.value.total_cmp(&a.value));
    if openings > 0.0 {
        let count = Estimate::count(openings, opening_rate);
        out.mean_size = out.payload_bytes.over(count);
        out.flows = Some(count);
        if opening_rate > 1.0 && openings < 30.0 {
            out.warnings.push(format!(
                "only {openings} samples begin a flow, so the number of flows and their mean size are known roughly: count longer"
            ));
        }
    } else {
        out.warnings.push("no record shows the beginning of a flow, so the number of flows is not known".to_owned());
    }
    if !unnamed.is_empty() {
        let example = unnamed.first().map_or_else(String::new, IpAddr::to_string);
        out.warnings
            .push(format!("{} addresses are of no known host and not in the matrix, such as {example}", unnamed.len()));
    }
    out
}

/// Returns the records in which each packet is counted once.
fn count_once<'a>(records: &'a [Record], edges: Option<&Edges>, warnings: &mut Vec<String>) -> Vec<&'a Record> {
    if let Some(edges) = edges {
        let is_edge = |record: &&Record| record.seen_at.is_none_or(|at| edges.contains(&at));
        return records.iter().filter(is_edge).collect();
    }
    let exporters: BTreeSet<IpAddr> = records.iter().filter_map(|record| Some(record.seen_at?.0)).collect();
    if exporters.len() < 2 {
        return records.iter().collect();
    }
    // Of each pair of ends the exporter that saw most: a sum would count packets at every switch.
    let mut volumes: BTreeMap<(IpAddr, IpAddr), BTreeMap<IpAddr, f64>> = BTreeMap::new();
    for record in records {
        if let Some((exporter, _)) = record.seen_at {
            let of_pair = volumes.entry((record.source, record.destination)).or_default();
            *of_pair.entry(exporter).or_default() += record.ip_bytes;
        }
    }
    let most = |volumes: &BTreeMap<IpAddr, f64>| {
        volumes.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(exporter, _)| *exporter)
    };
    let chosen: BTreeMap<(IpAddr, IpAddr), Option<IpAddr>> =
        volumes.iter().map(|(pair, of)| (*pair, most(of))).collect();
    warnings.push(format!(
        "{} exporters may see the same packet: of each pair of hosts the one that saw most is used, which is too much by \
         chance. With a list of the ports that face hosts each packet is counted where it enters",
        exporters.len()
    ));
    let is_chosen = |record: &&Record| match record.seen_at {
        Some((exporter, _)) => chosen.get(&(record.source, record.destination)) == Some(&Some(exporter)),
        None => true,
    };
    records.iter().filter(is_chosen).collect()
}

/// Returns the size of headers: that of the pure acknowledgements, which are headers alone.
fn header(records: &[&Record]) -> f64 {
    let mut sizes = [0usize; 2];
    for record in records.iter().filter(|record| record.packets > 0.0) {
        let size = record.ip_bytes / record.packets;
        if let Some(kind) = HEADERS.iter().position(|header| (size - header).abs() < 2.0) {
            sizes[kind] += 1;
        }
    }
    HEADERS[usize::from(sizes[1] > sizes[0])]
}
