"""A graph of AOTAutograd's on its way to the compiler: the user's passes, ours that add checks, the log."""

from torch.fx import GraphModule

from bascule.frontend.fx_pipeline.pipeline import FxPipeline

from ..options import JOINT, POST_GRAD, Options
from ..reporting.logs import trace_compiled
from .custom_passes import apply, made_functional


def prepared(
    gm: GraphModule,
    options: Options,
    name: str,
    passes: FxPipeline,
    *,
    is_backward: bool,
    is_inference: bool,
    joint: bool,
) -> GraphModule:
    """`gm`, or the graph that a pass of the user's has made of it, functional and with its checks.

    `joint`: whether the passes over the joint graph, which an inference graph has not met yet, run on it.
    """
    if is_inference and joint:
        apply(gm, options, JOINT, is_inference=True)
    if apply(gm, options, POST_GRAD, is_inference=is_inference):
        gm = made_functional(gm)
    if not is_backward:  # the forward has checked its indices
        passes.run("checks", gm)
    trace_compiled(name, gm)
    return gm
