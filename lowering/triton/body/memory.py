"""Loads, stores and atomics of tiles, under the conditions in force.

A bound (an index below its size) concerns an access only if the address runs along the bound's axis, or a guard does: where a
loop goes beyond its end a guard may hold that nothing inside meets. A guard (the condition of an `scf.if`) concerns every access
under it. A boolean is a byte in memory.
"""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

from bascule.dialect.mlir import ir

from ..values.atomic_multiply import multiply
from ..values.builder import Builder, element
from ..values.float8 import FLOAT8
from ..values.packed_values import again
from ..values.tiles import WORDS, Axes, Tile, is_pair, places, shaped, spread, union

# RMWOp's numbers in Triton
ADD, FLOAT_ADD, MAX, MIN, UNSIGNED_MAX, UNSIGNED_MIN = 4, 5, 6, 7, 8, 9
INTEGER_MODES = {"add": ADD, "max": MAX, "min": MIN, "maxu": UNSIGNED_MAX, "minu": UNSIGNED_MIN}


@dataclass(frozen=True)
class Condition:
    """`atoms`: of a bound, the indices that are not inside where it does not hold; None: any may be so."""

    tile: Tile
    guard: bool
    atoms: Set[int] | None = None

    def concerns(self, atoms: Set[int] | None) -> bool:
        """Whether what is read at `atoms` may be out of range where this does not hold; None: whatever it is."""
        return self.guard or self.atoms is None or atoms is None or not self.atoms.isdisjoint(atoms)


