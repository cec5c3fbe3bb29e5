"""The backend: what `torch.compile(f, backend="bascule")` calls with each graph that Dynamo captured."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import torch

from bascule.frontend.aot import compile_with_autograd, mark_visible_outputs, report_output_strides
from bascule.frontend.decompositions import decomposition_table
from bascule.runtime.replay import Direction

from .compile import compile_graph
from .dynamo_errors import raised_as_is
from .garbage import collections_paused
from .graph_passes import JOINT, POST_GRAD, PRE_GRAD, apply, partition
from .minifier import minifying
from .options import Options, make_options
from .pipelines import pipeline_for
from .record import Record
from .replay import Replays, forget_recordings

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


def compile_dynamo_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> Callable[..., Any]:
    """What `bascule` does; `on_record` is given the record of each graph that was compiled."""
    with raised_as_is(), collections_paused():
        checked = make_options(mode, options)
        pipeline_for(checked)  # a pipeline that does not parse is refused before anything is traced
        replays = Replays.of(gm, checked)
        compiler = partial(compile_direction, f"graph{next(_numbers)}", checked, on_record, replays=replays)
        apply(gm, checked, PRE_GRAD)
        return compile_with_autograd(gm, example_inputs, compiler, decomposition_table(), partition(checked))


def compile_direction(
    name: str,
    options: Options,
    on_record: Callable[[Record], None] | None,
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    is_backward: bool,
    is_inference: bool,
    joint: bool = True,
    replays: Replays | None = None,
    static_inputs: Sequence[int] | None = None,
) -> Callable[[list[Any]], Sequence[Any]]:
    """Compiles the forward, backward or inference graph of what is called `name`; returns a boxed function.

    `joint`: whether the passes over the joint graph, which an inference graph has not met yet, run on it. `replays`: the CUDA graphs of all
    directions of `name`; `static_inputs`: numbers of the inputs that stay where they are, if PyTorch's context does not tell.
    """
    direction: Direction = "backward" if is_backward else "inference" if is_inference else "forward"
    with raised_as_is(), collections_paused():
        replay = replays.direction(gm, direction, static_inputs) if replays is not None else None
        if is_inference and joint:
            apply(gm, options, JOINT)
        apply(gm, options, POST_GRAD)

        def compile_(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Sequence[Any]]:
            called = f"{name}_{direction}"
            return compile_graph(gm, example_inputs, options, name=called, on_record=on_record, replay=replay)

        if not (is_backward or is_inference):
            mark_visible_outputs(gm)
        compiled = minifying(compile_, gm, example_inputs, options)
        if not is_backward:
            report_output_strides(gm)
        return compiled if replay is None else replay.finished(compiled)


bascule.reset = forget_recordings  # type: ignore[attr-defined]  # `torch.compiler.reset` calls it
