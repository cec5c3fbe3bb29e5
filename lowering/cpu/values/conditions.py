"""Conditions on indices that lanes run along: kept as comparisons, so that a guard knows when all lanes, or none, pass.

The guards of a cat, a pad or a slice differ between lanes only in the vector that straddles a boundary.
"""

from dataclasses import dataclass

from bascule.dialect.mlir import ir

from .builder import Builder, Index, Scalar
from .indexing import Indexing
from .scalars import Scalars

SIGNED = {0: "eq", 1: "ne", 2: "slt", 3: "sle", 4: "sgt", 5: "sge"}
LIMIT = 1 << 30  # distances are cut off here: no stride times a lane comes near


@dataclass(frozen=True)
class Comparison:
    """`difference` (base + offset + stride * lane) against 0."""

    predicate: str
    difference: Index

    @property
    def level(self) -> int:
        return self.difference.level

    def mask(self, b: Builder, ix: Indexing) -> Scalar:
        """One bit a lane, compared in 32 bits."""
        d, s, width = self.difference, Scalars(b, self.level), ix.width

        def make() -> ir.Value:
            negative = b.value("arith.subi", b.index, [b.constant(b.index, 0), ix.scalar(_uniform(d))], None, d.level)
            cut = s.op("arith.minsi", negative, b.constant(b.index, LIMIT))
            cut = s.op("arith.maxsi", cut, b.constant(b.index, -LIMIT))
            vector = ir.VectorType.get([width], b.i32)
            bound = b.value("arith.index_cast", b.i32, [cut], None, d.level)
            bound = b.value("vector.broadcast", vector, [bound], None, d.level)
            return s.compare(self.predicate, ix.iota32(d.stride), bound)

        return Scalar(b.cached(d.level, ("compare", self, width), make), True, d.level)

    def unanimous(self, b: Builder, ix: Indexing) -> tuple[ir.Value, ir.Value]:
        """Whether all lanes pass, and whether none does."""
        d, s = self.difference, Scalars(b, self.level)
        reach = d.stride * (ix.width - 1)
        low = ix.scalar(Index(d.base, d.offset + min(0, reach), 0, d.level))
        high = ix.scalar(Index(d.base, d.offset + max(0, reach), 0, d.level))
        zero = b.constant(b.index, 0)
        outside = lambda: s.op("arith.ori", s.compare("sgt", low, zero), s.compare("slt", high, zero))  # noqa: E731
        never = b.constant(b.i1, 0)
        match self.predicate:
            case "slt":
                return s.compare("slt", high, zero), s.compare("sge", low, zero)
            case "sle":
                return s.compare("sle", high, zero), s.compare("sgt", low, zero)
            case "sgt":
                return s.compare("sgt", low, zero), s.compare("sle", high, zero)
            case "sge":
                return s.compare("sge", low, zero), s.compare("slt", high, zero)
            case "eq":
                return never, outside()
            case _:
                return outside(), never


@dataclass(frozen=True)
class Both:
    """Both conditions (`either`: at least one)."""

    x: "Condition"
    y: "Condition"
    either: bool

    @property
    def level(self) -> int:
        return max(self.x.level, self.y.level)

    def mask(self, b: Builder, ix: Indexing) -> Scalar:
        x, y = self.x.mask(b, ix), self.y.mask(b, ix)
        name = "arith.ori" if self.either else "arith.andi"
        return Scalar(b.value(name, x.value.type, [x.value, y.value], None, self.level), True, self.level)

    def unanimous(self, b: Builder, ix: Indexing) -> tuple[ir.Value, ir.Value]:
        (all_x, none_x), (all_y, none_y) = self.x.unanimous(b, ix), self.y.unanimous(b, ix)
        s = Scalars(b, self.level)
        if self.either:
            return s.op("arith.ori", all_x, all_y), s.op("arith.andi", none_x, none_y)
        return s.op("arith.andi", all_x, all_y), s.op("arith.ori", none_x, none_y)


Condition = Comparison | Both


def _uniform(index: Index) -> Index:
    return Index(index.base, index.offset, 0, index.level, index.multiple)


def comparison(predicate: int, x: Index, y: Index, ix: Indexing) -> Comparison | None:
    """The signed comparison of two indices, if lanes run along their difference with one stride."""
    if predicate not in SIGNED or x.vector is not None or y.vector is not None:
        return None
    difference = ix.add(x, ix.scale(y, -1))
    return Comparison(SIGNED[predicate], difference) if difference.stride else None
