"""`scf.while`: at lanes, steps as long as the condition holds in one of them; the others keep what they carry."""

from collections.abc import Sequence

from bascule.dialect.analysis.bodies.body_tree import Block, Node
from bascule.dialect.errors import UnsupportedError
from bascule.dialect.ir.locations import source_of
from bascule.dialect.mlir import ir

from ..values.builder import Scalar
from ..values.scalars import Scalars
from .emitter import Emitter, rule


@rule("scf.while")
def _while(e: Emitter, node: Node) -> None:
    b = e.b
    if any(isinstance(value.type, ir.IndexType) for value in [*node.op.operands, *node.op.results]):
        raise UnsupportedError(
            "the CPU lowering has no loop that carries an index", location=source_of(node.op.location)
        )
    lanes = e.lanes > 1 and any(map(e.varies, node.results))
    before, after = node.blocks
    memory, outer, floor, sparse = e.memory, e.memory.mask, e.memory.floor, e.memory.sparse

    def emitted(block: Block, values: Sequence[ir.Value]) -> list[ir.Value]:
        memory.floor = b.level
        for argument, value in zip(block.arguments, values):
            e.env[argument] = Scalar(value, lanes, b.level)
        e.emit(block)
        yielded = [e.scalar(number) for number in block.yielded]
        return [e.spread(x) if lanes else x.value for x in yielded]

    def condition(values: list[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
        goes_on, *passed = emitted(before, values)
        if not lanes:
            return goes_on, passed
        if outer is not None:  # what is in a lane out of force may never end
            goes_on = Scalars(b).op("arith.andi", goes_on, outer.value)
        some = b.value("vector.reduction", b.i1, [goes_on], {"kind": ir.Attribute.parse("#vector.kind<or>")})
        return some, [*passed, *values, goes_on]

    def step(values: list[ir.Value]) -> list[ir.Value]:
        if not lanes:
            return emitted(after, values)
        *values, goes_on = values
        count = len(before.arguments)
        memory.mask, memory.sparse = Scalar(goes_on, True, b.level), False
        new = emitted(after, values[: len(values) - count])
        memory.mask, memory.sparse = outer, sparse
        return [Scalars(b).select(goes_on, x, old) for x, old in zip(new, values[-count:])]

    initial = [e.scalar(number) for number in node.operands]
    results = b.repeat([e.spread(x) if lanes else x.value for x in initial], condition, step)
    memory.floor = floor
    for number, value in zip(node.results, results):
        e.define(number, Scalar(value, lanes, b.level))
