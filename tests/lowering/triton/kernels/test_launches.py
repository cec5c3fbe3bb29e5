"""How many kernels graphs are on a GPU, where a launch more would cost, and that what a program may be made of compiles."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from bascule.dialect.ir import context
from bascule.dialect.ir.functions import graph_functions
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.conversion.context import Asked
from bascule.frontend.conversion.rewriter import convert_module
from bascule.frontend.importer.graph import import_graph
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from bascule.options import Options
from bascule.pipelines import pipeline_for
from tests.lowering.triton.check import check, cubins


def launches(function: Callable, *shapes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> list[str]:
    """The kernels that `function` calls, by name."""
    with FakeTensorMode():
        inputs = [torch.empty(shape, dtype=dtype) for shape in shapes]
    gm = make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)
    fake = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    module = import_graph(gm, fake, context=context()).module
    convert_module(module, Asked("error"))
    pipeline_for(Options(), {"target": "cuda"}).run(module)
    with module.context:
        (graph,) = graph_functions(module)
        calls = [view.operation for view in graph.regions[0].blocks[0].operations if view.operation.name == "func.call"]
        return [call.attributes["callee"].value for call in calls]


@pytest.mark.parametrize("shape", [(64, 1024), (64, 1 << 20), (40, 100000), (4096, 131072)])
def test_a_softmax_is_one_launch(shape):
    assert len(launches(lambda x: F.softmax(x.float(), -1), shape)) == 1


def test_few_long_rows_are_cut_where_they_are_read_once():
    assert len(launches(lambda x: x.float().sum(-1), (64, 1 << 20))) == 2


def test_many_counts_are_a_launch_or_two():
    """An optimizer's: 128 numbers counted up, and what is made of them."""

    def step(*counts):
        return [*((count + 1).rsqrt() for count in counts), *(count + 1 for count in counts)]

    assert len(launches(step, *[()] * 128, dtype=torch.float32)) <= 4


def test_many_counts():
    counts = [torch.rand(()) + n for n in range(70)]
    check(lambda *counts: [(count + 1).rsqrt() for count in counts], *counts)


def test_running_sums_of_columns_compile():
    assert cubins(lambda x: x.cumsum(0), torch.empty(8192, 256, device="meta"))
