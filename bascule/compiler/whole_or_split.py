"""Whether a graph is compiled whole, or split at operators that run by themselves: for a call at once, and for a package."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from bascule.frontend.graph_split.returned_views import returned_views

from ..compiled.compiled_graph import CompiledGraph
from ..errors import UnsupportedError
from ..options import Options
from ..reporting.compile_record import Record
from ..targets.placement import host_work, meta_work

if TYPE_CHECKING:  # few graphs are split or replayed
    from ..cudagraphs.cudagraphify import Replay
    from .compile_split import CompileBody, CompileSubgraph


def whole_or_split(
    gm: torch.fx.GraphModule,
    options: Options,
    record: Record,
    compile_whole: Callable[[], CompiledGraph],
    compile_subgraph: "CompileSubgraph",
    compile_body: "CompileBody",
    replay: "Replay | None" = None,
) -> tuple[CompiledGraph, list[Record]]:
    """`gm` compiled, and the records of its subgraphs if it was split; `replay` replays those as CUDA graphs, not yet a whole graph.

    It is split at operators that are known to run by themselves, and, where `fallback` allows it, at one that the compiler refuses. Raises what
    `compile_whole` does for a graph that is not split.
    """
    alone = {**returned_views(gm.graph), **host_work(gm.graph, replayed=replay is not None), **meta_work(gm.graph)}
    alone |= {} if replay is None else replay.apart(gm)

    def split(error: UnsupportedError | None) -> tuple[CompiledGraph, list[Record]] | None:
        from .compile_split import as_it_is, compile_split

        finish = as_it_is if replay is None else replay.of
        return compile_split(gm, record, error, compile_subgraph, compile_body, alone, finish)

    try:
        return (split(None) if alone else None) or (compile_whole(), [])
    except UnsupportedError as error:
        if options.fallback == "error" or (found := split(error)) is None:
            raise
        return found
