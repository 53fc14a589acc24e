"""Experiments: keys, files, runs, errors."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import anabranch as ab

from .conftest import small

COMMAND = [sys.executable, "-m", "anabranch"]


def files(folder: Path) -> dict[str, bytes]:
    """Return the files that repeat byte for byte."""
    names = [line.split()[1].lstrip("*") for line in (folder / "SHA256SUMS").read_text().splitlines()]
    return {name: (folder / name).read_bytes() for name in [*names, "SHA256SUMS"]}


def test_results_are_those_of_the_command(tmp_path: Path) -> None:
    experiment = small(sweep={"transport.kind": ["dctcp", "newreno"]})
    file = experiment.save(tmp_path / "saved")
    experiment.run(tmp_path / "python")
    subprocess.run([*COMMAND, "run", file, "--quiet", "--out", tmp_path / "command"], check=True, stdout=subprocess.DEVNULL)
    ours, theirs = files(tmp_path / "python"), files(tmp_path / "command")
    assert "flows.parquet" in ours and "summary.json" in ours
    assert ours == theirs


def test_an_execution_trace_is_saved_along_but_does_not_go_to_workers(tmp_path: Path) -> None:
    trace = "num_ranks 2\nrank 0 {\nl1: send 4096b to 1 tag 0\n}\nrank 1 {\nl1: recv 4096b from 0 tag 0\n}\n"
    (tmp_path / "pair.goal").write_text(trace)
    text = '''seeds = 1
balancers = ["ecmp"]
[topology]
spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=1"
[traffic]
trace = "pair.goal"
'''
    (tmp_path / "pair.toml").write_text(text)
    experiment = ab.Experiment.from_toml(tmp_path / "pair.toml")
    file = experiment.save(tmp_path / "saved")
    assert (tmp_path / "saved/inputs/pair.goal").read_text() == trace
    again = ab.Experiment.from_toml(file)
    again.save(tmp_path / "saved")
    assert len(again.run(tmp_path / "again").runs) == 1
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="execution traces are too large"):
        experiment.run(tmp_path / "executor", on=executor)


def test_file_of_the_package_is_the_same_experiment(tmp_path: Path) -> None:
    name = "experiments/f3-ucsc/e3.2-no-resequencing.toml"
    experiment = ab.Experiment.from_toml(name)
    assert experiment.to_toml() == ab.experiment_path(name).read_text()
    assert isinstance(experiment.traffic, dict)
    experiment.seeds = 1
    experiment.traffic["load"] = [0.3]
    experiment.traffic = {**experiment.traffic, "load": [0.3]}
    assert experiment.run_count == len(experiment._read().balancers) * len(experiment._read().variants)


def test_a_change_of_a_file_counts_however_it_is_made() -> None:
    experiment = ab.Experiment.from_toml("f.toml", small().to_toml())
    assert experiment.run_count == 8
    experiment.traffic["load"].append(0.9)  # type: ignore[index]
    assert experiment.run_count == 12
    experiment.balancers = ["ecmp"]
    assert experiment.run_count == 6
    experiment.seeds = None
    assert experiment.run_count == 9


def test_sections_are_written_in_the_order_of_files() -> None:
    experiment = small(
        failure=[ab.Failure("link-down", link="leaf0 -> spine1", at="1ms")],
        switch=ab.Switch(ecn={"min": "5KB", "max": "200KB", "probability": 0.01}),
        expect=[ab.Expect("x", claim="c", metric="slowdown_mean", balancer="spray", at_most="ecmp")],
    )
    text = experiment.to_toml()
    order = ['name = "small"', "seeds = 2", "[topology]", "[traffic]", "[switch", "[[failure]]", "[[expect]]"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)


def test_reserved_words_are_written_without_their_underscore() -> None:
    experiment = small(expect=[ab.Expect("x", claim="c", metric="slowdown_mean", balancer="ecmp", within=[0, 9], class_=None)],
                       validation=ab.Validation(from_="1ms"), probes=ab.Probes(fixed_bins=True))
    assert 'from = "1ms"' in experiment.to_toml()


def test_files_in_memory_are_inputs(tmp_path: Path) -> None:
    flows = ab.InputFile("mine.csv", "src,dst,size_bytes,start_us\n0,1,1000,0\n1,2,2000,1\n")
    experiment = small(traffic=ab.Traffic(flow_list=flows), balancers=["ecmp"], seeds=1)
    assert experiment.inputs() == {"mine.csv": flows.text}
    results = experiment.run()
    assert results.folder == Path("results/small")
    assert results.flows.column("size_bytes") == [1000, 2000]
    again = ab.Experiment.from_toml(experiment.save(tmp_path / "copy")).run(tmp_path / "again")
    assert files(again.folder)["flows.parquet"] == files(results.folder)["flows.parquet"]


def test_runs_are_resumed_and_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int, share: float, hops: int) -> None:
        assert 0 <= share <= 1 and hops >= 0
        seen.append((done, total))

    small(balancers=["ecmp"]).run(tmp_path / "out", flows=False, progress=progress)
    assert seen[-1] == (4, 4)
    before = (tmp_path / "out/runs.jsonl").read_text().splitlines()
    small().run(tmp_path / "out", flows=False, progress=progress)
    assert seen[-1] == (8, 8)
    assert set(before) <= set((tmp_path / "out/runs.jsonl").read_text().splitlines())


def test_claims_that_do_not_fit_a_change_are_left_out_with_a_warning() -> None:
    experiment = ab.Experiment.from_toml("experiments/canon/web-search-symmetric.toml")
    experiment.balancers = ["ecmp", "spray"]
    assert any("optimum" in warning for warning in experiment.check())
    assert "optimum" not in experiment.to_toml()
    experiment.traffic = ab.Traffic(**{**dict(experiment.traffic), "load": [0.3]})  # type: ignore[arg-type]
    assert any("no load" in warning for warning in experiment.check())
    experiment.balancers = ["ecmpp"]
    with pytest.raises(ab.AnabranchError, match="did you mean `ecmp`"):
        experiment.check()


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"balancers": ["ecmpp"]}, ["balancers", "did you mean `ecmp`?"]),
        ({"balancers": []}, ["balancers"]),
        ({"traffic": {"workload": "web-search", "lood": 0.3}}, ["traffic.lood", "did you mean `load`?"]),
        ({"seeds": 0}, ["seeds"]),
        ({"transport": ab.Transport("tcp")}, ["transport.kind"]),  # type: ignore[arg-type]
        ({"traffic": ab.Traffic(flow_list="missing.csv")}, ["missing.csv", "flow_list"]),
    ],
)
def test_errors_say_what_where_and_what_to_do(changes: dict[str, object], parts: list[str]) -> None:
    with pytest.raises(ab.AnabranchError) as raised:
        small(**changes).check()
    for part in parts:
        assert part in str(raised.value)


def test_error_of_a_file_is_that_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('balancers = ["ecmp"]\n[topology]\nspec = "fat-tree:k=5"\n')
    done = subprocess.run([*COMMAND, "check", file], text=True, stderr=subprocess.PIPE)
    assert done.returncode == 2
    with pytest.raises(ab.AnabranchError) as raised:
        ab.Experiment.from_toml(file).check()
    assert f"error: {raised.value}" == done.stderr.strip()
    assert f"{file}:3" in done.stderr


def test_results_of_another_experiment_are_kept(tmp_path: Path) -> None:
    small(balancers=["ecmp"], seeds=1).run(tmp_path / "out")
    with pytest.raises(ab.AnabranchError, match="results of another experiment, `small`"):
        small(name="other").run(tmp_path / "out")


def test_values_without_a_counterpart_are_refused() -> None:
    with pytest.raises(TypeError, match="no counterpart"):
        small(traffic=ab.Traffic(object())).check()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="jobs"):
        small().run("out", jobs=-1)


def test_exception_of_the_progress_function_stops_the_runs(tmp_path: Path) -> None:
    def progress(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        small(traffic=ab.Traffic("web-search", load=0.5, flows=200_000)).run(tmp_path / "out", progress=progress)


def test_interrupt_stops_the_runs_and_keeps_the_completed_ones(tmp_path: Path) -> None:
    experiment = small(traffic=ab.Traffic("web-search", load=[0.5], flows=3_000), seeds=1000, balancers=["ecmp"])
    # Shells start programs in the background with the signal ignored; Python then leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()

    def interrupt() -> None:
        while not (tmp_path / "out/runs.jsonl").is_file() or not (tmp_path / "out/runs.jsonl").read_text():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        experiment.run(tmp_path / "out", jobs=1)
    thread.join()
    assert time.monotonic() - began < 120
    assert (tmp_path / "out/runs.jsonl").read_text().endswith("\n")


def test_threads_run_at_the_same_time(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        folders = [tmp_path / str(number) for number in range(3)]
        list(pool.map(lambda folder: small().run(folder, jobs=1), folders))
    assert files(folders[0]) == files(folders[1]) == files(folders[2])


def test_pickles_are_equal_experiments() -> None:
    graph = ab.Topology.from_text("two.json", ab.single_switch(hosts=3).to_json())
    for experiment in [small(), small(topology=graph), ab.Experiment.from_toml("f.toml", small().to_toml())]:
        again = pickle.loads(pickle.dumps(experiment))
        assert again.to_toml() == experiment.to_toml()
        assert again.inputs() == experiment.inputs()


def test_package_has_the_command(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--version"], text=True, check=True, stdout=subprocess.PIPE)
    assert done.stdout == f"anabranch {ab.__version__}\n"
    assert subprocess.run([*COMMAND, "nonsense"], stderr=subprocess.DEVNULL).returncode == 2
    listed = subprocess.run([*COMMAND, "list", "experiments"], text=True, check=True, stdout=subprocess.PIPE).stdout
    assert "experiments/canon/web-search-symmetric.toml\n" in listed
