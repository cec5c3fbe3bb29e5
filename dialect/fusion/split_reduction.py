"""One reduction of a compute as partial results over chunks of its ranges, and a small reduction of those.

The chunks stand in one fixed order, so a result does not depend on which of them is ready first.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from ..analysis.affine.indexing import Indexing
from ..analysis.bodies.backward_slice import captured, needed
from ..ir import builders
from ..ir.loop_ops import POSITION_KINDS
from ..ir.regions import end_of, ops_in
from ..ir.shapes import Size, constant, expr, index_map, layout_of, row_major, tensor_type
from ..mlir import arith, ir, math, scf
from .chunk_sizes import CHUNKS, Chunks
from .inlining import clone_composed
from .symbolic_chunks import SymbolicChunks

Change = Callable[[ir.Value, list[ir.Value]], ir.Value]
# Kinds that a partial result of the same kind serves; for the others see `_COMBINATIONS`.
PLAIN = ("sum", "prod", "max", "min", "maxu", "minu", "any", "all", "xor")


def is_splittable(op: ir.Operation, reduce: ir.Operation) -> bool:
    """Whether the reduction, directly in the body of the compute `op`, needs no other reduction of it."""
    return _needed(op, reduce) is not None


def refine(
    op: ir.Operation, reduce: ir.Operation, indexing: Indexing, apart: Callable[[ir.Value, int], bool]
) -> ir.Operation:
    """The reduction with ranges of which its reads take quotients and remainders cut there: over (8, 256) instead of 2048, where they
    are at `k floordiv 256` and `k mod 256`. Not for a tensor in whose memory that is a step of one size after all, unless `apart` says that
    others walk its dims k and k + 1 by two indices. `reduce` is erased if another stands for it; `indexing` must not be used after."""
    indexing.enter(op)
    indexing.enter(reduce)
    block = reduce.regions[0].blocks[0]
    cuts = _cuts(block, indexing, apart)
    sizes: list[list[Any]] = []  # expressions of what is not known, which is not cut
    for argument, size in zip(block.arguments, reduce.attributes["ranges"].value.results):
        known = constant(size)
        sizes.append([size] if known is None else _digit_sizes(known, cuts.get(argument, set())))
    if all(len(digits) == 1 for digits in sizes):
        return reduce

    def body(at: list[ir.Value]) -> ir.Value:
        indexing.enter(at[0].owner.owner.operation)
        left, inside = iter(at), dict[ir.Value, ir.Value]()
        for argument, digits in zip(block.arguments, sizes):
            values = tuple(next(left) for _ in digits)
            steps = [ir.AffineExpr.get_dim(i) * prod(digits[i + 1 :]) for i in range(len(digits))]
            inside[argument] = indexing.build((sum(steps[1:], steps[0]).maybe_downcast(), values))
        return _copied(block, inside, indexing)

    flat = [size for digits in sizes for size in digits]
    with ir.InsertionPoint(reduce), reduce.location:
        results = builders.reduce(reduce.attributes["kind"].value, flat, end_of(block).operands[0].type, body)
    keep_attributes(reduce, results[0].owner.operation)
    for old, new in zip(reduce.results, results):
        old.replace_all_uses_with(new)
    reduce.erase()
    return results[0].owner.operation


def keep_attributes(reduce: ir.Operation, other: ir.Operation) -> None:
    """Gives another reduction of the same elements what is said of theirs: the precision that factors are multiplied in."""
    for name in set(reduce.attributes) - set(other.attributes):
        other.attributes[name] = reduce.attributes[name]


def _cuts(block: ir.Block, indexing: Indexing, apart: Callable[[ir.Value, int], bool]) -> dict[ir.Value, set[int]]:
    """The divisors of the block's indices in quotients and remainders of them alone."""
    found: dict[ir.Value, set[int]] = {}
    arguments = set(block.arguments)

    def divisors(expression: ir.AffineExpr, values: tuple[ir.Value, ...]) -> Iterator[tuple[ir.Value, int]]:
        if not isinstance(expression, ir.AffineBinaryExpr):
            return
        left, right = expression.lhs, expression.rhs
        divides = isinstance(expression, ir.AffineModExpr | ir.AffineFloorDivExpr)
        if divides and isinstance(left, ir.AffineDimExpr) and isinstance(right, ir.AffineConstantExpr):
            if values[left.position] in arguments:
                yield values[left.position], right.value
            return
        yield from divisors(left, values)
        yield from divisors(right, values)

    for view in block.operations:
        if view.operation.name == "tensor.extract":
            source, *indices = view.operation.operands
            (address,) = indexing.at(layout_of(source.type), indices)
            in_memory = set(divisors(*address))
            for k, index in enumerate(indices):
                here = set(divisors(*indexing.resolve(index)))
                if not (apart(source, k) or apart(source, k - 1)):
                    here &= in_memory
                for value, divisor in here:
                    found.setdefault(value, set()).add(divisor)
    return found


