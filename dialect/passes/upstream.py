"""Passes of MLIR itself: whether it takes the text of one, and which options one has."""

import re
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


def defaults(name: str) -> list[str] | None:
    """The options of a pass with their defaults, as `key=value`, but for lists, which are not printed. None for what is no pass."""
    if not re.fullmatch(r"[\w.\-]+", name, re.ASCII):
        return None
    try:
        with ir.Context():
            spelled = str(passmanager.PassManager.parse(f"any({name})"))
    except (ValueError, ir.MLIRError):
        return None
    return spelled.partition("{")[2].rpartition("}")[0].split()
