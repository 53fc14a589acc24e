//! `matrix.csv`: one line per scenario and balancer.

use super::{Cell, Column, Matrix};
use crate::results::csv;
use crate::summary::Stat;

const HEADER: &str = "experiment,variant,load,scenario,rank_by,balancer,is_bound,rank,standing,seeds,flows_started,flows_completed,\
mean,mean_ci95,p99,p99_ci95,ratio,ratio_p99,share_of_optimum,share_of_optimum_ci95,reordered,reorder_extent_max,held_max,\
hold_mean_us,path_changes_per_flow,control_packets,control_bytes,control_share,retransmitted,timeouts,failed,unfinished";

pub(super) fn csv(matrix: &Matrix) -> String {
    let rows = matrix.columns.iter().flat_map(|column| matrix.rows.iter().map(move |row| (column, row)));
    let records =
        rows.filter_map(|(column, row)| Some(record(column, column.cell(&row.balancer.label)?, row.balancer.is_bound)));
    csv::text(HEADER, records)
}

fn record(column: &Column, cell: &Cell, is_bound: bool) -> [String; 32] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let mean_of = |stat: &Option<Stat>| number(stat.as_ref().map(|stat| stat.mean));
    let interval_of = |stat: &Option<Stat>| number(stat.as_ref().map(|stat| stat.ci95));
    let cost = &cell.cost;
    [
        column.experiment.clone(),
        column.variant.clone(),
        number(column.load),
        column.name(),
        column.rank_by.name().to_owned(),
        cell.balancer.clone(),
        is_bound.to_string(),
        cell.rank.to_string(),
        cell.standing.as_str().to_owned(),
        cell.seeds.to_string(),
        cell.flows_started.to_string(),
        cell.flows_completed.to_string(),
        cell.mean.mean.to_string(),
        cell.mean.ci95.to_string(),
        mean_of(&cell.p99),
        interval_of(&cell.p99),
        number(cell.ratio),
        number(cell.ratio_p99),
        mean_of(&cell.share_of_optimum),
        interval_of(&cell.share_of_optimum),
        cost.reordered.to_string(),
        cost.reorder_extent_max.to_string(),
        cost.held_max.to_string(),
        cost.hold_mean_us.to_string(),
        cost.path_changes_per_flow.to_string(),
        cost.control_packets.to_string(),
        cost.control_bytes.to_string(),
        cost.control_share.to_string(),
        cost.retransmitted.to_string(),
        cost.timeouts.to_string(),
        cost.failed.to_string(),
        cost.unfinished.to_string(),
    ]
}
