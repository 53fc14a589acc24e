"""Tables, comparisons and plots."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path

import matplotlib
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import anabranch as ab

def pyarrow_table(table: ab.Table) -> pyarrow.Table:
    return pyarrow.table(table)


def test_flows_are_those_of_the_file(results: ab.Results) -> None:
    ours = pyarrow_table(results.flows)
    theirs = pyarrow.parquet.read_table(results.folder / "flows.parquet")
    assert ours.column_names == theirs.column_names
    for name in ours.column_names:
        assert ours[name].to_pylist() == theirs[name].to_pylist() == results.flows.column(name)
    assert ours.num_rows == len(results.flows) == 8 * 60


@pytest.mark.parametrize("name", ["flows", "points", "runs", "links"])
def test_every_reader_reads_every_table(results: ab.Results, name: str) -> None:
    table: ab.Table = getattr(results, name)
    assert len(table) > 0
    frame = polars.DataFrame(table)
    assert frame.columns == table.columns
    assert pandas.DataFrame(pyarrow_table(table).to_pandas()).shape == frame.shape
    for column in table.columns:
        assert frame[column].to_list() == table.column(column)


def test_numbers_are_not_copied(results: ab.Results) -> None:
    flows = results.flows
    for name in ("size_bytes", "flow", "ideal_us", "fct_us"):
        addresses = [chunk.buffers()[1].address for chunk in pyarrow_table(flows)[name].chunks]
        assert addresses == flows.addresses(name)
    chunks = polars.DataFrame(flows)["size_bytes"].get_chunks()
    assert [chunk.to_arrow().buffers()[1].address for chunk in chunks] == flows.addresses("size_bytes")


def test_a_table_outlives_its_results(results: ab.Results) -> None:
    other = ab.Results(results.folder)
    frame = polars.DataFrame(other.flows)
    total = frame["size_bytes"].sum()
    del other
    assert frame["size_bytes"].sum() == total == 8 * 60 * 100_000


def test_points_are_those_of_the_csv_file(results: ab.Results) -> None:
    with (results.folder / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == results.points.columns
    for column in ("balancer", "variant"):
        assert [row[column] for row in rows] == results.points.column(column)
    assert [float(row["slowdown_mean"]) for row in rows] == results.points.column("slowdown_mean")


def test_runs_have_every_metric(results: ab.Results) -> None:
    assert {metric.name for metric in ab.metrics()} <= set(results.runs.columns)
    by_hand = [run["slowdown"]["mean"] for run in results.summary["runs"]]
    assert results.runs.column("slowdown_mean") == by_hand


def test_comparison_names_best_and_tied(results: ab.Results) -> None:
    rows = polars.DataFrame(results.compare("slowdown_mean"))
    assert rows.height == 4
    for load in (0.3, 0.6):
        standings = rows.filter(polars.col("load") == load)["standing"].cast(str).to_list()
        assert standings.count("best") == 1 and set(standings) <= {"best", "tied", "undecided", "worse"}
    best = rows.filter(polars.col("standing").cast(str) == "best")
    assert best["difference"].to_list() == [0.0, 0.0]
    with pytest.raises(ab.AnabranchError, match="did you mean `slowdown_mean`"):
        results.compare("slowdown_man")


def test_missing_tables_say_how_to_get_them(tmp_path: Path) -> None:
    from .conftest import small

    results = small(balancers=["ecmp"], seeds=1).run(tmp_path / "out", flows=False)
    with pytest.raises(ab.AnabranchError, match="flows=True"):
        results.flows
    with pytest.raises(ab.AnabranchError, match="Probes"):
        results.links
    with pytest.raises(ab.AnabranchError):
        ab.Results(tmp_path / "nothing")
    with pytest.raises(ab.AnabranchError, match="did you mean `balancer`"):
        results.points.column("balancr")


def test_changed_results_are_refused(tmp_path: Path) -> None:
    from .conftest import small

    results = small(balancers=["ecmp"], seeds=1).run(tmp_path / "out")
    file = results.folder / "summary.json"
    file.write_text(file.read_text().replace("ecmp", "wcmp"))
    with pytest.raises(ab.AnabranchError, match="summary.json"):
        ab.Results(results.folder)


def test_tables_have_a_form_for_notebooks(results: ab.Results) -> None:
    html = results.flows._repr_html_()
    assert html.count("<tr>") == 21 and html.endswith("480 rows")
    assert "<th>fct_us</th>" in html and "<td>ecmp</td>" in html
    assert "<td></td>" in ab.Table._repr_html_(results.runs), "missing values are empty"


def test_results_are_shown_and_pickled(results: ab.Results) -> None:
    assert "spray" in str(results) and "8 runs" in repr(results)
    assert results._repr_html_().startswith("<pre>")
    assert results.report().read_text().startswith("<!")
    assert pickle.loads(pickle.dumps(results)).summary == results.summary


def test_plot_has_a_line_per_balancer(results: ab.Results) -> None:
    matplotlib.use("agg")
    axes = results.plot.slowdown()
    legend = axes.get_legend()
    assert legend and [text.get_text() for text in legend.get_texts()] == ["ecmp", "spray"]
    compared = results.compare()
    loads, values, errors = (compared.column(name) for name in ("load", "value", "value_ci95"))
    assert axes.get_xlim()[0] < min(loads) and max(loads) < axes.get_xlim()[1]
    ends = [value + sign * error for value, error in zip(values, errors) for sign in (-1, 1)]
    assert axes.get_ylim()[0] < min(ends) and max(ends) < axes.get_ylim()[1]
    with pytest.raises(ValueError, match="no variant"):
        results.plot.metric("fct_mean_us", variant="x")
