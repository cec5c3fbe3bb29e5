"""Loops as long as data says: a program steps as long as one of its lanes has steps left; the others keep what they carry."""

from bascule.dialect.mlir import ir

from ..values.atomic_multiply import some
from ..values.reduction_kinds import REDUCTIONS, reduce_along
from ..values.tiles import Tile, elementwise, shaped, spread
from .emitter import RULES, Body, unsupported


def repeat(body: Body, op: ir.Operation) -> None:
    """`scf.while`: steps as long as the condition holds at a lane."""
    b, axes = body.b, body.axes
    _refuse_indices(op)
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


def _refuse_indices(op: ir.Operation) -> None:
    """An index is an expression here, and no value that steps change."""
    if any(isinstance(value.type, ir.IndexType) for value in [*op.operands, *op.results]):
        raise unsupported(op, "a loop of an index")


def count_up(body: Body, op: ir.Operation) -> None:
    """`scf.for` by ones: as many steps as the longest of a program's lanes has; lanes that have fewer keep what they carry."""
    b, axes = body.b, body.axes
    _refuse_indices(op)
    lower, upper, step, *initial = op.operands
    block = op.regions[0].blocks[0]
    if b.numbers.get(body.tile(step).value) != 1:
        raise unsupported(op, "a loop by other steps than ones")
    first = body.tile(lower)
    count = elementwise(b, lambda x, y: b.same("arith.subi", x, y), [body.tile(upper), first])
    mask = body.memory.mask(count.axes)  # what is not at a point has any bounds
    if mask:
        count = Tile(b.select(mask[0], count.value, b.constant(count.value.type, 0)), count.axes)
    longest = count.value
    for axis in reversed(range(len(count.axes))):
        (longest,) = reduce_along(b, REDUCTIONS["max"], [longest], axis)
    zero, one = (b.constant(longest.type, number) for number in (0, 1))

    def one_step(number: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        at = elementwise(b, lambda x, y: b.same("arith.addi", x, y), [first, Tile(number)])
        inside = None
        if count.axes:
            inside = elementwise(b, lambda x, y: b.compare("slt", x, y), [Tile(number), count])
        for argument, tile in zip(block.arguments, [at, *(Tile(value, axes) for value in values)]):
            body.define(argument, tile)
        with body.under(inside, True):
            after = [spread(b, tile, axes) for tile in body.block(block)]
        if inside is None:
            return after
        goes_on = spread(b, inside, axes)
        return [b.select(goes_on, new, old) for new, old in zip(after, values)]

    last = b.loop((zero, longest, one), [spread(b, body.tile(value), axes) for value in initial], one_step)
    for result, value in zip(op.results, last):
        body.define(result, Tile(value, axes))


RULES |= {"scf.while": repeat, "scf.for": count_up}
