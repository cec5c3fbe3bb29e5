"""Rules for what gives a program its points and its reads: our regions, `scf`, `affine`, scalars, `tensor.extract`."""

import math
from dataclasses import replace

import torch

from ..ir.types import scalar_type
from ..mlir import ir
from .errors import error
from .frame import Frame, Scope, rule
from .maps import evaluate, floordiv
from .races import watch
from .reductions import REDUCTIONS, SCANS, combine
from .scalars import DIVISIONS, SCALARS
from .values import Tile, fresh, is_freed, layout_strides, row_major, signed


def ranges(frame: Frame, op: ir.Operation) -> list[int]:
    return frame.sizes(op.attributes["ranges"].value)


def evaluate_region(frame: Frame, op: ir.Operation, scope: Scope) -> tuple[list[int], torch.Tensor]:
    """Runs an op's region at all points of its ranges: their sizes, and what it yields, with those axes in full."""
    sizes = ranges(frame, op)
    inner, indices = scope.inside(sizes)
    (value,) = frame.region(op.regions[0], indices, inner)
    value = value.reshape([1] * (len(inner.axes) - value.dim()) + list(value.shape))
    return sizes, value.expand([*sizes, *value.shape[len(sizes) :]])


def place(frame: Frame, op: ir.Operation, value: torch.Tensor, sizes: list[int], scope: Scope) -> torch.Tensor | Tile:
    """The tensor result of `op`: in memory with the layout of its type, or a tile when made at points of a kernel."""
    if scope.axes:
        return Tile(value, len(sizes))
    type_ = op.results[0].type
    result = empty(frame, op, type_, sizes)
    signed(result).copy_(value)
    return result


def empty(frame: Frame, op: ir.Operation, type_: ir.Type, sizes: list[int]) -> torch.Tensor:
    """A poisoned tensor of a ranked tensor type with `sizes`."""
    if type_.encoding is None:
        strides, offset = row_major(sizes), 0
    else:
        try:
            strides, offset = layout_strides(type_, frame.symbols)
        except ValueError as reason:
            raise error(op, str(reason)) from None
    return fresh(sizes, type_.element_type, strides, offset)


@rule("bascule.compute")
def compute(frame, op, operands, scope):
    sizes, value = evaluate_region(frame, op, scope)
    return [place(frame, op, value, sizes, scope)]


@rule("bascule.reduce")
def reduce(frame, op, operands, scope):
    sizes, value = evaluate_region(frame, op, scope)
    kind = op.attributes["kind"].value
    flat = value.reshape(-1 if 0 not in value.shape else torch.Size(sizes).numel(), *value.shape[len(sizes) :])
    if kind in ("argmax", "argmin") and flat.shape[0] == 0 and 0 not in scope.axes:
        raise error(op, f"of kind '{kind}' has no points to choose from")
    results = REDUCTIONS[kind](flat)
    return results if isinstance(results, tuple) else (results,)


@rule("bascule.scan")
def scan(frame, op, operands, scope):
    sizes, value = evaluate_region(frame, op, scope)
    kind, dim = op.attributes["kind"].value, op.attributes["dim"].value
    return [place(frame, op, SCANS[kind](value, dim), sizes, scope)]


@rule("bascule.kernel")
def kernel(frame, op, operands, scope):
    sizes, watched = ranges(frame, op), watch(op.regions[0], frame.values) if frame.watched else None
    inner, indices = scope.inside(sizes)
    frame.region(op.regions[0], indices, replace(inner, loops=len(sizes), domain=len(sizes), watch=watched))
    if watched is not None:
        watched.check()


@rule("bascule.foreach")
def foreach(frame, op, operands, scope):
    sizes = ranges(frame, op)
    inner, indices = scope.inside(sizes)
    inner = replace(inner, loops=scope.loops + len(sizes), loop=op)
    if scope.watch is not None and not scope.loops:  # a kernel without ranges: each of its loops is a domain of its own
        inner = replace(inner, domain=len(sizes), start=scope.watch.domains)
        scope.watch.domains += math.prod(sizes)
    frame.region(op.regions[0], indices, inner)


