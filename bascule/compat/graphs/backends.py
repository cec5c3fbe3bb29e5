"""Dynamo's table of backends: threads that ask for one first at the same time. Checked on torch 2.11 to 2.14."""

from collections.abc import Callable, Sequence
from threading import Lock
from types import FunctionType
from typing import Any

from torch._dynamo.backends import registry

_REGISTER = "_bascule_register"  # a name in Dynamo's module
_of_module: Any = registry.register_backend
_theirs = FunctionType(_of_module.__code__, vars(registry), argdefs=_of_module.__defaults__)
_lock = Lock()


def tolerate_repeats() -> None:
    """Has the table take a function again that it has by that name: each thread that asks for a backend of an entry point before the first has
    registered it registers it too. Those that wait for the import hold PyTorch's function already: it gets other code."""
    if not hasattr(registry, _REGISTER):
        setattr(registry, _REGISTER, _register)
        _of_module.__code__ = _anew.__code__


def _anew(compiler_fn: Any = None, name: Any = None, tags: Any = ()) -> Any:
    return _bascule_register(compiler_fn, name, tags)  # type: ignore[name-defined]  # noqa: F821  # of Dynamo's module


def _register(compiler_fn: Callable[..., Any] | None, name: str | None, tags: Sequence[str]) -> Callable[..., Any]:
    with _lock:
        if compiler_fn is not None and name is not None and registry._COMPILER_FNS.get(name) is compiler_fn:
            return compiler_fn
        return _theirs(compiler_fn, name, tags)
