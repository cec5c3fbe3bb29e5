"""Operands of products that are computed pointwise from tensors of fewer bytes: weights of 8 bits and fewer, which are widened on the way in."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...ir.functions import STORED
from ...ir.regions import op_in, ops_in
from ...ir.shapes import constant, shape_of
from ...ir.types import byte_width
from ...mlir import ir
from ..bodies.body_summary import Body
from ..bodies.costs import tensor_bytes
from .buffers import ALIASES, root_of

STRUCTURE = ("tensor.extract", "affine.apply", "arith.constant", "bascule.yield", "bascule.compute")
MOST = 8  # pieces of an element
FREE = (*STRUCTURE, "arith.extf", "arith.truncf", "builtin.unrealized_conversion_cast")


@dataclass(frozen=True)
class NarrowSource:
    """`computes`: what makes an operand, pointwise, first things first; `bytes`: of the tensors that these read; `ops`: what they do for an
    element, with the last of its roundings. `is_plain`: without conditions on indices; `period`: of those that there are, if it is short: the
    pieces that an element of what is read is taken apart to."""

    computes: list[ir.Operation]
    bytes: int
    ops: int
    is_plain: bool
    period: int


def narrow_source(operand: ir.Value, reader: ir.Operation) -> NarrowSource | None:
    """Where `operand`, which only the call `reader` reads, comes from, if it is computed from fewer bytes than it has, of narrower elements."""
    computes, sources, todo, users = dict[ir.Operation, None](), set[ir.Value](), [operand], {reader}
    while todo:
        value = root_of(todo.pop())
        made = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if made is None or made.name != "bascule.compute":
            sources.add(value)
            continue
        if made in computes:
            continue
        if STORED in made.attributes or not Body(made).is_pointwise or not {*users_of(value)} <= users:
            return None
        computes[made] = None
        users.add(made)
        todo += {op.operands[0] for op in ops_in(made) if op.name == "tensor.extract"}
    if not computes or not sources or any(constant(size) is None for value in sources for size in shape_of(value)):
        return None
    count = sum(tensor_bytes(value) for value in sources)
    ops = 1 + sum(op.name not in FREE for compute in computes for op in ops_in(compute))
    largest = max(sources, key=tensor_bytes)
    narrower = byte_width(largest.type.element_type) < byte_width(operand.type.element_type)
    if not narrower or tensor_bytes(operand) <= count:
        return None
    return NarrowSource(list(computes)[::-1], count, ops, all(map(_is_plain, computes)), max(map(_period, computes)))


def _is_plain(compute: ir.Operation) -> bool:
    """Whether an element is computed without conditions or loops, from elements at places that come from no data."""
    for op in ops_in(compute):
        if op != compute and len(op.regions):
            return False
        indices = [value for value in op.operands if isinstance(value.type, ir.IndexType)]
        if op.name not in STRUCTURE and indices:
            return False
        if any(isinstance(result.type, ir.IndexType) for result in op.results) and op.name not in STRUCTURE:
            return False
    return True


def _period(compute: ir.Operation) -> int:
    """The size of a dim by whose index it is chosen what an element is, if that is short; else 1."""
    arguments, sizes = list(compute.regions[0].blocks[0].arguments), shape_of(compute.results[0])
    compared = {value for op in ops_in(compute) if op.name == "arith.cmpi" for value in op.operands}
    short = [n for index, size in zip(arguments, sizes) if index in compared and (n := constant(size) or 0) <= MOST]
    return max([1, *short])


def users_of(value: ir.Value) -> Iterable[ir.Operation]:
    """The ops at the top level that read a value or a view of it."""
    for use in value.uses:
        user = op_in(value.owner.operation.block, use.owner.operation)
        if user.name in ALIASES:
            yield from users_of(user.results[0])
        else:
            yield user
