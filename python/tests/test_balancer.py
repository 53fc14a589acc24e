"""Balancers in Python: the same decisions as their twins in Rust, determinism, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.balancer import combine, mix

from .conftest import small

LIMIT = 2**64


class PythonEcmp(ab.SwitchBalancer):
    """Hashes each flow onto one of the next hops."""

    granularity = "flow"

    def __init__(self, place: ab.Place) -> None:
        super().__init__(place)
        self.seed = combine(mix(place.seed), place.node)

    def choose(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        return (mix(packet.hash ^ self.seed) % 2**32) % len(candidates)


class PythonDrill(ab.SwitchBalancer):
    """DRILL(2, 1), with one engine, between members of equal capacity."""

    samples = 2

    def __init__(self, place: ab.Place) -> None:
        super().__init__(place)
        self.remembered: dict[tuple[int, ...], int] = {}

    def choose(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        links = tuple(candidates.numbers)
        ports: list[int] = []
        count = min(self.samples, len(links))
        for number in range(count):
            drawn = candidates.random_below(len(links) - count + number + 1)
            ports.append(len(links) - count + number if drawn in ports else drawn)
        known = self.remembered.get(links)
        if known is not None and known not in ports:
            ports.append(known)
        lots = candidates.random_u64()
        queued = candidates.queued_bytes
        best = min(ports, key=lambda port: (queued[port], port != known, combine(lots, port), port))
        self.remembered[links] = best
        return best


class PythonEcmpPath(ab.EdgeBalancer):
    """Hashes each flow onto one of the paths."""

    granularity = "flow"

    def path(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        return mix(packet.hash) % len(candidates)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(PythonEcmp, "ecmp"), (PythonDrill, "drill:asymmetry=ignored"), (PythonEcmpPath, "ecmp-path")],
)
def test_decisions_are_those_of_the_twin_in_rust(tmp_path: Path, ours: type[ab.Balancer], theirs: str) -> None:
    def rows(balancer: Any) -> dict[str, list[Any]]:
        results = ab.Experiment(
            ab.fat_tree(k=4),
            ab.Traffic("fixed:size=60KB", load=0.8, flows=120),
            balancers=[balancer],
            seeds=2,
            host=ab.Host(resequencing="off"),
            name="twins",
        ).run(tmp_path / str(balancer)[:9].replace("<", ""))
        return {name: results.flows.column(name) for name in results.flows.columns if name != "balancer"}

    assert rows(ours) == rows(theirs)


@pytest.mark.parametrize("balancer", [PythonEcmp, PythonDrill, PythonEcmpPath])
def test_twins_pass_the_checks_of_balancers(balancer: type[ab.Balancer]) -> None:
    ab.check_balancer(balancer)


class FastestPath(ab.EdgeBalancer):
    """Picks the path with the least round-trip time so far."""

    granularity = "flowlet"
    told: list[int] = []

    def __init__(self, place: ab.Place) -> None:
        super().__init__(place)
        self.rtt: dict[tuple[int, int], int] = {}

    def on_feedback(self, feedback: ab.Feedback) -> None:
        assert feedback.rtt_ps > 0
        self.told.append(feedback.path)
        self.rtt[feedback.to, feedback.path] = feedback.rtt_ps

    def path(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        assert candidates.now_ps >= 0 and 0 <= candidates.random() < 1 and candidates.queued_bytes == []
        assert candidates.current is None or candidates.current in candidates.numbers
        return min(range(len(candidates)), key=lambda at: self.rtt.get((packet.to, candidates.numbers[at]), 0))


def test_edges_get_feedback(tmp_path: Path) -> None:
    results = small(balancers=[FastestPath, "ecmp"]).run(tmp_path / "out")
    assert set(FastestPath.told) == {0, 1}
    assert set(results.points.column("balancer")) == {"fastest-path", "ecmp"}
    assert "fastest-path" in results.report().read_text()


class Counter(ab.SwitchBalancer):
    """Fails when told to."""

    limit = 10**9
    made = 0

    def __init__(self, place: ab.Place) -> None:
        super().__init__(place)
        type(self).made += 1
        self.calls = 0

    def choose(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        self.calls += 1
        if self.calls > self.limit:
            raise ZeroDivisionError("too many")
        return 0


def test_exception_ends_the_run_and_keeps_no_result_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "limit", 50)
    with pytest.raises(ZeroDivisionError, match="too many"):
        small(balancers=[Counter]).run(tmp_path / "out")
    kept = tmp_path / "out/runs.jsonl"
    assert not kept.is_file() or kept.read_text() == ""
    monkeypatch.setattr(Counter, "limit", 10**9)
    assert set(small(balancers=[Counter]).run(tmp_path / "out").flows.column("status")) == {"completed"}
    before = Counter.made
    small(balancers=[Counter]).run(tmp_path / "out")
    assert Counter.made == before, "runs of the same source are reused"


def test_changed_source_is_another_balancer(tmp_path: Path) -> None:
    def balancer(choice: str) -> Any:
        folder = tmp_path / choice
        folder.mkdir(exist_ok=True)
        source = f"import anabranch as ab\nclass Own(ab.SwitchBalancer):\n    def choose(self, packet, candidates):\n        return {choice}\n"
        (folder / "own.py").write_text(source)
        code: dict[str, Any] = {"__name__": "own"}
        exec(compile(source, folder / "own.py", "exec"), code)
        return code["Own"]

    totals = []
    for choice in ("0", "packet.flow % len(candidates)"):
        results = small(balancers=[balancer(choice)]).run(tmp_path / "out")
        totals.append(results.flows.column("fct_us"))
    assert totals[0] != totals[1]


class TooFar(ab.SwitchBalancer):
    """Returns what is not there."""

    answer: Any = 99

    def choose(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        answer: int = self.answer
        return answer


@pytest.mark.parametrize(("answer", "error"), [(99, ab.AnabranchError), (-1, ab.AnabranchError), ("0", TypeError), (None, TypeError)])
def test_wrong_answers_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, error: type[Exception]) -> None:
    monkeypatch.setattr(TooFar, "answer", answer)
    with pytest.raises(error):
        small(balancers=[TooFar]).run(tmp_path / "out")


def test_names_are_checked() -> None:
    class Ecmp(ab.SwitchBalancer):
        """Has the name of another."""

    with pytest.raises(ab.AnabranchError, match="name `ecmp`"):
        small(balancers=[Ecmp]).check()


class Forgetful(ab.SwitchBalancer):
    """Depends on more than its draws."""

    shared: list[int] = []

    def choose(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        self.shared.append(1)
        return len(self.shared) // 7 % len(candidates)


def test_check_finds_what_does_not_repeat() -> None:
    with pytest.raises(AssertionError, match="other results"):
        ab.check_balancer(Forgetful)


class Wandering(ab.SwitchBalancer):
    """Says that flows stay in order, and sprays."""

    granularity = "flow"

    def choose(self, packet: ab.Packet, candidates: ab.Candidates) -> int:
        return candidates.random_below(len(candidates))


def test_check_finds_packets_out_of_order() -> None:
    with pytest.raises(AssertionError, match="overtook"):
        ab.check_balancer(Wandering)
