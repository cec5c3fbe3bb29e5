"""Attention among computes: a sum of values that a softmax weighs, found with what lies pointwise between, and built as one compute."""

from dataclasses import dataclass

from ..analysis.bodies.attention import owner_of, yielded
from ..analysis.bodies.backward_slice import needed
from ..analysis.bodies.contractions import factors_of
from ..analysis.bodies.value_equality import equal
from ..ir import builders
from ..ir.regions import clone
from ..ir.shapes import shape_of
from ..ir.types import to_nearest_even
from ..mlir import arith, ir, math

ROUNDINGS = ("arith.extf", "arith.truncf")


@dataclass(frozen=True)
class Weighted:
    """`reduce`, in a compute, sums exp(score - largest) / total * value: `largest` and `total` are reads of other computes' elements."""

    reduce: ir.Operation
    score: ir.Value
    largest: ir.Operation
    total: ir.Operation
    value: ir.Value

    @staticmethod
    def of(compute: ir.Operation) -> "Weighted | None":
        """Of the one reduction of `compute`; None where it sums something else."""
        reduce = _sum(compute)
        for weight, value in _factors(reduce) if reduce is not None else ():
            quotient = owner_of(_unrounded(weight))
            if quotient is None or quotient.name != "arith.divf":
                continue
            total, power = owner_of(quotient.operands[1]), Power.of(quotient.operands[0])
            if power is not None and total is not None and total.name == "tensor.extract":
                return Weighted(reduce, power.score, power.largest, total, value)
        return None


@dataclass(frozen=True)
class Power:
    """exp(score - largest)."""

    score: ir.Value
    largest: ir.Operation

    @staticmethod
    def of(value: ir.Value) -> "Power | None":
        power = owner_of(value)
        difference = owner_of(power.operands[0]) if power is not None and power.name == "math.exp" else None
        if difference is None or difference.name != "arith.subf":
            return None
        largest = owner_of(difference.operands[1])
        if largest is None or largest.name != "tensor.extract":
            return None
        return Power(difference.operands[0], largest)


def weights_read(compute: ir.Operation) -> list[ir.Operation]:
    """The computes whose elements, rounded or not, are a factor of the one sum in `compute`."""
    reduce = _sum(compute)
    reads = [owner_of(_unrounded(weight)) for weight, _ in _factors(reduce)] if reduce is not None else []
    made = [owner_of(read.operands[0]) for read in reads if read is not None and read.name == "tensor.extract"]
    return [op.operation for op in made if op is not None and op.name == "bascule.compute"]


def is_contraction(compute: ir.Operation) -> bool:
    """Whether an element of `compute`, but for roundings, is a sum of products of what is read."""
    reduce = _sum(compute)
    if reduce is None or owner_of(_unrounded(yielded(compute))) != reduce:
        return False
    factors = factors_of(reduce)
    return factors is not None and all(
        owner is not None and owner.name == "tensor.extract" for owner in map(owner_of, factors)
    )


def is_total(compute: ir.Operation, found: Weighted) -> bool:
    """Whether `compute`, which `found.total` reads, sums the exponentials that are weights, over the same points."""
    reduce = _reduction(compute, "sum", found.reduce)
    power = None if reduce is None else Power.of(yielded(reduce))
    if reduce is None or power is None:
        return False
    pairs = _pairs(compute, reduce, found.total, found.reduce)
    same = equal(power.largest.results[0], found.largest.results[0], pairs)
    return same and equal(power.score, found.score, pairs)


def is_largest(compute: ir.Operation, found: Weighted) -> bool:
    """Whether `compute`, which `found.largest` reads, is the maximum of the scores, over the same points."""
    reduce = _reduction(compute, "max", found.reduce)
    if reduce is None:
        return False
    return equal(yielded(reduce), found.score, _pairs(compute, reduce, found.largest, found.reduce))


