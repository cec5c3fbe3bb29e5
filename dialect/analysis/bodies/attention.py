"""Attention: rows of scores, each a contraction, the softmax of a row, and sums of values that it weighs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.regions import end_of
from ...ir.shapes import constant
from ...mlir import ir
from .body_summary import Access
from .body_tree import Node
from .contractions import Contraction, Operand, before_widening, contraction_of, operand_of


@dataclass(frozen=True)
class Attention:
    """`scores` is a row near the processor, made of the contraction `product` of queries by keys; `normalizers` reduce it to its maximum and
    the sum of exponentials about that, in one loop or two; `weighted` sums the products of those exponentials and of `values`. Of the indices
    around, as positions among them: `rows` the scores depend on, `columns` the values alone, `batch` both."""

    scores: Node
    product: Contraction
    normalizers: tuple[Node, ...]
    weighted: Node
    values: Operand
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def loops(self) -> tuple[Node, ...]:
        return self.scores, *self.normalizers, self.weighted


def attention_of(
    loops: Sequence[Node], indices: Sequence[int], sizes: Sequence[ir.AffineExpr], accesses: Sequence[Access]
) -> Attention | None:
    """The attention that `loops` are, at the points of `indices` of `sizes`; None if they are something else."""
    if len(loops) not in (3, 4) or loops[0].name != "bascule.compute" or len({tuple(n.sizes) for n in loops}) > 1:
        return None
    scores, *normalizers, weighted = loops
    inner = scores.inner_loops()
    if len(inner) != 1 or not _normalize(scores, normalizers):
        return None
    found = weights_of(weighted.op)
    if found is None or found.power.operands[0].owner.operands[1] != normalizers[0].op.results[0]:
        return None
    if not _reads(found.score, scores.op, weighted.op):
        return None
    values, row = operand_of(found.values, weighted, accesses), len(indices)
    product = contraction_of(inner[0], [*indices, scores.indices[0]], [*sizes, scores.sizes[0]], accesses)
    if product is None or values is None or values.element != product.x.element:
        return None
    if product.rows == (row,):
        product = product.swapped()
    if product.columns != (row,) or not values.varies(weighted.indices[0]):
        return None
    weighed = [place for place, index in enumerate(indices) if constant(sizes[place]) != 1 and values.varies(index)]
    if not {*weighed}.isdisjoint(product.rows):
        return None
    scored = [place for place in weighed if product.x.varies(indices[place]) or product.y.varies(indices[place])]
    columns = tuple(place for place in weighed if place not in scored)
    batch = tuple(place for place in product.batch if place not in columns)
    return Attention(scores, product, tuple(normalizers), weighted, values, batch, product.rows, columns)


@dataclass(frozen=True)
class Weights:
    """A sum of `power` * `values`: `power` is exp(score - maximum), rounded to the values' type."""

    score: ir.Value
    power: ir.Operation
    values: ir.Value


def weights_of(reduce: ir.Operation) -> Weights | None:
    """The weights and the values that `reduce` sums; None where it sums something else. Weights in f32 count as rounded."""
    if reduce.name != "bascule.reduce" or _kind(reduce) != "sum":
        return None
    term = owner_of(yielded(reduce))
    operands = list(term.operands) if term is not None and term.name == "arith.mulf" else []
    for weight, values in (operands, operands[::-1]) if operands else ():
        narrow = before_widening(values)
        rounding = owner_of(before_widening(weight))
        power = owner_of(rounding.operands[0]) if rounding is not None and rounding.name == "arith.truncf" else rounding
        score = _centred(power)
        if score is not None and power is not None and narrow != values:
            return Weights(score, power, narrow)
    return None


def _normalize(scores: Node, normalizers: Sequence[Node]) -> bool:
    """Whether these are the maximum of the row and the sum of exponentials about it."""
    kinds = [kind for node in normalizers for kind in node.kinds]
    if kinds == ["softmax"]:
        return _reads(yielded(normalizers[0].op), scores.op, normalizers[0].op)
    if kinds != ["max", "sum"]:
        return False
    largest, total = (node.op for node in normalizers)
    power = owner_of(yielded(total))
    score = _centred(power)
    if score is None or power is None or power.operands[0].owner.operands[1] != largest.results[0]:
        return False
    return _reads(yielded(largest), scores.op, largest) and _reads(score, scores.op, total)


def _centred(power: ir.Operation | None) -> ir.Value | None:
    """The x of exp(x - y)."""
    if power is None or power.name != "math.exp":
        return None
    difference = owner_of(power.operands[0])
    return difference.operands[0] if difference is not None and difference.name == "arith.subf" else None


def _reads(value: ir.Value, row: ir.Operation, loop: ir.Operation) -> bool:
    """Whether `value` is the element of `row` at the point of `loop` at hand."""
    read = owner_of(value)
    arguments = list(loop.regions[0].blocks[0].arguments)
    return read is not None and read.name == "tensor.extract" and list(read.operands) == [row.results[0], *arguments]


def _kind(reduce: ir.Operation) -> str:
    return str(reduce.attributes["kind"].value)


def yielded(loop: ir.Operation) -> ir.Value:
    """The value that the region of a compute or a reduction yields first."""
    return end_of(loop.regions[0].blocks[0]).operands[0]


def owner_of(value: ir.Value) -> ir.Operation | None:
    """The op that makes `value`; None for an argument of a block."""
    return None if isinstance(value.owner, ir.Block) else value.owner
