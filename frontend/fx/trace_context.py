"""The tracer's state: the context of the trace at hand, its fake tensors, the numbers that symbols were seen with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from bascule.compat.graphs.dynamo import detect_fake_mode
from bascule.compat.graphs.tracing import CompileContext, TracingContext, tracing
from bascule.compat.operators.dispatch import enable_python_dispatcher
from bascule.compat.tensors.fake_tensors import FakeTensorMode

__all__ = [
    "TracingContext",
    "compile_at_hand",
    "context_at_hand",
    "context_for",
    "fake_mode_of",
    "hint",
    "holds",
    "inside",
    "known",
    "tracing",
]


def context_at_hand() -> TracingContext | None:
    """The context of the trace that is being made, if one is."""
    return TracingContext.try_get()


def compile_at_hand() -> str:
    """Dynamo's name of the compile that is under way: "0/1" is the second of frame 0; empty without Dynamo."""
    number = CompileContext.current_compile_id()
    return "" if number is None else str(number)


def context_for(values: Sequence[Any]) -> TracingContext:
    """The context of the trace that is being made; a new one where there is none: a graph that Dynamo did not hand over."""
    return context_at_hand() or TracingContext(fake_mode_of(values))


def fake_mode_of(values: Sequence[Any]) -> FakeTensorMode:
    """The mode of the trace that is being made, or of the fake tensors among `values`; else a new one, which takes real tensors too."""
    return detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True)


@contextmanager
def inside(mode: FakeTensorMode) -> Iterator[None]:
    """Operators are called with fake tensors of `mode`. Where sizes may be symbols, through PyTorch's dispatcher in Python: the native one
    refuses symbols where one operator's shapes are told by others (`baddbmm`'s by `expand`)."""
    with nullcontext() if mode.shape_env is None else enable_python_dispatcher(), mode:
        yield


def hint(number: Any) -> Any:
    """A symbolic number as the one that it was seen with; None where that is not known. Others as they are."""
    return number.node.hint if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) else number


def known(condition: bool | torch.SymBool) -> bool:
    """Whether a condition holds for all values of its symbols, without a guard."""
    return statically_known_true(condition)


def holds(condition: bool | torch.SymBool) -> bool:
    """Whether a condition holds for the values that its symbols have now, with a guard; where none can be made, whether it does for all."""
    if isinstance(condition, torch.SymBool) and (condition.node.shape_env.frozen or free_unbacked_symbols(condition)):
        return known(condition)
    return bool(condition)
