"""The boxed calling convention of PyTorch's compilers: a graph takes its inputs as one list, which it empties, so that an input is freed after
its last use."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Boxed = Callable[[list[Any]], Sequence[Any]]
_F = TypeVar("_F", bound=Boxed)


def boxed(call: _F) -> _F:
    """Tells AOTAutograd that `call` takes its inputs in a list. Of an object it is told in its dictionary, which who wraps it copies."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call
