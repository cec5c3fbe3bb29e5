"""Graphs written down as Python files, which `dumped_graphs` runs again.

A file has a function `graph`, with the graph's constants, and `example_inputs`: tensors of the sizes, strides and dtypes, or those that were
saved beside it. `python FILE` compiles the graph again and compares with its operators.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from bascule.runtime.cudagraphs.recording import Direction

from ..compat.tensors.fake_tensors import unset_fake_temporarily
from ..compat.tensors.pytree import tree_leaves
from ..dialect.user_classes import specification
from ..options import Options
from ..reporting.dump_files import written
from .compare_results import copied
from .fx_source import large_constants, source_of_graph
from .symbol_values import decided_by_data, stood_for

SAVED_INPUTS = """

def example_inputs():
    return [saved.get(number, value) for number, value in enumerate(inputs_of())]
"""
UNWRITTEN = ("on_error", "cache", "freezing", "print_fx_passes", "hooks")

RUN = """

if __name__ == "__main__":
    from bascule.entry.run_reproducer import replay

    replay(__file__, {arguments})
"""


def write_graph(
    path: Path,
    gm: torch.fx.GraphModule,
    direction: Direction,
    options: Options,
    called_with: Sequence[Any] | None = None,
    data: bool = False,
) -> None:
    """Writes `gm` to `path`, with the `options` to compile it with again, or warns that it cannot be written.

    `called_with`: inputs of a call. With `data` all are saved beside it (`.pt`), and all constants, else those whose elements decide sizes.
    """
    inputs = gm.graph.find_nodes(op="placeholder")
    known = {} if called_with is None else stood_for([node.meta.get("val") for node in inputs], called_with)
    kept = {} if called_with is None else dict(enumerate(called_with))
    constants = dict(large_constants(gm))
    if not data:
        deciding = _deciding(gm)
        kept = {number: value for number, value in kept.items() if inputs[number] in deciding}
        names = {node.target for node in deciding if node.op == "get_attr"}
        constants = {name: value for name, value in constants.items() if name in names}
    saved: dict[Any, Any] = {**kept, **constants}
    text = source_of_graph(gm, known, saved)
    if saved:
        values = BytesIO()  # not the file: where it cannot be written, torch's writer raises what is no OSError
        with unset_fake_temporarily():
            torch.save({name: copied(value) for name, value in saved.items()}, values)
        if not written(path.with_suffix(".pt"), values.getvalue()):
            return
    if kept:
        text = text[: text.index("\n\ndef example_inputs")] + SAVED_INPUTS
    arguments = [repr(_changed(options)), f"direction={direction!r}", *_of_the_user(options)]
    written(path, text + RUN.format(arguments=", ".join(arguments)))


def _of_the_user(options: Options) -> Iterator[str]:
    """Arguments of `replay`: the passes from outside that the pipeline names, and hooks."""
    from ..dialect.failures.reproducers import specs
    from ..dialect.passes import Pipeline

    if options.pipeline is not None and (found := specs(Pipeline.parse(options.pipeline).stages)):
        yield f"load_pass={found!r}"
    if options.hooks is not None:
        yield f"hooks={specification(type(options.hooks))!r}"


def _changed(options: Options) -> dict[str, Any]:
    """The options that differ from their defaults, but those that say what becomes of failures, and what is done to a graph before it is
    written."""
    values = {field.name: getattr(options, field.name) for field in fields(options) if field.name not in UNWRITTEN}
    defaults = Options()
    return {name: x for name, x in values.items() if x != getattr(defaults, name) and not callable(x)}


def deciding_inputs(gm: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The inputs from which sizes are computed, or indices and masks that have to fit such sizes; none where only sizes decide sizes."""
    return {node for node in _deciding(gm) if node.op == "placeholder"}


def _deciding(gm: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """These inputs, and such constants."""
    deciding: set[torch.fx.Node] = set()
    for node in reversed(gm.graph.nodes):
        if node in deciding:
            deciding.update(node.all_input_nodes)
            continue
        given = {symbol for x in node.all_input_nodes for symbol in _decided(x)}
        made = _decided(node)
        if not (given or made):
            continue
        integral = [x for x in node.all_input_nodes if _is_integral(x.meta.get("val"))]
        deciding.update(integral if integral or made <= given else node.all_input_nodes)
    return {node for node in deciding if node.op in ("placeholder", "get_attr")}


def _decided(node: torch.fx.Node) -> set[Any]:
    return {symbol for value in tree_leaves(node.meta.get("val")) for symbol in decided_by_data(value)}


def _is_integral(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex())
