"""Balancers written in Python, for prototypes: slower than those of the program, with the same decisions for the same draws.

A class with `choose` is a balancer of switches: each switch has an instance, which picks the next hop of every packet with
two or more. A class with `path` is a balancer of edges: it picks the whole path where a packet enters the fabric.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import textwrap
import uuid
from typing import Any, ClassVar, Literal

from ._native import Candidates, Feedback, Packet, Place, combine, mix
from ._native import check_balancer as check

Granularity = Literal["packet", "flow", "flowlet"]


class Balancer:
    """Base of `SwitchBalancer` and `EdgeBalancer`."""

    #: Name in experiments and reports; by default that of the class in lower case with hyphens.
    name: ClassVar[str] = ""
    #: Unit of a decision: "packet" (hosts then resequence), "flow" or "flowlet".
    granularity: ClassVar[Granularity] = "packet"

    def __init__(self, place: Place) -> None:
        """Start at a switch or edge; called once per run."""
        self.place = place

    @classmethod
    def label(cls) -> str:
        """Return the name."""
        return cls.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()

    @classmethod
    def _about(cls) -> dict[str, Any]:
        summary = inspect.cleandoc(cls.__doc__ or "A balancer in Python.").splitlines()[0]
        return {
            "name": cls.label(),
            "summary": summary,
            "granularity": cls.granularity,
            "code": _code(cls),
            "is_edge": issubclass(cls, EdgeBalancer),
            "class": cls,
        }


class SwitchBalancer(Balancer):
    """A balancer that picks the next hop at every switch."""

    def choose(self, packet: Packet, candidates: Candidates) -> int:
        """Return the position of the next hop among the candidates, from 0."""
        raise NotImplementedError


class EdgeBalancer(Balancer):
    """A balancer that picks the whole path where a packet enters the fabric. A method `on_feedback(feedback)`, if there is
    one, is called for every acknowledgement (`Feedback`)."""

    def path(self, packet: Packet, candidates: Candidates) -> int:
        """Return the position of the path among the candidates, from 0."""
        raise NotImplementedError


def _code(cls: type) -> str:
    """Return a hash of the source of a class and of the classes that it extends. A class without source, as from `exec`,
    gets a new one each time, so that its runs are never reused."""
    texts = []
    for part in cls.__mro__:
        if part in (Balancer, SwitchBalancer, EdgeBalancer, object):
            continue
        try:
            texts.append(textwrap.dedent(inspect.getsource(part)))
        except (OSError, TypeError):
            return cls.__dict__.get("_anabranch_code") or _mark(cls)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _mark(cls: type) -> str:
    code = uuid.uuid4().hex[:16]
    setattr(cls, "_anabranch_code", code)
    return code


def check_balancer(cls: type[Balancer]) -> None:
    """Check a balancer by the conformance tests of the program's own, which take 10 s or more. In five networks and with
    every transport that retransmits, all flows complete; packets of a flow stay in order if `granularity` is "flow", and do
    not if it is "packet"; the same seed gives the same results, on one thread and on three; all flows complete while a link
    and a switch fail. Raises AssertionError or the exception of the balancer."""
    check(cls._about())


__all__ = ["Balancer", "Candidates", "EdgeBalancer", "Feedback", "Packet", "Place", "SwitchBalancer", "check_balancer", "combine", "mix"]
