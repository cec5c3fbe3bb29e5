"""The graphs that the compiler compiles, split where it splits them, each given at a stage to who wants to look at it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch

from bascule.frontend.fx.trace_context import compile_at_hand
from bascule.frontend.importer.graph import ImportedGraph, import_graph
from bascule.runtime.boxed import Boxed
from bascule.runtime.cudagraphs.recording import Direction

from ..compiled.compiled_graph import CompiledGraph
from ..compiler.whole_or_split import whole_or_split
from ..dialect.ir import context
from ..dialect.passes import Pipeline
from ..dialect.steering.asking import steered_by
from ..options import Options
from ..pipelines import STAGES, up_to
from ..reporting.compile_record import Record
from ..reporting.module_identity import identify


@dataclass(frozen=True)
class Place:
    """Where to look: the graph called `title` at `stage`, or after the pass of that name, to which `passes` lead."""

    title: str
    stage: str
    passes: Pipeline

    def __str__(self) -> str:
        return f"{self.title} {'at the stage' if self.stage in STAGES else 'after the pass'} '{self.stage}'"


# (where, the graph there and as PyTorch has it) -> what may run it
Look = Callable[[Place, ImportedGraph, torch.fx.GraphModule], Boxed]


def looked_at(title: str, stage: str, options: Options, gm: Any, inputs: Sequence[Any], look: Look) -> Boxed:
    """Applies `look` to `gm`, or to its subgraphs where the compiler splits it."""

    def whole(gm: torch.fx.GraphModule, inputs: Sequence[Any], title: str) -> Boxed:
        imported = import_graph(gm, inputs, context=context())
        identify(imported.module, title, next(d for d in get_args(Direction) if f"_{d}" in title), compile_at_hand())
        place = Place(title, stage, up_to(stage, options))
        with steered_by(options.hooks):
            place.passes.run(imported.module, verify=True, subject=title)
        return look(place, imported, gm)

    def part(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> tuple[CompiledGraph, Record]:
        run = whole(gm, inputs, f"{title}_{suffix}")
        return CompiledGraph(run), Record(f"{title}_{suffix}", options, len(gm.graph.nodes))

    def body(gm: torch.fx.GraphModule, inputs: Sequence[Any], suffix: str) -> CompiledGraph:
        return CompiledGraph(looked_at(f"{title}_{suffix}", stage, options, gm, inputs, look))

    record = Record(title, options, len(gm.graph.nodes))
    compiled, _ = whole_or_split(gm, options, record, lambda: CompiledGraph(whole(gm, inputs, title)), part, body)
    return compiled.call
