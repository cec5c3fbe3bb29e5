"""Factors of contractions that tensor descriptors load. A descriptor is a parameter of the kernel, after its pointers, which the launcher makes
of a pointer and of what stands here; beyond a size the hardware fills in zeros."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bascule.dialect.analysis.affine.linear_forms import Step, linear
from bascule.dialect.analysis.bodies.nested_loops import inner_loops
from bascule.dialect.analysis.products.contractions import TF32
from bascule.dialect.analysis.products.cut_sums import read_factor
from bascule.dialect.analysis.products.descriptors import descriptor_of
from bascule.dialect.analysis.products.segments import segment_numbers
from bascule.dialect.errors import UserError
from bascule.dialect.ir.shapes import expr, size_map
from bascule.dialect.ir.types import byte_width
from bascule.dialect.mlir import ir
from bascule.dialect.scheduling.gpu.schedule_form import DomainSchedule, LoopSchedule, refusal

from ..body.expressions import Expressions
from ..body.indexing import Indexing
from ..values.builder import Builder
from ..values.tiles import Tile


@dataclass(frozen=True)
class Descriptor:
    """The parameter: boxes of a tensor that begins `start` elements into `buffer`. Dims are slowest first, strides in elements; both may be of
    the function's symbols."""

    buffer: ir.Value
    start: int
    sizes: tuple[Step, ...]
    strides: tuple[Step, ...]
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
        lists = {name: _numbers(getattr(self, name)) for name in ("sizes", "strides", "box")}
        element = (
            TF32 if isinstance(self.element, ir.F32Type) else str(self.element)
        )  # those of f32 are of products in TF32
        return ir.DictAttr.get({**numbers, **lists, "element": ir.StringAttr.get(element)})


def _numbers(numbers: Sequence[Step]) -> ir.Attribute:
    """Numbers, or a map of the function's symbols."""
    known = [number for number in numbers if isinstance(number, int)]
    return ir.DenseI64ArrayAttr.get(known) if len(known) == len(numbers) else ir.AffineMapAttr.get(size_map(numbers))


@dataclass(frozen=True)
class Described:
    """A load of a factor: where in the batch, of the indices around; the axis of the domain that its rows are along (None: they are the walk's
    around, of index `walked`); whether memory runs along these (`is_transposed`)."""

    descriptor: Descriptor
    batch: tuple[ir.AffineExpr, ...]
    axis: int | None
    walked: int
    is_transposed: bool

    def load(self, e: "Reader", summed: Tile) -> ir.Value:
        """The piece whose rows begin where the tile does, or the step at hand, and what is summed at that of `summed`."""
        starts = e.ix.starts
        rows = starts[e.ix.at[self.walked]().value] if self.axis is None else e.origins[self.axis]
        matrix = (starts[summed.value], rows) if self.is_transposed else (rows, starts[summed.value])
        places = [_narrow(e.b, place.value) for place in (*map(e.ix.evaluate, self.batch), *matrix)]
        type_ = ir.RankedTensorType.get(self.descriptor.box[-2:], self.descriptor.element)
        return e.b.value("tt.descriptor_load", type_, [e.descriptors[self.descriptor], *places])


class Reader(Protocol):
    """The body that a load is in. `origins`: where the program's tile begins along each axis of the domain."""

    b: Builder
    ix: Indexing
    origins: list[Tile]
    descriptors: Mapping[Descriptor, ir.Value]


def _narrow(b: Builder, index: ir.Value) -> ir.Value:
    """An index along one dim: 32 bits do for each."""
    return index if index.type == b.i32 else b.convert("arith.trunci", index, b.i32)


def load_of(factor: ir.Value, loop: ir.Operation) -> ir.Operation | None:
    """The read at each point of `loop` that gives `factor`, under no condition; None: something else does."""
    if isinstance(factor.owner, ir.Block):
        return None
    op = factor.owner.operation
    return op if op.name == "memref.load" and op.block == loop.regions[0].blocks[0] else None


@dataclass(frozen=True)
class DescribedLoads:
    """The loads of a kernel's own domain that tensor descriptors do: those that the schedule says, but of buffers that may begin anywhere
    (`loose`)."""

    expressions: Expressions
    kernel: ir.Operation
    domain: DomainSchedule
    loose: Collection[ir.Value]

    def found(self) -> dict[ir.Operation, Described]:
        """Raises `UserError` for one that no descriptor can do."""
        return dict(self._among(self.domain.loops, self.kernel, None))

    def _among(
        self, loops: Sequence[LoopSchedule], op: ir.Operation, around: LoopSchedule | None
    ) -> Iterator[tuple[ir.Operation, Described]]:
        for loop, inner in zip(loops, inner_loops(op)):
            for number in loop.descriptors:
                value = read_factor(inner, number)
                load = None if value is None else load_of(value, inner)
                if load is None:
                    raise self._refusal("it is computed, not read")
                if load.operands[0] not in self.loose:
                    yield load, self._described(loop, around, load)
            yield from self._among(loop.loops, inner, loop)

    def _described(self, loop: LoopSchedule, around: LoopSchedule | None, load: ir.Operation) -> Described:
        form, buffer = linear(self.expressions.address(load)), load.operands[0]
        axes, walk = self._axes(), [] if around is None else self._atoms(load.block.owner.parent, around.order)
        walks = around is not None and around.step > 1 and any(map(form.varies, walk))
        axis = len(axes) - (1 if any(map(form.varies, axes[-1])) else 2)
        rows, extent = (walk, around.step) if around is not None and walks else (axes[axis], self.domain.tile[axis])
        batch = axes[:-2] if walks else [*axes[:-2], walk]
        numbers = {self.expressions.of(n).position: expr(m) for n, m in segment_numbers(load.operands[1:]).items()}
        runs = [*([number] for number in numbers), *batch, rows, self._atoms(load.block.owner, loop.order)]
        sizes = {**self.expressions.extents, **numbers}
        tensor = descriptor_of(form, runs, sizes, byte_width(buffer.type.element_type))
        if isinstance(tensor, str):
            raise self._refusal(tensor)
        matrix = (extent, loop.step)
        box = (1,) * len(tensor.batch) + (matrix[::-1] if tensor.is_transposed else matrix)
        extents, strides = (tuple(getattr(dim, name) for dim in tensor.dims) for name in ("size", "stride"))
        places = tuple(dim.place for dim in tensor.batch)
        descriptor = Descriptor(buffer, tensor.start, extents, strides, box)
        return Described(descriptor, places, None if walks else axis, rows[-1], tensor.is_transposed)

    def _axes(self) -> list[list[int]]:
        """The indices of each axis of the domain."""
        flat = iter(self._atoms(self.kernel, self.domain.order))
        return [[next(flat) for _ in range(count)] for count in self.domain.axes]

    def _atoms(self, loop: ir.Operation, order: Sequence[int]) -> list[int]:
        arguments = list(loop.regions[0].blocks[0].arguments)
        return [self.expressions.of(arguments[dim]).position for dim in order]

    def _refusal(self, reason: str) -> UserError:
        return refusal(self.kernel, f"the schedule has a tensor descriptor for a factor without one: {reason}")
