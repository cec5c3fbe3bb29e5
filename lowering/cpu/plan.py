"""Which index of which loop the lanes of a vector run along, and which indices of a loop are walked as one.

A loop is the kernel's domain or a `reduce`, `foreach`, `compute` or `scan`. Either the lanes are points of the loop itself, and everything
inside works on vectors, or each loop inside chooses for itself. The cheaper of the two is taken; the cost counts accesses and ops.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bascule.dialect.ir.shapes import constant
from bascule.dialect.mlir import ir

from .body import LOOPS, Block, Body, Dependence, Node
from .target import Target

DYNAMIC = 512  # the size assumed of a dynamic range
# Costs are in scalar ops; that of a vector op is one for all lanes of a register.
ACCESS, OP, CALL, UNIFORM, GATHER, SCATTER = 1.0, 0.3, 6.0, 0.1, 1.2, 3.0
CHEAP = (
    "math.absf",
    "math.sqrt",
    "math.rsqrt",
    "math.floor",
    "math.ceil",
    "math.roundeven",
    "math.trunc",
    "math.fma",
    "math.copysign",
)
FREE = ("arith.constant", "affine.apply", "builtin.unrealized_conversion_cast")


@dataclass(frozen=True)
class LoopPlan:
    """`groups`: the ranges, adjacent ones that are walked as one together; `vector`: the group of the lanes, or -1."""

    sizes: tuple[ir.AffineExpr, ...]
    groups: tuple[tuple[int, ...], ...]
    vector: int
    width: int  # lanes; 1 without a vector group


@dataclass
class Plan:
    """A plan for each loop of a kernel; `kernel` for its domain. `serial`: groups of the domain whose points may store to one place."""

    kernel: LoopPlan
    loops: dict[Node, LoopPlan]
    serial: set[int]


def sizes_of(op: ir.Operation) -> tuple[ir.AffineExpr, ...]:
    return tuple(op.attributes["ranges"].value.results)


def length(sizes: tuple[ir.AffineExpr, ...], group: tuple[int, ...]) -> int | None:
    """The number of points of a group, if it is known."""
    total = 1
    for i in group:
        size = constant(sizes[i])
        if size is None:
            return None
        total *= size
    return total


def addresses(block: Block) -> Iterator[tuple[Node, Dependence]]:
    for node in block.walk():
        if node.address is not None:
            yield node, node.address


def group_ranges(body: Body, block: Block, sizes: tuple[ir.AffineExpr, ...]) -> tuple[tuple[int, ...], ...]:
    """Adjacent ranges i, i + 1 are one where every address depends on them as on one index i * size + (i + 1)."""
    kept = [i for i in range(len(sizes)) if constant(sizes[i]) != 1]  # the index of a range of 1 is 0
    groups: list[list[int]] = []
    for i in kept:
        if groups and _together(body, block, block.arguments[groups[-1][-1]], block.arguments[i], constant(sizes[i])):
            groups[-1].append(i)
        else:
            groups.append([i])
    return tuple(map(tuple, groups))


def _together(body: Body, block: Block, outer: int, inner: int, size: int | None) -> bool:
    if size is None or outer in body.opaque or inner in body.opaque:
        return False
    for _, address in addresses(block):
        a, b = address.get(outer, 0), address.get(inner, 0)
        if a is None or b is None or a != b * size:
            return False
    return True


class Planner:
    def __init__(self, body: Body, target: Target):
        self.body, self.target = body, target
        self.loops: dict[Node, LoopPlan] = {}

    def plan(self, kernel: ir.Operation) -> Plan:
        block, sizes = self.body.block, sizes_of(kernel)
        serial = self.colliding(block, sizes)
        self.cost, plan = self.loop(block, sizes, None, serial)
        return Plan(
            plan, self.loops, {g for g, group in enumerate(plan.groups) if serial & {block.arguments[i] for i in group}}
        )

    def colliding(self, block: Block, sizes: Sequence[ir.AffineExpr]) -> set[int]:
        """Indices of the domain of which two values may store to one place: those that a store does not depend on, and, of a
        computed store, those that none of its indices is linear in."""
        several = [a for a, size in zip(block.arguments, sizes) if constant(size) != 1]
        colliding: set[int] = set()
        for node in block.walk():
            if node.name != "bascule.store":
                continue
            indices = [self.body.dependence.get(i, {}) for i in node.operands[2:]]
            if all(None not in d.values() for d in indices) and "mode" not in node.op.attributes:
                colliding.update(a for a in several if not any(a in d for d in indices))
                continue
            distinct = {next(iter(d)) for d in indices if len(d) == 1 and None not in d.values()}
            colliding.update(a for a in block.arguments if a not in distinct)
        return colliding

    def loop(
        self, block: Block, sizes: tuple[ir.AffineExpr, ...], node: Node | None, serial: set[int]
    ) -> tuple[float, LoopPlan]:
        """The cost of a point of a loop, and its plan; plans of the loops inside are noted if they choose for themselves."""
        groups = group_ranges(self.body, block, sizes)
        if serial or (node is not None and node.name == "bascule.scan"):
            groups = tuple((i,) for group in groups for i in group)
        points = 1.0
        for size in sizes:
            points *= DYNAMIC if constant(size) is None else max(1, constant(size))
        best, choice, width = float("inf"), -1, 1
        for g, group in enumerate(groups):
            lane = block.arguments[group[-1]]
            if lane in serial or (
                node is not None and node.name == "bascule.scan" and node.op.attributes["dim"].value in group
            ):
                continue
            size = length(sizes, group)
            lanes = self._width(block, DYNAMIC if size is None else size)
            registers = max(1, lanes // self.target.lanes)
            cost = points / lanes * self._cost(block, lane, registers, lanes)
            if size is not None:
                cost *= -(-size // lanes) * lanes / max(size, 1)
            if cost < best:
                best, choice, width = cost, g, lanes
        if best == float("inf") or any(n.name in LOOPS for n in block.nodes):
            plans: dict[Node, LoopPlan] = {}
            outer, self.loops = self.loops, plans
            alone = points * self._scalar(block)
            self.loops = outer
            if alone < best:
                self.loops.update(plans)
                best, choice, width = alone, -1, 1
        return best / max(points, 1.0), LoopPlan(sizes, groups, choice, width)

    def _width(self, block: Block, size: int) -> int:
        """Lanes: several registers while the body is small, no more than the size asks for."""
        ops, calls, wide = 0, 0, False
        for node in block.walk():
            if node.name in FREE:
                continue
            ops += 1
            calls += node.name.startswith("math.") and node.name not in CHEAP
            for type_ in node.types:
                wide |= not isinstance(type_, ir.IndexType | ir.MemRefType) and _bits(type_) == 64
        load = ops + 8 * calls
        unroll = 4 if load <= 40 else 2 if load <= 100 else 1
        lanes = self.target.lanes * unroll
        if wide:
            lanes = max(lanes // 2, self.target.lanes // 2)
        while lanes > 2 and lanes >= 2 * size:
            lanes //= 2
        return lanes

    def _cost(self, block: Block, lane: int, registers: int, lanes: int) -> float:
        """Of one point of a vector along `lane`."""
        total = 0.0
        for node in block.nodes:
            if node.address is not None:
                c = node.address.get(lane, 0)
                if c == 0 and node.name != "bascule.store":
                    total += UNIFORM
                elif c == 1:
                    total += ACCESS * registers
                else:
                    total += (GATHER if node.results else SCATTER) * lanes
            elif node.name not in FREE:
                total += _op(node) * registers
            for inner in node.blocks:
                total += self._times(node) * self._cost(inner, lane, registers, lanes)
        return total

    def _scalar(self, block: Block) -> float:
        """Of one point, when the loops inside choose for themselves."""
        total = 0.0
        for node in block.nodes:
            if node.name in LOOPS:
                cost, plan = self.loop(node.blocks[0], sizes_of(node.op), node, set())
                self.loops[node] = plan
                total += cost * self._times(node)
            elif node.address is not None:
                total += ACCESS
            elif node.name not in FREE:
                total += _op(node)
                total += sum(self._scalar(inner) for inner in node.blocks)
        return total

    def _times(self, node: Node) -> float:
        times = 1.0
        if node.name in LOOPS:
            for size in sizes_of(node.op):
                times *= DYNAMIC if constant(size) is None else constant(size)
        return times


def _op(node: Node) -> float:
    return CALL if node.name.startswith("math.") and node.name not in CHEAP else OP


def _bits(type_: ir.Type) -> int:
    return type_.width if isinstance(type_, ir.IntegerType | ir.FloatType) else 64
