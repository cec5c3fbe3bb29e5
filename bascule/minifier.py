"""PyTorch's minifier around our compiler, as `TORCHDYNAMO_REPRO_AFTER="aot"` asks for it.

A graph that does not compile (`TORCHDYNAMO_REPRO_LEVEL` 2, the default) or, at level 4, computes other values than its operators is made
smaller as long as it still fails; what is left becomes a Python file that fails when it is run. The minifier's own script always compiles with
Inductor, so ours is written here. Names private modules of PyTorch; checked on torch 2.13.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch._dynamo import config
from torch._dynamo.debug_utils import minifier_dir
from torch._functorch.fx_minifier import minifier
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from bascule.frontend.aot import with_values
from bascule.frontend.tracing import hint_or_guess

from .errors import BasculeError
from .graph_arguments import copied, differences
from .graph_dumps import write_graph
from .options import Options

log = logging.getLogger("bascule")
Boxed = Callable[[list[Any]], Sequence[Any]]
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Boxed]


def minifying(compile_: Compile, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Boxed:
    """`compile_(gm, example_inputs)`, watched at the level that Dynamo's configuration says: a failure is minified, and then raised."""
    try:
        compiled = compile_(gm, example_inputs)
    except BasculeError:
        _minify(gm, _real(example_inputs), _fails_to_compile(compile_), options)
        raise
    if config.repro_level != 4:
        return compiled

    def run(args: list[Any]) -> Sequence[Any]:
        inputs = [copied(value) for value in args]
        outputs = compiled(args)
        if differences(gm(*[copied(value) for value in inputs]), outputs):
            _minify(gm, inputs, _computes_otherwise(compile_), options)
        return outputs

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _real(inputs: Sequence[Any]) -> list[Any]:
    """Tensors like the fake ones: random numbers, and zeros where they are integers, which may be indices."""

    def real(x: torch.Tensor) -> torch.Tensor:
        sizes, strides = tuple(map(hint_or_guess, x.shape)), tuple(map(hint_or_guess, x.stride()))
        made = torch.empty_strided(sizes, strides, dtype=x.dtype, device=x.device).zero_()
        return made.copy_(torch.randn(sizes)) if x.is_floating_point() and 0 not in strides else made

    with unset_fake_temporarily():
        return [real(x) if isinstance(x, FakeTensor) else hint_or_guess(x) for x in inputs]


def _values(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """The example inputs of a graph that the minifier has cut: its metadata is made anew."""
    for node in gm.graph.nodes:
        node.meta.pop("val", None)
    return with_values(gm, inputs)


def _fails_to_compile(compile_: Compile) -> Callable[..., bool]:
    def fails(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
        try:
            compile_(gm, _values(gm, inputs))
        except BasculeError:
            return True
        return False

    return fails


def _computes_otherwise(compile_: Compile) -> Callable[..., bool]:
    def fails(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
        wanted = gm(*[copied(value) for value in inputs])
        return bool(differences(wanted, compile_(gm, _values(gm, inputs))([copied(value) for value in inputs])))

    return fails


def _minify(gm: torch.fx.GraphModule, inputs: Sequence[Any], fails: Callable[..., bool], options: Options) -> None:
    """Writes the smallest graph found that still fails."""
    path = Path(minifier_dir()) / "repro.py"
    changed = {f.name: getattr(options, f.name) for f in fields(options) if getattr(options, f.name) != f.default}
    with config.patch(repro_after=None), unset_fake_temporarily():
        copy = torch.fx.GraphModule(gm, gm.graph.__deepcopy__({}))
        small, small_inputs = minifier(copy, list(inputs), fails, dump_state=lambda gm, inputs: None)
        _values(small, small_inputs)
        write_graph(path, small, small_inputs, {**changed, "on_error": "raise", "cache": False})
    log.error("a graph that fails was made smaller, from %d to %d nodes: python %s", _size(gm), _size(small), path)


def _size(gm: torch.fx.GraphModule) -> int:
    return len(gm.graph.nodes)
