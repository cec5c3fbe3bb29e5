"""The pass `gather-scatters`: of few rows, each sums what is added to it, and nothing is scattered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...analysis.affine.fastest_dim import fastest_dim
from ...ir import builders
from ...ir.regions import ops_in
from ...ir.shapes import constant, shape_of, tensor_type
from ...mlir import arith, ir
from ...scatters.row_scatters import RowScatter
from ...scatters.scatter_bodies import copied, start
from ..base import VALUES, Pass
from .scatter_replacement import Replacement, replace_scatters


@dataclass(frozen=True)
class GatherScatters(Pass):
    """Takes the tensor stage after `inline-producers`; leaves no scatter that adds many points to few rows, if sizes are static.

    Where a million points add to 32 rows (the gradient of a relative position bias, a histogram), atomic additions wait for one another.
    Here each element of the destination is computed as the sum, over all points, of what those add whose row it is in, and of zero for the
    others: `split-reductions` cuts that into chunks, and a program reads its chunk once for all rows
    (`dialect/scheduling/gpu/shared_sums.py`). No order varies, so it also serves a scatter marked `bascule.ordered`.

    It is done where rows are whole, chosen by one index of dim 0, and where by the costs in `dialect/scatters/row_scatters.py` it saves
    the time in which `least` bytes are moved, or more; `always` does it wherever it can be.

    For a GPU only: on a CPU points run in order, and nothing is atomic.
    """

    name: ClassVar[str] = "gather-scatters"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    least: int = 1 << 23
    always: bool = False

    def run(self, module: ir.Module) -> None:
        replace_scatters(module, self.name, self.target, lambda graph: self._replacement)

    def _replacement(self, op: ir.Operation) -> Replacement | None:
        scatter = RowScatter.of(op, 1)
        if isinstance(scatter, str):
            return None
        sizes = [constant(size) for size in (*scatter.ranges, *shape_of(scatter.init))]
        saved = scatter.saved_by_gathering
        if None in sizes or not (self.always or saved >= self.least):
            return None
        rows = constant(shape_of(scatter.init)[0])
        return Replacement(f"as sums of {rows} rows", saved, lambda: _gathered(scatter))


def _gathered(scatter: RowScatter) -> ir.Value:
    """The scatter's result: each element is that of the init and the sum of what the points add to it."""
    block, ranges, type_ = scatter.block, scatter.ranges, scatter.value.type
    floats = isinstance(type_, ir.FloatType)
    values = _values(scatter) if scatter.reduces else None

    def element(at: list[ir.Value]) -> ir.Value:
        def added(points: Sequence[ir.Value]) -> ir.Value:
            inside = dict(zip((block.arguments[d] for d in scatter.points), points))
            inside |= {block.arguments[d]: i for d, i in zip(scatter.inner, at[1:]) if d is not None}
            row, *dropped = copied([scatter.row, *(scatter.dropped or ())[:1]], block, inside)
            here = arith.cmpi(arith.CmpIPredicate.eq, row, at[0])
            zero = arith.constant(type_, 0.0 if floats else 0)
            if values is not None:
                value = values.read([inside[argument] for argument in list(block.arguments)[: len(ranges)]])
            else:
                (value,) = copied([scatter.value], block, inside)
            if scatter.dropped is not None:
                value = arith.select(dropped[0], *((zero, value) if scatter.dropped[1] else (value, zero)))
            return arith.select(here, value, zero)

        (total,) = builders.reduce("sum", [ranges[d] for d in scatter.points], type_, added)
        return (arith.addf if floats else arith.addi)(start(scatter.init, at), total)

    return builders.compute(scatter.op.results[0].type, shape_of(scatter.init), element)


def _values(scatter: RowScatter) -> "_Values":
    """Materializes the added values as a tensor: the sums of all rows read it, and it is computed once."""
    block, ranges = scatter.block, scatter.ranges
    inner = [d for d in range(len(ranges)) if d not in scatter.points]
    order = [*inner, *scatter.points] if _reads_along_points(scatter) else [*scatter.points, *inner]
    sizes = [ranges[d] for d in order]

    def body(at: list[ir.Value]) -> ir.Value:
        return copied([scatter.value], block, {block.arguments[d]: index for d, index in zip(order, at)})[0]

    return _Values(builders.compute(tensor_type(sizes, scatter.value.type), sizes, body), order)


@dataclass(frozen=True)
class _Values:
    """A tensor whose dims are those of a scatter's domain in another order."""

    tensor: ir.Value
    order: list[int]

    def read(self, at: Sequence[ir.Value]) -> ir.Value:
        """The element at a point of the domain."""
        return builders.read(self.tensor, [at[d] for d in self.order])


def _reads_along_points(scatter: RowScatter) -> bool:
    """Whether memory of most of what is added runs along the points, not along the row: as it is read, so it is written."""
    votes = 0
    for op in ops_in(scatter.op):
        if op.name == "tensor.extract" and (dim := fastest_dim(op.operands[0].type)) is not None:
            found = [d for d in range(len(scatter.ranges)) if scatter.block.arguments[d] == op.operands[1 + dim]]
            votes += sum(1 if d in scatter.points else -1 for d in found)
    return votes > 0
