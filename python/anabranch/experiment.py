"""Experiments: what to run, and running it."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from . import _native, cluster
from ._generated import Fields
from ._section import plain
from .balancer import Balancer
from .results import Results
from .topology import Topology

if TYPE_CHECKING:
    from os import PathLike

Progress = Callable[[int, int, float, int], object]
"""Called with runs done, runs in all, the share of flows done, and packet-hops so far."""


@dataclass(frozen=True)
class InputFile:
    """A file that exists only in memory, such as a list of flows. The ending of `name` says its format."""

    name: str
    text: str


def experiment_path(name: str | PathLike[str]) -> Path:
    """Return the path of an experiment file. A name such as `experiments/canon/web-search-symmetric.toml`
    (`anabranch list experiments` shows all) means the file that comes with the package, unless there is one."""
    return Path(_native.shipped(str(name)))


class Experiment(Fields):
    """An experiment: a network, traffic, the balancers to compare, and everything else of an experiment file.

    The parameters are the keys of the file, with the same defaults. They may be changed before each run.
    """

    @staticmethod
    def from_toml(file: str | PathLike[str], text: str | None = None) -> FileExperiment:
        """Read an experiment file; with `text`, this text, for which `file` is a name."""
        if text is not None:
            return FileExperiment(text, str(file), Path(file).stem, Path(file).parent)
        path = experiment_path(file)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise _native.AnabranchError(f"cannot read the experiment file {path}: {error.strerror}") from error
        return FileExperiment(text, str(path), path.stem, path.parent)

    def _read(self) -> _native.Experiment:
        files: dict[str, str] = {}
        document = _document({field.name: getattr(self, field.name) for field in fields(self)}, files)
        document["balancers"] = document.get("balancers", [])
        name = str(document.get("name", "experiment"))
        return _parsed(_native.to_toml(json.dumps(document)), name, name, texts=files, balancers=self._classes())

    def _classes(self) -> list[type[Balancer]]:
        """Return the balancers in Python."""
        given = [] if self.balancers is None or isinstance(self.balancers, str) else self.balancers
        return [one for one in given if isinstance(one, type) and issubclass(one, Balancer)]

    def check(self) -> list[str]:
        """Check the experiment, and return warnings. Errors are exceptions."""
        return self._read().warnings

    def to_toml(self) -> str:
        """Return the experiment file. The files that it names are those of `inputs()`."""
        return self._read().toml

    def inputs(self) -> dict[str, str]:
        """Return the texts of the files that `to_toml()` expects in the folder `inputs` next to it."""
        return self._read().inputs

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write `experiment.toml` and its inputs to a folder, for `anabranch run`. Return its path."""
        return _save(self._read(), Path(folder))

    @property
    def run_count(self) -> int:
        """Number of runs: variants x loads x balancers x seeds."""
        return self._read().run_count

    def run(
        self,
        out: str | PathLike[str] | None = None,
        *,
        jobs: int = 0,
        threads: int = 0,
        flows: bool = True,
        progress: Progress | bool | None = None,
        on: object = None,
    ) -> Results:
        """Run the experiment, and return its results.

        out: folder of the results, by default `results/NAME`. Runs that it has are not repeated.
        jobs: runs at a time, by default one per core.
        threads: threads of a run, by default the cores that the runs at a time leave. Results do not depend on it.
        flows: whether to write a row per flow.
        progress: a function that is called as runs proceed; True or False for a bar on standard error or none. By
            default there is a bar in a terminal or notebook.
        on: where to run, instead of in this process: "ray", "ray://HOST:PORT", "dask", "tcp://HOST:PORT" (Dask), a
            client of Dask, or an executor of `concurrent.futures`. Each run is a task on one core. The workers need
            the same version of this package.

        Ctrl-C stops the runs and raises KeyboardInterrupt; the folder keeps completed runs.
        """
        return _run(self._read(), out, options(jobs, threads, flows), progress, on, self._classes())