def build(compute: ir.Operation, found: Weighted) -> ir.Value:
    """`compute` with the softmax in it, at the insertion point: a row of scores, its maximum, the sum of exponentials about that, and the sum
    of values that these weigh, divided at last."""
    block, (result,) = _block(compute), compute.results

    def body(indices: builders.Indices) -> ir.Value:
        mapping = dict(zip(block.arguments, indices))
        for view in block.operations:
            op = view.operation
            if op.name == "bascule.yield":
                return mapping.get(op.operands[0], op.operands[0])
            if op == found.reduce:
                mapping[op.results[0]] = _attended(found, mapping)
            else:
                clone(op, mapping)
        raise AssertionError("a region without a yield")

    return builders.compute(result.type, shape_of(result), body)


def _attended(found: Weighted, mapping: dict[ir.Value, ir.Value]) -> ir.Value:
    sizes, f32 = list(found.reduce.attributes["ranges"].value.results), ir.F32Type.get()
    (argument,) = _block(found.reduce).arguments
    row = ir.RankedTensorType.get([sizes[0].value], f32)
    narrow = _unwidened(found.value)

    def sliced(value: ir.Value, indices: builders.Indices) -> ir.Value:
        inside = {**mapping, argument: indices[0]}
        for op in needed([value], _block(found.reduce)).ops:
            clone(op, inside)
        return inside.get(value, value)

    scores = builders.compute(row, sizes, lambda at: sliced(found.score, at))
    (largest,) = builders.reduce("max", sizes, f32, lambda at: builders.read(scores, at))

    def power(at: builders.Indices) -> ir.Value:
        return math.exp(arith.subf(builders.read(scores, at), largest))

    def weighed(at: builders.Indices) -> ir.Value:
        weight = power(at)
        if narrow.type != f32:
            weight = arith.extf(f32, arith.truncf(narrow.type, weight, roundingmode=to_nearest_even()))
        return arith.mulf(weight, sliced(found.value, at))

    (total,) = builders.reduce("sum", sizes, f32, power)
    (sums,) = builders.reduce("sum", sizes, f32, weighed)
    return arith.divf(sums, total)


def _reduction(compute: ir.Operation, kind: str, like: ir.Operation) -> ir.Operation | None:
    """The reduction of `kind` that an element of `compute` is, over the points of `like`."""
    reduce = owner_of(yielded(compute)) if compute.name == "bascule.compute" else None
    if reduce is None or reduce.name != "bascule.reduce" or reduce.attributes["kind"].value != kind:
        return None
    return reduce if reduce.attributes["ranges"] == like.attributes["ranges"] else None


def _sum(compute: ir.Operation) -> ir.Operation | None:
    """The one reduction of `compute`, a sum over one range."""
    reduces = [view.operation for view in _block(compute).operations if view.operation.name == "bascule.reduce"]
    if len(reduces) != 1 or reduces[0].attributes["kind"].value != "sum" or len(_block(reduces[0]).arguments) != 1:
        return None
    return reduces[0]


def _factors(reduce: ir.Operation) -> list[tuple[ir.Value, ir.Value]]:
    """The two factors that `reduce` sums the products of, either first."""
    term = owner_of(yielded(reduce))
    if term is None or term.name != "arith.mulf":
        return []
    x, y = term.operands
    return [(x, y), (y, x)]


def _pairs(
    compute: ir.Operation, reduce: ir.Operation, read: ir.Operation, other: ir.Operation
) -> dict[ir.Value, ir.Value]:
    """Of the indices in `compute` and its `reduce` those that stand for them where `read` has an element, within `other`."""
    indices = dict(zip(_block(compute).arguments, list(read.operands)[1:]))
    return indices | dict(zip(_block(reduce).arguments, _block(other).arguments))


def _unrounded(value: ir.Value) -> ir.Value:
    owner = owner_of(value)
    return value if owner is None or owner.name not in ROUNDINGS else _unrounded(owner.operands[0])


def _unwidened(value: ir.Value) -> ir.Value:
    owner = owner_of(value)
    return value if owner is None or owner.name != "arith.extf" else owner.operands[0]


def _block(op: ir.Operation) -> ir.Block:
    return op.regions[0].blocks[0]
