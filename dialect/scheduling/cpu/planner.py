"""The choice of how a kernel runs on a CPU: which index of which loop the lanes of a vector run along, what is shared among threads.

A loop is the kernel's domain or a `reduce`, `foreach`, `compute` or `scan`. Either the lanes are points of the loop itself, and everything
inside works on vectors, or each loop inside chooses for itself. The cheaper of the two is taken; the cost counts accesses and ops.
"""

from dataclasses import dataclass, replace

from ...analysis.bodies.body_summary import Body, decode
from ...analysis.bodies.body_tree import ACCUMULATORS, LOOPS, Block, Node
from ...analysis.bodies.costs import tensor_bytes
from ...machines.measures import measures
from ...mlir import ir
from .joined_reductions import Joins, join_siblings
from .loop_fission import is_long, phases
from .loop_legality import Groups, colliding, group_ranges, length, moving_reads, reads_along
from .schedule_form import NEAR, REGISTERS, SCRATCH, SHORT, KernelSchedule, LoopSchedule, Tasks, to_attribute

DYNAMIC = 512  # the size assumed of a dynamic range
# Costs are in scalar ops; that of a vector op is one for all lanes of a register. Wider vectors have the same.
ACCESS, OP, CALL, UNIFORM, GATHER, SCATTER, MASKED, SAME_SET, GRAIN, FLOODED = (
    measures("avx2")[name].value
    for name in ("access", "op", "call", "uniform", "gather", "scatter", "masked", "same_set", "grain", "flooded")
)
# Of a step of a scan that is more than an op, by its kind.
STEPS = {"logaddexp": 3 * CALL}
FREE = ("arith.constant", "affine.apply", "builtin.unrealized_conversion_cast")
BLOCK = 8192  # points of the blocked group in a tile
REDUCE_BLOCK = 32768  # the same for a reduction shared among threads
# Points of a row that a tile takes at each step of serial groups around it: a page of f32. `index_add` of 2048 x 2048 took 0.64 of the time that
# it takes with 16 (2026-11-27, AVX2, one thread, `benchmarks.cpu_breadth`).
SERIAL_BLOCK = 1024
RUN = 64  # points in a row of a tile that walks serial groups around it, one by one: a few cache lines
ROWS = 32  # of a transposed tile in scratch memory: two cache lines of f32
SQUARE_OPS = 24  # ops of a body that may be there once for each row of a tile in registers
SQUARES = 2  # reads that may be such tiles
FISSION_BLOCK = 64  # points that go through phases together
FISSION_GAIN = 0.05  # of a point's cost, what functions beside its loops take at least
# Times the lanes, points up to which a reduction with functions in it has lanes of one register, others half: of rows of 8 f32 a softmax takes
# 0.5 of the time that it takes with four registers, of 24 0.8, of 48 0.9, of 200 1.0, a sum 0.8, 1.0, 1.25 and 1.05 (AVX-512, one thread,
# 2026-11-29, `benchmarks.cpu_layouts`).
LONG_SHORT = 2
LARGE = 16384  # points from which a loop of a single-point kernel is shared among threads
TILES = 4  # no wider lanes than leave so many tiles
COLUMN_OPS = 12  # ops of a reduction of columns that may hold as many accumulators as half of all registers
PAGE = 4096  # bytes: the processor's own prefetching ends there, where a row of 1024 f32 does too
MANY = 3  # foreach loops from which all are


@dataclass(frozen=True)
class CpuMachine:
    """The CPU as schedules see it: the width of a vector register in bits, and the bytes of its last cache."""

    vector_bits: int
    cache_bytes: int = measures("avx2")["cache_bytes"].value


def cpu_schedule(kernel: ir.Operation, machine: CpuMachine) -> ir.DictAttr:
    """The schedule of one `bascule.kernel`, over tensors or memory."""
    body = decode(kernel, list(kernel.parent.regions[0].blocks[0].arguments))
    schedule = Planner(body, machine.vector_bits).schedule(join_siblings(body))
    return to_attribute(replace(schedule, nontemporal=_floods(body, machine.cache_bytes)))


def _floods(body: Body, cache_bytes: int) -> bool:
    """Whether what a kernel touches leaves little in the last cache of what it stored first: storing past it then saves the reads of lines
    that are overwritten as a whole. Sizes that are not known count as small."""
    buffers = {access.buffer for access in body.accesses(body.root) if not access.is_near}
    if any(buffer.type.is_dynamic_dim(i) for buffer in buffers for i in range(buffer.type.rank)):
        return False
    return sum(map(tensor_bytes, buffers)) >= FLOODED * cache_bytes


