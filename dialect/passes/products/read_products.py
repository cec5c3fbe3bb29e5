"""Products that pointwise computes alone read, as `gelu(x @ w)`: kernels that store what these give, where a model of both takes less time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.costs import tensor_bytes
from ...analysis.memory.buffers import memref_type, root_of, strides
from ...analysis.memory.matmul_operands import Product, runs_along
from ...fusion.joined_products import ALIGNED, TILE, pointwise_chain, products_among, takes_once
from ...ir.attribute_names import FUSED, TUNED_PRODUCT
from ...ir.shapes import constant
from ...mlir import ir
from ...scheduling.gpu.product_costs import ReadCosts, microseconds


@dataclass(frozen=True)
class ReadProduct:
    """A product of static sizes, the computes that read it, and by the model seconds of its kernel with these and of the call with theirs."""

    product: Product
    computes: Sequence[ir.Operation]
    fused: float
    called: float

    @property
    def is_kernel(self) -> bool:
        return self.fused < self.called

    def __str__(self) -> str:
        sizes = "x".join(str(constant(size)) for size in self.product.sizes)
        fused, called = microseconds(self.fused), microseconds(self.called)
        return f"{sizes} (rows, summed, columns): about {fused} with what reads it, {called} as a call and a kernel behind it"


def read_products(module: ir.Module, ops: Sequence[ir.Operation], sm_count: int) -> Iterator[ReadProduct]:
    """Those among `ops`, of a graph's block, that nothing is known of: neither measured nor one of an attention."""
    for product in products_among(module, ops):
        if FUSED in product.op.attributes or TUNED_PRODUCT in product.op.attributes:
            continue
        computes = pointwise_chain(product.result, takes_once) if _is_loaded_whole(product) else []
        if computes:
            costs = _costs(product, computes)
            if costs.rows * costs.columns * costs.batch >= TILE * sm_count:
                yield ReadProduct(product, computes, costs.fused(sm_count), costs.called(sm_count))


def _is_loaded_whole(product: Product) -> bool:
    """Whether it is of 16 bits, and descriptors can load its factors: memory runs along one dim of each, in rows of whole lines."""
    element, rank = product.x.type.element_type, product.result.type.rank
    types = {value.type.element_type for value in (product.x, product.y, product.result)}
    if types != {element} or not isinstance(element, ir.BF16Type | ir.F16Type) or not product.has_sides:
        return False
    if any(size is None or size <= 0 for size in [*map(constant, product.sizes), *product.result.type.shape]):
        return False
    return all(any(_has_aligned_rows(value, dim) for dim in (rank - 2, rank - 1)) for value in (product.x, product.y))


def _has_aligned_rows(value: ir.Value, along: int) -> bool:
    steps = [constant(step) for step in strides(memref_type(value.type))]
    others = [step for dim, step in enumerate(steps) if dim != along]
    return runs_along(value, along) and all(step is not None and step % ALIGNED == 0 for step in others)


def _costs(product: Product, computes: Sequence[ir.Operation]) -> ReadCosts:
    rows, summed, columns = (constant(size) or 0 for size in product.sizes)
    batch = product.result.type.shape[0] if product.result.type.rank == 3 else 1
    bodies = [Body(compute) for compute in computes]
    own = {product.result, *(body.result for body in bodies)}
    others = {root_of(read.buffer) for body in bodies for read in body.reads} - own
    moved = sum(map(tensor_bytes, others)) + tensor_bytes(bodies[-1].result)
    return ReadCosts(
        batch, rows, summed, columns, tensor_bytes(product.result), moved, sum(body.cost for body in bodies)
    )
