"""Sums over a batch of gradients that several attentions add: one for each, or one of what is added."""

import pytest
import torch
from bascule.frontend.fx_passes.part_batch_sums import part_batch_sums
from torch._functorch.aot_autograd import aot_function
from torch._subclasses import FakeTensorMode

OPERATOR = torch.ops.aten._scaled_dot_product_efficient_attention
aten = torch.ops.aten


def layers(x, bias, of=2, expand=lambda bias, x: bias.expand(len(x), -1, -1, -1)):
    expanded = expand(bias, x)
    for _ in range(of):
        x = OPERATOR(x, x, x, expanded, True)[0]
    return x


def by_hand(x, bias):
    expanded = bias.expand(len(x), -1, -1, -1)
    for _ in range(3):
        x = torch.softmax(x @ x.mT + expanded, -1) @ x
    return x


def parted(function, batch=5, dtype=torch.bfloat16, bias=(1, 2, 24, 24)):
    """How many sums the pass parts, and the joint graph."""
    found = []

    def look(joint, *args, **kwargs):
        found.extend([part_batch_sums(joint.graph, devices=("cpu",)), joint.graph])
        joint.graph.lint()
        raise InterruptedError

    with FakeTensorMode():
        given = [torch.empty(batch, 2, 24, 16, dtype=dtype), torch.empty(bias, dtype=dtype)]
        with pytest.raises(InterruptedError):
            aot_function(function, lambda gm, _: gm, partition_fn=look)(*(x.requires_grad_() for x in given))
    return found


@pytest.mark.parametrize("function, layers", [(layers, 2), (lambda x, b: layers(x, b, of=4), 4), (by_hand, 3)])
def test_each_has_its_own_sum(function, layers):
    """In f32; what they add up to is rounded once."""
    count, graph = parted(function)
    sums = [node for node in graph.nodes if node.target is aten.sum.dim_IntList and node.args[1] == [0]]
    assert (count, len(sums)) == (1, layers)
    assert all(node.meta["val"].dtype == torch.float32 for node in sums)
    assert all(node.target is not aten.add.Tensor for node in (x.args[0] for x in sums))


LEFT = {
    "one attention": (lambda x, b: layers(x, b, of=1), {}),
    "a sum for each already": (lambda x, b: layers(layers(x, b, of=1), b, of=1), {}),
    "a batch so small that sums are no fewer bytes": (layers, {"batch": 2}),
    "f32": (layers, {"dtype": torch.float32}),
    "other gradients among them": (
        lambda x, b: layers(x, b, expand=lambda b, x: b.expand(len(x), -1, -1, -1).sin()),
        {},
    ),
    "a gradient of each of a batch": (lambda x, b: layers(x, b, expand=lambda b, x: b * 1), {"bias": (5, 2, 24, 24)}),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left(case):
    function, how = LEFT[case]
    count, _ = parted(function, **how)
    assert count == 0
