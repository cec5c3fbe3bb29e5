"""Passes of the user's own over FX graphs, at the places and under the names where Inductor takes them.

`pre_grad_custom_pass` sees the graph of PyTorch functions that Dynamo captured; `joint_custom_pre_pass` and `joint_custom_post_pass` the joint
graph of ATen operators before it is split (or the inference graph); `post_grad_custom_pre_pass` and `post_grad_custom_post_pass` each graph that
is compiled, in this order. Each is called with a `torch.fx.Graph` and changes it in place.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch.fx import Graph, GraphModule

from bascule.frontend.aot import min_cut
from bascule.frontend.node_values import complete_values

from .errors import UserError
from .options import JOINT, PRE_GRAD, Options

GraphPass = Callable[[Graph], None]


def apply(gm: GraphModule, options: Options, names: tuple[str, ...]) -> None:
    """Runs the passes that `options` has under `names` on `gm`. Raises `UserError` where a pass leaves a graph that is not valid."""
    passes = [(name, getattr(options, name)) for name in names if getattr(options, name) is not None]
    for name, function in passes:
        function(gm.graph)
        try:
            gm.graph.lint()
        except RuntimeError as error:
            raise UserError(f"left a graph that is not valid: {error}", location=f"option '{name}'") from error
        if name not in PRE_GRAD:
            complete_values(gm.graph)
    if passes:
        gm.recompile()


def partition(options: Options) -> Callable[..., Any]:
    """The min-cut partitioner, after the passes over the joint graph. It leaves dropouts as they are where eager's masks are asked for."""
    cut = min_cut if options.random == "philox" else partial(min_cut, seeded=False)

    def split(joint: GraphModule, inputs: Any, **kwargs: Any) -> Any:
        apply(joint, options, JOINT)
        return cut(joint, inputs, **kwargs)

    return split if any(getattr(options, name) is not None for name in JOINT) else cut
