"""Warnings of what runs beside the program: the call after it gives them, in the user's thread and under the user's filters."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Warned = tuple[str, type[Warning]]
_later: ContextVar[list[Warned] | None] = ContextVar("later", default=None)


def warn(text: str, category: type[Warning], stacklevel: int = 2) -> None:
    """As `warnings.warn`; inside of `kept`, later."""
    kept = _later.get()
    if kept is None:
        warnings.warn(text, category, stacklevel=stacklevel + 1)
    else:
        kept.append((text, category))


@contextmanager
def kept() -> Iterator[list[Warned]]:
    """Gives the list that receives what this thread warns of inside."""
    found: list[Warned] = []
    token = _later.set(found)
    try:
        yield found
    finally:
        _later.reset(token)
