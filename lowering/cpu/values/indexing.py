"""Arithmetic on `Index`: affine expressions over lanes, kept as base + offset + stride * lane as long as they are that."""

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from bascule.dialect.mlir import ir

from .builder import Builder, Index, Scalar


class Indexing:
    """Evaluates index expressions; `width` is the number of lanes in force (1: none)."""

    def __init__(self, builder: Builder):
        self.b = builder
        self.width = 1

    # Values

    def scalar(self, index: Index) -> ir.Value:
        """base + offset, as a value of type `index`."""
        b = self.b
        if index.base is None:
            return b.constant(b.index, index.offset)
        if index.offset == 0:
            return index.base
        key = ("offset", index.base, index.offset)
        return b.cached(
            index.level,
            key,
            lambda: b.value("arith.addi", b.index, [index.base, b.constant(b.index, index.offset)], None, index.level),
        )

    def vector_type(self) -> ir.Type:
        return ir.VectorType.get([self.width], self.b.index)

    def iota(self, stride: int) -> ir.Value:
        """[0, stride, 2 * stride, ...] of `width` lanes."""
        b, width = self.b, self.width

        def make() -> ir.Value:
            type_ = self.vector_type()
            values = [ir.IntegerAttr.get(b.index, lane * stride) for lane in range(width)]
            return b.value("arith.constant", type_, [], {"value": ir.DenseElementsAttr.get(values, type_)}, 0)

        return b.cached(0, ("iota", width, stride), make)

    def iota32(self, stride: int) -> ir.Value:
        """The same in 32 bits."""
        b, width = self.b, self.width

        def make() -> ir.Value:
            type_ = ir.VectorType.get([width], b.i32)
            values = [ir.IntegerAttr.get(b.i32, lane * stride) for lane in range(width)]
            return b.value("arith.constant", type_, [], {"value": ir.DenseElementsAttr.get(values, type_)}, 0)

        return b.cached(0, ("iota32", width, stride), make)

    def vector(self, index: Index) -> ir.Value:
        """The index of each lane, as a vector."""
        if index.vector is not None:
            return index.vector
        b, type_ = self.b, self.vector_type()

        def make() -> ir.Value:
            if index.base is None and index.offset == 0:
                return self.iota(index.stride)
            splat = b.value("vector.broadcast", type_, [self.scalar(index)], None, index.level)
            if index.stride == 0:
                return splat
            return b.value("arith.addi", type_, [splat, self.iota(index.stride)], None, index.level)

        return b.cached(index.level, ("lanes", index, self.width), make)

    def value(self, index: Index) -> Scalar:
        return Scalar(self.vector(index) if index.lanes else self.scalar(index), index.lanes, index.level)

    def of(self, scalar: Scalar) -> Index:
        if scalar.lanes:
            return Index(vector=scalar.value, level=scalar.level)
        return Index(base=scalar.value, level=scalar.level, multiple=1)

    def patterned(self, common: Index, steps: Sequence[int]) -> Index:
        """An index made of `common`, which all lanes have, and what each adds to it."""
        b, type_ = self.b, self.vector_type()

        def make() -> ir.Value:
            values = [ir.IntegerAttr.get(b.index, step) for step in steps]
            return b.value("arith.constant", type_, [], {"value": ir.DenseElementsAttr.get(values, type_)}, 0)

        apart = b.cached(0, ("steps", tuple(steps)), make)
        splat = b.value("vector.broadcast", type_, [self.scalar(common)], None, common.level)
        vector = b.value("arith.addi", type_, [splat, apart], None, common.level)
        return Index(vector=vector, level=common.level, pattern=(common, tuple(steps)))

    def _steps(self, x: Index) -> tuple[Index, Sequence[int]] | None:
        """Splits `x` into what all lanes have in common and what each adds; None if that is not known."""
        if x.pattern is not None:
            return x.pattern if len(x.pattern[1]) == self.width else None
        if x.vector is not None:
            return None
        return replace(x, stride=0), [x.stride * lane for lane in range(self.width)]

    # Arithmetic

    def _elementwise(self, name: str, x: Index, y: Index) -> Index:
        level = max(x.level, y.level)
        if x.lanes or y.lanes:
            vector = self.b.value(name, self.vector_type(), [self.vector(x), self.vector(y)], None, level)
            return Index(vector=vector, level=level)
        value = self.b.value(name, self.b.index, [self.scalar(x), self.scalar(y)], None, level)
        return Index(base=value, level=level, multiple=1)

    def add(self, x: Index, y: Index) -> Index:
        if x.vector is not None or y.vector is not None:
            if x.constant == 0 or y.constant == 0:
                return y if x.constant == 0 else x
            known = self._steps(x), self._steps(y)
            if known[0] is not None and known[1] is not None:
                (first, mine), (second, others) = known[0], known[1]
                return self.patterned(self.add(first, second), [a + c for a, c in zip(mine, others)])
            return self._elementwise("arith.addi", x, y)
        level = max(x.level, y.level)
        base, offset = x.base, x.offset + y.offset
        if y.base is not None:
            base = y.base
            if x.base is not None:
                base = self.b.value("arith.addi", self.b.index, [x.base, y.base], None, level)
        return Index(base, offset, x.stride + y.stride, level, gcd(x.multiple, y.multiple))

    def scale(self, x: Index, factor: int) -> Index:
        b = self.b
        if factor == 1:
            return x
        if factor == 0:
            return Index()
        if x.vector is not None:
            if x.pattern is not None:
                common, steps = x.pattern
                return self.patterned(self.scale(common, factor), [step * factor for step in steps])
            return self._elementwise("arith.muli", x, Index(offset=factor))
        base = x.base
        if base is not None:
            base = b.cached(
                x.level,
                ("scale", base, factor),
                lambda: b.value("arith.muli", b.index, [x.base, b.constant(b.index, factor)], None, x.level),
            )
        return Index(base, x.offset * factor, x.stride * factor, x.level, abs(x.multiple * factor))

    def multiply(self, x: Index, y: Index) -> Index:
        for a, other in ((x, y), (y, x)):
            if a.constant is not None:
                return self.scale(other, a.constant)
        return self._elementwise("arith.muli", x, y)

    def floordiv(self, x: Index, y: Index) -> Index:
        divisor = y.constant
        if divisor == 1:
            return x
        if divisor and divisor > 0:
            if x.constant is not None:
                return Index(offset=x.constant // divisor)
            if self._within(x, divisor):
                if x.base is None:
                    return Index(offset=x.offset // divisor)
                return self._elementwise("arith.floordivsi", Index(x.base, x.offset, 0, x.level, x.multiple), y)
            if self._in_step(x, divisor):
                common = Index(offset=0)
                if x.base is not None:
                    base = self._elementwise("arith.floordivsi", Index(x.base, 0, 0, x.level, x.multiple), y)
                    common = replace(base, multiple=x.multiple // divisor)
                return self.patterned(common, [(x.offset + x.stride * lane) // divisor for lane in range(self.width)])
        return self._elementwise("arith.floordivsi", x, self._divisor(y))

    def _divisor(self, y: Index) -> Index:
        """`y`, or 1 for the size of an empty dimension: a quotient by that is not used, but may stand before the loop that it is for."""
        return y if y.constant is not None or y.lanes else self.greatest(y, Index(offset=1))

    def _in_step(self, x: Index, divisor: int) -> bool:
        """Whether the lanes of `x` differ, and begin at a multiple of `divisor` but for a constant."""
        return x.vector is None and x.stride != 0 and (x.base is None or x.multiple % divisor == 0)

    def mod(self, x: Index, y: Index) -> Index:
        """The affine remainder: of a positive divisor, never negative."""
        divisor = y.constant
        if divisor == 1:
            return Index()
        if divisor and divisor > 0:
            if x.constant is not None:
                return Index(offset=x.constant % divisor)
            if self._within(x, divisor):
                part = Index(offset=x.offset % divisor, stride=x.stride)
                if x.base is None or x.multiple % divisor == 0:
                    return part
                rest = self._remainder(Index(x.base, x.offset, 0, x.level, x.multiple), y)
                step = gcd(x.multiple, divisor)
                return Index(rest.base, 0, x.stride, rest.level, step if x.offset % step == 0 else 1)
        return self._remainder(x, y)

    def _within(self, x: Index, divisor: int) -> bool:
        """Whether all lanes of `x` have one quotient by `divisor`: the base moves in steps that the lanes cannot cross."""
        if x.vector is not None or x.stride < 0:
            return False
        step = gcd(x.multiple, divisor)  # divisor for a missing base
        return x.offset % step + x.stride * (self.width - 1) < step

    def _remainder(self, x: Index, y: Index) -> Index:
        y = self._divisor(y)
        quotient = self._elementwise("arith.floordivsi", x, y)
        return self._elementwise("arith.subi", x, self._elementwise("arith.muli", quotient, y))

    def divide(self, x: Index, y: Index) -> tuple[Index, Index]:
        """Quotient and remainder of two that are uniform and not negative, `y` positive."""
        if y.constant == 1:
            return x, Index()
        y = self._divisor(y)
        level = max(x.level, y.level)
        operands = [self.scalar(x), self.scalar(y)]
        quotient = self.b.value("arith.divui", self.b.index, operands, None, level)
        rest = self.b.value("arith.remui", self.b.index, operands, None, level)
        return Index(quotient, level=level, multiple=1), Index(rest, level=level, multiple=1)

    def least(self, x: Index, y: Index) -> Index:
        """The smaller of two that are uniform."""
        return self._elementwise("arith.minsi", x, y)

    def greatest(self, x: Index, y: Index) -> Index:
        """The larger of two that are uniform."""
        return self._elementwise("arith.maxsi", x, y)

    def evaluate(self, expr: ir.AffineExpr, dims: Sequence[Index], symbols: Sequence[Index]) -> Index:
        """The value of an affine expression."""
        if isinstance(expr, ir.AffineConstantExpr):
            return Index(offset=expr.value)
        if isinstance(expr, ir.AffineDimExpr):
            return dims[expr.position]
        if isinstance(expr, ir.AffineSymbolExpr):
            return symbols[expr.position]
        lhs = self.evaluate(expr.lhs, dims, symbols)
        rhs = self.evaluate(expr.rhs, dims, symbols)
        if isinstance(expr, ir.AffineAddExpr):
            return self.add(lhs, rhs)
        if isinstance(expr, ir.AffineMulExpr):
            return self.multiply(lhs, rhs)
        if isinstance(expr, ir.AffineModExpr):
            return self.mod(lhs, rhs)
        if isinstance(expr, ir.AffineFloorDivExpr):
            return self.floordiv(lhs, rhs)
        return self._elementwise("arith.ceildivsi", lhs, self._divisor(rhs))
