"""What a function's signature has to say of its tensors: layouts that fit their ranks, and the sizes of all that are dynamic."""

from collections.abc import Sequence

from ..errors import UserError
from ..mlir import ir
from .attributes import LayoutAttr
from .functions import SHAPE, SHAPES
from .locations import source_of
from .types import symbols_among


def check(function: ir.Operation) -> None:
    """Raises `UserError`, at the function, where an argument or a result lacks what the dialect asks for."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    symbols = symbols_among(type_.inputs)
    given = list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []
    sizes: list[ir.Attribute | None] = [told[SHAPE] if SHAPE in told else None for told in given]
    _check(function, symbols, "argument", SHAPE, type_.inputs, sizes)
    sizes = list(function.attributes[SHAPES]) if SHAPES in function.attributes else []
    _check(function, symbols, "result", SHAPES, type_.results, sizes)


def _check(
    function: ir.Operation,
    symbols: int,
    what: str,
    name: str,
    types: Sequence[ir.Type],
    sizes: Sequence[ir.Attribute | None],
) -> None:
    for number, type_ in enumerate(types):
        if isinstance(type_, ir.RankedTensorType):
            size = sizes[number] if number < len(sizes) else None
            complaint = _layout(type_, symbols) or _sizes(type_, size, symbols, name)
            if complaint:
                text = f"{what} {number} of @{function.attributes['sym_name'].value}, {type_}, {complaint}"
                raise UserError(text, location=source_of(function.location))


def _layout(type_: ir.RankedTensorType, symbols: int) -> str | None:
    """What is wrong with the layout of a tensor type in a function of `symbols` symbols."""
    if not isinstance(type_.encoding, LayoutAttr):
        return None if type_.has_static_shape else "is dynamic and has no #bascule.layout: its strides are not known"
    map_ = ir.AffineMapAttr(type_.encoding.map).value
    if (map_.n_dims, len(map_.results)) != (type_.rank, 1):
        return f"has a layout of {map_.n_dims} dims and {len(map_.results)} results: {type_.rank} and 1 are needed"
    return _beyond("layout", map_, symbols)


def _sizes(type_: ir.RankedTensorType, sizes: ir.Attribute | None, symbols: int, name: str) -> str | None:
    """What is wrong with the size map `sizes` of a tensor type."""
    if not isinstance(sizes, ir.AffineMapAttr):
        return None if type_.has_static_shape else f"is dynamic and has no '{name}', affine_map<()[s0, ...] -> (...)>"
    map_ = sizes.value
    if (map_.n_dims, len(map_.results)) != (0, type_.rank):
        return f"has a '{name}' of {map_.n_dims} dims and {len(map_.results)} sizes: 0 and {type_.rank} are needed"
    return _beyond(f"'{name}'", map_, symbols)


def _beyond(what: str, map_: ir.AffineMap, symbols: int) -> str | None:
    return None if map_.n_symbols <= symbols else f"has a {what} of {map_.n_symbols} symbols in a function of {symbols}"
