//! Arrival processes, and the load that sets their rate.

use net::bisection::host_capacity;
use net::random::RandomStream;
use net::{Bandwidth, Tier, Time, Topology};

use crate::samplers::LogNormal;
use net::spec_text::{Param, Spec, SpecError};

/// The capacity that a load of 1 fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadReference {
    /// The sum of the hosts' sending rates.
    HostLinks,
    Bisection,
    /// The links from the hosts' first switches upward, as in the large runs of CONGA and Hermes.
    FabricUplinks,
}

/// An offered load: payload bits per second as a share of a capacity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// The share, above 0; 0.6 is 60 %.
    pub fraction: f64,
    pub reference: LoadReference,
    /// The capacity that a load of 1 fills.
    pub capacity: Bandwidth,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// Exponential gaps at the rate of the load.
    Poisson,
    /// Log-normal gaps with the mean of the load; burstier than Poisson from `sigma` of about 1.
    LogNormal {
        /// Standard deviation of the logarithm of the gap.
        sigma: f64,
    },
    /// Equal gaps at the rate of the load; the first flow comes after one gap.
    Uniform,
    /// Flow i starts at i times `gap`; no load.
    AllAtOnce {
        /// Time between two flows, 0 for none.
        gap: Time,
    },
    /// Every sender alternates between ON and OFF; while ON, flows follow each other at gaps. No
    /// load. (Benson et al., IMC 2010; founding document F2.)
    OnOff(OnOff),
}

/// The three log-normal processes of an ON-OFF sender.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OnOff {
    pub on: LogNormalTime,
    pub off: LogNormalTime,
    /// From one flow to the next inside an ON period.
    pub gap: LogNormalTime,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogNormalTime {
    pub mean: Time,
    /// Standard deviation of its logarithm.
    pub sigma: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct ArrivalsInfo {
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    pub parameters: &'static [Param],
}

pub const ARRIVALS: &[ArrivalsInfo] = &[
    ArrivalsInfo { name: "poisson", title: "exponential gaps at the rate of the load", parameters: &[] },
    ArrivalsInfo {
        name: "log-normal",
        title: "log-normal gaps with the mean of the load",
        parameters: &[Param::new("sigma", "2", "standard deviation of the logarithm of the gap, 0 to 10")],
    },
    ArrivalsInfo { name: "uniform", title: "equal gaps at the rate of the load", parameters: &[] },
    ArrivalsInfo {
        name: "all-at-once",
        title: "one flow per pair, flow i at i times the gap; no load",
        parameters: &[Param::new("gap", "0s", "time between two flows")],
    },
    ArrivalsInfo {
        name: "on-off",
        title: "senders alternate between log-normal ON and OFF periods; no load",
        parameters: &[
            Param::new("on", "100ms", "mean length of an ON period"),
            Param::new("on_sigma", "1", "standard deviation of its logarithm"),
            Param::new("off", "100ms", "mean length of an OFF period"),
            Param::new("off_sigma", "1", "standard deviation of its logarithm"),
            Param::new("gap", "10ms", "mean time between flows while ON"),
            Param::new("gap_sigma", "1", "standard deviation of its logarithm"),
        ],
    },
];

impl Arrivals {
    /// From text: `poisson`, `all-at-once:gap=1us`,
    /// `on-off:on=50ms,off=200ms,gap=5ms,gap_sigma=1.5`.
    pub fn parse(text: &str) -> Result<Arrivals, SpecError> {
        let (_, spec) = Spec::parse("arrivals", text)?.find(ARRIVALS, |info| (info.name, info.parameters))?;
        Ok(match spec.name {
            "poisson" => Arrivals::Poisson,
            "uniform" => Arrivals::Uniform,
            "log-normal" => Arrivals::LogNormal { sigma: sigma(&spec, "sigma")? },
            "all-at-once" => Arrivals::AllAtOnce { gap: spec.get("gap")? },
            _ => Arrivals::OnOff(OnOff {
                on: log_normal_time(&spec, "on", "on_sigma")?,
                off: log_normal_time(&spec, "off", "off_sigma")?,
                gap: log_normal_time(&spec, "gap", "gap_sigma")?,
            }),
        })
    }

    pub fn follow_load(&self) -> bool {
        !matches!(self, Arrivals::AllAtOnce { .. } | Arrivals::OnOff(_))
    }

    /// A gap as a multiple of the mean gap, for arrivals that follow a load. The same draws at
    /// every load, so that changing the load only stretches time.
    pub(crate) fn relative_gap(&self, stream: &mut RandomStream) -> f64 {
        match self {
            Arrivals::Poisson => stream.exponential(1.0),
            Arrivals::LogNormal { sigma } => LogNormal::with_mean(1.0, *sigma).map_or(1.0, |gaps| gaps.sample(stream)),
            _ => 1.0,
        }
    }
}

impl std::fmt::Display for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Arrivals::Poisson => write!(f, "poisson"),
            Arrivals::LogNormal { sigma } => write!(f, "log-normal:sigma={sigma}"),
            Arrivals::Uniform => write!(f, "uniform"),
            Arrivals::AllAtOnce { gap } => write!(f, "all-at-once:gap={gap}"),
            Arrivals::OnOff(OnOff { on, off, gap }) => write!(
                f,
                "on-off:on={},on_sigma={},off={},off_sigma={},gap={},gap_sigma={}",
                on.mean, on.sigma, off.mean, off.sigma, gap.mean, gap.sigma
            ),
        }
    }
}