class Planner:
    """Makes the schedule of one kernel, whose siblings are joined; `vector_bits` is the width of a register."""

    def __init__(self, body: Body, vector_bits: int):
        self.body = body
        self.register = vector_bits // 32  # f32 lanes
        self.loops: dict[Node, LoopSchedule] = {}

    def schedule(self, joined: Joins) -> KernelSchedule:
        """`joined`: see `join_siblings`."""
        shared = self._shared_loops()
        domain = LoopSchedule() if shared else self._whole()
        for node in self.body.block.nodes if shared else ():
            if node in shared:
                self.loops[node] = self._shared(node)
            elif node.name in LOOPS:
                _, self.loops[node] = self._loop(node.blocks[0], node)
        self._ask_ahead(self.body.block)
        numbers = {node: number for number, node in enumerate(self.body.loops)}
        loops = []
        for node in self.body.loops:
            if node in joined:
                loops.append(LoopSchedule(joins=numbers[joined[node]]))
            else:
                loops.append(self.loops.get(node) or LoopSchedule(self._groups(node.blocks[0], node)))
        return KernelSchedule(domain, tuple(loops))

    def _shared_loops(self) -> set[Node]:
        """The loops of a single-point kernel whose tiles are shared among threads; none: the kernel is one piece of work."""
        block = self.body.block
        if any(self.body.extents[a] != 1 for a in block.arguments):
            return set()
        if any(node.name in ("bascule.compute", "bascule.scan") for node in block.nodes):
            return set()  # a row in scratch memory is its thread's own
        loops = [node for node in block.nodes if node.name in ("bascule.foreach", "bascule.reduce")]
        many = sum(node.name == "bascule.foreach" for node in loops) >= MANY
        return {node for node in loops if self._large(node) or (many and node.name == "bascule.foreach")}

    def _large(self, node: Node) -> bool:
        points = 1
        for loop in (node, *(inner for inner in node.blocks[0].walk() if inner.name in LOOPS)):
            size = length(self.body, loop.blocks[0], range(len(loop.blocks[0].arguments)))
            if size is None:
                return True
            points *= size
        return points >= LARGE

    def _ask_ahead(self, block: Block, around: int | None = None) -> None:
        """Loops along rows of memory that the points of the loop around (its fastest index: `around`) go through one after another are
        to ask for memory ahead."""
        around = next((a for a in reversed(block.arguments) if self.body.extents.get(a, 1) != 1), around)
        for node in block.nodes:
            loop = self.loops.get(node)
            if around is not None and loop is not None:
                self.loops[node] = replace(loop, prefetch=self._ahead(node.blocks[0], loop, around))
            for inner in node.blocks:
                self._ask_ahead(inner, around)

    def _ahead(self, block: Block, loop: LoopSchedule, around: int) -> int:
        """How many bytes: two pages. Of several tensors none: more streams than the processor follows by itself are slower asked for."""
        if loop.vector < 0 or len(loop.groups) != 1 or loop.tasks is not None:
            return 0
        (group,) = loop.groups
        row, tensors = length(self.body, block, group), set[int]()
        for read in moving_reads(block, block.arguments[group[-1]]):
            step = (read.address or {}).get(around, 0)
            if step is None if row is None else step is not None and row <= step <= 2 * row:
                tensors.add(read.operands[0])
        return 2 * PAGE if len(tensors) == 1 else 0

    # Tasks

    def _whole(self) -> LoopSchedule:
        block = self.body.block
        cost, loop = self._loop(block, None, TILES)
        serial = self._serial(block, loop)
        points, lanes = self._fission(block, loop, cost)
        if lanes:
            return self._with_tasks(loop, cost, len(loop.groups) - 1, points, fission=lanes)
        size = self._block(block, loop, serial)
        if self._runs(loop, serial):
            return self._with_tasks(loop, cost, len(loop.groups) - 1, RUN, serial)
        across = -1 if size != BLOCK else self._across(block, loop)
        side = self._side(block, loop, across)
        if side:
            return self._with_tasks(replace(loop, lanes=side), cost, loop.vector, size, serial, across, side)
        return self._with_tasks(loop, cost, loop.vector, size, serial, across)

    def _shared(self, node: Node) -> LoopSchedule:
        block, reduces = node.blocks[0], node.name == "bascule.reduce"
        cost, loop = self._loop(block, node, TILES)
        blocked, serial = loop.vector, () if reduces else self._serial(block, loop)
        if reduces and blocked < 0 and loop.groups:
            blocked = len(loop.groups) - 1
        size = REDUCE_BLOCK if reduces else self._block(block, loop, serial)
        if self._runs(loop, serial):
            blocked, size = len(loop.groups) - 1, RUN
        return self._with_tasks(loop, cost, blocked, size, serial)

    @staticmethod
    def _with_tasks(
        loop: LoopSchedule,
        cost: float,
        blocked: int,
        size: int,
        serial: tuple[int, ...] = (),
        across: int = -1,
        side: int = 0,
        fission: int = 0,
    ) -> LoopSchedule:
        """`side`: the rows of transposed tiles that stay in registers; 0: those are kept in memory."""
        block = -(-size // loop.lanes) * loop.lanes
        rows, tile = (side, REGISTERS) if side else (ROWS if across >= 0 else 0, SCRATCH)
        tasks = Tasks(blocked, block, serial, across, rows, max(1, round(GRAIN / max(cost, 1e-3))), tile, fission)
        return LoopSchedule(loop.groups, loop.vector, loop.lanes, tasks)

    def _fission(self, block: Block, loop: LoopSchedule, cost: float) -> tuple[int, int]:
        """Points that go through phases together, and the lanes of odd phases, where points are walked one by one and a good part of the `cost`
        of each is functions beside its loops, as far as is known; else 0 and 0."""
        if loop.vector >= 0 or not loop.groups or colliding(self.body, block):
            return 0, 0
        size = length(self.body, block, loop.groups[-1])
        odd = [node for phase in phases(self.body, block)[1::2] for node in phase.nodes]
        known = None not in self.body.extents.values()
        if not odd or (known and CALL * sum(map(is_long, odd)) < FISSION_GAIN * cost):
            return 0, 0
        points = FISSION_BLOCK if known else self.register  # few, as rows may be long
        together = (points, min(points, self._width(Block([], odd, []), points)))
        return together if size is None or size >= points else (0, 0)

    def _serial(self, block: Block, loop: LoopSchedule) -> tuple[int, ...]:
        """The groups whose points may store to one place."""
        found = colliding(self.body, block)
        return tuple(g for g, group in enumerate(loop.groups) if found & {block.arguments[i] for i in group})

    def _block(self, block: Block, loop: LoopSchedule, serial: tuple[int, ...]) -> int:
        """The points of the blocked group in a tile. A tile with loops inside keeps what they accumulate in one vector. One that walks serial
        groups around it takes a page of each step's row, or less so that there are tiles to share."""
        if any(node.name in LOOPS for node in block.nodes):
            return loop.lanes
        if not serial or loop.vector < 0:
            return BLOCK if not serial else loop.lanes
        size = length(self.body, block, loop.groups[loop.vector]) or DYNAMIC
        return max(loop.lanes, min(SERIAL_BLOCK, size // TILES // loop.lanes * loop.lanes))

    @staticmethod
    def _runs(loop: LoopSchedule, serial: tuple[int, ...]) -> bool:
        """Whether the last group, along which memory runs, is to be inside of serial ones, no lanes along it: in runs, so that a tile is no
        walk down a column."""
        return loop.vector < 0 and bool(serial) and len(loop.groups) - 1 not in serial

    def _across(self, block: Block, loop: LoopSchedule) -> int:
        """The group that most reads of the body run along while they do not run along the lanes, or -1."""
        counts = [
            len(reads_along(block, loop.groups, loop.vector, g)) if g != loop.vector and loop.vector >= 0 else 0
            for g in range(len(loop.groups))
        ]
        most = max(counts, default=0)
        return counts.index(most) if most else -1

    def _side(self, block: Block, loop: LoopSchedule, across: int) -> int:
        """The lanes and rows of transposed tiles that stay in registers, or 0: where a row of one is a whole cache line, and the body small
        enough to be there for each row."""
        if (
            across < 0
            or sum(node.name not in FREE for node in block.walk()) + 8 * sum(map(is_long, block.walk())) > SQUARE_OPS
        ):
            return 0
        reads = reads_along(block, loop.groups, loop.vector, across)
        widths = {max(8, self.body.types[node.results[0]].width) for node in reads}
        side = 32 * self.register // max(widths)
        if len(widths) > 1 or len(reads) > SQUARES or self.register < 16 or side > min(16, loop.lanes):
            return 0
        sizes = [length(self.body, block, loop.groups[g]) for g in (across, loop.vector)]
        return side if all(size is None or size >= side for size in sizes) else 0

    # Lanes

    def _groups(self, block: Block, node: Node | None) -> Groups:
        groups = group_ranges(self.body, block)
        apart = bool(self._barred(block, node))
        return tuple((i,) for group in groups for i in group) if apart else groups

    def _barred(self, block: Block, node: Node | None) -> set[int]:
        """The indices that lanes cannot run along."""
        if node is None or node.name == "bascule.foreach":
            return colliding(self.body, block)
        return {block.arguments[node.op.attributes["dim"].value]} if node.name == "bascule.scan" else set()

    def _loop(self, block: Block, node: Node | None, tiles: int = 1) -> tuple[float, LoopSchedule]:
        """The cost of a point of a loop, and its plan; plans of the loops inside are noted if they choose for themselves."""
        groups = self._groups(block, node)
        barred = self._barred(block, node)
        points = self._points(block)
        best, choice, width = float("inf"), -1, 1
        for g, group in enumerate(groups):
            lane = block.arguments[group[-1]]
            if lane in barred:
                continue
            size = length(self.body, block, group)
            lanes = self._width(block, DYNAMIC if size is None else size)
            registers = max(1, lanes // self.register)
            cost = points / lanes * self._cost(block, lane, registers, lanes)
            if size is not None:
                cost *= -(-size // lanes) * lanes / max(size, 1)
            if cost < best:
                best, choice, width = cost, g, lanes
        if best == float("inf") or any(n.name in (*LOOPS, "scf.if") or _accumulates(n) for n in block.nodes):
            plans: dict[Node, LoopSchedule] = {}
            outer, self.loops = self.loops, plans
            alone = points * self._scalar(block)
            self.loops = outer
            if alone < best:
                self.loops.update(plans)
                best, choice, width = alone, -1, 1
            elif choice >= 0:
                width = self._column_lanes(block, groups[choice], width, tiles)
        elif node is not None and "welford" in node.kinds:
            size = length(self.body, block, groups[choice])
            short = len(groups) == 1 and size is not None and size <= SHORT * width
            if size is not None and size % (2 * width) == 0 and width == 4 * self.register and not short:
                width *= 2  # its operations wait for each other once a vector
        return best / max(points, 1.0), LoopSchedule(
            groups, choice, width, short=self._short(node, groups, choice, width)
        )

    def _short(self, node: Node | None, groups: Groups, choice: int, lanes: int) -> int:
        """Points of a row up to which lanes of one register are faster than several registers under a mask."""
        if node is None or node.name != "bascule.reduce" or choice < 0 or lanes <= self.register:
            return 0
        if length(self.body, node.blocks[0], groups[choice]) is not None:
            return 0
        return LONG_SHORT * lanes if any(map(is_long, node.blocks[0].walk())) else lanes // 2

    def _width(self, block: Block, size: int) -> int:
        """Lanes: several registers while the body is small, no more than the size asks for."""
        ops, calls, wide = 0, 0, False
        for node in block.walk():
            if node.name in FREE:
                continue
            ops += 1
            calls += is_long(node)
            for type_ in node.types:
                wide |= isinstance(type_, ir.IntegerType | ir.FloatType) and type_.width == 64
        load = ops + 8 * calls
        unroll = 4 if load <= 40 else 2 if load <= 100 else 1
        lanes = self.register * unroll
        if wide:
            lanes = max(lanes // 2, self.register // 2)
        while lanes > 2 and lanes >= 2 * size:
            lanes //= 2
        return lanes

    def _column_lanes(self, block: Block, group: tuple[int, ...], lanes: int, tiles: int) -> int:
        """More lanes where columns are reduced: what is read of each row is then long enough for the processor to read ahead."""
        reduces = [node for node in block.nodes if node.name == "bascule.reduce"]
        size, lane = length(self.body, block, group), block.arguments[group[-1]]
        if (
            size is None
            or not reduces
            or any(node.name in LOOPS for reduce in reduces for node in reduce.blocks[0].walk())
        ):
            return lanes
        for reduce in reduces:
            nodes = [node for node in reduce.blocks[0].nodes if node.name not in FREE]
            along = [node for node in nodes if node.address is not None and node.address.get(lane) == 1]
            if not along or len(nodes) > COLUMN_OPS or any(_op(node) == CALL for node in nodes):
                return lanes
        states = max(sum(ACCUMULATORS.get(kind, 1) for kind in reduce.kinds) for reduce in reduces)
        points, most = self._points(block), self.register * (16 if self.register >= 16 else 8)
        while 2 * lanes * states <= most and size % (2 * lanes) == 0 and points >= 2 * lanes * tiles:
            lanes *= 2
        return lanes

    def _cost(self, block: Block, lane: int, registers: int, lanes: int) -> float:
        """Of one point of a vector along `lane`."""
        total = 0.0
        for node in block.nodes:
            if node.address is not None:
                c = node.address.get(lane, 0)
                if c == 0 and node.name != "bascule.store":
                    total += UNIFORM
                elif c == 1 or (c == -1 and node.results):
                    total += ACCESS * registers
                elif c is not None and 2 <= c <= NEAR and node.results:
                    total += 2 * c * ACCESS * registers
                else:
                    total += self._apart(node, c) * lanes
            elif node.name not in FREE:
                total += _op(node) * registers
            total += _steps(node) * registers * self._times(node)
            if node.name == "scf.if" and self._splits(block, node, lane):
                total += self._pieces(node, lane, registers, lanes)
                continue
            inside = [self._cost(inner, lane, registers, lanes) for inner in node.blocks]
            if node.name == "scf.if" and lane not in self.body.dependence.get(node.operands[0], ()):
                total += max(inside)  # all lanes take one branch
            else:
                total += self._times(node) * sum(inside)
        return total

    def _splits(self, block: Block, node: Node, lane: int) -> bool:
        """Whether the condition of an `scf.if` is where the lanes are."""
        if lane not in self.body.dependence.get(node.operands[0], ()):
            return False
        condition = next((other for other in block.nodes if node.operands[0] in other.results), None)
        return (
            condition is not None
            and condition.name == "arith.cmpi"
            and isinstance(self.body.types[condition.operands[0]], ir.IndexType)
            and all(None not in self.body.dependence.get(i, {}).values() for i in condition.operands)
        )

    def _pieces(self, node: Node, lane: int, registers: int, lanes: int) -> float:
        """Of a choice between pieces of the lanes' index, such as those of a `cat`: a vector is within one, or takes those that it meets one
        by one, each under a mask."""
        costs, todo = list[float](), list(node.blocks)
        while todo:
            block = todo.pop()
            inner = next((n for n in block.nodes if n.name == "scf.if" and self._splits(block, n, lane)), None)
            rest = Block(block.arguments, [n for n in block.nodes if n is not inner], block.yielded)
            costs.append(self._cost(rest, lane, registers, lanes))
            todo += inner.blocks if inner is not None else []
        pieces = max(1, (len(costs) + 1) // 2)
        met = min(pieces, 1 + (pieces - 1) * lanes / max(1, self.body.extents[lane] or DYNAMIC))
        each = sum(costs) / pieces
        return OP * pieces.bit_length() + met * each + (met - 1) * MASKED

    def _apart(self, node: Node, step: int | None) -> float:
        """Of one lane of an access whose lanes lie `step` elements apart; None: anywhere. What is added to is read too."""
        cost = GATHER if node.results else SCATTER
        if _accumulates(node):
            cost += GATHER
        element = self.body.types[node.results[0] if node.results else node.operands[0]]
        width = max(8, element.width) // 8 if isinstance(element, ir.IntegerType | ir.FloatType) else 8
        return cost * (SAME_SET if step and step * width % PAGE == 0 else 1.0)

    def _scalar(self, block: Block) -> float:
        """Of one point, when the loops inside choose for themselves."""
        total = 0.0
        for node in block.nodes:
            if node.name in LOOPS:
                cost, self.loops[node] = self._loop(node.blocks[0], node)
                total += (cost + _steps(node)) * self._times(node)
            elif node.address is not None:
                total += ACCESS
            elif node.name not in FREE:
                total += _op(node)
                inside = [self._scalar(inner) for inner in node.blocks]
                total += max(inside, default=0.0) if node.name == "scf.if" else sum(inside)
        return total

    def _times(self, node: Node) -> float:
        return self._points(node.blocks[0]) if node.name in LOOPS else 1.0

    def _points(self, block: Block) -> float:
        points = 1.0
        for argument in block.arguments:
            size = self.body.extents[argument]
            points *= DYNAMIC if size is None else max(1, size)
        return points


def _accumulates(node: Node) -> bool:
    """Whether it is a store that adds to what stands there, or the like."""
    return node.name == "bascule.store" and "mode" in node.op.attributes and node.op.attributes["mode"].value != "set"


def _op(node: Node) -> float:
    return CALL if is_long(node) else OP


def _steps(node: Node) -> float:
    """Of a step of a scan, beside what it scans."""
    return STEPS.get(node.op.attributes["kind"].value, 0.0) if node.name == "bascule.scan" else 0.0
