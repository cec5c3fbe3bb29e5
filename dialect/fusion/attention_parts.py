"""Attention among computes: a sum of values that a softmax weighs, found with what lies pointwise between, and built as one compute."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from math import prod

from ..analysis.bodies.backward_slice import captured, needed
from ..analysis.bodies.body_tree import LOOPS
from ..analysis.bodies.value_equality import equal
from ..analysis.products.attention import is_zero, owner_of, scaled, yielded
from ..analysis.products.contractions import NARROW, are_multiplied, factors_of
from ..ir import builders
from ..ir.attribute_names import INPUT_PRECISION, TUNED_PRODUCT
from ..ir.regions import clone
from ..ir.shapes import constant, shape_of, tensor_type
from ..ir.types import to_nearest_even
from ..mlir import arith, ir, math

ROUNDINGS = ("arith.extf", "arith.truncf")
FEW = 9  # rows or columns from which on tensor cores multiply


@dataclass(frozen=True)
class Weighted:
    """`reduce` sums weight * value. The weight is a multiple, element by element, of `quotient`, exp(score - max score) / sum exp(score - max
    score); maximum and sum are over the points of `reduce`. In a row for which `empty` holds, if there is that, all weights are 0."""

    reduce: ir.Operation
    score: ir.Value
    quotient: ir.Value
    weight: ir.Value
    value: ir.Value
    largest: ir.Operation
    empty: ir.Value | None

    @staticmethod
    def of(compute: ir.Operation) -> "Weighted | None":
        """Of the one sum of `compute`, in which the maximum and the total stand, too; None where it sums something else."""
        reduce = sum_of(compute)
        for weight, value in weighings(reduce) if reduce is not None else ():
            quotient = scaled(weight, _is_quotient)
            if reduce is None or quotient is None:
                continue
            power, total = _power(quotient.operands[0]), _reduction(quotient.operands[1], "sum", reduce)
            again = None if total is None else _power(yielded(total))
            if power is None or total is None or again is None or again[1] != power[1]:
                continue
            score, largest = power[0], _reduction(power[1], "max", reduce)
            if (
                largest is not None
                and _alike(total, again[0], reduce, score)
                and _alike(largest, yielded(largest), reduce, score)
            ):
                empty, weight = _split_rows(unrounded(weight), reduce, largest)
                return Weighted(reduce, score, quotient.results[0], weight, value, largest, empty)
        return None


def _split_rows(weight: ir.Value, reduce: ir.Operation, largest: ir.Operation) -> tuple[ir.Value | None, ir.Value]:
    """The condition on a row, or on its `largest` score, under which `weight` is chosen to be 0, and the weight otherwise; None and `weight`
    where there is no such choice."""
    choice = owner_of(weight)
    if choice is None or choice.name != "arith.select" or not is_zero(choice.operands[1]):
        return None, weight
    condition, _, other = choice.operands
    slice_ = needed([condition], _block(reduce), largest.results)
    if slice_.arguments or any(len(op.regions) for op in slice_.ops):
        return None, weight
    return condition, unrounded(other)


def _is_quotient(op: ir.Operation) -> bool:
    """Whether `op` divides an exponential by a sum."""
    return op.name == "arith.divf" and _power(op.operands[0]) is not None and _is_sum(op.operands[1])


def _is_sum(value: ir.Value) -> bool:
    owner = owner_of(value)
    return owner is not None and owner.name == "bascule.reduce" and owner.attributes["kind"].value == "sum"


def weights_read(compute: ir.Operation) -> list[ir.Operation]:
    """The computes whose elements, rounded or not, are a factor of the one sum in `compute`."""
    reduce = sum_of(compute)
    reads = [owner_of(unrounded(weight)) for weight, _ in weighings(reduce)] if reduce is not None else []
    made = [owner_of(read.operands[0]) for read in reads if read is not None and read.name == "tensor.extract"]
    return [op.operation for op in made if op is not None and op.name == "bascule.compute"]


def addends_read(compute: ir.Operation) -> list[ir.Operation]:
    """The computes whose elements, rounded or not, the sums in `compute` add up, one each; nothing if it has other reductions."""
    found = []
    for reduce in (view.operation for view in _block(compute).operations if view.operation.name == "bascule.reduce"):
        read = owner_of(unrounded(yielded(reduce))) if reduce.attributes["kind"].value == "sum" else None
        made = owner_of(read.operands[0]) if read is not None and read.name == "tensor.extract" else None
        if made is None or made.name != "bascule.compute" or len(_block(reduce).arguments) != 1:
            return []
        found.append(made.operation)
    return list(dict.fromkeys(found))


def is_contraction(compute: ir.Operation) -> bool:
    """Whether an element of `compute` is made of one sum of products of what is read at some of its indices, and at some others. One that was
    measured beside ATen's call is none: it was measured as a kernel of its own."""
    reduce = sum_of(compute)
    factors = None if reduce is None or TUNED_PRODUCT in reduce.attributes else factors_of(reduce)
    if reduce is None or factors is None or not isinstance(factors[0].type, (*NARROW, ir.F32Type, ir.F64Type)):
        return False
    if not all(owner is not None and owner.name == "tensor.extract" for owner in map(owner_of, factors)):
        return False
    x, y = (_indices(compute, reduce, factor) for factor in factors)
    return bool(x - y) and bool(y - x)


