"""A command from its standard streams to its exit status: none of ours shows a traceback to whoever closes, fills or interrupts it."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TextIO

from ..interrupts import pass_on, tolerating
from ..last_words import speak

_OPENED = {"stdin": os.O_WRONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}  # so that what is lost is told of


def command(prog: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Makes a command `prog` of a function that takes arguments and returns an exit status.

    The status is 1 where the standard output does not take what is printed, 141 where its reader has seen enough before the end, as of a process
    that SIGPIPE ends, and 130 for an interrupt.
    """

    def decorate(main: Callable[..., int]) -> Callable[..., int]:
        @wraps(main)
        def run(argv: Sequence[str] | None = None) -> int:
            _open()
            speak()
            try:
                status = main(argv)
                sys.stdout.flush()
            except BrokenPipeError as error:
                pass_on(error)
                _silence(sys.stdout, sys.stderr)
                return 128 + signal.SIGPIPE
            except OSError as error:
                pass_on(error)
                _silence(sys.stdout)
                _tell(f"{prog}: error: {error}")
                return 1
            except KeyboardInterrupt:
                _tell(f"{prog}: interrupted")
                return 128 + signal.SIGINT
            return status

        return run

    return decorate


def _open() -> None:
    """Has three streams: in place of one that is closed, one that refuses what is asked of it, since a file opened later would get its number.

    Characters that the standard output has no code for, such as half of one in a file's name, are escaped.
    """
    for number, (name, mode) in enumerate(_OPENED.items()):
        if getattr(sys, name) is None:
            with tolerating(OSError):
                opened = os.open(os.devnull, mode)
                if opened != number:
                    os.dup2(opened, number)
                    os.close(opened)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115  # to the end of the process
    out: Any = sys.__stdout__
    if out is not None and out.errors == "strict":
        out.reconfigure(errors="backslashreplace")


def _tell(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError as error:  # nobody is there to be told
        pass_on(error)
        _silence(sys.stderr)


def _silence(*streams: TextIO) -> None:
    """Has what a stream holds, which the interpreter flushes at its end, go nowhere."""
    for stream in streams:
        with tolerating(OSError, ValueError):  # it is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
