"""Cuts of a forward: where they are, and what lies across them."""

from random import Random

import pytest
import torch
from bascule.frontend.partitioner.checkpoint_cuts import COUNTS, _bytes_across, _cuts, checkpoints
from bascule.frontend.partitioner.training_step import Step
from torch._subclasses.fake_tensor import FakeTensorMode

LAYERS = 16


def step_of_layers():
    """A forward of products between which a vector of 4 bytes a row lies, each of whose layers has wide ones inside, and its gradient."""
    graph, mode = torch.fx.Graph(), FakeTensorMode()

    def call(target, *args):
        node = graph.call_function(target, args)
        with mode:
            node.meta["val"] = target(*(arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args))
        return node

    aten = torch.ops.aten

    def given(name, *shape):
        node = graph.placeholder(name)
        with mode:
            node.meta["val"] = torch.empty(shape)
        return node

    x, up, down, tangent = given("x", 64, 8), given("up", 8, 512), given("down", 512, 8), given("tangent", 64, 8)
    narrow, forward, backward = [], [], []
    h = x
    for _ in range(LAYERS):
        wide = call(aten.mm.default, h, up)
        act = call(aten.relu.default, wide)
        h = call(aten.mm.default, act, down)
        forward += [wide, act, h]
        narrow.append(h)
    g = tangent
    for number in reversed(range(LAYERS)):
        g = call(aten.mul.Tensor, g, forward[3 * number + 2])
        backward.append(g)
    graph.output([h, g])
    fused = {aten.relu.default, aten.mul.Tensor}
    return Step(
        graph,
        tuple(forward),
        tuple(backward),
        frozenset([x, up, down]),
        frozenset([h]),
        frozenset([g]),
        lambda node: node.target in fused,
    ), narrow


def test_cuts_are_where_little_lies_across():
    step, narrow = step_of_layers()
    found = list(checkpoints(step))
    assert len(found) > 3
    assert all(set(saved) <= set(narrow) for saved in found[:4])
    assert [len(saved) for saved in found[:3]] == list(COUNTS[:3])


def test_what_is_cut_alike_is_told_once():
    step, _ = step_of_layers()
    found = list(checkpoints(step))
    assert len({frozenset(saved) for saved in found}) == len(found)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_across_are_of_what_is_made_before_and_read_after(seed):
    random = Random(seed)
    count = random.randrange(1, 30)
    sizes = [random.randrange(100) for _ in range(count)]
    last = [random.randrange(number, count) for number in range(count)]
    across = _bytes_across(sizes, last)
    assert across == [sum(size for n, size in enumerate(sizes) if n <= cut < last[n]) for cut in range(count)]
    before = [sum(sizes[: n + 1]) for n in range(count)]
    for cuts in (1, 3, 10):
        found = list(_cuts(before, across, cuts))
        assert len(found) <= cuts and found == sorted(found)


def test_no_forward_has_no_cuts():
    assert list(_cuts([], [], 3)) == []
