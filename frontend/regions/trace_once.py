"""The trace of a graph of Dynamo's in which each region that repeats is traced once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Graph, GraphModule

from bascule.compat.graphs.aot_autograd import config

from ..fx_pipeline.pipeline import FxPipeline, note

Begin = Callable[[dict[Any, Callable]], None]  # called when a trace begins, with its decompositions


@dataclass(frozen=True)
class _Begun:
    """Tells the pass of its trace. `unlike`: why the graph is traced whole, of one that was traced with regions outlined."""

    decompositions: dict[Any, Callable] = field(default_factory=dict)
    unlike: str = ""


_begun: ContextVar[_Begun] = ContextVar("trace of regions", default=_Begun())  # noqa: B039 nobody changes it


def with_regions_once(trace: Callable[[Begin], Any], gm: Any, passes: FxPipeline, enabled: bool) -> Any:
    """`trace`, with regions of `gm` outlined from when it begins until it ends; again without, where a region is called as it was not traced."""
    outlined = enabled and isinstance(gm, GraphModule) and not config.functionalize_rng_ops
    if not outlined or config.joint_custom_pass is not None:
        return trace(lambda _: None)
    from .calls import NotAlike  # leans on PyTorch's internals

    def begin(decompositions: dict[Any, Callable], unlike: str = "") -> None:
        token = _begun.set(_Begun(decompositions, unlike))
        try:
            passes.run("trace", gm)
        finally:
            _begun.reset(token)

    try:
        return trace(begin)
    except NotAlike as error:
        unlike = str(error)
    return trace(lambda decompositions: begin(decompositions, unlike))


def outline_regions(gm: GraphModule) -> int:
    """Traces layers that are equal up to their operands once."""
    from .outline import outline

    begun = _begun.get()
    if begun.unlike:
        note(f"traced again, whole: {begun.unlike}")
        return 0
    return outline(gm, begun.decompositions)


@contextmanager
def restored(gm: Any) -> Iterator[None]:
    """Whatever `outline_regions` makes of `gm` meanwhile, it has its graph again after."""
    if not isinstance(gm, GraphModule):
        yield
        return
    graph = gm.graph
    try:
        yield
    finally:
        if gm.graph is not graph:
            gm.graph = graph


def inlined(graph: Graph) -> None:
    """Puts regions where `graph`, AOTAutograd's, calls them."""
    from .inline import inline

    inline(graph)
