"""Which grouped products are kernels with what reads them, and which stay calls: by who reads them, and by what that saves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...analysis.memory.buffers import ALIASES
from ...analysis.products.grouped_products import GroupedProduct, grouped_product
from ...fusion.joined_products import TILE, readers_of, seen
from ...ir.functions import functions, is_extern
from ...ir.regions import op_in
from ...ir.shapes import constant, shape_of
from ...ir.types import byte_width
from ...mlir import ir
from ...scheduling.gpu.contractions import LEAST
from ...scheduling.gpu.product_costs import GroupedCosts
from .pointwise_tails import Tail, tail_of

ALIGNED = 16  # bytes that rows are multiples of, so that tensor descriptors load them
ROWS = (
    256  # of a group on average: of two tiles, so that less than a fifth of what is multiplied is beyond a group's end
)


@dataclass(frozen=True)
class Columns:
    """Of a product's columns `count` from `first` on, which are `value`: the result, or a view of it."""

    value: ir.Value
    first: int
    count: int


@dataclass(frozen=True)
class GroupedUse:
    """A grouped product that is a kernel, as computes of these columns each, with what stands in its kernel; and why."""

    product: GroupedProduct
    columns: Sequence[Columns]
    tail: Tail
    reason: str

    @property
    def whole(self) -> bool:
        """Whether the product is in memory as a whole, though it is several computes."""
        halves = [columns.value.owner.operation for columns in self.columns]
        users = [use.owner.operation for use in self.product.result.uses]
        return len(halves) > 1 and any(user not in halves for user in users)


def joined_grouped(module: ir.Module, ops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The calls among `ops`, those of a graph's block, of grouped products of one matrix, offsets and sizes, two by two, of both of which a
    pointwise compute is made, and no compute reads them otherwise."""
    externs = {f.attributes["sym_name"].value: f for f in functions(module) if is_extern(f)}
    calls = [op for op in ops if op.name == "func.call" and op.attributes["callee"].value in externs]
    alike: dict[tuple, list[GroupedProduct]] = {}
    for call in calls:
        product = grouped_product(call, externs[call.attributes["callee"].value])
        if isinstance(product, GroupedProduct):
            key = seen(product.x), seen(product.offsets), product.sizes, str(product.result.type.element_type)
            alike.setdefault(key, []).append(product)
    found = list[ir.Operation]()
    for group in alike.values():
        if len(group) == 2 and _meet([product.result for product in group]):
            found += [product.op for product in group]
    return found


def use_of(product: GroupedProduct, *, joined: bool, sm_count: int) -> GroupedUse | str:
    """How a grouped product is a kernel on a GPU of `sm_count` multiprocessors with tensor descriptors; or why it stays a call."""
    rows, inner, columns, groups = product.sizes
    width = byte_width(product.element)
    if width * inner % ALIGNED or width * columns % ALIGNED:
        return f"its rows of {inner} and {columns} elements are no multiples of {ALIGNED} bytes"
    if rows < ROWS * groups:
        return f"its groups have {rows // groups} rows on average, fewer than {ROWS}"
    use = whole_use(product)
    if rows * columns < (TILE if joined else 2 * TILE) * sm_count:
        return f"its {rows}x{columns} elements have no tile for each of {sm_count} multiprocessors"
    if not use.tail.computes:
        return "no pointwise computes read it, or others do too"
    written = product.result in use.tail.stored or use.whole
    joins = joined and not written
    halved = len(use.columns)
    # Of results that meet in one kernel each is written and read; one that is in memory for something else is read.
    moved = (1 if written else 2) * width * rows * columns
    costs = GroupedCosts(1, rows, inner, columns, groups, moved)
    kernel = GroupedCosts(2 if joins else halved, rows, inner, columns if joins else columns // halved, groups, 0)
    called, fused = costs.called() * (2 if joins else 1), kernel.fused(sm_count)
    told = f"it takes about {_microseconds(fused)} in a kernel, {_microseconds(called)} as a call and one behind it"
    if joins:
        told = f"the two that meet take about {_microseconds(fused)} in a kernel, {_microseconds(called)} as calls and one behind them"
    return replace(use, reason=told) if fused < called else told


def _microseconds(time: float) -> str:
    return f"{1e6 * time:.0f} us"


def whole_use(product: GroupedProduct) -> GroupedUse:
    """The product as two computes, of halves of its columns, where one pointwise compute is made of both, else as one."""
    halves = halves_of(product)
    tail = tail_of([columns.value for columns in halves]) if halves else None
    if tail is not None and tail.computes and not any(half.value in tail.stored for half in halves):
        return GroupedUse(product, halves, tail, "")
    return GroupedUse(product, [Columns(product.result, 0, product.sizes[2])], tail_of([product.result]) or Tail(), "")


def halves_of(product: GroupedProduct) -> list[Columns]:
    """The two views that are the halves of a product's columns, where no compute reads it otherwise, and pointwise ones read both."""
    rows, _, columns, _ = product.sizes
    users = [use.owner.operation for use in product.result.uses]
    found = sorted(filter(None, map(_slice, users)), key=lambda each: each.first)
    places = [(each.first, each.count) for each in found]
    if (
        byte_width(product.element) * columns % (2 * ALIGNED)
        or columns < 2 * LEAST
        or places != [(first, columns // 2) for first in (0, columns // 2)]
    ):
        return []
    others = [user for user in users if user not in [each.value.owner.operation for each in found]]
    read = any(user.name == "bascule.compute" for other in others for user in _at_last(product, other))
    whole = all(constant(shape_of(each.value)[0]) == rows for each in found)
    return found if whole and not read and _meet([each.value for each in found]) else []


def _at_last(product: GroupedProduct, user: ir.Operation) -> list[ir.Operation]:
    """The readers of a product by way of `user`: the op at the top level around it, or those of it where it is a view."""
    if user.name in ALIASES:
        return list(readers_of(user.results[0]))
    return [op_in(product.op.block, user)]


def _meet(values: Sequence[ir.Value]) -> bool:
    """Whether a pointwise compute is made of both."""
    tails = [tail_of([value]) for value in values]
    first, second = (tail.computes if tail is not None else [] for tail in tails)
    return any(compute in second for compute in first)


def _slice(op: ir.Operation) -> Columns | None:
    """The columns that a view of a matrix has, of all rows; None for another op or view."""
    if op.name != "bascule.view":
        return None
    (result,), (row, *places) = op.results, op.attributes["map"].value.results
    if len(places) != 1 or result.type.rank != 2 or row != ir.AffineExpr.get_dim(0):
        return None
    first, count = constant(places[0] - ir.AffineExpr.get_dim(1)), constant(shape_of(result)[1])
    return None if first is None or count is None else Columns(result, first, count)
