"""Windows that overlap: reductions of which neighbouring points read in part the same elements, and how many points read each once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from ...mlir import ir
from ..bodies.body_summary import Access, Body
from ..bodies.body_tree import Node
from ..bodies.costs import magnitude

MOST = 64  # points of the loop's body, for all of the domain's points that are taken together
WHOLE = 80  # of one that is not a loop
WIDE = 8  # points of the domain, each with a sum of its own in registers
LEAST = 0.6  # of the reads as they are, what has to be left
READ = 1.5  # instructions that an element takes which is read, and widened, where a sum takes one a term
BESIDE, IDLE = 16, 1.34  # points along an index beside, at most, and those that a tile has over those that there are


@dataclass(frozen=True)
class Window:
    """The domain's index `outer` and the reduction's `inner`, as positions: `points` of the first and `terms` of the second, at which together
    `loads` elements are read in place of `points` x `terms` x `reads`. `lane`: the domain's index that memory runs along, if any, of size
    `lanes`; `far`: elements of memory between neighbours along `outer`, at most; `beside`: neighbours along other indices of the domain that
    read in part the same; `ragged`: whether points or terms are left over; `whole`: whether all that a sum has is taken together, along its
    other indices too."""

    outer: int
    inner: int
    points: int
    terms: int
    loads: float
    reads: int
    lane: int | None
    lanes: int
    far: int
    beside: int
    ragged: bool
    whole: bool

    @property
    def cost(self) -> float:
        """Instructions a term, about."""
        return 1 + READ * self.loads / (self.points * self.terms)

    @property
    def left(self) -> float:
        """The loads of a term, over those that it has alone."""
        return self.loads / (self.points * self.terms * self.reads)


def window_of(body: Body) -> Window | None:
    """The window of a kernel whose loops are sums of equal ranges; None where there is none, or reads are hardly fewer with it. Of those that
    take about as many instructions, one without a rest, then the smallest, then that of the slower index: what is left of memory is adjacent.
    """
    loops = body.root.inner_loops()
    if not loops or not body.root.sizes or any(not _is_sum(loop) or loop.sizes != loops[0].sizes for loop in loops):
        return None
    found = _Search(body, loops)
    return min(
        (w for w in found.windows() if w.left <= LEAST),
        key=lambda w: (round(w.cost, 1), w.ragged, w.points * w.terms, -w.far),
        default=None,
    )


def overlap(body: Body, buffer: ir.Value) -> bool:
    """Whether neighbouring points of a kernel or a compute read in part the same elements of `buffer`, in loops whose windows move with them."""
    for access in body.placed(body.root):
        if access.buffer != buffer:
            continue
        inner = [index for loop in access.loops if loop is not body.root for index in loop.indices]
        for a, b in product(body.root.indices, inner):
            if (length := body.extents[b]) and _slides(access, a, b, length):
                return True
    return False


def _slides(access: Access, a: int, b: int, length: int) -> bool:
    """Whether windows of `length` elements along index b, of neighbours along index a, have elements in common."""
    over, along = (access.form.steps.get(index, 0) for index in (a, b))
    return isinstance(over, int) and isinstance(along, int) and 0 < abs(over) < abs(along) * length


def _is_sum(loop: Node) -> bool:
    return loop.name == "bascule.reduce" and loop.kinds == ["sum"] and not loop.inner_loops()


@dataclass(frozen=True)
class _Search:
    body: Body
    loops: Sequence[Node]

    @cached_property
    def accesses(self) -> list[Access]:
        return self.body.placed(self.body.root)

    @cached_property
    def lanes(self) -> int | None:
        """The domain's index that most bytes have neighbours along: lanes run along it."""
        along = Counter[int]()
        for access in self.accesses:
            sizes = [size for index, size in self.body.sizes.items() if access.form.varies(index)]
            for index in self.body.root.indices:
                if access.form.adjacent(index):
                    along[index] += access.width * magnitude(sizes)
        return max(along, key=lambda index: along[index], default=None)

    def windows(self) -> Iterator[Window]:
        """All that overlap, along other indices of the domain than lanes run along."""
        outer, inner = self.body.root, self.loops[0]
        for (i, a), (k, b) in product(enumerate(outer.indices), enumerate(inner.indices)):
            size, length = self.body.extents[a], self.body.extents[b]
            if not size or not length or not self._overlap(a, b, length) or a == self.lanes:
                continue
            for terms in _terms(length):
                for points in range(2, min(WIDE, size, MOST // terms) + 1):
                    found = self._window(i, k, points, terms, size, length % terms > 0)
                    if found is not None:
                        yield found

    def _overlap(self, a: int, b: int, length: int) -> bool:
        """Whether a read at neighbours along index a has elements in common: most sums have none, and are searched no further."""
        return any(_slides(access, a, b, length) for access in self.accesses)

    def _window(self, i: int, k: int, points: int, terms: int, size: int, ragged: bool) -> Window | None:
        """The window of so many points and terms; what is left over of `size` reads its own."""
        reads, overlaps, loads, far = 0, False, 0.0, 0
        rest = size % points
        for loop in self.loops:
            a, b = self.body.root.indices[i], loop.indices[k]
            for access in self.accesses:
                if loop not in access.loops:
                    continue
                reads += 1
                whole, part = (_distinct(access, a, b, n, terms) for n in (points, rest))
                overlaps = overlaps or (access.form.varies(a) and access.form.varies(b) and whole < points * terms)
                loads += (whole * (size // points) + part) / (size / points)
                step = access.form.steps.get(a, 0)
                far = max(far, abs(step) if isinstance(step, int) else 0)
        if not overlaps:
            return None
        lengths = [
            self.body.extents[index] or WHOLE + 1 for index in self.loops[0].indices
        ]  # more, where it is not known
        whole = lengths[k] == terms and points * prod(lengths) <= WHOLE
        lanes = 1 if self.lanes is None else self.body.extents[self.lanes] or 1
        beside = prod(tile_beside(size) for a in self.body.root.indices if (size := self._beside(a, i, k)))
        lane = None if self.lanes is None else self.body.root.indices.index(self.lanes)
        return Window(i, k, points, terms, loads, reads, lane, lanes, far, beside, ragged or rest > 0, whole)

    def _beside(self, a: int, i: int, k: int) -> int:
        """The size of the domain's index a, if it is not that of the window, and windows overlap along it too; else 0."""
        others = [b for n, b in enumerate(self.loops[0].indices) if n != k]
        size = self.body.extents[a]
        if not size or size == 1 or a == self.lanes or a == self.body.root.indices[i]:
            return 0
        return size if any((length := self.body.extents[b]) and self._overlap(a, b, length) for b in others) else 0


def tile_beside(size: int) -> int:
    """How many of so many neighbours whose windows overlap a program computes, so that memory is read once for them: a power of two that
    leaves few idle, or one."""
    tiles = [1 << n for n in range(BESIDE.bit_length())]
    return max(tile for tile in tiles if -(-size // tile) * tile <= IDLE * size)


def _distinct(access: Access, a: int, b: int, points: int, terms: int) -> int:
    """Elements that an access reads at `points` of index a and `terms` of index b."""
    steps = [access.form.steps.get(index, 0) for index in (a, b)]
    if not access.form.opaque.isdisjoint((a, b)) or not all(isinstance(step, int) for step in steps):
        return points * terms
    return len({steps[0] * x + steps[1] * y for x in range(points) for y in range(terms)})


def _terms(length: int) -> list[int]:
    """So many terms in a step: all of a window, a part without a rest, or of a long sum any few."""
    return [n for n in range(1, min(length, MOST // 2) + 1) if length % n == 0 or n <= WIDE < length // 2]
