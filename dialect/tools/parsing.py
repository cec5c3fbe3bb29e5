"""Parsing a file of IR."""

import os
import re
from collections.abc import Iterator

from ..contract.module import check_contract
from ..errors import UserError
from ..ir import Bascule
from ..mlir import ir

SEPARATOR = "// -----"  # what a line between the modules of a file begins with

# An operation of ours outside of quotes: at a line's beginning or after the names of its results.
_CUSTOM = re.compile(rf"^ *(?:%[\w:, %]+ = )?({Bascule.DIALECT_NAMESPACE}\.\w+)", re.MULTILINE)

# What opens and closes, strings and comments without what is inside of them, and the signs that have a bracket in them.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|>=|<=|[\[({<]|[\])}>]')
DEEPEST = 400  # brackets in brackets: MLIR's parser, verifier and printer recurse at each, and end the process where the stack does


def chunks(text: str, separator: str = SEPARATOR) -> Iterator[tuple[str, int]]:
    """The parts of a file between lines that begin with `separator`, each with its first line in the file."""
    line = 1
    for chunk in re.split(rf"^{re.escape(separator)}.*$", text, flags=re.MULTILINE):
        yield chunk, line
        line += chunk.count("\n")


def parse(text: str, path: str = "-", *, contract: bool = True) -> ir.Module:
    """The module of `text`, in the current context; locations name `path`, the file that has all of it, or "-".

    Raises `MLIRError` for what is not valid IR, and `UserError` for what is nested too deeply, for operations of ours that are not in the
    generic form (they have no other, and MLIR refuses one without a word), and for what breaks the dialect's `contract`, unless its caller
    checks that.
    """
    _check_depth(text, path)
    module = _parsed(text, path)
    if contract:
        check_contract(module)
    return module


def is_bare(text: str, path: str = "-") -> bool:
    """Whether the one operation of `text` is no module, in the current context. Raises `MLIRError` for another number of operations, and
    `UserError` for what is nested too deeply."""
    _check_depth(text, path)
    return ir.Operation.parse(text, source_name=path).operation.name != "builtin.module"


def _parsed(text: str, path: str) -> ir.Module:
    try:
        return ir.Module.parseFile(path) if _nameable(path) else ir.Module.parse(text)
    except ir.MLIRError:
        match = _CUSTOM.search(text)
        if match is None:
            raise
        raise UserError(
            f"'{match[1]}' has no custom form",
            location=_place(text, match.start(1), path),
            hint=f'write it as "{match[1]}"(...)',
        ) from None


def _nameable(path: str) -> bool:
    """Whether the bindings can read a path, to have places in it: neither one that is no UTF-8 nor a pipe. Else places are in "-"."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return os.path.isfile(path)


def _check_depth(text: str, path: str) -> None:
    """Raises `UserError` at the first bracket that is too deep."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "[({<":
            depth += 1
            if depth > DEEPEST:
                told = f"is nested too deeply: there are more than {DEEPEST} open brackets"
                raise UserError(told, location=_place(text, match.start(), path))
        elif token in "])}>":
            depth -= 1


def _place(text: str, at: int, path: str) -> str:
    return f"{path}:{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"
