"""A contraction in a walk: pieces of both operands, multiplied and added up by tensor cores (`tt.dot`)."""

from collections.abc import Mapping

from bascule.dialect.analysis.affine.linear_forms import dims_of
from bascule.dialect.analysis.bodies.backward_slice import needed
from bascule.dialect.analysis.products.contractions import WHOLE, WIDENINGS, factors_of, is_tf32
from bascule.dialect.analysis.products.cut_sums import cut_sum
from bascule.dialect.ir.attribute_names import PARTIAL_SUMS
from bascule.dialect.ir.regions import end_of
from bascule.dialect.ir.types import byte_width
from bascule.dialect.mlir import ir

from ..body.emitter import Loop, unsupported
from ..values.approximations import TO_TF32, instruction
from ..values.builder import Builder, element
from ..values.reduction_kinds import Values
from ..values.tiles import Axes, Axis, Tile, spread, union
from .descriptors import load_of
from .loop_body import LoopBody
from .loop_kinds import Walker

NARROW = 2  # bytes of factors that tensor cores multiply, at most
FIRST = 64  # rows of the first factor of an instruction on sm_90
TF32, IEEE = 0, 2  # Triton's numbers for products of f32 that are rounded before, and as they are


class ContractionWalker(Walker):
    """A sum of products of two operands, one over the rows and the loop's axis, the other over the columns and that. It carries the sums."""

    def __init__(self, emitter: LoopBody, op: ir.Operation, loop: Loop):
        super().__init__(emitter, op, loop)
        self.cut = cut_sum(op)
        if self.cut is not None and not emitter.plan[op].skip:
            raise unsupported(op, "a schedule that goes beyond the end of a sum that is cut, on tensor cores")
        factors = factors_of(op) if self.cut is None else self.cut.factors
        if factors is None or loop.axis is None or len(self.outside) < 2 or op.attributes["kind"].value != "sum":
            raise unsupported(op, "a schedule for tensor cores of what is no sum of products of rows and columns")
        # Rows and columns: of the domain, or in a walk the domain's rows and the points of the walk.
        self.sides = (self.outside[-3], self.outside[-1]) if len(self.outside) > 2 else self.outside
        self.factors, self.total = factors, emitter.checked(op, op.results[0].type)
        partial = op.attributes[PARTIAL_SUMS].value if PARTIAL_SUMS in op.attributes else 0
        # Triton adds up what a step sums, or nothing apart.
        self.partial = partial if partial >= WHOLE else min(partial, loop.axis.extent)
        self.precision = precision_of(op)
        self.state: Values = []
        found = {factor: load_of(factor, op) for factor in factors}
        self.loads = {factor: load for factor, load in found.items() if load in emitter.described}
        if self.precision == IEEE and any(isinstance(factor.type, ir.F32Type) for factor in self.loads):
            raise unsupported(op, "a tensor descriptor for a factor of f32, which it would round to TF32,")
        self.pads = len(self.loads) == len(factors)
        self.turned = self._is_turned()

    def _is_turned(self) -> bool:
        """Whether the factor of columns is the first of an instruction: where it alone passes through registers, for these hold the first; and
        where there are too few rows for one."""
        rows, columns = self.sides
        wide = any(byte_width(factor.type) > NARROW for factor in self.factors)
        if len(self.outside) > 2 or (wide and self.precision == IEEE):
            return False
        # One of TF32 that no descriptor rounds goes through registers.
        passing = [
            each for each in self.factors if (each not in self.loads if wide else load_of(each, self.op) is None)
        ]
        if len(passing) != 1:
            return not wide and rows.extent < FIRST <= columns.extent
        e, loads = self.e, [op for op in needed(passing, self.block).ops if op.name == "memref.load"]
        atoms = e.domain.intersection(*[dims_of(e.expressions.address(load)) for load in loads])
        return any(columns in e.ix.at[atom]().axes for atom in atoms)

    @property
    def whole_width(self) -> int:
        return 1

    def start(self) -> Values:
        rows, columns = self.sides
        sizes = [columns.extent, rows.extent] if self.turned else [rows.extent, columns.extent]
        return [_zeros(self.e.b, ir.RankedTensorType.get(sizes, self.total))]

    def step(self, values: Values, position: Tile, bound: Tile | None) -> Values:
        b = self.e.b
        x, y = self._operands(position, bound)
        (total,) = values or self.start()
        first, second = (y, x) if self.turned else (x, y)
        return [product_of(b, first, second, total, self.partial, self.precision)]

    def _operands(self, position: Tile, bound: Tile | None) -> Values:
        """The pieces of the factors, rows x summed and columns x summed; 0 beyond what is summed."""
        e, b, tiles = self.e, self.e.b, []
        # What is beyond the end of a sum that is cut is there: no descriptor leaves it out.
        loads = {} if self.cut is not None and bound is not None else self.loads
        # In a walk of others zeros come with a read: chosen afterwards, they would hold the whole piece in registers.
        filled = bound is not None and len(self.outside) > 2 and self.cut is None
        with e.memory.filled(0.0 if filled else e.memory.filling):
            for op in self._computed(loads):
                e._op(op)
        axis = self.loop.axis
        assert axis is not None
        for factor in self.factors:
            if factor in loads:
                tiles.append(self._described(self.loads[factor], position))
                continue
            tile = e.tile(factor)
            sides = [side for side in self.sides if side in tile.axes]
            if len(sides) != 1:
                raise unsupported(self.op, "a factor of both rows and columns, or of neither, on tensor cores")
            read = filled and load_of(factor, self.op) is not None and axis in tile.axes
            value = self._inside(tile, (sides[0], axis), None if read else bound)
            tiles.append((sides[0], rounded(b, value, self.precision)))
        (first, _), (second, _) = tiles
        if first == second:
            raise unsupported(self.op, "two factors of rows, or of columns, on tensor cores")
        return [value for _, value in sorted(tiles, key=lambda pair: pair[0])]

    def _computed(self, loads: Mapping[ir.Value, ir.Operation]) -> list[ir.Operation]:
        """The ops of the loop that the factors without a descriptor's load are computed by."""
        if self.cut is not None:
            return needed([factor for factor in self.factors if factor not in loads], self.block).ops
        term = end_of(self.block).operands[0].owner
        skipped = {term.operation, *self._widenings(term.operation), *loads.values()}
        ops = [view.operation for view in self.block.operations]
        return [op for op in ops if op not in skipped and op.name != "bascule.yield"]

    def _described(self, load: ir.Operation, position: Tile) -> tuple[Axis, ir.Value]:
        """The side that a factor varies along, and its piece, by a tensor descriptor: 0 beyond what is summed, and beyond the side."""
        described = self.e.described[load]
        value = described.load(self.e, position)
        side = next((side for side in self.sides if side.order == described.axis), self.sides[1])
        return side, transposed(self.e.b, value) if described.is_transposed else value

    def _widenings(self, term: ir.Operation) -> set[ir.Operation]:
        """The ops that widen factors for the product alone."""
        made = {operand.owner.operation for operand in term.operands if not isinstance(operand.owner, ir.Block)}
        return {op for op in made if op.name in WIDENINGS and op.operands[0] in self.factors}

    def _inside(self, tile: Tile, axes: Axes, bound: Tile | None) -> ir.Value:
        b, axes = self.e.b, union(axes)
        value = spread(b, tile, axes)
        if bound is None:
            return value
        return b.select(spread(b, bound, axes), value, _zeros(b, value.type))

    def finish(self, states: list[Values]) -> None:
        self.state = states[0]
        if len(states) > 1:
            raise unsupported(self.op, "a contraction of several tiles that are held")

    def leave(self) -> None:
        total = self.state[0]
        self.e.env[self.op.results[0]] = Tile(transposed(self.e.b, total) if self.turned else total, self.sides)


