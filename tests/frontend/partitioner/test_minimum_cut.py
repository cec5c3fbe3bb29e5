"""Cuts are those that networkx finds."""

from math import inf
from random import Random

import networkx
import pytest
from bascule.frontend.partitioner.minimum_cut import Unbounded, minimum_cut

CAPACITIES = (inf, 0, 1, 2, 3, 5, 10, 2.0, 7)


def random_graph(seed: int) -> networkx.DiGraph:
    """Of up to 26 nodes, with edges into the source, out of the sink, without a capacity and with none left."""
    draw = Random(seed)
    graph = networkx.DiGraph()
    graph.add_nodes_from(["source", "sink"])
    names = ["source", "sink", *map(str, range(draw.randint(2, 24)))]
    for _ in range(draw.randint(1, 60)):
        start, end = draw.sample(names, 2)
        if (end == "source" or start == "sink") and draw.random() < 0.7:
            continue
        named = {"capacity": draw.choice(CAPACITIES)} if draw.random() < 0.8 else {}
        graph.add_edge(start, end, **named)
    return graph


def test_value_and_sides_are_those_of_networkx():
    bounded = 0
    for seed in range(600):
        graph = random_graph(seed)
        try:
            expected = networkx.minimum_cut(graph, "source", "sink")
        except networkx.NetworkXUnbounded:
            with pytest.raises(Unbounded):
                minimum_cut(graph.adjacency(), "source", "sink")
            continue
        bounded += 1
        value, (near, far) = minimum_cut(graph.adjacency(), "source", "sink")
        assert (value, near, far) == (expected[0], *map(set, expected[1])), seed
    assert bounded > 400


def test_ends_without_edges():
    assert minimum_cut([], "a", "b") == (0, ({"a"}, {"b"}))
