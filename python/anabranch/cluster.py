"""Runs of an experiment on many machines: Ray, Dask, or any executor of `concurrent.futures`.

A task is one run. It returns the files that a folder of a part has, and the folder of the experiment is merged from
them: the bytes of one machine. Tasks can be repeated, so a task of a node that died runs again elsewhere.
"""

from __future__ import annotations

import inspect
import io
import json
import pickle
import shutil
import sys
import tarfile
import tempfile
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Protocol, Sequence

from . import _native

if TYPE_CHECKING:
    from .balancer import Balancer
    from .experiment import Progress

#: Attempts of a task beyond the first, if its process or node dies.
RETRIES = 3
#: A task gets this much more memory than the first one needed.
MEMORY_MARGIN = 1.25
#: Tasks that wait at a scheduler, per task that runs: more would only fill its memory.
AHEAD = 4


@dataclass(frozen=True)
class Task:
    """One run of an experiment, complete in itself."""

    text: str
    name: str
    inputs: dict[str, str]
    number: int
    count: int
    flows: bool
    #: Classes of balancers in Python, pickled, with what describes them.
    balancers: bytes = b""

    def __call__(self) -> bytes:
        """Run it on one core. Return an archive of its files."""
        experiment = read(self.text, self.name, self.inputs, pickle.loads(self.balancers) if self.balancers else [])
        with tempfile.TemporaryDirectory(prefix="anabranch-") as folder:
            options = {"out": Path(folder), "jobs": 1, "threads": 1, "flows": self.flows}
            experiment.run_shard(self.number, self.count, options, None)
            archive = io.BytesIO()
            with tarfile.open(fileobj=archive, mode="w") as tar:
                tar.add(folder, arcname=".", filter=lambda member: None if member.name == "./.lock" else member)
            return archive.getvalue()


def read(text: str, name: str, inputs: dict[str, str], balancers: Sequence[dict[str, Any]] = ()) -> _native.Experiment:
    """Read a complete experiment file, whose inputs come along as texts."""
    texts = {f"inputs/{stored}": content for stored, content in inputs.items()}
    given = {"folder": Path(), "texts": texts, "overrides": [], "balancers": list(balancers)}
    return _native.Experiment(text, name, name, given)


class Scheduler(Protocol):
    """Something that runs tasks elsewhere."""

    def submit(self, task: Task, memory: int | None) -> Any:
        """Start a task that needs this many bytes of memory. Return a handle."""

    def completed(self, handles: list[Any]) -> list[tuple[Any, Callable[[], bytes]]]:
        """Wait until at least one has ended, for a second at most. Return those, each with a function that returns its
        result or raises its exception."""

    def cancel(self, handles: list[Any]) -> None:
        """Give up tasks, as far as possible."""

    def width(self) -> int:
        """Return how many tasks can run at once, as far as known."""


class OfExecutor:
    """An executor of `concurrent.futures`."""

    def __init__(self, executor: Executor) -> None:
        """Run tasks on this executor."""
        self._executor = executor

    def submit(self, task: Task, memory: int | None) -> Future[bytes]:
        """Start a task; executors know no memory."""
        return self._executor.submit(task)

    def completed(self, handles: list[Future[bytes]]) -> list[tuple[Future[bytes], Callable[[], bytes]]]:
        """Wait for tasks."""
        done = wait(handles, timeout=1, return_when=FIRST_COMPLETED).done
        return [(future, future.result) for future in handles if future in done]

    def cancel(self, handles: list[Future[bytes]]) -> None:
        """Cancel tasks that have not begun."""
        for future in handles:
            future.cancel()

    def width(self) -> int:
        """Return the number of workers."""
        return int(getattr(self._executor, "_max_workers", 1))


class OfRay:
    """A Ray cluster."""

    def __init__(self, address: str | None = None) -> None:
        """Connect to the cluster at `address`, unless the process is connected."""
        import ray

        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False, logging_level="warning")
        self._ray = ray
        self._remote = ray.remote(max_retries=RETRIES, num_cpus=1)(_call)

    def submit(self, task: Task, memory: int | None) -> Any:
        """Start a task on a core of its own."""
        options = {} if memory is None else {"memory": memory}
        return self._remote.options(**options).remote(task)

    def completed(self, handles: list[Any]) -> list[tuple[Any, Callable[[], bytes]]]:
        """Wait for tasks."""
        done, _ = self._ray.wait(handles, num_returns=1, timeout=1, fetch_local=True)
        return [(handle, lambda handle=handle: self._get(handle)) for handle in done]  # type: ignore[misc]

    def _get(self, handle: Any) -> bytes:
        try:
            result: bytes = self._ray.get(handle)
            return result
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None

    def cancel(self, handles: list[Any]) -> None:
        """Cancel tasks."""
        for handle in handles:
            self._ray.cancel(handle, force=True)

    def width(self) -> int:
        """Return the number of cores of the cluster."""
        return int(self._ray.cluster_resources().get("CPU", 1))


