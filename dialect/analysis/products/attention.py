"""Attention: rows of scores, each made of contractions, the softmax of a row or none, and sums of values that it weighs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...ir.regions import end_of
from ...ir.shapes import constant
from ...mlir import ir
from ..bodies.backward_slice import needed
from ..bodies.body_summary import Access
from ..bodies.body_tree import Node
from .contractions import Contraction, Operand, before_widening, contraction_of, is_tf32, operand_of


@dataclass(frozen=True)
class Attention:
    """`scores` is a row near the processor, made of the contractions `products` of queries by keys; `normalizers` reduce it to its maximum and
    the sum of exponentials about that, in one loop or two; `weighted` sums the products of those exponentials and of `values`. Without
    normalizers what is in the row weighs the values as it is. Of the indices around, as positions among them: `rows` the queries depend
    on and nothing else, `columns` the values alone, `batch` the rest, as the part of the keys."""

    scores: Node
    products: tuple[Contraction, ...]
    normalizers: tuple[Node, ...]
    weighted: Node
    values: Operand
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def loops(self) -> tuple[Node, ...]:
        return self.scores, *self.normalizers, self.weighted

    @property
    def is_exact(self) -> bool:
        """Whether factors of f32 are multiplied as they are, which no tensor core does."""
        return self.products[0].is_exact

    def walks_with(self, other: "Attention") -> bool:
        """Whether both take the same steps for the same points."""
        places = [(each.batch, each.rows, each.columns, each.values.element, each.is_exact) for each in (self, other)]
        ranges = [tuple(each.scores.sizes) for each in (self, other)]
        return not self.normalizers and not other.normalizers and places[0] == places[1] and ranges[0] == ranges[1]


def attentions_of(
    loops: Sequence[Node], indices: Sequence[int], sizes: Sequence[ir.AffineExpr], accesses: Sequence[Access]
) -> list[Attention]:
    """The attentions that `loops` are, at the points of `indices` of `sizes`: one, or two that walk together. Nothing if they are something
    else."""
    found = attention_of(loops, indices, sizes, accesses)
    if found is not None or len(loops) != 4:
        return [] if found is None else [found]
    halves = [attention_of(half, indices, sizes, accesses) for half in (loops[:2], loops[2:])]
    one, other = halves
    return [one, other] if one is not None and other is not None and one.walks_with(other) else []


def attention_of(
    loops: Sequence[Node], indices: Sequence[int], sizes: Sequence[ir.AffineExpr], accesses: Sequence[Access]
) -> Attention | None:
    """The attention that `loops` are; None if they are something else."""
    if len(loops) not in (2, 3, 4) or loops[0].name != "bascule.compute" or len({tuple(n.sizes) for n in loops}) > 1:
        return None
    scores, *normalizers, weighted = loops
    found = _weighed(scores, normalizers, weighted)
    if found is None:
        return None
    values, row = operand_of(found, weighted, accesses), len(indices)
    products = tuple(_products(scores, [*indices, scores.indices[0]], [*sizes, scores.sizes[0]], accesses))
    if values is None or not products or not values.varies(weighted.indices[0]):
        return None
    (product, *others) = products
    if any(other.rows != product.rows for other in others):
        return None
    if any(row not in each.columns or each.x.element != values.element for each in products):
        return None
    if len({is_tf32(loop.op) for loop in (weighted, *(each.loop for each in products))}) > 1:
        return None
    weighed = [place for place, index in enumerate(indices) if constant(sizes[place]) != 1 and values.varies(index)]
    if not {*weighed}.isdisjoint(product.rows):
        return None
    scored = {place for each in products for place in weighed if _varies(each, indices[place])}
    columns = tuple(place for place in weighed if place not in scored)
    batch = tuple(place for place in range(row) if place not in (*product.rows, *columns))
    return Attention(scores, products, tuple(normalizers), weighted, values, batch, product.rows, columns)


def _weighed(scores: Node, normalizers: Sequence[Node], weighted: Node) -> ir.Value | None:
    """The values that `weighted` sums; None where it sums something else."""
    if not normalizers:
        plain = row_weights_of(weighted.op)
        return plain.values if plain is not None and _reads(plain.score, scores.op, weighted.op) else None
    found = weights_of(weighted.op) if _normalize(scores, normalizers) else None
    if found is None or found.power.operands[0].owner.operands[1] != normalizers[0].op.results[0]:
        return None
    return found.values if _reads(found.score, scores.op, weighted.op) else None


def _products(
    scores: Node, indices: Sequence[int], sizes: Sequence[ir.AffineExpr], accesses: Sequence[Access]
) -> Iterator[Contraction]:
    """The contractions in a row of scores, its index the last of `indices` and a column; nothing if one of them is something else."""
    found = [contraction_of(loop, indices, sizes, accesses) for loop in scores.inner_loops()]
    for product in found if None not in found else ():
        assert product is not None
        yield product.swapped() if product.rows == (len(indices) - 1,) else product


def _varies(product: Contraction, index: int) -> bool:
    return product.x.varies(index) or product.y.varies(index)


@dataclass(frozen=True)
class Weights:
    """A sum of `weight` * `values`: `weight` is a multiple of `power`, exp(score - maximum), element by element, rounded to the values' type."""

    score: ir.Value
    power: ir.Operation
    weight: ir.Value
    values: ir.Value


