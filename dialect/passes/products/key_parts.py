"""An attention whose keys go into parts, a program each for every tile of queries: the result, the maximum and the sum of exponentials of each
part, and a small compute that puts them together. Dao, Haziza, Massa and Sizov, "Flash-Decoding"."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...analysis.bodies.backward_slice import needed
from ...analysis.products.attention import Attention, yielded
from ...fusion.row_statistics import put_together
from ...ir import builders
from ...ir.attribute_names import INPUT_PRECISION, TAIL
from ...ir.regions import clone, end_of
from ...ir.shapes import Size, constant, expr, index_map, tensor_type
from ...mlir import arith, ir, math
from ...scheduling.gpu.attention import KeyParts

NEVER = float("-inf")


def in_parts(
    attention: ir.Operation, found: Attention, parts: KeyParts, symbols: Sequence[ir.Value]
) -> list[ir.Operation]:
    """The compute that stands for `attention`, of which `found` tells the loops, at the insertion point, behind those of the `parts` of its
    keys, which share a kernel: all of them, in order."""
    return _Parts(attention, found, parts, symbols).build()


@dataclass
class _Parts:
    """One attention. A row of scores, its maximum, the sum of exponentials and that of values are `loops`, in this order."""

    attention: ir.Operation
    found: Attention
    parts: KeyParts
    symbols: Sequence[ir.Value]

    def __post_init__(self) -> None:
        self.loops = [node.op for node in self.found.loops]
        self.block = self.attention.regions[0].blocks[0]
        self.sizes = list(self.attention.attributes["ranges"].value.results)
        (self.keys,) = self.loops[0].attributes["ranges"].value.results
        self.f32 = ir.F32Type.get()

    def build(self) -> list[ir.Operation]:
        _, largest, total, weighted = (loop.results[0] for loop in self.loops)
        rows = [expr(1) if place in self.found.columns else size for place, size in enumerate(self.sizes)]
        parts = [self._of_each([weighted, total], self.sizes), *(self._of_each([x], rows) for x in (largest, total))]
        put_together([value.owner.operation for value in parts])
        result = self.attention.results[0]
        whole = builders.compute(result.type, self.sizes, lambda at: self._whole(at, *parts))
        return [value.owner.operation for value in (*parts, whole)]

    def _of_each(self, values: Sequence[ir.Value], sizes: Sequence[Size]) -> ir.Value:
        """Of each part a value, or of two the quotient."""

        def body(at: builders.Indices) -> ir.Value:
            mapping = dict(zip(self.block.arguments, at[1:]))
            for op in needed(values, self.block).ops:
                if op in self.loops:
                    self._copied(op, at[0], mapping)
                else:
                    clone(op, mapping)
            found = [mapping[value] for value in values]
            return found[0] if len(found) == 1 else arith.divf(*found)

        sizes = [self.parts.count, *sizes]
        return builders.compute(tensor_type(sizes, self.f32), sizes, body)

    def _copied(self, loop: ir.Operation, part: ir.Value, mapping: dict[ir.Value, ir.Value]) -> None:
        """Puts the copy of `loop` over the keys of a part into `mapping`."""
        scores = self.loops[0]

        def body(at: builders.Indices) -> ir.Value:
            key, inside = self._key(part, at[0])
            given = {**mapping, loop.regions[0].blocks[0].arguments[0]: key}
            for view in loop.regions[0].blocks[0].operations:
                op = view.operation
                if op.name == "bascule.yield":
                    break
                if op.name == "tensor.extract" and op.operands[0] == scores.results[0]:
                    given[op.results[0]] = builders.read(mapping[scores.results[0]], at)
                else:
                    clone(op, given)
            value = given.get(yielded(loop), yielded(loop))
            hidden = loop == scores and inside is not None
            return arith.select(inside, value, arith.constant(self.f32, NEVER)) if hidden else value

        size = [expr(self.parts.size)]
        with loop.location:
            if loop == scores:
                mapping[loop.results[0]] = builders.compute(tensor_type(size, self.f32), size, body)
            else:
                (made,) = builders.reduce(loop.attributes["kind"].value, size, self.f32, body)
                if INPUT_PRECISION in loop.attributes:
                    made.owner.attributes[INPUT_PRECISION] = loop.attributes[INPUT_PRECISION]
                mapping[loop.results[0]] = made

    def _key(self, part: ir.Value, place: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """The key at a `place` of a part, and whether there is one, if not at all: else the last one stands for it."""
        number, at = ir.AffineExpr.get_dim(0), ir.AffineExpr.get_dim(1)
        if self.parts.turn:
            turn = self.parts.turn
            rounds = ir.AffineExpr.get_floor_div(at, turn) * (turn * (constant(self.parts.count) or 0))
            place_ = rounds + number * turn + ir.AffineExpr.get_mod(at, turn)
        else:
            place_ = number * self.parts.size + at
        first = index_map(2, [place_])
        (key,) = builders.apply(first, [part, place], [])
        if self.parts.exact:
            return key, None
        last, end = (self._number(expr(self.keys - less)) for less in (1, 0))
        inside = arith.cmpi(arith.CmpIPredicate.slt, key, end)
        there = arith.minsi(key, last)
        there.owner.attributes[TAIL] = ir.UnitAttr.get()
        return there, inside

    def _number(self, size: ir.AffineExpr) -> ir.Value:
        known = constant(size)
        if known is not None:
            return arith.constant(ir.IndexType.get(), known)
        (found,) = builders.apply(index_map(0, [size]), [], self.symbols)
        return found

    def _whole(self, at: builders.Indices, parts: ir.Value, maxima: ir.Value, totals: ir.Value) -> ir.Value:
        """An element of the attention. A part whose scores are all -inf counts for nothing; where all are, the result is NaN, as without
        parts."""
        _, largest, total, weighted = (loop.results[0] for loop in self.loops)
        zero = arith.constant(ir.IndexType.get(), 0)
        rows = [zero if place in self.found.columns else index for place, index in enumerate(at)]

        def reduced(kind: str, term: Callable[[ir.Value], ir.Value]) -> ir.Value:
            (found,) = builders.reduce(kind, [self.parts.count], self.f32, lambda part: term(part[0]))
            return found

        most = reduced("max", lambda part: builders.read(maxima, [part, *rows]))

        def scaled(part: ir.Value, factor: ir.Value | None = None) -> ir.Value:
            own, never, nothing = (
                builders.read(maxima, [part, *rows]),
                *(arith.constant(self.f32, x) for x in (NEVER, 0.0)),
            )
            value = arith.mulf(math.exp(arith.subf(own, most)), builders.read(totals, [part, *rows]))
            value = value if factor is None else arith.mulf(value, factor)
            return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, own, never), nothing, value)

        mapping = dict(zip(self.block.arguments, at)) | {largest: most}
        mapping[total] = reduced("sum", scaled)
        mapping[weighted] = reduced("sum", lambda part: scaled(part, builders.read(parts, [part, *at])))
        value = end_of(self.block).operands[0]
        for op in needed([value], self.block, [loop.results[0] for loop in self.loops]).ops:
            clone(op, mapping)
        return mapping.get(value, value)