def _digit_sizes(size: int, cuts: set[int]) -> list[int]:
    """A range of `size` cut at all of `cuts`, if each divides the next."""
    sizes, rest = list[int](), 1
    for step in [*sorted(cut for cut in cuts if 1 < cut < size), size]:
        if step % rest:
            return [size]
        sizes.append(step // rest)
        rest = step
    return sizes[::-1]


def is_cut_anywhere(kind: str) -> bool:
    """Whether a reduction of `kind` may have chunks of any sizes."""
    return kind in PLAIN or kind == "welford"


def split(
    op: ir.Operation,
    reduce: ir.Operation,
    chunks: Chunks | SymbolicChunks,
    indexing: Indexing,
    fastest: int | None = None,
) -> None:
    """Makes computes of partial results before `op`, and `reduce` one of those. `is_splittable` must hold, and `chunks.exact` for kinds whose
    empty places no element can fill, or with `SymbolicChunks` `is_cut_anywhere`. `indexing` must not be used after. `fastest`: the index of the
    domain of `op` that partial results are adjacent along, if not the last."""
    with ir.InsertionPoint(op), reduce.location:
        splitting = _Splitting(op, reduce, chunks, indexing, fastest)
    kind = reduce.attributes["kind"].value
    with ir.InsertionPoint(reduce), reduce.location:
        combine = _COMBINATIONS.get(kind)
        if kind == "welford" and isinstance(chunks, SymbolicChunks):
            combine = _two_sums
        results = combine(splitting) if combine else [splitting.reduced(kind, splitting.partial(kind))]
    for old, new in zip(reduce.results, results):
        old.replace_all_uses_with(new)
    reduce.erase()


class _Splitting:
    """One reduction being split. Ops of the final reduction are built at the insertion point."""

    def __init__(
        self,
        op: ir.Operation,
        reduce: ir.Operation,
        chunks: Chunks | SymbolicChunks,
        indexing: Indexing,
        fastest: int | None,
    ):
        self.op, self.reduce, self.chunks, self.indexing, self.fastest = op, reduce, chunks, indexing, fastest
        self.needed = _needed(op, reduce) or []
        self.domain = list(op.regions[0].blocks[0].arguments)
        self.sizes = list(op.attributes["ranges"].value.results)
        self.type = end_of(reduce.regions[0].blocks[0]).operands[0].type

    def partial(self, kind: str, number: int = 0, change: Change = lambda value, at: value) -> ir.Value:
        """A compute of result `number` of the reduction of each chunk by `kind`: of its elements as `change` makes them, of these and of the
        point of the domain."""
        chunks = self.chunks
        outer, sizes = len(chunks.outer), [*chunks.outer, *self.sizes]

        def body(at: list[ir.Value]) -> ir.Value:
            self.indexing.enter(at[0].owner.owner.operation)
            inside = dict(zip(self.domain, at[outer:]))
            for op in self.needed:
                clone_composed(op, inside, self.indexing)
            results = builders.reduce(
                kind, chunks.inner, self.type, lambda within: self._element(kind, dict(inside), at, within, change)
            )
            keep_attributes(self.reduce, results[0].owner.operation)
            return results[number]

        element = ir.IntegerType.get_signless(64) if kind in POSITION_KINDS else self.type
        with ir.InsertionPoint(self.op):
            value = builders.compute(tensor_type(sizes, element, self._steps(sizes)), sizes, body)
        if isinstance(chunks, Chunks):
            value.owner.attributes[CHUNKS] = chunks.attribute()
        return value

    def _element(
        self, kind: str, inside: dict[ir.Value, ir.Value], at: list[ir.Value], within: list[ir.Value], change: Change
    ) -> ir.Value:
        if within:
            self.indexing.enter(within[0].owner.owner.operation)
        outer = len(self.chunks.outer)
        places = self._places(at[:outer], within)

        def element() -> ir.Value:
            block = self.reduce.regions[0].blocks[0]
            inside.update(zip(block.arguments, places))
            return change(_copied(block, inside, self.indexing), at[outer:])

        if self.chunks.exact:
            return element()
        short = self.chunks.short if isinstance(self.chunks, SymbolicChunks) else [self.chunks.split]
        valid, *others = (self._is_inside(places[number], expr(self.chunks.ranges[number])) for number in short)
        for other in others:
            valid = arith.andi(valid, other)
        guard = ir.Operation.create("scf.if", results=[self.type], operands=[valid], regions=2)
        for region, emit in zip(guard.regions, (element, lambda: _identity(kind, self.type))):
            with ir.InsertionPoint(region.blocks.append()):
                scf.YieldOp([emit()])
        return guard.results[0]

    def _is_inside(self, place: ir.Value, size: ir.AffineExpr) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.slt, place, self.indexing.build((size, ())))

    def _places(self, chunk: Sequence[ir.Value], within: Sequence[ir.Value]) -> list[ir.Value]:
        """The indices of the whole reduction for a chunk and an index in it."""
        if isinstance(self.chunks, SymbolicChunks):
            found = index_map(len(chunk) + len(within), self.chunks.places())
            return [self.indexing.build(place) for place in self.indexing.at(found, [*chunk, *within])]
        dim = ir.AffineExpr.get_dim
        first = index_map(2, [dim(0) * self.chunks.size + dim(1)])
        (place,) = self.indexing.at(first, [chunk[-1], within[0]])
        return [*chunk[:-1], self.indexing.build(place), *within[1:]]

    def _steps(self, sizes: Sequence[Size]) -> list[Size]:
        """The strides of partial results."""
        order = list(range(len(sizes)))
        if self.fastest is not None:
            order.append(order.pop(len(self.chunks.outer) + self.fastest))
        steps = row_major([expr(sizes[n]) for n in order])
        return [steps[order.index(n)] for n in range(len(sizes))]

    def reduced(self, kind: str, partial: ir.Value, emit: Callable[..., ir.Value] = lambda value: value) -> ir.Value:
        """`emit` of the partial results of this point, combined by `kind` in the order of the chunks."""
        type_ = self.type if kind in POSITION_KINDS else partial.type.element_type
        (result,) = builders.reduce(kind, self.chunks.outer, type_, lambda at: emit(self.read(partial, at)))
        return result

    def read(self, partial: ir.Value, chunk: Sequence[ir.Value]) -> ir.Value:
        return builders.read(partial, [*chunk, *self.domain])

    def number(self, value: float) -> ir.Value:
        return arith.constant(self.type, value)

    def count(self) -> ir.Value:
        """The elements of the reduction, as a float."""
        size = expr(1)
        for extent in self.chunks.ranges:
            size = expr(size * extent)
        number = arith.index_cast(ir.IntegerType.get_signless(64), self.indexing.build((size, ())))
        return arith.sitofp(self.type, number)


