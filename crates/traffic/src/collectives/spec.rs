//! Collectives as text: `ring-all-reduce:size=64MB,group_size=8`.

use std::fmt;

use net::{Bytes, Time};

use super::{CollectiveKind, Schedule};
use net::spec_text::{Param, Spec, SpecError};

#[derive(Clone, Copy, Debug)]
pub struct CollectiveInfo {
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    pub parameters: &'static [Param],
    kind: CollectiveKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectiveSpec {
    pub kind: CollectiveKind,
    /// The buffer of each rank, bytes.
    pub size_bytes: u64,
    /// Ranks of a group; all of them where `None`.
    pub group_size: Option<u32>,
    /// Distance between neighbours in a group.
    pub stride: u32,
    /// How often, one after the other.
    pub repeat: u32,
    /// From the end of one to the beginning of the next: computation.
    pub gap: Time,
    /// Number of rounds to simulate, 4 or more; all where `None`. The first ones of a
    /// ring, and distances that are spread evenly of an exchange. See [`SampledGroups`](crate::SampledGroups).
    pub rounds: Option<u32>,
}

/// Smallest number of rounds from which a completion time is extrapolated.
const ROUNDS_MIN: u32 = 4;

const SIZE: Param = Param::new("size", "required", "buffer of each rank, such as 64MB");
const GROUP_SIZE: Param = Param::new("group_size", "all ranks", "ranks of a group; all groups work at the same time");
const STRIDE: Param = Param::new(
    "stride",
    "1",
    "distance between neighbours in a group: 1 for tensor parallelism, its group size for data parallelism",
);
const REPEAT: Param = Param::new("repeat", "1", "how often, each when the one before is complete");
const GAP: Param = Param::new("gap", "0s", "computation between the end of one and the beginning of the next");
const ROUNDS: Param = Param::new(
    "rounds",
    "all",
    "rounds of each to simulate, 4 or more: the completion time is extrapolated from the later half of them",
);
const SKEW: Param = Param::new("skew", "1", "exponent of the Zipf popularity of experts, 0 to 4; 0 is even");
const SCHEDULE: Param = Param::new(
    "schedule",
    "none",
    "none: all sends at once; fast: one-to-one stages, in which no rank receives from two at once (FAST, NSDI 2026)",
);
const MICRO_BATCHES: Param = Param::new("micro_batches", "8", "micro-batches that follow one another");
const COMPUTE: Param = Param::new("compute", "0s", "forward pass of a stage; the backward pass takes twice that");
const COMMON: &[Param] = &[SIZE, GROUP_SIZE, STRIDE, REPEAT, GAP];
const WITH_ROUNDS: &[Param] = &[SIZE, GROUP_SIZE, STRIDE, REPEAT, GAP, ROUNDS];

const WITH_SKEW: &[Param] = &[SIZE, GROUP_SIZE, STRIDE, REPEAT, GAP, SKEW, SCHEDULE];
const PIPELINE: &[Param] = &[SIZE, GROUP_SIZE, STRIDE, REPEAT, GAP, MICRO_BATCHES, COMPUTE];

const fn collective(name: &'static str, kind: CollectiveKind, title: &'static str) -> CollectiveInfo {
    let parameters = match kind {
        CollectiveKind::AllToAll | CollectiveKind::Broadcast { .. } | CollectiveKind::HalvingDoubling => COMMON,
        CollectiveKind::Experts { .. } => WITH_SKEW,
        CollectiveKind::Pipeline { .. } => PIPELINE,
        _ => WITH_ROUNDS,
    };
    CollectiveInfo { name, title, parameters, kind }
}

pub const COLLECTIVES: &[CollectiveInfo] = &[
    collective("ring-all-reduce", CollectiveKind::AllReduce, "sums buffers round a ring: 2 (n - 1) steps of size / n"),
    collective("ring-all-gather", CollectiveKind::AllGather, "collects blocks round a ring: n - 1 steps of size / n"),
    collective(
        "ring-reduce-scatter",
        CollectiveKind::ReduceScatter,
        "sums blocks round a ring: n - 1 steps of size / n",
    ),
    collective("all-to-all", CollectiveKind::AllToAll, "every rank sends size / n to every other, all at once"),
    collective(
        "all-to-all-rounds",
        CollectiveKind::AllToAllRounds,
        "the same in n - 1 rounds, to the next rank, the second next, and so on",
    ),
    collective(
        "tree-broadcast",
        CollectiveKind::Broadcast { root: 0 },
        "sends the whole buffer from the first rank down a binomial tree",
    ),
    collective(
        "halving-doubling-all-reduce",
        CollectiveKind::HalvingDoubling,
        "sums buffers by recursive halving, then doubling: 2 log2 n steps; n is a power of two",
    ),
    collective(
        "all-to-experts",
        CollectiveKind::Experts { skew_hundredths: 0, schedule: Schedule::None },
        "every rank divides size among the experts of all ranks by their popularity (mixture of experts)",
    ),
    collective(
        "pipeline",
        CollectiveKind::Pipeline { micro_batches: 0, compute: Time::ZERO },
        "sends size from stage to stage and back for each micro-batch (one forward, one backward)",
    ),
];

fn has_rounds(info: &CollectiveInfo) -> bool {
    info.parameters.iter().any(|parameter| parameter.name == ROUNDS.name)
}

impl CollectiveSpec {
    /// From text: `ring-all-reduce:size=64MB,group_size=8,stride=1,repeat=4,gap=2ms`.
    pub fn parse(text: &str) -> Result<CollectiveSpec, SpecError> {
        let (info, spec) = Spec::parse("collective", text)?.find(COLLECTIVES, |info| (info.name, info.parameters))?;
        let size_bytes = spec.get::<Bytes>("size")?.as_u64();
        if size_bytes == 0 {
            return Err(spec.wrong("size", "give 1 byte or more"));
        }
        let group_size: Option<u32> = spec.get("group_size")?;
        if group_size.is_some_and(|size| size < 2) {
            return Err(spec.wrong("group_size", "a group has 2 ranks or more"));
        }
        let rounds: Option<u32> = if has_rounds(info) { spec.get("rounds")? } else { None };
        if rounds.is_some_and(|rounds| rounds < ROUNDS_MIN) {
            return Err(spec.wrong("rounds", "give 4 or more: the completion time is extrapolated from them"));
        }
        let kind = match info.kind {
            CollectiveKind::Experts { .. } => {
                let skew: f64 = spec.get("skew")?;
                if !(0.0..=4.0).contains(&skew) {
                    return Err(spec.wrong("skew", "give 0 to 4"));
                }
                let name: String = spec.get("schedule")?;
                let Some(at) = Schedule::NAMES.iter().position(|known| *known == name) else {
                    return Err(spec.wrong("schedule", format!("give one of {}", Schedule::NAMES.join(", "))));
                };
                CollectiveKind::Experts { skew_hundredths: (skew * 100.0).round() as u32, schedule: Schedule::ALL[at] }
            }
            CollectiveKind::Pipeline { .. } => CollectiveKind::Pipeline {
                micro_batches: spec.positive("micro_batches")?,
                compute: spec.get("compute")?,
            },
            kind => kind,
        };
        Ok(CollectiveSpec {
            kind,
            size_bytes,
            group_size,
            stride: spec.positive("stride")?,
            repeat: spec.positive("repeat")?,
            gap: spec.get("gap")?,
            rounds,
        })
    }
}

impl fmt::Display for CollectiveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_same = |info: &&CollectiveInfo| std::mem::discriminant(&info.kind) == std::mem::discriminant(&self.kind);
        let name = COLLECTIVES.iter().find(is_same).map_or("collective", |info| info.name);
        write!(f, "{name}:size={}B", self.size_bytes)?;
        if let Some(size) = self.group_size {
            write!(f, ",group_size={size}")?;
        }
        write!(f, ",stride={},repeat={}", self.stride, self.repeat)?;
        if self.gap > Time::ZERO {
            write!(f, ",gap={}", self.gap)?;
        }
        match self.kind {
            CollectiveKind::Experts { skew_hundredths, schedule } => {
                write!(f, ",skew={}", f64::from(skew_hundredths) / 100.0)?;
                if schedule == Schedule::Fast {
                    write!(f, ",schedule=fast")?;
                }
            }
            CollectiveKind::Pipeline { micro_batches, compute } => {
                write!(f, ",micro_batches={micro_batches},compute={compute}")?;
            }
            _ => {}
        }
        self.rounds.map_or(Ok(()), |rounds| write!(f, ",rounds={rounds}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_read_and_written() {
        for info in COLLECTIVES {
            let spec = CollectiveSpec::parse(&format!("{}:size=1MB,group_size=4,stride=2", info.name)).unwrap();
            let is_same = std::mem::discriminant(&spec.kind) == std::mem::discriminant(&info.kind);
            assert!(is_same && (spec.size_bytes, spec.repeat) == (1_000_000, 1), "{}", info.name);
            assert_eq!(CollectiveSpec::parse(&spec.to_string()), Ok(spec));
        }
        let spec = CollectiveSpec::parse("ring-all-reduce:size=1GB,rounds=20").unwrap();
        assert_eq!((spec.rounds, CollectiveSpec::parse(&spec.to_string())), (Some(20), Ok(spec)));
        let spec = CollectiveSpec::parse("all-to-experts:size=1MB,skew=1.2,schedule=fast").unwrap();
        assert_eq!(spec.kind, CollectiveKind::Experts { skew_hundredths: 120, schedule: Schedule::Fast });
        assert_eq!(CollectiveSpec::parse(&spec.to_string()), Ok(spec));
        let spec = CollectiveSpec::parse("all-to-all:size=3B,repeat=7,gap=2ms").unwrap();
        assert_eq!((spec.group_size, spec.repeat, spec.gap), (None, 7, Time::from_ms(2)));
        assert_eq!(CollectiveSpec::parse(&spec.to_string()), Ok(spec));
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, message) in [
            (
                "ring-al-reduce:size=1MB",
                "there is no collective called `ring-al-reduce`; did you mean `ring-all-reduce`?",
            ),
            ("all-to-all", "collective `all-to-all` needs `size`; write `all-to-all:size=...`"),
            ("all-to-all:size=0B", "collective `all-to-all`: size = `0B`: give 1 byte or more"),
            (
                "all-to-all:size=1MB,group=2",
                "collective `all-to-all` has no parameter `group`; did you mean `group_size`?",
            ),
            (
                "all-to-all:size=1MB,group_size=1",
                "collective `all-to-all`: group_size = `1`: a group has 2 ranks or more",
            ),
            (
                "ring-all-reduce:size=1MB,rounds=3",
                "collective `ring-all-reduce`: rounds = `3`: give 4 or more: the completion time is extrapolated from them",
            ),
            (
                "all-to-experts:size=1MB,schedule=slow",
                "collective `all-to-experts`: schedule = `slow`: give one of none, fast",
            ),
            ("all-to-all:size=1MB,repeat=0", "collective `all-to-all`: repeat = `0`: give 1 or more"),
        ] {
            assert_eq!(CollectiveSpec::parse(text).unwrap_err().to_string(), message);
        }
    }
}