@dataclass(frozen=True)
class Sides:
    """Of a compute that ends in a sum of products: the dims that one factor alone depends on, and those of the other. `of` tells apart sums that
    tensor cores cannot have in one walk."""

    rows: frozenset[int]
    columns: frozenset[int]
    of: Hashable

    @staticmethod
    def of_compute(compute: ir.Operation) -> "Sides | None":
        """None where its last loop is no sum of products with rows and columns of a known number, more than a few of both."""
        if compute.name != "bascule.compute":
            return None
        loops = [view.operation for view in _block(compute).operations if view.operation.name in LOOPS]
        last = loops[-1] if loops and loops[-1].name == "bascule.reduce" else None
        if last is None or last.attributes["kind"].value != "sum" or (factors := factors_of(last)) is None:
            return None
        if not are_multiplied(*(factor.type for factor in factors)) or isinstance(factors[0].type, ir.F64Type):
            return None
        x, y = (_indices(compute, last, factor) for factor in factors)
        sizes = [constant(size) for size in shape_of(compute.results[0])]
        rows, columns = (frozenset(dim for dim in side if sizes[dim] != 1) for side in (x - y, y - x))
        if any(prod(sizes[dim] or 0 for dim in side) < FEW or not side for side in (rows, columns)):
            return None
        of = (str(last.attributes["ranges"]), str(factors[0].type)) if len(loops) == 1 else compute
        return Sides(rows, columns, of)


def _indices(compute: ir.Operation, reduce: ir.Operation, value: ir.Value) -> set[int]:
    """The indices of `compute`, as numbers, that `value` of the region of `reduce` depends on."""
    inside = needed([value], _block(reduce)).ops
    outer = [value, *(operand for op in inside for operand in captured(op))]
    return needed([x for x in outer if x not in set(_block(reduce).arguments)], _block(compute)).arguments


def build(compute: ir.Operation, found: Weighted) -> ir.Value:
    """`compute` with the softmax in it, at the insertion point: a row of scores, its maximum, the sum of exponentials about that, and the sum
    of values that these weigh, divided at last."""
    return _with_sum(compute, found.reduce, lambda mapping: _attended(found, mapping))


def build_product(compute: ir.Operation, weight: ir.Value, value: ir.Value) -> ir.Value:
    """`compute`, which sums weight * value, with a row of weights, at the insertion point: of f32, and rounded to the type of `value` where that
    has 16 bits."""
    reduce = sum_of(compute)
    assert reduce is not None
    sizes, f32 = list(reduce.attributes["ranges"].value.results), ir.F32Type.get()
    row, narrow = tensor_type(sizes, f32), _unwidened(value).type

    def summed(mapping: dict[ir.Value, ir.Value]) -> ir.Value:
        sliced = partial(_sliced, reduce, mapping)

        def wide(at: builders.Indices) -> ir.Value:
            found = sliced(unrounded(weight), at)
            return found if found.type == f32 else arith.extf(f32, found)

        weights = builders.compute(row, sizes, wide)

        def term(at: builders.Indices) -> ir.Value:
            return arith.mulf(_rounded(builders.read(weights, at), narrow), sliced(value, at))

        return _sum_like(reduce, sizes, term)

    return _with_sum(compute, reduce, summed)


def _rounded(value: ir.Value, narrow: ir.Type) -> ir.Value:
    """`value`, of f32, as one of `narrow`; whatever is there removed, it stays so."""
    if narrow == value.type:
        return value
    return arith.extf(value.type, arith.truncf(narrow, value, roundingmode=to_nearest_even()))


def _sum_like(
    reduce: ir.Operation, sizes: list[ir.AffineExpr], term: Callable[[builders.Indices], ir.Value]
) -> ir.Value:
    """A sum in f32 of products in the precision of those that `reduce` sums."""
    (total,) = builders.reduce("sum", sizes, ir.F32Type.get(), term)
    if INPUT_PRECISION in reduce.attributes:
        total.owner.attributes[INPUT_PRECISION] = reduce.attributes[INPUT_PRECISION]
    return total


def _sliced(
    reduce: ir.Operation, mapping: dict[ir.Value, ir.Value], value: ir.Value, indices: builders.Indices
) -> ir.Value:
    """`value`, of the region of `reduce`, at other indices."""
    inside = {**mapping, _block(reduce).arguments[0]: indices[0]}
    for op in needed([value], _block(reduce)).ops:
        clone(op, inside)
    return inside.get(value, value)


