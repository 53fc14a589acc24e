//! Response times over seeds, and `responses.csv`: one line per variant, balancer and class.

use crate::results::csv;
use crate::results::statistics::stat;
use crate::summary::{ClassSummary, RunSummary, Stat};

type Time = fn(&ClassSummary) -> f64;

/// Mean, 10th percentile, median, 90th and 99th percentile of response times, us.
const TIMES: [(&str, Time); 5] = [
    ("mean", |class| class.response_us.mean),
    ("p10", |class| class.response_us.p10),
    ("p50", |class| class.response_us.p50),
    ("p90", |class| class.response_us.p90),
    ("p99", |class| class.response_us.p99),
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassPoint {
    pub variant: String,
    pub balancer: String,
    pub class: String,
    pub seeds: u32,
    /// Started, completed, failed and running requests, over all seeds.
    pub counts: [u64; 4],
    /// Mean, 10th percentile, median, 90th and 99th percentile of response times, us.
    pub times_us: [Stat; 5],
    pub download_bytes_per_s: Stat,
    pub shares: Vec<(String, f64)>,
}

/// Computes the points of runs ordered by variant, balancer and seed, as in plans. Classes are in
/// the order of the file; with several, `all` comes first.
pub fn points(runs: &[RunSummary]) -> Vec<ClassPoint> {
    let mut points = Vec::new();
    for group in runs.chunk_by(|a, b| (&a.variant, &a.balancer) == (&b.variant, &b.balancer)) {
        let Some(requests) = &group[0].requests else { continue };
        let several = (requests.classes.len() > 1).then_some(None);
        let names = requests.classes.iter().map(|class| Some(class.class.as_str()));
        points.extend(several.into_iter().chain(names).map(|name| point(group, name)));
    }
    points
}

fn point(runs: &[RunSummary], name: Option<&str>) -> ClassPoint {
    let classes: Vec<&ClassSummary> =
        runs.iter().filter_map(|run| run.requests.as_ref()).filter_map(|requests| requests.class(name)).collect();
    let over = |value: Time| {
        let answered = classes.iter().filter(|class| class.response_us.count > 0);
        stat(&answered.map(|class| value(class)).collect::<Vec<_>>())
    };
    let sum = |value: fn(&ClassSummary) -> u64| classes.iter().map(|class| value(class)).sum();
    let servers = runs[0].requests.iter().flat_map(|requests| &requests.servers);
    let pages = |place: usize| classes.iter().map(|class| class.pages[place]).sum::<u64>() as f64;
    let total: f64 = classes.iter().flat_map(|class| &class.pages).sum::<u64>() as f64;
    ClassPoint {
        variant: runs[0].variant.clone(),
        balancer: runs[0].balancer.clone(),
        class: name.unwrap_or("all").to_owned(),
        seeds: runs.len() as u32,
        counts: [
            sum(|class| class.started),
            sum(|class| class.completed),
            sum(|class| class.failed),
            sum(|class| class.running),
        ],
        times_us: TIMES.map(|(_, time)| over(time)),
        download_bytes_per_s: over(|class| class.download_bytes_per_s),
        shares: servers
            .enumerate()
            .map(|(place, server)| (server.host.clone(), pages(place) / total.max(1.0)))
            .collect(),
    }
}

pub(crate) fn csv(points: &[ClassPoint]) -> String {
    let mut header = "variant,balancer,class,seeds,started,completed,failed,running".to_owned();
    for (name, _) in TIMES {
        header += &format!(",response_{name}_s,response_{name}_s_ci95");
    }
    header += ",download_bytes_per_s,download_bytes_per_s_ci95,server_shares";
    let record = |point: &ClassPoint| {
        let mut fields = vec![point.variant.clone(), point.balancer.clone(), point.class.clone()];
        fields.push(point.seeds.to_string());
        fields.extend(point.counts.map(|count| count.to_string()));
        for stat in &point.times_us {
            fields.extend([stat.mean, stat.ci95].map(|us| (us / 1e6).to_string()));
        }
        let Stat { mean, ci95, .. } = &point.download_bytes_per_s;
        let shares: Vec<String> = point.shares.iter().map(|(host, share)| format!("{host}={share:.4}")).collect();
        fields.extend([mean.to_string(), ci95.to_string(), shares.join(" ")]);
        fields
    };
    csv::text(&header, points.iter().map(record))
}
