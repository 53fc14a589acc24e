"""What there is to choose from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from . import _native


@dataclass(frozen=True)
class Entry:
    """An entry of a list, such as a balancer."""

    name: str
    summary: str
    source: str
    parameters: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Default and meaning of each parameter, by its name; write `name:parameter=value`."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else the list says, such as where a balancer decides."""


def _list(what: str) -> list[Entry]:
    def entry(item: dict[str, Any]) -> Entry:
        parameters = {one["name"]: (one["default"], one["doc"]) for one in item.pop("parameters")}
        return Entry(item.pop("name"), item.pop("summary"), item.pop("source"), parameters, item)

    return [entry(item) for item in json.loads(_native.listing(what))]


def balancers() -> list[Entry]:
    """Return all balancers and bounds."""
    return _list("balancers")


def topologies() -> list[Entry]:
    """Return all families of networks."""
    return _list("topologies")


def workloads() -> list[Entry]:
    """Return all distributions of flow sizes."""
    return _list("workloads")


def patterns() -> list[Entry]:
    """Return all patterns of senders and receivers."""
    return _list("patterns")


def collectives() -> list[Entry]:
    """Return all collectives."""
    return _list("collectives")


def transports() -> list[Entry]:
    """Return all transports."""
    return _list("transports")


def metrics() -> list[Entry]:
    """Return all metrics, for `Results.compare`."""
    return _list("metrics")
