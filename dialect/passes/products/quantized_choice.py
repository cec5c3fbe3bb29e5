"""The choice for a product whose operands have few bits, by what is known of an NVIDIA GPU: a call, or one of two kinds of kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.bodies.body_summary import Body
from ...analysis.bodies.costs import tensor_bytes
from ...analysis.memory.buffers import root_of
from ...analysis.memory.matmul_operands import has_sides, runs_along
from ...analysis.memory.narrow_sources import NarrowSource, narrow_source, users_of
from ...analysis.memory.scaled_products import ScaledProduct
from ...analysis.products.contractions import FLOAT8, NARROW, WHOLE, are_multiplied
from ...ir.attribute_names import INLINED
from ...ir.functions import STORED
from ...ir.types import byte_width
from ...mlir import ir
from ...scheduling.gpu import product_costs
from ...scheduling.gpu.contractions import FEW_ROWS, FLOAT8_SINCE, LEAST

FEW = 2  # rows of a product of 16 bits up to which `expand-products` makes sums of rows of it, which read few bits too
# Where operands are widened; a call takes those that are widened once.
FORMS = INSIDE, ONCE, CALL = ("inside", "once", "call")
KERNEL = "in a kernel"  # of operands that are multiplied as they are
SINCE = 90  # the compute capability from which on contractions are about as fast as calls


@dataclass(frozen=True)
class Choice:
    """`refusal`: why the product stays a call; empty: it is expanded, for `reason`. `inside`: operands, 0 and 1, that are computed in the
    product, by computes that `marks` say so of; others are marked as computed once. `period`: neighbours that a point sums."""

    refusal: str = ""
    reason: str = ""
    inside: Sequence[int] = ()
    marks: Sequence[tuple[ir.Operation, str]] = ()
    period: int = 1


def chosen(product: ScaledProduct, form: str, capability: int, sm_count: int) -> Choice | None:
    """The choice for `product`; None where it is no product of few bits, or another pass has it. `form`: one of `FORMS`, where there is such
    a kernel; empty: the fastest."""
    sources = [narrow_source(value, product.op) for value in (product.x, product.y)]
    elements = [value.type.element_type for value in (product.x, product.y)]
    bytes_only = all(byte_width(element) == 1 for element in elements)
    if not are_multiplied(*elements) or not (bytes_only or isinstance(elements[0], NARROW)):
        return None
    if not bytes_only and (product.result.type.element_type != elements[0] or not any(sources)):
        return None
    sizes = [size for size in product.sizes if size is not None]
    if 0 in sizes:
        return None
    if not has_sides(product.x) or not has_sides(product.y):
        return Choice("a matrix is expanded, of which tensor cores have no tile")
    if len(sizes) < len(product.sizes):
        return Choice("its sizes are not known")
    case = _Case(product, sizes, sm_count)
    if not bytes_only:
        few = min(case.rows, case.columns) <= FEW
        return _taken_apart(case, sources, form) if few else _widened(case, sources, form, capability)
    least = FLOAT8_SINCE if isinstance(elements[0], FLOAT8) else 80
    if capability < least:
        return Choice(f"it runs on sm_{capability}, which has no such numbers")
    return _of_8_bits(case, form, capability)


class _Case:
    """A product of sizes that are known. `read`, `result`: bytes; `last`: the result of what alone reads the product's, if that is pointwise."""

    def __init__(self, product: ScaledProduct, sizes: Sequence[int], sm_count: int):
        self.product, self.sm_count = product, sm_count
        self.batch, self.rows, self.summed, self.columns = sizes
        width = byte_width(product.x.type.element_type)
        apart = 0 < product.partial < WHOLE
        self.cost = product_costs.Product(self.batch, self.rows, self.summed, self.columns, width, 2 if apart else 1)
        self.read = tensor_bytes(product.x) + tensor_bytes(product.y)
        self.result = tensor_bytes(product.result)
        self.last = _last(product.result)

    def called(self) -> float:
        """Seconds of a call, and of the kernel after it."""
        after = 0.0 if self.last is None else product_costs.kernel(self.result + tensor_bytes(self.last))
        return self.cost.called(self.read + self.result) + after

    def fused(self, saved: int = 0, ops: int = 0, of_columns: bool = True) -> float:
        """Seconds of a kernel that reads so many bytes less, and computes elements of an operand by `ops`."""
        stored = self.result if self.last is None else tensor_bytes(self.last)
        return self.cost.fused(self.read - saved + stored, self.sm_count, ops, of_columns)