def _position(kind: str) -> Callable[[_Splitting], list[ir.Value]]:
    """The chunk of the best value, then the position in it. A tie goes to the first chunk, and in it to the first position."""

    def combine(s: _Splitting) -> list[ir.Value]:
        chunks, i64 = s.chunks, ir.IntegerType.get_signless(64)
        positions = s.partial(f"arg{kind}")
        best = s.reduced(f"arg{kind}", s.partial(kind))
        flat = arith.index_cast(ir.IndexType.get(), best)
        at, rest = [], prod(chunks.outer)
        for size in chunks.outer:
            above, rest = rest, rest // size
            place = ir.AffineExpr.get_floor_div(ir.AffineExpr.get_mod(ir.AffineExpr.get_dim(0), above), rest)
            at += builders.apply(index_map(1, [place]), [flat], [])
        first = arith.muli(best, arith.constant(i64, prod(chunks.inner)))
        return [arith.addi(first, s.read(positions, at))]

    return combine


def _welford(s: _Splitting) -> list[ir.Value]:
    """Chunks have equal counts n: mean = sum mean_c / C, squares = sum (squares_c + n (mean_c - mean)^2)."""
    means, squares = s.partial("welford", 0), s.partial("welford", 1)
    share, each = s.number(1.0 / prod(s.chunks.outer)), s.number(float(prod(s.chunks.inner)))
    mean = s.reduced("sum", means, lambda m: arith.mulf(m, share))

    def deviations(at: list[ir.Value]) -> ir.Value:
        off = arith.subf(s.read(means, at), mean)
        return arith.addf(s.read(squares, at), arith.mulf(each, arith.mulf(off, off)))

    (total,) = builders.reduce("sum", s.chunks.outer, s.type, deviations)
    return [mean, total, s.number(float(prod(s.chunks.ranges)))]