@rule("bascule.scatter")
def scatter(frame, op, operands, scope):
    dest = empty(frame, op, op.results[0].type, list(operands[0].shape))
    dest.copy_(operands[0])
    inner, indices = scope.inside(ranges(frame, op))
    frame.region(op.regions[0], [*indices, dest], inner)
    return [dest]


def checked(op: ir.Operation, what: str, shape: torch.Size, indices: list, scope: Scope) -> list[torch.Tensor]:
    """`indices`, kept in range where no point is run; an index out of range at a point that is run is an error."""
    result = []
    for dim, (index, size) in enumerate(zip(indices, shape)):
        outside = (index < 0) | (index >= size)
        if bool(outside.any()):
            if scope.live(outside):
                bad = index.expand_as(outside)[outside]
                raise error(op, f"{what} out of range: index {int(bad[0])} of dimension {dim} of size {size}")
            index = torch.clamp(index, 0, max(0, size - 1))
        result.append(index)
    return result


def read(op: ir.Operation, source, indices: list[torch.Tensor], scope: Scope) -> torch.Tensor:
    """The scalars at `indices` of a tensor or of a tile made at the same points."""
    data, points = (source.data, source.data.shape[source.rank :]) if isinstance(source, Tile) else (source, ())
    logical = data.shape[: data.dim() - len(points)]
    indices = checked(op, "reads", logical, indices, scope)
    if 0 in logical:  # no point reads: any value will do
        shape = torch.broadcast_shapes(*(index.shape for index in indices), points)
        return torch.zeros(shape, dtype=signed(data).dtype)
    if scope.watch is not None and not isinstance(source, Tile):
        scope.watch.note(op, data, indices, scope, writes=False)
    own = [torch.arange(size).reshape([size] + [1] * (len(points) - 1 - i)) for i, size in enumerate(points)]
    if is_freed(data):
        raise error(op, "reads memory that was given back")
    data = signed(data)
    narrow = data.is_floating_point() and data.element_size() == 1  # torch has no indexing of f8
    picked = (data.view(torch.uint8) if narrow else data)[(*indices, *own)]
    if not data.dim():  # no index: a view of the memory, which a later store would change
        picked = picked.clone()
    return picked.view(data.dtype) if narrow else picked


@rule("tensor.extract")
def extract(frame, op, operands, scope):
    return [read(op, operands[0], operands[1:], scope)]


def write(op: ir.Operation, dest: torch.Tensor, value, indices: list, scope: Scope, mode: str = "set") -> None:
    """Stores `value` at `indices` of `dest`, for every point that is run, in row-major order of the points."""
    if 0 in scope.axes:
        return
    indices = checked(op, "writes", dest.shape, indices, scope)
    if scope.watch is not None:
        scope.watch.note(op, dest, indices, scope, writes=True)
    at = torch.zeros((), dtype=torch.int64)
    for index, size in zip(indices, dest.shape):
        at = at * size + index
    at, values = scope.spread(at), scope.spread(value)
    if scope.mask is not None:
        kept = scope.spread(scope.mask)
        at, values = at[kept], values[kept]
    dest = signed(dest)
    if len(at):
        dest.copy_(combine(mode, dest.reshape(-1), at, values).reshape(dest.shape))


@rule("bascule.store")
def store(frame, op, operands, scope):
    value, dest, *indices = operands
    mode = op.attributes["mode"].value if "mode" in op.attributes else "set"
    write(op, getattr(dest, "tensor", dest), value, indices, scope, mode)


@rule("builtin.unrealized_conversion_cast")
def conversion_cast(frame, op, operands, scope):
    if scalar_type(op.operands[0].type) != scalar_type(op.results[0].type):
        raise error(op, f"from {op.operands[0].type} to {op.results[0].type} is not a change of sign")
    return operands


