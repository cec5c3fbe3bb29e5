"""Decompositions of operators that are not PyTorch's: declared by users, and a table of those of known libraries.

A declaration has the operator's name, its schema, and a function that takes what the operator takes and computes the same of tensors. Where it
does not stand for the operator it returns NotImplemented, and the operator stays a call. An operator that has another schema, or is not there,
has none.

Gradients may be declared too: for operators whose own are a formula in Python that looks at data (`declared_gradients`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bascule.compat.operators.schemas import OpOverload

from .declared_gradients import Gradients, decomposed_gradients


@dataclass(frozen=True)
class Declared:
    """`version` tells `function` and `gradients` from others, in the key of a trace; None: traces that they may be in are not kept."""

    function: Callable[..., Any]
    schema: str
    version: str | None = None
    gradients: Gradients | None = None


_USERS: dict[str, Declared] = {}


def register_decomposition(
    operator: str,
    function: Callable[..., Any] | None = None,
    *,
    schema: str | None = None,
    version: str | None = None,
    gradients: Gradients | None = None,
) -> Callable[..., Any]:
    """Has Bascule compile `function` in the place of the custom operator `operator` (`"library::name"` or `"library::name.overload"`).

    `function` takes the operator's arguments and computes its results with operators that can be traced; it writes to no argument, and returns
    NotImplemented for arguments for which the operator is to be called. Gradients are the operator's own: a backward that is an operator too can
    be given a function of its own. Where they are a formula that looks at data, which cannot be traced, `gradients` is compiled in its place: it
    takes the operator's arguments, then the gradient of each result, and returns one for each argument (None where there is none), or
    NotImplemented. `schema`, as `"(Tensor x, int n) -> Tensor"`, is what the operator's has to be, now or when it is defined; without it the
    operator has to be defined, and its schema is taken. `version` stands for the code of both functions in the disk cache, which does without
    graphs of a function without one. Without `function` a decorator. Raises `ValueError` for an operator that writes to arguments, has another
    schema, or, without `schema`, is not defined.
    """
    if function is None:
        return lambda given: register_decomposition(
            operator, given, schema=schema, version=version, gradients=gradients
        )
    found = _overload(operator)
    if found is None and schema is None:
        raise ValueError(f"no operator '{operator}' is defined, and no schema is given")
    if found is not None:
        if found._schema.is_mutable:
            raise ValueError(f"'{operator}' writes to arguments: {found._schema}")
        if schema is not None and not _has(found, schema):
            raise ValueError(f"'{operator}' has another schema: {_text(found)}")
    _USERS[operator] = Declared(function, schema or _text(found), version, gradients)
    return function


def declared(tables: Sequence[Mapping[str, Declared]] = ()) -> dict[OpOverload, Callable[..., Any]]:
    """Operator -> its decomposition: those of users, and of `tables`, where users have given none; and that of gradients that look at data."""
    known: dict[str, Declared] = {}
    for table in (*tables, _USERS):
        known.update(table)
    overloads = {name: _overload(name) for name in known}
    found = {op: known[name] for name, op in overloads.items() if op is not None and _has(op, known[name].schema)}
    gradients = {op._schema.name: each.gradients for op, each in found.items() if each.gradients is not None}
    return {op: each.function for op, each in found.items()} | decomposed_gradients(gradients)


def key_text() -> tuple[str | None, list[list[str]]]:
    """The operator of a user's function that has no version, if there is one; what tells apart those that have."""
    unknown = next((name for name, each in _USERS.items() if each.version is None), None)
    return unknown, sorted([name, each.schema, each.version or ""] for name, each in _USERS.items())


def _overload(operator: str) -> OpOverload | None:
    namespace, _, name = operator.partition("::")
    packet, _, overload = name.partition(".")
    try:
        found = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    except AttributeError:
        return None
    return found


def _has(operator: OpOverload, schema: str) -> bool:
    return "".join(_text(operator).split()) == "".join(schema.split())


def _text(operator: OpOverload) -> str:
    """The schema without the name."""
    text = str(operator._schema)
    return text[text.index("(") :]
