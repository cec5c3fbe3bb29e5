"""The pass `expand-products`: matrix products of few rows or columns, and outer products, become computes."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ...analysis.memory.buffers import ALIASES
from ...analysis.memory.matmul_operands import Product, runs_along
from ...analysis.products.contractions import TF32, before_widening
from ...fusion.joined_products import joined_products
from ...ir import builders
from ...ir.attribute_names import FUSED, INPUT_PRECISION, TUNED_PRODUCT
from ...ir.functions import CHUNK_ROWS, STORED, graph_functions, replace_extern_calls
from ...ir.shapes import constant, expr, shape_of, tensor_type
from ...ir.types import rounding_mode
from ...mlir import arith, ir
from ...remarks.attribute import add_remark, keep_remarks, place
from ...remarks.record import MISSED, PASSED, Place, Remark
from ...scheduling.gpu.machine import H200, LARGE
from ...scheduling.gpu.tuned_products import is_kernel
from ..base import VALUES, Pass, check_target
from ..graph_walk import GraphWalk
from .read_products import read_products

FEW = 8  # rows of a product up to which it is told why it is not expanded
# The compute capability from which on two products that are joined are one kernel: 0.83 to 0.96 of the time of two calls and a kernel (H200,
# 2026-11-26, `python -m benchmarks.products --only joined`), by pointers 1.1.
JOINED = 90
FUSED_SINCE = 80  # the compute capability from which on there are kernels of attention
LONG = 1 << 13  # elements that are summed, up to which registers hold a row of the matrix for several rows


@dataclass(frozen=True)
class ExpandProducts(Pass):
    """Takes the tensor stage as `torch-to-bascule` leaves it. On `target` cuda calls of `aten.mm`, `bmm`, `addmm` and `baddbmm` on floats become
    computes where tensor cores are of no use:

    - a product of up to `rows` rows by a matrix, or of a matrix by so few columns: it takes as long as reading the matrix, and what is computed
      from the result (a bias, an activation, the next residual sum) can go along. An expanded matrix whose rows are all one has one. Sizes are
      static, and memory runs along what is summed: the weight of a linear layer, (N, K), seen transposed. With `across` also where memory runs
      along the results (a matrix (K, N)): sums of columns. Of three rows or more, and of (K, N), cuBLAS is as fast;
    - an outer product, whose inner size is 1: pointwise;
    - with `contractions`, any other product of f16 or bf16, and with `tf32` (PyTorch allows that) of f32, for tensor cores: what
      is computed from its elements can go along.
      Without it those that are marked `bascule.fused`, of f32 too: the products of an attention, for `fuse-attention` and `fuse-products`; and,
      from `capability` 90 on, with enough tiles for `sm-count` multiprocessors, two of one matrix that a pointwise op joins, as
      `silu(x @ w) * (x @ v)`, and what pointwise computes alone read, as `gelu(x @ w)`, where a model of the kernel and of the call takes less
      time so (remarks have both), but in the graphs of a training step (`trained`): which products are saved there depends on the memory budget,
      and all budgets give the same numbers; and those that are marked `bascule.tuned_product`, which `max_autotune` has measured as kernels.
      The mark goes to the sum; where it is false the product stays a call. So it does where a matrix is expanded, but along its batch.

    Products of f16 and bf16 are summed in f32 and rounded once, with what is added; those of f32 are summed in f32, of few rows exactly,
    whatever PyTorch allows cuBLAS (TF32, sums in f16). Where tensor cores round factors to TF32, the sum has `bascule.input_precision`. A
    product in f32 of matrices that are widened from f16 or bf16 is one of these matrices, unrounded. With `numerics=eager` no pass removes a
    rounding. A product of up to 8 rows that stays a call has a remark that says why.
    """

    name: ClassVar[str] = "expand-products"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    numerics: str = "f32"
    across: bool = False
    rows: int = 2
    contractions: bool = False
    tf32: bool = False
    trained: bool = False
    sm_count: int = H200.sm_count
    capability: int = H200.capability

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu":
            return
        with module.context:
            if self.capability >= JOINED and self.numerics != "eager":
                for graph in graph_functions(module):
                    self._choose(module, graph)
            replace_extern_calls(module, self._expand)

    def _choose(self, module: ir.Module, graph: ir.Operation) -> None:
        """Marks the products of a graph that are kernels with what reads them."""
        ops = GraphWalk(graph).ops
        for call in joined_products(module, ops, self.sm_count):
            call.attributes[FUSED] = ir.UnitAttr.get()
        if self.contractions or self.trained or CHUNK_ROWS in graph.attributes:
            return
        taken = list[ir.Operation]()  # computes that are in the kernel of a product: that which saves most
        for read in sorted(read_products(module, ops, self.sm_count), key=lambda read: read.fused - read.called):
            call, told = read.product.op, str(read)
            if joins := any(compute in taken for compute in read.computes):
                told += "; that is computed with another product"
            if chosen := read.is_kernel and not joins:
                taken += read.computes
                call.attributes[TUNED_PRODUCT] = ir.UnitAttr.get()
            decision = f"with what reads it is {'a' if chosen else 'no'} kernel"
            _note(call, place(call), PASSED if chosen else MISSED, decision, told)

    def _expand(self, op: ir.Operation, function: ir.Operation) -> bool:
        product = Product.of(op, function)
        product = None if product is None else unwidened(product)
        tuned = is_kernel(op)
        fused = FUSED in op.attributes and self.capability >= FUSED_SINCE
        whole = product is not None and (tuned or self._is_contraction(product, fused))
        refusal = "" if product is None or whole else self._refusal(product)
        if product is None or refusal is None:
            return False
        if refusal:
            _note(op, place(op), MISSED, "of few rows stays a call", refusal)
            return False
        with ir.InsertionPoint(op), op.location:
            rounding = rounding_mode(kept=self.numerics == "eager")
            value = _Expansion(product, rounding, whole, self._rounds(product) and whole).build()
        sizes = "x".join("?" if (size := constant(s)) is None else str(size) for s in product.sizes)
        if tuned:
            _as_measured(product, value.owner.operation)
        else:
            _note(value.owner.operation, place(op), PASSED, "expanded", f"{sizes} (rows, summed, columns)")
        op.results[0].replace_all_uses_with(value)
        operands = dict.fromkeys(op.operands)
        op.erase()
        for operand in operands:  # what widened one of them is read by nothing now
            if _before_widening(operand) is not None and next(iter(operand.uses), None) is None:
                operand.owner.erase()
        return True

    def _refusal(self, product: Product) -> str | None:
        """Why a product stays a call, where one would ask; None where nobody would; "" if it is expanded."""
        inner, (rows, columns) = constant(product.sizes[1]), map(constant, product.distinct)
        if not isinstance(product.result.type.element_type, ir.FloatType) or product.x.type.element_type.width < 16:
            return None
        if inner == 1:
            return ""
        few = min((size for size in (rows, columns) if size is not None), default=FEW + 1)
        if few > FEW:
            return None
        if few > self.rows:
            return f"it has {few}, more than {self.rows}"
        sizes = [constant(size) for value in (product.x, product.y) for size in shape_of(value)]
        if few > 1 and inner is not None and inner > LONG:
            return f"it has {few}, of more than {LONG} elements"
        if None in sizes:
            return "its sizes are not known"
        if 0 in sizes:
            return None
        if not _along(product) and not self.across:
            return "memory does not run along what is summed"
        return ""

    def _is_contraction(self, product: Product, fused: bool) -> bool:
        sizes = list(map(constant, product.sizes))
        element = product.x.type.element_type
        wide = isinstance(element, ir.F32Type) and (fused or self.tf32)
        multiplied = wide or (isinstance(element, ir.FloatType) and element.width == 16)
        fewest = (1 if fused else FEW, FEW, FEW)  # an attention takes few rows of a query over a long cache
        enough = all(size is None or size > few for size, few in zip(sizes, fewest))
        return (self.contractions or fused) and multiplied and enough and product.has_sides

    def _rounds(self, product: Product) -> bool:
        """Whether the factors of a contraction are rounded to TF32."""
        return self.tf32 and isinstance(product.x.type.element_type, ir.F32Type)


def _as_measured(product: Product, compute: ir.Operation) -> None:
    """Has the sum in `compute`, which `product` becomes, tell the schedule that was measured for the call; its factors are read from memory, as
    they were then."""
    keep_remarks(compute, [product.op])
    for view in compute.regions[0].blocks[0].operations:
        if view.operation.name == "bascule.reduce":
            view.operation.attributes[TUNED_PRODUCT] = product.op.attributes[TUNED_PRODUCT]
    for value in (product.x, product.y):
        while not isinstance(value.owner, ir.Block) and value.owner.name in ALIASES:
            value = value.owner.operands[0]
        if not isinstance(value.owner, ir.Block) and value.owner.name == "bascule.compute":
            value.owner.operation.attributes[STORED] = ir.UnitAttr.get()


def unwidened(product: Product) -> Product:
    """`product` of the matrices that both of its operands are widened from: their elements are the same numbers."""
    x, y = (_before_widening(value) for value in (product.x, product.y))
    if x is None or y is None or x.type.element_type != y.type.element_type:
        return product
    return replace(product, x=x, y=y)


def _before_widening(value: ir.Value) -> ir.Value | None:
    """The tensor of 16-bit numbers that a compute widens to `value`, element by element; None if something else makes it."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "bascule.compute":
        return None
    (block,) = owner.regions[0].blocks
    ops = [view.operation for view in block.operations]
    if [op.name for op in ops] != ["tensor.extract", "arith.extf", "bascule.yield"]:
        return None
    source, *indices = ops[0].operands
    same = indices == list(block.arguments) and source.type.shape == value.type.shape
    return source if same and before_widening(ops[1].results[0]) != ops[1].results[0] else None


