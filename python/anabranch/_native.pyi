"""The native module."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

__version__: str

class AnabranchError(Exception):
    """An error: its text, which the command prints too, says what was wrong, where, and what to do."""

def main(arguments: Sequence[str], program: Path, python: Path) -> int: ...
def listing(what: str) -> str: ...
def shipped(path: str) -> Path: ...
def to_toml(json: str) -> str: ...
def from_toml(text: str) -> str: ...
def pattern_bounds(topology: Topology, pattern: str, seed: int, eps: float) -> str: ...
def check_balancer(about: dict[str, Any]) -> None: ...
def mix(value: int) -> int:
    """Mix 64 bits, as the hash of the program's switches does."""

def combine(hash: int, value: int) -> int:
    """Mix a second value into a hash."""

def concurrent(topology: Topology, demands: Sequence[tuple[str, str, float]], eps: float) -> tuple[float, float]: ...

@final
class Experiment:
    def __new__(cls, text: str, file: str, name: str, given: Mapping[str, Any]) -> Experiment: ...
    @property
    def name(self) -> str: ...
    @property
    def toml(self) -> str: ...
    @property
    def inputs(self) -> dict[str, str]: ...
    @property
    def traces(self) -> list[tuple[Path, str]]: ...
    @property
    def balancers(self) -> list[str]: ...
    @property
    def variants(self) -> list[str]: ...
    @property
    def run_count(self) -> int: ...
    @property
    def warnings(self) -> list[str]: ...
    def run(
        self, options: Mapping[str, Any], progress: Callable[[int, int, float, int], object] | None
    ) -> None: ...
    def missing(self, options: Mapping[str, Any]) -> list[int]: ...
    def run_shard(
        self,
        number: int,
        count: int,
        options: Mapping[str, Any],
        progress: Callable[[int, int, float, int], object] | None,
    ) -> None: ...
    def merge(self, folders: Sequence[Path], options: Mapping[str, Any]) -> None: ...

@final
class Place:
    """The switch or edge of a balancer."""

    @property
    def name(self) -> str:
        """Name in the topology."""
    @property
    def node(self) -> int:
        """Number of the node."""
    @property
    def tier(self) -> int:
        """Height above the hosts."""
    @property
    def seed(self) -> int:
        """Seed of the run."""

@final
class Packet:
    """The properties of a packet that a balancer can read."""

    @property
    def flow(self) -> int:
        """Number of the flow."""
    @property
    def hash(self) -> int:
        """Hash of the five-tuple in the direction of travel, 64 bits."""
    @property
    def bytes(self) -> int:
        """Size on the wire, bytes."""
    @property
    def src(self) -> int:
        """Number of the host that sent it."""
    @property
    def dst(self) -> int:
        """Number of the host that receives it."""
    @property
    def to(self) -> int:
        """Number of the receiver's first switch, among those of all receivers."""
    @property
    def is_data(self) -> bool:
        """Whether it carries payload, and is not a bare acknowledgement."""
    @property
    def is_retransmission(self) -> bool:
        """Whether this payload was sent before."""
    @property
    def priority(self) -> int:
        """Traffic class, 0 (least urgent) to 7."""

@final
class Candidates:
    """The candidates of a decision, the time, and the random numbers of the place."""

    def __len__(self) -> int: ...
    @property
    def numbers(self) -> list[int]:
        """Numbers of the links, or of the paths, in order; failures leave gaps."""
    @property
    def queued_bytes(self) -> list[int]:
        """Bytes queued at each port, including the packet in transmission; empty for paths."""
    @property
    def current(self) -> int | None:
        """Number of the path that the flow used last, if it is live; None for ports."""
    @property
    def now_ps(self) -> int:
        """Simulated time, picoseconds."""
    def random_u64(self) -> int:
        """Return 64 random bits."""
    def random_below(self, n: int) -> int:
        """Return a random whole number from 0 to n - 1."""
    def random(self) -> float:
        """Return a random number in [0, 1)."""

@final
class Feedback:
    """An acknowledgement that came back to an edge."""

    @property
    def flow(self) -> int:
        """Number of the flow."""
    @property
    def to(self) -> int:
        """Number of the receiver's first switch, among those of all receivers."""
    @property
    def path(self) -> int:
        """Number of the path of the data packet."""
    @property
    def rtt_ps(self) -> int:
        """Round-trip time, picoseconds."""
    @property
    def marked(self) -> bool:
        """Whether a switch marked the data packet."""

@final
class Results:
    def __new__(cls, folder: Path) -> Results: ...
    @property
    def folder(self) -> Path: ...
    @property
    def summary(self) -> str: ...
    def text(self) -> str: ...
    def points(self) -> Table: ...
    def runs(self) -> Table: ...
    def parquet(self, name: str, missing: str) -> Table: ...
    def compare(self, metric: str) -> Table: ...

@final
class Table:
    """A table with the Arrow PyCapsule interface: polars, pyarrow, pandas and duckdb read it."""

    @property
    def columns(self) -> list[str]: ...
    def column(self, name: str) -> list[Any]: ...
    def _repr_html_(self) -> str: ...
    def addresses(self, name: str) -> list[int]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Topology:
    @staticmethod
    def from_spec(spec: str) -> Topology: ...
    @staticmethod
    def from_text(file: str, text: str, options: Mapping[str, Any]) -> tuple[Topology, list[str]]: ...
    @property
    def name(self) -> str: ...
    def nodes(self) -> list[tuple[str, str, int, int | None, int | None]]: ...
    def links(self) -> list[tuple[str, str, float, int]]: ...
    def link_names(self) -> list[str]: ...
    def to_json(self) -> str: ...
    def to_graphml(self) -> str: ...

@final
class Fabric:
    def __new__(cls, of: Experiment, interval_us: float, balancers: Sequence[str]) -> Fabric: ...
    @property
    def loads(self) -> list[float | None]: ...
    @property
    def flow_counts(self) -> list[int]: ...
    @property
    def links(self) -> list[tuple[str, str, int, str]]: ...
    def start(self, load: float | None, seed: int) -> None: ...
    def step(
        self, chosen: int | None, factors: Sequence[float]
    ) -> tuple[float, int, int, list[int], list[int]] | None: ...
    def result(self) -> str: ...
    def close(self) -> None: ...
