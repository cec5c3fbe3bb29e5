"""Building loops: a stack of open scopes, and each op placed in the outermost scope where its operands are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bascule.dialect.mlir import ir

from .target import Target

ROLLED = "#llvm.loop_annotation<unroll = <disable = true>>"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of an element type: one for all lanes, or (`lanes`) a vector with one a lane.

    `level` is the number of the scope where it is known: 0 is the function's body, each loop adds one.
    """

    value: ir.Value
    lanes: bool
    level: int


@dataclass(frozen=True, slots=True)
class Index:
    """An index: `base + offset + stride * lane`, or any vector of indices (`vector`).

    `multiple` divides `base` (0 stands for every number: there is no base).
    """

    base: ir.Value | None = None
    offset: int = 0
    stride: int = 0
    level: int = 0
    multiple: int = 0
    vector: ir.Value | None = None
    pattern: "tuple[Index, tuple[int, ...]] | None" = (
        None  # of a vector: what all lanes have in common, and what each adds
    )

    @property
    def lanes(self) -> bool:
        return self.stride != 0 or self.vector is not None

    @property
    def constant(self) -> int | None:
        return self.offset if self.base is None and not self.lanes else None


class Builder:
    """Makes ops in a function whose innermost open scope is `scopes[-1]`."""

    def __init__(self, block: ir.Block, loc: ir.Location, target: Target):
        self.fuses = target.vector_bits >= 256  # multiply-add in one instruction
        self.scales = target.vector_bits >= 512  # x * 2**n in one instruction
        self.register = target.vector_bits
        self.scopes = [ir.InsertionPoint(block)]
        self.caches: list[dict[Any, Any]] = [{}]
        self.loc = loc
        self.index = ir.IndexType.get()
        self.i1, self.i8, self.i32, self.i64 = (ir.IntegerType.get_signless(n) for n in (1, 8, 32, 64))
        self.f32, self.f64 = ir.F32Type.get(), ir.F64Type.get()
        self.i16 = ir.IntegerType.get_signless(16)

    @property
    def level(self) -> int:
        return len(self.scopes) - 1

    def op(
        self,
        name: str,
        types: Sequence[ir.Type] = (),
        operands: Sequence[ir.Value] = (),
        attributes: dict[str, ir.Attribute] | None = None,
        level: int | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        ip = self.scopes[-1 if level is None else level]
        return ir.Operation.create(
            name, results=types, operands=operands, attributes=attributes, regions=regions, loc=self.loc, ip=ip
        )

    def value(
        self,
        name: str,
        type_: ir.Type,
        operands: Sequence[ir.Value],
        attributes: dict[str, ir.Attribute] | None = None,
        level: int | None = None,
    ) -> ir.Value:
        return self.op(name, [type_], operands, attributes, level).results[0]

    def constant(self, type_: ir.Type, number: int | float) -> ir.Value:
        """A constant of a scalar or vector type, made once a function."""
        key = (type_, number, str(number))  # the text tells -0.0 from 0.0, nan from nothing
        known = self.caches[0].get(key)
        if known is None:
            element = type_.element_type if isinstance(type_, ir.VectorType) else type_
            if isinstance(element, ir.FloatType):
                attribute: ir.Attribute = ir.FloatAttr.get(element, float(number))
            else:
                attribute = ir.IntegerAttr.get(element, int(number))
            if isinstance(type_, ir.VectorType):
                attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
            known = self.caches[0][key] = self.value("arith.constant", type_, [], {"value": attribute}, 0)
        return known

    def cached(self, level: int, key: Any, make: Callable[[], ir.Value]) -> ir.Value:
        """The value that `make` builds at `level`, made once while that scope is open."""
        known = self.caches[level].get(key)
        if known is None:
            known = self.caches[level][key] = make()
        return known

    # Scopes

    def _enter(self, op: ir.Operation, block: ir.Block) -> ir.InsertionPoint:
        outer = self.scopes[-1]
        self.scopes[-1] = ir.InsertionPoint(op)
        self.scopes.append(ir.InsertionPoint(block))
        self.caches.append({})
        return outer

    def _leave(self, outer: ir.InsertionPoint) -> None:
        self.scopes.pop()
        self.caches.pop()
        self.scopes[-1] = outer

    def loop(
        self,
        lower: ir.Value,
        upper: ir.Value,
        step: ir.Value,
        carried: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
        *,
        rolled: bool = False,
    ) -> list[ir.Value]:
        """`scf.for`; `body(induction, carried)` returns the next carried values. `rolled`: LLVM is not to unroll it."""
        types = [v.type for v in carried]
        # On its way to LLVM the attribute is handed from op to op, to the branch back.
        attributes = {"loop_annotation": ir.Attribute.parse(ROLLED)} if rolled else None
        op = self.op("scf.for", types, [lower, upper, step, *carried], attributes, regions=1)
        block = op.regions[0].blocks.append(self.index, *types)
        outer = self._enter(op, block)
        arguments = list(block.arguments)
        self.op("scf.yield", [], body(arguments[0], arguments[1:]))
        self._leave(outer)
        return list(op.results)

    def branch(
        self,
        condition: ir.Value,
        then: Callable[[], Sequence[ir.Value]],
        otherwise: Callable[[], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`scf.if`; both branches return values of the same types, which are known only once they are built."""
        draft = self.op("scf.if", [], [condition], regions=2)
        blocks, types = [], []
        for region, fill in zip(draft.regions, (then, otherwise)):
            block = region.blocks.append()
            outer = self._enter(draft, block)
            values = list(fill())
            types = [v.type for v in values]
            self.op("scf.yield", [], values)
            self._leave(outer)
            blocks.append(block)
        op = self.op("scf.if", types, [condition], regions=2)
        for region, block in zip(op.regions, blocks):
            block.append_to(region)
        draft.erase()
        return list(op.results)

    def repeat(
        self,
        carried: Sequence[ir.Value],
        condition: Callable[[list[ir.Value]], tuple[ir.Value, list[ir.Value]]],
        step: Callable[[list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`scf.while`: as long as `condition` of the carried values gives true, `step` of what it gives beside, which is the result."""
        types = [v.type for v in carried]
        draft = self.op("scf.while", [], carried, regions=2)
        before = draft.regions[0].blocks.append(*types)
        outer = self._enter(draft, before)
        goes_on, passed = condition(list(before.arguments))
        self.op("scf.condition", [], [goes_on, *passed])
        self._leave(outer)
        types = [v.type for v in passed]
        after = draft.regions[1].blocks.append(*types)
        outer = self._enter(draft, after)
        self.op("scf.yield", [], step(list(after.arguments)))
        self._leave(outer)
        op = self.op("scf.while", types, carried, regions=2)
        for region, block in zip(op.regions, (before, after)):
            block.append_to(region)
        draft.erase()
        return list(op.results)
