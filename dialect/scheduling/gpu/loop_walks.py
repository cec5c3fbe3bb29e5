"""How the loops of a GPU program are walked: which of them together, which go along with another, what they ask of the cache."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ...analysis.bodies.body_summary import Access, Body
from ...analysis.bodies.body_tree import Node
from ...analysis.bodies.nested_loops import iterations
from ...mlir import ir
from .schedule_form import LoopSchedule


@dataclass
class Walks:
    """The plans of a domain's loops. `order`: the ranges of a loop as they are flattened; `steps`: the points of a loop at once, 1 if it
    is not there; `held`: the loops whose tiles of so many points are all there at once; `together`: reductions over equal ranges walk
    together, whatever they read."""

    body: Body
    accesses: Sequence[Access]
    order: Callable[[Node], list[int]]
    steps: dict[Node, int]
    held: Collection[Node] = ()
    together: bool = False
    plans: dict[Node, LoopSchedule] = field(default_factory=dict)

    def among(self, loops: Sequence[Node]) -> list[LoopSchedule]:
        """The loops with their steps, those without one point by point, and what is inside of them."""
        plans = []
        for loop in loops:
            plan = LoopSchedule(self.order(loop), self.steps.get(loop, 1), len(self.plans), held=loop in self.held)
            self.plans[loop] = plan
            plan.loops = self.among(loop.inner_loops())
            plans.append(plan)
        self._join(loops)
        self._ride(loops)
        self._evictions(loops)
        return plans

    def _join(self, loops: Sequence[Node]) -> None:
        """Loops that walk over the same ranges, and of which none needs another's result, walk together if they read one buffer; so do
        a scan and a loop that reads it at the point at hand, and reductions of what is held: their threads meet once for all. Point by point
        so do reductions and what is stored at their points."""
        needed = {loop: self.body.needs(loop, loops) for loop in loops}
        leaders: list[Node] = []
        for loop in loops:
            plan = self.plans[loop]
            held = self._reduces_held(loop)
            if not held and not self._walked(loop) and not self._point_by_point(loop):
                continue
            for leader in leaders:
                walk = self.plans[leader]
                alike = (walk.order, walk.step) == (plan.order, plan.step) and leader.op.block == loop.op.block
                if not alike or leader.sizes != loop.sizes:
                    continue
                members = [other for other in loops if other != loop and self.plans[other].walk == walk.walk]
                early = {other for other in needed[loop] if self.plans[other].walk < walk.walk}
                scans = {m for m in members if m.name == "bascule.scan" and _follows(loop, m)}
                related = held or scans or any(self._shares(loop, member) for member in members)
                related = related or (self.together and {loop.name, leader.name} == {"bascule.reduce"})
                if related and needed[loop] <= early | scans:
                    plan.walk = walk.walk
                    break
            else:
                leaders.append(loop)

    def _reduces_held(self, loop: Node) -> bool:
        """Whether a loop is a reduction that is held, without loops inside."""
        alone = loop.name == "bascule.reduce" and not loop.inner_loops()
        return alone and self.plans[loop].step > 1 and not self._walked(loop)

    def _point_by_point(self, loop: Node) -> bool:
        alone = loop.name == "bascule.foreach" and not loop.inner_loops()
        return (loop.name == "bascule.reduce" or alone) and self.plans[loop].step == 1

    def _ride(self, loops: Sequence[Node]) -> None:
        """Sums of columns beside work on rows: while the rows of a chunk are walked one by one, the columns' reductions over the same rows
        go along, each row being read once for both."""
        for rows in loops:
            plan = self.plans[rows]
            if rows.name != "bascule.foreach" or plan.step > 1 or all(inner.step == 1 for inner in plan.loops):
                continue
            for columns in loops:
                own = self.plans[columns]
                length = iterations(columns.sizes)
                held = own.walk > plan.walk and own.step > 1 and length is not None and not self._walked(columns)
                if held and columns.name == "bascule.foreach" and columns.op.block == rows.op.block:
                    inner = columns.inner_loops()
                    same = all(node.sizes == rows.sizes for node in inner)
                    flat = all(node.name == "bascule.reduce" and not node.inner_loops() for node in inner)
                    if inner and same and flat and all(own_.order == plan.order for own_ in own.loops):
                        own.along = plan.walk

    def _walked(self, loop: Node) -> bool:
        return self.plans[loop].walks(loop.sizes)

    def _evictions(self, loops: Sequence[Node]) -> None:
        """Of rows that are walked several times, all but the last walk ask for them to be kept."""
        walked = [loop for loop in loops if self._walked(loop)]
        reads: dict[int, set[ir.Value]] = {}  # of each walk, whichever of its loops does
        for loop in walked:
            reads.setdefault(self.plans[loop].walk, set()).update(self._reads(loop))
        for plan in map(self.plans.__getitem__, walked):
            sharing = [walk for walk, buffers in reads.items() if buffers & reads[plan.walk]] or [plan.walk]
            last = max(sharing) == plan.walk
            plan.evict = "last" if not last else "first" if min(sharing) < plan.walk else "normal"

    def _shares(self, one: Node, other: Node) -> bool:
        """Whether two loops read one buffer."""
        return not self._reads(one).isdisjoint(self._reads(other))

    def _reads(self, loop: Node) -> set[ir.Value]:
        return {a.buffer for a in self.accesses if not a.stores and loop in a.loops}


def _follows(loop: Node, scan: Node) -> bool:
    """Whether `loop` reads what `scan` makes at its own point, nowhere else."""
    (block,) = loop.blocks
    users = [node for node in block.walk() if scan.results[0] in node.operands]
    return bool(users) and all(
        user.name == "tensor.extract" and user in block.nodes and user.operands[1:] == block.arguments for user in users
    )
