"""Names in a file, looked up: the entries of the reference, as `docs/dialect.md` has them."""

import inspect
import re

from bascule.dialect import passes
from bascule.dialect.ir import Bascule, context, functions
from bascule.dialect.tools.listing import help_on
from bascule.dialect.tools.reference import attribute_lines, operation_lines, pass_lines
from bascule.errors import UserError


def entry_of(name: str) -> str | None:
    """Markdown about an operation (`bascule.compute`, `arith.addf`), an attribute (`#bascule.layout`, `bascule.storages`) or a pass
    (`--form-kernels`); None for what nobody knows."""
    if name.startswith("--"):
        return _pass(name.removeprefix("--"))
    for operation in Bascule.operations:
        if name == operation.OPERATION_NAME:
            return "\n".join(operation_lines(operation))
    for attribute in Bascule.attributes:
        if name == f"#{attribute.attr_name}":
            return "\n".join(attribute_lines(attribute))
    if name.startswith("bascule."):
        return _of_functions(name)
    return _upstream(name)


def _pass(name: str) -> str | None:
    try:
        if passes.find(name) is not None:
            return "\n".join(pass_lines(name))
        return f"```text\n{help_on(name)}\n```"
    except UserError:
        return None


def _of_functions(name: str) -> str | None:
    """The sentences about an attribute of functions and of their arguments."""
    text = " ".join(inspect.cleandoc(functions.__doc__ or "").split())
    told = [sentence for sentence in re.split(r"(?<=[.;:]) (?=[`A-Z-])", text) if f"`{name}" in sentence]
    return f"### `{name}`\n\n{' '.join(told)}\n" if told else None


def _upstream(name: str) -> str | None:
    """Tells whose an operation of another dialect is."""
    dialect = name.partition(".")[0]
    with context() as ctx:
        ctx.load_all_available_dialects()
        if not ctx.is_registered_operation(name):
            return None
    if dialect == "torch":
        return f"### `{name}`\n\nof torch-mlir's dialect `torch`"
    return f"### `{name}`\n\nof MLIR's dialect `{dialect}`: <https://mlir.llvm.org/docs/Dialects/>"
