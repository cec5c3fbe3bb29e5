"""One compiled graph in a call: whether its numbers are what eager in f64 allows; if not, the pass and the fusion that made them others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from bascule.frontend.importer.graph import ImportedGraph
from bascule.runtime.boxed import Boxed

from ..debugging.accuracy import in_double
from ..debugging.compare_results import copied
from ..debugging.run_program import returned
from ..dialect.interpreter import Comparison, Reference, arguments_of
from ..dialect.mlir import ir
from ..dialect.passes import Pipeline
from ..replay.saved_inputs import on_the_cpu
from ..tools.bisect import Found, first_difference
from ..tools.checking import Check, copy_of, passes, tensors
from .fusions import SLACK, Fusion, wrong_fusion

CONVERSION = "torch-to-bascule"
LOWERING = "the lowering"  # where all passes are right, and machine code is not


@dataclass(frozen=True)
class Wrong:
    """`outcome`: how the results of the compiled graph differ; `found`: the pass, None where that is the conversion from ATen or the lowering,
    which `culprit` names."""

    graph: str
    culprit: str
    outcome: Comparison
    found: Found | None = None
    fusion: Fusion | None = None


def judged(
    title: str, imported: ImportedGraph, gm: GraphModule, call: Boxed, args: Sequence[Any], pipeline: str
) -> Wrong | None:
    """The fault of the compiled graph `call` in a call with `args`, which stay as they are; None if nothing is. `pipeline`: its passes."""
    values = [on_the_cpu(x) if isinstance(x, torch.Tensor) else x for x in args]
    conversion = passes(imported.module, pipeline).stages[0].spelling()
    given = arguments_of(imported.module, values, imported.constants)
    check = Check(imported.module, inputs=given, conversion=conversion, slack=SLACK)
    count, total = len(check.results), len(check.reference.own)
    seen = check.reference.select([*returned(imported.module, list(range(count))), *range(count, total)])
    torch.manual_seed(check.seed)
    eager, left = in_double(gm, values)
    truth = [*(x for x in eager if isinstance(x, torch.Tensor)), *_left(imported, left)]
    outcome = Reference(truth, truth, seen.allowed).compare(seen.precise)
    if not outcome.match:
        return Wrong(title, CONVERSION, outcome)
    own = [copied(x) for x in args]
    torch.manual_seed(check.seed)
    outputs = [x for x in call(list(own)) if isinstance(x, torch.Tensor)]
    outcome = seen.compare([on_the_cpu(x) for x in (*outputs, *_left(imported, own))])
    if outcome.match:
        return None
    found = first_difference(check, imported.module, pipeline)
    if found.outcome is None:
        return Wrong(title, LOWERING, outcome)
    return Wrong(title, found.name, outcome, found, _fusion(found, check, imported.module, pipeline))


def _left(imported: ImportedGraph, values: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among the function's arguments, as a run has left them."""
    return tensors(arguments_of(imported.module, values, imported.constants))


def _fusion(found: Found, check: Check, module: ir.Module, pipeline: str) -> Fusion | None:
    """Where the pass changed the numbers: its IR is made again, with the user's lines."""
    if found.name == CONVERSION:
        return None
    stages = passes(module, pipeline).stages
    before = copy_of(module)
    Pipeline(stages[: found.position - 1]).run(before)
    after = copy_of(before)
    Pipeline(stages[found.position - 1 : found.position]).run(after)
    with module.context:
        return wrong_fusion(before, after, check.inputs)
