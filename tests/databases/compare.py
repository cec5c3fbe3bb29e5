"""One way to compile what a database of PyTorch's has, and to compare it with eager.

A subject runs itself, as often as it is asked to, from inputs that are the same each time; `check` has it run in eager, compiled, and, where
the two differ by more than rounding explains, in f64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from tests.operators.check import Wrong, compare, compare_metadata

# `torch.compile` with all but the function settled, or what leaves the function as it is.
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Ran:
    """The outcome of a run. `results`: what was returned; `state`: what may have been written to; `gradients`: of all that asks for them."""

    results: Sequence[torch.Tensor]
    state: Sequence[torch.Tensor] = ()
    gradients: Sequence[torch.Tensor] = ()


# (how to compile, the dtype of floating-point numbers instead of the subject's) -> what it came to
Subject = Callable[[Compile, torch.dtype | None], Ran]


def check(subject: Subject, *, dynamic: bool = False) -> None:
    """Compares a subject with eager. What `aot_eager`, PyTorch's own tracing without a compiler, gets wrong too is expected to fail."""
    # Random numbers, and roundings to 16 bits inside of what computes in f32 otherwise (Muon), are eager's.
    options = {"on_error": "raise", "random": "eager", "numerics": "eager"}
    try:
        _compare(subject, partial(torch.compile, backend="bascule", options=options, dynamic=dynamic))
    except Exception as error:
        if (reason := _fails(subject, partial(torch.compile, backend="aot_eager", dynamic=dynamic))) is None:
            raise
        pytest.xfail(f"aot_eager: {reason} (here: {_line(error)})")


def _fails(subject: Subject, compiled: Compile) -> str | None:
    try:
        _compare(subject, compiled)
    except Exception as error:  # whatever it is: PyTorch's own tracing does not do it
        return _line(error)
    return None


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:300]


def _compare(subject: Subject, compiled: Compile) -> None:
    torch._dynamo.reset()
    counters.clear()
    expected, actual = subject(_eager, None), subject(compiled, None)
    if not counters["stats"]["unique_graphs"]:
        raise Wrong("nothing was compiled")
    compare_metadata(expected.results, actual.results)
    exact: list[Ran | None] = []

    def reference(kind: str) -> Sequence[torch.Tensor | None]:
        if not exact:
            exact.append(_exactly(subject))
        count = len(getattr(expected, kind))
        found = list(getattr(exact[0], kind, ()))
        return found if len(found) == count else [None] * count

    for kind in ("results", "state", "gradients"):
        wanted, got = getattr(expected, kind), getattr(actual, kind)
        if len(wanted) != len(got):
            raise Wrong(f"{len(got)} {kind} for {len(wanted)}")
        compare(kind, wanted, got, partial(reference, kind))


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _exactly(subject: Subject) -> Ran | None:
    try:
        return subject(_eager, torch.float64)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):  # it does not take this dtype
        return None
