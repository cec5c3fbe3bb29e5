"""The partitioner of a step that has a memory budget."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch.fx import GraphModule

from bascule.frontend.fx.graph_ends import NOTED
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.frontend.partitioner.joint_splits import Pair, Splits
from bascule.frontend.partitioner.memory_budget import Search
from bascule.frontend.partitioner.min_cut import min_cut
from bascule.runtime.modules.host_copies import register_fake

from ..compiler.custom_passes import partitioner
from ..compiler.planned_programs import leave
from ..cudagraphs.pool_size import RESERVED
from ..dialect.remarks.record import NOTE, Place, Remark
from ..options import Options, without_budget
from ..reporting.raise_through_dynamo import raised_as_is
from .host_link import host_link
from .step_peak import StepPeak, step_peak


def partitioner_of(options: Options, passes: FxPipeline) -> Callable[..., Pair]:
    """The partitioner that `options` ask for: min-cut, the user's, or one that keeps their memory budget and leaves a note in the forward."""
    if options.memory_budget is None:
        return partitioner(options, passes)
    return partitioner(options, passes, partial(min_cut, passes=passes, split=partial(_split, options)))


def _split(options: Options, joint: GraphModule, inputs: Any, **kwargs: Any) -> Pair:
    assert options.memory_budget is not None
    with raised_as_is():
        search = search_of(options, joint, inputs, kwargs)
        outcome = search.within(options.memory_budget)
        forward, backward = search.pair(outcome.choice)
    if outcome.peak.measured is not None:
        leave(outcome.peak.measured.programs)
        if outcome.peak.measured.reserved:
            forward.graph.output_node().meta[RESERVED] = outcome.peak.measured.reserved
    forward.graph.output_node().meta[NOTED] = Remark("memory-budget", NOTE, "", str(outcome), Place("training step"))
    return forward, backward


def search_of(options: Options, joint: GraphModule, inputs: Any, how: dict[str, Any]) -> Search[StepPeak]:
    """A search of what `joint` saves with the budget of `options`."""

    def measure(options: Options, forward: GraphModule, backward: GraphModule) -> StepPeak | None:
        return step_peak(
            forward, backward, how["num_fwd_outputs"], options, how.get("static_lifetime_input_indices") or ()
        )

    search = Search(Splits(joint, inputs, how), partial(measure, options), partial(measure, without_budget(options)))
    search.precision = options.memory_budget_precision
    if options.memory_budget_host:
        register_fake()
        search.link = host_link()
    return search
