"""A parallel domain of a GPU kernel: its accesses, the order of its indices in memory, the loops at each of its points."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from ...analysis.affine.indexing import Indexing
from ...analysis.bodies.body_summary import Access, Body, decode
from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.costs import magnitude
from ...analysis.bodies.memory_order import MemoryOrder
from ...analysis.bodies.nested_loops import iterations
from ...ir.shapes import constant
from ...mlir import ir
from .loop_walks import Walks
from .machine import LARGE, VECTOR, CudaMachine
from .schedule_form import DomainSchedule, LoopSchedule


@dataclass
class DomainPlan(DomainSchedule):
    """The schedule of one parallel domain, with its demands on the program. `stages`: steps of its walks in flight; `resident`: programs of a
    multiprocessor that registers leave room for (0: as it comes); `cluster`: programs that share a tile."""

    warps: int
    stages: int = 1
    resident: int = 0
    cluster: int = 1


class Domain(MemoryOrder):
    """A parallel domain, a kernel's or that of one top-level foreach (`node`), with what runs at each of its points. Indices are numbers of
    `body`, which is decoded."""

    def __init__(self, body: Body, node: Node, machine: CudaMachine):
        super().__init__(body, node)
        self.node, self.machine = node, machine
        self.indices, self.sizes = node.indices, node.sizes
        self.inner = node.inner_loops()
        self.points = iterations(self.sizes)
        self.plans: dict[Node, LoopSchedule] = {}
        self.lanes = [lanes for loop in self.inner for lanes in self._lanes(loop)]
        self.lengths = [iterations(loop.sizes) for loop in self.lanes]

    @staticmethod
    def of(kernel: ir.Operation, machine: CudaMachine, indexing: Indexing) -> "Domain":
        """That of a kernel."""
        body = decode(kernel, indexing=indexing)
        return Domain(body, body.root, machine)

    def _lanes(self, loop: Node) -> list[Node]:
        """The loops that have the lanes: `loop`, or the ones inside of it if memory rather runs along those."""
        nested = loop.inner_loops()
        if sum(map(self.bytes_along, nested)) <= self.bytes_along(loop):
            return [loop]
        return [lanes for inner in nested for lanes in self._lanes(inner)]

    def bytes_along(self, loop: Node) -> int:
        return sum(self.along[index] for index in loop.indices)

    def place(self, access: Access) -> tuple:
        """Place that it accesses: two of one place are one load."""
        assert self.body.indexing is not None
        return access.buffer, *map(self.body.indexing.resolve, access.indices)

    def read_again(self) -> dict[ir.Value, int]:
        """The buffers that several loops with the lanes read along their last index, with the bytes of their numbers."""
        seen, again = set[ir.Value](), dict[ir.Value, int]()
        for loop in self.lanes:
            index = loop.indices[self.loop_order(loop)[-1]]
            read = {
                a.buffer: a.width for a in self.accesses if not a.stores and loop in a.loops and a.form.varies(index)
            }
            again |= {buffer: width for buffer, width in read.items() if buffer in seen}
            seen |= read.keys()
        return again

    def neighbours(self, index: int) -> tuple[int, bool]:
        """Elements that a thread loads with one instruction at each of the accesses along `index` in a loop, at least, 1 if there is none;
        and whether that is what an instruction can load, everywhere: rows of 1001 elements begin anywhere."""
        found, aligned = [], True
        for access in self.accesses:
            if access.form.adjacent(index) and len(access.loops) > 1:
                steps = [step for other, step in access.form.steps.items() if other != index]
                whole = max(1, VECTOR // access.width)
                found.append(gcd(whole, *(step for step in steps if isinstance(step, int))))
                aligned = aligned and found[-1] == whole
        return min(found, default=1), aligned

    # Indices that are neighbours in memory

    def runs(self, order: Sequence[int]) -> list[list[int]]:
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
        return constant(self.sizes[outer]) == 1 or all(a.form.flat(*pair, self.sizes[inner]) for a in self.accesses)

    def run_size(self, run: Sequence[int]) -> int:
        return min(LARGE, magnitude([self.sizes[n] for n in run]))

    @cached_property
    def heaviest(self) -> int:
        """Bytes that the access which touches most does."""
        return max(map(self.bytes, self.accesses), default=0)

    @cached_property
    def narrowest(self) -> int:
        """Bytes of the narrowest elements of which an eighth of what the heaviest access touches is accessed, at least; 4 if none is."""
        return min((a.width for a in self.accesses if self.bytes(a) * 8 >= self.heaviest), default=4)

    def plan(
        self, steps: dict[Node, int], held: Collection[Node] = (), *, together: bool = False
    ) -> list[LoopSchedule]:
        """The schedules of the loops, of which `steps` have several points at once, and `held` all their tiles. `together`: reductions over
        equal ranges walk together, whatever they read."""
        walks = Walks(self.body, self.accesses, self.loop_order, steps, held, together)
        loops = walks.among(self.inner)
        self.plans = walks.plans
        return loops