@dataclass(frozen=True)
class RowWeights:
    """A sum of `score`, an element of a row, rounded to the type of `values` where that has 16 bits, * `values`."""

    score: ir.Value
    values: ir.Value


def row_weights_of(reduce: ir.Operation) -> RowWeights | None:
    """The element of a row and the values that `reduce` sums the products of; None where it sums something else."""
    for weight, values in _factors(reduce):
        multiplied, rounding = _multiplied(values), owner_of(before_widening(weight))
        rounded = rounding is not None and rounding.name == "arith.truncf"
        score = rounding.operands[0] if rounding is not None and rounded else weight
        read = owner_of(score)
        if multiplied is not None and read is not None and read.name == "tensor.extract":
            made = owner_of(read.operands[0])
            if made is not None and made.name == "bascule.compute":
                return RowWeights(score, multiplied)
    return None


def _multiplied(values: ir.Value) -> ir.Value | None:
    """The numbers of 16 bits that `values` are widened from, or `values` of f32; None for others."""
    narrow = before_widening(values)
    return narrow if narrow != values or isinstance(values.type, ir.F32Type) else None


def weights_of(reduce: ir.Operation) -> Weights | None:
    """The weights and the values that `reduce` sums; None where it sums something else. Weights in f32 count as rounded."""
    for weight, values in _factors(reduce):
        multiplied = _multiplied(values)
        rounding = owner_of(before_widening(weight))
        wide = (
            rounding.operands[0]
            if rounding is not None and rounding.name == "arith.truncf"
            else before_widening(weight)
        )
        power = scaled(wide, lambda op: _centred(op) is not None)
        score = _centred(power)
        if score is not None and power is not None and multiplied is not None:
            return Weights(score, power, wide, multiplied)
    return None


def scaled(value: ir.Value, is_source: Callable[[ir.Operation], bool]) -> ir.Operation | None:
    """The op, a source, of whose result `value` is a multiple, rounded or not, by what does not depend on it; None where it is none."""
    owner = owner_of(value)
    if owner is None or is_source(owner):
        return None if owner is None else owner.operation
    candidates: list[tuple[ir.Value, list[ir.Value]]]
    match owner.name:
        case "arith.extf" | "arith.truncf":
            candidates = [(owner.operands[0], [])]
        case "arith.mulf":
            x, y = owner.operands
            candidates = [(x, [y]), (y, [x])]
        case "arith.divf":
            candidates = [(owner.operands[0], [owner.operands[1]])]
        case "arith.select":
            condition, x, y = owner.operands
            candidates = [(one, [condition]) for one, other in ((x, y), (y, x)) if is_zero(other)]
        case _:
            candidates = []
    for part, others in candidates:
        source = scaled(part, is_source)
        if source is not None and not any(source in needed([other], source.block).ops for other in others):
            return source
    return None


def is_zero(value: ir.Value) -> bool:
    """Whether `value` is the constant 0."""
    owner = owner_of(value)
    return owner is not None and owner.name == "arith.constant" and owner.attributes["value"].value == 0


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


def _factors(reduce: ir.Operation) -> list[tuple[ir.Value, ir.Value]]:
    """The factors of the products that a sum adds up, either first."""
    if reduce.name != "bascule.reduce" or _kind(reduce) != "sum":
        return []
    term = owner_of(yielded(reduce))
    if term is None or term.name != "arith.mulf":
        return []
    x, y = term.operands
    return [(x, y), (y, x)]


def _kind(reduce: ir.Operation) -> str:
    return str(reduce.attributes["kind"].value)


def yielded(loop: ir.Operation) -> ir.Value:
    """The value that the region of a compute or a reduction yields first."""
    return end_of(loop.regions[0].blocks[0]).operands[0]


def owner_of(value: ir.Value) -> ir.Operation | None:
    """The op that makes `value`; None for an argument of a block."""
    return None if isinstance(value.owner, ir.Block) else value.owner
