"""How our errors pass through Dynamo."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import currentframe

from ..compat.graphs.dynamo import ShortenTraceback, TorchDynamoException
from ..dialect.interrupts import interrupt_in
from ..errors import BasculeError

__all__ = ["TorchDynamoException", "raised_as_is"]


@cache
def _passing(cls: type[Exception]) -> type[Exception]:
    """A subclass of `cls` that Dynamo does not wrap into a `BackendCompilerFailed`. Its text stays as it was: Dynamo's addition asks for a
    report to PyTorch."""
    bases = (ShortenTraceback,) if issubclass(ShortenTraceback, cls) else (cls, ShortenTraceback)
    return type(cls.__name__, bases, {"__module__": cls.__module__, "__str__": lambda self: self.told})


@contextmanager
def raised_as_is() -> Iterator[None]:
    """A `BasculeError` raised inside, or what a signal's handler raises, reaches the caller of the compiled function as an error of the same
    class."""
    try:
        yield
    except ShortenTraceback:
        raise
    except Exception as raised:
        interrupt = interrupt_in(raised)
        if interrupt is None and not isinstance(raised, BasculeError):
            raise
        error = interrupt or raised
        if not isinstance(error, Exception):
            raise error from None
        cls = _passing(type(error))  # type: ignore[arg-type]
        same = cls.__new__(cls, *error.args)
        same.__dict__.update(error.__dict__, first_useful_frame=currentframe(), told=str(error))
        raise same.with_traceback(error.__traceback__) from error.__cause__