def _of_8_bits(case: _Case, form: str, capability: int) -> Choice:
    """Of one row, sums of rows of the matrix, as fast as it is read; of more, for tensor cores."""
    product, rank = case.product, case.product.result.type.rank
    if not runs_along(product.x, rank - 1) or not runs_along(product.y, rank - 2):
        return Choice("memory does not run along what is summed in both operands")
    if min(case.rows, case.columns) == 1 and form != CALL:
        return Choice(reason="of one row, which is as fast as the matrix is read")
    if case.summed < LEAST:
        return Choice(f"it sums {case.summed} elements, less than {LEAST}")
    if capability < SINCE and not form:
        return Choice(f"it runs on sm_{capability}, where a kernel is no faster than a call")
    choice = Choice(marks=[mark for value in (product.x, product.y) for mark in _stored(value)])
    return _faster(KERNEL if form in (INSIDE, ONCE) else form, case.called(), {KERNEL: (case.fused(), choice)})


def _stored(operand: ir.Value) -> list[tuple[ir.Operation, str]]:
    """The mark that an operand is read from memory: what tensor cores multiply would be another type where it is computed."""
    made = root_of(operand).owner
    is_compute = not isinstance(made, ir.Block) and made.name == "bascule.compute" and Body(made.operation).is_pointwise
    return [(made.operation, STORED)] if is_compute else []


def _taken_apart(case: _Case, sources: Sequence[NarrowSource | None], form: str) -> Choice | None:
    """One row of elements several of which are in one of memory: a point sums the products of them all. None of other rows."""
    if form == CALL:
        return None
    for source, side in zip(sources, (case.columns, case.rows)):
        if source is not None and side == 1 and source.period > 1 and case.summed % source.period == 0:
            told = f"of one row, {source.period} elements of what is read at a time"
            return Choice(reason=told, marks=[(each, INLINED) for each in source.computes], period=source.period)
    return None


def _widened(case: _Case, sources: Sequence[NarrowSource | None], form: str, capability: int) -> Choice:
    """Computed inside of the product, or once before that; of two such operands the one that saves more bytes inside."""
    operands = (case.product.x, case.product.y)
    saved = [0 if source is None else tensor_bytes(value) - source.bytes for value, source in zip(operands, sources)]
    number = max((0, 1), key=lambda n: saved[n])
    source = sources[number]
    assert source is not None
    if capability < SINCE:
        return Choice(f"it runs on sm_{capability}, where a kernel is no faster than a call")
    if case.summed < LEAST:
        return Choice(f"it sums {case.summed} elements, less than {LEAST}")
    once = product_costs.kernel(source.bytes + tensor_bytes(operands[number]))
    other = _stored(operands[1 - number])
    inside = Choice(inside=(number,), marks=[*other, *((compute, INLINED) for compute in source.computes)])
    kernels = {INSIDE: (case.fused(saved[number], source.ops, number == 1), inside)} if source.is_plain else {}
    if min(case.rows, case.columns) >= FEW_ROWS:
        kernels[ONCE] = (once + case.fused(), Choice(marks=[*other, *_stored(operands[number])]))
    return _faster(form, once + case.called(), kernels) if kernels else Choice("its operand is chosen by conditions")


def _faster(form: str, called: float, kernels: dict[str, tuple[float, Choice]]) -> Choice:
    """The kernel of that form, or the fastest (seconds, choice), unless a call is."""
    name = form if form in kernels else min(kernels, key=lambda each: kernels[each][0])
    least, choice = kernels[name]
    told = ", ".join(f"{each} {product_costs.microseconds(time)}" for each, (time, _) in kernels.items())
    if form == CALL or (least > called and form != name):
        return Choice(f"it takes about {product_costs.microseconds(called)}, {told}")
    return Choice("", f"{name}, of {told}, a call {product_costs.microseconds(called)}", choice.inside, choice.marks)


def _last(value: ir.Value) -> ir.Value | None:
    """The result of the pointwise compute that alone reads `value`; None where something else does."""
    readers = {*users_of(value)}
    if len(readers) != 1:
        return None
    (reader,) = readers
    return reader.results[0] if reader.name == "bascule.compute" and Body(reader).is_pointwise else None
