"""Contents of the region of a kernel, and of a compute, scan or scatter before it is in one: its loops and ops, its reads and stores.

One model for fusion, and for the schedules of CPUs and GPUs. `Body` is the tree of ops; the work they take and the accesses among them are
found when they are asked for. `decode` gives every value a number, too, so that walks over values cost no binding calls.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...ir.memory_ops import StoreOp
from ...ir.shapes import constant, layout_of
from ...ir.types import byte_width, carried
from ...mlir import ir
from ..affine.indexing import Indexing
from ..affine.linear_forms import Form, linear
from .body_tree import ACCESSES, LOOPS, ZERO, Block, Dependence, Node
from .costs import RAGGED, magnitude, op_cost
from .dependences import Dependences

PRODUCERS = ("bascule.compute", "bascule.scan", "bascule.scatter")


@dataclass(slots=True, eq=False)
class Access:
    """One read or store inside of a loop. `loops`: those around it, from that one on; `times`: how often it runs for each of its points;
    `guarded`: whether a condition stands before it."""

    node: Node
    loops: tuple[Node, ...]
    times: int
    guarded: bool
    op: ir.Operation = field(init=False)
    buffer: ir.Value = field(init=False)
    form: Form[int] = field(
        init=False
    )  # of those that are `placed`: how the element offset depends on the loop indices

    def __post_init__(self) -> None:
        self.op = self.node.op
        self.buffer = self.op.operands[ACCESSES[self.node.name] - 1]

    @property
    def indices(self) -> list[ir.Value]:
        return list(self.op.operands)[ACCESSES[self.node.name] :]

    @property
    def stores(self) -> bool:
        return self.node.name == StoreOp.OPERATION_NAME

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return byte_width(self.buffer.type.element_type)

    @property
    def is_near(self) -> bool:
        """Whether it is of a row kept near the processor, no memory: of a loop inside of the body, not of one before it in the graph."""
        owner = self.buffer.owner
        if isinstance(owner, ir.Block) or owner.name not in ("bascule.compute", "bascule.scan"):
            return False
        return owner.operation.parent.name != "func.func"


@dataclass(eq=False)
class Body:
    """`op` is a kernel, compute, scan or scatter; `indexing`, of its function, is for those who ask for forms of accesses."""

    op: ir.Operation
    indexing: Indexing | None = None

    def __post_init__(self) -> None:
        self.root = Node.of(self.op, self.op.name)
        self._visits = _visits(self.root)
        self.loops: list[Node] = []  # those inside, in the order of a walk that meets outer ones first
        # Of a producer: points of its domain; for one of them, those of all nested reduces, and work, in additions; its ops.
        self.points, self.steps, self.cost, self.ops = magnitude(self.root.sizes), 1, 0, 1 + len(self._visits)
        for node, _, times, _ in self._visits:
            self.cost += times * op_cost(node.name)
            self.ops += len(node.blocks)
            if node.name in LOOPS:
                self.loops.append(node)
                self.steps = max(self.steps, times * magnitude(node.sizes))
                self.cost += times * magnitude(node.sizes)

    @property
    def block(self) -> Block:
        return self.root.blocks[0]

    def accesses(self, loop: Node) -> list[Access]:
        """Those inside of `loop`, in program order."""
        visits = self._visits if loop is self.root else _visits(loop)
        return [Access(*visit) for visit in visits if visit[0].name in ACCESSES]

    @cached_property
    def reads(self) -> list[Access]:
        return [access for access in self.accesses(self.root) if not access.stores]

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

    def placed(self, loop: Node) -> list[Access]:
        """The accesses to memory inside of `loop`, with their forms in simplest terms. Of a body that is decoded with `indexing`."""
        found = [access for access in self.accesses(loop) if not access.is_near]
        for access in found:
            access.form = self._form(access)
        return found

    def _form(self, access: Access) -> Form[int]:
        assert self.indexing is not None
        ((expression, bases),) = self.indexing.at(layout_of(access.buffer.type), access.indices)
        form, numbers = linear(expression), [self.number(base) for base in bases]
        opaque = {numbers[d] for d in form.opaque}
        for number in opaque - self.sizes.keys():  # from data
            if not self.dependence:
                self.depend()
            opaque |= self.dependence.get(number, {}).keys()
        terms = [(_renumbered(e, numbers), step) for e, step in form.terms]
        return Form({numbers[d]: step for d, step in form.steps.items()}, opaque, form.start, terms)

    # Values, of a decoded body: the number of each, and of each number the type, and the dependence on the loop indices; loop indices used
    # otherwise than linearly in an index.
    numbers: dict[ir.Value, int] = field(init=False)
    types: dict[int, ir.Type] = field(init=False)
    dependence: dict[int, Dependence] = field(init=False)
    opaque: set[int] = field(init=False)

    def number(self, value: ir.Value) -> int:
        known = self.numbers.get(value)
        if known is None:
            known = self.numbers[value] = len(self.numbers)
            self.types[known] = carried(value.type)
        return known

    @cached_property
    def sizes(self) -> dict[int, ir.AffineExpr]:
        """Of the ranges, by loop index."""
        loops = (self.root, *self.loops)
        return {index: size for loop in loops for index, size in zip(loop.blocks[0].arguments, loop.sizes)}

    @cached_property
    def extents(self) -> dict[int, int | None]:
        """The same as numbers, None: dynamic."""
        return {index: constant(size) for index, size in self.sizes.items()}

    def depend(self) -> None:
        """Finds what the values depend on, and the addresses of accesses."""
        found = Dependences(self.block, self.types)
        self.dependence, self.opaque = found.known, found.opaque

    @cached_property
    def makers(self) -> dict[int, Node]:
        """Value -> what it is a result of."""
        return {result: node for node in self.block.walk() for result in node.results}

    def needs(self, loop: Node, siblings: Sequence[Node]) -> set[Node]:
        """The siblings whose results a loop needs, through whatever stands between."""
        seen, todo = {loop}, [loop]
        while todo:
            makers = {self.makers[value] for value in todo.pop().uses() if value in self.makers} - seen
            seen |= makers
            todo += makers
        return {node for node in siblings if node in seen and node is not loop}


def _renumbered(e: ir.AffineExpr, numbers: Sequence[int]) -> ir.AffineExpr:
    """`e` of dims that have other numbers."""
    dims = [ir.AffineExpr.get_dim(number) for number in numbers]
    return e.compose(ir.AffineMap.get(max(numbers) + 1, 0, dims))


def decode(op: ir.Operation, arguments: Iterable[ir.Value] = (), indexing: Indexing | None = None) -> Body:
    """The body of `op`, its values numbered; `arguments`, of the enclosing function, come first."""
    body = Body(op, indexing)
    body.numbers, body.types = {}, {ZERO: ir.IndexType.get(op.context)}
    body.dependence, body.opaque = {}, set()
    for argument in arguments:
        body.number(argument)
    _number(body, body.block)
    if indexing is None:
        body.depend()
    else:  # few forms go by way of data: what values depend on is found when one does
        for loop in (body.root, *body.loops):
            indexing.enter(loop.op)
    return body


def _number(body: Body, block: Block) -> None:
    if block.source is not None:
        block.arguments = [body.number(argument) for argument in block.source.arguments]
    for node in block.nodes:
        node.operands = [body.number(value) for value in node.op.operands]
        for inner in node.blocks:
            _number(body, inner)
        node.results = [body.number(result) for result in node.op.results]
        node.types = [body.types[result] for result in node.results]
        node.kinds = [node.op.attributes["kind"].value] if node.name == "bascule.reduce" else []
        node.address = node.position = None
    if block.end is not None:
        block.yielded = [body.number(value) for value in block.end.operands]


# A node, the loops around it, how often it runs for each point of the outermost one, whether a condition stands before it.
_Visit = tuple[Node, tuple[Node, ...], int, bool]


def _visits(loop: Node) -> list[_Visit]:
    """The nodes inside of `loop`, in program order."""
    found: list[_Visit] = []
    _visit(loop.blocks[0], (loop,), 1, False, found)
    return found


def _visit(block: Block, loops: tuple[Node, ...], times: int, guarded: bool, found: list[_Visit]) -> None:
    for node in block.nodes:
        found.append((node, loops, times, guarded))
        for inner in node.blocks:
            if node.name in LOOPS:
                _visit(inner, (*loops, node), times * magnitude(node.sizes), guarded, found)
            else:
                _visit(inner, loops, times * RAGGED if node.name == "scf.while" else times, True, found)


def readers_of(bodies: Iterable[Body]) -> dict[ir.Value, list[tuple[Body, Access]]]:
    """Tensor -> which of `bodies` read it, and where."""
    readers: dict[ir.Value, list[tuple[Body, Access]]] = {}
    for body in bodies:
        for read in body.reads:
            readers.setdefault(read.buffer, []).append((body, read))
    return readers
