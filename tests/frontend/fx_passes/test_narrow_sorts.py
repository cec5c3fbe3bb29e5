"""Sorts of integers that a byte holds."""

import pytest
import torch
from bascule.frontend.fx_passes.narrow_sorts import LONG, narrow_sorts
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
ROWS = LONG + 1


def experts(x):
    return x.topk(1, -1)[1].reshape(-1)


def traced(function, *inputs):
    return make_fx(function, tracing_mode="fake")(*inputs)


SORTS = {
    "sort": lambda x: experts(x).sort(),
    "descending": lambda x: torch.sort(experts(x), descending=True),
    "stable": lambda x: torch.sort(experts(x), stable=True, dim=0, descending=True),
    "of 32 bits": lambda x: experts(x).int().sort(stable=True),
    "of rows": lambda x: experts(x).expand(2, -1).sort(-1),
    "along the first": lambda x: experts(x)[:, None].expand(-1, 2).sort(0),
    "values alone": lambda x: (experts(x).sort()[0],),
}


@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize("size", [8, 256], ids=str)
def test_bytes_are_sorted(name, size):
    x = torch.randn(ROWS, size, generator=torch.Generator().manual_seed(size))
    gm = traced(SORTS[name], x)
    assert narrow_sorts(gm.graph, devices=("cpu",)) == 1
    gm.graph.lint()
    gm.recompile()
    (sort,) = [node for node in gm.graph.nodes if node.target in (aten.sort.default, aten.sort.stable)]
    assert sort.args[0].meta["val"].dtype == torch.uint8
    found, wanted = gm(x), SORTS[name](x)
    ids = experts(x)
    assert torch.equal(found[0], wanted[0]) and found[0].dtype == wanted[0].dtype
    if len(wanted) > 1:
        places = found[1].reshape(ROWS, -1)[:, 0] if found[1].shape[0] == ROWS else found[1].reshape(-1, ROWS)[0]
        values = found[0].reshape(ROWS, -1)[:, 0] if found[0].shape[0] == ROWS else found[0].reshape(-1, ROWS)[0]
        assert torch.equal(ids[places], values.long()) and torch.equal(places.sort()[0], torch.arange(ROWS))
        order = places.diff()[values.diff() == 0]
        assert (order > 0).all()  # equal elements stay in their order


KEPT = {
    "short rows": (lambda x: experts(x[:LONG]).sort(), 8),
    "more than a byte": (lambda x: experts(x).sort(), 257),
    "floats": (lambda x: x[:, 0].sort(), 8),
    "unknown": (lambda x: (experts(x) - 1).sort(), 8),
    "bytes already": (lambda x: experts(x).to(torch.uint8).sort(), 8),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_sorts_stay(name):
    function, size = KEPT[name]
    assert narrow_sorts(traced(function, torch.randn(ROWS, size)).graph, devices=("cpu",)) == 0


def test_a_cpu_sorts_what_it_is_given():
    assert narrow_sorts(traced(SORTS["sort"], torch.randn(ROWS, 8)).graph) == 0


def test_compiled_for_a_gpu():
    def function(x):
        values, places = experts(x).sort()
        return x[places] * values[:, None]

    x = torch.randn(ROWS, 8)
    torch._dynamo.reset()
    found = torch.compile(function, backend="bascule", options={"on_error": "raise", "target": "interpret"})(x)
    values, places = experts(x).sort(stable=True)
    assert torch.equal(found, x[places] * values[:, None])
