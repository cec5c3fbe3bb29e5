"""`bascule.bisect`: a model is compiled and run, a training step too; the first graph whose numbers are wrong is taken apart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import torch

from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.importer.graph import ImportedGraph
from bascule.runtime.boxed import Boxed, boxed

from ..compat.graphs.dynamo import reset
from ..compiler.autograd_graph import direction_of
from ..compiler.compile_graph import compile_graph
from ..compiler.decompositions import decompositions_for
from ..compiler.fx_passes import fx_pipeline
from ..debugging.compare_results import copy_of
from ..entry.explain import run_backward
from ..entry.looked_at import Place, looked_at
from ..errors import UserError
from ..options import Options, make_options
from ..pipelines import pipeline_for
from ..reporting.one_at_a_time import one_at_a_time
from ..reporting.raise_through_dynamo import raised_as_is
from ..targets.placement import placement_of
from ..targets.select import target_for
from .fusions import Fusion
from .graphs import Wrong, judged

STRICT = {"on_error": "raise", "cache": False, "random": "eager"}


@dataclass(frozen=True)
class Bisection:
    """Findings of `bascule.bisect`; `str()` gives the text. `graphs` are those that ran, in order, up to the first that is wrong."""

    graphs: tuple[str, ...]
    wrong: Wrong | None = None

    @property
    def match(self) -> bool:
        """Whether all numbers are as near to f64 as they may be."""
        return self.wrong is None

    @property
    def graph(self) -> str | None:
        """The first graph whose numbers are not: "graph0_forward"."""
        return None if self.wrong is None else self.wrong.graph

    @property
    def culprit(self) -> str | None:
        """The pass after which they are not, or "the lowering"."""
        return None if self.wrong is None else self.wrong.culprit

    @property
    def fusion(self) -> Fusion | None:
        """The fusion of which that pass changed the numbers, where that can be told."""
        return None if self.wrong is None else self.wrong.fusion

    def __str__(self) -> str:
        if self.wrong is None:
            return f"match: {', '.join(self.graphs) or 'no graph ran'}"
        wrong = self.wrong
        lines = [
            f"mismatch in {wrong.graph}, after '{wrong.culprit}'",
            *(f"  {line}" for line in wrong.outcome.differences),
        ]
        if wrong.fusion is not None:
            lines.append(str(wrong.fusion))
        if wrong.found is not None:
            lines.append(wrong.found.told())
        return "\n".join(lines)


@one_at_a_time
def bisect(
    model: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Bisection:
    """Compiles `model`, runs it once on `inputs`, and names what first leaves the numbers that eager in f64 allows: graph, pass and fusion.

    Each graph of the run is held against its ATen operators in double precision, with the inputs that it has there: an element may be as far
    away as rounding was measured to move it (`dialect/interpreter/reference.py`). Where outputs require gradients, the backward of their sum
    runs too, and gradients of leaves are not touched. `options` and `dynamic` are those of `torch.compile`; random numbers are those of
    PyTorch's operators. Raises as compiling would, and `InterpreterError` for a graph that the reference interpreter cannot run.
    """
    if not callable(model):
        raise UserError(f"takes a function or a module, got {model!r}", location="bisect")
    if not isinstance(inputs, list | tuple):
        raise UserError("takes a list or a tuple of inputs", location="bisect")
    with raised_as_is():
        checked = make_options(None, {**STRICT, **(options or {})})
    ran, wrong, numbers = list[str](), list[Wrong](), count()

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        name = f"graph{next(numbers)}"
        passes = fx_pipeline(name, checked)

        def compiler(gm: torch.fx.GraphModule, given: Sequence[Any], **directions: Any) -> Boxed:
            look = partial(_looked, checked, direction_of(**directions), ran, wrong)
            return looked_at(f"{name}_{direction_of(**directions)}", "torch", checked, gm, given, look)

        return compile_with_autograd(gm, example_inputs, compiler, decompositions_for(checked), passes=passes)

    reset()
    run_backward(torch.compile(model, backend=backend, dynamic=dynamic)(*inputs))
    reset()
    return Bisection(tuple(ran), wrong[0] if wrong else None)


def _looked(
    options: Options,
    direction: str,
    ran: list[str],
    wrong: list[Wrong],
    place: Place,
    imported: ImportedGraph,
    gm: torch.fx.GraphModule,
) -> Boxed:
    """The compiled graph, whose calls are judged until one is wrong."""
    pristine = copy_of(gm)
    machine = target_for(options.target, placement_of(gm)).machine
    fakes = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    call = compile_graph(gm, fakes, options, name=place.title, direction=direction).finished()
    pipeline = str(pipeline_for(options, machine))

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        if not wrong:
            ran.append(place.title)
            with raised_as_is():
                found = judged(place.title, imported, pristine, call, args, pipeline)
            wrong.extend([] if found is None else [found])
        return call(args)

    return run
