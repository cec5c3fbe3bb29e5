"""Fallback of graphs that cannot be compiled, as `on_error` says."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from bascule.runtime.boxed import Boxed, boxed

from ..errors import FallbackWarning, UnsupportedError, UserError
from ..options import Options
from ..reporting.compile_record import Record
from ..reporting.counters import count


def run_otherwise(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, record: Record, error: Exception
) -> Boxed:
    """A boxed function that computes `gm` without Bascule, after one warning; raises `error` where the options ask
    for that."""
    unsupported = isinstance(error, UnsupportedError) or isinstance(error.__cause__, UnsupportedError)
    if options.on_error == "raise" or (unsupported and options.fallback == "error"):
        raise error
    cause = error.__cause__ or error
    text = cause.message if isinstance(cause, UserError) else f"{type(cause).__name__}: {cause}"
    record.fallback = f"{record.running}: {text}"
    count("graphs", "fallback")
    count("fallbacks", record.fallback)
    runner = {"aten": "its ATen operators, one by one", "inductor": "Inductor"}[options.on_error]
    warnings.warn(f"{record.name} was not compiled and runs as {runner}: {error}", FallbackWarning, stacklevel=2)
    if options.on_error == "inductor":
        from .inductor import compile_with_inductor

        return compile_with_inductor(gm, example_inputs, is_backward=record.name.endswith("backward"))
    return operator_by_operator(gm)


def in_sequence(results: Any) -> Sequence[Any]:
    """The results of a graph as a sequence: those of branches and loops may return one value as it is, a boxed function does not."""
    return results if isinstance(results, list | tuple) else (results,)


def operator_by_operator(gm: torch.fx.GraphModule) -> Boxed:
    """The graph as it is, with the boxed calling convention."""

    @boxed
    def run(args: list[Any]) -> Sequence[Any]:
        values = list(args)
        args.clear()
        return in_sequence(gm(*values))

    return run
