//! Plausible results without a simulator, with enough structure for every figure of the report.
//! Each test file uses a part of it.
#![allow(dead_code)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anabranch_experiment::input::FileError;
use anabranch_experiment::results::quantiles::{curve, summary};
use anabranch_experiment::statistics::{Evaluation, Rule, evaluate};
use anabranch_experiment::summary::*;
use anabranch_experiment::{Experiment, Options, Override};

pub static NEVER: AtomicBool = AtomicBool::new(false);

/// Reads an experiment, with values instead of those of the file.
pub fn experiment(text: &str, overrides: &[(&str, &str)]) -> Result<Experiment, FileError> {
    let overrides: Vec<Override> = overrides.iter().map(|(key, value)| Override::set(key, value)).collect();
    Experiment::parse("test.toml", text, "test", Path::new("."), &overrides)
}

pub fn options(out: &Path, jobs: usize) -> Options {
    Options { out: out.to_owned(), jobs, threads: 0, flows: true, flow_lists: false }
}

pub struct Recipe {
    pub name: &'static str,
    pub balancers: Vec<&'static str>,
    pub loads: Vec<Option<f64>>,
    pub variants: Vec<&'static str>,
    pub seeds: u64,
    pub unfinished: f64,
    pub warnings: Vec<&'static str>,
}

impl Recipe {
    pub fn sweep() -> Recipe {
        Recipe {
            name: "web-search on a fat-tree",
            balancers: vec!["ecmp", "spray", "hermes-rtt"],
            loads: vec![Some(0.3), Some(0.6), Some(0.9)],
            variants: vec![""],
            seeds: 3,
            unfinished: 0.0,
            warnings: vec![],
        }
    }

    pub fn single() -> Recipe {
        Recipe { name: "compare", loads: vec![Some(0.6)], ..Recipe::sweep() }
    }

    pub fn troubled() -> Recipe {
        Recipe {
            name: "link failure",
            balancers: vec!["ecmp:hash=threshold", "spray", "letflow:gap=500us", "hermes-rtt"],
            loads: vec![Some(1.05)],
            variants: vec!["failure=none", "failure=agg-core 3 down at 20ms"],
            seeds: 1,
            unfinished: 0.034,
            warnings: vec![
                "load 1.05 is 1 or more: queues grow without bound and averages depend on how long the run is",
            ],
        }
    }
}

/// A small generator, so that tests need no random crate.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

pub fn results(recipe: &Recipe) -> (Summary, Vec<RunRecord>) {
    let mut records = Vec::new();
    for variant in &recipe.variants {
        for load in &recipe.loads {
            for (index, balancer) in recipe.balancers.iter().enumerate() {
                for seed in 1..=recipe.seeds {
                    records.push(record(recipe, (*variant, *load), (index, balancer), seed));
                }
            }
        }
    }
    let runs: Vec<RunSummary> = records.iter().map(|record| record.summary.clone()).collect();
    let Evaluation { points, verdicts, overall } = evaluate(&runs, &Rule::default());
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let summary = Summary {
        schema: SCHEMA_VERSION,
        anabranch: "0.1.0".into(),
        experiment: recipe.name.into(),
        file: FILE.into(),
        rank_by: Measure::Slowdown,
        setting: vec![
            pair("topology", "fat-tree:k=8: 128 hosts, 80 switches, 384 cables"),
            pair("traffic", "20000 flows: sizes web-search (mean 1711250 B), pattern random pairs, arrivals Poisson"),
            pair("transport", "DCTCP, initial window 10, minimum RTO 5 ms, MSS 1460 bytes"),
            pair("queues", "drop-tail, 250 KB per port, ECN mark at 65 KB"),
            pair("stop", "when 20,000 flows have completed, at the latest after 1 s"),
        ],
        warnings: recipe.warnings.iter().map(|warning| (*warning).to_owned()).collect(),
        runs,
        points,
        verdicts,
        overall,
        ..Summary::default()
    };
    (summary, records)
}

const FILE: &str = "name = \"web-search on a fat-tree\"\n\n[topology]\nkind = \"fat-tree\"\nk = 8\nrate = \"10Gbps\"  # hosts & fabric\n\n[traffic]\nworkload = \"web-search\"\nloads = [0.3, 0.6, 0.9]\n\n[[balancers]]\nname = \"ecmp\"\n\n[[balancers]]\nname = \"spray\"\n\n[run]\nseeds = 3 # < 10 is quick\n";

