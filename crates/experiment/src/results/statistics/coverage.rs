//! Coverage of the intervals by simulation: how often they contain the true ratio.

use net::random::RandomStream;

use super::paired::{Judge, LogRatio, Rule};
use super::variance::Prior;

/// Number of simulated points, of all experiments together.
const EXPERIMENTS: usize = 6000;

/// How the standard deviations of comparisons differ within an experiment.
#[derive(Clone, Copy, Debug)]
enum Spread {
    Equal,
    /// Evenly on a logarithmic scale, from 0.5 to 8 %.
    Wide,
    /// Half are twenty times as large as the others.
    TwoKinds,
}

fn normal(random: &mut RandomStream) -> f64 {
    let (radius, angle) = ((-2.0 * (1.0 - random.next_f64()).ln()).sqrt(), std::f64::consts::TAU * random.next_f64());
    radius * angle.cos()
}

/// Returns the share of intervals that contain the true ratio: of each comparison, and of all
/// comparisons of a setting together.
fn coverage(spread: Spread, (settings, rivals, seeds): (usize, usize, usize), random: &mut RandomStream) -> (f64, f64) {
    let (mut single, mut together) = (0, 0);
    let count = EXPERIMENTS / settings;
    for _ in 0..count {
        let mut comparisons: Vec<Vec<(f64, LogRatio)>> = Vec::new();
        for _ in 0..settings {
            // The best has noise too, which all comparisons of the setting share.
            let best: Vec<f64> = (0..seeds).map(|_| 0.01 * normal(random)).collect();
            let of_rival = |rival: usize, random: &mut RandomStream| {
                let deviation = match spread {
                    Spread::Equal => 0.02,
                    Spread::Wide => 0.005 * 16f64.powf(random.next_f64()),
                    Spread::TwoKinds if rival.is_multiple_of(2) => 0.005,
                    Spread::TwoKinds => 0.1,
                };
                let truth = 0.05 * rival as f64;
                let logs: Vec<f64> = best.iter().map(|best| truth + deviation * normal(random) - best).collect();
                (truth, LogRatio::of(&logs).expect("there are seeds"))
            };
            comparisons.push((0..rivals).map(|rival| of_rival(rival, random)).collect());
        }
        let all = comparisons.iter().flatten();
        let prior = Prior::fit(all.map(|(_, ratio)| (ratio.variance, ratio.seeds - 1)));
        let contains = |judge: &Judge, (truth, ratio): &(f64, LogRatio)| {
            let shown = judge.shown(ratio);
            shown.low.ln() <= *truth && *truth <= shown.high.ln()
        };
        let (one, all) = (Judge::new(&Rule::default(), 1, prior), Judge::new(&Rule::default(), rivals, prior));
        single += comparisons.iter().flatten().filter(|comparison| contains(&one, comparison)).count();
        together +=
            comparisons.iter().filter(|setting| setting.iter().all(|comparison| contains(&all, comparison))).count();
    }
    let count = (count * settings) as f64;
    (single as f64 / (count * rivals as f64), together as f64 / count)
}

/// 95 % intervals contain the true ratio in 93 to 97 % of cases. All of a point together hold in no
/// fewer; with balancers that share the noise of the best, in more.
#[test]
fn intervals_contain_the_true_ratio() {
    let mut random = RandomStream::new(1, "coverage");
    let mut failed = Vec::new();
    println!("| spread of deviations | settings | rivals | seeds | one interval | all of a setting |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for spread in [Spread::Equal, Spread::Wide, Spread::TwoKinds] {
        for size in [
            (1, 1, 3),
            (1, 2, 3),
            (1, 30, 3),
            (10, 2, 3),
            (10, 30, 3),
            (10, 30, 2),
            (4, 8, 5),
            (1, 2, 10),
            (10, 30, 10),
        ] {
            let (single, together) = coverage(spread, size, &mut random);
            let (settings, rivals, seeds) = size;
            let (one, all) = (single * 100.0, together * 100.0);
            println!("| {spread:?} | {settings} | {rivals} | {seeds} | {one:.1} % | {all:.1} % |");
            // The last spread contradicts the model of the variances, on purpose.
            let together_min = if matches!(spread, Spread::TwoKinds) { 0.91 } else { 0.93 };
            if !(0.93..=0.97).contains(&single) || together < together_min {
                failed.push(format!("{spread:?} {size:?}: {single:.4}, together {together:.4}"));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
