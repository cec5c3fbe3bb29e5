"""Reads and writes of elements: contiguous, broadcast, strided or gathered, each with or without a mask.

A buffer is a flat memref; an element's place in it is one `Index`, from the buffer's layout. A boolean is a byte, a bf16 in memory its
bits: LLVM has no instructions for a bf16 that is only moved where a processor has AVX512-BF16 ("Cannot select", and it ends the process).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bascule.dialect.ir.types import carried
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.schedule_form import NEAR

from .builder import Builder, Index, Scalar
from .indexing import Indexing
from .lanes import extract, shuffle
from .scalars import Scalars

LINE = 64  # bytes of a cache line
NEAREST = 3  # a prefetch's hint: into the first cache


@dataclass(frozen=True)
class Buffer:
    """`memref` is flat, of elements `stored_type(element)`; `layout` maps an index to an element offset.

    `lanes`: of a scratch buffer made while lanes are in force, each element is a vector of that many.
    """

    memref: ir.Value
    element: ir.Type
    layout: ir.AffineMap
    lanes: int = 1
    level: int = 0  # the scope in which its contents are written
    aligned: ir.Value | None = None  # of one whose stores may go past the caches: whether it starts at a line


def stored_type(element: ir.Type) -> ir.Type:
    """The element type of the memref that holds scalars of type `element`."""
    register = carried(element)
    if isinstance(register, ir.IntegerType) and register.width == 1:
        return ir.IntegerType.get_signless(8)
    if isinstance(register, ir.BF16Type):
        return ir.IntegerType.get_signless(16)
    return register


class Memory:
    def __init__(self, builder: Builder, indexing: Indexing):
        self.b, self.ix = builder, indexing
        self.s = Scalars(builder)
        self.mask: Scalar | None = None  # lanes in force, None: all
        self.sparse = False  # whether no lane at all may be in force
        self.floor = 0  # the outermost scope in which reads may be placed
        self.one_by_one = False  # whether some access has an instruction a lane
        self.past_caches = False  # whether some store is non-temporal

    def place(self, buffer: Buffer, indices: Sequence[Index], symbols: Sequence[Index]) -> Index:
        place = self.ix.evaluate(buffer.layout.results[0], indices, symbols)
        if buffer.lanes > 1:
            place = self.ix.add(self.ix.scale(place, buffer.lanes), Index(stride=1))
        return place

    def load(self, buffer: Buffer, place: Index) -> Scalar:
        b = self.b
        level = max(place.level, self.floor, buffer.level)
        stored = buffer.memref.type.element_type
        if not place.lanes:
            if self.mask is not None and self.sparse:
                level = b.level  # it stands in a branch of its own
            value = self._uniform(buffer, place, stored, level)
            return Scalar(self._from_memory(value, buffer.element, level), False, level)
        vector = ir.VectorType.get([self.ix.width], stored)
        if self.mask is not None:
            level = max(level, self.mask.level)
        if place.vector is None and place.stride == 1:
            operands = [buffer.memref, self.ix.scalar(place)]
            if self.mask is None:
                value = b.value("vector.load", vector, operands, None, level)
            else:
                zero = b.constant(vector, 0)
                value = b.value("vector.maskedload", vector, [*operands, self.mask.value, zero], None, level)
        elif place.vector is None and place.stride == -1:
            value = self._backwards(buffer, place, vector, level)
        elif place.vector is None and 2 <= place.stride <= min(NEAR, self.ix.width):
            value = self._strided(buffer, place, vector, level)
        elif place.pattern is not None and _is_run(place.pattern[1]):
            value = self._repeated(buffer, place.pattern, stored, level)
        elif self.mask is None:
            read = [b.value("memref.load", stored, [buffer.memref, at], None, level) for at in self._each(place, level)]
            value = b.value("vector.from_elements", vector, read, None, level)
        else:
            base, offsets = self._split(place)
            operands = [buffer.memref, base, offsets, self.mask.value, b.constant(vector, 0)]
            value = b.value("vector.gather", vector, operands, None, level)
        return Scalar(self._from_memory(value, buffer.element, level), True, level)

    def _backwards(self, buffer: Buffer, place: Index, vector: ir.Type, level: int) -> ir.Value:
        """Lanes that lie one before the other, read in the order of memory and turned around."""
        b, s, last = self.b, self.s.at(level), self.ix.width - 1
        turned = list(range(last, -1, -1))
        operands = [buffer.memref, self.ix.scalar(replace(place, stride=0, offset=place.offset - last))]
        if self.mask is None:
            value = b.value("vector.load", vector, operands, None, level)
        else:
            mask = shuffle(s, self.mask.value, self.mask.value, turned)
            value = b.value("vector.maskedload", vector, [*operands, mask, b.constant(vector, 0)], None, level)
        return shuffle(s, value, value, turned)

    def _strided(self, buffer: Buffer, place: Index, vector: ir.Type, level: int) -> ir.Value:
        """Lanes that lie a few elements apart, no more than there are lanes: all from the first to the last are read, and no more, and theirs
        taken out."""
        width, step = self.ix.width, place.stride
        starts = [*(i * width for i in range(step - 1)), (width - 1) * step + 1 - width]
        value, taken = None, [0] * width
        for number, start in enumerate(starts):
            at = replace(place, stride=0, offset=place.offset + start)
            readers = [[(start + i) // step] if (start + i) % step == 0 else [] for i in range(width)]
            part = self._run(buffer, at, vector, readers, level)
            if value is None:
                value, taken = part, [min(lane * step, width - 1) for lane in range(width)]
                continue
            here = [number * width <= lane * step for lane in range(width)]
            taken = [width + lane * step - start if new else old for lane, (new, old) in enumerate(zip(here, taken))]
            taken = [min(lane, 2 * width - 1) for lane in taken]
            value = shuffle(self.s.at(level), value, part, taken)
            taken = list(range(width))
        return value

    def _repeated(
        self, buffer: Buffer, pattern: tuple[Index, tuple[int, ...]], stored: ir.Type, level: int
    ) -> ir.Value:
        """Lanes that have the elements of a run, some of them the same one: read once, and put in their places."""
        common, steps = pattern
        first = min(steps)
        run = ir.VectorType.get([max(steps) - first + 1], stored)
        readers: list[list[int]] = [[] for _ in range(run.shape[0])]
        for lane, step in enumerate(steps):
            readers[step - first].append(lane)
        value = self._run(buffer, replace(common, offset=common.offset + first), run, readers, level)
        places = [step - first for step in steps]
        times = len(places) // run.shape[0]
        if (
            stored == ir.IntegerType.get_signless(8)
            and times in (2, 4, 8)
            and places == [lane // times for lane in range(len(places))]
        ):
            return self._bytes_repeated(value, times, level)
        return shuffle(self.s.at(level), value, value, places)

    def _bytes_repeated(self, value: ir.Value, times: int, level: int) -> ir.Value:
        """Each byte `times` times, as a product. LLVM never ends with a shift of 64 bytes that a shuffle repeats."""
        b, count = self.b, value.type.shape[0]
        wide = ir.VectorType.get([count], ir.IntegerType.get_signless(8 * times))
        ones = b.constant(wide, sum(1 << 8 * byte for byte in range(times)))
        product = b.value("arith.muli", wide, [b.value("arith.extui", wide, [value], None, level), ones], None, level)
        return b.value(
            "vector.bitcast", ir.VectorType.get([count * times], value.type.element_type), [product], None, level
        )

    def _run(
        self, buffer: Buffer, first: Index, run: ir.Type, readers: Sequence[Sequence[int]], level: int
    ) -> ir.Value:
        """Elements that follow each other from `first` on; `readers`: the lanes that each is for. Under a mask those are read that are for a
        lane in force."""
        b, operands = self.b, [buffer.memref, self.ix.scalar(first)]
        if self.mask is None:
            return b.value("vector.load", run, operands, None, level)
        s, width = self.s.at(level), self.ix.width
        nobody = b.constant(self.mask.value.type, 0)
        some: ir.Value | None = None
        for turn in range(max(map(len, readers))):
            lanes = [lanes[turn] if turn < len(lanes) else width for lanes in readers]
            mask = shuffle(s, self.mask.value, nobody, lanes)
            some = mask if some is None else s.op("arith.ori", some, mask)
        return b.value("vector.maskedload", run, [*operands, some, b.constant(run, 0)], None, level)

    def loaded(self, buffer: Buffer, value: ir.Value) -> Scalar:
        """Lanes of `buffer` as they stand in memory, read already."""
        return Scalar(self._from_memory(value, buffer.element, self.b.level), True, self.b.level)

    def _uniform(self, buffer: Buffer, place: Index, stored: ir.Type, level: int) -> ir.Value:
        b = self.b
        operands = [buffer.memref, self.ix.scalar(place)]
        if self.mask is None or not self.sparse:
            return b.value("memref.load", stored, operands, None, level)
        # Read under a guard that may hold for no lane: the place may not exist.
        some = b.value("vector.reduction", b.i1, [self.mask.value], {"kind": ir.Attribute.parse("#vector.kind<or>")})
        return b.branch(some, lambda: [b.value("memref.load", stored, operands)], lambda: [b.constant(stored, 0)])[0]

    def prefetch(self, buffer: Buffer, place: Index, distance: int) -> None:
        """Asks for the lines that lie `distance` bytes after those of a vector at `place`. Where no memory is, nothing happens."""
        if self.mask is None and place.vector is None and place.stride == 1:
            key = ("prefetch", buffer.memref, place)
            self.b.cached(self.b.level, key, lambda: self._ask(buffer, place, distance))

    def _ask(self, buffer: Buffer, place: Index, distance: int) -> bool:
        b = self.b
        size = max(1, buffer.memref.type.element_type.width // 8)
        attributes = {
            "isWrite": ir.BoolAttr.get(False),
            "isDataCache": ir.BoolAttr.get(True),
            "localityHint": ir.IntegerAttr.get(b.i32, NEAREST),
        }
        for lane in range(0, self.ix.width, max(1, LINE // size)):
            at = self.ix.scalar(replace(place, stride=0, offset=place.offset + distance // size + lane))
            b.op("memref.prefetch", [], [buffer.memref, at], attributes)
        return True

    def store(self, buffer: Buffer, place: Index, value: Scalar) -> None:
        b = self.b
        stored = buffer.memref.type.element_type
        content = value.value
        if stored != buffer.element:
            content = self.s.convert("arith.extui" if buffer.element == b.i1 else "arith.bitcast", content, stored)
        if not place.lanes:
            b.op("memref.store", [], [content, buffer.memref, self.ix.scalar(place)])
        elif place.vector is None and place.stride == 1:
            operands = [buffer.memref, self.ix.scalar(place)]
            if self.mask is None and self._fills_lines(buffer, place):
                self._store_past_caches(buffer, [content, *operands])
            elif self.mask is None:
                b.op("vector.store", [], [content, *operands])
            else:
                b.op("vector.maskedstore", [], [*operands, self.mask.value, content])
        elif self.mask is None:
            for lane, at in enumerate(self._each(place, b.level)):
                b.op("memref.store", [], [extract(self.s, content, lane), buffer.memref, at])
        else:
            base, offsets = self._split(place)
            b.op("vector.scatter", [], [buffer.memref, base, offsets, self.mask.value, content])

    def _fills_lines(self, buffer: Buffer, place: Index) -> bool:
        """Whether a vector at `place` is whole lines of a buffer that may be written past the caches."""
        size = max(1, buffer.memref.type.element_type.width // 8)
        return buffer.aligned is not None and not any(
            count * size % LINE for count in (self.ix.width, place.multiple, place.offset)
        )

    def _store_past_caches(self, buffer: Buffer, operands: Sequence[ir.Value]) -> None:
        """A non-temporal store of whole lines, where the buffer starts at one; an instruction for it ends the process elsewhere."""
        b = self.b
        attributes = {"nontemporal": ir.BoolAttr.get(True), "alignment": ir.IntegerAttr.get(b.i64, LINE)}

        def stored(attributes: dict[str, ir.Attribute] | None) -> list[ir.Value]:
            b.op("vector.store", [], operands, attributes)
            return []

        b.branch(buffer.aligned, lambda: stored(attributes), lambda: stored(None))
        self.past_caches = True

    def _split(self, place: Index) -> tuple[ir.Value, ir.Value]:
        """A uniform offset and a vector of offsets from it."""
        if place.vector is not None:
            return self.b.constant(self.b.index, 0), place.vector
        return self.ix.scalar(place), self.ix.iota(place.stride)

    def _each(self, place: Index, level: int) -> list[ir.Value]:
        """The place of every lane. Lanes apart are read and written one by one: what gathers and scatters them in one instruction
        takes two to three times as long on some processors (Zen 5), and is no faster on others."""
        self.one_by_one = True
        if place.vector is not None and place.pattern is None:
            return [extract(self.s.at(level), place.vector, lane) for lane in range(self.ix.width)]
        common, steps = place.pattern or (
            replace(place, stride=0),
            [place.stride * lane for lane in range(self.ix.width)],
        )
        return [self.ix.scalar(replace(common, offset=common.offset + step)) for step in steps]

    def _from_memory(self, value: ir.Value, element: ir.Type, level: int) -> ir.Value:
        s = self.s.at(level)
        if isinstance(element, ir.BF16Type):
            return s.convert("arith.bitcast", value, element)
        if element != self.b.i1:
            return value
        return s.compare("ne", value, self.b.constant(value.type, 0))


def _is_run(steps: Sequence[int]) -> bool:
    """Whether all that is between the least and the most is as long as a vector can be, and worth to be read."""
    length = max(steps) - min(steps) + 1
    return 2 <= length <= len(steps) and length & (length - 1) == 0
