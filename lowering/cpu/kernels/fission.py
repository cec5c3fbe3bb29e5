"""A tile's points in phases (loop fission): loops point by point, what takes long beside them in lanes."""

from bascule.dialect.analysis.bodies.body_tree import Block
from bascule.dialect.ir.shapes import strided
from bascule.dialect.ir.types import carried
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.cpu.loop_fission import Phase, phases

from ..body.emitter import Emitter
from ..values.builder import Index, Scalar
from ..values.memory import Buffer, stored_type
from .loops import serial_loop, vector_loop


def in_phases(e: Emitter, body: Block, argument: int, bounds: tuple[Index, Index], block: int, lanes: int) -> None:
    """The points of `argument` between two bounds, `block` at most, through the region `body`; odd phases have so many `lanes`."""
    kept = dict[int, Buffer]()
    for number, phase in enumerate(phases(e.body, body)):
        kept.update((value, _buffer(e, value, block)) for value in phase.keeps)

        def step(values: list[ir.Value], phase: Phase = phase) -> list[ir.Value]:
            at = e.ix.add(e.index(argument), e.ix.scale(bounds[0], -1))
            for value in phase.needs:
                e.define(value, e.memory.load(kept[value], at))
            e.emit(Block([], phase.nodes, []))
            for value in phase.keeps:
                _keep(e, kept[value], at, e.scalar(value))
            return values

        if number % 2:
            vector_loop(e, argument, bounds, lanes, [], step, most=block)
        else:
            serial_loop(e, argument, bounds, [], step, most=block)


def _buffer(e: Emitter, value: int, count: int) -> Buffer:
    """Memory of this thread for a value of each point."""
    element = carried(e.body.types[value])
    memref = ir.MemRefType.get([count], stored_type(element))
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
        "alignment": ir.IntegerAttr.get(e.b.i64, 64),
    }
    made = e.b.value("memref.alloca", memref, [], attributes, 0)
    return Buffer(made, element, strided([1]), 1, e.b.level)


def _keep(e: Emitter, buffer: Buffer, at: Index, value: Scalar) -> None:
    if at.lanes and not value.lanes:
        value = Scalar(e.spread(value), True, value.level)
    e.memory.store(buffer, at, value)
