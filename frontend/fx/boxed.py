"""The boxed calling convention, as `runtime/boxed.py` has it: the frontend traces without the runtime, and neither layer may import the
other."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Boxed = Callable[[list[Any]], Sequence[Any]]
_F = TypeVar("_F", bound=Boxed)


def boxed(call: _F) -> _F:
    """Tells AOTAutograd that `call` takes its inputs in a list."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call
