"""Runs by executors: the bytes of one machine, whatever dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Callable

import pytest

import anabranch as ab
from anabranch import cluster

from .conftest import small
from .test_experiment import files


def pool() -> ProcessPoolExecutor:
    """Return a pool of two processes of their own."""
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


def test_executors_give_the_bytes_of_one_machine(tmp_path: Path) -> None:
    network = ab.Topology.from_text("two.json", ab.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2).to_json())
    experiment = small(topology=network, probes=ab.Probes(capture=["leaf0 -> spine0"], capture_packets=50))
    experiment.run(tmp_path / "here")
    seen: list[tuple[int, int]] = []
    with pool() as processes:
        experiment.run(tmp_path / "processes", on=processes, progress=lambda done, total, *_: seen.append((done, total)))
    with ThreadPoolExecutor(2) as threads:
        experiment.run(tmp_path / "threads", on=threads)
    here = files(tmp_path / "here")
    assert any(name.startswith("captures/") for name in here)
    assert files(tmp_path / "processes") == files(tmp_path / "threads") == here
    assert seen[-1] == (8, 8)
    assert not (tmp_path / "processes.parts").exists()
    again = Failing(after=0)
    experiment.run(tmp_path / "processes", on=again)
    assert again.tasks == 0


class Failing(Executor):
    """Runs tasks at once, up to the first one from `after` on."""

    def __init__(self, after: int) -> None:
        self.after, self.tasks = after, 0

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.tasks += 1
        if self.tasks > self.after:
            future.set_exception(BrokenProcessPool("the process died"))
        else:
            future.set_result(task(*arguments, **named))
        return future


def test_parts_that_came_back_are_not_repeated(tmp_path: Path) -> None:
    first = Failing(after=3)
    with pytest.raises(BrokenProcessPool):
        small().run(tmp_path / "out", on=first)
    kept = sorted(path.name for path in (tmp_path / "out.parts").iterdir())
    assert len(kept) >= 1 and not any(name.startswith(".partial") for name in kept)
    second = Failing(after=100)
    small().run(tmp_path / "out", on=second)
    assert second.tasks == 8 - len(kept)
    small().run(tmp_path / "here")
    assert files(tmp_path / "out") == files(tmp_path / "here")


def test_killed_process_loses_only_its_run(tmp_path: Path) -> None:
    with pytest.raises(BrokenProcessPool), pool() as processes:

        def kill_one(done: int, *_: object) -> None:
            if done == 2:
                os.kill(next(iter(processes._processes)), signal.SIGKILL)

        small(seeds=10).run(tmp_path / "out", on=processes, progress=kill_one)
    with pool() as processes:
        small(seeds=10).run(tmp_path / "out", on=processes)
    small(seeds=10).run(tmp_path / "here")
    assert files(tmp_path / "out") == files(tmp_path / "here")


def test_error_of_a_task_is_the_error_of_the_run(tmp_path: Path) -> None:
    failing = small(transport=ab.Transport("dctcp", max_timeouts=1), balancers=["no-such"])
    with pool() as processes:
        with pytest.raises(ab.AnabranchError, match="balancers"):
            failing.run(tmp_path / "out", on=processes)
        task = cluster.Task("balancers = 1", "broken", {}, 1, 1, True)
        with pytest.raises(ab.AnabranchError, match="broken:1"):
            processes.submit(task).result()


def test_folder_of_another_experiment_is_kept(tmp_path: Path) -> None:
    small(balancers=["ecmp"], seeds=1).run(tmp_path / "out")
    with pytest.raises(ab.AnabranchError, match="another experiment"):
        small(name="other").run(tmp_path / "out", on=Failing(after=0))


def test_names_of_schedulers_are_checked() -> None:
    for wrong in ("slurm", ""):
        with pytest.raises(ValueError, match="must be"):
            cluster.scheduler(wrong)
    with pytest.raises(TypeError, match="neither"):
        cluster.scheduler(3)


class Odd(ab.SwitchBalancer):
    """Takes the next hops by the hash of the flow, from the last."""

    granularity = "flow"

    def choose(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        return len(candidates) - 1 - packet.hash % len(candidates)


def test_balancers_in_python_run_in_other_processes(tmp_path: Path) -> None:
    experiment = small(balancers=["ecmp", Odd], seeds=2)
    experiment.run(tmp_path / "here")
    with pool() as processes:
        experiment.run(tmp_path / "processes", on=processes)
    assert files(tmp_path / "processes") == files(tmp_path / "here")
