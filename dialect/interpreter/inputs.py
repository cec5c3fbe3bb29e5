"""Seeded random inputs for a function, from the types of its arguments."""

from collections.abc import Mapping

import torch

from ..ir.computed_symbols import computed_value
from ..ir.functions import RANGE, SHAPE, SYMBOL_SOURCES, SYMBOLS
from ..mlir import ir
from .entry import choose
from .errors import error
from .maps import evaluate, sizes
from .values import dtype_of, fresh, layout_strides

SYMBOL_SIZES = (5, 7, 3, 6, 4, 2)  # of symbols that nobody gives a size


def random_inputs(
    module: ir.Module, function: str | None = None, *, seed: int = 0, shapes: Mapping[str, int] | None = None
) -> list[torch.Tensor | int]:
    """Arguments for `interpret(module, ..., function)`.

    Floats are normal, booleans even, integers in [-8, 8) or [0, 8), or in the `bascule.range = [low, high]` (high not
    included) of the argument. `shapes` gives symbols their sizes: by the names in `bascule.symbols`, or as s0, s1, ...
    """
    with module.context:
        op = choose(module, function)
        generator = torch.Generator().manual_seed(seed)
        symbols = _symbols(op, shapes or {})
        values: list[torch.Tensor | int] = [*symbols]
        for number, argument in list(enumerate(op.regions[0].blocks[0].arguments))[len(symbols) :]:
            values.append(_argument(op, number, argument.type, symbols, generator))
        return values


def _symbols(op: ir.Operation, shapes: Mapping[str, int]) -> list[int]:
    types = [argument.type for argument in op.regions[0].blocks[0].arguments]
    count = next((i for i, type_ in enumerate(types) if not isinstance(type_, ir.IndexType)), len(types))
    names = [f"s{i}" for i in range(count)]
    given = [name.value for name in op.attributes[SYMBOLS]] if SYMBOLS in op.attributes else names
    unknown = set(shapes) - {*names, *given}
    if unknown:
        raise error(op, f"has no symbol {', '.join(sorted(unknown))}", hint=f"symbols: {', '.join(given) or 'none'}")
    default = [SYMBOL_SIZES[i % len(SYMBOL_SIZES)] for i in range(count)]
    values = [shapes.get(g, shapes.get(n, d)) for g, n, d in zip(given, names, default)]
    for number, source in enumerate(op.attributes[SYMBOL_SOURCES] if SYMBOL_SOURCES in op.attributes else []):
        if "value" in source:
            values[number] = computed_value(source["value"], lambda e: int(evaluate(e, (), values)))
    return values


def _argument(
    op: ir.Operation, number: int, type_: ir.Type, symbols: list[int], generator: torch.Generator
) -> torch.Tensor:
    attributes = op.attributes["arg_attrs"][number] if "arg_attrs" in op.attributes else {}
    bounds = [bound.value for bound in attributes[RANGE]] if RANGE in attributes else None
    if not isinstance(type_, ir.RankedTensorType | ir.MemRefType):
        return random_tensor([], dtype_of(type_), generator, bounds)
    if SHAPE in attributes:
        shape = sizes(attributes[SHAPE].value, symbols)
    elif type_.has_static_shape:
        shape = list(type_.shape)
    else:
        raise error(op, f"has no '{SHAPE}' on argument {number}, whose size is dynamic")
    try:
        strides, offset = layout_strides(type_, symbols)
        dest = fresh(shape, type_.element_type, strides, offset)
    except (RuntimeError, ValueError) as reason:  # no memory has so many bytes, or no layout is like that
        raise error(op, f"has argument {number}, {type_}, of which none can be made: {reason}") from reason
    own = dest[tuple(slice(0, None if stride else 1) for stride in strides)]  # an element each; others are those again
    own.copy_(random_tensor([*own.shape], dest.dtype, generator, bounds))
    return dest


def random_tensor(
    shape: list[int], dtype: torch.dtype, generator: torch.Generator, bounds: list[int] | None = None
) -> torch.Tensor:
    """A row-major tensor: floats normal or uniform in `bounds`, integers uniform in `bounds`."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        if bounds is not None:
            low, high = bounds
            return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)
        normal = torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else torch.float64)
        return normal.to(dtype)
    low, high = bounds or ((-8, 8) if dtype.is_signed else (0, 8))
    return torch.randint(low, high, shape, generator=generator).to(dtype)