class Memory:
    def __init__(self, b: Builder):
        self.b = b
        self.conditions: list[Condition] = []
        self.kept: dict[ir.Value, int] = {}  # what was loaded -> the walk that did
        self.filling: int | float | None = None  # what a load gives where a condition does not hold; None: anything

    @contextmanager
    def without(self, needless: Sequence[Condition]) -> Iterator[None]:
        """Reads in its body are as if the conditions `needless` were not in force."""
        every = self.conditions
        self.conditions = [condition for condition in every if condition not in needless]
        try:
            yield
        finally:
            self.conditions = every

    @contextmanager
    def filled(self, number: int | float | None) -> Iterator[None]:
        """Reads in its body give `number` where a condition in force does not hold; None: anything."""
        before, self.filling = self.filling, number
        try:
            yield
        finally:
            self.filling = before

    def reach(self, axes: Axes) -> Axes:
        """`axes`, and those of the guards."""
        return union(axes, *(c.tile.axes for c in self.conditions if c.guard))

    def mask(self, axes: Axes, atoms: Set[int] | None = None) -> list[ir.Value]:
        """The conditions that concern what is over `axes`, and read at `atoms`, if given, as one value; none: an empty list."""
        mask: ir.Value | None = None
        guarded = {axis for condition in self.conditions if condition.guard for axis in condition.tile.axes}
        for condition in self.conditions:
            concerned = condition.concerns(atoms) or not guarded.isdisjoint(condition.tile.axes)
            if set(condition.tile.axes) <= set(axes) and concerned:
                term = spread(self.b, condition.tile, axes)
                mask = term if mask is None else self.b.same("arith.andi", mask, term)
        return [] if mask is None else [mask]

    def _pointers(self, base: ir.Value, offset: Tile, axes: Axes, start: int = 0) -> ir.Value:
        """Pointers to what is `start` elements beyond `offset`: a number that instructions add themselves."""
        own, b = offset.axes, self.b
        pointer = base if not own else b.value("tt.splat", shaped(base.type, own), [base])
        steps = [offset.value, *([b.constant(offset.value.type, start)] if start else [])]
        for step in steps * (2 if WORDS in axes else 1):  # by half of it, twice: all of it may have more bits
            pointer = b.value("tt.addptr", pointer.type, [pointer, step])
        pointer = spread(b, Tile(pointer, own), axes)
        if WORDS not in axes:
            return pointer
        return b.value("tt.addptr", pointer.type, [pointer, spread(b, places(b, WORDS), axes)])

    def load(
        self,
        base: ir.Value,
        offset: Tile,
        stored: ir.Type,
        scalar: ir.Type,
        evict: int,
        keep: int | None = None,
        start: int = 0,
        atoms: Set[int] | None = None,
        nullable: bool = False,
    ) -> Tile:
        """`start`: elements beyond `offset`. `keep`: the number of a walk whose reads stay in registers for later ones, as they were read: what
        is computed of them is not to. `atoms`: the indices that say where, if nothing else does. `nullable`: whether `base` may be 0, and what
        is read zeros."""
        b, axes = self.b, self.reach(offset.axes)
        if is_pair(scalar):
            axes = union(axes, (WORDS,))
        mask, filling, given = self.mask(axes, atoms), self.filling, None
        if nullable:
            given = spread(b, Tile(self._given(base)), axes)
            filling = 0 if filling is None or not mask else filling
            mask = [b.same("arith.andi", mask[0], given) if mask else given]
        other = [] if filling is None or not mask else [b.constant(shaped(stored, axes), filling)]
        attributes: dict[str, ir.Attribute] = {
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(mask), len(other)]),
            "cache": b.number(b.i32, 1),
            "evict": b.number(b.i32, evict),
            "isVolatile": ir.BoolAttr.get(False),
        }
        value = b.value(
            "tt.load", shaped(stored, axes), [self._pointers(base, offset, axes, start), *mask, *other], attributes
        )
        if given is not None and filling:
            value = b.select(given, value, b.constant(value.type, 0))
        if keep is not None and axes and self.kept.setdefault(value, keep) != keep:
            value = again(b, value, keep)
        if scalar == b.i1:
            value = b.compare("ne", value, b.constant(value.type, 0))
        elif isinstance(scalar, FLOAT8):
            value = b.convert("tt.bitcast", value, scalar)
        return Tile(value, axes)

    def _given(self, base: ir.Value) -> ir.Value:
        """Whether a pointer is not 0."""
        address = self.b.convert("tt.ptr_to_int", base, ir.IntegerType.get_signless(64))
        return self.b.compare("ne", address, self.b.constant(address.type, 0))

    def store(self, base: ir.Value, offset: Tile, value: Tile, evict: int, start: int = 0) -> None:
        b, axes = self.b, self.reach(union(offset.axes, value.axes))
        content = spread(b, value, axes)
        if value.value.type == shaped(b.i1, value.axes):
            content = b.convert("arith.extui", content, b.i8)
        elif isinstance(element(content.type), FLOAT8):
            content = b.convert("tt.bitcast", content, b.i8)
        attributes: dict[str, ir.Attribute] = {"cache": b.number(b.i32, 1), "evict": b.number(b.i32, evict)}
        b.op("tt.store", [], [self._pointers(base, offset, axes, start), content, *self.mask(axes)], attributes)

    def atomic(self, base: ir.Value, offset: Tile, value: Tile, mode: str, axes: Axes, scalar: ir.Type) -> str | None:
        """`memory = mode(memory, value)` at every point of `axes`, the axes in force. Returns a reason where it cannot."""
        b = self.b
        axes = self.reach(union(axes, offset.axes, value.axes))
        pointers, content, mask = self._pointers(base, offset, axes), spread(b, value, axes), self.mask(axes)
        if mode == "mul" and scalar.width in (32, 64):
            inside = mask[0] if mask else b.constant(shaped(b.i1, axes), -1)
            if mask:
                place = spread(b, offset, axes)
                pointers = self._pointers(base, Tile(b.select(inside, place, b.constant(place.type, 0)), axes), axes)
            multiply(b, pointers, content, inside)
        elif isinstance(scalar, ir.FloatType):
            if mode == "add":
                self._rmw(FLOAT_ADD, pointers, content, mask)
            elif mode in ("max", "min") and scalar in (b.f32, b.f64):
                self._float_extreme(pointers, content, mask, mode == "max")
            else:
                return f"atomic {mode} of {scalar}"
        elif mode in INTEGER_MODES and scalar.width in (32, 64):
            self._rmw(INTEGER_MODES[mode], pointers, content, mask)
        else:
            return f"atomic {mode} of {scalar}"
        return None

    def _rmw(self, number: int, pointers: ir.Value, content: ir.Value, mask: list[ir.Value]) -> ir.Value:
        """The contents before."""
        b = self.b
        shape = content.type
        if not mask:
            i1 = ir.RankedTensorType.get(shape.shape, b.i1) if isinstance(shape, ir.RankedTensorType) else b.i1
            mask = [b.constant(i1, -1)]
        attributes = {"atomic_rmw_op": b.number(b.i32, number), "sem": b.number(b.i32, 1), "scope": b.number(b.i32, 1)}
        return b.op("tt.atomic_rmw", [shape], [pointers, content, *mask], attributes).results[0]

    def _float_extreme(self, pointers: ir.Value, content: ir.Value, mask: list[ir.Value], largest: bool) -> None:
        """By the bits: floats of one sign are ordered as integers, negative ones the other way round; every negative number's bits are
        below the positive ones' as signed integers. NaN is put where it wins: positive for max, negative for min. A NaN of the other sign
        that was in memory is overwritten; whoever sees that puts back one that stays."""
        b = self.b
        tensor = isinstance(content.type, ir.RankedTensorType)
        scalar = content.type.element_type if tensor else content.type
        integer = b.i32 if scalar == b.f32 else b.i64
        bits = b.convert("tt.bitcast", content, integer)
        quiet = 0x7FC00000 if integer == b.i32 else 0x7FF8 << 48
        nan = b.constant(bits.type, quiet if largest else quiet | 1 << (integer.width - 1))
        bits = b.select(b.is_nan(content), nan, bits)
        name = f"!tt.ptr<{integer}>"
        type_ = ir.Type.parse(name)
        casted = ir.RankedTensorType.get(content.type.shape, type_) if tensor else type_
        pointers = b.value("tt.bitcast", casted, [pointers])
        zero = b.constant(bits.type, 0)
        for predicate, number in (("sge", MAX if largest else MIN), ("slt", UNSIGNED_MIN if largest else UNSIGNED_MAX)):
            term = b.compare(predicate, bits, zero)
            whole = b.same("arith.andi", mask[0], term) if mask else term
            old = self._rmw(number, pointers, bits, [whole])
            lost = b.same("arith.andi", whole, b.is_nan(b.convert("tt.bitcast", old, scalar)))
            stays = b.constant(bits.type, (1 << (integer.width - 1)) - 1 if largest else -1)
            self._rmw(MAX if largest else UNSIGNED_MAX, pointers, stays, [lost])
