"""The forward, backward or inference graph of AOTAutograd's: the user's passes, the compiler, CUDA graphs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import torch

from bascule.frontend.aot.compile_autograd import mark_visible_outputs, report_output_strides
from bascule.frontend.aot_runtime.tangents import tangents_of, with_memory
from bascule.frontend.freezing.weight_inputs import WeightInputs
from bascule.frontend.fx.node_values import complete_inserted
from bascule.frontend.fx.operator_effects import begun_in
from bascule.frontend.fx_pipeline.pipeline import FxPipeline
from bascule.frontend.torch_patches.frame_room import with_room
from bascule.runtime.boxed import Boxed, boxed
from bascule.runtime.cudagraphs.recording import Direction
from bascule.runtime.modules.rank_states import compiling

from ..compat.graphs.dynamo import config
from ..compiled.compiled_graph import CompiledGraph, NotSerializable
from ..compiled.deferred import once_finished
from ..options import Options
from ..reporting.compile_record import Record
from ..reporting.logs import cudagraphs, timed
from ..reporting.raise_through_dynamo import raised_as_is
from ..tiers.changeover import Tiers, Told
from .compile_graph import compile_graph
from .freezing import Compiler, freezing
from .fx_passes import fx_pipeline
from .gc_pause import collections_paused
from .prepare_graph import prepared

if TYPE_CHECKING:
    from ..cudagraphs.cudagraphify import Replay, Replays


class Shared(TypedDict):
    """The state that the graphs of one name share: see `compile_autograd_graph`."""

    replays: "Replays | None"
    weights: WeightInputs | None
    passes: FxPipeline
    tiers: Tiers | None


# Passes join collectives and begin them earlier: a rank that runs operators would not begin what the others begin.
AT_ONCE = "it was compiled before its first call: it begins {} collectives, in the order of its kernels, which all ranks must share"
UNSETTLED = NotSerializable("kernels that are compiled beside the program, to be replayed as CUDA graphs then")


def direction_of(*, is_backward: bool, is_inference: bool) -> Direction:
    return "backward" if is_backward else "inference" if is_inference else "forward"


@with_room
def compile_autograd_graph(
    name: str,
    options: Options,
    on_record: Callable[[Record], None] | None,
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    is_backward: bool,
    is_inference: bool,
    joint: bool = True,
    replays: "Replays | None" = None,
    static_inputs: Sequence[int] | None = None,
    weights: WeightInputs | None = None,
    passes: FxPipeline | None = None,
    tiers: Tiers | None = None,
) -> CompiledGraph:
    """Compiles the forward, backward or inference graph of what is called `name`.

    `joint`: whether the passes over the joint graph, which an inference graph has not met yet, run on it. `replays`: the CUDA graphs of
    all that `name` has; `static_inputs`: numbers of the inputs that stay where they are, if PyTorch's context does not tell;
    `weights`: which inputs are weights, to be frozen if the options ask for it; `passes`: ours over the FX graphs of `name`; `tiers`: of all the
    graphs of `name`, if the options ask for them.
    """
    passes = passes or fx_pipeline(name, options)
    direction = direction_of(is_backward=is_backward, is_inference=is_inference)
    if config.repro_after == "aot":  # a graph that fails is to be known here
        options = replace(options, tiers=False)
    called = f"{name}_{direction}"
    with raised_as_is(), collections_paused(), timed(f"compile_{direction}", whole=True), compiling(called):
        complete_inserted(gm.graph, example_inputs)
        replay = replays.direction(gm, direction, static_inputs) if replays is not None else None
        if replays is not None and options.cudagraphs and replay is None:
            cudagraphs.debug("%s_%s: not replayed: %s", name, direction, replays.unreplayed(gm))
        gm = prepared(gm, options, called, passes, is_backward=is_backward, is_inference=is_inference, joint=joint)

        def compile_(
            gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options = options
        ) -> CompiledGraph:
            if is_inference and passes.run("final", gm):  # not before: freezing folds into biases
                gm.recompile()
            return _compiled(gm, example_inputs, options, called, direction, on_record, replay, tiers)

        if not (is_backward or is_inference):
            mark_visible_outputs(gm)
        compiler: Compiler = compile_
        if config.repro_after == "aot":
            from ..debugging.minifier import minifying

            strictly = partial(compile_, options=replace(options, on_error="raise"))
            compiler = partial(minifying, strictly, compile_, options=options, direction=direction)
        if options.freezing and not is_backward:
            none = WeightInputs(0, frozenset())
            compiler = freezing(called, weights or none, compiler, passes, is_inference=is_inference)
        compiled = compiler(gm, example_inputs)
        if not is_backward:
            report_output_strides(gm)
        if options.profiler_mark_wrapper_call:
            compiled = CompiledGraph(_marked(compiled.call, f"bascule_{called}"))
        return _given_memory(compiled, tangents_of(gm.graph)) if is_backward else compiled


def _compiled(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    name: str,
    direction: Direction,
    on_record: Callable[[Record], None] | None,
    replay: "Replay | None",
    tiers: Tiers | None,
) -> CompiledGraph:
    """`gm` compiled; with the option `tiers` run by operators until that is finished. An inference, which is no pair, has tiers of its own."""
    told = Told(on_record) if options.tiers else None
    begun = number_of_collectives(gm) if options.tiers else 0
    if begun > 1:
        options = replace(options, tiers=False)
    how: dict[str, Any] = {"name": name, "on_record": told or on_record, "replay": replay, "direction": direction}
    graph = compile_graph(gm, example_inputs, options, **how)
    if replay is not None:
        unsettled = options.tiers and graph.finish is not None and not isinstance(graph.serialized, NotSerializable)
        graph = once_finished(replace(graph, serialized=UNSETTLED) if unsettled else graph, replay.finished)
    if told is None:
        return graph
    shared = Tiers() if direction == "inference" or tiers is None else tiers
    return shared.of(graph, gm, name, direction, told, None if begun < 2 else AT_ONCE.format(begun))


def number_of_collectives(gm: torch.fx.GraphModule) -> int:
    """How many collectives `gm` begins, the graphs inside of it too."""
    return sum(len(begun_in(part.graph)) for part in gm.modules() if isinstance(part, torch.fx.GraphModule))


def _marked(call: Boxed, name: str) -> Boxed:
    """`call` as a range of the profiler's."""

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        with torch.profiler.record_function(name):
            return call(args)

    return run


def _given_memory(graph: CompiledGraph, tangents: Sequence[int]) -> CompiledGraph:
    serialized = graph.serialized
    if not isinstance(serialized, NotSerializable):
        serialized = replace(serialized, tangents=tangents)
    finish = None if graph.finish is None else lambda: with_memory(graph.finished(), tangents)
    return replace(graph, call=with_memory(graph.call, tangents), serialized=serialized, finish=finish)
