"""Graphs that hold their weights, as `freezing` hands them to its passes."""

from collections.abc import Callable
from typing import Any

import torch
from bascule.frontend.aot.decompositions import decomposition_table
from bascule.frontend.freezing.weight_inputs import with_constants
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx


def held(function: Callable[..., Any], x: torch.Tensor, *weights: torch.Tensor) -> GraphModule:
    """`function` of `x` and `weights` as a graph of `x` that holds the weights."""
    gm = make_fx(function, decomposition_table(), tracing_mode="fake")(x, *weights)
    return with_constants(gm, dict(enumerate(weights, 1)))


def calls(gm: GraphModule) -> list[str]:
    return [str(node.target).removeprefix("aten.") for node in gm.graph.nodes if node.op == "call_function"]


def same(gm: GraphModule, function: Callable[..., Any], x: torch.Tensor, *weights: torch.Tensor) -> None:
    """The graph, after a pass, computes what `function` does."""
    gm.graph.lint()
    gm.recompile()
    torch.testing.assert_close(gm(x), function(x, *weights))
