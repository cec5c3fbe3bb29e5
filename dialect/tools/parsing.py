"""Parsing a file of IR."""

import re

from ..errors import UserError
from ..ir import Bascule
from ..mlir import ir

# An operation of ours outside of quotes: at a line's beginning or after the names of its results.
_CUSTOM = re.compile(rf"^ *(?:%[\w:, %]+ = )?({Bascule.DIALECT_NAMESPACE}\.\w+)", re.MULTILINE)


def parse(text: str, path: str = "-") -> ir.Module:
    """The module of `text`, in the current context; locations name `path`, the file that has all of it, or "-".

    Raises `MLIRError` for what is not valid IR, and `UserError` for operations of ours that are not in the generic form: they have no
    other, and MLIR refuses one without a word.
    """
    try:
        return ir.Module.parse(text) if path == "-" else ir.Module.parseFile(path)
    except ir.MLIRError:
        match = _CUSTOM.search(text)
        if match is None:
            raise
        line, column = text.count("\n", 0, match.start(1)) + 1, match.start(1) - text.rfind("\n", 0, match.start(1))
        raise UserError(
            f"'{match[1]}' has no custom form",
            location=f"{path}:{line}:{column}",
            hint=f'write it as "{match[1]}"(...)',
        ) from None
