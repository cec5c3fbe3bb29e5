"""Whether a schedule fits its kernel: what does not would be wrong code, and is refused. Nothing is decided here."""

from collections.abc import Sequence
from itertools import pairwise

from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.body_tree import LOOPS, Block, Node
from ...ir.loop_ops import KernelOp
from ...mlir import ir
from .joined_reductions import join_siblings
from .loop_fission import phases
from .loop_legality import colliding, length, moving_reads, reads_along, together
from .schedule_form import REGISTERS, SCRATCH, KernelSchedule, LoopSchedule, Tasks, from_attribute, refusal

LANES = 512  # more than any machine has in flight
ROWS = (16, 32, 64)  # rows of a transposed tile in scratch memory
SIDE = 16  # of one in registers, at the most
FARTHEST = 1 << 20  # bytes ahead that memory is asked for


def fitting(kernel: ir.Operation, body: Body) -> tuple[LoopSchedule, dict[Node, LoopSchedule]]:
    """The schedule of the kernel's domain, and of each loop inside; reductions of `body` are joined as the schedule says.

    Raises `UserError`, with the location of the kernel or loop, for a schedule that does not fit.
    """
    schedule = from_attribute(kernel)
    if len(schedule.loops) != len(body.loops):
        raise refusal(kernel, f"is for {len(schedule.loops)} loops inside, here are {len(body.loops)}")
    loops = dict(zip(body.loops, schedule.loops))
    _join(kernel, body, loops)
    _Check(body, loops).kernel(kernel, schedule)
    return schedule.domain, loops


def _join(kernel: ir.Operation, body: Body, loops: dict[Node, LoopSchedule]) -> None:
    chosen = {}
    for node, loop in loops.items():
        if loop.joins >= len(body.loops):
            raise refusal(node.op, f"joins loop {loop.joins} of {len(body.loops)}")
        if loop.joins >= 0:
            chosen[node] = body.loops[loop.joins]
    joined = join_siblings(body, chosen)
    for node in chosen:
        if node not in joined:
            raise refusal(node.op, f"joins loop {loops[node].joins}, which it cannot")
        del loops[node]


