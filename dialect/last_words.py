"""The last words of a process of ours that dies of a signal: Python's `faulthandler` prints its frames, and frames bear the names of what ran.

A name costs a microsecond, and is written by nobody unless the process dies: passes, and each verification, run in frames of their own.
"""

import builtins
import faulthandler
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .interrupts import tolerating


def speak() -> None:
    """Has the frames printed to the standard error where this process dies, unless someone has seen to that."""
    if not faulthandler.is_enabled() and sys.__stderr__ is not None:
        with tolerating(OSError, ValueError, RuntimeError):  # it is closed, or no file
            faulthandler.enable(sys.__stderr__)


def named(function: Callable[..., Any], name: str, subject: str | None = None) -> Callable[..., Any]:
    """`function` in a frame that a traceback shows as `name`, in the file `<subject>` if that is given."""
    code = _call.__code__.replace(co_name=name)
    if subject is not None:
        code = code.replace(co_filename=f"<{subject}>", co_firstlineno=1)
    return FunctionType(code, {"function": function, "__builtins__": builtins})  # the latter for what C imports


def _call(*args: Any) -> Any:
    return function(*args)  # type: ignore[name-defined]  # noqa: F821  # a global of the frame alone