def _few_dim(product: Product) -> int:
    """The dim of a product's result that has fewer rows or columns."""
    rows, columns = (LARGE if (size := constant(s)) is None else size for s in product.distinct)
    return product.result.type.rank - (2 if rows <= columns else 1)


def _along(product: Product) -> bool:
    """Whether memory runs along what is summed, in the larger matrix."""
    rank = product.result.type.rank
    if _few_dim(product) == rank - 1:
        return runs_along(product.x, rank - 1)
    return runs_along(product.y, rank - 2)


@dataclass(frozen=True)
class _Expansion:
    """The computes that a product is. `rounding`: attributes of the roundings of its elements; `whole`: one compute has all rows; `tf32`:
    factors are rounded to that."""

    product: Product
    rounding: dict[str, ir.Attribute]
    whole: bool
    tf32: bool

    @property
    def wide(self) -> ir.Type:
        """The type that is summed in."""
        element = self.product.result.type.element_type
        return ir.F32Type.get() if element.width < 32 else element

    def build(self) -> ir.Value:
        """The product, made at the insertion point: of several rows (columns), of the sums of each, which one kernel computes: so the matrix is
        read once."""
        result, dim = self.product.result, _few_dim(self.product)
        apart = constant(self.product.sizes[1]) != 1 and not self.whole
        few = constant(self.product.distinct[0 if dim == result.type.rank - 2 else 1]) if apart else 1
        assert few is not None, "a product of sizes that are not known"
        repeats = apart and constant(shape_of(result)[dim]) != few  # one row is all of them
        parts = [self._part(dim, n) for n in range(few)] if few > 1 or repeats else []
        return builders.compute(
            result.type, shape_of(result), lambda at: self._finished(self._chosen(parts, dim, at), at)
        )

    def _part(self, dim: int, number: int) -> ir.Value:
        """The sums of one row or column."""
        sizes = shape_of(self.product.result)
        sizes[dim] = expr(1)

        def body(at: list[ir.Value]) -> ir.Value:
            return self._sum([*at[:dim], arith.constant(ir.IndexType.get(), number), *at[dim + 1 :]])

        return builders.compute(tensor_type(sizes, self.wide), sizes, body)

    def _chosen(self, parts: list[ir.Value], dim: int, at: list[ir.Value]) -> ir.Value:
        if not parts:
            return self._sum(at)
        zero = arith.constant(ir.IndexType.get(), 0)
        first, *others = [builders.read(part, [*at[:dim], zero, *at[dim + 1 :]]) for part in parts]
        for number, value in enumerate(others, 1):
            here = arith.cmpi(arith.CmpIPredicate.eq, at[dim], arith.constant(ir.IndexType.get(), number))
            first = arith.select(here, value, first)
        return first

    def _sum(self, at: list[ir.Value]) -> ir.Value:
        *batch, row, column = at
        x, y, (_, inner, _) = self.product.x, self.product.y, self.product.sizes

        def term(k: ir.Value) -> ir.Value:
            return arith.mulf(self._read(x, [*batch, row, k]), self._read(y, [*batch, k, column]))

        if constant(inner) == 1:
            return term(arith.constant(ir.IndexType.get(), 0))
        (total,) = builders.reduce("sum", [inner], self.wide, lambda k: term(*k))
        if self.tf32:
            total.owner.attributes[INPUT_PRECISION] = ir.StringAttr.get(TF32)
        return total

    def _finished(self, total: ir.Value, at: list[ir.Value]) -> ir.Value:
        """The element that a sum gives: scaled, with what is added, rounded."""
        added, wide = self.product.added, self.wide
        total = self._scaled(total, self.product.factor)
        if added is not None and self.product.added_factor != 0:
            total = arith.addf(total, self._scaled(self._read(added, _places(added, at)), self.product.added_factor))
        element = self.product.result.type.element_type
        return total if wide == element else arith.truncf(element, total, **self.rounding)

    def _read(self, source: ir.Value, at: list[ir.Value]) -> ir.Value:
        value = builders.read(source, at)
        return value if value.type == self.wide else arith.extf(self.wide, value)

    def _scaled(self, value: ir.Value, factor: int | float) -> ir.Value:
        return value if factor == 1 else arith.mulf(value, arith.constant(self.wide, float(factor)))


def _places(value: ir.Value, at: list[ir.Value]) -> list[ir.Value]:
    """Where a tensor that broadcasts has the element at an index of the result."""
    sizes = shape_of(value)
    last = at[len(at) - len(sizes) :]
    return [arith.constant(ir.IndexType.get(), 0) if constant(size) == 1 else i for size, i in zip(sizes, last)]


def _note(op: ir.Operation, product: Place, kind: str, decision: str, reason: str) -> None:
    add_remark(op, Remark(ExpandProducts.name, kind, decision, reason, product))
