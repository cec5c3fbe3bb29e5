"""`scf.while`: a program steps as long as the condition holds at one of its lanes; the others keep what they carry."""

from bascule.dialect.mlir import ir

from ..values.atomic_multiply import some
from ..values.tiles import Tile, shaped, spread
from .emitter import RULES, Body, unsupported


def repeat(body: Body, op: ir.Operation) -> None:
    b, axes = body.b, body.axes
    if any(isinstance(value.type, ir.IndexType) for value in [*op.operands, *op.results]):
        raise unsupported(op, "a loop that carries an index")
    before, after = (region.blocks[0] for region in op.regions)
    count = len(before.arguments)
    mask = body.memory.mask(axes)  # what is not at a point may never end

    def emitted(block: ir.Block, values: list[ir.Value]) -> list[ir.Value]:
        for argument, value in zip(block.arguments, values):
            body.env[argument] = Tile(value, axes)
        return [spread(b, tile, axes) for tile in body.block(block)]

    def condition(values: list[ir.Value]) -> list[ir.Value]:
        goes_on, *passed = emitted(before, values)
        if mask:
            goes_on = b.same("arith.andi", goes_on, mask[0])
        return [some(b, goes_on), *passed, *values, goes_on]

    def step(values: list[ir.Value]) -> list[ir.Value]:
        *values, goes_on = values
        with body.under(Tile(goes_on, axes), True):
            new = emitted(after, values[: len(values) - count])
        return [b.select(goes_on, x, old) for x, old in zip(new, values[-count:])]

    initial = [spread(b, body.tile(value), axes) for value in op.operands]
    passed = [shaped(result.type, axes) for result in op.results]
    types = [*passed, *(value.type for value in initial), shaped(b.i1, axes)]
    results = b.repeat(initial, types, condition, step)
    for result, value in zip(op.results, results):
        body.env[result] = Tile(value, axes)


RULES["scf.while"] = repeat
