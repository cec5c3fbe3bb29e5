"""The backend: what `torch.compile(f, backend="bascule")` calls with each graph that Dynamo captured.

The compiler is imported when something has to be compiled: where the disk cache has it all, that would be most of the time of a first call.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any

import torch

from bascule.frontend.aot.compile_autograd import compile_with_autograd
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.frontend.torch_patches.frame_room import with_room
from bascule.runtime.modules.rank_states import compiling

from ..aliasing.inference_tensors import outside_as_eager
from ..aliasing.untracked_writes import run_as_eager
from ..compat.graphs.aot_autograd import config as functorch_config
from ..compiled.compiled_graph import NotSerializable
from ..compiled.output_code import CompiledFxGraph
from ..compiler.custom_passes import apply, partitioner
from ..compiler.fx_passes import fx_pipeline, told_of_passes
from ..compiler.gc_pause import collections_paused
from ..options import PRE_GRAD, Options, options_for
from ..reporting.compile_record import Record
from ..reporting.counters import count as counted
from ..reporting.logs import trace_captured
from ..reporting.raise_through_dynamo import raised_as_is

if TYPE_CHECKING:
    from ..cudagraphs.cudagraphify import Replays

_numbers = count()


def bascule(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles `gm`, a graph of PyTorch functions as Dynamo makes it, for inputs like `example_inputs` (fake tensors,
    numbers).

    `mode` and `options` are those of `torch.compile`: see `bascule.list_modes()`, `bascule.list_options()`. Returns a
    function of the graph's inputs. Raises `UserError` for wrong options and `BasculeError` where `fallback` or
    `on_error` ask for it.
    """
    return compile_dynamo_graph(gm, example_inputs, mode=mode, options=options)


@with_room
def compile_dynamo_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured, as `bascule` does; `on_record` is given the record of each graph that was compiled."""
    with raised_as_is(), collections_paused():
        checked = options_for(mode, options)
        if checked.pipeline is not None:
            from ..pipelines import pipeline_for

            pipeline_for(checked)  # a pipeline that does not parse is refused before anything is traced
        name = f"graph{next(_numbers)}"
        with compiling(name):
            return _compiled(gm, example_inputs, checked, on_record, name)


def _compiled(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    checked: Options,
    on_record: Callable[[Record], None] | None,
    name: str,
) -> Callable[..., Any]:
    """Compiles what is checked, and called `name`."""
    trace_captured(name, gm)
    if checked.pre_grad_custom_pass is not None:
        apply(gm, checked, PRE_GRAD)
    if getattr(functorch_config, "bundled_autograd_cache", False):  # `aot_compile` of what `torch.compile` gave
        from .saved_function import compile_to_save

        return compile_to_save(gm, example_inputs, checked, on_record, name, partial(_decompositions, checked))
    if run_as_eager(gm, example_inputs, checked, name, on_record):
        return gm.forward
    return outside_as_eager(gm, example_inputs, _traced(gm, example_inputs, checked, on_record, name))


def _traced(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    checked: Options,
    on_record: Callable[[Record], None] | None,
    name: str,
) -> Callable[..., Any]:
    """Compiles by a trace of AOTAutograd's, or loads what one gave."""
    passes = fx_pipeline(name, checked, captured=True)
    on_record = told_of_passes(on_record, passes, name)
    reason = _untraced(checked)
    if reason is None:
        return _compile_or_load(name, gm, example_inputs, checked, on_record, passes)
    counted("traces", f"bypass: {reason}")

    from bascule.frontend.freezing.weight_inputs import weight_inputs

    from ..compiler.autograd_graph import compile_autograd_graph
    from ..tiers.changeover import Tiers

    replays = _replays(gm, checked)
    weights = weight_inputs(gm) if checked.freezing else None
    compiler = partial(
        compile_autograd_graph,
        name,
        checked,
        on_record,
        replays=replays,
        weights=weights,
        passes=passes,
        tiers=Tiers(),
    )
    cut = _partitioner(checked, passes)
    how = {"passes": passes, "leaning": checked.internals, "backward_at_once": checked.tiers}
    return compile_with_autograd(gm, example_inputs, compiler, _decompositions(checked), cut, **how)


def _partitioner(options: Options, passes: FxPipeline) -> Callable[..., Any]:
    if options.memory_budget is None:
        return partitioner(options, passes)

    def split(*args: Any, **kwargs: Any) -> Any:
        from ..budget.partition import partitioner_of  # needs MLIR, which what is loaded from a cache does not

        return partitioner_of(options, passes)(*args, **kwargs)

    return split


def _untraced(options: Options) -> str | None:
    """Why traces are not looked up on disk; None if they are."""
    if not options.internals.trace_cache:
        return "this PyTorch was not checked" if options.trace_cache is None else "the option 'trace_cache' is off"
    from ..cache.trace_cache import unused  # leans on PyTorch's internals

    return unused(options)


def _compile_or_load(
    name: str,
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    on_record: Callable[[Record], None] | None,
    passes: FxPipeline,
) -> Callable[..., Any]:
    """Looks the trace of `gm` up on disk, and keeps it there if it had to be traced."""
    from ..cache.trace_cache import Traces

    replays = _replays(gm, options)
    traces = Traces(name, options, partial(_decompositions, options), on_record, replays)

    @cache
    def tiers() -> Any:
        from ..tiers.changeover import Tiers

        return Tiers()

    def compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **direction: Any) -> CompiledFxGraph:
        from ..compiler.autograd_graph import compile_autograd_graph

        graph = compile_autograd_graph(
            name, options, on_record, gm, example_inputs, replays=replays, passes=passes, tiers=tiers(), **direction
        )
        try:
            return CompiledFxGraph(graph, graph.entry())
        except NotSerializable as reason:
            traces.refuse(str(reason))
            return CompiledFxGraph(graph)

    how = {"passes": passes, "leaning": options.internals, "backward_at_once": options.tiers}
    return compile_with_autograd(gm, example_inputs, compiler, {}, _partitioner(options, passes), traces, **how)


def _replays(gm: torch.fx.GraphModule, options: Options) -> "Replays | None":
    """The CUDA graphs of what `gm` becomes, if there are to be any."""
    if not options.cudagraphs:
        return None
    from ..cudagraphs.cudagraphify import Replays

    return Replays.of(gm, options)


def _decompositions(options: Options) -> dict[Any, Callable]:
    from ..compiler.decompositions import decompositions_for

    return decompositions_for(options)
