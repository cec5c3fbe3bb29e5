"""How kernels run on an NVIDIA GPU: the choice behind each key of `#bascule.schedule`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ..ir.shapes import constant, expr, size_map
from ..mlir import ir
from .accesses import Access, accesses_of
from .bodies import magnitude, sizes_of
from .cuda_walks import InnerLoop, Walks, i64
from .indexing import Indexing
from .nested_loops import inner_loops, iterations
from .reach import reach_of

WARP = 32  # threads
VECTOR = 16  # bytes that a thread loads with one instruction
FLAT = 128  # threads of a straight-line program
TRANSPOSED = 4096  # elements of a tile with accesses along both of its axes
SEGMENT = 128  # bytes of a cache line: the least that is worth reading in one piece
HELD = 16  # elements of a row that a thread has in a tile
NEAR = 1 << 16  # elements between two rows of such a tile, at most
FILL = 16  # elements that a thread has of a tile whose rows share what they read
HOLDABLE = 3 / 4  # of the registers of a multiprocessor: what rows may take
ROW = 1024  # elements of a program of short rows
STEP = 4096  # elements of a longer row in a step, 16 a thread
COLUMN = 4096  # elements of a tile of columns in a step ...
PILED = 32  # ... and those of them that a thread has
STAGED = (
    98304  # bytes of shared memory for the steps of a walk that are read ahead: two programs share a multiprocessor
)
AHEAD = 3  # steps of a walk in flight, if that holds them
SHORT = 16  # points of a loop that is run point by point, if memory runs along the domain
POSITIONS = ("argmax", "argmin")
MOST_WARPS = 16
WARPS = 32  # of a multiprocessor, each with 64 bytes a thread in flight: enough to hide the memory's latency
WASTE = 1.15  # points of programs over points of the domain, where a flat domain is the alternative
NARROW = (1 << 31) - (1 << 20)  # indices below have 32 bits: the last program's tile goes beyond, by less than 2**20
LARGE = 1 << 31  # what a dynamic size counts as


@dataclass(frozen=True)
class CudaMachine:
    """What a schedule depends on: multiprocessors, compute capability (90: sm_90), 32-bit registers of a multiprocessor."""

    sm_count: int
    capability: int
    registers: int


@dataclass
class _Schedule:
    """Of one parallel domain."""

    kind: str
    order: list[int]
    axes: list[int]
    tile: list[int]
    warps: int
    loops: list[InnerLoop] = field(default_factory=list)

    def attributes(self) -> dict[str, ir.Attribute]:
        return {
            "kind": ir.StringAttr.get(self.kind),
            "order": ir.DenseI64ArrayAttr.get(self.order),
            "axes": ir.DenseI64ArrayAttr.get(self.axes),
            "tile": ir.DenseI64ArrayAttr.get(self.tile),
            "loops": ir.ArrayAttr.get([loop.attribute() for loop in self.loops]),
        }


def cuda_schedule(kernel: ir.Operation, machine: CudaMachine, indexing: Indexing) -> ir.DictAttr:
    """The schedule of one `bascule.kernel`."""
    if _is_group(kernel):
        domains = [_Domain(op, machine, indexing) for op in inner_loops(kernel)]
        schedules = [domain.schedule() for domain in domains]
        keys: dict[str, ir.Attribute] = {
            "kind": ir.StringAttr.get("group"),
            "parts": ir.ArrayAttr.get([ir.DictAttr.get(schedule.attributes()) for schedule in schedules]),
        }
    else:
        domains = [_Domain(kernel, machine, indexing)]
        schedules = [domains[0].schedule()]
        keys = schedules[0].attributes()
    return ir.DictAttr.get(
        {
            "target": ir.StringAttr.get("cuda"),
            **keys,
            "warps": i64(max(schedule.warps for schedule in schedules)),
            "stages": i64(min(domain.stages() for domain in domains)),
            **_indices(kernel, indexing),
            "capability": i64(machine.capability),
        }
    )


def _indices(kernel: ir.Operation, indexing: Indexing) -> dict[str, ir.Attribute]:
    """The keys that say how wide indices are."""
    reach = reach_of(kernel, indexing)
    if reach is None or reach.static >= NARROW:
        return {"index_bits": i64(64)}
    if not reach.dynamic:
        return {"index_bits": i64(32)}
    return {"index_bits": i64(64), "narrow": ir.AffineMapAttr.get(size_map(reach.dynamic))}


def walked_loops(kernel: ir.Operation, machine: CudaMachine, indexing: Indexing) -> set[ir.Operation]:
    """The loops of a kernel that are longer than what its program holds at once."""
    group = _is_group(kernel)
    domains = [_Domain(op, machine, indexing) for op in (inner_loops(kernel) if group else [kernel])]
    for domain in domains:
        domain.schedule()
    return {loop for domain in domains for loop, plan in domain.plans.items() if Walks.walks(loop, plan.step)}


def _is_group(kernel: ir.Operation) -> bool:
    """Whether the loops of a kernel without ranges are parallel domains."""
    block = kernel.regions[0].blocks[0]
    inner = inner_loops(kernel)
    alone = not block.arguments and all(op.name == "bascule.foreach" for op in inner)
    return bool(inner) and alone and not any(view.operation.name == "bascule.store" for view in block.operations)


def power_of_two(size: int) -> int:
    """The smallest power of two that is `size` or more."""
    return 1 << max(0, size - 1).bit_length()


class _Domain:
    """A parallel domain, a kernel's or that of one top-level foreach, with what runs at each of its points."""

    def __init__(self, op: ir.Operation, machine: CudaMachine, indexing: Indexing):
        self.op, self.machine = op, machine
        block = op.regions[0].blocks[0]
        self.indices, self.sizes = list(block.arguments), sizes_of(op)
        self.inner = inner_loops(op)
        self.accesses = accesses_of(op, indexing)
        self.points = iterations(self.sizes)
        self.extents = dict(zip(self.indices, self.sizes))
        for access in self.accesses:
            for loop in access.loops[1:]:
                self.extents.update(zip(loop.regions[0].blocks[0].arguments, sizes_of(loop)))
        self.along: Counter[ir.Value] = Counter()  # bytes accessed with neighbours along each index
        for access in self.accesses:
            for index in access.steps:
                if access.adjacent(index):
                    self.along[index] += self._bytes(access)
        self.plans: dict[ir.Operation, InnerLoop] = {}
        self.lanes_inside = False
        self.lanes = [lanes for loop in self.inner for lanes in self._lanes(loop)]
        self.lengths = [iterations(sizes_of(loop)) for loop in self.lanes]

    def _lanes(self, loop: ir.Operation) -> list[ir.Operation]:
        """The loops that have the lanes: `loop`, or the ones inside of it if memory rather runs along those."""
        nested = inner_loops(loop)
        if sum(map(self._along, nested)) <= self._along(loop):
            return [loop]
        return [lanes for inner in nested for lanes in self._lanes(inner)]

    def _along(self, loop: ir.Operation) -> int:
        return sum(self.along[index] for index in loop.regions[0].blocks[0].arguments)

    def _bytes(self, access: Access) -> int:
        """About how many bytes an access touches."""
        return access.width * magnitude([size for index, size in self.extents.items() if access.varies(index)])

    def schedule(self) -> _Schedule:
        if not self.inner:
            return self._pointwise()
        inside = sum(map(self._along, self.lanes))
        across = sum(self.along[index] for index in self.indices)
        self.lanes_inside = not self.indices or inside >= across
        if self.lanes_inside:
            return self._rows()
        return self._columns()

    def stages(self) -> int:
        """How many steps of walks over rows are read ahead, after `schedule`: what shared memory holds of them."""
        most = 0
        for loop, plan in self.plans.items():
            ahead = plan.step > 1 if Walks.walks(loop, plan.step) else plan.step == 1 and self._walks_rows(plan)
            if ahead:
                reads = {a.buffer: self._tile_bytes(a) for a in self.accesses if loop in a.loops and not a.stores}
                most = max(most, sum(reads.values()))
        return min(AHEAD, max(1, STAGED // most)) if most and self.lanes_inside else 1

    @staticmethod
    def _walks_rows(plan: InnerLoop) -> bool:
        return any(inner.step > 1 for inner in plan.loops)

    def _tile_bytes(self, access: Access) -> int:
        """Bytes of a read in a step of its loops."""
        steps = [self.plans[loop].step for loop in access.loops[1:] if loop in self.plans]
        return access.width * max(steps, default=1)

    # Orders of indices

    def _order(self, indices: Sequence[ir.Value], sizes: Sequence[ir.AffineExpr]) -> list[int]:
        """The indices, slowest in memory first: as the heaviest access along the index that memory mostly runs along."""
        order = list(range(len(indices)))
        if not order:
            return order
        main = max(order, key=lambda n: (self.along[indices[n]], n))
        if not self.along[indices[main]] or all(constant(size) == 1 for size in sizes[main + 1 :]):
            return order
        guides = [access for access in self.accesses if access.adjacent(indices[main])]
        guide = max(guides, key=lambda access: (self._bytes(access), access.stores))
        steps = [constant(guide.steps.get(index, expr(0))) for index in indices]
        if any(step is None for step in steps):
            return [*order[:main], *order[main + 1 :], main]
        # Indices that the guide does not vary with, and those of size 1, go first.
        keys = [LARGE if constant(size) == 1 else abs(step or LARGE) for step, size in zip(steps, sizes)]
        return sorted(order, key=lambda n: -keys[n])

    def _runs(self, order: Sequence[int]) -> list[list[int]]:
        """Neighbours in `order` that every access sees as one flat index are one run."""
        runs: list[list[int]] = []
        for n in order:
            if runs and (constant(self.sizes[n]) == 1 or self._joins(runs[-1][-1], n)):
                runs[-1].append(n)
            else:
                runs.append([n])
        return runs

    def _joins(self, outer: int, inner: int) -> bool:
        pair = self.indices[outer], self.indices[inner]
        return constant(self.sizes[outer]) == 1 or all(a.flat(*pair, self.sizes[inner]) for a in self.accesses)

    # Straight-line code

    def _pointwise(self) -> _Schedule:
        order = self._order(self.indices, self.sizes)
        return self._transposed(order) or self._broadcast(order) or self._flat("pointwise", order)

    def _broadcast(self, order: list[int]) -> _Schedule | None:
        """Two axes, where some accesses do not see the domain as one flat index: what varies with one of them is read once for the
        other, and no position is taken apart. None where that would leave many points of a program without work."""
        runs = self._runs(order)
        if len(runs) < 2 or self.points is None:
            return None
        inner = self._run_size(runs[-1])
        outer = self.points // inner
        across = self.indices[runs[-1][-1]]
        shares = any(
            access.varies(across) and not any(access.varies(self.indices[n]) for run in runs[:-1] for n in run)
            for access in self.accesses
        )
        each = self._each() * 2
        area = FLAT * each
        if self.points < 2 * self.machine.sm_count * area or inner < WARP:
            return None
        wide = min(power_of_two(inner), area // 2 if shares else area)
        while wide > 2 * WARP and _waste(inner, wide) > WASTE:
            wide //= 2
        rest = len(order) - len(runs[-1])
        warps = _warps(wide, self._each()) if shares else _warps(area, each)  # so that rows are read in equal parts
        high = area // wide
        if shares:  # rows far apart in memory are not worth reading together
            high = max(1, FILL * WARP * warps // wide) if inner <= NEAR else 1
        if _waste(inner, wide) > WASTE or _waste(outer, high) > WASTE or wide < WARP:
            return None
        return _Schedule("pointwise", order, [rest, len(runs[-1])], [high, wide], warps)

    def _each(self) -> int:
        """Elements of a thread that make 16 bytes of the narrowest ones."""
        widths = [access.width for access in self.accesses if self._bytes(access) * 8 >= self._heaviest()]
        return min(16, max(8, VECTOR // min(widths, default=4)))

    def _flat(self, kind: str, order: list[int]) -> _Schedule:
        """One axis: 16 bytes of the narrowest elements a thread, fewer points a program where that leaves multiprocessors idle."""
        points = self.points if self.points is not None else LARGE
        each = self._each()
        block = FLAT * each
        while block > WARP * each and points < 2 * self.machine.sm_count * block:
            block //= 2
        block = min(block, max(WARP, power_of_two(points)))
        axes, tile = ([len(order)], [block]) if order else ([], [])
        return _Schedule(kind, order, axes, tile, _warps(block, each))

    def _heaviest(self) -> int:
        return max(map(self._bytes, self.accesses), default=0)

    def _transposed(self, order: list[int]) -> _Schedule | None:
        """Two axes, where a good part of the bytes runs along another index than the rest: each access is coalesced in its own
        order, and the values change places between threads."""
        runs = self._runs(order)
        if len(runs) < 2:
            return None
        main = runs[-1]
        rest = [run for run in runs[:-1] if self._across(run[-1], main[-1]) * 16 >= self._heaviest()]
        if not rest:
            return None
        other = max(rest, key=lambda run: self._across(run[-1], main[-1]))
        first, second = (power_of_two(self._run_size(run)) for run in (other, main))
        width = max((access.width for access in self.accesses), default=4)
        area = TRANSPOSED if width <= 4 else TRANSPOSED // 4
        side = 1 << (area.bit_length() - 1) // 2
        wide = min(second, max(side, area // max(1, min(first, side))))
        high = min(first, max(1, area // wide))
        tile = [high if run is other else wide if run is main else 1 for run in runs]
        return _Schedule("transposed", order, [len(run) for run in runs], tile, _warps(high * wide, 16))

    def _across(self, dim: int, main: int) -> int:
        """Bytes of the accesses whose neighbours run along `dim`, and that step along `main` in larger strides."""
        index, other = self.indices[dim], self.indices[main]
        size = constant(self.sizes[dim])
        if size is not None and size < 4:
            return 0
        return sum(
            self._bytes(access)
            for access in self.accesses
            if access.adjacent(index) and access.varies(other) and not access.adjacent(other)
        )

    def _run_size(self, run: Sequence[int]) -> int:
        return min(LARGE, magnitude([self.sizes[n] for n in run]))

    # Loops inside

    def _rows(self) -> _Schedule:
        """Memory runs along the loops: rows that fit are held in registers, several short ones in a program; longer ones are walked."""
        held = self._held()
        limit = int(self.machine.registers * HOLDABLE) // max(1, held)
        longest = 1
        for length in self.lengths:
            if length is not None and power_of_two(length) <= limit:
                longest = max(longest, power_of_two(length))
        walked = any(length is None or power_of_two(length) > limit for length in self.lengths)
        steps = {}
        for loop, length in zip(self.lanes, self.lengths):
            fits = length is not None and power_of_two(length) <= limit
            steps[loop] = power_of_two(length) if fits and length is not None else STEP
        loops = self._plans(steps)
        points = self.points if self.points is not None else LARGE
        block = 1 if walked else min(max(1, ROW // longest), power_of_two(points))
        while block > 1 and points < 2 * self.machine.sm_count * block:
            block //= 2
        elements = block * max(longest, STEP if walked else 1)
        order = list(range(len(self.indices)))
        axes, tile = ([len(order)], [block]) if order else ([], [])
        scans = any(loop.name == "bascule.scan" for loop in self.lanes)
        return _Schedule("scan" if scans else "row", order, axes, tile, _warps(elements, HELD), loops)

    def _plans(self, steps: dict[ir.Operation, int]) -> list[InnerLoop]:
        """The schedules of the loops, of which `steps` have several points at once."""
        walks = Walks(self.accesses, self._loop_order, steps)
        loops = walks.among(self.inner)
        self.plans = walks.plans
        return loops

    def _held(self) -> int:
        """How many values a point of the rows has: the buffers that are read along them, and what is reduced at each of their points."""
        along = {index for loop in self.lanes for index in loop.regions[0].blocks[0].arguments}
        read = {a.buffer for a in self.accesses if not a.stores and any(a.varies(index) for index in along)}
        return len(read) + sum(len(inner_loops(loop)) for loop in self.lanes)

    def _loop_order(self, loop: ir.Operation) -> list[int]:
        indices = list(loop.regions[0].blocks[0].arguments)
        if loop.name == "bascule.scan" or (
            loop.name == "bascule.reduce" and loop.attributes["kind"].value in POSITIONS
        ):
            return list(range(len(indices)))  # what they compute is the order
        return self._order(indices, sizes_of(loop))

    def _columns(self) -> _Schedule:
        """Memory runs along the domain: a tile of columns, some rows of it at a time."""
        order = self._order(self.indices, self.sizes)
        lengths = [iterations(sizes_of(loop)) for loop in self.inner]
        scans = any(loop.name == "bascule.scan" for loop in self.inner)
        if not scans and all(length is not None and length <= SHORT for length in lengths):
            schedule = self._flat("column", order)
            schedule.loops = self._plans({})
            return schedule
        runs = self._runs(order)
        if self._run_size(runs[-1]) < WARP:
            runs = [order]
        width = max((a.width for a in self.accesses if a.adjacent(self.indices[runs[-1][-1]])), default=4)
        columns = min(max(64, SEGMENT // width), power_of_two(self._run_size(runs[-1])))
        others = prod(self._run_size(run) for run in runs[:-1])
        while columns > SEGMENT // 2 // width and others * self._run_size(runs[-1]) < self.machine.sm_count * columns:
            columns //= 2
        longest = max((power_of_two(n) for n in lengths if n is not None), default=LARGE)
        again = sum(1 for n in lengths if n is None or n > SHORT) > 1
        held = again and None not in lengths and longest * columns <= ROW * HELD
        elements = longest * columns if held else COLUMN
        programs = others * -(-self._run_size(runs[-1]) // columns)
        while not held and elements < 4 * COLUMN and programs * _warps(elements, PILED) < WARPS * self.machine.sm_count:
            if longest * columns < 4 * elements:
                break
            elements *= 2
        steps = {}
        for loop in self.inner:
            length = iterations(sizes_of(loop))
            steps[loop] = min(LARGE if length is None else power_of_two(length), max(1, elements // columns))
        loops = self._plans(steps)
        tile = [1] * (len(runs) - 1) + [columns]
        axes = [len(run) for run in runs]
        rows = max((loop.step for loop in loops), default=1)
        return _Schedule("scan" if scans else "column", order, axes, tile, _warps(columns * rows, PILED), loops)


def _waste(size: int, block: int) -> float:
    """Points of whole blocks over those that there are."""
    return -(-size // block) * block / max(1, size)


def _warps(elements: int, each: int) -> int:
    return min(MOST_WARPS, max(1, elements // (WARP * each)))
