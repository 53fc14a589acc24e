"""Networks, bounds and lists."""

from __future__ import annotations

import inspect
import pickle

import networkx
import pytest

import anabranch as ab


@pytest.mark.parametrize("entry", ab.topologies(), ids=lambda entry: entry.name)
def test_every_family_has_a_function(entry: ab.Entry) -> None:
    function = getattr(ab, entry.name.replace("-", "_"))
    assert list(inspect.signature(function).parameters) == list(entry.parameters)
    network = function()
    assert network.name == ab.Topology(entry.name).name
    assert len(network.hosts) >= 2


def test_parameters_are_those_of_the_text() -> None:
    assert ab.fat_tree(k=8, host_rate="25Gbps").name == ab.Topology("fat-tree:k=8,host_rate=25Gbps").name
    assert ab.multi_tier(switches=[8, 4, 2]).name == ab.Topology("multi-tier:switches=8/4/2").name
    with pytest.raises(ab.AnabranchError, match="k = 5: must be even"):
        ab.fat_tree(k=5)
    with pytest.raises(TypeError):
        ab.fat_tree(q=5)  # type: ignore[call-arg]


def test_graph_of_networkx_and_back() -> None:
    network = ab.fat_tree(k=4, host_rate="1Gbps")
    graph = network.to_networkx()
    assert graph.number_of_nodes() == 16 + 20 and graph.number_of_edges() == 48
    again = ab.Topology.from_networkx(graph)
    assert again.hosts == network.hosts and again.switches == network.switches
    assert networkx.utils.graphs_equal(again.to_networkx(), graph)


def test_links_are_those_of_probes() -> None:
    network = ab.leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, parallel=2)
    assert len(network.links) == len(set(network.links)) == 2 * network.to_networkx().number_of_edges()
    assert {"h0 -> leaf0", "spine0 -> leaf1", "spine0 -> leaf1 #2"} < set(network.links)
    experiment = ab.Experiment(
        network,
        ab.Traffic("fixed:size=10KB", load=0.2, flows=5),
        balancers=["ecmp"],
        seeds=1,
        probes=ab.Probes(links=network.links),
    )
    assert set(experiment.run().links.column("link")) == set(network.links)


def test_graph_without_hosts_gets_some() -> None:
    graph = networkx.petersen_graph()
    network = ab.Topology.from_networkx(graph, hosts_per_node=2, rate="40Gbps", host_rate="10Gbps")
    assert (len(network.switches), len(network.hosts)) == (10, 20)
    experiment = ab.Experiment(network, ab.Traffic("fixed:size=10KB", load=0.2, flows=50), balancers=["ecmp"], seeds=1)
    results = experiment.run()
    assert results.flows.column("status") == ["completed"] * 50


def test_formats_are_read_again() -> None:
    network = ab.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
    for name, text in [("a.json", network.to_json()), ("a.graphml", network.to_graphml())]:
        assert len(ab.Topology.from_text(name, text).hosts) == 4
    zoo = ab.Topology.from_file("data/topologies/zoo/Abilene.graphml", hosts_per_node=2)
    assert len(zoo.hosts) == 2 * len(zoo.switches)
    with pytest.raises(ab.AnabranchError, match="is not a usable topology"):
        ab.Topology.from_text("a.json", "{}")
    with pytest.raises(TypeError, match="host_rat is none of"):
        ab.Topology.from_text("a.json", network.to_json(), host_rat="1Gbps")  # type: ignore[call-arg]


def test_networks_are_pickled_and_shown() -> None:
    for network in [ab.fat_tree(k=4), ab.Topology.from_networkx(networkx.path_graph(3), hosts_per_node=1)]:
        again = pickle.loads(pickle.dumps(network))
        assert again.to_json() == network.to_json()
        assert "cables" in repr(again)


def test_bounds_of_patterns_and_demands() -> None:
    network = ab.leaf_spine(leaves=2, spines=1, hosts_per_leaf=2)
    # Both hosts of a leaf share one link of their rate.
    bound = ab.bounds.pattern(network, "stride:step=2")
    assert bound["pairs"] == 4 and bound["cut"]["throughput"] == pytest.approx(0.5)
    hosts = network.hosts
    possible, at_most = ab.bounds.optimum(network, [(hosts[0], hosts[2], 10e9), (hosts[1], hosts[3], 10e9)], eps=0.01)
    assert possible <= 0.5 <= at_most * (1 + 1e-9) and at_most / possible < 1.02
    for demands in ([], [("nobody", hosts[0], 1e9)], [(hosts[0], hosts[0], 1e9)], [(hosts[0], hosts[1], float("nan"))]):
        with pytest.raises(ab.AnabranchError):
            ab.bounds.optimum(network, demands)


def test_lists_are_those_of_the_program() -> None:
    assert {"ecmp", "drill", "hermes-rtt"} <= {entry.name for entry in ab.balancers()}
    assert "web-search" in {entry.name for entry in ab.workloads()}
    for entries in (ab.patterns(), ab.collectives(), ab.transports(), ab.metrics()):
        assert entries and all(entry.summary for entry in entries)


def test_what_a_file_loses_is_a_warning() -> None:
    text = ab.single_switch(hosts=3).to_graphml().replace("LinkSpeedRaw", "Rate")
    with pytest.warns(UserWarning, match="attribute `Rate` of edges is not read"):
        ab.Topology.from_text("a.graphml", text)
