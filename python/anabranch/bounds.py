"""Bounds: the best that a network can do for a fixed list of pairs that send without end."""

from __future__ import annotations

import json
from typing import Any, Iterable, NamedTuple

from . import _native
from .topology import Topology


class Optimum(NamedTuple):
    """The share of all demands that a network can carry at once, with any splitting."""

    share: float
    """A share that is possible."""
    at_most: float
    """A share that is not exceeded."""


def pattern(topology: Topology, pattern: str = "stride", *, seed: int = 1, eps: float = 0.05) -> dict[str, Any]:
    """Return the bounds of a pattern, as `anabranch bound --json` prints them: `hose`, `cut` and `mcf`, as shares of
    the links of the senders."""
    bounds: dict[str, Any] = json.loads(_native.pattern_bounds(topology._network, pattern, seed, eps))
    return bounds


def optimum(topology: Topology, demands: Iterable[tuple[str, str, float]], *, eps: float = 0.05) -> Optimum:
    """Return how much of all demands (sender, receiver, bit/s) fits at once: the multicommodity flow bound, between two
    values that are at most `eps` apart, as a share."""
    return Optimum(*_native.concurrent(topology._network, list(demands), eps))