def precision_of(op: ir.Operation) -> int:
    """That of the factors of f32 that `op` sums the products of."""
    return TF32 if is_tf32(op) else IEEE


def rounded(b: Builder, value: ir.Value, precision: int) -> ir.Value:
    """A factor in its `precision`, where tensor cores would drop bits; a descriptor's load rounds by itself."""
    f32 = isinstance(element(value.type), ir.F32Type)
    return instruction(b, TO_TF32, value) if f32 and precision == TF32 else value


def _zeros(b: Builder, type_: ir.Type) -> ir.Value:
    return b.constant(type_, 0 if isinstance(element(type_), ir.IntegerType) else 0.0)


def product_of(
    b: Builder, x: ir.Value, y: ir.Value, total: ir.Value, partial: int = 0, precision: int = IEEE
) -> ir.Value:
    """total + x @ y.T, rows x summed by columns x summed."""
    return dot(b, x, transposed(b, y), total, partial, precision)


def dot(b: Builder, x: ir.Value, y: ir.Value, total: ir.Value, partial: int = 0, precision: int = IEEE) -> ir.Value:
    """total + x @ y. `partial`: elements whose sum may have fewer bits before it is added to `total`; `precision`: of factors of f32."""
    attributes = {"inputPrecision": b.number(b.i32, precision), "maxNumImpreciseAcc": b.number(b.i32, partial)}
    return b.value("tt.dot", total.type, [x, y, total], attributes)


def transposed(b: Builder, value: ir.Value) -> ir.Value:
    rows, columns = value.type.shape
    type_ = ir.RankedTensorType.get([columns, rows], element(value.type))
    return b.value("tt.trans", type_, [value], {"order": ir.DenseI32ArrayAttr.get([1, 0])})