impl LogNormalTime {
    fn sample_s(&self, stream: &mut RandomStream) -> f64 {
        LogNormal::with_mean(self.mean.as_s_f64(), self.sigma).map_or(0.0, |times| times.sample(stream))
    }
}

/// The start times of one ON-OFF sender, in seconds, without end.
///
/// It begins within an OFF period, so senders differ. Every ON period begins with a flow.
pub(crate) struct OnOffSender {
    times: OnOff,
    stream: RandomStream,
    next_s: f64,
    on_until_s: f64,
}

impl OnOffSender {
    pub(crate) fn new(times: OnOff, mut stream: RandomStream) -> OnOffSender {
        let first_s = stream.next_f64() * times.off.sample_s(&mut stream);
        let on_until_s = first_s + times.on.sample_s(&mut stream);
        OnOffSender { times, stream, next_s: first_s, on_until_s }
    }

    /// When its next flow starts, in seconds.
    pub(crate) fn next_s(&self) -> f64 {
        self.next_s
    }

    /// Goes on to the flow after that.
    pub(crate) fn advance(&mut self) {
        self.next_s += self.times.gap.sample_s(&mut self.stream);
        if self.next_s > self.on_until_s {
            self.next_s = self.on_until_s + self.times.off.sample_s(&mut self.stream);
            self.on_until_s = self.next_s + self.times.on.sample_s(&mut self.stream);
        }
    }
}

impl LoadReference {
    pub fn name(self) -> &'static str {
        match self {
            LoadReference::HostLinks => "host links",
            LoadReference::Bisection => "bisection",
            LoadReference::FabricUplinks => "fabric uplinks",
        }
    }
}

impl Load {
    pub fn of_host_links(fraction: f64, topology: &Topology) -> Load {
        Load { fraction, reference: LoadReference::HostLinks, capacity: host_capacity(topology) }
    }

    /// A share of the bisection, which the caller knows.
    pub fn of_bisection(fraction: f64, capacity: Bandwidth) -> Load {
        Load { fraction, reference: LoadReference::Bisection, capacity }
    }

    pub fn of_fabric_uplinks(fraction: f64, topology: &Topology) -> Load {
        Load { fraction, reference: LoadReference::FabricUplinks, capacity: fabric_uplinks_capacity(topology) }
    }

