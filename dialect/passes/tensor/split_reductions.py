"""The pass `split-reductions`: a large reduction of few results becomes partial results over chunks, and a small reduction of those."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, prod
from typing import ClassVar

from ...analysis.affine.indexing import Indexing
from ...analysis.affine.simplification import Simplifier
from ...analysis.bodies.body_summary import Body, decode
from ...analysis.bodies.body_tree import sizes_of
from ...analysis.bodies.costs import magnitude
from ...analysis.bodies.shared_reads import shared_size
from ...analysis.products.windows import Window, window_of
from ...errors import UserError
from ...fusion.chunk_sizes import Chunks, cut
from ...fusion.members import Member
from ...fusion.row_statistics import is_apart
from ...fusion.split_reduction import fills, is_cut_anywhere, is_splittable, refine, split
from ...fusion.symbolic_chunks import cut_unknown
from ...ir.functions import SEEN, graph_functions
from ...ir.shapes import constant, shape_of
from ...ir.types import byte_width
from ...machines.measures import value
from ...mlir import ir
from ...remarks.attribute import place
from ...remarks.record import MISSED, PASSED, Remark
from ...scheduling.gpu.machine import H200, CudaMachine
from ..base import VALUES, Pass
from ..graph_walk import GraphWalk


@dataclass(frozen=True)
class _Machine:
    """`parallel`: independent pieces of work that keep it busy; `few`: rows below which it is not. `points`: the fewest results at which a
    reduction is cut: a lowering may share one reduction among threads itself. `columns`: neighbouring results that one piece of work
    computes together; `rows`: the least of a chunk of those. `least`: elements below which a launch more costs more than idle processors;
    `chunk`: of one chunk, at least; `row`: of the chunk of a row, where there are several. Of rows beside sums of columns, a chunk has
    `cache` bytes, which one piece of work reads twice from memory once, but at least `beside` rows, next to which a partial sum is small;
    or, if `wide` is not 0, sums are kept in registers, and so many elements of a row are a piece of work."""

    parallel: int
    few: int
    points: int
    columns: int
    rows: int
    least: int
    chunk: int
    row: int
    cache: int
    wide: int = 0
    beside: int = 1


MACHINES = {
    "cpu": _Machine(
        parallel=8,
        few=8,
        points=2,
        columns=32,
        rows=64,
        least=1 << 18,
        chunk=1 << 14,
        row=1 << 14,
        cache=1 << 18,
        beside=16,
    ),
    "cuda": _Machine(
        parallel=value("cuda", "pieces_a_multiprocessor"),
        few=1,  # the same
        points=1,
        columns=32,
        rows=256,
        least=value("cuda", "split_least"),
        chunk=1 << 11,
        row=1 << 13,
        cache=1 << 20,
        wide=31 << 6,  # so that a power of two of chunks is one for each program that there is room for, not more
    ),
}
MACHINES["interpret"] = MACHINES["cuda"]  # the same kernels, run by the TTIR interpreter
WAITING = 4  # rows that are read again when their results are there run in one kernel, even if there are so many times too few of them
# Times `parallel` chunks of rows, at most. Gradients of layer norms of 96 elements take 0.70 of the time that they take with 2, of 192 0.93, of
# 384 to 4096 the same; with 8 those of 96 take 0.65, of 192 1.23 (H200, 2026-11-27, `python -m benchmarks.kernels`).
SHORT_ROWS = 4
NEAR = 16  # times as few or as many pieces of sums over windows are tried
ABOUT = 1.05  # of the least time: cuts that take as long
WINDOWS = 128  # neighbouring results of overlapping windows that one piece of work computes together
# Columns of a tile, and tiles of all chunks over `parallel`, where rows beside sums of columns reduce nothing themselves: 16 programs of a
# multiprocessor, and as few partial results as they need.
TILE, TILES = 64, 4
ROWS_BESIDE = 8  # of a chunk with sums in registers, at least: then a partial sum is an eighth of what is read
STRIPE = 1 << 20  # bytes of neighbouring columns that one piece of work reads several times: those of a second cache
SHARED = 4  # times `least` bytes of a tensor are worth a launch to read once instead of twice


@dataclass(frozen=True)
class SplitReductions(Pass):
    """Takes the tensor stage; leaves reductions that keep the machine busy.

    Where a compute has few elements and reduces over many (the sum of everything, the variance of some long rows, sums of columns), its
    reduction is cut into chunks: a compute of their partial results before it, marked `bascule.chunks`, over (chunks, its domain); and the
    reduction of those in its place. Exact for every kind: of argmax the first position wins, as before; Welford's means and squares
    are combined as Chan, Golub and LeVeque do. The order of combination is fixed.

    Sums of columns of what rows are computed from as well (the weights' gradients of a layer norm) are cut too, into chunks of rows that
    stay in a cache, or on a GPU, beside what is computed pointwise, as many as programs are wanted: `form-kernels` then reads each chunk once
    for both. Not where the rows wait for the sums (a batch norm). Nor are
    rows cut that are read again once their results are there (a softmax), unless they are very few, nor columns whose elements were made
    from a result of those columns (on a CPU, if they are not too long). What was cut, and what was not though
    it is large, is a remark.

    On a GPU sums over windows that overlap are cut so that their programs end together: as many a multiprocessor, and no more than fit on it.
    A product of few tiles that sums over much is cut where programs for its pieces, and a launch for their sum, take less time on tensor cores.
    A reduction over as many elements as a call gives is cut into as many chunks as are worth it where symbols are what they were seen as
    (`bascule.seen` of the graph); a variance then is two sums, for chunks have no equal counts. Positions are not cut.

    `target` gives the measures, of a GPU with `sm-count` multiprocessors of compute capability `capability`. Where not 0, these stand for
    them: `parallel`, the pieces of work wanted (then also of a single result); `min-size`, elements below which nothing is cut; `cache`, bytes
    of a chunk of rows.
    """

    name: ClassVar[str] = "split-reductions"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    parallel: int = 0
    min_size: int = 0
    cache: int = 0
    sm_count: int = H200.sm_count
    capability: int = H200.capability

    def run(self, module: ir.Module) -> None:
        if self.target not in MACHINES:
            raise UserError(
                f"no measures for target '{self.target}'", location=self.name, hint=f"known: {', '.join(MACHINES)}"
            )
        if min(self.parallel, self.min_size, self.cache) < 0:
            raise UserError("'parallel', 'min-size' and 'cache' are not negative", location=self.name)
        if self.sm_count < 1:
            raise UserError(f"option 'sm-count' cannot be {self.sm_count}", location=self.name, hint="1 or more")
        machine, gpu = MACHINES[self.target], None
        if self.target != "cpu":
            gpu = replace(H200, sm_count=self.sm_count, capability=self.capability)
            machine = replace(machine, parallel=machine.parallel * self.sm_count, few=machine.few * self.sm_count)
        if self.parallel:
            machine = replace(machine, parallel=self.parallel, few=self.parallel, points=1)
        if self.min_size:
            machine = replace(machine, least=self.min_size, chunk=min(machine.chunk, self.min_size), row=1, rows=1)
        if self.cache:
            machine = replace(machine, cache=self.cache, wide=0, beside=1)
        with module.context:
            for graph in graph_functions(module):
                if _has_large(graph, machine.least):
                    _Graph(graph, machine, gpu).run()


def _seen(graph: ir.Operation) -> Sequence[int]:
    return list(graph.attributes[SEEN]) if SEEN in graph.attributes else []


def _has_large(graph: ir.Operation, least: int) -> bool:
    """Whether a reduction takes so many elements, of all points together. What is around those that are smaller is not looked at."""
    seen = _seen(graph)
    for op in (view.operation for view in graph.regions[0].blocks[0].operations):
        if op.name == "bascule.compute" and is_apart(op):
            points = magnitude(sizes_of(op), seen)
            for view in op.regions[0].blocks[0].operations:
                if (
                    view.operation.name == "bascule.reduce"
                    and points * magnitude(sizes_of(view.operation), seen) >= least
                ):
                    return True
    return False


class _Graph(GraphWalk):
    """One graph function: its computes, and which tensors are read along rows."""

    def __init__(self, graph: ir.Operation, machine: _Machine, gpu: CudaMachine | None):
        super().__init__(graph)
        self.machine, self.gpu, self.shared = machine, gpu, SHARED * machine.least
        self.seen = _seen(graph)
        self.simplifier = Simplifier()
        indexing = self._indexing()
        ops = enumerate(self.ops)
        self.members = [Member.of(i, Body(op), indexing) for i, op in ops if op.name == "bascule.compute"]
        # Large tensors that rows are computed from, or that are computed along rows -> what computes those rows.
        self.along: dict[ir.Value, list[Member]] = {}
        self.readers: dict[ir.Value, list[Member]] = {}
        for member in self.members:
            for source in member.operands:
                self.readers.setdefault(source, []).append(member)
            if not (member.reduces and member.reduces_columns()):
                wide = self._wide(member)
                for source in [*wide, *([member.result] if wide and not member.reduces else [])]:
                    self.along.setdefault(source, []).append(member)

        self.apart: set[tuple[ir.Value, int]] = set()  # tensors whose dims k and k + 1 rows walk by two indices
        for member in self.members:
            if not (member.reduces and member.reduces_columns()):
                self.apart.update((member.result, k) for k in range(len(member.sizes)))
                for read, pattern in member.patterns:
                    walked = pairwise(digits.counted for digits in pattern)
                    two = (k for k, (a, b) in enumerate(walked) if a != b)
                    self.apart.update((read.buffer, k) for k in two)

        # Of sums of columns: the large tensors that those alike read with them.
        self.rows: dict[ir.Value, set[ir.Value]] = {}
        alike: dict[tuple, set[ir.Value]] = {}
        for member in self.members:
            if member.reduces and member.reduces_columns():
                self.rows[member.result] = _joined(member, self._wide(member), alike)

    def _indexing(self) -> Indexing:
        """One for each change: values are remembered by identity."""
        return Indexing(self.symbols, self.simplifier)

    def _wide(self, member: Member) -> list[ir.Value]:
        return [source for source in member.operands if self._bytes(source) >= self.shared]

    def _about(self, sizes: Sequence[ir.AffineExpr]) -> int:
        return magnitude(sizes, self.seen)

    def _bytes(self, value: ir.Value) -> int:
        return self._about(shape_of(value)) * byte_width(value.type.element_type)

    def run(self) -> None:
        for member in self.members:
            if not is_apart(member.body.op):
                continue
            # Splitting erases the reduction, and with it those inside.
            direct = [node.op for node in member.body.block.nodes if node.name == "bascule.reduce"]
            for loop in direct:
                self._consider(member, loop)

    def _consider(self, member: Member, loop: ir.Operation) -> None:
        op, points = member.body.op, self._about(member.sizes)
        ranges, elements = sizes_of(loop), self._about(sizes_of(loop))
        if not points * elements >= self.machine.least:
            return
        columns = member.reduces_columns()
        why = f"{points} results of {elements} elements each"
        window = window_of(decode(op, indexing=self._indexing())) if self.machine.wide else None
        shared = self._together(window, op, loop) if self.machine.wide else 1
        pieces = self._pieces(points, elements, columns, shared)
        if not columns and points * WAITING >= self.machine.few and self._read_again(member):
            pieces = 1
        beside = self._rows_beside(member) if columns and shared == 1 else []
        if beside:
            each = self._row_bytes(member)
            near = self._chunks_of_rows(points, elements, each, any(row.reduces for row in beside))
            if near > 1:
                pieces, why = near, "rows are computed from what it reads"
        product = self._of_product(op)
        pieces = pieces if product is None else product
        if pieces <= 1:
            return
        if product is None and is_splittable(op, loop) and not any(_walks(row, ranges) for row in beside):
            loop = refine(op, loop, self._indexing(), lambda tensor, dim: (tensor, dim) in self.apart)
            ranges = sizes_of(loop)
        kind = loop.attributes["kind"].value
        known = [constant(size) for size in ranges]
        if None in known:
            self._consider_unknown(op, loop, pieces, why)
        elif not is_splittable(op, loop):
            self._told(op, MISSED, "not split", f"it needs another reduction of its own compute; {why}")
        else:
            whole = [size for size in known if size is not None]
            # Windows are walked without asking whether there is an element.
            chunks = cut(whole, pieces, fills=fills(kind, len(whole)) if window is None else 0)
            if window is not None and window.beside > 1:
                chunks = self._balanced(window, member, whole, pieces) or chunks
            if chunks is None:
                sizes = "x".join(map(str, known))
                self._told(op, MISSED, "not split", f"no {pieces} equal chunks of {sizes}; {why}")
            else:
                split(op, loop, chunks, self._indexing(), None if window is None else window.lane)
                self._told(op, PASSED, f"split into {prod(chunks.outer)} chunks of {_sizes(chunks)}", why)

    def _consider_unknown(self, op: ir.Operation, loop: ir.Operation, pieces: int, why: str) -> None:
        """A reduction over as many elements as a call gives."""
        ranges = sizes_of(loop)
        chunks = cut_unknown(ranges, [self._about([size]) for size in ranges], pieces)
        if not self.machine.wide or not is_cut_anywhere(loop.attributes["kind"].value):
            self._told(op, MISSED, "not split", f"the number of its elements is not known; {why}")
        elif not is_splittable(op, loop):
            self._told(op, MISSED, "not split", f"it needs another reduction of its own compute; {why}")
        elif chunks is not None:
            split(op, loop, chunks, self._indexing())
            inner = "x".join(map(str, chunks.inner))
            self._told(op, PASSED, f"split into {prod(chunks.outer)} chunks of {inner}", why)

    def _of_product(self, op: ir.Operation) -> int | None:
        """Into how many chunks the sum of `op` is worth cutting, if tensor cores have it."""
        if self.gpu is None:
            return None
        from ...scheduling.gpu.contractions import pieces_of_sum  # what a CPU needs none of
        from ...scheduling.gpu.domains import Domain

        body = decode(op, indexing=self._indexing())
        return pieces_of_sum(Domain(body, body.root, self.gpu))

    def _told(self, op: ir.Operation, kind: str, decision: str, reason: str) -> None:
        self.remark(op, Remark(SplitReductions.name, kind, decision, reason, place(op)))

    def _together(self, window: Window | None, op: ir.Operation, loop: ir.Operation) -> int:
        """Points that one piece of work computes: those that read the same, and those whose windows overlap."""
        if window is None:
            return shared_size(op, loop)
        if window.beside > 1:
            return window.points * window.beside
        return window.points * max(1, min(WINDOWS, window.lanes) // self.machine.columns)

    def _balanced(self, window: Window, member: Member, ranges: Sequence[int], pieces: int) -> Chunks | None:
        """Of cuts of sums over windows into about `pieces`, the one whose programs end at the same time: of those that take about as long, the
        coarsest, whose partial sums are fewest."""
        gpu, width = self.gpu, max(read.width for read in member.body.reads)
        if gpu is None:
            return None
        from ...scheduling.gpu.windows import walking_time

        cuts = cuts_near(ranges, pieces)
        times = [walking_time(window, member.body.points, width, (prod(c.outer), c.inner), gpu) for c in cuts]
        least = min(times, default=inf)
        return next((c for c, time in zip(cuts, times) if time <= ABOUT * least < inf), None)

    def _pieces(self, points: int, elements: int, columns: bool, shared: int = 1) -> int:
        """Into how many chunks a reduction is worth cutting, to keep the machine busy. `shared` points are one piece of work."""
        machine = self.machine
        points //= shared
        if points < machine.points:
            return 1
        if columns:
            units = max(1, points // machine.columns)
            if units * 8 >= machine.parallel * 7:  # a launch more for a busier eighth
                return 1
            return min(-(-machine.parallel // units), elements // machine.rows, points * elements // machine.chunk)
        if points >= machine.few:
            return 1
        least = machine.chunk if points == 1 else machine.row
        return min(-(-machine.parallel // points), shared * elements // least)

    def _chunks_of_rows(self, points: int, elements: int, each: int, reduce: bool) -> int:
        """The chunks of sums of `points` columns beside rows of `each` bytes read, which reduce themselves or not."""
        machine = self.machine
        if not machine.wide:
            near = min(-(-elements * each // machine.cache), elements // machine.beside)
            return max(near, self._pieces(points, elements, True))
        if not reduce:  # programs have tiles of columns, and walk down them
            return min(-(-TILES * machine.parallel // max(1, points // TILE)), elements // TILE)
        # Of very short rows more chunks only make the sum of the partial results longer, which few processors share.
        return min(
            -(-machine.parallel * machine.wide // points), SHORT_ROWS * machine.parallel, elements // ROWS_BESIDE
        )

    def _rows_beside(self, member: Member) -> list[Member]:
        """The members that compute rows from some of what a sum of columns reads, and do not wait for the sum."""
        beside = {row.number: row for source in self.rows[member.result] for row in self.along.get(source, ())}
        waiting = self._followers(member, max(beside, default=0))
        others = [row for number, row in beside.items() if number not in waiting]
        return [row for row in others if not self._follows_columns(row, self._about(member.sizes))]

    def _row_bytes(self, member: Member) -> int:
        """Bytes of what one step of a sum of columns reads."""
        elements = max(1, self._about([size for loop in member.body.loops[:1] for size in loop.sizes]))
        return sum(max(1, self._bytes(source) // elements) for source in self.rows[member.result])

    def _follows_columns(self, row: Member, points: int) -> bool:
        """Whether what `row` reads is read down its `points` columns before, and `row` waits for that (a softmax over columns).

        It is then computed down the columns too, if a cache holds a few. Where sums are kept in registers, chunks of rows are better.
        """
        if self.machine.wide or row.reduces:
            return False
        stripe = max(self._bytes(source) // max(1, points) for source in self._wide(row)) * self.machine.columns
        if stripe > STRIPE:
            return False
        known = {member.result: member for member in self.members if member.reduces and member.reduces_columns()}
        before = (known[source] for source in row.operands if source in known)
        return any(source in self._wide(row) for member in before for source in self._wide(member))

    def _read_again(self, member: Member) -> bool:
        """Whether what is computed from the member's result reads what the member reduces."""
        last = len(self.members) and self.members[-1].number
        following = self._followers(member, last)
        return any(reader.number in following for source in self._wide(member) for reader in self.readers[source])

    def _followers(self, member: Member, last: int) -> set[int]:
        """The numbers of the members, up to `last`, that are computed from the member's result."""
        found, todo = set[int](), [member]
        while todo:
            for reader in self.readers.get(todo.pop().result, ()):
                if reader.number <= last and reader.number not in found:
                    found.add(reader.number)
                    todo.append(reader)
        return found


def cuts_near(ranges: Sequence[int], pieces: int) -> list[Chunks]:
    """The ways to cut a sum over windows into `NEAR` times as few to as many pieces, the coarsest first."""
    wanted = range(max(2, pieces // NEAR), NEAR * pieces + 1)
    return list(dict.fromkeys(found for n in wanted if (found := cut(ranges, n, fills=0)) is not None))


def _joined(member: Member, wide: list[ir.Value], alike: dict[tuple, set[ir.Value]]) -> set[ir.Value]:
    """`wide`, and the large tensors of other sums of columns, over a domain and ranges like the member's, that read one of them too: they
    are cut alike."""
    shape = tuple(member.sizes), *(tuple(loop.sizes) for loop in member.body.loops)
    found = next((alike[source, shape] for source in wide if (source, shape) in alike), set[ir.Value]())
    found.update(wide)
    for source in wide:
        alike.setdefault((source, shape), found)
    return found


def _walks(row: Member, ranges: Sequence[ir.AffineExpr]) -> bool:
    """Whether the domain of `row` has the `ranges`, in their order, with others between them: the rows of a chunk are its rows then."""
    left = iter(row.sizes)
    return all(size in left for size in ranges)


def _sizes(chunks: Chunks) -> str:
    return "x".join(map(str, chunks.inner))