@rule("affine.apply")
def affine_apply(frame, op, operands, scope):
    map_ = op.attributes["map"].value
    try:
        value = evaluate(map_.results[0], operands[: map_.n_dims], operands[map_.n_dims :])
    except ZeroDivisionError as reason:
        raise error(op, str(reason)) from None
    return [torch.as_tensor(value)]


@rule("affine.min", "affine.max")
def affine_extreme(frame, op, operands, scope):
    map_ = op.attributes["map"].value
    choose = torch.minimum if op.name == "affine.min" else torch.maximum
    values = [torch.as_tensor(evaluate(e, operands[: map_.n_dims], operands[map_.n_dims :])) for e in map_.results]
    result = values[0]
    for value in values[1:]:
        result = choose(result, value)
    return [result]


def _basis(op: ir.Operation, dynamic: list) -> list:
    """The sizes of an index basis: constants where static, operands where not."""
    rest = iter(dynamic)
    unknown = ir.ShapedType.get_dynamic_size()
    return [next(rest) if size == unknown else size for size in op.attributes["static_basis"]]


@rule("affine.delinearize_index")
def delinearize(frame, op, operands, scope):
    basis, rest, results = _basis(op, operands[1:]), operands[0], []
    inner = basis if len(basis) < len(op.results) else basis[1:]  # an outer bound, if given, divides nothing
    for size in reversed(inner):
        quotient = floordiv(rest, size)
        results.append(rest - quotient * size)
        rest = quotient
    return [rest, *reversed(results)]


@rule("affine.linearize_index")
def linearize(frame, op, operands, scope):
    count = op.attributes["operandSegmentSizes"][0]
    basis = _basis(op, operands[count:])
    total = operands[0]
    for index, size in zip(operands[1:count], basis[len(basis) - count + 1 :]):
        total = total * size + index
    return [total]


def _scalar(frame, op, operands, scope):
    if isinstance(op.results[0].type, ir.ShapedType) and op.operands:
        raise error(op, "computes a whole tensor, which no stage has", hint="compute its elements in a bascule.compute")
    results = SCALARS[op.name](op, *operands)
    return results if isinstance(results, tuple) else (results,)


def _division(frame, op, operands, scope):
    with_sign, function = DIVISIONS[op.name]
    left, right = operands
    if scope.live(right == 0):
        raise error(op, "divides by zero", hint="guard it with scf.if, or select another divisor first")
    if with_sign and right.dtype != torch.bool:
        smallest = torch.iinfo(left.dtype).min
        if scope.live((left == smallest) & (right == -1)):
            raise error(op, f"divides {smallest} by -1, which overflows")
    return [function(op, left, right)]


rule(*SCALARS)(_scalar)
rule(*DIVISIONS)(_division)


@rule("scf.if")
def scf_if(frame, op, operands, scope):
    condition = operands[0]
    branches = []
    for region, chosen in zip(op.regions, (condition, ~condition)):
        if len(region.blocks):
            branches.append(frame.region(region, (), scope.under(chosen)))
    return [torch.where(condition, a, b) for a, b in zip(*branches)] if len(op.results) else ()


@rule("scf.for")
def scf_for(frame, op, operands, scope):
    index, end, step, *carried = operands
    while scope.live(index < end):
        running = index < end
        new = frame.region(op.regions[0], [index, *carried], scope.under(running))
        carried = [torch.where(running, a, b) for a, b in zip(new, carried)]
        index = torch.where(running, index + step, index)
    return carried


@rule("scf.while")
def scf_while(frame, op, operands, scope):
    before, after = op.regions
    carried, active, results = operands, torch.ones((), dtype=torch.bool), None
    while True:
        again, *passed = frame.region(before, carried, scope.under(active))
        results = passed if results is None else [torch.where(active, a, b) for a, b in zip(passed, results)]
        active = active & again
        if not scope.live(active):
            return results
        new = frame.region(after, passed, scope.under(active))
        carried = [torch.where(active, a, b) for a, b in zip(new, carried)]