class OfDask:
    """A Dask cluster."""

    def __init__(self, client: Any) -> None:
        """Run tasks with this client of `distributed`."""
        self._client = client

    def submit(self, task: Task, memory: int | None) -> Any:
        """Start a task; Dask repeats it if its worker dies."""
        return self._client.submit(_call, task, pure=False, retries=RETRIES)

    def completed(self, handles: list[Any]) -> list[tuple[Any, Callable[[], bytes]]]:
        """Wait for tasks."""
        import distributed

        try:
            done = distributed.wait(handles, timeout=1, return_when="FIRST_COMPLETED").done
        except (TimeoutError, distributed.TimeoutError):
            return []
        return [(future, future.result) for future in handles if future in done]

    def cancel(self, handles: list[Any]) -> None:
        """Cancel tasks."""
        self._client.cancel(handles, force=True)

    def width(self) -> int:
        """Return the number of threads of all workers."""
        return sum(self._client.nthreads().values())


def _call(task: Task) -> bytes:
    return task()


def scheduler(on: object) -> Scheduler:
    """Return the scheduler that `on` means: "ray", "ray://HOST:PORT", "dask", "tcp://HOST:PORT" (Dask), a client of Dask,
    or an executor."""
    if isinstance(on, str):
        if on == "ray" or on.startswith("ray://"):
            return OfRay(None if on == "ray" else on)
        if on == "dask" or on.startswith(("tcp://", "tls://")):
            import distributed

            return OfDask(distributed.get_client() if on == "dask" else distributed.Client(on))
        raise ValueError(f'on = {on!r}: must be "ray", "ray://HOST:PORT", "dask", "tcp://HOST:PORT", or an executor')
    if hasattr(on, "scheduler_info") and hasattr(on, "nthreads"):
        return OfDask(on)
    if isinstance(on, Executor):
        return OfExecutor(on)
    raise TypeError(f"on = {on!r}: neither a name nor an executor")


def pickled(classes: Sequence[type[Balancer]]) -> bytes:
    """Return classes of balancers for other processes. Those of a notebook or script go along whole, which needs the package
    cloudpickle (Ray and Dask bring it); without it, the workers import their modules."""
    if not classes:
        return b""
    described = [one._about() for one in classes]
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(described)
    modules = {inspect.getmodule(one) for one in classes} - {None, sys.modules.get("__main__")}
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(described))
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def run(
    read: _native.Experiment,
    on: object,
    folder: Path,
    flows: bool,
    progress: Progress | None,
    classes: Sequence[type[Balancer]] = (),
) -> None:
    """Run what a folder lacks on a cluster. Parts that an earlier call has brought back are not repeated."""
    if read.traces:
        raise ValueError("execution traces are too large for tasks: leave out `on`, or use `anabranch run --shard`")
    options = {"out": folder, "jobs": 1, "threads": 1, "flows": flows}
    parts = folder.parent / f"{folder.name}.parts"
    count, missing = read.run_count, read.missing(options)
    names = {number: parts / f"{number}-of-{count}" for number in missing}
    pending = [number for number in missing if not names[number].is_dir()]
    text, inputs, balancers = read.toml, read.inputs, pickled(classes)
    tasks = (Task(text, read.name, inputs, number, count, flows, balancers) for number in pending)
    if missing:
        parts.mkdir(parents=True, exist_ok=True)
        for done, _ in enumerate(_results(tasks, scheduler(on), names), start=count - len(pending) + 1):
            if progress is not None:
                progress(done, count, done / count, 0)
        read.merge(list(names.values()), options)
    else:
        read.run(options, None)
    shutil.rmtree(parts, ignore_errors=True)


def _results(tasks: Iterator[Task], on: Scheduler, names: dict[int, Path]) -> Iterator[int]:
    """Run tasks and store their parts; yield their numbers. The first measures the memory that the others reserve."""
    running: dict[Any, Task] = {}
    memory: int | None = None
    limit = 1
    try:
        while True:
            while len(running) < limit and (task := next(tasks, None)) is not None:
                running[on.submit(task, memory)] = task
            if not running:
                return
            ended = on.completed(list(running))
            for handle, result in ended:
                task = running.pop(handle)
                store(result(), names[task.number])
                memory = memory or needed_memory(names[task.number])
                yield task.number
            if ended:
                # Asked once a round: nodes join and leave.
                limit = AHEAD * max(on.width(), 1)
    finally:
        # An exception or Ctrl-C ends all; parts that are stored stay.
        on.cancel(list(running))


def store(archive: bytes, part: Path) -> None:
    """Write the files of a part: all of them, or none."""
    with tempfile.TemporaryDirectory(dir=part.parent, prefix=".partial-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            # Older versions of Python have no filters.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(Path(folder) / "part")
        (Path(folder) / "part").rename(part)


def needed_memory(part: Path) -> int | None:
    """Return the memory that a run needs, in bytes, from the measurement of another."""
    try:
        lines = (part / "runs.jsonl").read_text(encoding="utf-8").splitlines()
        peak = max(json.loads(line)["summary"]["engine"]["peak_rss_bytes"] for line in lines)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return int(peak * MEMORY_MARGIN)
