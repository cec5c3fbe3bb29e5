"""The graphs that the compiler compiles, split where it splits them, each given at a stage to who wants to look at it."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import torch

from bascule.frontend.fx.trace_context import compile_at_hand
from bascule.frontend.importer.graph import ImportedGraph, import_graph
from bascule.runtime.boxed import Boxed
from bascule.runtime.cudagraphs.recording import Direction

from ..compiled.compiled_graph import CompiledGraph
from ..compiler.whole_or_split import whole_or_split
from ..dialect.ir import context
from ..dialect.steering.asking import steered_by
from ..options import Options
from ..pipelines import up_to
from ..reporting.compile_record import Record
from ..reporting.module_identity import identify

# (the graph's name, the stage, the graph there and as PyTorch has it) -> what runs it
Look = Callable[[str, str, ImportedGraph, torch.fx.GraphModule], Boxed]


def looked_at(title: str, stage: str, options: Options, gm: Any, inputs: Sequence[Any], look: Look) -> Boxed:
    """Applies `look` to `gm`, or to its subgraphs where the compiler splits it."""

    def whole(gm: torch.fx.GraphModule, inputs: Sequence[Any], title: str) -> Boxed:
        imported = import_graph(gm, inputs, context=context())
        identify(imported.module, title, next(d for d in get_args(Direction) if f"_{d}" in title), compile_at_hand())
        with steered_by(options.hooks):
            up_to(stage, options).run(imported.module, verify=True)
        return look(title, stage, imported, gm)

    def part(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> tuple[CompiledGraph, Record]:
        run = whole(gm, inputs, f"{title}_{suffix}")
        return CompiledGraph(run), Record(f"{title}_{suffix}", options, len(gm.graph.nodes))

    def body(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> CompiledGraph:
        return CompiledGraph(looked_at(f"{title}_{suffix}", stage, options, gm, inputs, look))

    record = Record(title, options, len(gm.graph.nodes))
    compiled, _ = whole_or_split(gm, options, record, lambda: CompiledGraph(whole(gm, inputs, title)), part, body)
    return compiled.call
