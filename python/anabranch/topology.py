"""Networks."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping

from . import _native
from ._parameters import spec_text

if TYPE_CHECKING:
    from os import PathLike

    import networkx
    from typing_extensions import Unpack

    from ._generated import ImportOptions

#: Names of the keys of `[topology]` that say what a file leaves out.
IMPORT_KEYS = ("rate", "delay", "coordinates", "hosts_per_node", "host_rate", "host_delay")


class Topology:
    """A network of hosts, switches and links.

    Families have functions, such as `fat_tree(k=8)`. Other networks come from files and from networkx.
    """

    def __init__(self, spec: str) -> None:
        """Build a family with parameters, written as `fat-tree:k=8`."""
        self._network = _native.Topology.from_spec(spec)
        self._file: tuple[str, str, dict[str, Any]] | None = None

    @classmethod
    def of_family(cls, name: str, parameters: Mapping[str, object]) -> Topology:
        """Build a family; parameters that are None have their defaults."""
        return cls(spec_text(name, parameters))

    @classmethod
    def from_file(cls, path: str | PathLike[str], **options: Unpack[ImportOptions]) -> Topology:
        """Read Topology Zoo GraphML (.graphml), htsim (.topo), or our JSON (.json). Options say what the file leaves out."""
        found = Path(_native.shipped(str(path)))
        return cls.from_text(found.name, found.read_text(encoding="utf-8"), **options)

    @classmethod
    def from_text(cls, name: str, text: str, **options: Unpack[ImportOptions]) -> Topology:
        """Read the text of a file; the ending of `name` says its format. What is left out of the network is a warning."""
        given: dict[str, Any] = dict(options)
        unknown = [key for key in given if key not in IMPORT_KEYS]
        if unknown:
            raise TypeError(f"{unknown[0]} is none of {', '.join(IMPORT_KEYS)}")
        network, notes = _native.Topology.from_text(name, text, {key: given.get(key) for key in IMPORT_KEYS})
        for note in notes:
            warnings.warn(f"{name}: {note}", stacklevel=2)
        topology = cls.__new__(cls)
        topology._network = network
        topology._file = (name, text, {key: value for key, value in given.items() if value is not None})
        return topology

    @classmethod
    def from_networkx(cls, graph: networkx.Graph[Any], **options: Unpack[ImportOptions]) -> Topology:
        """Take over a graph of networkx.

        Nodes are switches, or hosts where the attribute `kind` is "host"; a graph without hosts gets some at each
        switch (`hosts_per_node`). They may have `tier`, `pod` and `rack`. Edges may have `rate` in bit/s and `delay`
        in seconds; `options` say those that have not.
        """
        names = {node: str(node) for node in graph.nodes}
        if len(set(names.values())) < len(names):
            raise ValueError("two nodes have the same text as their name")

        def node(name: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
            entry: dict[str, Any] = {"id": names[name], "role": attributes.get("kind", "switch")}
            return entry | {key: int(attributes[key]) for key in ("tier", "pod", "rack") if attributes.get(key) is not None}

        def link(one: Any, other: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
            entry: dict[str, Any] = {"a": names[one], "b": names[other]}
            if attributes.get("rate") is not None:
                entry["throughput_ab"] = entry["throughput_ba"] = float(attributes["rate"]) / 1e6
            if attributes.get("delay") is not None:
                entry["latency"] = float(attributes["delay"]) * 1e3
            return entry

        document = {
            "format": "topology/1",
            "name": str(graph.name or "graph"),
            "units": {"throughput": "Mbit/s", "latency": "ms"},
            "transit_allowed": False,
            "nodes": [node(name, attributes) for name, attributes in graph.nodes(data=True)],
            "links": [link(one, other, attributes) for one, other, attributes in graph.edges(data=True)],
        }
        return cls.from_text(f"{document['name']}.json", json.dumps(document), **options)

    @property
    def name(self) -> str:
        """The name: of a family its specification."""
        return self._network.name

    @property
    def hosts(self) -> list[str]:
        """The names of all hosts."""
        return [name for name, kind, *_ in self._network.nodes() if kind == "host"]

    @property
    def switches(self) -> list[str]:
        """The names of all switches."""
        return [name for name, kind, *_ in self._network.nodes() if kind == "switch"]

    @property
    def links(self) -> list[str]:
        """The names of all links, as in `Probes(links=net.links)`: each cable has one for each direction."""
        return self._network.link_names()

    def to_networkx(self) -> networkx.MultiGraph[str]:
        """Return the network as a graph: nodes with `kind`, `tier`, `pod`, `rack`; a cable is an edge with `rate` in
        bit/s and `delay` in seconds."""
        import networkx

        graph: networkx.MultiGraph[str] = networkx.MultiGraph(name=self.name)
        for name, kind, tier, pod, rack in self._network.nodes():
            graph.add_node(name, kind=kind, tier=tier, pod=pod, rack=rack)
        # Both directions of a cable follow each other.
        for one, other, rate, delay_ps in self._network.links()[::2]:
            graph.add_edge(one, other, rate=rate, delay=delay_ps / 1e12)
        return graph

    def to_json(self) -> str:
        """Return the network in our JSON format."""
        return self._network.to_json()

    def to_graphml(self) -> str:
        """Return the network as GraphML."""
        return self._network.to_graphml()

    def _section(self, files: dict[str, str]) -> dict[str, Any]:
        if self._file is None:
            return {"spec": self.name}
        name, text, options = self._file
        files[name] = text
        return {"file": name, **options}

    def __repr__(self) -> str:
        nodes = self._network.nodes()
        hosts = sum(kind == "host" for _, kind, *_ in nodes)
        return f"<Topology {self.name}: {hosts} hosts, {len(nodes) - hosts} switches, {len(self._network.links()) // 2} cables>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._file is None:
            return (Topology, (self.name,))
        name, text, options = self._file
        return (_from_text, (name, text, options))


def _from_text(name: str, text: str, options: ImportOptions) -> Topology:
    return Topology.from_text(name, text, **options)
