"""Errors for which LLVM would end the process: "Cannot select", above all, of what it has no instructions for.

LLVM's handler of such errors may not return, and nothing can go back through LLVM's frames. The thread that compiles stays in the handler, with
the engine, which no other thread uses; what waits for its work is given the error.
"""

import sys
from functools import cache

from bascule.dialect.errors import CompilerError

from ...threads import give_up
from .c_api import FatalErrorHandler, mlir


class LlvmError(CompilerError):
    """LLVM has no instructions for the code that it was given."""


@cache
def survive() -> FatalErrorHandler:
    """From now on. Errors of LLVM on other threads than `threads.start` makes end the process as they did."""
    handler = FatalErrorHandler(_told)
    mlir().InstallFatalErrorHandler(handler)
    return handler


def _told(reason: bytes) -> None:
    lines = reason.decode(errors="replace").splitlines() or ["no reason given"]
    where = [line for line in lines[1:] if line.startswith("In function")]  # the lines between are LLVM's graph of it
    give_up(LlvmError(f"LLVM cannot compile it: {', '.join([lines[0], *where])}"))
    print("LLVM ERROR:", *lines, sep="\n", file=sys.stderr, flush=True)