class _Check:
    def __init__(self, body: Body, loops: dict[Node, LoopSchedule]):
        self.body, self.loops = body, loops

    def kernel(self, kernel: ir.Operation, schedule: KernelSchedule) -> None:
        block, domain = self.body.block, schedule.domain
        self._loop(kernel, None, block, domain, set())
        top = set(block.nodes)
        shared = {node: loop.tasks for node, loop in self.loops.items() if loop.tasks is not None}
        if domain.tasks is not None:
            if shared:
                raise refusal(next(iter(shared)).op, "shares a loop among threads whose kernel is shared as a whole")
            self._tasks(kernel, block, domain, domain.tasks, colliding(self.body, block))
        elif any(self.body.extents[a] != 1 for a in block.arguments):
            raise refusal(kernel, "has no tasks for its domain")
        for node, tasks in shared.items():
            if node not in top or node.name not in ("bascule.foreach", "bascule.reduce"):
                raise refusal(
                    node.op, "shares it among threads; only a foreach or reduce of the kernel's own region can be"
                )
            if any(other.name in ("bascule.compute", "bascule.scan") for other in block.nodes):
                raise refusal(node.op, "shares it among threads; a row of the kernel is one thread's own")
            meeting = colliding(self.body, node.blocks[0]) if node.name == "bascule.foreach" else set()
            if node.name == "bascule.reduce" and (tasks.serial or tasks.across >= 0):
                raise refusal(node.op, "has serial or transposed groups of a reduction")
            self._tasks(node.op, node.blocks[0], self.loops[node], tasks, meeting)
        self._inside(block, domain.vector >= 0)

    def _inside(self, block: Block, lanes: bool) -> None:
        for node in block.nodes:
            within = lanes
            if node.name in LOOPS:
                loop = self.loops[node]
                if lanes and loop.vector >= 0:
                    raise refusal(node.op, "has lanes inside of lanes")
                meeting = colliding(self.body, node.blocks[0]) if node.name == "bascule.foreach" else set()
                self._loop(node.op, node, node.blocks[0], loop, meeting)
                within = lanes or loop.vector >= 0
            for inner in node.blocks:
                self._inside(inner, within)

    def _loop(self, op: ir.Operation, node: Node | None, block: Block, loop: LoopSchedule, meeting: set[int]) -> None:
        """`meeting`: indices of which two values may store to one place."""
        walked = [i for group in loop.groups for i in group]
        if not all(loop.groups) or walked != [i for i, a in enumerate(block.arguments) if self.body.extents[a] != 1]:
            raise refusal(op, f"walks ranges {walked}, which are not all that are larger than 1, in order")
        for group in loop.groups:
            for i, k in pairwise(group):
                if not together(self.body, block, block.arguments[i], block.arguments[k]):
                    raise refusal(op, f"walks ranges {i} and {k} as one, which they are not in every address")
        self._group(op, "lanes", loop.vector, loop.groups)
        if not 1 <= loop.lanes <= LANES or loop.lanes & (loop.lanes - 1) or (loop.vector < 0) != (loop.lanes == 1):
            raise refusal(
                op, f"has {loop.lanes} lanes along group {loop.vector}; expected a power of two, 1 without a group"
            )
        if node is not None and node.name == "bascule.scan" and any(len(group) > 1 for group in loop.groups):
            raise refusal(op, "walks ranges of a scan as one")
        self._prefetch(op, block, loop)
        if loop.short and (node is None or not self._may_be_short(node, loop)):
            raise refusal(
                op,
                f"has other lanes for up to {loop.short} points of what is no reduction along lanes of a size not known",
            )
        if loop.vector < 0:
            return
        if self._arguments(block, loop, [loop.vector]) & meeting:
            raise refusal(op, f"has lanes along group {loop.vector}, of which two points may store to one place")
        if node is not None and node.name == "bascule.scan":
            dim = node.op.attributes["dim"].value
            if dim in loop.groups[loop.vector]:
                raise refusal(op, f"has lanes along range {dim}, along which it scans")

    def _may_be_short(self, node: Node, loop: LoopSchedule) -> bool:
        if node.name != "bascule.reduce" or loop.vector < 0 or not 0 < loop.short <= FARTHEST:
            return False
        return length(self.body, node.blocks[0], loop.groups[loop.vector]) is None

    @staticmethod
    def _prefetch(op: ir.Operation, block: Block, loop: LoopSchedule) -> None:
        if not 0 <= loop.prefetch <= FARTHEST:
            raise refusal(op, f"asks for memory {loop.prefetch} bytes ahead; expected 0 to {FARTHEST}")
        if loop.prefetch and loop.tasks is not None:
            raise refusal(op, "asks for memory ahead of a loop that threads share")
        if loop.prefetch and (
            loop.vector < 0 or not moving_reads(block, block.arguments[loop.groups[loop.vector][-1]])
        ):
            raise refusal(op, "asks for memory ahead of reads along lanes, of which there are none")

    def _tasks(self, op: ir.Operation, block: Block, loop: LoopSchedule, tasks: Tasks, meeting: set[int]) -> None:
        self._group(op, "blocks", tasks.blocked, loop.groups)
        for g in tasks.serial:
            self._group(op, "serial points", g, loop.groups)
        if tasks.block < 1 or tasks.block % loop.lanes or tasks.grain < 1:
            raise refusal(op, f"has blocks of {tasks.block} for {loop.lanes} lanes, and grain {tasks.grain}")
        if loop.vector not in (-1, tasks.blocked):
            raise refusal(op, f"has lanes along group {loop.vector} but blocks along group {tasks.blocked}")
        if tasks.blocked >= 0 and tasks.blocked in tasks.serial:
            raise refusal(op, f"has blocks along group {tasks.blocked}, which is serial")
        if meeting - self._arguments(block, loop, tasks.serial):
            raise refusal(op, "shares points among threads that may store to one place")
        if tasks.fission:
            self._fission(op, block, loop, tasks, meeting)
        if tasks.across >= 0:
            self._group(op, "transposed reads", tasks.across, loop.groups)
            if loop.vector < 0 or tasks.across in (loop.vector, *tasks.serial):
                raise refusal(
                    op, f"transposes reads along group {tasks.across}, and its lanes along group {loop.vector}"
                )
            if tasks.tile not in (REGISTERS, SCRATCH):
                raise refusal(op, f"keeps transposed tiles in {tasks.tile}; known: {REGISTERS}, {SCRATCH}")
            if tasks.tile == SCRATCH and tasks.rows not in ROWS:
                raise refusal(op, f"has transposed tiles of {tasks.rows} rows; known: {', '.join(map(str, ROWS))}")
            if tasks.tile == REGISTERS and (tasks.rows != loop.lanes or loop.lanes > SIDE):
                raise refusal(
                    op,
                    f"keeps tiles of {tasks.rows} rows and {loop.lanes} lanes in registers; expected squares, {SIDE} at the most",
                )
            if tasks.serial or any(node.name in LOOPS for node in block.nodes):
                raise refusal(op, "transposes reads where loops are inside, or serial points")
            if not reads_along(block, loop.groups, loop.vector, tasks.across):
                raise refusal(op, f"transposes reads along group {tasks.across}, where there are none")

    def _fission(self, op: ir.Operation, block: Block, loop: LoopSchedule, tasks: Tasks, meeting: set[int]) -> None:
        lanes, last = tasks.fission, len(loop.groups) - 1
        if op.name != KernelOp.OPERATION_NAME or loop.vector >= 0 or tasks.serial or tasks.blocked != last or meeting:
            raise refusal(
                op, "has phases of a loop that is no domain cut into blocks along its last group, point by point"
            )
        if not 2 <= lanes <= LANES or lanes & (lanes - 1) or tasks.block % lanes:
            raise refusal(
                op, f"has phases of {lanes} lanes in blocks of {tasks.block}; expected a power of two that divides them"
            )
        if not phases(self.body, block):
            raise refusal(op, "has phases of a region in which nothing takes long beside a loop")

    def _group(self, op: ir.Operation, what: str, g: int, groups: Sequence) -> None:
        if not -1 <= g < len(groups):
            raise refusal(op, f"has {what} along group {g} of {len(groups)}")

    @staticmethod
    def _arguments(block: Block, loop: LoopSchedule, groups: Sequence[int]) -> set[int]:
        return {block.arguments[i] for g in groups for i in loop.groups[g]}
