//! `points.csv`: statistics over seeds, one line per variant, load and balancer.

use crate::results::csv;
use crate::results::table::{Column, Table, Values};
use crate::summary::{Point, Ratio, Stat};

type Quantity = (&'static str, fn(&Point) -> &Stat);

const QUANTITIES: [Quantity; 15] = [
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
    ("group_lower_bound_us", |point| &point.group_lower_bound_us),
    ("bus_gbps", |point| &point.bus_gbps),
    ("drop_share", |point| &point.drop_share),
    ("throughput_share", |point| &point.throughput_share),
    ("slowdown_lower_bound", |point| &point.slowdown_lower_bound),
];

type Part = (&'static str, fn(&Stat) -> f64);

/// Mean, standard deviation, half width of the 95 % interval, minimum and maximum.
const PARTS: [Part; 5] = [
    ("", |stat| stat.mean),
    ("_sd", |stat| stat.sd),
    ("_ci95", |stat| stat.ci95),
    ("_min", |stat| stat.min),
    ("_max", |stat| stat.max),
];

/// Returns the points by column, as in `points.csv`.
pub fn table(points: &[Point]) -> Table {
    let mut table = Table::new();
    let mut add = |name: &str, values: Values| table.push(Column { name: name.to_owned(), values });
    add("variant", Values::of_texts(points.iter().map(|point| &point.variant)));
    add("load", Values::of_optional(points.iter().map(|point| point.load)));
    add("balancer", Values::of_texts(points.iter().map(|point| &point.balancer)));
    add("seeds", Values::U32(points.iter().map(|point| point.seeds).collect()));
    add("flows_started", Values::U64(points.iter().map(|point| point.flows_started).collect()));
    add("flows_completed", Values::U64(points.iter().map(|point| point.flows_completed).collect()));
    for (name, stat) in QUANTITIES {
        for (suffix, part) in PARTS {
            add(&format!("{name}{suffix}"), Values::F64(points.iter().map(|point| part(stat(point))).collect()));
        }
    }
    add("rank", Values::U32(points.iter().map(|point| point.rank).collect()));
    add("standing", Values::of_texts(points.iter().map(|point| point.standing.as_str())));
    let ratio = |part: fn(&Ratio) -> f64| {
        Values::of_optional(points.iter().map(|point| Some(part(&point.ratio)).filter(|value| *value > 0.0)))
    };
    add("ratio", ratio(|ratio| ratio.value));
    add("ratio_low", ratio(|ratio| ratio.low));
    add("ratio_high", ratio(|ratio| ratio.high));
    add("is_bound", Values::Flag(points.iter().map(|point| point.is_bound).collect()));
    let share = |part: fn(&Stat) -> f64| {
        Values::of_optional(points.iter().map(|point| point.share_of_optimum.as_ref().map(part)))
    };
    add("share_of_optimum", share(|stat| stat.mean));
    add("share_of_optimum_ci95", share(|stat| stat.ci95));
    table
}

pub(crate) fn csv(points: &[Point]) -> String {
    let table = table(points);
    let header: Vec<&str> = table.iter().map(|column| column.name.as_str()).collect();
    let record = |row| table.iter().map(move |column| column.values.text(row));
    csv::text(&header.join(","), (0..points.len()).map(record))
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
        assert_eq!((record.len(), &record[0], &record[1], &record[86]), (89, "a=1, b=2", "0.5", "false"));
    }
}
