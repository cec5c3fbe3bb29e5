"""Guards: `scf.if` where its condition is one for all lanes, where lanes agree most of the time, and where it is data."""

from collections.abc import Callable, Sequence

from bascule.dialect.analysis.bodies.body_tree import Block, Node
from bascule.dialect.mlir import ir

from ..values.builder import Scalar
from ..values.conditions import Both, Comparison, Condition
from ..values.scalars import Scalars
from .emitter import Emitter, rule


@rule("scf.if")
def _if(e: Emitter, node: Node) -> None:
    item = e.env[node.operands[0]]
    if isinstance(item, Comparison | Both):
        if e.memory.mask is None and _reads(node.blocks):
            _unanimous_if(e, node, item)
        else:
            _masked_if(e, node)
        return
    condition = e.scalar(node.operands[0])
    if condition.lanes:
        _masked_if(e, node)
    else:
        _uniform_if(e, node, condition)


def _reads(blocks: Sequence[Block]) -> bool:
    return any(node.address is not None for block in blocks for node in block.walk())


def _unanimous_if(e: Emitter, node: Node, condition: Condition) -> None:
    """One branch without masks where all lanes agree; both, under masks, in the vector across the boundary."""
    b = e.b
    everyone, nobody = condition.unanimous(b, e.ix)
    blocks = [*node.blocks, Block([], [], [])][:2]
    floor = e.memory.floor

    def one(block: Block) -> Callable[[], list[ir.Value]]:
        def values() -> list[ir.Value]:
            e.memory.floor = b.level
            e.emit(block)
            return [e.spread(e.scalar(number)) for number in block.yielded]

        return values

    def both() -> list[ir.Value]:
        e.memory.floor = b.level
        _masked_if(e, node)
        return [e.spread(e.scalar(number)) for number in node.results]

    results = b.branch(everyone, one(blocks[0]), lambda: b.branch(nobody, one(blocks[1]), both))
    e.memory.floor = floor
    for number, value in zip(node.results, results):
        e.define(number, Scalar(value, True, b.level))


def _masked_if(e: Emitter, node: Node) -> None:
    """Both branches, each under its mask; then each lane takes its value."""
    condition = e.scalar(node.operands[0])
    memory, outer, sparse = e.memory, e.memory.mask, e.memory.sparse
    s = Scalars(e.b, condition.level)
    branches = []
    for block, side in zip(node.blocks, (condition.value, None)):
        if side is None:
            side = s.invert(condition.value)
        level = condition.level
        if outer is not None:
            level = max(level, outer.level)
            side = Scalars(e.b, level).op("arith.andi", side, outer.value)
        memory.mask = Scalar(side, True, level)
        if _reads([block]):
            branches.append(_where_any(e, block, memory.mask))
        else:
            memory.sparse = True
            e.emit(block)
            branches.append([e.scalar(number) for number in block.yielded])
        memory.mask, memory.sparse = outer, sparse
    for result, x, y in zip(node.results, *branches):
        level = max(condition.level, x.level, y.level)
        value = Scalars(e.b, level).select(condition.value, e.spread(x), e.spread(y))
        e.define(result, Scalar(value, True, level))


def _where_any(e: Emitter, block: Block, mask: Scalar) -> list[Scalar]:
    """The values of a branch that touches memory: skipped where no lane takes it, so that it costs no traffic."""
    b = e.b
    some = b.value("vector.reduction", b.i1, [mask.value], {"kind": ir.Attribute.parse("#vector.kind<or>")})
    floor, sparse = e.memory.floor, e.memory.sparse

    def values() -> list[ir.Value]:
        e.memory.floor, e.memory.sparse = b.level, False
        e.emit(block)
        return [e.spread(e.scalar(number)) for number in block.yielded]

    def nothing() -> list[ir.Value]:
        return [b.constant(ir.VectorType.get([e.lanes], e.body.types[n]), 0) for n in block.yielded]

    results = b.branch(some, values, nothing)
    e.memory.floor, e.memory.sparse = floor, sparse
    return [Scalar(value, True, b.level) for value in results]


def _uniform_if(e: Emitter, node: Node, condition: Scalar) -> None:
    """A real branch. A result differs from lane to lane if it does so in one of the branches."""
    floor = e.memory.floor
    lanes = [e.varies(number) for number in node.results]

    def fill(block: Block) -> Callable[[], list[ir.Value]]:
        def values() -> list[ir.Value]:
            e.memory.floor = e.b.level
            e.emit(block)
            yielded = [e.scalar(number) for number in block.yielded]
            return [e.spread(x) if vector else x.value for x, vector in zip(yielded, lanes)]

        return values

    blocks = [*node.blocks, Block([], [], [])][:2]
    results = e.b.branch(condition.value, fill(blocks[0]), fill(blocks[1]))
    e.memory.floor = floor
    for number, value, vector in zip(node.results, results, lanes):
        e.define(number, Scalar(value, vector, e.b.level))