def _two_sums(s: _Splitting) -> list[ir.Value]:
    """Of chunks of any sizes: mean = sum x / n, and after it squares = sum (x - mean)^2."""
    sums = s.partial("sum")

    def divided(at: list[ir.Value]) -> ir.Value:
        (total,) = builders.reduce("sum", s.chunks.outer, s.type, lambda chunk: builders.read(sums, [*chunk, *at]))
        return arith.divf(total, s.count())

    with ir.InsertionPoint(s.op):
        means = builders.compute(tensor_type(s.sizes, s.type), s.sizes, divided)

    def squared(value: ir.Value, at: list[ir.Value]) -> ir.Value:
        off = arith.subf(value, builders.read(means, at))
        return arith.mulf(off, off)

    squares = s.reduced("sum", s.partial("sum", change=squared))
    return [builders.read(means, s.domain), squares, s.count()]


def _softmax(s: _Splitting) -> list[ir.Value]:
    """sum = sum sum_c exp(max_c - max); a chunk of which nothing is left counts 0, whatever its sum is."""
    largests, sums = s.partial("softmax", 0), s.partial("softmax", 1)
    largest = s.reduced("max", largests)

    def scaled(at: list[ir.Value]) -> ir.Value:
        weight = math.exp(arith.subf(s.read(largests, at), largest))
        zero = s.number(0.0)
        nothing = arith.cmpf(arith.CmpFPredicate.OEQ, weight, zero)
        return arith.select(nothing, zero, arith.mulf(s.read(sums, at), weight))

    (total,) = builders.reduce("sum", s.chunks.outer, s.type, scaled)
    return [largest, total]


_COMBINATIONS: dict[str, Callable[[_Splitting], list[ir.Value]]] = {
    "argmax": _position("max"),
    "argmin": _position("min"),
    "welford": _welford,
    "softmax": _softmax,
}


def fills(kind: str, ranges: int) -> int:
    """Of how many of the first `ranges` a last chunk may be short: it is filled with an element that changes no result of `kind`, if there is
    one. A position is counted in whole chunks, so that only the very last may be short."""
    return ranges if kind in PLAIN else 1 if kind in POSITION_KINDS else 0


def _identity(kind: str, type_: ir.Type) -> ir.Value:
    kind = kind.removeprefix("arg")
    if isinstance(type_, ir.FloatType):
        values = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}
        return arith.constant(type_, values[kind])
    least = -(1 << (type_.width - 1))
    integers = {
        "sum": 0,
        "xor": 0,
        "prod": 1,
        "max": least,
        "min": -1 - least,
        "maxu": 0,
        "minu": -1,
        "any": 0,
        "all": -1,
    }
    return ir.Operation.create(
        "arith.constant", results=[type_], attributes={"value": ir.IntegerAttr.get(type_, integers[kind])}
    ).result


def _needed(op: ir.Operation, reduce: ir.Operation) -> list[ir.Operation] | None:
    """The ops of the compute's own block that the reduction needs, in order; None if a reduction is among them."""
    ops = needed(captured(reduce), op.regions[0].blocks[0]).ops
    return None if any(inner.name == "bascule.reduce" for used in ops for inner in ops_in(used)) else ops


def _copied(block: ir.Block, inside: dict[ir.Value, ir.Value], indexing: Indexing) -> ir.Value:
    """Copies the ops of `block` to the insertion point; returns the copy of what it yields. `inside` has what stands for its arguments."""
    for view in block.operations:
        if view.operation.name == "bascule.yield":
            value = view.operation.operands[0]
            return inside.get(value, value)
        clone_composed(view.operation, inside, indexing)
    raise AssertionError("a region without a yield")
