"""Factors of contractions that tensor descriptors load. A descriptor is a parameter of the kernel, after its pointers, which the launcher makes
of a pointer and of what stands here; beyond a size the hardware fills in zeros."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bascule.dialect.analysis.affine.linear_forms import linear
from bascule.dialect.analysis.bodies.nested_loops import inner_loops
from bascule.dialect.analysis.products.contractions import factors_of
from bascule.dialect.analysis.products.descriptors import descriptor_of
from bascule.dialect.errors import UserError
from bascule.dialect.ir.types import byte_width
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.schedule_form import DomainSchedule, LoopSchedule, refusal

from ..body.expressions import Expressions
from ..body.indexing import Indexing
from ..values.builder import Builder
from ..values.tiles import Tile


@dataclass(frozen=True)
class Descriptor:
    """The parameter: boxes of a tensor that begins `start` elements into `buffer`. Dims are slowest first, strides in elements."""

    buffer: ir.Value
    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    @property
    def type(self) -> ir.Type:
        return ir.Type.parse(f"!tt.tensordesc<{ir.RankedTensorType.get(self.box, self.element)}>")

    @property
    def element(self) -> ir.Type:
        return self.buffer.type.element_type

    def attribute(self, parameter: int) -> ir.DictAttr:
        """For the launcher; `parameter`: the number of the buffer's pointer."""
        i64 = ir.IntegerType.get_signless(64)
        numbers = {"parameter": ir.IntegerAttr.get(i64, parameter), "start": ir.IntegerAttr.get(i64, self.start)}
        lists = {name: ir.DenseI64ArrayAttr.get(getattr(self, name)) for name in ("sizes", "strides", "box")}
        return ir.DictAttr.get({**numbers, **lists, "element": ir.StringAttr.get(str(self.element))})


@dataclass(frozen=True)
class Described:
    """A load of a factor: where in the batch, of the domain's indices; the axis of the domain that its rows are along; whether memory runs
    along these (`is_transposed`)."""

    descriptor: Descriptor
    batch: tuple[ir.AffineExpr, ...]
    side: int
    is_transposed: bool

    def load(self, b: Builder, ix: Indexing, argument: ir.Value, rows: Tile, summed: Tile) -> ir.Value:
        """The piece whose rows, and what is summed, begin there."""
        matrix = (summed, rows) if self.is_transposed else (rows, summed)
        places = [*map(ix.evaluate, self.batch), *matrix]
        type_ = ir.RankedTensorType.get(self.descriptor.box[-2:], self.descriptor.element)
        return b.value("tt.descriptor_load", type_, [argument, *(_narrow(b, place.value) for place in places)])


def _narrow(b: Builder, index: ir.Value) -> ir.Value:
    """An index along one dim: 32 bits do for each."""
    return index if index.type == b.i32 else b.convert("arith.trunci", index, b.i32)


def described_in(
    expressions: Expressions, kernel: ir.Operation, domain: DomainSchedule, loose: Collection[ir.Value]
) -> dict[ir.Operation, Described]:
    """The loads of a kernel's own domain that tensor descriptors do: those that the schedule says, but of buffers that may begin anywhere
    (`loose`). Raises `UserError` for one that no descriptor can do."""
    found = {}
    for loop, op in zip(domain.loops, inner_loops(kernel)):
        factors = factors_of(op) if loop.descriptors else None
        for number in loop.descriptors:
            load = None if factors is None else load_of(factors[number], op)
            if load is None:
                raise _refusal(kernel, "it is computed, not read")
            if load.operands[0] not in loose:
                found[load] = _described(expressions, kernel, domain, loop, load)
    return found


def load_of(factor: ir.Value, loop: ir.Operation) -> ir.Operation | None:
    """The read at each point of `loop` that gives `factor`, under no condition; None: something else does."""
    if isinstance(factor.owner, ir.Block):
        return None
    op = factor.owner.operation
    return op if op.name == "memref.load" and op.block == loop.regions[0].blocks[0] else None


def _described(
    expressions: Expressions, kernel: ir.Operation, domain: DomainSchedule, loop: LoopSchedule, load: ir.Operation
) -> Described:
    def atoms(block: ir.Block, order: Sequence[int]) -> list[int]:
        arguments = list(block.arguments)
        return [expressions.of(arguments[dim]).position for dim in order]

    flat, axes = iter(atoms(kernel.regions[0].blocks[0], domain.order)), list[list[int]]()
    for count in domain.axes:
        axes.append([next(flat) for _ in range(count)])
    form, buffer = linear(expressions.address(load)), load.operands[0]
    side = len(axes) - (1 if any(map(form.varies, axes[-1])) else 2)
    runs = [*axes[:-2], axes[side], atoms(load.block, loop.order)]
    tensor = descriptor_of(form, runs, expressions.extents, byte_width(buffer.type.element_type))
    if isinstance(tensor, str):
        raise _refusal(kernel, tensor)
    matrix = (domain.tile[side], loop.step)
    box = (1,) * len(tensor.batch) + (matrix[::-1] if tensor.is_transposed else matrix)
    sizes, strides = (tuple(getattr(dim, name) for dim in tensor.dims) for name in ("size", "stride"))
    batch = tuple(dim.place for dim in tensor.batch)
    return Described(Descriptor(buffer, tensor.start, sizes, strides, box), batch, side, tensor.is_transposed)


def _refusal(kernel: ir.Operation, reason: str) -> UserError:
    return refusal(kernel, f"the schedule has a tensor descriptor for a factor without one: {reason}")
