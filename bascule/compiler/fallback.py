"""Fallback of graphs that cannot be compiled, as `on_error` says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from bascule.frontend.fx.operator_effects import begun_in
from bascule.frontend.fx.trace_context import fake_mode_of, inside
from bascule.runtime.boxed import Boxed

from ..errors import FallbackWarning, UnsupportedError, UserError
from ..options import Options
from ..reporting.compile_record import Record
from ..reporting.counters import count
from ..reporting.warnings_later import warn


def run_otherwise(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, record: Record, error: Exception
) -> Boxed:
    """A boxed function that computes `gm` without Bascule, after one warning; raises `error` where the options ask
    for that."""
    unsupported = isinstance(error, UnsupportedError) or isinstance(error.__cause__, UnsupportedError)
    if options.on_error == "raise" or (unsupported and options.fallback == "error"):
        raise error
    if joins_collectives(gm, options):
        error.add_note("This rank cannot run it otherwise: it would not begin the collectives that other ranks begin.")
        raise error
    cause = error.__cause__ or error
    text = cause.message if isinstance(cause, UserError) else f"{type(cause).__name__}: {cause}"
    record.fallback = f"{record.running}: {text}"
    count("graphs", "fallback")
    count("fallbacks", record.fallback)
    runner = {"aten": "its ATen operators, one by one", "inductor": "Inductor"}[options.on_error]
    warn(f"{record.name} was not compiled and runs as {runner}: {error}", FallbackWarning, stacklevel=2)
    if options.on_error == "inductor":
        return _compile_with_inductor(gm, example_inputs, is_backward=record.name.endswith("backward"))
    from ..tiers.operators import as_operators

    return as_operators(gm, replace(options, random="eager"), torch.device("cpu"))


def joins_collectives(gm: torch.fx.GraphModule, options: Options) -> bool:
    """Whether passes may change which collectives a graph begins, or their order."""
    from ..pipelines import DEFAULT  # brings MLIR, which a graph from the cache does without

    passes = options.pipeline or ",".join(DEFAULT)
    return len(begun_in(gm.graph)) > 1 and any(name in passes for name in ("bucket-collectives", "prefetch-gathers"))


def _compile_with_inductor(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *, is_backward: bool) -> Boxed:
    """`gm`, a functional graph of ATen operators, compiled by Inductor.

    It is traced again, with Inductor's own decompositions: Inductor does not take operators that these would have
    removed.
    """
    # Importing Inductor takes about a second, which only this path should cost.
    from ..compat.inductor.compiler import compile_fx_inner, select_decomp_table

    mode = fake_mode_of(example_inputs)
    with inside(mode), patch.object(mode, "allow_non_fake_inputs", True):  # constants of the graph are real tensors
        decomposed = make_fx(gm, select_decomp_table())(*example_inputs)
    return compile_fx_inner(decomposed, example_inputs, is_backward=is_backward)