    /// Mean time between flows of this mean size, in seconds: 8 x mean / (load x capacity).
    pub fn mean_gap_s(&self, mean_bytes: f64) -> f64 {
        8.0 * mean_bytes / (self.fraction * self.capacity.as_bps_f64())
    }
}

/// Returns the sum of the rates of all links from switches of tier 1 upward; 0 without tiers.
fn fabric_uplinks_capacity(topology: &Topology) -> Bandwidth {
    let tier = |node| topology.node(node).tier;
    let links = topology.links().iter();
    links.filter(|link| tier(link.from) == Tier(1) && tier(link.to) > Tier(1)).map(|link| link.rate).sum()
}

/// Beyond this the draws leave the range of floating point.
const SIGMA_MAX: f64 = 10.0;

fn sigma(spec: &Spec<'_>, key: &str) -> Result<f64, SpecError> {
    let value = spec.get(key)?;
    if !(0.0..=SIGMA_MAX).contains(&value) {
        return Err(spec.wrong(key, format!("give a number from 0 to {SIGMA_MAX}")));
    }
    Ok(value)
}

fn log_normal_time(spec: &Spec<'_>, mean_key: &str, sigma_key: &str) -> Result<LogNormalTime, SpecError> {
    let mean = spec.get(mean_key)?;
    if mean == Time::ZERO {
        return Err(spec.wrong(mean_key, "give a time above 0"));
    }
    Ok(LogNormalTime { mean, sigma: sigma(spec, sigma_key)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in [
            "poisson",
            "uniform",
            "log-normal:sigma=1.5",
            "all-at-once:gap=1us",
            "on-off:on=50ms,on_sigma=1,off=200ms,off_sigma=0.5,gap=5ms,gap_sigma=1.25",
        ] {
            assert_eq!(Arrivals::parse(text).unwrap().to_string(), text);
        }
        let error = Arrivals::parse("on-off:gap=0s").unwrap_err().to_string();
        assert_eq!(error, "arrivals `on-off`: gap = `0s`: give a time above 0");
        let error = Arrivals::parse("poison").unwrap_err().to_string();
        assert_eq!(error, "there is no arrivals called `poison`; did you mean `poisson`?");
        assert!(Arrivals::parse("log-normal:sigma=NaN").is_err());
    }

    #[test]
    fn relative_gaps_have_mean_one() {
        for arrivals in [Arrivals::Poisson, Arrivals::Uniform, Arrivals::LogNormal { sigma: 1.0 }] {
            let mut stream = RandomStream::new(1, "gaps");
            let count = 200_000;
            let sum: f64 = (0..count).map(|_| arrivals.relative_gap(&mut stream)).sum();
            assert!((sum / f64::from(count) - 1.0).abs() < 0.01, "{arrivals}");
        }
    }

    #[test]
    fn constant_on_off_periods_give_a_known_pattern() {
        let constant = |mean| LogNormalTime { mean, sigma: 0.0 };
        let times = OnOff {
            on: constant(Time::from_ms(10)),
            off: constant(Time::from_ms(30)),
            gap: constant(Time::from_ms(4)),
        };
        let mut sender = OnOffSender::new(times, RandomStream::new(1, "on-off"));
        let first = sender.next_s();
        assert!((0.0..0.03).contains(&first));
        let mut starts = Vec::new();
        for _ in 0..7 {
            starts.push(libm::round((sender.next_s() - first) * 1e3));
            sender.advance();
        }
        assert_eq!(starts, [0.0, 4.0, 8.0, 40.0, 44.0, 48.0, 80.0]);
    }

    #[test]
    fn the_gap_is_the_mean_size_over_the_loaded_capacity() {
        let load = Load::of_bisection(0.5, Bandwidth::from_gbps(10));
        assert!((load.mean_gap_s(625_000.0) - 1e-3).abs() < 1e-15);
    }
}
