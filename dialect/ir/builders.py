"""Building IR of this dialect: each function creates one op at the current insertion point and fills its region by a callback."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..mlir import affine, builtin, ir, tensor
from .attributes import i64
from .definition import build
from .loop_ops import POSITION_KINDS, REDUCE_KINDS, ComputeOp, ForeachOp, KernelOp, ReduceOp, ScanOp, YieldOp
from .memory_ops import CopyIntoOp, ScatterOp, StoreOp, ViewOp
from .random_op import RandomOp
from .shapes import Size, shape_of, size_map
from .types import scalar_type, symbols_among

Indices: TypeAlias = list[ir.Value]


def _fill(op, rank: int, body: Callable[..., Sequence[ir.Value]], extra: Sequence[ir.Type] = ()) -> None:
    index, loc = ir.IndexType.get(), op.operation.location
    block = ir.Block.create_at_start(op.operation.regions[0], [index] * rank + list(extra), [loc] * (rank + len(extra)))
    arguments = list(block.arguments)
    try:
        with ir.InsertionPoint(block), loc:
            build(YieldOp, operands=body(arguments[:rank], *arguments[rank:]))
    except BaseException:
        op.operation.erase()  # a body that gives up leaves nothing behind
        raise


def _nothing(_: object) -> Sequence[ir.Value]:
    """The values that a region of stores yields: none."""
    return ()


def compute(type_: ir.RankedTensorType, sizes: Sequence[Size], body: Callable[[Indices], ir.Value]) -> ir.Value:
    """`bascule.compute` of `type_`: element at `indices` is the scalar that `body(indices)` returns."""
    op = build(ComputeOp, results=[type_], attributes={"ranges": ir.AffineMapAttr.get(size_map(sizes))})
    _fill(op, len(sizes), lambda indices: [body(indices)])
    return op.operation.results[0]


def reduce(kind: str, sizes: Sequence[Size], type_: ir.Type, body: Callable[[Indices], ir.Value]) -> list[ir.Value]:
    """`bascule.reduce` of `kind` over `sizes`; `type_` is what `body` returns. Returns the results."""
    result = ir.IntegerType.get_signless(64) if kind in POSITION_KINDS else type_
    attributes = {"kind": ir.StringAttr.get(kind), "ranges": ir.AffineMapAttr.get(size_map(sizes))}
    op = build(ReduceOp, results=[result] * REDUCE_KINDS[kind], attributes=attributes)
    _fill(op, len(sizes), lambda indices: [body(indices)])
    return list(op.operation.results)


def scan(
    kind: str, dim: int, type_: ir.RankedTensorType, sizes: Sequence[Size], body: Callable[[Indices], ir.Value]
) -> ir.Value:
    """`bascule.scan` of `kind` along range `dim`, giving a tensor of `type_`."""
    attributes = {
        "kind": ir.StringAttr.get(kind),
        "dim": i64(dim),
        "ranges": ir.AffineMapAttr.get(size_map(sizes)),
    }
    op = build(ScanOp, results=[type_], attributes=attributes)
    _fill(op, len(sizes), lambda indices: [body(indices)])
    return op.operation.results[0]


def foreach(sizes: Sequence[Size], body: Callable[[Indices], object]) -> None:
    """`bascule.foreach` over `sizes`; `body` makes its stores."""
    op = build(ForeachOp, attributes={"ranges": ir.AffineMapAttr.get(size_map(sizes))})
    _fill(op, len(sizes), lambda indices: _nothing(body(indices)))


def kernel(sizes: Sequence[Size], body: Callable[[Indices], object]) -> KernelOp:
    """`bascule.kernel` over the parallel domain `sizes`."""
    op = build(KernelOp, attributes={"ranges": ir.AffineMapAttr.get(size_map(sizes))})
    _fill(op, len(sizes), lambda indices: _nothing(body(indices)))
    return op


def scatter(
    init: ir.Value,
    sizes: Sequence[Size],
    body: Callable[[Indices, ir.Value], object],
    type_: ir.RankedTensorType | None = None,
) -> ir.Value:
    """`bascule.scatter` into `init`, giving `type_` (default: `init`'s); `body(indices, dest)` makes the stores."""
    type_ = type_ or init.type
    attributes = {"ranges": ir.AffineMapAttr.get(size_map(sizes))}
    op = build(ScatterOp, results=[type_], operands=[init], attributes=attributes)
    _fill(op, len(sizes), lambda indices, dest: _nothing(body(indices, dest)), [type_])
    return op.operation.results[0]


def store(value: ir.Value, dest: ir.Value, indices: Sequence[ir.Value], mode: str = "set") -> None:
    """`bascule.store` of the scalar `value` at `dest[indices]`."""
    attributes = {} if mode == "set" else {"mode": ir.StringAttr.get(mode)}
    build(StoreOp, operands=[value, dest, *indices], attributes=attributes)


def read(source: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
    """The scalar at `source[indices]`; of unsigned elements, as the signless integer."""
    value = tensor.extract(source, list(indices))
    signless = scalar_type(value.type)
    return value if signless == value.type else builtin.unrealized_conversion_cast([signless], [value])


def apply(map_: ir.AffineMap, dims: Sequence[ir.Value], symbols: Sequence[ir.Value]) -> list[ir.Value]:
    """The results of `map_` at `dims`, one `affine.apply` each; a result that is just a dimension costs none.

    `symbols` are all the symbols of the enclosing function: the map uses the first of them.
    """
    used = list(symbols)[: map_.n_symbols]
    values = []
    for result in map_.results:
        if isinstance(result, ir.AffineDimExpr):
            values.append(dims[result.position])
        else:
            single = ir.AffineMap.get(map_.n_dims, map_.n_symbols, [result])
            values.append(affine.apply(single, [*dims, *used]))
    return values


def view(source: ir.Value, map_: ir.AffineMap, sizes: Sequence[Size], type_: ir.RankedTensorType) -> ir.Value:
    """`bascule.view` of `source` through the index map `map_`, of type `type_`."""
    attributes = {"map": ir.AffineMapAttr.get(map_), "shape": ir.AffineMapAttr.get(size_map(sizes))}
    return build(ViewOp, results=[type_], operands=[source], attributes=attributes).operation.results[0]


def copy_into(value: ir.Value, dest: ir.Value) -> None:
    """`bascule.copy_into`: `value` becomes the final contents of the argument `dest`."""
    build(CopyIntoOp, operands=[value, dest])


def random(distribution: str, seed: ir.Value, position: ir.Value, type_: ir.Type) -> ir.Value:
    """`bascule.random` of `type_`, at the index `position` of the stream of `seed`, an i64."""
    op = build(
        RandomOp,
        results=[type_],
        operands=[seed, position],
        attributes={"distribution": ir.StringAttr.get(distribution)},
    )
    return op.operation.results[0]


def symbols_of(function: ir.Operation) -> list[ir.Value]:
    """The symbol arguments of a function: its leading arguments of type `index`."""
    arguments = list(function.regions[0].blocks[0].arguments)
    return arguments[: symbols_among(argument.type for argument in arguments)]


def element_at(source: ir.Value) -> Callable[[Indices], ir.Value]:
    """`body` for `compute` that reads `source` at the same index."""
    return lambda indices: read(source, indices)


__all__ = [
    "apply",
    "compute",
    "copy_into",
    "element_at",
    "foreach",
    "kernel",
    "random",
    "read",
    "reduce",
    "scan",
    "scatter",
    "shape_of",
    "store",
    "symbols_of",
    "view",
]
