"""What the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab


def small(**changes: object) -> ab.Experiment:
    """Return an experiment of a second."""
    experiment = ab.Experiment(
        ab.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2),
        ab.Traffic("fixed:size=100KB", load=[0.3, 0.6], flows=60),
        balancers=["ecmp", "spray"],
        seeds=2,
        name="small",
    )
    for name, value in changes.items():
        assert hasattr(experiment, name), name
        setattr(experiment, name, value)
    return experiment


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> ab.Results:
    """Return the results of `small()`."""
    return small(probes=ab.Probes(links=["leaf0 -> spine0"])).run(tmp_path_factory.mktemp("small"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own, which no clone of the repository surrounds."""
    monkeypatch.chdir(tmp_path)
