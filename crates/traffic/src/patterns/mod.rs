//! Traffic patterns: pairs of senders and receivers among the hosts of a topology.

use net::random::RandomStream;
use net::{HostIx, Topology};

use net::spec_text::{Param, Spec, SpecError, Value};

mod draw;
mod matrix;

pub(crate) use draw::PairSource;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pattern {
    /// Host x sends to (x + step) mod n; half the hosts where no step is given.
    Stride {
        /// The step, not a multiple of n.
        step: Option<u32>,
    },
    /// Every host sends to one other and receives from one: a uniform derangement.
    RandomBijection {
        /// Number of a draw that all seeds share; `None` draws for every seed.
        draw: Option<u32>,
    },
    /// Every flow has a uniform sender and a uniform other receiver.
    RandomPairs,
    /// Uniform sender; receiver in its rack by `edge`, else pod by `pod`, else outside (Hedera).
    Staggered {
        /// Probability of a receiver in the same rack.
        edge: f64,
        /// Probability of a receiver in the same pod but another rack.
        pod: f64,
    },
    /// Every host sends to every other.
    AllToAll,
    /// Every host sends to `n` random others.
    OneToN { n: u32, receivers: Receivers },
    /// At every arrival, `fan_in` random hosts send to one target at the same time.
    Incast { fan_in: u32, target: IncastTarget },
    /// All-to-all, every sender in its own random order with `concurrency` flows at a time;
    /// each flow starts when the one it follows has ended.
    Shuffle {
        /// Number of flows that one sender has in progress at a time.
        concurrency: u32,
    },
    /// Uniform sender, uniform receiver in another rack.
    InterRack,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IncastTarget {
    /// Host 0 first, then 1, and so on.
    Rotating,
    Fixed(HostIx),
}

/// How the receivers of [`Pattern::OneToN`] are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receivers {
    /// For each sender on its own: a host may be drawn by several senders or by none.
    Independent,
    /// Every host receives from `n` others: derangements without a common pair, one after the other.
    Balanced,
}

impl Receivers {
    const fn as_str(self) -> &'static str {
        match self {
            Receivers::Independent => "independent",
            Receivers::Balanced => "balanced",
        }
    }
}

impl Value for Receivers {
    fn read(text: &str) -> Result<Receivers, String> {
        let known = [Receivers::Independent, Receivers::Balanced];
        let found = known.into_iter().find(|receivers| receivers.as_str() == text);
        found.ok_or_else(|| "give `independent` or `balanced`".to_owned())
    }
}

