"""Passes of MLIR itself: whether it takes the text of one."""

from functools import cache

from ..mlir import ir, passmanager


@cache
def refusal(text: str) -> str | None:
    """MLIR's refusal of a pipeline text; None where MLIR parses it. Asking takes a context, which takes 6 ms."""
    try:
        text.encode()  # the bindings refuse half a character as they refuse what is no text at all
        with ir.Context():
            passmanager.PassManager.parse(f"builtin.module({text})")
    except (ValueError, ir.MLIRError) as error:
        return str(error)
    return None
