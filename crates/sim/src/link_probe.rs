//! Queue lengths and bytes of chosen links over time.
//!
//! Queues are read once in each interval, so packets have no overhead. Bins become wider when there
//! are too many; the interval stays.

use net::Time;

use crate::links::network::LinkSample;
use crate::outcome::{LinkSeries, QueueBin};
use crate::scenario::ProbeConfig;

pub(crate) struct LinkProbe {
    interval: u64,
    max_bins: usize,
    is_fixed: bool,
    samples_per_bin: u32,
    /// Samples in the current bin.
    samples: u32,
    links: Vec<Probed>,
    pub(crate) next: u64,
}

struct Probed {
    link: u32,
    carried: u64,
    /// Bins, with the sum of samples instead of the mean; the last one may be partial.
    bins: Vec<Bin>,
}

#[derive(Clone, Copy, Default)]
struct Bin {
    sum: u64,
    max: u32,
    bytes: u64,
}

impl LinkProbe {
    /// Creates a probe; `None` if no link is chosen.
    pub(crate) fn new(config: &ProbeConfig) -> Option<LinkProbe> {
        let interval = config.bin.as_ps().max(1);
        let probed = |link: &net::LinkIx| Probed { link: link.0, carried: 0, bins: Vec::new() };
        (!config.links.is_empty()).then(|| LinkProbe {
            interval,
            max_bins: (config.max_bins.max(2) as usize).next_multiple_of(2),
            is_fixed: config.fixed_bins,
            samples_per_bin: 1,
            samples: 0,
            links: config.links.iter().map(probed).collect(),
            next: interval,
        })
    }

    /// Adds a sample of every link. Returns the time of the next one.
    pub(crate) fn sample(&mut self, mut read: impl FnMut(u32) -> LinkSample) -> u64 {
        if self.samples == 0 || self.samples == self.samples_per_bin {
            self.begin_bin();
        }
        self.samples += 1;
        for probed in &mut self.links {
            probed.add(&read(probed.link), true);
        }
        self.next += self.interval;
        self.next
    }

    fn begin_bin(&mut self) {
        let is_full = self.links[0].bins.len() == self.max_bins;
        if is_full && !self.is_fixed {
            for probed in &mut self.links {
                let merged = |pair: &[Bin]| Bin {
                    sum: pair[0].sum + pair[1].sum,
                    max: pair[0].max.max(pair[1].max),
                    bytes: pair[0].bytes + pair[1].bytes,
                };
                probed.bins = probed.bins.chunks_exact(2).map(merged).collect();
            }
            self.samples_per_bin *= 2;
        }
        self.samples = 0;
        self.links.iter_mut().for_each(|probed| probed.bins.push(Bin::default()));
    }

    /// Ends the last, perhaps partial bin and returns everything.
    pub(crate) fn finish(mut self, mut read: impl FnMut(u32) -> LinkSample, now: u64) -> Vec<LinkSeries> {
        if now > self.next - self.interval {
            if self.samples == 0 || self.samples == self.samples_per_bin {
                self.begin_bin();
            }
            for probed in &mut self.links {
                probed.add(&read(probed.link), false);
            }
        }
        let (per_bin, last) = (self.samples_per_bin, self.samples);
        let width = Time::from_ps(self.interval.saturating_mul(u64::from(per_bin)));
        let series = |probed: Probed| {
            let count = probed.bins.len();
            let bin = |(ix, bin): (usize, &Bin)| QueueBin {
                max_bytes: bin.max,
                mean_bytes: bin.sum as f64 / f64::from(if ix + 1 == count { last.max(1) } else { per_bin }),
                carried_bytes: bin.bytes,
            };
            LinkSeries { link: probed.link, bin: width, bins: probed.bins.iter().enumerate().map(bin).collect() }
        };
        self.links.into_iter().map(series).collect()
    }
}

impl Probed {
    fn add(&mut self, sample: &LinkSample, has_queue: bool) {
        let Some(bin) = self.bins.last_mut() else { return };
        bin.bytes += sample.carried_bytes - self.carried;
        self.carried = sample.carried_bytes;
        if has_queue {
            bin.sum += u64::from(sample.queued_bytes);
            bin.max = bin.max.max(sample.queued_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(max_bins: u32, fixed_bins: bool) -> LinkProbe {
        let links = vec![net::LinkIx(4)];
        let config = ProbeConfig { bin: Time::from_ps(10), max_bins, fixed_bins, links, ..ProbeConfig::default() };
        LinkProbe::new(&config).expect("a link is chosen")
    }

    /// Samples queues of 1, 2, … bytes; the link carries 3 bytes in each interval.
    fn run(mut probe: LinkProbe, samples: u32, now: u64) -> LinkSeries {
        let state = |nth: u32| LinkSample { queued_bytes: nth, carried_bytes: 3 * u64::from(nth) };
        for nth in 1..=samples {
            assert_eq!(probe.sample(|_| state(nth)), 10 * u64::from(nth + 1));
        }
        probe.finish(|_| state(samples + 1), now).remove(0)
    }

    #[test]
    fn full_bins_are_merged_and_keep_maximum_mean_and_bytes() {
        let series = run(probe(4, false), 7, 70);
        let bin = |max_bytes, mean_bytes, carried_bytes| QueueBin { max_bytes, mean_bytes, carried_bytes };
        // The last sample is alone in its bin.
        let expected = [bin(2, 1.5, 6), bin(4, 3.5, 6), bin(6, 5.5, 6), bin(7, 7.0, 3)];
        assert_eq!((series.bin, &series.bins[..]), (Time::from_ps(20), &expected[..]));
        assert_eq!(run(probe(4, true), 7, 70).bins.len(), 7, "fixed bins are not merged");
    }

    #[test]
    fn bytes_after_the_last_sample_count() {
        let series = run(probe(4, false), 2, 25);
        assert_eq!(series.bins.iter().map(|bin| bin.carried_bytes).sum::<u64>(), 9);
        assert_eq!(run(probe(4, false), 0, 5).bins.len(), 1);
        assert!(LinkProbe::new(&ProbeConfig::default()).is_none());
    }
}
