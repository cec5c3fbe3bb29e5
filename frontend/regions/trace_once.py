"""The trace of a graph of Dynamo's in which each region that repeats is traced once."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from torch.fx import GraphModule

from bascule.compat.graphs.aot_autograd import config

from ..fx_pipeline.pipeline import FxPipeline
from .calls import NotAlike
from .outline import outline

Begin = Callable[[dict[Any, Callable]], None]  # called when a trace begins, with its decompositions

_decompositions: ContextVar[dict[Any, Callable] | None] = ContextVar("decompositions", default=None)


def with_regions_once(trace: Callable[[Begin], Any], gm: Any, passes: FxPipeline, enabled: bool) -> Any:
    """`trace`, with regions of `gm` outlined from when it begins until it ends; again without, where a region is called as it was not traced."""
    if (
        not (enabled and isinstance(gm, GraphModule))
        or config.functionalize_rng_ops
        or config.joint_custom_pass is not None
    ):
        return trace(lambda _: None)

    def begin(decompositions: dict[Any, Callable]) -> None:
        token = _decompositions.set(decompositions)
        try:
            passes.run("trace", gm)
        finally:
            _decompositions.reset(token)

    try:
        return trace(begin)
    except NotAlike:
        return trace(lambda _: None)


def outline_regions(gm: GraphModule) -> int:
    """Traces layers that are equal up to their operands once."""
    return outline(gm, _decompositions.get() or {})
