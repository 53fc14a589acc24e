use super::*;
use crate::results::statistics::tests::run;
use crate::results::statistics::{Evaluation, Rule, evaluate};

/// An experiment in which only these values matter: per balancer the mean slowdown with each seed,
/// and the number of unfinished flows.
fn part(name: &str, measure: Measure, rivals: &[(&str, &[f64], u64)]) -> Part {
    let mut runs = Vec::new();
    for (balancer, values, unfinished) in rivals {
        for (value, seed) in values.iter().zip(1..) {
            let mut run = run(balancer, seed, *value, *unfinished);
            (run.load, run.is_bound) = (None, balancer.starts_with("optimum"));
            run.slowdown.p99 = 2.0 * value;
            if measure == Measure::Throughput {
                run.throughput_share = *value;
            }
            runs.push(run);
        }
    }
    let Evaluation { points, verdicts, overall } = evaluate(&runs, &Rule { rank_by: measure, ..Rule::default() });
    let summary = Summary {
        schema: crate::summary::SCHEMA_VERSION,
        anabranch: "0.1.0".to_owned(),
        experiment: name.to_owned(),
        rank_by: measure,
        setting: vec![("question".to_owned(), format!("what of {name}?"))],
        runs,
        points,
        verdicts,
        overall,
        ..Summary::default()
    };
    Part { title: format!("the {name}"), folder: name.to_owned(), summary }
}

fn three() -> Matrix {
    let parts = [
        part("even", Measure::Slowdown, &[("a", &[2.0, 2.0], 0), ("b", &[4.0, 4.0], 0), ("c", &[3.0, 3.0], 0)]),
        part("odd", Measure::Slowdown, &[("a", &[3.0, 3.0], 0), ("b", &[1.5, 1.5], 100), ("optimum", &[1.0, 1.0], 0)]),
        part(
            "carried",
            Measure::Throughput,
            &[("a", &[0.4, 0.4], 0), ("b", &[0.8, 0.8], 0), ("optimum", &[0.9, 0.9], 0)],
        ),
    ];
    Matrix::build("three", &parts)
}

#[test]
fn cells_are_compared_with_the_best_of_their_column() {
    let matrix = three();
    let cell = |column: usize, label: &str| matrix.columns[column].cell(label).expect("a cell");
    let is = |column: usize, label: &str, ratio: f64| (cell(column, label).ratio.unwrap() - ratio).abs() < 1e-12;
    assert!(is(0, "a", 1.0) && is(0, "b", 2.0) && is(0, "c", 1.5));
    // b left flows unfinished, so it is not ranked, and neither its mean nor its tail is the best.
    assert_eq!((matrix.columns[1].best.as_str(), matrix.columns[1].best_p99.as_str()), ("a", "a"));
    assert_eq!((cell(1, "b").rank, cell(1, "b").unfinished(), is(1, "b", 0.5)), (0, 200, true));
    // For throughput more is better, and there is no tail.
    let column = &matrix.columns[2];
    assert_eq!((column.best.as_str(), is(2, "a", 2.0), cell(2, "a").p99.as_ref()), ("b", true, None));
    let share = |column: usize, label: &str| cell(column, label).share_of_optimum.as_ref().map(|stat| stat.mean);
    assert!((share(1, "a").unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert!((share(2, "b").unwrap() - 8.0 / 9.0).abs() < 1e-12);
    assert_eq!(share(0, "a"), None);
}

#[test]
fn rows_are_ordered_best_first_incomplete_next_bounds_last() {
    let matrix = three();
    let labels: Vec<&str> = matrix.rows.iter().map(|row| row.balancer.label.as_str()).collect();
    assert_eq!(labels, ["a", "b", "c", "optimum"]);
    let row = |label: &str| matrix.rows.iter().find(|row| row.balancer.label == label).expect("a row");
    assert!((row("a").ratio.unwrap() - 2f64.powf(1.0 / 3.0)).abs() < 1e-12);
    // Half the slowdown of the best, with flows unfinished, counts as 1: 2 × 1 × 1.
    assert!((row("b").ratio.unwrap() - 2f64.powf(1.0 / 3.0)).abs() < 1e-12);
    assert_eq!((row("b").unranked, row("b").best_or_tied, row("a").best_or_tied), (1, 1, 2));
    assert_eq!((row("c").scenarios, row("optimum").unranked, row("optimum").best_or_tied), (1, 0, 0));
    assert!(matrix.has_optimum());
}

#[test]
fn the_schema_reads_back_equal() {
    let matrix = three();
    let text = serde_json::to_string(&matrix).expect("JSON");
    let back: Matrix = serde_json::from_str(&text).expect("JSON");
    assert_eq!(back, matrix);
    assert!(text.starts_with("{\"schema\":3,"));
}

#[test]
fn markdown_matches_expected_text() {
    let expected = "\
# three: balancers × scenarios

| balancer | vs best | share of the optimum | the even | the odd | the carried |
| --- | ---: | ---: | ---: | ---: | ---: |
| a | 1.26× | 38 % | **2.00** / **4.00** | **3.00** / **6.00** | 40.0 % |
| b | ≥ 1.26× | 77 % | 4.00 / 8.00 | ≥ 1.50 / 3.00 (200 of 2000 flows unfinished) | **80.0 %** |
| c | 1.50× (2 missing) | — | 3.00 / 6.00 | — | — |
| *optimum* (bound) | 0.544× (1 missing) | 100 % | — | 1.00 / 2.00 | 90.0 % |
";
    let text = three().markdown();
    let (table, notes) = text.split_once("\nCells: ").expect("notes after the table");
    assert_eq!(table, expected);
    assert!(notes.contains("- the odd (odd, 2 seeds): a has mean slowdown 3.00 over 2 seeds."), "{notes}");
}

#[test]
fn markup_in_names_is_escaped() {
    let parts = [part("x", Measure::Slowdown, &[("a|b*", &[2.0], 0)])];
    assert!(Matrix::build("m", &parts).markdown().contains("| a\\|b\\* | 1.00× |"));
}

#[test]
fn lines_of_the_csv_have_as_many_fields_as_its_header() {
    let text = csv::csv(&three());
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let headings = reader.headers().expect("a header").clone();
    let records: Vec<_> = reader.records().map(|record| record.expect("as many fields as the header")).collect();
    assert_eq!(records.len(), 9);
    let at = |name: &str| headings.iter().position(|heading| heading == name).expect("the column");
    let unfinished =
        records.iter().find(|record| &record[0] == "odd" && &record[at("balancer")] == "b").expect("a line");
    assert_eq!((&unfinished[at("unfinished")], &unfinished[at("rank")], &unfinished[at("mean")]), ("200", "0", "1.5"));
}

#[test]
fn matrix_without_results_is_written() {
    let nothing = Matrix::build("none", &[]);
    assert!(nothing.rows.is_empty() && !nothing.has_optimum());
    assert!(crate::report::matrix_html(&nothing).contains("No balancer has results in every scenario"));
    let failed = Matrix::build("failed", &[part("x", Measure::Slowdown, &[("a", &[2.0], 1000), ("b", &[3.0], 1000)])]);
    let cell = failed.columns[0].cell("a").expect("a cell");
    assert_eq!((cell.p99.as_ref(), cell.ratio_p99, cell.mean.mean), (None, None, 2.0));
    assert!(failed.markdown().contains("≥ 2.00 / — (1000 of 1000 flows unfinished)"), "{}", failed.markdown());
    for page in [crate::report::matrix_html(&failed), crate::report::matrix_html(&three())] {
        assert!(!page.contains("NaN") && !page.contains(">inf"), "a value that is not a number");
    }
}