const BUCKETS: [(&str, u64, f64); 5] = [
    ("(0, 10KB]", 10_000, 0.5),
    ("(10KB, 100KB]", 100_000, 0.3),
    ("(100KB, 1MB]", 1_000_000, 0.12),
    ("(1MB, 10MB]", 10_000_000, 0.07),
    ("> 10MB", u64::MAX, 0.01),
];

fn badness(index: usize) -> f64 {
    [1.45, 1.0, 1.03, 1.2, 1.6, 1.8, 2.0, 2.2][index % 8]
}

/// Number of flows of a run; its quantiles are those of a smaller sample.
const FLOWS: u64 = 20_000;

/// Size bucket, completion time in us, and slowdown of a flow.
type Sample = (usize, f64, f64);

fn samples(noise: &mut Noise, pain: f64) -> Vec<Sample> {
    let mut samples: Vec<Sample> = (0..4000)
        .map(|_| {
            let bucket = pick(noise.next());
            let ideal = 15.0 * 6f64.powi(bucket as i32) * (1.0 + noise.next());
            let slowdown = 1.0 + pain * (0.6 * noise.normal()).exp() * (0.4 + 0.25 * bucket as f64);
            (bucket, ideal * slowdown, slowdown)
        })
        .collect();
    samples.sort_by(|a, b| a.1.total_cmp(&b.1));
    samples
}

fn by_size(samples: &[Sample]) -> Vec<SizeBucket> {
    let bucket = |(bucket, (name, max_bytes, share)): (usize, &(&str, u64, f64))| {
        let of = |value: fn(&Sample) -> f64| {
            let mut values: Vec<f64> = samples.iter().filter(|sample| sample.0 == bucket).map(value).collect();
            values.sort_by(f64::total_cmp);
            Quantiles { count: (FLOWS as f64 * share) as u64, ..summary(&values) }
        };
        let (fct_us, slowdown) = (of(|sample| sample.1), of(|sample| sample.2));
        SizeBucket { bucket: (*name).into(), max_bytes: *max_bytes, fct_us, slowdown, unfinished: 0 }
    };
    BUCKETS.iter().enumerate().map(bucket).collect()
}

fn record(
    recipe: &Recipe,
    (variant, load): (&str, Option<f64>),
    (index, balancer): (usize, &str),
    seed: u64,
) -> RunRecord {
    let rho = load.unwrap_or(0.5).min(0.97);
    // The first draw depends on the seed alone: common random numbers.
    let common = Noise::new(seed).normal() * 0.03;
    let mut noise = Noise::new(seed * 1000 + index as u64 * 77 + (rho * 100.0) as u64 + variant.len() as u64);
    // At high load the third falls behind: a sweep with a tie and with clear winners.
    let late = if index == 2 && rho > 0.5 { 1.0 + 0.3 * (rho - 0.5) } else { 1.0 };
    let pain = (rho / (1.0 - rho)).sqrt() * badness(index) * late * (1.0 + common + 0.01 * noise.normal());
    let samples = samples(&mut noise, pain);
    let fct: Vec<f64> = samples.iter().map(|sample| sample.1).collect();
    let mut slowdown: Vec<f64> = samples.iter().map(|sample| sample.2).collect();
    slowdown.sort_by(f64::total_cmp);
    let (count, by_size) = (FLOWS, by_size(&samples));
    let last = index + 1 == recipe.balancers.len();
    let running = if last { (count as f64 * recipe.unfinished) as u64 } else { 0 };
    let failed = running / 7;
    let flows = FlowCounts {
        listed: count,
        started: count,
        completed: count - running,
        failed,
        running: running - failed,
        warm_up: 0,
    };
    let dropped = (pain * 800.0) as u64 * u64::from(index != 1 || recipe.unfinished > 0.0);
    let sent = 3_141_592 + index as u64;
    let causes = [("queue", dropped), ("host_queue", 0), ("link_down", running * 3), ("random", 0)];
    let lost: u64 = causes.iter().map(|cause| cause.1).sum();
    let packets = PacketCounts {
        sent,
        delivered: sent - lost - running,
        dropped: causes.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect(),
        in_flight: running,
        ..PacketCounts::default()
    };
    let summary = RunSummary {
        balancer: balancer.into(),
        is_bound: balancer == "optimum",
        platform: "sim".into(),
        seed,
        load,
        variant: variant.into(),
        parameters: if index == 2 {
            vec![("probe".into(), "50us".into()), ("paths".into(), "4".into())]
        } else {
            vec![]
        },
        flows,
        packets,
        fct_us: Quantiles { count: count - running, ..summary(&fct) },
        sender_fct_mean_us: 1.1 * summary(&fct).mean,
        fct_us_by_size: by_size,
        slowdown_min: slowdown[0],
        slowdown: Quantiles { count: count - running, ..summary(&slowdown) },
        slowdown_lower_bound_mean: summary(&slowdown).mean * (1.0 + 5.0 * running as f64 / count as f64),
        throughput_share: rho * 0.93,
        fairness: Fairness { jain: 0.93, min: 0.2, mean: 0.8, at_least: [0.9, 0.8, 0.6, 0.5] },
        core: CoreBalance { cllbl_rx: 1.4, cllbl_tx: 1.3, bb_rx: rho, bb_tx: rho, bins: Vec::new() },
        reordering: Reordering { fraction: if index == 1 { 0.27 } else { 0.0004 }, ..Reordering::default() },
        loss: Loss { retransmitted_share: dropped as f64 / sent as f64, ..Loss::default() },
        queues: queues(pain),
        engine: Engine { events: 123, packet_hops: 456, wall_s: 1.5, peak_rss_bytes: 1 << 26, ..Engine::default() },
        end_us: 52_000.0,
        ..RunSummary::default()
    };
    let (fct_quantiles_us, slowdown_quantiles) = (curve(&fct), curve(&slowdown));
    let detail = RunDetail { fct_quantiles_us, slowdown_quantiles, ..load_over_time(rho, index, seed) };
    RunRecord { fingerprint: format!("{seed:016x}"), build: String::new(), summary, detail }
}

