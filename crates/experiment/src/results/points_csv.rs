//! `points.csv`: statistics over seeds, one line per variant, load and balancer.

use crate::results::csv;
use crate::summary::{Point, Stat};

type Column = (&'static str, fn(&Point) -> &Stat);

const COLUMNS: [Column; 14] = [
    ("fct_mean_us", |point| &point.fct_mean_us),
    ("fct_p50_us", |point| &point.fct_p50_us),
    ("fct_p99_us", |point| &point.fct_p99_us),
    ("slowdown_mean", |point| &point.slowdown_mean),
    ("slowdown_p99", |point| &point.slowdown_p99),
    ("small_fct_mean_us", |point| &point.small_fct_mean_us),
    ("large_fct_mean_us", |point| &point.large_fct_mean_us),
    ("group_mean_us", |point| &point.group_mean_us),
    ("group_p99_us", |point| &point.group_p99_us),
    ("group_max_us", |point| &point.group_max_us),
    ("drop_share", |point| &point.drop_share),
    ("throughput_share", |point| &point.throughput_share),
    ("slowdown_lower_bound", |point| &point.slowdown_lower_bound),
    ("slowdown_vs_best", |point| &point.slowdown_vs_best),
];

/// Returns the table as text: mean, standard deviation, half width of the 95 % interval, minimum
/// and maximum of each quantity.
pub(crate) fn csv(points: &[Point]) -> String {
    let mut header = "variant,load,balancer,seeds,flows_started,flows_completed".to_owned();
    for (name, _) in COLUMNS {
        header += &["", "_sd", "_ci95", "_min", "_max"].map(|part| format!(",{name}{part}")).concat();
    }
    header += ",rank,is_bound,share_of_optimum,share_of_optimum_ci95";
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let record = |point: &Point| {
        let mut fields = vec![point.variant.clone(), number(point.load), point.balancer.clone()];
        fields.extend([point.seeds.into(), point.flows_started, point.flows_completed].map(|count| count.to_string()));
        for (_, stat) in COLUMNS {
            let Stat { mean, sd, ci95, min, max } = stat(point);
            fields.extend([mean, sd, ci95, min, max].map(f64::to_string));
        }
        let share = point.share_of_optimum.as_ref();
        fields.extend([point.rank.to_string(), point.is_bound.to_string()]);
        fields.extend([number(share.map(|stat| stat.mean)), number(share.map(|stat| stat.ci95))]);
        fields
    };
    csv::text(&header, points.iter().map(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_as_many_fields_as_the_header() {
        let point = Point {
            variant: "a=1, b=2".to_owned(),
            load: Some(0.5),
            balancer: "ecmp".to_owned(),
            seeds: 2,
            ..Point::default()
        };
        let text = csv(&[point]);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let record = reader.records().next().unwrap().unwrap();
        assert_eq!((record.len(), &record[0]), (80, "a=1, b=2"));
    }
}
