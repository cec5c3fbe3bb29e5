"""The pass `expand-grouped-products`: grouped products, as of a mixture of experts, become computes with what reads them."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ...analysis.memory.matmul_operands import has_sides
from ...analysis.products.contractions import TF32
from ...analysis.products.grouped_products import GroupedProduct, GroupedSums, grouped_product
from ...analysis.products.looped_products import LoopedProduct
from ...fusion.joined_products import seen
from ...ir.attribute_names import FUSED, INPUT_PRECISION
from ...ir.functions import STORED, graph_functions, replace_extern_calls
from ...ir.regions import ops_in
from ...ir.types import byte_width
from ...mlir import ir
from ...remarks.attribute import add_remark, place
from ...remarks.record import MISSED, PASSED, Remark
from ...scheduling.gpu.contractions import LEAST
from ...scheduling.gpu.contractions import PIECE as LONG
from ...scheduling.gpu.machine import H200
from ..base import VALUES, Pass, check_target
from ..graph_walk import GraphWalk
from .grouped_bodies import GroupedBodies
from .grouped_uses import GroupedUse, joined_grouped, use_of, whole_use
from .pointwise_tails import laid

SINCE, DESCRIBED = 80, 90  # the compute capabilities of tensor cores that multiply bf16, and of tensor descriptors


@dataclass(frozen=True)
class ExpandGroupedProducts(Pass):
    """Takes the tensor stage as `torch-to-bascule` leaves it. On `target` cuda calls of `aten._grouped_mm` of rows that are in groups (2 dims by
    3, f16, bf16 or f32, static sizes, offsets, no bias) become computes for tensor cores: element (m, n) is the sum over k of
    `x[m, k] * w[g, k, n]`, where g is a count of the offsets that are at most m. What reads it pointwise, at its own element or at that of one
    half of its columns, goes along.

    They do from `capability` 90 on, where pointwise computes alone read the result, and

    - two of one matrix and the same offsets meet in one of these computes, as in `silu(x @ w[g]) * (x @ v[g])`, and are not in memory; or
    - one is read alone. The halves of its columns that meet are two computes; they are laid beside each other where it is in memory;

    where ATen's product, and writing and reading the result, or reading it where it is in memory for something else, are estimated to take
    longer than a kernel (`dialect/scheduling/gpu/product_costs.py`), with a tile for each of `sm-count` multiprocessors and, of each group, rows
    for several tiles on average. With `always` all do, from 80 on, and so do those whose sums are in groups (2 dims by 2), as the gradients of
    the matrices.

    A call that is a loop on the host, which waits for the offsets, is a compute where its kernel is estimated to take no longer: `_grouped_mm`,
    but of bf16, and `bascule.grouped_mm`, which is such a loop of any float. With `tf32` (PyTorch allows that) sums of f32 are
    `bascule.input_precision = "tf32"`; where these are in groups one factor lies along the sum, the smaller one as a copy if neither does.

    Sums are in f32 and rounded once. Rows after the last offset are zeros before what reads them (in eager they are not written). With
    `index-asserts` a small kernel before asserts that offsets are no rows beyond the last, and do not decrease: where a kernel of tensor cores
    asserts anything, they wait for each instruction. What stays a call has a remark that says why.
    """

    name: ClassVar[str] = "expand-grouped-products"
    takes: ClassVar[str] = VALUES
    target: str = "cpu"
    numerics: str = "f32"
    always: bool = False
    tf32: bool = False
    index_asserts: bool = False
    sm_count: int = H200.sm_count
    capability: int = H200.capability

    def run(self, module: ir.Module) -> None:
        check_target(self.name, self.target)
        if self.target == "cpu" or self.capability < SINCE:
            return
        with module.context:
            for graph in graph_functions(module):
                for call in joined_grouped(module, GraphWalk(graph).ops):
                    call.attributes[FUSED] = ir.UnitAttr.get()
            replace_extern_calls(module, self._expand)

    def _use(self, product: GroupedProduct, joined: bool) -> GroupedUse | str:
        """How a product becomes computes; or why it stays a call."""
        rows, inner, columns, _ = product.sizes
        if min(rows, inner, columns) < LEAST:
            return f"{rows}x{inner}x{columns} (rows, summed, columns) are too few for tensor cores"
        if self.always:
            return replace(whole_use(product), reason="all are asked for")
        if product.is_looped:
            return self._looped(product) or replace(whole_use(product), reason="a call is a loop on the host")
        if self.numerics == "eager":
            return "products and what reads them round as in eager"
        if self.capability < DESCRIBED:
            return f"sm_{self.capability} has no tensor descriptors"
        return use_of(product, joined=joined, sm_count=self.sm_count)

    def _sums(self, product: GroupedSums) -> str:
        """Why one whose sums are in groups stays a call; empty: it does not."""
        rows, inner, columns, _ = product.sizes
        if min(rows, columns) < LEAST or inner <= LONG:
            return f"{rows}x{inner}x{columns} (rows, summed, columns) are too few for tensor cores"
        if product.is_looped and not self.always:
            return self._looped(product)
        return "" if self.always else "its sums are in groups: a kernel would save nothing beside ATen's"

    def _looped(self, product: GroupedProduct | GroupedSums) -> str:
        """Why one that a call multiplies group by group stays that; empty: it does not."""
        width, in_sums = byte_width(product.element), isinstance(product, GroupedSums)
        return LoopedProduct(*product.sizes, in_sums=in_sums, width=width, tf32=self.tf32).refusal

    @property
    def _bodies(self) -> GroupedBodies:
        return GroupedBodies(self.numerics == "eager", self.index_asserts, self.tf32)

    def _expand(self, op: ir.Operation, function: ir.Operation) -> bool:
        product = grouped_product(op, function)
        if product is None:
            return False
        use: GroupedUse | GroupedSums | str
        if not isinstance(product, str) and not all(map(has_sides, (product.x, product.matrices))):
            product = "a matrix is expanded, of which tensor cores have no tile"
        if isinstance(product, GroupedProduct):
            use = self._use(product, FUSED in op.attributes)
        else:
            use = product if isinstance(product, str) else self._sums(product) or product
        if isinstance(use, str):
            if FUSED in op.attributes:
                del op.attributes[FUSED]
            add_remark(op, Remark(self.name, MISSED, "grouped product stays a call", use, place(op)))
            return False
        if isinstance(use, GroupedUse):
            self._replace(use)
            return True
        with ir.InsertionPoint(op), op.location:
            value = self._bodies.of_sums(use)
        self._rounded(value)
        told = "x".join(map(str, use.sizes)) + " (rows, summed in groups, columns, groups)"
        add_remark(value.owner.operation, Remark(self.name, PASSED, "expanded", told, place(op)))
        op.results[0].replace_all_uses_with(value)
        op.erase()
        return True

    def _rounded(self, made: ir.Value) -> None:
        """Has sums of products of f32 in the compute of `made` round their factors, where that is allowed."""
        for op in ops_in(made.owner.operation) if self.tf32 and isinstance(made.type.element_type, ir.F32Type) else ():
            if op.name == "bascule.reduce" and isinstance(op.results[0].type, ir.F32Type):
                op.attributes[INPUT_PRECISION] = ir.StringAttr.get(TF32)

    def _replace(self, use: GroupedUse) -> None:
        """Puts computes in the place of a call, and lays beside each other at once what its kernel has pieces of."""
        product, whole, bodies = use.product, use.whole, self._bodies
        op, result = product.op, product.result
        _store(product.x)
        with ir.InsertionPoint(op), op.location:
            made = [bodies.of_rows(product, columns) for columns in use.columns]
            for value in made:
                self._rounded(value)
            if whole:
                result.replace_all_uses_with(laid(result.type, made))
        instead = dict(zip([columns.value for columns in use.columns], made))
        told = "x".join(map(str, product.sizes)) + " (rows, summed, columns, groups)"
        for columns, value in zip(use.columns, made):
            add_remark(value.owner.operation, Remark(self.name, PASSED, "expanded", f"{told}: {use.reason}", place(op)))
            columns.value.replace_all_uses_with(value)
        for columns in use.columns:
            if columns.value.owner.operation != op:
                columns.value.owner.erase()
        op.erase()
        for pieces in use.tail.pieces:
            cat, sources = pieces.op, [instead.get(source, source) for source in pieces.sources]
            with ir.InsertionPoint(cat), cat.location:
                cat.results[0].replace_all_uses_with(laid(cat.results[0].type, sources))
            cat.erase()


def _store(x: ir.Value) -> None:
    """Has the rows of a product read from memory where they are for others: tensor descriptors load what is stored, and not what is computed."""
    source, *_ = seen(x)
    made = None if isinstance(source.owner, ir.Block) else source.owner.operation
    if made is not None and made.name == "bascule.compute" and len(list(source.uses)) > 1:
        made.attributes[STORED] = ir.UnitAttr.get()
