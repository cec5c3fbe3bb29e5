"""Verification of signatures: symbols first, then tensors of types that PyTorch has, with layouts that fit their ranks, and the sizes of all
that are dynamic; of an ATen function, the operator and its arguments."""

from collections.abc import Iterator, Sequence

from ..errors import UserError
from ..mlir import ir
from .attributes import LayoutAttr, OperandAttr
from .functions import (
    ANY_STRIDES,
    ARGUMENTS,
    CONSTANT,
    DIES,
    EXTERN,
    INPUTS,
    NULLABLE,
    OUTPUTS,
    RANGE,
    RESULTS,
    RETURNED_AS,
    RETURNED_TOO,
    SHAPE,
    SHAPES,
    STORAGES,
    SYMBOL_SOURCES,
    SYMBOLS,
    TANGENT,
    VIEWS,
)
from .locations import source_of
from .scalar_types import ELEMENTS
from .types import symbols_among

# Attributes of a graph function, with the classes of their values.
KINDS = {
    SYMBOLS: ir.ArrayAttr,
    INPUTS: ir.ArrayAttr,
    OUTPUTS: ir.ArrayAttr,
    SYMBOL_SOURCES: ir.ArrayAttr,
    SHAPES: ir.ArrayAttr,
    STORAGES: ir.DenseI64ArrayAttr,
}
# The same of an argument.
ARGUMENT_KINDS = {
    SHAPE: ir.AffineMapAttr,
    CONSTANT: ir.StringAttr,
    DIES: ir.UnitAttr,
    RETURNED_TOO: ir.UnitAttr,
    TANGENT: ir.UnitAttr,
    NULLABLE: ir.UnitAttr,
    ANY_STRIDES: ir.UnitAttr,
    RANGE: ir.ArrayAttr,
}


def check(function: ir.Operation) -> None:
    """Raises `UserError`, at the function, where an argument or a result lacks what the dialect asks for."""
    for name, kind in KINDS.items():
        if name in function.attributes and not isinstance(function.attributes[name], kind):
            text = f"'{name}' of @{function.attributes['sym_name'].value} is of another type than {kind.__name__}"
            raise UserError(text, location=source_of(function.location))
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    symbols = symbols_among(type_.inputs)
    given = list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []
    for number, told in enumerate(given):
        _check_argument(function, number, told)
    for number, told in enumerate(function.attributes["res_attrs"] if "res_attrs" in function.attributes else ()):
        _check_result(function, number, told)
    sizes: list[ir.Attribute | None] = [told[SHAPE] if SHAPE in told else None for told in given]
    _check(function, symbols, "argument", SHAPE, type_.inputs, sizes)
    sizes = list(function.attributes[SHAPES]) if SHAPES in function.attributes else []
    _check(function, symbols, "result", SHAPES, type_.results, sizes)


def _check_argument(function: ir.Operation, number: int, told: ir.DictAttr) -> None:
    for entry in told:
        kind = ARGUMENT_KINDS.get(entry.name)
        complaint = None
        if kind is not None and not isinstance(entry.attr, kind):
            complaint = f"is of another type than {kind.__name__}"
        elif entry.name == RANGE and not _are_bounds(entry.attr):
            complaint = f"is {entry.attr}: the least and the greatest element are needed, as numbers, like [0, 5]"
        if complaint:
            text = f"'{entry.name}' of argument {number} of @{function.attributes['sym_name'].value} {complaint}"
            raise UserError(text, location=source_of(function.location))


def _check_result(function: ir.Operation, number: int, told: ir.DictAttr) -> None:
    if RETURNED_AS not in told:
        return
    found = told[RETURNED_AS]
    if not isinstance(found, ir.StringAttr) or found.value not in VIEWS:
        text = f"'{RETURNED_AS}' of result {number} of @{function.attributes['sym_name'].value} is {found}"
        known = ", ".join(f'"{view}"' for view in VIEWS)
        raise UserError(text, location=source_of(function.location), hint=f"it is one of {known}")


def _are_bounds(bounds: ir.ArrayAttr) -> bool:
    numbers = [bound.value for bound in bounds if isinstance(bound, ir.IntegerAttr | ir.FloatAttr)]
    return len(numbers) == len(bounds) == 2 and numbers[0] <= numbers[1]


def check_extern(function: ir.Operation) -> None:
    """Raises `UserError`, at the ATen function, where its attributes do not say what is called with which of its operands."""
    name, attributes = function.attributes["sym_name"].value, function.attributes
    where = source_of(function.location)
    for key, kind in ((EXTERN, ir.StringAttr), (ARGUMENTS, ir.ArrayAttr), (RESULTS, ir.DenseI64ArrayAttr)):
        if key not in attributes or not isinstance(attributes[key], kind):
            hint = "see `#bascule.operand` in docs/dialect.md for an ATen function with all that it needs"
            raise UserError(
                f"the ATen function @{name} has no '{key}' of type {kind.__name__}", location=where, hint=hint
            )
    count = len(ir.FunctionType(ir.TypeAttr(attributes["function_type"]).value).inputs)
    for number in _operands(attributes[ARGUMENTS]):
        if not 0 <= number < count:
            raise UserError(f"'{ARGUMENTS}' of @{name} has operand {number} of {count}", location=where)


