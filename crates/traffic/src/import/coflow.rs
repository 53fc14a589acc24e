//! Coflow traces in the format of FB2010-1Hr-150-0 (Chowdhury et al., Varys, SIGCOMM 2014).
//!
//! Line 1: number of racks, number of coflows. Then one line per coflow: `id arrival_ms mappers m1
//! .. mM reducers r1:MB .. rR:MB`. Racks count from 0; MB are the megabytes a reducer receives in
//! total, split evenly over the mappers. All flows of a coflow start at its arrival.

use net::{HostIx, Time, Topology};

use super::{ImportError, amount, check_count, missing, number_below, unknown, whole};
use crate::flow::{Flow, FlowList, Start};
use crate::generate::{FLOWS_MAX, Warning};
use crate::groups::HostGroups;

/// How a trace is fitted to a topology and a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoflowOptions {
    /// Only the first coflows of the file; all where `None`.
    pub first: Option<u32>,
    /// Arrival times are multiplied by this: 0.1 makes an hour 6 minutes.
    pub time_scale: f64,
    pub size_scale: f64,
    /// Bytes in one megabyte of the trace, which does not say: 1 000 000 or 1 048 576.
    pub bytes_per_megabyte: u32,
}

impl Default for CoflowOptions {
    fn default() -> CoflowOptions {
        CoflowOptions { first: None, time_scale: 1.0, size_scale: 1.0, bytes_per_megabyte: 1_000_000 }
    }
}

/// Reads a coflow trace onto `topology`. `file` names it in errors.
///
/// Rack r of the trace becomes rack r modulo the racks of the topology; the mappers and reducers of
/// a coflow take the hosts of a rack in turn, beginning with another one for each coflow. A mapper
/// and a reducer that would share a host get neighbours in the rack; where the rack has one host
/// only, the transfer is left out with a warning. [`Flow::group`] is the id of the coflow.
///
/// # Errors
/// Names the line at fault. Scales that are not above 0 are reported at line 1.
pub fn read_coflows(
    file: &str,
    text: &str,
    topology: &Topology,
    options: &CoflowOptions,
) -> Result<(FlowList, Vec<Warning>), ImportError> {
    let fail = |line: u64, problem| ImportError::new(file, line, problem);
    for (what, scale) in [("time scale", options.time_scale), ("size scale", options.size_scale)] {
        if !(scale.is_finite() && scale > 0.0) {
            return Err(fail(1, format!("{what} {scale} is not above 0")));
        }
    }
    let mut lines = (1..).zip(text.lines());
    let (_, header) = lines.next().ok_or_else(|| fail(1, missing("the line `racks coflows`")))?;
    let mut words = Words(header.split_whitespace());
    let rack_count: u32 = words.number("racks").map_err(|problem| fail(1, problem))?;
    let promised: usize = words.number("coflows").map_err(|problem| fail(1, problem))?;
    words.end().map_err(|problem| fail(1, problem))?;
    let mut placement = Placement {
        racks: HostGroups::racks(topology),
        options: *options,
        flows: Vec::new(),
        left_out_count: 0,
        left_out_bytes: 0,
    };
    let (mut found, mut last_line) = (0, 1);
    for (line, content) in lines.filter(|(_, content)| !content.trim().is_empty()) {
        last_line = line;
        let coflow = Coflow::parse(content, rack_count).map_err(|problem| fail(line, problem))?;
        if options.first.is_none_or(|first| found < first as usize) {
            placement.add(&coflow, found).map_err(|problem| fail(line, problem))?;
        }
        found += 1;
    }
    check_count("coflows", promised, found).map_err(|problem| fail(last_line, problem))?;
    let used = options.first.map_or(found, |first| found.min(first as usize));
    Ok(placement.finish(format!(
        "coflow trace {file}, {used} of {found} coflows, times x {}, sizes x {}",
        options.time_scale, options.size_scale
    )))
}

const AMOUNT: &str = "a number, 0 or more";

/// One line of a trace.
struct Coflow {
    id: u32,
    arrival_ms: f64,
    mapper_racks: Vec<u32>,
    reducers: Vec<(u32, f64)>,
}

impl Coflow {
    fn parse(content: &str, rack_count: u32) -> Result<Coflow, String> {
        let mut words = Words(content.split_whitespace());
        let id = words.number("coflow id")?;
        let arrival_ms = amount("arrival time", words.next("the arrival time")?, AMOUNT)?;
        let mapper_count: u32 = words.number("number of mappers")?;
        let mapper_racks = (0..mapper_count)
            .map(|_| number_below("rack", words.next("a mapper")?, rack_count))
            .collect::<Result<Vec<u32>, String>>()?;
        let reducer_count: u32 = words.number("number of reducers")?;
        let reducers = (0..reducer_count)
            .map(|_| {
                let word = words.next("a reducer")?;
                let parts = word.split_once(':');
                let (rack, megabytes) = parts.ok_or_else(|| unknown(word, "a reducer `rack:megabytes`"))?;
                Ok((number_below("rack", rack, rack_count)?, amount("megabytes", megabytes, AMOUNT)?))
            })
            .collect::<Result<Vec<(u32, f64)>, String>>()?;
        words.end()?;
        if mapper_racks.is_empty() || reducers.is_empty() {
            return Err(missing("a mapper or a reducer"));
        }
        Ok(Coflow { id, arrival_ms, mapper_racks, reducers })
    }
}

