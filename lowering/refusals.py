"""Kernels that do not compile: whoever asked for them decides what becomes of one, kernel by kernel."""

from collections.abc import Callable
from typing import NoReturn, TypeAlias

# Told of a kernel by name, and of what was raised for it. Raises, or returns: the kernel is left out, and run otherwise.
Refuse: TypeAlias = Callable[[str, Exception], None]


def reraise(name: str, error: Exception) -> NoReturn:
    """One kernel that does not compile is a failure of all."""
    raise error
