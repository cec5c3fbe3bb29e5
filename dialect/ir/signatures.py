"""Verification of signatures: symbols first, then tensors of types that PyTorch has, with layouts that fit their ranks, and the sizes of all
that are dynamic; of an ATen function, the operator and its arguments."""

from collections.abc import Iterator, Sequence

from ..errors import UserError
from ..mlir import ir
from .attributes import LayoutAttr, OperandAttr
from .functions import ARGUMENTS, EXTERN, MUTATES, OUT, RESULTS, RETURNED_AS, SHAPE, SHAPES, VIEWS
from .locations import source_of
from .scalar_types import ELEMENTS
from .shapes import constant
from .types import symbols_among

NOT_STRIDED = "has a layout that is not strided: a sum of dims, each times its stride, which is not negative"


def check(function: ir.Operation) -> None:
    """Raises `UserError`, at the function, where an argument or a result lacks what the dialect asks for."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    symbols = symbols_among(type_.inputs)
    given = list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []
    for number, told in enumerate(function.attributes["res_attrs"] if "res_attrs" in function.attributes else ()):
        _check_result(function, number, told)
    sizes: list[ir.Attribute | None] = [told[SHAPE] if SHAPE in told else None for told in given]
    _check(function, symbols, "argument", SHAPE, type_.inputs, sizes)
    sizes = list(function.attributes[SHAPES]) if SHAPES in function.attributes else []
    _check(function, symbols, "result", SHAPES, type_.results, sizes)


def _check_result(function: ir.Operation, number: int, told: ir.DictAttr) -> None:
    if RETURNED_AS not in told:
        return
    found = told[RETURNED_AS]
    if found.value not in VIEWS:
        text = f"'{RETURNED_AS}' of result {number} of @{function.attributes['sym_name'].value} is {found}"
        known = ", ".join(f'"{view}"' for view in VIEWS)
        raise UserError(text, location=source_of(function.location), hint=f"it is one of {known}")


def check_extern(function: ir.Operation) -> None:
    """Raises `UserError`, at the ATen function, where its attributes do not say what is called with which of its operands."""
    name, attributes = function.attributes["sym_name"].value, function.attributes
    where = source_of(function.location)
    for key, kind in ((EXTERN, ir.StringAttr), (ARGUMENTS, ir.ArrayAttr), (RESULTS, ir.DenseI64ArrayAttr)):
        if key not in attributes:
            hint = "see `#bascule.operand` in docs/dialect.md for an ATen function with all that it needs"
            raise UserError(
                f"the ATen function @{name} has no '{key}' of type {kind.__name__}", location=where, hint=hint
            )
    type_ = ir.FunctionType(ir.TypeAttr(attributes["function_type"]).value)
    count = len(type_.inputs)
    written = attributes[MUTATES] if MUTATES in attributes else ()
    for key, numbers in ((ARGUMENTS, operand_numbers(attributes[ARGUMENTS])), (MUTATES, written)):
        for number in numbers:
            if not 0 <= number < count:
                raise UserError(f"'{key}' of @{name} has operand {number} of {count}", location=where)
    found, makes = len(attributes[RESULTS]), len(type_.results)
    if found != makes and not (OUT in attributes and makes == 0 and found <= count):  # destinations come last
        raise UserError(f"'{RESULTS}' of @{name} has {found} numbers for {makes} results", location=where)
    for what, name_, types, sizes in _sized(function, type_):
        _check(function, None, what, name_, types, sizes)


def _sized(
    function: ir.Operation, type_: ir.FunctionType
) -> Iterator[tuple[str, str, list[ir.Type], list[ir.Attribute]]]:
    """The tensors of an ATen function of which sizes are asked for: what it makes, or, where it has destinations, these."""
    sizes = list(function.attributes[SHAPES]) if SHAPES in function.attributes else []
    if len(type_.results):
        yield "result", SHAPES, type_.results, sizes
    elif OUT in function.attributes:
        yield "destination", SHAPES, type_.inputs[len(type_.inputs) - len(function.attributes[RESULTS]) :], sizes


def operand_numbers(attribute: ir.Attribute) -> Iterator[int]:
    """The numbers of the operands that an entry of `bascule.arguments` names."""
    if isinstance(attribute, OperandAttr):
        yield ir.IntegerAttr(attribute.index).value
    elif isinstance(attribute, ir.ArrayAttr):
        for entry in attribute:
            yield from operand_numbers(entry)


def _check(
    function: ir.Operation,
    symbols: int | None,
    what: str,
    name: str,
    types: Sequence[ir.Type],
    sizes: Sequence[ir.Attribute | None],
) -> None:
    for number, type_ in enumerate(types):
        complaint = None
        if isinstance(type_, ir.RankedTensorType | ir.MemRefType):
            size = sizes[number] if number < len(sizes) else None
            complaint = _element(type_) or layout_complaint(type_, symbols) or _sizes(type_, size, symbols, name)
        elif what == "result" or symbols is None or number >= symbols:
            complaint = _other(type_)
        if complaint:
            text = f"{what} {number} of @{function.attributes['sym_name'].value}, {type_}, {complaint}"
            raise UserError(text, location=source_of(function.location))


def _other(type_: ir.Type) -> str | None:
    """Tells what is wrong with an argument after the symbols, or a result, that is no ranked tensor."""
    if isinstance(type_, ir.MemRefType) or str(type_).startswith("!torch."):
        return None
    return "is no tensor of known rank: a function takes its symbols first, of type index, then tensors, and returns tensors"


def _element(type_: ir.RankedTensorType | ir.MemRefType) -> str | None:
    return None if str(type_.element_type) in ELEMENTS else "has elements of a type that no dtype of PyTorch is"


def layout_complaint(type_: ir.RankedTensorType | ir.MemRefType, symbols: int | None) -> str | None:
    """Tells what is wrong with the layout of a type in a function of `symbols` symbols."""
    return _layout(type_, symbols) if isinstance(type_, ir.RankedTensorType) else _strides(type_, symbols)


def _strides(type_: ir.MemRefType, symbols: int | None) -> str | None:
    """Tells what is wrong with the layout of a memref type."""
    if isinstance(type_.layout, ir.StridedLayoutAttr):
        unknown = ir.ShapedType.get_dynamic_stride_or_offset()
        if unknown in (type_.layout.offset, *type_.layout.strides):
            return (
                "has strides that are not known: a layout of symbols, affine_map<(d0)[s0] -> (..)>, says what they are"
            )
        return NOT_STRIDED if any(stride < 0 for stride in type_.layout.strides) else None
    results = [result.maybe_downcast() for result in type_.affine_map.results]
    if len(results) == 1:
        return _beyond("layout", type_.affine_map, symbols) if _is_strided(results[0]) else NOT_STRIDED
    if not all(isinstance(e, ir.AffineDimExpr) and e.position == dim for dim, e in enumerate(results)):
        return NOT_STRIDED
    if any(map(type_.is_dynamic_dim, range(1, type_.rank))):
        return "is dynamic beyond its first dimension and has no layout: its strides are not known"
    return None


def _layout(type_: ir.RankedTensorType, symbols: int | None) -> str | None:
    """Tells what is wrong with the layout of a tensor type in a function of `symbols` symbols."""
    if type_.encoding is None:
        return None if type_.has_static_shape else "is dynamic and has no #bascule.layout: its strides are not known"
    if not isinstance(type_.encoding, LayoutAttr):
        return "has an encoding that is no #bascule.layout"
    map_ = ir.AffineMapAttr(type_.encoding.map).value
    if (map_.n_dims, len(map_.results)) != (type_.rank, 1):
        return f"has a layout of {map_.n_dims} dims and {len(map_.results)} results: {type_.rank} and 1 are needed"
    if not _is_strided(map_.results[0]):
        return NOT_STRIDED
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


def _sizes(
    type_: ir.RankedTensorType | ir.MemRefType, sizes: ir.Attribute | None, symbols: int | None, name: str
) -> str | None:
    """Tells what is wrong with the size map `sizes` of a tensor type."""
    if not isinstance(sizes, ir.AffineMapAttr):
        return None if type_.has_static_shape else f"is dynamic and has no '{name}', affine_map<()[s0, ...] -> (...)>"
    map_ = sizes.value
    if (map_.n_dims, len(map_.results)) != (0, type_.rank):
        return f"has a '{name}' of {map_.n_dims} dims and {len(map_.results)} sizes: 0 and {type_.rank} are needed"
    for dim, size in enumerate(map_.results):
        if not type_.is_dynamic_dim(dim) and constant(size) != type_.get_dim_size(dim):
            return f"has a '{name}' whose size {dim} is {size}"
    return _beyond(f"'{name}'", map_, symbols)


def _beyond(what: str, map_: ir.AffineMap, symbols: int | None) -> str | None:
    """Complains of symbols beyond those of a function; an ATen function has its caller's."""
    return (
        None
        if symbols is None or map_.n_symbols <= symbols
        else f"has a {what} of {map_.n_symbols} symbols in a function of {symbols}"
    )
