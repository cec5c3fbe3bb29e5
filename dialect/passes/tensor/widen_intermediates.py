"""The pass `widen-intermediates`: what few compute for many is stored in f32, not rounded to 16 bits."""

from dataclasses import dataclass
from typing import ClassVar

from ...analysis.bodies.body_summary import PRODUCERS, Access, Body, decode, readers_of
from ...analysis.bodies.costs import magnitude, tensor_bytes
from ...analysis.products.contractions import NARROW, factors_of
from ...fusion.attention_parts import FEW as FEW_ROWS
from ...ir.attribute_names import TUNED_PRODUCT
from ...ir.functions import graph_functions
from ...ir.regions import end_of
from ...ir.types import is_undone
from ...mlir import ir
from ..base import VALUES, Pass

FEW = 32  # points of a reader for each point of what it reads: then wider elements are a small part of what moves
SMALL = 1 << 16  # bytes that move in less time than a kernel takes to start


@dataclass(frozen=True)
class WidenIntermediates(Pass):
    """Gives a compute whose elements are rounded for its store a result as wide as they were before, where that costs nothing: only pointwise
    computes of 32 times as many elements read it (a gate, a scale or a shift, whose rounding all elements that it is for would share), or
    computes of which no operand has more than 64 KiB (what is done for one token).

    Results that something else takes, or whose readers ask for rounded numbers (`bascule.stored`, or a `bascule.cast` that meets one), stay
    as they are, and so do factors of products that tensor cores multiply, as of an attention. Takes and leaves the tensor stage.
    """

    name: ClassVar[str] = "widen-intermediates"
    takes: ClassVar[str] = VALUES

    def run(self, module: ir.Module) -> None:
        for graph in graph_functions(module):
            _widen_in(graph)


def _widen_in(graph: ir.Operation) -> None:
    ops = [view.operation for view in graph.regions[0].blocks[0].operations]
    bodies = [Body(op) for op in ops if op.name in PRODUCERS]
    readers = readers_of(bodies)
    for body in bodies:
        if body.op.name == "bascule.compute":
            _widen(body, readers.get(body.result, []))


def _widen(body: Body, uses: list[tuple[Body, Access]]) -> None:
    end = end_of(body.op.regions[0].blocks[0])
    rounding = end.operands[0].owner
    if isinstance(rounding, ir.Block) or not uses or sum(1 for _ in body.result.uses) > len(uses):
        return
    for reader, read in uses:
        repeated = reader.is_pointwise and reader.points * read.times >= FEW * body.points
        if not repeated and any(tensor_bytes(other.buffer) > SMALL for other in reader.reads):
            return
        if TUNED_PRODUCT in read.op.parent.attributes or _is_multiplied(reader, read):
            return  # with factors of 16 bits it was measured, or has tensor cores
        users = [use.owner.operation for use in read.op.results[0].uses]
        if not all(user.name == "arith.extf" and is_undone(rounding, user) for user in users):
            return
    wide = rounding.operands[0]
    end.operands[0] = wide
    if not any(True for _ in rounding.results[0].uses):
        rounding.erase()
    type_ = body.result.type
    body.result.set_type(ir.RankedTensorType.get(type_.shape, wide.type, type_.encoding, loc=body.op.location))
    for _, read in uses:
        element = read.op.results[0]
        extensions = [use.owner.operation for use in element.uses]
        element.set_type(wide.type)
        for extension in extensions:
            extension.results[0].replace_all_uses_with(element)
            extension.erase()


def _is_multiplied(reader: Body, read: Access) -> bool:
    """Whether what is read is a factor of a sum of products of 16 bits that has more than a few rows, and columns."""
    reduce = read.op.parent.operation
    factors = factors_of(reduce) if reduce.name == "bascule.reduce" else None
    if factors is None or read.op.results[0] not in factors or not isinstance(factors[0].type, NARROW):
        return False
    body = decode(reader.op)
    x, y = (body.dependence.get(body.number(factor), {}).keys() & body.sizes.keys() for factor in factors)
    return all(magnitude([body.sizes[index] for index in side]) >= FEW_ROWS for side in (x - y, y - x))