fn pick(draw: f64) -> usize {
    let mut below = 0.0;
    BUCKETS
        .iter()
        .position(|bucket| {
            below += bucket.2;
            draw < below
        })
        .unwrap_or(BUCKETS.len() - 1)
}

fn queues(pain: f64) -> Vec<Queue> {
    let kinds = [
        ("edge→agg", 2, true),
        ("agg→core", 3, true),
        ("core→agg", 3, false),
        ("agg→edge", 2, false),
        ("edge→host", 1, false),
    ];
    kinds
        .iter()
        .map(|(port, tier, up)| Queue {
            port: (*port).into(),
            tier: *tier,
            up: *up,
            p50_bytes: if *up { 0 } else { (pain * 3000.0) as u64 },
            p99_bytes: (pain * 40_000.0 / f64::from(*tier)) as u64,
            max_bytes: 250_000,
            above_mark_share: 0.02,
        })
        .collect()
}

fn load_over_time(rho: f64, index: usize, seed: u64) -> RunDetail {
    let (bins, links_per_tier) = (260usize, 128usize);
    let mut noise = Noise::new(seed + 31 * index as u64);
    let uneven = [0.5, 0.06, 0.15, 0.3][index % 4];
    let mut detail = RunDetail { bin_us: 200.0, ..RunDetail::default() };
    let mut heat = Heat { bins, ..Heat::default() };
    let tiers = [("edge→agg", 2, true), ("agg→core", 3, true), ("core→agg", 3, false), ("agg→edge", 2, false)];
    for (group, (name, tier, up)) in tiers.iter().enumerate() {
        let (mut mean, mut max) = (vec![0f32; bins], vec![0f32; bins]);
        for link in 0..links_per_tier {
            let mut level = rho * (1.0 + uneven * noise.normal());
            heat.links.push(format!("{name} {link}"));
            heat.group.push(group as u16);
            for bin in 0..bins {
                if bin % 20 == 0 {
                    level = 0.5 * level + 0.5 * rho * (1.0 + uneven * noise.normal());
                }
                let edges = (bin as f64 / 15.0).min((bins - bin) as f64 / 60.0).min(1.0);
                let value = ((level + uneven * 0.3 * noise.normal()) * edges).clamp(0.0, 1.0) as f32;
                heat.values.push(value);
                mean[bin] += value / links_per_tier as f32;
                max[bin] = max[bin].max(value);
            }
        }
        detail.tiers.push(TierSeries { name: (*name).into(), tier: *tier, up: *up, mean, max });
    }
    detail.heat = (seed == 1).then_some(heat);
    detail
}