/// Puts racks of the trace onto hosts and collects flows.
struct Placement {
    racks: HostGroups,
    options: CoflowOptions,
    flows: Vec<Flow>,
    left_out_count: u32,
    left_out_bytes: u64,
}

impl Placement {
    fn add(&mut self, coflow: &Coflow, turn: usize) -> Result<(), String> {
        let start_s = coflow.arrival_ms / 1e3 * self.options.time_scale;
        let start = Time::from_s_f64(start_s);
        if start == Time::MAX {
            return Err(format!("arrival at {start_s} s is beyond the 213 days a run can last"));
        }
        // A short line can name very many pairs.
        let pair_count = coflow.mapper_racks.len() as u64 * coflow.reducers.len() as u64;
        if self.flows.len() as u64 + pair_count > u64::from(FLOWS_MAX) {
            return Err(format!("more than {FLOWS_MAX} flows; read only the first coflows"));
        }
        let megabyte = f64::from(self.options.bytes_per_megabyte) * self.options.size_scale;
        for (reducer, (reducer_rack, megabytes)) in coflow.reducers.iter().enumerate() {
            let total = libm::round(megabytes * megabyte) as u64;
            let mapper_count = coflow.mapper_racks.len() as u64;
            for (mapper, mapper_rack) in coflow.mapper_racks.iter().enumerate() {
                // The first mappers send the bytes that do not divide evenly: none are lost.
                let more = u64::from((mapper as u64) < total % mapper_count);
                let size_bytes = (total / mapper_count + more).max(1);
                let src = self.host(*mapper_rack, turn + mapper);
                let dst = self.host(*reducer_rack, turn + reducer);
                let dst = if dst == src { self.host(*reducer_rack, turn + reducer + 1) } else { dst };
                if src == dst {
                    self.left_out_count += 1;
                    self.left_out_bytes = self.left_out_bytes.saturating_add(size_bytes);
                    continue;
                }
                self.flows.push(Flow { src, dst, size_bytes, start: Start::At(start), group: coflow.id });
            }
        }
        Ok(())
    }

    fn host(&self, rack: u32, turn: usize) -> HostIx {
        let hosts = self.racks.group(rack as usize);
        hosts[turn % hosts.len()]
    }

    fn finish(self, description: String) -> (FlowList, Vec<Warning>) {
        let warning = Warning::LocalTransfers { count: self.left_out_count, bytes: self.left_out_bytes };
        let warnings = if self.left_out_count > 0 { vec![warning] } else { Vec::new() };
        let list =
            FlowList::sorted(self.flows, description).expect("flows of a trace start at times, none waits for another");
        (list, warnings)
    }
}

/// The words of a line, each with a name for the message that it is missing.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| missing(what))
    }
    fn number<T: std::str::FromStr>(&mut self, what: &'static str) -> Result<T, String> {
        whole(what, self.next(what)?)
    }
    fn end(&mut self) -> Result<(), String> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(unknown(word, "the end of the line")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pods;

    const SAMPLE: &str = "4 3\n7 0 2 0 1 1 2:3.0\n8 1500 1 3 2 0:1.0 3:0.5\n9 2000 1 1 1 1:2\n";

    fn read(topology: &Topology, options: &CoflowOptions) -> (FlowList, Vec<Warning>) {
        read_coflows("sample.txt", SAMPLE, topology, options).unwrap()
    }

    #[test]
    fn bytes_are_split_evenly_over_mappers() {
        let (list, warnings) = read(&pods(2, 2, 2), &CoflowOptions::default());
        assert!(warnings.is_empty());
        let sizes: Vec<u64> = list.flows.iter().map(|flow| flow.size_bytes).collect();
        assert_eq!(sizes, [1_500_000, 1_500_000, 1_000_000, 500_000, 2_000_000]);
        let groups: Vec<u32> = list.flows.iter().map(|flow| flow.group).collect();
        assert_eq!(groups, [7, 7, 8, 8, 9]);
        assert_eq!(list.flows[2].start, Start::At(Time::from_ms(1_500)));
        // Racks of two hosts: rack 2 holds hosts 4 and 5.
        assert!(list.flows[..2].iter().all(|flow| flow.dst.0 / 2 == 2));
        assert!(list.flows.iter().all(|flow| flow.src != flow.dst));
    }

    #[test]
    fn scales_and_the_first_coflows() {
        let options = CoflowOptions { first: Some(2), time_scale: 0.1, size_scale: 1e-6, ..CoflowOptions::default() };
        let (list, _) = read(&pods(2, 2, 2), &options);
        assert_eq!(list.flows.len(), 4);
        assert_eq!(list.flows[2].start, Start::At(Time::from_ms(150)));
        let sizes: Vec<u64> = list.flows.iter().map(|flow| flow.size_bytes).collect();
        // 3 bytes over two mappers; half a byte becomes one.
        assert_eq!(sizes, [2, 1, 1, 1]);
    }

    #[test]
    fn racks_wrap_around_and_local_transfers_are_left_out() {
        let (list, warnings) = read(&pods(2, 1, 1), &CoflowOptions::default());
        assert!(list.flows.iter().all(|flow| flow.src != flow.dst));
        // Mapper 0 to reducer 2, 3 to 3 and 1 to 1 fall onto one host.
        assert_eq!(warnings, [Warning::LocalTransfers { count: 3, bytes: 4_000_000 }]);
    }
}