def _with_sum(
    compute: ir.Operation, reduce: ir.Operation, made: Callable[[dict[ir.Value, ir.Value]], ir.Value]
) -> ir.Value:
    """`compute` with what `made` builds in the place of its sum `reduce`, at the insertion point."""
    block, (result,) = _block(compute), compute.results

    def body(indices: builders.Indices) -> ir.Value:
        mapping = dict(zip(block.arguments, indices))
        for view in block.operations:
            op = view.operation
            if op.name == "bascule.yield":
                return mapping.get(op.operands[0], op.operands[0])
            if op == reduce:
                mapping[op.results[0]] = made(mapping)
            else:
                clone(op, mapping)
        raise AssertionError("a region without a yield")

    return builders.compute(result.type, shape_of(result), body)


def _attended(found: Weighted, mapping: dict[ir.Value, ir.Value]) -> ir.Value:
    sizes, f32 = list(found.reduce.attributes["ranges"].value.results), ir.F32Type.get()
    row = tensor_type(sizes, f32)
    narrow = _unwidened(found.value)
    sliced = partial(_sliced, found.reduce, mapping)

    scores = builders.compute(row, sizes, lambda at: sliced(found.score, at))
    (largest,) = builders.reduce("max", sizes, f32, lambda at: builders.read(scores, at))

    def power(at: builders.Indices) -> ir.Value:
        return math.exp(arith.subf(builders.read(scores, at), largest))

    def weighed(at: builders.Indices) -> ir.Value:
        given = {**mapping, _block(found.reduce).arguments[0]: at[0], found.quotient: power(at)}
        for op in needed([found.weight], _block(found.reduce), [found.quotient]).ops:
            clone(op, given)
        return arith.mulf(_rounded(given[found.weight], narrow.type), sliced(found.value, at))

    (total,) = builders.reduce("sum", sizes, f32, power)
    result = arith.divf(_sum_like(found.reduce, sizes, weighed), total)
    if found.empty is None:
        return result
    given = {**mapping, found.largest.results[0]: largest}
    for op in needed([found.empty], _block(found.reduce), found.largest.results).ops:
        clone(op, given)
    return arith.select(given.get(found.empty, found.empty), arith.constant(f32, 0.0), result)


def _power(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The x and y of exp(x - y)."""
    power = owner_of(value)
    difference = owner_of(power.operands[0]) if power is not None and power.name == "math.exp" else None
    return None if difference is None or difference.name != "arith.subf" else tuple(difference.operands)


def _reduction(value: ir.Value, kind: str, around: ir.Operation) -> ir.Operation | None:
    """The reduction of `kind` that `value` is: in the region of `around`, over points like its, and the same at each of these."""
    reduce = owner_of(value)
    if reduce is None or reduce.name != "bascule.reduce" or reduce.attributes["kind"].value != kind:
        return None
    same = reduce.attributes["ranges"] == around.attributes["ranges"]
    return reduce.operation if same and not needed([value], _block(around)).arguments else None


def _alike(reduce: ir.Operation, value: ir.Value, around: ir.Operation, other: ir.Value) -> bool:
    """Whether `value` in `reduce` is what `other` is in `around`."""
    return equal(value, other, dict(zip(_block(reduce).arguments, _block(around).arguments)))


def sum_of(compute: ir.Operation) -> ir.Operation | None:
    """The one reduction of `compute`, a sum over one range."""
    reduces = [view.operation for view in _block(compute).operations if view.operation.name == "bascule.reduce"]
    if len(reduces) != 1 or reduces[0].attributes["kind"].value != "sum" or len(_block(reduces[0]).arguments) != 1:
        return None
    return reduces[0]


def weighings(reduce: ir.Operation) -> list[tuple[ir.Value, ir.Value]]:
    """The two factors that `reduce` sums the products of, either first."""
    term = owner_of(yielded(reduce))
    if term is None or term.name != "arith.mulf":
        return []
    x, y = term.operands
    return [(x, y), (y, x)]


def is_multiplied(value: ir.Value, product: ir.Operation) -> bool:
    """Whether `value` is a factor, or widened to one, of numbers as the sum of `product` multiplies: of 16 bits, or f32."""
    reduce = sum_of(product)
    factors = None if reduce is None else factors_of(reduce)
    type_ = _unwidened(value).type
    return factors is not None and isinstance(type_, (*NARROW, ir.F32Type)) and factors[0].type == type_


def unrounded(value: ir.Value) -> ir.Value:
    owner = owner_of(value)
    return value if owner is None or owner.name not in ROUNDINGS else unrounded(owner.operands[0])


def _unwidened(value: ir.Value) -> ir.Value:
    owner = owner_of(value)
    return value if owner is None or owner.name != "arith.extf" else owner.operands[0]


def _block(op: ir.Operation) -> ir.Block:
    return op.regions[0].blocks[0]
