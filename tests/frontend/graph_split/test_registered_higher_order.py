"""Whatever higher-order operator a graph contains, it runs by itself or is refused by its name: none is met by chance."""

from dataclasses import dataclass
from operator import getitem

import pytest
import torch
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir import context
from bascule.frontend.graph_split.find_split_points import known_cuts
from bascule.frontend.importer.graph import import_graph
from bascule.frontend.importer.nodes import TAKEN, with_effects
from torch._ops import HigherOrderOperator, _higher_order_ops
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule

OPERATORS = sorted(
    (x for x in _higher_order_ops.values() if isinstance(x, HigherOrderOperator)), key=lambda x: x.name()
)
OTHERS = [x for x in OPERATORS if x not in TAKEN]


@dataclass(frozen=True)
class Choices:
    fast: bool = False


def graph_of(operator, *, ordered):
    """A graph that calls `operator`, in an order of effects if `ordered`, with a tensor, a graph and an object, and returns a tensor that it
    made."""
    body = torch.fx.Graph()
    body.output((body.placeholder("x"),))
    root = torch.nn.Module()
    root.body = GraphModule(torch.nn.Module(), body)
    graph = torch.fx.Graph()
    with FakeTensorMode():
        value, token = torch.empty(3), torch.empty(0)
    x = graph.placeholder("x")
    x.meta["val"] = value
    given = (graph.get_attr("body"), x)
    choices = graph.call_function(Choices, (), {"fast": True})  # as FX writes an argument that is a data class
    named = {"choices": choices}
    if ordered:
        first = graph.call_function(torch.ops.prims._make_token.default)
        first.meta["val"] = token
        call = graph.call_function(with_effects, (first, operator, *given), named)
        call.meta["val"] = (token, value)
    else:
        call = graph.call_function(operator, given, named)
        call.meta["val"] = (value,)
    call.meta["stack_trace"] = '  File "model.py", line 7, in forward\n    y = f(x)\n'
    result = graph.call_function(getitem, (call, -1))
    result.meta["val"] = value
    graph.output((result,))
    return GraphModule(root, graph), call, value


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("operator", OTHERS, ids=lambda x: x.name())
def test_it_is_cut_out_of_a_graph_and_no_part_takes_it(operator, ordered):
    gm, call, value = graph_of(operator, ordered=ordered)
    assert call in known_cuts(gm.graph)
    with pytest.raises(UnsupportedError, match=rf"{operator.name()} is not taken") as refusal:
        import_graph(gm, [value], context=context())
    assert refusal.value.node == call.name
