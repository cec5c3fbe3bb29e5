"""Statistics of rows of scores, which something beside an attention needs (the backward): computes that share its kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis.bodies.backward_slice import needed
from ..analysis.bodies.value_equality import equal
from ..analysis.products.attention import owner_of, yielded
from ..ir import builders
from ..ir.attribute_names import TOGETHER, TOGETHER_DIMS
from ..ir.attributes import i64
from ..ir.regions import clone
from ..ir.shapes import constant, shape_of
from ..mlir import ir
from .attention_parts import Weighted


@dataclass(frozen=True)
class Statistic:
    """`compute` yields for each row the maximum of `score`, or with `total` the sum of exponentials about that; `reduce` is the last loop."""

    compute: ir.Operation
    reduce: ir.Operation
    score: ir.Value
    total: bool

    @staticmethod
    def of(compute: ir.Operation) -> "Statistic | None":
        """Of a compute with all loops in it; None if it yields something else."""
        reduce = _reduce(yielded(compute))
        if reduce is None or reduce.attributes["kind"].value not in ("max", "sum"):
            return None
        value = yielded(reduce)
        if reduce.attributes["kind"].value == "max":
            return Statistic(compute, reduce, value, False)
        power = owner_of(value)
        difference = owner_of(power.operands[0]) if power is not None and power.name == "math.exp" else None
        if difference is None or difference.name != "arith.subf":
            return None
        score, largest = difference.operands[0], _reduce(difference.operands[1])
        if largest is None or largest.attributes["kind"].value != "max":
            return None
        same = largest.attributes["ranges"] == reduce.attributes["ranges"] and equal(
            yielded(largest), score, dict(zip(_arguments(largest), _arguments(reduce)))
        )
        return Statistic(compute, reduce, score, True) if same else None

    def is_of(self, attention: ir.Operation, found: Weighted) -> bool:
        """Whether it is one of the rows that `attention`, in which `found` stands, weighs values by: at the same indices, but for those that its
        rows do not have, of size 1."""
        sizes, others = shape_of(self.compute.results[0]), shape_of(attention.results[0])
        if len(sizes) != len(others) or self.reduce.attributes["ranges"] != found.reduce.attributes["ranges"]:
            return False
        if any(size != other and constant(size) != 1 for size, other in zip(sizes, others)):
            return False
        pairs = dict(zip(_arguments(self.reduce), _arguments(found.reduce)))
        same = zip(sizes, others, _arguments(self.compute), _arguments(attention))
        pairs.update({one: other for size, whole, one, other in same if size == whole})
        return equal(self.score, found.score, pairs)


def build_statistic(attention: ir.Operation, statistic: ir.Operation, total: bool) -> ir.Value:
    """The maximum of each row of scores of `attention`, as `attention_parts.build` makes it, or their `total`, of the sizes of `statistic`, at
    the insertion point."""
    block, result = attention.regions[0].blocks[0], statistic.results[0]
    wanted = next(loop for loop in map(_op, block.operations) if _is(loop, "sum" if total else "max"))

    def body(at: builders.Indices) -> ir.Value:
        mapping = dict(zip(block.arguments, at))
        for op in needed(wanted.results, block).ops:
            clone(op, mapping)
        return mapping[wanted.results[0]]

    return builders.compute(result.type, shape_of(result), body)


def put_together(ops: list[ir.Operation], dims: Sequence[int] = ()) -> None:
    """Has `ops`, the first of which has all indices of the others, share a kernel. `dims`: those of the last for the first's, where its are in
    another order."""
    block = map(_op, ops[0].block.operations)
    number = 1 + max((op.attributes[TOGETHER].value for op in block if TOGETHER in op.attributes), default=-1)
    for op in ops:
        op.attributes[TOGETHER] = i64(number)
    if list(dims) != sorted(dims):
        ops[-1].attributes[TOGETHER_DIMS] = ir.DenseI64ArrayAttr.get(dims)


def is_apart(op: ir.Operation) -> bool:
    """Whether the domain of `op` may be changed alone."""
    return TOGETHER not in op.attributes


def _op(view: ir.OpView) -> ir.Operation:
    return view.operation


def _is(op: ir.Operation, kind: str) -> bool:
    return op.name == "bascule.reduce" and op.attributes["kind"].value == kind


def _reduce(value: ir.Value) -> ir.Operation | None:
    owner = owner_of(value)
    return owner.operation if owner is not None and owner.name == "bascule.reduce" else None


def _arguments(op: ir.Operation) -> list[ir.Value]:
    return list(op.regions[0].blocks[0].arguments)