def _operands(attribute: ir.Attribute) -> Iterator[int]:
    """The numbers of the operands that an entry of `bascule.arguments` names."""
    if isinstance(attribute, OperandAttr):
        yield ir.IntegerAttr(attribute.index).value
    elif isinstance(attribute, ir.ArrayAttr):
        for entry in attribute:
            yield from _operands(entry)


def _check(
    function: ir.Operation,
    symbols: int,
    what: str,
    name: str,
    types: Sequence[ir.Type],
    sizes: Sequence[ir.Attribute | None],
) -> None:
    for number, type_ in enumerate(types):
        complaint = None
        if isinstance(type_, ir.RankedTensorType):
            size = sizes[number] if number < len(sizes) else None
            complaint = _element(type_) or _layout(type_, symbols) or _sizes(type_, size, symbols, name)
        elif what == "result" or number >= symbols:
            complaint = _other(type_)
        if complaint:
            text = f"{what} {number} of @{function.attributes['sym_name'].value}, {type_}, {complaint}"
            raise UserError(text, location=source_of(function.location))


def _other(type_: ir.Type) -> str | None:
    """Tells what is wrong with an argument after the symbols, or a result, that is no ranked tensor."""
    if isinstance(type_, ir.MemRefType) or str(type_).startswith("!torch."):
        return None
    return "is no tensor of known rank: a function takes its symbols first, of type index, then tensors, and returns tensors"


def _element(type_: ir.RankedTensorType) -> str | None:
    return None if str(type_.element_type) in ELEMENTS else "has elements of a type that no dtype of PyTorch is"


def _layout(type_: ir.RankedTensorType, symbols: int) -> str | None:
    """Tells what is wrong with the layout of a tensor type in a function of `symbols` symbols."""
    if type_.encoding is None:
        return None if type_.has_static_shape else "is dynamic and has no #bascule.layout: its strides are not known"
    if not isinstance(type_.encoding, LayoutAttr):
        return "has an encoding that is no #bascule.layout"
    map_ = ir.AffineMapAttr(type_.encoding.map).value
    if (map_.n_dims, len(map_.results)) != (type_.rank, 1):
        return f"has a layout of {map_.n_dims} dims and {len(map_.results)} results: {type_.rank} and 1 are needed"
    if not _is_strided(map_.results[0]):
        return "has a layout that is not strided: a sum of dims, each times its stride, which is not negative"
    return _beyond("layout", map_, symbols)


def _is_strided(e: ir.AffineExpr) -> bool:
    """Whether `e` is a sum of dims times strides, and of what symbols give."""
    e = e.maybe_downcast()
    if not isinstance(e, ir.AffineBinaryExpr) or not _has_dims(e):
        return True
    if isinstance(e, ir.AffineAddExpr):
        return _is_strided(e.lhs) and _is_strided(e.rhs)
    if not isinstance(e, ir.AffineMulExpr):
        return False
    dims, step = (e.lhs, e.rhs) if _has_dims(e.lhs) else (e.rhs, e.lhs)
    step = step.maybe_downcast()
    return (
        not _has_dims(step) and not (isinstance(step, ir.AffineConstantExpr) and step.value < 0) and _is_strided(dims)
    )


def _has_dims(e: ir.AffineExpr) -> bool:
    e = e.maybe_downcast()
    if isinstance(e, ir.AffineBinaryExpr):
        return _has_dims(e.lhs) or _has_dims(e.rhs)
    return isinstance(e, ir.AffineDimExpr)


def _sizes(type_: ir.RankedTensorType, sizes: ir.Attribute | None, symbols: int, name: str) -> str | None:
    """Tells what is wrong with the size map `sizes` of a tensor type."""
    if not isinstance(sizes, ir.AffineMapAttr):
        return None if type_.has_static_shape else f"is dynamic and has no '{name}', affine_map<()[s0, ...] -> (...)>"
    map_ = sizes.value
    if (map_.n_dims, len(map_.results)) != (0, type_.rank):
        return f"has a '{name}' of {map_.n_dims} dims and {len(map_.results)} sizes: 0 and {type_.rank} are needed"
    return _beyond(f"'{name}'", map_, symbols)


def _beyond(what: str, map_: ir.AffineMap, symbols: int) -> str | None:
    return None if map_.n_symbols <= symbols else f"has a {what} of {map_.n_symbols} symbols in a function of {symbols}"
