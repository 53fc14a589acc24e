//! Link load over time: bytes per fabric link and bin. Bins become wider when there are too many.

use net::{LinkIx, Time, Topology};

use crate::outcome::Series;
use crate::scenario::ProbeConfig;

pub(crate) struct Sampler {
    links: Vec<u32>,
    bin: u64,
    max_bins: usize,
    is_fixed: bool,
    last: Vec<u64>,
    /// Bin-major while sampling: `bins * links`.
    bytes: Vec<u64>,
    bins: usize,
    pub(crate) next: u64,
}

impl Sampler {
    /// Creates a sampler of the links between switches, or of all links if no two switches are linked.
    pub(crate) fn new(topology: &Topology, config: &ProbeConfig) -> Sampler {
        let all = 0..topology.links().len() as u32;
        let fabric: Vec<u32> = all.clone().filter(|link| !topology.is_host_link(LinkIx(*link))).collect();
        let links = if fabric.is_empty() { all.collect() } else { fabric };
        let bin = config.bin.as_ps().max(1);
        Sampler {
            last: vec![0; links.len()],
            links,
            bin,
            // Merging pairs needs an even number.
            max_bins: (config.max_bins.max(2) as usize).next_multiple_of(2),
            is_fixed: config.fixed_bins,
            bytes: Vec::new(),
            bins: 0,
            next: bin,
        }
    }

    /// Ends the current bin, given the bytes each link has carried. Returns when the next ends.
    pub(crate) fn sample(&mut self, carried: impl Fn(u32) -> u64) -> u64 {
        self.take(carried);
        if !self.is_fixed && self.bins == self.max_bins {
            self.merge();
        }
        self.next += self.bin;
        self.next
    }

    fn take(&mut self, carried: impl Fn(u32) -> u64) {
        for (link, last) in self.links.iter().zip(&mut self.last) {
            let carried = carried(*link);
            self.bytes.push(carried - *last);
            *last = carried;
        }
        self.bins += 1;
    }

    fn merge(&mut self) {
        let width = self.links.len();
        for bin in 0..self.bins / 2 {
            for link in 0..width {
                self.bytes[bin * width + link] =
                    self.bytes[2 * bin * width + link] + self.bytes[(2 * bin + 1) * width + link];
            }
        }
        self.bins /= 2;
        self.bytes.truncate(self.bins * width);
        self.bin *= 2;
    }

    /// Ends the last, perhaps partial bin at `now` and returns everything, link-major.
    pub(crate) fn finish(mut self, carried: impl Fn(u32) -> u64, now: u64) -> Series {
        if now + self.bin > self.next {
            self.take(carried);
        }
        let width = self.links.len();
        let bytes = (0..width).flat_map(|link| (0..self.bins).map(move |bin| (link, bin)));
        let bytes = bytes.map(|(link, bin)| self.bytes[bin * width + link]).collect();
        Series { bin: Time::from_ps(self.bin), bins: self.bins, links: self.links, bytes }
    }
}
