"""How our errors pass through Dynamo. Names private modules of PyTorch; checked on torch 2.13."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import currentframe

from torch._dynamo.exc import ShortenTraceback, TorchDynamoException

from .errors import BasculeError

__all__ = ["TorchDynamoException", "raised_as_is"]


@cache
def _passing(cls: type[BasculeError]) -> type[BasculeError]:
    """A subclass of `cls` that Dynamo does not wrap into a `BackendCompilerFailed`."""
    return type(cls.__name__, (cls, ShortenTraceback), {"__module__": cls.__module__})


@contextmanager
def raised_as_is() -> Iterator[None]:
    """A `BasculeError` raised inside reaches the caller of the compiled function as a `BasculeError` of the same
    class."""
    try:
        yield
    except ShortenTraceback:
        raise
    except BasculeError as error:
        cls = _passing(type(error))  # type: ignore[arg-type]
        same = cls.__new__(cls, *error.args)
        same.__dict__.update(error.__dict__, first_useful_frame=currentframe())
        raise same.with_traceback(error.__traceback__) from error.__cause__
