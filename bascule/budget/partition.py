"""The partitioner of a step that has a memory budget."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch.fx import GraphModule

from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.frontend.importer.graph import NOTED
from bascule.frontend.partitioner.memory_budget import Budget, Pair
from bascule.frontend.partitioner.min_cut import min_cut

from ..compiler.custom_passes import partitioner
from ..dialect.remarks.record import NOTE, Place, Remark
from ..options import Options
from ..reporting.raise_through_dynamo import raised_as_is
from .step_peak import step_peak


def partitioner_of(options: Options, passes: FxPipeline) -> Callable[..., Pair]:
    """The partitioner that `options` ask for: min-cut, the user's, or the one that keeps their memory budget, which leaves a note in the forward."""
    if options.memory_budget is None:
        return partitioner(options, passes)
    return partitioner(options, passes, partial(min_cut, passes=passes, split=partial(_split, options)))


def _split(options: Options, joint: GraphModule, inputs: Any, **kwargs: Any) -> Pair:
    def measure(options: Options, forward: GraphModule, backward: GraphModule) -> int | None:
        found = step_peak(forward, backward, kwargs["num_fwd_outputs"], options)
        return None if found is None else found.bytes

    assert options.memory_budget is not None
    without = replace(options, memory_budget=None)
    with raised_as_is():
        budget = Budget(options.memory_budget, partial(measure, options), partial(measure, without))
        (forward, backward), outcome = budget.split(joint, inputs, **kwargs)
    forward.graph.output_node().meta[NOTED] = Remark("memory-budget", NOTE, "", str(outcome), Place("training step"))
    return forward, backward
