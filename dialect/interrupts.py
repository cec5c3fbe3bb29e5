"""Exceptions that a signal's handler raises, a job's time-out say, in whatever line the main thread is at.

They are no failure of that line. Whoever catches `Exception` of the compiler, or of what it calls, passes them on first.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from traceback import walk_tb
from types import CodeType
from typing import Any


def pass_on(error: BaseException) -> None:
    """Raises what a signal's handler raised, if that is `error` or what it was raised from: it is for the user, not about what ran.

    MLIR leaves a text of what a callback of its own raises: then the signal is delivered again, and its handler raises here.
    """
    interrupt = interrupt_in(error)
    if interrupt is not None:
        raise interrupt
    number = _told_of(error)
    if number is not None:
        signal.raise_signal(number)
        raise error  # a handler that raises once: its text is there


@contextmanager
def tolerating(*kinds: type[Exception]) -> Iterator[None]:
    """Swallows exceptions of these `kinds`, unless a signal's handler raised them: a time-out is an `OSError` too."""
    try:
        yield
    except kinds as error:
        pass_on(error)


def interrupt_in(error: BaseException) -> BaseException | None:
    """Of `error` and what it was raised from, what a handler of a signal, one installed now, raised."""
    handlers = {code for _, code in _handlers()}
    found = (e for e in _chain(error) if any(frame.f_code in handlers for frame, _ in walk_tb(e.__traceback__)))
    return next(found, None)


_CALLBACK = "Exception raised in callback: "  # how MLIR's bindings begin (torch-mlir 20261001)
_FRAME = re.compile(r'File "(.*)", line \d+, in (.*)')


def _told_of(error: BaseException) -> int | None:
    """The signal whose handler raised in a callback of MLIR's, by the text that is left of that."""
    for text in map(str, _chain(error)):
        if not text.startswith(_CALLBACK):
            continue
        frames = set(_FRAME.findall(text))
        if text.splitlines()[-1].startswith(KeyboardInterrupt.__name__):
            return signal.SIGINT
        for number, code in _handlers():
            if (code.co_filename, code.co_name) in frames:
                return number
    return None


def _handlers() -> Iterator[tuple[int, CodeType]]:
    """The signals that are handled in Python, and the code of what does."""
    for number in signal.valid_signals():
        code = _code(signal.getsignal(number))
        if code is not None:
            yield number, code


def _chain(error: BaseException) -> Iterator[BaseException]:
    """`error` and its causes; of an error raised while another was handled, that one."""
    seen = set[int]()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _code(handler: Any) -> CodeType | None:
    """Of a function, a method, a partial application or an object that is called; none for what is not written in Python."""
    while isinstance(handler, partial):
        handler = handler.func
    function = handler if hasattr(handler, "__code__") else getattr(handler, "__call__", None)  # noqa: B004
    return getattr(getattr(function, "__func__", function), "__code__", None)
