"""Summary of the body of a compute, scan or scatter: the tensors it reads, the work an element takes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...ir.types import byte_width
from ...mlir import ir

PRODUCERS = ("bascule.compute", "bascule.scan", "bascule.scatter")

# Of integers. A division by zero may end the process.
DIVISIONS = (
    *("arith.divsi", "arith.divui", "arith.remsi", "arith.remui"),
    *("arith.floordivsi", "arith.ceildivsi", "arith.ceildivui"),
)
# What one scalar op costs where vector code runs it, in units of an addition. Ops that are not listed cost 1.
FREE = frozenset(
    (
        "tensor.extract",
        "affine.apply",
        "arith.constant",
        "arith.index_cast",
        "bascule.yield",
        "scf.yield",
        "scf.if",
        "scf.condition",
    )
    + ("builtin.unrealized_conversion_cast", "arith.extf", "arith.bitcast", "bascule.store", "bascule.reduce")
)
COSTS = {
    "arith.divf": 5,
    "arith.remf": 20,
    **dict.fromkeys(DIVISIONS, 20),
    "arith.truncf": 2,
    "math.sqrt": 6,
    "math.rsqrt": 8,
    "math.absf": 1,
    "math.absi": 1,
    "math.fma": 1,
    "math.floor": 1,
    "math.ceil": 1,
    "math.trunc": 1,
    "math.roundeven": 1,
    "math.copysign": 1,
    "bascule.random": 40,
}
TRANSCENDENTAL = 20  # any other op of the math dialect
RAGGED = 64  # a loop whose length comes from data
DYNAMIC = 256  # what a symbol counts as, where costs are compared


def magnitude(sizes: Sequence[ir.AffineExpr]) -> int:
    """About how many points a domain of `sizes` has: symbols count as `DYNAMIC`."""
    points = 1
    for size in sizes:
        points *= _value(size)
    return points


def _value(size: ir.AffineExpr) -> int:
    if isinstance(size, ir.AffineConstantExpr):
        return size.value
    if not isinstance(size, ir.AffineBinaryExpr):
        return DYNAMIC
    left, right = _value(size.lhs), _value(size.rhs)
    if isinstance(size, ir.AffineAddExpr):
        return max(1, left + right)
    if isinstance(size, ir.AffineMulExpr):
        return max(1, left * right)
    return max(1, left // max(1, right))


def sizes_of(op: ir.Operation) -> list[ir.AffineExpr]:
    """The sizes of an op's `ranges`."""
    return list(op.attributes["ranges"].value.results)


def indices_of(op: ir.Operation) -> list[ir.Value]:
    """The arguments of an op's region: its indices."""
    return list(op.regions[0].blocks[0].arguments)


def op_cost(name: str) -> int:
    if name in FREE:
        return 0
    known = COSTS.get(name)
    if known is not None:
        return known
    return TRANSCENDENTAL if name.startswith("math.") else 1


@dataclass
class Read:
    """One `tensor.extract` in a body: how often it runs for each point of the domain, and whether a guard stands before it."""

    op: ir.Operation
    source: ir.Value
    times: int
    guarded: bool


@dataclass
class Body:
    """The summary of one producer."""

    op: ir.Operation
    points: int  # of the domain
    reads: list[Read] = field(default_factory=list)
    loops: list[ir.Operation] = field(default_factory=list)  # reduces
    steps: int = 1  # points of all nested reduces for one point of the domain
    cost: int = 0  # work for one point of the domain, in additions
    ops: int = 0

    @property
    def result(self) -> ir.Value:
        return self.op.results[0]

    @property
    def width(self) -> int:
        """Bytes of an element of the result."""
        return byte_width(self.result.type.element_type)

    @property
    def bytes(self) -> int:
        return self.points * self.width

    @property
    def is_pointwise(self) -> bool:
        return self.op.name == "bascule.compute" and not self.loops


def summarize(op: ir.Operation) -> Body:
    """The summary of a compute, scan or scatter: one look at each op of its body."""
    body = Body(op, magnitude(sizes_of(op)))
    _visit(body, op.regions[0].blocks[0], 1, False)
    return body


def _visit(body: Body, block: ir.Block, times: int, guarded: bool) -> None:
    for view in block.operations:
        op = view.operation
        name = op.name
        body.ops += 1
        if name == "tensor.extract":
            body.reads.append(Read(op, op.operands[0], times, guarded))
        elif name == "bascule.reduce":
            body.loops.append(op)
            inner = times * magnitude(sizes_of(op))
            body.steps = max(body.steps, inner)
            body.cost += inner
            _visit(body, op.regions[0].blocks[0], inner, guarded)
        elif name == "scf.if":
            for region in op.regions:
                for branch in region.blocks:
                    _visit(body, branch, times, True)
        elif name == "scf.for":  # it runs as often as data says
            body.cost += times * RAGGED
            _visit(body, op.regions[0].blocks[0], times, True)
        elif name == "scf.while":
            for region in op.regions:
                _visit(body, region.blocks[0], times * RAGGED, True)
        else:
            body.cost += times * op_cost(name)


def readers_of(bodies: Iterable[Body]) -> dict[ir.Value, list[tuple[Body, Read]]]:
    """Tensor -> which of `bodies` read it, and where."""
    readers: dict[ir.Value, list[tuple[Body, Read]]] = {}
    for body in bodies:
        for read in body.reads:
            readers.setdefault(read.source, []).append((body, read))
    return readers


def tensor_bytes(value: ir.Value) -> int:
    """About how many bytes a tensor has, by its type."""
    type_ = value.type
    elements = 1
    for i in range(type_.rank):
        elements *= DYNAMIC if type_.is_dynamic_dim(i) else type_.get_dim_size(i)
    return elements * byte_width(type_.element_type)