class FileExperiment(Experiment):
    """An experiment from a file. Assigning to a field replaces what the file says."""

    def __init__(self, text: str, file: str, name: str, folder: Path) -> None:
        try:
            document = json.loads(_native.from_toml(text))
        except _native.AnabranchError:
            # This error names the place in the file.
            _parsed(text, file, name, folder)
            raise
        known = {field.name for field in fields(Fields)}
        super().__init__(**{key: value for key, value in document.items() if key in known})
        self._original = {name: copy.deepcopy(getattr(self, name)) for name in known}
        self._source = (text, file, name, folder)

    def _read(self) -> _native.Experiment:
        text, file, name, folder = self._source
        changed = {key: getattr(self, key) for key, before in self._original.items() if getattr(self, key) != before}
        files: dict[str, str] = {}
        values = _document(changed, files)
        # Single values are overrides: claims that do not fit them are left out, with a warning.
        overrides: list[tuple[str, str]] = []
        sections: dict[str, Any] = {}
        for key, value in values.items():
            within = _changes(key, self._original[key], value)
            if within is None:
                sections[key] = value
            else:
                overrides += within
        gone = {key for key in changed if key not in values}
        if sections or gone:
            document = {key: value for key, value in json.loads(_native.from_toml(text)).items() if key not in gone}
            text = _native.to_toml(json.dumps(document | sections))
        return _parsed(text, file, name, folder, files, overrides, self._classes())


def _parsed(
    text: str,
    file: str,
    name: str,
    folder: Path = Path(),
    texts: Mapping[str, str] | None = None,
    overrides: Sequence[tuple[str, str]] = (),
    balancers: Sequence[type[Balancer]] = (),
) -> _native.Experiment:
    given = {
        "folder": folder,
        "texts": dict(texts or {}),
        "overrides": list(overrides),
        "balancers": [balancer._about() for balancer in balancers],
    }
    return _native.Experiment(text, file, name, given)


def _changes(key: str, before: Any, value: Any) -> list[tuple[str, str]] | None:
    """Return the single values that have changed, in TOML by key, or None if the whole section has."""
    if not _is_section(value):
        return [(key, json.dumps(value))]
    if not isinstance(before, dict) or not isinstance(value, dict) or before.keys() - value.keys() or key == "sweep":
        return None
    changed = {name: inner for name, inner in value.items() if before.get(name) != inner}
    if any(_is_section(inner) for inner in changed.values()):
        return None
    return [(f"{key}.{name}", json.dumps(inner)) for name, inner in changed.items()]


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))


def _document(values: Mapping[str, Any], files: dict[str, str]) -> dict[str, Any]:
    def one(value: Any) -> Any:
        return value._section(files) if isinstance(value, Topology) else plain(value, files)

    return {key: one(value) for key, value in values.items() if value is not None}


def _save(read: _native.Experiment, folder: Path) -> Path:
    (folder / "inputs").mkdir(parents=True, exist_ok=True)
    for name, text in read.inputs.items():
        (folder / "inputs" / name).write_text(text, encoding="utf-8")
    for trace, name in read.traces:
        copy_of_trace = folder / "inputs" / name
        if not (copy_of_trace.exists() and copy_of_trace.samefile(trace)):
            shutil.copyfile(trace, copy_of_trace)
    path = folder / "experiment.toml"
    path.write_text(read.toml, encoding="utf-8")
    return path


def options(jobs: int, threads: int, flows: bool) -> dict[str, Any]:
    """Return how to run, for the native module, which also needs the folder."""
    for name, count in (("jobs", jobs), ("threads", threads)):
        if not 0 <= count <= 1024:
            raise ValueError(f"{name} = {count}: must be from 0 to 1024")
    return {"jobs": jobs, "threads": threads, "flows": flows}


def _run(
    read: _native.Experiment,
    out: str | PathLike[str] | None,
    how: dict[str, Any],
    progress: Progress | bool | None,
    on: object,
    classes: Sequence[type[Balancer]],
) -> Results:
    folder = Path("results") / read.name if out is None else Path(out)
    for warning in read.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if progress is None:
        progress = _is_watched()
    bar = (Bar() if progress else None) if isinstance(progress, bool) else progress
    try:
        if on is None:
            read.run({"out": folder, **how}, bar)
        else:
            cluster.run(read, on, folder, how["flows"], bar, classes)
    finally:
        if isinstance(bar, Bar):
            bar.close()
    return Results(folder)


def _is_watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class Bar:
    """A progress bar on standard error."""

    width = 30

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, done: int, total: int, share: float, packet_hops: int) -> None:
        """Draw the bar if it has changed."""
        full = round(share * self.width)
        text = f"[{'=' * full}{' ' * (self.width - full)}] {share:4.0%}  {done} of {total} runs"
        if text != self._shown:
            self._shown = text
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the line."""
        if self._shown:
            print(file=sys.stderr)
            self._shown = ""


__all__ = ["Experiment", "FileExperiment", "InputFile", "experiment_path"]
