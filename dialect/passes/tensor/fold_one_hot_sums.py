"""The pass `fold-one-hot-sums`: a sum in which one index alone counts is the term of that index."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from ...analysis.bodies.backward_slice import captured, needed
from ...ir.regions import clone, end_of, ops_named
from ...mlir import arith, ir
from ..base import VALUES, Pass

EQUAL = arith.CmpIPredicate.eq
WIDE = 32  # bits that tell all indices apart
MULTIPLIED = ("arith.mulf", "arith.muli", "arith.andi")
ADDED = ("arith.addf", "arith.addi", "arith.subf", "arith.subi", "arith.ori", "arith.xori")
CONVERTED = (
    "arith.extf",
    "arith.truncf",
    "arith.negf",
    "arith.extsi",
    "arith.extui",
    "arith.trunci",
    "arith.uitofp",
    "arith.sitofp",
)


@dataclass(frozen=True)
class FoldOneHotSums(Pass):
    """Replaces a sum over one index `k` whose terms are that of `k == t` or nothing: by the term at `t`, if `t` is an index, plus what
    all other terms are together, which is 0, or NaN where nothing is `0 * x`. So is a label's logit as a sum over one-hot rows, and the sum of
    the gradients of a softmax's logarithm. `t` and what the other terms are made of do not depend on `k`. Takes and leaves the tensor stage.
    """

    name: ClassVar[str] = "fold-one-hot-sums"
    takes: ClassVar[str] = VALUES

    def run(self, module: ir.Module) -> None:
        with module.context:
            for _, op in ops_named(module.operation, ("bascule.reduce",)):
                sum_ = next(_one_hot_sums(op), None)
                if sum_ is not None:
                    with ir.InsertionPoint(op), op.location:
                        op.results[0].replace_all_uses_with(sum_.folded())
                    op.erase()


def _one_hot_sums(op: ir.Operation) -> Iterator["_OneHotSum"]:
    """`op` as the sum of one term, for each comparison of its index that makes it one."""
    block, ranges = op.regions[0].blocks[0], op.attributes["ranges"].value
    if op.attributes["kind"].value != "sum" or len(block.arguments) != 1:
        return
    (size,) = ranges.results
    if not isinstance(size, ir.AffineConstantExpr) or not 2 <= size.value < 1 << 31:  # of one index there are no others
        return
    for compare in needed([end_of(block).operands[0]], block).ops:
        position = _compared(compare, block)
        if position is not None and (position.type == ir.IndexType.get() or position.type.width >= WIDE):
            found = _OneHotSum(op, block, compare.results[0], position, size.value)
            if found.term in found.nothing and found.term in found.same:
                yield found


def _compared(op: ir.Operation, block: ir.Block) -> ir.Value | None:
    """The other side of a comparison of the index of `block` for being equal, if it does not depend on that."""
    if op.name != "arith.cmpi" or op.attributes["predicate"].value != EQUAL:
        return None
    for one, other in (op.operands, reversed(op.operands)):
        if not isinstance(one.owner, ir.Block) and one.owner.name == "arith.index_cast":
            one = one.owner.operands[0]
        if one == block.arguments[0]:
            return other if not needed([other], block).arguments else None
    return None


@dataclass
class _OneHotSum:
    """`chosen`: that the index is `position`, which is of any integer type. Of all other indices alike are the values `same` of the body, and
    0, or NaN, the values `nothing`."""

    op: ir.Operation
    block: ir.Block
    chosen: ir.Value
    position: ir.Value
    size: int
    same: set[ir.Value] = field(init=False)
    nothing: set[ir.Value] = field(init=False)

    def __post_init__(self) -> None:
        self.same, self.nothing = {self.chosen}, {self.chosen}
        inside = {self.block.arguments[0]}
        for view in self.block.operations:
            op = view.operation
            inside.update(op.results)
            operands = self.operands(op, chosen=False)
            if all(x in self.same or x not in inside for x in operands):
                self.same.update(op.results)
            if self._gives_nothing(op, operands):
                self.nothing.update(op.results)

    @property
    def term(self) -> ir.Value:
        return end_of(self.block).operands[0]

    def operands(self, op: ir.Operation, chosen: bool) -> list[ir.Value]:
        """The operands of `op` of the body that count where the index is chosen, or is not: one side of a choice by that."""
        if op.name == "arith.select":
            condition, one, other = op.operands
            if chosen and condition == self.chosen:
                return [one]
            if not chosen and condition in self.nothing:
                return [other]
        return captured(op)

    def _gives_nothing(self, op: ir.Operation, operands: list[ir.Value]) -> bool:
        nothing = [x in self.nothing for x in operands]
        match op.name:
            case "arith.constant":
                value = op.attributes["value"]
                return isinstance(value, ir.FloatAttr | ir.IntegerAttr) and value.value == 0
            case "arith.select":
                return all(nothing[-2:])  # the sides, or the one that is taken
            case name if name in MULTIPLIED:
                return any(nothing)
            case name if name in ADDED or name in CONVERTED:
                return all(nothing)
        return False

    def folded(self) -> ir.Value:
        """The sum, of ops at the insertion point."""
        position, index = self._copied(self.position, False, {}), ir.IndexType.get()
        if position.type != index:
            position = arith.index_cast(index, position)
        inside = arith.cmpi(arith.CmpIPredicate.ult, position, arith.constant(index, self.size))
        # What is read at the position is there: at 0 where the position is no index.
        held = arith.select(inside, position, arith.constant(index, 0))
        type_ = self.term.type
        zero = arith.constant(type_, 0.0 if isinstance(type_, ir.FloatType) else 0)
        one = arith.select(inside, self._copied(self.term, True, {self.block.arguments[0]: held}), zero)
        others = self._copied(self.term, False, {})
        if not isinstance(others.owner, ir.Block) and others.owner.name == "arith.constant":
            return one
        return arith.addf(one, others) if isinstance(type_, ir.FloatType) else one

    def _copied(self, value: ir.Value, chosen: bool, values: dict[ir.Value, ir.Value]) -> ir.Value:
        """A copy of what `value` is computed by, where the index is chosen, or is not; `values`: what stands for values of the body."""
        values[self.chosen] = arith.constant(ir.IntegerType.get_signless(1), int(chosen))
        alive: set[ir.Operation] = set()
        todo = [value]
        while todo:
            one = todo.pop()
            if one in values or isinstance(one.owner, ir.Block):
                continue
            op = one.owner.operation
            if op.block == self.block and op not in alive:
                alive.add(op)
                todo += self.operands(op, chosen)
        for op in [view.operation for view in self.block.operations if view.operation in alive]:
            needs = self.operands(op, chosen)
            if op.name == "arith.select" and len(needs) == 1:
                values[op.results[0]] = values.get(needs[0], needs[0])
            else:
                clone(op, values)
        return values.get(value, value)