impl Value for IncastTarget {
    fn read(text: &str) -> Result<IncastTarget, String> {
        let host = |_| "give `rotating` or the number of a host".to_owned();
        if text == "rotating" {
            Ok(IncastTarget::Rotating)
        } else {
            text.parse().map(HostIx).map(IncastTarget::Fixed).map_err(host)
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternKind {
    /// A fixed list of pairs: one flow each with all-at-once arrivals, else drawn per arrival.
    Matrix,
    /// Every flow draws its own sender and receiver.
    PerFlow,
    /// Every arrival is a group of flows that start together.
    Event,
    /// A fixed list of flows, some of which start when others end.
    Triggered,
}

#[derive(Clone, Copy, Debug)]
pub struct PatternInfo {
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    pub source: &'static str,
    /// The definition of its pairs.
    pub kind: PatternKind,
    pub parameters: &'static [Param],
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pattern `{pattern}` is impossible on `{topology}`: {reason}")]
pub struct PatternError {
    pub pattern: String,
    pub topology: String,
    /// The violated rule and accepted values.
    pub reason: String,
}

const fn pattern(name: &'static str, kind: PatternKind) -> PatternInfo {
    PatternInfo { name, title: "", source: "", kind, parameters: &[] }
}

impl PatternInfo {
    const fn title(self, title: &'static str) -> PatternInfo {
        PatternInfo { title, ..self }
    }
    const fn source(self, source: &'static str) -> PatternInfo {
        PatternInfo { source, ..self }
    }
    const fn parameters(self, parameters: &'static [Param]) -> PatternInfo {
        PatternInfo { parameters, ..self }
    }
}

pub const PATTERNS: &[PatternInfo] = &[
    pattern("stride", PatternKind::Matrix)
        .title("host x sends to (x + step) mod n")
        .source("Hedera, NSDI 2010; founding documents F0 (step 30) and F2 (half, one-to-one)")
        .parameters(&[Param::new("step", "half the hosts", "distance between sender and receiver, in hosts")]),
    pattern("random-bijection", PatternKind::Matrix)
        .title("every host sends to one other and receives from one")
        .source("Hedera, NSDI 2010; founding document F0")
        .parameters(&[Param::new("draw", "one for each seed", "number of a draw that all seeds share")]),
    pattern("random-pairs", PatternKind::PerFlow)
        .title("uniform sender, uniform other receiver, for every flow")
        .source("Hedera, NSDI 2010"),
    pattern("staggered", PatternKind::PerFlow)
        .title("receivers in the same rack, the same pod or elsewhere with given probabilities")
        .source("Hedera, NSDI 2010")
        .parameters(&[
            Param::new("edge", "0.5", "probability of a receiver in the same rack"),
            Param::new("pod", "0.3", "probability of a receiver in the same pod, another rack"),
        ]),
    pattern("all-to-all", PatternKind::Matrix).title("every host sends to every other").source("founding document F2"),
    pattern("one-to-n", PatternKind::Matrix)
        .title("every host sends to n random others")
        .source("founding document F2 (2 and 4)")
        .parameters(&[
            Param::new("n", "2", "receivers of each host"),
            Param::new(
                "receivers",
                "independent",
                "`independent` draws, or `balanced`: every host receives from n others",
            ),
        ]),
    pattern("incast", PatternKind::Event)
        .title("random hosts send to one target at the same time")
        .source("DCTCP, SIGCOMM 2010")
        .parameters(&[
            Param::new("fan_in", "8", "senders of one incast"),
            Param::new("target", "rotating", "`rotating`, or the number of the receiving host"),
        ]),
    pattern("shuffle", PatternKind::Triggered)
        .title("all-to-all in random order, few flows at a time per sender")
        .source("Hedera, NSDI 2010; VL2, SIGCOMM 2009")
        .parameters(&[Param::new("concurrency", "2", "flows of one sender in progress at a time")]),
    pattern("inter-rack", PatternKind::PerFlow)
        .title("uniform sender, uniform receiver in another rack")
        .source("CONGA, SIGCOMM 2014; Hermes, SIGCOMM 2017"),
];

impl Pattern {
    /// From text: `stride:step=30`, `incast:fan_in=16,target=3`, `staggered:edge=0.5,pod=0.3`.
    pub fn parse(text: &str) -> Result<Pattern, SpecError> {
        let (_, spec) = Spec::parse("pattern", text)?.find(PATTERNS, |info| (info.name, info.parameters))?;
        Ok(match spec.name {
            "stride" => Pattern::Stride { step: spec.get("step")? },
            "random-bijection" => Pattern::RandomBijection { draw: spec.get("draw")? },
            "random-pairs" => Pattern::RandomPairs,
            "staggered" => staggered(&spec)?,
            "all-to-all" => Pattern::AllToAll,
            "one-to-n" => Pattern::OneToN { n: spec.positive("n")?, receivers: spec.get("receivers")? },
            "incast" => Pattern::Incast { fan_in: spec.positive("fan_in")?, target: spec.get("target")? },
            "shuffle" => Pattern::Shuffle { concurrency: spec.positive("concurrency")? },
            _ => Pattern::InterRack,
        })
    }

    pub fn info(&self) -> &'static PatternInfo {
        let name = self.name();
        PATTERNS
            .iter()
            .find(|info| info.name == name)
            .expect("every pattern is registered, checked by a test of this file")
    }

    fn name(&self) -> &'static str {
        match self {
            Pattern::Stride { .. } => "stride",
            Pattern::RandomBijection { .. } => "random-bijection",
            Pattern::RandomPairs => "random-pairs",
            Pattern::Staggered { .. } => "staggered",
            Pattern::AllToAll => "all-to-all",
            Pattern::OneToN { .. } => "one-to-n",
            Pattern::Incast { .. } => "incast",
            Pattern::Shuffle { .. } => "shuffle",
            Pattern::InterRack => "inter-rack",
        }
    }

    /// The list of pairs of a [`PatternKind::Matrix`] or [`PatternKind::Triggered`] pattern.
    pub fn pairs(
        &self,
        topology: &Topology,
        stream: &mut RandomStream,
    ) -> Result<Option<Vec<(HostIx, HostIx)>>, PatternError> {
        matrix::pairs(self, topology, stream)
    }

    fn impossible(&self, topology: &Topology, reason: impl Into<String>) -> PatternError {
        PatternError { pattern: self.to_string(), topology: topology.name().to_owned(), reason: reason.into() }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name();
        match self {
            Pattern::Stride { step: Some(step) } => write!(f, "{name}:step={step}"),
            Pattern::Staggered { edge, pod } => write!(f, "{name}:edge={edge},pod={pod}"),
            Pattern::RandomBijection { draw: Some(draw) } => write!(f, "{name}:draw={draw}"),
            Pattern::OneToN { n, receivers: Receivers::Independent } => write!(f, "{name}:n={n}"),
            Pattern::OneToN { n, receivers } => write!(f, "{name}:n={n},receivers={}", receivers.as_str()),
            Pattern::Incast { fan_in, target } => match target {
                IncastTarget::Rotating => write!(f, "{name}:fan_in={fan_in},target=rotating"),
                IncastTarget::Fixed(host) => write!(f, "{name}:fan_in={fan_in},target={}", host.0),
            },
            Pattern::Shuffle { concurrency } => write!(f, "{name}:concurrency={concurrency}"),
            _ => write!(f, "{name}"),
        }
    }
}

fn staggered(spec: &Spec<'_>) -> Result<Pattern, SpecError> {
    let share = |key| {
        let value = spec.get(key)?;
        if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(spec.wrong(key, "give a probability from 0 to 1")) }
    };
    let (edge, pod) = (share("edge")?, share("pod")?);
    // Two decimal fractions that sum to 1 may miss it by a rounding.
    if edge + pod > 1.0 + 1e-9 {
        return Err(spec.wrong("pod", format!("edge + pod = {}, above 1", edge + pod)));
    }
    Ok(Pattern::Staggered { edge, pod })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_name_parses_to_itself() {
        for info in PATTERNS {
            let pattern = Pattern::parse(info.name).unwrap();
            assert_eq!(pattern.info().name, info.name);
            assert_eq!(Pattern::parse(&pattern.to_string()), Ok(pattern));
        }
        for text in [
            "stride:step=30",
            "random-bijection:draw=3",
            "one-to-n:n=4,receivers=balanced",
            "incast:fan_in=16,target=3",
            "staggered:edge=0.2,pod=0.8",
        ] {
            assert_eq!(Pattern::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, message) in [
            ("stryde", "there is no pattern called `stryde`; did you mean `stride`?"),
            ("stride:stp=3", "pattern `stride` has no parameter `stp`; did you mean `step`?"),
            ("one-to-n:receivers=even", "pattern `one-to-n`: receivers = `even`: give `independent` or `balanced`"),
            ("one-to-n:n=0", "pattern `one-to-n`: n = `0`: give 1 or more"),
            ("staggered:edge=0.8,pod=0.3", "pattern `staggered`: pod = `0.3`: edge + pod = 1.1, above 1"),
            ("staggered:edge=NaN", "pattern `staggered`: edge = `NaN`: give a probability from 0 to 1"),
            ("incast:target=x", "pattern `incast`: target = `x`: give `rotating` or the number of a host"),
        ] {
            assert_eq!(Pattern::parse(text).unwrap_err().to_string(), message);
        }
    }
}
