"""Guards of an exported program's dynamic sizes, checked at each call of its package (`runtime/packages/exported_program.py`).

What they have to be is known to the environment of the program's symbols. PyTorch's modules for symbols are named here; checked on torch 2.11 to
2.14.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from bascule.frontend.importer.symbol_sources import linear
from bascule.frontend.importer.symbolic_numbers import symbols_in
from bascule.runtime.packages.size_expressions import parsed

from ..compat.tensors.fake_tensors import FakeTensor
from ..debugging.symbol_values import source_of, text_of
from ..errors import UnsupportedError

MOST = 2**62  # the largest size there is


def size_text(number: int | torch.SymInt) -> int | str:
    """A size or a stride: a number, or an expression of symbols. Raises `UnsupportedError`."""
    return _readable(source_of(number)) if isinstance(number, torch.SymInt) else number


def _readable(text: str) -> str:
    """`text`, which a package has to be able to read again. Raises `UnsupportedError`."""
    try:
        parsed(text)
    except ValueError as reason:
        raise UnsupportedError(f"no package can have sizes, or conditions on them, like {text}: {reason}") from reason
    return text


def sizes_of(program: ExportedProgram) -> dict[str, Any]:
    """The symbols of `program` as a package tells them, by name.

    `symbols`: for each (input of the user's, kind, dimension, scale, offset), so that what is found there, a size or a stride, or the input
    itself, a number, is scale * symbol + offset; `ranges`: from and to which number; `guards`: other conditions, as
    `runtime/packages/size_expressions.py` reads them. Raises `UnsupportedError` for a symbol that no input tells.
    """
    values = _inputs(program)
    environments = [
        x.fake_mode.shape_env if isinstance(x, FakeTensor) else x.node.shape_env
        for x in values
        if isinstance(x, FakeTensor | torch.SymInt)
    ]
    environment = next((env for env in environments if env is not None), None)
    if environment is None:
        return {"symbols": {}, "ranges": {}, "guards": []}
    found: dict[sympy.Symbol, tuple[int, str, int, int, int]] = {}
    dynamic = list(_dynamic(values))
    for n, kind, dim, expr in sorted(dynamic, key=lambda told: (told[1] == "stride", not told[3].is_Symbol)):
        if (solved := linear(expr)) is not None:
            symbol, scale, offset = solved
            found.setdefault(symbol, (n, kind, dim, scale, offset))
    conditions = [environment.replace(guard.expr) for guard in environment.guards]
    for expr in [*(expr for *_, expr in dynamic), *conditions]:
        for symbol in expr.free_symbols - found.keys():
            raise UnsupportedError(f"no input tells the number {symbol}, of which {expr} is made")
    return {
        "symbols": {str(symbol): told for symbol, told in found.items()},
        "ranges": {str(s): _range(r) for s, r in program.range_constraints.items() if s in found},
        "guards": sorted({_readable(text_of(condition)) for condition in conditions} - {"True"}),
    }


def _dynamic(values: Sequence[Any]) -> Iterator[tuple[int, str, int, sympy.Expr]]:
    """Yields the sizes, strides and numbers of inputs that are no constants: the number of an input, the kind, the dimension, the expression."""
    for n, x in enumerate(values):
        told = {"size": x.shape, "stride": x.stride()} if isinstance(x, torch.Tensor) else {"value": (x,)}
        for kind, numbers in told.items():
            for dim, number in enumerate(numbers):
                if isinstance(number, torch.SymInt):
                    yield n, kind, dim, number.node.expr


def nonempty(program: ExportedProgram, symbols: Collection[str]) -> set[str]:
    """Conditions on `symbols`, in Python, under which no operator of `program`, as it was exported, takes the largest or the smallest of no
    elements: eager refuses to."""
    conditions = set()
    for node in program.graph.nodes:
        value = node.args[0].meta.get("val") if node.op == "call_function" and node.target in _OF_ELEMENTS else None
        if not isinstance(value, torch.Tensor):
            continue
        dims = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        dims = [dims] if isinstance(dims, int) else dims or range(value.dim())
        for size in (value.shape[dim] for dim in dims):
            if isinstance(size, torch.SymInt) and {str(symbol) for symbol in symbols_in(size)} <= {*symbols}:
                conditions.add(_readable(f"{source_of(size)} != 0"))
    return conditions


_OF_ELEMENTS = {
    getattr(getattr(torch.ops.aten, name), overload)
    for name in ("amax", "amin", "max", "min", "argmax", "argmin", "aminmax")
    for overload in ("default", "dim")
    if overload in getattr(torch.ops.aten, name).overloads()
}


def _inputs(program: ExportedProgram) -> list[Any]:
    """The user's inputs, as they were traced."""
    placeholders = program.graph.find_nodes(op="placeholder")
    told = zip(placeholders, program.graph_signature.input_specs, strict=True)
    return [node.meta.get("val") for node, spec in told if spec.kind == InputKind.USER_INPUT]


def _range(bounds: Any) -> list[int]:
    low, high = max(bounds.lower, -MOST), min(bounds.upper, MOST)
    return [int(low), int(high)]
