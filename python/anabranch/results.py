"""Results of experiments."""

from __future__ import annotations

import html
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from ._native import Table

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.axes import Axes


class Results:
    """The results of an experiment: a folder that `Experiment.run` or `anabranch run` has written.

    Tables have the Arrow PyCapsule interface: `polars.DataFrame(res.flows)`, `pyarrow.table(res.flows)`,
    `duckdb.from_arrow(...)` read them without a copy, and `res.flows.column("fct_us")` needs no other package.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        """Read a folder. Its summary must be as it was written."""
        self._results = _native.Results(Path(folder))

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._results.folder

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`; the book describes it."""
        summary: dict[str, Any] = json.loads(self._results.summary)
        return summary

    @cached_property
    def points(self) -> Table:
        """Statistics over seeds: a row per variant, load and balancer."""
        return self._results.points()

    @cached_property
    def runs(self) -> Table:
        """A row per run, with a column for each metric."""
        return self._results.runs()

    @cached_property
    def flows(self) -> Table:
        """A row per flow and run, one chunk per run."""
        return self._results.parquet("flows.parquet", "run the experiment again with flows=True")

    @cached_property
    def links(self) -> Table:
        """Queue and load of the links of `probes.links`: a row per run, link and time bin."""
        return self._results.parquet("series.parquet", "name the links with Probes(links=[...]) and run again")

    def compare(self, metric: str = "slowdown_mean") -> Table:
        """Compare the balancers by a metric: a row per variant, load and balancer.

        `ratio` is the cost divided by that of the best, paired over seeds, with its interval. `standing` is best, tied
        (surely within the margin), undecided, worse, incomplete (more flows did not complete), bound or absent.
        `difference` is to the best.
        """
        return self._results.compare(metric)

    def report(self) -> Path:
        """Return the path of the report, one HTML file that loads nothing."""
        return self.folder / "report.html"

    @property
    def plot(self) -> Plot:
        """Plots, with matplotlib."""
        return Plot(self)

    def __str__(self) -> str:
        return self._results.text()

    def __repr__(self) -> str:
        return f"<Results {self.folder}: {len(self.runs)} runs, {len(self.points)} points>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._results.text())}</pre><a href='{html.escape(str(self.report()))}'>report</a>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Results, (self.folder,))


class Plot:
    """Plots of results."""

    def __init__(self, results: Results) -> None:
        """Plot these results."""
        self._results = results

    def metric(self, name: str = "slowdown_mean", *, variant: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw a metric over the load, a line per balancer with its 95 % interval; without loads, a bar per balancer."""
        table = self._results.compare(name)
        columns = ("variant", "load", "balancer", "value", "value_ci95")
        rows = [row for row in zip(*(table.column(column) for column in columns)) if row[3] is not None]
        variants = list(dict.fromkeys(row[0] for row in rows))
        chosen = variants[0] if variant is None and variants else variant
        if variant is not None and variant not in variants:
            raise ValueError(f"there is no variant {variant!r}, but: {', '.join(map(repr, variants))}")
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(layout="constrained")[1]
        from matplotlib.transforms import ScaledTranslation

        rows = [row for row in rows if row[0] == chosen]
        labels = list(dict.fromkeys(row[2] for row in rows))
        for number, label in enumerate(labels):
            mine = [row for row in rows if row[2] == label]
            if mine[0][1] is None:
                ax.bar(label, mine[0][3], yerr=mine[0][4])
                continue
            # Lines are a few points apart, so that no interval covers another. Their data are not shifted.
            apart = ScaledTranslation((number - (len(labels) - 1) / 2) * 4 / 72, 0, ax.figure.dpi_scale_trans)
            loads, values, errors = ([row[column] for row in mine] for column in (1, 3, 4))
            ax.errorbar(loads, values, errors, label=label, marker="o", markersize=4, capsize=2,
                        transform=ax.transData + apart)
            # A shifted line does not count for the limits of the axes.
            ends = [value + sign * (error or 0) for value, error in zip(values, errors) for sign in (-1, 1)]
            ax.update_datalim([(load, end) for load in loads for end in (min(ends), max(ends))])
            ax.autoscale_view()
        if rows and rows[0][1] is not None:
            ax.set_xlabel("load")
            ax.legend()
        ax.set_ylabel(name)
        if chosen:
            ax.set_title(chosen)
        return ax

    def slowdown(self, **arguments: Any) -> Axes:
        """Draw the mean slowdown; see `metric`."""
        return self.metric("slowdown_mean", **arguments)
